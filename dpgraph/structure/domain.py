"""The values that variables may take: declared in public, or to be found on public grids and lists."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, Literal, NoReturn

from dpgraph.privacy.checks import check_boolean, check_whole, is_number, near
from dpgraph.privacy.display import MOST_ROWS, as_html, counted, escaped, short
from dpgraph.privacy.errors import DomainError as DomainError
from dpgraph.privacy.errors import DomainWarning as DomainWarning
from dpgraph.privacy.errors import NetworkError as NetworkError
from dpgraph.privacy.errors import ReleaseError
from dpgraph.structure.frozen import FrozenMap

Level = str | int | float | bool
#: The most variables that the one-line form names.
MOST_SHOWN = 12
#: Levels of a variable above which a price and a fit come with a warning.
MANY_LEVELS = 1000
#: How a column of dates becomes a column of numbers, in words and to be typed.
NUMBERS_OF_DATES = (
    "their year, pd.to_datetime(column).dt.year, or the days since a public day, "
    "(pd.to_datetime(column) - pd.Timestamp('2020-01-01')).dt.days"
)


@dataclass(frozen=True)
class Unobserved:
    """The setting ``missing`` of nulls that hide a value: ``dg.UNOBSERVED``.

    Nulls are counted as a level of released tables, ``level``, and are no value of the variable: ``dg.posterior`` has
    the other levels, and fills the holes. ``dg.UNOBSERVED("?")`` names the level, which must be of the others' kind.
    """

    level: Level = "missing"

    def __call__(self, level: Level) -> Unobserved:
        """The same, with the level by this name."""
        return Unobserved(level)


UNOBSERVED = Unobserved()


@dataclass(frozen=True)
class Categories:
    """A variable with declared levels, all text, all numbers or all booleans.

    Args:
        levels: The levels, in order. Numbers compare by value: the level 1 matches 1 and 1.0.
        other: The level that undeclared values count as; without it they are refused.
        missing: The level that nulls count as; without it they are refused. ``dg.UNOBSERVED`` where a null hides a
            value: a level ``"missing"`` of released tables, which is none of the variable's own.

    Raises:
        NetworkError: If the list is empty, holds a duplicate or mixes kinds; or ``other`` or ``missing`` is not in it.

    >>> Categories(["Private", "Public", "Other"], other="Other", missing="Other").size
    3
    >>> Categories(["low", "high"], missing=UNOBSERVED).levels
    ('low', 'high', 'missing')
    """

    levels: tuple[Level, ...]
    other: Level | None = None
    missing: Level | None = None
    unobserved: bool = field(default=False, init=False, repr=False)
    filled: Level | None = field(default=None, init=False, repr=False)

    def __init__(
        self, levels: Iterable[Level], other: Level | None = None, missing: Level | Unobserved | None = None
    ) -> None:
        if isinstance(levels, set | frozenset):
            raise NetworkError("levels must be a list, whose order is fixed, not a set")
        if isinstance(levels, str | bytes):
            raise NetworkError(f"levels must be a list of levels, not the text {levels!r}")
        if not isinstance(levels, Iterable):
            raise NetworkError(f"levels must be a list of levels, not {levels!r:.60}; for numbers give dg.Bins(edges)")
        levels, unobserved = tuple(_plain(level) for level in levels), isinstance(missing, Unobserved)
        if isinstance(missing, Unobserved):
            missing = _plain(missing.level)
            levels = levels if missing in levels else (*levels, missing)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "other", other if other is None else _plain(other))
        object.__setattr__(self, "missing", missing if missing is None else _plain(missing))
        object.__setattr__(self, "unobserved", unobserved)
        if not self.levels:
            raise NetworkError("the level list is empty; declare at least one level")
        kinds = sorted({level_kind(level) for level in self.levels})
        if len(kinds) > 1:
            raise NetworkError(f"levels must be all text, all numbers or all booleans; got {' and '.join(kinds)}")
        if len(set(self.levels)) < len(self.levels):
            raise NetworkError(f"level {first_twice(self.levels)!r} is declared twice")
        for name, level in (("other", self.other), ("missing", self.missing)):
            if level is not None and (level not in self.levels or level_kind(level) != kinds[0]):
                raise NetworkError(f"{name}={level!r} is not one of the declared levels {show_levels(self.levels)}")
        if unobserved and len(self.levels) == 1:
            raise NetworkError("a variable with unobserved values needs a level of its own besides theirs")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Categories):
            return NotImplemented
        # To Python 1 and True are equal; to a table they are not, and a row may be at different levels of the two.
        mine, theirs = (
            (one.kind, one.levels, one.other, one.missing, one.unobserved, one.filled) for one in (self, other)
        )
        return mine == theirs

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.levels)

    @property
    def complete(self) -> Categories:
        """The variable's own levels: without that of unobserved values, which is then ``filled``."""
        if not self.unobserved:
            return self
        own = [level for level in self.levels if level != self.missing]
        made = Categories(own, self.other if self.other in own else None)
        object.__setattr__(made, "filled", self.missing)
        return made

    @property
    def released(self) -> Categories:
        """The levels of released tables: of a variable whose values were filled, that of nulls as well."""
        return self if self.filled is None else Categories(self.levels, self.other, UNOBSERVED(self.filled))

    @property
    def kind(self) -> str:
        """``"text"``, ``"number"`` or ``"boolean"``."""
        return level_kind(self.levels[0])

    def code(self, value: object) -> int | None:
        """The position of one public value, or None if it is not a level."""
        if value is None or not isinstance(value, str | bool | int | float) or level_kind(value) != self.kind:
            return None
        return self.levels.index(value) if value in self.levels else None


