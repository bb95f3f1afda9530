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
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Source, Tally
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Columns
from dpgraph.statistics.rows.levels import code_dtype
from dpgraph.statistics.rows.persons import PersonCap, person_names
from dpgraph.structure.domain import Bins, Categories

#: The columns of a part: the persons' names, then what the rows hold, by position.
PERSON, HELD = "person", "held"


@dataclass(frozen=True)
class Capped:
    """What an engine does with rows of which a cap keeps some; public but for the key, and what travels to workers."""

    tally: Tally
    cap: PersonCap

    @property
    def domain(self) -> Columns:
        """The columns to read."""
        return self.cap.columns(self.tally.domain)

    def zero(self) -> Integers:
        """The vector of no rows."""
        return self.tally.zero()

    def read(self, batch: Batch, is_text: bool = False) -> pa.RecordBatch:
        """The persons and contents of a batch, without the rows that no sum would hold. Sensitive."""
        person, domain = self.cap.person, self.tally.domain
        names = person_names(batch[person], person, domain.strict)
        read, kept = self.tally.read({name: batch[name] for name in domain.names}, is_text)
        summed = names.is_valid().to_numpy(zero_copy_only=False)
        if kept is not None:
            summed = summed & kept
        whole = pa.record_batch([names, *(pa.array(_whole(read[name])) for name in domain.names)], names=self.names)
        return whole if summed.all() else whole.filter(pa.array(summed))

    @property
    def names(self) -> list[str]:
        """The columns of what is read."""
        return [PERSON, *(f"{HELD}{position}" for position in range(len(self.tally.domain.names)))]

    def total(self, parts: Sequence[pa.RecordBatch]) -> Integers:
        """The vector of those rows that count, given all rows of the persons in them. Sensitive."""
        vector, variables = self.tally.zero(), self.tally.domain.variables
        found = [part for part in parts if part.num_rows]
        if found:
            held = [np.concatenate([part.column(1 + i).to_numpy() for part in found]) for i in range(len(variables))]
            kept = self.cap.kept([part.column(0) for part in found], held)
            columns = zip(variables.items(), held, strict=True)
            self.tally.add_read({name: _as_read(array[kept], one) for (name, one), array in columns}, None, vector)
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


def read_parts(rows: Any, capped: Capped, source: Source = batches) -> Iterator[pa.RecordBatch]:
    """What a part of the rows holds, batch by batch. Sensitive."""
    for batch, is_text in source(rows, capped.domain):
        yield capped.read(batch, is_text)


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
