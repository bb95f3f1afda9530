"""Sums over the rows of persons that a cap keeps, on every engine.

First every part of the rows is read where it lies, by the declaration: whose each row is, and whole numbers for what it
holds. Then the rows of one person are brought together, whatever part they came from, and those that the cap keeps are
summed. What is kept is a function of the key and of a person's own rows (proofs.md P86), so all engines give the same
integers for one key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Tally
from dpgraph.statistics.rows import parquet
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Columns
from dpgraph.statistics.rows.kept import Flags
from dpgraph.statistics.rows.persons import PersonCap, person_names

#: The columns of a part: the persons' names, then what the rows hold, by position.
PERSON, HELD = "person", "held"


class PersonTally(Tally, Protocol):
    """The interface of a tally whose rows can be read first and summed later."""

    def read(self, batch: Batch, is_text: bool = False) -> tuple[list[Any], Flags]:
        """Arrays of whole numbers, which say of a row all that its sum depends on, and which rows are summed at all."""
        ...

    def add_read(self, held: Sequence[Any], vector: Integers) -> None:
        """Adds rows that were read, of all columns, to a vector, in place. Sensitive."""
        ...


@dataclass(frozen=True)
class Capped:
    """What an engine does with rows of which a cap keeps some; public but for the key, and what travels to workers."""

    tally: PersonTally
    cap: PersonCap

    @property
    def domain(self) -> Columns:
        """The columns to read."""
        return self.cap.columns(self.tally.domain)

    @property
    def width(self) -> int:
        """How many arrays a row's content takes."""
        return len(self.tally.domain.names)

    def read(self, batch: Batch, is_text: bool = False) -> pa.RecordBatch:
        """The persons and contents of a batch, without the rows that no sum would hold. Sensitive."""
        person, strict = self.cap.person, self.tally.domain.strict
        names = person_names(batch[person], person, strict)
        held, summed = self.tally.read({name: batch[name] for name in self.tally.domain.names}, is_text)
        summed &= names.is_valid().to_numpy(zero_copy_only=False)
        whole = pa.record_batch([names, *map(pa.array, held)], names=self.names)
        return whole if summed.all() else whole.filter(pa.array(summed))

    @property
    def names(self) -> list[str]:
        """The columns of what is read."""
        return [PERSON, *(f"{HELD}{position}" for position in range(self.width))]

    def total(self, parts: Sequence[pa.RecordBatch]) -> Integers:
        """The vector of those rows that count, given all rows of the persons in them. Sensitive."""
        vector = self.tally.zero()
        found = [part for part in parts if part.num_rows]
        if found:
            held = [np.concatenate([part.column(1 + i).to_numpy() for part in found]) for i in range(self.width)]
            kept = self.cap.kept([part.column(0) for part in found], held)
            self.tally.add_read([array[kept] for array in held], vector)
        return vector


def read_table(rows: Any, capped: Capped) -> Iterator[pa.RecordBatch]:
    """What a table, a path or a stream holds, batch by batch. Sensitive."""
    for batch, is_text in batches(rows, capped.domain):
        yield capped.read(batch, is_text)


def read_pieces(pieces: Iterable[parquet.Piece], capped: Capped) -> Iterator[pa.RecordBatch]:
    """What pieces of Parquet files hold. Sensitive."""
    for piece in pieces:
        for batch in parquet.read(piece, capped.domain):
            yield capped.read(batch)


def read_columns(found: Iterable[pa.RecordBatch], capped: Capped) -> Iterator[pa.RecordBatch]:
    """What Arrow batches of the columns hold, in order, whatever these are called. Sensitive."""
    for batch in found:
        yield capped.read(dict(zip(capped.domain.names, batch.columns, strict=True)))


def read_shares(
    ids: Iterable[pa.RecordBatch], shares: Sequence[Sequence[parquet.Piece]], capped: Capped
) -> Iterator[pa.RecordBatch]:
    """What the shares of a Parquet path hold whose numbers an engine hands out. Sensitive."""
    for batch in ids:
        for number in batch.column(0).to_pylist():
            yield from read_pieces(shares[number], capped)


def buckets(parts: Iterable[pa.RecordBatch], capped: Capped, many: int) -> list[list[pa.RecordBatch]]:
    """Parts split by person: the rows of one person are in the same bucket, whatever part they come from."""
    found: list[list[pa.RecordBatch]] = [[] for _ in range(many)]
    for part in parts:
        words = part.column(0).dictionary_encode()
        chosen = [_bucket(name, capped.cap.key, many) for name in words.dictionary.to_pylist()]
        numbers = np.array(chosen, np.int64)[words.indices.to_numpy()]
        for number in np.unique(numbers):
            found[number].append(part.filter(pa.array(numbers == number)))
    return found


def _bucket(name: str, key: bytes, many: int) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=key, person=b"bucket").digest()
    return int.from_bytes(digest, "little") % many
