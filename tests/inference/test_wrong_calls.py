"""A call on the wrong value is refused in the words of that call, with what to give instead."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg

NETWORK = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
TABLES = dg.Probabilities(NETWORK, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]})
ROWS = dg.sample_rows(TABLES, 200, 0)
RELEASE = dg.release(
    dg.count(ROWS, NETWORK), dg.LaplaceMechanism(5), budget=dg.Budget(5), noise=dg.testing.SeededNoise(0)
)
LEARNED = dg.posterior(RELEASE, method="plug-in")
DRAWS = dg.posterior(RELEASE, method="normal", draws=10)
CALLS = {
    "sample_rows": (lambda value: dg.sample_rows(value, 5, 0), dg.errors.InferenceError),
    "to_pgmpy": (dg.to_pgmpy, dg.errors.FileError),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (DRAWS, r"got PosteriorDraws: give the mean of the draws, {call}\(posterior\.mean\(\)\)"),
        (LEARNED, r"got DirichletPosterior: give the mean of the draws, {call}\(posterior\.mean\(\)\)"),
        (RELEASE, r"got NoisyCounts: .*{call}\(dg\.posterior\(release\)\.mean\(\)\)"),
        (NETWORK, "got Network: a network alone has no tables"),
        ([TABLES], "got list: give one of these draws"),
        (dg.results.NaiveBayes("rain", TABLES), r"got NaiveBayes: give {call}\(model\.probabilities\)"),
        (ROWS, r"got DataFrame: dg\.load reads them"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_holds_no_probabilities_is_refused_saying_how_to_get_them(call, value, words):
    function, error = CALLS[call]
    with pytest.raises(error, match=rf"{call} takes Probabilities; " + words.format(call=call)):
        function(value)


def test_the_advice_works():
    for learned in (DRAWS, LEARNED, dg.posterior(RELEASE, method="plug-in")):
        assert dg.sample_rows(learned.mean(), 5, 0).shape == (5, 2)
        assert set(dg.to_pgmpy(learned.mean()).nodes) == {"rain", "wet"}


def test_a_seed_is_the_generator_that_numpy_makes_of_it():
    generator = np.random.default_rng
    pd.testing.assert_frame_equal(dg.sample_rows(TABLES, 50, 7), dg.sample_rows(TABLES, 50, generator(7)))
    given = dg.questions.sample_given
    pd.testing.assert_frame_equal(given(TABLES, 50, np.int64(7)), given(TABLES, 50, generator(7)))
    for draws in (DRAWS, LEARNED):
        assert draws.sample(7, 3) == draws.sample(generator(7), 3)
    assert not dg.sample_rows(TABLES, 50, 7).equals(dg.sample_rows(TABLES, 50, 8))


@pytest.mark.parametrize("rng", [None, "7", -1, 1.5, True, np.random.RandomState(0)], ids=str)
def test_what_is_neither_a_generator_nor_a_seed_is_refused(rng):
    calls = [lambda: dg.sample_rows(TABLES, 5, rng), lambda: dg.questions.sample_given(TABLES, 5, rng)]
    for call in [*calls, lambda: DRAWS.sample(rng), lambda: LEARNED.sample(rng)]:
        with pytest.raises(dg.errors.InferenceError, match=r"rng must be a numpy Generator.*or a seed"):
            call()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (RELEASE, r"got NoisyCounts: of a release make a posterior first, posterior\(release\)"),
        (NETWORK, "got Network: a network alone has no tables"),
        (ROWS, r"got DataFrame: dg\.load reads them"),
    ],
    ids=["release", "network", "rows"],
)
def test_a_question_to_what_knows_no_answer_says_what_to_ask(value, words):
    with pytest.raises(dg.errors.InferenceError, match=words):
        dg.query(value, "rain")
    with pytest.raises(dg.errors.InferenceError, match=words):
        dg.query_rows(value, "rain", {"wet": ["yes"]})


def test_a_list_of_unknown_variables_names_those_there_are():
    with pytest.raises(dg.errors.NetworkError, match="no variable 'a' in the domain; it has rain, wet"):
        dg.query(TABLES, ["a", "b"])


def test_rows_and_network_in_the_wrong_order_are_refused():
    with pytest.raises(dg.errors.NetworkError, match="count takes rows, then the Network to count; got DataFrame"):
        dg.count(NETWORK, ROWS)
    with pytest.raises(dg.errors.NetworkError, match=r"privacy_cost takes a Network.*reads no rows; got DataFrame"):
        dg.privacy_cost(ROWS, epsilon=1)
