"""Where files lie: on this machine, or at an address that fsspec opens, such as ``s3://bucket/rows.parquet``.

A place holds no credentials, and can be pickled: machines that open it find theirs in their own environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import DomainError


@dataclass(frozen=True)
class Place:
    """A file or a folder.

    Attributes:
        path: On this machine, or within the file system of ``address``.
        address: Of what was asked for; empty for this machine.
    """

    path: str
    address: str = ""

    @property
    def _system(self) -> Any:
        return _opened(self.address)[0]

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
        """Whether there is such a file or folder."""
        return self._asked("exists") if self.address else os.path.exists(self.path)

    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self._asked("isdir") if self.address else os.path.isdir(self.path)

    def files(self) -> list[Place]:
        """The files in a folder and the folders in it, in the order of their names, those of bookkeeping left out.

        Spark and Hive keep bookkeeping in files whose names start with a dot or an underscore.
        """
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
        """What Arrow reads: a path, or an open file."""
        return self._remote() if self.address else nullcontext(self.path)

    @contextmanager
    def _remote(self) -> Iterator[Any]:
        import pyarrow as pa

        compression = "gzip" if self.name.lower().endswith(".gz") else None
        opened = converted(lambda: self._system.open(self.path, "rb"), _unreachable(self), passing=OURS)
        with opened as file:
            yield pa.input_stream(file, compression=compression) if compression else file

    def absolute(self) -> Place:
        """The same place, wherever a process on this machine was started."""
        return self if self.address else Place(os.path.abspath(self.path))

    def _asked(self, question: str) -> Any:
        return converted(lambda: getattr(self._system, question)(self.path), _unreachable(self), passing=OURS)


def place_of(path: str | Path) -> Place:
    """The place of a path or an address, at which there must be a file or a folder.

    >>> place_of("memory://nothing/rows.csv")
    Traceback (most recent call last):
        ...
    dpgraph.privacy.errors.DomainError: there is no file memory://nothing/rows.csv
    """
    text = str(path)
    place = Place(_opened(text)[1], text) if isinstance(path, str) and "://" in path else Place(text)
    if not place.exists():
        lost = re.match(r"[a-z][a-z0-9+]+:/[^/]", text) if isinstance(path, Path) else None
        raise DomainError(f"there is no file {place}" + ("; give an address as text, not as a Path" if lost else ""))
    return place


def is_there(path: str | Path) -> bool:
    """Whether there is such a file or folder; for text that may be a row's, which nothing repeats."""
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
    place = Place(address, address)
    return converted(lambda: url_to_fs(address), _unreachable(place), passing=OURS)


def _unreachable(place: Place) -> str:
    return f"{place} cannot be reached; does fsspec know its protocol, and does the environment hold its credentials?"
