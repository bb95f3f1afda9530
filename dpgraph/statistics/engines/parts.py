"""The sums of one part of the rows, which every engine makes on its threads or machines.

Law: the vectors of parts that contain each row once add up to the vector of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.rows import parquet
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Declared


class Tally(Protocol):
    """The interface of what sums rows into a vector of integers; vectors add. It holds no rows and can be pickled.

    Counts of a network and sums of a regression are tallies.

    Attributes:
        rows_at_once: How many rows of a larger batch a thread takes; None where whole batches are as quick.
    """

    @property
    def domain(self) -> Declared:
        """The columns that are read."""
        ...

    @property
    def rows_at_once(self) -> int | None:
        """See above."""
        ...

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the rows of a batch to a vector, in place. Sensitive."""
        ...

    def zero(self) -> Integers:
        """The vector of no rows."""
        ...


def count_table(rows: Any, tally: Tally) -> Integers:
    """The counts of a table, as ``batches`` reads it. Sensitive."""
    vector = tally.zero()
    for batch, is_text in batches(rows, tally.domain):
        tally.add(batch, vector, is_text)
    return vector


def count_pieces(pieces: Iterable[parquet.Piece], tally: Tally) -> Integers:
    """The counts of pieces of Parquet files. Sensitive."""
    vector = tally.zero()
    for piece in pieces:
        for batch in parquet.read(piece, tally.domain):
            tally.add(batch, vector)
    return vector


def count_columns(found: Iterable[pa.RecordBatch], tally: Tally) -> Integers:
    """The counts of Arrow batches of the declared columns, in order, whatever they are called. Sensitive."""
    vector = tally.zero()
    for batch in found:
        tally.add(dict(zip(tally.domain.names, batch.columns, strict=True)), vector)
    return vector


def count_shares(ids: Iterable[pa.RecordBatch], shares: Sequence[Sequence[parquet.Piece]], tally: Tally) -> Integers:
    """The counts of the shares of a Parquet path whose numbers an engine hands out. Sensitive."""
    numbers = [number for batch in ids for number in batch.column(0).to_pylist()]
    return count_pieces([piece for number in numbers for piece in shares[number]], tally)
