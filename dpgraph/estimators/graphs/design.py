"""Which pairs to measure, from the noise they would get, about how many rows there are, and the domain: no data.

A pair is worth its share of the budget where its noise is small beside the rows. What is expected of a plan is the
mean total variation of all pairs of variables: that of both margins, and for a measured pair its noise, which shrinking
keeps from exceeding what independence would miss; a pair that is not measured misses that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.privacy.records import Event, PrivacyUnit
from dpgraph.structure.domain import Domain
from dpgraph.structure.margins import Margins, all_pairs
from dpgraph.structure.network import Family

#: The total variation that independence is taken to miss of a pair: what is seen of tables of people, .02 to .2.
MISSED = 0.1
#: The mean size of normal noise in a cell, halved: what it adds to the total variation for each cell, at the worst.
PER_CELL = 0.4
#: The same of a pair's noise after shrinking, for each square root of a cell.
PER_ROOT = 0.8
#: Plans that are compared: how many of the pairs, narrowest first, and which part of the budget single variables get.
PARTS, ALONE = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1), (0.0, 0.25, 0.5, 0.75)

Plan = Callable[[Margins], Event]


def designed(domain: Domain, plan: Plan, unit: PrivacyUnit, n: float, *, beside: bool) -> Margins:
    """The margins whose release is expected to give the best pairs.

    Args:
        domain: The variables.
        plan: The event of measuring some margins.
        unit: Whom it protects.
        n: About how many rows there are.
        beside: Whether single variables may get a part of the budget beside pairs that hold them.
    """
    return min(_candidates(domain, beside=beside), key=lambda margins: expected_error(margins, plan(margins), unit, n))


def _candidates(domain: Domain, *, beside: bool) -> Iterator[Margins]:
    """Plans from all pairs down to single variables alone."""
    everything = all_pairs(domain, beyond="leave-out")
    pairs = sorted((table for table in everything.tables if len(table) == 2), key=everything.cells)
    seen: set[int] = set()
    for part in PARTS:
        many = math.ceil(part * len(pairs))
        while 0 < many < len(pairs) and everything.cells(pairs[many]) == everything.cells(pairs[many - 1]):
            many += 1
        if many in seen or not many:
            continue
        seen.add(many)
        for alone in ALONE if beside else (0.0,):
            yield _margins(domain, pairs[:many], alone)
    yield Margins.of_tables(domain, [(name,) for name in domain.names])


def _margins(domain: Domain, pairs: list[Family], alone: float) -> Margins:
    """Some pairs, and single variables with a part of the budget; those that no pair holds have a pair's share."""
    held = {name for pair in pairs for name in pair}
    single: list[Family] = [(name,) for name in domain.names if alone or name not in held]
    kept = set(pairs)
    tables = [pair for pair in combinations(domain.names, 2) if pair in kept]
    each = max(1, round(1000 * alone / (1 - alone) * len(pairs) / max(1, len(single)))) if alone else 1000
    return Margins.of_tables(domain, [*tables, *single], [1000] * len(tables) + [each] * len(single))


def expected_error(margins: Margins, event: Event, unit: PrivacyUnit, n: float) -> float:
    """What is expected of the mean total variation of all pairs, from the noise of an event."""
    names, sizes = margins.domain.names, margins.domain.sizes
    singles: list[Family] = [(name,) for name in names]
    pairs = [table for table in margins.tables if len(table) == 2]
    laws: dict[Any, Any] = {m.table: m.law for m in event.measurements}
    found = consistent_variance(Margins.of_tables(margins.domain, [*singles, *pairs]), laws, unit.n_is_public)
    spread = {table: math.sqrt(variance) / n for table, variance in found.items()}
    raw = {name: PER_CELL * 0.75 * sizes[name] * spread[(name,)] for name in names}
    alone = {name: one / (1 + one) for name, one in raw.items()}
    noise = [PER_ROOT * math.sqrt(margins.cells(pair)) * spread[pair] for pair in pairs]
    together = [MISSED * one / (MISSED + one) for one in noise]
    many = math.comb(len(names), 2)
    missed = sum(together) + MISSED * (many - len(pairs))
    return (missed + (len(names) - 1) * sum(alone.values())) / many
