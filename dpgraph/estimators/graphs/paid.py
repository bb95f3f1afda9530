"""The method ``"greedy"``: a graph chosen with a part of the budget, then its families measured.

For pure epsilon, and for wide domains, where all pairs at once would drown in their noise. Three releases, each by a
mechanism of its own: one-way tables; the choices, by scores against the margins of these; the tables of the chosen
network. The whole is charged once, before the first of them (``purse``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpgraph.estimators.graphs.charging import (
    adding,
    as_one,
    charged,
    check_fits,
    late_bytes,
    one_charge,
    purse_of,
    root_below,
)
from dpgraph.estimators.graphs.task import Learner, Task
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.graphs.reading import read_families
from dpgraph.inference.network.consistency import reconcile
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.table_choice import ParentsChoice
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.filters import LESS, rho_within
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release, ReleaseError
from dpgraph.privacy.release import release
from dpgraph.statistics.counts import count
from dpgraph.statistics.table_counts import TableCounts, any_tables
from dpgraph.structure.candidate_tables import AnyTables, OneWays
from dpgraph.structure.network import Network

#: What one-way tables get of the budget, and what the choices get, pure and in rho.
MARGINS, CHOICES, CHOICES_RHO = Fraction(1, 10), Fraction(1, 3), Fraction(2, 5)
#: The most parents of a variable, unless it is said.
PARENTS = 2


@dataclass(frozen=True)
class _Shares:
    """What each of the three releases may spend: epsilons, or where there is a delta rhos."""

    margins: Fraction
    choices: Fraction
    tables: Fraction
    delta: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction) -> _Shares:
        """The shares of a whole."""
        whole = LESS * rho_within(PrivacyCost(epsilon, delta)) if delta else epsilon
        chosen = CHOICES_RHO if delta else CHOICES
        return cls(MARGINS * whole, chosen * whole, (1 - MARGINS - chosen) * whole, delta)

    def adding(self, share: Fraction) -> GaussianMechanism | LaplaceMechanism:
        """A mechanism that adds noise and spends a share."""
        return adding(share, self.delta)

    def choosing(self, draws: int) -> Fraction:
        """The pure epsilon of all choices together: each costs its square / 8 in rho."""
        if not self.delta:
            return self.choices
        return draws * root_below(8 * self.choices / draws)

    def noise(self, tables: int, unit: PrivacyUnit) -> float:
        """The expected absolute noise of a cell, were so many tables measured with equal budgets."""
        moved = unit.rows_per_person * (2 if unit.n_is_public else 1)
        if not self.delta:
            return moved * tables / float(self.tables)
        squared = moved * unit.rows_per_person * tables
        return math.sqrt(squared / (2 * float(self.tables))) * math.sqrt(2 / math.pi)


def expected_noise(task: Task) -> tuple[float, float]:
    """The expected absolute noise of a cell of d - 1 tables, and by how many rows a choice errs, e-fold."""
    shares, draws = _Shares.of(task.epsilon, task.delta), len(task.domain.names) - 1
    unit = task.budget.unit
    moved = unit.rows_per_person * (2 if unit.n_is_public else 1)
    return shares.noise(draws, unit), moved * draws / float(shares.choosing(draws))


def _choice(task: Task, shares: _Shares, margins: OneWays) -> ParentsChoice:
    """The mechanism that chooses."""
    limits, draws = task.constraints, len(task.domain.names) - 1
    epsilon, noise = shares.choosing(draws), shares.noise(draws, task.budget.unit)
    names = task.domain.names
    banned = frozenset((a, b) for a in names for b in names if a != b and not limits.allows(a, b))
    parents = PARENTS if limits.max_parents is None else limits.max_parents
    return ParentsChoice(epsilon, margins, noise, max(1, parents), limits.max_cells, banned, limits.required)


def _even(task: Task) -> OneWays:
    """Margins that stand for those to come: what a release will cost does not depend on them."""
    return OneWays.of({name: [1.0] * size for name, size in task.domain.sizes.items()}, 1)


def _check(task: Task) -> None:
    """Refuses what the method cannot do.

    Raises:
        ReleaseError: Naming it.
    """
    limits = task.constraints
    if task.stages != 1:
        raise ReleaseError(f"stages={task.stages} is for method='pairs'; 'greedy' chooses in one")
    if task.budget.group is not None:
        raise ReleaseError("method='greedy' learns from all rows, not from those of a group's budget")
    if limits.max_parents == 0:
        raise ReleaseError("method='greedy' chooses parents, and max_parents is 0")


def _parts(task: Task) -> list[Event]:
    """The parts as they are planned, after everything that could be refused was asked."""
    _check(task)
    unit, shares = task.budget.unit, _Shares.of(task.epsilon, task.delta)
    alone = Network.of(task.domain, {})
    measured = [shares.adding(share).event(alone, unit) for share in (shares.margins, shares.tables)]
    parts = [*measured, _choice(task, shares, _even(task)).event(AnyTables(task.domain), unit)]
    check_fits(task, parts, "method='greedy'")
    return parts


def _needed(task: Task) -> int:
    """The most bytes that the choices and what is measured after them may take."""
    choice = _choice(task, _Shares.of(task.epsilon, task.delta), _even(task))
    limits = task.constraints
    parents = max([choice.max_parents, *map(len, limits.required_parents.values())])
    most = replace(limits, max_parents=parents).most_cells.values()
    return max(choice.working_bytes(AnyTables(task.domain)), late_bytes(task, most))


def _plan(task: Task) -> tuple[Event, ...]:
    """The one charge of them."""
    _parts(task)
    return (one_charge(task),)


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    """Encodes the rows, charges the whole, and releases its parts."""
    statistics = any_tables(rows, task.domain)
    parts, purse = _parts(task), purse_of(task)
    scope = charged(task, statistics, parts, _needed(task))
    alone, measured, network = _released(task, statistics, purse)
    noisy = as_one((alone, measured), scope, purse)
    tables = replace(read_families(noisy.value, network), provenance=noisy.provenance)
    return LearnedNetwork(tables, noisy, "greedy", task.reason)


def _released(task: Task, statistics: TableCounts, purse: Budget) -> tuple[Release[Any], Release[Any], Network]:
    """One-way tables, the tables of the chosen network, and the network; all paid from the purse."""
    shares, codes = _Shares.of(task.epsilon, task.delta), statistics.sensitive_codes
    margins = count(codes, Network.of(task.domain, {}))
    alone = release(margins, shares.adding(shares.margins), budget=purse, noise=task.noise)
    flat = reconcile(alone)
    public = OneWays.of({name: flat.margin(name) for name in task.domain.names}, flat.n)
    network = release(statistics, _choice(task, shares, public), budget=purse, noise=task.noise).value
    tables = release(count(codes, network), shares.adding(shares.tables), budget=purse, noise=task.noise)
    return alone, tables, network


GREEDY = Learner(_plan, _learn)
