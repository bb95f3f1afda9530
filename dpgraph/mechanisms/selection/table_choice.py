"""A choice of one table to measure: that which a public model explains worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpgraph.mechanisms.description_checks import check_any_tables
from dpgraph.mechanisms.reproduction import register_selection
from dpgraph.mechanisms.selection.table_scores import (
    BYTES_PER_CANDIDATE,
    BYTES_PER_TABLE,
    GRID,
    as_scores,
    check_noise,
    choice_scale,
    choices_event,
    fixed_range,
    fixed_score,
    penalty,
    share_of,
)
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, ReleaseError, exact
from dpgraph.statistics.table_counts import KEPT_CELLS, TableCounts
from dpgraph.structure.candidate_tables import AnyTables
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Family


@dataclass(frozen=True)
class TableChoice:
    """Chooses the table whose exact counts are furthest from public ones, or none.

    Sensitivity: the score of a table is half the L1 distance of its counts from ``expected``, which is public, less
    half the expected L1 norm of the noise it would be measured with, which is public too. A person's row moves a score
    by at most 1/2, or 1 where it is replaced, r rows by r times as much, and "none" has the score 0. So all scores
    move within an interval of twice that length, and a choice by the exponential mechanism at (that length) / epsilon
    is epsilon-DP and epsilon^2 / 8-zCDP (proofs.md P113).

    It is the choice of the adaptive mechanisms of McKenna, Mullins, Sheldon and Miklau 2022 (AIM), by counts that are
    never normalised.

    Args:
        epsilon: The whole budget, exact.
        expected: For each candidate, the counts that a public model expects, in the order of its variables.
        noise: The expected absolute noise of one cell if the table is measured, in rows; or that of each table.

    Raises:
        ReleaseError: If there is no candidate, counts or noise are not finite, or a setting is out of its range.

    >>> from dpgraph.structure.domain import Domain
    >>> choice = TableChoice(1, {("rain", "wet"): np.full((2, 2), 10.0)}, noise=2.0)
    >>> choice.event(AnyTables(Domain.of({"rain": [0, 1], "wet": [0, 1]})), PrivacyUnit()).epsilon
    Fraction(1, 1)
    """

    epsilon: Number
    expected: FrozenMap[Family, Reals]
    noise: float | FrozenMap[Family, float] = 0.0

    def __init__(
        self,
        epsilon: Number,
        expected: Mapping[Family, Reals],
        noise: float | Mapping[Family, float] = 0.0,
    ) -> None:
        object.__setattr__(self, "epsilon", exact(epsilon))
        if not isinstance(expected, Mapping):
            raise ReleaseError(f"expected has counts for each table; got {type(expected).__name__}")
        frozen = FrozenMap((_table(table), _counts(counts)) for table, counts in expected.items())
        for table, counts in frozen.items():
            if not (np.isfinite(counts).all() and np.abs(counts).sum() <= 2.0**40):
                raise ReleaseError(f"the expected counts of {', '.join(table)} must be finite, at most 2^40 together")
        if not frozen:
            raise ReleaseError("a choice needs at least one table")
        object.__setattr__(self, "expected", frozen)
        each = FrozenMap(noise) if isinstance(noise, Mapping) else noise
        if isinstance(each, FrozenMap) and set(each) != set(frozen):
            raise ReleaseError("noise has one number for each candidate, or one for all")
        for value in each.values() if isinstance(each, FrozenMap) else [each]:
            check_noise(value)
        object.__setattr__(self, "noise", each)

    def event(self, description: AnyTables, unit: PrivacyUnit) -> Event:
        """What a release would do: one selection.

        Raises:
            ReleaseError: If a candidate is no table of the domain, or epsilon is too small.
        """
        check_any_tables(description, self)
        for table, counts in self.expected.items():
            known = all(name in description.domain for name in table) and len(set(table)) == len(table)
            if not known or counts.shape != tuple(description.domain[name].size for name in table):
                raise ReleaseError(f"{', '.join(map(str, table))} with counts of shape {counts.shape} is no table here")
        epsilon = exact(self.epsilon)
        choice_scale(fixed_range(unit), epsilon)
        return choices_event("TableChoice", epsilon, "softmax", 1)

    def working_bytes(self, description: AnyTables) -> int:
        """About how much memory the choice takes: the scores of its candidates and their exact tables."""
        cells = min(KEPT_CELLS, sum(counts.size for counts in self.expected.values()))
        return len(self.expected) * (BYTES_PER_CANDIDATE + BYTES_PER_TABLE) + 8 * cells

    def randomise(self, statistics: TableCounts, unit: PrivacyUnit, noise: Noise) -> Family | None:
        """Chooses a table; None to measure none. ``release`` calls this after the charge."""
        scores: list[int] = []
        for table, counts in self.expected.items():
            here = self.noise if isinstance(self.noise, int | float) else self.noise[table]
            exact_score = fixed_score(statistics.sensitive_block(table, unit), counts)
            scores.append(exact_score - penalty(counts.size, here, GRID))
        chosen = noise.choose(as_scores(scores), choice_scale(fixed_range(unit), share_of(self.epsilon, 1)))
        return None if chosen == 0 else list(self.expected)[chosen - 1]

    def __repr__(self) -> str:
        return f"TableChoice(epsilon={str(self.epsilon)!r}, {len(self.expected)} tables)"


def _table(table: object) -> Family:
    """The variables of a table."""
    if not isinstance(table, tuple | list) or not table or not all(isinstance(name, str) for name in table):
        raise ReleaseError(f"a table is named by its variables, one at least; got {table!r:.60}")
    return tuple(table)


def _counts(counts: object) -> Reals:
    """Counts as real numbers."""
    try:
        return frozen_array(np.asarray(counts), np.float64)
    except (TypeError, ValueError):
        raise ReleaseError(f"expected counts are an array of numbers; got {type(counts).__name__}") from None


register_selection("TableChoice", AnyTables, draws=lambda tables, recorded: 1, event=choices_event)
