"""Fitting an estimator again, all or nothing: its old attributes go first, and the new ones are set together.

From before the charge until everything is learned an estimator is not fitted, so an interruption leaves nothing of two
fits side by side. A fit that fails before its charge leaves the earlier one as it was, which was paid for. A fit that
is interrupted after its charge keeps the release in ``unfinished_release``, to learn from for free.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Release
from dpgraph.privacy.release import release

E = TypeVar("E")

#: As ``dpgraph.release`` with a noise that may be None.
Spend = Callable[[Any, Any, Budget, Noise | None], Release[Any]]


def refit(estimator: E, learn: Callable[[Any, Spend], None]) -> E:
    """Fits an estimator, whole or not at all.

    Args:
        estimator: What is fitted, perhaps again.
        learn: Fits a copy of it in which nothing is fitted; releases by the function it is handed, and only once.

    Returns:
        The estimator.
    """
    fresh = copy.copy(estimator)
    _forget(fresh)
    spending: list[tuple[Budget, int]] = []

    def spend(statistics: Any, mechanism: Any, budget: Budget, noise: Noise | None) -> Release[Any]:
        spending.append((budget, _charges(budget)))
        released = release(statistics, mechanism, budget=budget, noise=copy.deepcopy(noise))
        vars(estimator)["unfinished_release"] = released
        return released

    old = _fitted(estimator)
    try:
        _forget(estimator)
        learn(fresh, spend)
    except BaseException:
        if all(_charges(budget) == before for budget, before in spending):
            vars(estimator).update(old)
        raise
    vars(estimator).update(_fitted(fresh))
    vars(estimator).pop("unfinished_release", None)
    return estimator


def _fitted(estimator: Any) -> dict[str, Any]:
    """What a fit has set: names that end in an underscore, as scikit-learn's ``check_is_fitted`` reads them."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def _forget(estimator: Any) -> None:
    """Takes away what a fit has set."""
    for name in _fitted(estimator):
        del vars(estimator)[name]


def _charges(budget: Any) -> int:
    """How often a budget was charged; what is no budget is refused by the release."""
    return len(getattr(budget, "events", ()))
