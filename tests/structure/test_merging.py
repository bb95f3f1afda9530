"""Merged tables: they hold every family, never cost more, and no further merge would pay."""

import itertools
import math

from hypothesis import given

import dpgraph as dg
from dpgraph.structure.margins import holders, measured_families, weights
from tests.strategies import networks


def cost(network, tables):
    """sum_m (K_m times the families read from m)^(1/3): each family from the first of the smallest that hold it."""
    served = [0] * len(tables)
    for family in network.families:
        holding = [i for i, table in enumerate(tables) if set(family) <= set(table)]
        served[min(holding, key=lambda i: network.cells(tables[i]))] += 1
    return sum((network.cells(table) * max(1, many)) ** (1 / 3) for table, many in zip(tables, served, strict=True))


@given(networks(max_levels=6))
def test_every_family_is_inside_a_merged_table(network):
    tables = measured_families(network)
    assert all(any(set(family) <= set(table) for table in tables) for family in network.families)


@given(networks(max_levels=6))
def test_merged_tables_are_unions_of_maximal_families_in_the_domains_order(network):
    place = {name: i for i, name in enumerate(network.domain.names)}
    for table in measured_families(network):
        inside = [family for family in network.maximal_families if set(family) <= set(table)]
        assert set(table) == set(itertools.chain.from_iterable(inside))
        assert len(set(table)) == len(table)
        if table not in network.maximal_families:
            assert list(table) == sorted(table, key=place.__getitem__)


@given(networks(max_levels=6))
def test_merging_never_raises_the_cost(network):
    assert cost(network, measured_families(network)) <= cost(network, network.maximal_families) + 1e-9


@given(networks(max_levels=6))
def test_the_weights_are_cells_times_the_families_read(network):
    for tables in (network.families, network.maximal_families, measured_families(network)):
        assert math.isclose(sum(weight ** (1 / 3) for weight in weights(network, tables)), cost(network, tables))
        held = holders(network, tables)
        assert all(set(family) <= set(held[family]) for family in network.families)


def test_asia_merges_from_six_tables_to_three():
    """proofs.md P2: three tables for asia, as a separate prototype found."""
    asia = dg.read_network("example:asia")
    assert len(asia.maximal_families) == 6
    assert len(measured_families(asia)) == 3


def test_independent_bits_merge_by_hand():
    """Two bits apart cost 2 (2)^(1/3) = 2.52, together (4 * 2)^(1/3) = 2; so do bits merge until it stops paying."""
    two = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {})
    assert measured_families(two) == (("a", "b"),)
    large = dg.Network.of({"a": range(100), "b": range(100)}, {})
    assert measured_families(large) == (("a",), ("b",))


def test_the_result_is_a_function_of_public_structure():
    alarm = dg.read_network("example:alarm")
    again = dg.Network.of(alarm.domain, alarm.parents)
    assert measured_families.__wrapped__(again) == measured_families(alarm)  # computed again, not remembered


def test_a_thousand_variables_merge_in_a_few_seconds():
    """One merge is one row of gains; a cubic search would take minutes here."""
    network = dg.Network.of({f"v{i}": [0, 1] for i in range(600)}, {f"v{i}": [f"v{i - 1}"] for i in range(1, 600)})
    tables = measured_families(network)
    assert len(tables) < 300
    assert all(any(set(family) <= set(table) for table in tables) for family in network.families)
