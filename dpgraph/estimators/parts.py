"""Settings and methods of learning a network, and charges before their parts: mechanisms for shares, one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.composition import LESS, mu_squared_within
from dpgraph.privacy.gdp import epsilon_of_mu, mu_within, root, rounded
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, PrivacyCost, Release, combined_event, joint_release
from dpgraph.privacy.scope import RowsRecord
from dpgraph.structure.domain import Domain

#: The least epsilon that Gaussian noise claims.
LEAST = Fraction(1, 10**9)


def shared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The quantity to share: epsilon, or a square of mu where there is a delta."""
    return LESS * mu_squared_within(PrivacyCost(epsilon, delta)) if delta else epsilon


def adding(share: Fraction, delta: Fraction) -> GaussianMechanism | LaplaceMechanism:
    """A mechanism that adds noise and spends a share."""
    if not delta:
        return LaplaceMechanism(share)
    claimed = max(LEAST, rounded(epsilon_of_mu(share, delta), up=True))
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
