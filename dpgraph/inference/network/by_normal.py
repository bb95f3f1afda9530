"""The method ``"normal"``: joint draws of all tables under normal noise, family by family where that is too rough.

Least squares estimates every residual R_A with an independent error of variance sigma_A^2 (proofs.md P30); latent
tables are drawn residual by residual, so they agree with each other and with a public n, and the conditional tables are
Dirichlet given the counts. That is right for families that are ``settled``: every cell is well above its noise, whose
variance is small beside the cell (docs/posteriors.md). Every other family is drawn by itself given all measurements
inside it by a chain: of tables ``margin_chain``, of coefficients ``table_chain``.

With ``shrink`` an interaction, the residuals of two or more variables together, has an unknown size that is learned
from it: R_A ~ N(0, tau^2), with B = sigma_A^2 / (sigma_A^2 + tau^2) uniform on (0, 1) (Strawderman 1971), so R_A given
B is N((1 - B) R, (1 - B) sigma_A^2). A cell below zero is drawn again from its normal law above zero. Variables are
then nearly independent unless the release says otherwise, which is better where ratios matter and noise is large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincinv, log_ndtr, ndtri_exp

from dpgraph.inference.counts.table_chain import Statistics, draw_table, margin_chain
from dpgraph.inference.network.by_tables import FamilyMargins, sweeps_each
from dpgraph.inference.network.consistency import residual_estimates
from dpgraph.inference.network.draws import HeldDraws, PosteriorDraws, check_draws
from dpgraph.inference.network.evidence import Evidence, block_weights, evidence
from dpgraph.structure.joint import PooledCounts, Several
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import (
    Integers,
    NoisyCoefficients,
    NoisyCounts,
    Reals,
    cell_variance,
    contrast_norms,
    ordered,
    subsets,
    table_of,
)
from dpgraph.waiting import counted

#: Cells of all families times draws that are held at once.
HELD = 1 << 23
#: A family is settled where every cell is so many deviations of its noise, and the variance of that noise at most such
#: a part of the cell.
CLEAR, PART = 4.0, 0.2


def draw_by_normal(
    noisy: NoisyCounts | NoisyCoefficients | Several,
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    shrink: bool = False,
) -> PosteriorDraws:
    """Independent joint draws of every conditional table; with ``shrink`` the sizes of interactions are learned.

    ``concentration`` is the Dirichlet prior of each variable, axes (variable, *parents).
    """
    network, estimates = noisy.network, residual_estimates(noisy)
    assert network is not None
    step, at_once = _steps(network, draws)
    held, alone = HeldDraws(network, draws, at_once), dict[str, Integers]()
    if not isinstance(noisy, PooledCounts):
        given = evidence(noisy)
        margins = None if any(table.weights is not None for table in given.tables) else FamilyMargins(given)
        for name, centre in _unsettled(network, estimates, shrink=shrink).items():
            family, prior = network.family(name), concentration[name].reshape(-1)
            if margins is None:
                counts = draw_table(_statistics(given, family), prior, given.n, centre, rng, draws)
            else:
                measured, _ = margins.inside(family)  # no rules, so all cells
                thin = sweeps_each(network.cell_count, len(network.families), prior.size, draws)
                counts, _ = margin_chain(measured, prior, given.n, centre, thin=thin)(rng, draws)
            alone[name] = counts.reshape(draws, *centre.shape)
    for start in counted(range(0, draws, step)):
        size = min(step, draws - start)
        latent = {
            block: _residuals(mean, variance, rng, size, shrink=shrink and len(block) > 1)
            for block, (mean, variance) in estimates.items()
        }
        for name in counted(network.domain.names):
            if name in alone:
                counts = alone[name][start : start + size]
            else:
                counts = _counts(network, network.family(name), latent, rng, redraw=shrink)
            held.draw(name, start, concentration[name] + counts, rng)
    return held.finished("normal")


def check_normal_draws(network: Network, draws: int) -> None:
    """Refuses draws that there is no room for; whoever spends before drawing asks this first."""
    check_draws(network, draws, _steps(network, draws)[1])


def _steps(network: Network, draws: int) -> tuple[int, int]:
    """The draws made at once, and the numbers held meanwhile: residuals of these, or the counts of one family."""
    step = max(1, HELD // max(1, network.cell_count))
    largest = max(map(network.cells, network.families))
    return step, max(min(step, draws) * network.cell_count // 3, draws * largest)


def settled(centre: Reals, variance: float) -> bool:
    """The rule for normal draws of a family's counts: estimates of its cells, and the noise variance of one."""
    least = float(centre.min())
    return least >= CLEAR * np.sqrt(variance) and variance <= PART * least


