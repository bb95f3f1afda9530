"""Expected scores of classifiers before any rows: each plan is fitted to rows of random public worlds.

In a world each feature depends on the target and on one earlier feature. The logarithms of its probabilities are
normal: those of the target's part with a standard deviation of ``STRENGTH`` over the root of the number of features,
times a factor for each feature, those of the other's part with 1. Nothing reads rows of anyone.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.estimators.learning import learn_network
from dpgraph.estimators.naive_bayes import PrivateNaiveBayes
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.weighted import logistic, softmax
from dpgraph.privacy.records import exact_delta
from dpgraph.structure.domain import Domain

if TYPE_CHECKING:
    import pandas as pd

#: The strengths of dependence, one for each world; rows to judge by; parts of epsilon that are tried; and a point.
STRENGTHS, HELD, PARTS, POINT = (1.0, 3.0), 10_000, (Fraction(1, 10), Fraction(3, 10), Fraction(1)), 0.01
#: At most so many rows are drawn: more are stood for by as many times more epsilon, for noise is told by n epsilon.
MOST_ROWS = 10_000


def world(domain: Domain, target: str, strength: float, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Codes of rows of one random world."""
    features = [name for name in domain.names if name != target]
    labels = domain.sizes[target]
    found = {target: rng.choice(labels, rows, p=rng.dirichlet(np.full(labels, 5.0)))}
    for i, name in enumerate(features):
        size, one = domain.sizes[name], features[rng.integers(i)] if i else None
        scale = strength * rng.exponential() / len(features) ** 0.5
        logs = (scale * rng.standard_normal((labels, size)))[found[target]]
        if one is not None:
            logs += rng.standard_normal((domain.sizes[one], size))[found[one]]
        found[name] = (softmax(logs).cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=size - 1)
    return found


def expected_scores(model: Any, domain: Domain, target: str, epsilon: Fraction, n: int, seed: int) -> pd.DataFrame:
    """The scores of naive Bayes, the classifier and a learned network of n rows: the mean over the worlds."""
    import pandas as pd

    rows = min(n, MOST_ROWS)
    made: list[tuple[Any, ...]] = []
    for i, strength in enumerate(STRENGTHS):
        codes = world(domain, target, strength, rows + HELD, np.random.default_rng((seed, i)))
        held = {name: column[rows:] for name, column in codes.items()}
        train = {name: column[:rows] for name, column in codes.items()}
        frame = pd.DataFrame({name: np.asarray(domain.levels(name), object)[train[name]] for name in domain.names})
        exact = softmax(logistic(domain, target, train).of_rows({name: held[name] for name in domain.names}))
        made.append(("no privacy", np.inf, *_scores(exact, held[target])))
        for part in PARTS:
            for plan, fitted in _fitted(model, domain, target, epsilon * part * n / rows, frame).items():
                found = _scores(fitted.predict_proba(held), held[target])
                made.append((plan, float(epsilon * part), *found))
    table: Any = pd.DataFrame(made, columns=["plan", "epsilon", "accuracy", "log_loss"])
    table = table.groupby(["epsilon", "plan"], as_index=False)[["accuracy", "log_loss"]].mean()
    best = table.loc[table["plan"] == "no privacy", "accuracy"].iloc[0]
    return table.assign(within_a_point=table["accuracy"] >= best - POINT)


def _fitted(model: Any, domain: Domain, target: str, epsilon: Fraction, frame: Any) -> dict[str, Any]:
    """The fitted plans by name; each charges a budget of its own, of rows that nobody owns."""
    from sklearn.base import clone

    unit = model.budget.unit if model.budget is not None else model.unit
    features, label = frame.drop(columns=target), frame[target]
    delta = exact_delta(model.delta)
    how: Any = GaussianMechanism(epsilon, delta) if delta else "laplace"
    naive = PrivateNaiveBayes(domain, epsilon, how, "plug-in", target=target, unit=unit)
    judged: Any = clone(model)
    judged.set_params(domain=domain, target=target, epsilon=epsilon, budget=None, unit=unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = learn_network(frame, domain, epsilon=epsilon, delta=delta, unit=unit).probabilities
        return {
            "naive Bayes": naive.fit(features, label).model_,
            "PrivateClassifier": judged.fit(features, label).model_,
            "network": ConditionalClassifier(target, network),
        }


def _scores(probabilities: Any, truth: Any) -> tuple[float, float]:
    """The accuracy and the log-loss."""
    right = probabilities.argmax(axis=1) == truth
    return float(right.mean()), float(-np.log(np.maximum(probabilities[np.arange(len(truth)), truth], 1e-12)).mean())
