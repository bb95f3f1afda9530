"""How much memory a step may take: ``DPGRAPH_MEMORY``, such as ``4GB``, or else half of the machine's free memory.

A refusal names the bytes of the step and a way out. It does not name the free memory, which depends on the rows in it.
All functions raise the class of error of the layer that asks, also where the variable is not a size.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

#: The environment variable, and the units it understands.
VARIABLE = "DPGRAPH_MEMORY"
UNITS = {"": 1, "B": 1} | {
    f"{prefix}{ending}": base ** (power + 1)
    for power, prefix in enumerate("KMGT")
    for ending, base in (("B", 1000), ("iB", 1024))
}
#: Steps of no more bytes than this are never asked about where the variable is not set.
SMALL = 1 << 26


def limit(error: type[Exception]) -> float:
    """The bytes that one step may take."""
    asked = os.environ.get(VARIABLE, "").strip()
    if not asked:
        return free() / 2
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?)", asked)
    if found is None or found[2] not in UNITS:
        raise error(f"{VARIABLE} must be a size such as 4GB or 512MiB; got {asked!r:.40}")
    return float(found[1]) * UNITS[found[2]]


def fits(needed: float, error: type[Exception]) -> bool:
    """True if a step may take so many bytes."""
    return (needed <= SMALL and not os.environ.get(VARIABLE)) or needed <= limit(error)


def room(wanted: float, error: type[Exception]) -> float:
    """The wanted bytes, or half of the limit of a step where that is less; a small wish is granted unasked."""
    return wanted if fits(2 * wanted, error) else limit(error) / 2


def check(needed: float, what: str, way_out: str, error: type[Exception]) -> None:
    """Refuses a step (``what``) beyond the limit, from public sizes alone, with a ``way_out``."""
    if not fits(needed, error):
        most = f"{VARIABLE}={os.environ[VARIABLE]}" if os.environ.get(VARIABLE) else "half of the memory that is free"
        raise error(f"{what} would take about {size(needed)} of memory, more than {most}: {way_out}, or set {VARIABLE}")


def size(number: float) -> str:
    """A number of bytes in words."""
    power = min(4, max(0, int(math.log(max(number, 1), 1000))))
    return f"{number / 1000**power:.{1 if power else 0}f} {['B', 'KB', 'MB', 'GB', 'TB'][power]}"


def free() -> float:
    """The least of the memory that the system, the container and the process's own limit leave; infinite if unknown."""
    return min(_available(), _container(), _own())


def _available() -> float:
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    with suppress(AttributeError, OSError, ValueError):  # another system: of all memory it has
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return math.inf


def _container(folder: Path = Path("/sys/fs/cgroup")) -> float:
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        return float((folder / "memory.max").read_text()) - float((folder / "memory.current").read_text())
    with suppress(OSError, ValueError):
        older = folder / "memory"
        used = float((older / "memory.usage_in_bytes").read_text())
        return float((older / "memory.limit_in_bytes").read_text()) - used
    return math.inf


def _own() -> float:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            return float(most - taken)
    return math.inf
