"""A hidden Markov model, and two simple models beside it, learned from noisy counts of a log's entries.

The number of states is chosen by how well parts of a release predict the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_whole_number, seeded
from dpgraph.inference.chains import progress_bar
from dpgraph.inference.draws import MOST_R_HAT, ConvergenceWarning
from dpgraph.inference.markov.evidence import Flags, LogEvidence, field_names, log_evidence
from dpgraph.inference.markov.labels import match_labels
from dpgraph.inference.markov.sampler import (
    MarkovDraws,
    MarkovPrior,
    check_fit,
    check_settings,
    draw_markov,
    entries_estimate,
    markov_draws,
)
from dpgraph.models.hmm import HiddenMarkovModel, StateChoice, sequence_laws
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCounts, Reals

#: The largest number of states that ``"auto"`` tries unless it is told another.
MOST_STATES = 5
#: Draws of a chain by default. Chains that have not mixed then go on for so many rounds, each of twice the sweeps of
#: the one before, unless so many seconds have passed: a round takes at most one and a third times all before it.
ITERATIONS, MORE_ROUNDS, PATIENCE = 200, 3, 40.0
#: The baselines by name.
ONE_STATE, BY_SEQUENCE = "one state", "fields given the sequence"
#: Penalty that pins a public number of entries: nats for each entry that a latent total is off, and its deviation.
COST, DEVIATION = 100.0, 1e-5
#: Parts into which the cells are split, each predicted from the others; draws of each fit, after as many sweeps.
PARTS, SWEEPS = 3, 40


def fit_hmm(
    noisy: NoisyCounts | Release[Any],
    states: int | str,
    *,
    sequence: str,
    time: str,
    prior: MarkovPrior | None = None,
    sampler: str = "blocked",
    inference: str = "noise-aware",
    chains: int = 2,
    iterations: int | None = None,
    burn_in: int = 100,
    held_out: Flags | None = None,
    entries: npt.ArrayLike | None = None,
    most_states: int = MOST_STATES,
    sequence_effects: bool | None = None,
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> HiddenMarkovModel:
    """Fits a hidden Markov model to released counts; free.

    Args:
        noisy: A release of ``count(log, hmm_network(...))`` by ``LaplaceMechanism(tables="maximal")``, or its value.
        states: The number of hidden states, or ``"auto"``: 1 to ``most_states``, by how well a part of the released
            cells is predicted from the others; ``choice`` of the model has the scores. It reads the release alone, so
            it costs no epsilon, and three short fits for each number tried.
        sequence: The variable whose levels are the sequences.
        time: The variable whose levels are the time steps, in order.
        prior: Concentrations; 1 everywhere by default.
        sampler: ``"blocked"``, or ``"collapsed"``, the paper's sampler of one state at a time.
        inference: ``"noise-aware"`` or ``"plug-in"``.
        chains: Sampler chains, compared by R-hat.
        iterations: Draws of each. None: 200, and where these have not mixed the chains go on, twice and then four and
            eight times as many sweeps, with 200 draws of the last, unless 40 seconds have passed.
        burn_in: Sweeps before the first.
        held_out: Cells not to learn from, shape (sequences, steps).
        entries: The number of entries of each cell where it is public, shape (sequences, steps); else it is learned
            from the noisy tables of the fields, which all sum to it.
        most_states: The largest number of states that ``"auto"`` tries.
        sequence_effects: True if each sequence has an effect of its own on every field in all states, shrunk to
            zero by a spread learned for each field. None: yes with ``"auto"``, else no. One state with effects is a law
            for each sequence; without, one law for all.
        seed: For the draws; the release is public, so a seed is fine here.
        progress: True for a bar on a terminal.

    Raises:
        InferenceError: If the release is of another kind, a setting is out of range, or there is no room
            (``DPGRAPH_MEMORY``).

    Warns:
        ConvergenceWarning: If R-hat of quantities that labels do not change is above 1.05. It is computed from the
            draws, which know the release and nothing else of the log.
    """
    value, provenance = released_value(noisy)
    given = log_evidence(value, sequence, time)
    if entries is not None and inference == "plug-in":
        raise InferenceError("entries has no meaning for inference='plug-in', which takes the noisy tables for true")
    given = _held_out(given if entries is None else with_known_entries(given, entries), held_out)
    numbers = {"iterations": ITERATIONS if iterations is None else iterations, "burn_in": burn_in}
    check_settings_of_fit(states, most_states, sequence_effects, sampler, inference, {"chains": chains, **numbers})
    problem = given.shape, given.values.shape[3], states, most_states, sequence_effects
    effects = check_room(*problem, chains=chains, draws=numbers["iterations"])
    rng, choice = seeded(seed), None
    how: dict[str, Any] = {"prior": prior, "sampler": sampler, "inference": inference, "effects": effects}
    if isinstance(states, str):
        limit = states_tried(given, most_states)
        total = 0 if limit == 1 else limit * PARTS * 2 * SWEEPS
        with progress_bar(progress and total > 0, total, "sweeps to choose the number of states") as tick:
            choice = choose_states(given, most_states, rng=rng, tick=tick, **how)
        states = choice.chosen
    made: Any = {"provenance": provenance, "inference": inference, "sampler": sampler, "choice": choice}

    def as_model(drawn: MarkovDraws) -> HiddenMarkovModel:
        named = match_labels(drawn, given.fields)
        return _model_of(named, value.network, sequence, time, given.fields, **made)

    begun, further = perf_counter(), 0 if iterations else MORE_ROUNDS
    with progress_bar(progress, sum(numbers.values()), "sweeps of each chain") as tick:
        drawn = markov_draws(given, states, rng=rng, copies=chains, progress=tick, **numbers, **how)
        model = as_model(next(drawn))
        for _ in range(further):
            if model.diagnostics["r_hat"] <= MOST_R_HAT or perf_counter() - begun > PATIENCE:
                break
            model = as_model(next(drawn))
    found = model.diagnostics
    if found["r_hat"] > MOST_R_HAT:
        warnings.warn(
            f"the sampler's chains have not mixed: R-hat {found['r_hat']:.3f}, of predictions "
            f"{found['r_hat of predictions']:.3f}, effective size {found['effective_size']:.0f}; raise iterations and "
            "burn_in before you quote states. "
            "That is free: dg.fit_hmm(model.release_, states, sequence=..., time=..., iterations=...) learns again "
            "from the same release, as dpgraph refit does from a saved model. "
            "Privacy is not at stake",
            ConvergenceWarning,
            stacklevel=2,
        )
    return model


def _model_of(
    drawn: MarkovDraws, network: Network, sequence: str, time: str, fields: tuple[slice, ...], **how: Any
) -> HiddenMarkovModel:
    """The model of some draws; a last field that is not the network's, a known number of entries, is left out."""
    columns = dict(zip(field_names(network, sequence, time), fields, strict=False))

    def by_field(array: Reals) -> FrozenMap[str, Reals]:
        return FrozenMap((name, array[..., part]) for name, part in columns.items())

    how |= {"transition": drawn.transition, "emissions": by_field(drawn.emissions), "states": drawn.states}
    how |= {"log_joint": drawn.log_joint, "entries": drawn.entries.mean(axis=0), "acceptance": drawn.acceptance}
    how |= {} if drawn.effects is None else {"effects": by_field(drawn.effects)}
    return HiddenMarkovModel(network, sequence, time, **how)


