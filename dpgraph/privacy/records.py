"""Plain values of the privacy promise: who is protected, what was done, what it cost, what left.

Everything here is immutable, knows no network and no rows, and may be imported by every layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache
from numbers import Rational
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
U = TypeVar("U")

Neighbours = Literal["replace", "add-remove"]
Number = int | float | str | Fraction | Decimal


class ReleaseError(ValueError):
    """A release was refused before anything was charged: a bad privacy parameter or statistics that do not fit."""


class BudgetExceededError(ReleaseError):
    """A release was refused because the budget does not hold it; nothing was charged and nothing was drawn."""


class PrivacyLeakWarning(UserWarning):
    """Something the caller asked for by name weakens or voids the privacy promise."""


def exact(value: Number, name: str = "epsilon", *, zero: bool = False) -> Fraction:
    """Reads a privacy parameter as an exact fraction; a float means the decimal it prints as.

    Args:
        value: An int, a float, a decimal string such as ``"0.1"`` or ``"1/3"``, a Fraction or a Decimal.
        name: How the message calls it.
        zero: Whether zero is allowed (delta), else the value must be positive (epsilon).

    Raises:
        ReleaseError: If the value is a bool, not a number, infinite, negative, or zero where that is refused.

    >>> exact(0.1) * 3 == exact("0.3")
    True
    """
    bound = "a finite number, at least 0" if zero else "a finite number above 0"
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, Rational):
            number = Fraction(int(value.numerator), int(value.denominator))
        else:
            text = str(value).strip()
            if len(text) > 100 or ("/" not in text and not 0 <= float(text) < math.inf):
                raise ValueError
            if "/" not in text and float(text) == 0 and text.lower().partition("e")[0].strip("+0."):
                raise ValueError  # so small that its exact value would take longer than it is worth
            number = Fraction(text)
        size = float(number)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        raise ReleaseError(f"{name} must be {bound}; got {value!r}") from None
    if number < 0 or (size == 0 and not (zero and number == 0)):
        raise ReleaseError(f"{name} must be {bound}; got {value!r}")
    return number


def rounded(value: Fraction | float, *, up: bool) -> Fraction:
    """The nearest twelve-digit decimal on the stated side: exact, and short to write.

    >>> rounded(Fraction(2, 3), up=False)
    Fraction(333333333333, 500000000000)
    """
    context = Context(prec=12, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = Fraction(value)
    return Fraction(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


@dataclass(frozen=True)
class PrivacyUnit:
    """Whom the promise protects: the neighbour relation and how many rows one person may hold.

    Under ``"replace"`` one person's rows may change to any others, and the number of rows n is public. Under
    ``"add-remove"`` one person's rows may appear or vanish, and n is private.

    >>> PrivacyUnit("add-remove").n_is_public
    False
    """

    neighbours: Neighbours = "replace"
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if self.neighbours not in ("replace", "add-remove"):
            raise ReleaseError(f'neighbours must be "replace" or "add-remove"; got {self.neighbours!r}')
        rows = self.rows_per_person
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ReleaseError(f"rows_per_person must be a whole number, at least 1; got {rows!r}")

    @property
    def n_is_public(self) -> bool:
        """Whether the exact number of rows may be shown."""
        return self.neighbours == "replace"

    def within_groups(self) -> PrivacyUnit:
        """The unit inside one of several disjoint groups of rows: a row may appear or vanish there, so n is private."""
        return PrivacyUnit("add-remove", self.rows_per_person)

    def __str__(self) -> str:
        person = "one row" if self.rows_per_person == 1 else f"up to {self.rows_per_person} rows"
        return f"{self.neighbours} {person} of one person"


@dataclass(frozen=True)
class DiscreteLaplace:
    """Independent integer noise, P(z) proportional to exp(-|z| / scale) in every cell.

    >>> round(DiscreteLaplace(10.0).variance(cells=4), 2)
    199.83
    """

    scale: float

    def variance(self, cells: int) -> float:
        """Variance of one cell: 1 / (2 sinh(1 / 2b)^2), about 2 b^2 - 1/6."""
        half = 1 / (2 * self.scale)
        return 0.0 if half > 350 else 1 / (2 * math.sinh(half) ** 2)


@dataclass(frozen=True)
class SumZeroLaplace:
    """Integer noise on the plane sum(z) = 0, P(z) proportional to exp(-||z||_1 / scale).

    For a table whose total is public: replacing a row moves two cells, so ||z||_1 by at most 2 (MATHS 1.2).
    """

    scale: float

    def variance(self, cells: int) -> float:
        """Variance of one cell: 2 E[T (T + K)] (K - 1) / (K^2 (K + 1)), with T the sum of the positive parts."""
        return _sum_zero_variance(self.scale, cells)


@dataclass(frozen=True)
class DiscreteGaussian:
    """Independent integer noise, P(z) proportional to exp(-z^2 / (2 scale^2)) in every cell.

    Canonne, Kamath and Steinke 2020. The scale is the sigma of the formula; the standard deviation is no larger.

    >>> round(DiscreteGaussian(10.0).variance(cells=4), 2)
    100.0
    """

    scale: float

    def variance(self, cells: int) -> float:
        """Variance of one cell: scale^2 above a scale of 4 (exact in 53 bits), else the sum over the pmf."""
        if self.scale > 4:
            return self.scale**2
        weight = [math.exp(-(z**2) / (2 * self.scale**2)) for z in range(1, 41)]
        moment = sum(z**2 * part for z, part in enumerate(weight, start=1))
        return 2 * moment / (1 + 2 * sum(weight))


NoiseLaw = DiscreteLaplace | SumZeroLaplace | DiscreteGaussian
SelectionLaw = Literal["softmax", "permute-and-flip", "continuous"]


@cache
def _sum_zero_variance(scale: float, cells: int) -> float:
    """Sums P(T) over the T that matter; P(T) is proportional to C(T+K-1, K-1)^2 exp(-2T / scale)."""
    if cells == 1:
        return 0.0
    import numpy as np
    from scipy.special import gammaln

    odds = 1 / math.expm1(min(1 / scale, 700.0))
    mode, spread = (cells - 1) * odds, math.sqrt(cells * odds * (1 + odds)) + 1
    low, high = max(0, int(mode - 15 * spread)), int(mode + 15 * spread)
    total = np.unique(np.linspace(low, high, 8_001).astype(np.int64)).astype(float)
    log_weight = 2 * (gammaln(total + cells) - gammaln(total + 1)) - 2 * total / scale
    weight = np.exp(log_weight - log_weight.max()) * np.gradient(total)
    moment = float((weight * total * (total + cells)).sum() / weight.sum())
    return 2 * moment * (cells - 1) / (cells**2 * (cells + 1))


@dataclass(frozen=True)
class Measurement:
    """One noisy table of a release: its variables, its cells, the noise law, and its L1 sensitivity."""

    table: tuple[str, ...]
    cells: int
    law: NoiseLaw
    sensitivity: int


@dataclass(frozen=True)
class Selection:
    """Public candidates chosen by their scores, ``draws`` times independently.

    ``law`` is ``"softmax"``, the exponential mechanism, ``"permute-and-flip"``, or ``"continuous"``: the exponential
    mechanism over real numbers, in floating point. ``epsilon`` is the exact cost of one draw, the largest range of a
    score difference between neighbours over the scale; for ``"softmax"`` a draw is also epsilon^2 / 8-zCDP.
    """

    law: SelectionLaw
    epsilon: Fraction
    draws: int = 1


@dataclass(frozen=True)
class Event:
    """What a mechanism did, or would do: enough for an accountant to price it, now or again later.

    ``epsilon`` and ``delta`` are the mechanism's own claim, exact; ``measurements`` are the noise laws behind it,
    ``selections`` the choices. ``rho`` is a second claim where the mechanism can make one: that it is rho-zCDP, which
    composes more tightly.
    """

    mechanism: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    measurements: tuple[Measurement, ...] = ()
    rho: Fraction | None = None
    selections: tuple[Selection, ...] = ()


@dataclass(frozen=True)
class RowGroup:
    """The rows whose declared variable has one level; two levels of one declaration share no row.

    ``declaration`` is the variable as it was declared, so that "north" of two different declarations differs.
    """

    by: str
    level: object
    declaration: object

    def __str__(self) -> str:
        return f"{self.by} = {self.level!r}"


@dataclass(frozen=True)
class PrivacyCost:
    """A price: exact epsilon and delta.

    >>> print(PrivacyCost(Fraction(1, 10)))
    epsilon 0.1 (pure)
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        return PrivacyCost(self.epsilon + other.epsilon, self.delta + other.delta)

    def __str__(self) -> str:
        tail = "(pure)" if self.delta == 0 else f"and delta {float(self.delta):g}"
        return f"epsilon {decimal(self.epsilon)} {tail}"


