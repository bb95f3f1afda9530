"""A warning, given once, that fits on different rows share a budget: a splitter may lose more than the charge.

A splitter such as ``StratifiedKFold`` chooses rows by looking at rows, so one changed row moves *other* rows between
the training sets. An estimator sees only the rows that it is given, and cannot tell.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import SplitWarning as SplitWarning

ADVICE = (
    "this budget paid for a fit on other rows before (the same rows in another table or array count as other, as no "
    "content is compared). The charges add up, which covers rows that were chosen without "
    "looking at rows. Where rows decide, or their places do, the loss is larger: five fits charged 5 lost 12 with "
    "StratifiedKFold and 32 shuffled under replace, 12 with KFold and 62 shuffled under add-remove, on 40 rows; ten "
    "bootstrap fits charged 10 lost 17. Use dpgraph.cross_validate, whose price is exact, and dpgraph.evaluate "
    "for scores of held-out rows, which are private too; see docs/cross-validation.md"
)


@dataclass
class _Fits:
    """The rows of a budget's first fit, and whether the caller was warned."""

    same_rows: Callable[[Any], bool]
    warned: bool = False


_lock = threading.Lock()
_fits: weakref.WeakKeyDictionary[Budget, _Fits] = weakref.WeakKeyDictionary()


def warn_of_other_rows(budget: Any, rows: Any) -> None:
    """Warns, once for each budget, if it already paid for a fit on other rows; call it just before the release.

    Which rows are other is a matter of identity, never of content: the same object, a DataFrame that shares its
    index (columns chosen from one table), or the same path. The same rows in another container, a pandas table and then
    a polars one, count as other rows, and the warning says so. Lists have no identity that can be kept without keeping
    the rows, and count as other rows every time.

    Args:
        budget: What the fit charges; anything but a Budget is left to the release to refuse.
        rows: What ``fit`` was given.

    Warns:
        SplitWarning: At the caller of ``fit``.
    """
    if not isinstance(budget, Budget):
        return
    with _lock:
        seen = _fits.get(budget)
        if seen is None or not budget.spent:
            _fits[budget] = _Fits(_identity(rows))
            return
        if seen.warned or seen.same_rows(rows):
            return
        seen.warned = True
    warnings.warn(ADVICE, SplitWarning, stacklevel=6)  # past _learn, refit and fit


def _identity(rows: Any) -> Callable[[Any], bool]:
    """Whether something else is the same rows; it keeps none of them alive."""
    if isinstance(rows, str | os.PathLike):
        path = str(rows)
        return lambda other: isinstance(other, str | os.PathLike) and str(other) == path
    token = _index_token(rows)
    if token is not None:
        return lambda other: _index_token(other) is token
    try:
        reference = weakref.ref(rows)
    except TypeError:
        return lambda _: False
    return lambda other: reference() is other


def _index_token(rows: Any) -> object | None:
    """The empty object that pandas shares between an index and its views, those of chosen columns among them."""
    return getattr(rows.index, "_id", None) if hasattr(rows, "columns") and hasattr(rows, "index") else None
