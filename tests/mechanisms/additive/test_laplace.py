"""The Laplace mechanism is epsilon-DP by enumeration, tight where theory says so, and draws what it records."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.additive.plans import closed_form_shares, measured_tables
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.margins import weights
from tests.conclusions import law_test

TINY = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]})
APART = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {})
UNITS = [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)]
DESIGNS = [
    dg.LaplaceMechanism("0.8", tables="families", allocation="uniform"),
    dg.LaplaceMechanism("0.8", tables="maximal"),
    dg.LaplaceMechanism("0.8"),
    dg.LaplaceMechanism("0.8", noise="independent"),
    dg.LaplaceMechanism("0.8", margins={"b": "0.3"}),
]
ROWS = [dict(zip("ab", levels, strict=True)) for levels in itertools.product(range(2), range(3))]


def datasets(n):
    """Every multiset of n rows."""
    return list(itertools.combinations_with_replacement(range(len(ROWS)), n))


def neighbours(n, unit):
    """All pairs of data sets that differ in one person, each as multisets of rows."""
    if unit.neighbours == "replace":
        kept = datasets(n - unit.rows_per_person)
        persons = datasets(unit.rows_per_person)
        return [(a + b, a + c) for a in kept for b in persons for c in persons]
    kept = [rows for size in range(n) for rows in datasets(size)]
    return [(a, (*a, row)) for a in kept for row in range(len(ROWS))]


def exact_tables(network, rows, tables):
    made = {table: np.zeros(network.shape(table)) for table in tables}
    for row in rows:
        for table in tables:
            made[table][tuple(ROWS[row][name] for name in table)] += 1
    return made


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("mechanism", DESIGNS, ids=repr)
@pytest.mark.parametrize("network", [TINY, APART], ids=["arc", "no arc"])
def test_the_largest_log_ratio_over_all_neighbours_is_epsilon(network, mechanism, unit):
    """The law of the output is a product of exp(-||y - s||_1 / scale), so the largest log ratio over all outputs is
    sum_m ||s_m - s'_m||_1 / scale_m, attained at y = s (for sum-zero noise too: y = s is on the plane)."""
    laws = {m.table: m.law for m in mechanism.event(network, unit).measurements}
    largest = Fraction(0)
    for one, other in neighbours(3, unit):
        s, t = exact_tables(network, one, laws), exact_tables(network, other, laws)
        ratio = sum(
            Fraction(int(np.abs(s[table] - t[table]).sum())) / Fraction(law.scale) for table, law in laws.items()
        )
        largest = max(largest, ratio)
    epsilon = Fraction(mechanism.epsilon)
    assert largest <= epsilon
    assert largest >= epsilon * Fraction(9999, 10000)


@pytest.mark.parametrize("unit", [UNITS[0], UNITS[1]], ids=str)
def test_the_log_ratio_of_the_real_pmf_over_a_grid_of_outputs(unit):
    """Without the formula above: one table of two cells, both pmfs normalised over a grid, every output compared."""
    network = dg.Network.of({"a": [0, 1]}, {})
    mechanism = dg.LaplaceMechanism(1)
    (measurement,) = mechanism.event(network, unit).measurements
    side = np.arange(-60, 64)
    if isinstance(measurement.law, SumZeroLaplace):
        outputs = [(3 + z, -z) for z in side]
    else:
        outputs = list(itertools.product(side, side))
    pairs = {"replace": ((3, 0), (2, 1)), "add-remove": ((3, 0), (2, 0))}[unit.neighbours]

    def log_pmf(true):
        points = [y for y in outputs if sum(y) == 3] if isinstance(measurement.law, SumZeroLaplace) else outputs
        logs = np.array(
            [-sum(abs(a - b) for a, b in zip(y, true, strict=True)) / measurement.law.scale for y in points]
        )
        return logs - np.logaddexp.reduce(logs)

    gap = np.abs(log_pmf(pairs[0]) - log_pmf(pairs[1])).max()
    assert 0.99 <= gap <= 1 + 1e-9


@pytest.mark.parametrize("unit", [UNITS[0], UNITS[1]], ids=str)
def test_releases_draw_the_law_they_record(unit):
    """1 132 secure releases of a two-cell table with scale 2 (replace) or 1: accepted, and scales of 2/3 and 3/2 of it
    rejected, each but for 1e-6."""
    z = np.arange(-40, 41)
    test = law_test(-abs(z), [-abs(z) / factor for factor in (2 / 3, 3 / 2)])
    network = dg.Network.of({"a": [0, 1]}, {})
    counts = dg.count(pd.DataFrame({"a": [0, 0, 1]}), network)
    releases = [dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit)) for _ in range(test.draws)]
    law = next(iter(releases[0].value.laws.values()))
    assert law == (SumZeroLaplace(2.0) if unit.n_is_public else DiscreteLaplace(1.0))
    test.check([int(release.value.tables[("a",)][0]) - 2 - z[0] for release in releases])