@dataclass(frozen=True)
class Provenance:
    """Where a learned value came from: the event, the protected unit, and whether the noise was private."""

    event: Event
    unit: PrivacyUnit
    private: bool = True

    def __str__(self) -> str:
        cost = PrivacyCost(self.event.epsilon, self.event.delta)
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        return f"{self.event.mechanism}, {cost}, protecting {self.unit}{note}"


@dataclass(frozen=True)
class Release(Generic[T]):
    """A value that left through the one door, with what was done to let it leave.

    ``private`` is False when a seeded noise source, asked for by name, drew the noise.
    """

    value: T
    event: Event
    unit: PrivacyUnit
    private: bool = field(default=True)

    def map(self, function: Callable[[T], U]) -> Release[U]:
        """Post-processes the value; the event and the unit stay, at no further cost."""
        return Release(function(self.value), self.event, self.unit, self.private)

    @property
    def provenance(self) -> Provenance:
        """The record that learned values keep."""
        return Provenance(self.event, self.unit, self.private)


def decimal(value: Fraction) -> str:
    """Prints a fraction as its exact decimal where that is short, else as p/q.

    >>> decimal(Fraction(1, 4)), decimal(Fraction(1, 3))
    ('0.25', '1/3')
    """
    text = f"{float(value):.12g}"
    return text if Fraction(text) == value else str(value)


def released_value(value: T | Release[T]) -> tuple[T, Provenance | None]:
    """Unwraps a Release into its value and its provenance; any other value has none."""
    if isinstance(value, Release):
        return value.value, value.provenance
    return value, None
