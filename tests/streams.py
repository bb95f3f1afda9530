"""Rows without an order of their own: each reading has them in another, as a query on several threads does."""

import numpy as np
import pyarrow as pa


class Stream:
    """Rows that ``__arrow_c_stream__`` hands out, in another order each time; ``reads`` has an entry for each."""

    def __init__(self, table, reads=None):
        self.table, self.reads = table, [] if reads is None else reads

    def _read(self):
        self.reads.append(1)
        return self.table.take(np.random.default_rng(len(self.reads)).permutation(len(self.table)))

    def __arrow_c_stream__(self, requested_schema=None):
        return self._read().__arrow_c_stream__()


class Once(Stream):
    """A stream that can be read once."""

    def _read(self):
        if self.reads:
            raise RuntimeError("it was read before")
        return super()._read()


class Query(Stream):
    """A lazy table: the names of its columns are known, and each column that is asked for is a reading."""

    @property
    def columns(self):
        return self.table.column_names

    def __getitem__(self, name):
        return Query(self.table.select([name]), self.reads)

    def __len__(self):
        return len(self.table)

    def to_numpy(self):
        return self._read().column(0).to_numpy()

    def to_pylist(self):
        return self._read().column(0).to_pylist()

    def __iter__(self):
        return iter(self.to_pylist())

    def __array__(self, dtype=None, copy=None):
        return np.squeeze(np.stack([column.to_numpy() for column in self._read().columns], axis=1))


def reader(table):
    """An Arrow reader, which gives its rows once."""
    return pa.RecordBatchReader.from_stream(Stream(table))
