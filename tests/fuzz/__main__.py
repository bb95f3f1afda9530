"""``python -m tests.fuzz --reader bif --seconds 600``: feeds the readers of files with mutated files.

Memory is limited to ``--gigabytes`` beyond what the program has, so that a larger allocation is a finding. Each finding
is a line; its file is kept in ``--keep``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.running import fuzz


def main() -> int:
    """The command; its exit code is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--reader", choices=[*READERS, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=600, help="for each reader")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--keep", type=Path, help="a folder for the files that were findings")
    asked = parser.parse_args()
    found = 0
    for name in READERS if asked.reader == "all" else [asked.reader]:
        _limit_memory(asked.gigabytes)
        outcome = fuzz(READERS[name], seed=asked.seed, seconds=asked.seconds)
        print(
            f"{name}: seed {asked.seed}, {outcome.runs:,} files in {asked.seconds:g} s, "
            f"{outcome.processor:.0f} s of a processor in the reader, "
            f"{outcome.read:,} read, slowest {outcome.slowest:.2f} s, {len(outcome.findings)} findings",
            flush=True,
        )
        for number, (what, data) in enumerate(outcome.findings.items()):
            print(f"  {what} ({len(data)} bytes)", flush=True)
            if asked.keep is not None:
                asked.keep.mkdir(parents=True, exist_ok=True)
                (asked.keep / f"{name}-{number}{READERS[name].suffix}").write_bytes(data)
        found += len(outcome.findings)
    return int(found > 0)


def _limit_memory(gigabytes: float) -> None:
    """Lets the process grow by so much."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
