"""How much memory the sampler chains of a log take, from public sizes alone."""

from __future__ import annotations

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
) -> int:  # fmt: skip
    """About how many bytes a fit takes, where every cell has so many entries that tables are held for each state.

    Args:
        shape: How many sequences and steps.
        columns: The levels of all fields.
        states: Hidden states.
        chains: Sampler chains, of which as many move at once as there are processors.
        draws: Kept of each.
        effects: Whether sequences have effects of their own.

    >>> fit_bytes((1, 10**5), 4, 3, chains=2, draws=200) < 1e9
    True
    """
    cells = shape[0] * shape[1]
    moving = STATES * states + max(1, MOST_TABLES // states) * states * (columns + 1)
    numbers = chains * (COLUMNS * columns + CELLS) + min(chains, processors()) * moving + columns + 3 * states
    kept = chains * draws * (STATE * cells + effects * NUMBER * shape[0] * columns)
    return NUMBER * cells * numbers + 4 * BLOCKS.size * cells + DRAWS * kept


def check_fit(
    shape: tuple[int, int], columns: int, states: int, *, chains: int, draws: int, effects: bool = False
) -> None:  # fmt: skip
    """Refuses a fit that there is no room for; whoever spends before it asks this first. Arguments as ``fit_bytes``.

    Raises:
        InferenceError: With the figure.
    """
    needed = fit_bytes(shape, columns, states, chains=chains, draws=draws, effects=effects)
    way_out = "declare fewer or coarser sequences, steps and levels, or ask for fewer chains and iterations"
    memory.check(needed, "this hidden Markov model", way_out, InferenceError)
