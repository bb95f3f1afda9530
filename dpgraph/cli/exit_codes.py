"""How a command ends: its exit code, its last words, and that it ends soon and cleanly when it is told to stop.

| code | meaning |
|---|---|
| 0 | done: the result is written or printed; words on stderr may be lost |
| 1 | refused: nothing was written |
| 2 | wrong usage: nothing was read |
| 3 | done, and charged where it costs, but not delivered whole: stdout closed or full, no room for ``--out`` |
| 4 | ``audit`` alone: a check failed, and the report is written |
| 129, 130, 143 | stopped by SIGHUP, SIGINT or SIGTERM: ``--out`` is as it was, or whole |

Signals are handled here alone: a program that imports dpgraph keeps its own handlers.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any

import click

from dpgraph.cli.output import Undelivered, say
from dpgraph.privacy.display import escaped

#: How long a command that is told to stop may take to end by itself, and how often an interruption that was held is
#: tried again, in seconds.
GRACE, AGAIN = 5.0, 0.05
STOPPING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name))
_COMPILERS = re.compile(r"[/\\](numba|llvmlite)[/\\]")


class Stopped(BaseException):
    """A signal asked the command to stop; no ``except Exception`` holds it up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def ended(command: Callable[[], Any]) -> int:
    """Runs a command and returns its exit code; prints an error as one line."""
    _fill_closed_streams()
    with _plain_warnings(), _stoppable() as hearing:
        code = _code(command, hearing)
    for stream in (sys.stdout, sys.stderr):
        if not _settled(stream) and stream is sys.stdout and code == 0:
            code = Undelivered.exit_code
    return code


def _code(command: Callable[[], Any], hearing: Hearing) -> int:
    try:
        try:
            found = command()
        finally:
            hearing.open = False
    except Stopped as stopped:
        say(f"stopped by {signal.Signals(stopped.number).name}")
        return 128 + stopped.number
    except (click.Abort, KeyboardInterrupt):
        say("Aborted!")
        return 128 + signal.SIGINT
    except click.UsageError as error:
        words = io.StringIO()
        error.show(words)
        for line in words.getvalue().removesuffix("\n").split("\n"):
            say(line)
        return error.exit_code
    except click.ClickException as error:
        if not (isinstance(error, Undelivered) and error.silent):
            say(f"Error: {error.format_message()}")
        return error.exit_code
    except OSError as error:
        if error.errno is None:
            raise
        say(f"Error: {os.strerror(error.errno)} [OSError]")
        return Undelivered.exit_code
    return found if isinstance(found, int) else 0


def _fill_closed_streams() -> None:
    """Takes the numbers of closed standard streams, to read, so that no output file gets messages."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _settled(stream: Any) -> bool:
    """Flushes a stream; False if it fails, and the stream is then led to nowhere, so that Python ends quietly."""
    if stream is None:
        return True
    try:
        stream.flush()
    except ValueError:
        return True
    except OSError:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        return False
    return True


@contextmanager
def _patched(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _plain_warnings() -> AbstractContextManager[None]:
    """Warnings as a line each, escaped as all words are, without the place in the code."""
    return _patched(warnings, "formatwarning", lambda message, *_, **__: f"warning: {escaped(message)}\n")


class Hearing:
    """The signals that have come, and a flag: may the next one still interrupt?"""

    def __init__(self) -> None:
        self.open = True
        self.told: list[int] = []
        self.held = threading.Event()
        self.again = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Interrupts the command, unless a loop is being compiled; a second signal does not wait for it."""
        if not self.open:
            return
        if self.told and not self.again:
            _end_now(number)
        self.again = False
        self.told.append(number)
        if _compiling(frame):
            self.held.set()
            return
        raise Stopped(number)

    def dropped(self) -> AbstractContextManager[None]:
        """Hears of interruptions that Python drops, since they came in a finaliser."""
        before = sys.unraisablehook

        def hook(told: Any) -> None:
            if isinstance(told.exc_value, Stopped):
                self.held.set()
            else:
                before(told)

        return _patched(sys, "unraisablehook", hook)


def _compiling(frame: FrameType | None) -> bool:
    """True while a compiler is at work: it loses an exception inside its callbacks, and may crash of it."""
    while frame is not None and not _COMPILERS.search(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None


@contextmanager
def _stoppable() -> Iterator[Hearing]:
    """While it lasts a signal raises ``Stopped`` unless ignored; a second, or ``GRACE`` seconds, end the process."""
    hearing = Hearing()
    if threading.current_thread() is not threading.main_thread():
        yield hearing
        return
    heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    with _watched(heard, hearing), hearing.dropped():
        before = {number: signal.signal(number, hearing.stop) for number in heard}
        try:
            yield hearing
        finally:
            _remove_temporary_files()
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _watched(heard: list[int], hearing: Hearing) -> Iterator[None]:
    """A thread that sends a held signal again, and ends the process if the main thread does not hear it in time."""
    main, over = threading.get_ident(), threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while (number := os.read(reader, 1)[0]) not in heard:
            if over.is_set():
                return
        latest = time.monotonic() + GRACE
        while time.monotonic() < latest:
            if over.wait(AGAIN):
                return
            if hearing.held.is_set():
                hearing.held.clear()
                hearing.again = True
                signal.pthread_kill(main, number)
        _end_now(number)

    watcher = threading.Thread(target=watch, name="dpgraph signals", daemon=True)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.write(writer, b"\0")
        watcher.join()
        os.close(reader)
        os.close(writer)


def _end_now(number: int) -> None:
    _remove_temporary_files()
    os._exit(128 + number)


def _remove_temporary_files() -> None:
    """Removes files that an interruption in the middle of clean-up may have left."""
    if (files := sys.modules.get("dpgraph.files.atomic_write")) is not None:
        files.remove_all()
