"""The log probability of each entry of an event log under a hidden Markov model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.structure.tables import Reals

#: Different entries whose probabilities under all draws are worked on at once, times draws.
BLOCK = 1 << 22


def entry_log_probability(model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """ln P of the fields of each entry in its cell: the average over draws of prod_f phi_f[state of the cell].

    Each entry is judged by itself, with what the model knows of its cell. Averaging over draws within an entry is
    what a user of the model meets; the score of a whole cell lets each cell pick its best draw (proofs.md P65).

    Args:
        model: The model.
        codes: The entries, an encoded column for every variable.
    """
    names = (model.sequence, model.time, *model.fields)
    columns = np.column_stack([codes[name].astype(np.int64) for name in names])
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    states = model.states.reshape(-1, *model.states.shape[2:]).astype(np.int64)
    draws = np.arange(len(states))[:, None]
    step = max(1, BLOCK // len(states))
    found = np.empty(len(kinds))
    for start in range(0, len(kinds), step):
        part = kinds[start : start + step]
        inside = states[:, part[:, 0], part[:, 1]]
        log = np.zeros(inside.shape)
        for k, name in enumerate(model.fields, start=2):
            law = model.emissions[name].reshape(len(states), model.n_states, -1)
            log += np.log(np.maximum(law[draws, inside, part[:, k]], 1e-300))
        found[start : start + step] = np.logaddexp.reduce(log, axis=0) - np.log(len(states))
    return found[which.ravel()]
