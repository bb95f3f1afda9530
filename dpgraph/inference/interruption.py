"""Long loops that an interruption can stop, and only between two of their steps."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

T = TypeVar("T")
S = TypeVar("S")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """The result of each item, in order; as many at a time as there are processors.

    Work must not depend on what is done beside it: a random generator of its own for each item, arrays that no other
    item writes. An interruption is heard at once; what has begun ends first, what has not begun never does.

    >>> side_by_side(lambda number: number**2, range(4))
    [0, 1, 4, 9]
    """
    waiting = list(items)
    workers = min(len(waiting), processors())
    if workers < 2:
        return [work(item) for item in waiting]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return [begun.result() for begun in [pool.submit(work, item) for item in waiting]]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class Stop(threading.Event):
    """An event that compiled loops see too, as a number that is no longer 0.

    >>> stop = Stop()
    >>> stop.set()
    >>> stop.is_set(), stop.flag
    (True, array([1]))
    """

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
    generator for a compiled loop, and it does not expect an exception there: the process crashes. No signal is heard
    in another thread.

    Args:
        work: A function of an event, after which it should return soon, with anything.

    Returns:
        What it returns.

    >>> interruptible(lambda stop: sum(range(4)))
    6
    """
    stop, outcome = Stop(), Future[T]()

    def run() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                outcome.set_result(work(stop))
            except BaseException as error:
                outcome.set_exception(error)

    try:
        threading.Thread(target=run, name="dpgraph loops").start()
        return outcome.result()
    except BaseException:
        stop.set()
        if not outcome.cancel():
            wait([outcome])
        raise
