"""One pass over rows, wherever they lie, to the statistics of a description: of all rows or of groups of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.engines.parts import Kernel, Tally
from dpgraph.statistics.engines.total import total
from dpgraph.statistics.rows.arrow import UNREADABLE
from dpgraph.statistics.rows.codes import Codes, group_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, Level, undeclared_actions
from dpgraph.structure.frozen import FrozenMap
from dpgraph.waiting import waiting

#: The most groups at once: each has tables of its own.
MOST_GROUPS = 4096
#: How often the tables of all groups are held while they are summed: by the threads that count, and in all.
COPIES = 4

#: What to do instead of a cap within a group.
ONE_CHOICE = (
    "Make all groups of one choice, dg.statistics.count_groups or regression_groups(rows, ..., by, person=...), or cap "
    "all rows once, codes = dg.statistics.cap_rows(...), and count(codes, where=...)"
)


def summarise(
    rows: Any,
    kernel: Kernel,
    *,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Level] | None = None,
    domain: Domain | None = None,
    engine: Any = None,
    progress: bool = False,
) -> Any:
    """The statistics of all rows or of the group ``where``; with ``by`` a dict of those of each group. Sensitive.

    A cap on the rows of each person chooses once, of all rows. ``domain`` declares variables of groups that the kernel
    does not read.
    """
    cap = cap_of(person, rows_per_person)
    refuse_group(where, cap, ONE_CHOICE)
    if isinstance(rows, Codes) and cap is not None:
        raise DomainError("codes hold no person column; give the rows themselves")
    groups = _groups(rows, kernel, by, where, domain)
    tally = Tally(kernel, None if by is None and where is None else tuple(groups.values()), cap)

    def summed() -> Any:
        if not isinstance(rows, Codes) or not isinstance(kernel.columns, Domain) or engine is not None:
            return total(rows, tally, engine, progress)
        vector = tally.zero()
        with waiting("counting", progress):
            tally.add_read(rows.columns, None, vector)
        return vector

    vectors = np.split(converted(summed, UNREADABLE, passing=OURS, quiet=False), len(groups))
    record = rows.cap if isinstance(rows, Codes) else None
    if cap is not None:
        record = cap.record(kernel.columns.strict)
    found = zip(groups.items(), vectors, strict=True)
    made = {level: kernel.statistics(vector, group, record) for (level, group), vector in found}
    return made[None] if by is None else made


def groups_bytes(kernel: Kernel, groups: int) -> int:
    """About how many bytes the sums of so many groups take while they are made, from public sizes alone."""
    return COPIES * 8 * groups * kernel.size


def _groups(
    rows: Any, kernel: Kernel, by: Any, where: Mapping[str, Level] | None, domain: Domain | None
) -> dict[Any, Any]:
    """The group of each level, or tuple of levels, of ``by``; under None the group ``where``, or None for all rows."""
    coded = isinstance(rows, Codes)
    own: Mapping[str, Any] = rows.domain.variables if coded else kernel.columns.variables
    declared = {name: found for name, found in own.items() if isinstance(found, Categories | Bins)}
    declared |= {} if domain is None else domain.variables
    levels_of = Domain(FrozenMap(declared))
    encode = "encode the rows by a domain that has it, and count those"
    advice = encode if by is None and isinstance(kernel.columns, Domain) else "declare it by domain=..."

    def group(levels: Mapping[str, Level]) -> RowGroup:
        found = group_of(levels, levels_of, advice)
        for name in () if coded else (condition.by for condition in found.conditions):
            if name in own and own[name] != declared[name]:
                raise DomainError(f"{name!r} is declared otherwise by the {kernel.of}; a group needs one declaration")
            if kernel.columns.strict and undeclared_actions(declared[name]) and name not in own:
                raise DomainError(
                    f"{name!r} could refuse a row, and the {kernel.of} is strict; make the domain strict as well"
                )
        return found

    if by is None:
        return {None: None if where is None else group(where)}
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DomainError(f"by must be the name of a variable, or a list of several names; got {by!r}")
    for name in names:
        if name not in declared:
            raise DomainError(f"by names {name!r}, which is not declared with levels; declare it by domain=...")
    levels = [declared[name].levels for name in names]
    many = math.prod(map(len, levels))
    if many > MOST_GROUPS:
        raise DomainError(f"by makes {many} groups, more than {MOST_GROUPS}")
    memory.check(groups_bytes(kernel, many), f"{kernel.made} of {many} groups", "make fewer at once", DomainError)
    made = {chosen: group(dict(zip(names, chosen, strict=True))) for chosen in product(*levels)}
    return {chosen[0]: found for chosen, found in made.items()} if isinstance(by, str) else made
