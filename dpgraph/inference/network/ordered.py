"""Bins of a number are neighbours: rows of a table scatter about centres that walk from bin to bin (proofs.md P109).

Where a parent is a number cut into bins, each row of the table has a centre of its own. Each centre scatters about
that of the bin below, the other parents being as they are; the centres of the lowest bin and of a missing number
scatter about a common one. How closely rows scatter about centres, and centres about others, is learned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.network import _kernels
from dpgraph.structure.domain import Bins
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Reals

#: Draws of the centres and their concentrations for each draw of the tables.
STEPS = 3


@dataclass(frozen=True)
class Order:
    """Where the bins of a table's longest number lie: one every ``stride`` rows, ``bins`` of its ``size`` levels."""

    stride: int
    size: int
    bins: int

    def below(self, row: int) -> int:
        """The place of the centre that a row's centre scatters about; 0 is the common one."""
        return _kernels.below(row, self.stride, self.size, self.bins)


def order_of(network: Network, name: str) -> Order | None:
    """The order of a variable's rows; None without a parent of at least two bins, or where rules forbid some level.

    >>> network = Network.of({"age": Bins([0, 18, 65, 99]), "works": ["no", "yes"]}, {"works": ["age"]})
    >>> order_of(network, "works"), order_of(network, "age")
    (Order(stride=1, size=3, bins=3), None)
    """
    parents, sizes = network.parents[name], network.domain.sizes
    found = [parent for parent in parents if isinstance(network.domain[parent], Bins)]
    if not found or network.allowed(name) is not None:
        return None
    longest = max(found, key=lambda parent: sizes[parent])
    after = parents[parents.index(longest) + 1 :]
    declared = network.domain[longest]
    assert isinstance(declared, Bins)
    order = Order(network.cells(after), sizes[longest], len(declared.edges) - 1)
    return order if order.bins > 1 < sizes[name] else None


@dataclass(eq=False)
class Walk:
    """The centres of one variable in a chain, and how closely they scatter, within ``bounds``."""

    first: int
    order: Order
    bounds: Reals
    chosen: Reals
    centres: Reals

    @classmethod
    def of(cls, first: int, rows: int, levels: int, order: Order, bounds: Reals) -> Walk:
        """All centres even, concentrations in the middle of their bounds; rows start at ``first`` of flat tables."""
        return cls(first, order, bounds, np.sqrt(bounds.prod(axis=1)), np.full((rows + 1, levels), 1 / levels))

    def relearn(self, rng: np.random.Generator, prior: Reals, counts: Integers, grid: Reals, spread: float) -> None:
        """Draws centres and concentrations given flat counts, and sets the flat prior to them."""
        rows, levels = len(self.centres) - 1, self.centres.shape[1]
        mine = slice(self.first, self.first + rows * levels)
        for _ in range(STEPS):
            compiled(_kernels.relearned_along)(
                rng, prior[mine].reshape(rows, levels), counts[mine].reshape(rows, levels), grid, self.bounds, spread,
                self.chosen, self.centres, self.order.stride, self.order.size, self.order.bins,
                np.empty(self.centres.shape, np.int64), np.empty_like(grid),
            )  # fmt: skip
