"""Values of the privacy promise: the protected unit, a mechanism's event, its cost.

Everything here is immutable, knows no network and no rows, and may be imported by every layer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Literal

from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.claims import claim_problem, conversion_problem
from dpgraph.privacy.display import counted, short, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Joint, Measurement, Selection

Neighbours = Literal["replace", "add-remove"]
#: The labels of charges that are made before their parts, which a record then lists (proofs.md P115, P72).
PAID_IN_PARTS, CROSS_VALIDATION = "learn_network", "cross-validation"
Number = int | float | str | Fraction | Decimal
#: The most bits of a number's numerator and of its denominator, and the longest text that is read as a number: it holds
#: every float, and every number of so many bits.
MOST_BITS, MOST_TEXT = 4096, 2500
_SUM = re.compile(r"[0-9]{1,4000}(/[1-9][0-9]{0,3999})?", re.ASCII)


def exact(value: Number, name: str = "epsilon", *, zero: bool = False) -> Fraction:
    """Reads a privacy parameter as an exact fraction; a float means the decimal it prints as.

    Args:
        value: An int, a float, a decimal string such as ``"0.1"`` or ``"1/3"``, a Fraction or a Decimal.
        name: The name of the parameter in messages.
        zero: True allows zero (delta); else the value must be positive (epsilon).

    Raises:
        ReleaseError: If the value is a bool, not a number, infinite, negative, zero where that is refused, or too long.

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
            if len(text) > MOST_TEXT or ("/" not in text and not 0 <= float(text) < math.inf):
                raise ValueError
            vanishes = "/" not in text and float(text) == 0
            if vanishes and text.lower().partition("e")[0].strip("+0."):
                raise ValueError  # so small that its exact value would take longer than it is worth
            number = Fraction(0) if vanishes else Fraction(text)  # of "0e999999999" it would compute the power
        size = float(number)
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
            raise ValueError
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        raise ReleaseError(f"{name} must be {bound}; got {short(value)}") from None
    if number < 0 or (size == 0 and not (zero and number == 0)):
        raise ReleaseError(f"{name} must be {bound}; got {short(value)}")
    return number


def exact_sum(text: str) -> Fraction:
    """Reads a sum of exact numbers, at least 0, as ``str`` writes it: without an exponent, so in linear time."""
    if not isinstance(text, str) or not _SUM.fullmatch(text):
        raise ReleaseError(f"a sum must be digits, or digits/digits; got {short(text)}")
    return Fraction(text)


def exact_delta(value: Number) -> Fraction:
    """Reads a delta as an exact fraction, at least 0 and below 1."""
    delta = exact(value, "delta", zero=True)
    if delta >= 1:
        raise ReleaseError(f"delta must be below 1; got {short(value)}")
    return delta


def rounded(value: Fraction | float, *, up: bool) -> Fraction:
    """A number rounded up or down to twelve decimal digits, as an exact fraction."""
    context = Context(prec=12, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = Fraction(value)
    return Fraction(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


@dataclass(frozen=True)
class PrivacyUnit:
    """The unit of privacy: the neighbour relation and how many rows one person may have.

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
        check_whole("rows_per_person", self.rows_per_person)

    @property
    def n_is_public(self) -> bool:
        """True if the exact number of rows may be shown."""
        return self.neighbours == "replace"

    def within_groups(self) -> PrivacyUnit:
        """The unit inside one of several disjoint groups of rows: a row may appear or vanish there, so n is private."""
        return PrivacyUnit("add-remove", self.rows_per_person)

    def __str__(self) -> str:
        person = "one row" if self.rows_per_person == 1 else f"up to {self.rows_per_person} rows"
        return f"{self.neighbours} {person} of one person"


@dataclass(frozen=True)
class Event:
    """The actions of a mechanism, done or planned: enough for an accountant to price it, now or again later.

    ``epsilon`` and ``delta`` are the mechanism's own claim, exact; ``measurements`` are the noise laws behind it,
    ``selections`` the choices. ``rho`` is a second claim where the mechanism can make one: that it is rho-zCDP, which
    composes more tightly. ``mechanism`` is a label: no price depends on it. The event of several releases that are read
    as one has nothing but its ``parts``, and claims their sums. With a ``rho`` one charge paid for parts that may have
    been chosen one after another: the charge is the claim and the price, and is held to their rhos wherever it is
    charged, priced, read or written (``composition.check_paid_together``).

    Raises:
        ReleaseError: If a claim is below what the measurements and selections cost (``claims.claim_problem``), is not
            the sum of the parts' claims, or beside parts is less than its rho costs.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace, Movement
    >>> one = Measurement(("sum",), 1, DiscreteLaplace(4.0), Movement(2, 4))
    >>> Event("mine", Fraction(1, 4), measurements=(one,))
    Traceback (most recent call last):
    ...
    dpgraph.privacy.errors.ReleaseError: mine claims epsilon 0.25, but its noise costs epsilon 0.5
    """

    mechanism: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    measurements: tuple[Measurement, ...] = ()
    rho: Fraction | None = None
    selections: tuple[Selection, ...] = ()
    joint: Joint | None = None
    parts: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        if self.parts and (unfit := _parts_problem(self)) is not None:
            raise ReleaseError(f"{self.mechanism} {unfit}")
        if (why := claim_problem(self)) is not None:
            raise ReleaseError(f"{self.mechanism} {why}")

    @property
    def events(self) -> tuple[Event, ...]:
        """The single events behind it, in order; itself where it has no parts."""
        return tuple(single for part in self.parts for single in part.events) or (self,)

    @property
    def priced(self) -> tuple[Event, ...]:
        """The events that accountants price one by one: the parts, or itself where one charge paid for all."""
        return self.parts if self.parts and self.rho is None else (self,)

    def __repr__(self) -> str:
        counts = (
            counted(len(self.measurements), "measurement") if self.measurements else None,
            counted(len(self.selections), "selection") if self.selections else None,
            counted(len(self.parts), "part") if self.parts else None,
        )
        return summary("Event", self.mechanism, PrivacyCost(self.epsilon, self.delta), *counts)


def _parts_problem(event: Event) -> str | None:
    """Why an event cannot have these parts; None if it can."""
    known = all(isinstance(part, Event) and len(part.priced) == 1 for part in event.parts)
    if len(event.parts) < 2 or not known or (event.rho is not None and any(part.parts for part in event.parts)):
        return "has parts that are not several single events"
    if event.measurements or event.selections or event.joint is not None:
        return "has parts, and measurements or selections beside them"
    if event.rho is not None and event.delta:
        return conversion_problem(event, event.rho)
    sums = (sum(part.epsilon for part in event.parts), sum(part.delta for part in event.parts))
    if sums != (event.epsilon, event.delta):
        return "claims something else than its parts together"
    return None if event.rho is None or 2 * event.rho >= event.epsilon**2 else "claims a rho below that of its epsilon"


@dataclass(frozen=True)
class PrivacyCost:
    """A privacy cost: exact epsilon and delta.

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


def decimal(value: Fraction) -> str:
    """Prints a fraction as its exact decimal where that is short, else as p/q."""
    text = f"{float(value):.12g}"
    return text if not math.isfinite(value) or Fraction(text) == value else str(value)
