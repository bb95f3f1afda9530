"""Rows in files: CSV and Parquet, on this machine or at an address that fsspec opens, such as ``s3://bucket/rows.csv``.

A place holds no credentials and can be pickled. Parquet is split into pieces, some row groups of one file, that threads
or machines read independently: together they contain each row once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from dpgraph.statistics.rows.batches import Batch, Declared, batch_rows, check_columns, is_string, select_columns
from dpgraph.structure.conversion import OURS, PublicWords, converted_each
from dpgraph.structure.domain import DomainError

#: The endings of CSV files.
CSV = (".csv", ".csv.gz")
#: The endings of Parquet files.
SUFFIXES = (".parquet", ".pq")
#: Small row groups of one file are read together up to about so many rows.
PIECE_ROWS = 1 << 19
#: Bytes of a column read at once: a row group is decoded as it streams, where it would be fetched whole.
BUFFER = 1 << 20


@dataclass(frozen=True)
class Place:
    """A file or a folder: its path, and its address as given; empty for this machine."""

    path: str
    address: str = ""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.path).name if self.address else Path(self.path).name

    def __str__(self) -> str:
        """Its path or address, without a password."""
        if not self.address:
            return self.path
        shown = re.sub(r"(?<=://)[^/@]*@", "", self.address)
        return shown if shown.rstrip("/").endswith(self.name) else f"{shown} ({self.name})"

    def exists(self) -> bool:
        """True if there is such a file or folder."""
        return self._asked("exists") if self.address else os.path.exists(self.path)

    def is_folder(self) -> bool:
        """True for a folder."""
        return self._asked("isdir") if self.address else os.path.isdir(self.path)

    def named(self, endings: tuple[str, ...]) -> bool:
        """True if its name ends in one of these, in any case."""
        return self.name.lower().endswith(endings)

    def is_parquet(self) -> bool:
        """True for a folder, or a file named as a Parquet file."""
        return self.is_folder() or self.named(SUFFIXES)

    def files(self) -> list[Place]:
        """The files in a folder and its folders, by name, without bookkeeping (names that begin with . or _)."""
        if self.address:
            found = [Place(path, self.address) for path in self._asked("find")]
            inside = {place: PurePosixPath(place.path).relative_to(self.path.rstrip("/") or "/") for place in found}
        else:
            folder = Path(self.path)
            held = [file for file in folder.rglob("*") if file.is_file()]
            inside = {Place(str(file)): PurePosixPath(*file.relative_to(folder).parts) for file in held}
        seen = {place: rest for place, rest in inside.items() if not any(p.startswith((".", "_")) for p in rest.parts)}
        return sorted(seen, key=lambda place: seen[place])

    def open(self) -> AbstractContextManager[Any]:
        """The source for Arrow: a path, or an open file."""
        return self._remote() if self.address else nullcontext(self.path)

    @contextmanager
    def _remote(self) -> Iterator[Any]:
        compression = "gzip" if self.named((".gz",)) else None
        with PublicWords(_unreachable(self), passing=OURS):
            opened = _opened(self.address)[0].open(self.path, "rb")
        with opened as file:
            yield pa.input_stream(file, compression=compression) if compression else file

    def absolute(self) -> Place:
        """The same place, wherever a process on this machine was started."""
        return self if self.address else Place(os.path.abspath(self.path))

    def _asked(self, question: str) -> Any:
        with PublicWords(_unreachable(self), passing=OURS):
            return getattr(_opened(self.address)[0], question)(self.path)


def place_of(path: str | Path) -> Place:
    """The place of a path or an address, at which there must be a file or a folder."""
    text = str(path)
    place = Place(_opened(text)[1], text) if isinstance(path, str) and "://" in path else Place(text)
    if not place.exists():
        lost = re.match(r"[a-z][a-z0-9+]+:/[^/]", text) if isinstance(path, Path) else None
        raise DomainError(f"there is no file {place}" + ("; give an address as text, not as a Path" if lost else ""))
    return place


def is_there(path: str | Path) -> bool:
    """True if there is such a file or folder; the text may be a row's, and nothing repeats it."""
    try:
        place_of(path)
    except (DomainError, ImportError):
        return False
    return True


