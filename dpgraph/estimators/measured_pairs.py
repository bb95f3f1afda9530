"""The method ``"pairs"``: tables are measured once, and the graph is chosen from the release, for free.

The choice of tables depends on their noise, on the domain, and on about how many rows there are: where that is private
and ``n`` is not given, the total of one narrow variable, measured first. A plan is judged by the expected mean total
variation of all pairs: the error of both variables, and for a measured pair its noise, which shrinking keeps below the
error of independence; a pair without a table has that error. With Gaussian noise under add-remove, narrow pairs and
variables are measured in the residual basis (proofs.md P29), and the mean is over a range of strengths of dependence
too. Where even tables of three variables would have little noise, all of them are measured beside all pairs, if the
joint of the domain is written down.

Below are the settings and methods of learning any network, and charges before their parts: mechanisms for shares, one
record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from dpgraph.estimators.fitting import stays_in_place
from dpgraph.inference.graphs.choosing import check_choosing, choose_within
from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.graphs.trees import borrows, is_small
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.plans import residual_design
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.composition import LESS, mu_squared_within
from dpgraph.privacy.gdp import epsilon_of_mu, mu_within, root, rounded
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release, combined_event, joint_release
from dpgraph.privacy.release import check_memory, release
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.structure.domain import Domain
from dpgraph.structure.margins import Margins, all_pairs
from dpgraph.structure.network import Family

#: The part of epsilon that measures about how many rows there are, where ``n`` is not given.
FIRST = Fraction(1, 25)
#: With tables: the total variation that independence is taken to miss of a pair; what noise in a cell, halved, adds to
#: that of a variable for each cell; and what a pair's noise leaves after shrinking for each square root of a cell.
MISSED, PER_CELL, PER_ROOT = 0.1, 0.4, 0.8
#: In the residual basis: what independence may miss, weak to strong; the total variation that noise leaves in a
#: variable for each square root of a level, and in what a pair adds to independence for each square root of a cell.
STRENGTHS, SINGLE, PAIR = np.geomspace(0.01, 0.2, 5), 0.4, 1.6
#: The latter where pairs borrow from each other.
BORROWED = 0.9
#: A joint of d variables is told by about so many pairs of each, so that the noise of d - 1 averages out.
TOLD = 3
#: On how many others a variable is taken to depend, at most: from the rest it is taken to be independent.
DEPENDENT = 16
#: Less noise than this is none.
LEAST = 1e-12
#: Plans that are compared: how many of the pairs, narrowest first; with tables, which part of the budget single
#: variables get; in the residual basis, how much more their squared errors count than those in all their pairs.
PARTS, ALONE, COUNTED = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1), (0.0, 0.25, 0.5, 0.75), (0, 1, 4, 16, 64, 256)
#: Tables of three variables are measured where the noise of one moves at most this share of the rows, on average. Cells
#: of pairs then count this many times theirs.
BEARABLE, PAIRS_COUNTED = 0.0125, 16
#: The most cells of a table in the residual basis: chains of records read every coefficient of a table at each step.
MOST_CELLS = 128
#: And the most variables there, for the time that planning takes; with less rho for one row, noise leaves 64 bits.
MOST_VARIABLES, LEAST_RHO = 128, 1e-6

Mechanism = GaussianMechanism | LaplaceMechanism


def designed(constraints: Limits, mechanism: Mechanism, unit: PrivacyUnit, n: float) -> tuple[Margins, Mechanism]:
    """The margins that are expected to give the best network of about n rows, and the mechanism in their basis."""
    domain, how = constraints.domain, mechanism
    triples = with_triples(constraints, mechanism, unit)
    if triples is not None:
        margins, made = triples
        variances, wide = made.variance(margins, unit), [table for table in margins.tables if len(table) == 3]
        moved = [PER_CELL * margins.cells(table) * math.sqrt(variances[table]) for table in wide]  # rows, by noise
        if sum(moved) <= BEARABLE * n * len(wide):
            return triples
    if isinstance(mechanism, GaussianMechanism) and _may_split(domain, mechanism, unit, 2):
        how = replace(mechanism, basis="residual")

    def error(margins: Margins) -> float:
        """The expected mean total variation of all pairs."""
        if isinstance(how, GaussianMechanism) and how.basis == "residual":
            return _error_of_blocks(margins, float(how.mu_squared) / 2 / unit.rows_per_person**2, n)
        return _error_of_tables(margins, how.event(margins, unit), unit, n)

    return min(_candidates(domain, how), key=error), how


def with_triples(
    constraints: Limits, mechanism: Mechanism, unit: PrivacyUnit
) -> tuple[Margins, GaussianMechanism] | None:
    """All pairs and all tables of three variables; None where the model of the domain could not use them."""
    domain, most = constraints.domain, constraints.max_parents
    if len(domain.names) < 3 or not is_small(domain) or (most is not None and most < 2):
        return None
    if not isinstance(mechanism, GaussianMechanism) or not _may_split(domain, mechanism, unit, 3):
        return None
    pairs, triples = ([*combinations(domain.names, size)] for size in (2, 3))
    shares = [PAIRS_COUNTED] * len(pairs) + [1] * len(triples)
    return Margins.of_tables(domain, [*pairs, *triples], shares), replace(mechanism, basis="residual")


def _may_split(domain: Domain, mechanism: GaussianMechanism, unit: PrivacyUnit, size: int) -> bool:
    """True if the residual basis suits the unit, tables of so many variables are narrow, and 64 bits hold the noise."""
    sizes = sorted(domain.sizes.values())
    enough = float(mechanism.mu_squared) / 2 >= LEAST_RHO * unit.rows_per_person**2
    return not unit.n_is_public and enough and math.prod(sizes[-size:]) <= MOST_CELLS and len(sizes) <= MOST_VARIABLES


def _candidates(domain: Domain, how: Mechanism) -> Iterator[Margins]:
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
        yield from _shared(domain, pairs[:many], how)
    yield Margins.of_tables(domain, [(name,) for name in domain.names])


def _shared(domain: Domain, pairs: list[Family], how: Mechanism) -> Iterator[Margins]:
    """Some pairs, and single variables beside them with more and more of the budget."""
    kept, held = set(pairs), {name for pair in pairs for name in pair}
    tables = [table for table in all_pairs(domain, beyond="leave-out").tables if table in kept]
    singles: list[Family] = [(name,) for name in domain.names]
    outside = [table for table in singles if table[0] not in held]
    if not isinstance(how, GaussianMechanism):
        yield Margins.of_tables(domain, [*tables, *outside], [1000] * (len(tables) + len(outside)))
        return
    if how.basis == "residual":
        yield Margins.of_tables(domain, [*tables, *outside])
        for more in COUNTED[1:]:
            each = more * (len(singles) - 1)
            yield Margins.of_tables(domain, [*tables, *singles], [1] * len(tables) + [each] * len(singles))
        return
    for alone in ALONE:
        beside = singles if alone else outside
        each = max(1, round(1000 * alone / (1 - alone) * len(pairs) / len(singles))) if alone else 1000
        yield Margins.of_tables(domain, [*tables, *beside], [1000] * len(tables) + [each] * len(beside))


def _error_of_tables(margins: Margins, event: Event, unit: PrivacyUnit, n: float) -> float:
    """The expected error of tables, at one strength of dependence."""
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


def _error_of_blocks(margins: Margins, rho: float, n: float) -> float:
    """The expected error of residual blocks: a mean over ``STRENGTHS`` and pairs, some independent in a wide domain."""
    names = margins.domain.names
    found = residual_design(margins, rho).variances
    place = {name: i for i, name in enumerate(names)}
    moved = np.array([SINGLE * _spread(margins, (name,), found) / n for name in names])
    squares = (moved / (1 + moved)) ** 2
    apart = np.add.outer(squares, squares)
    noise = np.full(apart.shape, np.inf)
    per_root = BORROWED if borrows(margins.domain) else PAIR
    left = per_root * math.sqrt(min(1.0, TOLD / (len(names) - 1))) / n
    for table in margins.tables:
        if len(table) == 2:
            one, other = sorted(table, key=place.__getitem__)
            noise[place[one], place[other]] = left * _spread(margins, (one, other), found)
    upper = np.triu_indices(len(names), 1)
    apart, noise = apart[upper], noise[upper]
    missed = 1 / np.hypot(1 / STRENGTHS[:, None], 1 / np.maximum(noise, LEAST))
    depend = min(1.0, DEPENDENT / (len(names) - 1))
    return float(depend * np.sqrt(apart + missed**2).mean() + (1 - depend) * np.sqrt(apart).mean())


def _spread(margins: Margins, block: Family, found: dict[Family, float]) -> float:
    """The root of a table's cells times the variance of its residual block; 0 where a variable has one level."""
    return math.sqrt(margins.cells(block) * found[block]) if block in found else 0.0


