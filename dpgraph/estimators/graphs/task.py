"""What every method of learning a network is told, all of it public, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event
from dpgraph.structure.domain import Domain


@dataclass(frozen=True, eq=False)
class Task:
    """A network to be learned.

    Attributes:
        domain: The declared variables.
        epsilon: What may be spent.
        delta: Likewise; 0 for pure differential privacy.
        budget: What is charged; its unit is the one that is protected.
        constraints: The graphs that may be chosen.
        stages: How often rows are asked.
        n: About how many rows there are, as far as the public knows, or None.
        reason: Why this method, in words.
        seed: For what follows the release.
        noise: None, but in tests and studies.
    """

    domain: Domain
    epsilon: Fraction
    delta: Fraction
    budget: Budget
    constraints: Constraints
    stages: int = 1
    n: int | None = None
    reason: str = "as asked"
    seed: int | None = None
    noise: Noise | None = None


@dataclass(frozen=True)
class Learner:
    """One way of learning a network.

    Attributes:
        plan: The events that a task would charge, in order, without a look at any row; refuses what it cannot do.
        learn: Counts the rows, releases, and chooses: ``learn(task, rows)``.
    """

    plan: Callable[[Task], tuple[Event, ...]]
    learn: Callable[[Task, Any], LearnedNetwork]
