"""Public models that are sure of themselves: right in some rows and wrong in others, at the ends of every loss."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

import dpgraph as dg


def classifier(domain: dg.Domain, target: str) -> dg.results.NaiveBayes:
    """Naive Bayes of two classes and one feature of two levels, each of which tells its class for certain."""
    network = dg.naive_bayes_network(domain, target)
    tables = {name: np.eye(2) if network.parents[name] else np.full(2, 0.5) for name in domain.names}
    return dg.results.NaiveBayes(target, dg.Probabilities(network, tables))


def regression(low: float, high: float) -> dg.papers.SampledRegressionModel:
    """The target is said to be what the one feature is."""
    design = dg.LinearDesign({"x": (low, high)}, "y", (low, high))
    weights = np.array([[0.0, 1.0]])  # of the intercept and the feature
    return dg.papers.SampledRegressionModel(dg.papers.SampledWeights(design, weights, radius=2.0, precision=1.0))


@cache
def fitted_regression(low: float, high: float) -> dg.results.LinearRegressionModel:
    """The same of one that a file can hold, learned from points on the diagonal with hardly any noise."""
    x = np.repeat([low, high], 50)
    settings = {"inference": "plug-in", "draws": 5, "noise": dg.testing.SeededNoise(0)}
    return (
        dg.PrivateLinearRegression({"x": (low, high)}, (low, high), 10**5, **settings)
        .fit(x[:, None], pd.Series(x, name="y"))
        .model_
    )


def entries(log: dg.Domain, sequence: str, time: str) -> dg.results.HiddenMarkovModel:
    """One state, in which the first level of every field is certain."""
    network = dg.hmm_network(log, sequence, time)
    fields = [name for name in log.names if name not in (sequence, time)]
    return dg.results.HiddenMarkovModel(
        network=network,
        sequence=sequence,
        time=time,
        transition=np.ones((1, 1, 1, 1)),
        emissions={name: np.eye(1, log.sizes[name]).reshape(1, 1, 1, -1) for name in fields},
        states=np.zeros((1, 1, log.sizes[sequence], log.sizes[time]), int),
        log_joint=np.zeros((1, 1)),
        entries=np.ones((log.sizes[sequence], log.sizes[time])),
        inference="noise-aware",
        sampler="blocked",
    )
