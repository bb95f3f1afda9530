"""The method ``"tables"``: draws table by table, each given all that other tables say of margins inside it.

Each margin of a measured table that lies in another is a noisy version of that margin of its counts, which follow a
chain (``margin_chain``); the conditional tables of families in it are Dirichlet given the counts. Tables are drawn one
by one, so what follows from counts of other tables that are not negative is left out (proofs.md P56).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.inference.chains import effective_size
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.table_chain import NoisyMargin, margin_chain
from dpgraph.inference.draws import LEAST_SIZE
from dpgraph.inference.interruption import heed, interruptible, processors, side_by_side
from dpgraph.inference.network.draws import HeldDraws, PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, concentration_tables, rows_estimate
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Integers, Reals, margin
from dpgraph.waiting import ticking

S = TypeVar("S")
T = TypeVar("T")

#: Cells of a table times draws that are worked on at once, and the most tables that are drawn side by side.
HELD, ABREAST = 1 << 21, 4
#: Concentrations of a cell that are possible where they are learned, evenly spread on the log scale from the inverse of
#: the number of cells on: the largest, and how many.
HIGHEST, STEPS = 10.0, 25
#: Cells of a table that is drawn whole though it is larger than the families in it; draws of a table that say how sure
#: it is of a family that other tables hold too.
WHOLE, TRIED = 4096, 50
#: Steps of all chains together that make sweeps fewer; the most sweeps for each draw, and of small tables.
WORK, THIN, THIN_SMALL = 1.2e8, 10, 20
#: The most cells times sweeps of all tables together, as if all went on, of tables whose concentration has not mixed.
LONGEST = 2.4e8
#: Tables that say the same margin are read one by one up to so many, and more as their average.
FEW = 4
#: Of each variable so many tables are read, those with the least noise, besides those that hold the family.
NEAR = 64

#: Noisy sums, their noises, and which of them may have rows.
Read = tuple[Reals, list[CellNoise], npt.NDArray[np.bool_]]


def draw_by_tables(
    given: Evidence, concentration: Mapping[str, Reals] | None, *, rng: np.random.Generator, draws: int = 1000
) -> PosteriorDraws:
    """Draws of every conditional table from noisy counts; coefficients are refused.

    ``concentration`` is the Dirichlet prior of each variable, axes (variable, *parents), and families are then drawn
    independently of each other. None learns one concentration for the cells of each table, uniform on the log scale,
    and reads every family from the table that is surest of it: in its draws the family's counts vary least. Tables
    whose concentration has not mixed are drawn again, from sweeps twice as far apart.
    """
    if any(table.weights is not None for table in given.tables):
        raise InferenceError('method="tables" needs noisy counts; for coefficients use "records" or "normal"')
    # Compiled loops take the random generator, which numba unpacks: no signal may be heard there.
    return interruptible(lambda _: _drawn(given, concentration, rng, draws))


def _drawn(
    given: Evidence, concentration: Mapping[str, Reals] | None, rng: np.random.Generator, draws: int
) -> PosteriorDraws:
    """The draws, in threads in which no signal is heard."""
    network, margins = given.network, FamilyMargins(given)
    if concentration is None:
        homes = _homes(given, margins, rng, draws)
    else:
        homes = {network.family(name): [name] for name in network.domain.names}
    work = [network.cells(table) for table in homes]
    abreast = min(processors(), ABREAST, len(work))
    held = HeldDraws(network, draws, abreast * min(draws * max(work), max(HELD, *work)))
    flat = concentration_tables(network, 1.0)
    thins = {table: sweeps_each(sum(work), len(work), network.cells(table), draws) for table in homes}
    longest = LONGEST / sum(network.cells(table) * thin * draws for table, thin in thins.items())
    longest *= concentration is None and draws >= 2 * LEAST_SIZE

    chains: dict[Family, tuple[Callable[[np.random.Generator, int], tuple[Reals, Reals]], Integers]] = {}

    def draw(item: tuple[tuple[Family, int], np.random.Generator]) -> Reals:
        """All draws of one table, so many times as many sweeps apart as planned; returns the factors of its prior."""
        (table, every), stream = item
        names, factors = homes[table], np.empty(draws)
        prior = None if concentration is None else concentration[names[0]].reshape(-1)
        follow, possible = chains.pop(table, None) or _chain(given, margins, table, prior, thins[table])
        if 2 * every <= longest:
            chains[table] = follow, possible
        cells = {name: np.maximum(margin(possible, table, network.family(name)), 1) * flat[name] for name in names}
        step = max(1, HELD // (possible.size * thins[table] * every))
        for first in range(0, draws, step):
            heed()
            last = min(first + step, draws)
            counts, factor = (made[every - 1 :: every] for made in follow(stream, every * (last - first)))
            factors[first:last] = factor
            for name in names:
                own = cells[name] if concentration is None else concentration[name]
                after = own * factor.reshape(-1, *[1] * own.ndim) + _within(counts, table, network.family(name))
                held.draw(name, first, after, stream)
        return factors

    drawn, every = list(homes), 1
    while drawn:
        found = _each(draw, [(table, every) for table in drawn], rng)
        every *= 2
        sizes = [effective_size(np.log(factors)[None, :, None])[0] for factors in found] if every <= longest else []
        drawn = [table for table, size in zip(drawn, sizes, strict=False) if size < LEAST_SIZE]
        for table in drawn:
            held.forget(homes[table])
    return held.finished("tables")


def _homes(given: Evidence, margins: FamilyMargins, rng: np.random.Generator, draws: int) -> dict[Family, list[str]]:
    """The tables that are drawn, each with the variables whose families are read from it.

    Of several tables that hold a family, its counts vary least in the draws of one.
    """
    network, holding, contested = given.network, dict[str, list[Family]](), dict[Family, list[str]]()
    for name in network.domain.names:
        family = network.family(name)
        tables = dict.fromkeys(table.variables for table in given.holding(family))
        small = [table for table in tables if len(table) == len(family) or network.cells(table) <= WHOLE]
        holding[name] = small or [family]
        for table in small if len(small) > 1 else ():
            contested.setdefault(table, []).append(name)
    work = {table: network.cells(table) for tables in holding.values() for table in tables}

    def spreads(item: tuple[Family, np.random.Generator]) -> dict[tuple[str, Family], float]:
        table, stream = item
        thin = sweeps_each(sum(work.values()), len(work), work[table], draws)
        follow, _ = _chain(given, margins, table, None, thin)
        counts, _ = follow(stream, int(np.clip(HELD // work[table], 2, TRIED)))
        inside = {name: _within(counts, table, network.family(name)) for name in contested[table]}
        return {(name, table): float(drawn.var(axis=0).sum()) for name, drawn in inside.items()}

    spread = {key: value for found in _each(spreads, list(contested), rng) for key, value in found.items()}
    homes: dict[Family, list[str]] = {}
    for name, tables in holding.items():
        homes.setdefault(min(tables, key=lambda table: spread.get((name, table), 0.0)), []).append(name)
    return homes


def _each(work: Callable[[tuple[S, np.random.Generator]], T], items: Sequence[S], rng: np.random.Generator) -> list[T]:
    """The result of each item with a stream of its own; their done share is shown."""
    tick = ticking(items)

    def one(item: tuple[S, np.random.Generator]) -> T:
        found = work(item)
        tick()
        return found

    return side_by_side(one, zip(items, rng.spawn(len(items)), strict=True), ABREAST)


def _chain(
    given: Evidence, margins: FamilyMargins, table: Family, prior: Reals | None, thin: int
) -> tuple[Callable[[np.random.Generator, int], tuple[Reals, Reals]], Integers]:
    """A chain of the counts of a table, and which of its cells may have rows, 1 or 0.

    The chain draws the next so many counts, axes (draw, *table), and factors of the prior; None is a prior of 1 in
    every cell with a factor that is learned.
    """
    measured, kept = margins.inside(table)
    shape, cells = given.network.shape(table), given.network.cells(table)
    factors = np.geomspace(1 / len(kept), HIGHEST, STEPS) if prior is None else np.ones(1)
    start = onto_simplex(measured[0].values[measured[0].places], margins.rows)
    alike = np.ones(len(kept)) if prior is None else prior[kept]
    follow = margin_chain(measured, alike, given.n, start, factors=factors, thin=thin)
    possible = np.zeros(cells, np.int64)
    possible[kept] = 1

    def drawn(rng: np.random.Generator, size: int) -> tuple[Reals, Reals]:
        some, factor = follow(rng, size)
        counts = np.zeros((size, cells))
        counts[:, kept] = some
        return counts.reshape(size, *shape), factor

    return drawn, possible.reshape(shape)


def _within(counts: Reals, table: Family, family: Family) -> Reals:
    """The counts of a family in draws of a table, axes (draw, *family)."""
    return margin(counts, ("", *table), ("", *family))


def sweeps_each(total: int, tables: int, cells: int, draws: int) -> int:
    """The sweeps for each draw of one of the tables, of so many cells: fewer where there is much to do."""
    alike, own = WORK / (2 * total * draws), WORK / (4 * tables * cells * draws)
    return int(max(1, min(alike, THIN), min(own, THIN_SMALL)))


class FamilyMargins:
    """The noisy margins of tables in the measured tables.

    Under rules the cells of a margin may add up different numbers of noisy cells (proofs.md P110).
    """

    def __init__(self, given: Evidence) -> None:
        self._given, self.rows, self._read = given, rows_estimate(given)[0], cache(self._margin)
        self._number = {table: place for place, table in enumerate(given.tables)}
        totals = [self._read(place, ())[:2] for place in range(len(given.tables))]
        self._totals = np.array([(values[0], noises[0].deviation) for values, noises in totals])
        self._near: dict[str, list[int]] = {}
        for place in np.argsort(self._totals[:, 1], kind="stable").tolist():
            for name in given.tables[place].variables:
                if len(near := self._near.setdefault(name, [])) < NEAR:
                    near.append(place)

    def inside(self, family: Family) -> tuple[list[NoisyMargin], Integers]:
        """The noisy margins of a family, first the least noisy table of all of it; the cells that may have rows."""
        network, tables = self._given.network, self._given.tables
        holding = [self._number[table] for table in self._given.holding(family)]
        near = sorted({*holding, *(place for name in family for place in self._near.get(name, ()))})
        said: dict[Family, list[int]] = {family: []}
        for place in near:
            said.setdefault(tuple(name for name in family if name in tables[place].variables), []).append(place)
        shape, cells = network.shape(family), network.cells(family)
        measured, possible = list[NoisyMargin](), np.ones(cells, bool)
        for names, places in said.items():
            sizes = [size if name in names else 1 for name, size in zip(family, shape, strict=True)]
            to = np.broadcast_to(np.arange(network.cells(names)).reshape(sizes), shape).reshape(-1)
            read = sorted((self._read(place, names) for place in places), key=lambda one: one[1][0].deviation)
            possible &= np.logical_and.reduce([some[to] for _, _, some in read])
            if len(read) > FEW:
                spreads = np.array([[noise.deviation for noise in noises] for _, noises, _ in read])
                read = [_average(np.array([values for values, _, _ in read]), spreads)]
            measured += [NoisyMargin(to, values, noises) for values, noises, _ in read]
        far = np.full(len(tables), self._given.n is None)
        far[near] = False
        few = far.sum() <= FEW
        read = (
            [self._read(place, ()) for place in np.flatnonzero(far).tolist()]
            if few
            else [_average(*self._totals[far].T)]
        )
        measured += [NoisyMargin(np.zeros(cells, np.int64), values, noises) for values, noises, _ in read]
        kept = np.flatnonzero(possible)
        return [replace(one, places=one.places[kept]) for one in measured], kept

    def _margin(self, place: int, names: Family) -> Read:
        table, network = self._given.tables[place], self._given.network
        values = margin(table.values.reshape(table.shape), table.variables, names).reshape(-1)
        possible = network.possible(table.variables)
        if possible is None:
            copies = np.full(values.size, table.values.size // values.size)
        else:
            copies = margin(possible.astype(np.int64), table.variables, names).reshape(-1)
        return values.astype(float), [CellNoise(table.law, many) for many in np.maximum(copies, 1).tolist()], copies > 0


def _average(values: Reals, spreads: Reals) -> Read:
    """Noisy versions of the same sums, axes (version, sum), as one, whose noise is near normal."""
    weights = spreads**-2.0
    precision = np.atleast_1d(weights.sum(axis=0))
    noises = [CellNoise(DiscreteGaussian(spread)) for spread in (precision**-0.5).tolist()]
    return (values * weights).sum(axis=0) / precision, noises, np.ones(precision.size, bool)
