"""How probable the entries of an event log are under a hidden Markov model: entry by entry, and two other ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov.evidence import Flags
from dpgraph.inference.network.queries import code_columns
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.structure.rowwise import added, in_blocks
from dpgraph.structure.tables import Reals

#: Different entries whose probabilities under all draws are worked on at once.
BLOCK = 256


def entry_log_probability(model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """ln P of the fields of each entry in its cell: the average over draws of prod_f phi_f[state of the cell].

    ``codes`` have an encoded column for every variable. Each entry is judged by itself; the score of a whole cell lets
    each cell pick its best draw (proofs.md P65).
    """
    names = (model.sequence, model.time, *model.fields)
    columns = np.column_stack([codes[name].astype(np.int64) for name in names])
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    states = model.states.reshape(-1, *model.states.shape[2:]).astype(np.int64)
    draws = np.arange(len(states))[:, None]
    laws = [np.log(np.maximum(model.sequence_laws(name), 1e-300)) for name in model.fields]

    def of(part: npt.NDArray[np.int64]) -> Reals:
        """ln P of a block of kinds."""
        places = part[:, 0] if model.effects else 0
        inside = states[:, part[:, 0], part[:, 1]]
        log = added(law[draws, places, inside, part[:, k]] for k, law in enumerate(laws, start=2))
        return reduce(np.logaddexp, log) - np.log(len(states))

    return in_blocks(of, kinds, BLOCK)[which.ravel()]


@dataclass(frozen=True)
class MarkovScores:
    """Nats an entry, three ways; draws s of S, cells c with m_c entries x_ci, m = sum_c m_c in all (proofs.md P65).

    Attributes:
        entry_by_entry: (1/m) sum_c sum_i ln (1/S) sum_s P(x_ci | draw s), as if entries came one after another and the
            model were asked anew each time. The headline.
        whole_cells: (1/m) sum_c ln (1/S) sum_s prod_i P(x_ci | draw s), the cell's state summed out given its
            neighbours. A cell picks the draw that fits it best, which flatters a posterior that is spread out, as it is
            where epsilon is small.
        average_over_draws: (1/m) sum_c (1/S) sum_s ln prod_i P(x_ci | draw s), likewise summed out: the average of
            Foulds et al. 2016. It punishes a posterior that is spread out.
        entries: m.
    """

    entry_by_entry: float
    whole_cells: float
    average_over_draws: float
    entries: int


def markov_scores(
    model: HiddenMarkovModel, codes: Mapping[str, npt.NDArray[Any]], cells: Flags | None = None
) -> MarkovScores:
    """Nats an entry of some cells, all by default; as private as the entries, and NaN without an entry."""
    columns = code_columns(codes, model.network.domain.sizes)
    each, entries = model.cell_log_likelihoods(columns, cells)
    if entries == 0:
        return MarkovScores(math.nan, math.nan, math.nan, 0)
    if cells is not None:
        place = columns[model.sequence].astype(np.int64), columns[model.time].astype(np.int64)
        columns = {name: column[np.asarray(cells, bool)[place]] for name, column in columns.items()}
    whole = float((np.logaddexp.reduce(each, axis=0) - np.log(len(each))).sum())
    single = entry_log_probability(model, columns).sum()
    return MarkovScores(float(single) / entries, whole / entries, float(each.mean(axis=0).sum()) / entries, entries)
