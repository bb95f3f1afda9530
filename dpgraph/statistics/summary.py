"""One pass over rows, wherever they lie, to the statistics of a description: of all rows, or of each group of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.engines.parts import Kernel, Tally
from dpgraph.statistics.engines.persons import Capped
from dpgraph.statistics.engines.total import total
from dpgraph.statistics.rows.arrow import UNREADABLE
from dpgraph.statistics.rows.codes import Codes
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.waiting import waiting


def summarise(
    rows: Any,
    kernel: Kernel,
    *,
    cap: PersonCap | None = None,
    where: RowGroup | None = None,
    engine: Any = None,
    progress: bool = False,
) -> Any:
    """The statistics of the rows, of one group of them or of those that a cap keeps of each person. Sensitive.

    Raises:
        DomainError: If the rows do not fit the kernel's declaration, or the engine does not take them.
    """
    groups = None if where is None else {None: where}
    return summarise_groups(rows, kernel, groups, cap=cap, engine=engine, progress=progress)[None]


def summarise_groups(
    rows: Any,
    kernel: Kernel,
    by: Mapping[Any, RowGroup] | None,
    *,
    cap: PersonCap | None = None,
    engine: Any = None,
    progress: bool = False,
) -> dict[Any, Any]:
    """The statistics of each group, or of all rows under None, in one pass; a cap chooses once, of all rows. Sensitive.

    Raises:
        DomainError: As ``summarise``.
    """
    if isinstance(rows, Codes) and cap is not None:
        raise DomainError("codes hold no person column; give the rows themselves")
    groups: dict[Any, RowGroup | None] = {None: None} if by is None else dict(by)
    tally = Tally(kernel, None if by is None else tuple(by.values()))

    def summed() -> Any:
        if not isinstance(rows, Codes) or not isinstance(kernel.columns, Domain) or engine is not None:
            return total(rows, tally if cap is None else Capped(tally, cap), engine, progress)
        vector = tally.zero()
        with waiting("counting", progress):
            tally.add_read(rows.columns, None, vector)
        return vector

    vectors = np.split(converted(summed, UNREADABLE, passing=OURS, quiet=False), len(groups))
    record = getattr(rows, "cap", None) if isinstance(rows, Codes) else None
    if cap is not None:
        record = cap.record(kernel.columns.strict)
    found = zip(groups.items(), vectors, strict=True)
    return {level: kernel.statistics(vector, group, record) for (level, group), vector in found}
