"""The posterior of a network whose graph is uncertain too: chains over graphs, tables and the unseen records.

The order of the variables is kept. Given the records, each variable's parents are drawn among those before it, with its
table integrated out; given graph and records all is as for a known graph (``network.by_records``). The result is one
network with every parent that some kept draw has; a table does not vary with parents that its draw lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.arguments import check_whole_number, seeded
from dpgraph.inference.chains import Plan, TimeLimit, progress_bar, run_chains
from dpgraph.inference.draws import warn_if_not_mixed
from dpgraph.inference.graphs import _kernels as moves
from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.field import along
from dpgraph.inference.methods import Records
from dpgraph.inference.network import _kernels, by_records
from dpgraph.inference.network._kernels import RESIZES, Layout
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, concentration_tables, evidence_for
from dpgraph.inference.network.holes import Holes
from dpgraph.inference.network.posterior import latest, read_prior, seconds_of_records
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import indicator
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, Reals

#: The most parents of a variable unless it is said, and the most cells of a table that holds all a variable may have.
MOST_PARENTS, MOST_CELLS = 3, 5000
CHAINS, BURN_IN = 2, 400
#: The most seconds that "auto" takes for averaging, and how many times as long as chains of records' forecast it takes.
PATIENCE, SLOWER = 60.0, 2.2
#: Sweeps between steps on the parents, and how many steps are then taken.
BETWEEN, STEPS = 5, 3
UNMOVED = np.zeros(2, np.int64)
#: The prior of tables. That a variable does not depend on another is for the graph to say, which may have no arc: if
#: rows could be as alike as one likes, an arc would be a second way to have none.
TABLE_PRIOR = HierarchicalPrior(highest=20, steps=16)


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs that may be drawn, in an order with parents before children.

    By places in the order, (variable, other), ``may`` marks the parents that come and go and ``fixed`` the constant
    ones. ``most`` bounds the former for each variable, ``cells`` the table of a family.
    """

    order: Family
    may: Any
    fixed: Any
    most: Integers
    cells: int


def possible_graphs(network: Network, constraints: Limits) -> Graphs:
    """The graphs in the order of a chosen one, by the constraints that it was chosen under."""
    order = _order(network, constraints)
    before = {name: order[:i] for i, name in enumerate(order)}
    fixed = np.array([[other in constraints.required_parents[name] for other in order] for name in order])
    may = np.array([[other in before[name] and constraints.allows(other, name) for other in order] for name in order])
    limit = MOST_PARENTS if constraints.max_parents is None else constraints.max_parents
    most = np.maximum(limit - fixed.sum(axis=1), 0)
    return Graphs(order, may & ~fixed, fixed, most.astype(np.int64), constraints.max_cells)


def _order(network: Network, constraints: Limits) -> Family:
    """The variables, parents before children; of two that one direction alone may join, the parent first if it can be.

    The graph's own order may have the second of two tiers first where no arc joins them: none could then be drawn.
    """
    names, allows = network.order, constraints.allows
    first = {v: {u for u in names if u != v and allows(u, v) and not allows(v, u)} for v in names}
    placed: list[str] = []
    while len(placed) < len(names):
        left = [name for name in names if name not in placed]
        ready = [name for name in left if set(network.parents[name]) <= set(placed)]
        placed.append(min(ready, key=lambda name: len(first[name] & set(left))))
    return tuple(placed)


def with_causes(graphs: Graphs, holes: Holes, told: Iterable[str]) -> Graphs:
    """The graphs of values, as possible, then of indicators, and of released levels, which follow from the two.

    A hole may depend on any variable but its own, or on those that were told.
    """
    many, at = len(graphs.order), holes.places
    order = (*(at[name] for name in graphs.order), *map(indicator, holes.because), *holes.because)
    number = {name: v for v, name in enumerate(order)}
    may, fixed = (np.pad(part, (0, len(order) - many)) for part in (graphs.may, graphs.fixed))
    most = np.pad(graphs.most, (0, len(order) - many), constant_values=MOST_PARENTS)
    for name, parents in holes.because.items():
        sign = number[indicator(name)]
        if name in told:
            fixed[sign, [number[at[parent]] for parent in parents]] = True
        else:
            may[sign, :many] = True
            may[sign, number[at[name]]] = False
        fixed[number[name], [number[at[name]], sign]] = True
    return Graphs(order, may, fixed, most, graphs.cells)


def widest(graphs: Graphs, sizes: Mapping[str, int]) -> int:
    """The cells of the largest table that holds a variable and all the parents that it may have."""
    levels = np.array([sizes[name] for name in graphs.order], float)
    return int(np.max(levels * np.prod(np.where(graphs.may | graphs.fixed, levels, 1.0), axis=1)))


def affordable(
    noisy: Any, network: Network, constraints: Limits, draws: Any = None, seconds: float | None = None
) -> bool:
    """True where graphs can be averaged: tables are small, and so many draws are forecast to take a minute at most."""
    if widest(possible_graphs(network, constraints), network.domain.sizes) > MOST_CELLS:
        return False
    if draws is None:
        return True
    check_whole_number("draws", draws, 1)
    forecast = SLOWER * seconds_of_records(evidence_for(network, noisy), Records(burn_in=BURN_IN), draws)
    return forecast <= (PATIENCE if seconds is None else seconds)


