"""Long loops that an interruption can stop, and only between two of their steps."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.waiting import result_of

T = TypeVar("T")
S = TypeVar("S")

#: Set once nobody waits any more for the work that this thread does.
_STOP: ContextVar[Stop | None] = ContextVar("interrupted", default=None)


class NobodyWaits(BaseException):
    """Ends work in another thread, for which nobody waits any more; no ``except Exception`` holds it up."""


def heed() -> None:
    """Between two steps of work that runs in a thread of its own: ends it if an interruption was heard meanwhile."""
    stop = _STOP.get()
    if stop is not None and stop.is_set():
        raise NobodyWaits


def stop_flag() -> npt.NDArray[np.int64]:
    """A number for compiled loops: no longer 0 once nobody waits for this thread's work."""
    stop = _STOP.get()
    return Stop().flag if stop is None else stop.flag


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(work: Callable[[S], T], items: Iterable[S], most: int | None = None) -> list[T]:
    """The result of each item, in order; as many at a time as there are processors, or ``most`` where that is fewer.

    Items are independent, with random generators and arrays of their own. An interruption is heard at once; items that
    have begun end first, the others never begin.
    """
    waiting, stop = list(items), _STOP.get()
    workers = min(len(waiting), most or processors(), processors())

    def one(item: S) -> T:
        _STOP.set(stop)
        heed()
        return work(item)

    if workers < 2:
        return [one(item) for item in waiting]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return [result_of(begun) for begun in [pool.submit(one, item) for item in waiting]]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class Stop(threading.Event):
    """An event that compiled loops see too: ``flag`` is no longer 0."""

    def __init__(self) -> None:
        super().__init__()
        self.flag = np.zeros(1, np.int64)

    def set(self) -> None:
        """Tells threads and loops to end."""
        self.flag[0] = 1
        super().set()


def interruptible(work: Callable[[Stop], T]) -> T:
    """Runs work in a thread of its own while this one waits for it and takes interruptions.

    Python hears of signals between two bytecodes of the main thread, some of which numba runs while it unpacks a random
    generator for a compiled loop: an exception there crashes the process. No signal is heard in another thread. After
    the event that ``work`` gets it should return soon, with anything; ``heed()`` asks for it.
    """
    if (outer := _STOP.get()) is not None:  # no signal is heard in this thread already
        return work(outer)
    stop, outcome, context = Stop(), Future[T](), copy_context()
    context.run(_STOP.set, stop)

    def run() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                outcome.set_result(work(stop))
            except BaseException as error:
                outcome.set_exception(error)

    try:
        threading.Thread(target=context.run, args=(run,), name="dpgraph loops").start()
        return result_of(outcome)
    except BaseException:
        stop.set()
        if not outcome.cancel():
            wait([outcome])
        raise
