"""Progress of long steps: a line on a terminal's stderr, from ``AFTER`` seconds on until the step ends.

Only public things are counted: tables, cells, variables, draws. Of a Parquet path that is read the share of its pieces
is shown, never their number.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
#: Seconds before a step shows anything, and between two looks at how far it is.
AFTER, EVERY = 2.0, 0.5
#: What is shown of a step that cannot tell how far it is, and of one that can.
TIME, SHARE = "{desc} {elapsed}", "{desc} {percentage:3.0f}%|{bar}| {elapsed}"
_BAR: ContextVar[Any] = ContextVar("the bar of the step that runs", default=None)


def at_terminal() -> bool:
    """True if stderr is a terminal; False in a process without one."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def waiting(what: str, wanted: bool) -> Iterator[None]:
    """Shows a step, such as ``"releasing"``, while it runs, if it is wanted; of nested steps the outermost."""
    if not wanted or not at_terminal() or _BAR.get() is not None:
        yield
        return
    from tqdm import tqdm

    with tqdm(desc=what, bar_format=TIME, delay=AFTER, miniters=0, leave=False) as bar, _redrawn(bar):
        outer = _BAR.set(bar)
        try:
            yield
        finally:
            _BAR.reset(outer)


def counted(items: Collection[T]) -> Iterable[T]:
    """The items of a loop, whose done share the running step shows, but in another loop or thread."""
    bar = _BAR.get()
    if bar is None or bar.total is not None or len(items) < 2:
        return items
    return _counted(bar, items)


def ticking(items: Collection[T]) -> Callable[[], None]:
    """A function to call, in any thread, whenever another of the items is done; the running step shows their share."""
    left, lock = iter(counted(items)), threading.Lock()
    next(left, None)

    def tick() -> None:
        with lock:
            next(left, None)

    return tick


def _counted(bar: Any, items: Collection[T]) -> Iterator[T]:
    bar.n, bar.total, bar.bar_format = 0, len(items), SHARE
    try:
        for done, item in enumerate(items, 1):
            yield item
            bar.n = done
    finally:
        bar.n, bar.total, bar.bar_format = 0, None, TIME


def result_of(work: Future[T]) -> T:
    """The result of a thread's work, or its exception; unlike ``work.result()`` this always hears Ctrl-C."""
    # A handler of signals (polars') may have waits without a limit begun again, and then nothing is heard.
    while not wait([work], timeout=EVERY).done:
        pass
    return work.result()


@contextmanager
def _redrawn(bar: Any) -> Iterator[None]:
    """Draws a bar again and again until the step is over; loops only count."""
    over = threading.Event()

    def draw() -> None:
        late = over.wait(AFTER)
        while not late:
            bar.last_print_n = bar.n  # a new loop begins at nothing again, of which tqdm would show nothing
            bar.update(0)
            late = over.wait(EVERY)

    drawing = threading.Thread(target=draw, name="dpgraph bar", daemon=True)
    drawing.start()
    try:
        yield
    finally:
        over.set()
        drawing.join()