def averaged_posterior(
    noisy: Any,
    network: Network,
    constraints: Limits,
    *,
    prior: Any = None,
    method: Any = "auto",
    draws: int = 1000,
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
    missing_because: Mapping[str, Iterable[str]] | None = None,
) -> PosteriorDraws:
    """Draws of tables and graphs from a release, in the order of a chosen graph and under its constraints.

    Unobserved values are filled given each graph; the causes of holes are drawn too, unless they were told.
    """
    check_whole_number("draws", draws, 1)
    if not isinstance(method, Records) and not (isinstance(method, str) and method in ("auto", "records")):
        raise InferenceError(
            'records alone can draw graphs: leave method out, or "records", or dg.methods.Records(...)'
        )
    hierarchy, _ = read_prior(TABLE_PRIOR if prior is None else prior)
    if hierarchy is None:
        raise InferenceError("the prior of averaged graphs is a hierarchical one; got a number")
    if hierarchy.ordered:
        raise InferenceError('averaged graphs have no prior along bins: leave ordered out, or take graphs="chosen"')
    value, provenance = released_value(noisy)
    graphs, holes = possible_graphs(network, constraints), Holes.of(network, missing_because)
    given, start = evidence_for(network, value), network
    if holes is not None:
        graphs = with_causes(graphs, holes, missing_because or {})
        holes.warn([given])
        given, start = holes.evidence(given), holes.records
    if (cells := widest(graphs, start.domain.sizes)) > MOST_CELLS:
        raise InferenceError(
            f"a variable and all the parents that it may have span {cells:,} cells, and averaging takes at most "
            f'{MOST_CELLS:,}: forbid edges, name fewer variables, or leave graphs="chosen"'
        )
    settings: dict[str, Any] = {"draws": draws, "progress": progress, "hierarchy": hierarchy}
    forecast = SLOWER * seconds_of_records(given, Records(burn_in=BURN_IN), draws)
    settings |= vars(method) if isinstance(method, Records) else {"seconds": latest(forecast)}
    settings["fixed"] = {} if holes is None else holes.follows
    made = draw_averaged(given, start, graphs, rng=seeded(seed), **settings)
    made = (made if holes is None else holes.of_records(made)).judged()
    warn_if_not_mixed(made.diagnostics)
    return replace(made, provenance=provenance, reason="graphs are drawn with their tables")


def draw_averaged(
    given: Evidence,
    start: Network,
    graphs: Graphs,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    passes: int = 2,
    thin: int = 1,
    progress: bool = False,
    hierarchy: HierarchicalPrior = TABLE_PRIOR,
    fixed: Mapping[str, Reals] = MappingProxyType({}),
    seconds: float | None = None,
) -> PosteriorDraws:
    """Draws tables and graphs from their posterior given a release (proofs.md P118).

    Chains start from one possible graph; each keeps ``draws`` draws, every ``thin`` sweeps, or after ``seconds`` those
    that it has. The result is of the network with every parent that some draw has. ``fixed`` has the tables of
    variables that follow from their parents.
    """
    plan, limit = Plan(draws, burn_in, thin), None if seconds is None else TimeLimit(seconds)

    def chain(_: int, own: np.random.Generator) -> GraphChain:
        return GraphChain(given, start, graphs, plan, passes, hierarchy, own, fixed)

    with progress_bar(progress, plan.sweeps, "sweeps of each chain") as tick:
        done = run_chains(chain, plan, rng.spawn(chains), tick, limit=limit)
    kept = min(len(mine.drawn) for mine in done)
    network = _union(start, [network for mine in done for network, _ in mine.drawn[:kept]])
    tables = {name: np.empty((chains, kept, *network.shape(network.family(name)))) for name in network.domain.names}
    for i, mine in enumerate(done):
        for j, (one, theta) in enumerate(mine.drawn[:kept]):
            for name, table in by_records.tables_from_flat(one, theta).items():
                tables[name][i, j] = along(table, one.family(name), network.family(name))
    turns, last = np.sum([mine.turns for mine in done], axis=0), done[0].columns()
    accepted = by_records.accepted_shares([mine.tally for mine in done])
    return PosteriorDraws(
        network,
        FrozenMap(tables),
        "records",
        n=None if given.n is not None else np.stack([mine.n[:kept] for mine in done]),
        records=FrozenMap((name, last[name]) for name in network.domain.names),
        acceptance=accepted | ({"graphs": float(turns[0] / turns[1])} if turns[1] else {}),
        stopped_after=seconds if kept < draws else None,
    )


def _union(start: Network, drawn: list[Network]) -> Network:
    """The network with every parent that some draw has, in the domain's order."""
    names = start.domain.names
    found = {name: set[str]().union(*(one.parents[name] for one in drawn)) for name in names}
    return Network.of(start.domain, {name: [other for other in names if other in found[name]] for name in names})


