"""A network from rows: the measurement is charged once, and everything after it is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from dpgraph.estimators.graphs.measured_pairs import PAIRS
from dpgraph.estimators.graphs.paid import GREEDY, expected_noise
from dpgraph.estimators.parts import Learner, Task
from dpgraph.inference.graphs.constraints import Constraints, constraints_within
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.privacy.accounting import Budget, budget_of
from dpgraph.privacy.checks import check_choice, check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, combined_event, exact, exact_delta
from dpgraph.statistics.rows.persons import cap_rows
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable
from dpgraph.waiting import waiting


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
    epsilon: Number,
    delta: Number = 0,
    budget: Budget | None = None,
    unit: PrivacyUnit | None = None,
    n: int | None = None,
    noise: Noise | None = None,
    constraints: Constraints | None = None,
    method: str = "auto",
) -> tuple[Learner, Task]:
    """The method and the task of the settings of ``learn_network``, all of them public."""
    domain = Domain.of(domain)
    if len(domain.names) < 2:
        raise NetworkError("a graph needs two variables at least; the domain declares one")
    if n is not None:
        check_whole("n", n, 1, 2**53)
    spend, slack = exact(epsilon), exact_delta(delta)
    budget = budget_of(budget, unit, spend, slack)
    task = Task(domain, spend, slack, budget, constraints_within(constraints, domain), n, noise=noise)
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
    moved = task.budget.unit.rows_per_person * (2 if task.budget.unit.n_is_public else 1)
    tables, choice = expected_noise(task)
    return half * moved * len(both) / float(task.epsilon), half * tables, choice / n