def _mechanism(task: Task) -> GaussianMechanism | LaplaceMechanism:
    epsilon = task.epsilon * (1 - FIRST if _asks_first(task) else 1)
    return GaussianMechanism(epsilon, task.delta) if task.delta else LaplaceMechanism(epsilon)


def _narrowest(task: Task) -> Margins:
    name = min(task.domain.names, key=task.domain.sizes.__getitem__)
    return Margins.of_tables(task.domain, [(name,)])


def _asks_first(task: Task) -> bool:
    return task.n is None and not task.budget.unit.n_is_public


def _plan(task: Task) -> tuple[Event, ...]:
    """The events: the number of rows decides which tables the last one measures, not its price."""
    unit, pairs = task.budget.unit, all_pairs(task.domain, beyond="leave-out")
    tables = _mechanism(task).event(pairs, unit)
    return (LaplaceMechanism(task.epsilon * FIRST).event(_narrowest(task), unit), tables)[not _asks_first(task) :]


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    rows = rows if stays_in_place(rows) or isinstance(rows, Codes) else encode(rows, task.domain)
    unit, releases, mechanism = task.budget.unit, [], _mechanism(task)
    check_choosing(task.constraints)
    for planned in _plan(task):
        check_memory(planned)
    triples = with_triples(task.constraints, mechanism, unit)
    if triples is not None:
        check_memory(triples[1].event(triples[0], unit))
    if _asks_first(task):
        releases.append(_release(task, rows, _narrowest(task), LaplaceMechanism(task.epsilon * FIRST)))
        n = _rows_in(releases[0])
    else:
        n = float(task.n or max(1, _counted(task, rows, _narrowest(task)).sensitive_rows))  # the unit makes n public
    releases.append(_release(task, rows, *designed(task.constraints, mechanism, unit, n)))
    made = joint_release(releases)
    made = replace(made, event=in_turn(made.event))  # the noisy number of rows decides which tables are measured
    return replace(choose_within(made, task.constraints), reason=task.reason)


