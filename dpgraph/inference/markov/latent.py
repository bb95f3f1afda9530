"""The true cells of an event log as latent variables, and the first step sizes of their moves, which are in ``loops``.

A cell holds N entries, each with one level of every field. Given its state the tables of its fields are multinomial
with N shared; N is geometric with a rate of its chain. The emission law proposes, so only the noise law decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpgraph.inference.interruption import heed
from dpgraph.inference.markov import loops
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.structure.tables import Integers, Reals


def latent_cells(
    given: LogEvidence,
    states: int,
    start: Integers,
    alike: npt.NDArray[np.int32] = loops.ALL_DIFFER,
    stop: Integers = loops.NEVER,
) -> loops.Cells:
    """The cells of one sampler chain, which begin at ``start``, shape (chains, steps, columns); of one release copy.

    ``alike`` is of ``alike_cells``; compiled loops end early once ``stop`` is not 0.
    """
    cells, width, fields = given.observed.size, start.shape[-1], len(given.fields)
    return loops.Cells(
        np.where(given.observed[..., None], start, 0).reshape(cells, width).astype(np.int64),
        given.values[0].reshape(cells, width).copy(),
        given.observed.ravel(),
        np.array([0, *(columns.stop for columns in given.fields)], np.int64),
        given.absolute,
        given.squares,
        stay=np.full(cells, -1e-3),
        share=np.full((2, cells, fields), 0.3),
        most=np.full(cells, max(1.0, float(given.deviation.mean()))),
        reach=np.full((states, fields), 0.05),
        tally=np.zeros(2 * len(loops.MOVES)),
        alike=alike,
        stop=stop,
    )


def alike_cells(released: Integers, squares: Reals) -> npt.NDArray[np.int32]:
    """Numbers of cells, the same where the noise law is the same, up to a factor, for each block of numbers of entries.

    Laplace noise does not tell values below 0 apart, nor values above the most entries of the block (proofs.md P125).

    Args:
        released: Shape (..., columns).
        squares: The cost of a unit of noise^2, shape (columns,).

    Returns:
        A number that alike cells share, shape (ways to cut, blocks, cells).
    """
    values, found = released.reshape(-1, released.shape[-1]), {}
    for last in set(loops.BLOCKS.ravel().tolist()):
        heed()
        found[last] = _numbered(np.where(squares > 0, values, np.clip(values, 0, last)))
    return np.stack([np.stack([found[last] for last in ends]) for ends in loops.BLOCKS.tolist()])


def _numbered(rows: Integers) -> npt.NDArray[np.int32]:
    """A number of each row, the same where rows are."""
    low, span = rows.min(axis=0), np.ptp(rows, axis=0) + 1
    code, most = np.zeros(len(rows), np.int64), 1
    for w in range(rows.shape[1]):
        if most * int(span[w]) >= 1 << 62:
            code = np.unique(code, return_inverse=True)[1]
            most = int(code.max()) + 1
        code = code * span[w] + (rows[:, w] - low[w])
        most *= int(span[w])
    return np.unique(code, return_inverse=True)[1].astype(np.int32)