class GraphChain:
    """A chain over graphs, tables and records; its arrays are in the graph's own order.

    ``drawn`` and ``n`` have each draw's graph, flat tables and rows; ``tally`` and ``turns`` count moves after burn-in.
    """

    def __init__(
        self,
        given: Evidence,
        start: Network,
        graphs: Graphs,
        plan: Plan,
        passes: int,
        hierarchy: HierarchicalPrior,
        rng: np.random.Generator,
        fixed: Mapping[str, Reals],
    ) -> None:
        self.given, self.network, self.graphs, self.rng, self.fixed = given, start, graphs, rng, fixed
        self.burn_in, self.passes, self.hierarchy = plan.burn_in, passes, hierarchy
        self.sizes = start.domain.sizes
        self.levels = np.array([self.sizes[name] for name in graphs.order], np.int64)
        self.on = np.array([[other in start.parents[name] for other in graphs.order] for name in graphs.order])
        self.latent = by_records.Latent.of(replace(given, network=start), self._prior(start), rng, len(graphs.order))
        self.centres = np.concatenate(
            [np.full(self.sizes[name], 0.0 if name in fixed else 1 / self.sizes[name]) for name in start.order]
        )
        self._lay_out(self.latent.counts)
        self.drawn: list[tuple[Network, Reals]] = []
        self.n = np.empty(plan.draws, np.int64)
        self.tally, self.turns = np.zeros(6, np.int64), np.zeros(2, np.int64)

    def sweep(self, i: int) -> None:
        """Every few sweeps the arcs; then tables and rows, with a step size for each variable."""
        turned = self._turned() if i % BETWEEN == 0 else UNMOVED
        layout, latent, rows = self.layout, self.latent, self.rows
        compiled(_kernels.relearned)(
            self.rng, layout, latent.counts, self.hierarchy.grid, self.hierarchy.centre, self.centres,
            np.empty_like(self.hierarchy.grid),
        )  # fmt: skip
        self.theta = by_records.draw_rows(self.rng, layout.prior + latent.counts, by_records.row_sizes(layout))
        reach = np.repeat(latent.steps.reach[self.place], rows)
        tally, shifts = latent.sweep(self.rng, layout, self.theta, self.passes, reach)
        if i < self.burn_in:
            by_variable = np.zeros((2, rows.size), np.int64)
            by_variable[:, self.place] = np.add.reduceat(shifts, np.cumsum(rows) - rows, axis=1)
            latent.steps.adapt(by_variable, tally[RESIZES:])
        else:
            self.tally += tally
            self.turns += turned

    def keep(self, draw: int) -> None:
        """Keeps the graph, its tables and the number of rows."""
        self.drawn.append((self.network, self.theta))
        self.n[draw] = self.latent.n

    def _turned(self) -> Integers:
        """Takes steps on the parents of every variable; returns how many were accepted and tried."""
        order, turns = self.graphs.order, np.zeros(2, np.int64)
        before = self.network
        columns = [before.order.index(name) for name in order]
        records = np.ascontiguousarray(self.latent.records[: self.latent.n][:, columns])
        centres = np.zeros((len(order), int(self.levels.max())))
        ends = np.cumsum([self.sizes[name] for name in before.order])
        for v, at in enumerate(columns):
            centres[v, : self.levels[v]] = self.centres[ends[at] - self.levels[v] : ends[at]]
        for _ in range(STEPS):
            compiled(moves.toggled)(
                self.rng, records, self.latent.n, self.levels, self.on, self.graphs.may, self.graphs.most,
                self.graphs.cells, self.hierarchy.grid, centres, turns,
            )  # fmt: skip
        if turns[0]:
            parents = {name: [order[u] for u in np.flatnonzero(self.on[v])] for v, name in enumerate(order)}
            self.network = Network.of(before.domain, parents)
            back = [order.index(name) for name in self.network.order]
            self.latent.records = np.ascontiguousarray(records[:, back])
            self.centres = np.concatenate([centres[v, : self.levels[v]] for v in back])
            self._lay_out(by_records.family_counts(self.network, self.columns()))
        return turns

    def columns(self) -> dict[str, Integers]:
        """The records as a column of codes for each variable."""
        records = self.latent.records[: self.latent.n]
        return {name: records[:, v].astype(np.int64) for v, name in enumerate(self.network.order)}

    def _prior(self, network: Network) -> dict[str, Reals]:
        """Concentrations where a chain starts, and of tables that stay."""
        return {**concentration_tables(network, 1.0), **self.fixed}

    def _lay_out(self, counts: Integers) -> None:
        network = self.network
        given = replace(self.given, network=network)
        self.layout: Layout = by_records.kernel_layout(given, self._prior(network))
        self.latent.counts = counts.astype(np.int64)
        self.rows = np.array([network.cells(network.parents[name]) for name in network.order], np.int64)
        self.place = np.array([self.graphs.order.index(name) for name in network.order])
