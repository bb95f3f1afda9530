"""Checks and counts of hidden Markov models of a network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network


def check_markov_network(network: Network, sequence: str, time: str) -> tuple[str, ...]:
    """The fields of a hidden Markov network: every other variable, each with the sequence and the time as parents."""
    fields = tuple(name for name in network.domain.names if name not in (sequence, time))
    roots = sequence != time and all(name in network.domain and not network.parents[name] for name in (sequence, time))
    if not (roots and fields and all(set(network.parents[name]) == {sequence, time} for name in fields)):
        raise NetworkError(
            f"the network is not a hidden Markov network of {sequence!r} and {time!r}; make one with hmm_network"
        )
    return fields


def checked_laws(
    network: Network, fields: tuple[str, ...], transition: Reals, emissions: Mapping[str, Reals], states: Integers
) -> FrozenMap[str, Reals]:
    """P(level | state) of each field, frozen, after checking shapes, probabilities and states."""
    if set(emissions) != set(fields):
        raise NetworkError("every field needs its emissions, and no other")
    frozen = FrozenMap((name, frozen_array(emissions[name], np.float64)) for name in fields)
    for name, law in frozen.items():
        if law.shape != (*transition.shape[:-1], network.domain.sizes[name]):
            raise NetworkError(f"the emissions of {name!r} have the wrong shape {law.shape}")
    for law in (transition, *frozen.values()):
        if not (np.isfinite(law).all() and (law >= 0).all() and np.allclose(law.sum(axis=-1), 1, atol=1e-6)):
            raise NetworkError("transitions and emissions must be non-negative and sum to 1 in each state")
    size = transition.shape[-1]
    if states.min() < 0 or states.max() >= size:
        raise NetworkError(f"a state is not one of 0 to {size - 1}")
    return frozen


def transition_counts(states: Integers, size: int) -> Integers:
    """How often each state follows each, shape (copies, states, states), of states (copies, sequences, steps)."""
    copies = len(states)
    index = (np.arange(copies)[:, None, None] * size + states[:, :, :-1]) * size + states[:, :, 1:]
    return np.bincount(index.ravel(), minlength=copies * size * size).reshape(copies, size, size)
