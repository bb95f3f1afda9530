"""One row of a ledger and its digest, and the values in its columns of JSON: limits, allowances, groups, totals.

The digest is the SHA-256 of the row as canonical JSON, the digest of the row before included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Any, Literal, TypeVar, get_args
from unicodedata import normalize

import numpy as np

from dpgraph.privacy.composition import Spent
from dpgraph.privacy.display import summary
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, exact, exact_delta, exact_sum
from dpgraph.privacy.structural import FORMS, Form, canonical, event_of_text, plain_of, refused, value_of

Kind = Literal["open", "charge", "split", "allow"]
KINDS = get_args(Kind)
VERSION = 2
T = TypeVar("T")


@dataclass(frozen=True)
class LedgerRow:
    """An entry of the ledger of one data set, a row of its table; entries are added and never changed.

    Attributes:
        dataset: The name of the data set.
        number: 0 for the row that made the budget, then 1, 2, ... without a gap.
        kind: ``"open"``, ``"charge"``, ``"split"`` (a charge that pays for groups) or ``"allow"``.
        time: When it was written, in UTC, by the clock of the process that wrote it.
        who: The label that the caller gave.
        purpose: The purpose, likewise.
        account: ``""`` for the whole budget; a group's account is the number of the row that paid for it and the
            group's place there, as in ``"12.0"``.
        allowance: The name of the allowance that was charged too.
        mechanism: The mechanism's label.
        event: The event as JSON (``decoded``).
        unit: Whom the account protects, as JSON.
        description: A digest of the measured description, such as a network.
        settings: A digest of the mechanism with its settings.
        terms: The terms of an ``"open"``, ``"split"`` or ``"allow"`` row, as JSON; of a charge for some rows of each
            person, the choice of these, and the number of the row that split the whole into groups.
        spent: The account's totals with this row, as JSON: exact fractions.
        allowed: The allowance's totals with this row, likewise.
        previous: The digest of the row before.
        digest: The digest of this row.
    """

    dataset: str
    number: int
    kind: Kind
    time: str
    who: str = ""
    purpose: str = ""
    account: str = ""
    allowance: str = ""
    mechanism: str = ""
    event: str = ""
    unit: str = ""
    description: str = ""
    settings: str = ""
    terms: str = ""
    spent: str = ""
    allowed: str = ""
    previous: str = ""
    digest: str = ""

    @property
    def decoded(self) -> Event | None:
        """The event; None for a row that charges nothing.

        Raises:
            ReleaseError: If it is not whole, or has a noise law that is not registered in this process.
        """
        return event_of_text(self.event) if self.event else None

    def __repr__(self) -> str:
        said = (part or None for part in (self.mechanism, self.who, self.purpose, self.time))
        return summary("LedgerRow", f"{self.number} of {self.dataset!r}", self.kind, *said)

    @property
    def plain(self) -> dict[str, Any]:
        """The row as plain JSON values, the event and the totals as JSON inside it."""
        nested = {"event", "unit", "terms", "spent", "allowed"}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: json.loads(value) if name in nested and value else value for name, value in values.items()}


#: The columns of a row, in the order of the table.
COLUMNS = tuple(field.name for field in fields(LedgerRow))


def text_of(value: Any, but: tuple[str, ...] = ()) -> str:
    """A dataclass as it stands in a column, but for fields with a column of their own."""
    return canonical(plain_of(value, but=but))


def digest_of(row: LedgerRow) -> str:
    """The digest that a row must have."""
    content = dict(vars(row))
    del content["digest"]
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def sealed(row: LedgerRow, previous: str) -> LedgerRow:
    """The row after another, with its digest."""
    linked = replace(row, previous=previous)
    return replace(linked, digest=digest_of(linked))


def row_of(values: Sequence[Any]) -> LedgerRow:
    """A row from the values of its columns."""
    dataset, number, kind, *texts = values
    if not all(isinstance(text, str) for text in (dataset, *texts)) or not isinstance(number, int) or kind not in KINDS:
        raise LedgerError("an entry of the ledger is not whole; it was edited")
    return LedgerRow(*values)


def link_problem(row: LedgerRow, before: LedgerRow | None) -> str | None:
    """Why a row cannot stand after another, the first after none; None if it can.

    >>> first = sealed(LedgerRow("d", 0, "open", "2026-01-01"), "")
    >>> second = sealed(LedgerRow("d", 1, "charge", "2026-01-02"), first.digest)
    >>> link_problem(second, first) is None, link_problem(replace(second, who="x"), first)
    (True, 'entry 1 does not have the digest it was written with: it was edited')
    """
    number, previous = (0, "") if before is None else (before.number + 1, before.digest)
    if row.number != number:
        return f"entry {number} is not there: entries were removed or reordered"
    if digest_of(row) != row.digest:
        return f"entry {number} does not have the digest it was written with: it was edited"
    if row.previous != previous:
        return f"entry {number} does not follow the entry before it: entries were edited, removed or reordered"
    return None


def fingerprint(value: Any) -> str:
    """The first 32 digits of the SHA-256 of a public value's fields, functions by their type's name; "" for None."""
    return "" if value is None else hashlib.sha256(canonical(_fields_of(value)).encode()).hexdigest()[:32]


def _fields_of(value: Any) -> Any:
    """A value as lists of texts, with the names of its types."""
    if value is None or isinstance(value, bool | int | str):
        return value
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, float | Fraction | np.generic):
        return [name, repr(value)]
    if isinstance(value, np.ndarray):
        plain = value if value.dtype.hasobject else np.ascontiguousarray(value)
        return [name, str(value.dtype), list(value.shape), _fields_of(plain.ravel().tolist())]
    if isinstance(value, Mapping):
        return [name, [[_fields_of(key), _fields_of(item)] for key, item in value.items()]]
    if isinstance(value, Set):
        return [name, sorted(map(canonical, map(_fields_of, value)))]
    if isinstance(value, list | tuple):
        return [name, list(map(_fields_of, value))]
    if is_dataclass(value) and not isinstance(value, type):
        return [name, {field.name: _fields_of(getattr(value, field.name)) for field in fields(value)}]
    return [name]


@dataclass(frozen=True)
class Terms:
    """The terms of a data set, in its first row; the unit has a column of its own."""

    limit: PrivacyCost
    unit: PrivacyUnit
    accounting: str
    identity: str
    source: str | None = None
    version: int = VERSION


@dataclass(frozen=True)
class Allowance:
    """The most that one person who charges a shared budget may spend of it."""

    who: str
    limit: PrivacyCost
    expires: datetime | None = None


@dataclass(frozen=True)
class Choice:
    """The choice of some rows of each person that a charge is for; ``Rows.chosen`` finds it by its beginning."""

    among: int | None
    choice: str


def laid_down(text: str, kind: type[T], **given: Any) -> T:
    """The inverse of ``text_of``; ``given`` are the fields that have a column of their own."""
    try:
        plain = json.loads(text)
        if kind is Terms and plain["version"] != VERSION:
            raise LedgerError(f"the ledger is of version {plain['version']!r:.20}, which this dpgraph does not read")
        return value_of(plain, kind, "the entry", **given)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"the terms in an entry of the ledger are not whole ({type(error).__name__})") from None


def terms_of(text: str, unit: str) -> Terms:
    """The terms of a data set, from two columns of its first row."""
    return laid_down(text, Terms, unit=laid_down(unit, PrivacyUnit))


def _cost_of(plain: Any, place: str) -> PrivacyCost:
    if not isinstance(plain, dict) or set(plain) != {"epsilon", "delta"}:
        raise refused(place, "a cost")
    return PrivacyCost(exact(exact_sum(plain["epsilon"])), exact_delta(exact_sum(plain["delta"])))


def _spent_of(plain: Any, place: str) -> Spent:
    names = ["epsilon", "delta", "rho", "mu_squared"]
    if not isinstance(plain, dict) or sorted(plain) not in (sorted(names), sorted(names[:3])):
        raise refused(place, "totals")
    return Spent(*(exact_sum(plain[name]) for name in names if name in plain))


def _texts(value: Any, but: str = "") -> dict[str, str]:
    return {name: str(part) for name, part in vars(value).items() if name != but}


FORMS.update(
    {
        PrivacyCost: Form(_texts, _cost_of),
        Spent: Form(lambda spent: _texts(spent, but="" if spent.mu_squared else "mu_squared"), _spent_of),
        datetime: Form(datetime.isoformat, lambda plain, place: datetime.fromisoformat(plain)),
    }
)


def moment_of(expires: Any) -> datetime | None:
    """When an allowance ends: a date, whose whole day is included, or a time; without a zone it is in UTC."""
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
    """A label, one line; if compared, as Unicode composes it and without spaces around: no two names look the same."""
    if not isinstance(label, str) or len(label) > most or not label.isprintable() or not (label.strip() or empty):
        least = "" if empty else ", not empty"
        raise ReleaseError(f"{name} must be one line of text of at most {most} characters{least}; got {label!r:.80}")
    if compared and label != (usual := normalize("NFC", label).strip()):
        raise ReleaseError(f"{name} must be written without spaces around it and composed (NFC): {usual!r:.80}")
    return label
