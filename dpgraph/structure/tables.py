"""Tables over a network, as released, consistent or conditional, and bases in which tables that share variables agree.

A table over S splits into one block for each subset A of S: the part that depends on all of A and on nothing else. The
block of A is the same whichever table it is read from, so tables rebuilt from one set of blocks always agree.

Three scalings of the same blocks, for a variable of K levels:

* contrasts, integer: row r is (1, ..., 1, -r, 0, ..., 0) with r ones, r = 1 to K - 1. At K = 2 this is (1, -1), and the
  contrasts of binary tables are their Walsh sums, sum over records of (-1)^<A, x> (Zhang et al. 2016, section 3.2);
* residuals, real: row r divided by sqrt(r (r + 1)), the orthonormal Helmert matrix (proofs.md P5; the blocks of
  ResidualPlanner, Xiao et al. 2023);
* fixed point: contrasts times whole numbers close to ``grid`` / sqrt(r (r + 1)), so that noise of one scale on a whole
  block is nearly orthonormal while every sum stays an exact integer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, islice
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.lazy import provided
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.display import MOST_ROWS, DataFrame, as_html, counted, rows_in_words, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Block, Name, NoiseLaw, noisy_value
from dpgraph.privacy.records import PrivacyUnit, Provenance, released_value
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array, frozen_integers
from dpgraph.structure.network import Family, Holding, Network

Spread = TypeVar("Spread", float, Reals)
Item = TypeVar("Item")
#: More blocks than this are refused before any memory is taken.
MAX_BLOCKS = 1_000_000
#: The most levels of a variable in a basis: its matrix has the square of them.
MOST_LEVELS = 10_000


def subsets(table: tuple[Item, ...]) -> list[tuple[Item, ...]]:
    """Every subset of a table's variables, in the table's order, the empty one first."""
    return [subset for size in range(len(table) + 1) for subset in combinations(table, size)]


def block_slices(table: Family, block: Family) -> tuple[int | slice, ...]:
    """Where a block lies in a transformed table: the sum along the axes outside it, the contrasts along its own."""
    return tuple(slice(1, None) if name in block else 0 for name in table)


def ordered(network: Network, names: Family) -> Family:
    """The variables that have more than one level, in the domain's order: the key of a block."""
    return tuple(sorted((name for name in names if network.domain.sizes[name] > 1), key=network.position.__getitem__))


@lru_cache(maxsize=64)
def coefficient_blocks(network: Network) -> tuple[Family, ...]:
    """The informative blocks: the families' downward closure without variables of one level, at most ``MAX_BLOCKS``."""
    sizes = network.domain.sizes
    if sum(2 ** len(family) for family in network.maximal_families) > MAX_BLOCKS:
        raise NetworkError(f"the families have more than {MAX_BLOCKS:,} subsets; give variables fewer parents")
    return tuple(block for block in network.downward_closure() if all(sizes[name] > 1 for name in block))


def has_blocks(network: Network, blocks: Collection[Family]) -> bool:
    """True if blocks are all of a network's; counts them before it lists the network's, 2^k of k variables."""
    sizes = network.domain.sizes
    widest = max(sum(sizes[name] > 1 for name in family) for family in network.maximal_families)
    return 2**widest <= len(blocks) and set(blocks) == set(coefficient_blocks(network))


def block_shape(network: Network, block: Family) -> tuple[int, ...]:
    """The coordinates of a block along each of its variables: one fewer than the levels."""
    return tuple(size - 1 for size in network.shape(block))


def contrast_transform(table: Integers) -> Integers:
    """The sum (index 0) and the integer contrasts (from index 1) along every axis: exact.

    Of two-level variables the Walsh sums, sum over cells x of (-1)^<g, x> table[x], for every g (Zhang et al. 2016,
    section 3.2), by name ``dg.papers.walsh_transform``: its own inverse up to 2^axes.
    """
    for axis, size in enumerate(table.shape):
        table = _butterfly(table, axis) if size == 2 else _along(contrast_matrix(size), table, axis)
    return table


def inverse_contrasts(values: Reals, *, batched: bool = False) -> Reals:
    """The inverse of ``contrast_transform``; with ``batched``, of every item along axis 0."""
    for axis in range(int(batched), values.ndim):
        size = values.shape[axis]
        shape = [size if other == axis else 1 for other in range(values.ndim)]
        values = values / _squared_norms(size).reshape(shape)
        values = _butterfly(values, axis) if size == 2 else _along(contrast_matrix(size).T.astype(float), values, axis)
    return values


def table_of(network: Network, contrasts: Mapping[Family, Reals], table: Family, *, batch: int | None = None) -> Reals:
    """The table over some variables from contrast blocks of all its subsets; with ``batch`` all have a leading axis."""
    lead: tuple[slice, ...] = () if batch is None else (slice(None),)
    values = np.zeros((() if batch is None else (batch,)) + network.shape(table))
    for block in subsets(table):
        key = tuple(sorted(block, key=network.position.__getitem__))
        if key in contrasts:
            axes = [len(lead) + key.index(name) for name in block]
            values[lead + block_slices(table, block)] = np.transpose(contrasts[key], [*range(len(lead)), *axes])
    return inverse_contrasts(values, batched=batch is not None)


def contrast_blocks(network: Network, tables: Iterator[tuple[Family, Integers]]) -> dict[Family, Integers]:
    """The integer contrasts of every block of exact tables, keyed in the domain's order; the first holder is read."""
    found: dict[Family, Integers] = {}
    for table, counts in tables:
        values = contrast_transform(counts)
        for block in subsets(table):
            key = tuple(sorted(block, key=network.position.__getitem__))
            if key not in found and all(network.domain.sizes[name] > 1 for name in block):
                part = values[block_slices(table, block)]
                found[key] = np.asarray(np.transpose(part, [block.index(name) for name in key]))
    return found


