"""The posterior of a network's probability tables given noisy counts or coefficients: the method and its reason."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference import methods
from dpgraph.inference.arguments import check_above_zero, check_no_rules, check_whole_number
from dpgraph.inference.chains import turns
from dpgraph.inference.draws import MOST_JUDGED
from dpgraph.inference.methods import Automatic, Normal, Records, chosen_method, method_name
from dpgraph.inference.network._kernels import MOST_SHIFTS
from dpgraph.inference.network.by_normal import draw_by_normal, too_rough
from dpgraph.inference.network.by_records import PublicRows, TooSlow, draw_by_records, reached
from dpgraph.inference.network.by_tables import draw_by_tables
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import (
    Evidence,
    concentration_tables,
    evidence,
    evidence_for,
    rows_estimate,
    single_releases,
)
from dpgraph.inference.network.holes import Holes
from dpgraph.inference.network.plug_in import plug_in_posterior
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.public import PublicPrior, public_rows
from dpgraph.privacy.errors import ApproximationWarning, InferenceError, PriorWarning
from dpgraph.structure.joint import PooledCounts, Several, learning
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Holding, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Tables
from dpgraph.waiting import waiting

Method = Automatic | methods.Tables | Records | Normal | methods.PlugIn

#: The methods of a network, by name.
METHODS: dict[str, Method] = {
    "auto": Automatic(),
    "tables": methods.Tables(),
    "records": Records(),
    "normal": Normal(),
    "plug-in": methods.PlugIn(),
}

#: The concentration of every cell before any row, where no prior is given and the method has none that learns.
DEFAULT_PRIOR = 1.0

#: What a compiled sweep takes for each latent row and each level of a variable, each variable of a table, and each
#: coefficient; for each record that is moved in a row and each descendant or table that this changes; for each cell;
#: and for each deviation of the number of rows and each variable or table. Besides, what any sweep takes.
PER_LEVEL, PER_VARIABLE, PER_COEFFICIENT, PER_MOVE, PER_CELL, PER_COMING, PER_SWEEP = (
    6e-9, 10e-9, 16e-9, 14e-9, 100e-9, 50e-9, 0.35e-3,
)  # fmt: skip
#: What R-hat and the effective size of an entry take, and of each of its draws.
PER_ENTRY, PER_DRAW = 2.5e-3, 1.4e-6
#: The seconds that chains of records may be forecast to take before another method is chosen; the first sweeps decide
#: where the forecast is less than so many times as long. Chains end at so many times their forecast.
PATIENCE, MEASURED, LATE = 90.0, 2.0, 1.5
#: Chains of records that have not mixed go on for so many seconds in all, if not ``latest`` allows more.
LONGEST = 180.0
#: Where concentrations are learned chains mix slower: quicker ones than this many seconds have more sweeps for each
#: draw, at most so many times as many.
UNHURRIED, MOST_SWEEPS = 4.0, 8

#: Standard deviations of its noise below which a private number of rows is mostly prior.
HIDDEN_ROWS = 2.0


def network_posterior(
    network: Network,
    noisy: NoisyCounts | NoisyCoefficients | Several,
    *,
    prior: float | str | HierarchicalPrior | PublicPrior | None = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
    holes: Holes | None = None,
) -> Any:
    """Draws of every probability table, or Dirichlet laws by the plug-in; arguments as of ``inference.posterior``.

    ``holes`` are unobserved values, which are filled; without them a null is a level as any other.
    """
    public, prior = read_public(prior, network)
    asked, (hierarchy, cells) = chosen_method(method, METHODS), read_prior(prior)
    if isinstance(asked, Normal):
        check_no_rules(network, "method 'normal'", "methods 'records' and 'tables' do")
    if isinstance(asked, methods.PlugIn) and hierarchy is None:
        if holes is not None and isinstance(noisy, NoisyCounts):
            holes.warn([evidence(noisy)])
        plugged = plug_in_posterior(noisy, prior=cells, counts=asked.counts, progress=progress)
        return plugged if holes is None else holes.of_released(plugged)
    if isinstance(noisy, Tables):
        raise InferenceError('tables made consistent have lost their noise: method="plug-in", or give their release')
    concentration = concentration_tables(network, cells)
    pooled = isinstance(noisy, PooledCounts)
    given = tuple(evidence(learning(part, network)) for part in noisy.parts) if pooled else (evidence(noisy),)
    _warn_if_rows_are_noise(given)
    latent = given if holes is None else tuple(map(holes.evidence, given))
    if holes is not None:
        holes.warn(given)
    records = asked if isinstance(asked, Records) else getattr(asked, "records", Records())
    automatic = isinstance(asked, Automatic)
    seconds = sum(seconds_of_records(one, records, draws) for one in latent)
    if automatic and (prior is None or hierarchy is not None):
        more = int(np.clip(UNHURRIED / max(seconds, 1e-9), 1, MOST_SWEEPS))
        records = replace(records, thin=records.thin * more)
        seconds = sum(seconds_of_records(one, records, draws) for one in latent)
    if automatic and hierarchy is None and records.seconds is None:
        records = replace(records, seconds=latest(seconds))
    if automatic:
        asked = replace(asked, records=records)

    def choice(seconds: float, patience: float) -> tuple[Method, str]:
        chosen, reason = _chosen(asked, noisy, given, seconds, patience, learned=hierarchy is not None)
        if automatic and holes is not None and holes.others and not isinstance(chosen, Records):
            return records, f"the only method for the causes of {holes.others[0]!r}'s holes: {reason}"
        return chosen, reason

    chosen, reason = choice(seconds, MEASURED * PATIENCE)
    if hierarchy is not None and not isinstance(chosen, Records):
        name = method_name(chosen, METHODS)
        raise InferenceError(f"prior must be a number for method {name!r}: one that learns needs method 'records'")
    if isinstance(chosen, Records):
        learned = HierarchicalPrior() if prior is None else hierarchy
        settings = {"rng": rng, "draws": draws, "progress": progress, "hierarchy": learned, "public": public}
        before = concentration if holes is None else holes.concentration(cells)
        if not isinstance(choice(seconds, 0.0)[0], Records):
            settings["patience"] = PATIENCE if seconds > PATIENCE else LATE * PATIENCE
        if automatic:
            settings["longest"] = max(LONGEST, latest(seconds))
        try:
            drawn = draw_by_records(latent, before, **settings, **vars(chosen))
            return replace(drawn if holes is None else holes.of_records(drawn), reason=reason)
        except TooSlow as found:
            chosen, reason = choice(found.seconds, 0.0)
    match chosen:
        case Normal(shrink=shrink):
            if pooled and (rough := too_rough(noisy, shrink=shrink)):
                warnings.warn(
                    f"normal noise is too rough for {_named(rough)}: some cells of the pooled tables are within their "
                    'noise, so intervals may be wrong; method="records" is exact. Privacy is not at stake',
                    ApproximationWarning,
                    stacklevel=4,  # past the dispatch and the verb
                )
            with waiting("drawing", progress):
                drawn = draw_by_normal(noisy, concentration, rng=rng, draws=draws, shrink=shrink)
        case _ if pooled:
            raise InferenceError('pooled releases are not drawn by tables: method="records" or "normal"')
        case _:
            with waiting("drawing", progress):
                drawn = draw_by_tables(given[0], None if prior is None else concentration, rng=rng, draws=draws)
    return replace(drawn if holes is None else holes.of_released(drawn), reason=reason)


def is_beyond_tables(value: Any, network: Network) -> bool:
    """True where only chains of records can learn a network, from tables that were released without a graph.

    A family of it then lies in no measured table: chains read all tables at once, and variables that no table holds
    together are left to the tables of their parts and the prior. Releases of a graph alone are read for graphs whose
    families their tables hold.
    """
    parts = single_releases(value)
    if not isinstance(network, Network) or isinstance(network, Margins):
        return False
    if not all(isinstance(part, NoisyCounts | NoisyCoefficients) for part in parts):
        return False
    graphs = [part.network for part in parts]
    if not any(isinstance(graph, Margins) for graph in graphs) or any(one.domain != network.domain for one in graphs):
        return False
    holding = Holding(network, [key for p in parts for key in (p.tables if isinstance(p, NoisyCounts) else p.blocks)])
    return all(holding.places((name,)) for name in network.domain.names) and not holds_families(value, network)


def holds_families(value: Any, network: Network) -> bool:
    """True where each family of a network lies in a measured table; coefficients have no tables."""
    parts = single_releases(value)
    if not all(isinstance(part, NoisyCounts) for part in parts):
        return False
    return all(map(Holding(network, [key for p in parts for key in p.tables]).places, network.maximal_families))


def posterior_beyond_tables(
    value: Any,
    network: Network,
    *,
    prior: Any = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
    holes: Holes | None = None,
) -> PosteriorDraws:
    """Draws of a network with a family that lies in no measured table, by chains of records."""
    if not isinstance(method, Records) and method not in ("auto", "records"):
        raise InferenceError(
            'no table holds some family, so records alone can draw: leave method out, or "records", or for longer '
            "chains dg.methods.Records(burn_in=2000, thin=5)"
        )
    check_whole_number("draws", draws, 1)
    public, prior = read_public(prior, network)
    hierarchy, cells = read_prior("hierarchical" if prior is None else prior)
    given, concentration = evidence_for(network, value), concentration_tables(network, cells)
    settings: dict[str, Any] = dict(vars(method)) if isinstance(method, Records) else {}
    if method == "auto":
        settings["seconds"] = latest(seconds_of_records(given, Records(), draws))
        settings["longest"] = max(LONGEST, settings["seconds"])
    settings |= {"hierarchy": hierarchy, "public": public, "progress": progress}
    if holes is not None:
        holes.warn([given])
        given, concentration = holes.evidence(given), holes.concentration(cells)
    made = draw_by_records(given, concentration, rng=rng, draws=draws, **settings)
    return replace(made if holes is None else holes.of_records(made), reason="no table holds some family")


def read_public(prior: Any, network: Network) -> tuple[PublicRows | None, Any]:
    """The public rows of a prior that has them, and the prior of rows that follow none."""
    return (public_rows(prior, network), prior.otherwise) if isinstance(prior, PublicPrior) else (None, prior)


def read_prior(prior: Any) -> tuple[HierarchicalPrior | None, float]:
    """The prior of concentrations where learning is asked for, and the concentration where they are not learned."""
    if isinstance(prior, HierarchicalPrior):
        return prior, DEFAULT_PRIOR
    if isinstance(prior, PublicPrior):
        raise InferenceError('a public prior is for dg.posterior and learned.posterior(graphs="chosen")')
    if isinstance(prior, str) and prior == "hierarchical":
        return HierarchicalPrior(), DEFAULT_PRIOR
    cells: Any = DEFAULT_PRIOR if prior is None else prior
    check_above_zero("prior", cells)
    return None, float(cells)


def _chosen(
    asked: Method, noisy: Any, given: tuple[Evidence, ...], seconds: float, patience: float, *, learned: bool
) -> tuple[Method, str]:
    """The method, and why that one; ``learned`` where a hierarchical prior was asked for.

    Records may take so much ``patience`` where there is another method.
    """
    if not isinstance(asked, Automatic):
        return asked, "as asked"
    if learned:
        return asked.records, "the only method for a hierarchical prior"
    rows = sum(rows_estimate(one)[0] for one in given)
    if seconds <= patience:
        return asked.records, f"exact: about {rows:.0f} latent rows take {seconds:.0f} s"
    why = f"about {rows:.0f} latent rows would take {seconds:.0f} s"
    ruled = bool(given[0].network.rules)
    if isinstance(noisy, PooledCounts):
        if ruled:
            return asked.records, f"the only method of pooled releases that keeps rules, though {why}"
        if rough := too_rough(noisy):
            return asked.records, f"exact: normal noise is too rough for {_named(rough)}, though {why}"
        return Normal(), why
    if any(table.weights is not None for table in given[0].tables):
        return Normal(), f"{why}, and coefficients have no independent tables"
    return methods.Tables(), why


def _warn_if_rows_are_noise(given: tuple[Evidence, ...]) -> None:
    """Warns where a private number of rows is within its noise, so that its flat prior decides."""
    for one in given:
        rows, spread = rows_estimate(one)
        if one.n is None and rows < HIDDEN_ROWS * spread:
            warnings.warn(
                f"the number of rows is private and within its noise, about {rows:.0f} give or take {spread:.0f}: its "
                "flat prior decides much, and intervals may hold the truth less often than they say. Release n with a "
                'part of epsilon, choose neighbours="replace", or spend more',
                PriorWarning,
                stacklevel=5,  # past network_posterior, the dispatch and the verb
            )
            return


def _named(names: tuple[str, ...]) -> str:
    """Some variables by name, at most three of them."""
    shown = ", ".join(repr(name) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def latest(seconds: float) -> float:
    """The seconds after which chains end that ``"auto"`` forecast to take so many."""
    return LATE * max(seconds, PATIENCE)


def seconds_of_records(given: Evidence, records: Records, draws: int) -> float:
    """How long chains of records would take, with the time to judge them, within a factor of two or so.

    A move of a row takes as many records as its noise lets pass, at most those of a level, and draws all descendants.
    """
    network, (rows, spread) = given.network, rows_estimate(given)
    levels = np.array([network.domain.sizes[name] for name in network.order])
    parents = np.array([network.cells(network.parents[name]) for name in network.order], float)
    below, holds = reached(given)
    widths = np.array([0 if table.weights is None else table.weights.shape[1] for table in given.tables])
    touched = ((below @ holds) > 0) @ (1.0 + widths)
    full = parents * -np.expm1(-rows / parents)  # rows of tables that hold a record
    most = 1 + 2 * given.scale / np.sqrt(np.maximum(touched, 1))
    one, other = full * most / 2, rows / levels + full / 2
    tries = records.passes * np.minimum(levels, MOST_SHIFTS) * (levels > 1)
    moves = float((tries * one * other / np.maximum(one + other, 1e-9)) @ (below.sum(axis=1) - 1 + touched))
    each = levels.sum() * PER_LEVEL + (levels.size + holds.sum()) * PER_VARIABLE + widths.sum() * PER_COEFFICIENT
    sweep = rows * each + moves * PER_MOVE + network.cell_count * PER_CELL + PER_SWEEP
    sweep += spread * (levels.size + len(given.tables)) * PER_COMING
    judged = min(network.cell_count, MOST_JUDGED) * (PER_ENTRY + records.chains * draws * PER_DRAW)
    return float((records.burn_in + draws * records.thin) * sweep * turns(records.chains) + judged)
