"""How a command ends: its exit code, its last words, and that it ends soon and cleanly when it is told to stop.

| code | meaning |
|---|---|
| 0 | done: the result is written or printed; words on stderr may be lost |
| 1 | refused: nothing was written |
| 2 | wrong usage: nothing was read |
| 3 | done, and charged where it costs, but not delivered whole: stdout closed or full, no room for ``--out`` |
| 4 | ``audit`` alone: a check failed, and the report is written |
| 129, 130, 143 | stopped by SIGHUP, SIGINT or SIGTERM: ``--out`` is as it was, or whole |

Signals are handled here alone: a program that imports dpgraph keeps its own handlers. A signal ends the process from
another thread, so that it ends in compiled code too; a ledger's transaction that is not committed is undone.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from dpgraph.cli.output import AT_STOP, Undelivered, say
from dpgraph.privacy.display import escaped

#: Seconds in which a command that is told to stop may say its last words.
GRACE = 5.0
STOPPING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name))


def ended(command: Callable[[], Any]) -> int:
    """Runs a command and returns its exit code; prints an error as one line."""
    _fill_closed_streams()
    plain, warnings.formatwarning = warnings.formatwarning, plain_warning
    try:
        with _stoppable():
            code = _code(command)
    finally:
        warnings.formatwarning = plain
        _remove_temporary_files()
    for stream in (sys.stdout, sys.stderr):
        if not _settled(stream) and stream is sys.stdout and code == 0:
            code = Undelivered.exit_code
    return code


def _code(command: Callable[[], Any]) -> int:
    try:
        found = command()
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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(1 + (name == "stderr"), "w", closefd=False))  # noqa: SIM115


def _settled(stream: Any) -> bool:
    """Flushes a stream; False if it fails, and the stream is then led to nowhere, so that Python ends quietly."""
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


def plain_warning(message: object, *_: Any, **__: Any) -> str:
    """A warning as a line, escaped as all words are, without the place in the code."""
    return f"warning: {escaped(message)}\n"


@contextmanager
def _stoppable() -> Iterator[None]:
    """While it lasts a signal that is not ignored ends the process, whatever the main thread is at."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while number := os.read(reader, 1)[0]:
            if number in heard:
                threading.Timer(GRACE, _end_now, [number]).start()
                say(f"stopped by {signal.Signals(number).name}")
                for told in AT_STOP:
                    told()
                _end_now(number)

    watcher = threading.Thread(target=watch, name="dpgraph signals", daemon=True)
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        os.write(writer, b"\0")
        watcher.join()
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _end_now(number: int) -> None:
    _remove_temporary_files()
    os._exit(128 + number)


def _remove_temporary_files() -> None:
    """Removes the files that a command which was stopped was writing."""
    if (files := sys.modules.get("dpgraph.files.atomic_write")) is not None:
        files.remove_all()
