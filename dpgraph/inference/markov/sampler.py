"""Gibbs sampling of a hidden Markov model given released counts of an event log (Foulds et al. 2016; proofs.md P61).

Where sequences have effects of their own, P78 has the moves of these.

With ``"noise-aware"`` inference the true cells are sampled too, so the posterior accounts for the noise: a cell holds N
entries, each with one level of every field. Given its state the tables of its fields are multinomial with N shared; N
is geometric with a rate of its chain. With ``"plug-in"`` the released cells, cut at zero, stand for the truth.

Chains start at mixtures fitted to the released tables by expectation maximisation: random starts stick in modes
thousands of nats worse. Where sequences have effects of their own the mixture has them too: else its states are kinds
of sequences, which chains take hundreds of sweeps to leave to the effects. Of many mixtures the likeliest after a few
steps are fitted on, and the likeliest of these is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph import memory
from dpgraph.inference.arguments import check_whole_number
from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.interruption import heed, processors, stop_flag
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov._kernels import Kernels
from dpgraph.inference.markov.effects import ALONE, Effects, fill_every_field
from dpgraph.inference.markov.evidence import Flags, LogEvidence
from dpgraph.inference.markov.loops import ALL_DIFFER, BLOCKS, FEW_ENTRIES, MOST_TABLES, MOVES, NEVER, Cells
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.display import data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.network import transition_counts
from dpgraph.structure.tables import Integers, Reals

#: How often a sweep moves the tables, once the states are drawn.
PASSES = 3
#: Cells of all sampler chains from which these run side by side.
WORTH_THREADS = 4000
#: A start's least and largest spread of effects.
SPREAD = 0.05, 1.0
#: Bytes of a number, and of a hidden state that is kept.
NUMBER, STATE = 8, 2
#: How often a chain holds a number of each column of each cell: tables, what was released, a start or a turn's columns.
COLUMNS = 7
#: How often it holds a number of each state of each cell: weights, their sums, filtered, and places.
STATES = 4
#: How often it holds one number of each cell: orders, places, rates, sizes of moves.
CELLS = 10
#: How often a start holds its largest array.
START = 3
#: How often all draws are held while labels are matched, and a model is made beside that of fewer sweeps.
DRAWS = 4

Sampler = Literal["blocked", "collapsed"]
Inference = Literal["noise-aware", "plug-in"]


@dataclass(frozen=True)
class MarkovPrior:
    """Concentrations of the Dirichlet laws of transitions and emissions, and the Beta law of each chain's entry rate.

    The number of entries of a cell is geometric: P(N) = p (1 - p)^N, p ~ Beta(*entries). Effects of sequences on a
    field, where there are any, are normal around 0; their standard deviation is half-normal with scale ``effects``.
    """

    transition: float = 1.0
    emission: float = 1.0
    entries: tuple[float, float] = (1.0, 1.0)
    effects: float = 1.0

    def __post_init__(self) -> None:
        for value in (self.transition, self.emission, *self.entries, self.effects):
            if not (isinstance(value, int | float) and np.isfinite(value) and value > 0):
                raise InferenceError(f"every concentration must be a finite number above 0; got {value!r}")


@dataclass(frozen=True, eq=False)
class MarkovDraws:
    """The draws of the sampler chains after burn-in, labels as they came.

    Attributes:
        transition: Shape (copies, draws, states, states).
        emissions: The fields side by side, shape (copies, draws, states, columns).
        states: Shape (copies, draws, chains, steps).
        entries: The mean of each cell's number of entries, shape (copies, chains, steps).
        log_joint: ln P(released, tables, states | parameters) up to a constant, shape (copies, draws).
        acceptance: The share of accepted moves by their name.
        effects: Of each sequence on each level's log weight, shape (copies, draws, chains, columns), or None.
    """

    transition: Reals
    emissions: Reals
    states: Integers
    entries: Reals
    log_joint: Reals
    acceptance: dict[str, float]
    effects: Reals | None = None


def markov_draws(
    given: LogEvidence,
    states: int,
    *,
    rng: np.random.Generator,
    prior: MarkovPrior | None = None,
    sampler: str = "blocked",
    inference: str = "noise-aware",
    copies: int = 2,
    iterations: int = 200,
    burn_in: int = 100,
    effects: bool = False,
    known: Integers | None = None,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Iterator[MarkovDraws]:
    """Draws of states, transitions and emissions given a release; several sampler chains (``copies``) side by side.

    The iterator goes on with the same chains: as many draws each time, twice as many sweeps apart. All sweeps before
    them are burn-in then, about half of all.

    ``"blocked"`` draws whole chains of states, ``"collapsed"`` single states with the transitions integrated out, as
    the paper. ``effects`` gives sequences emission effects of their own. ``known`` has the state of each cell where it
    is not hidden, shape (chains, steps); transitions then say nothing. Without ``compiled`` the same loops run as plain
    Python, for tests. An InferenceError names a setting that is out of range.
    """
    check_settings(states, sampler, inference, {"chains": copies, "iterations": iterations, "burn_in": burn_in})
    if states > given.observed.sum():
        raise InferenceError(f"n_states must be at most the {given.observed.sum()} observed cells; got {states}")
    if len(given.values) not in (1, copies):
        raise InferenceError(f"{len(given.values)} copies of the cells do not fit {copies} sampler chains")
    kernels = _kernels.compiled() if compiled else _kernels.PLAIN
    aware, single = inference == "noise-aware", sampler == "collapsed"
    # where cells were released with few entries ``switch`` draws states well by itself
    released = given.values[:, given.observed][..., given.fields[0]].sum(axis=-1)
    few = aware and not effects and known is None and states > 1 and bool(released.mean() <= FEW_ENTRIES)
    alike = [alike_cells(values, given.squares) if few else ALL_DIFFER for values in given.values]
    plan, prior = Plan(iterations, burn_in), MarkovPrior() if prior is None else prior
    run = _Run(given, states, prior, plan, kernels, aware, single, effects, known, few, alike)
    how: dict[str, Any] = {"in_threads": copies * given.observed.size >= WORTH_THREADS}
    chains, streams, made = [], rng.spawn(copies), 0
    while True:
        start = partial(_Chain, run) if not chains else lambda number, _, known=chains: known[number].going_on()
        tick = None if progress is None else lambda sweep, before=made: progress(before + sweep)
        chains = run_chains(start, plan, streams, tick, **how)
        made, plan = made + plan.sweeps, Plan(iterations, 0, 2 * plan.thin)
        yield _drawn(run, chains)


def draw_markov(given: LogEvidence, states: int, **settings: Any) -> MarkovDraws:
    """The first of ``markov_draws``."""
    return next(markov_draws(given, states, **settings))


def _drawn(run: _Run, chains: list[_Chain]) -> MarkovDraws:
    def stacked(name: str) -> Any:
        return np.stack([getattr(one, name) for one in chains])

    moves = np.sum([one.cells.tally.reshape(-1, 2) for one in chains], axis=0)
    shares = {name: float(yes / max(tried, 1)) for name, (yes, tried) in zip(MOVES, moves, strict=True)}
    return MarkovDraws(
        stacked("transition"),
        stacked("emissions"),
        stacked("states"),
        stacked("entries") / run.plan.draws,
        stacked("log_joint"),
        shares if run.aware else {},
        stacked("effects") if run.own else None,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """One problem and how it is sampled, the same for all chains."""

    given: LogEvidence
    size: int
    prior: MarkovPrior
    plan: Plan
    kernels: Kernels
    aware: bool
    single: bool
    own: bool
    known: Integers | None
    few: bool
    alike: list[npt.NDArray[np.int32]]


class _Chain:
    """One sampler chain, which begins at the best of mixtures of its own, and its draws, as in ``MarkovDraws``."""

    def __init__(self, run: _Run, number: int, rng: np.random.Generator) -> None:
        self._run, self._rng, size, own = run, rng, run.size, number % len(run.given.values)
        self._burn_in = run.plan.burn_in
        self._given = given = replace(run.given, values=run.given.values[own : own + 1])
        values, clipped = given.values[0], np.maximum(given.values[0], 0)
        rough = shrunken(given, values) if run.aware else clipped.astype(float)
        law, effects = self._first_laws(rough)
        entries = np.rint(entries_estimate(given, values)).astype(np.int64)
        whole = [rounded_to_total(rough[..., columns], entries) for columns in given.fields]
        counts = np.where(given.observed[..., None], np.concatenate(whole, axis=2) if run.aware else clipped, 0)
        self.cells = latent_cells(given, size, counts, run.alike[own], stop_flag())
        self._law, self._effects = law, self._first_effects(law, effects) if run.own else None
        laws = np.log(self._laws).reshape(-1, *law.shape)
        likely = (counts @ np.swapaxes(laws, 1, 2)).argmax(axis=2)
        self._states = likely if run.known is None else run.known.astype(np.int64)
        self._moves = dirichlet_rows(transition_counts(self._states[None], size)[0] + run.prior.transition, rng)
        draws, width = run.plan.draws, law.shape[1]
        self.transition, self.emissions = np.empty((draws, size, size)), np.empty((draws, size, width))
        self.states, self.entries = np.empty((draws, *given.shape), np.int16), np.zeros(given.shape)
        self.log_joint, self.effects = np.empty(draws), np.empty((draws if run.own else 0, given.shape[0], width))

    def _first_laws(self, counts: Reals) -> tuple[Reals, Reals]:
        """The laws and effects of a mixture; where states are known the first sweep draws them."""
        given, size = self._given, self._run.size
        if self._run.known is None:
            return fitted_mixture(counts, given.observed, given.fields, size, self._rng, effects=self._run.own)
        widths = [columns.stop - columns.start for columns in given.fields]
        law = np.tile(np.repeat(1 / np.array(widths), widths), (size, 1))
        return law, np.zeros((given.shape[0], law.shape[1]))

    def _first_effects(self, law: Reals, effects: Reals) -> Effects:
        (chains, _), (size, width), fields = self._given.shape, law.shape, self._given.fields
        laws, spread = np.zeros((chains * size, width)), np.array([effects[:, one].std() for one in fields])
        fill_every_field(self.cells.edges, law, effects, laws)
        shapes = (2, size, width), (2, chains, width), (2, len(fields))
        return Effects(effects, np.clip(spread, *SPREAD), laws, *(np.full(shape, 0.1) for shape in shapes))

    def going_on(self) -> _Chain:
        """The chain as it is, all its sweeps being burn-in."""
        self._burn_in, self.entries[:] = 0, 0.0
        return self

    def sweep(self, i: int) -> None:
        """States, transitions, emissions, then the unknown tables of the cells; move sizes adapt during burn-in."""
        run, cells, rng, prior, burn_in = self._run, self.cells, self._rng, self._run.prior, self._burn_in
        if i == burn_in:
            cells.tally[:] = 0.0
        speed = 0.0 if i >= burn_in else max(0.05, (1 + i) ** -0.6)
        keep_states = run.known is not None or (run.few and not run.single)
        priors = tuple(map(float, (prior.transition, prior.emission, *prior.entries)))
        how = priors[:2], run.single, keep_states, run.own
        run.kernels.gibbs(rng, cells, self._states, self._moves, self._law, self._laws, *how)
        moves = self._moves if run.known is None else np.ones((1, 1))
        if self._effects is None:
            if run.aware:
                run.kernels.sweep(rng, cells, self._states, moves, self._law, priors, PASSES, speed)
            return
        effects, scale = self._effects, float(prior.effects)
        if run.aware:
            run.kernels.sweep_of_effects(
                rng, cells, self._states, moves, self._law, effects, priors, scale, PASSES, speed
            )
        else:
            run.kernels.given_cells(rng, cells, self._states, self._law, effects, priors[1], scale, speed, ALONE)

    @property
    def _laws(self) -> Reals:
        """The emissions of each state, or of each sequence and state."""
        return self._law if self._effects is None else self._effects.laws

    def keep(self, draw: int) -> None:
        """Keeps states, parameters and their log density."""
        rates = float(self._run.prior.entries[0]), float(self._run.prior.entries[1])
        self.transition[draw], self.emissions[draw], self.states[draw] = self._moves, self._law, self._states
        self.log_joint[draw] = self._run.kernels.log_joint(self.cells, self._states, self._moves, self._laws, rates)
        self.entries += self.cells.counts[:, self._given.fields[0]].sum(axis=1).reshape(self.entries.shape)
        if self._effects is not None:
            self.effects[draw] = self._effects.effects


def latent_cells(
    given: LogEvidence, states: int, start: Integers, alike: npt.NDArray[np.int32] = ALL_DIFFER, stop: Integers = NEVER
) -> Cells:
    """The cells of one sampler chain, which begin at ``start``, shape (chains, steps, columns); of one release copy.

    ``alike`` is of ``alike_cells``; compiled loops end early once ``stop`` is not 0.
    """
    cells, width, fields = given.observed.size, start.shape[-1], len(given.fields)
    return Cells(
        np.where(given.observed[..., None], start, 0).reshape(cells, width).astype(np.int64),
        given.values[0].reshape(cells, width).copy(),
        given.observed.ravel(),
        np.array([0, *(columns.stop for columns in given.fields)], np.int64),
        given.absolute,
        given.squares,
        stay=np.full(cells, -1e-3),
        share=np.full((2, cells, fields), 0.3),
        most=np.full(cells, max(1.0, float(given.deviation.mean()))),
        reach=np.full((states, fields), 0.05),
        tally=np.zeros(2 * len(MOVES)),
        alike=alike,
        stop=stop,
    )


def alike_cells(released: Integers, squares: Reals) -> npt.NDArray[np.int32]:
    """Numbers of cells, the same where the noise law is the same, up to a factor, for each block of numbers of entries.

    Laplace noise does not tell values below 0 apart, nor values above the most entries of the block (proofs.md P125).
    ``squares`` has the cost of a unit of noise^2, shape (columns,). Shape (ways to cut, blocks, cells).
    """
    values, found = released.reshape(-1, released.shape[-1]), {}
    for last in set(BLOCKS.ravel().tolist()):
        heed()
        told = data_frame(np.where(squares > 0, values, np.clip(values, 0, last)))
        found[last] = told.groupby(list(told), sort=False).ngroup().to_numpy(np.int32)
    return np.stack([np.stack([found[last] for last in ends]) for ends in BLOCKS.tolist()])


def dirichlet_rows(concentration: npt.NDArray[Any], rng: np.random.Generator) -> Reals:
    """Dirichlet draws along the last axis, every entry above 0."""
    drawn = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return np.maximum(drawn / drawn.sum(axis=-1, keepdims=True), 1e-300)


def check_settings(states: int, sampler: str, inference: str, numbers: dict[str, int]) -> None:
    """Refuses settings that no log allows.

    Raises:
        InferenceError: Naming the setting.
    """
    for name, value, choices in (("sampler", sampler, Sampler), ("inference", inference, Inference)):
        check_choice(name, value, choices, error=InferenceError)
    for name, value in {"n_states": states, **numbers}.items():
        check_whole_number(name, value, 0 if name == "burn_in" else 1)


def fit_bytes(
    shape: tuple[int, int], columns: int, states: int, *, chains: int, draws: int, effects: bool = False
) -> int:
    """The bytes of a fit of ``shape`` sequences and steps, where all cells have so many entries that they have pools.

    ``columns`` are the levels of all fields; as many sampler chains move at once as there are processors.

    >>> fit_bytes((1, 10**5), 4, 3, chains=2, draws=200) < 1e9
    True
    """
    cells = shape[0] * shape[1]
    moving = STATES * states + max(1, MOST_TABLES // states) * states * (columns + 1)
    numbers = chains * (COLUMNS * columns + CELLS) + min(chains, processors()) * moving + columns + 3 * states
    numbers_of_start = min(chains, processors()) * START * start_numbers(shape, columns, states, effects=effects)
    kept = chains * draws * (STATE * cells + effects * NUMBER * shape[0] * columns)
    return NUMBER * (cells * numbers + numbers_of_start) + 4 * BLOCKS.size * cells + DRAWS * kept


def check_fit(*problem: Any, **settings: Any) -> None:
    """Refuses a fit that there is no room for, before the charge; arguments as ``fit_bytes``.

    Raises:
        InferenceError: With the figure.
    """
    needed = fit_bytes(*problem, **settings)
    way_out = "declare fewer or coarser sequences, steps and levels, or ask for fewer chains and iterations"
    memory.check(needed, "this hidden Markov model", way_out, InferenceError)


#: Mixtures at first and steps of each, then those that are fitted on, and steps of these.
MANY, STEPS, FEW, MORE_STEPS = 80, 20, 16, 60
#: The most numbers of all mixtures together, and of mixtures at least.
MOST_NUMBERS, LEAST_MIXTURES = 1 << 21, 4
#: Of more cells so many are taken, evenly spread, and so many sequences: a start need not be better.
ENOUGH, SEQUENCES = 5000, 100
#: Steps in which the sequences that were left out get their effects.
LAST_STEPS = 5
#: Entries of each level that are added to those of a state; entries in proportions of all, to those of a sequence, and
#: before the first step; and what is left of an effect after each step.
IN_STATE, IN_SEQUENCE, BEFORE, KEPT = 0.5, 5.0, 20.0, 0.98


class Mixtures(NamedTuple):
    """Mixtures of states with effects of sequences, as in ``effects``.

    Attributes:
        laws: P(level | state) without effects, the fields side by side, shape (mixtures, states, columns).
        effects: Of each sequence on each level's log weight, shape (mixtures, sequences, columns).
        shares: P(state), shape (mixtures, states).
    """

    laws: Reals
    effects: Reals
    shares: Reals

    def of(self, which: Integers) -> Mixtures:
        """The mixtures of these numbers."""
        return Mixtures(*(part[which] for part in self))


def entries_estimate(given: LogEvidence, values: Integers) -> Reals:
    """The number of entries of each cell, from the sums of its fields by inverse variance; at least 0."""
    weight = np.array([1 / (given.deviation[columns] ** 2).sum().clip(1e-12) for columns in given.fields])
    sums = np.stack([values[..., columns].sum(axis=-1) for columns in given.fields], axis=-1)
    return np.maximum(sums @ (weight / weight.sum()), 0.0)


def shrunken(given: LogEvidence, values: Integers) -> Reals:
    """Rough expected counts of each cell: the released ones, shape (chains, steps, columns), drawn towards the average.

    As far as the noise demands.
    """
    entries = np.where(given.observed, entries_estimate(given, values), 0.0)[..., None]
    counts = np.zeros(values.shape)
    for columns in given.fields:
        total = np.maximum(values[given.observed][:, columns].sum(axis=0), 0.5)
        expected = entries * (total / total.sum())
        gain = expected / (expected + given.deviation[columns] ** 2 + 1e-12)
        rough = np.maximum(expected + gain * (values[..., columns] - expected), 0.0)
        counts[..., columns] = rough * entries / np.maximum(rough.sum(axis=-1, keepdims=True), 1e-12)
    return counts


def fitted_mixture(
    counts: Reals, observed: Flags, fields: tuple[slice, ...], size: int, rng: np.random.Generator, *, effects: bool
) -> tuple[Reals, Reals]:
    """The laws of the likeliest of several mixtures, shape (states, columns), and effects, shape (sequences, columns).

    ``counts`` of the ``observed`` cells are at least 0, shape (sequences, steps, columns). Without ``effects`` these
    are 0. Each mixture starts from random cells, larger ones more often.
    """
    counts = np.where(observed[..., None], counts, 0.0)
    sequences, _, width = counts.shape
    if not effects:
        counts, observed = counts.reshape(1, -1, width), observed.reshape(1, -1)
    many, *spread = _taken(counts.shape, size)
    rows, columns = (_evenly(*one) for one in zip(counts.shape, spread, strict=False))
    if not observed[np.ix_(rows, columns)].any():
        rows, columns = (np.arange(many) for many in observed.shape)
    some = counts[np.ix_(rows, columns)], observed[np.ix_(rows, columns)]
    found = _first(*some, fields, size, many, rng)
    found = _fitted(found, *some, fields, STEPS, FEW, effects)
    found = _fitted(found, *some, fields, MORE_STEPS, 1, effects)
    if len(rows) < len(counts):
        whole = found._replace(effects=_own(counts, fields)[None])
        found = _fitted(whole, counts, observed, fields, LAST_STEPS, 1, effects)
    return found.laws[0], found.effects[0] if effects else np.zeros((sequences, width))


def start_numbers(shape: tuple[int, int], width: int, states: int, *, effects: bool) -> int:
    """The most numbers of one array of a start: of all mixtures at first, or of one and all cells at last."""
    shape = shape if effects else (1, math.prod(shape))
    many, rows, columns = _taken((*shape, width), states)
    last = shape[0] * (shape[1] + width) if rows < shape[0] else 0
    return states * max(many * rows * (columns + width), last)


def _taken(shape: tuple[int, ...], states: int) -> tuple[int, int, int]:
    """How many mixtures are fitted at first to how many sequences and steps; ``shape`` is the counts'."""
    rows = min(shape[0], SEQUENCES)
    columns = min(shape[1], max(1, ENOUGH // rows))
    many = MOST_NUMBERS // (states * rows * (columns + shape[2]))
    return min(max(many, LEAST_MIXTURES), MANY), rows, columns


def _evenly(size: int, many: int) -> Integers:
    """As many indices as asked for, evenly spread from 0 to ``size`` - 1."""
    return np.linspace(0, size - 1, many).astype(np.int64)


def _own(counts: Reals, fields: tuple[slice, ...]) -> Reals:
    """The effects of sequences were there one state."""
    pooled = _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    mine = counts.sum(axis=1)
    return np.log(_shares(mine + BEFORE * pooled, fields) / pooled) if len(counts) > 1 else np.zeros_like(mine)


def _first(
    counts: Reals, observed: Flags, fields: tuple[slice, ...], size: int, many: int, rng: np.random.Generator
) -> Mixtures:
    """The first mixtures: each law is the average of a random cell's and of all cells'.

    Every second mixture begins without effects, the others with the effects of one state, as sequences differ both by
    the states that they are in and by themselves.
    """
    own, pooled = _own(counts, fields), _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    places = np.argwhere(observed)
    weight = counts[..., fields[0]].sum(axis=2)[observed] + 1e-3
    picked = places[rng.choice(len(places), size=(many, size), p=weight / weight.sum())]
    rows, columns = picked[..., 0], picked[..., 1]
    effects = np.arange(many)[:, None, None] % 2 * own
    mine = counts[rows, columns] / np.exp(effects[np.arange(many)[:, None], rows])
    laws = 0.5 * (_shares(mine + IN_STATE, fields) + pooled)
    return Mixtures(laws, effects, np.full((many, size), 1 / size))


def _fitted(
    found: Mixtures, counts: Reals, observed: Flags, fields: tuple[slice, ...], steps: int, kept: int, effects: bool
) -> Mixtures:
    """Mixtures after some steps of expectation maximisation, the ``kept`` likeliest of them.

    Given the cells' states a step scales the weight of each level by its entries over those expected, of a state and
    then of a sequence, which raises the likelihood (iterative scaling; Darroch and Ratcliff 1972).
    """
    entries, likely = counts[..., fields[0]].sum(axis=2), np.zeros(len(found.laws))
    mine, pooled = counts.sum(axis=1), _shares(counts.sum(axis=(0, 1)) + 0.5, fields)
    levels = np.concatenate([np.full(columns.stop - columns.start, columns.stop - columns.start) for columns in fields])
    for _ in range(steps):
        laws = _laws(found, fields)
        belongs = counts @ np.swapaxes(np.log(laws), 2, 3)
        belongs += np.log(found.shares)[:, None, None]
        top = belongs.max(axis=3, keepdims=True)
        np.exp(np.subtract(belongs, top, out=belongs), out=belongs)
        total = belongs.sum(axis=3, keepdims=True)
        likely = (np.log(total) + top)[:, observed].sum(axis=(1, 2))
        belongs *= observed[..., None] / total
        of_states = np.swapaxes(belongs, 2, 3) @ entries[..., None]  # (mixtures, sequences, states, 1)
        in_state = np.tensordot(belongs, counts, axes=([1, 2], [0, 1])) + IN_STATE
        expected = (of_states * laws).sum(axis=1) + IN_STATE * levels * found.laws
        shares = belongs.sum(axis=(1, 2)) / observed.sum() + 1e-6
        found = Mixtures(_shares(found.laws * in_state / expected, fields), found.effects, shares)
        if effects:
            expected = (of_states * _laws(found, fields)).sum(axis=2)
            moved = found.effects + np.log((mine + IN_SEQUENCE * pooled) / (expected + IN_SEQUENCE * pooled))
            found = found._replace(effects=KEPT * moved)
    return found.of(np.argsort(-likely)[:kept])


def _laws(found: Mixtures, fields: tuple[slice, ...]) -> Reals:
    """P(level | sequence, state), shape (mixtures, sequences, states, columns)."""
    return np.maximum(_shares(found.laws[:, None] * np.exp(found.effects)[:, :, None], fields), 1e-300)


def rounded_to_total(counts: Reals, entries: Integers) -> Integers:
    """Whole numbers near ``counts`` that sum to ``entries`` along the last axis."""
    share = (counts + 1e-9) / (counts + 1e-9).sum(axis=-1, keepdims=True)
    whole = np.floor(share * entries[..., None]).astype(np.int64)
    left = entries - whole.sum(axis=-1)
    order = np.argsort(np.argsort(whole - share * entries[..., None], axis=-1), axis=-1)
    return whole + (order < left[..., None])


def _shares(counts: Reals, fields: tuple[slice, ...]) -> Reals:
    shares = np.empty_like(counts)
    for columns in fields:
        shares[..., columns] = counts[..., columns] / counts[..., columns].sum(axis=-1, keepdims=True)
    return shares
