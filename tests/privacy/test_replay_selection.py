"""Replay (promise.md S7) for mechanisms that select: the same choices from other rows give the same bytes."""

import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
from dpgraph.mechanisms.selection.quantile import PrivateQuantile
from dpgraph.models.naive_bayes import NaiveBayesEnsemble
from tests.everything import everything

pytestmark = pytest.mark.usefixtures("budgets_of_one_name")

DOMAIN = dg.Domain.of({"y": ["n", "p"], "a": [0, 1, 2], "b": [0, 1], "only": ["x"]})
NETWORK = dg.naive_bayes_network(DOMAIN, "y")
MECHANISMS = [
    PosteriorSample(1, draws=3),
    PosteriorSample(1, draws=2, grid=7, prior=0.5),
    MapEstimate(1, grid=51),
    MapEstimate(1, grid=51, selector="exponential"),
]


def rows(seed, n):
    rng = np.random.default_rng(seed)
    y = rng.choice(["n", "p"], n, p=[0.3, 0.7])
    return pd.DataFrame({"y": y, "a": rng.integers(0, 3, n), "b": rng.integers(0, 2, n), "only": ["x"] * n})


class Replayed:
    """Answers with choices that do not look at the scores, and logs everything that does not hold the rows."""

    private = True

    def __init__(self):
        self.calls = []

    def _next(self, what, size, *public):
        self.calls.append((what, size, *public))
        return int(np.random.default_rng(len(self.calls)).integers(size))

    def choose(self, scores, scale):
        return self._next("choose", len(scores), scale)

    def flip(self, scores, scale):
        return self._next("flip", len(scores), scale)

    def choose_composition(self, scores, scale, size):
        first = [self._next("composition", scores.shape[1], scale, size, len(scores)) for _ in range(size)]
        rest = len(scores) - 1
        return np.array([[f, *([0] * (rest - 1)), scores.shape[1] - 1 - f] for f in first])


def downstream(rows_, unit, mechanism):
    noise, budget = Replayed(), dg.Budget(2, unit=unit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = dg.release(dg.count(rows_, NETWORK), mechanism, budget=budget, noise=noise)
        value = release.value if isinstance(release.value, tuple) else (release.value,)
        seen = [everything(release), repr(budget), json.dumps(document(release)), repr(noise.calls)]
        seen += [value[0].to_frame("a").to_csv(), dg.sample_rows(value[0], 30, np.random.default_rng(0)).to_csv()]
        codes = {name: np.arange(6) % DOMAIN.sizes[name] for name in DOMAIN.names}
        seen.append(repr(NaiveBayesEnsemble("y", value).predict_proba(codes).tolist()))
        try:
            dg.release(dg.count(rows_, NETWORK), MapEstimate(9), budget=budget, noise=noise)
        except dg.errors.BudgetExceededError as error:
            seen.append(str(error))
    return seen + [str(warning.message) for warning in caught]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_same_choices_give_the_same_bytes(mechanism, caplog):
    unit = dg.PrivacyUnit("replace")
    with caplog.at_level(logging.DEBUG):
        one = downstream(rows(1, 150), unit, mechanism)
        assert downstream(rows(2, 150), unit, mechanism) == one
    assert caplog.text == ""
    hidden = dg.PrivacyUnit("add-remove", 2)
    one = downstream(rows(1, 150), hidden, mechanism)
    assert downstream(rows(2, 731), hidden, mechanism) == one
    assert downstream(rows(3, 0), hidden, mechanism) == one


@pytest.mark.parametrize("unit", [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")], ids=str)
def test_quantiles(unit):
    mechanism = PrivateQuantile(1, [0.1, 0.9], (0, 100), grid=64)
    seen = []
    for seed, n in ((1, 50), (2, 50 if unit.n_is_public else 400)):
        noise, budget = Replayed(), dg.Budget(1, unit=unit)
        values = pd.DataFrame({"x": np.random.default_rng(seed).normal(0, 1000, n)})
        release = dg.release(dg.count(values, mechanism.network("x")), mechanism, budget=budget, noise=noise)
        seen.append([everything(release), repr(budget), repr(noise.calls)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_shapes_keys_and_order_do_not_depend_on_the_rows(mechanism):
    """promise.md S4, with real draws: the empty table, one row and many."""

    def skeleton(data):
        release = dg.release(dg.count(data, NETWORK), mechanism, budget=dg.Budget(1))
        value = release.value if isinstance(release.value, tuple) else (release.value,)
        return [(name, table.shape) for draw in value for name, table in draw.tables.items()], everything(release.event)

    assert skeleton(rows(1, 0)) == skeleton(rows(1, 1)) == skeleton(rows(1, 300))


def test_a_choice_that_fails_stays_charged():
    class Failing(Replayed):
        def choose(self, scores, scale):
            raise MemoryError

        choose_composition = flip = choose

    for mechanism in (PosteriorSample("0.4", grid=5), MapEstimate("0.4", grid=5)):
        budget = dg.Budget(1)
        with pytest.raises((MemoryError, TypeError)):
            dg.release(dg.count(rows(1, 5), NETWORK), mechanism, budget=budget, noise=Failing())
        assert budget.spent == budget.epsilon * 2 / 5
