"""The hidden Markov model of an event log: declared sequences and time steps, a hidden state in each cell.

Its statistics are the families {field | sequence, time} of a network, so the same counting and the same door serve.
Given the state of a cell its entries' fields are independent (Foulds et al. 2016, section 4; proofs.md P61).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_probability, check_whole_number, generator, tails
from dpgraph.inference.draws import MOST_R_HAT, mixing_note
from dpgraph.inference.markov.evidence import Flags, field_names
from dpgraph.inference.markov.labels import centred_spread, label_invariant_diagnostics, r_hat_of_predictions
from dpgraph.inference.network import queries
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.privacy.checks import near
from dpgraph.privacy.display import DataFrame, as_html, cell, data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.conversion import added, columns_to_predict, in_blocks
from dpgraph.structure.domain import Domain, Level, NetworkError, hole_codes
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network, checked_laws
from dpgraph.structure.tables import Integers, Reals

#: Weights of a step beside that of the next, and sizes of negative binomial laws, that a forecast of counts tries.
KEPT, SIZES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9), np.exp(np.linspace(-2, 5, 36)).tolist()
#: The least mean of a count.
LEAST = 0.1


def sequence_laws(emission: Reals, effects: Reals | None) -> Reals:
    """P(level | sequence, state), proportional to the state's law times e^effect (proofs.md P78).

    >>> sequence_laws(np.array([[[0.5, 0.5]]]), np.log([[[1.0, 3.0]]])).round(2).tolist()
    [[[[0.25, 0.75]]]]
    """
    if effects is None:
        return emission[:, None]
    weight = emission[:, None] * np.exp(effects - effects.max(axis=-1, keepdims=True))[:, :, None]
    return weight / weight.sum(axis=-1, keepdims=True)


def later_times(levels: Sequence[Level], steps: int) -> list[Any]:
    """The times after the last level of evenly spaced numbers or dates; else that level + 1, + 2 and so on.

    >>> later_times(("2023-11", "2023-12"), 2)
    ['2024-01', '2024-02']
    """
    import pandas as pd

    if all(isinstance(level, int) and not isinstance(level, bool) for level in levels):
        gaps = set(np.diff(np.array(levels, np.int64)).tolist())
        if len(gaps) == 1:
            (gap,) = gaps
            return [int(levels[-1]) + gap * step for step in range(1, steps + 1)]
    for form, unit in (("%Y-%m", "M"), ("%Y-%m-%d", "D")):
        dates = pd.to_datetime(pd.Series(levels, dtype=object).astype(str), format=form, errors="coerce")
        numbers = dates.dt.to_period(unit).astype("int64").diff().iloc[1:]
        if dates.notna().all() and numbers.nunique() == 1:
            last, gap = dates.iloc[-1].to_period(unit), int(numbers.iloc[0])
            return [(last + gap * step).strftime(form) for step in range(1, steps + 1)]
    return [f"{levels[-1]} + {step}" for step in range(1, steps + 1)]


def count_law(entries: Reals, ahead: int) -> tuple[Reals, float]:
    """The mean and the size of the negative binomial law of each sequence's number of entries some steps ahead.

    Earlier steps weigh less; weights and spread, the same for all sequences, forecast the past steps best.
    """
    steps, levels = np.arange(entries.shape[1]), []
    age = steps[:, None] - steps
    for kept in KEPT:
        weight = np.where(age >= 0, kept ** np.maximum(age, 0), 0.0)
        weight /= weight.sum(axis=1, keepdims=True)
        levels.append(np.maximum(entries @ weight.T, LEAST))
    made, later = slice(1, entries.shape[1] - ahead), slice(1 + ahead, None)
    fits = [nbinom_logpmf(entries[:, later], mean[:, made], size) for mean in levels for size in SIZES]
    at, size = divmod(int(np.argmax(fits)), len(SIZES))
    return levels[at][:, -1], SIZES[size]


def nbinom_logpmf(value: Reals, mean: Reals, size: float) -> float:
    """The sum of ln P of values, whole numbers or not, by negative binomial laws of variance mean + mean^2 / size."""
    from scipy.special import gammaln

    log = gammaln(value + size) - gammaln(size) - gammaln(value + 1) + value * np.log(mean / (mean + size))
    return float((log + size * np.log(size / (mean + size))).sum())


def most_likely_paths(states: Integers, size: int) -> Integers:
    """The path of highest probability of each sequence under the chain of its pairs of neighbouring states.

    An approximation, since the posterior is a mixture of such chains (Viterbi; Rabiner 1989, III.B; proofs.md P116).

    >>> paths = np.array([[[0, 0, 1]], [[0, 0, 1]], [[1, 0, 0]]])
    >>> most_likely_paths(paths, 2)
    array([[0, 0, 1]])
    """
    _, sequences, steps = states.shape
    with np.errstate(divide="ignore"):
        score = np.log(np.stack([(states[:, :, 0] == k).mean(axis=0) for k in range(size)], axis=1))
        before = np.zeros((steps, sequences, size), np.int64)
        for t in range(1, steps):
            pairs = np.zeros((sequences, size, size))
            np.add.at(pairs, (np.arange(sequences)[None], states[:, :, t - 1], states[:, :, t]), 1.0)
            total = score[:, :, None] + np.log(pairs / np.maximum(pairs.sum(axis=2, keepdims=True), 1.0))
            before[t], score = total.argmax(axis=1), total.max(axis=1)
    paths = np.zeros((sequences, steps), np.int64)
    paths[:, -1] = score.argmax(axis=1)
    for t in range(steps - 1, 0, -1):
        paths[:, t - 1] = before[t, np.arange(sequences), paths[:, t]]
    return paths


#: R-hat of predictions is of so many sequences at most.
JUDGED = 500


def hmm_network(domain: Domain, sequence: str, time: str) -> Network:
    """The network with an arc from the sequence and from the time to every other variable.

    Its maximal families are the tables {field, sequence, time}: one entry of the log moves each by 1 under add/remove
    and by 2 under replace, wherever it goes. Sequences and times are declared, so an empty cell is a cell.

    Raises:
        NetworkError: If the sequence or the time is not declared or has unobserved values, both are the same, there is
            no field, or one has the name that another's holes need.

    >>> domain = Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    >>> hmm_network(domain, "region", "month").maximal_families
    (('kind', 'region', 'month'),)
    """
    domain = Domain.of(domain)
    for name, value in (("sequence", sequence), ("time", time)):
        if not isinstance(value, str) or value not in domain:
            hint = near(value, domain.names)
            raise NetworkError(
                f"{name}={value!r} is not declared{hint}; {name}=... must be one of the domain's variables: "
                f"{', '.join(domain.names)}"
            )
    if sequence == time:
        raise NetworkError(f"sequence and time must be two variables; got {sequence!r} for both")
    if len(domain.names) < 3:
        raise NetworkError(f"a hidden Markov model needs a field besides {sequence!r} and {time!r}; declare one")
    for name in domain.holes:
        if name in (sequence, time):
            raise NetworkError(f"an entry without {name!r} has no cell: declare its nulls a level, or leave them out")
        if (sign := queries.indicator(name)) in domain:
            raise NetworkError(f"{sign!r} is a variable, and the name of one that holes need; rename it")
    parents = {name: [] if name in (sequence, time) else [sequence, time] for name in domain.names}
    return Network.of(domain, parents)


def cell_flags(domain: Domain, sequence: str, time: str, cells: Any) -> Flags:
    """Rows that name cells as flags, shape (sequences, steps)."""
    codes = columns_to_predict(cells, domain.restrict((sequence, time)))
    flags = np.zeros((domain.sizes[sequence], domain.sizes[time]), bool)
    flags[codes[sequence], codes[time]] = True
    return flags


@dataclass(frozen=True)
class StateChoice:
    """The score of each number of states on cells of the release that it did not learn from, and the chosen number.

    Attributes:
        states: The numbers that were tried, from 1.
        scores: Released entries times ln P(level), summed over fields, for each released entry: without bias the score
            of the true entries.
        deviations: The standard deviation, from noise, of a score's distance to the best one.
        chosen: The smallest number of states whose score is within that deviation of the best.
    """

    states: tuple[int, ...]
    scores: tuple[float, ...]
    deviations: tuple[float, ...]
    chosen: int

    def __post_init__(self) -> None:
        sizes = {len(self.states), len(self.scores), len(self.deviations)}
        numbers = np.array([*self.scores, *self.deviations], float)
        if len(sizes) != 1 or self.chosen not in self.states or not np.isfinite(numbers).all():
            raise InferenceError("the scores of a choice of states do not fit the numbers of states tried")

    def to_frame(self) -> DataFrame:
        """A row for each number of states: score, deviation, chosen.

        >>> StateChoice((1, 2), (-4.5, -4.4), (0.05, 0.0), 2).to_frame().loc[2, "chosen"]
        np.True_
        """
        columns = {"score": self.scores, "deviation": self.deviations, "chosen": np.equal(self.states, self.chosen)}
        return data_frame(columns, index=list(self.states)).rename_axis("states")


@dataclass(frozen=True, eq=False)
class HiddenMarkovModel:
    """Draws from the posterior of a hidden Markov model, states named alike in all of them.

    A value declared ``missing=dg.UNOBSERVED`` is missing with a probability that depends on the state (and on the
    sequence, with effects), but given these not on the value, so the levels have the law of entries without holes
    (proofs.md P123). A hole is evidence of the state, and scores count it; predictions, forecasts and synthetic entries
    are of values.

    Attributes:
        network: As ``hmm_network``.
        sequence: The variable whose levels are the sequences.
        time: The variable whose levels are the time steps, in order.
        transition: P(next state | state), shape (copies, draws, states, states); copies are sampler chains.
        emissions: For each field P(released level | state), shape (copies, draws, states, levels); a level for nulls is
            one of them. ``mean_emission`` and ``emission_draws`` are of values.
        states: Shape (copies, draws, sequences, steps).
        log_joint: ln of the joint probability of each draw, up to a constant, shape (copies, draws).
        entries: The expected number of entries of each cell, shape (sequences, steps).
        inference: ``"noise-aware"`` or ``"plug-in"``.
        sampler: ``"blocked"`` or ``"collapsed"``.
        acceptance: The share of accepted moves by their name.
        provenance: The release, the protected unit, and the privacy of the noise.
        effects: For each field what each sequence adds to the log weight of each level, whatever the state, shape
            (copies, draws, sequences, levels); empty where sequences have no effects. ``emissions`` is then the law of
            a sequence without any.
        choice: How the number of states was chosen, where it was.
    """

    network: Network
    sequence: str
    time: str
    transition: Reals
    emissions: FrozenMap[str, Reals]
    states: Integers
    log_joint: Reals
    entries: Reals
    inference: str
    sampler: str
    acceptance: Mapping[str, float] = field(default_factory=lambda: FrozenMap({}))
    provenance: Provenance | None = None
    effects: Mapping[str, Reals] = field(default_factory=lambda: FrozenMap({}))
    choice: StateChoice | None = None

    def __post_init__(self) -> None:
        if self.network.parents != hmm_network(self.network.domain, self.sequence, self.time).parents:
            raise NetworkError(f"the network is not a hidden Markov network of {self.sequence!r} and {self.time!r}")
        copies, draws, size = np.shape(self.transition)[:3] if np.ndim(self.transition) == 4 else (0, 0, 0)
        sequences, steps = self.network.shape((self.sequence, self.time))
        wanted = {"transition": (copies, draws, size, size), "states": (copies, draws, sequences, steps)}
        wanted |= {"log_joint": (copies, draws), "entries": (sequences, steps)}
        for name, shape in wanted.items():
            array = frozen_array(getattr(self, name), np.int16 if name == "states" else np.float64)
            if array.shape != shape or array.size == 0 or not np.isfinite(array).all():
                raise NetworkError(f"the draws of {name} do not fit the others: shape {array.shape}, not {shape}")
            object.__setattr__(self, name, array)
        laws = checked_laws(self.network, self.fields, self.transition, self.emissions, self.states)
        object.__setattr__(self, "emissions", laws)
        object.__setattr__(self, "acceptance", FrozenMap(dict(self.acceptance)))
        if self.effects and set(self.effects) != set(self.fields):
            raise NetworkError("every field needs the effects of sequences, or none does")
        effects = FrozenMap((name, frozen_array(value, np.float64)) for name, value in self.effects.items())
        for name, value in effects.items():
            shape = (copies, draws, sequences, self.network.domain.sizes[name])
            if value.shape != shape or not np.isfinite(value).all():
                raise NetworkError(f"the effects of sequences on {name!r} do not fit: shape {value.shape}")
        object.__setattr__(self, "effects", effects)

    @property
    def fields(self) -> tuple[str, ...]:
        """Every variable but the sequence and the time."""
        return field_names(self.network, self.sequence, self.time)

    @cached_property
    def people(self) -> Domain:
        """The variables with their own levels, and for each with holes one that says whether its value is missing."""
        return queries.people_of(self.network.domain)

    @property
    def emitted(self) -> tuple[str, ...]:
        """The variables of ``people`` but the sequence and the time, which predictions are about."""
        return tuple(name for name in self.people.names if name not in (self.sequence, self.time))

    @property
    def n_states(self) -> int:
        """The number of hidden states."""
        return self.transition.shape[2]

    @property
    def mean_transition(self) -> Reals:
        """The posterior mean of P(next state | state), shape (states, states)."""
        return self.transition.mean(axis=(0, 1))

    def mean_emission(self, name: str) -> Reals:
        """The posterior mean of P(level | state) of one of ``emitted``, shape (states, levels)."""
        return self.emission_draws(name).mean(axis=(0, 1))

    def emission_draws(self, name: str) -> Reals:
        """Draws of P(level | state) of one of ``emitted``, shape (copies, draws, states, levels)."""
        return self._of_people(name, self.emissions.__getitem__)

    def sequence_laws(self, name: str) -> Reals:
        """P(level | sequence, state) of one of ``emitted``, shape (draws, sequences or 1, states, levels).

        One for all sequences without effects.
        """
        return self._of_people(name, self.released_laws)

    def _of_people(self, name: str, released: Callable[[str], Reals]) -> Reals:
        """The law of values, or of whether one is missing, from that of the released levels."""
        signs = {queries.indicator(one): one for one in self.network.domain.holes}
        law = released(signs.get(name, name))
        if name not in signs and name not in signs.values():
            return law
        code, own = hole_codes(self.network.domain[signs.get(name, name)])
        if name in signs:
            return np.stack([1 - law[..., code], law[..., code]], axis=-1)
        seen = law[..., own]
        total = seen.sum(axis=-1, keepdims=True)
        return np.divide(seen, total, out=np.full_like(seen, 1 / len(own)), where=total > 0)

    def released_laws(self, name: str) -> Reals:
        """As ``sequence_laws``, of a field's released levels."""
        flat = self.emissions[name].reshape(-1, self.n_states, self.network.domain.sizes[name])
        own = self.effects[name].reshape(len(flat), -1, flat.shape[2]) if self.effects else None
        return sequence_laws(flat, own)

    @cached_property
    def state_probabilities(self) -> Reals:
        """P(state of the cell | release), shape (sequences, steps, states)."""
        flat = self.states.reshape(-1, *self.states.shape[2:])
        return np.stack([(flat == k).mean(axis=0) for k in range(self.n_states)], axis=2)

    @cached_property
    def states_used(self) -> npt.NDArray[np.int64]:
        """How many states have a cell, in each draw, shape (copies x draws,)."""
        flat = self.states.reshape(-1, self.states.shape[2] * self.states.shape[3])
        return np.array([np.count_nonzero(np.bincount(one)) for one in flat], np.int64)

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """The making of the draws and the mixing of the chains, in quantities that labels do not change.

        ``"r_hat"`` is the worst of the log joint probability, the numbers of cells in each state, most first, the
        spread of each field's effects about the means of sequence and level, and ``"r_hat of predictions"``, which
        99 % of the probabilities of a level in a sequence, averaged over its steps, do not exceed (500 sequences).
        """
        copies, draws = self.log_joint.shape
        made = {"inference": self.inference, "sampler": self.sampler, "chains": copies, "draws": draws}
        shares = {f"acceptance of {name}": share for name, share in self.acceptance.items()}
        spread = [centred_spread(value) for value in self.effects.values()]
        mixed = label_invariant_diagnostics(self.states, self.log_joint, self.n_states, spread)
        predicted = r_hat_of_predictions(self._mean_predictions())
        found = {"r_hat": max(mixed["r_hat"], predicted), "effective_size": mixed["effective_size"]}
        return made | found | {"r_hat of predictions": predicted} | shares

    @property
    def note(self) -> str:
        """A short note where R-hat is above 1.05, as the fit warned, or the most states tried were chosen."""
        notes = [mixing_note(self.diagnostics)] if self.diagnostics["r_hat"] > MOST_R_HAT else []
        if self.choice is not None and 1 < len(self.choice.states) == self.choice.chosen:
            notes.append(f"{self.choice.chosen} states are the most that were tried; raise most_states")
        return "; ".join(notes)

    def _mean_predictions(self) -> Reals:
        """P(level | sequence) of every field under each draw, averaged over steps, shape (copies, draws, laws).

        Of many sequences ``JUDGED`` are taken, evenly spread.
        """
        states = self._flat_states()
        sequences = np.linspace(0, states.shape[1] - 1, min(states.shape[1], JUDGED)).astype(np.int64)
        judged = states[:, sequences]
        share = np.stack([(judged == k).mean(axis=2) for k in range(self.n_states)], axis=2)
        each: list[Reals] = []
        for name in self.fields:
            own = self.released_laws(name)
            each.append((share[..., None] * (own[:, sequences] if own.shape[1] > 1 else own)).sum(axis=2))
        return np.concatenate(each, axis=2).reshape(*self.log_joint.shape, -1)

    def predict(self) -> DataFrame:
        """The most probable state of each cell: the sequence and time columns, state, probability."""
        return self._with_states(self.state_probabilities.argmax(axis=2))

    def most_likely_path(self) -> DataFrame:
        """The most likely path of each sequence as a whole: the sequence and time columns, state, probability.

        ``predict`` takes the best state of each cell by itself, and may put states side by side that hardly follow each
        other. This is the Viterbi path over the posterior's draws; ``probability`` is that of the state in its cell.
        """
        return self._with_states(most_likely_paths(self._flat_states(), self.n_states))

    def _with_states(self, states: Integers) -> DataFrame:
        frame = self._cells(np.ones(states.shape, bool))
        probabilities = np.take_along_axis(self.state_probabilities, states[..., None], 2)
        return frame.assign(state=states.ravel(), probability=probabilities.ravel())

    def sample(
        self, n: int, rng: np.random.Generator | int, *, numbers: queries.Numbers = "uniform", holes: bool = False
    ) -> DataFrame:
        """Synthetic entries of a log, with the declared levels and numbers for bins; free.

        One posterior draw makes all of them: each entry falls into a cell in proportion to the entries that cells are
        expected to have, and its fields follow the law of the state that the draw has there.

        Args:
            n: How many entries, at least 1.
            rng: Randomness for post-processing, or a seed for it; the release is already public.
            numbers: The numbers of a column of bins, as for ``dg.sample_rows``.
            holes: Where values are unobserved, True for entries with as many nulls as the log's; else complete.

        Returns:
            A column for each declared variable, in the domain's order.

        Raises:
            InferenceError: If n is not a whole number of at least 1, or no entries are expected anywhere.
        """
        check_whole_number("n", n, 1)
        rng, domain = generator(rng), self.people
        bins = queries.numbered(domain, numbers)
        weights = np.maximum(self.entries, 0.0).ravel()
        if not weights.sum() > 0:
            raise InferenceError("no entries are expected in any cell; there is nothing to draw")
        states = self._flat_states()
        draw = int(rng.integers(len(states)))
        place = rng.choice(weights.size, n, p=weights / weights.sum())
        sequences, steps = np.unravel_index(place, self.entries.shape)
        hidden = states[draw, sequences, steps]
        codes = {self.sequence: sequences, self.time: steps}
        for name in self.emitted:
            laws = self.sequence_laws(name)[draw]
            chosen = laws[sequences if len(laws) > 1 else 0, hidden].cumsum(axis=1)
            codes[name] = (rng.random(n)[:, None] * chosen[:, -1:] >= chosen[:, :-1]).sum(axis=1)
        levels = {name: np.array(domain.levels(name), dtype=object) for name in domain.names}
        rows = data_frame({name: levels[name][codes[name]] for name in domain.names}).infer_objects()
        for name, one in bins.items():
            rows[name] = queries.with_nulls(one, codes[name], queries.numbers_of(one, codes[name], rng, numbers))
        return queries.without_indicators(rows, domain.indicators, holes=holes)

    def transition_frame(self) -> DataFrame:
        """The mean transition matrix, a row for each state."""
        return data_frame(self.mean_transition).rename_axis(index="state", columns="next")

    def emission_frame(self, name: str) -> DataFrame:
        """The mean emissions of one of ``emitted``, a row for each state, a column for each level."""
        frame = data_frame(self.mean_emission(name), columns=list(self.people.levels(name)))
        return frame.rename_axis(index="state", columns=name)

    def predict_fields(self, cells: Any = None, *, interval: float | None = None) -> DataFrame:
        """P(level) of every field for an entry of some cells: the sequence and time columns, field, level, probability.

        Args:
            cells: The cells, held out or not: a table or file with the sequence and time columns, or flags, shape
                (sequences, steps); all by default.
            interval: Where given, the columns sd, low and high are of the cell's law of the field over draws: neither
                the cell's state is known there, nor the states' laws.

        Raises:
            DomainError: If a cell is not declared.
            InferenceError: If the interval is not a probability.
        """
        cells = self._flags(cells)
        ends = None if interval is None else tails(check_probability("interval", interval))
        index, places = self._flat_states()[:, cells], np.nonzero(cells)[0] if self.effects else 0
        draws = np.arange(len(index))[:, None]
        laws = (self.sequence_laws(name)[draws, places, index] for name in self.emitted)
        return self._of_fields(self._cells(cells), laws, "probability", ends)

    def _of_fields(
        self, rows: DataFrame, laws: Iterable[Reals], mean: str, ends: tuple[float, float] | None
    ) -> DataFrame:
        """Rows with the law of each field, shape (draws, rows, levels): field, level, its mean and, with ends, more."""
        import pandas as pd

        frames: list[DataFrame] = []
        for name, law in zip(self.emitted, laws, strict=True):
            levels = self.people.levels(name)
            frame = rows.loc[rows.index.repeat(len(levels))].reset_index(drop=True)
            frame["field"], frame["level"] = name, list(levels) * len(rows)
            frame[mean] = law.mean(axis=0).ravel()
            if ends is not None:
                low, high = np.quantile(law, ends, axis=0)
                frame = frame.assign(sd=law.std(axis=0).ravel(), low=low.ravel(), high=high.ravel())
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def forecast(self, steps: int = 1, *, interval: float = 0.9) -> DataFrame:
        """P(level) of every field in the steps after the last, for each sequence, with intervals.

        It forecasts the kind of an entry; ``forecast_counts`` forecasts the number of entries. In every draw the last
        state of a sequence goes on by that draw's transitions; emissions are averaged over the states it may then be
        in. The interval is of that probability, over draws; how states are labelled cancels.

        Args:
            steps: How many steps after the last, at least 1.
            interval: The probability of the intervals.

        Returns:
            The sequence's column, step from 1, the time's column, field, level, mean, sd, low and high.

        Raises:
            InferenceError: If steps is not a whole number of at least 1, or the interval no probability.
        """
        import pandas as pd

        check_whole_number("steps", steps, 1)
        ends = tails(check_probability("interval", interval))
        transition = self.transition.reshape(-1, self.n_states, self.n_states)
        state, frames = np.eye(self.n_states)[self._flat_states()[:, :, -1]], []
        for rows in self._ahead(steps):
            state = state @ transition
            laws = [(state[:, :, None] @ self.sequence_laws(name))[:, :, 0] for name in self.emitted]
            frames.append(self._of_fields(rows, laws, "mean", ends))
        return pd.concat(frames, ignore_index=True)

    def forecast_counts(self, steps: int = 1, *, interval: float = 0.9) -> DataFrame:
        """The number of entries of each sequence in the steps after the last, with intervals; free.

        A negative binomial law about a mean of the sequence's steps, later ones weighing more. Weights and spread are
        those that forecast the log's own past steps best. States have no part in it: in the incident log of
        docs/hidden-markov.md laws by state forecast worse than the mean of the last three months. The interval leaves
        out the noise of the release: 90 % intervals held 88 % of the next counts at epsilon 1 there, and 60 % at .25.

        Args:
            steps: How many steps after the last, at least 1.
            interval: The probability of the intervals.

        Returns:
            The sequence's column, step from 1, the time's column, mean, low and high.

        Raises:
            InferenceError: If steps is not a whole number of at least 1, the interval no probability, or the log has
                not three steps more than are forecast.
        """
        import pandas as pd
        from scipy.stats import nbinom

        check_whole_number("steps", steps, 1)
        low, high = tails(check_probability("interval", interval))
        if self.entries.shape[1] < steps + 3:
            raise InferenceError(
                f"counts {steps} steps ahead are learned from at least {steps + 3} steps; this log has "
                f"{self.entries.shape[1]}. Forecast fewer steps"
            )
        frames = []
        for step, rows in enumerate(self._ahead(steps), 1):
            mean, size = count_law(self.entries, step)
            ends = (nbinom.ppf(end, size, size / (size + mean)) for end in (low, high))
            frames.append(rows.assign(mean=mean, **dict(zip(("low", "high"), ends, strict=True))))
        return pd.concat(frames, ignore_index=True)

    def _ahead(self, steps: int) -> Iterator[DataFrame]:
        levels = self.network.domain.levels
        for step, when in enumerate(later_times(levels(self.time), steps), 1):
            yield data_frame({self.sequence: list(levels(self.sequence)), "step": step, self.time: when})

    def log_likelihood(self, log: Any, cells: Any = None) -> tuple[float, int]:
        """ln P of the entries of held-out cells given the rest, in nats, and how many entries they are.

        For each cell the log of the average over draws of sum_k P(state k | states beside it) prod_f phi_k^counts
        (Foulds et al. 2016, section 4). Hold the cells out when fitting, or the states beside them know about them.
        Each cell picks its best draw, so this flatters a posterior that is spread out. The score of private rows is
        private: publish it only if it is charged for, or if those rows are public.

        Args:
            log: The entries: a table, the path of a CSV or Parquet file, or an encoded column for every variable.
            cells: The cells that count, as ``predict_fields`` takes them; all by default.

        Raises:
            DomainError: If the rows do not fit the domain, or a column of codes is missing, is not whole numbers below
                its number of levels, or of another length.
        """
        each, entries = self.cell_log_likelihoods(log, cells)
        return float((np.logaddexp.reduce(each, axis=0) - np.log(len(each))).sum()), entries

    def cell_log_likelihoods(self, log: Any, cells: Any = None) -> tuple[Reals, int]:
        """As ``log_likelihood``, of each draw and cell with entries, shape (draws, cells)."""
        codes = queries.code_columns(columns_to_predict(log, self.network.domain), self.network.domain.sizes)
        inside = self._flags(cells)
        place = np.ravel_multi_index([codes[n].astype(np.int64) for n in (self.sequence, self.time)], inside.shape)
        chosen = inside.ravel()[place]
        found, row = np.unique(place[chosen], return_inverse=True)
        sequences, steps = np.unravel_index(found, inside.shape)
        transition = np.log(np.maximum(self.transition.reshape(-1, self.n_states, self.n_states), 1e-300))
        states = self._flat_states()
        draws = np.arange(len(states))[:, None]
        log = np.zeros((len(states), len(sequences), self.n_states))  # of each state given those before and after
        later, earlier = steps > 0, steps < states.shape[2] - 1
        log[:, later] += transition[draws, states[:, sequences[later], steps[later] - 1]]
        log[:, earlier] += transition[draws, :, states[:, sequences[earlier], steps[earlier] + 1]]
        log -= np.logaddexp.reduce(log, axis=2, keepdims=True)
        for name in self.fields:
            levels = self.network.domain.sizes[name]
            index = row * levels + codes[name][chosen]
            counts = np.bincount(index, minlength=len(found) * levels).reshape(-1, levels)
            law = np.log(np.maximum(self.released_laws(name), 1e-300))
            for r in range(law.shape[1]):
                mine = sequences == r if self.effects else np.ones(len(found), bool)
                log[:, mine] += np.swapaxes(law[:, r] @ counts[mine].T.astype(float), 1, 2)
        return np.logaddexp.reduce(log, axis=2), int(chosen.sum())

    def _flags(self, cells: Any) -> Flags:
        """Cells as flags, shape (sequences, steps); all where none are named."""
        if cells is None:
            return np.ones(self.entries.shape, bool)
        if isinstance(cells, np.ndarray):
            return np.asarray(cells, bool)
        return cell_flags(self.network.domain, self.sequence, self.time, cells)

    def _flat_states(self) -> Integers:
        """The states of every draw, the copies one after another; a view of 16-bit numbers."""
        return self.states.reshape(-1, *self.states.shape[2:])

    def _cells(self, chosen: Flags) -> DataFrame:
        sequences, steps = np.nonzero(chosen)
        levels = self.network.domain.levels
        named = [levels(self.sequence)[r] for r in sequences], [levels(self.time)[t] for t in steps]
        return data_frame({self.sequence: named[0], self.time: named[1]})

    def __repr__(self) -> str:
        copies, draws = self.log_joint.shape
        note = f"; {self.note}" if self.note else ""
        return f"HiddenMarkovModel({self.n_states} states, {len(self.fields)} fields, {copies} x {draws} draws{note})"

    def _repr_html_(self) -> str:
        rows = [
            {"state": state, **{f"to {other}": float(value) for other, value in enumerate(row)}}
            for state, row in enumerate(self.mean_transition)
        ]
        mixed = {name: cell(value) for name, value in self.diagnostics.items() if name in ("r_hat", "effective_size")}
        notes = [f"R-hat {mixed['r_hat']}, effective size {mixed['effective_size']}", *filter(None, [self.provenance])]
        return as_html(f"{self!r}: mean transitions", rows, notes)


