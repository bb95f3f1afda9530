"""Round trips of pgmpy's bundled networks through every format and through pgmpy, printed as a table.

    python benchmarks/round_trips.py                 all 24, some minutes: pgmpy's own reader takes most of them
    python benchmarks/round_trips.py asia alarm      some of them

A cell is the largest difference of any probability. Names, levels, their order and parents are equal, or it says so.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpgraph as dg

#: Entries beyond which pgmpy's own reader, at tens of seconds, is left out.
PGMPY_READS = 60_000


def bundled() -> list[str]:
    """The networks in pgmpy's wheel."""
    import pgmpy

    found = (Path(pgmpy.__file__).parent / "utils" / "example_models").glob("*.bif.gz")
    return sorted(path.name.removesuffix(".bif.gz") for path in found)


def difference(one: Any, other: Any) -> str:
    """The largest difference of two sets of probabilities, or what else is not alike."""
    if one.network.domain.names != other.network.domain.names:
        return "names"
    if one.network != other.network:
        return "levels or parents"
    most = max(float(np.abs(one.table(name) - other.table(name)).max()) for name in one.network.domain.names)
    return f"{most:.1g}" if most else "0"


def through(suffix: str) -> Callable[[Any], Any]:
    """Saving to a file and loading it again."""

    def trip(value: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"network{suffix}"
            dg.save(value, path)
            return dg.load(path)

    return trip


def through_pgmpy(value: Any) -> Any:
    """To a network of pgmpy's class and back."""
    return dg.from_pgmpy(dg.to_pgmpy(value))


def by_pgmpys_reader(value: Any) -> Any:
    """What pgmpy reads of the BIF that is written here."""
    from pgmpy.readwrite import BIFReader

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.bif"
        dg.save(value, path)
        return dg.from_pgmpy(BIFReader(path=str(path)).get_model())


TRIPS = {
    "JSON": through(".json"),
    "BIF": through(".bif"),
    "pgmpy": through_pgmpy,
    "BIF, read by pgmpy": by_pgmpys_reader,
}


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or bundled()
    print("| network | variables | arcs | entries |", " | ".join(TRIPS), "|")
    print("|---" * (4 + len(TRIPS)) + "|", flush=True)
    good, begin = 0, time.process_time()
    for name in names:
        value = dg.load(f"example:{name}")
        network = value.network
        entries = sum(value.table(one).size for one in network.domain.names)
        cells = []
        for trip in TRIPS.values():
            skipped = trip is by_pgmpys_reader and entries > PGMPY_READS
            cells.append("-" if skipped else difference(value, trip(value)))
        good += all(cell == "-" or cell[0].isdigit() for cell in cells)
        arcs = sum(map(len, network.parents.values()))
        print(f"| {name} | {len(network.domain.names)} | {arcs} | {entries:,} |", " | ".join(cells), "|", flush=True)
    print(f"\n{good} of {len(names)}; {time.process_time() - begin:.0f} processor seconds")


if __name__ == "__main__":
    main()
