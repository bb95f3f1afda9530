"""One charge for a method that makes several releases, and the budget of that size which pays for them.

The whole is charged once, before the first draw, and its parts are paid from a budget of exactly that size, of its own:
a filter, so that their sum is within the charge whatever earlier parts decided (proofs.md P115).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.filters import LESS as LESS
from dpgraph.privacy.filters import Accounting, rho_within
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event, PrivacyCost, rounded
from dpgraph.privacy.rows import RowsRecord
from dpgraph.statistics.table_counts import TableCounts

if TYPE_CHECKING:
    from dpgraph.estimators.graphs.task import Task

#: The label of the one charge.
EVENT = "learn_network"
#: What Gaussian noise claims where its rho is within delta alone.
LEAST = Fraction(1, 10**9)


def accounting_of(task: Task) -> Accounting:
    """How the parts add: in rho where there is a delta."""
    return "zcdp" if task.delta else "basic"


def one_charge(task: Task) -> Event:
    """The event of the whole."""
    rho = rho_within(PrivacyCost(task.epsilon, task.delta)) if task.delta else None
    return Event(EVENT, task.epsilon, task.delta, rho=rho)


def charged(task: Task, statistics: TableCounts) -> RowsRecord:
    """Charges the whole; which rows its parts are of, and the receipt, for their records."""
    cap = statistics.cap
    choice = None if cap is None else cap.draw
    receipt = task.budget.charge(one_charge(task), Made(statistics.description, choice=choice))
    return RowsRecord(task.budget.identity, (), choice or "", () if receipt is None else (receipt.digest,))


def purse_of(task: Task) -> Budget:
    """The budget that the parts are paid from, of the size of the one charge."""
    return Budget(task.epsilon, task.delta, unit=task.budget.unit, accounting=accounting_of(task))


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
    return GaussianMechanism(max(LEAST, rounded(epsilon_of_rho(share, delta), up=True)), delta, rho=share)
