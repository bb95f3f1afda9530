"""A network read off a joint whose cells are all written down: parents by conditional information."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.waiting import counted

#: The most cells of a joint that is written down.
MOST_CELLS = 1 << 17
#: The least conditional information that a parent must carry, in nats, and in multiples of what noise alone carries.
LEAST, BEYOND_NOISE = 2e-4, 1.0


def is_small(domain: Domain) -> bool:
    """Whether the joint of all variables is written down."""
    return math.prod(domain.sizes.values()) <= MOST_CELLS


class Joint:
    """Margins and conditional information of a joint that is written down."""

    def __init__(self, names: Family, cells: Reals) -> None:
        self.names, self.cells = names, cells
        self._known: dict[frozenset[str], float] = {}

    def margin(self, wanted: Family) -> Reals:
        """The probabilities of some variables, axes in the order asked for."""
        away = tuple(i for i, name in enumerate(self.names) if name not in wanted)
        kept = [name for name in self.names if name in wanted]
        return np.transpose(self.cells.sum(axis=away), [kept.index(name) for name in wanted])

    def entropy(self, names: frozenset[str]) -> float:
        """The entropy of some variables, in nats."""
        if names not in self._known:
            flat = self.cells.sum(axis=tuple(i for i, name in enumerate(self.names) if name not in names)).ravel()
            flat = flat[flat > 0]
            self._known[names] = float(-(flat * np.log(flat)).sum())
        return self._known[names]

    def gain(self, name: str, parents: Family, *more: str) -> float:
        """I(name; more | parents)."""
        given, further = frozenset(parents), frozenset(parents) | frozenset(more)
        return (
            self.entropy(given | {name}) + self.entropy(further) - self.entropy(further | {name}) - self.entropy(given)
        )


def read_network(joint: Joint, pairs: Pairs, constraints: Constraints) -> tuple[Network, FrozenMap[str, Reals]]:
    """A network and a joint's margins for its families: variables enter by what they depend on most, parents greedily.

    A parent is added while the information it carries, given those there are, is more than noise in its pair would
    carry on average: half its variance over n^2, summed over the pair's coordinates in units of independence.
    Two at once are held to twice the least information, and to the noise of all three variables' interactions.
    """
    names = pairs.domain.names
    placed: list[str] = []
    parents: dict[str, Family] = {}
    single = {(name, other): joint.gain(name, (), other) for name in names for other in names if name != other}
    for _ in counted(names):
        ready = [name for name in names if name not in placed and constraints.may_enter(name, placed)]
        near = placed or names
        total = {name: [single[name, other] for other in near if other != name] for name in ready}
        name = max(ready, key=lambda one: max(total[one]) if placed else sum(total[one]))
        parents[name] = _chosen(joint, pairs, constraints, name, placed)
        placed.append(name)
    network = Network.of(pairs.domain, parents)
    return network, FrozenMap((name, joint.margin(network.family(name))) for name in names)


def _chosen(joint: Joint, pairs: Pairs, constraints: Constraints, name: str, placed: list[str]) -> Family:
    """The parents of a variable, by forward selection from the required ones on.

    Two parents are tried together where the table of all three was measured: neither need tell anything by itself.
    """
    mine = constraints.required_parents[name]
    together = [
        tuple(one for one in block if one != name) for block in pairs.residuals if len(block) == 3 and name in block
    ]
    singles: list[Family] = [(other,) for other in placed]
    while True:
        open_names = {other for other in placed if other not in mine and constraints.allows(other, name)}
        offers = [more for more in [*singles, *together] if open_names.issuperset(more)]
        gains = {more: joint.gain(name, mine, *more) for more in offers if constraints.fits(name, (*mine, *more))}
        kept = {
            more: gain / len(more)
            for more, gain in gains.items()
            if gain > max(LEAST * len(more), BEYOND_NOISE * _noise(pairs, name, more))
        }
        if not kept:
            return mine
        mine = (*mine, *max(kept, key=kept.__getitem__))


def _noise(pairs: Pairs, name: str, more: Family) -> float:
    """The information that noise alone puts into the blocks of a variable and others: half its chi-squared distance."""
    total = 0.0
    for block, (values, variance) in pairs.residuals.items():
        if name in block and len(block) > 1 and set(block) <= {name, *more}:
            cells = math.prod(pairs.domain.sizes[one] for one in block)
            total += 0.5 * values.size * variance / pairs.n**2 * cells
    return total
