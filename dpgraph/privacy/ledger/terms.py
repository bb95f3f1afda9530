"""What a ledger's rows lay down, as JSON in one of their columns: limits, allowances, groups, totals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Literal, TypeVar
from unicodedata import normalize

from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.events import PrivacyCost, PrivacyUnit, exact, exact_delta, exact_sum
from dpgraph.privacy.filters import Spent
from dpgraph.privacy.structural import FORMS, Form, refused, value_of

Kind = Literal["open", "charge", "split", "allow"]
VERSION = 2

T = TypeVar("T")


@dataclass(frozen=True)
class Terms:
    """What the first row of a data set lays down, beside the unit, which has a column of its own."""

    limit: PrivacyCost
    unit: PrivacyUnit
    accounting: str
    identity: str
    source: str | None = None
    version: int = VERSION


@dataclass(frozen=True)
class Allowance:
    """What one of those who share a budget may spend of it."""

    who: str
    limit: PrivacyCost
    expires: datetime | None = None


@dataclass(frozen=True)
class Choice:
    """Which rows of each person a charge is for; ``Rows.chosen`` finds it by its beginning."""

    among: int | None
    choice: str


def laid_down(text: str, kind: type[T], **given: Any) -> T:
    """What a row's column holds, the inverse of ``plain_of``."""
    try:
        plain = json.loads(text)
        if kind is Terms and plain["version"] != VERSION:
            raise LedgerError(f"the ledger is of version {plain['version']!r:.20}, which this dpgraph does not read")
        return value_of(plain, kind, "the row", **given)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"the terms in a row of the ledger are not whole ({type(error).__name__})") from None


def terms_of(text: str, unit: str) -> Terms:
    """What the first row of a data set lays down, from two columns."""
    return laid_down(text, Terms, unit=laid_down(unit, PrivacyUnit))


def _cost_of(plain: Any, place: str) -> PrivacyCost:
    if not isinstance(plain, dict) or set(plain) != {"epsilon", "delta"}:
        raise refused(place, "a cost")
    return PrivacyCost(exact(exact_sum(plain["epsilon"])), exact_delta(exact_sum(plain["delta"])))


def _spent_of(plain: Any, place: str) -> Spent:
    if not isinstance(plain, dict) or set(plain) != {"epsilon", "delta", "rho"}:
        raise refused(place, "totals")
    return Spent(*(exact_sum(plain[name]) for name in ("epsilon", "delta", "rho")))


def _texts(value: Any) -> dict[str, str]:
    return {name: str(part) for name, part in vars(value).items()}


FORMS.update(
    {
        PrivacyCost: Form(_texts, _cost_of),
        Spent: Form(_texts, _spent_of),
        datetime: Form(datetime.isoformat, lambda plain, place: datetime.fromisoformat(plain)),
    }
)


def moment_of(expires: Any) -> datetime | None:
    """When an allowance ends: a date, whose whole day is included, or a time; without a zone it is in UTC.


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
    """
    if not isinstance(label, str) or len(label) > most or not label.isprintable() or not (label.strip() or empty):
        least = "" if empty else ", not empty"
        raise ReleaseError(f"{name} must be one line of text of at most {most} characters{least}; got {label!r:.80}")
    if compared and label != (usual := normalize("NFC", label).strip()):
        raise ReleaseError(f"{name} must be written without spaces around it and composed (NFC): {usual!r:.80}")
    return label
