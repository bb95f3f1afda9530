"""Filters: rules that compare running totals with a budget's limit before each release, whatever led to it.

* ``"basic"``: epsilons and deltas add.
* ``"zcdp"``: the limit (epsilon, delta) becomes a rho once, and rhos add (Whitehouse, Ramdas, Rogers and Wu 2023,
  Theorem 1; proofs.md P89).
* ``"pld"``: lists of events that were fixed beforehand are priced as one by privacy loss distributions; between lists
  epsilons and deltas add (proofs.md P92).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

from dpgraph.lazy import provided
from dpgraph.privacy.composition import check_paid_together, parallel_share, parallel_steps, pure_rho, rho_of
from dpgraph.privacy.noise import epsilon_of_rho, rho_of_epsilon
from dpgraph.privacy.records import (
    Event,
    PrivacyCost,
    PrivacyUnit,
    ReleaseError,
    combined_label,
    decimal,
    exact,
    rounded,
)

Accounting = Literal["basic", "zcdp", "pld"]

#: How much less than the largest possible a group's epsilon is, so that its rho is within its share.
LESS = 1 - Fraction(1, 10**9)


@dataclass(frozen=True)
class Spent:
    """The totals of all charges so far, in exact sums; rho is 0 but under ``"zcdp"``."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)


@dataclass(frozen=True)
class Plan(Event):
    """The event of releases that were fixed beforehand and are priced together; ``plan_of`` makes it.

    ``planned`` are the events of the releases, in order. The claim is the price of all of them at delta.
    """

    planned: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Filter:
    """A rule that says before each release whether it fits, whatever earlier releases led to it.

    ``rho`` is under ``"zcdp"`` the largest, to ten digits, that OpenDP converts to no more than the limit; else None.
    """

    name: str
    limit: PrivacyCost
    rho: Fraction | None = field(init=False)
    start: ClassVar[Spent] = Spent()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in get_args(Accounting):
            raise ReleaseError(
                f"accounting must be one of {', '.join(map(repr, get_args(Accounting)))}; got {self.name!r}"
            )
        if self.name != "basic" and self.limit.delta == 0:
            raise ReleaseError(f"accounting={self.name!r} needs a delta above 0, such as 1e-6")
        object.__setattr__(self, "rho", rho_within(self.limit) if self.name == "zcdp" else None)

    def after(self, spent: Spent, event: Event) -> Spent:
        """The totals with one more event; an error if the filter has no price for it."""
        rho = Fraction(0)
        if self.name == "zcdp":
            known = rho_of(event)
            if known is None:
                raise ReleaseError(
                    f'{event.mechanism} claims a delta and no rho, so accounting="zcdp" has no price for it; use a '
                    'mechanism with a rho, such as GaussianMechanism, or a budget with accounting="basic"'
                )
            rho = known
        if self.name == "pld":
            _check_planned(event)
        return Spent(spent.epsilon + event.epsilon, spent.delta + event.delta, spent.rho + rho)

    def fits(self, spent: Spent) -> bool:
        """True if the totals are within the limit."""
        if self.rho is not None:
            return spent.rho <= self.rho
        return spent.epsilon <= self.limit.epsilon and spent.delta <= self.limit.delta

    def left(self, spent: Spent) -> str:
        """The remaining epsilon or rho in words, for messages."""
        if self.rho is None:
            return f"{self.remaining(spent)} left of {decimal(self.limit.epsilon)}"
        return (
            f"rho {float(self.rho - spent.rho):.6g} left of {float(self.rho):.6g}, enough for a pure release of "
            f"epsilon {float(self.remaining(spent).epsilon):.6g}"
        )

    def price(self, spent: Spent) -> PrivacyCost:
        """The totals as an epsilon and a delta; under ``"zcdp"`` as the rho converts at the limit's delta."""
        if self.rho is None:
            return PrivacyCost(spent.epsilon, spent.delta)
        if not spent.rho:
            return PrivacyCost(Fraction(0))
        return PrivacyCost(rounded(epsilon_of_rho(spent.rho, self.limit.delta), up=True), self.limit.delta)

    def remaining(self, spent: Spent) -> PrivacyCost:
        """The largest epsilon of a pure release that still fits, and the largest delta that one may claim.

        Under ``"zcdp"`` that is the limit's delta, since rhos add and deltas do not.
        """
        if self.rho is None:
            return PrivacyCost(self.limit.epsilon - spent.epsilon, self.limit.delta - spent.delta)
        return PrivacyCost(_pure_within(self.rho - spent.rho), self.limit.delta)


def _check_planned(event: Event) -> None:
    if not isinstance(event, Plan):
        raise ReleaseError(
            f"{event.mechanism} is not planned, or was drawn already. Numerical composition of a fixed list does "
            "not cover releases that are chosen later: plan the list first with budget.plan([...]), or use "
            'accounting="zcdp", which covers adaptive choice'
        )
    if event.epsilon < _listed(event.planned, event.delta).epsilon:
        raise ReleaseError(f"{event.mechanism} claims epsilon {float(event.epsilon):.9g}, less than its list costs")


