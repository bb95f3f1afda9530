"""The counts of one part of the rows: what every engine does, on whatever thread or machine the part lies.

Law: the vectors of parts that hold each row once add up to the vector of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.statistics import parquet
from dpgraph.statistics.arrow import batches
from dpgraph.statistics.codes import Codes, encode_batch
from dpgraph.structure.domain import Domain

Integers = npt.NDArray[np.int64]


class Tally(Protocol):
    """Encoded rows to a vector of counts; vectors add. It holds no rows and can be pickled."""

    @property
    def domain(self) -> Domain:
        """By which the rows are encoded."""
        ...

    def __call__(self, codes: Codes, vector: Integers) -> None:
        """Adds the counts of some rows to a vector, in place. Sensitive."""
        ...

    def zero(self) -> Integers:
        """The counts of no rows."""
        ...


def count_table(rows: Any, tally: Tally) -> Integers:
    """The counts of a table, as ``batches`` reads it. Sensitive."""
    vector = tally.zero()
    for batch, is_text in batches(rows, tally.domain):
        tally(encode_batch(batch, tally.domain, is_text), vector)
    return vector


def count_pieces(pieces: Iterable[parquet.Piece], tally: Tally) -> Integers:
    """The counts of pieces of Parquet files. Sensitive."""
    vector = tally.zero()
    for piece in pieces:
        for batch in parquet.read(piece, tally.domain):
            tally(encode_batch(batch, tally.domain), vector)
    return vector


def count_columns(found: Iterable[pa.RecordBatch], tally: Tally) -> Integers:
    """The counts of Arrow batches of the declared columns, in order, whatever they are called. Sensitive."""
    vector = tally.zero()
    for batch in found:
        columns = dict(zip(tally.domain.names, batch.columns, strict=True))
        tally(encode_batch(columns, tally.domain), vector)
    return vector


def count_shares(ids: Iterable[pa.RecordBatch], shares: Sequence[Sequence[parquet.Piece]], tally: Tally) -> Integers:
    """The counts of the shares of a Parquet path whose numbers an engine hands out. Sensitive."""
    numbers = [number for batch in ids for number in batch.column(0).to_pylist()]
    return count_pieces([piece for number in numbers for piece in shares[number]], tally)
