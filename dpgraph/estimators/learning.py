"""A network from rows: what is measured is charged once, and everything after it is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpgraph.estimators.graphs.methods import METHODS, best_method
from dpgraph.estimators.graphs.task import Task
from dpgraph.inference.graphs.constraints import Edge, read_constraints
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, ReleaseError, exact, exact_delta
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable


def learn_network(
    rows: Any,
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    epsilon: Number,
    delta: Number = 0,
    budget: Budget | None = None,
    unit: PrivacyUnit | None = None,
    method: str = "auto",
    max_parents: int | None = None,
    max_cells: int | None = None,
    required: Iterable[Edge] = (),
    forbidden: Iterable[Edge] = (),
    order: Sequence[Any] | None = None,
    target: str | None = None,
    stages: int = 1,
    n: int | None = None,
    seed: int | None = None,
    noise: Noise | None = None,
) -> LearnedNetwork:
    """Learns a network, its graph and its probabilities, from private rows: one charge."""
    task = learning_task(
        domain,
        epsilon=epsilon,
        delta=delta,
        budget=budget,
        unit=unit,
        max_parents=max_parents,
        max_cells=max_cells,
        required=required,
        forbidden=forbidden,
        order=order,
        target=target,
        stages=stages,
        n=n,
        seed=seed,
        noise=noise,
    )
    name, task = chosen_method(task, method)
    METHODS[name].plan(task)
    return METHODS[name].learn(task, rows)


def learning_task(
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    epsilon: Number,
    delta: Number,
    budget: Budget | None,
    unit: PrivacyUnit | None,
    max_parents: int | None,
    max_cells: int | None,
    required: Iterable[Edge],
    forbidden: Iterable[Edge],
    order: Sequence[Any] | None,
    target: str | None,
    stages: int,
    n: int | None,
    seed: int | None,
    noise: Noise | None,
) -> Task:
    """Reads the settings of ``learn_network``, all of them public."""
    domain = Domain.of(domain)
    if len(domain.names) < 2:
        raise NetworkError("a graph needs two variables at least; the domain declares one")
    check_whole("stages", stages, 1, 2)
    if n is not None:
        check_whole("n", n, 1)
    spend, slack = exact(epsilon), exact_delta(delta)
    if budget is None:
        budget = Budget(spend, slack, unit=unit)
    elif unit is not None and unit != budget.unit:
        raise ReleaseError(f"unit ({unit}) differs from the budget's ({budget.unit}); leave unit out")
    constraints = read_constraints(
        domain,
        max_parents=max_parents,
        max_cells=max_cells,
        required=required,
        forbidden=forbidden,
        order=order,
        target=target,
    )
    return Task(domain, spend, slack, budget, constraints, stages, n, seed=seed, noise=noise)


def chosen_method(task: Task, method: str) -> tuple[str, Task]:
    """The name of the method, and the task with the reason for it.

    Raises:
        ReleaseError: If there is none of that name.
    """
    if method == "auto":
        name, reason = best_method(task)
        return name, replace(task, reason=reason)
    if method not in METHODS:
        raise ReleaseError(f"method must be one of 'auto', {', '.join(map(repr, METHODS))}; got {method!r:.60}")
    return method, task
