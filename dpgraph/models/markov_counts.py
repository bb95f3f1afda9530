"""A hidden Markov model learned from noisy counts of a log's entries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import seeded
from dpgraph.inference.draws import MOST_R_HAT, ConvergenceWarning
from dpgraph.inference.markov.evidence import Flags, field_names, log_evidence
from dpgraph.inference.markov.labels import match_labels
from dpgraph.inference.markov.memory_use import check_fit
from dpgraph.inference.markov.sampler import MarkovPrior, check_settings, draw_markov
from dpgraph.inference.progress import progress_bar
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.known_entries import with_known_entries
from dpgraph.models.state_choice import choose_states, sweeps_of_choice
from dpgraph.privacy.records import InferenceError, Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import NoisyCounts, Reals

#: The largest number of states that ``"auto"`` tries unless it is told another.
MOST_STATES = 5


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
    iterations: int = 200,
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
        sampler: ``"blocked"`` or ``"collapsed"``; see ``draw_markov``.
        inference: ``"noise-aware"`` or ``"plug-in"``.
        chains: Sampler chains, compared by R-hat.
        iterations: Draws of each.
        burn_in: Sweeps before the first.
        held_out: Cells not to learn from, shape (sequences, steps).
        entries: The number of entries of each cell where it is public, shape (sequences, steps); else it is learned
            from the noisy tables of the fields, which all sum to it.
        most_states: The largest number of states that ``"auto"`` tries.
        sequence_effects: Whether each sequence has an effect of its own on every field, whatever its state, shrunk to
            zero by a spread learned for each field. None: yes with ``"auto"``, else no. One state with effects is a law
            for each sequence; without, one law for all.
        seed: For the draws; what was released is public, so a seed is fine here.
        progress: Whether to show a bar on a terminal.

    Raises:
        InferenceError: If the release is of another kind, a setting is out of range, or there is no room
            (``DPGRAPH_MEMORY``).

    Warns:
        ConvergenceWarning: If R-hat of what labels do not change is above 1.05. It is computed from the draws, which
            know the release and nothing else of the log.
    """
    value, provenance = released_value(noisy)
    given = log_evidence(value, sequence, time)
    if entries is not None and inference == "plug-in":
        raise InferenceError("entries has no meaning for inference='plug-in', which takes the noisy tables for true")
    given = given if entries is None else with_known_entries(given, entries)
    if held_out is not None:
        if np.shape(held_out) != given.shape:
            raise InferenceError(f"held_out must have the shape {given.shape}; got {np.shape(held_out)}")
        given = given.without(np.asarray(held_out, bool))
    settings: dict[str, Any] = {"prior": prior, "sampler": sampler, "inference": inference, "copies": chains}
    numbers = {"iterations": iterations, "burn_in": burn_in}
    check_choice(states, most_states, sequence_effects)
    effects = states == "auto" if sequence_effects is None else sequence_effects
    size, choice = (1 if isinstance(states, str) else states), None
    check_settings(size, sampler, inference, {"chains": chains, **numbers})
    most = most_states if isinstance(states, str) else states
    check_fit(given.shape, given.values.shape[3], most, chains=chains, draws=iterations, effects=effects)
    rng = seeded(seed)
    if states == "auto":
        how = {"prior": prior, "sampler": sampler, "inference": inference, "effects": effects}
        total = sweeps_of_choice(given, most_states)
        with progress_bar(progress and total > 0, total, "sweeps to choose the number of states") as tick:
            choice = choose_states(given, most_states, rng=rng, tick=tick, **how)
        size = choice.chosen
    with progress_bar(progress, burn_in + iterations, "sweeps of each chain") as tick:
        settings |= {"progress": tick, "effects": effects}
        named = match_labels(draw_markov(given, size, rng=rng, **numbers, **settings), given.fields)
    names = field_names(value.network, sequence, time)
    model = HiddenMarkovModel(
        value.network,
        sequence,
        time,
        named.transition,
        FrozenMap((name, named.emissions[..., c]) for name, c in zip(names, given.fields, strict=False)),
        named.states,
        named.log_joint,
        named.entries.mean(axis=0),
        inference,
        sampler,
        FrozenMap(named.acceptance),
        provenance,
        FrozenMap(_by_field(names, named.effects, given.fields)),
        choice,
    )
    _warn_of_poor_mixing(model)
    return model


def _by_field(names: tuple[str, ...], effects: Reals | None, fields: tuple[slice, ...]) -> Iterator[tuple[str, Reals]]:
    """The effects on each field, if there are any."""
    if effects is not None:
        yield from ((name, effects[..., columns]) for name, columns in zip(names, fields, strict=False))


def check_choice(states: object, most_states: object, sequence_effects: object) -> None:
    """Refuses a number of states, a limit or a switch that is none.

    Raises:
        InferenceError: Naming the setting.
    """
    if isinstance(states, str) and states != "auto":
        raise InferenceError(f'n_states must be a whole number, at least 1, or "auto"; got {states!r:.60}')
    if isinstance(most_states, bool) or not isinstance(most_states, int | np.integer) or most_states < 1:
        raise InferenceError(f"most_states must be a whole number, at least 1; got {most_states!r:.60}")
    if sequence_effects is not None and not isinstance(sequence_effects, bool):
        raise InferenceError(f"sequence_effects must be True, False or None; got {sequence_effects!r:.60}")


def _warn_of_poor_mixing(model: HiddenMarkovModel) -> None:
    """Accuracy is at stake, not privacy."""
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
            stacklevel=3,
        )
