"""One row of a ledger, and its digest: SHA-256 of the row as canonical JSON, the digest of the row before included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from dpgraph.privacy.display import summary
from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.events import Event
from dpgraph.privacy.ledger.terms import Kind
from dpgraph.privacy.plain_events import event_of_text


@dataclass(frozen=True)
class LedgerRow:
    """One row of the ledger of one data set; rows are added and never changed.

    Attributes:
        dataset: The name of the data set.
        number: 0 for the row that made the budget, then 1, 2, ... without a gap.
        kind: ``"open"``, ``"charge"``, ``"split"`` (a charge that pays for groups) or ``"allow"``.
        time: When it was written, in UTC, by the clock of the process that wrote it.
        who: The label that the caller gave.
        purpose: What for, likewise.
        account: ``""`` for the whole budget; a group's account is the number of the row that paid for it and the
            group's place there, as in ``"12.0"``.
        allowance: The name of the allowance that was charged too.
        mechanism: The mechanism's label.
        event: The event as JSON (``decoded``).
        unit: Whom the account protects, as JSON.
        description: A digest of what was measured, such as a network.
        settings: A digest of the mechanism with its settings.
        terms: What an ``"open"``, ``"split"`` or ``"allow"`` row lays down, as JSON; of a charge for some rows of each
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


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(plain: Any) -> str:
    """Plain values as the one JSON text that stands for them.

    >>> canonical({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return _ENCODER.encode(plain)


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
    texts = [value for name, value in zip(COLUMNS, values, strict=True) if name != "number"]
    number = values[COLUMNS.index("number")]
    if (
        not all(isinstance(text, str) for text in texts)
        or not isinstance(number, int)
        or texts[1] not in get_args(Kind)
    ):
        raise LedgerError("a row of the ledger is not whole; it was edited")
    return LedgerRow(*values)


def link_problem(row: LedgerRow, before: LedgerRow | None) -> str | None:
    """Why a row cannot stand after another, the first after none; None if it can.

    >>> first = sealed(LedgerRow("d", 0, "open", "2026-01-01"), "")
    >>> second = sealed(LedgerRow("d", 1, "charge", "2026-01-02"), first.digest)
    >>> link_problem(second, first) is None, link_problem(replace(second, who="x"), first)
    (True, 'row 1 does not have the digest it was written with: it was edited')
    """
    number, previous = (0, "") if before is None else (before.number + 1, before.digest)
    if row.number != number:
        return f"row {number} is not there: rows were removed or reordered"
    if digest_of(row) != row.digest:
        return f"row {number} does not have the digest it was written with: it was edited"
    if row.previous != previous:
        return f"row {number} does not follow the row before it: rows were edited, removed or reordered"
    return None
