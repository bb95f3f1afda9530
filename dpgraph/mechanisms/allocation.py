"""Which tables to measure and how to share epsilon among them, from public structure alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from typing import Literal, NamedTuple

from dpgraph.structure.merging import weights
from dpgraph.structure.network import Family, Network

Tables = Literal["merged", "maximal", "families"]
Allocation = Literal["optimal", "uniform"]

#: Shares are whole multiples of one part in this many, so that they are exact and short to write.
RESOLUTION = 1_000_000


def measured_tables(network: Network, tables: Tables) -> tuple[Family, ...]:
    """The variable sets a mechanism measures.

    ``"families"``: one for each variable (Zhang et al. 2016). ``"maximal"``: those not inside another.
    ``"merged"``: the maximal ones, small ones joined where that lowers the total error.
    """
    match tables:
        case "families":
            return network.families
        case "maximal":
            return network.maximal_families
        case "merged":
            return network.measured_families


def shares(
    network: Network, tables: Sequence[Family], allocation: Allocation, power: float = 1 / 3
) -> tuple[Fraction, ...]:
    """The part of the budget each table gets; they sum to one exactly.

    ``"optimal"`` minimises the total squared error of all family tables: with Laplace noise epsilon_m proportional to
    W_m^(1/3), with Gaussian noise rho_m proportional to W_m^(1/2), its ``power`` (MATHS 3.4). ``"uniform"`` gives each
    table the same.
    """
    if allocation == "uniform":
        return (Fraction(1, len(tables)),) * len(tables)
    roots = [weight**power for weight in weights(network, tables)]
    whole = sum(roots)
    parts = [max(1, round(root / whole * RESOLUTION)) for root in roots]
    return tuple(Fraction(part, sum(parts)) for part in parts)


class ResidualDesign(NamedTuple):
    """Noise variances of the residual basis: one for each subset of a family, and the total squared error."""

    variances: dict[Family, float]
    total: float


def residual_design(network: Network, rho: Fraction | float) -> ResidualDesign:
    """The optimal Gaussian noise in the residual basis under add/remove, one row per person (ResidualPlanner).

    Xiao, He, Zhang and Kifer 2023; MATHS 3.3, 3.4. R_A is the part of the tables that depends on all variables of A.
    A row moves it by p_A = prod_{v in A} (1 - 1 / K_v) in squared L2 norm, every row alike, and its variance counts
    V_A = sum over families f containing A of prod_{v in A} (K_v - 1) prod_{v in f - A} 1 / K_v times in the total
    squared error of all family cells. So sigma_A^2 = sqrt(p_A / V_A) sum_B sqrt(p_B V_B) / (2 rho), and the total is
    (sum_A sqrt(p_A V_A))^2 / (2 rho): the least any Gaussian design attains. Continuous noise, as yardstick for
    ``GaussianMechanism``, whose independent integers in the cells are 3 to 12 % above it in root mean square.

    A set of variables of one level each carries nothing but the total, and its own residual is empty.

    >>> from dpgraph.structure.network import Network
    >>> coins = Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
    >>> design = residual_design(coins, rho=0.5)
    >>> len(design.variances)
    4
    """
    sizes = network.domain.sizes
    weight: dict[Family, float] = {}
    order = {frozenset(block): block for block in network.downward_closure()}
    for family in network.families:
        for size in range(len(family) + 1):
            for members in combinations(family, size):
                inside = prod(sizes[name] - 1 for name in members)
                outside = prod(sizes[name] for name in family if name not in members)
                block = order[frozenset(members)]
                weight[block] = weight.get(block, 0.0) + inside / outside
    moved = {block: prod(1 - 1 / sizes[name] for name in block) for block in weight}
    live = [block for block in weight if moved[block] > 0]
    whole = sum(sqrt(moved[block] * weight[block]) for block in live)
    variances = {block: sqrt(moved[block] / weight[block]) * whole / (2 * float(rho)) for block in live}
    return ResidualDesign(variances, whole**2 / (2 * float(rho)))


def gaussian_total(network: Network, tables: Sequence[Family], rho: Fraction | float) -> float:
    """The total squared error of all family cells, tables read singly: (sum_m sqrt(W_m))^2 / (2 rho) (MATHS 3.4).

    Under add/remove with one row per person; twice that under replace.
    """
    return sum(sqrt(weight) for weight in weights(network, tables)) ** 2 / (2 * float(rho))
