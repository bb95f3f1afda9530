"""The declared group of rows that ``where=`` names, variables with a level each, and the rows in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.scope import Condition, RowGroup
from dpgraph.structure.domain import Domain, DomainError, Level


def group_of(where: Mapping[str, Level], domain: Domain, advice: str) -> RowGroup:
    """The rows in which each variable has the level given; ``advice`` ends the refusal of an undeclared variable."""
    if not isinstance(where, Mapping) or not where:
        raise DomainError(f"where must be variables with a level each, such as {{'region': 'north'}}; got {where!r}")
    return RowGroup(tuple(_condition(name, level, domain, advice) for name, level in where.items()))


def members(columns: Mapping[str, npt.NDArray[Any]], group: RowGroup) -> npt.NDArray[np.bool_]:
    """Flags of the rows of a group, by the codes of its variables. Sensitive."""
    wanted: list[Any] = []
    for condition in group.conditions:
        variable: Any = condition.declaration
        wanted.append(columns[condition.by] == variable.code(condition.level))
    return np.logical_and.reduce(wanted)


def _condition(name: str, level: Level, domain: Domain, advice: str) -> Condition:
    """One declared variable at one declared level."""
    if name not in domain:
        raise DomainError(f"where names {name!r}, which is not declared; {advice}")
    return Condition(name, domain.levels(name)[domain.code(name, level)], domain[name])
