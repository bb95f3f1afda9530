"""Records of releases: the protected unit, a mechanism's event, its cost, a release, and several read as one.

All is immutable and knows no network and no rows. Joining releases is not private and spends nothing: each was paid
for, and the joint cost is their composition, whoever is in their rows. An event's claim is held to the cost of its
noise, exactly (proofs.md P67).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from numbers import Rational
from typing import Any, Generic, Literal, TypeVar

from dpgraph.lazy import provided
from dpgraph.privacy.checks import check_choice, check_whole
from dpgraph.privacy.display import as_html, counted, escaped, short, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import chosen_mu_squared, delta_of_mu, moved_mu_squared
from dpgraph.privacy.measurements import Joint, Measurement, Movement, Selection
from dpgraph.privacy.scope import RowsRecord, relation, together

#: Sums of many fractions are compared on this grid first, where no common denominator is needed.
FINE = 1 << 256
#: How far, in nats of delta, floating point may miss in the conversion of rho.
SLACK = 1e-9


def exceeds(parts: Sequence[Fraction], limit: Fraction) -> bool:
    """True if the sum of fractions is above a limit, exactly."""
    below = sum(part.numerator * FINE // part.denominator for part in parts)
    if below * limit.denominator > limit.numerator * FINE:
        return True
    if (below + len(parts)) * limit.denominator <= limit.numerator * FINE:
        return False
    return sum(parts, Fraction(0)) > limit


def total_up(parts: Sequence[Fraction]) -> Fraction:
    """The sum of fractions: exact for a few different ones, else rounded up by less than one part in 2^240."""
    if len(parts) <= 16:
        return sum(parts, Fraction(0))
    above = sum(-(-part.numerator * FINE // part.denominator) for part in parts)
    return Fraction(above, FINE)


def pure_parts(measurements: Iterable[Measurement], least: int = 0) -> list[Fraction]:
    """The epsilons of measurements that have one, each moved by ``least`` or more; equal ones are added up."""
    alike = Counter((max(least, m.movement.l1), m.law) for m in measurements)
    return [times * cost for (moved, law), times in alike.items() if (cost := law.epsilon(moved)) is not None]


def concentrated_parts(measurements: Iterable[Measurement], least: int = 0) -> list[Fraction]:
    """The rhos of measurements, each moved by ``least`` (0 or 1) or more; equal ones are added up."""
    alike = Counter((m.movement if m.movement.l1 else Movement(least, least), m.law) for m in measurements)
    costs = Counter[Fraction]()
    for (moved, law), times in alike.items():
        costs[law.rho(moved)] += times
    return [times * cost for cost, times in costs.items()]


def mu_parts(measurements: Iterable[Measurement], least: int = 0) -> list[Fraction] | None:
    """The squares of the mus of measurements, each moved by ``least`` or more, equal ones added; None without a mu."""
    alike = Counter((m.law, m.movement) for m in measurements)
    costs = [(times, moved_mu_squared(law, movement, least)) for (law, movement), times in alike.items()]
    return (
        None if any(cost is None for _, cost in costs) else [times * cost for times, cost in costs if cost is not None]
    )


def recorded_mu_squared(event: Event) -> Fraction | None:
    """The square of the mu of an event's record; None without one, or where measurements move together (``joint``)."""
    parts = mu_parts(event.measurements)
    if parts is None or event.joint is not None or not (event.measurements or event.selections):
        return None
    return total_up([*parts, *map(chosen_mu_squared, event.selections)])


def epsilon_sums(event: Event) -> list[list[Fraction]]:
    """Sums of terms that are a valid epsilon of the event, apart and by the joint distance; none of Gaussian noise."""
    if any(m.law.epsilon(m.movement.l1) is None for m in event.measurements):
        return []
    chosen = [selection.epsilon * Fraction(selection.draws) for selection in event.selections]
    ways = [pure_parts(event.measurements) + chosen]
    if event.joint is not None:
        alike = {(weight, m.law) for weight, m in zip(event.joint.weights, event.measurements, strict=True)}
        costs = (law.epsilon(Fraction(event.joint.distance, weight)) for weight, law in alike)
        together = [cost for cost in costs if cost is not None]
        ways += [[max(together), *chosen]] if together else []
    return ways


