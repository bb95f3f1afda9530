"""Gibbs sampling of a hidden Markov model given released counts of an event log (Foulds et al. 2016; proofs.md P61).

Where sequences have effects of their own, P78 has the moves of these.

With ``"noise-aware"`` inference the true cells are sampled too, so the posterior knows what noise can do. With
``"plug-in"`` the released cells, cut at zero, stand for the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.interruption import stop_flag
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov._kernels import Kernels
from dpgraph.inference.markov.effects import ALONE, Effects, fill_every_field
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.inference.markov.latent import LatentCells, acceptance_of, alike_cells, cells_of_chain, latent_cells
from dpgraph.inference.markov.loops import ALL_DIFFER, FEW_ENTRIES, MOVES
from dpgraph.inference.markov.starts import (
    clipped_at_zero,
    entries_estimate,
    fitted_emissions,
    rounded_to_total,
    shrunken,
)
from dpgraph.inference.progress import say_that_loops_are_compiled
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.markov import transition_counts
from dpgraph.structure.tables import Integers, Reals

#: How often a sweep moves the tables, once the states are drawn.
PASSES = 3
#: Cells of all sampler chains from which these run side by side.
WORTH_THREADS = 4000

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
    """What the sampler chains drew after burn-in, labels as they came.

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


def draw_markov(
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
) -> MarkovDraws:
    """Draws states, transitions and emissions given a release; several sampler chains side by side.

    Args:
        given: The released cells; the chains share one copy, or have one each.
        states: The number of hidden states, at most the number of observed cells.
        rng: Randomness for post-processing.
        prior: Concentrations; 1 everywhere by default.
        sampler: ``"blocked"`` draws whole chains of states, ``"collapsed"`` single states with the transitions
            integrated out, as the paper.
        inference: ``"noise-aware"`` or ``"plug-in"``.
        copies: Independent sampler chains.
        iterations: Draws of each after burn-in.
        burn_in: Sweeps before the first draw, while the sizes of moves adapt.
        effects: Whether sequences have emission effects of their own.
        known: The state of each cell where it is not hidden, shape (chains, steps); transitions then say nothing.
        compiled: False runs the same loops as plain Python: the same draws, a hundred times slower, for tests.
        progress: Called with the number of each sweep when all chains have made as many more on average.

    Raises:
        InferenceError: If a setting is out of range.
    """
    _check(given, states, sampler, inference, {"chains": copies, "iterations": iterations, "burn_in": burn_in})
    kernels = _kernels.compiled() if compiled else _kernels.PLAIN
    if compiled:
        say_that_loops_are_compiled([kernels.sweep_of_effects if effects else kernels.sweep])
    plan = Plan(iterations, burn_in)
    run = _Run(given, states, prior or MarkovPrior(), sampler, inference == "noise-aware", kernels, effects, known)
    run.prepare()
    in_threads = copies * given.observed.size >= WORTH_THREADS
    start = partial(_Chain, run, plan)
    done = run_chains(start, plan, rng.spawn(copies), progress, in_threads=in_threads)

    def stacked(name: str) -> Any:
        return np.stack([getattr(one, name) for one in done])

    return MarkovDraws(
        stacked("transition"),
        stacked("emissions"),
        stacked("states"),
        stacked("entries") / iterations,
        stacked("log_joint"),
        acceptance_of(stacked("tally")) if run.aware else {},
        stacked("effects") if effects else None,
    )


class _Chain:
    """One sampler chain and its draws, as in ``MarkovDraws``."""

    def __init__(self, run: _Run, plan: Plan, number: int, rng: np.random.Generator) -> None:
        self._run, self._plan, self._rng, self._stop = run, plan, rng, stop_flag()
        self._state = run.start(number, rng)
        given, size, width, draws = run.given, run.size, run.given.values.shape[3], plan.draws
        self.transition, self.emissions = np.empty((draws, size, size)), np.empty((draws, size, width))
        self.states, self.entries = np.empty((draws, *given.shape), np.int16), np.zeros(given.shape)
        self.log_joint, self.effects = np.empty(draws), np.empty((draws if run.own else 0, given.shape[0], width))

    @property
    def tally(self) -> Reals:
        """Accepted and tried moves of each kind after burn-in."""
        latent = self._state.latent
        return np.zeros((len(MOVES), 2)) if latent is None else latent.tally[0]

    def sweep(self, i: int) -> None:
        """A sweep; the sizes of moves adapt during burn-in."""
        latent = self._state.latent
        if i == self._plan.burn_in and latent is not None:
            latent.tally[:] = 0.0
        speed = 0.0 if i >= self._plan.burn_in else max(0.05, (1 + i) ** -0.6)
        self._run.sweep(self._state, self._rng, speed, self._stop)

    def keep(self, draw: int) -> None:
        """Keeps states, tables and their log density."""
        state = self._state
        self.transition[draw], self.emissions[draw], self.states[draw] = state.transition, state.emissions, state.states
        self.log_joint[draw] = self._run.log_joint(state)
        self.entries += state.counts[..., self._run.given.fields[0]].sum(axis=2)
        if state.effects is not None:
            self.effects[draw] = state.effects.effects


