"""Tables over a network: margins against brute force, shapes, read-only arrays, and what is refused."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.network import Holding
from dpgraph.structure.tables import NoisyCoefficients, Tables, conditional_frame, margin
from tests.strategies import networks, probabilities

NETWORK = dg.Network.of({"a": [0, 1], "b": ["x", "y", "z"], "c": [False, True]}, {"b": ["a"], "c": ["b", "a"]})
LAW = DiscreteLaplace(2.0)


@given(st.permutations("abc"), st.permutations("abc"), st.integers(0, 3), st.integers(0, 2**32))
def test_a_margin_is_a_sum_over_the_rest(axes, wanted, size, seed):
    sizes = {"a": 2, "b": 3, "c": 4}
    table = np.random.default_rng(seed).integers(0, 9, [sizes[name] for name in axes])
    wanted = tuple(wanted[:size])
    expected = np.zeros([sizes[name] for name in wanted], int)
    for cell in np.ndindex(*table.shape):
        at = dict(zip(axes, cell, strict=True))
        expected[tuple(at[name] for name in wanted)] += table[cell]
    np.testing.assert_array_equal(margin(table, tuple(axes), wanted), expected)


def test_the_smallest_table_that_holds_them_is_chosen():
    tables = [("c", "b", "a"), ("b", "a"), ("a", "b")]
    assert Holding(NETWORK, tables).smallest(("a",)) == ("b", "a")
    assert Holding(NETWORK, tables).smallest(("c",)) == ("c", "b", "a")
    with pytest.raises(dg.errors.NetworkError, match="no table holds c, a together"):
        Holding(NETWORK, [("c", "b"), ("b", "a")]).smallest(("c", "a"))


def test_tables_give_margins_and_families():
    joint = np.stack([np.arange(6.0).reshape(3, 2), np.zeros((3, 2))])
    tables = Tables(NETWORK, {("c", "b", "a"): joint}, n=15.0)
    np.testing.assert_array_equal(tables.margin("a", "b"), joint[0].T)
    np.testing.assert_array_equal(tables.family("b"), joint[0])
    np.testing.assert_array_equal(tables.family("a"), [0 + 2 + 4, 1 + 3 + 5])


@pytest.mark.parametrize("table", [[1, 2, 3], [[1, 2]], 1, [], [[1], [2]]], ids=repr)
def test_a_table_of_another_shape_is_refused(table):
    for build in (
        lambda: Tables(NETWORK, {("a",): table}, 3),
        lambda: dg.results.NoisyCounts(NETWORK, {("a",): table}, {("a",): LAW}, 3),
    ):
        with pytest.raises(dg.errors.NetworkError, match=r"the table of a has shape \(.*\), not \(2,\)"):
            build()


def test_every_noisy_table_has_its_law():
    with pytest.raises(dg.errors.NetworkError, match="its noise law"):
        dg.results.NoisyCounts(NETWORK, {("a",): [1, 2]}, {}, 3)
    with pytest.raises(dg.errors.NetworkError, match="its noise law"):
        dg.results.NoisyCounts(NETWORK, {("a",): [1, 2]}, {("a",): LAW, ("b",): LAW}, 3)


def test_noisy_counts_are_a_value():
    noisy = dg.results.NoisyCounts(
        NETWORK, {("a",): [5, -2], ("b",): [0, 0, 1]}, {("b",): LAW, ("a",): SumZeroLaplace(1.0)}, 3
    )
    other = dg.results.NoisyCounts(
        NETWORK, {("a",): [5, -2], ("b",): [0, 0, 1]}, {("a",): SumZeroLaplace(1.0), ("b",): LAW}, 3
    )
    assert noisy == other == pickle.loads(pickle.dumps(noisy))
    assert noisy != dataclasses.replace(noisy, n=4, tables={("a",): [6, -2], ("b",): [0, 0, 1]})
    assert noisy != dataclasses.replace(noisy, tables={("a",): [4, -1], ("b",): [0, 0, 1]})
    assert noisy.tables["a",].dtype == np.int64
    assert noisy.variance(("b",)) == pytest.approx(LAW.variance(3))


@pytest.mark.parametrize("bad", [[True, False], [1.0, 2.0], [0.5, 2.5], ["1", "2"]], ids=str)
def test_counts_and_n_are_whole_numbers(bad):
    """numpy would read true as 1 and cut 2.5 to 2."""
    laws = {("a",): LAW}
    with pytest.raises(dg.errors.ReleaseError, match="table of a must be whole numbers"):
        dg.results.NoisyCounts(NETWORK, {("a",): np.array(bad)}, laws, 3)
    for n in (True, 3.0, -1, "3", 2**62, np.True_):
        with pytest.raises(dg.errors.ReleaseError, match="n must be a whole number"):
            dg.results.NoisyCounts(NETWORK, {("a",): [1, 2]}, laws, n)
    one = dg.Network.of({"a": [0, 1]}, {})
    with pytest.raises(dg.errors.ReleaseError, match="block of a must be whole numbers"):
        NoisyCoefficients(one, {("a",): np.array(bad[:1])}, laws, 3)


def test_noise_that_sums_to_zero_leaves_the_total_at_n():
    laws = {("a",): SumZeroLaplace(2.0)}
    assert dg.results.NoisyCounts(NETWORK, {("a",): [-4, 7]}, laws, 3).n == 3
    for n in (4, 0, None):
        with pytest.raises(dg.errors.ReleaseError, match="sums to zero, so its total is n"):
            dg.results.NoisyCounts(NETWORK, {("a",): [-4, 7]}, laws, n)


def test_clipping_cuts_to_the_possible_counts():
    tables = {("a",): [-5, 40], ("b",): [3, 12, -1]}
    public = dg.results.NoisyCounts(NETWORK, tables, dict.fromkeys(tables, LAW), 10).clipped()
    assert public.tables["a",].tolist() == [0, 10]
    assert public.tables["b",].tolist() == [3, 10, 0]
    assert public.n == 10
    private = dg.results.NoisyCounts(NETWORK, tables, dict.fromkeys(tables, LAW), None).clipped()
    assert private.tables["a",].tolist() == [0, 40]
    assert private.n == ((-5 + 40) + (3 + 12 - 1)) / 2


def test_arrays_are_read_only_copies():
    source = np.array([0.25, 0.75])
    learned = dg.Probabilities(dg.Network.of({"a": [0, 1]}, {}), {"a": source})
    source[0] = 9.0
    assert learned.table("a").tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="read-only"):
        learned.table("a")[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        learned.tables = {}


GOOD = {"a": [0.5, 0.5], "b": np.full((3, 2), 1 / 3), "c": np.full((2, 3, 2), 1 / 2)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": [0.5, 0.6]}, "the table of 'a' must be non-negative and sum to 1"),
        ({"a": [1.5, -0.5]}, "the table of 'a' must be non-negative and sum to 1"),
        ({"a": [np.nan, 1]}, "the table of 'a' must be non-negative and sum to 1"),
        ({"a": [np.inf, 0]}, "the table of 'a' must be non-negative and sum to 1"),
        ({"a": [0.2, 0.3, 0.5]}, r"the table of a has shape \(3,\), not \(2,\)"),
        ({"b": np.full((2, 3), 1 / 2)}, r"the table of b, a has shape \(2, 3\), not \(3, 2\)"),
        ({"z": [1.0]}, "no variable 'z'"),
    ],
    ids=repr,
)
def test_bad_probabilities_are_refused(change, message):
    assert dg.Probabilities(NETWORK, GOOD).table("a").tolist() == [0.5, 0.5]
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.Probabilities(NETWORK, GOOD | change)


def test_every_variable_needs_its_table():
    with pytest.raises(dg.errors.NetworkError, match="every variable needs"):
        dg.Probabilities(NETWORK, {name: GOOD[name] for name in "ab"})


def test_an_unknown_table_is_a_network_error():
    with pytest.raises(dg.errors.NetworkError, match="no variable 'z'"):
        dg.Probabilities(NETWORK, GOOD).table("z")


@given(networks().flatmap(probabilities))
def test_a_frame_reads_row_by_row_as_the_table_does(learned):
    network = learned.network
    for name in network.domain.names:
        frame, table = learned.to_frame(name), learned.table(name)
        parents = network.parents[name]
        assert list(frame.columns) == list(network.domain.levels(name))
        for row, configuration in enumerate(np.ndindex(*network.shape(parents))):
            assert frame.iloc[row].tolist() == [table[(i, *configuration)] for i in range(table.shape[0])]
            levels = tuple(network.domain.levels(p)[i] for p, i in zip(parents, configuration, strict=True))
            if len(parents) == 1:
                assert frame.index[row] == levels or frame.index[row] == (levels[0],)
            elif parents:
                assert frame.index[row] == levels


@given(networks().flatmap(probabilities))
def test_probabilities_are_a_value(learned):
    assert pickle.loads(pickle.dumps(learned)) == learned
    assert dg.Probabilities(learned.network, dict(reversed(list(learned.tables.items())))) == learned


def test_a_frame_without_parents_has_one_row():
    frame = conditional_frame(NETWORK, "a", np.array([0.5, 0.5]))
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (1, 2)
