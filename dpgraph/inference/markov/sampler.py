"""Gibbs sampling of a hidden Markov model given released counts of an event log (Foulds et al. 2016; proofs.md P61).

Where sequences have effects of their own, P78 has the moves of these.

With ``"noise-aware"`` inference the true cells are sampled too, so the posterior knows what noise can do. With
``"plug-in"`` the released cells, cut at zero, stand for the truth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.interruption import interruptible, side_by_side
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov._kernels import Kernels
from dpgraph.inference.markov.effects import ALONE, Effects, fill_every_field
from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.inference.markov.latent import LatentCells, cells_of_chain, latent_cells, resample_rates
from dpgraph.inference.markov.loops import FEW_ENTRIES
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
        progress: Called with the number of each sweep.

    Raises:
        InferenceError: If a setting is out of range.
    """
    _check(given, states, sampler, inference, {"chains": copies, "iterations": iterations, "burn_in": burn_in})
    kernels = _kernels.compiled() if compiled else _kernels.PLAIN
    if compiled:
        say_that_loops_are_compiled([kernels.sweep_of_effects if effects else kernels.sweep])
    run = _Run(given, states, prior or MarkovPrior(), sampler, inference == "noise-aware", kernels, effects, known)
    state = interruptible(lambda _: run.start(copies, rng))
    own = rng.spawn(copies)
    names = ("transition", "emissions", "states", "log_joint", *(("effects",) if effects else ()))
    kept: dict[str, list[Any]] = {name: [] for name in names}
    entries = np.zeros((copies, *given.shape))

    def swept(stop: threading.Event) -> None:
        for sweep in range(burn_in + iterations):
            if stop.is_set():
                return
            speed = 0.0 if sweep >= burn_in else max(0.05, (1 + sweep) ** -0.6)
            run.sweep(state, own, rng, speed)
            if sweep == burn_in - 1 and state.latent is not None:
                state.latent.tally[:] = 0.0
            if sweep >= burn_in:
                kept["transition"].append(state.transition.copy())
                kept["emissions"].append(state.emissions.copy())
                kept["states"].append(state.states.astype(np.int16))
                kept["log_joint"].append(run.log_joint(state))
                if effects:
                    kept["effects"].append(np.stack([own.effects for own in state.effects]))
                entries[:] += state.counts[..., given.fields[0]].sum(axis=3)
            if progress is not None:
                progress(sweep)

    interruptible(swept)
    stacked = {name: np.stack(values, axis=1) for name, values in kept.items()}
    shares = {} if state.latent is None else state.latent.acceptance()
    return MarkovDraws(entries=entries / iterations, acceptance=shares, **stacked)


