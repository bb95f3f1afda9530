"""The true cells of an event log as unknowns: exact moves given states, emissions and what was released.

A cell holds N entries, each with one level of every field. Given its state the tables of its fields are multinomial
with N shared; N is geometric with a rate of its chain. The emission law proposes, so only the noise law decides:

* redraw: some of a field's entries, of some of its levels, are drawn anew;
* resize: entries join (drawn from the emissions) or leave (picked evenly) all fields at once;
* switch: a cell changes its state and its entries follow by the largest coupling of the two emission laws, which has
  the same joint law both ways: states move where states given the tables would be stuck;
* shift: probability moves between two levels of an emission table and the entries of its cells with it (MATHS 8(B),
  item 3): emissions move where emissions given the tables would be stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov import loops
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.structure.tables import Integers, Reals

Flags = npt.NDArray[np.bool_]

#: The accepted share of proposals that burn-in aims at.
AIM = 0.35


@dataclass(eq=False)
class LatentCells:
    """The unknown tables of all copies, one row a cell, with the sizes of the moves that burn-in adapts.

    Attributes:
        given: The release.
        counts: The latent tables, shape (copies x chains x steps, columns); 0 in held-out cells.
        released: What was released, of the same shape.
        stay: ln P(one more entry) of the cell's chain, shape (cells,).
        share: What part of a field's entries a redraw takes, shape (2, cells, fields): of all levels, of some.
        most: The most entries that join or leave at once, shape (cells,).
        reach: The most probability that a shift moves, shape (copies x states, fields).
        tally: Accepted and tried by the name of the move.
    """

    given: LogEvidence
    counts: Integers
    released: Integers
    stay: Reals
    share: Reals
    most: Reals
    reach: Reals
    tally: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    @property
    def entries(self) -> Integers:
        """N of each cell."""
        return self.counts[:, self.given.fields[0]].sum(axis=1)

    def log_noise(self) -> Reals:
        """ln P(released | tables) of each cell, up to a constant."""
        return self.given.log_law(self.released - self.counts)

    def log_law(self) -> Reals:
        """ln P(released, number of entries, ways to order the tables) of each cell, up to a constant."""
        from scipy.special import gammaln

        entries = self.entries
        ways = len(self.given.fields) * gammaln(entries + 1.0) - gammaln(self.counts + 1.0).sum(axis=1)
        return self.log_noise() + ways + entries * self.stay

    def noted(self, move: str, accepted: Flags, tried: Flags | None = None) -> None:
        """Counts accepted and tried proposals."""
        many = accepted.size if tried is None else tried.sum()
        self.tally[move] = self.tally.get(move, np.zeros(2)) + np.array([accepted.sum(), many], float)


def latent_cells(given: LogEvidence, copies: int, states: int, start: Integers) -> LatentCells:
    """Latent cells that begin at ``start``, shape (copies, chains, steps, columns)."""
    chains, steps = given.shape
    released = np.broadcast_to(given.values, (copies, *given.values.shape[1:]))
    cells = copies * chains * steps
    made = LatentCells(
        given,
        np.where(given.observed[..., None], start, 0).reshape(cells, -1).astype(np.int64),
        released.reshape(cells, -1).copy(),
        np.full(cells, -1e-3),
        np.full((2, cells, len(given.fields)), 0.3),
        np.full(cells, max(1.0, float(given.deviation.mean()))),
        np.full((copies * states, len(given.fields)), 0.05),
    )
    return made


def one_chain(latent: LatentCells, copy: int, copies: int) -> loops.Cells:
    """The rows of one sampler chain, as views; ``tally`` is new."""
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
        np.zeros(2 * len(loops.MOVES)),
    )


def coupled(rng: np.random.Generator, counts: Integers, old: Reals, new: Reals) -> Integers:
    """Entries with law ``old`` moved by the largest coupling to the law ``new``; shapes (cells, levels)."""
    leave = np.clip(1 - new / np.maximum(old, 1e-300), 0.0, 1.0)
    gone = rng.binomial(counts, leave)
    gain = np.maximum(new - old, 0.0)
    total = gain.sum(axis=1, keepdims=True)
    law = np.where(total > 0, gain / np.maximum(total, 1e-300), new)
    return counts - gone + rng.multinomial(gone.sum(axis=1), law / law.sum(axis=1, keepdims=True))


def redraw(latent: LatentCells, laws: Reals, rng: np.random.Generator, speed: float) -> None:
    """Draws some entries of every field anew: of all its levels, or of about half of them, as a coin decides.

    Args:
        latent: Changed in place.
        laws: The emission law of each cell, shape (cells, columns).
        rng: Randomness for post-processing.
        speed: How fast the shares adapt; 0 after burn-in.
    """
    open_cells = latent.entries > 0
    part = int(rng.random() < 0.5)
    for number, columns in enumerate(latent.given.fields):
        counts, law = latent.counts[:, columns], laws[:, columns]
        if law.shape[1] < 2:
            continue
        if part == 1:
            law = law * (rng.random(law.shape) < 0.5)
            law[law.sum(axis=1) == 0, 0] = 1.0
        gone = rng.binomial(np.where(law > 0, counts, 0), latent.share[part, :, number, None])
        new = counts - gone + rng.multinomial(gone.sum(axis=1), law / law.sum(axis=1, keepdims=True))
        accepted = _settled(latent, columns, new, rng)
        moved = latent.share[part, :, number] * np.exp(speed * (accepted - AIM))
        latent.share[part, :, number] = np.where(open_cells, np.clip(moved, 1e-4, 1.0), latent.share[part, :, number])
        latent.noted("redraw", accepted & open_cells, open_cells)


def _settled(latent: LatentCells, columns: slice, new: Integers, rng: np.random.Generator) -> Flags:
    """Metropolis on one field of every cell: keeps the new tables where the noise allows."""
    old, released = latent.counts[:, columns], latent.released[:, columns]
    gain = latent.given.log_law(released - new, columns) - latent.given.log_law(released - old, columns)
    accepted = np.log(rng.random(len(new))) < gain
    latent.counts[:, columns] = np.where(accepted[:, None], new, old)
    return accepted


def resize(latent: LatentCells, laws: Reals, rng: np.random.Generator, speed: float) -> None:
    """Lets entries join or leave every cell, all fields at once; arguments as for ``redraw``."""
    cells, entries = len(latent.counts), latent.entries
    open_cells = np.tile(latent.given.observed.ravel(), cells // latent.given.observed.size)
    many = 1 + (rng.random(cells) * latent.most).astype(np.int64)
    joining = rng.random(cells) < 0.5
    possible = open_cells & (joining | (many <= entries))
    joins, leaves = np.where(possible & joining, many, 0), np.where(possible & ~joining, many, 0)
    new = latent.counts.copy()
    for columns in latent.given.fields:
        law = laws[:, columns]
        new[:, columns] += rng.multinomial(joins, law / law.sum(axis=1, keepdims=True))
        new[:, columns] -= _picked_evenly(latent.counts[:, columns], leaves, rng)
    gain = latent.given.log_law(latent.released - new) - latent.log_noise() + (joins - leaves) * latent.stay
    accepted = possible & (np.log(rng.random(cells)) < gain)
    latent.counts[accepted] = new[accepted]
    adapted = latent.most * np.exp(speed * (np.where(possible, np.exp(np.minimum(gain, 0.0)), 0.0) - AIM))
    latent.most = np.where(open_cells, np.clip(adapted, 1.0, 1e6), latent.most)
    latent.noted("resize", accepted, open_cells)


def _picked_evenly(counts: Integers, many: Integers, rng: np.random.Generator) -> Integers:
    """How many of each level are among ``many`` entries picked evenly without replacement."""
    gone, left = np.zeros_like(counts), many.copy()
    rest = counts.sum(axis=1)
    for v in range(counts.shape[1]):
        rest = rest - counts[:, v]
        gone[:, v] = rng.hypergeometric(counts[:, v], rest, left)
        left = left - gone[:, v]
    return gone


def resample_rates(latent: LatentCells, prior: tuple[float, float], rng: np.random.Generator) -> None:
    """Draws each chain's rate: P(N) = p (1 - p)^N with p from a Beta law, given its observed cells."""
    chains, steps = latent.given.shape
    observed = latent.given.observed
    entries = latent.entries.reshape(-1, chains, steps)
    total = np.where(observed, entries, 0).sum(axis=2)
    rate = rng.beta(prior[0] + observed.sum(axis=1), prior[1] + total)
    latent.stay = np.repeat(np.log1p(-np.clip(rate, 1e-12, 1 - 1e-12)).ravel(), steps)


