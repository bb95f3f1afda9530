"""Label matching: one labelling of the states for all draws; R-hat on quantities that labels do not change.

A posterior of hidden states does not change when their labels do, and samplers switch them. Each draw is relabelled
by the assignment that agrees best with a reference in the states of cells and the emissions of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.inference.markov.sampler import MarkovDraws
from dpgraph.structure.tables import Integers, Reals

#: The share of predicted probabilities whose R-hat is at most the one reported.
MOST_PREDICTIONS = 0.99
#: Which draw is the reference first, then the average of all; two rounds.
ROUNDS = 2


def match_labels(draws: MarkovDraws, fields: tuple[slice, ...]) -> MarkovDraws:
    """Relabels the draws so that labels agree, the most frequent state first; ``fields`` are the columns of each."""
    size = draws.transition.shape[2]
    flat: Integers = draws.states.reshape(-1, draws.states.shape[2] * draws.states.shape[3])
    emissions = draws.emissions.reshape(-1, size, draws.emissions.shape[3])
    best = int(draws.log_joint.argmax())
    places, laws = _memberships(flat[best], size), emissions[best]
    order = np.tile(np.arange(size), (len(flat), 1))
    for _ in range(ROUNDS):
        order = np.stack([_assignment(places, laws, *one, fields) for one in zip(flat, emissions, strict=True)])
        renaming = np.argsort(order, axis=1)
        places = np.zeros((size, flat.shape[1]))  # the share of draws with each cell in each state, one draw at a time
        for names, states in zip(renaming, flat, strict=True):
            places += _memberships(names[states], size)
        places /= len(flat)
        laws = np.take_along_axis(emissions, order[:, :, None], 1).mean(axis=0)
    order = order[:, np.argsort(-places.sum(axis=1), kind="stable")]
    return _relabelled(draws, order)


def _memberships(states: Integers, size: int) -> Reals:
    """Flags of the cells in each state, shape (states, cells)."""
    return (states == np.arange(size)[:, None]).astype(float)


def _assignment(places: Reals, laws: Reals, states: Integers, emissions: Reals, fields: tuple[slice, ...]) -> Integers:
    """For each label of the reference the draw's state that takes it."""
    from scipy.optimize import linear_sum_assignment

    agreement = places @ _memberships(states, len(laws)).T / states.size
    for columns in fields:
        apart = np.abs(laws[:, None, columns] - emissions[None, :, columns]).sum(axis=2) / 2
        agreement = agreement + (1 - apart) / len(fields)
    return linear_sum_assignment(-agreement)[1]


def _relabelled(draws: MarkovDraws, order: Integers) -> MarkovDraws:
    size = draws.transition.shape[2]
    transition = draws.transition.reshape(-1, size, size)
    transition = np.take_along_axis(np.take_along_axis(transition, order[:, :, None], 1), order[:, None, :], 2)
    emissions = draws.emissions.reshape(-1, size, draws.emissions.shape[3])
    renaming = np.argsort(order, axis=1).astype(draws.states.dtype)
    flat = draws.states.reshape(len(order), -1)
    states = np.empty_like(flat)
    for into, names, one in zip(states, renaming, flat, strict=True):
        into[:] = names[one]
    return replace(
        draws,
        transition=transition.reshape(draws.transition.shape),
        emissions=np.take_along_axis(emissions, order[:, :, None], 1).reshape(draws.emissions.shape),
        states=states.reshape(draws.states.shape),
    )


def sorted_occupancies(states: Integers, size: int) -> Integers:
    """The number of cells in each state, most first, shape (copies, draws, states)."""
    copies, many = states.shape[:2]
    counted = np.array([np.bincount(one, minlength=size) for one in states.reshape(copies * many, -1)])
    counted = counted.reshape(copies, many, size)
    return -np.sort(-counted, axis=2)


def centred_spread(effects: Reals) -> Reals:
    """The standard deviation of a field's effects about the means of their sequence and of their level.

    Adding a number to all levels of a sequence changes no law, and the states' laws undo adding one to a level in all
    sequences: entries say nothing of these means. From shape (copies, draws, sequences, levels) to (copies, draws).

    >>> centred_spread(np.array([[[[0.0, 2.0], [0.0, 4.0]]]])).tolist()
    [[0.5]]
    """
    centred = effects - effects.mean(axis=3, keepdims=True)
    return (centred - centred.mean(axis=2, keepdims=True)).std(axis=(2, 3))


def r_hat_of_predictions(predictions: Reals) -> float:
    """The R-hat that 99 % of some predicted probabilities, shape (copies, draws, probabilities), do not exceed.

    Probabilities that never move are left out.
    """
    found = r_hat(predictions[..., np.ptp(predictions, axis=(0, 1)) > 1e-9])
    known = found[~np.isnan(found)]
    return float(np.quantile(known, MOST_PREDICTIONS)) if known.size else 1.0


def label_invariant_diagnostics(
    states: Integers, log_joint: Reals, size: int, others: Sequence[Reals] = ()
) -> dict[str, float]:
    """Worst R-hat and smallest effective size of the log joint and sorted occupancies, which labels do not change.

    Others, each of shape (copies, draws), are judged beside them; fewer than four draws tell nothing.
    """
    beside = [value[..., None] for value in (log_joint, *others)]
    quantities = np.concatenate([*beside, sorted_occupancies(states, size).astype(float)], axis=2)
    worst, least = r_hat(quantities), effective_size(quantities)
    return {
        "r_hat": float(worst[~np.isnan(worst)].max(initial=1.0)),
        "effective_size": float(least[~np.isnan(least)].min(initial=log_joint.size)),
    }
