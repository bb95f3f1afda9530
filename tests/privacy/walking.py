"""An exception at every line of the package that a call runs, one line at a time.

The step back to a ``with`` line when its block is done is no place for one: an interpreter looks for signals after
calls, and between the block's last and that of ``__exit__`` there is none.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import dpgraph

PACKAGE = str(Path(dpgraph.__file__).parent)

#: What may come at any moment: a signal, the end of memory, a disk.
FAULTS = (KeyboardInterrupt, MemoryError, OSError)


class Walk:
    """Counts the lines of the package that run, and raises before one of them.

    Args:
        at: Before which line, by how many were run; None counts all and raises nothing.
        fault: What is raised.
        where: Files that count, by a part of their path.
    """

    def __init__(self, at: int | None, fault: type[BaseException], where: tuple[str, ...] = ("",)) -> None:
        self.at, self.fault, self.where = at, fault, where
        self.lines, self.place = 0, ""
        self._last: dict[FrameType, int] = {}

    def __call__(self, call: Callable[[], Any]) -> Any:
        """What the call returns; the fault comes out of it, or is hidden as the package hides errors."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            return call()
        finally:
            sys.settrace(before)
            self._last.clear()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        counts = name.startswith(PACKAGE) and any(part in name for part in self.where)
        return self._line if counts else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event == "line" and not self._leaves(frame):
            if self.lines == self.at:
                self.lines += 1
                self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
                raise self.fault
            self.lines += 1
        return self._line

    def _leaves(self, frame: FrameType) -> bool:
        """Whether a line is the end of a ``with`` block."""
        before, now = self._last.get(frame, 0), frame.f_lineno
        self._last[frame] = now
        return before > now and linecache.getline(frame.f_code.co_filename, now).lstrip().startswith("with ")


def steps(call: Callable[[], Any], where: tuple[str, ...] = ("",)) -> int:
    """How many lines of the package a call runs."""
    walk = Walk(None, KeyboardInterrupt, where)
    walk(call)
    return walk.lines