def _opened(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise DomainError("an address needs fsspec: pip install 'dpgraph[remote]'") from None
    with PublicWords(_unreachable(Place(address, address)), passing=OURS):
        return url_to_fs(address)


def _unreachable(place: Place) -> str:
    return f"{place} cannot be reached; does fsspec know its protocol, and does the environment hold its credentials?"


def read_path(rows: str | Path, domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """The declared columns of a file or a folder, batch by batch, each with whether it is untyped text."""
    path = place_of(rows)
    if path.is_parquet():
        yield from in_pieces(pieces(path, domain), domain, threads=True)
    elif path.named(CSV):
        yield from ((batch, True) for batch in _from_csv(path, domain))
    else:
        known = ", ".join(CSV + SUFFIXES)
        raise DomainError(f"{path} is neither {known} nor a folder of Parquet")


def _from_csv(path: Place, domain: Declared) -> Iterator[Batch]:
    """The declared columns of a CSV file: every column as text, an empty unquoted field as null.

    In a strict declaration a line of too few or too many fields is a row of nulls, and text that is not UTF-8 is text:
    no line refuses the file. A file that does not end where its quotes and lines end is damaged, and is refused.
    """
    import pyarrow.csv as csv

    problem = f"{path} cannot be read as CSV; is it truncated or of another format?"
    ragged: list[int] = []

    def skip(row: Any) -> str:
        ragged.append(1)
        return "skip"

    options: Any = {"newlines_in_values": True, "invalid_row_handler": skip if domain.strict else None}
    with path.open() as source:
        header = csv.ParseOptions(**options)
        with PublicWords(problem):
            names = csv.open_csv(source, parse_options=header).schema.names
    check_columns(names, domain, path.name)
    ragged.clear()
    # In a file of one column an empty line is a row with a null; skipping it would let a value change n.
    parsing = csv.ParseOptions(ignore_empty_lines=len(names) > 1, **options)
    columns = csv.ConvertOptions(
        include_columns=list(domain.names),
        column_types=dict.fromkeys(domain.names, pa.binary() if domain.strict else pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with path.open() as source:
        with PublicWords(problem):
            reader = csv.open_csv(source, convert_options=columns, parse_options=parsing)
        for batch in converted_each(iter(reader), problem):
            yield select_columns(batch, domain)
    for start in range(0, len(ragged), batch_rows(domain)):
        rows = min(batch_rows(domain), len(ragged) - start)
        yield {name: pa.nulls(rows, pa.binary()) for name in domain.names}


class Piece(NamedTuple):
    """Some row groups of one file, and its address if elsewhere; the number of rows is sensitive."""

    file: str
    row_groups: tuple[int, ...]
    sensitive_rows: int
    address: str = ""


def pieces(path: Place, domain: Declared) -> list[Piece]:
    """The pieces of a Parquet file or folder, by name; a missing column is refused by the footers, before any count."""
    files = [file for file in path.files() if file.named(SUFFIXES)] if path.is_folder() else [path]
    if not files:
        raise DomainError(f"the folder {path} holds no Parquet file")
    return [piece for file in files for piece in _file_pieces(file, domain)]


def read(piece: Piece, domain: Declared, *, threads: bool = False) -> Iterator[Batch]:
    """The declared columns of one piece, batch by batch; text stays in dictionaries, as the file stores it."""
    path = Place(piece.file, piece.address)
    if not path.exists():
        raise DomainError(f"there is no file {path}; every worker must be able to read it")
    yield from converted_each(_read(path, piece.row_groups, domain, threads), _unreadable(path), passing=OURS)


def in_pieces(pieces: Iterable[Piece], domain: Declared, threads: bool = False) -> Iterator[tuple[Batch, bool]]:
    """The batches of pieces of Parquet files."""
    for piece in pieces:
        yield from ((batch, False) for batch in read(piece, domain, threads=threads))


def _read(path: Place, row_groups: tuple[int, ...], domain: Declared, threads: bool) -> Iterator[Batch]:
    """As ``read``, with whatever Arrow raises."""
    import pyarrow.parquet as pq

    with path.open() as source, pq.ParquetFile(source) as file:
        check_columns(file.schema_arrow.names, domain, path.name)
        text = [name for name in domain.names if is_string(file.schema_arrow.field(name).type)]
        footer = file.metadata
    settings: Any = {"read_dictionary": text, "buffer_size": BUFFER, "pre_buffer": False}
    with path.open() as source, pq.ParquetFile(source, metadata=footer, **settings) as file:
        for row_group in row_groups:
            wanted: Any = {"row_groups": [row_group], "columns": list(domain.names), "use_threads": threads}
            for batch in file.iter_batches(batch_rows(domain), **wanted):
                yield select_columns(batch, domain, path.name)


def _file_pieces(path: Place, domain: Declared) -> list[Piece]:
    import pyarrow.parquet as pq

    with PublicWords(_unreadable(path), passing=OURS), path.open() as source, pq.ParquetFile(source) as file:
        check_columns(file.schema_arrow.names, domain, path.name)
        rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    before = [0, *accumulate(rows)]
    together = groupby(range(len(rows)), key=lambda i: before[i] // PIECE_ROWS)
    groups = [tuple(group) for _, group in together]
    return [Piece(path.path, group, sum(rows[i] for i in group), path.address) for group in groups]


def _unreadable(path: Place) -> str:
    return f"{path} cannot be read as Parquet; is it truncated or of another format?"
