"""The true cells of an event log as latent variables, and the step sizes of their moves, which are in ``loops``.

A cell holds N entries, each with one level of every field. Given its state the tables of its fields are multinomial
with N shared; N is geometric with a rate of its chain. The emission law proposes, so only the noise law decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.inference.interruption import heed
from dpgraph.inference.markov import loops
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.structure.tables import Integers, Reals


@dataclass(eq=False)
class LatentCells:
    """The unknown tables of all sampler chains, one row a cell, with the sizes of the moves that burn-in adapts.

    Attributes:
        given: The release.
        counts: The latent tables, shape (copies x chains x steps, columns); 0 in held-out cells.
        released: What was released, of the same shape.
        stay: ln P(one more entry) of the cell's chain, shape (cells,).
        share: What part of a field's entries a redraw takes, shape (copies, 2, cells, fields): of all levels, of some.
        most: The most entries that join or leave at once, shape (cells,).
        reach: The most probability that a shift moves, shape (copies x states, fields).
        tally: Accepted and tried of each move, shape (copies, moves, 2).
        alike: As ``alike_cells`` has it, the same for every copy; of no cells where that is not known.
    """

    given: LogEvidence
    counts: Integers
    released: Integers
    stay: Reals
    share: Reals
    most: Reals
    reach: Reals
    tally: Reals
    alike: npt.NDArray[np.int32]


def acceptance_of(tallies: Reals) -> dict[str, float]:
    """The share of accepted proposals by the name of the move, of shape (copies, moves, 2)."""
    found = zip(loops.MOVES, tallies.sum(axis=0), strict=True)
    return {name: float(accepted / max(tried, 1)) for name, (accepted, tried) in found}


def latent_cells(
    given: LogEvidence, copies: int, states: int, start: Integers, alike: npt.NDArray[np.int32] = loops.ALL_DIFFER
) -> LatentCells:
    """Latent cells that begin at ``start``, shape (copies, chains, steps, columns); ``alike`` as ``alike_cells``."""
    chains, steps = given.shape
    released = np.broadcast_to(given.values, (copies, *given.values.shape[1:]))
    cells = copies * chains * steps
    return LatentCells(
        given,
        np.where(given.observed[..., None], start, 0).reshape(cells, -1).astype(np.int64),
        released.reshape(cells, -1).copy(),
        np.full(cells, -1e-3),
        np.full((copies, 2, chains * steps, len(given.fields)), 0.3),
        np.full(cells, max(1.0, float(given.deviation.mean()))),
        np.full((copies * states, len(given.fields)), 0.05),
        np.zeros((copies, len(loops.MOVES), 2)),
        alike,
    )


def cells_of_chain(latent: LatentCells, copy: int, stop: Integers = loops.NEVER) -> loops.Cells:
    """The rows of one sampler chain, as views: what changes them changes ``latent``; it ends early where told to."""
    copies = len(latent.tally)
    cells, states = len(latent.counts) // copies, len(latent.reach) // copies
    mine = slice(copy * cells, (copy + 1) * cells)
    given = latent.given
    return loops.Cells(
        latent.counts[mine],
        latent.released[mine],
        given.observed.ravel(),
        np.array([0, *(columns.stop for columns in given.fields)], np.int64),
        given.absolute,
        given.squares,
        latent.stay[mine],
        latent.share[copy],
        latent.most[mine],
        latent.reach[copy * states : (copy + 1) * states],
        latent.tally[copy].reshape(-1),
        latent.alike,
        stop,
    )


def alike_cells(released: Integers, squares: Reals) -> npt.NDArray[np.int32]:
    """Which cells have the same noise law, up to a factor, for each block of numbers of entries.

    Laplace noise does not tell values below 0 apart, nor values above the most entries of the block (proofs.md P125).

    Args:
        released: Shape (..., columns).
        squares: What a unit of noise^2 costs, shape (columns,).

    Returns:
        A number that alike cells share, shape (ways to cut, blocks, cells).
    """
    values, found = released.reshape(-1, released.shape[-1]), {}
    for last in set(loops.BLOCKS.ravel().tolist()):
        heed()
        found[last] = _numbered(_told_apart(values, squares, last))
    return np.stack([np.stack([found[last] for last in ends]) for ends in loops.BLOCKS.tolist()])


def _told_apart(values: Integers, squares: Reals, last: int) -> Integers:
    """The released values as the noise law tells them apart at no more than ``last`` entries."""
    return np.where(squares > 0, values, np.clip(values, 0, last))


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