def test_algorithm_1_of_the_paper_exactly():
    """Scale 2|V| / epsilon on every family under replace, independent noise."""
    alarm = dg.read_network("example:alarm")
    paper = dg.LaplaceMechanism(1, tables="families", allocation="uniform")
    measured = paper.event(alarm, dg.PrivacyUnit("replace")).measurements
    assert [m.table for m in measured] == list(alarm.families)
    assert {m.law for m in measured} == {DiscreteLaplace(74.0)}
    halved = dg.LaplaceMechanism("0.5", tables="families", allocation="uniform")
    assert {m.law.scale for m in halved.event(alarm, dg.PrivacyUnit("add-remove")).measurements} == {74.0}


@pytest.mark.parametrize("name", ["asia", "sachs", "alarm"])
@pytest.mark.parametrize("design", ["families", "maximal", "merged"])
@pytest.mark.parametrize("allocation", ["uniform", "optimal"])
def test_what_the_tables_spend_adds_up_to_epsilon(name, design, allocation):
    network = dg.read_network(f"example:{name}")
    for unit in UNITS:
        measured = dg.LaplaceMechanism("0.7", tables=design, allocation=allocation).event(network, unit).measurements
        spent = sum(Fraction(m.sensitivity) / Fraction(m.law.scale) for m in measured)
        assert Fraction("0.7") * Fraction(999999, 1000000) <= spent <= Fraction("0.7")


@pytest.mark.parametrize("name", ["asia", "insurance"])
def test_the_closed_form_shares_are_the_minimum(name):
    """Against a numerical optimiser of sum_m W_m / share_m^2 (proofs.md P28)."""
    from scipy.optimize import minimize

    network = dg.read_network(f"example:{name}")
    tables = measured_tables(network, "maximal")
    weight = np.array(weights(network, tables), float)

    def error(logits):
        share = np.exp(logits - np.logaddexp.reduce(logits))
        return float(np.log((weight / share**2).sum()))

    best = minimize(error, np.zeros(len(tables)), method="L-BFGS-B", options={"maxiter": 2000}).fun
    ours = closed_form_shares(network, tables, 1 / 3)
    assert ours.sum() == pytest.approx(1)
    assert math.log((weight / ours**2).sum()) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, True, "x"])
def test_a_mechanism_needs_an_epsilon(epsilon):
    with pytest.raises(dg.errors.ReleaseError, match="epsilon"):
        dg.LaplaceMechanism(epsilon)


@pytest.mark.parametrize("setting", [{"tables": "all"}, {"allocation": "best"}, {"noise": "float"}, {"tables": None}])
def test_unknown_settings_are_refused(setting):
    with pytest.raises(dg.errors.ReleaseError, match="must be one of"):
        dg.LaplaceMechanism(1, **setting)


def test_sum_zero_noise_is_refused_where_n_is_private():
    counts = dg.count(pd.DataFrame({"a": [0], "b": [1]}), TINY)
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    with pytest.raises(dg.errors.ReleaseError, match="sum-zero"):
        dg.release(counts, dg.LaplaceMechanism(1, noise="sum-zero"), budget=budget)
    assert budget.spent == 0


def test_equal_mechanisms_are_equal_however_epsilon_is_written():
    assert dg.LaplaceMechanism(0.1) == dg.LaplaceMechanism("0.1") == dg.LaplaceMechanism("1/10")


def test_a_variable_with_one_level_needs_no_noise_where_n_is_public():
    network = dg.Network.of({"only": ["x"], "b": [0, 1]}, {})
    counts = dg.count(pd.DataFrame({"only": ["x"] * 5, "b": [0, 1, 1, 1, 0]}), network)
    released = dg.release(counts, dg.LaplaceMechanism(1, tables="maximal"), budget=dg.Budget(1)).value
    assert released.tables[("only",)].tolist() == [5]
    hidden = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    laws = dg.release(counts, dg.LaplaceMechanism(1, tables="maximal"), budget=hidden).value.laws
    assert all(isinstance(law, DiscreteLaplace) and law.scale > 0.99 for law in laws.values())
