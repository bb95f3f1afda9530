"""The one door: exact statistics become a public value here and nowhere else."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.noise import Noise, SecureNoise
from dpgraph.privacy.records import Event, PrivacyUnit, Release, ReleaseError, RowGroup

S_contra = TypeVar("S_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Mechanism(Protocol[S_contra, T_co]):
    """A frozen value that knows its event from public structure alone, and how to draw.

    ``event`` raises ReleaseError for parameters that do not fit, before any data; ``randomise`` is called by
    ``release`` only, after the charge, and takes all its randomness from the noise source it is handed.
    """

    def event(self, network: Any, unit: PrivacyUnit) -> Event:
        """What a release would do on this network, or with moments of this description."""
        ...

    def randomise(self, statistics: S_contra, unit: PrivacyUnit, noise: Noise) -> T_co:
        """Draws the public value from the exact statistics."""
        ...


def release(statistics: Any, mechanism: Mechanism[Any, T], *, budget: Budget, noise: Noise | None = None) -> Release[T]:
    """Charges the budget, then draws: the only way from exact statistics to a public value.

    The charge stands whatever happens afterwards, an exception or an interrupt included: an attacker who can make
    the draw fail must not be able to try again for free.

    Args:
        statistics: Sensitive statistics, such as ``count(rows, network)`` or ``sufficient_statistics(x, family)``.
        mechanism: A mechanism value, such as ``LaplaceMechanism(epsilon=1)``.
        budget: What is charged; its unit is the one that is protected.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the release as not private.

    Returns:
        A Release with the value, the event and the unit.

    Raises:
        ReleaseError: If the statistics or the mechanism do not fit; nothing is charged.
        BudgetExceededError: If the budget is too small; nothing is charged.
    """
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "randomise", None)):
        raise ReleaseError(f"release takes a mechanism such as LaplaceMechanism; got {type(mechanism).__name__}")
    public = _public_part(statistics, mechanism)
    if not isinstance(budget, Budget):
        raise ReleaseError(f"release takes a Budget; got {type(budget).__name__}")
    _check_group(getattr(statistics, "group", None), budget)
    source = SecureNoise() if noise is None else noise
    if isinstance(source, type) or not isinstance(getattr(source, "private", None), bool):
        raise ReleaseError(f"noise must be a source such as SeededNoise; got {type(source).__name__}")
    event = mechanism.event(public, budget.unit)
    budget.charge(event)
    value = mechanism.randomise(statistics, budget.unit, source)
    return Release(value, event, budget.unit, private=source.private)


def _public_part(statistics: Any, mechanism: Mechanism[Any, Any]) -> Any:
    """What a mechanism may know before the charge: the network of counts, or the description of moments."""
    if callable(getattr(statistics, "sensitive_margin", None)) and getattr(statistics, "network", None) is not None:
        return statistics.network
    description = getattr(statistics, "description", None)
    if description is None or getattr(statistics, "sensitive_sums", None) is None:
        raise ReleaseError(f"release takes statistics such as count(rows, network); got {type(statistics).__name__}")
    if not getattr(mechanism, "takes_moments", False):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes counts of a network; moments need LaplaceMechanism or GaussianMechanism")
    return description


def _check_group(group: RowGroup | None, budget: Budget) -> None:
    """A group's budget is for that group's rows, and a group's number of rows is never public."""
    if budget.group is not None and group != budget.group:
        counted = "all rows" if group is None else f"the rows with {group}"
        raise ReleaseError(
            f"this budget is for the rows with {budget.group}, declared as in Budget.parallel, and the statistics are "
            f"of {counted}; count with where={{{budget.group.by!r}: {budget.group.level!r}}}"
        )
    if group is not None and budget.unit.n_is_public:
        raise ReleaseError(
            f"statistics of the rows with {group} need an add-remove budget, such as one of Budget.parallel: "
            "a replaced row may leave the group, so its number of rows is not public"
        )
