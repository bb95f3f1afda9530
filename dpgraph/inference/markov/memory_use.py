"""How much memory the sampler chains of a log take, from public sizes alone."""

from __future__ import annotations

from typing import Any

from dpgraph import memory
from dpgraph.inference.interruption import processors
from dpgraph.inference.markov.loops import BLOCKS, MOST_TABLES
from dpgraph.privacy.records import InferenceError

#: Bytes of a number, and of a hidden state that is kept.
NUMBER, STATE = 8, 2
#: How often a chain holds a number of each column of each cell: tables, what was released, a start or a turn's columns.
COLUMNS = 7
#: How often it holds a number of each state of each cell: weights, in pieces, and filtered.
STATES = 4
#: How often it holds one number of each cell: orders, places, rates, sizes of moves.
CELLS = 10
#: How often all draws are held while labels are matched, and the model is made.
DRAWS = 3


def fit_bytes(
    shape: tuple[int, int], columns: int, states: int, *, chains: int, draws: int, effects: bool = False
) -> int:
    """The bytes of a fit of ``shape`` sequences and steps, where all cells have so many entries that they have pools.

    ``columns`` are the levels of all fields; as many sampler chains move at once as there are processors.

    >>> fit_bytes((1, 10**5), 4, 3, chains=2, draws=200) < 1e9
    True
    """
    cells = shape[0] * shape[1]
    moving = STATES * states + max(1, MOST_TABLES // states) * states * (columns + 1)
    numbers = chains * (COLUMNS * columns + CELLS) + min(chains, processors()) * moving + columns + 3 * states
    kept = chains * draws * (STATE * cells + effects * NUMBER * shape[0] * columns)
    return NUMBER * cells * numbers + 4 * BLOCKS.size * cells + DRAWS * kept


def check_fit(*problem: Any, **settings: Any) -> None:
    """Refuses a fit that there is no room for, before the charge; arguments as ``fit_bytes``.

    Raises:
        InferenceError: With the figure.
    """
    needed = fit_bytes(*problem, **settings)
    way_out = "declare fewer or coarser sequences, steps and levels, or ask for fewer chains and iterations"
    memory.check(needed, "this hidden Markov model", way_out, InferenceError)
