"""The one door: exact statistics become a public value here and nowhere else."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from dpgraph import memory
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.errors import LargeEpsilonWarning, PriorWarning, ReleaseError
from dpgraph.privacy.measurements import description_of
from dpgraph.privacy.noise import Noise, SecureNoise
from dpgraph.privacy.records import Event, PrivacyUnit, Release
from dpgraph.privacy.scope import RowCap, RowGroup, RowsRecord
from dpgraph.waiting import waiting

#: Bytes that a release takes for each number it measures, by whether noise sums to zero, and for each table, as
#: measured: whole numbers on the way to the noise and back.
BYTES_PER_NUMBER, BYTES_PER_TABLE = {True: 140, False: 40}, 2500
#: Releases of a larger epsilon come with a warning.
WEAK = 20
S_contra = TypeVar("S_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Mechanism(Protocol[S_contra, T_co]):
    """A frozen value that knows its event from public structure alone, and how to draw.

    ``event`` raises ReleaseError for parameters that do not fit, before any data; ``randomise`` is called by
    ``release`` only, after the charge, and takes all its randomness from the noise source it is handed.
    """

    def event(self, description: Any, unit: PrivacyUnit) -> Event:
        """The event of a release of statistics of this description, such as a network.

        Raises:
            ReleaseError: If the mechanism does not take such a description, or a parameter does not fit it.
        """
        ...

    def randomise(self, statistics: S_contra, unit: PrivacyUnit, noise: Noise) -> T_co:
        """Draws the public value from the exact statistics."""
        ...


def release(
    statistics: Any, mechanism: Mechanism[Any, T], *, budget: Budget, noise: Noise | None = None, progress: bool = False
) -> Release[T]:
    """Charges the budget, then draws: the only way from exact statistics to a public value.

    The charge stands whatever happens afterwards, an exception or an interrupt included: an attacker who can make the
    draw fail must not be able to try again for free.

    Args:
        statistics: Sensitive statistics, such as ``count(rows, network)`` or ``sufficient_statistics(x, family)``.
        mechanism: A mechanism value, such as ``LaplaceMechanism(epsilon=1)``.
        budget: The budget that pays; its unit is the one that is protected.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the release as not private.
        progress: A bar on a terminal, of tables or cells; never of rows.

    Returns:
        A Release with the value, the event and the unit.

    Raises:
        ReleaseError: If the statistics or the mechanism do not fit, or would take more memory than ``DPGRAPH_MEMORY``
            or half of the free memory; nothing is charged.
        BudgetExceededError: If the budget is too small; nothing is charged.
        LedgerError: If the budget's ledger cannot be written; nothing is drawn.

    Warns:
        LargeEpsilonWarning: If the release's epsilon is above 20; before the charge, from public values alone.
        PriorWarning: If there are no rows and their number is public; before the charge. Under add-remove an empty
            table is as private as any other, so nothing tells of it.
    """
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "randomise", None)):
        raise ReleaseError(f"release takes a mechanism such as LaplaceMechanism; got {type(mechanism).__name__}")
    if getattr(description_of(statistics), "rules", None) and not getattr(mechanism, "keeps_rules", False):
        raise ReleaseError(
            f"{type(mechanism).__name__} does not keep the network's rules: use LaplaceMechanism or GaussianMechanism, "
            "or Network.of without rules="
        )
    source = checked_source(statistics, budget, noise)
    with waiting("releasing", progress):
        return _released(statistics, mechanism, budget, source)


@np.errstate(all="ignore")  # of rows, numpy's warnings and errors would tell
def _released(statistics: Any, mechanism: Mechanism[Any, T], budget: Budget, source: Noise) -> Release[T]:
    if prepare := getattr(mechanism, "prepared", None):  # an optional method: it changes public parts alone
        statistics = prepare(statistics, budget.unit)
    event = mechanism.event(description_of(statistics), budget.unit)
    check_memory(event, working_bytes(mechanism, description_of(statistics)))
    if source.private:
        _warn_if_pointless(statistics, event, budget.unit)
    choice: str | None = getattr(getattr(statistics, "cap", None), "draw", None)  # of rows, shared by groups of a split
    made = Made(description_of(statistics), mechanism, choice=choice)
    receipt = budget.charge(event, made)
    value = mechanism.randomise(statistics, budget.unit, source)
    event = copy.copy(event)  # an object of its own, by which ``records.joined`` knows the release
    group: RowGroup | None = getattr(statistics, "group", None)
    fixed = () if group is None else tuple(one.fixed for one in group.conditions)
    rows = RowsRecord(budget.identity, fixed, choice or "", () if receipt is None else (receipt.digest,))
    return recorded(Release(value, event, budget.unit, source.private, rows))


def _warn_if_pointless(statistics: Any, event: Event, unit: PrivacyUnit) -> None:
    """Warns of a release that protects almost nobody, or of no rows where their number is public, before the charge."""
    if event.epsilon > WEAK:
        warnings.warn(
            f"epsilon {float(event.epsilon):g} protects almost nobody: one person may change a probability by a factor "
            f"of exp({float(event.epsilon):g}). Values from .1 to 10 are usual",
            LargeEpsilonWarning,
            stacklevel=4,
        )
    if unit.n_is_public and getattr(statistics, "sensitive_rows", None) == 0:
        warnings.warn("there are no rows: the release is noise alone, at its full cost", PriorWarning, stacklevel=4)


def recorded(made: Release[T]) -> Release[T]:
    """A release whose value, or each of whose values, holds the same record, where it has a place for one."""

    def told(value: Any) -> Any:
        place = getattr(value, "__dataclass_fields__", {}).get("provenance")
        return replace(value, provenance=made.provenance) if place is not None and place.init else value

    value: Any = made.value
    return replace(made, value=tuple(map(told, value)) if type(value) is tuple else told(value))


def checked_source(statistics: Any, budget: Budget, noise: Noise | None) -> Noise:
    """The source of noise, once it, the rows and the budget are found to fit; asked before anything is charged."""
    if not isinstance(budget, Budget):
        raise ReleaseError(f"release takes a Budget; got {type(budget).__name__}")
    _check_group(getattr(statistics, "group", None), budget)
    _check_cap(getattr(statistics, "cap", None), budget.unit)
    return checked_noise(noise)


def checked_noise(noise: Any) -> Any:
    """A source of noise, the secure one where none is given."""
    source = SecureNoise() if noise is None else noise
    if isinstance(source, type) or not isinstance(getattr(source, "private", None), bool):
        raise ReleaseError(f"noise must be a source such as SeededNoise; got {type(source).__name__}")
    return source


def check_memory(event: Event, working: int = 0) -> None:
    """Refuses an event whose release would take more memory than it may; asked before anything is charged."""
    memory.check(
        release_bytes(event) + working,
        "this release",
        "measure fewer or smaller tables, of fewer parents or levels",
        ReleaseError,
    )


def release_bytes(event: Event) -> int:
    """About how much memory a release takes, from its event alone."""
    measured = event.measurements
    numbers = sum(one.cells * BYTES_PER_NUMBER[one.law.sums_to_zero] for one in measured)
    return numbers + len(measured) * BYTES_PER_TABLE


def working_bytes(mechanism: Any, description: Any) -> int:
    """The memory of a mechanism besides its measurements: an optional method, ``working_bytes(description)``."""
    return getattr(mechanism, "working_bytes", lambda _: 0)(description)


def _check_group(group: RowGroup | None, budget: Budget) -> None:
    """A group's budget is for rows of that group, or a narrower one; a group's number of rows is never public."""
    scope = budget.group
    if scope is not None and (group is None or not group.within(scope)):
        counted = "all rows" if group is None else f"the rows with {group}"
        raise ReleaseError(
            f"this budget is for the rows with {scope}, declared as in Budget.parallel, and the statistics are "
            f"of {counted}; count with where={scope.where!r}"
        )
    if group is not None and budget.unit.n_is_public:
        raise ReleaseError(
            f"statistics of the rows with {group} need an add-remove budget, such as one of Budget.parallel: "
            "a replaced row may leave the group, so its number of rows is not public"
        )


def _check_cap(cap: RowCap | None, unit: PrivacyUnit) -> None:
    """Where a cap says how many rows one person may have among those counted, the unit must cover as many."""
    if cap is None:
        return
    if cap.rows_per_person > unit.rows_per_person:
        raise ReleaseError(
            f"{cap.rows_per_person} rows of each {cap.person!r} were counted, but the budget protects {unit}; "
            f"give it rows_per_person={cap.rows_per_person}"
        )
    if cap.rows_per_person > 1 and unit.n_is_public:
        raise ReleaseError(
            'persons have different numbers of rows, so the number of rows is private: use neighbours="add-remove"'
        )
    if cap.drops and unit.n_is_public:
        raise ReleaseError(
            "in a strict domain a row that names no person is dropped, so the number of rows is private: use "
            'neighbours="add-remove"'
        )
