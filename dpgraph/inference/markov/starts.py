"""Starting points of the samplers: mixtures fitted by expectation maximisation to the released statistics.

Random starts stick in modes thousands of nats worse; the best of several short fits does not.
"""

from __future__ import annotations

import numpy as np

from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.structure.tables import Integers, Reals

RESTARTS, STEPS = 12, 30
#: Of more cells so many are taken, evenly spread: a start need not be better.
ENOUGH = 5000


def entries_estimate(given: LogEvidence, values: Integers) -> Reals:
    """The number of entries of each cell, from the sums of its fields by inverse variance; at least 0."""
    weight = np.array([1 / (given.deviation[columns] ** 2).sum().clip(1e-12) for columns in given.fields])
    sums = np.stack([values[..., columns].sum(axis=-1) for columns in given.fields], axis=-1)
    return np.maximum(sums @ (weight / weight.sum()), 0.0)


def shrunken(given: LogEvidence, values: Integers) -> Reals:
    """Rough expected counts of each cell: the released ones, shape (chains, steps, columns), drawn towards the average.

    As far as the noise demands.
    """
    entries = np.where(given.observed, entries_estimate(given, values), 0.0)[..., None]
    counts = np.zeros(values.shape)
    for columns in given.fields:
        total = np.maximum(values[given.observed][:, columns].sum(axis=0), 0.5)
        expected = entries * (total / total.sum())
        gain = expected / (expected + given.deviation[columns] ** 2 + 1e-12)
        rough = np.maximum(expected + gain * (values[..., columns] - expected), 0.0)
        counts[..., columns] = rough * entries / np.maximum(rough.sum(axis=-1, keepdims=True), 1e-12)
    return counts


def fitted_emissions(counts: Reals, fields: tuple[slice, ...], size: int, rng: np.random.Generator) -> Reals:
    """The emissions of the best of several mixtures, shape (states, columns).

    ``counts`` of the observed cells are at least 0, shape (cells, columns); each mixture starts from random cells,
    larger ones more often.
    """
    if len(counts) > ENOUGH:
        counts = counts[np.linspace(0, len(counts) - 1, ENOUGH).astype(np.int64)]
    entries = counts[:, fields[0]].sum(axis=1)
    weight = (entries + 1e-3) / (entries + 1e-3).sum()
    pool = 1.0 + counts.sum(axis=0)
    picked = rng.choice(len(counts), size=(RESTARTS, size), p=weight)
    emissions = _normalised(counts[picked] + 0.05 * entries[picked][..., None] * pool / pool.sum() + 0.5, fields)
    best = np.zeros(RESTARTS)
    share = np.full((RESTARTS, 1, size), 1.0 / size)
    for _ in range(STEPS):
        joint = counts @ np.swapaxes(np.log(emissions), 1, 2) + np.log(share)
        top = joint.max(axis=2, keepdims=True)
        belonging = np.exp(joint - top)
        total = belonging.sum(axis=2, keepdims=True)
        best = (np.log(total) + top).sum(axis=(1, 2))
        belonging /= total
        share = belonging.mean(axis=1, keepdims=True) + 1e-6
        emissions = _normalised(np.swapaxes(belonging, 1, 2) @ counts + 0.5, fields)
    return emissions[best.argmax()]


def _normalised(counts: Reals, fields: tuple[slice, ...]) -> Reals:
    """Counts as probabilities, field by field."""
    shares = np.empty_like(counts)
    for columns in fields:
        shares[..., columns] = counts[..., columns] / counts[..., columns].sum(axis=-1, keepdims=True)
    return shares


def rounded_to_total(counts: Reals, entries: Integers) -> Integers:
    """Whole numbers near ``counts`` that sum to ``entries`` along the last axis."""
    share = (counts + 1e-9) / (counts + 1e-9).sum(axis=-1, keepdims=True)
    whole = np.floor(share * entries[..., None]).astype(np.int64)
    left = entries - whole.sum(axis=-1)
    order = np.argsort(np.argsort(whole - share * entries[..., None], axis=-1), axis=-1)
    return whole + (order < left[..., None])
