"""Inverse questions of a price: which epsilon, or how many rows, for a given error of every family's table.

The error is the expected total variation error of a family's margin by the noise alone, the largest over families
(``expected.expected_variation``). It falls with the number of rows and grows with the noise, so both answers are found
by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dpgraph.analysis.expected import expected_variation
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.network import Family

#: The most rows, and the least and greatest factor of the noise, that are tried.
MOST_ROWS, REACH = 1e15, 1e9

#: Bisections in logarithms, which halve an interval to a millionth.
STEPS = 60


def worst_error(shares: Mapping[Family, Reals], rmse: Mapping[Family, float], n: float) -> float:
    """The largest expected total variation error of any family.

    Args:
        shares: The margin of each family, summing to 1.
        rmse: The standard error of one cell of each family, in rows.
        n: The number of rows.
    """
    return max(expected_variation(share * n, rmse[family]) / n for family, share in shares.items())


def rows_needed(shares: Mapping[Family, Reals], rmse: Mapping[Family, float], error: float) -> float:
    """The number of rows from which on no family errs by more; infinite where none suffices."""
    return _smallest(lambda n: worst_error(shares, rmse, n) <= error, 1.0, MOST_ROWS)


def noise_allowed(shares: Mapping[Family, Reals], rmse: Mapping[Family, float], error: float, n: float) -> float:
    """The factor by which the noise may grow, or must shrink if below 1, so that no family errs by more."""

    def within(shrunk: float) -> bool:
        return worst_error(shares, {family: one / shrunk for family, one in rmse.items()}, n) <= error

    return 1 / _smallest(within, 1 / REACH, REACH)


def checked_error(error: object) -> float:
    """An error to reach.

    Raises:
        ReleaseError: If it is no number between 0 and 1.
    """
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise ReleaseError(f"error must be a number between 0 and 1, a total variation; got {error!r:.60}")
    return float(error)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number of an interval from which on something holds; infinite where it does not at its end."""
    if holds(low):
        return low
    if not holds(high):
        return math.inf
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
