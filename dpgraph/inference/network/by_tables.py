"""The method ``"tables"``: independent exact draws, family by family.

Each margin of a measured table that holds a family is a noisy version of the family's counts, which are drawn exactly
(``dirichlet_multinomial``); the conditional table is Dirichlet given the counts. Tables that share only part of a
family are left out, so intervals are a few per cent too wide, or more where noise exceeds counts (proofs.md P56).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpgraph.inference.counts.cell_noise import CellNoise, MixedNoise, Noise
from dpgraph.inference.counts.dirichlet_multinomial import counts_sampler
from dpgraph.inference.interruption import heed, interruptible
from dpgraph.inference.network.draws import HeldDraws, PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, MeasuredTable
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, Reals, margin
from dpgraph.waiting import counted

#: Cells of a family times draws that are worked on at once.
HELD = 1 << 23


def draw_by_tables(
    given: Evidence, concentration: Mapping[str, Reals], *, rng: np.random.Generator, draws: int = 1000
) -> PosteriorDraws:
    """Independent draws of every conditional table from noisy counts; coefficients are not independent in the cells.

    ``concentration`` is the Dirichlet prior of each variable, axes (variable, *parents).
    """
    if any(table.weights is not None for table in given.tables):
        raise InferenceError('method="tables" needs noisy counts; for coefficients use "records" or "normal"')
    # Compiled loops take the random generator, which numba unpacks: no signal may be heard there.
    return interruptible(lambda _: _drawn(given, concentration, rng, draws))


def _drawn(given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator, draws: int) -> PosteriorDraws:
    """The draws, in a thread in which no signal is heard."""
    network, totals = given.network, _Totals(given)
    most = max(map(network.cells, network.families))
    held = HeldDraws(network, draws, min(draws * most, max(HELD, most)))
    for name in counted(network.domain.names):
        family, prior = network.family(name), concentration[name]
        holding = given.holding(family)
        measured, kept = noisy_margins(network, holding, family)
        sampled = counts_sampler(measured, prior.reshape(-1)[kept], given.n, log_prior_n=totals.without(holding))
        step = max(1, HELD // prior.size)
        for start in range(0, draws, step):
            heed()
            size = min(step, draws - start)
            counts = sampled(rng, size)
            if not isinstance(kept, slice):
                counts, some = np.zeros((size, prior.size), np.int64), counts
                counts[:, kept] = some
            held.draw(name, start, prior + counts.reshape(size, *prior.shape), rng)
    return held.finished("tables")


def noisy_margins(
    network: Network, holding: Sequence[MeasuredTable], family: Family
) -> tuple[list[tuple[Integers, Noise]], Integers | slice]:
    """A family's noisy counts from each table that holds it, flat, with their noise; and the cells that may have rows.

    Where rules leave out cells of a table, cells of the family add up different numbers of draws (proofs.md P134).
    """
    found: list[tuple[Integers, Integers, MeasuredTable]] = []
    for table in holding:
        possible = network.possible(table.variables)
        noisy = np.ones(table.shape, bool) if possible is None else possible
        copies = margin(noisy.astype(np.int64), table.variables, family).reshape(-1)
        found.append((margin(table.values.reshape(table.shape), table.variables, family).reshape(-1), copies, table))
    some = np.logical_and.reduce([copies > 0 for _, copies, _ in found])
    kept = slice(None) if some.all() else np.flatnonzero(some)
    return [(values[kept], _noise(table, copies[kept])) for values, copies, table in found], kept


def _noise(table: MeasuredTable, copies: Integers) -> Noise:
    same = (copies == copies[0]).all()
    return CellNoise(table.law, int(copies[0])) if same else MixedNoise(table.law, tuple(copies.tolist()))


class _Totals:
    """The likelihood of an unknown number of rows: each table's total is n plus the noise of all its cells.

    The likelihood of all tables is kept for each n asked for; a family takes away its own tables' (proofs.md P102).
    """

    def __init__(self, given: Evidence) -> None:
        self._given = given
        self._parts = {
            table: (int(table.values.sum()), CellNoise(table.law, given.network.possible_cells(table.variables)))
            for table in given.tables
            if given.n is None and not table.law.sums_to_zero
        }
        self._low, self._known = 0, np.zeros(0)

    def without(self, holding: list[MeasuredTable]) -> Callable[[Integers], Reals] | None:
        """log p(n) from the other tables, whose totals are independent of those that hold the family."""
        if self._given.n is not None or len(holding) == len(self._given.tables):
            return None
        own = [self._parts[table] for table in holding if table in self._parts]
        return lambda n: self._of_all(n) - sum(noise.log(total - n) for total, noise in own)

    def _of_all(self, n: Integers) -> Reals:
        """log p(n) from all tables; it is not kept for numbers far apart."""
        low, high = int(n.min()), int(n.max()) + 1
        if n.size < high - low - 1:
            return self._computed(n)
        if not self._known.size:
            self._low = low
        end = self._low + self._known.size
        below = self._computed(np.arange(low, self._low))
        self._known = np.concatenate([below, self._known, self._computed(np.arange(end, high))])
        self._low = min(low, self._low)
        return self._known[n - self._low]

    def _computed(self, n: Integers) -> Reals:
        if not n.size:
            return np.zeros(0)
        return sum((noise.log(total - n) for total, noise in self._parts.values()), np.zeros(n.size))