def claim_problem(event: Event) -> str | None:
    """Why an event's claim is below what its noise costs; None if it is not, or nothing was recorded."""
    if event.joint is not None and len(event.joint.weights) != len(event.measurements):
        return "has joint weights for other measurements than its own"
    if not event.measurements and not event.selections:
        return None
    ways = epsilon_sums(event)
    pure = any(not exceeds(parts, event.epsilon) for parts in ways)
    parts = concentrated_parts(event.measurements)
    parts += [one.draws * Fraction(one.epsilon) ** 2 / (8 if one.law == "softmax" else 2) for one in event.selections]
    if event.rho is not None and exceeds(parts, event.rho) and not (pure and 2 * event.rho >= event.epsilon**2):
        return f"claims rho {float(event.rho):.9g}, but its noise costs rho {float(total_up(parts)):.9g}"
    square = recorded_mu_squared(event)
    if event.mu is not None and (square is None or square > event.mu**2):
        least = "none" if square is None else f"{math.sqrt(square):.9g}"
        return f"claims mu {float(event.mu):.9g}, but the mu of its noise is {least}"
    if pure:
        return None
    if event.delta == 0:
        if not ways:
            return "claims delta 0, but Gaussian noise is never purely private"
        least = min(total_up(parts) for parts in ways)
        return f"claims epsilon {float(event.epsilon):.9g}, but its noise costs epsilon {float(least):.9g}"
    square = square if event.mu is None else event.mu**2
    return conversion_problem(event, total_up(parts) if event.rho is None else event.rho, square)


def conversion_problem(event: Event, rho: Fraction | None, mu_squared: Fraction | None) -> str | None:
    """Why an event's epsilon and delta are less than a rho costs and than a mu does; None if one of them allows it."""
    if event.delta == 0:
        return "claims delta 0 and a rho or mu alone, which is never purely private"
    if mu_squared is not None and delta_of_mu(mu_squared, event.epsilon) <= event.delta:
        return None
    claim = f"claims epsilon {float(event.epsilon):.9g} at delta {float(event.delta):.3g}, less than its"
    if rho is None:
        return f"{claim} mu costs"
    allowed = _log(event.delta) + SLACK * (1 - _log(event.delta))
    below = _log_delta(float(rho), float(event.epsilon)) > allowed
    return f"{claim} noise costs at rho {float(rho):.9g}" if below else None


def movement_problem(event: Event, rows_per_person: int) -> str | None:
    """Why movements are impossible where all of a person's rows may be alike; None if they are possible."""
    for m in event.measurements:
        moved = m.movement
        if moved.l1 % rows_per_person or moved.l2_squared % rows_per_person**2:
            return f"{', '.join(m.table)} is said to move by {moved}, no multiple of {rows_per_person} rows"
        if moved.moved_cells and rows_per_person > 1:
            return f"{', '.join(m.table)} is said to move by one in each cell, not by {rows_per_person} rows"
    return None


def _log_delta(rho: float, epsilon: float) -> float:
    """The log of the least delta of rho-zCDP at an epsilon (Canonne, Kamath and Steinke 2020, Corollary 13)."""
    low, high = 1 + 2.0**-40, 2 + (epsilon + 1) / (2 * rho)
    for _ in range(200):
        middle = (low + high) / 2
        slope = (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle)
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (high - 1) * (high * rho - epsilon) - math.log(high - 1) + high * math.log1p(-1 / high)


def _log(delta: Fraction) -> float:
    return math.log(delta.numerator) - math.log(delta.denominator)


