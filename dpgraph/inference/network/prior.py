"""The prior of a network whose tables say how much their rows differ: concentrations and centres of their own.

Row r of a table with parents is Dirichlet with concentrations a m: a centre m, Dirichlet itself, which all rows scatter
about, and a concentration a, uniform on a grid of logarithms, small where rows differ, large where they are alike. All
are drawn with the tables given the release (proofs.md P77). A variable without parents has the uniform prior.

Bins of a number are neighbours: rows of a table may scatter about centres that walk from bin to bin (proofs.md P109).
Where a parent is a number cut into bins, each row of the table has a centre of its own. Each centre scatters about
that of the bin below, the other parents being as they are; the centres of the lowest bin and of a missing number
scatter about a common one. How closely rows scatter about centres, and centres about others, is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.arguments import check_above_zero, check_whole_number
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.checks import check_boolean
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.domain import Bins
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Probabilities, Reals

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


@dataclass(frozen=True)
class HierarchicalPrior:
    """Rows of a table scatter about a centre of their own variable, as closely as the release says; ``"hierarchical"``.

    Attributes:
        lowest: The smallest concentration of a row, the sum over its levels; rows are then nearly deterministic.
        highest: The largest; rows are then alike but for this many records' worth.
        steps: How many concentrations are possible, evenly spread on the log scale and equally likely.
        centre: The Dirichlet concentration of each level of a centre.
        ordered: True for tables that change little from bin to bin of a parent that is a number: each bin's row has a
            centre, which scatters about the centre of the bin below as closely as the release says (proofs.md P109).

    Raises:
        InferenceError: If a number is out of range, or the highest concentration is below the lowest.

    >>> HierarchicalPrior(lowest=0.1, highest=100, steps=4).grid.round(3).tolist()
    [0.1, 1.0, 10.0, 100.0]
    """

    lowest: float = 0.1
    highest: float = 1000.0
    steps: int = 25
    centre: float = 1.0
    ordered: bool = False

    def __post_init__(self) -> None:
        for name in ("lowest", "highest", "centre"):
            check_above_zero(name, getattr(self, name))
        check_whole_number("steps", self.steps, 1)
        check_boolean("ordered", self.ordered, error=InferenceError)
        if self.highest < self.lowest:
            raise InferenceError(f"highest must be at least lowest; got {self.highest!r} below {self.lowest!r}")

    @property
    def grid(self) -> Reals:
        """The concentrations that are possible."""
        return np.geomspace(self.lowest, self.highest, self.steps)

    @property
    def bounds(self) -> Reals:
        """Concentrations of a centre about its neighbour, and about the common one: a line for each, least and most.

        They are uniform on the log scale. Neighbours may be much more alike than rows of the same centre.
        """
        return np.array([[10 * self.lowest, 1000 * self.highest], [self.lowest, self.highest]])

    def sample(self, network: Network, rng: np.random.Generator) -> Probabilities:
        """Tables drawn from the prior: a world to simulate.

        >>> pair = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
        >>> HierarchicalPrior().sample(pair, np.random.default_rng(0)).table("wet").sum(axis=0).round(6).tolist()
        [1.0, 1.0]
        """
        tables: dict[str, Reals] = {}
        for name, cells in concentration_tables(network, 1.0).items():
            if self.ordered and (order := order_of(network, name)):
                cells = self._along(order, cells.shape, rng)
            elif cells.ndim > 1:
                centre = rng.dirichlet(np.full(len(cells), self.centre)).reshape(-1, *[1] * (cells.ndim - 1))
                shares = np.maximum(centre, 1e-300) * cells  # of the levels that a row may have, by its rules
                cells = rng.choice(self.grid) * (shares / shares.sum(axis=0) if network.rules else shares)
            tables[name] = dirichlet_draws(cells, rng, axis=0)
        return Probabilities(network, FrozenMap(tables))

    def _along(self, order: Order, shape: tuple[int, ...], rng: np.random.Generator) -> Reals:
        """The concentrations of a table whose rows lie along the bins of a number."""
        own, (near, common) = rng.choice(self.grid), np.exp(rng.uniform(*np.log(self.bounds).T))
        centres = rng.dirichlet(np.full(shape[0], self.centre))[None]
        for row in range(math.prod(shape[1:])):
            to = order.below(row)
            about = (near if to else common) * np.maximum(centres[to], 1e-300)
            centres = np.concatenate([centres, dirichlet_draws(about[None], rng)])
        return own * np.maximum(centres[1:], 1e-300).T.reshape(shape)
