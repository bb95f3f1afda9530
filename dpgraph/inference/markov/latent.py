"""The true cells of an event log as latent variables, and the first step sizes of their moves, which are in ``loops``.

A cell holds N entries, each with one level of every field. Given its state the tables of its fields are multinomial
with N shared; N is geometric with a rate of its chain. The emission law proposes, so only the noise law decides.

Chains start at mixtures fitted by expectation maximisation to the released tables: random starts stick in modes
thousands of nats worse, the best of several short fits does not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpgraph.inference.interruption import heed
from dpgraph.inference.markov import loops
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.structure.tables import Integers, Reals

#: Mixtures that are fitted for a start, and steps of each.
RESTARTS, STEPS = 12, 30
#: Of more cells so many are taken, evenly spread: a start need not be better.
ENOUGH = 5000


def latent_cells(
    given: LogEvidence,
    states: int,
    start: Integers,
    alike: npt.NDArray[np.int32] = loops.ALL_DIFFER,
    stop: Integers = loops.NEVER,
) -> loops.Cells:
    """The cells of one sampler chain, which begin at ``start``, shape (chains, steps, columns); of one release copy.

    ``alike`` is of ``alike_cells``; compiled loops end early once ``stop`` is not 0.
    """
    cells, width, fields = given.observed.size, start.shape[-1], len(given.fields)
    return loops.Cells(
        np.where(given.observed[..., None], start, 0).reshape(cells, width).astype(np.int64),
        given.values[0].reshape(cells, width).copy(),
        given.observed.ravel(),
        np.array([0, *(columns.stop for columns in given.fields)], np.int64),
        given.absolute,
        given.squares,
        stay=np.full(cells, -1e-3),
        share=np.full((2, cells, fields), 0.3),
        most=np.full(cells, max(1.0, float(given.deviation.mean()))),
        reach=np.full((states, fields), 0.05),
        tally=np.zeros(2 * len(loops.MOVES)),
        alike=alike,
        stop=stop,
    )


def alike_cells(released: Integers, squares: Reals) -> npt.NDArray[np.int32]:
    """Numbers of cells, the same where the noise law is the same, up to a factor, for each block of numbers of entries.

    Laplace noise does not tell values below 0 apart, nor values above the most entries of the block (proofs.md P125).

    Args:
        released: Shape (..., columns).
        squares: The cost of a unit of noise^2, shape (columns,).

    Returns:
        A number that alike cells share, shape (ways to cut, blocks, cells).
    """
    import pandas as pd

    values, found = released.reshape(-1, released.shape[-1]), {}
    for last in set(loops.BLOCKS.ravel().tolist()):
        heed()
        told = pd.DataFrame(np.where(squares > 0, values, np.clip(values, 0, last)))
        found[last] = told.groupby(list(told), sort=False).ngroup().to_numpy(np.int32)
    return np.stack([np.stack([found[last] for last in ends]) for ends in loops.BLOCKS.tolist()])


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
