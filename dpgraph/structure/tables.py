"""Tables over a network: noisy counts as they were released, consistent counts, and conditional probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import NoiseLaw, Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Family, Network

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def margin(table: npt.NDArray[Any], axes: Family, wanted: Family) -> npt.NDArray[Any]:
    """Sums a table over all but the wanted variables, in the order wanted."""
    kept = [name for name in axes if name in wanted]
    summed = table.sum(axis=tuple(i for i, name in enumerate(axes) if name not in wanted))
    return np.transpose(summed, [kept.index(name) for name in wanted])


def smallest_holder(network: Network, tables: Iterable[Family], wanted: Family) -> Family:
    """The smallest table that contains the wanted variables.

    Raises:
        NetworkError: If none does.
    """
    holding = [table for table in tables if set(wanted) <= set(table)]
    if not holding:
        raise NetworkError(f"no table holds {', '.join(wanted)} together")
    return min(holding, key=network.cells)


@dataclass(frozen=True)
class Tables:
    """Real-valued contingency tables, keyed by their variables; the shape of each is the variables' levels.

    ``n`` is the number of rows they describe: exact where it is public, else an estimate from the noisy tables.
    """

    network: Network
    tables: FrozenMap[Family, Reals]
    n: float
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _checked(self.network, self.tables, np.float64))

    def margin(self, *variables: str) -> Reals:
        """The counts over some variables that one table holds together, from the smallest such table."""
        holder = smallest_holder(self.network, self.tables, variables)
        return margin(self.tables[holder], holder, variables)

    def family(self, name: str) -> Reals:
        """The counts of a variable (axis 0) by its parents."""
        return self.margin(*self.network.family(name))


@dataclass(frozen=True)
class NoisyCounts:
    """What an additive mechanism released: integer tables and the exact noise law of each.

    ``n`` is the exact number of rows where the neighbour relation makes it public, else None.
    """

    network: Network
    tables: FrozenMap[Family, Integers]
    laws: FrozenMap[Family, NoiseLaw]
    n: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _checked(self.network, self.tables, np.int64))
        if set(self.laws) != set(self.tables):
            raise NetworkError("every noisy table needs its noise law, and no other")
        object.__setattr__(self, "laws", FrozenMap((key, self.laws[key]) for key in self.tables))

    def variance(self, table: Family) -> float:
        """The noise variance of one cell."""
        return self.laws[table].variance(self.network.cells(table))

    def clipped(self) -> Tables:
        """The tables with every cell cut to [0, n], or to [0, infinity) where n is private.

        This is the truncation of Zhang et al. 2016, Algorithm 1: free, but it biases empty cells upwards.
        """
        cut = FrozenMap((key, np.clip(table, 0, self.n).astype(float)) for key, table in self.tables.items())
        guess = float(np.mean([table.sum() for table in self.tables.values()])) if self.n is None else float(self.n)
        return Tables(self.network, cut, max(0.0, guess))


@dataclass(frozen=True)
class Probabilities:
    """The conditional probability tables of a network: for each variable an array with axes (variable, *parents).

    Raises:
        NetworkError: If a table is missing, has the wrong shape, a negative entry, or columns that do not sum to 1.

    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> Probabilities(network, {"rain": [0.8, 0.2]}).table("rain")
    array([0.8, 0.2])
    """

    network: Network
    tables: FrozenMap[str, Reals]
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        families = FrozenMap(
            (self.network.family(name), np.asarray(table, float)) for name, table in self.tables.items()
        )
        checked = _checked(self.network, families, np.float64)
        if len(checked) < len(self.network.domain.names):
            raise NetworkError("every variable needs its conditional probability table")
        for family, table in checked.items():
            if not (np.isfinite(table).all() and (table >= 0).all() and np.allclose(table.sum(axis=0), 1, atol=1e-6)):
                raise NetworkError(f"the table of {family[0]!r} must be non-negative and sum to 1 over its own levels")
        ordered = FrozenMap((name, checked[self.network.family(name)]) for name in self.network.domain.names)
        object.__setattr__(self, "tables", ordered)

    def table(self, name: str) -> Reals:
        """P(variable | parents), axes (variable, *parents)."""
        self.network.domain[name]
        return self.tables[name]

    def to_frame(self, name: str) -> pd.DataFrame:
        """P(variable | parents) as a table to read: a row for each parent configuration, a column for each level."""
        return conditional_frame(self.network, name, self.table(name))


def conditional_frame(network: Network, name: str, table: Reals) -> pd.DataFrame:
    """An array with axes (variable, *parents) as a frame: rows are parent configurations, columns the levels."""
    import pandas as pd

    parents = network.parents[name]
    levels = [network.domain.levels(parent) for parent in parents]
    index = pd.MultiIndex.from_product(levels, names=parents) if parents else pd.Index([""], name="")
    columns = pd.Index(network.domain.levels(name), name=name)
    return pd.DataFrame(table.reshape(table.shape[0], -1).T, index=index, columns=columns)


def _checked(network: Network, tables: Mapping[Family, Any], dtype: Any) -> FrozenMap[Family, Any]:
    """Frozen copies, after checking that each key names variables and each shape is theirs."""
    frozen: dict[Family, Any] = {}
    for key, table in tables.items():
        if np.shape(table) != network.shape(key):
            raise NetworkError(f"the table of {', '.join(key)} has shape {np.shape(table)}, not {network.shape(key)}")
        frozen[key] = frozen_array(table, dtype)
    return FrozenMap(frozen)
