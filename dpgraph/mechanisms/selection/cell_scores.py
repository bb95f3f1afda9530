"""Integer scores of the hidden states of a log's cells, so that selections by them are exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.arrays import Integers


def state_scores(counts: Mapping[str, Integers], logs: Mapping[str, Integers]) -> npt.NDArray[Any]:
    """sum_f sum_v counts ln phi in units for each cell and state, exact, shape (chains, steps, states).

    Args:
        counts: For each field, shape (chains, steps, levels).
        logs: For each field whole log probabilities, shape (states, levels).
    """
    most = sum(int(c.sum()) * int(np.abs(logs[name]).max()) for name, c in counts.items())
    kind: Any = np.int64 if most < 2**61 else object
    return sum((c.astype(kind) @ logs[name].astype(kind).T for name, c in counts.items()), start=np.zeros((), kind))


def entry_range(logs: Iterable[Integers]) -> int:
    """The largest difference of ln P(entry | state) between two states, over all possible entries, in units."""
    apart: Any = 0
    for law in logs:
        apart = apart + (law[:, None, :] - law[None, :, :]).max(axis=2)
    return int(np.max(apart))
