"""Atomic writing: a file is written under a temporary name beside the target, then moved into place.

An error or an interruption leaves nothing behind, and an existing file unchanged.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dpgraph.privacy.records import FileError

if TYPE_CHECKING:
    import pandas as pd


def write_text(target: Path, text: str) -> None:
    """Writes a text file atomically.

    Raises:
        FileError: If the file or its folder cannot be written.
    """
    with _atomic_file(target) as file:
        file.write(text.encode())


def write_frames(target: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Writes data frames one below the other to one file, atomically, with few of them in memory at a time.

    Args:
        target: A ``.parquet`` file, in which each frame is a row group of its own unless it is larger than pyarrow's;
            or a CSV file by any other name.
        frames: At least one, of the same columns and types.

    Raises:
        FileError: If the file or its folder cannot be written, a full disk among the reasons.
    """
    with _atomic_file(target) as file:
        if target.suffix.lower() == ".parquet":
            _write_parquet(file, frames)
        else:
            for at, frame in enumerate(frames):
                frame.to_csv(file, index=False, header=at == 0)


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
    """A temporary file to write to, which becomes the target if nothing fails."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise FileError(f"{target} cannot be written ({type(error).__name__})") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except OSError as error:
        os.unlink(name)
        raise FileError(f"{target} cannot be written ({type(error).__name__})") from None
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
