"""The true cells of an event log as latent variables, and the step sizes of their moves, which are in ``loops``.

A cell holds N entries, each with one level of every field. Given its state the tables of its fields are multinomial
with N shared; N is geometric with a rate of its chain. The emission law proposes, so only the noise law decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        share: What part of a field's entries a redraw takes, shape (2, cells, fields): of all levels, of some.
        most: The most entries that join or leave at once, shape (cells,).
        reach: The most probability that a shift moves, shape (copies x states, fields).
        tally: Accepted and tried of each move, shape (copies, moves, 2).
    """

    given: LogEvidence
    counts: Integers
    released: Integers
    stay: Reals
    share: Reals
    most: Reals
    reach: Reals
    tally: Reals

    @property
    def entries(self) -> Integers:
        """N of each cell."""
        return self.counts[:, self.given.fields[0]].sum(axis=1)

    def acceptance(self) -> dict[str, float]:
        """The share of accepted proposals by the name of the move."""
        found = zip(loops.MOVES, self.tally.sum(axis=0), strict=True)
        return {name: float(accepted / max(tried, 1)) for name, (accepted, tried) in found}


def latent_cells(given: LogEvidence, copies: int, states: int, start: Integers) -> LatentCells:
    """Latent cells that begin at ``start``, shape (copies, chains, steps, columns)."""
    chains, steps = given.shape
    released = np.broadcast_to(given.values, (copies, *given.values.shape[1:]))
    cells = copies * chains * steps
    return LatentCells(
        given,
        np.where(given.observed[..., None], start, 0).reshape(cells, -1).astype(np.int64),
        released.reshape(cells, -1).copy(),
        np.full(cells, -1e-3),
        np.full((2, cells, len(given.fields)), 0.3),
        np.full(cells, max(1.0, float(given.deviation.mean()))),
        np.full((copies * states, len(given.fields)), 0.05),
        np.zeros((copies, len(loops.MOVES), 2)),
    )


def cells_of_chain(latent: LatentCells, copy: int) -> loops.Cells:
    """The rows of one sampler chain, as views: what changes them changes ``latent``."""
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
        latent.share[:, mine],
        latent.most[mine],
        latent.reach[copy * states : (copy + 1) * states],
        latent.tally[copy].reshape(-1),
    )


def resample_rates(latent: LatentCells, prior: tuple[float, float], rng: np.random.Generator) -> None:
    """Draws each chain's rate: P(N) = p (1 - p)^N with p from a Beta law, given its observed cells.

    That of a chain with one of these is integrated out (proofs.md P122), and stays as it is.
    """
    chains, steps = latent.given.shape
    observed = latent.given.observed
    several = np.flatnonzero(observed.sum(axis=1) != 1)
    if several.size:
        entries = latent.entries.reshape(-1, chains, steps)[:, several]
        total = np.where(observed[several], entries, 0).sum(axis=2)
        rate = rng.beta(prior[0] + observed[several].sum(axis=1), prior[1] + total)
        stay = latent.stay.reshape(-1, chains, steps)
        stay[:, several] = np.log1p(-np.clip(rate, 1e-12, 1 - 1e-12))[..., None]
