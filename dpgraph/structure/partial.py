"""Variables whose levels are to be found: their public bounds or lists, and public grids on which bins are sought."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from dpgraph.privacy.checks import check_boolean, check_whole, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.structure.domain import Bins, Categories, Domain, Level, NetworkError, Variable

#: A range of so many units or fewer is a grid of single units; a wider one has about so many round steps.
MOST_UNITS, STEPS = 128, 64
#: Also edges at these parts of powers of ten, so that a value that many rows have, and a long tail, are found.
ROUND = tuple(Fraction(part, 4) for part in (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36))
#: How far below a step the finest edge lies, where numbers are not whole.
FINEST = Fraction(1, 1000)
#: The levels that are added: for rare values, and for nulls.
OTHER, MISSING = "other", "missing"


@dataclass(frozen=True)
class Numbers:
    """A variable of numbers between public bounds, whose bins are to be found.

    Bounds that are whole numbers say that the values are: for others write ``0.0``.

    Args:
        low: The public lowest value; lower ones count in the first bin.
        high: The public highest value; higher ones count in the last.
        missing: True to count nulls and NaN in a level ``"missing"``; else they are refused.
        bins: About how many bins; by default as many as the noise allows, from 2 to 16.

    Raises:
        NetworkError: If the bounds are not finite and increasing, or ``bins`` is below 2.

    >>> Numbers(0, 99).grid[:4], len(Numbers(0, 99_999).grid)
    ((0, 1, 2, 3), 101)
    """

    low: float
    high: float
    missing: bool = False
    bins: int | None = None

    def __post_init__(self) -> None:
        for name, bound in (("low", self.low), ("high", self.high)):
            if not is_number(bound) or not math.isfinite(bound):
                raise NetworkError(f"{name} must be a public bound, a finite number; got {bound!r:.60}")
        if not self.low < self.high:
            raise NetworkError(f"low must be below high; got {self.low!r} and {self.high!r}")
        if self.whole and self.high - self.low < 2:
            raise NetworkError(
                f"whole numbers from {self.low!r} to {self.high!r} have no bins to be found: give the levels, or write "
                f"{float(self.low)!r} for numbers that are not whole"
            )
        check_boolean("missing", self.missing, error=NetworkError)
        if self.bins is not None:
            check_whole("bins", self.bins, 2, 1000, error=NetworkError)

    @property
    def whole(self) -> bool:
        """True if both bounds are whole numbers, and so are the values."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def grid(self) -> tuple[float, ...]:
        """Public edges, of round numbers: single units, or equal steps and finer ones towards 0."""
        low, high = Fraction(self.low), Fraction(self.high)
        if self.whole and high - low <= MOST_UNITS:
            return tuple(range(int(low), int(high) + 1))
        step = _round((high - low) / STEPS)
        edges = {step * at for at in range(math.ceil(low / step), math.floor(high / step) + 1)} | {Fraction(0)}
        power = Fraction(1) if self.whole else step * FINEST
        while power < max(abs(low), abs(high)):
            edges |= {sign * power * part for part in ROUND for sign in (-1, 1)}
            power *= 10
        kept = (edge for edge in edges if edge.denominator == 1 or not self.whole)
        numbers = {int(edge) if edge.denominator == 1 else float(edge) for edge in kept}
        return (self.low, *sorted(edge for edge in numbers if self.low < edge < self.high), self.high)

    @property
    def measured(self) -> Bins:
        """The variable as it is counted: a bin for each interval of the grid."""
        return Bins(self.grid, missing=self.missing)


@dataclass(frozen=True)
class Words:
    """A variable of words or codes, whose levels are to be found; rare ones count as ``"other"``.

    Args:
        possible: A public list of all that may occur, which needs no delta; None where there is no list.
        missing: True to count nulls in a level ``"missing"``; else they are refused.

    Raises:
        NetworkError: If the list is not one of levels.

    >>> Words(["bus", "car", "tram"]).measured.levels
    ('bus', 'car', 'tram', 'other')
    """

    possible: tuple[Level, ...] | None = None
    missing: bool = False

    def __init__(self, possible: Iterable[Level] | None = None, missing: bool = False) -> None:
        check_boolean("missing", missing, error=NetworkError)
        object.__setattr__(self, "possible", None if possible is None else Categories(possible).levels)
        object.__setattr__(self, "missing", missing)

    @property
    def measured(self) -> Categories:
        """The variable as it is counted where there is a list."""
        return closed(self.possible or (), self.missing)


Partial = Variable | Numbers | Words


@dataclass(frozen=True)
class OpenLevels:
    """The description of counts whose levels are not public: the variables."""

    names: tuple[str, ...]

    def blocks(self, unit: Any) -> NoReturn:
        """Refuses mechanisms of counts whose number is public."""
        raise ReleaseError("the words of a column are not public: PrivateLevels(epsilon, delta) releases their counts")


def closed(levels: Iterable[Level], missing: bool) -> Categories:
    """Levels with one for all others, and one for nulls; of numbers, the texts that spell them where others join."""
    listed = list(levels)
    listed = listed if all(isinstance(level, str) for level in listed) else [str(level) for level in listed]
    listed += [level for level in [OTHER, *([MISSING] if missing else [])] if level not in listed]
    return Categories(listed, other=OTHER, missing=MISSING if missing else None)


def partial_domain(declaration: Mapping[str, object] | Domain) -> dict[str, Partial]:
    """Reads a declaration of which some variables are to be found.

    Raises:
        NetworkError: If it is not a mapping, a variable is not valid, or nothing is to be found.

    >>> partial_domain({"age": Numbers(0, 120), "sex": ["F", "M"]})["sex"].size
    2
    """
    if not isinstance(declaration, Mapping):
        if isinstance(declaration, Domain):
            raise NetworkError("a Domain declares every level; nothing is to be found")
        raise NetworkError(f"a declaration is a mapping from names to levels; got {type(declaration).__name__}")
    sought = {name: one for name, one in declaration.items() if isinstance(one, Numbers | Words)}
    if not sought:
        raise NetworkError(
            "nothing is to be found: declare dg.Numbers(low, high) or dg.Words() where bins or levels are not known"
        )
    stand_in = {name: Categories([OTHER]) if name in sought else one for name, one in declaration.items()}
    declared = Domain.of(stand_in)  # type: ignore[arg-type]
    return {name: sought.get(name, declared[name]) for name in declaration}


def _round(value: Fraction) -> Fraction:
    """The next 1, 2 or 5 times a power of ten, upwards."""
    power = Fraction(10) ** math.floor(math.log10(value))
    return next(power * times for times in (1, 2, 5, 10, 20) if power * times >= value)
