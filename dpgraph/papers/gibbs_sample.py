"""Gibbs sampling of a hidden Markov model on private rows, every update charged (Foulds et al. 2016, section 4.1).

Noise on the statistics (``LaplaceMechanism``) is more accurate: docs/mechanisms.md has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.files.codecs import Codec, needed_network, register_codecs, structural
from dpgraph.inference.markov.labels import match_labels
from dpgraph.inference.markov.sampler import MarkovDraws
from dpgraph.mechanisms.reproduction import check_graph, check_network, register_mechanism
from dpgraph.mechanisms.selection.lattice import (
    DEFAULT_GRID,
    MAX_STEPS,
    UNIT,
    check_floor,
    check_grid,
    check_prior_and_floor,
    check_temperature,
    draw_row,
    lattice,
    row_scores,
)
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.privacy.checks import Flags, Integers, Reals, check_choice, check_whole
from dpgraph.privacy.errors import FileError, InferenceError, ReleaseError
from dpgraph.privacy.gdp import rounded
from dpgraph.privacy.measurements import Selection
from dpgraph.privacy.noise import Noise, rho_of_epsilon, selection_scale
from dpgraph.privacy.records import (
    Event,
    Number,
    PrivacyUnit,
    Provenance,
    Release,
    exact,
    exact_delta,
    joined,
    released_value,
)
from dpgraph.structure.domain import Level, NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network, check_markov_network, checked_laws, transition_counts

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

Temperature = Literal["adaptive", "fixed"]
#: So much is added to every transition probability; it costs nothing, transitions read no row.
TRANSITION_FLOOR = 1e-6
#: Bytes of each number of a sweep: as drawn, among those of all sweeps, and as it is kept.
BYTES_PER_KEPT = 24


@dataclass(frozen=True)
class GibbsSample:
    """Releases every sweep of a Gibbs sampler of a hidden Markov model that reads the rows, its likelihood tempered.

    It starts at emissions drawn from the prior. A sweep is: all states given emissions and transitions, one
    forward-filtering draw; all emissions given states; transitions given states, free. All of it is released, so each
    update starts from public values.

    Sensitivity (proofs.md P44): emissions are at least ``floor``, so the log probability of an entry's fields given its
    cell's state ranges over L = sum_f ln((1 - (V_f - 1) floor) / floor), V_f the levels of field f. States and
    emissions are drawn by exponential mechanisms whose score is the sum over entries of ln P(entry | state) / T. An
    entry that appears adds one term, and a replaced one takes a term away and adds one, maybe at another cell: the
    score moves within L / T, or 2 L / T under replace, per row of a person. Each of 2 x sweeps updates is as private as
    that length, by the range form of the exponential mechanism; they share epsilon, or with a delta compose by zCDP
    where that is better, as an update is epsilon^2 / 8-zCDP (Cesar and Rogers 2021).

    Emissions live on a public grid as in ``PosteriorSample``, and every selection is exact: the claim is pure.

    Args:
        epsilon: The whole budget, exact; a float means the decimal it prints as.
        states: The number of hidden states.
        sweeps: How many; two updates each. Few are best at small epsilons, since more sweeps need a higher temperature.
        sequence: The variable whose levels are the sequences.
        time: The variable whose levels are the time steps, in order.
        delta: 0, or the delta at which zCDP is converted.
        prior: The Dirichlet concentration of every emission.
        transition_prior: The Dirichlet concentration of every transition.
        floor: The smallest probability of any level of a field; below 1 / V_f for every field.
        grid: How many values a probability may take; by default 1001 for two levels; at most 201 for more.
        temperature: ``"adaptive"``: the states are charged by the range that the public emissions imply, so T is lower
            while states are similar; ``"fixed"``: the paper's sampler, of the posterior tempered at one T.
        held_out: Cells not to learn from, (sequence, time) pairs of levels; public.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> from dpgraph.structure.network import Network
    >>> cells = {"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]}
    >>> network = Network.of(cells, {"kind": ["region", "month"]})
    >>> mechanism = GibbsSample(1, states=2, sweeps=5, temperature="fixed")
    >>> round(mechanism.largest_temperature(network, PrivacyUnit("replace")), 1)
    58.9
    """

    epsilon: Number
    states: int
    sweeps: int = 3
    sequence: str = "region"
    time: str = "month"
    _: KW_ONLY
    delta: Number = 0
    prior: float = 1.0
    transition_prior: float = 1.0
    floor: float = 0.05
    grid: int | None = None
    temperature: Temperature = "adaptive"
    held_out: tuple[tuple[Level, Level], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact_delta(self.delta))
        for name, value, most in (("states", self.states, 1000), ("sweeps", self.sweeps, 100_000)):
            check_whole(name, value, most=most)
        check_prior_and_floor(self.prior, self.floor)
        check_prior_and_floor(self.transition_prior, self.floor, "transition_prior")
        if self.grid is not None:
            check_grid(self.grid)
        check_choice("temperature", self.temperature, Temperature)
        try:
            object.__setattr__(self, "held_out", tuple((sequence, time) for sequence, time in self.held_out))
            hash(self.held_out)
        except (TypeError, ValueError):
            raise ReleaseError(f"held_out must be (sequence, time) pairs of levels; got {self.held_out!r}") from None

    def event(self, network: Network, unit: PrivacyUnit) -> Event:
        """Two selections a sweep; refuses a network that is not ``hmm_network`` of the sequence and the time."""
        check_graph(network, self)
        _plan(self, network, unit)
        return _event(self)

    def largest_temperature(self, network: Network, unit: PrivacyUnit) -> float:
        """T of the emissions, and with ``temperature="fixed"`` of the states too: an entry counts as 1 / T of one."""
        return _plan(self, network, unit).scale / UNIT

    def working_bytes(self, network: Network) -> int:
        """About how much memory the sweeps take while they are made."""
        cells = int(np.prod(network.shape((self.sequence, self.time))))
        levels = sum(size for name, size in network.domain.sizes.items() if name not in (self.sequence, self.time))
        laws = self.states * (self.states + levels)
        grids = 4 * 8 * (MAX_STEPS + 1) ** 2  # the convolutions of one row's draw
        return grids + BYTES_PER_KEPT * self.sweeps * (cells + laws) + cells * 8 * (3 * self.states + levels)

    def randomise(self, statistics: Counts, unit: PrivacyUnit, noise: Noise) -> MarkovSweeps:
        """Runs the sweeps; ``release`` calls this after the charge."""
        network = statistics.network
        plan = _plan(self, network, unit)
        shape = network.shape((self.sequence, self.time))
        margins = {name: statistics.sensitive_margin((self.sequence, self.time, name)) for name in plan.ranges}
        unseen = _held_out_flags(self, network, shape)[:, :, None]
        counts = {name: np.where(unseen, 0, margin) for name, margin in margins.items()}
        nothing = {name: np.zeros((self.states, c.shape[2]), np.int64) for name, c in counts.items()}
        emissions = self._emissions(nothing, plan, noise)
        transition = self._transition(np.zeros((self.states, self.states), np.int64), noise)
        done: list[tuple[Reals, dict[str, Reals], Integers]] = []
        for _ in range(self.sweeps):
            states = self._states(counts, emissions, transition, plan, noise)
            members = np.arange(self.states)[:, None] == states.ravel()
            totals = {name: members.astype(np.int64) @ c.reshape(states.size, -1) for name, c in counts.items()}
            emissions = self._emissions(totals, plan, noise)
            transition = self._transition(transition_counts(states[None], self.states)[0], noise)
            done.append((transition, emissions, states))
        transitions, laws, paths = zip(*done, strict=True)
        return MarkovSweeps(
            network,
            self.sequence,
            self.time,
            np.stack(transitions),
            FrozenMap((name, np.stack([law[name] for law in laws])) for name in counts),
            np.stack(paths),
        )

    def _emissions(self, totals: Mapping[str, Integers], plan: _Plan, noise: Noise) -> dict[str, Reals]:
        drawn: dict[str, Reals] = {}
        for name, counts in totals.items():
            candidates = lattice(counts.shape[1], self.grid or DEFAULT_GRID, self.floor, "softmax")
            prior = (self.prior - 1) * np.log(candidates.probabilities) * plan.scale
            scores = [row_scores(row, candidates.logs, prior) for row in counts]
            drawn[name] = np.concatenate([draw_row(noise, "softmax", candidates, row, plan.scale, 1) for row in scores])
        return drawn

    def _states(
        self,
        counts: Mapping[str, Integers],
        emissions: Mapping[str, Reals],
        transition: Reals,
        plan: _Plan,
        noise: Noise,
    ) -> Integers:
        logs = {name: plan.whole_logs(name, law) for name, law in emissions.items()}
        scale = plan.scale
        if self.temperature == "adaptive":
            scale = selection_scale(entry_range(logs.values()) * plan.moves, plan.update)
        start = np.full(self.states, 1 / self.states)
        scores = state_scores(counts, logs)
        return np.stack([noise.choose_path(sequence, scale, start, transition) for sequence in scores])

    def _transition(self, followed: Integers, noise: Noise) -> Reals:
        """Transitions given states, which are public: any law would do for privacy. Gamma quantiles, normalised."""
        from scipy.special import gammaincinv

        uniform = [(noise.bits(52) + 0.5) / 2.0**52 for _ in range(followed.size)]
        drawn = gammaincinv(followed + self.transition_prior, np.reshape(uniform, followed.shape))
        law = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-300) + TRANSITION_FLOOR
        return law / law.sum(axis=1, keepdims=True)


class _Plan(NamedTuple):
    """The cost of an update, the scale of its scores, each field's range of logs, and the terms a neighbour changes."""

    update: Fraction
    scale: float
    moves: int
    ranges: FrozenMap[str, tuple[int, int]]

    def whole_logs(self, name: str, law: Reals) -> Integers:
        """Log probabilities in units, within the declared range whatever a library's log rounds to."""
        return np.clip(np.rint(np.log(law) * UNIT).astype(np.int64), *self.ranges[name])


@lru_cache(maxsize=64)
def _plan(mechanism: GibbsSample, network: Network, unit: PrivacyUnit) -> _Plan:
    fields = check_markov_network(network, mechanism.sequence, mechanism.time)
    _held_out_flags(mechanism, network, network.shape((mechanism.sequence, mechanism.time)))
    check_floor(Network.of(network.domain.restrict(fields), {}), mechanism.floor)
    ranges: dict[str, tuple[int, int]] = {}
    for name in fields:
        levels = network.domain.sizes[name]
        logs = lattice(levels, mechanism.grid or DEFAULT_GRID, mechanism.floor, "softmax").logs
        ranges[name] = (0, 0) if levels == 1 else (int(logs[0]), int(logs[-1]))
    moves = unit.rows_per_person * (2 if unit.n_is_public else 1)
    update = _update_epsilon(mechanism)
    scale = selection_scale(sum(high - low for low, high in ranges.values()) * moves, update)
    check_temperature(scale / UNIT, exact(mechanism.epsilon))
    return _Plan(update, scale, moves, FrozenMap(ranges))


def _event(mechanism: GibbsSample) -> Event:
    """The cost of all updates: epsilon, delta and the number of sweeps determine it."""
    update, updates = _update_epsilon(mechanism), 2 * mechanism.sweeps
    rho = rounded(update**2 * updates / 8, up=True)
    pure = update * updates <= exact(mechanism.epsilon)
    delta = Fraction(0) if pure else exact(mechanism.delta, zero=True)
    chosen = (Selection("softmax", update, updates),)
    return Event("GibbsSample", exact(mechanism.epsilon), delta, rho=rho, selections=chosen)


def _update_epsilon(mechanism: GibbsSample) -> Fraction:
    """The epsilon of one update: an equal share of the whole, or by zCDP at delta where that is more."""
    epsilon, delta, updates = exact(mechanism.epsilon), exact(mechanism.delta, zero=True), 2 * mechanism.sweeps
    share = epsilon / updates
    if delta == 0:
        return share
    square = 8 * rho_of_epsilon(epsilon, delta) / updates
    root = rounded(Fraction(float(square) ** 0.5), up=False)
    while root**2 > square:
        root = rounded(root * (1 - Fraction(1, 10**11)), up=False)
    return max(share, root)


def _held_out_flags(mechanism: GibbsSample, network: Network, shape: tuple[int, ...]) -> Flags:
    flags = np.zeros(shape, bool)
    for sequence, time in mechanism.held_out:
        flags[network.domain.code(mechanism.sequence, sequence), network.domain.code(mechanism.time, time)] = True
    return flags


def state_scores(counts: Mapping[str, Integers], logs: Mapping[str, Integers]) -> npt.NDArray[Any]:
    """sum_f sum_v counts ln phi in units, exact, shape (chains, steps, states)."""
    most = sum(int(c.sum()) * int(np.abs(logs[name]).max()) for name, c in counts.items())
    kind: Any = np.int64 if most < 2**61 else object
    return sum((c.astype(kind) @ logs[name].astype(kind).T for name, c in counts.items()), start=np.zeros((), kind))


def entry_range(logs: Iterable[Integers]) -> int:
    """The largest difference of ln P(entry | state) between two states, over all possible entries, in units."""
    apart: Any = 0
    for law in logs:
        apart = apart + (law[:, None, :] - law[None, :, :]).max(axis=2)
    return int(np.max(apart))


@dataclass(frozen=True, eq=False)
class MarkovSweeps:
    """The states, emissions and transitions of every sweep; state labels may switch between sweeps.

    Attributes:
        network, sequence, time: As of ``GibbsSample``.
        transition: P(next state | state), shape (sweeps, states, states).
        emissions: For each field P(level | state), shape (sweeps, states, levels).
        states: Shape (sweeps, sequences, steps).
        provenance: The record of the release.

    Raises:
        NetworkError: If the parts do not fit each other.
    """

    network: Network
    sequence: str
    time: str
    transition: Reals
    emissions: FrozenMap[str, Reals]
    states: Integers
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        fields = check_markov_network(self.network, self.sequence, self.time)
        object.__setattr__(self, "transition", frozen_array(self.transition, np.float64))
        object.__setattr__(self, "states", frozen_array(self.states, np.int64))
        sweeps, size = self.transition.shape[:2] if self.transition.ndim == 3 else (0, 0)
        if self.transition.shape != (sweeps, size, size) or not self.transition.size:
            raise NetworkError(f"the transitions have the wrong shape {self.transition.shape}")
        if self.states.shape != (sweeps, *self.network.shape((self.sequence, self.time))):
            raise NetworkError(f"the states have the wrong shape {self.states.shape}")
        frozen = checked_laws(self.network, fields, self.transition, self.emissions, self.states)
        object.__setattr__(self, "emissions", frozen)

    @property
    def sweeps(self) -> int:
        """The number of sweeps, in the order they were made."""
        return self.transition.shape[0]

    @property
    def n_states(self) -> int:
        """The number of hidden states."""
        return self.transition.shape[1]

    def __repr__(self) -> str:
        return f"MarkovSweeps({self.n_states} states, {len(self.emissions)} fields, {self.sweeps} sweeps)"


def sampled_markov_model(sweeps: MarkovSweeps | Release[Any], keep: int | None = None) -> HiddenMarkovModel:
    """The last sweeps of a release by ``GibbsSample`` as draws of a model; free.

    They are draws of a tempered posterior, once the sampler has forgotten its start, and spread more widely than the
    posterior. ``entries`` is 0 everywhere, as nothing is known of their number; ``log_joint`` is the log probability of
    the states given the transitions.

    Args:
        sweeps: The release, or its value.
        keep: How many of the last sweeps; by default half of them, rounded up.

    Raises:
        InferenceError: If the value is of another kind or ``keep`` is out of range.
    """
    value, provenance = released_value(sweeps)
    if not isinstance(value, MarkovSweeps):
        raise InferenceError(f"sampled_markov_model takes a release of GibbsSample; got {type(value).__name__}")
    last = math.ceil(value.sweeps / 2) if keep is None else keep
    if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= value.sweeps:
        raise InferenceError(f"keep must be a whole number from 1 to {value.sweeps}, the sweeps; got {keep!r}")
    transition, states = value.transition[-last:], value.states[-last:]
    followed = transition_counts(states, value.n_states)
    log_joint = (followed * np.log(np.maximum(transition, 1e-300))).sum(axis=(1, 2))
    laws = [law[-last:] for law in value.emissions.values()]
    edges = np.cumsum([0, *(law.shape[2] for law in laws)]).tolist()
    fields = tuple(slice(a, b) for a, b in pairwise(edges))
    entries = np.zeros(states.shape[1:])
    side_by_side = np.concatenate(laws, axis=2)
    draws = MarkovDraws(transition[None], side_by_side[None], states[None], entries[None], log_joint[None], {})
    named = match_labels(draws, fields)
    return HiddenMarkovModel(
        value.network,
        value.sequence,
        value.time,
        named.transition,
        FrozenMap((name, named.emissions[..., c]) for name, c in zip(value.emissions, fields, strict=True)),
        named.states,
        named.log_joint,
        entries,
        "private-gibbs",
        "blocked",
        provenance=joined([provenance, value.provenance]),
    )


def _check_sweeps(sweeps: MarkovSweeps, provenance: Provenance | None) -> None:
    if provenance is None or sum(one.draws for one in provenance.event.selections) != 2 * sweeps.sweeps:
        raise FileError("the sweeps are not as many as the event made")


def _replanned(event: Event, unit: PrivacyUnit, structure: Any) -> Event:
    check_network(structure, GibbsSample)
    (chosen,) = event.selections or (Selection("softmax", event.epsilon, 2),)
    return _event(GibbsSample(event.epsilon, 1, chosen.draws // 2, delta=event.delta))


register_mechanism("GibbsSample", _replanned)
register_codecs(
    Codec(
        "released",
        "markov-sweeps",
        MarkovSweeps,
        *structural(MarkovSweeps, _check_sweeps),
        attrgetter("network"),
        needed_network,
    )
)
