"""One pass over rows, wherever they lie, to the statistics of a description: of all rows or of groups of them.

Law: every engine adds the vectors of the same tally over parts that contain each row once, so all give the same
integers.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice, product
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.privacy.checks import Integers, check_whole
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.rows.arrow import UNREADABLE, batches, foreign_engine
from dpgraph.statistics.rows.batches import Batch, Declared, slices
from dpgraph.statistics.rows.codes import Codes, group_of
from dpgraph.statistics.rows.files import Piece, in_pieces, pieces, place_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.statistics.tally import Kernel, Tally, read_parts
from dpgraph.structure.conversion import OURS, PublicWords
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, Level, undeclared_actions
from dpgraph.structure.frozen import FrozenMap
from dpgraph.waiting import counted, result_of, waiting

#: Threads that decode, encode and count; each holds one batch, so they bound the memory too.
THREADS = 4
#: Batches of a part that one thread sums.
Part = Iterable[tuple[Batch, bool]]
#: The most groups at once: each has tables of its own.
MOST_GROUPS = 4096
#: How often the tables of all groups are held while they are summed: by the threads that count, and in all.
COPIES = 4
#: What to do instead of a cap within a group.
ONE_CHOICE = (
    "Make all groups of one choice, dg.statistics.count_groups(rows, ..., by, person=...), or cap all rows once, codes "
    "= dg.statistics.cap_rows(...), and count(codes, where=...)"
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
    """The statistics of all rows or of the group ``where``; with ``by`` a dict of each group's; a cap chooses once."""
    cap = None
    check_whole("rows_per_person", rows_per_person, error=DomainError)
    if person is not None or rows_per_person != 1:
        cap = cap_of(person, rows_per_person)
        refuse_group(where, cap, ONE_CHOICE)
        if isinstance(rows, Codes):
            raise DomainError("codes hold no person column; give the rows themselves")
    groups = _groups(rows, kernel, by, where, domain)
    tally = Tally(kernel, None if by is None and where is None else tuple(groups.values()), cap)
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        vector = total(rows, tally, engine, progress)
    record = rows.cap if isinstance(rows, Codes) else None
    if cap is not None:
        record = cap.record(kernel.columns.strict)
    found = zip(groups.items(), np.split(vector, len(groups)), strict=True)
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
        return found

    def check_strict(names: Iterable[str]) -> None:
        for one in names if kernel.columns.strict else ():
            if domain is not None and one not in own and undeclared_actions(domain[one]):
                raise DomainError(
                    f"{one!r} could refuse a row, and the {kernel.of} is strict; make the domain strict as well"
                )

    if by is None:
        found = None if where is None else group(where)
        check_strict(where or ())
        return {None: found}
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DomainError(f"by must be the name of a variable, or a list of several names; got {by!r}")
    for name in names:
        if name not in declared:
            raise DomainError(f"by names {name!r}, which is not declared with levels; declare it by domain=...")
    check_strict(names)
    levels = [declared[name].levels for name in names]
    many = math.prod(map(len, levels))
    if many > MOST_GROUPS:
        raise DomainError(f"by makes {many} groups, more than {MOST_GROUPS}")
    memory.check(groups_bytes(kernel, many), f"{kernel.made} of {many} groups", "make fewer at once", DomainError)
    made = {chosen: group(dict(zip(names, chosen, strict=True))) for chosen in product(*levels)}
    return {chosen[0]: found for chosen, found in made.items()} if isinstance(by, str) else made


def total(rows: Any, tally: Tally, engine: Any = None, progress: bool = False) -> Integers:
    """The vector of all rows, or of those that a cap keeps once all are read, in memory or on a cluster. Sensitive."""
    if engine is not None:
        pieces, cluster = _cluster(engine, rows, tally.domain)
        return cluster.count_path(pieces, tally, engine)
    if (library := foreign_engine(rows)) in ("pyspark", "dask"):
        return _workers_of(library).count_frame(rows, tally)
    with waiting("counting", progress):
        if isinstance(rows, Codes) and isinstance(tally.kernel.columns, Domain):
            vector = tally.zero()
            tally.add_read(rows.columns, None, vector)
            return vector
        if tally.cap is not None:
            return tally.capped_total(list(read_parts(rows, tally)))
        split = _pieces(rows, tally.domain) if isinstance(rows, str | Path) else None
        if split is not None:
            alone = len(split) == 1  # threads decode a single piece
            return _sum((in_pieces([piece], tally.domain, alone) for piece in counted(split)), tally)
        found, most = batches(rows, tally.domain), tally.rows_at_once  # larger batches are shared by threads
        return _sum(([(part, is_text)] for batch, is_text in found for part in slices(batch, most)), tally)


def _cluster(engine: Any, rows: Any, domain: Declared) -> tuple[list[Piece], Any]:
    """The pieces of a Parquet path that the workers of an engine read, and the module of that engine."""
    split = _pieces(rows, domain) if isinstance(rows, str | Path) else None
    if split is None:
        raise DomainError(
            f"engine is for the path of a Parquet file or folder; got {type(rows).__name__}. Other rows are counted "
            "where they are: leave engine out"
        )
    if type(engine).__module__.partition(".")[0] == "pyspark" and hasattr(engine, "createDataFrame"):
        return split, _workers_of("pyspark")
    if isinstance(engine, str) and engine == "dask":
        return split, _workers_of("dask")
    raise DomainError(f"engine must be a SparkSession or 'dask'; got {engine!r}")


def _workers_of(library: str | None) -> Any:
    if library == "dask":
        from dpgraph.statistics.engines import dask as workers
    else:
        from dpgraph.statistics.engines import spark as workers
    return workers


def _pieces(path: str | Path, domain: Declared) -> list[Piece] | None:
    """The pieces of a Parquet path, wherever a process on this machine was started; None of a CSV file."""
    place = place_of(path)
    return pieces(place.absolute(), domain) if place.is_parquet() else None


def _sum(parts: Iterable[Part], tally: Tally) -> Integers:
    """The sum of all parts, made by threads, few at a time; the first failure stops the others."""
    vector, stopped, begun = tally.zero(), Event(), deque[Future[Integers]]()

    def work(part: Part) -> Integers:
        own = tally.zero()
        for batch, is_text in part:
            if stopped.is_set():
                break
            tally.add(batch, own, is_text)
        return own

    found = iter(parts)
    first = list(islice(found, 2))
    workers = min(THREADS, os.cpu_count() or 1)
    if len(first) < 2 or workers == 1:
        for part in chain(first, found):
            vector += work(part)
        return vector
    with ThreadPoolExecutor(workers, initializer=lambda: np.seterr(all="ignore")) as pool:  # as in ``converted``
        try:
            for part in chain(first, found):
                begun.append(pool.submit(work, part))
                if len(begun) > workers:
                    vector += result_of(begun.popleft())
            while begun:
                vector += result_of(begun.popleft())
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)
    return vector