def residual_transform(values: Reals, *, forward: bool, batched: bool = False) -> Reals:
    """The orthonormal residual transform along every axis, or its inverse; with ``batched``, of each item of axis 0."""
    for axis in range(int(batched), values.ndim):
        values = _along(residual_matrix(values.shape[axis])[0 if forward else 1], values, axis)
    return np.ascontiguousarray(values)


@lru_cache(maxsize=64)
def residual_matrix(size: int) -> tuple[Reals, Reals]:
    """[1; U^T] and its inverse [1/K, U], with U the orthonormal Helmert contrasts, columns that sum to zero."""
    norms = np.sqrt(_squared_norms(size))
    norms[0] = 1.0
    forward = contrast_matrix(size) / norms[:, None]
    inverse = np.hstack([np.full((size, 1), 1 / size), forward[1:].T])
    return forward, inverse


def check_levels(size: int) -> None:
    """Refuses a variable of too many levels before memory is taken for its contrasts."""
    if size > MOST_LEVELS:
        raise NetworkError(f"a basis of contrasts is for variables of at most {MOST_LEVELS:,} levels; one has {size:,}")


@lru_cache(maxsize=64)
def contrast_matrix(size: int) -> Integers:
    """[1; C]: a row of ones, then row r with r ones and -r after them."""
    check_levels(size)
    matrix = np.tril(np.ones((size, size), np.int64), -1)
    matrix[0] = 1
    matrix[np.arange(1, size), np.arange(1, size)] = -np.arange(1, size)
    return matrix


@lru_cache(maxsize=256)
def contrast_norms(sizes: tuple[int, ...]) -> Reals:
    """The length of each contrast of a block relative to its residual: the product over levels of sqrt(r (r + 1))."""
    norms = np.ones(())
    for size in sizes:
        norms = np.multiply.outer(norms, np.sqrt(_squared_norms(size)[1:]))
    return norms


@lru_cache(maxsize=256)
def fixed_point(sizes: tuple[int, ...], grid: int) -> Integers:
    """The whole number each contrast is multiplied by, ``grid`` / norm rounded, at least 1; falls along each axis."""
    return np.maximum(1, np.rint(grid / contrast_norms(sizes))).astype(np.int64)


def cell_variance(network: Network, variances: Mapping[Family, Spread], table: Family) -> Spread:
    """The mean variance of a cell of a table rebuilt from blocks, by the variances of their residuals (P5)."""
    table = ordered(network, table)
    total: Any = 0.0
    for block in subsets(table):
        sizes = [(network.domain.sizes[name], name in block) for name in table]
        share = math.prod(1 - 1 / size if inside else 1 / size**2 for size, inside in sizes)
        total = total + variances[block] * share  # never in place: a variance may be an array
    return total


def error_weights(network: Network, blocks: Iterable[Family], counted: Sequence[float] = ()) -> dict[Family, float]:
    """V_A of each block: how many squared cells of the families, as ``counted``, a unit of variance costs (P28)."""
    sizes = network.domain.sizes
    count = dict(zip(network.families, counted or (1,) * len(network.families), strict=True))
    by_name: dict[str, list[Family]] = {name: [] for name in network.domain.names}
    for family in network.families:
        for name in family:
            by_name[name].append(family)
    weights: dict[Family, float] = {}
    for block in blocks:
        holding = min((by_name[name] for name in block), key=len, default=network.families)
        near = [family for family in holding if set(block) <= set(family)]
        outside = sum(count[family] / math.prod(sizes[name] for name in family if name not in block) for family in near)
        weights[block] = math.prod(block_shape(network, block)) * outside
    return weights


@lru_cache(maxsize=256)
def _squared_norms(size: int) -> Reals:
    """The squared length of each row of ``contrast_matrix``: K, then r (r + 1)."""
    rows = np.arange(size, dtype=float)
    norms = rows * (rows + 1)
    norms[0] = size
    return norms


def _along(matrix: npt.NDArray[Any], values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)


def _butterfly(values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    first, second = np.take(values, 0, axis), np.take(values, 1, axis)
    return np.stack([first + second, first - second], axis)


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
    """The release of a mechanism in a basis of tables: noisy integer contrasts, block by block.

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

    def to_frame(self, name: str) -> DataFrame:
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


def conditional_frame(network: Network, name: str, table: Reals) -> DataFrame:
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


def of_every_variable(network: Network, arrays: Mapping[str, Reals], what: str, lead: int = 0) -> FrozenMap[str, Reals]:
    """An array for each variable, read-only, ``lead`` axes before those of its family; refuses others by ``what``.

    An array that is in a file, or read-only with memory of its own, is not copied.
    """
    if set(arrays) != set(network.domain.names):
        raise NetworkError(f"every variable needs its {what}, and no other")
    frozen: dict[str, Reals] = {}
    for name in network.domain.names:
        array = arrays[name]
        mine = isinstance(array, np.ndarray) and array.flags.owndata and array.flags.c_contiguous
        keeps = isinstance(array, np.memmap) or (mine and array.dtype == np.float64 and not array.flags.writeable)
        frozen[name] = array if keeps else frozen_array(array, np.float64)
        if frozen[name].shape[lead:] != network.shape(network.family(name)):
            raise NetworkError(f"the {what} of {name!r} have the wrong shape {frozen[name].shape}")
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
