"""The released tables of an event log: for each sequence and time step a noisy table of each field.

A cell is a sequence at a time step. Its fields' tables lie side by side: column w is one level of one field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_no_rules
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, NoisyCounts, Reals

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LogEvidence:
    """Noisy cells of an event log and the laws of their noise.

    Attributes:
        values: The released integers, shape (copies, sequences, steps, columns). One copy serves every sampler chain;
            calibration studies give each its own.
        fields: The columns of each field.
        absolute: The cost of a unit of |noise| in log-likelihood, shape (columns,): 1 / scale for Laplace noise.
        squares: The cost of a unit of noise^2, shape (columns,): 1 / (2 scale^2) for Gaussian noise.
        deviation: The standard deviation of the noise, shape (columns,).
        observed: Flags of the cells to learn from, shape (sequences, steps); the others are held out.
    """

    values: Integers
    fields: tuple[slice, ...]
    absolute: Reals
    squares: Reals
    deviation: Reals
    observed: Flags

    @property
    def shape(self) -> tuple[int, int]:
        """The number of sequences and of time steps."""
        return self.values.shape[1], self.values.shape[2]

    def without(self, held_out: Flags) -> LogEvidence:
        """The same with more cells held out."""
        return replace(self, observed=self.observed & ~held_out)


def log_evidence(noisy: NoisyCounts, sequence: str, time: str) -> LogEvidence:
    """The evidence of a release of a hidden Markov network's field tables.

    Under ``"replace"`` the sum over all cells is public as well; this does not use it.

    Raises:
        InferenceError: If the value is not noisy counts of {field, sequence, time} for every field.
    """
    if not isinstance(noisy, NoisyCounts):
        raise InferenceError(f"a hidden Markov model takes noisy counts; got {type(noisy).__name__}")
    check_no_rules(noisy.network, "a hidden Markov model")
    tables, laws, offset = [], [], 0
    slices: list[slice] = []
    for name in field_names(noisy.network, sequence, time):
        key = next((key for key in noisy.tables if set(key) == {name, sequence, time}), None)
        if key is None:
            raise InferenceError(f'no table of {name}, {sequence} and {time} was released; release tables="maximal"')
        order = [key.index(sequence), key.index(time), key.index(name)]
        tables.append(np.transpose(noisy.tables[key], order))
        levels = tables[-1].shape[2]
        slices.append(slice(offset, offset + levels))
        laws += [(noisy.laws[key], noisy.network.cells(key))] * levels
        offset += levels
    return cells_evidence(np.concatenate(tables, axis=2), tuple(slices), laws)


def cells_evidence(
    values: npt.NDArray[np.integer[Any]], fields: tuple[slice, ...], laws: list[tuple[Any, int]]
) -> LogEvidence:
    """The evidence of cells, shape (sequences, steps, columns) or (copies, sequences, steps, columns).

    ``laws`` has for each column its noise law and the number of cells of its table.
    """
    cells = np.asarray(values, np.int64)
    cells = cells[None] if cells.ndim == 3 else cells
    gaussian = np.array([isinstance(law, DiscreteGaussian) for law, _ in laws])
    scale = np.array([law.scale for law, _ in laws])
    return LogEvidence(
        cells,
        fields,
        np.where(gaussian, 0.0, 1 / scale),
        np.where(gaussian, 0.5 / scale**2, 0.0),
        np.sqrt([law.variance(size) for law, size in laws]),
        np.ones(cells.shape[1:3], bool),
    )


def field_names(network: Network, sequence: str, time: str) -> tuple[str, ...]:
    """Every variable but the sequence and the time, in the domain's order."""
    return tuple(name for name in network.domain.names if name not in (sequence, time))
