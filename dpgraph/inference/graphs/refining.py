"""A public model made better by tables of more than two variables, measured after it: free, like all that follows.

Of a small domain the model is the maximum-entropy joint, fitted again to all that was measured (``JointModel``). Of
others it is a network's probabilities (``PublicModel``): a measured table joins the family of its last variable, in the
network's order: the others become parents of it, and the family's table is the nearest one (in Kullback-Leibler
divergence from the model) that has the measured conditional probabilities and keeps the pairs and the parents as they
were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.entropy import LARGEST, fitted_joint
from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.joint import Joint
from dpgraph.inference.graphs.pair_estimates import FLOOR, read_pairs, shrinkage
from dpgraph.inference.queries.contraction import conditional as conditional_of
from dpgraph.inference.queries.pruning import ancestors
from dpgraph.inference.queries.question import Evidence
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import joint_counts
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities, margin

NOTHING = Evidence(FrozenMap(), FrozenMap(), FrozenMap())
#: Sweeps of proportional fitting in a family.
SWEEPS = 20
#: Steps of the first fit of a joint, and of each after it, which starts where the last one ended.
FIRST_STEPS, MORE_STEPS = 40, 15


@dataclass(frozen=True, eq=False)
class JointModel:
    """The maximum-entropy joint of a small domain, and the values of the releases that it was fitted to.

    Attributes:
        values: Noisy counts, pairs first.
        n: The number of rows, estimated or public.
        constraints: The graphs that may be chosen.
        cells: The joint probabilities, axes in the domain's order.
    """

    values: tuple[Any, ...]
    n: float
    constraints: Constraints
    cells: Reals

    @classmethod
    def of(cls, value: Any, constraints: Constraints) -> JointModel:
        """The model of what was measured first."""
        pairs = read_pairs(value, LARGEST)
        return cls((value,), pairs.n, constraints, fitted_joint(pairs, FIRST_STEPS))

    @property
    def domain(self) -> Domain:
        """The variables."""
        return self.constraints.domain

    def expected(self, size: int = 3) -> dict[Family, Reals]:
        """The expected counts of every table of so many variables that a family of some graph could hold."""
        joint = Joint(self.domain.names, self.cells)
        return {table: self.n * joint.margin(table) for table in self.candidates(size)}

    def candidates(self, size: int = 3) -> Iterator[Family]:
        """Those tables."""
        return (table for table in combinations(self.domain.names, size) if self._may(table))

    def _may(self, table: Family) -> bool:
        """Whether some variable of a table may have the others as its parents."""
        for child in table:
            others = tuple(name for name in table if name != child)
            if self.constraints.fits(child, others) and all(self.constraints.allows(one, child) for one in others):
                return True
        return False

    def with_tables(self, *values: Any) -> JointModel:
        """The model fitted to further tables too."""
        together = (*self.values, *values)
        pairs = read_pairs(joint_counts(*together), LARGEST)
        return replace(self, values=together, n=pairs.n, cells=fitted_joint(pairs, MORE_STEPS, self.cells))


@dataclass(frozen=True, eq=False)
class PublicModel:
    """A network's probabilities, a public number of rows, and the tables that were measured on top of it.

    Attributes:
        probabilities: The tables of the network.
        n: The number of rows, estimated or public.
        constraints: The graphs that may be chosen.
        targets: For each variable the tables that its family must hold, with the variable's axis first.
        joints: Joint probabilities of some variables that were computed already, axes in their order.
    """

    probabilities: Probabilities
    n: float
    constraints: Constraints
    targets: FrozenMap[str, tuple[tuple[Family, Reals], ...]] = field(default_factory=FrozenMap)
    joints: dict[Family, Reals] = field(default_factory=dict[Family, Reals])

    @property
    def network(self) -> Network:
        """The graph."""
        return self.probabilities.network

    def joint(self, table: Family) -> Reals:
        """The joint probabilities of some variables, axes in their order."""
        if table not in self.joints:
            found = conditional_of(drawn_tables(self.probabilities), table, NOTHING, whole=False)
            self.joints[table] = found.probabilities[0, 0]
        return self.joints[table]

    def expected(self, size: int = 3) -> dict[Family, Reals]:
        """The expected counts of every table of so many variables that a family of the network could hold."""
        return {table: self.n * self.joint(table) for table in self.candidates(size)}

    def candidates(self, size: int = 3) -> Iterator[Family]:
        """Tables of so many variables, the one whose family would hold it last, that the constraints allow."""
        for table in combinations(self.network.order, size):
            if self.constraints.fits(table[-1], self.parents_with(table)) and all(
                self.constraints.allows(parent, table[-1]) for parent in table[:-1]
            ):
                yield table

    def parents_with(self, table: Family) -> Family:
        """The parents of a table's last variable if its family is to hold the table."""
        now = self.network.parents[table[-1]]
        return (*now, *(name for name in table[:-1] if name not in now))

    def with_table(self, table: Family, counts: Reals, noise: float) -> PublicModel:
        """The model with a measured table: axes in the table's order, noise the standard deviation of a cell.

        What the table adds to the model is shrunk by how much it stands out of its noise.
        """
        child, others = table[-1], table[:-1]
        before = self.joint((child, *others))
        flat = before.ravel()
        excess = np.moveaxis(counts, -1, 0).ravel() - self.n * flat
        kept = shrinkage(excess[:, None], noise, flat, np.ones(1))[0][:, 0]
        target = np.maximum(flat + kept * excess / self.n, FLOOR * flat).reshape(before.shape)
        target = target * (before.sum(axis=0) / np.maximum(target.sum(axis=0), 1e-300))
        held = (*(one for one in self.targets.get(child, ()) if set(one[0]) != set(table)), ((child, *others), target))
        return self._refitted(child, self.parents_with(table), held)

    def _refitted(self, child: str, parents: Family, held: tuple[tuple[Family, Reals], ...]) -> PublicModel:
        """The model with the family of one variable fitted again."""
        family = (child, *parents)
        joint = self.joint(family)
        known = joint.sum(axis=0)
        inside = [frozenset(names) for names, _ in held]
        pairs = [(child, name) for name in parents if not any(name in names for names in inside)]
        targets = [*((pair, margin(joint, family, pair)) for pair in pairs), *held]
        fitted = joint
        for _ in range(SWEEPS):
            for names, target in targets:
                fitted = fitted * _ratio(target, margin(fitted, family, names), family, names)
            fitted = fitted * (known / np.maximum(fitted.sum(axis=0), 1e-300))
        old = self.probabilities
        network = Network.of(old.network.domain, {**old.network.parents, child: parents})
        tables = FrozenMap((name, conditional(fitted) if name == child else old.tables[name]) for name in old.tables)
        made = Probabilities(network, tables, old.provenance)
        above = {name: ancestors(old.network, [name]) for name in old.tables}
        same = {table: one for table, one in self.joints.items() if not any(child in above[name] for name in table)}
        return replace(self, probabilities=made, targets=FrozenMap({**self.targets, child: held}), joints=same)


def _ratio(target: Reals, now: Reals, family: Family, names: Family) -> Reals:
    """Target over present probabilities of some variables, with axes that fit their family's table."""
    ratio = target / np.maximum(now, 1e-300)
    order = sorted(range(len(names)), key=lambda i: family.index(names[i]))
    sizes = iter(ratio.transpose(order).shape)
    return ratio.transpose(order).reshape([next(sizes) if name in names else 1 for name in family])
