"""Sums of products of tables, for many draws and many rows of evidence at once.

A plan is made once for each network and pattern of evidence: the tables, their fixed axes, and the pairwise products of
variable elimination. The draws are the last axis of every table, so that each step is a few long loops.

A question depends on the ancestors of target and evidence alone. An observed variable is fixed in every table; the
other tables fall into parts that share no unobserved variable, and only the parts that hold a target decide the
conditional probability. The others say how probable the evidence is.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph import memory
from dpgraph.inference.queries.question import Evidence
from dpgraph.inference.queries.tables import DrawnTables
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.elimination import smallest_elimination
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Reals

#: The cells of the largest table of one draw and one row; and the bytes that tables of one block may take.
MOST_CELLS, MEMORY = 1 << 25, 1 << 28
#: Bytes that a cell of the largest table stands for: two operands and their product.
BYTES_PER_CELL = 24
#: Cells of the largest table of a block that processors work through fastest, and the draws a block has at least.
QUICK_CELLS, LEAST_BLOCK = 1 << 17, 32
#: Plans that are kept.
PLANS = 256
#: A probability of evidence below this is computed again with a scale factor in every step.
TINY = 1e-200
#: The axes of rows of evidence and of draws, beside those of variables; how many rows a path is made for.
ROWS, DRAWS, NOMINAL_ROWS = ("rows",), ("draws",), 32

Index = str | tuple[str]
Codes = Mapping[str, npt.NDArray[np.integer[Any]]]


@dataclass(frozen=True)
class Part:
    """Tables that hang together, by variable, their unobserved variables, and the targets among these."""

    families: Family
    free: Family
    targets: Family


@dataclass(frozen=True)
class Step:
    """One contraction: the places of its operands, which leave the list, and the sum in numpy's notation."""

    operands: tuple[int, ...]
    equation: str
    indices: tuple[Index, ...]
    result: tuple[Index, ...]


@dataclass(frozen=True)
class Contraction:
    """How one part of a question is summed.

    ``axes`` has for each table its axes in order, fixed ones first, and the number of fixed ones; the weights of
    ``weighted`` variables are factors of their own. ``output`` has the axes of the result: targets, rows, draws.
    ``width`` and ``cells`` are of the largest table on the way, without rows and draws.
    """

    part: Part
    axes: tuple[tuple[Family, int], ...]
    weighted: Family
    steps: tuple[Step, ...]
    output: tuple[Index, ...]
    width: int
    cells: int


def conditional(
    tables: DrawnTables, targets: Sequence[str], evidence: Evidence, rows: Codes | None = None, *, whole: bool = True
) -> tuple[Reals, Reals]:
    """P(targets | evidence) in every draw and for every row of evidence, and ln P(evidence).

    The former has axes (row, draw, *targets), nan where the evidence has probability 0; the latter axes (row, draw),
    -inf where that is 0, and of weighted evidence it is up to the weights' scale. Targets have no evidence; without
    targets only the evidence's probability is found. ``rows`` has positions of observed levels, a column for each
    variable of ``evidence.levels``, whose own are not read; None for one row, that of the evidence. Unless ln
    P(evidence) must be ``whole``, parts that only it depends on are skipped where they cannot be 0.
    """
    weighted = tuple((name, sum(weight > 0 for weight in mine)) for name, mine in evidence.weights.items())
    pattern = tuple(evidence.levels), weighted, tuple(evidence.do)  # weighted: how many levels are left
    plan = _plan(_Same(tables.network), tuple(targets), pattern, rows is not None, len(tables) > 1)
    for contraction in plan:
        check_cells(contraction.width, contraction.cells, "Ask for fewer variables at once, give more evidence, or use")
    plan = tuple(one for one in plan if whole or one.part.targets or not tables.positive(one.part.families))
    count = 1 if rows is None else len(next(iter(rows.values())))
    shape = tables.network.shape(tuple(targets))
    found, logs = np.empty((count, len(tables), *shape)), np.zeros((count, len(tables)))
    width = math.prod(shape)
    for some, draws in _blocks(plan, count, len(tables), width):
        codes = {name: column[some] for name, column in rows.items()} if rows is not None else evidence.levels
        found[some, draws] = 1.0
        for one in plan:
            values, log = _normalised(one, tables, {**codes, **evidence.do}, evidence, draws)
            sizes = [size if name in one.part.targets else 1 for name, size in zip(targets, shape, strict=True)]
            found[some, draws] *= values.reshape(*values.shape[:2], *sizes) if one.part.targets else 1.0
            logs[some, draws] += log
    return found, logs


def check_cells(width: int, cells: int, advice: str) -> None:
    """Refuses a question whose largest table has too many cells."""
    if cells > MOST_CELLS:
        raise InferenceError(
            f"this question needs a table of {width + 1} variables (width {width}) and {cells:.3g} cells; at most "
            f'{MOST_CELLS:.3g} cells are made. {advice} method="sampling"'
        )


