"""A network read off a joint whose cells are all written down, and how probable the release is under a graph.

Parents are chosen by conditional information. The evidence is an estimate: with y the residuals of the release (least
squares, errors of variance s^2), f their features, theta the graph's probabilities and n the number of rows, counts and
noise are taken as normal, their mean as linear around the tables theta' that the joint gives, and the uniform prior of
each conditional distribution as normal with its mean mu and its covariance S:

    y ~ N( n E f + J (mu - theta'),  n Cov f + diag(s^2) + J S J^T ),   J = n d(E f) / d(theta),

with E and Cov under theta' (proofs.md P120).
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.entropy import LARGEST
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.inference.graphs.reading import conditional
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.structure.basis import residual_matrix
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.waiting import counted

#: The most cells of a joint that is written down.
MOST_CELLS = 1 << 17
#: The least conditional information that a parent must carry, in nats, and in multiples of what noise alone carries.
LEAST, BEYOND_NOISE = 2e-4, 1.0
#: The most numbers that the features of all cells may be, and the least conditional probability that evidence takes.
MOST_NUMBERS, LEAST_PROBABILITY = 1 << 24, 1e-9


def is_small(domain: Domain) -> bool:
    """True if the joint of all variables is written down."""
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


def can_weigh(pairs: Pairs) -> bool:
    """True if the features of all cells can be written down."""
    return bool(_blocks(pairs))


def log_evidence(pairs: Pairs, joint: Joint, network: Network) -> float:
    """The logarithm of the estimated probability density of a release given a graph; the joint was fitted to it."""
    features = _features(pairs)
    wanted = np.concatenate([pairs.residuals[block][0].ravel() for block in _blocks(pairs)])
    noise = np.concatenate([np.full(pairs.residuals[b][0].size, pairs.residuals[b][1]) for b in _blocks(pairs)])
    codes = _codes(pairs)
    tables = {
        name: np.maximum(conditional(joint.margin(network.family(name))), LEAST_PROBABILITY)
        for name in network.domain.names
    }
    cells = reduce(np.multiply, (tables[name][tuple(codes[one] for one in network.family(name))] for name in tables))
    cells = cells / cells.sum()
    weighted = features * cells[:, None]
    mean = weighted.sum(axis=0)
    covariance = pairs.n * (features.T @ weighted - np.outer(mean, mean)) + np.diag(noise)
    centre = pairs.n * mean
    for name, table in tables.items():
        slopes, away = _slopes(weighted, codes, network, name, table, pairs.n)
        size = table.shape[0]
        prior = (np.eye(size - 1) - 1 / size) / (size * (size + 1))
        centre = centre + np.einsum("mkc,kc->m", slopes, away)
        covariance = covariance + np.einsum("mkc,kl,ulc->mu", slopes, prior, slopes, optimize=True)
    root = np.linalg.cholesky(covariance)
    apart = np.linalg.solve(root, wanted - centre)
    return float(-0.5 * apart @ apart - np.log(np.diag(root)).sum() - 0.5 * wanted.size * np.log(2 * np.pi))


def _blocks(pairs: Pairs) -> list[Family]:
    """The blocks whose features can be written down: of up to three variables, or of pairs alone, or none."""
    cells = math.prod(pairs.domain.sizes.values())
    for largest in (LARGEST, 2):
        found = [block for block in pairs.residuals if 1 <= len(block) <= largest]
        if cells * sum(pairs.residuals[block][0].size for block in found) <= MOST_NUMBERS:
            return found
    return []


def _codes(pairs: Pairs) -> dict[str, Integers]:
    """The level of each variable in every cell of the joint, in C order."""
    shape = tuple(pairs.domain.sizes.values())
    return dict(zip(pairs.domain.names, np.indices(shape).reshape(len(shape), -1), strict=True))


def _features(pairs: Pairs) -> Reals:
    """The features of every cell, shape (cells, features): products of orthonormal contrasts."""
    codes = _codes(pairs)
    rows = {name: residual_matrix(size)[0][1:].T[codes[name]] for name, size in pairs.domain.sizes.items()}
    columns = []
    for block in _blocks(pairs):
        made = np.ones((len(next(iter(codes.values()))), 1))
        for name in block:
            made = (made[:, :, None] * rows[name][:, None, :]).reshape(len(made), -1)
        columns.append(made)
    return np.concatenate(columns, axis=1)


def _slopes(
    weighted: Reals, codes: dict[str, Integers], network: Network, name: str, table: Reals, n: float
) -> tuple[Reals, Reals]:
    """How the means of all features change with a variable's probabilities, and the prior mean less these.

    The last level's probability is 1 less the others'. Shapes (features, levels - 1, configurations), the second
    without features.
    """
    family, size = network.family(name), table.shape[0]
    flat = table.reshape(size, -1)
    at = np.ravel_multi_index([codes[one] for one in family], table.shape)
    sums = np.zeros((flat.size, weighted.shape[1]))
    np.add.at(sums, at, weighted)
    per_unit = sums.reshape(size, -1, weighted.shape[1]) / flat[:, :, None]
    slopes = n * (per_unit[:-1] - per_unit[-1]).transpose(2, 0, 1)
    return slopes, 1 / size - flat[:-1]
