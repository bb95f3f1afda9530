"""Atomic writing: a file is written under a temporary name beside the target, then moved into place.

An error or an interruption leaves nothing behind, and an existing file unchanged. What a killed process left behind is
removed by the next write to the same target (``files.temporary``). A symbolic link stays and its target is replaced; an
existing file keeps its permissions. A pipe, a terminal and ``/dev/stdout`` are written to as they are.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dpgraph.files.spreadsheet import csv_text
from dpgraph.files.temporary import temporary_file
from dpgraph.privacy.errors import FileError

if TYPE_CHECKING:
    import pandas as pd

#: Names of what a process has open already: ``/dev/stdout``, ``/dev/fd/3``.
_OPEN = re.compile(r"/dev/(?:(?P<name>stdout|stderr)|fd/(?P<dev>\d+))|/proc/self/fd/(?P<proc>\d+)")
_STANDARD = {"stdout": 1, "stderr": 2}
_MOST_LINKS = 40


def write_text(target: Path, text: str) -> None:
    """Writes a text file atomically."""
    with _atomic_file(target) as file:
        file.write(text.encode())


def write_with(target: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Writes a binary file atomically, by a function of the open file."""
    with _atomic_file(target) as file:
        write(file)


def write_frames(target: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Writes data frames one below the other to one file, atomically, with few of them in memory at a time."""
    with _atomic_file(target) as file:
        if target.suffix.lower() == ".parquet":
            _write_parquet(file, frames)
        else:
            for at, frame in enumerate(frames):
                file.write(csv_text(frame, header=at == 0).encode())


def is_stream(target: Path) -> bool:
    """Whether a target takes bytes as they come and keeps no file: a pipe, a device, ``/dev/stdout``.

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
    """Finds out, before anything is spent, that a target cannot be written; writes nothing."""
    if not is_stream(target):
        with _refusing(target), temporary_file(_file_of(target), 0o600) as (handle, _):
            os.close(handle)


def _write_parquet(file: IO[bytes], frames: Iterable[pd.DataFrame]) -> None:
    """The frames as one Parquet file, as ``DataFrame.to_parquet`` writes it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    tables = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(tables)
    with parquet.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        del first
        for table in tables:
            writer.write_table(table)


@contextmanager
def _atomic_file(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to: a stream itself, or a temporary file that becomes the target if nothing fails."""
    with _refusing(target):
        if is_stream(target):
            with _stream(target) as file:
                yield file
            return
        path = _file_of(target)
        old = _status(path)
        with temporary_file(path, 0o666 if old is None else 0o600) as (handle, name), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if old is not None:
                _keep_access(handle, old)
            os.fsync(handle)
            # Moved while it is locked, so that no other writer takes it for an orphan.
            os.replace(name, path)
        _sync_folder(path.parent)


@contextmanager
def _refusing(target: Path) -> Iterator[None]:
    """Turns the system's refusal into one that names the target and the reason."""
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
    status = _status(path)
    if status is None and not path.parent.is_dir():
        raise FileError(f"{target} cannot be written: there is no folder {path.parent}")
    if status is not None and not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "no file"
        raise FileError(f"{target} cannot be written: it is {what}")
    return path


def _status(path: Path) -> os.stat_result | None:
    """What is known of an existing file."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _keep_access(handle: int, old: os.stat_result) -> None:
    """Gives a new file the permissions of the old one, and its owner and group where this process may."""
    with suppress(OSError):
        os.chown(handle, old.st_uid, old.st_gid)
    os.chmod(handle, stat.S_IMODE(old.st_mode) & 0o777)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last through a power cut, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _stream(target: Path) -> IO[bytes]:
    """A stream to write to; what is open already goes on where it is, as ``>>`` wants it."""
    number = _open_already(target)
    return open(target if number is None else os.dup(number), "wb")


def _open_already(target: Path) -> int | None:
    """The number of the open file that a name stands for, symbolic links followed; None for any other name."""
    path = os.path.abspath(target)
    for _ in range(_MOST_LINKS):
        if found := _OPEN.fullmatch(path):
            return _STANDARD[found["name"]] if found["name"] else int(found["dev"] or found["proc"])
        try:
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        except OSError:
            return None
    return None
