"""Plans of additive noise: the tables to measure, the shares of epsilon among them, and the noise of any description.

A description without a plan of its own has one scale for all blocks. Sensitivity: one person's rows move block m by at
most ``movement.l1``, so all by at most the sum, and every integer gets its own draw of scale sum / epsilon (proofs.md
P73); of Gaussian noise the squares add up. One draw shared by all sums would show their differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import (
    Block,
    Description,
    DiscreteGaussian,
    DiscreteLaplace,
    Measurement,
    Name,
    NoiseLaw,
    Statistics,
    SumZeroLaplace,
    is_readable,
    noisy_value,
)
from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_scale
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins, measured_families, weights
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import coefficient_blocks, error_weights, ordered, subsets
from dpgraph.waiting import counted

if TYPE_CHECKING:
    from dpgraph.structure.design import LinearDesign

Tables = Literal["merged", "maximal", "families"]
Allocation = Literal["optimal", "uniform"]
#: The most updates of optimal budgets; ten are enough on every bundled network.
ROUNDS = 30
#: Shares are whole multiples of one part in this many, so that they are exact and short to write.
RESOLUTION = 1_000_000
#: The deviation of the noise on a regression's target mean that is aimed at, in halves of the target's bounds.
WANTED = 0.018
#: The largest weight of the target's sum, and that where n is private. More hardly lowers its noise: 2 / epsilon ends.
LARGEST, WITHOUT_N = 256, 6
#: What a sum times its weight stays below, with room for noise.
MOST_SUM = 1 << 62
#: The largest where noise is Gaussian: movement adds in squares, so the weighted sum's soon is nearly all of it.
LARGEST_GAUSSIAN = 25
Plan = tuple[Measurement, ...]
#: Of a squared L2 sensitivity and a share of a budget, and of a largest scale: the smallest scale that it pays for.
Scale = Callable[..., float]


def measured_tables(network: Network, tables: Tables) -> tuple[Family, ...]:
    """The measured sets: each variable's family (Zhang et al. 2016), the maximal ones, or these merged."""
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
    """Each table's part of the budget, exact: least error after least squares (P30), margins' own, or uniform."""
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
    """The shares with the least error where each family is read from one measured table (proofs.md P28)."""
    roots = np.array([weight**power for weight in weights(network, tables)])
    return roots / roots.sum()


