"""The maximum-entropy joint that fits the measured pairs, where all cells of the domain can be written down."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.pairs import Pairs
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.basis import block_slices, residual_matrix, residual_transform
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities

#: The most cells of a joint that is written down.
MOST_CELLS = 1 << 17
#: Steps of L-BFGS, and those of a joint that is only to say which graph would be chosen.
STEPS, QUICK_STEPS = 120, 30
#: The least conditional information that a parent must carry, in nats, and in multiples of what noise alone carries.
LEAST, BEYOND_NOISE = 2e-4, 1.0


def is_small(domain: Domain) -> bool:
    """Whether the joint of all variables is written down."""
    return math.prod(domain.sizes.values()) <= MOST_CELLS


def fitted_joint(pairs: Pairs, steps: int = STEPS) -> Reals:
    """The joint probabilities with log-linear terms of variables and measured pairs, fitted to their shrunk residuals.

    The errors of residual blocks are uncorrelated, each with one variance, so the fit is weighted least squares on
    them: normal noise's likelihood. Pairs are shrunk first (``pairs.shrinkage``), or noise would be fitted too.
    """
    names = pairs.domain.names
    shape = tuple(pairs.domain.sizes.values())
    blocks = [block for block in pairs.residuals if 1 <= len(block) <= 2]
    if not blocks:  # every variable has one level
        return _product([pairs.singles[name] for name in names])
    slices = [block_slices(names, block) for block in blocks]
    goals = [_goal(pairs, block) for block in blocks]
    weights = [1 / max(pairs.residuals[block][1] / pairs.n**2, 1e-12) for block in blocks]
    sizes = [goal.size for goal in goals]
    ends = np.cumsum(sizes)[:-1]
    start = residual_transform(np.log(_product([pairs.singles[name] for name in names])), forward=True)
    first = np.concatenate([np.ravel(start[at]) for at in slices])

    def joint(theta: Reals) -> Reals:
        spread = np.zeros(shape)
        for at, goal, part in zip(slices, goals, np.split(theta, ends), strict=True):
            spread[at] = part.reshape(goal.shape)
        logs = residual_transform(spread, forward=False)
        made = np.exp(logs - logs.max())
        return made / made.sum()

    def loss(theta: Reals) -> tuple[float, Reals]:
        made = joint(theta)
        seen = residual_transform(made, forward=True)
        slope = np.zeros(shape)
        total = 0.0
        for at, goal, weight in zip(slices, goals, weights, strict=True):
            away = seen[at] - goal
            total += 0.5 * weight * float((away**2).sum())
            slope[at] = weight * away
        back = _adjoint(slope)
        back = made * (back - float((made * back).sum()))
        through = _adjoint_inverse(back)
        found = np.concatenate([np.ravel(through[at]) for at in slices])
        return total, found

    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20})
    return joint(found.x)


def _goal(pairs: Pairs, block: Family) -> Reals:
    """The residual block of a variable's probabilities, or of a pair's shrunk ones."""
    if len(block) == 1:
        return residual_matrix(pairs.domain.sizes[block[0]])[0][1:] @ pairs.singles[block[0]]
    one, other = (residual_matrix(pairs.domain.sizes[name])[0][1:] for name in block)
    return one @ pairs.table(*block) @ other.T


def _adjoint(values: Reals) -> Reals:
    """The transpose of the forward residual transform."""
    for axis in range(values.ndim):
        values = _along(residual_matrix(values.shape[axis])[0].T, values, axis)
    return values


def _adjoint_inverse(values: Reals) -> Reals:
    """The transpose of the inverse residual transform."""
    for axis in range(values.ndim):
        values = _along(residual_matrix(values.shape[axis])[1].T, values, axis)
    return values


def _along(matrix: Reals, values: Reals, axis: int) -> Reals:
    """A matrix applied along one axis."""
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)


def _product(singles: list[Reals]) -> Reals:
    made = np.ones(())
    for single in singles:
        made = np.multiply.outer(made, single)
    return made


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

    def gain(self, name: str, parents: tuple[str, ...], more: str) -> float:
        """I(name; more | parents)."""
        given = frozenset(parents)
        return (
            self.entropy(given | {name})
            + self.entropy(given | {more})
            - self.entropy(given | {name, more})
            - self.entropy(given)
        )


def read_network(joint: Joint, pairs: Pairs, constraints: Constraints) -> Probabilities:
    """A network whose tables are margins of a joint: variables enter by what they depend on most, parents greedily.

    A parent is added while the information it carries, given those there are, is more than noise in its pair would
    carry on average: half its variance over n^2, summed over the pair's coordinates in units of independence.
    """
    names = pairs.domain.names
    placed: list[str] = []
    parents: dict[str, Family] = {}
    single = {(name, other): joint.gain(name, (), other) for name in names for other in names if name != other}
    while len(placed) < len(names):
        ready = [name for name in names if name not in placed and constraints.may_enter(name, placed)]
        near = placed or names
        total = {name: [single[name, other] for other in near if other != name] for name in ready}
        name = max(ready, key=lambda one: max(total[one]) if placed else sum(total[one]))
        parents[name] = _chosen(joint, pairs, constraints, name, placed)
        placed.append(name)
    network = Network.of(pairs.domain, parents)
    return Probabilities(network, FrozenMap((n, conditional(joint.margin(network.family(n)))) for n in names))


def _chosen(joint: Joint, pairs: Pairs, constraints: Constraints, name: str, placed: list[str]) -> Family:
    """The parents of a variable, by forward selection from the required ones on."""
    mine = constraints.required_parents[name]
    while True:
        gains = {
            other: joint.gain(name, mine, other)
            for other in placed
            if other not in mine and constraints.allows(other, name) and constraints.fits(name, (*mine, other))
        }
        kept = {
            other: gain for other, gain in gains.items() if gain > max(LEAST, BEYOND_NOISE * _noise(pairs, name, other))
        }
        if not kept:
            return mine
        mine = (*mine, max(kept, key=kept.__getitem__))


def _noise(pairs: Pairs, one: str, other: str) -> float:
    """The mutual information that noise alone puts into a pair, on average: half its chi-squared distance."""
    block = (one, other) if (one, other) in pairs.residuals else (other, one)
    if block not in pairs.residuals:
        return 0.0
    size, variance = pairs.residuals[block][0].size, pairs.residuals[block][1]
    return 0.5 * size * variance / pairs.n**2 * math.prod(pairs.domain.sizes[name] for name in block)
