"""What a ledger's rows lay down, as JSON in one of their columns: limits, allowances, groups, totals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar
from unicodedata import normalize

from dpgraph.privacy.accounts import Split
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.events import PrivacyCost, PrivacyUnit
from dpgraph.privacy.filters import Spent
from dpgraph.privacy.rows import Fixed

Kind = Literal["open", "charge", "split", "allow"]
VERSION = 1

P = ParamSpec("P")
T = TypeVar("T")


def _read(function: Callable[P, T]) -> Callable[P, T]:
    """The same function of text, with one error for whatever is wrong with the text."""

    @wraps(function)
    def checked(*args: P.args, **settings: P.kwargs) -> T:
        try:
            return function(*args, **settings)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(f"the terms in a row of the ledger are not whole ({type(error).__name__})") from None

    return checked


@dataclass(frozen=True)
class Terms:
    """What the first row of a data set lays down."""

    limit: PrivacyCost
    unit: PrivacyUnit
    accounting: str
    identity: str
    source: str | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """Without the unit, which has a column of its own."""
        kept = {"version": VERSION, "accounting": self.accounting, "identity": self.identity, "source": self.source}
        return plain_cost(self.limit) | kept


@_read
def terms_of(text: str, unit: str) -> Terms:
    """The inverse of ``Terms.plain``, from two columns."""
    plain = json.loads(text)
    if plain["version"] != VERSION:
        raise LedgerError(f"the ledger is of version {plain['version']!r:.20}, which this dpgraph does not read")
    return Terms(cost_of(plain), unit_of(unit), plain["accounting"], plain["identity"], plain["source"])


@dataclass(frozen=True)
class Allowance:
    """What one of those who share a budget may spend of it.

    Attributes:
        who: The label.
        limit: The most.
        expires: From when on nothing more, in UTC; None for never.
    """

    who: str
    limit: PrivacyCost
    expires: datetime | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """Without the label, which has a column of its own."""
        return plain_cost(self.limit) | {"expires": None if self.expires is None else self.expires.isoformat()}


@_read
def allowance_of(text: str, who: str) -> Allowance:
    """The inverse of ``Allowance.plain``."""
    plain = json.loads(text)
    expires = None if plain["expires"] is None else datetime.fromisoformat(plain["expires"])
    return Allowance(who, cost_of(plain), expires)


@dataclass(frozen=True)
class Choice:
    """Which rows of each person a charge is for.

    Attributes:
        among: The number of the row that split the whole into groups, if one of those was charged, or one within one.
        name: The choice's random name.
    """

    among: int | None
    name: str

    @property
    def plain(self) -> dict[str, Any]:
        """As it stands in rows; ``Rows.chosen`` finds it by its beginning."""
        return {"among": self.among, "choice": self.name}


@_read
def choice_of(text: str) -> Choice:
    """The inverse of ``Choice.plain``."""
    plain = json.loads(text)
    return Choice(plain["among"], plain["choice"])


def plain_split(split: Split) -> dict[str, Any]:
    """The groups that a row paid for."""
    groups = [dict(vars(one)) for one in split.groups]
    return plain_cost(split.share) | {"accounting": split.accounting, "groups": groups}


@_read
def split_of(text: str) -> Split:
    """The inverse of ``plain_split``."""
    plain = json.loads(text)
    return Split(plain["accounting"], cost_of(plain), tuple(Fixed(**one) for one in plain["groups"]))


def plain_cost(cost: PrivacyCost) -> dict[str, Any]:
    """Exact numbers as text."""
    return {"epsilon": str(cost.epsilon), "delta": str(cost.delta)}


def cost_of(plain: dict[str, Any]) -> PrivacyCost:
    """The inverse of ``plain_cost``."""
    return PrivacyCost(Fraction(plain["epsilon"]), Fraction(plain["delta"]))


def plain_unit(unit: PrivacyUnit) -> dict[str, Any]:
    """Whom a budget protects."""
    return {"neighbours": unit.neighbours, "rows_per_person": unit.rows_per_person}


@_read
def unit_of(text: str) -> PrivacyUnit:
    """The inverse of ``plain_unit``."""
    return PrivacyUnit(**json.loads(text))


def plain_spent(spent: Spent) -> dict[str, str]:
    """Totals as text."""
    return {"epsilon": str(spent.epsilon), "delta": str(spent.delta), "rho": str(spent.rho)}


@_read
def spent_of(text: str) -> Spent:
    """The inverse of ``plain_spent``."""
    plain = json.loads(text)
    return Spent(Fraction(plain["epsilon"]), Fraction(plain["delta"]), Fraction(plain["rho"]))


def moment_of(expires: Any) -> datetime | None:
    """When an allowance ends: a date, whose whole day is included, or a time; without a zone it is in UTC.

    Raises:
        ReleaseError: If it is neither.

    >>> moment_of("2026-12-31").isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    if expires is None:
        return None
    try:
        if isinstance(expires, str):
            whole_day = len(expires) <= 10
            expires = date.fromisoformat(expires) if whole_day else datetime.fromisoformat(expires)
        if not isinstance(expires, datetime):
            day = datetime.combine(expires, time(), UTC)
            return datetime.fromtimestamp(day.timestamp() + 86_400, UTC)
        return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        raise ReleaseError(f"expires must be a date such as 2026-12-31, or a time; got {expires!r}") from None


def checked_label(name: str, label: Any, *, most: int = 200, empty: bool = True, compared: bool = True) -> str:
    """A label as it stands in rows: one line of text.

    One that is compared with others is written as Unicode composes it and without spaces around it: two texts that look
    the same would be two data sets, or a name that no allowance limits.

    Raises:
        ReleaseError: If it is not.
    """
    if not isinstance(label, str) or len(label) > most or not label.isprintable() or not (label.strip() or empty):
        least = "" if empty else ", not empty"
        raise ReleaseError(f"{name} must be one line of text of at most {most} characters{least}; got {label!r:.80}")
    if compared and label != (usual := normalize("NFC", label).strip()):
        raise ReleaseError(f"{name} must be written without spaces around it and composed (NFC): {usual!r:.80}")
    return label
