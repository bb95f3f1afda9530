"""What is summed of any part of the rows, which every engine reads on its threads or machines.

Law: the vectors of parts that contain each row once add up to the vector of the whole. The part of a group is the
vector of its own rows (proofs.md P124); where a cap keeps some rows of each person, they are chosen once, of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.rows import parquet
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Columns, Declared, batch_length
from dpgraph.statistics.rows.codes import encode_column
from dpgraph.statistics.rows.groups import members
from dpgraph.statistics.rows.row_cap import Flags

#: Rows as read: for each column codes of levels, or numbers.
Read = Mapping[str, npt.NDArray[Any]]

#: Batches of the columns of a declaration, each with whether it is untyped text.
Source = Callable[[Any, Declared], Iterator[tuple[Batch, bool]]]


class Kernel(Protocol):
    """The interface of what a description sums of each row: columns to read and a vector of sums.

    It holds no rows and is pickled: it is public, and is what travels to workers.
    """

    @property
    def columns(self) -> Declared:
        """The columns to read."""
        ...

    @property
    def rows_at_once(self) -> int | None:
        """How many rows of a larger batch a thread takes; None where whole batches are as quick."""
        ...

    def zero(self) -> Integers:
        """The vector of no rows."""
        ...

    def read(self, batch: Batch, is_text: bool) -> tuple[dict[str, Any], Flags | None]:
        """The columns of a batch as codes and numbers, and which rows are summed, None for all. Sensitive."""
        ...

    def add(self, read: Read, vector: Integers) -> None:
        """Adds rows that were read to a vector, in place. Sensitive."""
        ...

    def statistics(self, vector: Integers, group: RowGroup | None, cap: RowCap | None) -> Any:
        """The sums of a vector as statistics of the description. Sensitive."""
        ...


@dataclass(frozen=True)
class Tally:
    """A kernel over all rows, or over each of several groups, whose vectors follow one another; it travels as well.

    Attributes:
        kernel: What is summed.
        groups: Groups by the same variables; None for one vector of all rows.
    """

    kernel: Kernel
    groups: tuple[RowGroup, ...] | None = None

    @property
    def domain(self) -> Declared:
        """The kernel's columns, then those that groups are told by."""
        if self.groups is None:
            return self.kernel.columns
        declared = self.kernel.columns
        variables = dict(declared.variables)
        for condition in self.groups[0].conditions:
            variables.setdefault(condition.by, condition.declaration)
        return Columns(variables, declared.strict)

    @property
    def rows_at_once(self) -> int | None:
        """As the kernel's."""
        return self.kernel.rows_at_once

    def zero(self) -> Integers:
        """The vector of no rows."""
        return np.tile(self.kernel.zero(), 1 if self.groups is None else len(self.groups))

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the rows of a batch to a vector, in place. Sensitive."""
        many = batch_length(batch)
        step = self.rows_at_once or max(1, many)
        for start in range(0, many, step):
            part = batch if many <= step else {name: array.slice(start, step) for name, array in batch.items()}
            self.add_read(*self.read(part, is_text), vector)

    def read(self, batch: Batch, is_text: bool = False) -> tuple[dict[str, Any], Flags | None]:
        """The columns of a batch, and which rows are summed, None for all. Sensitive."""
        read, kept = self.kernel.read(batch, is_text)
        domain = self.domain
        for name, declared in domain.variables.items():
            if name not in read:
                read[name] = encode_column(batch[name], declared, name, is_text, domain.strict)
        return read, kept

    def add_read(self, read: Read, kept: Flags | None, vector: Integers) -> None:
        """Adds rows that were read to a vector, in place, each to its group. Sensitive."""
        if self.groups is None:
            self.kernel.add(self._rows(read, kept), vector)
            return
        for group, part in zip(self.groups, np.split(vector, len(self.groups)), strict=True):
            own = members(read, group)
            self.kernel.add(self._rows(read, own if kept is None else own & kept), part)

    def _rows(self, read: Read, kept: Flags | None) -> Read:
        """The kernel's columns of the rows that are kept; no copy where all are."""
        if kept is None or kept.all():
            return read
        return {name: read[name][kept] for name in self.kernel.columns.names}


def in_pieces(pieces: Iterable[parquet.Piece], domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """The batches of pieces of Parquet files."""
    for piece in pieces:
        yield from ((batch, False) for batch in parquet.read(piece, domain))


def in_columns(found: Iterable[pa.RecordBatch], domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """Arrow batches of the declared columns, in order, whatever they are called."""
    yield from ((dict(zip(domain.names, batch.columns, strict=True)), False) for batch in found)


def in_shares(
    ids: Iterable[pa.RecordBatch], domain: Declared, shares: Sequence[Sequence[parquet.Piece]]
) -> Iterator[tuple[Batch, bool]]:
    """The batches of the shares of a Parquet path whose numbers an engine hands out."""
    numbers = [number for batch in ids for number in batch.column(0).to_pylist()]
    return in_pieces([piece for number in numbers for piece in shares[number]], domain)


def counted(rows: Any, tally: Tally, source: Source = batches) -> Integers:
    """The vector of a part of the rows. Sensitive."""
    vector = tally.zero()
    for batch, is_text in source(rows, tally.domain):
        tally.add(batch, vector, is_text)
    return vector
