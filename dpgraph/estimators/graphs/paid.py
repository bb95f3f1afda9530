"""The method ``"greedy"``: a graph chosen with a part of the budget, then its families measured.

For pure epsilon, and for wide domains, where all pairs at once would drown in their noise. Three releases, each by a
mechanism of its own: one-way tables; the choices, by scores against the margins of these; the tables of the chosen
network. The whole is charged once, before the first draw, and its parts are paid from a budget of exactly that size, of
its own: a filter, so their sum is within the charge whatever earlier parts decided (proofs.md P115).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any

from dpgraph import memory
from dpgraph.estimators.graphs.task import Learner, Task
from dpgraph.estimators.parts import adding, as_one, shared
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.graphs.reading import read_families
from dpgraph.inference.network.consistency import reconcile
from dpgraph.inference.network.plug_in import BYTES_PER_CELL, BYTES_PER_FAMILY
from dpgraph.mechanisms.selection.parents_choice import OneWays, ParentsChoice
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.composition import Accounting, Filter, pure_within
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import mu_within, pure_mu_squared
from dpgraph.privacy.records import PAID_IN_PARTS, Event, PrivacyCost, PrivacyUnit, Release
from dpgraph.privacy.release import BYTES_PER_NUMBER, BYTES_PER_TABLE, check_memory, checked_source, release
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.counts import TableCounts, any_tables, count
from dpgraph.structure.margins import AnyTables
from dpgraph.structure.network import Network

#: What one-way tables get of the budget, and what the choices get, pure and in squared mu.
MARGINS, CHOICES, CHOICES_MU = Fraction(1, 10), Fraction(1, 3), Fraction(2, 5)
#: The most parents of a variable, unless it is said.
PARENTS = 2


@dataclass(frozen=True)
class _Shares:
    """The costs of the three releases: epsilons, or squares of mus where there is a delta."""

    margins: Fraction
    choices: Fraction
    tables: Fraction
    delta: Fraction

    @classmethod
    def of(cls, task: Task) -> _Shares:
        """The shares of a task's budget."""
        whole = shared(task.epsilon, task.delta)
        chosen = CHOICES_MU if task.delta else CHOICES
        return cls(MARGINS * whole, chosen * whole, (1 - MARGINS - chosen) * whole, task.delta)

    def choosing(self, draws: int) -> Fraction:
        """The pure epsilon of all choices together: each costs the mu of half its own."""
        return 2 * draws * pure_within(self.choices / draws, pure_mu_squared) if self.delta else self.choices

    def noise(self, tables: int, unit: PrivacyUnit) -> float:
        """The expected absolute noise of a cell, were so many tables measured with equal budgets."""
        moved = _moved(unit)
        if not self.delta:
            return moved * tables / float(self.tables)
        squared = moved * unit.rows_per_person * tables
        return math.sqrt(squared / float(self.tables)) * math.sqrt(2 / math.pi)


def expected_noise(task: Task) -> tuple[float, float]:
    """The expected absolute noise of a cell of d - 1 tables, and by how many rows a choice errs, e-fold."""
    shares, draws, unit = _Shares.of(task), len(task.domain.names) - 1, task.budget.unit
    return shares.noise(draws, unit), _moved(unit) * draws / float(shares.choosing(draws))


def _moved(unit: PrivacyUnit) -> int:
    return unit.rows_per_person * (2 if unit.n_is_public else 1)


def _choice(task: Task, margins: OneWays | None = None) -> ParentsChoice:
    """The mechanism that chooses; its cost does not depend on the margins, even ones where they are not released."""
    margins = margins or OneWays.of({name: [1.0] * size for name, size in task.domain.sizes.items()}, 1)
    limits, names, shares = task.constraints, task.domain.names, _Shares.of(task)
    epsilon, noise = shares.choosing(len(names) - 1), shares.noise(len(names) - 1, task.budget.unit)
    banned = frozenset((a, b) for a in names for b in names if a != b and not limits.allows(a, b))
    parents = PARENTS if limits.max_parents is None else limits.max_parents
    return ParentsChoice(epsilon, margins, noise, max(1, parents), limits.max_cells, banned, limits.required)


