"""How the rows of a chain's tables scatter about centres: draws of concentrations and centres.

Given counts a concentration hardly moves, as the counts were drawn under it. Where noise hides counts, a second move
reaches further: another concentration and centre, tables that are the same quantiles of their new laws, and as few
other records as these tables allow (proofs.md P133).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln

from dpgraph.inference._kernels import compiled
from dpgraph.inference.network import _kernels
from dpgraph.inference.network._kernels import FOLLOWS, LEVELS, THETA, Layout
from dpgraph.inference.network.prior import HierarchicalPrior, Walk, order_of
from dpgraph.inference.simplex import log_gammas
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Reals

#: The most cells of a table that moves with its concentration.
MOST_CELLS = 4096
#: A move goes 1, 2, 4 or 8 places on the grid of concentrations; the logarithms of a centre's levels have a standard
#: deviation of one of these.
PLACES, WIDTHS = 2 ** np.arange(4), 0.05 * 4.0 ** np.arange(4)
#: The logarithm below which a gamma variable's law is a power of it, and the smallest positive number's.
POWER, LEAST = -18.0, float(np.log(5e-324))
#: The smallest concentration of a level that may be, and share of a centre.
SMALLEST, SMALLEST_SHARE = 1e-250, 1e-300


@dataclass(frozen=True, eq=False)
class Proposal:
    """A flat prior and flat tables, centres one after another, and for each variable that moves the logarithm of the
    proposal's probability before any row, over that of the present state.
    """

    prior: Reals
    tables: Reals
    centres: Reals
    log_ratio: Reals


class Scatter:
    """The centres and concentrations of a chain's tables under a hierarchical prior.

    ``movable`` has the numbers of the variables that ``propose`` moves: their tables have several rows and one centre.
    """

    def __init__(self, hierarchy: HierarchicalPrior, network: Network, layout: Layout) -> None:
        levels = layout.nodes[:, LEVELS]
        self._hierarchy, self._centres = hierarchy, np.repeat(1 / levels, levels)
        self._centres *= np.repeat(1 - layout.nodes[:, FOLLOWS], levels)
        self._walks: list[Walk] = []
        for v, name in enumerate(network.order if hierarchy.ordered else ()):
            if order := order_of(network, name):
                at, size = int(levels[:v].sum()), int(levels[v])
                self._centres[at : at + size] = 0.0  # left to the walk
                rows = network.cells(network.parents[name])
                self._walks.append(Walk.of(int(layout.nodes[v, THETA]), rows, size, order, hierarchy.bounds))
        first, at = layout.nodes[:, THETA], np.cumsum(levels) - levels
        cells = np.diff(first, append=layout.prior.size)
        own = (levels > 1) & (cells > levels) & (cells <= MOST_CELLS) & (self._centres[at] > 0)
        self.movable = np.flatnonzero(own)
        self._sizes, rows = levels[own], cells[own] // levels[own]
        self._cells = [np.arange(first[v], first[v] + cells[v]) for v in self.movable]
        self._shares = [np.arange(at[v], at[v] + levels[v]) for v in self.movable]
        self._share_of = [np.tile(mine, many) for mine, many in zip(self._shares, rows, strict=True)]
        self._widths, self._rows = np.repeat(self._sizes, rows), rows

    def relearn(self, rng: np.random.Generator, layout: Layout, counts: Integers) -> None:
        """Draws centres and concentrations given flat counts, and sets the layout's prior to them."""
        grid, spread = self._hierarchy.grid, self._hierarchy.centre
        compiled(_kernels.relearned)(rng, layout, counts, grid, spread, self._centres, np.empty_like(grid))
        for walk in self._walks:
            walk.relearn(rng, layout.prior, counts, grid, spread)

    def propose(self, rng: np.random.Generator, prior: Reals, theta: Reals) -> Proposal:
        """Another concentration or centre or both for every variable that moves, its tables the same quantiles.

        ``prior`` and ``theta`` are the present flat ones; the way back is as likely.
        """
        many = self.movable.size
        made = Proposal(prior.copy(), theta.copy(), self._centres.copy(), np.zeros(many))
        if not many:
            return made
        grid, cells, kind = self._hierarchy.grid, np.concatenate(self._cells), rng.integers(0, 3, many)
        total = row_sums(prior[cells], self._widths)
        place = np.abs(np.log(total[np.cumsum(self._rows) - self._rows, None] / grid)).argmin(axis=1)
        place += (kind != 0) * rng.choice([-1, 1], many) * rng.choice(PLACES, many)
        made.log_ratio[:] = np.where((place >= 0) & (place < grid.size), 0.0, -np.inf)
        step = np.repeat((kind != 1) * rng.choice(WIDTHS, many), self._sizes) * rng.standard_normal(self._sizes.sum())
        levels, spread = np.concatenate(self._shares), self._hierarchy.centre
        held = self._centres[levels] * np.repeat(rng.standard_gamma(spread * self._sizes), self._sizes)
        made.log_ratio[:] += row_sums(spread * step - held * np.expm1(step), self._sizes)
        made.centres[levels] = np.maximum(row_shares(held * np.exp(step), self._sizes), SMALLEST_SHARE)
        weight = np.where(prior[cells] > 0, made.centres[np.concatenate(self._share_of)], 0.0)
        concentration = np.repeat(np.repeat(grid[np.clip(place, 0, grid.size - 1)], self._rows), self._widths)
        after = np.maximum(concentration * row_shares(weight, self._widths), SMALLEST)
        made.prior[cells] = np.where(prior[cells] > 0, after, 0.0)
        tables = same_quantiles(rng, theta[cells], prior[cells], made.prior[cells], self._widths)
        made.tables[cells] = tables
        made.log_ratio[row_sums(~np.isfinite(tables), np.array([one.size for one in self._cells])) > 0] = -np.inf
        return made

    def take(self, k: int, proposal: Proposal, prior: Reals, theta: Reals) -> None:
        """Sets the prior, the table and the centre of the k-th variable that moves to the proposed ones, in place."""
        cells, shares = self._cells[k], self._shares[k]
        prior[cells], theta[cells] = proposal.prior[cells], proposal.tables[cells]
        self._centres[shares] = proposal.centres[shares]