def _counted(task: Task, rows: Any, margins: Margins) -> Counts:
    group = task.budget.group
    return count(rows, margins, where=None if group is None else group.where)


def _release(task: Task, rows: Any, margins: Margins, mechanism: Any) -> Release[Any]:
    return release(_counted(task, rows, margins), mechanism, budget=task.budget, noise=task.noise)


def _rows_in(noisy: Release[Any]) -> float:
    """About how many rows there are by a noisy table, less one standard deviation of its noise, and at least that."""
    ((key, table),) = noisy.value.tables.items()
    spread = math.sqrt(table.size * noisy.value.variance(key))
    return max(1.0, spread, float(table.sum()) - spread)


#: The least epsilon that Gaussian noise claims.
LEAST_CLAIM = Fraction(1, 10**9)


def shared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The quantity to share: epsilon, or a square of mu where there is a delta."""
    return LESS * mu_squared_within(PrivacyCost(epsilon, delta)) if delta else epsilon


def adding(share: Fraction, delta: Fraction) -> GaussianMechanism | LaplaceMechanism:
    """A mechanism that adds noise and spends a share."""
    if not delta:
        return LaplaceMechanism(share)
    claimed = max(LEAST_CLAIM, rounded(epsilon_of_mu(share, delta), up=True))
    return GaussianMechanism(claimed, delta, mu=root(share, up=False))


def whole_event(name: str, epsilon: Fraction, delta: Fraction) -> Event:
    """A charge that pays for several parts."""
    return Event(name, epsilon, delta, mu=mu_within(epsilon, delta) if delta else None)


def charged(statistics: Any, budget: Budget, whole: Event) -> RowsRecord:
    """Charges the whole, and says of which rows all parts are."""
    choice = None if statistics.cap is None else statistics.cap.draw
    receipt = budget.charge(whole, Made(statistics.description, choice=choice))
    return RowsRecord(budget.identity, (), choice or "", () if receipt is None else (receipt.digest,))


def unseen(event: Event, name: str) -> Event:
    """The price of a release that is not kept, as a part of a record."""
    rho = event.rho if event.delta else event.epsilon**2 / 2
    return Event(name, event.epsilon, event.delta, rho=rho, mu=event.mu)


def as_one(measured: Sequence[Release[Any]], scope: RowsRecord, purse: Budget, *more: Event) -> Release[Any]:
    """The tables as one release, whose record holds every part that the purse paid for and claims the charge.

    ``more`` stands for the last parts, of releases that are not kept.
    """
    together = joint_release([replace(one, scope=scope) for one in measured])
    whole = combined_event((*purse.events[: len(purse.events) - len(more)], *more))
    if purse.mu is not None:
        whole = replace(whole, epsilon=purse.epsilon, delta=purse.delta, mu=purse.mu)
    return replace(together, event=in_turn(whole))


@dataclass(frozen=True, eq=False)
class Task:
    """A network to be learned; ``n`` is about how many rows there are, as far as the public knows."""

    domain: Domain
    epsilon: Fraction
    delta: Fraction
    budget: Budget
    constraints: Limits
    n: int | None = None
    reason: str = "as asked"
    noise: Noise | None = None


@dataclass(frozen=True)
class Learner:
    """One method: ``plan`` has the events that a task would charge, in order, without a look at any row."""

    plan: Callable[[Task], tuple[Event, ...]]
    learn: Callable[[Task, Any], LearnedNetwork]


def in_turn(event: Event) -> Event:
    """An event whose parts earlier parts decided: a pure one says so by its rho, and its claim is its price."""
    return replace(event, rho=event.epsilon**2 / 2) if event.parts and not event.delta else event


PAIRS = Learner(_plan, _learn)
