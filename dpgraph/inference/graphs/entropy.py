"""The joint of most entropy near a release, where all cells of the domain can be written down.

With residuals y of variance s^2, of shrunk pairs, and the features f that they are means of, the joint p that maximises
a H(p) - sum (E_p f - y)^2 / (2 s^2), and meets those of single variables exactly, is log-linear in f. Its weights t,
the sum over those of pairs and more variables, minimise the convex

    ln sum_x exp(t f(x)) - t y + a sum s^2 t^2 / 2

(Dudik, Phillips and Schapire 2007). Noisy tables that no joint has are approached as far as their noise says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.optimize import minimize

from dpgraph.inference.graphs.pair_estimates import Pairs, beyond_noise, dependent
from dpgraph.privacy.checks import Reals
from dpgraph.structure.basis import block_slices, residual_matrix, residual_transform
from dpgraph.structure.network import Family

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


def fitted_joint(pairs: Pairs, steps: int | None = None) -> Reals:
    """The joint probabilities, axes in the domain's order, with log-linear terms that are fitted to the residuals.

    The terms are of variables, of measured pairs, and of further measured tables of ``LARGEST`` variables. Errors of
    residual blocks are uncorrelated, each with one variance (proofs.md P30). Against fitting noise, pairs are shrunk
    towards none first, and larger blocks towards the joint of the pairs. ``steps`` bounds L-BFGS; None by the number of
    cells.
    """
    alone = reduce(np.multiply.outer, [pairs.singles[name] for name in pairs.domain.names], np.ones(()))
    small = _Terms.of(pairs, 2)
    if not small.blocks:  # every variable has one level
        return alone
    steps = steps or min(max(ALL_CELLS // alone.size, STEPS[0]), STEPS[1])
    wanted = [_wanted(pairs, block).ravel() for block in small.blocks]
    joint = _fit(small, wanted, pairs, alone, steps)
    whole = _Terms.of(pairs, LARGEST)
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
    logs = terms.logs(minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x)
    made = np.exp(logs - logs.max())
    return made / made.sum()


@dataclass(frozen=True, eq=False)
class _Terms:
    """The features of residual blocks, which are products of orthonormal contrasts, one block after the other."""

    names: Family
    shape: tuple[int, ...]
    blocks: tuple[Family, ...]

    @classmethod
    def of(cls, pairs: Pairs, largest: int) -> _Terms:
        """The terms of measured blocks of up to so many variables, smaller blocks first."""
        found = (block for block in pairs.residuals if 1 <= len(block) <= largest)
        blocks = tuple(sorted(found, key=lambda block: len(block) > 2))
        return cls(pairs.domain.names, tuple(pairs.domain.sizes.values()), blocks)

    @cached_property
    def _places(self) -> list[tuple[tuple[int | slice, ...], tuple[int, ...], int]]:
        """Where each block lies, its shape, and the number of cells of the variables outside it."""
        sizes = dict(zip(self.names, self.shape, strict=True))
        return [
            (
                block_slices(self.names, block),
                tuple(sizes[name] - 1 for name in self.names if name in block),
                math.prod(size for name, size in sizes.items() if name not in block),
            )
            for block in self.blocks
        ]

    @cached_property
    def lengths(self) -> list[int]:
        """How many features each block has."""
        return [math.prod(shape) for _, shape, _ in self._places]

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


def _wanted(pairs: Pairs, block: Family) -> Reals:
    """The target of a variable's residual block, or of a shrunk pair's."""
    contrasts = [residual_matrix(pairs.domain.sizes[name])[0][1:] for name in block]
    if len(block) == 1:
        return contrasts[0] @ pairs.singles[block[0]]
    return contrasts[0] @ pairs.table(*block) @ contrasts[1].T