def _held_out(given: LogEvidence, cells: Flags | None) -> LogEvidence:
    if cells is None:
        return given
    if np.shape(cells) != given.shape:
        raise InferenceError(f"held_out must have the shape {given.shape}; got {np.shape(cells)}")
    return given.without(np.asarray(cells, bool))


def with_known_entries(given: LogEvidence, entries: npt.ArrayLike) -> LogEvidence:
    """The evidence with one more field, of one level: the public number of entries of each cell, shape (chains, steps).

    Counted from the log it would be private: such a table is released like that of any field of one level.
    """
    table = np.asarray(entries)
    if table.shape != given.shape or table.dtype.kind not in "iu" or table.min() < 0:
        raise InferenceError(f"entries must be whole numbers, at least 0, of shape {given.shape}; got {table.shape}")
    column = np.broadcast_to(table[None, :, :, None].astype(np.int64), (*given.values.shape[:3], 1))
    width = given.values.shape[3]
    return replace(
        given,
        values=np.concatenate([given.values, column], axis=3),
        fields=(*given.fields, slice(width, width + 1)),
        absolute=np.append(given.absolute, COST),
        squares=np.append(given.squares, 0.0),
        deviation=np.append(given.deviation, DEVIATION),
    )


def check_settings_of_fit(
    states: Any, most_states: object, sequence_effects: object, sampler: str, inference: str, numbers: dict[str, int]
) -> None:
    """Refuses wrong settings of a fit: the number of states, effects, the sampler and its ``numbers``."""
    if isinstance(states, str) and states != "auto":
        raise InferenceError(f'n_states must be a whole number, at least 1, or "auto"; got {states!r:.60}')
    check_whole_number("most_states", most_states, 1)
    if sequence_effects is not None and not isinstance(sequence_effects, bool):
        raise InferenceError(f"sequence_effects must be True, False or None; got {sequence_effects!r:.60}")
    check_settings(1 if isinstance(states, str) else states, sampler, inference, numbers)


def check_room(
    shape: tuple[int, ...], columns: int, states: int | str, most_states: int, effects: bool | None, **kept: int
) -> bool:
    """Refuses a fit without room for its ``chains`` and ``draws``; True if sequences have effects."""
    effects = isinstance(states, str) if effects is None else effects
    most = most_states if isinstance(states, str) else states
    check_fit(shape, columns, most, effects=effects, **kept)
    return effects