@dataclass(eq=False)
class _State:
    """Where a sampler chain is: states of shape (chains, steps), tables of shape (chains, steps, columns)."""

    states: Integers
    transition: Reals
    emissions: Reals
    counts: Integers
    latent: LatentCells | None
    effects: Effects | None


@dataclass(frozen=True, eq=False)
class _Run:
    """One problem and how it is sampled."""

    given: LogEvidence
    size: int
    prior: MarkovPrior
    sampler: str
    aware: bool
    kernels: Kernels
    own: bool
    known: Integers | None

    @property
    def edges(self) -> Integers:
        """Where each field's columns start, and the end."""
        return np.array([0, *(columns.stop for columns in self.given.fields)], np.int64)

    @cached_property
    def few(self) -> bool:
        """Whether cells were released with few entries on average: ``switch`` then draws states well by itself."""
        released = self.given.values[:, self.given.observed][..., self.given.fields[0]]
        return self.known is None and self.size > 1 and bool(released.sum(axis=-1).mean() <= FEW_ENTRIES)

    def prepare(self) -> None:
        """What the sampler chains share is computed once, before they begin."""
        if self.aware:
            self.alike  # noqa: B018
        self.few  # noqa: B018

    @cached_property
    def alike(self) -> list[npt.NDArray[np.int32]]:
        """Which cells of each copy of the release are alike; laws that differ by sequence leave none alike."""
        if self.own or not self.few:
            return [ALL_DIFFER] * len(self.given.values)
        return [alike_cells(values, self.given.squares) for values in self.given.values]

    def start(self, c: int, rng: np.random.Generator) -> _State:
        """A sampler chain begins at the best of mixtures of its own."""
        own = c % len(self.given.values)
        given = replace(self.given, values=self.given.values[own : own + 1])
        observed, values = given.observed, given.values[0]
        counts = shrunken(given, values) if self.aware else clipped_at_zero(values).astype(float)
        emissions = self._first_emissions(counts[observed], rng)
        entries = np.rint(entries_estimate(given, values)).astype(np.int64)
        whole = [rounded_to_total(counts[..., columns], entries) for columns in given.fields]
        counts = np.concatenate(whole, axis=2) if self.aware else clipped_at_zero(values)
        counts = np.where(observed[..., None], counts, 0)
        latent = latent_cells(given, 1, self.size, counts[None], self.alike[own]) if self.aware else None
        states = (counts @ np.log(emissions).T).argmax(axis=2) if self.known is None else self.known.astype(np.int64)
        transition = dirichlet_rows(transition_counts(states[None], self.size)[0] + self.prior.transition, rng)
        return _State(states, transition, emissions, counts, latent, self._first_effects(emissions))

    def _first_emissions(self, counts: Reals, rng: np.random.Generator) -> Reals:
        """Those of a mixture; where states are known the first sweep draws them."""
        if self.known is None:
            return fitted_emissions(counts, self.given.fields, self.size, rng)
        even = [np.full((self.size, columns.stop - columns.start), 1.0) for columns in self.given.fields]
        return np.concatenate([law / law.shape[1] for law in even], axis=1)

    def _first_effects(self, emissions: Reals) -> Effects | None:
        """No effect yet."""
        if not self.own:
            return None
        chains, fields = self.given.shape[0], len(self.given.fields)
        laws = np.zeros((chains * self.size, emissions.shape[1]))
        effects = np.zeros((chains, emissions.shape[1]))
        fill_every_field(self.edges, emissions, effects, laws)
        width = emissions.shape[1]
        reach = [np.full(shape, 0.1) for shape in ((2, self.size, width), (2, chains, width), (2, fields))]
        reach.append(np.full((chains, width), 0.1))
        return Effects(effects, np.full(fields, 0.3), laws, *reach)

    def sweep(self, state: _State, rng: np.random.Generator, speed: float, stop: Integers) -> None:
        """States, transitions, emissions, then what is unknown of the cells, of one sampler chain."""
        tables = state.counts.reshape(-1, state.counts.shape[2])
        priors, single = (float(self.prior.transition), float(self.prior.emission)), self.sampler == "collapsed"
        laws = state.states, state.transition, state.emissions
        if self._tables_speak(state):
            drawn_with_tables = state.latent is not None and not single and self.few
            self.kernels.given_tables(rng, tables, self.edges, *laws, priors, single, drawn_with_tables)
        elif self.own:
            self.kernels.states_alone(rng, self._likelihood(state), *laws[:2], priors[0], single)
        else:
            self.kernels.gibbs(rng, self._likelihood(state), tables, self.edges, *laws, priors, single)
        if state.latent is not None:
            self._move_tables(state, state.latent, rng, speed, stop)
        elif state.effects is not None:
            self._move_effects(state, state.effects, rng, speed)

    def _tables_speak(self, state: _State) -> bool:
        """Whether states follow from tables and emissions alone."""
        return self.known is None and not self.own and state.counts.dtype == np.int64

    def _move_tables(
        self, state: _State, latent: LatentCells, rng: np.random.Generator, speed: float, stop: Integers
    ) -> None:
        """Rates, then the moves of ``loops``."""
        priors = tuple(map(float, (self.prior.transition, self.prior.emission, *self.prior.entries)))
        transition = state.transition if self.known is None else np.ones((1, 1))
        laws, cells = (state.states, transition, state.emissions), cells_of_chain(latent, 0, stop)
        if state.effects is not None:
            effects = state.effects, priors, float(self.prior.effects)
            self.kernels.sweep_of_effects(rng, cells, *laws, *effects, PASSES, speed)
        else:
            self.kernels.sweep(rng, cells, *laws, priors, PASSES, speed)
        state.counts = latent.counts.reshape(state.counts.shape)

    def _move_effects(self, state: _State, effects: Effects, rng: np.random.Generator, speed: float) -> None:
        """States' laws and effects given tables that are taken for true."""
        tables = cells_of_chain(latent_cells(self.given, 1, self.size, state.counts[None]), 0)
        priors = float(self.prior.emission), float(self.prior.effects)
        self.kernels.given_cells(rng, tables, state.states, state.emissions, effects, *priors, speed, ALONE)

    def _likelihood(self, state: _State) -> Reals:
        """P(cell | state) over the largest of the cell; 1 and 0 where states are known."""
        if self.known is None:
            return relative_likelihood(self._log_emission(state))
        return (self.known[..., None] == np.arange(self.size)).astype(float)

    def _log_emission(self, state: _State) -> Reals:
        """ln P(cell | state) but for what no state changes, shape (chains, steps, states)."""
        if state.effects is None:
            return state.counts.astype(float) @ np.log(state.emissions).T
        laws = state.effects.laws.reshape(len(state.counts), self.size, -1)
        return state.counts.astype(float) @ np.swapaxes(np.log(laws), 1, 2)

    def log_joint(self, state: _State) -> float:
        """ln P(released, tables, states | parameters) of a sampler chain, up to a constant."""
        if state.latent is not None:
            rates = float(self.prior.entries[0]), float(self.prior.entries[1])
            laws = state.emissions if state.effects is None else state.effects.laws
            cells = cells_of_chain(state.latent, 0)
            return self.kernels.log_joint(cells, state.states, state.transition, laws, rates)
        emission = np.take_along_axis(self._log_emission(state), state.states[..., None], 2).sum()
        followed = transition_counts(state.states[None], self.size)[0]
        return float(emission + (followed * np.log(state.transition)).sum())