@dataclass(eq=False)
class _State:
    """Where all sampler chains are."""

    states: Integers
    transition: Reals
    emissions: Reals
    counts: Integers
    latent: LatentCells | None
    effects: list[Effects]


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

    def start(self, copies: int, rng: np.random.Generator) -> _State:
        """Every chain begins at the best of mixtures of its own."""
        given, observed = self.given, self.given.observed
        released = np.broadcast_to(given.values, (copies, *given.values.shape[1:]))
        found: list[tuple[Reals, Integers]] = []
        for c in range(copies):
            values = released[c]
            counts = shrunken(given, values) if self.aware else clipped_at_zero(values).astype(float)
            emissions = self._first_emissions(counts[observed], rng)
            entries = np.rint(entries_estimate(given, values)).astype(np.int64)
            whole = [rounded_to_total(counts[..., columns], entries) for columns in given.fields]
            found.append((emissions, np.concatenate(whole, axis=2) if self.aware else clipped_at_zero(values)))
        emissions, counts = (np.stack(part) for part in zip(*found, strict=True))
        counts = np.where(observed[..., None], counts, 0)
        latent = latent_cells(given, copies, self.size, counts) if self.aware else None
        states = (counts @ np.swapaxes(np.log(emissions), 1, 2)[:, None]).argmax(axis=3)
        if self.known is not None:
            states = np.repeat(self.known[None].astype(np.int64), copies, axis=0)
        transition = dirichlet_rows(transition_counts(states, self.size) + self.prior.transition, rng)
        effects = [self._first_effects(law) for law in emissions] if self.own else []
        return _State(states, transition, emissions, counts, latent, effects)

    def _first_emissions(self, counts: Reals, rng: np.random.Generator) -> Reals:
        """Those of a mixture; where states are known the first sweep draws them."""
        if self.known is None:
            return fitted_emissions(counts, self.given.fields, self.size, rng)
        even = [np.full((self.size, columns.stop - columns.start), 1.0) for columns in self.given.fields]
        return np.concatenate([law / law.shape[1] for law in even], axis=1)

    def _first_effects(self, emissions: Reals) -> Effects:
        """No effect yet."""
        chains, fields = self.given.shape[0], len(self.given.fields)
        laws = np.zeros((chains * self.size, emissions.shape[1]))
        effects = np.zeros((chains, emissions.shape[1]))
        fill_every_field(self.edges, emissions, effects, laws)
        width = emissions.shape[1]
        reach = [np.full(shape, 0.1) for shape in ((2, self.size, width), (2, chains, width), (2, fields))]
        reach.append(np.full((chains, width), 0.1))
        return Effects(effects, np.full(fields, 0.3), laws, *reach)

    def sweep(self, state: _State, own: list[np.random.Generator], rng: np.random.Generator, speed: float) -> None:
        """States, transitions, emissions, then what is unknown of the cells; each sampler chain has its generator."""
        likelihood = None if self._tables_speak(state) else self._likelihood(state)
        tables = state.counts.reshape(len(state.counts), -1, state.counts.shape[3])
        priors, single = (float(self.prior.transition), float(self.prior.emission)), self.sampler == "collapsed"
        drawn_with_tables = state.latent is not None and not single and self.few

        def move_states(c: int) -> None:
            laws = state.states[c], state.transition[c], state.emissions[c]
            if likelihood is None:
                self.kernels.given_tables(own[c], tables[c], self.edges, *laws, priors, single, drawn_with_tables)
            elif self.own:
                self.kernels.states_alone(own[c], likelihood[c], *laws[:2], priors[0], single)
            else:
                self.kernels.gibbs(own[c], likelihood[c], tables[c], self.edges, *laws, priors, single)

        self._every_chain(move_states, state)
        if self.own and state.latent is None:
            self._move_effects(state, own, speed)
        if state.latent is not None:
            self._move_tables(state, state.latent, own, rng, speed)

    def _tables_speak(self, state: _State) -> bool:
        """Whether states follow from tables and emissions alone."""
        return self.known is None and not self.own and state.counts.dtype == np.int64

    def _every_chain(self, move: Callable[[int], None], state: _State) -> None:
        """Moves every sampler chain: side by side where that is worth threads."""
        chains = range(len(state.states))
        if state.states.size < WORTH_THREADS:
            for c in chains:
                move(c)
        else:
            side_by_side(move, chains)

    def _move_tables(
        self, state: _State, latent: LatentCells, own: list[np.random.Generator], rng: np.random.Generator, speed: float
    ) -> None:
        """Rates, then the moves of ``loops``."""
        resample_rates(latent, self.prior.entries, rng)
        priors = tuple(map(float, (self.prior.transition, self.prior.emission, *self.prior.entries)))

        def move(c: int) -> None:
            transition = state.transition[c] if self.known is None else np.ones((1, 1))
            laws = state.states[c], transition, state.emissions[c]
            cells = cells_of_chain(latent, c)
            if self.own:
                effects = state.effects[c], priors, float(self.prior.effects)
                self.kernels.sweep_of_effects(own[c], cells, *laws, *effects, PASSES, speed)
            else:
                self.kernels.sweep(own[c], cells, *laws, priors, PASSES, speed)

        self._every_chain(move, state)
        state.counts = latent.counts.reshape(state.counts.shape)

    def _move_effects(self, state: _State, own: list[np.random.Generator], speed: float) -> None:
        """States' laws and effects given tables that are taken for true."""
        tables = latent_cells(self.given, len(state.states), self.size, state.counts)
        priors = float(self.prior.emission), float(self.prior.effects)

        def move(c: int) -> None:
            laws = state.states[c], state.emissions[c], state.effects[c]
            self.kernels.given_cells(own[c], cells_of_chain(tables, c), *laws, *priors, speed, ALONE)

        self._every_chain(move, state)

    def _likelihood(self, state: _State) -> Reals:
        """P(cell | state) over the largest of the cell; 1 and 0 where states are known."""
        if self.known is None:
            return relative_likelihood(self._log_emission(state))
        return np.repeat((self.known[..., None] == np.arange(self.size))[None], len(state.states), axis=0).astype(float)

    def _log_emission(self, state: _State) -> Reals:
        """ln P(cell | state) but for what no state changes, shape (copies, chains, steps, states)."""
        copies, chains, steps, width = state.counts.shape
        if self.own:
            laws = np.stack([own.laws for own in state.effects]).reshape(copies, chains, self.size, width)
            return state.counts.astype(float) @ np.swapaxes(np.log(laws), 2, 3)
        flat = state.counts.reshape(copies, chains * steps, width).astype(float)
        product = flat @ np.swapaxes(np.log(state.emissions), 1, 2)
        return product.reshape(copies, chains, steps, self.size)

    def log_joint(self, state: _State) -> Reals:
        """ln P(released, tables, states | parameters) up to a constant, one for each sampler chain."""
        if state.latent is not None:
            rates = float(self.prior.entries[0]), float(self.prior.entries[1])
            every = [cells_of_chain(state.latent, c) for c in range(len(state.states))]
            laws = [own.laws for own in state.effects] if self.own else state.emissions
            rows = zip(every, state.states, state.transition, laws, strict=True)
            return np.array([self.kernels.log_joint(*row, rates) for row in rows])
        emission = self._log_emission(state)
        total = np.take_along_axis(emission, state.states[..., None], 3).sum(axis=(1, 2, 3))
        followed = transition_counts(state.states, self.size)
        return total + (followed * np.log(state.transition)).sum(axis=(1, 2))


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
