"""Releases with their records; and several releases read as one.

A release is a value with the event that released it, the unit it protects and the record of its rows. Joining neither
is private nor spends: the releases were paid for one by one. Their joint cost is their composition, whoever is in their
rows, so releases of different rows are priced as if one person were in all of them; where none is in two,
``Budget.parallel`` prices them lower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Generic, TypeVar

from dpgraph.privacy.claims import movement_problem
from dpgraph.privacy.display import as_html, escaped, short, summary
from dpgraph.privacy.errors import (  # noqa: F401  # the words of records are imported from here
    BudgetExceededError,
    DPGraphError,
    FileError,
    InferenceError,
    LedgerError,
    PrivacyLeakWarning,
    ReleaseError,
)
from dpgraph.privacy.events import (  # noqa: F401
    Event,
    Neighbours,
    Number,
    PrivacyCost,
    PrivacyUnit,
    decimal,
    exact,
    exact_delta,
    rounded,
)
from dpgraph.privacy.measurements import (  # noqa: F401
    DiscreteGaussian,
    DiscreteLaplace,
    Joint,
    Measurement,
    Movement,
    NoiseLaw,
    Selection,
    SelectionLaw,
    SumZeroLaplace,
)
from dpgraph.privacy.rows import RowsRecord, relation, together

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
    """Refuses a record whose parts are of the wrong kind or cannot be true of the unit."""
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
    join = getattr(values[0], "joint_with", None)
    if join is None:
        raise ReleaseError(f"a joint release is of noisy counts or coefficients; got {type(values[0]).__name__}")
    value = join(*values[1:])
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
    """The joint record of a value made of several values, with the cost of each; None if no value has a record.

    One release is known by its event, the object, and counted once; a copy of it is counted as another.
    """
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
