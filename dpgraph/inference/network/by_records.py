"""The method ``"records"``: the exact posterior of a network, by Markov chains over its tables and the unseen records.

The target is p(theta, x | y), proportional to Dirichlet(theta) prod_i p(x_i | theta) prod_t law_t(y_t - s_t(x)), x the
latent rows. One sweep (proofs.md P55): theta given the records; an independent proposal for each record; coupled moves
of a row of theta and its records; and where n is private, records that come and go, under a flat prior on n. Releases
of different rows have latent rows each and take turns, the family counts of the others added to the prior (P76, P80).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference._kernels import compiled
from dpgraph.inference.chains import Plan, TimeLimit, progress_bar, run_chains
from dpgraph.inference.draws import LEAST_SIZE
from dpgraph.inference.network import _kernels
from dpgraph.inference.network._kernels import LEVELS, RECORDS, RESIZES, SHIFTS, THETA, Layout
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, concentration_tables, contingency_table, rows_estimate
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.inference.network.scatter import Scatter, row_shares
from dpgraph.inference.simplex import log_gammas
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import Integers, Probabilities, Reals, margin

#: The share of accepted proposals that step sizes are adapted to while a chain burns in.
WANTED_ACCEPTANCE = 0.35
#: The records that a shift moves at most, to begin with.
FIRST_REACH = 5.0
#: Sweeps for each move of concentrations with tables and records, which takes as long as one.
EVERY = 4
#: The most records that two levels exchange, over the scale of the noise in records.
EXCHANGED = 2.0
#: Given exact counts: steps of concentrations and centres for each draw, and draws before the first that is kept.
BETWEEN, FORGOTTEN = 5, 20
#: Fewer draws than this have too small an effective size however long the chains: they do not go on.
FEWEST = 2 * LEAST_SIZE
#: Where the accepted and tried moves of each kind stand in a tally.
MOVES = {"records": RECORDS, "shifts": SHIFTS, "resizes": RESIZES}


def draw_by_records(
    given: Evidence | Sequence[Evidence],
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    burn_in: int = 500,
    chains: int = 2,
    passes: int = 2,
    thin: int = 1,
    progress: bool = False,
    hierarchy: HierarchicalPrior | None = None,
    public: PublicRows | None = None,
    seconds: float | None = None,
    patience: float = math.inf,
    longest: float = 0.0,
) -> PosteriorDraws:
    """Draws of every table given the released tables of one data set, or of several with different rows.

    Chains run in threads, from different perturbations of the release; step sizes adapt in burn-in alone. A sweep costs
    O(n (variables + tables)), memory a byte or two for each variable of each record. ``concentration`` is the Dirichlet
    prior of every variable, axes (variable, *parents), above 0; with a ``hierarchy`` only of variables without parents,
    and where chains start. ``public`` are rows that those of the tables may follow, with a hierarchy. After ``seconds``
    chains end with the draws that they have; ``TooSlow`` is raised in burn-in once more than ``patience`` are needed.
    Chains that have not mixed go on, each time as long again after burn-in, where that takes at most ``longest``
    seconds in all; of all sweeps as many draws are kept, evenly spread.
    """
    parts = (given,) if isinstance(given, Evidence) else tuple(given)
    plan, streams, begun = Plan(draws, burn_in, thin), rng.spawn(chains), time.perf_counter()
    limit = TimeLimit(math.inf if seconds is None else seconds, patience)
    with progress_bar(progress, plan.sweeps, "sweeps of each chain") as tick:
        done = run_chains(
            lambda _, own: RecordChain(parts, concentration, plan, passes, hierarchy, own, public),
            plan,
            streams,
            tick,
            limit=limit,
        )
    if limit.needed:
        raise TooSlow(limit.needed)
    sampled, stopped = draws * thin, seconds if min(chain.kept for chain in done) < draws else None
    while True:
        made, spent = _drawn(parts, done, stopped), time.perf_counter() - begun
        whole = spent * (1 + sampled / (burn_in + sampled))
        if stopped or len(made) < FEWEST or whole > longest or not (made := made.judged()).note:
            return made
        plan = Plan(draws - draws // 2, 0, 2 * plan.thin)
        for chain in done:
            chain.go_on(plan)
        with progress_bar(progress, plan.sweeps, "sweeps more of each chain, as they have not mixed") as tick:
            done = run_chains(lambda number, _, known=done: known[number], plan, streams, tick)
        sampled += plan.sweeps


def _drawn(given: Sequence[Evidence], chains: Sequence[RecordChain], stopped: float | None) -> PosteriorDraws:
    """The draws of all chains, which were ``stopped`` after so many seconds."""
    network, kept = given[0].network, min(chain.kept for chain in chains)
    last = np.concatenate([one.records[: one.n] for one in chains[0].latent])
    columns = {name: last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    means = np.mean([chain.mean / chain.swept for chain in chains], axis=0)
    return PosteriorDraws(
        network,
        FrozenMap(tables_from_flat(network, np.stack([chain.theta[:kept] for chain in chains]))),
        "records",
        n=None if all(one.n is not None for one in given) else np.stack([chain.n[:kept] for chain in chains]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        means=FrozenMap(tables_from_flat(network, means)),
        acceptance=accepted_shares([chain.tally for chain in chains]),
        stopped_after=stopped,
    )


class TooSlow(Exception):
    """Chains that would take so many ``seconds``: more than there is patience for."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"chains would take {seconds:.0f} s")
        self.seconds = seconds


