"""The sums of several disjoint groups of the same rows, made in one pass as one vector.

Law: the part of a group is the vector that its own tally makes of the same rows (proofs.md P124). Where a cap keeps
some rows of each person, these are chosen once, of all rows, and the groups are counted from that one choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.persons import PersonTally
from dpgraph.statistics.rows.batches import Batch, Declared
from dpgraph.statistics.rows.kept import Flags


@dataclass(frozen=True)
class Grouped:
    """Tallies of groups, whose vectors follow one another; public, and what travels to workers.

    Attributes:
        whole: Reads the rows of all groups.
        groups: A tally for each group, of what ``whole`` reads.
    """

    whole: PersonTally
    groups: tuple[PersonTally, ...]

    @property
    def domain(self) -> Declared:
        """The columns to read."""
        return self.whole.domain

    @property
    def rows_at_once(self) -> int | None:
        """As the groups' own."""
        return self.whole.rows_at_once

    def zero(self) -> Integers:
        """The vector of no rows."""
        return np.concatenate([tally.zero() for tally in self.groups])

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the rows of a batch to a vector, in place. Sensitive."""
        held, summed = self.read(batch, is_text)
        self.add_read(held if summed.all() else [array[summed] for array in held], vector)

    def read(self, batch: Batch, is_text: bool = False) -> tuple[list[Any], Flags]:
        """What the rows of a batch hold, and which are summed at all. Sensitive."""
        return self.whole.read(batch, is_text)

    def add_read(self, held: Sequence[Any], vector: Integers) -> None:
        """Adds rows that were read to a vector, in place, each to its group. Sensitive."""
        for tally, part in zip(self.groups, self.parts(vector), strict=True):
            tally.add_read(held, part)

    def parts(self, vector: Integers) -> list[Integers]:
        """The vector of each group."""
        ends = np.cumsum([len(tally.zero()) for tally in self.groups])
        return np.split(vector, ends[:-1])
