"""The choice of tables to measure and the shares of epsilon among them, from public structure alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod, sqrt
from typing import Literal, NamedTuple

import numpy as np

from dpgraph.privacy.checks import Reals
from dpgraph.structure.basis import coefficient_blocks, error_weights, ordered, subsets
from dpgraph.structure.margins import Margins
from dpgraph.structure.merging import measured_families, weights
from dpgraph.structure.network import Family, Network

Tables = Literal["merged", "maximal", "families"]
Allocation = Literal["optimal", "uniform"]

#: The most updates of optimal budgets; ten are enough on every bundled network.
ROUNDS = 30

#: Shares are whole multiples of one part in this many, so that they are exact and short to write.
RESOLUTION = 1_000_000


def measured_tables(network: Network, tables: Tables) -> tuple[Family, ...]:
    """The variable sets a mechanism measures.

    ``"families"``: one for each variable (Zhang et al. 2016). ``"maximal"``: the families not inside another.
    ``"merged"``: the maximal ones, small ones joined where that lowers the total error.
    """
    match tables:
        case "families":
            return network.families
        case "maximal":
            return network.maximal_families
        case "merged":
            return measured_families(network)


def shares(
    network: Network,
    tables: Sequence[Family],
    allocation: Allocation,
    *,
    power: float = 1 / 3,
    spreads: Sequence[float] = (),
    n_is_public: bool = False,
) -> tuple[Fraction, ...]:
    """The part of the budget each table gets; they sum to one exactly.

    ``"optimal"`` minimises the error after least squares, where tables help each other (proofs.md P30); margins may
    say their own shares. ``"uniform"`` gives each table the same.
    """
    if allocation == "uniform":
        return (Fraction(1, len(tables)),) * len(tables)
    if isinstance(network, Margins) and network.shares and tuple(tables) == network.tables:
        return tuple(Fraction(share, sum(network.shares)) for share in network.shares)
    ideal = closed_form_shares(network, tables, power)
    if len(tables) > 1:
        ideal = _least_squares_shares(network, tables, np.asarray(spreads, float), ideal, 1 / power - 1, n_is_public)
    parts = [max(1, round(float(part) * RESOLUTION)) for part in ideal]
    return tuple(Fraction(part, sum(parts)) for part in parts)


def closed_form_shares(network: Network, tables: Sequence[Family], power: float) -> Reals:
    """The shares with the least error of all family tables, each read from one measured table (proofs.md P28).

    With Laplace noise epsilon_m is proportional to W_m^(1/3), with Gaussian noise rho_m to W_m^(1/2). Least squares
    start from them.
    """
    roots = np.array([weight**power for weight in weights(network, tables)])
    return roots / roots.sum()


def _least_squares_shares(
    network: Network, tables: Sequence[Family], spreads: Reals, start: Reals, order: float, n_is_public: bool
) -> Reals:
    """Minimises sum_A V_A / p_A by the update s_m <- s_m g_m^(1 / (order + 1)), normalised, g_m minus its slope in s_m.

    p_A = sum over tables m that contain A of s_m^order / (spread_m prod_{v in m - A} K_v) is the precision of a
    residual of A after least squares (proofs.md P30); order is 2 for Laplace noise and 1 for Gaussian. At the minimum
    all slopes are equal. Where tables share nothing one step is exact: there the sum is that of W_m / s_m^order.
    """
    blocks = [block for block in coefficient_blocks(network) if block or not n_is_public]
    cost = np.array(list(error_weights(network, blocks).values()))
    index = {frozenset(block): i for i, block in enumerate(blocks)}
    entries = [
        (index[frozenset(block)], m, 1 / (spreads[m] * prod(network.shape(tuple(set(table) - set(block))))))
        for m, table in enumerate(tables)
        for block in subsets(ordered(network, table))
        if frozenset(block) in index
    ]
    if not entries:  # nothing is unknown: variables of one level and a public n
        return start
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    part = start
    for _ in range(ROUNDS):
        precision = np.bincount(rows, values * (part**order)[columns], len(blocks))
        slope = np.bincount(columns, values * (cost / precision**2)[rows], len(tables)) * part ** (order - 1)
        moved = part * slope ** (1 / (order + 1))
        moved = np.maximum(moved / max(moved.sum(), 1e-300), 1 / RESOLUTION)
        moved = moved / moved.sum()
        close = np.abs(moved / part - 1).max() < 1e-7
        part = moved
        if close:
            break
    return part


class ResidualDesign(NamedTuple):
    """Noise variances of the residual basis: one for each subset of a family, and the total squared error."""

    variances: dict[Family, float]
    total: float


def residual_design(network: Network, rho: Fraction | float) -> ResidualDesign:
    """The optimal Gaussian noise in the residual basis under add/remove, one row per person (ResidualPlanner).

    Xiao, He, Zhang and Kifer 2023; proofs.md P29. R_A is the part of the tables that depends on all variables of A.
    A row moves it by p_A = prod_{v in A} (1 - 1 / K_v) in squared L2 norm, every row alike, and its variance counts
    V_A = sum over families f containing A of prod_{v in A} (K_v - 1) prod_{v in f - A} 1 / K_v times in the total
    squared error of all family cells. So sigma_A^2 = sqrt(p_A / V_A) sum_B sqrt(p_B V_B) / (2 rho), and the total is
    (sum_A sqrt(p_A V_A))^2 / (2 rho): the least any Gaussian design attains. Continuous noise, as yardstick for
    ``GaussianMechanism``, whose independent integers in the cells are 3 to 12 % above it in root mean square.

    Margins that say shares have the cells of each table count by these. A set of variables of one level each carries
    nothing but the total, and its own residual is empty.
    """
    sizes = network.domain.sizes
    counted = network.shares if isinstance(network, Margins) else ()
    weight = error_weights(network, network.downward_closure(), counted)
    moved = {block: prod(1 - 1 / sizes[name] for name in block) for block in weight}
    live = [block for block in weight if moved[block] > 0]
    whole = sum(sqrt(moved[block] * weight[block]) for block in live)
    variances = {block: sqrt(moved[block] / weight[block]) * whole / (2 * float(rho)) for block in live}
    return ResidualDesign(variances, whole**2 / (2 * float(rho)))