@dataclass(eq=False)
class Steps:
    """Step sizes, adapted by stochastic approximation on the log scale (Andrieu and Thoms 2008, algorithm 4).

    ``exchange``, the most records that two levels exchange, stays as it is.
    """

    reach: Reals
    most: float
    spread: float
    exchange: int
    sweeps: int = 0

    @property
    def most_records(self) -> int:
        """The most records a resize adds or removes."""
        return max(1, round(self.most))

    @property
    def attempts(self) -> int:
        """Resizes in a sweep: enough for their random walk to cross the posterior of n, within reason."""
        return 0 if self.spread == 0 else int(np.clip(4 * (self.spread / self.most_records) ** 2, 16, 64))

    def adapt(self, shifts: Integers, resizes: Integers) -> None:
        """Takes one step towards the wanted acceptance."""
        self.sweeps += 1
        gain = 2 * self.sweeps**-0.6
        tried = np.maximum(shifts[1], 1)
        drift = np.where(shifts[1] > 0, shifts[0] / tried - WANTED_ACCEPTANCE, 0.0)
        self.reach = np.clip(self.reach * np.exp(gain * drift), 1.0, 1e9)
        if resizes[1]:
            self.most *= float(np.exp(gain * (resizes[0] / resizes[1] - WANTED_ACCEPTANCE)))
            self.most = min(max(self.most, 1.0), 4 * self.spread + 1)


