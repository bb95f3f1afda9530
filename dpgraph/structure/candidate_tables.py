"""What choices of tables look at: any table of a domain, and the public margins that exact tables are held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np

from dpgraph.privacy.arrays import Integers, Reals
from dpgraph.privacy.checks import is_whole
from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.structure.domain import Domain, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family

#: Shares of a margin are whole multiples of one part in this many.
PARTS = 1 << 20

#: The most cells of a table that a choice counts.
MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class AnyTables:
    """Every table of a domain: what a mechanism that chooses among tables reads, and no mechanism releases as it is."""

    domain: Domain

    def cells(self, table: Iterable[str]) -> int:
        """How many cells the table over some variables has."""
        names = list(table)
        return prod(self.domain[name].size for name in names)

    def blocks(self, unit: PrivacyUnit) -> NoReturn:
        """Refused: nothing of it is measured."""
        raise ReleaseError("tables to choose from are not released; count(rows, network) has those that are measured")


@dataclass(frozen=True)
class OneWays:
    """Public margins of every variable and a public number of rows, or an estimate of it, in whole numbers.

    ``weights`` are for each variable the share of each level, in parts of ``PARTS``; they sum to it.

    >>> OneWays.of({"rain": [30.2, 9.8]}, 40.3)
    OneWays(1 variables, 40 rows)
    """

    weights: FrozenMap[str, tuple[int, ...]]
    rows: int

    def __post_init__(self) -> None:
        for name, shares in self.weights.items():
            if not all(is_whole(share) for share in shares) or sum(shares) != PARTS:
                raise NetworkError(f"the shares of {name!r} are whole numbers that sum to {PARTS}")
        if not is_whole(self.rows, most=1 << 40):
            raise NetworkError(f"rows must be a whole number, at most 2^40; got {self.rows!r:.60}")

    @classmethod
    def of(cls, margins: Mapping[str, Reals | Iterable[float]], rows: float) -> OneWays:
        """From public margins, such as noisy counts: what is below zero counts as zero, and shares are rounded."""
        weights = FrozenMap((name, _shares(np.asarray(margin, float))) for name, margin in margins.items())
        return cls(weights, max(0, round(rows)))

    def share(self, name: str) -> Integers:
        """The shares of one variable."""
        return np.array(self.weights[name], np.int64)

    def product(self, table: Family) -> Reals:
        """The counts that a table would have were its variables independent, shape of its levels."""
        counts = np.array(float(self.rows))
        for name in table:
            counts = np.multiply.outer(counts, self.share(name) / PARTS)
        return counts

    def __repr__(self) -> str:
        return f"OneWays({len(self.weights)} variables, {self.rows} rows)"


def _shares(margin: Reals) -> tuple[int, ...]:
    """Shares of ``PARTS``, the nearest whole numbers that sum to it: the largest takes what rounding leaves."""
    if margin.ndim != 1 or not margin.size or not np.isfinite(margin).all():
        raise NetworkError("a margin is a list of finite numbers, one for each level")
    positive = np.maximum(margin, 0.0)
    total = positive.sum()
    shares = np.rint((positive / total if total > 0 else np.full(margin.shape, 1 / margin.size)) * PARTS).astype(int)
    shares[shares.argmax()] += PARTS - shares.sum()
    return tuple(shares.tolist())
