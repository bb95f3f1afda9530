"""The estimator recovers simulated states, spends what it says, and refuses bad input before it spends."""

import sys
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[2] / "datasets"))
import event_log

DOMAIN = dg.read_domain(Path(dg.__file__).parent / "files/datasets/event_log.toml")
QUICK = {"iterations": 60, "burn_in": 60}


@pytest.fixture(scope="module")
def log():
    return event_log.simulate(seed=3)


@pytest.fixture(scope="module")
def fitted(log):
    return dg.PrivateHMM(3, DOMAIN, epsilon=5, noise=dg.testing.SeededNoise(1), **QUICK).fit(log.rows)


def recovered(model, log, size=3):
    """The share of cells in the right state under the best renaming."""
    found = model.predict()["state"].to_numpy().reshape(log.states.shape)
    return max((np.array(order)[found] == log.states).mean() for order in permutations(range(size)))


@pytest.mark.proof
def test_states_are_recovered(fitted, log):
    assert recovered(fitted, log) >= 0.95


@pytest.mark.proof
def test_the_collapsed_sampler_recovers_them_too(log):
    model = dg.PrivateHMM(3, DOMAIN, epsilon=5, noise=dg.testing.SeededNoise(2), sampler="collapsed", **QUICK).fit(
        log.rows
    )
    assert recovered(model, log) >= 0.95


def test_plug_in_inference_recovers_most_of_them(log):
    """Cells cut at zero look alike: it finds 93 to 95 % in four simulated logs, noise-aware 96 to 98 %."""
    model = dg.PrivateHMM(3, DOMAIN, epsilon=5, noise=dg.testing.SeededNoise(2), inference="plug-in", **QUICK).fit(
        log.rows
    )
    assert recovered(model, log) >= 0.85


def test_emissions_and_transitions_are_those_of_the_simulation(fitted, log):
    """About 11 500 entries in three states: standard errors below 0.02 of a probability, bound at 6."""
    found = fitted.predict()["state"].to_numpy().reshape(log.states.shape)
    order = list(max(permutations(range(3)), key=lambda p: (np.array(p)[found] == log.states).mean()))
    for name, law in event_log.EMISSIONS.items():
        assert np.abs(fitted.emissions_[name].to_numpy() - law[order]).max() < 0.12
    wanted = event_log.TRANSITION[np.ix_(order, order)]
    assert np.abs(fitted.transition_.to_numpy() - wanted).max() < 0.3


def test_predict_has_a_row_for_every_declared_cell(fitted):
    frame = fitted.predict()
    assert list(frame.columns) == ["region", "month", "state", "probability"]
    assert len(frame) == DOMAIN.sizes["region"] * DOMAIN.sizes["month"]
    assert frame["probability"].between(1 / 3, 1).all()
    assert np.allclose(fitted.states_.sum(axis=2), 1)
    assert 1 <= fitted.states_used_ <= 3
    assert {"r_hat", "effective_size"} <= set(fitted.diagnostics_)


def test_it_spends_its_epsilon_once_over_all_fields(fitted, log):
    assert str(fitted.privacy_cost_) == "epsilon 5 (pure)"
    measured = fitted.release_.event.measurements
    assert {m.table[0] for m in measured} == set(event_log.FIELDS)
    assert sum(m.sensitivity for m in measured) == 2 * len(event_log.FIELDS)
    assert sum(m.sensitivity / m.law.scale for m in measured) <= 5 + 1e-9
    unit = dg.PrivacyUnit("add-remove")
    event = dg.LaplaceMechanism(5, tables="maximal").event(fitted.release_.value.network, unit)
    assert sum(m.sensitivity for m in event.measurements) == len(event_log.FIELDS)


@pytest.mark.proof
def test_a_budget_is_charged_and_held_to(log):
    budget = dg.Budget(1)
    model = dg.PrivateHMM(2, DOMAIN, epsilon=0.6, budget=budget, **QUICK).fit(log.rows)
    assert str(budget.spent) == "3/5"
    with pytest.raises(dg.errors.BudgetExceededError):
        clone(model).set_params(budget=budget).fit(log.rows)
    assert str(budget.spent) == "3/5"


def test_equal_releases_give_equal_models(log):
    first, second = (
        dg.PrivateHMM(2, DOMAIN, noise=dg.testing.SeededNoise(4), iterations=5, burn_in=5).fit(log.rows)
        for _ in range(2)
    )
    assert (first.model_.states == second.model_.states).all()
    other = dg.PrivateHMM(2, DOMAIN, noise=dg.testing.SeededNoise(4), iterations=5, burn_in=5, random_state=1).fit(
        log.rows
    )
    assert (other.release_.value.tables[("kind", "region", "month")] == first.release_.value.tables[
        ("kind", "region", "month")]).all()  # fmt: skip


@pytest.mark.proof
def test_held_out_cells_are_scored_and_predicted(log):
    rng = np.random.default_rng(5)
    cells = pd.DataFrame([(r, m) for r in event_log.REGIONS for m in event_log.MONTHS], columns=["region", "month"])
    held = cells[rng.random(len(cells)) < 0.1]
    model = dg.PrivateHMM(3, DOMAIN, epsilon=5, noise=dg.testing.SeededNoise(6), **QUICK).fit(log.rows, held_out=held)
    total, entries = model.model_.log_likelihood(log.rows, held)
    assert entries == len(log.rows.merge(held))
    table = model.scores(log.rows)
    assert table.loc["model", "whole cells"] == pytest.approx(total / entries)
    assert model.score(log.rows) == pytest.approx(table.loc["model", "entry by entry"])
    assert -np.log(5 * 3 * 3 * 2) < total / entries < -2.5
    assert model.score(log.rows.iloc[:0]) != model.score(log.rows.iloc[:0])
    predicted = model.predict_fields()
    sums = predicted.groupby(["region", "month", "field"], observed=True)["probability"].sum()
    assert len(sums) == 4 * len(held)
    assert np.allclose(sums, 1)


