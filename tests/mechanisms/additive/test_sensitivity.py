"""The declared sensitivity is never exceeded and is attained (promise.md S6), over random networks and neighbours."""

import itertools
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.additive.plans import (
    block_l2_squared,
    block_movements,
    block_sensitivity,
    joint_sensitivity,
    measured_tables,
    parity_sensitivity,
)
from dpgraph.privacy.measurements import partition_movement
from dpgraph.structure.elimination import elimination_order
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import coefficient_blocks, contrast_matrix, fixed_point
from tests.tiers import examples


@st.composite
def small_networks(draw):
    """One to five variables of one to four levels, arcs from earlier to later ones."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    names = [f"v{i}" for i in range(len(sizes))]
    parents = {name: [other for other in names[:i] if draw(st.booleans())][:3] for i, name in enumerate(names)}
    return dg.Network.of({name: list(range(size)) for name, size in zip(names, sizes, strict=True)}, parents)


def tables_of(network, rows, tables):
    """Contingency tables straight from the definition, without the package's counter."""
    made = {}
    for table in tables:
        made[table] = np.zeros(network.shape(table), np.int64)
        for row in rows:
            made[table][tuple(row[name] for name in table)] += 1
    return made


def moved(one, other):
    return sum(int(np.abs(one[key] - other[key]).sum()) for key in one)


def moved_squared(one, other):
    return sum(int(((one[key] - other[key]) ** 2).sum()) for key in one)


def table_movement(network, table, unit):
    return partition_movement(network.cells(table), unit)


def l1_sensitivity(network, tables, unit):
    return sum(table_movement(network, table, unit).l1 for table in tables)


def l2_squared(network, tables, unit):
    return sum(table_movement(network, table, unit).l2_squared for table in tables)


designs = st.sampled_from(["families", "maximal", "merged"])


@settings(max_examples=examples(400), deadline=None)
@given(small_networks(), designs, st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_pair_of_neighbours_moves_the_tables_further_than_declared(network, design, rows_per_person, random):
    tables = measured_tables(network, design)
    sizes = network.domain.sizes

    def person():
        return [{name: random.randrange(sizes[name]) for name in sizes} for _ in range(rows_per_person)]

    others, before, after = person() * 2, person(), person()
    base = tables_of(network, others + before, tables)
    replace = dg.PrivacyUnit("replace", rows_per_person)
    add_remove = dg.PrivacyUnit("add-remove", rows_per_person)
    replaced = tables_of(network, others + after, tables)
    removed = tables_of(network, others, tables)
    assert moved(base, replaced) <= l1_sensitivity(network, tables, replace)
    assert moved(base, removed) <= l1_sensitivity(network, tables, add_remove)
    for table in tables:
        assert int(np.abs(base[table] - replaced[table]).sum()) <= table_movement(network, table, replace).l1
        assert int(((base[table] - replaced[table]) ** 2).sum()) <= table_movement(network, table, replace).l2_squared
        assert int(((base[table] - removed[table]) ** 2).sum()) <= table_movement(network, table, add_remove).l2_squared
    assert moved_squared(base, replaced) <= l2_squared(network, tables, replace)
    assert moved_squared(base, removed) <= l2_squared(network, tables, add_remove)


@settings(max_examples=examples(200), deadline=None)
@given(small_networks(), designs, st.integers(1, 3))
def test_the_declared_sensitivity_is_attained(network, design, rows_per_person):
    """The witness: everyone else anything, one person's rows from all-first levels to all-last levels."""
    tables = measured_tables(network, design)
    sizes = network.domain.sizes
    first, last = dict.fromkeys(sizes, 0), {name: size - 1 for name, size in sizes.items()}
    one = tables_of(network, [first] * rows_per_person, tables)
    other = tables_of(network, [last] * rows_per_person, tables)
    none = tables_of(network, [], tables)
    assert moved(one, other) == l1_sensitivity(network, tables, dg.PrivacyUnit("replace", rows_per_person))
    assert moved(one, none) == l1_sensitivity(network, tables, dg.PrivacyUnit("add-remove", rows_per_person))
    assert moved_squared(one, other) == l2_squared(network, tables, dg.PrivacyUnit("replace", rows_per_person))
    assert moved_squared(one, none) == l2_squared(network, tables, dg.PrivacyUnit("add-remove", rows_per_person))


@pytest.mark.parametrize(
    ("name", "variables", "maximal"), [("asia", 8, 6), ("sachs", 11, 6), ("alarm", 37, 25), ("insurance", 27, 24)]
)
def test_the_sensitivities_of_known_networks(name, variables, maximal):
    """Zhang et al. 2016, Lemma 1: 2|V| under replace for all families; proofs.md P1 for the maximal ones."""
    network = dg.read_network(f"example:{name}")
    assert l1_sensitivity(network, network.families, dg.PrivacyUnit("replace")) == 2 * variables
    assert l1_sensitivity(network, network.maximal_families, dg.PrivacyUnit("replace")) == 2 * maximal
    assert l1_sensitivity(network, network.maximal_families, dg.PrivacyUnit("add-remove")) == maximal


@settings(max_examples=examples(60), deadline=None)
@given(small_networks(), st.integers(0, 12), st.randoms(use_true_random=False))
def test_the_package_counts_what_the_definition_counts(network, n, random):
    """So that the sensitivities above are those of the counter that is used."""
    rows = [{name: random.randrange(size) for name, size in network.domain.sizes.items()} for _ in range(n)]
    counts = dg.count(pd.DataFrame(rows, columns=list(network.domain.names)), network)
    reference = tables_of(network, rows, network.families)
    for family in network.families:
        assert (counts.sensitive_margin(family) == reference[family]).all()


def test_every_pair_on_a_v_structure_enumerated():
    """K = (2, 3, 4), all pairs of rows: the largest distance is the declared one."""
    network = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1, 2, 3]}, {"c": ["a", "b"]})
    rows = [dict(zip("abc", levels, strict=True)) for levels in itertools.product(range(2), range(3), range(4))]
    single = {i: tables_of(network, [row], network.families) for i, row in enumerate(rows)}
    largest = max(moved(single[i], single[j]) for i in single for j in single)
    assert largest == l1_sensitivity(network, network.families, dg.PrivacyUnit("replace")) == 6


