"""Runs a reader on mutated files and keeps what it should not have done."""

from __future__ import annotations

import random
import signal
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from dpgraph.files.limits import MAX_MESSAGE
from tests.fuzz.readers import Reader

#: Processor seconds that a file of at most ``mutations.MOST`` bytes may take.
MOST_SECONDS = 2.0


@dataclass
class Outcome:
    """What came of some runs: findings are files, each with what went wrong, one for each place in the code."""

    runs: int = 0
    read: int = 0
    slowest: float = 0.0
    processor: float = 0.0
    findings: dict[str, bytes] = field(default_factory=dict)


def fuzz(reader: Reader, *, seed: int, runs: int | None = None, seconds: float = float("inf")) -> Outcome:
    """Feeds a reader with mutated files, so many or for so long."""
    rng, seeds, outcome = random.Random(seed), reader.seeds(), Outcome()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        path = Path(folder) / f"file{reader.suffix}"
        for data in seeds:  # what is not mutated is read
            path.write_bytes(data)
            reader.read(path)
        signal.signal(signal.SIGVTALRM, _hangs)
        while (runs is None or outcome.runs < runs) and time.monotonic() < end:
            data = reader.mutation(rng.choice(seeds), seeds, rng)
            path.write_bytes(data)
            _run(reader, path, data, outcome)
    return outcome


def _hangs(*_: object) -> None:
    raise TimeoutError


def _run(reader: Reader, path: Path, data: bytes, outcome: Outcome) -> None:
    """One file."""
    begin, found = time.process_time(), ""
    signal.setitimer(signal.ITIMER_VIRTUAL, 5 * MOST_SECONDS)
    try:
        reader.read(path)
        outcome.read += 1
    except reader.refusal as error:
        if len(str(error)) > MAX_MESSAGE + len(str(path)) + 100:
            found = f"a message of {len(str(error))} characters: {str(error)[:200]}"
    except Exception as error:  # every other class is a finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno} in {place.name}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    taken = time.process_time() - begin
    outcome.runs += 1
    outcome.processor += taken
    outcome.slowest = max(outcome.slowest, taken)
    if taken > MOST_SECONDS:
        found = f"{found} slow in {taken:.0f} s"
    if found:
        outcome.findings.setdefault(found, data)