def test_rows_beyond_the_cap_of_a_person_do_not_count(log):
    """One reporter floods the log; with a cap and the same key and noise two of those rows are in the release."""
    flood = log.rows.iloc[[0] * 500].assign(reporter=-1)
    how = {"person": "reporter", "rows_per_person": 2, "iterations": 2, "burn_in": 2}
    calm, flooded = (
        dg.PrivateHMM(2, DOMAIN, noise=dg.testing.SeededNoise(7), **how).fit(pd.concat([log.rows, extra]))
        for extra in (flood.iloc[:0], flood)
    )
    key = ("kind", "region", "month")
    assert (flooded.release_.value.tables[key] - calm.release_.value.tables[key]).sum() == 2
    assert flooded.release_.unit == dg.PrivacyUnit("add-remove", 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"domain": None}, "needs domain"),
        ({"sequence": "county"}, "sequence='county'"),
        ({"time": "year"}, "time='year'"),
        ({"time": "region"}, "two variables"),
        ({"n_states": 0}, "n_states"),
        ({"n_states": 1000}, "n_states must be at most the 288 cells"),
        ({"sampler": "gibbs"}, "sampler"),
        ({"inference": "exact"}, "inference"),
        ({"iterations": 0}, "iterations"),
        ({"burn_in": -1}, "burn_in"),
        ({"chains": True}, "chains"),
        ({"epsilon": 0}, "epsilon"),
        ({"person": "region"}, "person"),
        ({"person": "nobody"}, "nobody"),
        ({"rows_per_person": 2, "unit": dg.PrivacyUnit()}, "rows_per_person"),
        ({"person": "reporter", "rows_per_person": 2, "unit": dg.PrivacyUnit("replace", 2)}, "add-remove"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_charged(settings, message, log):
    unit = settings.pop("unit", None)
    rows = settings.get("rows_per_person", 1)
    budget = dg.Budget(10, unit=unit or dg.PrivacyUnit("add-remove", rows))
    model = dg.PrivateHMM(**{"n_states": 2, "domain": DOMAIN, "budget": budget, **QUICK, **settings})
    with pytest.raises((dg.errors.DomainError, dg.errors.InferenceError, dg.errors.ReleaseError), match=message):
        model.fit(log.rows)
    assert budget.spent == 0


@pytest.mark.parametrize(("column", "person"), [("region", None), ("month", None), ("month", "reporter")])
def test_an_undeclared_region_or_month_is_refused_without_naming_it(column, person, log):
    rows = log.rows.assign(**{column: "Atlantis"})
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match=column) as caught:
        dg.PrivateHMM(2, DOMAIN, person=person, budget=budget).fit(rows)
    assert "Atlantis" not in str(caught.value)
    assert budget.spent == 0


@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
@pytest.mark.parametrize(
    "case", ["one step", "one chain", "one level", "no rows", "one cell", "an empty chain", "as many states as cells"]
)
def test_small_and_empty_logs_are_fitted(case, sampler, inference):
    sizes = {"region": 2, "month": 3, "kind": 2}
    sizes |= {"one step": {"month": 1}, "one chain": {"region": 1}, "one level": {"kind": 1}}.get(case, {})
    sizes |= {"region": 1, "month": 1} if case == "one cell" else {}
    domain = dg.Domain.of({name: list(range(size)) for name, size in sizes.items()})
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({name: rng.integers(0, size, 50) for name, size in sizes.items()})
    rows = rows.iloc[:0] if case == "no rows" else rows
    rows = rows.assign(region=0) if case == "an empty chain" else rows
    states = {"one cell": 1, "as many states as cells": 6}.get(case, 2)
    model = dg.PrivateHMM(states, domain, sampler=sampler, inference=inference, iterations=5, burn_in=5)
    frame = model.fit(rows).predict()
    assert len(frame) == sizes["region"] * sizes["month"]
    assert np.isfinite(model.transition_.to_numpy()).all()
    assert model.diagnostics_["r_hat"] >= 0.9


def test_an_estimator_of_a_log_forecasts_and_samples_as_its_model_does():
    rng = np.random.default_rng(0)
    log = pd.DataFrame({name: rng.integers(1, 4, 300) for name in ("s", "m", "k")})
    levels = {name: [1, 2, 3] for name in log}
    model = dg.PrivateHMM(2, domain=levels, sequence="s", time="m", epsilon=50, chains=4, iterations=40, burn_in=20)
    with pytest.raises(NotFittedError):
        model.forecast()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(log)
    pd.testing.assert_frame_equal(model.forecast(2, interval=0.5), model.model_.forecast(2, interval=0.5))
    pd.testing.assert_frame_equal(model.sample(5, 1), model.model_.sample(5, 1))


def test_rows_of_nobody_are_not_capped_without_a_word(log):
    """Three rows of each person were neither dropped nor vouched for by a unit."""
    with pytest.raises(dg.errors.ReleaseError, match=r"rows_per_person=3 needs person=.*vouch for it by unit=Privacy"):
        dg.PrivateHMM(2, DOMAIN, rows_per_person=3, **QUICK).fit(log.rows)
    unit = dg.PrivacyUnit("replace", 3)
    quick = {"iterations": 4, "burn_in": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
        vouched = dg.PrivateHMM(2, DOMAIN, rows_per_person=3, unit=unit, **quick).fit(log.rows)
    assert vouched.release_.unit == unit
    assert vouched.release_.value.n == len(log.rows)