@dataclass(frozen=True)
class Bins:
    """A numeric variable cut at public edges: k + 1 edges make k levels ``[a, b)``, the last one closed.

    Numbers outside the edges count in the end bins, or as missing. Level names read ``"17-25"``. A bin stands for the
    numbers in it, spread evenly: whole ones where all edges are whole, as ages and counts are, else all between them.

    Args:
        edges: Increasing finite numbers, at least two.
        missing: True to count nulls and NaN in a level ``"missing"`` of their own; else they are refused.
            ``dg.UNOBSERVED`` where a null hides a number: that level is then of released tables alone.
        outside: ``"ends"``, or ``"missing"`` for numbers outside the edges in that level too, which must be declared.
        whole: Whether the numbers are whole; by default they are if all edges are. False for a weight in kilograms
            that is cut at whole ones; True for the edges 0, 1, 6.5, whose last bin ends at 6.

    Raises:
        NetworkError: If the edges are fewer than two, not finite, or do not increase, ``outside`` is neither, or
            numbers are whole and a bin holds none.

    >>> Bins([17, 25, 50, 90]).levels
    ('17-25', '25-50', '50-90')
    >>> Bins([17, 25, 50, 90]).middles, Bins([17, 25, 50, 90], whole=False).middles
    ((20.5, 37.0, 70.0), (21.0, 37.5, 70.0))
    >>> Bins([0, 50, 90], missing=True, outside="missing").code(999)
    2
    """

    edges: tuple[float, ...]
    missing: bool = False
    outside: Literal["ends", "missing"] = "ends"
    whole: bool = True
    unobserved: bool = field(default=False, init=False, repr=False)
    filled: bool = field(default=False, init=False, repr=False)

    def __init__(
        self,
        edges: Iterable[float],
        missing: bool | Unobserved = False,
        outside: Literal["ends", "missing"] = "ends",
        whole: bool | None = None,
    ) -> None:
        if not isinstance(edges, Iterable):
            raise NetworkError(f"bins are a list of edges, Bins([0, 10, 20]); got {edges!r}")
        edges = tuple(edges)
        if any(is_date(edge) for edge in edges):
            raise NetworkError(
                "bin edges must be numbers, not dates; make numbers of the column's dates first, such as "
                f"{NUMBERS_OF_DATES}, and give edges of these"
            )
        numbers = tuple(_plain(edge) for edge in edges)
        if any(level_kind(edge) != "number" for edge in numbers):
            raise NetworkError(f"bin edges must be numbers; got {numbers!r}")
        if len(numbers) < 2:
            raise NetworkError(f"bins need at least two edges; got {len(numbers)}")
        if any(not math.isfinite(edge) for edge in numbers) or any(b <= a for a, b in pairwise(numbers)):  # type: ignore[operator]
            raise NetworkError(f"bin edges must be finite and increase; got {numbers!r}")
        object.__setattr__(self, "unobserved", missing == UNOBSERVED)
        missing = True if missing == UNOBSERVED else missing
        if isinstance(missing, str):
            raise NetworkError(
                "missing must be true or false: bins count nulls in a level of their own, declare missing=True; "
                f"got {missing!r}"
            )
        check_boolean("missing", missing, error=NetworkError)
        if outside not in ("ends", "missing"):
            raise NetworkError(f'outside must be "ends" or "missing"; got {outside!r:.60}')
        if outside == "missing" and not missing:
            raise NetworkError('outside="missing" needs the level "missing": declare missing=True as well')
        object.__setattr__(self, "edges", numbers)
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "outside", outside)
        if whole is not None:
            check_boolean("whole", whole, error=NetworkError)
        object.__setattr__(self, "whole", self.whole_edges if whole is None else whole)
        if whole and any(low > high for low, high in self.spans):
            raise NetworkError(f"whole=True needs a whole number in each bin; got the edges {numbers!r:.60}")

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The names of the bins, and ``"missing"`` last where it is declared."""
        short = [f"{edge:.6g}" for edge in self.edges]
        names = short if len(set(short)) == len(short) else [repr(edge) for edge in self.edges]
        bins = tuple(f"{low}-{high}" for low, high in pairwise(names))
        return (*bins, "missing") if self.missing else bins

    @property
    def complete(self) -> Bins:
        """The bins alone, without the level of unobserved numbers, which are then ``filled``."""
        made = Bins(self.edges, whole=self.whole) if self.unobserved else self
        object.__setattr__(made, "filled", made is not self or self.filled)
        return made

    @property
    def released(self) -> Bins:
        """The levels of released tables, as of ``Categories``."""
        return Bins(self.edges, UNOBSERVED, whole=self.whole) if self.filled else self

    @property
    def whole_edges(self) -> bool:
        """True if all edges are whole numbers."""
        return all(float(edge).is_integer() for edge in self.edges)

    @cached_property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """The least and the greatest number of each bin; of numbers that are not whole, its edges."""
        return self.steps[1] if self.whole else tuple(pairwise(self.edges))

    @cached_property
    def middles(self) -> tuple[float, ...]:
        """The mean of each bin's numbers, for which it stands in means, regressions and ``numbers="midpoint"``."""
        middles = ((low, (low + high) / 2, high) for low, high in self.spans)
        return tuple(middle if middle < high else low for low, middle, high in middles)

    @cached_property
    def steps(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The digits after the point of synthetic numbers, and the first and last of each bin, in units of the last.

        Whole numbers have none. Others have as many as the edges, and enough for 100 numbers in the narrowest bin, of
        the 15 that a computer keeps. The last step of a bin may lie before its first: there is none.

        >>> Bins([0, 0.5, 2]).steps, Bins([17, 25, 90]).steps
        ((3, ((0, 499), (500, 2000))), (0, ((17, 24), (25, 90))))
        """
        exact, digits = [Fraction(repr(edge)) for edge in self.edges], 0
        if not self.whole:
            after = max(-int(Decimal(repr(edge)).normalize().as_tuple().exponent) for edge in self.edges)
            narrow = 2 - math.floor(math.log10(min(b - a for a, b in pairwise(exact))))
            room = 15 - math.ceil(math.log10(max(1e-7, *map(abs, self.edges))))
            digits = max(0, min(max(after, narrow), room))
        unit, last = 10**digits, len(exact) - 2
        firsts = [math.ceil(edge * unit) for edge in exact]
        ends = [firsts[at + 1] - 1 if at < last else math.floor(exact[-1] * unit) for at in range(last + 1)]
        return digits, tuple(zip(firsts, ends, strict=False))

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.edges) - 1 + self.missing

    def code(self, value: object) -> int | None:
        """The position of one public value, a bin's name or a number, or None if it is neither."""
        if isinstance(value, str):
            return self.levels.index(value) if value in self.levels else None
        if not is_number(value) or math.isnan(value):
            return None
        if self.outside == "missing" and not self.edges[0] <= value <= self.edges[-1]:
            return self.size - 1
        return sum(value >= edge for edge in self.edges[1:-1])


Variable = Categories | Bins


@dataclass(frozen=True)
class Domain:
    """The variables and their levels, in order.

    Args:
        variables: The declaration of each variable.
        strict: True to require a level for every value and every null, so that no row can refuse a table: a refusal is
            one bit about the rows, which no budget is charged for.

    Raises:
        NetworkError: If it is strict and a variable lacks ``other`` or ``missing``.

    >>> domain = Domain.of({"sex": ["F", "M"], "age": Bins([17, 25, 50, 90])})
    >>> domain.names, dict(domain.sizes)
    (('sex', 'age'), {'sex': 2, 'age': 3})
    """

    variables: FrozenMap[str, Variable]
    strict: bool = False

    def __post_init__(self) -> None:
        check_boolean("strict", self.strict, error=NetworkError)
        for name, variable in self.variables.items() if self.strict else ():
            wanted = undeclared_actions(variable)
            if wanted:
                raise NetworkError(
                    f"variable {name!r} could refuse a row, and the domain is strict: declare {' and '.join(wanted)}"
                )

    @classmethod
    def of(cls, variables: Mapping[str, Variable | Iterable[Level]] | Domain, *, strict: bool = False) -> Domain:
        """Reads a mapping from name to levels, ``Categories`` or ``Bins``.

        Args:
            variables: The mapping, or a domain, which stays strict if it is.
            strict: Accepts only declarations under which no row can refuse a table: ``Categories`` with ``other`` and
                ``missing``, ``Bins`` with ``missing``. In bins a value that is not a number is missing. A column that
                is absent, or of a type that holds none of the declared values, is still refused: that is the table's
                schema, which is public. Columns of CSV files and of Python objects have no type.

        Raises:
            NetworkError: Naming the variable whose declaration is not valid.

        >>> Domain.of({"sex": Categories(["F", "M", "?"], other="?", missing="?")}, strict=True)
        Domain(sex: 3, strict)
        """
        if isinstance(variables, Domain):
            return variables if variables.strict or not strict else cls(variables.variables, strict)
        if not isinstance(variables, Mapping):
            raise NetworkError(f"a domain is a mapping from names to levels; got {type(variables).__name__}")
        declared: dict[str, Variable] = {}
        for name, levels in variables.items():
            if not isinstance(name, str) or not name:
                raise NetworkError(f"a variable's name must be text and not empty; got {name!r}")
            try:
                declared[name] = levels if isinstance(levels, Categories | Bins) else Categories(levels)
            except (NetworkError, TypeError) as error:
                raise NetworkError(f"variable {name!r}: {error}") from None
        if not declared:
            raise NetworkError("the domain is empty; declare at least one variable")
        return cls(FrozenMap(declared), strict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, in order."""
        return tuple(self.variables)

    @cached_property
    def sizes(self) -> FrozenMap[str, int]:
        """The number of levels of each variable."""
        return FrozenMap((name, variable.size) for name, variable in self.variables.items())

    @cached_property
    def holes(self) -> tuple[str, ...]:
        """The variables whose nulls hide a value, in order."""
        return tuple(name for name, variable in self.variables.items() if variable.unobserved)

    @property
    def complete(self) -> Domain:
        """The same variables with their own levels alone; strict no more."""
        return Domain(FrozenMap((name, variable.complete) for name, variable in self.variables.items()))

    @cached_property
    def indicators(self) -> dict[str, str]:
        """Of variables whose unobserved values were filled, the variable that says whether a value is missing."""
        filled = (name for name, variable in self.variables.items() if variable.filled not in (None, False))
        return {name: f"{name} missing" for name in filled if f"{name} missing" in self}

    def levels(self, name: str) -> tuple[Level, ...]:
        """The levels of one variable, in order."""
        return self[name].levels

    def __getitem__(self, name: str) -> Variable:
        if name not in self.variables:
            hint = near(name, self.names)
            raise NetworkError(f"no variable {name!r} in the domain{hint}; it has {', '.join(self.names)}")
        return self.variables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def code(self, name: str, value: object) -> int:
        """The position of one public value among a variable's levels; another value is refused, with the levels."""
        position = self[name].code(value)
        if position is None:
            levels = self.levels(name)
            hint = near(value, levels)
            raise DomainError(f"{value!r} is not a level of {name!r}{hint}; declared: {show_levels(levels)}")
        return position

    def restrict(self, names: Iterable[str]) -> Domain:
        """The domain of some of the variables, in the order asked for."""
        return Domain(FrozenMap((name, self[name]) for name in names), self.strict)

    def __repr__(self) -> str:
        shown = list(islice(self.sizes.items(), MOST_SHOWN))
        more = [f"... {len(self.sizes)} variables"] if len(self.sizes) > MOST_SHOWN else []
        sizes = [f"{escaped(name)}: {size}" for name, size in shown]
        return f"Domain({', '.join([*sizes, *more, *(['strict'] if self.strict else [])])})"

    def _repr_html_(self) -> str:
        rows = [{"variable": name, "levels": short(self.levels(name))} for name in islice(self.names, MOST_ROWS + 1)]
        return as_html(f"Domain of {counted(len(self.names), 'variable')}", rows, total=len(self.names))


def warn_of_many_levels(domain: Domain, *, stacklevel: int = 3) -> None:
    """Warns of variables that have so many levels that each is mostly noise, and that time goes with them."""
    many = [f"{escaped(name)} ({size:,})" for name, size in domain.sizes.items() if size > MANY_LEVELS]
    if many:
        warnings.warn(
            f"more than {MANY_LEVELS:,} levels: {', '.join(many[:5])}. Every level has its own noise, and time grows "
            "with their number; declare coarser levels, such as the first digits of a code, or the common ones and "
            "other=... for the rest",
            DomainWarning,
            stacklevel=stacklevel,
        )


def undeclared_actions(variable: Variable) -> list[str]:
    """The settings a declaration lacks so that no value and no null can be refused."""
    if isinstance(variable, Bins):
        return [] if variable.missing else ["missing=True"]
    actions = {"other": variable.other, "missing": variable.missing}
    return [f"{action}=... one of the levels" for action, level in actions.items() if level is None]


def hole_codes(variable: Variable) -> tuple[int, list[int]]:
    """The code of a released variable's unobserved values, and those of its own levels."""
    code = variable.levels.index(variable.missing) if isinstance(variable, Categories) else variable.size - 1
    return code, [at for at in range(variable.size) if at != code]


def level_kind(level: object) -> str:
    """A value's kind of level, one of three."""
    if isinstance(level, bool):
        return "boolean"
    return "text" if isinstance(level, str) else "number"


def show_levels(levels: tuple[Level, ...]) -> str:
    """The declared levels as a message shows them, the first twelve."""
    shown = ", ".join(repr(level) for level in levels[:12])
    return shown if len(levels) <= 12 else f"{shown}, ... ({len(levels)} levels)"


def first_twice(values: Iterable[Hashable]) -> Hashable:
    """The first value that is there before, in linear time; there must be one."""
    seen: set[Hashable] = set()
    return next(value for value in values if value in seen or seen.add(value))


def is_date(value: object) -> bool:
    """True for a date or a time of a date, of Python, pandas or numpy."""
    return isinstance(value, date) or type(value).__name__ in ("datetime64", "Period")


def _plain(level: object) -> Level:
    """A level as a plain Python value; numpy scalars are unwrapped."""
    if is_date(level):
        raise NetworkError(
            f"a level must be text, a number or a boolean, not a date; got {level!r:.60}: name it as text, such as "
            "'2024-01' of column.dt.strftime('%Y-%m')"
        )
    item = getattr(level, "item", None)
    value = item() if callable(item) else level
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and abs(value) < 2**53:
        return value
    raise NetworkError(f"a level must be text, a finite number below 2^53 or a boolean; got {value!r}")


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
