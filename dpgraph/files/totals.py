"""Totals that cannot be: what the noisy numbers of a release say of a public n.

Noise that sums to zero leaves every total at n exactly (``NoisyCounts``, ``NoisyMoments`` refuse another). Independent
noise leaves it near: P(|sum of K draws| >= t) is at most 2 (4/3)^K exp(-t / 2b) for discrete Laplace noise of scale b,
by Chernoff's bound at 1 / 2b, and 2 exp(-t^2 / (2 K s^2)) for discrete Gaussian noise of scale s (Canonne, Kamath and
Steinke 2020): each law says its own. A total further off than what happens once in 2^100 is refused.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from dpgraph.privacy.records import FileError, NoiseLaw, PrivacyUnit
from dpgraph.structure.basis import contrast_matrix, fixed_point
from dpgraph.structure.joint import JointCounts, PooledCounts
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.outcomes import NoisyOutcomes
from dpgraph.structure.tables import Integers, NoisyCoefficients, NoisyCounts

#: ln of 2 and of the chance of refusing a true total: once in 2^100.
NATS = 101 * math.log(2)


def reach(law: NoiseLaw, draws: int) -> float:
    """What the sum of so many draws stays within, but once in 2^100.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> round(reach(DiscreteLaplace(1.0), 1))
    141
    """
    return law.reach(draws, NATS)


@singledispatch
def check_total(noisy: Any) -> None:
    """Refuses a public n that noisy numbers contradict; values of which nothing is known pass.

    Raises:
        FileError: Naming the numbers that n does not fit.
    """


@check_total.register
def _check_counts(noisy: NoisyCounts) -> None:
    if noisy.n is None:
        return
    for key, table in noisy.tables.items():
        _check(key, abs(int(table.sum()) - noisy.n), reach(noisy.laws[key], table.size), noisy.n)


@check_total.register
def _check_coefficients(noisy: NoisyCoefficients) -> None:
    if noisy.n is None:
        return
    for block, values in noisy.blocks.items():
        _check_block(noisy, block, values, noisy.n)


@check_total.register(JointCounts)
@check_total.register(PooledCounts)
def _check_several(several: JointCounts | PooledCounts) -> None:
    for single in several.singles:
        check_total(single)


@check_total.register(NoisyMoments)
@check_total.register(NoisyOutcomes)
def _check_sums(noisy: NoisyMoments | NoisyOutcomes) -> None:
    if noisy.n is not None:
        low, high = noisy.description.row_limits(PrivacyUnit("replace"))
        away = np.maximum(noisy.n * low - noisy.sums, noisy.sums - noisy.n * high)
        _check(noisy.names, float(away.max(initial=0)), reach(noisy.law, 1), noisy.n)


def _check(names: tuple[str, ...], away: float, allowed: float, n: int) -> None:
    if away > allowed:
        raise FileError(f"n = {n} is not the number of rows behind the noisy numbers of {', '.join(names) or 'n'}")


def _check_block(noisy: NoisyCoefficients, block: tuple[str, ...], values: Integers, n: int) -> None:
    """Contrasts are at most n times their largest coefficient.

    Where parity counts were noised, n and the contrasts are even or odd together.
    """
    shape = noisy.network.shape(block)
    largest = fixed_point(shape, noisy.grid).astype(float)
    for axis, size in enumerate(shape):
        coefficients = np.abs(contrast_matrix(size)[1:]).max(axis=1)
        largest = largest * coefficients.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    away = np.abs(values - n) if not block else np.abs(values) - n * largest
    _check(block, float(away.max(initial=0)), noisy.step * reach(noisy.laws[block], 1), n)
    if noisy.step == 2 and ((values - n) % 2).any():
        _check(block, math.inf, 0, n)