def closure(network):
    """Every subset of a family with all levels of more than one, from the definition."""
    sizes = network.domain.sizes
    return {
        frozenset(subset)
        for family in network.families
        for many in range(len(family) + 1)
        for subset in itertools.combinations(family, many)
        if all(sizes[name] > 1 for name in subset)
    }


def most_parities(network):
    """M by enumeration of the sets of variables in which two rows differ."""
    names = [name for name, size in network.domain.sizes.items() if size > 1]
    blocks = closure(network)
    sets = itertools.chain.from_iterable(itertools.combinations(names, many) for many in range(len(names) + 1))
    return max(sum(len(block & set(differ)) % 2 for block in blocks) for differ in sets)


@settings(max_examples=examples(150), deadline=None)
@given(small_networks(), st.sampled_from([2, 4, 8, 1 << 20]))
def test_the_parity_sensitivity_is_that_of_all_sets_of_variables(network, limit):
    """Attained, since it is the maximum over all pairs; below the limit an upper bound that says so."""
    (value, exact), truth = parity_sensitivity(network, limit), most_parities(network)
    assert value >= truth
    assert value <= len(closure(network)) - 1
    assert not exact or value == truth
    assert exact or limit < 1 << 20


@pytest.mark.parametrize(("name", "parities"), [("asia", 14), ("win95pts", 524)])
def test_the_parity_sensitivity_of_known_networks(name, parities):
    """M of proofs.md P3."""
    assert parity_sensitivity(dg.read_network(f"example:{name}")) == (parities, True)


def test_the_parity_sensitivity_of_a_clique_and_of_naive_bayes():
    clique = dg.Network.of({name: [0, 1] for name in "abc"}, {"b": ["a"], "c": ["a", "b"]})
    assert parity_sensitivity(clique) == (4, True)
    features = [f"x{i}" for i in range(4)]
    bayes = dg.Network.of({name: [0, 1] for name in ["c", *features]}, {name: ["c"] for name in features})
    assert parity_sensitivity(bayes) == (8, True)


def test_the_parity_sensitivity_of_win95pts_needs_no_table_of_more_than_512_cells():
    """What makes it quick: 2^76 sets of variables, but tables of 2^(width + 1) cells; half of that is too few."""
    network = dg.read_network("example:win95pts")
    assert len(network.domain.names) == 76
    assert parity_sensitivity(network, 512) == (524, True)
    assert elimination_order(network)[1] == 8
    assert not parity_sensitivity(network, 256)[1]


def fixed_point_contrasts(network, row, block, grid):
    """The definition, without the package's transforms: products of (1, ..., 1, -r, 0, ...) times the multiplier."""
    values = []
    for rows in itertools.product(*(range(1, network.domain.sizes[name]) for name in block)):
        multiplier = max(1, round(grid / math.sqrt(math.prod(r * (r + 1) for r in rows))))
        entries = [1 if row[name] < r else -r if row[name] == r else 0 for name, r in zip(block, rows, strict=True)]
        values.append(multiplier * math.prod(entries))
    return np.array(values, np.int64)


