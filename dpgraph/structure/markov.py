"""The published sweeps of a private Gibbs sampler of a hidden Markov model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpgraph.privacy.arrays import Integers, Reals
from dpgraph.privacy.records import Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network


def check_markov_network(network: Network, sequence: str, time: str) -> tuple[str, ...]:
    """The fields of a hidden Markov network: every other variable, and each has the sequence and the time as parents.

    Raises:
        NetworkError: If the network is of another kind.
    """
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
    """The emissions, frozen, after checking shapes, probabilities and states.

    Args:
        network: Of the model.
        fields: As ``check_markov_network`` gives them.
        transition: P(next state | state), shape (..., states, states).
        emissions: For each field P(level | state), shape (..., states, levels).
        states: Of any shape.

    Raises:
        NetworkError: If not.
    """
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
    """How often each state follows each, shape (copies, states, states).

    Args:
        states: Shape (copies, sequences, steps).
        size: The number of states.
    """
    copies = len(states)
    index = (np.arange(copies)[:, None, None] * size + states[:, :, :-1]) * size + states[:, :, 1:]
    return np.bincount(index.ravel(), minlength=copies * size * size).reshape(copies, size, size)


@dataclass(frozen=True, eq=False)
class MarkovSweeps:
    """The states, emissions and transitions of every sweep; state labels may switch between sweeps.

    Attributes:
        network: As ``hmm_network``.
        sequence: The variable whose levels are the sequences.
        time: The variable whose levels are the time steps, in order.
        transition: P(next state | state), shape (sweeps, states, states).
        emissions: For each field P(level | state), shape (sweeps, states, levels).
        states: Shape (sweeps, sequences, steps).
        provenance: What was released, for whom, and whether the noise was private.

    Raises:
        NetworkError: If the parts do not fit each other.
    """

    network: Network
    sequence: str
    time: str
    transition: Reals
    emissions: FrozenMap[str, Reals]
    states: Integers
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        fields = check_markov_network(self.network, self.sequence, self.time)
        object.__setattr__(self, "transition", frozen_array(self.transition, np.float64))
        object.__setattr__(self, "states", frozen_array(self.states, np.int64))
        sweeps, size = self.transition.shape[:2] if self.transition.ndim == 3 else (0, 0)
        if self.transition.shape != (sweeps, size, size) or not self.transition.size:
            raise NetworkError(f"the transitions have the wrong shape {self.transition.shape}")
        if self.states.shape != (sweeps, *self.network.shape((self.sequence, self.time))):
            raise NetworkError(f"the states have the wrong shape {self.states.shape}")
        frozen = checked_laws(self.network, fields, self.transition, self.emissions, self.states)
        object.__setattr__(self, "emissions", frozen)

    @property
    def sweeps(self) -> int:
        """The number of sweeps, in the order they were made."""
        return self.transition.shape[0]

    @property
    def n_states(self) -> int:
        """The number of hidden states."""
        return self.transition.shape[1]

    def __repr__(self) -> str:
        return f"MarkovSweeps({self.n_states} states, {len(self.emissions)} fields, {self.sweeps} sweeps)"
