"""Movements are what a person can do, enumerated; every plan is reproduced from its record (promise.md S19, S20)."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.additive.plans import GRID, whose_blocks
from dpgraph.mechanisms.reproduction import check_reproduced
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.privacy.noise import MIN_SCALE
from dpgraph.privacy.records import Provenance
from dpgraph.structure.moments import MomentDescription
from dpgraph.structure.tables import contrast_blocks, fixed_point
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.tiers import examples

UNITS = [dg.PrivacyUnit(neighbours, rows) for neighbours in ("replace", "add-remove") for rows in (1, 2)]
MECHANISMS = [
    dg.LaplaceMechanism("0.7"),
    dg.LaplaceMechanism("1/3", noise="independent", tables="maximal"),
    dg.LaplaceMechanism(2, tables="families", allocation="uniform"),
    dg.LaplaceMechanism(2000),
    dg.GaussianMechanism("0.7", "1e-6"),
    dg.GaussianMechanism(delta="1e-6", rho="1/3", tables="families", allocation="uniform"),
    dg.GaussianMechanism(9, "1e-6", basis="residual"),
    dg.FourierMechanism("0.7"),
    dg.FourierMechanism("1/7", basis="residual"),
    dg.PosteriorSample("0.7", draws=3),
    dg.MapEstimate("1/3"),
]


def events(network, unit):
    """What each mechanism plans; Gaussian residual blocks are for add-remove."""
    for mechanism in MECHANISMS:
        if not (isinstance(mechanism, dg.GaussianMechanism) and mechanism.basis == "residual" and unit.n_is_public):
            yield mechanism.event(network, unit)


@settings(max_examples=examples(60), deadline=None)
@given(small_networks(), st.sampled_from(UNITS))
def test_every_plan_is_reproduced_and_no_other_scale(network, unit):
    for event in events(network, unit):
        record = Provenance(event, unit)
        check_reproduced(record, network)
        laws = [m.law for m in event.measurements if m.movement.l1]
        if not laws or any(m.law.scale == MIN_SCALE for m in event.measurements):
            continue
        wider = [replace(m, law=type(m.law)(m.law.scale * (1 + 2.0**-30))) for m in event.measurements]
        with pytest.raises(ReleaseError, match="not the scales it was made with"):
            check_reproduced(Provenance(replace(event, measurements=tuple(wider)), unit), network)


def integers(network, event, table, cell):
    """What a row in one cell of a table or block adds to what is noised, from the definition."""
    block = np.zeros(network.shape(table), np.int64)
    block[cell] = 1
    if event.mechanism != "FourierMechanism" and () not in {m.table for m in event.measurements}:
        return block.ravel()
    (contrasts,) = [v for k, v in contrast_blocks(network, [(table, block)]).items() if k == table]
    scaled = max((m.movement.l1 for m in event.measurements), default=0) > 4
    return (contrasts * fixed_point(network.shape(table), GRID if scaled else 1)).ravel()


@settings(max_examples=examples(60), deadline=None)
@given(small_networks(), st.sampled_from(UNITS))
def test_no_person_moves_a_measurement_further_than_recorded(network, unit):
    """All ways one row can move it; a person's rows may all be alike."""
    for event in events(network, unit):
        parities = event.mechanism == "FourierMechanism" and unit.n_is_public
        for m in event.measurements:
            rows = np.stack([integers(network, event, m.table, cell) for cell in np.ndindex(*network.shape(m.table))])
            moves = (rows[:, None] - rows[None]).reshape(-1, rows.shape[1]) if unit.n_is_public else rows
            if parities and m.movement.l1 <= 4:
                moves = moves // 2
            r = unit.rows_per_person
            l1 = int(np.abs(moves).sum(axis=1).max())
            square = int((moves**2).sum(axis=1).max())
            assert m.movement.l1 == r * l1
            assert r**2 * square <= m.movement.l2_squared <= 4 * r**2 * square
            if event.mechanism != "FourierMechanism":
                assert m.movement.l2_squared == r**2 * square
            simple = int(np.abs(r * moves).max(initial=0)) <= 1
            assert (m.movement.moved_cells is not None) == simple
            assert not m.movement.fixed_total or not moves.sum(axis=1).any()