def relative_likelihood(log_emission: Reals) -> Reals:
    """Likelihoods over the largest of each cell: logs end here, where nothing can overflow or vanish altogether."""
    top = log_emission[..., 0].copy()
    for k in range(1, log_emission.shape[-1]):
        np.maximum(top, log_emission[..., k], out=top)
    return np.exp(log_emission - top[..., None])


def dirichlet_rows(concentration: npt.NDArray[Any], rng: np.random.Generator) -> Reals:
    """Dirichlet draws along the last axis, every entry above 0."""
    drawn = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return np.maximum(drawn / drawn.sum(axis=-1, keepdims=True), 1e-300)


def _check(given: LogEvidence, states: int, sampler: str, inference: str, numbers: dict[str, int]) -> None:
    """Refuses settings out of range."""
    check_settings(states, sampler, inference, numbers)
    if states > given.observed.sum():
        raise InferenceError(f"n_states must be at most the {given.observed.sum()} observed cells; got {states}")
    if len(given.values) not in (1, numbers["chains"]):
        raise InferenceError(f"{len(given.values)} copies of the cells do not fit {numbers['chains']} sampler chains")


def check_settings(states: int, sampler: str, inference: str, numbers: dict[str, int]) -> None:
    """Refuses settings that no log allows.

    Raises:
        InferenceError: Naming the setting.
    """
    for name, value, choices in (("sampler", sampler, Sampler), ("inference", inference, Inference)):
        if value not in get_args(choices):
            raise InferenceError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}; got {value!r}")
    lowest = {"burn_in": 0}
    for name, value in {"n_states": states, **numbers}.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest.get(name, 1):
            raise InferenceError(f"{name} must be a whole number, at least {lowest.get(name, 1)}; got {value!r}")
