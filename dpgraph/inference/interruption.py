"""Long loops that an interruption can stop, and only between two of their steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def interruptible(work: Callable[[threading.Event], T]) -> T:
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
    stop, outcome = threading.Event(), Future[T]()

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
