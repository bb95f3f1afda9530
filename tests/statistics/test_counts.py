"""Family counts: the same from every engine, equal to brute force and to pgmpy, and a commutative monoid."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics.counts import Counts
from tests.statistics.engines.rows import ENGINES, IN_MEMORY, codes
from tests.strategies import contingency, frames, networks, networks_with_frames
from tests.tiers import examples

DOMAIN = dg.Domain.of(
    {
        "text": dg.Categories(["red", "green", "blue"], other="blue", missing="green"),
        "whole": dg.Categories([0, 1, 7], other=0, missing=7),
        "real": dg.Categories([0.5, 2, -1.25]),
        "flag": dg.Categories([True, False], missing=False),
        "age": dg.Bins([17, 25, 50.5, 90], missing=True),
    }
)
NETWORK = dg.Network.of(DOMAIN, {"whole": ["text"], "real": ["text", "flag"], "age": ["whole"]})
ROWS = pd.DataFrame(
    {
        "text": ["red", "green", "blue", None, "purple", "red", "blue"],
        "whole": pd.Series([0, 1, 7, None, 3, 1, 0], dtype=object),
        "real": [0.5, 2, -1.25, 2.0, 0.5, 0.5, 2],
        "flag": pd.Series([True, False, None, True, True, False, False], dtype=object),
        "age": [17, 24.999, 25, np.nan, 90, 1000, -np.inf],
    }
)


def equal(one, other):
    """Counts do not compare, because they are sensitive; their tables do."""
    mine, theirs = one.sensitive_tables, other.sensitive_tables
    return list(mine) == list(theirs) and all(np.array_equal(mine[key], theirs[key]) for key in mine)


def assert_counts(counts, network, frame):
    for family in network.families:
        np.testing.assert_array_equal(counts.sensitive_margin(family), contingency(network, frame, family))
    assert counts.sensitive_rows == len(frame)


def test_the_brute_force_counts_what_a_person_would():
    assert contingency(NETWORK, ROWS, ("text",)).tolist() == [2, 2, 3]
    assert contingency(NETWORK, ROWS, ("whole",)).tolist() == [3, 2, 2]
    assert contingency(NETWORK, ROWS, ("flag", "text")).tolist() == [[1, 1, 1], [1, 1, 2]]
    assert contingency(NETWORK, ROWS, ("age",)).tolist() == [3, 1, 2, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_counts(engine):
    assert_counts(dg.count(ENGINES[engine](ROWS), NETWORK), NETWORK, ROWS)


def test_encoded_rows_give_the_same_counts():
    assert_counts(dg.count(dg.statistics.encode(ROWS, DOMAIN), NETWORK), NETWORK, ROWS)
    assert_counts(dg.count(codes(ROWS, DOMAIN), NETWORK), NETWORK, ROWS)


@pytest.mark.parametrize("engine", IN_MEMORY)
@settings(max_examples=examples(12))
@given(networks_with_frames(max_rows=12))
def test_every_engine_in_memory_counts_any_rows(engine, case):
    network, frame = case
    assert_counts(dg.count(IN_MEMORY[engine](frame), network), network, frame)


@pytest.mark.parametrize("engine", ["csv", "parquet", "parquet folder"])
@settings(max_examples=examples(12), deadline=None)
@given(networks_with_frames(max_rows=12))
def test_every_engine_on_disk_counts_any_rows(engine, case):
    network, frame = case
    assert_counts(dg.count(ENGINES[engine](frame), network), network, frame)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_no_rows_are_zeros_and_one_row_is_one(engine, rows):
    frame = ROWS.head(rows)
    assert_counts(dg.count(ENGINES[engine](frame), NETWORK), NETWORK, frame)


def test_untyped_empty_tables_are_zeros():
    """A table that was built empty knows no types; it is as valid as any."""
    for rows in (pd.DataFrame(columns=list(DOMAIN.names)), pa.table({name: pa.nulls(0) for name in DOMAIN.names})):
        assert equal(dg.count(rows, NETWORK), Counts.zero(NETWORK))


def test_more_rows_than_a_block_of_every_reader():
    """Blocks of 65 536 rows, Parquet row groups and CSV chunks of a megabyte all end inside these rows."""
    rng = np.random.default_rng(0)
    n = 150_000
    frame = pd.DataFrame({"a": rng.integers(0, 3, n), "b": rng.integers(0, 400, n)})
    network = dg.Network.of({"a": [0, 1, 2], "b": range(400)}, {"b": ["a"]})
    expected = np.zeros((400, 3), np.int64)
    np.add.at(expected, (frame["b"], frame["a"]), 1)
    for engine in ("pandas inferred", "pyarrow table", "csv", "parquet"):
        counts = dg.count(ENGINES[engine](frame), network)
        np.testing.assert_array_equal(counts.sensitive_margin(("b", "a")), expected)


def test_a_table_of_more_than_255_and_65535_levels():
    network = dg.Network.of({"a": range(300), "b": range(70_000)}, {})
    frame = pd.DataFrame({"a": [0, 255, 256, 299], "b": [0, 65_535, 65_536, 69_999]})
    counts = dg.count(frame, network)
    assert np.flatnonzero(counts.sensitive_margin(("a",))).tolist() == frame["a"].tolist()
    assert np.flatnonzero(counts.sensitive_margin(("b",))).tolist() == frame["b"].tolist()


@pytest.mark.proof
def test_asia_counts_equal_those_of_pgmpy():
    network = dg.read_network("example:asia")
    learned = dg.load("example:asia")
    frame = dg.sample_rows(learned, 3000, np.random.default_rng(5)).astype(object)
    counts = dg.count(frame, network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.estimators import MaximumLikelihoodEstimator

        model = dg.to_pgmpy(learned)
        states = {name: list(network.domain.levels(name)) for name in network.domain.names}
        oracle = MaximumLikelihoodEstimator(model, frame, state_names=states)
        for name in network.domain.names:
            parents = network.parents[name]
            theirs = oracle.state_counts(name).loc[list(network.domain.levels(name))]
            if parents:  # pgmpy orders the parents its own way
                levels = itertools.product(*(network.domain.levels(parent) for parent in parents))
                theirs = theirs.reorder_levels(list(parents), axis=1)[list(levels)]
            mine = counts.sensitive_margin(network.family(name))
            np.testing.assert_array_equal(mine.reshape(len(theirs), -1), theirs.to_numpy())


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(networks().flatmap(lambda n: st.tuples(st.just(n), frames(n), frames(n), frames(n))))
def test_counts_form_a_commutative_monoid(case):
    network, *parts = case
    a, b, c = (dg.count(part, network) for part in parts)
    zero = Counts.zero(network)
    assert equal(a + zero, a)
    assert equal(zero + a, a)
    assert equal(a + b, b + a)
    assert equal((a + b) + c, a + (b + c))
    assert equal(a + b + c, dg.count(pd.concat(parts, ignore_index=True), network))


@given(networks_with_frames())
def test_the_order_of_the_rows_does_not_matter(case):
    network, frame = case
    assert equal(dg.count(frame, network), dg.count(frame.iloc[::-1], network))


@given(networks_with_frames())
def test_a_row_is_counted_once_in_every_family(case):
    network, frame = case
    counts = dg.count(frame, network)
    assert {int(table.sum()) for table in counts.sensitive_tables.values()} == {len(frame)}
    assert {int(counts.sensitive_margin(family).sum()) for family in network.families} == {len(frame)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [3, "real"])
def test_one_bad_value_refuses_the_whole_table(engine, bad):
    """A row with one value that nothing admits is counted in no family, and so is no other row."""
    rows = ROWS.copy()
    rows.loc[3, "real"] = 77.5 if bad == 3 else None
    with pytest.raises(dg.errors.DomainError, match="column 'real' holds"):
        dg.count(ENGINES[engine](rows), NETWORK)


def test_counts_of_different_networks_do_not_add():
    other = dg.Network.of(DOMAIN, {"text": ["flag"]})
    with pytest.raises(dg.errors.ReleaseError, match="different networks"):
        Counts.zero(NETWORK) + Counts.zero(other)
    backwards = dg.Network.of(DOMAIN.restrict(DOMAIN.names[::-1]), NETWORK.parents)
    with pytest.raises(dg.errors.ReleaseError, match="different networks"):
        Counts.zero(NETWORK) + Counts.zero(backwards)
    with pytest.raises(TypeError):
        Counts.zero(NETWORK) + 1


@pytest.mark.parametrize(
    "make", [lambda rows: dg.count(rows, NETWORK), lambda rows: dg.statistics.encode(rows, DOMAIN)]
)
def test_sensitive_values_show_no_numbers(make):
    one, other = make(ROWS), make(ROWS.head(0))
    assert repr(one) == repr(other) == str(one) == f"{one}"
    assert "sensitive" in repr(one)


@pytest.mark.parametrize(
    "make", [lambda rows: dg.count(rows, NETWORK), lambda rows: dg.statistics.encode(rows, DOMAIN)]
)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_sensitive_values_are_not_pickled(make, protocol):
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(make(ROWS), protocol)
    with pytest.raises(TypeError, match="not pickled"):
        copy.deepcopy(make(ROWS))


def test_the_exact_tables_are_read_only_copies():
    table = np.zeros(3, np.int64)
    network = dg.Network.of({"a": range(3)}, {})
    counts = Counts(network, {("a",): table})
    table[0] = 5
    assert counts.sensitive_margin(("a",)).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        counts.sensitive_tables["a",][0] = 1


def test_a_folder_counts_as_the_sum_of_its_files(tmp_path):
    """Parts whose columns come in another order and of another width."""
    parts = [
        pa.table({"a": pa.array([1, 2], pa.int8()), "b": ["x", "y"]}),
        pa.table({"b": pa.array(["y", "y"]).dictionary_encode(), "a": pa.array([1.0, 1.0])}),
        pa.table({"extra": [1], "a": pa.array([2], pa.uint64()), "b": pa.array(["x"], pa.large_string())}),
    ]
    for i, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{i}.parquet")
    network = dg.Network.of({"a": [1, 2], "b": ["x", "y"]}, {"b": ["a"]})
    whole = dg.count(tmp_path, network)
    assert whole.sensitive_margin(("a", "b")).tolist() == [[1, 2], [1, 1]]
    apart = [dg.count(tmp_path / f"{i}.parquet", network) for i in range(3)]
    assert equal(apart[0] + apart[1] + apart[2], whole)


def test_batches_with_different_dictionaries():
    """Each batch of a stream may number the same words otherwise."""
    batches = [
        pa.RecordBatch.from_arrays([pa.array(words).dictionary_encode()], ["a"])
        for words in (["x", "y"], ["y", "x", "y"], [], [None, "y"])
        if words
    ]
    network = dg.Network.of({"a": dg.Categories(["x", "y", "?"], missing="?")}, {})
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert dg.count(reader, network).sensitive_margin(("a",)).tolist() == [2, 4, 1]
