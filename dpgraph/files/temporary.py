"""Temporary files beside a target: whoever writes one holds a lock on it, so that an orphan is told from a live one.

A process that is killed leaves its temporary file but not its lock, which belongs to the open file. The name holds a
digest of the target's name, so that the next write to the same target finds what was left, and is never too long.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # there is no such lock on this system, and nothing is taken for an orphan
    fcntl = None

#: Names that this process may have made and not yet removed, each with the process that made it.
_MADE: dict[str, int] = {}


@contextmanager
def temporary_file(target: Path, mode: int) -> Iterator[tuple[int, str]]:
    """A locked temporary file in the folder of a target; it is removed unless it has been moved away.

    Orphans of earlier writes to the target are removed first.
    """
    folder, prefix = target.parent, _prefix(target)
    _remove_orphans(folder, prefix)
    handle, name = _locked(folder, prefix, mode)
    try:
        yield handle, name
    finally:
        remove(name)


def remove_all() -> None:
    """Removes every temporary file of this process; for its last moment."""
    for name in list(_MADE):
        remove(name)


def remove(name: str) -> None:
    """Removes a temporary file of this process if it is there; a process that was forked keeps its parent's."""
    if _MADE.get(name) == os.getpid():
        with suppress(OSError):
            os.unlink(name)
    _MADE.pop(name, None)


def _prefix(target: Path) -> str:
    return f".dpgraph-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _locked(folder: Path, prefix: str, mode: int) -> tuple[int, str]:
    """A new file that nobody else holds; it is registered before it exists, so that no interruption can lose it."""
    while True:
        name = os.path.join(folder, f"{prefix}{secrets.token_hex(8)}.tmp")
        _MADE[name] = os.getpid()
        try:
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                if _is_ours(handle):
                    return handle, name
            except BaseException:
                os.close(handle)
                raise
        except FileExistsError:
            del _MADE[name]
            continue
        except BaseException:
            remove(name)
            raise
        os.close(handle)
        remove(name)


def _is_ours(handle: int) -> bool:
    """Takes the lock; whether the file still has its name, which a cleaner may have taken before the lock was there."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks: nobody can take the file for an orphan either
            fcntl.flock(handle, fcntl.LOCK_EX)
    return os.fstat(handle).st_nlink > 0


def _remove_orphans(folder: Path, prefix: str) -> None:
    """Removes temporary files of this target that no living process holds; a folder that is not listed keeps them."""
    if fcntl is None:
        return
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(".tmp"):
                with suppress(OSError):
                    _remove_if_orphan(os.path.join(folder, name))


def _remove_if_orphan(name: str) -> None:
    """Removes a file whose lock nobody holds."""
    assert fcntl is not None
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name)
    finally:
        os.close(handle)
