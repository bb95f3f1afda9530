"""Nats of the entries of a log under a hidden Markov model, as private as the entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov.evidence import Flags
from dpgraph.inference.network.queries import code_columns
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.structure.conversion import added, in_blocks
from dpgraph.structure.tables import Reals

#: Different entries whose probabilities under all draws are worked on at once.
BLOCK = 256


def entry_log_probability(model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """ln P of the fields of each entry, by itself: the average over draws of prod_f phi_f[state of its cell] (P65)."""
    names = (model.sequence, model.time, *model.fields)
    columns = np.column_stack([codes[name].astype(np.int64) for name in names])
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    states = model.states.reshape(-1, *model.states.shape[2:]).astype(np.int64)
    draws = np.arange(len(states))[:, None]
    laws = [np.log(np.maximum(model.released_laws(name), 1e-300)) for name in model.fields]

    def of(part: npt.NDArray[np.int64]) -> Reals:
        """ln P of a block of kinds."""
        places = part[:, 0] if model.effects else 0
        inside = states[:, part[:, 0], part[:, 1]]
        log = added(law[draws, places, inside, part[:, k]] for k, law in enumerate(laws, start=2))
        return reduce(np.logaddexp, log) - np.log(len(states))

    return in_blocks(of, kinds, BLOCK)[which.ravel()]


def markov_scores(
    model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]], cells: Flags | None = None
) -> dict[str, float]:
    """Nats an entry of some cells, all by default, three ways; as private as the entries, and NaN without an entry.

    With draws s of S and cells c of m_c entries x_ci, m in all, states summed out but in the first (proofs.md P65):

    - "entry by entry", the headline: (1/m) sum_c sum_i ln (1/S) sum_s P(x_ci | draw s).
    - "whole cells": (1/m) sum_c ln (1/S) sum_s prod_i P(x_ci | draw s); it flatters a posterior that is spread out.
    - "average over draws", Foulds et al. 2016: (1/m) sum_c (1/S) sum_s ln prod_i P(x_ci | draw s); it punishes one.
    """
    columns = code_columns(codes, model.network.domain.sizes)
    each, entries = model.cell_log_likelihoods(columns, cells)
    if entries == 0:
        return dict.fromkeys(("entry by entry", "whole cells", "average over draws"), math.nan)
    if cells is not None:
        place = columns[model.sequence].astype(np.int64), columns[model.time].astype(np.int64)
        columns = {name: column[np.asarray(cells, bool)[place]] for name, column in columns.items()}
    return {
        "entry by entry": float(entry_log_probability(model, columns).sum()) / entries,
        "whole cells": float((np.logaddexp.reduce(each, axis=0) - np.log(len(each))).sum()) / entries,
        "average over draws": float(each.mean(axis=0).sum()) / entries,
    }