def all_rows(network):
    names = network.domain.names
    return [dict(zip(names, levels, strict=True)) for levels in itertools.product(*map(range, network.shape(names)))]


@st.composite
def tiny_networks(draw):
    network = draw(small_networks().filter(lambda network: network.cells(network.domain.names) <= 36))
    weights = {block: draw(st.integers(1, 9)) for block in coefficient_blocks(network)}
    return network, FrozenMap(weights)


@settings(max_examples=examples(100), deadline=None)
@given(tiny_networks(), st.sampled_from([1, 5, 1000]), st.integers(1, 3), st.sampled_from([16, 1 << 20]))
def test_the_joint_sensitivity_is_the_maximum_over_all_pairs_of_rows(made, grid, rows_per_person, limit):
    """Never exceeded by any pair and attained by one, for any weights; r rows move r times as far. The blocks' own
    sensitivities are attained too."""
    network, weights = made
    stacked = {
        block: np.stack([fixed_point_contrasts(network, row, block, grid) for row in all_rows(network)])
        for block in weights
    }
    moved = {block: np.abs(values[:, None] - values[None]).sum(axis=-1) for block, values in stacked.items()}
    size = {block: np.abs(values).sum(axis=-1) for block, values in stacked.items()}
    replace = dg.PrivacyUnit("replace", rows_per_person)
    add_remove = dg.PrivacyUnit("add-remove", rows_per_person)
    truth = rows_per_person * int(sum(weights[block] * moved[block] for block in weights).max())
    value, exact = joint_sensitivity(network, weights, grid, replace, limit)
    assert value >= truth
    assert not exact or value == truth
    assert exact or limit == 16
    truth = rows_per_person * int(sum(weights[block] * size[block] for block in weights).max())
    assert joint_sensitivity(network, weights, grid, add_remove) == (truth, True)
    for block in weights:
        assert block_sensitivity(network, block, grid, replace) == rows_per_person * moved[block].max()
        assert block_sensitivity(network, block, grid, add_remove) == rows_per_person * size[block].max()


def test_a_block_too_large_to_enumerate_gets_an_upper_bound(monkeypatch):
    network = dg.Network.of({"a": [0, 1, 2], "b": [0, 1, 2]}, {"b": ["a"]})
    weights, unit = FrozenMap(dict.fromkeys(coefficient_blocks(network), 1)), dg.PrivacyUnit("replace")
    sensitivity = joint_sensitivity.__wrapped__
    whole, exact = sensitivity(network, weights, 100, unit)
    assert exact
    with monkeypatch.context() as patched:
        patched.setattr("dpgraph.mechanisms.additive.plans.MAX_BLOCK_WORK", 0)
        bound, exact = sensitivity(network, weights, 100, unit)
    assert not exact
    assert bound > whole
    monkeypatch.setattr("dpgraph.mechanisms.additive.plans.MAX_PAIRS", 0)
    bound, exact = sensitivity(network, weights, 100, unit)
    assert not exact
    assert bound >= whole


def test_the_squared_movement_of_a_block_is_that_of_its_matrix_in_the_memory_of_its_cells():
    """Rejects a matrix of the square of the levels: one variable of 9 999 took 1.4 GB, two of 3 000 four minutes."""
    unit = dg.PrivacyUnit("add-remove", 3)
    network = dg.Network.of({"a": range(5), "b": range(2), "c": range(7), "many": range(5000)}, {"a": ["b", "c"]})
    for block in (("a",), ("b",), ("a", "c"), ("a", "b", "c")):
        squares = fixed_point(network.shape(block), 100) ** 2
        for axis, size in enumerate(network.shape(block)):
            squares = np.moveaxis(np.tensordot(contrast_matrix(size)[1:].T ** 2, squares, (1, axis)), 0, axis)
        assert block_l2_squared(network, block, 100, unit) == 9 * squares.max()
    tracemalloc.start()
    block_movements(network, (("many",),), 1 << 12, unit)
    assert tracemalloc.get_traced_memory()[1] < 1 << 21
    tracemalloc.stop()


def test_blocks_of_absurdly_many_coefficients_are_refused_before_memory_is_taken():
    network = dg.Network.of({name: range(3000) for name in "abc"}, {"a": ["b"], "c": ["b"]})
    tracemalloc.start()
    with pytest.raises(dg.errors.NetworkError, match="coefficients, more than"):
        block_movements(network, coefficient_blocks(network), 1 << 12, dg.PrivacyUnit("add-remove"))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