@tables_given.register
def _no_tables(model: HiddenMarkovModel) -> DrawnTables:
    raise InferenceError(
        "a HiddenMarkovModel has no tables of observed variables; ask its forecast, predict or predict_fields"
    )


#: Different entries whose probabilities under all draws are worked on at once.
BLOCK = 256


def entry_log_probability(model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """ln P of the fields of each entry, by itself: the average over draws of prod_f phi_f[state of its cell] (P65)."""
    names = (model.sequence, model.time, *model.fields)
    columns = np.column_stack([codes[name].astype(np.int64) for name in names])
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    states = model.states.reshape(-1, *model.states.shape[2:]).astype(np.int64)
    draws = np.arange(len(states))[:, None]
    laws = [np.log(np.maximum(model.released_laws(name), 1e-300)) for name in model.fields]

    def of(part: npt.NDArray[np.int64]) -> Reals:
        """ln P of a block of kinds."""
        places = part[:, 0] if model.effects else 0
        inside = states[:, part[:, 0], part[:, 1]]
        log = added(law[draws, places, inside, part[:, k]] for k, law in enumerate(laws, start=2))
        return reduce(np.logaddexp, log) - np.log(len(states))

    return in_blocks(of, kinds, BLOCK)[which.ravel()]


def markov_scores(
    model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]], cells: Flags | None = None
) -> dict[str, float]:
    """Nats an entry of some cells, all by default, three ways; as private as the entries, and NaN without an entry.

    With draws s of S and cells c of m_c entries x_ci, m in all, states summed out but in the first (proofs.md P65):

    - "entry by entry", the headline: (1/m) sum_c sum_i ln (1/S) sum_s P(x_ci | draw s).
    - "whole cells": (1/m) sum_c ln (1/S) sum_s prod_i P(x_ci | draw s); it flatters a posterior that is spread out.
    - "average over draws", Foulds et al. 2016: (1/m) sum_c (1/S) sum_s ln prod_i P(x_ci | draw s); it punishes one.
    """
    columns = queries.code_columns(codes, model.network.domain.sizes)
    each, entries = model.cell_log_likelihoods(columns, cells)
    if entries == 0:
        return dict.fromkeys(("entry by entry", "whole cells", "average over draws"), math.nan)
    if cells is not None:
        place = columns[model.sequence].astype(np.int64), columns[model.time].astype(np.int64)
        columns = {name: column[np.asarray(cells, bool)[place]] for name, column in columns.items()}
    return {
        "entry by entry": float(entry_log_probability(model, columns).sum()) / entries,
        "whole cells": float((np.logaddexp.reduce(each, axis=0) - np.log(len(each))).sum()) / entries,
        "average over draws": float(each.mean(axis=0).sum()) / entries,
    }