def markov_baselines(
    noisy: NoisyCounts | Release[Any],
    *,
    sequence: str,
    time: str,
    chains: int = 2,
    iterations: int = ITERATIONS,
    burn_in: int = 100,
    held_out: Flags | None = None,
    seed: int | np.random.Generator | None = None,
) -> dict[str, HiddenMarkovModel]:
    """Independent fields, and independent fields given the sequence, learned noise-aware from one release; free.

    A hidden Markov model is of no use where it loses to them. Each is one with nothing hidden, drawn by the same
    sampler under uniform laws: one state, or a known state for each sequence. They are returned by name,
    ``"one state"`` and ``"fields given the sequence"``, as models of one state, so all scores apply to them. Arguments
    as of ``fit_hmm``.

    Raises:
        InferenceError: If the release is of another kind.
    """
    value, provenance = released_value(noisy)
    given = _held_out(log_evidence(value, sequence, time), held_out)
    settings: dict[str, Any] = {"copies": chains, "iterations": iterations, "burn_in": burn_in}
    settings["rng"], sequences = np.random.default_rng(seed), given.shape[0]
    known = np.repeat(np.arange(sequences)[:, None], given.shape[1], axis=1)
    one, each = draw_markov(given, 1, **settings), draw_markov(given, sequences, known=known, **settings)
    widths = np.array([columns.stop - columns.start for columns in given.fields])
    apart = replace(
        each,
        transition=one.transition,
        emissions=np.broadcast_to(np.repeat(1 / widths, widths), one.emissions.shape),
        states=one.states,
        effects=np.log(np.maximum(each.emissions, 1e-300)),
    )
    made: Any = {"provenance": provenance, "inference": "noise-aware", "sampler": "blocked"}
    return {
        name: _model_of(drawn, value.network, sequence, time, given.fields, **made)
        for name, drawn in ((ONE_STATE, one), (BY_SEQUENCE, apart))
    }


def states_tried(given: LogEvidence, most: int) -> int:
    """The largest number of states tried: two cells for each."""
    return max(1, min(most, int(given.observed.sum()) // 2))


def choose_states(
    given: LogEvidence, most: int, *, rng: np.random.Generator, tick: Callable[[int], None] | None = None, **how: Any
) -> StateChoice:
    """Tries 1 to ``most`` states on a split of the release's own cells; fewer where there are few cells.

    Each part of the observed cells is predicted, one entry and field at a time, by a fit to the other parts. The score
    sums released count x ln P(level): noise has mean zero and predictions do not know it, so the score is without bias
    that of the true counts. Of all numbers within one standard deviation of the noise of the best score the smallest is
    chosen. ``tick`` is called with the number of each sweep, counted over all fits; ``how`` are further settings of
    ``draw_markov``.
    """
    observed = np.argwhere(given.observed)
    limit = states_tried(given, most)
    part = np.full(given.shape, -1)
    part[tuple(observed.T)] = rng.permutation(len(observed)) % PARTS
    if limit == 1:
        return StateChoice((1,), (0.0,), (0.0,), 1)
    logs = [_predicted(given, part, size, rng, how, tick) for size in range(1, limit + 1)]
    released, entries = given.values[0], max(float(entries_estimate(given, given.values[0])[given.observed].sum()), 1.0)
    scores = np.array([(released * log)[given.observed].sum() for log in logs]) / entries
    best = int(scores.argmax())
    apart = [((log - logs[best])[given.observed] ** 2 @ given.deviation**2).sum() for log in logs]
    deviations = np.sqrt(apart) / entries
    chosen = 1 + int(np.argmax(scores >= scores[best] - deviations))
    return StateChoice(tuple(range(1, limit + 1)), tuple(scores.tolist()), tuple(deviations.tolist()), chosen)


def _predicted(
    given: LogEvidence, part: Any, size: int, rng: np.random.Generator, how: dict[str, Any],
    tick: Callable[[int], None] | None,
) -> Reals:  # fmt: skip
    """ln P(level) of each cell, from the cells of other parts; 0 where no cell is observed."""
    found = np.zeros(given.values.shape[1:])
    for p in range(PARTS):
        mine = part == p
        settings: dict[str, Any] = {"copies": 1, "iterations": SWEEPS, "burn_in": SWEEPS} | how
        before = ((size - 1) * PARTS + p) * 2 * SWEEPS
        progress = None if tick is None else lambda sweep, before=before: tick(before + sweep)
        drawn = draw_markov(given.without(mine), size, rng=rng, progress=progress, **settings)
        found[mine] = np.log(np.maximum(cell_predictions(drawn, given.fields), 1e-300))[mine]
    return found


def cell_predictions(drawn: MarkovDraws, fields: tuple[slice, ...]) -> Reals:
    """P(level) of each field for an entry of each cell, averaged over draws, shape (sequences, steps, columns)."""
    states = drawn.states.reshape(-1, *drawn.states.shape[2:]).astype(np.int64)
    draws, places = np.arange(len(states))[:, None, None], np.arange(states.shape[1])[:, None]
    size, width = drawn.emissions.shape[2:]
    found = np.empty((*states.shape[1:], width))
    for columns in fields:
        own = None if drawn.effects is None else drawn.effects[..., columns].reshape(len(states), states.shape[1], -1)
        laws = sequence_laws(drawn.emissions[..., columns].reshape(len(states), size, -1), own)
        found[..., columns] = laws[draws, 0 if own is None else places, states].mean(axis=0)
    return found
