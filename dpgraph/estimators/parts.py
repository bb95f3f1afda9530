"""A charge that is made before its parts: mechanisms for shares of it, and one record of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgraph.estimators.graphs.task import in_turn
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.composition import LESS, mu_squared_within
from dpgraph.privacy.gdp import epsilon_of_mu, root, rounded
from dpgraph.privacy.records import Event, PrivacyCost, Release, combined_event, joint_release
from dpgraph.privacy.scope import RowsRecord

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
