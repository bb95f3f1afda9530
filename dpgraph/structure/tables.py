"""Tables over a network: noisy counts or coefficients as released, consistent counts, conditional probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpgraph.lazy import provided
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.display import MOST_ROWS, as_html, counted, rows_in_words, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Block, Name, NoiseLaw, noisy_value
from dpgraph.privacy.records import PrivacyUnit, Provenance, released_value
from dpgraph.structure.basis import (
    block_shape,
    cell_variance,
    coefficient_blocks,
    contrast_norms,
    fixed_point,
    has_blocks,
    ordered,
    subsets,
    table_of,
)
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array, frozen_integers
from dpgraph.structure.network import Family, Holding, Network

if TYPE_CHECKING:
    import pandas as pd


#: The prediction methods of models without a network.
PREDICTION_METHODS = ("predict", "predict_interval", "predict_fields", "forecast", "sample")
#: The most pseudo-records; more would leave 64 bits.
MOST_RECORDS = 1 << 62


def margin(table: npt.NDArray[Any], axes: Family, wanted: Family) -> npt.NDArray[Any]:
    """Sums a table over all but the wanted variables, in the order wanted."""
    kept = [name for name in axes if name in wanted]
    summed = table.sum(axis=tuple(i for i, name in enumerate(axes) if name not in wanted))
    return np.transpose(summed, [kept.index(name) for name in wanted])


@dataclass(frozen=True)
class Tables:
    """Contingency tables by their variables; ``n`` is the number of rows, exact where public, else an estimate."""

    network: Network
    tables: FrozenMap[Family, Reals]
    n: float
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _checked(self.network, self.tables, np.float64))

    @cached_property
    def _holding(self) -> Holding:
        return Holding(self.network, self.tables)

    def margin(self, *variables: str) -> Reals:
        """The counts over some variables that one table holds together, from the smallest such table."""
        holder = self._holding.smallest(variables)
        return margin(self.tables[holder], holder, variables)

    def family(self, name: str) -> Reals:
        """The counts of a variable (axis 0) by its parents."""
        return self.margin(*self.network.family(name))

    def __repr__(self) -> str:
        cells = sum(table.size for table in self.tables.values())
        return summary("Tables", counted(len(self.tables), "table"), counted(cells, "cell"), f"n about {self.n:.3g}")


@dataclass(frozen=True)
class NoisyCounts:
    """The release of an additive mechanism: integer tables and the exact noise law of each.

    ``n`` is the exact number of rows where the neighbour relation makes it public, else None.

    Raises:
        NetworkError: If a table or a law is missing or of the wrong shape.
        ReleaseError: If counts or n are not whole numbers, or a table whose noise sums to zero does not sum to n.
    """

    network: Network
    tables: FrozenMap[Family, Integers]
    laws: FrozenMap[Family, NoiseLaw]
    n: int | None

    def __post_init__(self) -> None:
        check_rows(self.n)
        object.__setattr__(self, "tables", _checked(self.network, self.tables, np.int64))
        if set(self.laws) != set(self.tables):
            raise NetworkError("every noisy table needs its noise law, and no other")
        object.__setattr__(self, "laws", FrozenMap((key, self.laws[key]) for key in self.tables))
        for key, table in self.tables.items():
            check_fixed_total(", ".join(key), table, self.laws[key], self.n)
            possible = self.network.possible(key)
            if possible is not None and table[~possible].any():
                raise ReleaseError(f"the table of {', '.join(key)} has counts where the network's rules allow none")

    @property
    def description(self) -> Network:
        """The network whose tables were measured."""
        return self.network

    def variance(self, table: Family) -> float:
        """The noise variance of one cell."""
        return self.laws[table].variance(self.network.possible_cells(table))

    def clipped(self) -> Tables:
        """The tables with every cell cut to [0, n], or to [0, infinity) where n is private.

        This is the truncation of Zhang et al. 2016, Algorithm 1: free, but it biases empty cells upwards.
        """
        cut = FrozenMap((key, np.clip(table, 0, self.n).astype(float)) for key, table in self.tables.items())
        guess = float(np.mean([table.sum() for table in self.tables.values()])) if self.n is None else float(self.n)
        return Tables(self.network, cut, max(0.0, guess))

    def __repr__(self) -> str:
        cells = sum(table.size for table in self.tables.values())
        return summary("NoisyCounts", counted(len(self.tables), "table"), counted(cells, "cell"), rows_in_words(self.n))


@noisy_value.register
def _noisy_counts(
    description: Network,
    values: Mapping[Family, Integers],
    laws: Mapping[Family, NoiseLaw],
    n: int | None,
    unit: PrivacyUnit,
) -> NoisyCounts:
    """Noisy tables of a network, whichever were measured: 0 in cells that cannot be, whose noise was not drawn."""
    tables: dict[Family, Integers] = {}
    for key, table in values.items():
        possible = description.possible(key)
        tables[key] = table if possible is None else np.zeros(possible.shape, np.int64)
        if possible is not None:
            tables[key][possible] = table
    return NoisyCounts(description, FrozenMap(tables), FrozenMap(laws), n)


@dataclass(frozen=True)
class NoisyCoefficients:
    """The release of a mechanism in a basis of tables: noisy integer contrasts (``structure.basis``), block by block.

    ``blocks[A]`` has one axis of K_v - 1 coordinates for each variable of A and holds the contrasts times the whole
    numbers of ``fixed_point(levels of A, grid)``, plus ``step`` times a draw of ``laws[A]`` in every coordinate. At
    ``grid`` 1 these are the plain contrasts, the Walsh sums of a binary network. ``step`` is 2 where parity counts
    m = (n - w) / 2 were noised. The block of () is the number of rows; where it was not measured, ``n`` stands for it.

    Attributes:
        network: The DAG over its declared domain.
        blocks: Every block of the downward closure; () may be left out where n is public.
        laws: The noise law of each block, independent in every coordinate.
        n: The exact number of rows where the neighbour relation makes it public, else None.
        grid: The fixed-point resolution.
        step: The factor of a draw of noise.
        pseudo_records: Uniform records that ``tables`` adds so that cells are rarely negative; a public constant.

    Raises:
        NetworkError: If a block is missing, unknown or of the wrong shape, has no law, or a setting is out of range.
        ReleaseError: If a coefficient or n is not a whole number.
    """

    network: Network
    blocks: FrozenMap[Family, Integers]
    laws: FrozenMap[Family, NoiseLaw]
    n: int | None
    grid: int = 1
    step: int = 1
    pseudo_records: int = 0

    def __post_init__(self) -> None:
        check_rows(self.n)
        if not has_blocks(self.network, {*self.blocks, *([()] if self.n is not None else [])}):
            raise NetworkError("the blocks are not those of the network's downward closure")
        if set(self.laws) != set(self.blocks) or any(law.sums_to_zero for law in self.laws.values()):
            raise NetworkError("every block needs its noise law, independent in every coordinate, and no other")
        if not (1 <= self.grid <= 1 << 32 and 1 <= self.step <= 1 << 32 and 0 <= self.pseudo_records <= MOST_RECORDS):
            raise NetworkError("grid and step are at least 1, pseudo_records at least 0, and none is absurdly large")
        frozen: dict[Family, Integers] = {}
        for block in coefficient_blocks(self.network):
            if block in self.blocks:
                frozen[block] = frozen_integers(self.blocks[block], f"the block of {', '.join(block)}")
                if frozen[block].shape != block_shape(self.network, block):
                    raise NetworkError(f"the block of {', '.join(block)} has the wrong shape {frozen[block].shape}")
        object.__setattr__(self, "blocks", FrozenMap(frozen))
        object.__setattr__(self, "laws", FrozenMap((block, self.laws[block]) for block in frozen))

    @property
    def description(self) -> Network:
        """The network whose tables were measured."""
        return self.network

    def contrasts(self) -> dict[Family, Reals]:
        """Unbiased estimates of every block's contrasts; the block () is the number of rows, with pseudo-records."""
        values = {
            block: integers / fixed_point(self.network.shape(block), self.grid)
            for block, integers in self.blocks.items()
        }
        rows = values.get((), np.array(float(self.n or 0)))
        return values | {(): rows + self.pseudo_records}

    def tables(self) -> Tables:
        """The tables of the maximal families, cells possibly negative: any margin is the same whichever is read."""
        return self.rebuilt(self.contrasts())

    def rebuilt(self, contrasts: Mapping[Family, Reals]) -> Tables:
        """The tables of the maximal families from given contrasts."""
        rows = float(contrasts[()])
        tables = FrozenMap((key, table_of(self.network, contrasts, key)) for key in self.network.maximal_families)
        return Tables(self.network, tables, max(0.0, rows))

    def residual_variance(self, block: Family) -> float:
        """sigma_A^2: the noise variance of a block's orthonormal residuals, averaged over them; 0 for a public n."""
        if block not in self.laws:
            return 0.0
        return residual_variance(self.network, block, self.laws[block], self.grid, self.step)

    def variance(self, table: Family) -> float:
        """The noise variance of one cell of a table that a family contains, the mean over its cells."""
        blocks = subsets(ordered(self.network, table))
        return cell_variance(self.network, {block: self.residual_variance(block) for block in blocks}, table)

    def __repr__(self) -> str:
        numbers = sum(block.size for block in self.blocks.values())
        found = (counted(len(self.blocks), "block"), counted(numbers, "coefficient"), rows_in_words(self.n))
        return summary("NoisyCoefficients", *found)