def switch(
    latent: LatentCells, states: Integers, transition: Reals, emissions: Reals, rng: np.random.Generator
) -> Integers:  # fmt: skip
    """Proposes another state for every cell, even time steps first, its entries coupled; returns the new states.

    Args:
        latent: Changed in place.
        states: Shape (copies, chains, steps).
        transition: Shape (copies, states, states).
        emissions: Shape (copies, states, columns).
        rng: Randomness for post-processing.
    """
    size = transition.shape[1]
    if size < 2:
        return states
    log_transition, states = np.log(transition), states.copy()
    cells = np.arange(states.size).reshape(states.shape)
    for parity in (0, 1):
        mine = cells[:, :, parity::2]
        if mine.size == 0:
            continue
        copy = np.broadcast_to(np.arange(len(states))[:, None, None], mine.shape)
        old = states[:, :, parity::2]
        other = (old + 1 + (rng.random(mine.shape) * (size - 1)).astype(np.int64)) % size
        gain = _neighbours(log_transition, states, other, parity) - _neighbours(log_transition, states, old, parity)
        rows = mine.ravel()
        counts, released = latent.counts[rows], latent.released[rows]
        before, after = emissions[copy, old].reshape(rows.size, -1), emissions[copy, other].reshape(rows.size, -1)
        new = np.concatenate(
            [coupled(rng, counts[:, c], before[:, c], after[:, c]) for c in latent.given.fields], axis=1
        )
        log_law = latent.given.log_law
        gain = gain.ravel() + log_law(released - new) - log_law(released - counts)
        accepted = np.log(rng.random(rows.size)) < gain
        latent.counts[rows[accepted]] = new[accepted]
        states[:, :, parity::2] = np.where(accepted.reshape(mine.shape), other, old)
        latent.noted("switch", accepted)
    return states


