"""The posterior of a network's probability tables given noisy counts or coefficients: which method, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference import methods
from dpgraph.inference.methods import Automatic, Normal, Records, chosen_method, method_name
from dpgraph.inference.network.by_normal import draw_by_normal
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.by_tables import draw_by_tables
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, concentration_tables, evidence, rows_estimate
from dpgraph.inference.network.plug_in import check_prior
from dpgraph.inference.network.pooled import draw_pooled
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.joint import PooledCounts, Several, learning
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Reals

Method = Automatic | methods.Tables | Records | Normal

#: The methods of a network, by name.
METHODS: dict[str, Method] = {
    "auto": Automatic(),
    "tables": methods.Tables(),
    "records": Records(),
    "normal": Normal(),
}

#: The concentration of every cell before any row, where no prior is given.
DEFAULT_PRIOR = 1.0

#: What a compiled sweep takes for each latent row and each variable or measured table, and how long is long.
SECONDS_PER_STEP, PATIENCE = 13e-9, 20.0

#: Cells times the counts each may have, above which exact draws by tables take minutes.
MOST_TABLE_WORK = 4e8


def network_posterior(
    network: Network,
    noisy: NoisyCounts | NoisyCoefficients | Several,
    *,
    prior: float | str | HierarchicalPrior | None = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
) -> PosteriorDraws:
    """Draws every conditional probability table of a network.

    Args:
        network: The DAG over its domain.
        noisy: What was released of its tables, once or several times.
        prior: The Dirichlet concentration of every cell, above 0; 1 if None; or ``HierarchicalPrior(...)``, by name
            ``"hierarchical"``, which records alone can draw.
        method: ``Tables()``, ``Records(...)``, ``Normal(...)``, ``Automatic(...)``, or one of their names.
        draws: How many; with records, of each chain.
        rng: Randomness for post-processing.
        progress: A bar on a terminal while chains run.

    Raises:
        InferenceError: If the prior or the method is refused, or the value is neither noisy counts nor coefficients.
    """
    asked, (hierarchy, cells) = chosen_method(method, METHODS), _read_prior(prior)
    concentration = concentration_tables(network, cells)
    if isinstance(noisy, PooledCounts):
        if hierarchy is not None:
            raise InferenceError(
                "prior must be a number for pooled releases: one that learns takes a single set of rows"
            )
        return _pooled_posterior(noisy, network, concentration, asked, draws=draws, rng=rng, progress=progress)
    given = evidence(noisy)
    chosen, reason = _chosen(asked, given, draws, hierarchy)
    if hierarchy is not None and not isinstance(chosen, Records):
        name = method_name(chosen, METHODS)
        raise InferenceError(f"prior must be a number for method {name!r}: a hierarchical one needs method 'records'")
    match chosen:
        case Records():
            settings = {"rng": rng, "draws": draws, "progress": progress, **vars(chosen)}
            drawn = draw_by_records(given, concentration, hierarchy=hierarchy, **settings)
        case Normal(shrink=shrink):
            drawn = draw_by_normal(noisy, concentration, rng=rng, draws=draws, shrink=shrink)
        case _:
            drawn = draw_by_tables(given, concentration, rng=rng, draws=draws)
    return replace(drawn, reason=reason)


def _read_prior(prior: Any) -> tuple[HierarchicalPrior | None, float]:
    """The prior of concentrations where they are learned, and the concentration where they are not."""
    if isinstance(prior, HierarchicalPrior):
        return prior, DEFAULT_PRIOR
    if isinstance(prior, str) and prior == "hierarchical":
        return HierarchicalPrior(), DEFAULT_PRIOR
    cells: Any = DEFAULT_PRIOR if prior is None else prior
    check_prior(cells)
    return None, float(cells)


def _chosen(asked: Method, given: Evidence, draws: int, hierarchy: HierarchicalPrior | None) -> tuple[Method, str]:
    """The method, and why that one; ``hierarchy`` is a prior that was asked for."""
    if not isinstance(asked, Automatic):
        return asked, "as asked"
    if hierarchy is not None:
        return asked.records, "the only method for a hierarchical prior"
    return _automatic(given, asked.records, draws)


def _pooled_posterior(
    noisy: PooledCounts,
    network: Network,
    concentration: Mapping[str, Reals],
    asked: Method,
    *,
    draws: int,
    rng: np.random.Generator,
    progress: bool,
) -> PosteriorDraws:
    """The posterior given releases of different rows.

    Raises:
        InferenceError: If ``"tables"`` is asked for: counts of several latent data sets have no exact draws.
    """
    given = tuple(evidence(learning(part, network)) for part in noisy.parts)
    chosen, reason = asked, "as asked"
    if isinstance(asked, Automatic):
        seconds = sum(_seconds(one, asked.records, draws) for one in given)
        rows = f"about {sum(rows_estimate(one)[0] for one in given):.0f} latent rows"
        quick = seconds <= PATIENCE
        chosen = asked.records if quick else Normal()
        reason = f"exact and quick: {rows}" if quick else f"{rows} would take {seconds:.0f} s"
    match chosen:
        case Records():
            settings = vars(chosen) | {"rng": rng, "draws": draws, "progress": progress}
            drawn = draw_pooled(given, concentration, **settings)
        case Normal(shrink=shrink):
            drawn = draw_by_normal(noisy, concentration, rng=rng, draws=draws, shrink=shrink)
        case _:
            raise InferenceError('pooled releases have no exact draws by tables: method="records" or "normal"')
    return replace(drawn, reason=reason)


def _seconds(given: Evidence, records: Records, draws: int) -> float:
    """How long chains of records would take."""
    rows, _ = rows_estimate(given)
    network, sweeps = given.network, records.burn_in + draws * records.thin
    steps = (1 + records.passes / 2) * (len(network.domain.names) + 2 * len(given.tables))
    steps += sum(np.prod(table.weights.shape[1:]) for table in given.tables if table.weights is not None)
    return float(sweeps * rows * steps * SECONDS_PER_STEP)


def _automatic(given: Evidence, records: Records, draws: int) -> tuple[Method, str]:
    """The method for a release, and why."""
    rows, _ = rows_estimate(given)
    network = given.network
    coefficients = any(table.weights is not None for table in given.tables)
    seconds = _seconds(given, records, draws)
    if seconds <= PATIENCE:
        return records, f"exact: about {rows:.0f} latent rows take {seconds:.0f} s"
    why = f"about {rows:.0f} latent rows would take {seconds:.0f} s"
    if coefficients:
        return Normal(), f"{why}, and coefficients have no independent tables"
    scale = max(table.law.scale for table in given.tables)
    if network.cell_count * min(rows, 80 * scale) > MOST_TABLE_WORK:
        return Normal(), f"{why}, and exact draws of {network.cell_count} cells with so much noise minutes"
    return methods.Tables(), why