FAMILIES = [
    (dg.expfam.Binomial(), None),
    (dg.expfam.Binomial(3), None),
    (dg.expfam.Poisson(), (0, 4)),
    (dg.expfam.Poisson(), (0, 1)),
    (dg.expfam.Multinomial(("a", "b", "c")), None),
]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(("family", "bounds"), FAMILIES, ids=str)
def test_no_record_moves_a_family_further_than_recorded(family, bounds, unit):
    """All pairs of records, through the statistics themselves."""
    described = MomentDescription(family, bounds)
    records = list("abc") if isinstance(family, dg.expfam.Multinomial) else described.points.tolist()
    empty = dg.statistics.sufficient_statistics([], family, bounds=bounds)
    made = [dg.statistics.sufficient_statistics([record], family, bounds=bounds) for record in records]
    rows = [described.released(m.sensitive_sums, m.sensitive_rows, unit) for m in [*made, empty]]
    rows = rows[:-1] if described.family.bounded else [*rows[:-1], described.released(rows[0][:1] * 0, 1, unit)]
    moves = [a - b for a in rows for b in rows] if unit.n_is_public else rows
    moved, r = described.movement(unit), unit.rows_per_person
    assert moved.l1 == r * max(int(np.abs(move).sum()) for move in moves)
    assert moved.l2_squared == r**2 * max(int((move**2).sum()) for move in moves)
    assert (moved.moved_cells is not None) == (r * max(int(np.abs(move).max()) for move in moves) <= 1)
    assert moved.fixed_total == all(move.sum() == 0 for move in moves)


def test_the_squared_movement_of_a_curve_bounds_every_pair():
    for family, bounds in ((dg.expfam.Normal(), (-2, 3)), (dg.expfam.Gamma(2), (0.5, 4))):
        described = MomentDescription(family, bounds)
        for unit in UNITS:
            rows = described._rows(unit)[:: 1 + 65_537 // 300]
            gaps = (rows[:, None] - rows[None]) if unit.n_is_public else rows[None]
            square = int((gaps.astype(object) ** 2).sum(axis=-1).max()) * unit.rows_per_person**2
            moved = described.movement(unit)
            assert square <= moved.l2_squared <= min(2 * square, moved.l1**2)


@pytest.mark.parametrize("name", ["asia", "sachs", "alarm"])
@pytest.mark.parametrize("rho", ["1/2", "0.0123456789", "3"])
def test_the_rhos_of_residual_blocks_add_up_to_no_more_than_rho(name, rho):
    """In exact fractions: shares that are rounded to the nearest add up to more than one."""
    network, unit = dg.read_network(f"example:{name}"), dg.PrivacyUnit("add-remove")
    event = dg.GaussianMechanism(delta="1e-6", rho=rho, basis="residual").event(network, unit)
    spent = sum(Fraction(m.movement.l2_squared) / (2 * Fraction(m.law.scale) ** 2) for m in event.measurements)
    assert Fraction(rho) * (1 - Fraction(1, 10**12)) < spent <= Fraction(rho)


def test_a_table_measured_twice_and_one_of_another_network_are_refused():
    network = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {})
    unit = dg.PrivacyUnit("add-remove")
    event = dg.LaplaceMechanism(1, tables="maximal").event(network, unit)
    twice = replace(event, epsilon=Fraction(2), rho=Fraction(2), measurements=event.measurements * 2)
    with pytest.raises(ReleaseError, match="measured a table twice"):
        check_reproduced(Provenance(twice, unit), network)
    other = dg.Network.of({"a": [0, 1], "c": [0, 1, 2]}, {})
    for structure in (other, None, MomentDescription(dg.expfam.Binomial())):
        with pytest.raises(ReleaseError, match="does not measure what its record says"):
            check_reproduced(Provenance(event, unit), structure)
    fewer = dg.Network.of({"a": [0, 1], "b": [0, 1, 2, 3]}, {})
    with pytest.raises(ReleaseError, match="recorded to have 3 cells"):
        check_reproduced(Provenance(event, unit), fewer)
    law = replace(event.measurements[0], law=DiscreteLaplace(event.measurements[0].law.scale))
    with pytest.raises(ReleaseError, match="not the scales it was made with"):
        check_reproduced(Provenance(replace(event, measurements=(law,)), unit), network)


def test_blocks_of_a_record_are_all_blocks_of_some_tables():
    """A model's record may name blocks of more tables than its graph has, but none without those inside it."""
    domain = dg.Domain.of({name: [0, 1] for name in "abc"})
    graph = dg.Network.of(domain, {"b": ["a"]})
    whole = [(), ("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]
    found = whose_blocks(graph, whole)
    assert set(found.families) == {("a", "b"), ("b", "c")}
    assert whose_blocks(graph, whole[:5]) is graph
    for gone in (0, 2):
        assert whose_blocks(graph, [*whole[:gone], *whole[gone + 1 :]]) is None
    assert whose_blocks(graph, [*whole, ("z",)]) is None
    assert whose_blocks(graph, [()]) is None
