"""The measurable in two protocols: a public description, and the sensitive statistics that it describes.

A description gives from public structure alone the blocks of integers and how far one person's rows move each.
Statistics hold the exact integers of those blocks, and add. ``release``, the mechanisms that add noise, files and
accountants know nothing else of a family, so a family is added by writing these two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Movement, NoiseLaw
from dpgraph.privacy.records import PrivacyUnit

Name = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Integers that are measured together: a table, or a vector of sums.

    Attributes:
        name: The variables of the table, or the names of the sums.
        shape: The axes of the integers.
        movement: How far one person's rows move them, under the unit that the description was asked for.

    >>> Block(("age",), (3,), partition_movement(3, PrivacyUnit())).cells
    3
    """

    name: Name
    shape: tuple[int, ...]
    movement: Movement

    @property
    def cells(self) -> int:
        """How many integers there are."""
        return math.prod(self.shape)


class Description(Protocol):
    """A public, frozen, comparable and hashable description, such as a network or a regression's design.

    Mechanisms that add noise to any description also need the meaning of noisy integers of its blocks: a method
    ``noisy(values, laws, n, unit)``, or a function registered with ``noisy_value``.
    """

    def blocks(self, unit: PrivacyUnit) -> tuple[Block, ...]:
        """The blocks of a release that protects this unit, in order.

        The movements are the privacy proof of the family: no two data sets that differ in one person's rows, as the
        unit says, differ by more in any block. ``audit.privacy_loss`` checks pairs.

        Raises:
            ReleaseError: If nothing can be released under this unit.
        """
        ...


class Statistics(Protocol):
    """The exact integers of a description: sensitive, with no numbers in the ``repr``, not pickled, never saved.

    ``group`` and ``cap`` (``privacy.scope``), where there are such attributes, say which rows they are of.
    """

    @property
    def description(self) -> Description:
        """The public description of the statistics."""
        ...

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows; public under replace, and only there."""
        ...

    def sensitive_block(self, name: Name, unit: PrivacyUnit) -> Any:
        """The exact integers of one of ``description.blocks(unit)``, an int64 array of its shape."""
        ...

    def __add__(self, other: Any) -> Any:
        """The statistics of both sets of rows together."""
        ...


@singledispatch
def noisy_value(
    description: Any, values: Mapping[Name, Any], laws: Mapping[Name, NoiseLaw], n: int | None, unit: PrivacyUnit
) -> Any:
    """The public value that a release of noisy blocks holds; by default the description's method ``noisy``.

    Args:
        description: The description; a value of a type that cannot have the method registers a function here.
        values: The noisy integers of each measured block.
        laws: The law of the noise of each.
        n: The exact number of rows where it is public, else None.
        unit: Whom the release protects.
    """
    return description.noisy(values, laws, n, unit)


def is_readable(description: Any) -> bool:
    """True if noisy blocks of this description have a meaning: a method ``noisy`` or a registered function."""
    registered = noisy_value.dispatch(type(description)) is not noisy_value.dispatch(object)
    return registered or callable(getattr(description, "noisy", None))


def description_of(statistics: Any) -> Any:
    """The public description of sensitive statistics; refuses any other value."""
    description = getattr(statistics, "description", None)
    has_blocks = callable(getattr(description, "blocks", None)) and not isinstance(description, type)
    if not has_blocks or not callable(getattr(statistics, "sensitive_block", None)):
        raise ReleaseError(f"release takes statistics such as count(rows, network); got {type(statistics).__name__}")
    return description


def partition_movement(cells: int, unit: PrivacyUnit) -> Movement:
    """How far one person moves counts of rows, each row being in one of so many cells: exact, and attained.

    One row is one cell more or less by one; replaced it leaves a cell and enters another, if there are two. Several
    rows of a person may all be alike and move those cells by as many. Under replace the total is n.

    >>> partition_movement(3, PrivacyUnit("replace"))
    Movement(l1=2, l2_squared=2, moved_cells=2, fixed_total=True)
    """
    rows = unit.rows_per_person
    moved = (2 if cells > 1 else 0) if unit.n_is_public else 1
    l1, square = moved * rows, moved * rows**2
    return Movement(l1, square, l1 if rows == 1 or l1 == 0 else None, fixed_total=unit.n_is_public)
