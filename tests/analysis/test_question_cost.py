"""The width of an answer's interval before any data, against the normal law of one coin and against its own goal."""

import math
from functools import partial

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.analysis import question_cost as cost_module
from dpgraph.analysis.question_cost import checked_question, question_cost, uniform

COIN = dg.Network.of({"rain": ["no", "yes"]}, {})
PAIR = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
PUBLIC = dg.Probabilities(COIN, {"rain": [0.7, 0.3]})
ASKED = {"target": {"rain": "yes"}}
BOTH_TAILS = 2 * 1.6449


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """The law of the noise is tested elsewhere, and so are chains; short ones are enough on such networks."""
    monkeypatch.setattr(cost_module, "CHAINS", dg.methods.Records(chains=2, burn_in=100, thin=2))
    monkeypatch.setattr(cost_module, "release", partial(dg.release, noise=dg.testing.SeededNoise(3)))


@pytest.mark.proof
def test_one_coin_has_the_width_of_sampling_and_noise_together():
    """Gaussian noise: the variance of the answer is p (1 - p) / n plus that of the noise over n^2, and 12 worlds of 400
    draws know a width to 2 %; noise left out would make it .4 of what it is, noise counted twice 1.4 times."""
    n, unit = 2000, dg.PrivacyUnit()
    found = question_cost(PUBLIC, ASKED, n=n, epsilon="0.1", delta="1e-6", mechanism="gaussian", worlds=12)
    (measured,) = dg.GaussianMechanism("0.1", "1e-6").event(COIN, unit).measurements
    # with a public total, half the difference of the two noisy counts is what is known of one of them
    noise = measured.law.variance(2) / (1 if measured.law.sums_to_zero else 2)
    sampling = 0.21 / n
    assert noise / n**2 > 3 * sampling
    assert found.width == pytest.approx(BOTH_TAILS * math.sqrt(sampling + noise / n**2), rel=0.06)
    assert found.without_noise == pytest.approx(BOTH_TAILS * math.sqrt(sampling), rel=0.06)
    assert found.widths["noise"][0] == pytest.approx(1 - sampling / (sampling + noise / n**2), abs=0.05)


@pytest.mark.proof
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_each_world_is_released_as_it_would_be(monkeypatch, neighbours):
    """By the mechanism of this epsilon, whole and exact, from as many rows, under the unit that was asked for."""
    seen = []

    def watched(counts, mechanism, *, budget):
        seen.append((mechanism, budget.unit, counts.sensitive_rows))
        return dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(len(seen)))

    monkeypatch.setattr(cost_module, "release", watched)
    unit = dg.PrivacyUnit(neighbours)
    question_cost(PUBLIC, ASKED, n=70, epsilon="0.3", delta="1e-6", mechanism="gaussian", unit=unit, worlds=3)
    assert seen == [(dg.GaussianMechanism("0.3", "1e-6"), unit, 70)] * 3


@pytest.mark.proof
def test_at_a_large_epsilon_nothing_is_left_but_the_number_of_rows():
    found = question_cost(PAIR, {"target": "wet", "given": {"rain": "yes"}}, n=400, epsilon=1000, worlds=8)
    assert found.widths["width"].to_numpy() == pytest.approx(found.widths["without noise"].to_numpy(), rel=0.1)
    assert repr(found).endswith("most of it is due to the number of rows")


@pytest.mark.proof
def test_the_epsilon_of_a_width_has_that_width():
    """Interpolated and checked by other worlds: within 15 %, of widths that change by half from epsilon to epsilon."""
    start = question_cost(PUBLIC, ASKED, n=1000, epsilon="0.05", worlds=6)
    needed = start.epsilon_for(0.08)
    assert 0.05 < needed < 10
    assert start.at(needed).width == pytest.approx(0.08, rel=0.15)
    assert start.epsilon_for(start.width * 0.99) < 0.1


@pytest.mark.proof
def test_a_curve_falls_with_epsilon_and_with_the_number_of_rows():
    """The widths of these pairs differ by a third and more, standard errors are below a tenth of them."""
    made = question_cost(PUBLIC, ASKED, n=300, epsilon="0.1", worlds=6).curve(["0.1", 1], [300, 3000])
    assert made[["epsilon", "n"]].to_numpy().tolist() == [[0.1, 300], [1, 300], [0.1, 3000], [1, 3000]]
    first, second, third, fourth = made["width"]
    assert first > second > fourth
    assert first > third > fourth
    assert made["without noise"][0] == pytest.approx(BOTH_TAILS * math.sqrt(0.21 / 300), rel=0.15)


def test_a_width_that_the_rows_do_not_allow_is_refused_with_the_rows_that_would():
    found = question_cost(PUBLIC, ASKED, n=1000, epsilon=1, worlds=2)
    with pytest.raises(dg.errors.ReleaseError, match=r"no epsilon is enough.*rows are needed"):
        found.epsilon_for(0.01)
    for width in (0, -1, math.nan, math.inf, True, "wide"):
        with pytest.raises(dg.errors.ReleaseError, match="width must be"):
            found.epsilon_for(width)


@pytest.mark.proof
def test_a_report_has_it_where_a_question_is_asked():
    report = dg.privacy_cost(PAIR, epsilon=1, n=500, question={"target": "wet", "given": {"rain": "yes"}}, worlds=2)
    assert report.question.question == "P(wet | rain=yes)"
    assert list(report.question.widths["wet"]) == ["no", "yes"]
    assert dg.privacy_cost(PAIR, epsilon=1).question is None
    with pytest.raises(dg.errors.ReleaseError, match="give n"):
        dg.privacy_cost(PAIR, epsilon=1, question={"target": "wet"})


def test_a_bare_dag_stands_for_uniform_probabilities():
    assert np.array_equal(uniform(PAIR).table("wet"), [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize("question", [None, "wet", {}, {"given": {"rain": "yes"}}, {"target": "wet", "epsilon": 1}])
def test_what_is_no_question_is_refused(question):
    with pytest.raises(dg.errors.ReleaseError, match="question"):
        checked_question(question)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"n": 0}, dg.errors.ReleaseError),
        ({"epsilon": 0}, dg.errors.ReleaseError),
        ({"worlds": 1}, dg.errors.ReleaseError),
        ({"mechanism": "magic"}, dg.errors.ReleaseError),
        ({"question": {"target": "snow"}}, dg.errors.NetworkError),
        ({"question": {"target": "wet", "given": {"wet": "yes"}}}, dg.errors.DomainError),
    ],
)
def test_bad_input_is_refused_before_anything_is_simulated(settings, error, monkeypatch):
    monkeypatch.setattr("dpgraph.analysis.question_cost.sample_codes", None)
    asked = {"question": {"target": "wet"}, "n": 10, "epsilon": 1} | settings
    with pytest.raises(error):
        question_cost(PAIR, asked.pop("question"), **asked)