@dataclass(eq=False)
class Latent:
    """The latent rows of one release in a chain, the residuals of its values, and the sizes of its steps."""

    records: npt.NDArray[Any]
    n: int
    counts: Integers
    residual: Integers
    steps: Steps

    @classmethod
    def of(cls, given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator, rows: int) -> Latent:
        """Starting rows in the network's order, with a step size for each row of the tables."""
        network, columns = given.network, starting_records(given, concentration, rng)
        code = np.min_scalar_type(max(network.domain.sizes.values()) - 1)
        records = np.stack([columns[name].astype(code) for name in network.order], axis=1)
        left = [t.values - t.statistics(contingency_table(columns, t.variables, t.shape)) for t in given.tables]
        exchange = round(EXCHANGED * given.scale)
        steps = Steps(np.full(rows, FIRST_REACH), 1.0, rows_estimate(given)[1], exchange)
        counts = family_counts(network, columns)
        return cls(np.ascontiguousarray(records), len(records), counts, np.concatenate(left), steps)

    def sweep(
        self, rng: np.random.Generator, layout: Layout, theta: Reals, passes: int, reach: Reals
    ) -> tuple[Integers, Integers]:
        """One sweep in place: the accepted and tried moves, and of these the shifts of each row, shape (2, rows)."""
        needed = self.n + self.steps.attempts * self.steps.most_records
        if needed > len(self.records):
            roomy = np.zeros((needed + needed // 4, self.records.shape[1]), self.records.dtype)
            roomy[: self.n] = self.records[: self.n]
            self.records = roomy
        shifts, tally = np.zeros((2, reach.size), np.int64), np.zeros(6, np.int64)
        self.n = compiled(_kernels.sweep)(
            rng, layout, theta, self.records, self.n, self.residual, self.counts, passes, reach, shifts,
            self.steps.exchange, self.steps.attempts, self.steps.most_records, tally, self.room(),
        )  # fmt: skip
        tally[SHIFTS : SHIFTS + 2] += shifts.sum(axis=1)
        return tally, shifts

    def room(self) -> _kernels.Room:
        """Where a sweep works."""
        start, held = np.empty(self.counts.size + 1, np.int64), np.empty((2, len(self.records)), np.int64)
        return _kernels.Room(np.empty_like(self.records), start, held[0], held[1])


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public tables, axes (variable, *parents), and the records each of their rows is known from, axes (*parents).

    ``grid`` has the records that a row may weigh, ``before`` how often each choice was made before any row: to follow
    nothing, and each of the grid.
    """

    tables: Mapping[str, Reals]
    worth: Mapping[str, Reals]
    grid: Reals
    before: Reals


@dataclass(eq=False)
class Following:
    """How closely each row of a chain's tables follows the public one: 0 not at all, g as ``grid[g - 1]`` records."""

    fixed: Reals
    public: Reals
    worth: Reals
    grid: Reals
    held: Reals
    choice: Integers

    @classmethod
    def of(cls, network: Network, public: PublicRows, prior: Reals) -> Following:
        """No row follows any; ``prior`` has the concentrations of rows whose prior is not learned."""
        worth = np.concatenate([public.worth[name].reshape(-1) for name in network.order])
        held, none = public.before + 0.0, np.zeros(worth.size, np.int64)
        held[0] += worth.size
        return cls(prior.copy(), flat_tables(network, public.tables), worth, public.grid, held, none)

    def others(self, counts: Integers, prior: Reals, sizes: Integers) -> Integers:
        """The counts of rows that follow none, for what these have in common; sets the prior back."""
        prior[:] = self.fixed
        return np.where(np.repeat(self.choice > 0, sizes), 0, counts)

    def draw(self, rng: np.random.Generator, prior: Reals, counts: Integers, sizes: Integers) -> None:
        """How closely each row follows now, and its prior, in place."""
        weight = np.empty_like(self.held)
        compiled(_kernels.followed)(
            rng, prior, counts, sizes, self.public, self.worth, self.grid, self.held, self.choice, weight
        )


class RecordChain:
    """A chain over the tables and the latent rows of every data set.

    ``theta`` has the flat tables of each of the ``kept`` draws, ``n`` its rows, ``mean`` the sum over the ``swept``
    sweeps after burn-in of the mean tables given the records and their prior; ``tally`` counts accepted and tried moves
    in these.
    """

    def __init__(
        self,
        given: Sequence[Evidence],
        concentration: Mapping[str, Reals],
        plan: Plan,
        passes: int,
        hierarchy: HierarchicalPrior | None,
        rng: np.random.Generator,
        public: PublicRows | None = None,
    ) -> None:
        self._plan, self._passes, self._rng = plan, passes, rng
        layouts = [kernel_layout(one, concentration) for one in given]
        self._prior = layouts[0].prior
        self._layouts = [layout._replace(prior=self._prior) for layout in layouts]
        self._sizes = row_sizes(layouts[0])
        self._scatter = None if hierarchy is None else Scatter(hierarchy, given[0].network, layouts[0])
        self._following = None if public is None else Following.of(given[0].network, public, self._prior)
        self.latent = [Latent.of(one, concentration, rng, self._sizes.size) for one in given]
        self.theta, self.n = np.empty((plan.draws, self._prior.size)), np.empty(plan.draws, np.int64)
        self.mean, self.tally, self.kept = np.zeros(self._prior.size), np.zeros(6, np.int64), 0
        self.swept = 0

    def go_on(self, plan: Plan) -> None:
        """Keeps every second draw, before draws that are twice as many sweeps apart."""
        half = self.kept // 2
        for held in (self.theta, self.n):
            held[:half] = held[1 : 2 * half : 2]
        self._plan, self.kept = plan, half

    def sweep(self, i: int) -> None:
        """Concentrations and centres where they are learned, tables, then the rows of every data set.

        Where concentrations are learned they move once more at the end, with tables and rows.
        """
        prior, burning = self._prior, i < self._plan.burn_in
        if self._scatter is not None:
            counts, following = self._counts(), self._following
            own = counts if following is None else following.others(counts, prior, self._sizes)
            self._scatter.relearn(self._rng, self._layouts[0], own)
            if following is not None:
                following.draw(self._rng, prior, counts, self._sizes)
        self._theta = draw_rows(self._rng, prior + self._counts(), self._sizes)
        for layout, mine in zip(self._layouts, self.latent, strict=True):
            if len(self.latent) > 1:
                layout = layout._replace(prior=prior + self._counts() - mine.counts)
            tally, shifts = mine.sweep(self._rng, layout, self._theta, self._passes, mine.steps.reach)
            if burning:
                mine.steps.adapt(shifts, tally[RESIZES:])
            else:
                self.tally += tally
        if self._scatter is not None and self._following is None and i % EVERY == 0:
            self._rescatter(self._scatter)
        if not burning:
            self.mean += row_shares(prior + self._counts(), self._sizes)
            self.swept += 1

    def _rescatter(self, scatter: Scatter) -> None:
        """Another concentration and centre for each variable in turn, with tables and records that go along."""
        rng, prior, theta = self._rng, self._prior, self._theta
        proposal = scatter.propose(rng, prior, theta)
        latent = [(layout, mine, mine.room()) for layout, mine in zip(self._layouts, self.latent, strict=True)]
        for k in np.flatnonzero(np.isfinite(proposal.log_ratio)):
            v, gain, proposed = int(scatter.movable[k]), float(proposal.log_ratio[k]), []
            for layout, mine, room in latent:
                change, many = compiled(_kernels.relevelled)(
                    rng, layout, theta, proposal.tables, mine.records, mine.n, mine.residual, v, room
                )
                gain += change
                proposed.append(many)
            accepted = math.log(1.0 - rng.random()) < gain
            for (layout, mine, room), many in zip(latent, proposed, strict=True):
                compiled(_kernels.settled)(layout, mine.records, mine.residual, mine.counts, v, many, accepted, room)
            if accepted:
                scatter.take(int(k), proposal, prior, theta)

    def keep(self, draw: int) -> None:
        """Keeps the tables and the number of rows, after the draws that are there."""
        del draw
        self.theta[self.kept], self.n[self.kept] = self._theta, sum(one.n for one in self.latent)
        self.kept += 1

    def _counts(self) -> Integers:
        """The family counts of all latent rows."""
        return self.latent[0].counts if len(self.latent) == 1 else np.sum([one.counts for one in self.latent], axis=0)


def family_counts(network: Network, columns: Mapping[str, npt.NDArray[Any]]) -> Integers:
    """The flat counts of every family in rows."""
    families = {
        name: contingency_table(columns, family, network.shape(family))
        for name, family in zip(network.domain.names, network.families, strict=True)
    }
    return flat_tables(network, families)


def accepted_shares(tallies: Sequence[Integers]) -> dict[str, float]:
    """The share of accepted moves by their name, of all chains together."""
    tally = np.sum(tallies, axis=0)
    return {move: float(tally[at] / tally[at + 1]) for move, at in MOVES.items() if tally[at + 1]}


def draw_rows(rng: np.random.Generator, concentration: Reals, sizes: Integers) -> Reals:
    """Every row of theta given prior plus family counts: Dirichlet, by gammas in log space so that none is all zeros.

    Rows lie one after another; ``sizes`` has the number of levels of each.
    """
    logs = log_gammas(concentration, rng)
    return row_shares(np.exp(logs - np.repeat(np.maximum.reduceat(logs, np.cumsum(sizes) - sizes), sizes)), sizes)


def tables_given_counts(
    network: Network, hierarchy: HierarchicalPrior, counts: Mapping[str, Integers], rng: np.random.Generator, draws: int
) -> dict[str, Reals]:
    """Draws of the tables given exact counts under a prior that learns, by one chain of concentrations and centres.

    Counts have axes (variable, *parents), draws (draw, variable, *parents); ``BETWEEN`` steps lie between two draws.
    """
    layout = kernel_layout(Evidence(network, (), 0), concentration_tables(network, 1.0))
    flat, sizes = flat_tables(network, counts).astype(np.int64), row_sizes(layout)
    scatter, kept = Scatter(hierarchy, network, layout), np.empty((draws, flat.size))
    for i in range((draws + FORGOTTEN) * BETWEEN):
        scatter.relearn(rng, layout, flat)
        at, rest = divmod(i, BETWEEN)
        if at >= FORGOTTEN and rest == BETWEEN - 1:
            kept[at - FORGOTTEN] = draw_rows(rng, layout.prior + flat, sizes)
    return tables_from_flat(network, kept)


def row_sizes(layout: Layout) -> Integers:
    """The number of levels in each row of theta."""
    many = np.diff(layout.nodes[:, THETA], append=layout.prior.size) // layout.nodes[:, LEVELS]
    return np.repeat(layout.nodes[:, LEVELS], many)


def starting_records(
    given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator
) -> dict[str, npt.NDArray[np.integer[Any]]]:
    """Records near the release: chains that start here are more dispersed than the posterior.

    Every value gets fresh noise of its own variance; the records are drawn from a network fitted to the values clipped
    at 0.
    """
    if given.released is not None:
        assert given.completed is not None  # both or neither
        before = given.released
        return given.completed(starting_records(before, concentration_tables(before.network, 1.0), rng), rng)
    estimate, spread = rows_estimate(given)
    n = max(0, round(estimate + spread * rng.standard_normal()))
    values = [
        table.values
        + math.sqrt(table.law.variance(table.values.size)) * table.step * rng.standard_normal(table.values.size)
        for table in given.tables
    ]
    fitted: dict[str, Reals] = {}
    direct = {t.variables: v.reshape(t.shape) for t, v in zip(given.tables, values, strict=True) if t.weights is None}
    holding = Holding(given.network, direct)
    for name in given.network.domain.names:
        family = given.network.family(name)
        if holding.places(family):
            holder = holding.smallest(family)
            estimate = margin(direct[holder], holder, family)
        else:
            estimate = _from_contrasts(given, values, family, n)
        rough = np.where(concentration[name] > 0, np.maximum(estimate, 0.0) + concentration[name], 0.0)
        fitted[name] = rough / rough.sum(axis=0)
    drawn = sample_codes(Probabilities(given.network, FrozenMap(fitted)), n, rng)
    return dict[str, npt.NDArray[np.integer[Any]]](drawn)


def _from_contrasts(given: Evidence, values: list[Reals], family: Family, n: int) -> Reals:
    """n spread evenly, plus what each block of contrasts inside the family says; columns of weights are orthogonal."""
    shape = given.network.shape(family)
    total = np.full(shape, n / math.prod(shape))
    for table, value in zip(given.tables, values, strict=True):
        if table.weights is not None and table.variables and set(table.variables) <= set(family):
            part = (table.weights @ (value / (table.weights**2).sum(axis=0))).reshape(table.shape)
            inside = [name for name in family if name in table.variables]
            part = np.transpose(part, [table.variables.index(name) for name in inside])
            lifted = part.reshape([size if name in inside else 1 for name, size in zip(family, shape, strict=True)])
            total = total + lifted * (part.size / math.prod(shape))
    return total


def kernel_layout(given: Evidence, concentration: Mapping[str, Reals]) -> Layout:
    """The arrays of the released tables and of the Dirichlet prior of every variable, axes (variable, *parents)."""
    network, tables = given.network, given.tables
    position = {name: v for v, name in enumerate(network.order)}
    under, holds = reached(given)
    below = [np.flatnonzero(line).tolist() for line in under - np.eye(len(under))]
    touched = [np.flatnonzero(line).tolist() for line in under @ holds]
    sizes = [network.domain.sizes[name] for name in network.order]
    rows = [network.cells(network.parents[name]) for name in network.order]
    cells = [many * size for many, size in zip(rows, sizes, strict=True)]
    one = [(np.count_nonzero(concentration[name], axis=0) == 1).all() for name in network.order]
    follows = [int(size > 1 and alone) for size, alone in zip(sizes, one, strict=True)]
    nodes = zip(sizes, _starts(cells), _starts(rows), follows, strict=True)
    widths = [table.values.size for table in tables]
    dense = [0 if table.weights is None else table.weights.size for table in tables]
    weights = [start if size else -1 for start, size in zip(_starts(dense), dense, strict=True)]
    measured = zip(_starts(widths), widths, weights, [0] * len(tables), strict=True)
    return Layout(
        nodes=_lines(nodes, [_pairs(network, position, network.parents[name]) for name in network.order]),
        tables=_lines(measured, [_pairs(network, position, table.variables) for table in tables]),
        laws=np.array([table.noise.penalties for table in tables], float).reshape(-1, 2),
        weights=np.concatenate(
            [np.zeros(0, np.int64), *(t.weights.reshape(-1) for t in tables if t.weights is not None)]
        ),
        prior=flat_tables(network, concentration),
        below=_padded([[len(mine), *mine] for mine in below]),
        touched=_padded([[len(mine), *mine] for mine in touched]),
    )


def flat_tables(network: Network, tables: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Tables with axes (variable, *parents) end to end, parents before children, row by row."""
    return np.concatenate([tables[name].reshape(len(tables[name]), -1).T.reshape(-1) for name in network.order])


def tables_from_flat(network: Network, flat: Reals) -> dict[str, Reals]:
    """The inverse of ``flat_tables`` along the last axis; other axes come first in each table."""
    tables: dict[str, Reals] = {}
    at = 0
    for name in network.order:
        family = network.family(name)
        size, cells, lead = network.domain.sizes[name], network.cells(family), flat.shape[:-1]
        rows = flat[..., at : at + cells].reshape(*lead, cells // size, size)
        tables[name] = np.moveaxis(rows, -1, len(lead)).reshape(*lead, *network.shape(family))
        at += cells
    return {name: tables[name] for name in network.domain.names}


def reached(given: Evidence) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """1 where a variable is another or below it, and where it is in a table; lines are parents before children."""
    network, place = given.network, {name: v for v, name in enumerate(given.network.order)}
    under = np.eye(len(place), dtype=np.float32)
    for name in reversed(network.order):
        for parent in network.parents[name]:
            under[place[parent]] = np.maximum(under[place[parent]], under[place[name]])
    holds = np.zeros((len(place), len(given.tables)), np.float32)
    for t, table in enumerate(given.tables):
        holds[[place[name] for name in table.variables], t] = 1
    return under, holds


def _pairs(network: Network, position: Mapping[str, int], names: Family) -> list[int]:
    """Each variable's number, and how far apart its neighbouring levels are in a table stored in C order."""
    pairs: list[int] = []
    stride = network.cells(names)
    for name in names:
        stride //= network.domain.sizes[name]
        pairs += [position[name], stride]
    return pairs


def _lines(headers: Iterable[tuple[int, int, int, int]], pairs: list[list[int]]) -> Integers:
    """A line for each node or table: how many pairs, its header, the pairs."""
    return _padded([[len(mine) // 2, *header, *mine] for header, mine in zip(headers, pairs, strict=True)])


def _padded(lines: list[list[int]]) -> Integers:
    """Lists of unequal length as one array."""
    array = np.zeros((len(lines), max(map(len, lines), default=0)), np.int64)
    for at, line in enumerate(lines):
        array[at, : len(line)] = line
    return array


def _starts(sizes: list[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]