Neighbours = Literal["replace", "add-remove"]
#: The labels of charges that are made before their parts, which a record then lists (proofs.md P115, P72).
PAID_IN_PARTS, CROSS_VALIDATION, CLASSIFIER = "learn_network", "cross-validation", "classifier"
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
        check_choice("neighbours", self.neighbours, Neighbours)
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
    composes more tightly; ``mu`` a third, that it is mu-GDP. ``mechanism`` is a label: no price depends on it. The
    event of several releases that are read as one has nothing but its ``parts``, and claims their sums. With a ``rho``
    or a ``mu`` one charge paid for parts that may have been chosen one after another: the charge is the claim and the
    price, and is held to theirs wherever it is charged, priced, read or written (``composition.check_paid_together``).

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
    mu: Fraction | None = None

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
        return self.parts if self.parts and self.rho is None and self.mu is None else (self,)

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
    paid = event.rho is not None or event.mu is not None
    if len(event.parts) < 2 or not known or (paid and any(part.parts for part in event.parts)):
        return "has parts that are not several single events"
    if event.measurements or event.selections or event.joint is not None:
        return "has parts, and measurements or selections beside them"
    if paid and event.delta:
        return conversion_problem(event, event.rho, None if event.mu is None else event.mu**2)
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


T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Provenance:
    """Where a learned value came from: the event, the protected unit, and whether the noise was private.

    ``receipts`` are the digests of the ledger's rows that paid, where a ledger did; equality ignores them.
    """

    event: Event
    unit: PrivacyUnit
    private: bool = True
    receipts: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_record(self.event, self.unit, self.private)

    def __str__(self) -> str:
        cost = PrivacyCost(self.event.epsilon, self.event.delta)
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        return f"{self.event.mechanism}, {cost}, protecting {self.unit}{note}"

    def __repr__(self) -> str:
        return summary("Provenance", self)


@dataclass(frozen=True)
class Release(Generic[T]):
    """A released value, with the event that released it and the unit it protects.

    ``private`` is False when a seeded noise source, asked for by name, drew the noise. ``scope`` records the rows of
    the release as far as the budget tells; equality ignores it. ``one + other`` is the joint release of two releases of
    the same rows, with both events.

    Raises:
        ReleaseError: If the record cannot be true: its event claims less than its noise costs, or does not fit the
            unit.
    """

    value: T
    event: Event
    unit: PrivacyUnit
    private: bool = field(default=True)
    scope: RowsRecord | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_record(self.event, self.unit, self.private)

    def map(self, function: Callable[[T], U]) -> Release[U]:
        """Post-processes the value; the event and the unit stay, at no further cost.

        A new value with a record of its own, such as another release's posterior, adds that record.
        """
        made = function(self.value)
        record = joined([self.provenance, getattr(made, "provenance", None)])
        assert record is not None
        return Release(made, record.event, record.unit, record.private, self.scope)

    def __add__(self, other: object) -> Release[Any]:
        """The joint release of two of the same rows."""
        return joint_release((self, other)) if isinstance(other, Release) else NotImplemented

    @property
    def provenance(self) -> Provenance:
        """The record that learned values keep."""
        receipts = () if self.scope is None else self.scope.receipts
        return Provenance(self.event, self.unit, self.private, receipts)

    def __repr__(self) -> str:
        return f"Release({_value_in_words(self.value)}; {escaped(self.provenance)})"

    def _repr_html_(self) -> str:
        rows = [
            {
                "measured": ", ".join(map(str, part.table)) or "the number of rows",
                "cells": part.cells,
                "noise": type(part.law).__name__,
                "scale": float(part.law.scale),
            }
            for event in self.event.events
            for part in event.measurements
        ]
        return as_html(f"Release of {_value_in_words(self.value)}", rows, [self.provenance])