def _neighbours(log_transition: Reals, states: Integers, here: Integers, parity: int) -> Reals:
    """ln P of the transitions into and out of ``here``, which stands at every second time step from ``parity`` on."""
    copy = np.arange(len(states))[:, None, None]
    steps, times = states.shape[2], np.arange(parity, states.shape[2], 2)
    total = np.zeros(here.shape)
    inner = times > 0
    total[:, :, inner] += log_transition[copy, states[:, :, times[inner] - 1], here[:, :, inner]]
    inner = times < steps - 1
    total[:, :, inner] += log_transition[copy, here[:, :, inner], states[:, :, times[inner] + 1]]
    return total


def shift(
    latent: LatentCells, key: Integers, emissions: Reals, prior: float, rng: np.random.Generator, speed: float
) -> None:  # fmt: skip
    """Moves probability between two levels of every state's emissions, with the entries of its cells.

    Args:
        latent: Changed in place.
        key: copy * states + state of each cell.
        emissions: Changed in place, shape (copies x states, columns).
        prior: The Dirichlet concentration of every level.
        rng: Randomness for post-processing.
        speed: How fast the reach adapts; 0 after burn-in.
    """
    rows, cells = np.arange(len(emissions)), np.arange(len(key))
    for number, columns in enumerate(latent.given.fields):
        levels = columns.stop - columns.start
        for _ in range(levels if levels > 1 else 0):
            giving = (rng.random(len(rows)) * levels).astype(np.int64)
            taking = (giving + 1 + (rng.random(len(rows)) * (levels - 1)).astype(np.int64)) % levels
            giving, taking = giving + columns.start, taking + columns.start
            have, gets = emissions[rows, giving], emissions[rows, taking]
            amount = np.sqrt(rng.random(len(rows))) * latent.reach[:, number]
            possible = amount < have
            part = np.where(possible, amount / np.maximum(have, 1e-300), 0.0)
            left, grown = np.where(possible, have - amount, have), np.where(possible, gets + amount, gets)
            one, two = giving[key], taking[key]
            flipped = rng.binomial(latent.counts[cells, one], part[key])
            gain = np.bincount(key, _flip_gain(latent, one, two, flipped), len(rows))
            gain += (prior - 1) * (np.log(left) - np.log(have) + np.log(grown) - np.log(gets))
            accepted = possible & (np.log(rng.random(len(rows))) < gain)
            moved = np.where(accepted[key], flipped, 0)
            latent.counts[cells, one] -= moved
            latent.counts[cells, two] += moved
            emissions[rows, giving] = np.where(accepted, left, have)
            emissions[rows, taking] = np.where(accepted, grown, gets)
            latent.reach[:, number] = np.clip(latent.reach[:, number] * np.exp(speed * (accepted - AIM)), 1e-5, 0.9)
            latent.noted("shift", accepted)


def _flip_gain(latent: LatentCells, giving: Integers, taking: Integers, flipped: Integers) -> Reals:
    """What each cell's log-likelihood gains when entries move from one column to another."""
    cells = np.arange(len(flipped))
    total = np.zeros(len(flipped))
    for column, sign in ((giving, -1), (taking, 1)):
        before = latent.released[cells, column] - latent.counts[cells, column]
        after = before - sign * flipped
        total += latent.given.absolute[column] * (np.abs(before) - np.abs(after))
        total += latent.given.squares[column] * (before.astype(float) ** 2 - after.astype(float) ** 2)
    return total
