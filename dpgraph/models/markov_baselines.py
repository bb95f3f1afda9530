"""Two simple models of the same release beside a hidden Markov model, which is no use where it loses to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.inference.markov.evidence import Flags, field_names, log_evidence
from dpgraph.inference.markov.sampler import draw_markov
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.privacy.records import InferenceError, Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import NoisyCounts

#: What the baselines are called.
ONE_STATE, BY_SEQUENCE = "one state", "fields given the sequence"


def markov_baselines(
    noisy: NoisyCounts | Release[Any],
    *,
    sequence: str,
    time: str,
    chains: int = 2,
    iterations: int = 200,
    burn_in: int = 100,
    held_out: Flags | None = None,
    seed: int | np.random.Generator | None = None,
) -> dict[str, HiddenMarkovModel]:
    """Independent fields, and independent fields given the sequence, learned noise-aware from one release; free.

    Each is a hidden Markov model with nothing hidden, drawn by the same sampler under uniform laws: one state, or a
    state for each sequence that is known. They are returned as models of one state, so all scores apply to them.

    Args:
        noisy: As for ``fit_hmm``, and so is the rest.
        sequence: The variable whose levels are the sequences.
        time: The variable whose levels are the time steps.
        chains: Sampler chains.
        iterations: Draws of each.
        burn_in: Sweeps before the first.
        held_out: Cells not to learn from.
        seed: For the draws.

    Returns:
        By name: ``"one state"`` and ``"fields given the sequence"``.

    Raises:
        InferenceError: If the release is of another kind.
    """
    value, provenance = released_value(noisy)
    given = log_evidence(value, sequence, time)
    if held_out is not None:
        if np.shape(held_out) != given.shape:
            raise InferenceError(f"held_out must have the shape {given.shape}; got {np.shape(held_out)}")
        given = given.without(np.asarray(held_out, bool))
    rng, names = np.random.default_rng(seed), field_names(value.network, sequence, time)
    settings: dict[str, Any] = {"rng": rng, "copies": chains, "iterations": iterations, "burn_in": burn_in}
    known = np.repeat(np.arange(given.shape[0])[:, None], given.shape[1], axis=1)
    found = {
        ONE_STATE: draw_markov(given, 1, **settings),
        BY_SEQUENCE: draw_markov(given, given.shape[0], known=known, **settings),
    }
    models = {}
    for title, drawn in found.items():
        shape = drawn.emissions.shape[:2]
        laws = {name: drawn.emissions[..., columns] for name, columns in zip(names, given.fields, strict=True)}
        alone = title == ONE_STATE
        even = {name: np.full((*shape, 1, law.shape[3]), 1 / law.shape[3]) for name, law in laws.items()}
        models[title] = HiddenMarkovModel(
            value.network,
            sequence,
            time,
            np.ones((*shape, 1, 1)),
            FrozenMap(laws if alone else even),
            np.zeros(drawn.states.shape, np.int64),
            drawn.log_joint,
            drawn.entries.mean(axis=0),
            "noise-aware",
            "blocked",
            FrozenMap(drawn.acceptance),
            provenance,
            FrozenMap({} if alone else {name: np.log(np.maximum(law, 1e-300)) for name, law in laws.items()}),
        )
    return models
