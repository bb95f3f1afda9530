"""A network from rows: the measurement is charged once, and everything after it is free.

The method ``"greedy"`` is for pure epsilon and wide domains, where all pairs at once would drown in their noise: a
graph is chosen with a part of the budget, by scores against the margins of one-way tables, then its families measured.
The parts are paid from a purse of exactly the charge: a filter, so their sum is within it whatever earlier parts
decided (proofs.md P115).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations
from typing import Any

from dpgraph import memory
from dpgraph.estimators.measured_pairs import PAIRS, Learner, Task, adding, as_one, charged, shared, whole_event
from dpgraph.inference.graphs.choosing import read_families
from dpgraph.inference.graphs.constraints import Constraints, constraints_within
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.network.consistency import reconcile
from dpgraph.inference.network.plug_in import BYTES_PER_CELL, BYTES_PER_FAMILY
from dpgraph.mechanisms.selection.parents_choice import OneWays, ParentsChoice
from dpgraph.privacy.accounting import Budget, promised
from dpgraph.privacy.checks import check_choice, check_whole
from dpgraph.privacy.composition import Accounting, Filter, pure_within
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import pure_mu_squared
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import PAID_IN_PARTS, Event, Number, PrivacyCost, PrivacyUnit, Release, combined_event
from dpgraph.privacy.release import BYTES_PER_NUMBER, BYTES_PER_TABLE, check_memory, checked_source, release
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.counts import TableCounts, any_tables, count
from dpgraph.statistics.rows.persons import cap_rows
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable
from dpgraph.structure.margins import AnyTables
from dpgraph.structure.network import Network
from dpgraph.waiting import waiting

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
    return (whole_event(PAID_IN_PARTS, task.epsilon, task.delta),)


def _parts(task: Task) -> list[Event]:
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
    return charged(statistics, task.budget, _plan(task)[0])


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


def learn_network(
    rows: Any,
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    epsilon: Number,
    delta: Number = 0,
    budget: Budget | None = None,
    unit: PrivacyUnit | None = None,
    method: str = "auto",
    constraints: Constraints | None = None,
    person: str | None = None,
    n: int | None = None,
    noise: Noise | None = None,
    progress: bool = False,
) -> LearnedNetwork:
    """Learns a network, its graph and its probabilities, from private rows that have no graph.

    Pairs of variables, and where their noise would be small tables of three, are measured once, and the graph is chosen
    from the release: the choice costs nothing, and ``dg.choose_network(learned.release, ...)`` makes another for free.
    Where the number of rows is private and ``n`` is not given, the narrowest variable is measured first with a
    twenty-fifth of epsilon, which is a charge of its own; together they are epsilon and delta.

    Args:
        rows: As for ``count``: a table, ``Codes``, or the path of a CSV or Parquet file.
        domain: The declared variables, two at least.
        epsilon: The cost, exact; a float means the decimal it prints as.
        delta: Above 0 for Gaussian noise, which is far less where there are many pairs; 0 for Laplace noise.
        budget: The ``Budget`` to charge; one of exactly epsilon and delta where it is left out.
        unit: Whom to protect, where there is no budget.
        method: ``"auto"``, or one of the methods by name: ``"pairs"``, all pairs measured once; ``"greedy"``, each
            variable's parents chosen with a part of epsilon.
        constraints: The allowed graphs, ``dg.Constraints(max_parents=2, ...)``; None for any.
        person: The column that says whose row it is, no variable of the domain. Of each person as many rows as the unit
            protects are kept, chosen once by a fresh secret key whatever the rows of others (``cap_rows``).
        n: The approximate number of rows, where that is public; a guess is enough, since it decides only which tables
            are measured.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the release as not private.
        progress: A bar on a terminal.

    Returns:
        A ``LearnedNetwork``: ``.network``, ``.probabilities``, ``.release``, ``.edges``, ``.alternatives(k)``,
        ``.posterior()``.

    Raises:
        NetworkError: If the domain has one variable, or constraints contradict one another; nothing is charged.
        ReleaseError, BudgetExceededError: If a setting or the budget does not fit; nothing is charged.
        DomainError: If the rows do not fit the domain; nothing is charged.

    Warns:
        PriorWarning: If nothing stands out of the noise, so that the graph is empty.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"rain": ["no", "no", "yes", "yes"] * 500, "wet": ["no", "no", "yes", "no"] * 500})
    >>> domain = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> learn_network(rows, domain, epsilon=1, unit=PrivacyUnit("replace"))
    LearnedNetwork(2 variables, 1 arcs, method='pairs')
    """
    settings: Any = {"epsilon": epsilon, "delta": delta, "budget": budget, "unit": unit, "constraints": constraints}
    learner, task = learning_task(domain, **settings, n=n, noise=noise, method=method)
    task.budget.left_after(combined_event(learner.plan(task)))  # refuses before anything is charged
    with waiting("learning a network", progress):
        if person is not None:
            rows = cap_rows(rows, task.domain, person, task.budget.unit.rows_per_person)
        return learner.learn(task, rows)


def planned_events(domain: Any, **settings: Any) -> Event:
    """The charge of ``learn_network`` by the same settings, without rows: one event, perhaps of several."""
    method, task = learning_task(domain, **settings)
    return combined_event(method.plan(task))


def learning_task(
    domain: Any,
    *,
    n: int | None = None,
    noise: Noise | None = None,
    constraints: Constraints | None = None,
    method: str = "auto",
    **promise: Any,
) -> tuple[Learner, Task]:
    """The method and the task of the settings of ``learn_network``, all public; ``promise`` is for ``promised``."""
    domain = Domain.of(domain)
    if len(domain.names) < 2:
        raise NetworkError("a graph needs two variables at least; the domain declares one")
    if n is not None:
        check_whole("n", n, 1, 2**53)
    task = Task(domain, *promised(**promise), constraints_within(constraints, domain), n, noise=noise)
    check_choice("method", method, ["auto", *METHODS])
    name, reason = best_method(task) if method == "auto" else (method, task.reason)
    return METHODS[name], replace(task, reason=reason)


METHODS: dict[str, Learner] = {"pairs": PAIRS, "greedy": GREEDY}

#: Paid choices pay where the noise of all pairs would move more than this share of the rows.
DROWNED = 0.03
#: And where that of d - 1 tables moves less than this share; or less than the other, if a choice errs by few rows.
CLEAR, BEARABLE = 0.1, 0.6
#: By how large a share of the rows a choice may err, then.
SHARP = 0.005


def best_method(task: Task) -> tuple[str, str]:
    """The name of the method for a task, and why that one: by n, epsilon, delta, the unit and the domain alone.

    benchmarks/paid_choices.py has the simulated worlds that the bounds were chosen on, docs/paid-choices.md the
    figures.
    """
    once = "all pairs measured once"
    if task.budget.group is not None:
        return "pairs", f"{once}: the other methods take no group of rows"
    if task.delta:
        return "pairs", f"{once}: with a delta their noise grows with the root of their number only"
    if task.n is None:
        known = "; it is public, and n=len(rows) lets methods be compared" if task.budget.unit.n_is_public else ""
        return "pairs", f"{once}: nothing says how many rows there are, so no choice is paid{known}"
    pairs, tables, choice = noise_shares(task)
    if pairs < DROWNED:
        return "pairs", f"{once}: their noise moves {pairs:.2g} of the rows, so no choice need be paid"
    if tables < CLEAR or (tables < BEARABLE and choice < SHARP):
        return "greedy", (
            f"choices are paid: the noise of all pairs would move {pairs:.2g} of the rows, that of a network's tables "
            f"{tables:.2g}"
        )
    alone = f"that of a network's tables would move {tables:.2g} of the rows"
    return "pairs", f"all pairs, or those above their noise: {alone}"


def noise_shares(task: Task) -> tuple[float, float, float]:
    """The noise as shares of n: with all pairs measured, with d - 1 tables, and with one choice.

    The first two are the expected total variation that noise alone gives the mean pair of the domain, in pure epsilon.
    """
    sizes, n = task.domain.sizes, float(task.n or 1)
    both = [sizes[one] * sizes[other] for one, other in combinations(task.domain.names, 2)]
    half = sum(both) / len(both) / (2 * n)
    tables, choice = expected_noise(task)
    return half * _moved(task.budget.unit) * len(both) / float(task.epsilon), half * tables, choice / n
