"""One charge for a method that makes several releases, and the budget of that size which pays for them.

The whole is charged once, before the first draw, and its parts are paid from a budget of exactly that size, of its own:
a filter, so that their sum is within the charge whatever earlier parts decided (proofs.md P115).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from dpgraph import memory
from dpgraph.inference.network.plug_in import BYTES_PER_CELL, BYTES_PER_FAMILY
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.reproduction import UNSPENT
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.events import PAID_IN_PARTS
from dpgraph.privacy.filters import LESS as LESS
from dpgraph.privacy.filters import Accounting, Filter, rho_within
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event, PrivacyCost, Release, ReleaseError, combined_event, joint_release, rounded
from dpgraph.privacy.release import BYTES_PER_NUMBER, BYTES_PER_TABLE, check_memory, checked_source
from dpgraph.privacy.rows import RowsRecord
from dpgraph.statistics.table_counts import TableCounts

if TYPE_CHECKING:
    from dpgraph.estimators.graphs.task import Task

#: What Gaussian noise claims where its rho is within delta alone.
LEAST = Fraction(1, 10**9)


def accounting_of(task: Task) -> Accounting:
    """How the parts add: in rho where there is a delta."""
    return "zcdp" if task.delta else "basic"


def one_charge(task: Task) -> Event:
    """The event of the whole."""
    rho = rho_within(PrivacyCost(task.epsilon, task.delta)) if task.delta else None
    return Event(PAID_IN_PARTS, task.epsilon, task.delta, rho=rho)


def check_fits(task: Task, parts: Sequence[Event], what: str) -> None:
    """Refuses planned parts that are more than the whole, as by rounding where a delta is absurdly small.

    Raises:
        ReleaseError: If they are; nothing is charged.
    """
    whole = PrivacyCost(task.epsilon, task.delta)
    rule = Filter(accounting_of(task), whole)
    if not rule.fits(reduce(rule.after, parts, rule.start)):
        raise ReleaseError(f"the parts of {what} do not fit {whole}")


def charged(task: Task, statistics: TableCounts, parts: Sequence[Event], needed: int = 0) -> RowsRecord:
    """Charges the whole, once all that the one door would ask of its parts is found to fit.

    Args:
        task: What is to be learned.
        statistics: The tables that parts are chosen from.
        parts: The parts as far as they are planned, before any data.
        needed: The most bytes that the rest may take, whatever is chosen.

    Returns:
        Which rows its parts are of, and the receipt, for their records.

    Raises:
        ReleaseError: If the rows, the source of noise or the memory do not fit; nothing is charged.
    """
    checked_source(statistics, task.budget, task.noise)
    for part in parts:
        check_memory(part)
    memory.check(needed, f"{PAID_IN_PARTS} by this method", "declare fewer or coarser variables", ReleaseError)
    cap = statistics.cap
    choice = None if cap is None else cap.draw
    receipt = task.budget.charge(one_charge(task), Made(statistics.description, choice=choice))
    return RowsRecord(task.budget.identity, (), choice or "", () if receipt is None else (receipt.digest,))


def late_bytes(task: Task, cells: Iterable[int]) -> int:
    """The most bytes that releases of tables take that are chosen after the charge, and what is read from them.

    Args:
        task: What is to be learned.
        cells: The most cells that each table may have.
    """
    every, numbers = list(cells), BYTES_PER_NUMBER[task.budget.unit.n_is_public]
    per_table = BYTES_PER_TABLE + BYTES_PER_FAMILY
    return sum(every) * (numbers + BYTES_PER_CELL) + len(every) * per_table


def purse_of(task: Task) -> Budget:
    """The budget that the parts are paid from, of the size of the one charge."""
    return Budget(task.epsilon, task.delta, unit=task.budget.unit, accounting=accounting_of(task))


def as_one(measured: Sequence[Release[Any]], scope: RowsRecord, purse: Budget) -> Release[Any]:
    """What was measured, as one release whose record holds all that the purse paid for: the choices too.

    Its claim is what was charged: where rounds ended early, the rest of the purse is among the parts.
    """
    together = joint_release([replace(one, scope=scope) for one in measured])
    whole = combined_event([*purse.events, *_unspent(purse)])
    if purse.rho is not None and whole.parts:
        whole = replace(whole, epsilon=purse.epsilon, delta=purse.delta, rho=purse.rho)
    return replace(together, event=in_turn(whole))


def in_turn(event: Event) -> Event:
    """An event whose parts earlier parts decided: of a pure one it is the rho that says so, and its claim the price."""
    return replace(event, rho=event.epsilon**2 / 2) if event.parts and not event.delta else event


def _unspent(purse: Budget) -> list[Event]:
    """What is left in a purse where rounds ended early: how early was decided by what was released.

    A pure loss is within what was spent on its way, but that of a rho is not, so the record of one holds the whole's.
    """
    left = purse.epsilon - sum(event.epsilon for event in purse.events)
    rho, whole = purse.remaining_rho, purse.rho
    if rho is None or whole is None:
        return [Event(UNSPENT, left)] if left > 0 else []
    if left <= 0 and rho <= 2 * (1 - LESS) * whole:
        return []
    return [Event(UNSPENT, max(left, rounded(epsilon_of_rho(rho, purse.delta), up=True)), purse.delta, rho=rho)]


def root_below(square: Fraction) -> Fraction:
    """The root of a fraction to eleven digits, never more."""
    root = rounded(Fraction(math.sqrt(square)), up=False)
    while root**2 > square:
        root = rounded(root * (1 - Fraction(1, 10**11)), up=False)
    return root


def adding(share: Fraction, delta: Fraction) -> GaussianMechanism | LaplaceMechanism:
    """A mechanism that adds noise and spends a share: a rho where there is a delta, else an epsilon."""
    if not delta:
        return LaplaceMechanism(share)
    return GaussianMechanism(claimed(share, delta), delta, rho=share)


def claimed(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that Gaussian noise of a rho claims."""
    return max(LEAST, rounded(epsilon_of_rho(rho, delta), up=True))
