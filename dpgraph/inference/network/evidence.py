"""The likelihood of a release: linear statistics of the unknown rows, each with the exact law of its noise.

Every noise-aware method reads a release through this one form. The likelihood of tables s is the product over the
measured statistics of law(y - s): proportional to exp(-|y - s| / scale) for Laplace noise, sum-zero Laplace noise
included, as its normalisation does not depend on s (proofs.md P17), and to exp(-(y - s)^2 / (2 scale^2)) for Gaussian
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.privacy.records import Provenance, joint_release, released_value
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.joint import JointCounts, PooledCounts, Several, learning
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import Integers, NoisyCoefficients, NoisyCounts, Reals, contrast_matrix, fixed_point

#: Rows of codes by variable with the variables behind them.
Completed = Callable[[Mapping[str, npt.NDArray[Any]], np.random.Generator], dict[str, npt.NDArray[np.integer[Any]]]]


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """Noisy linear statistics of the table over some variables, one axis each.

    ``values`` has the released integers, shape (statistics,), each with noise of the law times ``step``; ``weights``
    the statistics of one row in each cell, shape (cells, statistics), None where the statistics are the cells
    themselves.
    """

    variables: Family
    shape: tuple[int, ...]
    values: Integers
    law: NoiseLaw
    weights: Integers | None = None
    step: int = 1

    @property
    def scale(self) -> float:
        """The scale of the noise in the units of ``values``."""
        return self.law.scale * self.step

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise in the units of ``values``."""
        return replace(self.law, scale=self.scale)  # type: ignore[type-var]  # laws are frozen dataclasses

    def statistics(self, counts: Integers) -> Integers:
        """The exact statistics of a table of counts, its cells flat or not."""
        flat = np.asarray(counts, np.int64).reshape(-1)
        return flat if self.weights is None else flat @ self.weights


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a release says: its measured tables, and the number of rows where it is public.

    Where ``network`` has variables behind those of the tables, such as unobserved values, ``released`` is the evidence
    of the tables' own network, and ``completed`` makes records of its rows.
    """

    network: Network
    tables: tuple[MeasuredTable, ...]
    n: int | None
    released: Evidence | None = None
    completed: Completed | None = None

    @cached_property
    def _holding(self) -> Holding:
        return Holding(self.network, (table.variables for table in self.tables))

    @property
    def scale(self) -> float:
        """The mean scale of the tables' noise, in records."""
        scales = [one.scale / (1 if one.weights is None else np.abs(one.weights).max()) for one in self.tables]
        return float(np.mean(scales)) if scales else 0.0

    def holding(self, family: Family) -> list[MeasuredTable]:
        """The measured tables that hold all variables of a family."""
        return [self.tables[place] for place in self._holding.places(family)]


def evidence(noisy: NoisyCounts | NoisyCoefficients | JointCounts) -> Evidence:
    """The evidence of released counts or coefficients; several releases of the same rows make one longer list.

    A family that no table holds is refused.
    """
    if isinstance(noisy, NoisyCounts):
        holding = Holding(noisy.network, noisy.tables)
        for family in noisy.network.maximal_families:
            holding.smallest(family)
    elif not isinstance(noisy, NoisyCoefficients | JointCounts):
        raise InferenceError(f"a noise-aware posterior takes noisy counts or coefficients; got {type(noisy).__name__}")
    assert noisy.network is not None
    return evidence_for(noisy.network, noisy)


def evidence_for(network: Network, noisy: NoisyCounts | NoisyCoefficients | JointCounts) -> Evidence:
    """All that was released, for learning a network none of whose families need lie in one table.

    Only chains of records read variables that no table holds together, by the tables of their parts and the prior.
    """
    parts = single_releases(noisy)
    return Evidence(network, tuple(table for part in parts for table in _measured(part)), noisy.n)


def read_released(noisy: Any, network: Network | None) -> tuple[Any, Provenance | None]:
    """The value to learn from and its record: of a release, or of a list of releases of the same rows.

    ``network`` is the one to learn, None the one that was released.
    """
    together = joint_release(noisy) if isinstance(noisy, list | tuple) else noisy
    value, provenance = released_value(together)
    if network is not None:
        value = learning(value, network)
    if isinstance(value, JointCounts | PooledCounts) and value.network is None:
        raise NetworkError("these releases are of different networks; name the one to learn, network=")
    return value, provenance


def check_graph(value: Any) -> None:
    """Refuses tables without a graph where one is needed: every variable would be independent of every other."""
    if isinstance(getattr(value, "network", None), Margins):
        named = ", or give network=, --network of a command" if isinstance(value, NoisyCounts | Several) else ""
        raise InferenceError(
            "these are tables without a graph, in which nothing depends on anything; choose one first: "
            f"dg.choose_network(release), of a release of counts or coefficients{named}"
        )


def single_releases(noisy: Any) -> tuple[Any, ...]:
    """The releases of a joint release, or the one release."""
    return noisy.singles if isinstance(noisy, JointCounts) else (noisy,)


def _measured(noisy: NoisyCounts | NoisyCoefficients) -> tuple[MeasuredTable, ...]:
    if isinstance(noisy, NoisyCounts):
        cells = noisy.tables.items()
        return tuple(MeasuredTable(key, table.shape, table.reshape(-1), noisy.laws[key]) for key, table in cells)
    found = []
    for block, values in noisy.blocks.items():
        shape = noisy.network.shape(block)
        weights = block_weights(shape, noisy.grid)
        found.append(MeasuredTable(block, shape, values.reshape(-1), noisy.laws[block], weights, noisy.step))
    return tuple(found)


def block_weights(levels: tuple[int, ...], grid: int) -> Integers:
    """The integer coefficients of a block for one row in each cell, shape (cells, coefficients)."""
    weights: Integers = np.ones((1, 1), np.int64)
    for size in levels:
        weights = np.kron(weights, contrast_matrix(size)[1:].T)
    return weights * fixed_point(levels, grid).reshape(-1)


def contingency_table(
    records: Mapping[str, npt.NDArray[np.integer[Any]]], variables: Family, shape: tuple[int, ...]
) -> Integers:
    """The contingency table of some variables of records."""
    if not variables:
        return np.array(len(next(iter(records.values()))), np.int64)
    index = np.ravel_multi_index([records[name].astype(np.int64) for name in variables], shape)
    return np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)


def rows_estimate(given: Evidence) -> tuple[float, float]:
    """The inverse-variance average of each table's number of rows, with its standard deviation."""
    if given.n is not None:
        return float(given.n), 0.0
    weight = total = 0.0
    for table in given.tables:
        cells = table.values.size if table.weights is not None else given.network.possible_cells(table.variables)
        spread = table.law.variance(cells) * table.step**2
        if table.weights is None:
            value, variance = float(table.values.sum()), spread * cells
        elif not table.variables:
            unit = float(table.weights[0, 0])  # on a grid a row counts as many
            value, variance = float(table.values[0]) / unit, spread / unit**2
        else:
            continue
        weight += 1 / max(variance, 1e-12)
        total += value / max(variance, 1e-12)
    return max(0.0, total / weight), weight**-0.5


def concentration_tables(network: Network, prior: float) -> dict[str, Reals]:
    """The Dirichlet concentrations before any row: the same in every cell of every family, 0 where rules forbid it."""
    found = {name: np.full(network.shape(network.family(name)), float(prior)) for name in network.domain.names}
    for name in network.domain.names if network.rules else ():
        if (allowed := network.allowed(name)) is not None:
            found[name] *= allowed
    return found