class _Same:
    """A network as a key that is equal to itself alone, so that no table of levels is compared."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def __hash__(self) -> int:
        return id(self.network)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.network is other.network


@lru_cache(maxsize=PLANS)
def _plan(same: _Same, targets: Family, pattern: Any, batched: bool, many: bool) -> tuple[Contraction, ...]:
    network, (levels, weighted, do) = same.network, pattern
    blank = Evidence(dict.fromkeys(levels, 0), dict.fromkeys(dict(weighted), ()), dict.fromkeys(do, 0))  # type: ignore[arg-type]
    sizes = {**network.domain.sizes, **dict(weighted)}
    rows = frozenset(levels) if batched else frozenset[str]()
    fixed = frozenset((*levels, *do))
    return tuple(
        _contraction(network, part, sizes, fixed, rows, tuple(dict(weighted)), many)
        for part in parts_of(network, targets, blank)
    )


def _contraction(
    network: Network,
    part: Part,
    sizes: dict[str, int],
    fixed: frozenset[str],
    rows: frozenset[str],
    weighted: Family,
    many: bool,
) -> Contraction:
    axes: list[tuple[Family, int]] = []
    inputs: list[tuple[Index, ...]] = []
    for name in part.families:
        family = network.family(name)
        known = tuple(one for one in family if one in fixed)
        free = tuple(one for one in family if one not in fixed)
        axes.append(((*known, *free), len(known)))
        by_row = (ROWS,) if any(one in rows for one in known) else ()
        inputs.append((*by_row, *free, *((DRAWS,) if many else ())))
    mine = tuple(name for name in weighted if name in part.free)
    inputs += [(name,) for name in mine]
    any_rows = any(ROWS in scope for scope in inputs)
    output = (*part.targets, *((ROWS,) if any_rows else ()), *((DRAWS,) if many else ()))
    scopes = [tuple(name for name in scope if isinstance(name, str)) for scope in inputs]
    order, width, cells = smallest_elimination(scopes, sizes, part.targets)
    if cells > MOST_CELLS:
        return Contraction(part, tuple(axes), mine, (), output, width, cells)
    extents: dict[Index, int] = {**sizes, ROWS: NOMINAL_ROWS, DRAWS: 1}
    steps = _steps(inputs, output, order, extents)
    largest = max(_cells(scope, sizes) for scope in (*inputs, *(step.result for step in steps)))
    return Contraction(part, tuple(axes), mine, steps, output, width, largest)


def _cells(axes: Iterable[Index], sizes: Mapping[Any, int]) -> int:
    return math.prod(sizes[axis] for axis in axes if isinstance(axis, str))


def _steps(
    inputs: list[tuple[Index, ...]], output: tuple[Index, ...], order: Iterable[str], extents: Mapping[Index, int]
) -> tuple[Step, ...]:
    """The sums along an elimination order; a variable goes as soon as no other table and no result has it.

    Of the tables that hold the variable to go, the two smallest are multiplied first; results are listed last.
    """
    live, steps = list(inputs), list[Step]()

    def merge(places: Iterable[int]) -> None:
        two = sorted(sorted(places, key=lambda place: math.prod(extents[axis] for axis in live[place]))[:2])
        taken = [live.pop(place) for place in reversed(two)][::-1]
        union = tuple(dict.fromkeys(axis for scope in taken for axis in scope))
        needed = set(output).union(*live)
        result = tuple(axis for axis in union if axis in needed and isinstance(axis, str))
        result = (*result, *(axis for axis in (ROWS, DRAWS) if axis in union)) if live else output
        letters = dict(zip(union, string.ascii_letters, strict=False))
        words = ["".join(letters[axis] for axis in scope) for scope in (*taken, result)]
        equation = "" if words == [words[-1]] * 2 else ",".join(words[:-1]) + "->" + words[-1]
        steps.append(Step(tuple(two), equation, union, result))
        live.append(result)

    for name in order:
        while holding := [place for place, scope in enumerate(live) if name in scope]:
            merge(holding)
    while len(live) > 1 or live[0] != output:
        merge(range(len(live)))
    return tuple(steps)


def _blocks(plan: Sequence[Contraction], rows: int, draws: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Rows and draws that are worked on together, so that tables stay within bounds of memory."""
    cells = max([width, *(contraction.cells for contraction in plan)])
    wanted = min(MEMORY, BYTES_PER_CELL * cells * rows * draws)
    most = max(1, int(memory.room(wanted, InferenceError)) // (BYTES_PER_CELL * cells))
    quick = max(1, QUICK_CELLS // cells)
    some_draws = min(draws, most, max(LEAST_BLOCK, quick))
    some_rows = min(rows, max(1, min(most, max(LEAST_BLOCK, quick)) // some_draws))
    for row in range(0, rows, some_rows):
        for draw in range(0, draws, some_draws):
            yield slice(row, row + some_rows), slice(draw, draw + some_draws)


def _normalised(
    contraction: Contraction, tables: DrawnTables, codes: Mapping[str, Any], evidence: Evidence, draws: slice
) -> tuple[Reals, Reals]:
    """A part's joint of its targets, axes (row, draw, *targets), and the log of its sum over them, axes (row, draw)."""
    inputs = [*_inputs(contraction, tables, codes, evidence, draws)]
    targets = len(contraction.part.targets)
    values, log = _summed(contraction, inputs, rescale=False)
    total = values.sum(axis=tuple(range(targets)))
    if (total < TINY).any():
        values, log = _summed(contraction, inputs, rescale=True)
        total = values.sum(axis=tuple(range(targets)))
    with np.errstate(divide="ignore", invalid="ignore"):
        conditional = values / total
        log = log + np.log(_by_row_and_draw(total, contraction.output))
    moved = np.moveaxis(conditional, range(targets), range(-targets, 0)) if targets else conditional
    return _by_row_and_draw(moved, contraction.output), log


def _by_row_and_draw(values: Reals, output: tuple[Index, ...]) -> Reals:
    """The values with an axis for rows and one for draws in front, of size 1 where there is none."""
    if ROWS not in output:
        values = values[None]
    return values if DRAWS in output else values[:, None]


def _inputs(
    contraction: Contraction, tables: DrawnTables, codes: Mapping[str, Any], evidence: Evidence, draws: slice
) -> Iterator[Reals]:
    """The tables with fixed axes read at their levels, draws last; then the weights."""
    many = len(tables) > 1
    kept = {name: np.flatnonzero(weights) for name, weights in evidence.weights.items()}
    for name, (axes, known) in zip(contraction.part.families, contraction.axes, strict=True):
        family = tables.network.family(name)
        order = [family.index(axis) for axis in axes]
        table = tables.tables[name]
        table = table[draws].transpose(*(place + 1 for place in order), 0) if many else table[0].transpose(order)
        if known:
            table = table[tuple(codes[axis] for axis in axes[:known])]
        lead = table.ndim - many - (len(axes) - known)
        for place, axis in enumerate(axes[known:]):
            if axis in kept and kept[axis].size < table.shape[lead + place]:
                table = table.take(kept[axis], axis=lead + place)
        yield np.asarray(table, order="C")
    for name in contraction.weighted:
        yield np.array(evidence.weights[name])[kept[name]]


def _summed(contraction: Contraction, inputs: Sequence[Reals], *, rescale: bool) -> tuple[Reals, Reals]:
    """The result of the steps, and the log of the factor that it lacks, axes (row, draw)."""
    live, log = list(inputs), np.zeros((1, 1))
    for step in contraction.steps:
        taken = [live[place] for place in step.operands]
        for place in sorted(step.operands, reverse=True):
            del live[place]
        made = np.einsum(step.equation, *taken) if step.equation else taken[0]
        if rescale:
            own = tuple(place for place, axis in enumerate(step.result) if isinstance(axis, str))
            top = made.max(axis=own)
            top = np.where(top > 0, top, 1.0)
            made = made / np.expand_dims(top, own)
            log = log + np.log(_by_row_and_draw(top, step.result))
        live.append(made)
    return live[0], log


def parts_of(network: Network, targets: Family, evidence: Evidence) -> tuple[Part, ...]:
    """The parts of a question, those with a target first; fully observed tables are parts of their own."""
    needed = ancestors(network, [*targets, *evidence.levels, *evidence.weights], evidence.do)
    fixed = {*evidence.levels, *evidence.do}
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = name = above[above[name]]
        return name

    tables = [name for name in network.order if name in needed and name not in evidence.do]
    free = {table: [name for name in network.family(table) if name not in fixed] for table in tables}
    for names in free.values():
        for other in names[1:]:
            above[root(other)] = root(names[0])
    groups: dict[str | tuple[str], list[str]] = {}
    for table, names in free.items():
        groups.setdefault(root(names[0]) if names else (table,), []).append(table)
    parts: list[Part] = []
    for mine in groups.values():
        unobserved = tuple(dict.fromkeys(name for table in mine for name in free[table]))
        parts.append(Part(tuple(mine), unobserved, tuple(name for name in targets if name in unobserved)))
    return tuple(sorted(parts, key=lambda part: not part.targets))


def ancestors(network: Network, names: Iterable[str], cut: Iterable[str] = ()) -> frozenset[str]:
    """Some variables and all that is above them, where the arcs into ``cut`` are gone."""
    without = set(cut)
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += () if name in without else network.parents[name]
    return frozenset(found)
