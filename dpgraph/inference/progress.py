"""Progress bars of Markov chains: on stderr, where that is a terminal, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpgraph.privacy.printed import at_terminal


@contextmanager
def progress_bar(wanted: bool, total: int, what: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar: a function to call with the number of each iteration, or None where no bar is shown.

    Args:
        wanted: Whether to show one on a terminal.
        total: The number of iterations, of which none says anything of the rows.
        what: What the iterations are of.
    """
    if not wanted or not at_terminal():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what) as bar:

        def advance(iteration: int) -> None:
            bar.update(iteration + 1 - bar.n)

        yield advance
