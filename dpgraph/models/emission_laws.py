"""What a state emits in a sequence: the state's law, reweighted by the sequence's effects where there are any."""

from __future__ import annotations

import numpy as np

from dpgraph.inference.markov.sampler import MarkovDraws
from dpgraph.structure.tables import Reals


def sequence_laws(emission: Reals, effects: Reals | None) -> Reals:
    """P(level | sequence, state), proportional to the state's law times e^effect (proofs.md P78).

    Args:
        emission: P(level | state), shape (draws, states, levels).
        effects: Shape (draws, sequences, levels), or None: no sequence differs.

    Returns:
        Shape (draws, sequences, states, levels); one sequence stands for all where there are no effects.

    >>> sequence_laws(np.array([[[0.5, 0.5]]]), np.log([[[1.0, 3.0]]])).round(2).tolist()
    [[[[0.25, 0.75]]]]
    """
    if effects is None:
        return emission[:, None]
    weight = emission[:, None] * np.exp(effects - effects.max(axis=-1, keepdims=True))[:, :, None]
    return weight / weight.sum(axis=-1, keepdims=True)


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
