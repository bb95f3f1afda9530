"""Events to cost, and the budget, the one mutable object in the package."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from fractions import Fraction

from dpgraph.privacy.records import (
    BudgetExceededError,
    Event,
    Number,
    PrivacyCost,
    PrivacyUnit,
    Release,
    ReleaseError,
    decimal,
    exact,
)


def cost(spent: Release | Event | Iterable[Release | Event]) -> PrivacyCost:
    """Prices releases or events by basic composition: epsilons and deltas add.

    >>> cost([Event("a", exact("0.1")), Event("b", exact("0.2"))]).epsilon
    Fraction(3, 10)
    """
    if isinstance(spent, Release):
        spent = spent.event
    if isinstance(spent, Event):
        return PrivacyCost(spent.epsilon, spent.delta)
    return sum((cost(one) for one in spent), PrivacyCost(Fraction(0)))


class Budget:
    """A limit on what may be spent on one data set, kept in exact fractions.

    The budget lives in one process. Copies, deep copies and scikit-learn clones are the same budget; pickling it, or
    charging it from a forked child, is refused, because a second copy could spend the same epsilon twice.

    Args:
        epsilon: The whole epsilon, exact: a decimal string or a number; a float means the decimal it prints as.
        delta: The whole delta, 0 for pure differential privacy.
        unit: Whom the budget protects; every release made with it is calibrated to this unit.

    Raises:
        ReleaseError: If epsilon or delta is not a finite number in range.

    >>> budget = Budget("0.3")
    >>> for _ in range(3):
    ...     budget.charge(Event("count", exact("0.1")))
    >>> budget.remaining
    Fraction(0, 1)
    """

    def __init__(self, epsilon: Number, delta: Number = 0, *, unit: PrivacyUnit | None = None) -> None:
        self._limit = PrivacyCost(exact(epsilon), exact(delta, "delta", zero=True))
        if self._limit.delta >= 1:
            raise ReleaseError(f"delta must be below 1; got {delta!r}")
        if unit is not None and not isinstance(unit, PrivacyUnit):
            raise ReleaseError(f"unit must be a PrivacyUnit; got {type(unit).__name__}")
        self._unit = unit or PrivacyUnit()
        self._events: tuple[Event, ...] = ()
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def epsilon(self) -> Fraction:
        """The whole epsilon."""
        return self._limit.epsilon

    @property
    def delta(self) -> Fraction:
        """The whole delta."""
        return self._limit.delta

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the budget protects."""
        return self._unit

    @property
    def events(self) -> tuple[Event, ...]:
        """What was charged, in order."""
        return self._events

    @property
    def spent(self) -> Fraction:
        """The epsilon charged so far."""
        return self.cost().epsilon

    @property
    def remaining(self) -> Fraction:
        """The epsilon that is left."""
        return self.epsilon - self.spent

    def cost(self) -> PrivacyCost:
        """The price of everything charged so far."""
        return cost(self._events)

    def charge(self, event: Event) -> None:
        """Records an event, or refuses it whole. There is no way to take a charge back.

        Raises:
            BudgetExceededError: If the event does not fit what is left; nothing is charged.
            ReleaseError: If this is a forked copy of the process that made the budget.
        """
        if os.getpid() != self._process:
            raise ReleaseError("this budget belongs to another process; make the release in the process that owns it")
        if not isinstance(event, Event):
            raise ReleaseError(f"a budget is charged with an Event; got {type(event).__name__}")
        if exact(event.epsilon) != event.epsilon or exact(event.delta, "delta", zero=True) != event.delta:
            raise ReleaseError(f"{event.mechanism} must price itself in exact fractions")
        with self._lock:
            spent, price = cost(self._events), cost(event)
            if spent.epsilon + price.epsilon > self.epsilon or spent.delta + price.delta > self.delta:
                left = PrivacyCost(self.epsilon - spent.epsilon, self.delta - spent.delta)
                raise BudgetExceededError(
                    f"{event.mechanism} costs {price} but the budget has {left} left "
                    f"of {decimal(self.epsilon)}; nothing was charged"
                )
            self._events += (event,)

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: object) -> Budget:
        return self

    def __sklearn_clone__(self) -> Budget:
        return self

    def __reduce__(self) -> str:
        raise ReleaseError("a Budget is not pickled: a copy in another process could spend the same epsilon twice")

    def __repr__(self) -> str:
        return (
            f"Budget(epsilon={decimal(self.epsilon)}, delta={decimal(self.delta)}, unit=({self.unit}), "
            f"spent={decimal(self.spent)}, remaining={decimal(self.remaining)})"
        )
