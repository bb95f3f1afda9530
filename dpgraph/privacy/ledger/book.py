"""A ledger for people: its rows, its allowances, and its checks."""

from __future__ import annotations

from datetime import date
from typing import Any

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.events import Number, PrivacyCost, exact, exact_delta
from dpgraph.privacy.filters import Filter
from dpgraph.privacy.ledger.chain import Chain
from dpgraph.privacy.ledger.checking import Verification, rows_behind, verified
from dpgraph.privacy.ledger.row import Allowance, LedgerRow, checked_label, laid_down, moment_of, text_of


class Ledger:
    """The ledger of one data set; ``Budget.ledger`` returns it.

    >>> import tempfile
    >>> import pandas as pd
    >>> import dpgraph as dg
    >>> budget = dg.Budget.open(tempfile.mkdtemp() + "/ledger.sqlite", dataset="survey", epsilon=1)
    >>> counts = dg.count(pd.DataFrame({"word": ["no", "yes"]}), dg.Network.of({"word": ["no", "yes"]}, {}))
    >>> made = dg.release(counts, dg.LaplaceMechanism("0.25"), budget=budget.for_("ann", "a first look"))
    >>> row = budget.ledger.rows_of(made)[0]
    >>> row.number, row.who, row.purpose, row.spent
    (1, 'ann', 'a first look', '{"delta":"0","epsilon":"1/4","rho":"0"}')
    >>> budget.ledger.verify(release=made).ok
    True
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    @property
    def dataset(self) -> str:
        """The data set."""
        return self._chain.dataset

    @property
    def address(self) -> str:
        """Where it is, without a password."""
        return self._chain.store.shown

    @property
    def source(self) -> str | None:
        """The source of the rows, by the name that the budget was made with."""
        return self._chain.terms.source

    @property
    def head(self) -> str:
        """The digest of the newest row; kept elsewhere, it shows later whether rows were removed or written anew.

        Raises:
            LedgerError: If the ledger cannot be read, or was edited.
        """
        with self._chain.store.reading() as rows:
            return self._chain.newest(rows).digest

    @property
    def seen(self) -> int:
        """The number of the newest row that this budget wrote; before it wrote one, of the newest at its opening."""
        return self._chain.seen.number

    def rows(self) -> tuple[LedgerRow, ...]:
        """All rows, oldest first.

        Raises:
            LedgerError: If the ledger cannot be read.
        """
        with self._chain.store.reading() as rows:
            return tuple(rows.rows(self.dataset))

    def allow(
        self, who: str, *, epsilon: Number, delta: Number = 0, expires: date | str | None = None, by: str = ""
    ) -> None:
        """Lays down the most that one label may spend of the budget; a later allowance replaces it.

        A charge as ``who`` (``Budget.open(..., who=)``, ``budget.for_``) must then fit the allowance and the whole,
        from the next charge on, in every process. Allowances are limits, not parts that are set aside: together
        they may be more than the whole. Whoever can write to the ledger can charge under any name, and whoever
        holds the rows needs no ledger at all.

        Args:
            who: The label.
            epsilon: The most, exact; the spending of an earlier allowance of the label counts.
            delta: The most of delta.
            expires: The last day, or a time, in UTC; nothing is charged to it afterwards, by the clock of the machine
                that charges.
            by: Who lays it down.

        Raises:
            ReleaseError: If epsilon, delta, expires or a label is not valid.
            LedgerError: If the ledger cannot be written, or was edited.
        """
        checked_label("who", who, empty=False)
        allowance = Allowance(who, PrivacyCost(exact(epsilon), exact_delta(delta)), moment_of(expires))
        start = Filter(self._chain.terms.accounting, allowance.limit).start
        checked_label("by", by)
        with self._chain.store.writing() as rows:
            head = self._chain.newest(rows)
            whole = self._chain.own(rows.newest(self.dataset, account=""))
            assert whole is not None
            row = self._chain.following(
                head,
                kind="allow",
                who=by,
                allowance=who,
                unit=self._chain.first.unit,
                terms=text_of(allowance, but=("who",)),
                spent=whole.spent,
                allowed=text_of(self._chain.allowed(rows, who) or start),
            )
            rows.append(row)
        self._chain.saw(row)

    def allowances(self) -> dict[str, tuple[Allowance, PrivacyCost]]:
        """The allowances that hold, by label, and the cost of the charges to each.

        Raises:
            LedgerError: If the ledger cannot be read, or was edited.
        """
        found = {}
        with self._chain.store.reading() as rows:
            self._chain.newest(rows)
            laid = {row.allowance: row for row in rows.rows(self.dataset) if row.kind == "allow"}
            for who, row in laid.items():
                allowance, spent = laid_down(row.terms, Allowance, who=who), self._chain.allowed(rows, who)
                rule = Filter(self._chain.terms.accounting, allowance.limit)
                found[who] = allowance, rule.price(rule.start if spent is None else spent)
        return found

    def rows_of(self, release: Any) -> tuple[LedgerRow, ...]:
        """The rows that paid for a release, or for a model of one, by the digests in its record.

        Raises:
            LedgerError: If it names none, or one that is not in this data set's ledger.
        """
        digests = {row.digest: row for row in self.rows()}
        return rows_behind(release, digests.get)

    def verify(self, *, expected_head: str | None = None, release: Any = None) -> Verification:
        """Checks every digest and the order of rows, and computes every total again from the events.

        A chain of digests shows that rows were edited, removed or reordered, unless whoever did so computed all later
        digests again, or put an older copy in place. Against that keep the head's digest elsewhere.

        Args:
            expected_head: A digest of a row that was kept elsewhere: it must still be there.
            release: A release or a model of one, such as a loaded one: its record must be that of the rows it
                names. Its value is not in the ledger, which is written before anything is drawn.

        Raises:
            LedgerError: If the ledger cannot be read, or is not the one that was opened.
        """
        with self._chain.store.reading() as rows:
            if rows.row(self.dataset, 0) is None:
                raise LedgerError(f"the ledger at {self.address} does not hold {self.dataset!r} any more")
            return verified(self.dataset, rows.rows(self.dataset), rows.head(self.dataset), expected_head, release)

    def close(self) -> None:
        """Gives the connection back; the next charge or question makes another."""
        self._chain.store.close()

    def __repr__(self) -> str:
        return f"Ledger({self.dataset!r} at {self.address})"
