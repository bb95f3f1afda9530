"""Which tables to measure and how to share epsilon among them, from public structure alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

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
