"""The declared sensitivity is never exceeded and is attained (S6), over random networks and neighbours."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.allocation import measured_tables
from dpgraph.mechanisms.sensitivity import l1_sensitivity, l2_squared, table_l2_squared, table_sensitivity


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


designs = st.sampled_from(["families", "maximal", "merged"])


@settings(max_examples=400, deadline=None)
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
        assert int(np.abs(base[table] - replaced[table]).sum()) <= table_sensitivity(network, table, replace)
        assert int(((base[table] - replaced[table]) ** 2).sum()) <= table_l2_squared(network, table, replace)
        assert int(((base[table] - removed[table]) ** 2).sum()) <= table_l2_squared(network, table, add_remove)
    assert moved_squared(base, replaced) <= l2_squared(network, tables, replace)
    assert moved_squared(base, removed) <= l2_squared(network, tables, add_remove)


@settings(max_examples=200, deadline=None)
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
    """Zhang et al. 2016, Lemma 1: 2|V| under replace for all families; MATHS 1.1 for the maximal ones."""
    network = dg.read_network(f"example:{name}")
    assert l1_sensitivity(network, network.families, dg.PrivacyUnit("replace")) == 2 * variables
    assert l1_sensitivity(network, network.maximal_families, dg.PrivacyUnit("replace")) == 2 * maximal
    assert l1_sensitivity(network, network.maximal_families, dg.PrivacyUnit("add-remove")) == maximal


@settings(max_examples=60, deadline=None)
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
