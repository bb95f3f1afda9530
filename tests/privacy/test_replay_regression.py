"""Replay (promise.md S7) of a regression's moments: the same released integers of other rows give the same bytes."""

import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from tests.everything import everything
from tests.privacy.test_replay import Replayed

pytestmark = pytest.mark.usefixtures("budgets_of_one_name")

FEATURES = {"age": dg.Bounded(18, 90, missing=40), "sex": ["F", "M"], "area": ["N", "E", "S"]}
MECHANISMS = [dg.LaplaceMechanism(1), dg.GaussianMechanism(1, "1e-6")]


def rows(seed, n, nulls=False):
    """Rows that clip, that have missing ages and, where asked for, null outcomes."""
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(20 * seed, 30, n))
    wage = np.where(nulls & (rng.random(n) < 0.2), np.nan, rng.normal(seed, 9, n))
    sex = rng.choice(["F", "M"], n, p=[0.9, 0.1] if seed == 1 else [0.2, 0.8])
    return pd.DataFrame({"age": age, "sex": sex, "area": rng.choice(list("NES"), n), "wage": wage})


def seen(table, unit, mechanism, on_missing):
    """All that a user or an attacker can see of a release, as text."""
    design, noise = dg.LinearDesign(FEATURES, "wage", (0, 10), on_missing=on_missing), Replayed(0)
    budget = dg.Budget(3, delta="1e-5", unit=unit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moments = dg.statistics.regression_moments(table, design)
        noisy = dg.release(moments, mechanism, budget=budget, noise=noise)
        value = noisy.value
        seen = [
            repr(moments),
            everything(noisy),
            repr(budget),
            everything(noisy.provenance),
            json.dumps(document(noisy)),
        ]
        seen += [repr(design.matrix(value.values, 1.0 if value.n is None else value.n).tolist()), repr(value.scales)]
        with pytest.raises(dg.errors.BudgetExceededError) as refused:
            dg.release(moments, dg.LaplaceMechanism(9), budget=budget, noise=noise)
    return [*seen, str(refused.value), repr(noise.calls), *(str(warning.message) for warning in caught)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["laplace", "gaussian"])
def test_only_the_released_integers_are_seen(mechanism, caplog):
    with caplog.at_level(logging.DEBUG):
        unit = dg.PrivacyUnit("replace")
        assert seen(rows(1, 200), unit, mechanism, "error") == seen(rows(2, 200), unit, mechanism, "error")
    assert not caplog.records


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("n", [0, 37, 70_000])
def test_under_add_remove_not_even_the_number_of_rows_or_of_dropped_ones(mechanism, n):
    unit = dg.PrivacyUnit("add-remove")
    first = seen(rows(1, 200, nulls=True), unit, mechanism, "drop")
    assert seen(rows(2, n), unit, mechanism, "drop") == first
    assert seen(rows(2, n, nulls=True), unit, mechanism, "drop") == first


@pytest.mark.parametrize("unit", [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")], ids=str)
def test_the_noise_is_asked_once_for_all_sums_with_the_recorded_law(unit):
    design, noise = dg.LinearDesign(FEATURES, "wage", (0, 10)), Replayed(0)
    noisy = dg.release(
        dg.statistics.regression_moments(rows(1, 50), design),
        MECHANISMS[0],
        budget=dg.Budget(1, unit=unit),
        noise=noise,
    )
    size = len(design.names) + (not unit.n_is_public)
    assert noise.calls == [(repr(noisy.value.law), (size,), "int64")]
