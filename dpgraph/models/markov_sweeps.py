"""A hidden Markov model from the published sweeps of a private Gibbs sampler."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from dpgraph.inference.markov.labels import match_labels
from dpgraph.inference.markov.sampler import MarkovDraws
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.privacy.records import InferenceError, Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.markov import MarkovSweeps, transition_counts

#: What ``HiddenMarkovModel.inference`` says of such a model.
INFERENCE = "private-gibbs"


def sampled_markov_model(sweeps: MarkovSweeps | Release[Any], keep: int | None = None) -> HiddenMarkovModel:
    """The last sweeps of a release by ``GibbsSample`` as draws of a model; free.

    They are draws of a tempered posterior, once the sampler has forgotten its start, and spread more widely than the
    posterior. Nothing is known of the number of entries: ``entries`` is 0 everywhere. ``log_joint`` is the log
    probability of the states given the transitions.

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
        INFERENCE,
        "blocked",
        provenance=provenance if provenance is not None else value.provenance,
    )
