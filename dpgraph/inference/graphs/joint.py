"""The joint of most entropy near a release, where all its cells can be written down, and a network read off it.

With residuals y of variance s^2, of shrunk pairs, and the features f that they are means of, the joint p that maximises
a H(p) - sum (E_p f - y)^2 / (2 s^2), and meets those of single variables exactly, is log-linear in f. Its weights t,
the sum over those of pairs and more variables, minimise the convex

    ln sum_x exp(t f(x)) - t y + a sum s^2 t^2 / 2

(Dudik, Phillips and Schapire 2007). Noisy tables that no joint has are approached as far as their noise says. Parents
are chosen by conditional information in the joint.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr
from threadpoolctl import threadpool_limits

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.pair_estimates import Pairs, beyond_noise, dependent
from dpgraph.privacy.checks import Reals
from dpgraph.structure.basis import block_slices, residual_matrix, residual_transform
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import margin
from dpgraph.waiting import counted

#: The most cells of a joint that is written down.
MOST_CELLS = 1 << 17
#: What entropy counts beside the squared errors: so little that tables are fitted where some joint has them.
WEIGHT = 25.0
#: The most variables of a measured table that is fitted with all its interactions.
LARGEST = 3
#: Steps of L-BFGS, at least and at most, as many as take this many cells in all; and those of a joint that is only to
#: say which graph would be chosen.
STEPS, ALL_CELLS, QUICK_STEPS = (120, 2000), 1 << 24, 30
#: Blocks of more than two variables that all keep less than this part of what they have beyond pairs have nothing.
NONE = 1e-3
#: The least probability of a cell that a fit starts from.
LEAST_CELL = 1e-300
#: The least conditional information that a parent must carry, in nats, and in multiples of what noise alone carries.
LEAST, BEYOND_NOISE = 2e-4, 1.0


def is_small(domain: Domain) -> bool:
    """True if the joint of all variables is written down."""
    return math.prod(domain.sizes.values()) <= MOST_CELLS


def fitted_joint(pairs: Pairs, steps: int | None = None, start: Reals | None = None) -> Reals:
    """The joint probabilities, axes in the domain's order, with log-linear terms that are fitted to the residuals.

    The terms are of variables, of measured pairs, and of further measured tables of ``LARGEST`` variables. Errors of
    residual blocks are uncorrelated, each with one variance (proofs.md P30). Against fitting noise, pairs are shrunk
    towards none first, and larger blocks towards the joint of the pairs. ``steps`` bounds L-BFGS; None by the number of
    cells. ``start`` is a joint that is thought to be near.
    """
    alone = reduce(np.multiply.outer, [pairs.singles[name] for name in pairs.domain.names], np.ones(()))
    small = _Terms(pairs, 2)
    if not small.blocks:  # every variable has one level
        return alone
    steps = steps or min(max(ALL_CELLS // alone.size, STEPS[0]), STEPS[1])
    wanted = []  # the residual block of each variable, and of each shrunk pair
    for block in small.blocks:
        one, *other = (residual_matrix(pairs.domain.sizes[name])[0][1:] for name in block)
        target = pairs.table(*block) @ other[0].T if other else pairs.singles[block[0]]
        wanted.append((one @ target).ravel())
    joint = _fit(small, wanted, pairs, alone if start is None else start, steps)
    whole = _Terms(pairs, LARGEST)
    further = _beyond_pairs(pairs, whole, joint)
    return _fit(whole, [*wanted, *further], pairs, joint, steps) if further else joint


def _beyond_pairs(pairs: Pairs, terms: _Terms, joint: Reals) -> list[Reals]:
    """The targets of blocks of more than two variables: the joint's, and the part beyond it that is not noise.

    Empirical Bayes: a block's distance from the joint is normal around zero with a variance of its own, the likeliest,
    possibly none (``pairs.dependent``). Nothing where all of it is noise.
    """
    parts = np.split(terms.means(joint), np.cumsum(terms.lengths)[:-1])
    has = {block: part for block, part in zip(terms.blocks, parts, strict=True) if len(block) > 2}
    beyond = [pairs.residuals[block][0].ravel() / pairs.n - part for block, part in has.items()]
    noise = [pairs.block_noise(block) / pairs.n**2 for block in has]
    found = [beyond_noise(away, some) for away, some in zip(beyond, noise, strict=True)]
    likely = dependent([nats for _, nats in found])
    kept = [some * share for share, (some, _) in zip(likely, found, strict=True)]
    if max((float(some.max()) for some in kept), default=0.0) < NONE:
        return []
    return [part + some * away for part, some, away in zip(has.values(), kept, beyond, strict=True)]


def _fit(terms: _Terms, parts: list[Reals], pairs: Pairs, start: Reals, steps: int) -> Reals:
    """The joint whose features are near the targets of blocks, and equal to those of single variables.

    Some joint always has the latter: were they held back too, pairs of even margins would be fitted to uneven ones.
    """
    wanted = np.concatenate(parts)
    spread = [pairs.residuals[block][1] / pairs.n**2 if len(block) > 1 else 0.0 for block in terms.blocks]
    ridge = np.repeat(WEIGHT * np.array(spread), terms.lengths)

    def loss(weights: Reals) -> tuple[float, Reals]:
        logs = terms.logs(weights)
        top = float(logs.max())
        made = np.exp(logs - top)
        whole = float(made.sum())
        value = top + math.log(whole) - float(weights @ wanted) + 0.5 * float(ridge @ weights**2)
        return value, terms.means(made / whole) - wanted + ridge * weights

    first = terms.weights(np.log(np.maximum(start, LEAST_CELL)))
    options = {"maxiter": steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-6}
    with threadpool_limits(1, "blas"):  # products so small that other threads only spin
        logs = terms.logs(minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x)
    made = np.exp(logs - logs.max())
    return made / made.sum()


class _Terms:
    """The features of measured blocks of up to so many variables, which are products of orthonormal contrasts.

    They lie one block after the other, smaller blocks first.
    """

    def __init__(self, pairs: Pairs, largest: int) -> None:
        sizes = pairs.domain.sizes
        self.shape = tuple(sizes.values())
        found = (block for block in pairs.residuals if 1 <= len(block) <= largest)
        self.blocks = sorted(found, key=lambda block: len(block) > 2)
        # where each block lies, its shape, and the number of cells of the variables outside it
        self._places = [
            (
                block_slices(pairs.domain.names, block),
                tuple(size - 1 for name, size in sizes.items() if name in block),
                math.prod(size for name, size in sizes.items() if name not in block),
            )
            for block in self.blocks
        ]
        self.lengths = [math.prod(shape) for _, shape, _ in self._places]

    def logs(self, weights: Reals) -> Reals:
        """The weighted sum of the features in every cell: the inverse transform divides by the cells outside."""
        spread = np.zeros(self.shape)
        parts = np.split(weights, np.cumsum(self.lengths)[:-1])
        for (at, shape, outside), part in zip(self._places, parts, strict=True):
            spread[at] = part.reshape(shape) * outside
        return residual_transform(spread, forward=False)

    def means(self, cells: Reals) -> Reals:
        """The sums of the features, weighted by cells."""
        seen = residual_transform(cells, forward=True)
        return np.concatenate([np.ravel(seen[at]) for at, _, _ in self._places])

    def weights(self, logs: Reals) -> Reals:
        """The weights of a log-linear function of cells: the inverse of ``logs``."""
        seen = residual_transform(logs, forward=True)
        return np.concatenate([np.ravel(seen[at]) / outside for at, _, outside in self._places])


class Joint:
    """Margins and conditional information of a joint that is written down."""

    def __init__(self, names: Family, cells: Reals) -> None:
        self.names, self.cells = names, cells
        self._known: dict[frozenset[str], float] = {}

    def margin(self, wanted: Family) -> Reals:
        """The probabilities of some variables, axes in the order asked for."""
        return margin(self.cells, self.names, wanted)

    def entropy(self, names: frozenset[str]) -> float:
        """The entropy of some variables, in nats."""
        if names not in self._known:
            self._known[names] = float(entr(self.margin(tuple(names))).sum())
        return self._known[names]

    def gain(self, name: str, parents: Family, *more: str) -> float:
        """I(name; more | parents)."""
        given, further = frozenset(parents), frozenset(parents) | frozenset(more)
        return (
            self.entropy(given | {name}) + self.entropy(further) - self.entropy(further | {name}) - self.entropy(given)
        )


def read_network(joint: Joint, pairs: Pairs, constraints: Limits) -> tuple[Network, FrozenMap[str, Reals]]:
    """A network and a joint's margins for its families: the most dependent variables first, parents greedily.

    A parent is added while the information it carries, given those there are, is more than noise in its pair would
    carry on average: half its variance over n^2, summed over the pair's coordinates in units of independence. Two at
    once are held to twice the least information, and to the noise of all three variables' interactions.
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


def _chosen(joint: Joint, pairs: Pairs, constraints: Limits, name: str, placed: list[str]) -> Family:
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