def _plan(task: Task) -> tuple[Event, ...]:
    _parts(task)
    mu = mu_within(task.epsilon, task.delta) if task.delta else None
    return (Event(PAID_IN_PARTS, task.epsilon, task.delta, mu=mu),)


def _parts(task: Task) -> list[Event]:
    """The parts as they are planned."""
    if task.budget.group is not None:
        raise ReleaseError("method='greedy' needs a budget of all rows, not a group's")
    if task.constraints.max_parents == 0:
        raise ReleaseError("method='greedy' chooses parents, and max_parents is 0")
    unit, shares, alone = task.budget.unit, _Shares.of(task), Network.of(task.domain, {})
    parts = [adding(share, shares.delta).event(alone, unit) for share in (shares.margins, shares.tables)]
    parts.append(_choice(task).event(AnyTables(task.domain), unit))
    whole = PrivacyCost(task.epsilon, task.delta)
    rule = Filter(_accounting(task), whole)
    if not rule.fits(reduce(rule.after, parts, rule.start)):
        raise ReleaseError(f"the parts of method='greedy' do not fit {whole}")
    return parts


def _accounting(task: Task) -> Accounting:
    """How the parts add: in squares of mus where there is a delta."""
    return "gdp" if task.delta else "basic"


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    statistics = any_tables(rows, task.domain)
    purse = Budget(task.epsilon, task.delta, unit=task.budget.unit, accounting=_accounting(task))
    scope = _charged(task, statistics)
    alone, measured, network = _released(task, statistics, purse)
    noisy = as_one((alone, measured), scope, purse)
    tables = replace(read_families(noisy.value, network), provenance=noisy.provenance)
    return LearnedNetwork(tables, noisy, "greedy", task.reason)


def _charged(task: Task, statistics: TableCounts) -> RowsRecord:
    """Charges the whole, once all that the one door would ask of its parts is found to fit."""
    checked_source(statistics, task.budget, task.noise)
    for part in _parts(task):
        check_memory(part)
    memory.check(_needed(task), f"{PAID_IN_PARTS} by this method", "declare fewer or coarser variables", ReleaseError)
    choice = None if statistics.cap is None else statistics.cap.draw
    receipt = task.budget.charge(_plan(task)[0], Made(statistics.description, choice=choice))
    return RowsRecord(task.budget.identity, (), choice or "", () if receipt is None else (receipt.digest,))


def _needed(task: Task) -> int:
    """The most bytes that the choices, or the tables that are measured after them, may take."""
    choice, limits = _choice(task), task.constraints
    parents = max([choice.max_parents, *map(len, limits.required_parents.values())])
    cells = replace(limits, max_parents=parents).most_cells.values()
    per_cell = BYTES_PER_NUMBER[task.budget.unit.n_is_public] + BYTES_PER_CELL
    tables = sum(cells) * per_cell + len(cells) * (BYTES_PER_TABLE + BYTES_PER_FAMILY)
    return max(choice.working_bytes(AnyTables(task.domain)), tables)


def _released(task: Task, statistics: TableCounts, purse: Budget) -> tuple[Release[Any], Release[Any], Network]:
    """One-way tables, the tables of the chosen network, and the network; all paid from the purse."""
    shares, codes = _Shares.of(task), statistics.sensitive_codes
    margins = count(codes, Network.of(task.domain, {}))
    alone = release(margins, adding(shares.margins, shares.delta), budget=purse, noise=task.noise)
    flat = reconcile(alone)
    public = OneWays.of({name: flat.margin(name) for name in task.domain.names}, flat.n)
    network = release(statistics, _choice(task, public), budget=purse, noise=task.noise).value
    tables = release(count(codes, network), adding(shares.tables, shares.delta), budget=purse, noise=task.noise)
    return alone, tables, network


GREEDY = Learner(_plan, _learn)