def same_quantiles(rng: np.random.Generator, theta: Reals, before: Reals, after: Reals, sizes: Integers) -> Reals:
    """Rows of tables with Dirichlet concentrations ``after`` that are the same quantiles as ``theta`` of ``before``.

    A row times a gamma variable of its whole concentration is independent gamma variables, one for each level; each
    becomes the same quantile of its new law. All are flat; rows lie one after another and have ``sizes`` levels, of
    which those of concentration 0 cannot be. Tiny values go by logarithms, where the law is a power of the value; one
    that is 0 by rounding is drawn below the smallest number. A row with a quantile too near 1 is nan, there and back.
    """
    may = before > 0
    theta, old, new = theta[may], before[may], after[may]
    whole = log_gammas(row_sums(before, sizes), rng)
    with np.errstate(divide="ignore", invalid="ignore"):
        rounded = LEAST + np.log1p(-rng.random(theta.size)) / old
        logs = np.where(theta > 0, np.log(theta), rounded) + np.repeat(whole, sizes)[may]
        low, high = gammainc(old, np.exp(logs)), gammaincc(old, np.exp(logs))
        log_low = np.where(logs < POWER, old * logs - gammaln(old + 1.0), np.log(low))
        value = np.where(low < high, gammaincinv(new, np.exp(log_low)), gammainccinv(new, high))
        power = (log_low + gammaln(new + 1.0)) / new
        found = np.full(before.size, -np.inf)
        found[may] = np.where(power < POWER, power, np.log(value))
        largest = np.repeat(np.maximum.reduceat(found, np.cumsum(sizes) - sizes), sizes)
        return row_shares(np.exp(found - largest), sizes)


def row_sums(values: Reals, sizes: Integers) -> Reals:
    """The sum of each row."""
    return np.add.reduceat(values, np.cumsum(sizes) - sizes)


def row_shares(values: Reals, sizes: Integers) -> Reals:
    """Each value's share of the sum of its row."""
    return values / np.repeat(row_sums(values, sizes), sizes)
