"""Replay (promise.md S7) of what is learned past the tables: hidden Markov models, classifiers, exponential families.

Different rows that happen to release the same integers must give the same bytes, and the same noise calls.
"""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from tests.everything import everything
from tests.privacy import test_replay

pytestmark = [
    pytest.mark.usefixtures("budgets_of_one_name"),
]

DOMAIN = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b", "c"], "night": [0, 1]})


class Replayed(test_replay.Replayed):
    """Estimators copy their noise source; this one stays itself, so that its log of calls is kept."""

    def __deepcopy__(self, memo):
        return self


def log(seed, n, people=None):
    rng = np.random.default_rng(seed)
    weights = {1: {}, 2: {"region": [0.9, 0.1], "kind": [0.1, 0.1, 0.8]}}[seed]
    columns = {v: rng.choice(DOMAIN.levels(v), n, p=weights.get(v)) for v in DOMAIN.names}
    frame = pd.DataFrame(columns).astype({"month": int, "night": int})
    return frame if people is None else frame.assign(who=rng.integers(0, people, n))


def seen_by_hmm(frame, **settings):
    noise = Replayed(200)

    model = dg.PrivateHMM(2, DOMAIN, 1, iterations=8, burn_in=8, chains=2, noise=noise, **settings).fit(frame)
    texts = [everything(model.release_), everything(model.model_), repr(noise.calls), model.predict().to_csv()]
    return [*texts, model.transition_.to_csv(), json.dumps(document(model.model_)), repr(model.diagnostics_)]


@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
def test_a_hidden_markov_model_sees_the_release_alone(inference):
    assert seen_by_hmm(log(1, 200), inference=inference) == seen_by_hmm(log(2, 200), inference=inference)


@pytest.mark.parametrize("rows", [0, 37, 950])
def test_with_persons_not_even_the_number_of_rows(rows):
    settings = {"person": "who", "rows_per_person": 2}
    first = seen_by_hmm(log(1, 200, people=60), **settings)
    assert seen_by_hmm(log(2, rows, people=500), **settings) == first


@pytest.mark.proof
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("method", ["gibbs", "plug-in"])
def test_an_exponential_family_sees_the_release_alone(method, neighbours):
    family, unit = dg.expfam.Poisson(), dg.PrivacyUnit(neighbours)

    def seen(x):
        moments, noise = dg.statistics.sufficient_statistics(x, family, bounds=(0, 9)), Replayed(0)
        budget = dg.Budget(1, unit=unit)
        noisy = dg.release(moments, dg.LaplaceMechanism(1), budget=budget, noise=noise)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            drawn = dg.posterior(noisy, prior=family.prior(2, 1), method=method, draws=64, seed=1)
        texts = [repr(moments), everything(noisy), repr(budget), repr(noise.calls), drawn.to_frame().to_csv()]
        return [*texts, json.dumps(document(noisy)), *(str(warning.message) for warning in caught)]

    others = [[1] * 50, [9, 0] * 25] if unit.n_is_public else [[1] * 50, [9, 0] * 300, []]
    assert all(seen(x) == seen([4] * 50) for x in others)
