"""Numbers of synthetic rows: in the bin that was drawn, whole where the bins are, and null at the nulls' level."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgraph as dg
from dpgraph.inference.network.queries import BLOCK
from tests.strategies import bins

#: Edges that are close, far, small, negative, or of many digits.
hard_edges = st.lists(
    st.floats(-1e15, 1e15) | st.floats(-1, 1) | st.integers(-(2**52), 2**52) | st.integers(-9, 9).map(lambda k: k / 3),
    min_size=2,
    max_size=5,
    unique=True,
).map(sorted)


def network_of(declared, **others):
    return dg.Network.of({"x": declared, **others}, {})


def even(network):
    return dg.Probabilities(network, {name: np.full(k, 1 / k) for name, k in network.domain.sizes.items()})


def levels_again(rows, network, tmp_path=None):
    if tmp_path is not None:
        rows.to_csv(tmp_path / "rows.csv", index=False)
        rows = tmp_path / "rows.csv"
    return dg.statistics.encode(rows, network.domain).columns["x"].tolist()


@pytest.mark.parametrize("numbers", ["uniform", "midpoint"])
@settings(deadline=None, max_examples=40)
@example(declared=dg.Bins([1, math.nextafter(1, 2), 2]))
@example(declared=dg.Bins([0.1, 0.3, 0.1 + 0.2]))
@example(declared=dg.Bins([-5e-324, 0, 5e-324, 1e-300, 2**52], whole=False))
@example(declared=dg.Bins([0, 1, 6.5], whole=True))
@example(declared=dg.Bins([0, 1, 2], missing=True, outside="missing"))
@given(declared=bins(max_levels=6) | hard_edges.map(dg.Bins) | hard_edges.map(lambda e: dg.Bins(e, True, "missing")))
def test_numbers_counted_again_are_of_the_levels_drawn(declared, numbers, tmp_path_factory):
    """As a frame and as a CSV file; the rows of a seed have the same levels whatever stands for them."""
    network = network_of(declared)
    rows, drawn = (dg.sample_rows(even(network), 40, 1, numbers=how) for how in (numbers, "level"))
    codes = drawn["x"].cat.codes.tolist()
    assert levels_again(rows, network) == codes
    assert levels_again(rows, network, tmp_path_factory.mktemp("rows")) == codes
    nulls = [declared.missing and code == declared.size - 1 for code in codes]
    assert rows["x"].isna().tolist() == nulls
    if declared.whole and numbers == "uniform":
        assert rows["x"].dtype == ("Int64" if declared.missing else "int64")
    if numbers == "midpoint":
        assert rows["x"].dropna().tolist() == [declared.middles[code] for code in codes if code < len(declared.middles)]


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (dg.Bins([17, 20, 22.0]), [17, 18, 19, 20, 21, 22]),
        (dg.Bins([0, 0.5]), [k / 1000 for k in range(501)]),
        (dg.Bins([0, 5], whole=False), [k / 100 for k in range(501)]),
        (dg.Bins([-0.25, 0.375]), [k / 1000 for k in range(-250, 376)]),
    ],
    ids=["whole", "halves", "reals", "negative"],
)
def test_each_number_of_a_bin_is_as_likely(declared, values):
    """Chi-square at 1e-6 of 60 rows a number; without the last of six numbers the statistic is infinite."""
    n = 60 * len(values)
    drawn = dg.sample_rows(even(network_of(declared)), n, 3)["x"]
    weights = np.array([1 / sum(declared.code(v) == declared.code(value) for v in values) for value in values])
    counts = drawn.value_counts().reindex(values, fill_value=0)
    assert counts.sum() == n
    assert stats.chisquare(counts, n * weights / weights.sum()).pvalue > 1e-6
    by_bin = drawn.groupby([declared.code(value) for value in drawn]).mean()
    wide = np.diff(declared.edges)
    np.testing.assert_allclose(by_bin, declared.middles, atol=float(6 * wide.max() / math.sqrt(n)))


def test_rows_in_parts_are_those_of_one_draw():
    """Parts of whole blocks take numbers from the generator in the same order."""
    value = even(network_of(dg.Bins([0, 5, 7.5], missing=True), age=dg.Bins([0, 18, 99]), sex=["f", "m"]))
    rng = np.random.default_rng(2)
    parts = [dg.sample_rows(value, n, rng) for n in (BLOCK, BLOCK, 5)]
    whole = dg.sample_rows(value, 2 * BLOCK + 5, 2)
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole)


@pytest.mark.parametrize("numbers", ["mean", None, 3, ["level"]], ids=repr)
def test_another_choice_is_refused(numbers):
    value = even(network_of(dg.Bins([0, 1])))
    for call in (dg.sample_rows, dg.questions.sample_given):
        with pytest.raises(dg.errors.InferenceError, match="numbers must be one of 'uniform', 'midpoint', 'level'"):
            call(value, 1, 0, numbers=numbers)


def test_rows_given_evidence_have_numbers_of_the_bin_that_is_given():
    value = even(network_of(dg.Bins([0, 3, 9], missing=True), sex=["f", "m"]))
    rows = dg.questions.sample_given(value, 200, 0, {"x": "3-9"})
    assert (rows["x"].dtype, set(rows["x"])) == ("Int64", set(range(3, 10)))
    assert dg.questions.sample_given(value, 20, 0, {"x": "missing"})["x"].isna().all()
    assert set(dg.questions.sample_given(value, 20, 0, {"x": "3-9"}, numbers="level")["x"]) == {"3-9"}