def _unsettled(network: Network, estimates: Mapping[Family, tuple[Reals, float]], *, shrink: bool) -> dict[str, Reals]:
    """The variables whose families may not be drawn as normal, each with the estimates of its cells."""
    found: dict[str, Reals] = {}
    for name in network.domain.names:
        family = network.family(name)
        blocks = subsets(ordered(network, family))
        if shrink and any(len(block) > 1 for block in blocks):
            continue
        scaled = {block: contrast_norms(network.shape(block)) * estimates[block][0] for block in blocks}
        centre = table_of(network, scaled, family)
        if not settled(centre, cell_variance(network, {block: estimates[block][1] for block in blocks}, family)):
            found[name] = centre
    return found


def too_rough(noisy: PooledCounts, *, shrink: bool = False) -> tuple[str, ...]:
    """The variables of pooled releases whose families are drawn as normal though they are not settled.

    The sums of their rows' tables are judged by ``settled`` as one release's table is; a family that is not has no
    other draws, as counts of several latent data sets have none by tables (proofs.md P80).
    """
    assert noisy.network is not None
    return tuple(_unsettled(noisy.network, residual_estimates(noisy), shrink=shrink))


def _statistics(given: Evidence, family: Family) -> Statistics:
    """The coefficients of all blocks inside a family, as statistics of its flat table."""
    shape = given.network.shape(family)
    place = dict(zip(family, np.indices(shape).reshape(len(shape), -1), strict=True))
    inside = [
        table for table in given.tables
        if table.weights is not None and set(table.variables) <= set(family) and (table.variables or given.n is None)
    ]  # fmt: skip
    none = Statistics.none(int(np.prod(shape)))
    values, weights, directions, costs = [none.values], [none.weights], [none.directions], [none.costs]
    for table in inside:
        cells = np.ravel_multi_index([place[name] for name in table.variables], table.shape) if table.variables else 0
        cell = np.broadcast_to(cells, len(none.weights))
        assert table.weights is not None
        values.append(table.values)
        weights.append(table.weights[cell])
        directions.append(block_weights(table.shape, 1)[cell].T)
        costs.append(np.tile(table.noise.penalties, (table.values.size, 1)))
    return Statistics(
        np.concatenate(values), np.concatenate(weights, axis=1), np.concatenate(directions), np.concatenate(costs)
    )


@dataclass(frozen=True, eq=False)
class _Latent:
    """Draws of one block: its residuals and their means, leading axis the draw, and the variance of each draw's law."""

    values: Reals
    mean: Reals
    variance: Reals


def _residuals(mean: Reals, variance: float, rng: np.random.Generator, size: int, *, shrink: bool) -> _Latent:
    kept = 1 - _shrinkage(mean, variance, rng, size) if shrink and variance > 0 else np.ones(size)
    shaped = kept.reshape(-1, *[1] * mean.ndim)
    centre = shaped * mean
    values = centre + np.sqrt(shaped * variance) * rng.standard_normal((size, *mean.shape))
    return _Latent(values, centre, kept * variance)


def _shrinkage(mean: Reals, variance: float, rng: np.random.Generator, size: int) -> Reals:
    """Draws of B: density proportional to B^(d / 2) exp(-B ||R||^2 / (2 sigma^2)) on (0, 1), by inversion."""
    power, rate = mean.size / 2 + 1, float((mean**2).sum()) / (2 * variance)
    uniform = rng.random(size)
    below = float(gammainc(power, rate))
    if below < 1e-290:  # all mass is next to 1, where exp(-rate B) is B^(-rate) but for a constant
        return uniform ** (1 / (power - rate))
    return np.minimum(gammaincinv(power, uniform * below) / rate, 1.0)


def _counts(
    network: Network, family: Family, latent: Mapping[Family, _Latent], rng: np.random.Generator, *, redraw: bool
) -> Reals:
    blocks = subsets(ordered(network, family))
    size = len(latent[()].values)

    def rebuilt(residuals: Mapping[Family, Reals]) -> Reals:
        scaled = {block: contrast_norms(network.shape(block)) * values for block, values in residuals.items()}
        return table_of(network, scaled, family, batch=size)

    counts = rebuilt({block: latent[block].values for block in blocks})
    if not redraw or not (counts < 0).any():
        return np.maximum(counts, 0.0)
    centre = rebuilt({block: latent[block].mean for block in blocks})
    spread = np.sqrt(cell_variance(network, {block: latent[block].variance for block in blocks}, family))
    spread = np.maximum(spread, 1e-12).reshape(-1, *[1] * (centre.ndim - 1))
    tail = np.log(rng.random(centre.shape)) + log_ndtr(centre / spread)
    positive = np.where(counts < 0, np.maximum(centre - spread * ndtri_exp(tail), 0.0), counts)
    axes = tuple(range(1, centre.ndim))
    total = positive.sum(axis=axes, keepdims=True)
    rows = np.maximum(latent[()].values, 0.0).reshape(-1, *[1] * (centre.ndim - 1))
    return positive * np.divide(rows, total, out=np.zeros_like(total), where=total > 0)