def residual_variance(network: Network, block: Family, law: NoiseLaw, grid: int, step: int) -> float:
    """The noise variance of a block's orthonormal residuals, averaged over them."""
    levels = network.shape(block)
    scale = step / (fixed_point(levels, grid) * contrast_norms(levels))
    return law.variance(scale.size) * float((scale**2).mean())


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

    def __repr__(self) -> str:
        return summary("Probabilities", self.network, self.provenance)

    def _repr_html_(self) -> str:
        rows = [
            {"variable": name, "given": ", ".join(self.network.parents[name]), "probabilities": _in_short(table)}
            for name, table in islice(self.tables.items(), MOST_ROWS + 1)
        ]
        notes = [] if self.provenance is None else [self.provenance]
        return as_html(f"Probabilities of {self.network!r}", rows, notes, total=len(self.tables))


def _in_short(table: Reals) -> str:
    if table.ndim > 1 or table.size > 8:
        return f"{counted(table[0].size, 'row')} of {table.shape[0]} levels: to_frame(variable)"
    return ", ".join(f"{value:.3g}" for value in table)


def conditional_frame(network: Network, name: str, table: Reals) -> pd.DataFrame:
    """An array with axes (variable, *parents) as a frame: rows are parent configurations, columns the levels."""
    import pandas as pd

    parents = network.parents[name]
    levels = [network.domain.levels(parent) for parent in parents]
    index = pd.MultiIndex.from_product(levels, names=parents) if parents else pd.Index([""], name="")
    columns = pd.Index(network.domain.levels(name), name=name)
    return pd.DataFrame(table.reshape(table.shape[0], -1).T, index=index, columns=columns)


