"""The method ``"pairs"``: all pairs are measured once, and the graph is chosen from what was measured, for free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.estimators.graphs.task import Learner, Task
from dpgraph.inference.graphs.choosing import choose_within
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.records import Event
from dpgraph.privacy.release import release
from dpgraph.statistics.counts import count
from dpgraph.structure.margins import Margins, all_pairs


def _measured(task: Task) -> tuple[Margins, GaussianMechanism | LaplaceMechanism]:
    """What is measured, and by which mechanism: Gaussian noise wherever there is a delta."""
    mechanism = GaussianMechanism(task.epsilon, task.delta) if task.delta else LaplaceMechanism(task.epsilon)
    return all_pairs(task.domain), mechanism


def _plan(task: Task) -> tuple[Event, ...]:
    margins, mechanism = _measured(task)
    return (mechanism.event(margins, task.budget.unit),)


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    margins, mechanism = _measured(task)
    noisy = release(count(rows, margins), mechanism, budget=task.budget, noise=task.noise)
    return replace(choose_within(noisy, task.constraints, seed=task.seed), reason=task.reason)


PAIRS = Learner(_plan, _learn)
