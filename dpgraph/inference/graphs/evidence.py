"""How probable the released tables are under a graph: an estimate, for domains whose cells can all be written down.

With y the residuals of what was measured (least squares, errors of variance s^2), f their features, theta the graph's
probabilities and n the number of rows, counts and noise are taken as normal, their mean as linear around the tables
theta' that the public joint gives, and the uniform prior of each conditional distribution as normal with its mean mu
and its covariance S:

    y ~ N( n E f + J (mu - theta'),  n Cov f + diag(s^2) + J S J^T ),   J = n d(E f) / d(theta),

with E and Cov under theta'. Its logarithm is what is returned (proofs.md P120). No count is read: free.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from dpgraph.inference.graphs.entropy import LARGEST
from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.joint import Joint
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.privacy.arrays import Integers, Reals
from dpgraph.structure.basis import residual_matrix
from dpgraph.structure.network import Network

#: The most numbers that the features of all cells may be.
MOST_NUMBERS = 1 << 24
#: No conditional probability is taken as less.
FLOOR = 1e-9


def can_weigh(pairs: Pairs) -> bool:
    """Whether the features of all cells can be written down."""
    cells = int(np.prod(list(pairs.domain.sizes.values()), dtype=float))
    return cells * sum(pairs.residuals[block][0].size for block in _blocks(pairs)) <= MOST_NUMBERS


def log_evidence(pairs: Pairs, joint: Joint, network: Network) -> float:
    """The logarithm of the estimated probability density of what was measured, given a graph.

    Args:
        pairs: What a release says.
        joint: The public joint that was fitted to it, around which the graph's tables are taken.
        network: The graph.
    """
    features = _features(pairs)
    wanted = np.concatenate([pairs.residuals[block][0].ravel() for block in _blocks(pairs)])
    noise = np.concatenate([np.full(pairs.residuals[b][0].size, pairs.residuals[b][1]) for b in _blocks(pairs)])
    codes = _codes(pairs)
    tables = {name: np.maximum(conditional(joint.margin(network.family(name))), FLOOR) for name in network.domain.names}
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


def _blocks(pairs: Pairs) -> list[tuple[str, ...]]:
    return [block for block in pairs.residuals if 1 <= len(block) <= LARGEST]


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

    The last level's probability is one less the others'. Shapes (features, levels - 1, configurations), and without the
    first axis.
    """
    family, size = network.family(name), table.shape[0]
    flat = table.reshape(size, -1)
    at = np.ravel_multi_index([codes[one] for one in family], table.shape)
    sums = np.zeros((flat.size, weighted.shape[1]))
    np.add.at(sums, at, weighted)
    per_unit = sums.reshape(size, -1, weighted.shape[1]) / flat[:, :, None]
    slopes = n * (per_unit[:-1] - per_unit[-1]).transpose(2, 0, 1)
    return slopes, 1 / size - flat[:-1]
