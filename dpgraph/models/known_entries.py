"""Evidence of a public number of entries in each cell of an event log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.privacy.records import InferenceError

#: Penalty that pins the total: nats for each entry that a latent total is off.
COST = 100.0
DEVIATION = 1e-5


def with_known_entries(given: LogEvidence, entries: npt.ArrayLike) -> LogEvidence:
    """The evidence with one more field, of one level, whose table is the number of entries, all but without noise.

    Args:
        given: The released cells.
        entries: The number of entries of each cell, shape (chains, steps), whole numbers. It must be public: counted
            from the log it would be private, and a table of it is then released like any other, as that of a field
            with one level.

    Raises:
        InferenceError: If the numbers are not such a table.
    """
    table = np.asarray(entries)
    if table.shape != given.shape or table.dtype.kind not in "iu" or table.min() < 0:
        raise InferenceError(f"entries must be whole numbers, at least 0, of shape {given.shape}; got {table.shape}")
    column = np.broadcast_to(table[None, :, :, None].astype(np.int64), (*given.values.shape[:3], 1))
    width = given.values.shape[3]
    return replace(
        given,
        values=np.concatenate([given.values, column], axis=3),
        fields=(*given.fields, slice(width, width + 1)),
        absolute=np.append(given.absolute, COST),
        squares=np.append(given.squares, 0.0),
        deviation=np.append(given.deviation, DEVIATION),
    )
