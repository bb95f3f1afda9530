"""Exact tables of any variables, counted when a choice asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.privacy.scope import RowCap, joined
from dpgraph.statistics.contingency import add_tables
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import MOST_CELLS, AnyTables
from dpgraph.structure.network import Family

#: Tables of up to so many cells together are kept once counted.
KEPT_CELLS = 1 << 24


@dataclass(frozen=True, eq=False)
class TableCounts:
    """Exact counts of whatever table is asked for: sensitive, without numbers in its ``repr``, not pickled."""

    sensitive_codes: Codes
    _kept: dict[Family, Integers] = field(default_factory=dict, init=False, repr=False)
    _cells: list[int] = field(default_factory=lambda: [0], init=False, repr=False)  # of all that are kept

    @property
    def description(self) -> AnyTables:
        """The tables on offer: every table of the domain."""
        return AnyTables(self.sensitive_codes.domain)

    @property
    def cap(self) -> RowCap | None:
        """How many of a person's rows there are, where ``cap_rows`` chose them."""
        return self.sensitive_codes.cap

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return self.sensitive_codes.sensitive_rows

    def sensitive_block(self, name: Family, unit: PrivacyUnit) -> Integers:
        """The exact counts over at most ``MOST_CELLS`` cells, in the order asked for; the same under every unit."""
        domain = self.sensitive_codes.domain
        ordered = tuple(one for one in domain.names if one in name)
        if ordered not in self._kept:
            cells = self.description.cells(name)
            if cells > MOST_CELLS:
                raise ReleaseError(f"the table of {', '.join(name)} has {cells:,} cells, more than {MOST_CELLS:,}")
            columns = [self.sensitive_codes.columns[one] for one in ordered]
            sizes = [domain.sizes[one] for one in ordered]
            total = np.zeros(cells, np.int64)
            add_tables(columns, sizes, [tuple(range(len(ordered)))], [total])
            if self._cells[0] + cells > KEPT_CELLS:
                self._kept.clear()
                self._cells[0] = 0
            self._cells[0] += cells
            self._kept[ordered] = total.reshape(sizes)
        return self._kept[ordered].transpose([ordered.index(one) for one in name])

    def __add__(self, other: TableCounts) -> TableCounts:
        if not isinstance(other, TableCounts):
            return NotImplemented
        mine, theirs = self.sensitive_codes, other.sensitive_codes
        if mine.domain != theirs.domain:
            raise ReleaseError("tables of different domains do not add")
        columns = ((one, np.concatenate([mine.columns[one], theirs.columns[one]])) for one in mine.domain.names)
        return TableCounts(Codes(mine.domain, FrozenMap(columns), joined(mine.cap, theirs.cap)))

    def __repr__(self) -> str:
        return f"TableCounts({len(self.sensitive_codes.domain.names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("tables to choose from are sensitive and are not pickled")


def any_tables(rows: Any, domain: Domain) -> TableCounts:
    """Encodes rows, so that a mechanism that chooses among tables may count any table of them; sensitive."""
    return TableCounts(encode(rows, domain))