def _value_in_words(value: Any) -> str:
    """A released value in one line; of several of one kind how many there are."""
    first = next(iter(value), None) if isinstance(value, tuple) else None
    if is_dataclass(first):
        return f"{len(value)} x {short(first)}"
    return short(value, 100)


def _check_record(event: Event, unit: PrivacyUnit, private: bool) -> None:
    if not isinstance(event, Event) or not isinstance(unit, PrivacyUnit) or not isinstance(private, bool):
        raise ReleaseError("a record has an Event, a PrivacyUnit and whether its noise was private")
    for part in event.events:
        if (why := movement_problem(part, unit.rows_per_person)) is not None:
            raise ReleaseError(f"{part.mechanism} does not fit a unit of {unit}: {why}")


def released_value(value: T | Release[T]) -> tuple[T, Provenance | None]:
    """Unwraps a Release into its value and its provenance; any other value has none."""
    if isinstance(value, Release):
        return value.value, value.provenance
    return value, None


def joint_release(releases: Sequence[Any]) -> Any:
    """Several releases of the same rows as one, whose likelihood is the product of theirs; one of them is itself."""
    values = checked_values(releases, "a joint release")
    if len(releases) == 1:
        return releases[0]
    if isinstance(releases[0], Release):
        for one, other in combinations(releases, 2):
            if relation(one.scope, other.scope) in ("different", "overlapping"):
                raise ReleaseError(
                    f"these are releases of different rows of one data set, {one.scope} and {other.scope}, and make no "
                    "joint release; dg.pooled adds up releases of rows that nobody shares"
                )
    value = provided("joint_counts")(*values)
    return combined(value, releases) if isinstance(releases[0], Release) else value


def checked_values(releases: Sequence[Any], what: str) -> list[Any]:
    """The values of releases, or values as they are."""
    if not isinstance(releases, list | tuple) or not releases:
        got = "an empty one" if isinstance(releases, list | tuple) else type(releases).__name__
        raise ReleaseError(f"{what} is made of a list of releases, at least one; got {got}")
    if len({isinstance(one, Release) for one in releases}) > 1:
        raise ReleaseError(f"{what} is made of releases or of their values, not of both")
    return [one.value if isinstance(one, Release) else one for one in releases]


def combined(value: Any, releases: Sequence[Release[Any]], *, same_rows: bool = True) -> Release[Any]:
    """A release of a value that was made of several, with the events of all."""
    record = joined(one.provenance for one in releases)
    assert record is not None
    scope = together([one.scope for one in releases]) if same_rows else None
    return Release(value, record.event, record.unit, record.private, scope)


def joined(records: Iterable[Provenance | None]) -> Provenance | None:
    """The joint record of a value made of several: each release once, by its event, the object; None without one."""
    known = [record for record in records if record is not None]
    units = {record.unit for record in known}
    if len(units) > 1:
        raise ReleaseError(
            f"releases under different units make no one release: {' | '.join(sorted(map(str, units)))}; their values "
            "can be read together, without a record"
        )
    if len({id(record.event) for record in known}) < 2:
        return known[0] if known else None
    events = {id(event): event for record in known for event in record.event.priced}
    receipts = dict.fromkeys(receipt for record in known for receipt in record.receipts)
    private = all(record.private for record in known)
    return Provenance(combined_event(list(events.values())), units.pop(), private, tuple(receipts))


def combined_event(events: Sequence[Event]) -> Event:
    """The event of several, one after another: its claim is the sum of theirs, exactly; one of them is itself."""
    if len(events) == 1:
        return events[0]
    epsilon = sum((event.epsilon for event in events), Fraction(0))
    delta = sum((event.delta for event in events), Fraction(0))
    return Event(combined_label(events), epsilon, delta, parts=tuple(events))


def combined_label(events: Sequence[Event]) -> str:
    """The label of several events."""
    times = Counter(event.mechanism for event in events)
    return " + ".join(name if many == 1 else f"{many} x {name}" for name, many in times.items())
