"""The method ``"tables"``: draws family by family, each given all that tables say of margins inside it.

Each margin of a measured table that lies in a family is a noisy version of that margin of the family's counts, which
follow a chain (``margin_chain``); the conditional table is Dirichlet given the counts. Families are drawn one by one,
so what follows from counts of other families that are not negative is left out (proofs.md P56).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.margin_chain import NoisyMargin, margin_chain
from dpgraph.inference.interruption import heed, interruptible
from dpgraph.inference.network.draws import HeldDraws, PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, rows_estimate
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, Reals, margin
from dpgraph.waiting import counted

#: Cells of a family times draws that are worked on at once.
HELD = 1 << 23
#: Concentrations of a cell that are possible where they are learned, evenly spread on the log scale from the inverse of
#: the number of cells on: the largest, and how many.
HIGHEST, STEPS = 10.0, 25
#: Steps of all chains together that make sweeps fewer; the most sweeps for each draw, and of small families.
WORK, THIN, THIN_SMALL = 1.2e8, 10, 20
#: Tables that say the same margin are read one by one up to so many, and more as their average.
FEW = 4
#: Of each variable so many tables are read, those with the least noise, besides those that hold the family.
NEAR = 64

#: Noisy sums, their noises, and which of them may have rows.
Read = tuple[Reals, list[CellNoise], npt.NDArray[np.bool_]]


def draw_by_tables(
    given: Evidence,
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    learned: bool = False,
) -> PosteriorDraws:
    """Draws of every conditional table from noisy counts, families independent of each other; coefficients are refused.

    ``concentration`` is the Dirichlet prior of each variable, axes (variable, *parents); where it is ``learned``, up to
    a factor for each family, uniform on the log scale.
    """
    if any(table.weights is not None for table in given.tables):
        raise InferenceError('method="tables" needs noisy counts; for coefficients use "records" or "normal"')
    # Compiled loops take the random generator, which numba unpacks: no signal may be heard there.
    return interruptible(lambda _: _drawn(given, concentration, rng, draws, learned=learned))


def _drawn(
    given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator, draws: int, *, learned: bool
) -> PosteriorDraws:
    """The draws, in a thread in which no signal is heard."""
    network, margins = given.network, FamilyMargins(given)
    most = max(map(network.cells, network.families))
    held = HeldDraws(network, draws, min(draws * most, max(HELD, most)))
    for name in counted(network.domain.names):
        prior = concentration[name]
        measured, kept = margins.inside(network.family(name))
        thin = sweeps_each(network, len(kept), draws)
        factors = np.geomspace(1 / len(kept), HIGHEST, STEPS) if learned else np.ones(1)
        start = onto_simplex(measured[0].values[measured[0].places], margins.rows)
        follow = margin_chain(measured, prior.reshape(-1)[kept], given.n, start, factors=factors, thin=thin)
        step = max(1, HELD // (prior.size * thin))
        for first in range(0, draws, step):
            heed()
            some, factor = follow(rng, min(step, draws - first))
            counts = np.zeros((len(some), prior.size))
            counts[:, kept] = some
            own = prior * factor.reshape(-1, *[1] * prior.ndim)
            held.draw(name, first, own + counts.reshape(own.shape), rng)
    return held.finished("tables")


def sweeps_each(network: Network, cells: int, draws: int) -> int:
    """The sweeps for each draw of a family of so many cells: fewer where there is much to do."""
    alike, own = WORK / (2 * network.cell_count * draws), WORK / (4 * len(network.families) * cells * draws)
    return int(max(1, min(alike, THIN), min(own, THIN_SMALL)))


class FamilyMargins:
    """The noisy margins of families in the measured tables.

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
        """A margin of a table, flat."""
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
