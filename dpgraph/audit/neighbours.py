"""Small data sets of a network that differ in one person: all of them where they are few, else the most telling."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dpgraph.privacy.records import PrivacyUnit
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import Codes, code_dtype
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

Row = tuple[int, ...]
Rows = tuple[Row, ...]
Pair = tuple[Rows, Rows]
#: The most pairs that are enumerated, and the most rows of others beside the person's.
MOST_PAIRS, MOST_OTHERS = 40_000, 2


@dataclass(frozen=True)
class Enumeration:
    """All unordered pairs of data sets one person apart, beside up to ``others`` rows; ``alike`` if theirs are."""

    pairs: tuple[Pair, ...]
    others: int
    alike: bool


def statistics_of(network: Network, rows: Rows) -> Counts:
    """The exact counts of rows that are given as codes in the network's order."""
    table = np.array(rows, np.int64).reshape(len(rows), len(network.domain.names))
    columns = {
        name: table[:, place].astype(code_dtype(network.domain.sizes[name]))
        for place, name in enumerate(network.domain.names)
    }
    return count(Codes(network.domain, FrozenMap(columns)), network)


def all_neighbours(network: Network, unit: PrivacyUnit, most: int = MOST_PAIRS) -> Enumeration | None:
    """All pairs, beside as many rows of others as keep them within so many pairs; None where there are more."""
    kinds, rows = math.prod(network.domain.sizes.values()), unit.rows_per_person
    if kinds > most:
        return None

    def many(n: int) -> int:
        """How many multisets of n rows there are."""
        return math.comb(kinds + n - 1, n)

    persons = math.comb(many(rows), 2) if unit.n_is_public else sum(map(many, range(1, rows + 1)))
    every = list(itertools.product(*(range(size) for size in network.domain.sizes.values())))
    sizes = (rows,) if unit.n_is_public else range(1, rows + 1)

    def pairs(rests: Iterable[Rows], mine: Iterable[Rows]) -> tuple[Pair, ...]:
        """All pairs of which a person has some rows or others, or none, beside each of the rest."""
        both = [*itertools.combinations(mine, 2)] if unit.n_is_public else [((), one) for one in mine]
        made = ([tuple(sorted((*rest, *one))) for one in pair] for rest in rests for pair in both)
        found = {tuple(sorted(pair, key=lambda rows: (len(rows), rows))) for pair in made}
        return tuple(sorted(found))  # type: ignore[arg-type]

    for others in range(MOST_OTHERS, -1, -1):
        if sum(map(many, range(others + 1))) * persons <= most:
            rests, mine = (
                itertools.chain.from_iterable(itertools.combinations_with_replacement(every, n) for n in numbers)
                for numbers in (range(others + 1), sizes)
            )
            return Enumeration(pairs(rests, mine), others, alike=False)
    if unit.n_is_public and math.comb(kinds, 2) > most:
        return None
    return Enumeration(pairs([()], ((row,) * rows for row in every)), 0, rows > 1)


def telling_neighbours(network: Network, unit: PrivacyUnit, rng: np.random.Generator) -> Iterator[Pair]:
    """Endless pairs: the corners, which attain each table's movement, then random ones; a person's rows are alike."""
    sizes = np.array(list(network.domain.sizes.values()))
    first, last, r = np.zeros(len(sizes), int), sizes - 1, unit.rows_per_person
    yield _pair((), first, last, r, unit)
    yield _pair((), last, first, r, unit)
    for turn in itertools.count():
        one = rng.integers(sizes)
        shift = 1 + rng.integers(np.maximum(sizes - 1, 1))
        chosen = (
            np.ones(len(sizes), bool),
            np.arange(len(sizes)) == turn // 3 % len(sizes),
            rng.random(len(sizes)) < rng.random(),
        )[turn % 3]
        other = np.where(chosen, (one + shift) % sizes, one)
        rest = tuple(tuple(map(int, rng.integers(sizes))) for _ in range(rng.integers(4)))
        if unit.neighbours == "add-remove" or (one != other).any():
            yield _pair(rest, one, other, r, unit)


def changed(pair: Pair, network: Network, unit: PrivacyUnit, rng: np.random.Generator) -> Pair:
    """A pair like another, but for one variable of a person's rows, all alike, at another level."""
    small, large = sorted(pair, key=len)
    shared = Counter(small) & Counter(large)
    rest = list(shared.elements())
    mine = [next((Counter(rows) - shared).elements(), None) for rows in (small, large)]
    place = int(rng.integers(2)) if unit.n_is_public else 1
    sizes = list(network.domain.sizes.values())
    movable = [at for at, size in enumerate(sizes) if size > 1]
    row = list(mine[place] or mine[1] or mine[0] or (0,) * len(sizes))
    if movable:
        at = movable[int(rng.integers(len(movable)))]
        row[at] = (row[at] + 1 + int(rng.integers(sizes[at] - 1))) % sizes[at]
    both: list[Row | None] = [*mine]
    both[place] = tuple(row)
    r = unit.rows_per_person
    first, second = (tuple(sorted([*rest, *((one,) * r if one else ())])) for one in both)
    return first, second


def _pair(rest: Rows, one: np.ndarray, other: np.ndarray, times: int, unit: PrivacyUnit) -> Pair:
    """The rows of others with one person's, and without them or with other ones."""
    a, b = ((tuple(map(int, row)),) * times for row in (one, other))
    with_one = tuple(sorted((*rest, *a)))
    return (with_one, tuple(sorted((*rest, *b)))) if unit.n_is_public else (tuple(sorted(rest)), with_one)