def rho_within(limit: PrivacyCost) -> Fraction:
    """The largest rho, to ten digits, that is (epsilon, delta)-DP by OpenDP's conversion; never more."""
    rho = rho_of_epsilon(limit.epsilon, limit.delta)
    while epsilon_of_rho(rho, limit.delta) > limit.epsilon:
        rho = rounded(rho * LESS, up=False)
    return rho


def plan_of(items: Iterable[Any], unit: PrivacyUnit, delta: Fraction) -> Plan:
    """The plan of a list of events, or of pairs (mechanism, description), priced together at a delta."""
    if isinstance(items, str | bytes | Event) or not isinstance(items, Iterable):
        raise ReleaseError(f"a plan is a list of events or of (mechanism, description); got {type(items).__name__}")
    events = tuple(_planned_event(item, unit) for item in items)
    if not events:
        raise ReleaseError("a plan has at least one event")
    if delta <= 0:
        raise ReleaseError("a plan needs a delta above 0: earlier plans took all of the budget's, or delta=0 was given")
    price = _listed(events, delta)
    return Plan(f"plan of {combined_label(events)}", price.epsilon, price.delta, planned=events)


def split(
    accounting: str, whole: PrivacyCost, groups: int, unit: PrivacyUnit, label: str
) -> tuple[Event, Accounting, PrivacyCost]:
    """The one charge for releases on disjoint groups of rows; how each group accounts, and its limit.

    Where rhos add and delta is above 0, the groups share the rho of (epsilon, delta) (proofs.md P91). Otherwise they
    share epsilon and delta (``composition.parallel_share``).
    """
    if accounting != "zcdp" or whole.delta == 0:
        return Event(label, whole.epsilon, whole.delta), "basic", parallel_share(whole, groups, unit)
    rho = rho_within(whole)
    share = rho / parallel_steps(groups, unit)
    epsilon = rounded(epsilon_of_rho(share, whole.delta), up=False)
    while epsilon > 0 and rho_within(PrivacyCost(epsilon, whole.delta)) > share:
        epsilon = rounded(epsilon * LESS, up=False)
    if epsilon <= 0:
        raise ReleaseError(f"a group's share, rho {float(share):.3g}, is within delta alone; use a larger epsilon")
    return Event(label, whole.epsilon, whole.delta, rho=rho), "zcdp", PrivacyCost(epsilon, whole.delta)


def too_dear(rule: Filter, spent: Spent, after: Spent, event: Event) -> str:
    """The message of a refused charge."""
    rho = after.rho - spent.rho
    price = f"rho {float(rho):.6g}" if rho else PrivacyCost(event.epsilon, event.delta)
    words = f"{event.mechanism} costs {price} but the budget has {rule.left(spent)}; nothing was charged"
    if event.delta > 0 and rule.remaining(rule.start).delta == 0:
        words += f". A budget with a delta is Budget(epsilon, {float(event.delta):g})"
    return words


def _planned_event(item: Any, unit: PrivacyUnit) -> Event:
    """The event of one item of a plan, with exact claims."""
    pair = isinstance(item, tuple | list) and len(item) == 2 and not isinstance(item[0], type)
    if pair and callable(getattr(item[0], "event", None)):
        item = item[0].event(item[1], unit)
    if not isinstance(item, Event) or isinstance(item, Plan):
        raise ReleaseError(f"a plan is of events or of pairs (mechanism, description); got {type(item).__name__}")
    return checked(item)


def checked(event: Any) -> Event:
    """An event whose claims are exact fractions."""
    if not isinstance(event, Event):
        raise ReleaseError(f"a budget is charged with an Event; got {type(event).__name__}")
    claims = [event.epsilon, event.delta, Fraction(0) if event.rho is None else event.rho]
    known = [exact(event.epsilon), exact(event.delta, "delta", zero=True), exact(claims[2], "rho", zero=True)]
    if claims != known or not all(isinstance(claim, int | Fraction) for claim in claims):
        raise ReleaseError(f"{event.mechanism} must price itself in exact fractions")
    check_paid_together(event)
    return event


@lru_cache(maxsize=64)
def _listed(events: Sequence[Event], delta: Fraction) -> PrivacyCost:
    return provided("numerical")([part for event in events for part in event.priced], delta)


def _pure_within(rho: Fraction) -> Fraction:
    """The largest epsilon, to twelve digits, of a pure release that costs at most rho."""
    if rho <= 0:
        return Fraction(0)
    low = high = Fraction(1)
    while pure_rho(low) > rho:
        low, high = low / 2, low
    while pure_rho(high) <= rho:
        low, high = high, 2 * high
    while high - low > low / 10**13:
        middle = rounded((low + high) / 2, up=False)
        if middle <= low:
            break
        low, high = (middle, high) if pure_rho(middle) <= rho else (low, middle)
    return low
