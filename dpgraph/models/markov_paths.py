"""The most likely path of hidden states of each sequence, given a release.

Given transitions and emissions the states of a sequence are a Markov chain a posteriori, whose law is that of its
pairs of neighbouring steps. Pairs in the posterior draws stand for them, and the Viterbi recursion (Rabiner 1989,
section III.B) finds the path of highest probability. With parameters that are uncertain the posterior is a mixture of
such chains, and this is the best path of the chain with the mixture's pairs: an approximation that the draws' spread
of parameters makes, and that their number limits (proofs.md P116).
"""

from __future__ import annotations

import numpy as np

from dpgraph.structure.tables import Integers, Reals


def most_likely_paths(states: Integers, size: int) -> Integers:
    """The best path of each sequence under the chain of its pairs of neighbouring states.

    >>> paths = np.array([[[0, 0, 1]], [[0, 0, 1]], [[1, 0, 0]]])
    >>> most_likely_paths(paths, 2)
    array([[0, 0, 1]])
    """
    _, sequences, steps = states.shape
    with np.errstate(divide="ignore"):
        score = np.log(np.stack([(states[:, :, 0] == k).mean(axis=0) for k in range(size)], axis=1))
        before = np.zeros((steps, sequences, size), np.int64)
        for t in range(1, steps):
            total = score[:, :, None] + np.log(_moves(states[:, :, t - 1], states[:, :, t], size))
            before[t], score = total.argmax(axis=1), total.max(axis=1)
    paths = np.zeros((sequences, steps), np.int64)
    paths[:, -1] = score.argmax(axis=1)
    for t in range(steps - 1, 0, -1):
        paths[:, t - 1] = before[t, np.arange(sequences), paths[:, t]]
    return paths


def _moves(now: Integers, following: Integers, size: int) -> Reals:
    """P(next state | state) of one step over draws, shape (sequences, states, states); 0 from where no draw is."""
    sequences = now.shape[1]
    pairs = np.zeros((sequences, size, size))
    np.add.at(pairs, (np.broadcast_to(np.arange(sequences), now.shape), now, following), 1.0)
    return pairs / np.maximum(pairs.sum(axis=2, keepdims=True), 1.0)
