"""A hidden Markov model learned from noisy counts of a log's entries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.draws import ConvergenceWarning
from dpgraph.inference.markov.evidence import Flags, field_names, log_evidence
from dpgraph.inference.markov.labels import match_labels
from dpgraph.inference.markov.sampler import MarkovPrior, check_settings, draw_markov
from dpgraph.inference.progress import progress_bar
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.known_entries import with_known_entries
from dpgraph.privacy.records import InferenceError, Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import NoisyCounts

#: The largest R-hat, over what labels do not change, that passes without a warning.
MOST_R_HAT = 1.1


def fit_hmm(
    noisy: NoisyCounts | Release[Any],
    states: int,
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
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> HiddenMarkovModel:
    """Fits a hidden Markov model to released counts; free.

    Args:
        noisy: A release of ``count(log, hmm_network(...))`` by ``LaplaceMechanism(tables="maximal")``, or its value.
        states: The number of hidden states.
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
        seed: For the draws; what was released is public, so a seed is fine here.
        progress: Whether to show a bar on a terminal.

    Raises:
        InferenceError: If the release is of another kind or a setting is out of range.

    Warns:
        ConvergenceWarning: If R-hat of what labels do not change is above 1.1. It is computed from the draws, which
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
    settings = {"prior": prior, "sampler": sampler, "inference": inference, "copies": chains}
    numbers = {"iterations": iterations, "burn_in": burn_in}
    check_settings(states, sampler, inference, {"chains": chains, **numbers})
    with progress_bar(progress, burn_in + iterations, "sweeps of each chain") as tick:
        rng = np.random.default_rng(seed)
        drawn = draw_markov(given, states, rng=rng, progress=tick, **numbers, **settings)
    named = match_labels(drawn, given.fields)
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
    )
    _warn_of_poor_mixing(model)
    return model


def _warn_of_poor_mixing(model: HiddenMarkovModel) -> None:
    """Accuracy is at stake, not privacy."""
    found = model.diagnostics
    if found["r_hat"] > MOST_R_HAT:
        warnings.warn(
            f"the sampler's chains have not mixed: R-hat {found['r_hat']:.3f}, effective size "
            f"{found['effective_size']:.0f}; raise iterations and burn_in before you quote states. "
            "Privacy is not at stake",
            ConvergenceWarning,
            stacklevel=3,
        )
