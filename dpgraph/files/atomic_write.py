"""Atomic writing: a file is written under a temporary name beside the target, then moved into place.

An error or an interruption leaves nothing behind, and an existing file unchanged; a killed process may leave its hidden
temporary file. A symbolic link stays and its target is replaced; an existing file keeps its permissions. A pipe, a
terminal and ``/dev/stdout`` are written to as they are.

A program that opens a CSV file takes ``=HYPERLINK(...)`` for a formula, wherever it comes from; levels of a variable
come from files. So a cell that begins like a formula gets an apostrophe before it (OWASP, CSV Injection). Numbers stay
as they are, with their sign.
"""

from __future__ import annotations

import csv
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import FileError

#: Names that this process may have made and not yet removed, each with the process that made it.
_MADE: dict[str, int] = {}


def write_text(target: Path, text: str) -> None:
    """Writes a text file atomically; refuses characters that are not UTF-8's."""
    with replacing(target) as file:
        file.write(text.encode())


def write_frames(target: Path, frames: Iterable[DataFrame]) -> None:
    """Writes frames of the same columns one below the other, atomically: Parquet row groups, or CSV."""
    with replacing(target) as file, ExitStack() as stack:
        writer = None
        for at, frame in enumerate(frames):
            if target.suffix.lower() != ".parquet":
                file.write(csv_text(frame, header=at == 0).encode())
                continue
            import pyarrow as pa
            import pyarrow.parquet as parquet

            table = pa.Table.from_pandas(frame, preserve_index=False)
            writer = writer or stack.enter_context(parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)


def is_stream(target: Path) -> bool:
    """True if a target takes bytes as they come and keeps no file: a pipe, a device, ``/dev/stdout``.

    >>> is_stream(Path("/dev/stdout")), is_stream(Path("release.json"))
    (True, False)
    """
    if _open_already(target) is not None:
        return True
    with suppress(OSError):
        kind = os.stat(target).st_mode
        return stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)
    return False


def check_writable(target: Path) -> None:
    """Refuses, before anything is spent, a target that cannot be written; writes nothing."""
    if not is_stream(target):
        with _refusing(target), temporary_file(_file_of(target), 0o600) as (handle, _):
            os.close(handle)


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to: a stream itself, or a temporary file that becomes the target if nothing fails."""
    with _refusing(target):
        if is_stream(target):
            number = _open_already(target)  # an open file goes on where it is, as ``>>`` wants it
            with open(target if number is None else os.dup(number), "wb") as file:
                yield file
            return
        path = _file_of(target)
        old = os.stat(path) if path.exists() else None
        with temporary_file(path, 0o666 if old is None else 0o600) as (handle, name), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if old is not None:
                with suppress(OSError):
                    os.chown(handle, old.st_uid, old.st_gid)
                os.chmod(handle, stat.S_IMODE(old.st_mode) & 0o777)
            os.fsync(handle)
            os.replace(name, path)
        with suppress(OSError):  # the new name lasts through a power cut, where the file system can
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextmanager
def _refusing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = type(error).__name__ if error.errno is None else os.strerror(error.errno)
        raise FileError(f"{target} cannot be written: {reason}") from None
    except UnicodeEncodeError:
        raise FileError(f"{target} cannot be written: a name in it holds half a surrogate pair") from None


def _file_of(target: Path) -> Path:
    """The file that a path leads to in the end, which need not exist yet."""
    path = Path(os.path.realpath(target))
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"{target} cannot be written: it is {'a folder' if path.is_dir() else 'no file'}")
        return path
    if not path.parent.is_dir():
        raise FileError(f"{target} cannot be written: there is no folder {path.parent}")
    return path


def _open_already(target: Path) -> int | None:
    """The number of the open file that a name such as ``/dev/stdout`` or ``/dev/fd/3`` stands for; else None."""
    found = re.fullmatch(r"(?:/dev|/proc/self)/fd/(\d+)", str(target))
    return int(found[1]) if found else {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(target))


@contextmanager
def temporary_file(target: Path, mode: int) -> Iterator[tuple[int, str]]:
    """A temporary file beside a target, removed unless it was moved: its open handle, to be closed, and its name."""
    name = str(target.parent / f".dpgraph-{secrets.token_hex(8)}.tmp")
    _MADE[name] = os.getpid()  # before it exists, so that no interruption can lose it
    try:
        yield os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), name
    finally:
        _remove(name)


def remove_all() -> None:
    """Removes every temporary file of this process; for its last moment."""
    for name in list(_MADE):
        _remove(name)


def _remove(name: str) -> None:
    """Removes a temporary file of this process if it is there; a process that was forked keeps its parent's."""
    if _MADE.get(name) == os.getpid():
        with suppress(OSError):
            os.unlink(name)
    _MADE.pop(name, None)


#: How a formula begins: = + - @, the same in full width, and what programs skip before them.
_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def harmless(cell: Any) -> Any:
    """A cell or a column's name as it may stand in a CSV file; only texts change.

    >>> [harmless(cell) for cell in ["=1+1", "-1.5e3", "-5-0", "@a", "a=b", -2]]
    ["'=1+1", '-1.5e3', "'-5-0", "'@a", 'a=b', -2]
    """
    formula = isinstance(cell, str) and cell.startswith(_STARTS) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell


def csv_text(frame: DataFrame, header: bool = True) -> str:
    """A data frame as CSV text; all words are quoted where one holds a carriage return, which readers split at."""
    text = frame.to_csv(index=False, header=header, lineterminator="\n")
    if "\r" in text:
        return frame.to_csv(index=False, header=header, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def harmless_frame(frame: DataFrame) -> DataFrame:
    """A data frame whose cells and names are harmless; itself where all of them are already."""
    import pandas as pd

    changed: dict[int, Any] = {}
    for place, kind in enumerate(frame.dtypes):
        if isinstance(kind, pd.CategoricalDtype) or kind.kind not in "biuf":
            column = frame.iloc[:, place].astype(object)
            formulas = {cell: harmless(cell) for cell in column.unique() if harmless(cell) is not cell}
            if formulas:
                changed[place] = [formulas.get(cell, cell) for cell in column]
    names = [harmless(name) for name in frame.columns]
    if not changed and names == list(frame.columns):
        return frame
    safe = frame.copy(deep=False)
    for place, cells in changed.items():
        safe.isetitem(place, cells)
    safe.columns = names
    return safe
