"""The public settings of learning a network, and the interface of its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event
from dpgraph.structure.domain import Domain


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
