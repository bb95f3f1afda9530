"""Progress bars of Markov chains: on stderr, where that is a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpgraph.waiting import at_terminal

#: What is said where loops are compiled, which a fit waits for.
COMPILING = "compiling the sampler's loops, once for this installation: up to a minute of processor time, then as usual"


def say_that_loops_are_compiled(loops: Iterable[Any]) -> None:
    """A line on stderr, where that is a terminal, if numba will compile a loop because no machine code is on disk."""
    if at_terminal() and any(not _on_disk(loop) for loop in loops):
        print(COMPILING, file=sys.stderr)


def _on_disk(loop: Any) -> bool:
    """True if machine code of a loop is loaded, or lies in numba's cache."""
    if loop.signatures:
        return True
    kept = Path(loop.stats.cache_path) if loop.stats.cache_path else None
    return kept is not None and any(kept.glob(f"*.{loop.__name__}-{loop.py_func.__code__.co_firstlineno}.py*.nbi"))


@contextmanager
def progress_bar(wanted: bool, total: int, what: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar: a function to call with the number of each iteration, or None where no bar is shown.

    ``total`` is the number of iterations of ``what``, a public number.
    """
    if not wanted or not at_terminal():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what) as bar:

        def advance(iteration: int) -> None:
            bar.update(iteration + 1 - bar.n)

        yield advance