def _checked(network: Network, tables: Mapping[Family, Any], dtype: Any) -> FrozenMap[Family, Any]:
    frozen: dict[Family, Any] = {}
    for key, table in tables.items():
        if np.shape(table) != network.shape(key):
            raise NetworkError(f"the table of {', '.join(key)} has shape {np.shape(table)}, not {network.shape(key)}")
        name = f"the table of {', '.join(key)}"
        frozen[key] = frozen_integers(table, name) if dtype is np.int64 else frozen_array(table, dtype)
    return FrozenMap(frozen)


def check_rows(n: object) -> None:
    """Refuses any n but a whole number of at least 0, or None where n is private."""
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n < 1 << 62):
        raise ReleaseError(f"n must be a whole number of rows, or None where it is private; got {n!r}")


def check_fixed_total(name: str, table: Integers, law: NoiseLaw, n: int | None) -> None:
    """Refuses noise that sums to zero on numbers that do not sum to a public n."""
    if law.sums_to_zero and (n is None or int(table.sum()) != n):
        raise ReleaseError(f"the noise of {name} sums to zero, so its total is n = {n}, not {int(table.sum())}")


class OneBlock:
    """A description whose sums are one block, by its ``released_names`` and ``movement``, as all share one scale."""

    #: The class of the released value, which the package's root provides.
    holds: ClassVar[str] = "NoisyMoments"

    def blocks(self: Any, unit: PrivacyUnit) -> tuple[Block, ...]:
        """One block: all that is released."""
        names = self.released_names(unit)
        return (Block(names, (len(names),), self.movement(unit)),)

    def noisy(
        self, values: Mapping[Name, Integers], laws: Mapping[Name, NoiseLaw], n: int | None, unit: PrivacyUnit
    ) -> Any:
        """The released value of the one block of noisy sums."""
        ((name, sums),) = values.items()
        return provided(self.holds)(self, sums, laws[name], n)


