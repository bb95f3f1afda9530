"""Parquet files and folders, split into pieces that threads or machines can read independently.

A piece is some row groups of one file. Together the pieces of a path contain each of its rows once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import pyarrow as pa

from dpgraph.statistics.rows.batches import Batch, Declared, batch_rows, check_columns, select_columns
from dpgraph.statistics.rows.locations import Place
from dpgraph.structure.conversion import OURS, converted, converted_each
from dpgraph.structure.domain import DomainError

SUFFIXES = (".parquet", ".pq")

#: Small row groups of one file are read together up to about so many rows.
PIECE_ROWS = 1 << 19

#: Bytes of a column read at once: a row group is decoded as it streams, where it would be fetched whole.
BUFFER = 1 << 20


class Piece(NamedTuple):
    """Some row groups of one file; how many rows they hold is as sensitive as the number of rows.

    A file that is not on this machine has the address of its file system.
    """

    file: str
    row_groups: tuple[int, ...]
    sensitive_rows: int
    address: str = ""


def is_parquet(path: Place) -> bool:
    """Whether a path is named as a Parquet file."""
    return path.name.lower().endswith(SUFFIXES)


def pieces(path: Place, domain: Declared) -> list[Piece]:
    """The pieces of a Parquet file or of a folder of them, in the order of their names.

    Only the footers are read, so a file without a declared column is refused before any row is counted.
    """
    files = [file for file in path.files() if is_parquet(file)] if path.is_folder() else [path]
    if not files:
        raise DomainError(f"the folder {path} holds no Parquet file")
    return [piece for file in files for piece in _file_pieces(file, domain)]


def read(piece: Piece, domain: Declared, *, threads: bool = False) -> Iterator[Batch]:
    """The declared columns of one piece, batch by batch; text stays in dictionaries, as the file stores it."""
    path = Place(piece.file, piece.address)
    if not path.exists():
        raise DomainError(f"there is no file {path}; every worker must be able to read it")
    yield from converted_each(_read(path, piece.row_groups, domain, threads), _unreadable(path), passing=OURS)


def _read(path: Place, row_groups: tuple[int, ...], domain: Declared, threads: bool) -> Iterator[Batch]:
    """As ``read``, with whatever Arrow raises."""
    import pyarrow.parquet as pq

    with path.open() as source, pq.ParquetFile(source) as file:
        check_columns(file.schema_arrow.names, domain, path.name)
        text = [name for name in domain.names if _is_text(file.schema_arrow.field(name).type)]
        footer = file.metadata
    settings: Any = {"read_dictionary": text, "buffer_size": BUFFER, "pre_buffer": False}
    with path.open() as source, pq.ParquetFile(source, metadata=footer, **settings) as file:
        for row_group in row_groups:
            wanted: Any = {"row_groups": [row_group], "columns": list(domain.names), "use_threads": threads}
            for batch in file.iter_batches(batch_rows(domain), **wanted):
                yield select_columns(batch, domain, path.name)


def _file_pieces(path: Place, domain: Declared) -> list[Piece]:
    """The pieces of one file, small row groups put together."""
    rows = converted(lambda: _row_groups(path, domain), _unreadable(path), passing=OURS)
    before = [0, *accumulate(rows)]
    together = groupby(range(len(rows)), key=lambda i: before[i] // PIECE_ROWS)
    groups = [tuple(group) for _, group in together]
    return [Piece(path.path, group, sum(rows[i] for i in group), path.address) for group in groups]


def _row_groups(path: Place, domain: Declared) -> list[int]:
    import pyarrow.parquet as pq

    with path.open() as source, pq.ParquetFile(source) as file:
        check_columns(file.schema_arrow.names, domain, path.name)
        return [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _unreadable(path: Place) -> str:
    return f"{path} cannot be read as Parquet; is it truncated or of another format?"
