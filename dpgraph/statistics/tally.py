"""Sums over any part of the rows, which every engine computes on its threads or machines.

Law: vectors of parts that contain each row once add up to that of the whole (proofs.md P124). Under a cap every part is
read where it lies, rows of one person are brought together, and the cap's choice of them is summed (proofs.md P86).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.checks import Flags, Integers
from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Columns, Declared, slices
from dpgraph.statistics.rows.codes import code_dtype, encode_column, members
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.structure.domain import Bins, Categories

#: Rows as read: for each column codes of levels, or numbers.
Read = Mapping[str, npt.NDArray[Any]]
#: Batches of the columns of a declaration, each with whether it is untyped text.
Source = Callable[[Any, Declared], Iterator[tuple[Batch, bool]]]
#: The columns of a part under a cap: the persons' names, then what the rows hold, by position.
PERSON, HELD = "person", "held"


@dataclass(frozen=True)
class Kernel:
    """How workers sum a description, ``made`` of ``of`` in messages: the columns to read, and how many sums there are.

    ``read`` gives the columns of a batch as codes and numbers, and which rows are summed, None for all; ``add`` adds
    them to a vector, in place; ``statistics`` are those of a vector. A thread takes ``rows_at_once`` rows of a larger
    batch; None where counting has threads of its own.
    """

    made: str
    of: str
    columns: Declared
    size: int
    read: Callable[[Batch, bool], tuple[dict[str, Any], Flags | None]]
    add: Callable[[Read, Integers], None]
    statistics: Callable[[Integers, RowGroup | None, RowCap | None], Any]
    rows_at_once: int | None = None


@dataclass(frozen=True)
class Tally:
    """A kernel over all rows or each of several groups by the same variables, of all rows or those a cap keeps."""

    kernel: Kernel
    groups: tuple[RowGroup, ...] | None = None
    cap: PersonCap | None = None

    @property
    def summed(self) -> Declared:
        """The kernel's columns, then those that groups are told by."""
        declared = self.kernel.columns
        if self.groups is None:
            return declared
        variables: dict[str, Any] = dict(declared.variables)
        for condition in self.groups[0].conditions:
            variables.setdefault(condition.by, condition.declaration)
        return Columns(variables, declared.strict)

    @property
    def domain(self) -> Declared:
        """The columns to read, that of persons last."""
        return self.summed if self.cap is None else self.cap.columns(self.summed)

    @property
    def rows_at_once(self) -> int | None:
        """As the kernel's."""
        return self.kernel.rows_at_once

    def zero(self) -> Integers:
        """The vector of no rows."""
        return np.zeros(self.kernel.size * (1 if self.groups is None else len(self.groups)), np.int64)

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the rows of a batch to a vector, in place. Sensitive."""
        for part in slices(batch, self.rows_at_once):
            self.add_read(*self.read(part, is_text), vector)

    def read(self, batch: Batch, is_text: bool = False) -> tuple[dict[str, Any], Flags | None]:
        """The columns of a batch, and which rows are summed, None for all. Sensitive."""
        read, kept = self.kernel.read(batch, is_text)
        summed = self.summed
        for name, declared in summed.variables.items():
            if name not in read:
                read[name] = encode_column(batch[name], declared, name, is_text, summed.strict)
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

    def person_columns(self) -> list[str]:
        """The columns of the table that ``read_persons`` returns."""
        return [PERSON, *(f"{HELD}{position}" for position in range(len(self.summed.names)))]

    def read_persons(self, batch: Batch, is_text: bool = False) -> pa.RecordBatch:
        """The persons and contents of a batch, without the rows that no sum would hold. Sensitive."""
        assert self.cap is not None
        domain = self.summed
        names = self.cap.names(batch, domain.strict)
        read, kept = self.read({name: batch[name] for name in domain.names}, is_text)
        summed = names.is_valid().to_numpy(zero_copy_only=False)
        if kept is not None:
            summed = summed & kept
        columns = [names, *(pa.array(_whole(read[name])) for name in domain.names)]
        whole = pa.record_batch(columns, names=self.person_columns())
        return whole if summed.all() else whole.filter(pa.array(summed))

    def capped_total(self, parts: Sequence[pa.RecordBatch]) -> Integers:
        """The vector of those rows that count, given all rows of the persons in them. Sensitive."""
        assert self.cap is not None
        vector, variables = self.zero(), self.summed.variables
        found = [part for part in parts if part.num_rows]
        if found:
            held = [np.concatenate([part.column(1 + i).to_numpy() for part in found]) for i in range(len(variables))]
            kept = self.cap.kept([part.column(0) for part in found], held)
            columns = zip(variables.items(), held, strict=True)
            self.add_read({name: _as_read(array[kept], one) for (name, one), array in columns}, None, vector)
        return vector


def _whole(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers that are equal where the values are: codes as they are, of numbers their bits."""
    if values.dtype != np.float64:
        return values
    return (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)


def _as_read(held: npt.NDArray[Any], declared: Any) -> npt.NDArray[Any]:
    """A column as it was before ``_whole``, whatever the width that an engine gave it."""
    coded = isinstance(declared, Categories | Bins)
    return held.astype(code_dtype(declared.size), copy=False) if coded else held.view(np.float64)


def counted(rows: Any, tally: Tally, source: Source = batches) -> Integers:
    """The vector of a part of the rows. Sensitive."""
    vector = tally.zero()
    for batch, is_text in source(rows, tally.domain):
        tally.add(batch, vector, is_text)
    return vector


def read_parts(rows: Any, tally: Tally, source: Source = batches) -> Iterator[pa.RecordBatch]:
    """The persons and contents of the rows of a part, batch by batch. Sensitive."""
    for batch, is_text in source(rows, tally.domain):
        yield tally.read_persons(batch, is_text)


def buckets(rows: Any, many: int, tally: Tally, source: Source) -> list[list[pa.RecordBatch]]:
    """A part split by person: the rows of one person are in the same bucket, whatever part they come from."""
    assert tally.cap is not None
    found: list[list[pa.RecordBatch]] = [[] for _ in range(many)]
    for part in read_parts(rows, tally, source):
        words = part.column(0).dictionary_encode()
        key: Any = {"digest_size": 8, "key": tally.cap.key, "person": b"bucket"}
        hashed = [hashlib.blake2b(name.encode(), **key).digest() for name in words.dictionary.to_pylist()]
        chosen = [int.from_bytes(digest, "little") % many for digest in hashed]
        numbers = np.array(chosen, np.int64)[words.indices.to_numpy()]
        for number in np.unique(numbers):
            found[number].append(part.filter(pa.array(numbers == number)))
    return found
