"""Laws of sequences, later times and numbers of entries, and likely paths of states, from arrays alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.structure.domain import Level
from dpgraph.structure.tables import Integers, Reals

#: Weights of a step beside that of the next, and sizes of negative binomial laws, that a forecast of counts tries.
KEPT, SIZES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9), np.exp(np.linspace(-2, 5, 36)).tolist()
#: The least mean of a count.
LEAST = 0.1


def sequence_laws(emission: Reals, effects: Reals | None) -> Reals:
    """P(level | sequence, state), proportional to the state's law times e^effect (proofs.md P78).

    >>> sequence_laws(np.array([[[0.5, 0.5]]]), np.log([[[1.0, 3.0]]])).round(2).tolist()
    [[[[0.25, 0.75]]]]
    """
    if effects is None:
        return emission[:, None]
    weight = emission[:, None] * np.exp(effects - effects.max(axis=-1, keepdims=True))[:, :, None]
    return weight / weight.sum(axis=-1, keepdims=True)


def later_times(levels: Sequence[Level], steps: int) -> list[Any]:
    """The times after the last level of evenly spaced numbers or dates; else that level + 1, + 2 and so on.

    >>> later_times(("2023-11", "2023-12"), 2)
    ['2024-01', '2024-02']
    """
    import pandas as pd

    if all(isinstance(level, int) and not isinstance(level, bool) for level in levels):
        gaps = set(np.diff(np.array(levels, np.int64)).tolist())
        if len(gaps) == 1:
            (gap,) = gaps
            return [int(levels[-1]) + gap * step for step in range(1, steps + 1)]
    for form, unit in (("%Y-%m", "M"), ("%Y-%m-%d", "D")):
        dates = pd.to_datetime(pd.Series(levels, dtype=object).astype(str), format=form, errors="coerce")
        numbers = dates.dt.to_period(unit).astype("int64").diff().iloc[1:]
        if dates.notna().all() and numbers.nunique() == 1:
            last, gap = dates.iloc[-1].to_period(unit), int(numbers.iloc[0])
            return [(last + gap * step).strftime(form) for step in range(1, steps + 1)]
    return [f"{levels[-1]} + {step}" for step in range(1, steps + 1)]


def count_law(entries: Reals, ahead: int) -> tuple[Reals, float]:
    """The mean and the size of the negative binomial law of each sequence's number of entries some steps ahead.

    Earlier steps weigh less; weights and spread, the same for all sequences, forecast the past steps best.
    """
    steps, levels = np.arange(entries.shape[1]), []
    age = steps[:, None] - steps
    for kept in KEPT:
        weight = np.where(age >= 0, kept ** np.maximum(age, 0), 0.0)
        weight /= weight.sum(axis=1, keepdims=True)
        levels.append(np.maximum(entries @ weight.T, LEAST))
    made, later = slice(1, entries.shape[1] - ahead), slice(1 + ahead, None)
    fits = [nbinom_logpmf(entries[:, later], mean[:, made], size) for mean in levels for size in SIZES]
    at, size = divmod(int(np.argmax(fits)), len(SIZES))
    return levels[at][:, -1], SIZES[size]


def nbinom_logpmf(value: Reals, mean: Reals, size: float) -> float:
    """The sum of ln P of values, whole numbers or not, by negative binomial laws of variance mean + mean^2 / size."""
    from scipy.special import gammaln

    log = gammaln(value + size) - gammaln(size) - gammaln(value + 1) + value * np.log(mean / (mean + size))
    return float((log + size * np.log(size / (mean + size))).sum())


def most_likely_paths(states: Integers, size: int) -> Integers:
    """The path of highest probability of each sequence under the chain of its pairs of neighbouring states.

    An approximation, since the posterior is a mixture of such chains (Viterbi; Rabiner 1989, III.B; proofs.md P116).

    >>> paths = np.array([[[0, 0, 1]], [[0, 0, 1]], [[1, 0, 0]]])
    >>> most_likely_paths(paths, 2)
    array([[0, 0, 1]])
    """
    _, sequences, steps = states.shape
    with np.errstate(divide="ignore"):
        score = np.log(np.stack([(states[:, :, 0] == k).mean(axis=0) for k in range(size)], axis=1))
        before = np.zeros((steps, sequences, size), np.int64)
        for t in range(1, steps):
            pairs = np.zeros((sequences, size, size))
            np.add.at(pairs, (np.arange(sequences)[None], states[:, :, t - 1], states[:, :, t]), 1.0)
            total = score[:, :, None] + np.log(pairs / np.maximum(pairs.sum(axis=2, keepdims=True), 1.0))
            before[t], score = total.argmax(axis=1), total.max(axis=1)
    paths = np.zeros((sequences, steps), np.int64)
    paths[:, -1] = score.argmax(axis=1)
    for t in range(steps - 1, 0, -1):
        paths[:, t - 1] = before[t, np.arange(sequences), paths[:, t]]
    return paths
