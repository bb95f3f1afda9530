"""Likelihood weighting: samples from the network with the evidence held fixed, weighted by its probability.

For questions whose tables would be too large. Every draw of the tables has samples of its own, so the spread over
draws is that of the posterior and of the Monte Carlo error together (Fung and Chang 1990; Shachter and Peot 1990).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.inference.queries.contraction import ancestors
from dpgraph.inference.queries.question import Evidence
from dpgraph.inference.queries.tables import DrawnTables
from dpgraph.privacy.errors import ConvergenceWarning
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

#: Samples of all draws together where no number is asked for; at least and at most as many for each draw.
ALL_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES = 1 << 20, 1000, 200_000
#: Samples that are made at once, and the effective size below which the estimate is not trusted.
BLOCK, LEAST_SIZE = 1 << 19, 100.0


@dataclass(frozen=True, eq=False)
class Sampled:
    """Estimates by likelihood weighting: P(targets | evidence), its Monte Carlo variance, both with axes (draw, entry).

    Of each draw ``log_evidence`` is ln of the estimated P(evidence), and ``effective_sizes`` (sum w)^2 / sum w^2.
    """

    probabilities: Reals
    log_evidence: Reals
    variance: Reals
    effective_sizes: Reals


def sampled(
    tables: DrawnTables,
    targets: Family,
    evidence: Evidence,
    rng: np.random.Generator,
    samples: int | None = None,
    inside: npt.NDArray[np.bool_] | None = None,
) -> Sampled:
    """Estimates P(targets | evidence) in every draw, where the targets' joint table has few cells.

    ``inside`` marks the cells of an event, whose probability alone is then estimated.
    """
    count = samples or min(MOST_SAMPLES, max(LEAST_SAMPLES, ALL_SAMPLES // len(tables)))
    place = np.arange(math.prod(tables.network.shape(targets))) if inside is None else np.where(inside, 0, 1)
    cells = int(place.max()) + 1 if inside is None else 2
    found, variance = np.empty((len(tables), cells)), np.empty((len(tables), cells))
    logs, sizes = np.empty(len(tables)), np.empty(len(tables))
    some = max(1, BLOCK // count)
    for start in range(0, len(tables), some):
        draws = slice(start, start + some)
        codes, weights = _weighted(tables, targets, evidence, draws, count, rng)
        top = weights.max(axis=1)
        impossible = int(np.isneginf(top).sum())
        if impossible:
            raise InferenceError(
                f"none of {count} samples agrees with the evidence in {impossible} draws: its probability is 0 or too "
                "small to sample; ask for more samples, give less evidence, or use method='auto'"
            )
        relative = np.exp(weights - top[:, None])
        total = relative.sum(axis=1)
        logs[draws] = top + np.log(total / count)
        sizes[draws] = total**2 / (relative**2).sum(axis=1)
        share = relative / total[:, None]
        flat = place[codes] + cells * np.arange(len(codes))[:, None]
        mine, squares = (
            np.bincount(flat.ravel(), power.ravel(), cells * len(codes)).reshape(-1, cells)
            for power in (share, share**2)
        )
        spread = squares * (1 - 2 * mine) + mine**2 * squares.sum(axis=1, keepdims=True)
        found[draws], variance[draws] = mine, np.maximum(spread, 0)
    if sizes.min() < LEAST_SIZE:
        warnings.warn(
            f"the effective number of samples is {sizes.min():.0f} of {count} in the worst draw; ask for more samples",
            ConvergenceWarning,
            stacklevel=3,
        )
    kept = slice(None) if inside is None else slice(1)
    return Sampled(found[:, kept], logs, variance[:, kept], sizes)


def _weighted(
    tables: DrawnTables, targets: Family, evidence: Evidence, draws: slice, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], Reals]:
    """Cells of the targets' joint table, and log weights, both with axes (draw, sample)."""
    network = tables.network
    needed = ancestors(network, [*targets, *evidence.levels, *evidence.weights], evidence.do)
    size = len(range(*draws.indices(len(tables))))
    codes: dict[str, npt.NDArray[np.intp]] = {}
    weights = np.zeros((size, count))
    for name in (one for one in network.order if one in needed):
        if name in evidence.do:
            codes[name] = np.full((size, count), evidence.do[name], np.intp)
            continue
        table, place = tables.tables[name][draws], np.arange(size)[:, None]
        parents = tuple(codes[parent] for parent in network.parents[name])
        with np.errstate(divide="ignore"):
            if name in evidence.levels:
                level = evidence.levels[name]
                codes[name] = np.full((size, count), level, np.intp)
                weights += np.log(table[(place, level, *parents)])
                continue
            codes[name] = levels_drawn(table, place, parents, rng.random((size, count)))
            if name in evidence.weights:
                weights += np.log(np.array(evidence.weights[name]))[codes[name]]
    cells = np.zeros((size, count), np.intp)
    for name in targets:
        cells = cells * network.domain.sizes[name] + codes[name]
    return cells, weights


def levels_drawn(
    table: Reals, place: npt.NDArray[np.intp], parents: tuple[npt.NDArray[np.intp], ...], uniform: Reals
) -> npt.NDArray[np.intp]:
    """A level for each sample given its parents' levels, by its uniform number."""
    code = np.zeros(uniform.shape, np.intp)
    for threshold in np.moveaxis(np.cumsum(table, axis=1)[:, :-1], 1, 0):
        code += uniform >= threshold[(place, *parents)]
    return code