@dataclass(frozen=True)
class NoisySums:
    """Noisy integer sums, in ``names`` order, and the law of the noise of each; refuses any that cannot be true."""

    description: Any
    sums: Integers
    law: NoiseLaw
    n: int | None

    def __post_init__(self) -> None:
        check_rows(self.n)
        object.__setattr__(self, "sums", frozen_integers(self.sums, "sums"))
        if self.sums.shape != (len(self.names),):
            raise ReleaseError(f"sums must have shape ({len(self.names)},); got {self.sums.shape}")
        check_fixed_total(", ".join(self.names), self.sums, self.law, self.n)

    @property
    def unit_kind(self) -> PrivacyUnit:
        """A unit of the release's relation."""
        return PrivacyUnit("add-remove" if self.n is None else "replace")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released sums."""
        return self.description.released_names(self.unit_kind)

    def __repr__(self) -> str:
        about = getattr(self.description, "family", getattr(self.description, "task", self.description))
        found = (type(about).__name__, counted(len(self.sums), "sum"), rows_in_words(self.n))
        return summary(type(self).__name__, *found)


def probabilities_given(value: Any, call: str, error: type[Exception]) -> Probabilities:
    """Probabilities, or their release, as Probabilities; a refusal of other values says which value to give."""
    found, _ = released_value(value)
    if isinstance(found, Probabilities):
        return found
    raise error(f"{call} takes Probabilities; got {type(found).__name__}: {advice(found, call)}")


def own_methods(value: Any) -> str:
    """The prediction methods of a model of dpgraph without a network, in words; empty for other values."""
    if not type(value).__module__.startswith("dpgraph."):
        return ""
    has = [name for name in PREDICTION_METHODS if callable(getattr(value, name, None))]
    return " or ".join(filter(None, [", ".join(has[:-1]), has[-1]])) if has else ""


def advice(value: Any, call: str) -> str:
    """How to make Probabilities of a value of dpgraph's; of anything else, where they are to be had."""
    if isinstance(value, Network):
        return "a network alone has no tables; those of a release of counts are dg.posterior(release).mean()"
    if isinstance(value, tuple | list) and value and all(isinstance(one, Probabilities) for one in value):
        return "give one of these draws"
    if not type(value).__module__.startswith("dpgraph."):
        return "dg.load reads them from a file, and dg.posterior(release).mean() learns them from a release of counts"
    if hasattr(value, "probabilities"):
        named = "learned" if callable(getattr(value, "posterior", None)) else "model"
        return f"give {call}({named}.probabilities)"
    if hasattr(value, "model_"):
        return f"of a fitted estimator give {call}(estimator.model_.probabilities), where its model has them"
    if callable(getattr(value, "mean", None)) and hasattr(value, "network"):
        return f"give the mean of the draws, {call}(posterior.mean())"
    if asked := own_methods(value):
        return f"it has no tables of a network; ask its own {asked}"
    return f"of a release of counts make a posterior first, {call}(dg.posterior(release).mean())"
