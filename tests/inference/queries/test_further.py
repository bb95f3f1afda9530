"""Contrasts, expectations, information, explanations, rows and conditional samples, each against enumeration."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

import dpgraph as dg
from dpgraph.inference.queries import buckets, contraction, rows
from tests.files.test_pgmpy import NETWORK, learned
from tests.inference.queries.test_asking import enumerated, richer_questions
from tests.strategies import joint
from tests.tiers import examples

DRAWS = [learned(seed=seed) for seed in range(9)]


def each(targets, given_=None, do=None, draws=DRAWS):
    """P(targets | given, do) of every draw, by enumeration."""
    found = [enumerated(draw, targets, given_, do) for draw in draws]
    return np.array([table / total for table, total in found])


@pytest.mark.parametrize("by", ["given", "do"])
def test_a_contrast_pairs_the_draws(by):
    one, other, shared = {"a": 0}, {"a": 1}, {"c": 2.5}
    kinds = [(shared | one, None), (shared | other, None)] if by == "given" else [(shared, one), (shared, other)]
    above, below = (each(("b",), *kind) for kind in kinds)
    answer = dg.questions.contrast(DRAWS, "b", one, other, by=by, given=shared)
    odds = (above / (1 - above)) / (below / (1 - below))
    np.testing.assert_allclose(answer.draws, np.hstack([above - below, above / below, odds]), rtol=1e-9)
    frame = answer.to_frame()
    assert list(frame.columns) == ["measure", "b", "mean", "sd", "low", "high"]
    assert frame["measure"].tolist() == [m for m in ("difference", "ratio", "odds ratio") for _ in range(3)]
    event = dg.questions.contrast(DRAWS, {"b": ["x", "y"]}, one, other, by=by, given=shared)
    held = above[:, :2].sum(axis=1) - below[:, :2].sum(axis=1)
    np.testing.assert_allclose(event.draws[:, 0], held, rtol=1e-9)
    assert event.labels == (("difference",), ("ratio",), ("odds ratio",))


def test_a_contrast_of_sampled_answers_says_how_they_were_found():
    answer = dg.questions.contrast(DRAWS, {"b": "x"}, {"a": 0}, {"a": 1}, method="sampling")
    exact = dg.questions.contrast(DRAWS, {"b": "x"}, {"a": 0}, {"a": 1})
    assert answer.method == "sampling"
    assert answer.effective_size > 1000
    np.testing.assert_allclose(answer.draws[:, 0], exact.draws[:, 0], atol=0.02)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [({"by": "see"}, "by must be"), ({"given": {"a": 1}}, "'a' is both compared"), ({"do": {"a": 1}}, "'a' is both")],
)
def test_a_contrast_that_makes_no_sense_is_refused(settings_, message):
    with pytest.raises(dg.errors.InferenceError, match=message):
        dg.questions.contrast(DRAWS, "b", {"a": 0}, {"a": 1}, **settings_)


def test_expectation_and_quantiles_of_bins_by_a_fine_grid():
    network = dg.Network.of({"x": dg.Bins([0, 1, 4, 10], missing=True, whole=False), "y": [0, 1]}, {"x": ["y"]})
    draws = [learned(network, seed) for seed in range(5)]
    answer = dg.expectation(draws, "x", {"y": 1}, quantiles=[0.1, 0.5, 0.97])
    for row, table in zip(answer.draws, each(("x",), {"y": 1}, draws=draws), strict=True):
        present = table[:3] / table[:3].sum()
        cells = np.concatenate(
            [np.linspace(*ends, 20001)[:-1] + (ends[1] - ends[0]) / 40000 for ends in ((0, 1), (1, 4), (4, 10))]
        )
        weights = np.repeat(present / 20000, 20000)
        mean = (cells * weights).sum()
        assert row[0] == pytest.approx(mean, rel=1e-7)
        assert row[1] == pytest.approx(np.sqrt(((cells - mean) ** 2 * weights).sum()), rel=1e-6)
        for value, probability in zip(row[2:], (0.1, 0.5, 0.97), strict=True):
            assert weights[cells <= value].sum() == pytest.approx(probability, abs=1e-4)
    assert [label[0] for label in answer.labels] == ["mean", "sd", "quantile 0.1", "quantile 0.5", "quantile 0.97"]


def test_expectation_and_quantiles_of_whole_numbers_are_those_of_the_numbers_one_by_one():
    network = dg.Network.of({"x": dg.Bins([0, 1, 4, 10], missing=True)}, {})
    draws, chances = [learned(network, seed) for seed in range(5)], [0.1, 0.35, 0.5, 0.8, 0.97]
    answer = dg.expectation(draws, "x", quantiles=chances)
    for row, one in zip(answer.draws, draws, strict=True):
        weights = np.repeat(one.table("x")[:3] / [1, 3, 7], [1, 3, 7])
        weights /= weights.sum()
        mean = weights @ np.arange(11)
        np.testing.assert_allclose(row[:2], [mean, np.sqrt(weights @ np.arange(11) ** 2 - mean**2)])
        assert row[2:].tolist() == [int((weights.cumsum() < chance).sum()) for chance in chances]


def test_expectation_of_levels_that_are_numbers_and_of_values_that_are_given():
    network = dg.Network.of({"n": [5, 1, 3], "w": ["low", "mid", "high"], "f": [True, False]}, {})
    value = dg.Probabilities(network, {"n": [0.2, 0.5, 0.3], "w": [0.5, 0.25, 0.25], "f": [0.3, 0.7]})
    answer = dg.expectation(value, "n", quantiles=[0.5, 0.51, 0.81])
    np.testing.assert_allclose(answer.mean, [2.4, np.sqrt(0.2 * 25 + 0.5 + 0.3 * 9 - 2.4**2), 1, 3, 5])
    assert dg.expectation(value, "f").mean[0] == pytest.approx(0.3)
    assert dg.expectation(value, "w", values={"low": 1, "high": 10}).mean[0] == pytest.approx(4.0)
    for settings_, message in (
        ({}, "are not numbers"),
        ({"values": {}}, "at least one"),
        ({"values": {"low": "x"}}, "numbers"),
    ):
        with pytest.raises(dg.errors.InferenceError, match=message):
            dg.expectation(value, "w", **settings_)
    with pytest.raises(dg.errors.InferenceError, match="quantiles must be a probability"):
        dg.expectation(value, "n", quantiles=[1.0])
    with pytest.raises(dg.errors.InferenceError, match="one variable"):
        dg.expectation(value, ["n", "f"])


@pytest.mark.parametrize("given_", [None, {"c": [0, 2]}])
def test_entropy_and_mutual_information_by_enumeration(given_):
    table = each(("b", "a", "d"), given_)

    def entropy(p):
        return -(p * np.log(p)).reshape(len(p), -1).sum(axis=1)

    np.testing.assert_allclose(dg.questions.entropy(DRAWS, ["b", "a"], given_).draws[:, 0], entropy(table.sum(axis=3)))
    expected = entropy(table.sum(axis=(2, 3))) + entropy(table.sum(axis=1)) - entropy(table)
    answer = dg.questions.mutual_information(DRAWS, "b", ["a", "d"], given_)
    np.testing.assert_allclose(answer.draws[:, 0], expected, rtol=1e-9)
    assert repr(answer).startswith("I(b; a, d" + (" | c in 0/2" if given_ else "") + ") = ")
    with pytest.raises(dg.errors.DomainError, match="'b' is asked for twice"):
        dg.questions.mutual_information(DRAWS, "b", ["b", "d"])


@settings(deadline=None, max_examples=examples(60))
@given(richer_questions())
def test_the_most_probable_explanation_by_enumeration(case):
    value, _, given_, do = case
    names, domain = value.network.domain.names, value.network.domain
    table, total = enumerated(value, names, given_, do)
    found = dg.questions.most_probable(value, given_, do=do)
    assert found.probability == pytest.approx(table.max() / total, rel=1e-9)
    fixed = {name: level for name, level in given_.items() if not isinstance(level, list | dict)} | do
    chosen = {name: found.levels[name] if name in found.levels else given_.get(name, do.get(name)) for name in names}
    chosen = {name: next(iter(level)) if isinstance(level, list | dict) else level for name, level in chosen.items()}
    assert table[tuple(domain.code(name, chosen[name]) for name in names)] == pytest.approx(table.max(), rel=1e-9)
    assert not set(fixed) & set(found.levels)
    assert found.share == 1


def test_the_share_of_draws_that_agree(monkeypatch):
    monkeypatch.setattr(buckets, "BLOCK", 4)
    found = dg.questions.most_probable(DRAWS, {"c": 1})
    code, names = NETWORK.domain.code, [name for name in NETWORK.domain.names if name != "c"]
    tops = []
    for draw in DRAWS:
        table, _ = enumerated(draw, names, {"c": 1})
        tops.append(np.unravel_index(table.argmax(), table.shape))
    mine = [code(name, found.levels[name]) for name in names]
    agree = np.array(tops) == mine
    assert found.share == pytest.approx(agree.all(axis=1).mean())
    assert list(found.agreement.values()) == pytest.approx([agree[:, i].mean() for i in range(len(names))])
    assert 0 < found.share < 1
    assert found.to_frame()["level"].tolist() == [found.levels[name] for name in names]
    assert "% of draws agree" in repr(found)


def evidence_rows(count, seed=0):
    """Rows of a, c and d, with a third of the cells null."""
    drawn = dg.sample_rows(DRAWS[0], count, np.random.default_rng(seed)).astype(object)[["a", "c", "d"]]
    drawn[np.random.default_rng(seed + 1).random(drawn.shape) < 1 / 3] = None
    return drawn.set_index(pd.Index(range(100, 100 + count), name="who"))


@pytest.mark.parametrize("model", [DRAWS, DRAWS[0]], ids=["draws", "one"])
def test_rows_of_evidence_are_queries_one_by_one(model, monkeypatch):
    monkeypatch.setattr(rows, "MOST_NUMBERS", 60)
    monkeypatch.setattr(contraction, "QUICK_CELLS", 8)
    monkeypatch.setattr(contraction, "LEAST_BLOCK", 4)
    frame = evidence_rows(40)
    found = dg.query_rows(model, "b", frame, interval=0.8)
    assert found.index.equals(frame.index)
    for place in range(len(frame)):
        shown = {name: value for name, value in frame.iloc[place].items() if value is not None}
        answer = dg.query(model, "b", shown, interval=0.8)
        for statistic in ("mean", "sd", "low", "high", "predictive"):
            expected = getattr(answer, statistic)
            np.testing.assert_allclose(found[statistic].iloc[place], expected, rtol=1e-9, atol=1e-12)
    assert list(found["mean"].columns) == ["x", "y", "z"]
    both = dg.query_rows(model, ["b", "alone"], frame.head(3))
    np.testing.assert_allclose(both["mean"], found["mean"].head(3), rtol=1e-9)
    assert both["mean"].columns[0] == ("x", "only")


def test_rows_come_as_frames_of_any_kind_and_bins_as_numbers():
    frame = pd.DataFrame({"c": [0.5, 2.5, 99.0], "d": [True, False, True]})
    expected = dg.query_rows(DRAWS, "b", frame)
    for other in (
        pl.DataFrame({"c": [0.5, 2.5, 99.0], "d": [True, False, True]}),
        {"c": ["0-1", "2-3", 3.5], "d": frame["d"]},
    ):
        np.testing.assert_array_equal(dg.query_rows(DRAWS, "b", other), expected)
    declared = dg.Domain.of({"a": dg.Categories([0, 1], other=1), "b": [0, 1]})
    value = learned(dg.Network.of(declared, {"b": ["a"]}))
    np.testing.assert_array_equal(
        dg.query_rows(value, "b", {"a": [7]})["mean"], dg.query_rows(value, "b", {"a": [1]})["mean"]
    )


def test_rows_of_a_plug_in_posterior_have_the_predictive_of_its_mean():
    rng = np.random.default_rng(0)
    tables = {n: rng.gamma(2.0, size=NETWORK.shape(NETWORK.family(n))) for n in NETWORK.domain.names}
    plug_in = dg.results.DirichletPosterior(NETWORK, tables)
    frame = evidence_rows(5)
    found = dg.query_rows(plug_in, "b", frame)
    np.testing.assert_allclose(found["predictive"], dg.query_rows(plug_in.mean(), "b", frame)["mean"], rtol=1e-10)


@pytest.mark.parametrize(
    ("target", "frame", "error", "message"),
    [
        ("b", {}, "DomainError", "rows must be a data frame"),
        ("b", {"a": []}, "DomainError", "there are no rows"),
        ("b", {"a": [0], "c": [1, 2]}, "DomainError", "columns of one length"),
        ("b", {"zz": [0]}, "NetworkError", "a column that is not a variable"),
        ("b", {"a": ["secret"]}, "DomainError", "column 'a' has values outside its levels; declared: 0, 1"),
        ("b", {"b": ["x"]}, "DomainError", "both asked for and given"),
        ("b", 3, "DomainError", "rows must be a data frame"),
        ("b", "rows.csv", "DomainError", "rows must be a data frame"),
        ("z", {"a": [0]}, "NetworkError", "no variable 'z'"),
    ],
)
def test_rows_that_are_none_are_refused(target, frame, error, message):
    with pytest.raises(getattr(dg.errors, error), match=message) as caught:
        dg.query_rows(DRAWS, target, frame)
    assert "secret" not in str(caught.value)


def test_rows_of_impossible_evidence_are_refused():
    network = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
    value = dg.Probabilities(network, {"a": [1.0, 0.0], "b": [[0.5, 0.5], [0.5, 0.5]]})
    with pytest.raises(dg.errors.DomainError, match="some rows hold evidence of probability 0"):
        dg.query_rows(value, "b", {"a": [0, 1]})
    assert dg.questions.row_probabilities(value, {"a": [1]})["mean"].tolist() == [-np.inf]


def test_the_probability_of_rows_by_enumeration():
    frame = evidence_rows(20, seed=3)
    found = dg.questions.row_probabilities(DRAWS, frame)
    for place in range(len(frame)):
        shown = {name: value for name, value in frame.iloc[place].items() if value is not None}
        logs = np.log([enumerated(draw, ("b",), shown)[1] for draw in DRAWS])
        expected = [logs.mean(), logs.std(), *np.quantile(logs, [0.05, 0.95]), np.log(np.exp(logs).mean())]
        np.testing.assert_allclose(found.iloc[place], expected, rtol=1e-9, atol=1e-12)
    whole = dg.sample_rows(DRAWS[0], 5, np.random.default_rng(0), numbers="level")
    codes = {name: whole[name].cat.codes.to_numpy() for name in whole.columns}
    from dpgraph.inference.network.queries import log_likelihood

    alone = dg.questions.row_probabilities(DRAWS[0], whole)
    np.testing.assert_allclose(alone["mean"], log_likelihood(DRAWS[0], codes), rtol=1e-10)


@pytest.mark.parametrize(
    ("given_", "do"), [({"d": True}, None), ({"d": {True: 1, False: 3}, "b": ["x", "z"]}, {"a": 1})]
)
def test_conditional_samples_follow_the_predictive_law(given_, do, monkeypatch):
    """A chi-squared statistic of all cells at a level of 1e-6; rows of the prior alone are far beyond it."""
    from scipy.stats import chi2

    monkeypatch.setattr(buckets, "BLOCK", 4)
    n, names = 20_000, NETWORK.domain.names
    expected = sum(enumerated(draw, names, given_, do)[0] for draw in DRAWS)
    expected = expected / expected.sum()
    drawn = dg.questions.sample_given(DRAWS, n, np.random.default_rng(5), given_, do=do, numbers="level")
    counts = np.zeros(expected.shape)
    np.add.at(counts, tuple(drawn[name].cat.codes.to_numpy() for name in names), 1)
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    statistic = ((counts - n * expected)[possible] ** 2 / (n * expected[possible])).sum()
    assert statistic < chi2.isf(1e-6, possible.sum() - 1)
    prior = sum(joint(draw) for draw in DRAWS) / len(DRAWS)
    off = np.where(possible, (prior - expected) ** 2 / np.where(possible, expected, 1), 0).sum() * n
    assert off > 10 * chi2.isf(1e-6, possible.sum() - 1)
    assert dg.questions.sample_given(DRAWS, 0, np.random.default_rng(0)).shape == (0, len(names))


def test_elimination_that_would_be_too_wide_is_refused(monkeypatch):
    monkeypatch.setattr(contraction, "MOST_CELLS", 10)
    with pytest.raises(dg.errors.InferenceError, match=r"width \d.*Give more evidence, or ask dg.query"):
        dg.questions.most_probable(DRAWS)
    with pytest.raises(dg.errors.InferenceError, match=r"width \d"):
        dg.questions.sample_given(DRAWS, 3, np.random.default_rng(0), {"d": True, "c": [0, 1]})
    contraction._plan.cache_clear()  # plans of these limits


def test_every_pattern_of_a_small_network():
    """All 2^4 patterns of observed columns, in one frame."""
    frames = []
    for seen in itertools.product([True, False], repeat=4):
        row = dict(zip(("a", "c", "d", "alone"), (1, "1-2", False, "only"), strict=True))
        frames.append({name: value if kept else None for (name, value), kept in zip(row.items(), seen, strict=True)})
    found = dg.query_rows(DRAWS, "b", pd.DataFrame(frames, dtype=object))
    for place, row in enumerate(frames):
        expected = dg.query(DRAWS, "b", {name: value for name, value in row.items() if value is not None})
        np.testing.assert_allclose(found["high"].iloc[place], expected.high, rtol=1e-9)