def _least_squares_shares(
    network: Network, tables: Sequence[Family], spreads: Reals, start: Reals, order: float, n_is_public: bool
) -> Reals:
    """Minimises the error after least squares by s_m <- s_m g_m^(1 / (order + 1)), g_m minus its slope (P30)."""
    blocks = [block for block in coefficient_blocks(network) if block or not n_is_public]
    cost = np.array(list(error_weights(network, blocks).values()))
    index = {frozenset(block): i for i, block in enumerate(blocks)}
    entries = [
        (index[frozenset(block)], m, 1 / (spreads[m] * math.prod(network.shape(tuple(set(table) - set(block))))))
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
    """The optimal Gaussian noise in the residual basis under add/remove (ResidualPlanner; proofs.md P29)."""
    sizes = network.domain.sizes
    counted = network.shares if isinstance(network, Margins) else ()
    weight = error_weights(network, network.downward_closure(), counted)
    moved = {block: math.prod(1 - 1 / sizes[name] for name in block) for block in weight}
    live = [block for block in weight if moved[block] > 0]
    whole = sum(math.sqrt(moved[block] * weight[block]) for block in live)
    variances = {block: math.sqrt(moved[block] / weight[block]) * whole / (2 * float(rho)) for block in live}
    return ResidualDesign(variances, whole**2 / (2 * float(rho)))


def laplace_plan(
    description: Description,
    epsilon: Fraction,
    unit: PrivacyUnit,
    shape: Literal["auto", "independent", "sum-zero"] = "auto",
) -> Plan:
    """One measurement a block, with Laplace noise of one scale."""
    blocks = _blocks(description, unit)
    if shape == "sum-zero" and not all(block.movement.fixed_total for block in blocks):
        raise ReleaseError('noise="sum-zero" needs statistics that sum to a public n: a Multinomial under "replace"')
    moved = sum(block.movement.l1 for block in blocks)
    scale = calibrated_scale(max(1, moved), epsilon, MAX_SCALE_IN_STEPS)
    return tuple(
        Measurement(
            block.name,
            block.cells,
            (SumZeroLaplace if block.movement.fixed_total and shape != "independent" else DiscreteLaplace)(scale),
            block.movement,
        )
        for block in blocks
    )


def gaussian_plan(description: Description, scale: Scale, unit: PrivacyUnit) -> Plan:
    """One measurement a block, with Gaussian noise of one scale."""
    blocks = _blocks(description, unit)
    moved = sum(block.movement.l2_squared for block in blocks)
    law = DiscreteGaussian(scale(max(1, moved), Fraction(1), MAX_SCALE_IN_STEPS))
    return tuple(Measurement(block.name, block.cells, law, block.movement) for block in blocks)


def noisy_blocks(statistics: Statistics, plan: Plan, unit: PrivacyUnit, noise: Noise) -> Any:
    """Draws the noisy integers of each block; ``release`` calls this after the charge."""
    true = {m.table: statistics.sensitive_block(m.table, unit) for m in plan}
    values = with_noise(plan, true, noise)
    n = statistics.sensitive_rows if unit.n_is_public else None
    laws = FrozenMap((m.table, m.law) for m in plan)
    return noisy_value(statistics.description, FrozenMap(values), laws, n, unit)


def with_noise(plan: Plan, true: Mapping[Name, Integers], noise: Noise) -> dict[Name, Integers]:
    """The exact integers of each block with noise: one call for each law, one for each block that sums to zero."""
    groups: dict[tuple[NoiseLaw, Name | None], list[Measurement]] = {}
    for m in plan:
        groups.setdefault((m.law, m.table if m.law.sums_to_zero else None), []).append(m)
    done: dict[Name, Integers] = {}
    for (law, _), sharing in counted(list(groups.items())):
        flat = noise.add(np.concatenate([true[m.table].ravel() for m in sharing]), law)
        for m in sharing:
            done[m.table] = flat[: m.cells].reshape(true[m.table].shape)
            flat = flat[m.cells :]
    return {m.table: done[m.table] for m in plan}


def _blocks(description: Description, unit: PrivacyUnit) -> tuple[Block, ...]:
    """The blocks of a description whose noisy integers mean something."""
    if not callable(getattr(description, "blocks", None)) or not is_readable(description):
        raise ReleaseError(
            f"a {type(description).__name__} needs a method noisy, which reads the noisy integers of its release"
        )
    return description.blocks(unit)


def weighted_mean(statistics: Any, epsilon: Number, unit: PrivacyUnit, *, gaussian: bool = False) -> Any:
    """Sums of a regression with the weight of the target's sum chosen; other statistics as they are."""
    design: Any = getattr(statistics, "description", None)
    if not hasattr(design, "mean_weight"):
        return statistics
    n = None if not unit.n_is_public else statistics.sensitive_rows
    planned = weighted_design(design, epsilon, unit, n, gaussian=gaussian)
    return statistics if planned is design else replace(statistics, description=planned)


def weighted_design(
    design: LinearDesign, epsilon: Number, unit: PrivacyUnit, n: int | None, *, gaussian: bool = False
) -> LinearDesign:
    """The design with the weight on the target's sum that a release of n rows chooses; n is None where private."""
    if not design.intercept or design.mean_weight is not None:
        return design
    weight = advised_weight(design, exact(epsilon), unit, n)
    return design.with_mean_weight(min(weight, LARGEST_GAUSSIAN) if gaussian else weight)


def advised_weight(design: LinearDesign, epsilon: Fraction, unit: PrivacyUnit, n: int | None) -> int:
    """The least weight with which the noise on the target's mean is ``WANTED``, or the largest worth having (P11)."""
    if n is None:
        return max(design.copies, WITHOUT_N)
    movement = design.sensitivity(unit) / design.weight / unit.rows_per_person
    room = WANTED * float(epsilon) * n / math.sqrt(2) / unit.rows_per_person - 2
    needed = LARGEST if room <= 0 else math.ceil((movement - 2 * design.copies) / room)
    quiet = MAX_SCALE_IN_STEPS * float(epsilon) / design.weight / unit.rows_per_person - movement
    allowed = design.copies + math.ceil(quiet / 2) - 1
    room_for_sums = MOST_SUM // (design.weight * max(1, n))
    return max(design.copies, min(LARGEST, needed, allowed, room_for_sums))
