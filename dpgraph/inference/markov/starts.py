"""Where the chains of a hidden Markov model start: mixtures fitted by expectation maximisation to the released tables.

Random starts stick in modes thousands of nats worse. Where sequences have effects of their own the mixture has them
too: else its states are kinds of sequences, which chains take hundreds of sweeps to leave to the effects. Of many
mixtures the likeliest after a few steps are fitted on, and the likeliest of these is taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpgraph.inference.markov.evidence import Flags, LogEvidence
from dpgraph.structure.tables import Integers, Reals

#: Mixtures at first and steps of each, then those that are fitted on, and steps of these.
MANY, STEPS, FEW, MORE_STEPS = 80, 20, 16, 60
#: The most numbers of all mixtures together, and of mixtures at least.
MOST_NUMBERS, LEAST_MIXTURES = 1 << 21, 4
#: Of more cells so many are taken, evenly spread, and so many sequences: a start need not be better.
ENOUGH, SEQUENCES = 5000, 100
#: Steps in which the sequences that were left out get their effects.
LAST_STEPS = 5
#: Entries of each level that are added to those of a state; entries in proportions of all, to those of a sequence, and
#: before the first step; and what is left of an effect after each step.
IN_STATE, IN_SEQUENCE, BEFORE, KEPT = 0.5, 5.0, 20.0, 0.98


class Mixtures(NamedTuple):
    """Mixtures of states with effects of sequences, as in ``effects``.

    Attributes:
        laws: P(level | state) without effects, the fields side by side, shape (mixtures, states, columns).
        effects: Of each sequence on each level's log weight, shape (mixtures, sequences, columns).
        shares: P(state), shape (mixtures, states).
    """

    laws: Reals
    effects: Reals
    shares: Reals

    def of(self, which: Integers) -> Mixtures:
        """The mixtures of these numbers."""
        return Mixtures(*(part[which] for part in self))


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


def fitted_mixture(
    counts: Reals, observed: Flags, fields: tuple[slice, ...], size: int, rng: np.random.Generator, *, effects: bool
) -> tuple[Reals, Reals]:
    """The laws of the likeliest of several mixtures, shape (states, columns), and effects, shape (sequences, columns).

    ``counts`` of the ``observed`` cells are at least 0, shape (sequences, steps, columns). Without ``effects`` these
    are 0. Each mixture starts from random cells, larger ones more often.
    """
    counts = np.where(observed[..., None], counts, 0.0)
    sequences, _, width = counts.shape
    if not effects:
        counts, observed = counts.reshape(1, -1, width), observed.reshape(1, -1)
    many, *spread = _taken(counts.shape, size)
    rows, columns = (_evenly(*one) for one in zip(counts.shape, spread, strict=False))
    if not observed[np.ix_(rows, columns)].any():
        rows, columns = (np.arange(many) for many in observed.shape)
    some = counts[np.ix_(rows, columns)], observed[np.ix_(rows, columns)]
    found = _first(*some, fields, size, many, rng)
    found = _fitted(found, *some, fields, STEPS, FEW, effects)
    found = _fitted(found, *some, fields, MORE_STEPS, 1, effects)
    if len(rows) < len(counts):
        whole = found._replace(effects=_own(counts, fields)[None])
        found = _fitted(whole, counts, observed, fields, LAST_STEPS, 1, effects)
    return found.laws[0], found.effects[0] if effects else np.zeros((sequences, width))


def start_numbers(shape: tuple[int, int], width: int, states: int, *, effects: bool) -> int:
    """The most numbers of one array of a start: of all mixtures at first, or of one and all cells at last."""
    shape = shape if effects else (1, math.prod(shape))
    many, rows, columns = _taken((*shape, width), states)
    last = shape[0] * (shape[1] + width) if rows < shape[0] else 0
    return states * max(many * rows * (columns + width), last)


def _taken(shape: tuple[int, ...], states: int) -> tuple[int, int, int]:
    """How many mixtures are fitted at first to how many sequences and steps; ``shape`` is the counts'."""
    rows = min(shape[0], SEQUENCES)
    columns = min(shape[1], max(1, ENOUGH // rows))
    many = MOST_NUMBERS // (states * rows * (columns + shape[2]))
    return min(max(many, LEAST_MIXTURES), MANY), rows, columns


def _evenly(size: int, many: int) -> Integers:
    """As many indices as asked for, evenly spread from 0 to ``size`` - 1."""
    return np.linspace(0, size - 1, many).astype(np.int64)


def _own(counts: Reals, fields: tuple[slice, ...]) -> Reals:
    """The effects of sequences were there one state."""
    pooled = _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    mine = counts.sum(axis=1)
    return np.log(_shares(mine + BEFORE * pooled, fields) / pooled) if len(counts) > 1 else np.zeros_like(mine)


def _first(
    counts: Reals, observed: Flags, fields: tuple[slice, ...], size: int, many: int, rng: np.random.Generator
) -> Mixtures:
    """The first mixtures: each law is the average of a random cell's and of all cells'.

    Every second mixture begins without effects, the others with the effects of one state, as sequences differ both by
    the states that they are in and by themselves.
    """
    own, pooled = _own(counts, fields), _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    places = np.argwhere(observed)
    weight = counts[..., fields[0]].sum(axis=2)[observed] + 1e-3
    picked = places[rng.choice(len(places), size=(many, size), p=weight / weight.sum())]
    rows, columns = picked[..., 0], picked[..., 1]
    effects = np.arange(many)[:, None, None] % 2 * own
    mine = counts[rows, columns] / np.exp(effects[np.arange(many)[:, None], rows])
    laws = 0.5 * (_shares(mine + IN_STATE, fields) + pooled)
    return Mixtures(laws, effects, np.full((many, size), 1 / size))


def _fitted(
    found: Mixtures, counts: Reals, observed: Flags, fields: tuple[slice, ...], steps: int, kept: int, effects: bool
) -> Mixtures:
    """Mixtures after some steps of expectation maximisation, the ``kept`` likeliest of them.

    Given the cells' states a step scales the weight of each level by its entries over those expected, of a state and
    then of a sequence, which raises the likelihood (iterative scaling; Darroch and Ratcliff 1972).
    """
    entries, likely = counts[..., fields[0]].sum(axis=2), np.zeros(len(found.laws))
    mine, pooled = counts.sum(axis=1), _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    levels = np.concatenate([np.full(columns.stop - columns.start, columns.stop - columns.start) for columns in fields])
    for _ in range(steps):
        laws = _laws(found, fields)
        belongs = counts @ np.swapaxes(np.log(laws), 2, 3)
        belongs += np.log(found.shares)[:, None, None]
        top = belongs.max(axis=3, keepdims=True)
        np.exp(np.subtract(belongs, top, out=belongs), out=belongs)
        total = belongs.sum(axis=3, keepdims=True)
        likely = (np.log(total) + top)[:, observed].sum(axis=(1, 2))
        belongs *= observed[..., None] / total
        of_states = np.swapaxes(belongs, 2, 3) @ entries[..., None]  # (mixtures, sequences, states, 1)
        in_state = np.tensordot(belongs, counts, axes=([1, 2], [0, 1])) + IN_STATE
        expected = (of_states * laws).sum(axis=1) + IN_STATE * levels * found.laws
        shares = belongs.sum(axis=(1, 2)) / observed.sum() + 1e-6
        found = Mixtures(_shares(found.laws * in_state / expected, fields), found.effects, shares)
        if effects:
            expected = (of_states * _laws(found, fields)).sum(axis=2)
            moved = found.effects + np.log((mine + IN_SEQUENCE * pooled) / (expected + IN_SEQUENCE * pooled))
            found = found._replace(effects=KEPT * moved)
    return found.of(np.argsort(-likely)[:kept])


def _laws(found: Mixtures, fields: tuple[slice, ...]) -> Reals:
    """P(level | sequence, state), shape (mixtures, sequences, states, columns)."""
    return np.maximum(_shares(found.laws[:, None] * np.exp(found.effects)[:, :, None], fields), 1e-300)


def rounded_to_total(counts: Reals, entries: Integers) -> Integers:
    """Whole numbers near ``counts`` that sum to ``entries`` along the last axis."""
    share = (counts + 1e-9) / (counts + 1e-9).sum(axis=-1, keepdims=True)
    whole = np.floor(share * entries[..., None]).astype(np.int64)
    left = entries - whole.sum(axis=-1)
    order = np.argsort(np.argsort(whole - share * entries[..., None], axis=-1), axis=-1)
    return whole + (order < left[..., None])


def _shares(counts: Reals, fields: tuple[slice, ...]) -> Reals:
    """Counts as probabilities, field by field."""
    shares = np.empty_like(counts)
    for columns in fields:
        shares[..., columns] = counts[..., columns] / counts[..., columns].sum(axis=-1, keepdims=True)
    return shares
