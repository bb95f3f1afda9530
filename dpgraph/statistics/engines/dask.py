"""Counting rows on Dask: its workers count partitions, or row groups of Parquet, and add the counts.

Dask's active scheduler is used: threads, processes or the cluster of a ``dask.distributed.Client``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Source, Tally, counted, in_pieces
from dpgraph.statistics.engines.persons import Capped, buckets, read_parts
from dpgraph.statistics.engines.remote import Answer, merge_answers, worker_task
from dpgraph.statistics.engines.workers import asked, check_workers, in_short, other_python, question, this_python
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import check_columns
from dpgraph.statistics.rows.parquet import Piece
from dpgraph.structure.conversion import converted
from dpgraph.structure.domain import DomainError

#: How many answers are merged at once.
FAN_IN = 16

#: Into how many parts persons are split at most; each is capped and counted by one task.
BUCKETS = 64


def ask_workers() -> None:
    """Asks every worker of the active cluster, without rows, for its Python and its dpgraph.

    Dask's threads and processes on this machine run this Python, and are not asked.

    Raises:
        DomainError: If they cannot count; saying why, and what mends it.
    """
    client = cluster()
    if client is None:
        return
    said = asked(client.get_versions, _no_answer)  # by name and number alone: other Pythons cannot read a function
    for worker in said["workers"].values():
        theirs = ".".join(worker["host"]["python"].split(".")[:2])
        if theirs != this_python():
            raise DomainError(other_python(theirs, _setting()))
    check_workers(asked(lambda: client.run(question()), _no_answer).values(), _setting())


def cluster() -> Any:
    """The client of the cluster that Dask would use; None where it would use threads or processes here."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "get_versions") else None


def _setting() -> str:
    """What says which Python workers run."""
    return f"start the scheduler and its workers (dask worker) by a Python {this_python()} with dpgraph and pyarrow"


def _no_answer(said: str) -> str:
    """What is said where workers did not answer."""
    return f"Dask's workers did not answer: {_setting()}. No row was read; Dask says: {in_short(said)}"


def count_frame(frame: Any, tally: Tally | Capped) -> Integers:
    """Counts a dask DataFrame, partition by partition. Sensitive.

    Raises:
        DomainError: If the workers cannot count, as ``ask_workers`` finds before any row is read; if a partition does
            not fit the domain, or Dask cannot make it: its own words, which may repeat what a row holds, are not passed
            on then.
    """
    check_columns(list(frame.columns), tally.domain, "the table")
    return _counted(lambda: frame[list(tally.domain.names)].to_delayed(), tally, batches)


def count_path(pieces: list[Piece], tally: Tally | Capped, engine: Any = "dask") -> Integers:
    """Counts Parquet files that every worker can read. Sensitive.

    Raises:
        DomainError: As ``count_frame``.
    """
    return _counted(lambda: [[piece] for piece in pieces], tally, in_pieces)


def _counted(parts: Callable[[], list[Any]], tally: Tally | Capped, source: Source) -> Integers:
    """The sum of all rows of the parts, or of those that a cap keeps."""
    if isinstance(tally, Capped):
        return _capped_total(parts, partial(row_buckets, capped=tally, source=source), tally)
    return _total(parts, partial(counted, tally=tally, source=source), tally)


def row_buckets(rows: Any, many: int, capped: Capped, source: Source) -> Any:
    """The rows of a part, by person."""
    return buckets(read_parts(rows, capped, source), capped, many)


def _capped_total(parts: Callable[[], list[Any]], split: Callable[..., Any], capped: Capped) -> Integers:
    """The sum of the kept rows: workers split their rows by person, and others cap and count a bucket each."""
    from dask.delayed import delayed

    def gathered() -> list[Any]:
        found = parts()
        many = max(1, min(len(found), BUCKETS))
        run, pick = delayed(worker_task(partial(split, many=many)), pure=False), delayed(one_bucket, pure=False)
        answers = [run(part) for part in found]
        return [[pick(answer, number) for answer in answers] for number in range(many)] if answers else []

    return _total(gathered, partial(count_bucket, capped=capped), capped.tally)


def one_bucket(answer: Answer, number: int) -> Answer:
    """One bucket of a worker's answer, so that no more of it travels."""
    refusal, found = answer
    return refusal, None if found is None else found[number]


def count_bucket(answers: list[Any], capped: Capped) -> Integers:
    """The counts of the kept rows of a bucket's persons; a refusal of any part is one of the whole."""
    refusals = [refusal for refusal, _ in answers if refusal is not None]
    if refusals:
        raise DomainError(refusals[0])
    return capped.total([part for _, found in answers for part in found])


def _total(parts: Callable[[], list[Any]], task: Callable[[Any], Integers], tally: Tally) -> Integers:
    """The sum of the workers' counts, added by the workers in a tree."""
    from dask.base import compute
    from dask.delayed import delayed

    run, add = delayed(worker_task(task), pure=False), delayed(merge_answers, pure=False)

    def added() -> Any:
        answers = [run(part) for part in parts()]
        while len(answers) > 1:
            answers = [add(answers[i : i + FAN_IN]) for i in range(0, len(answers), FAN_IN)]
        return compute(answers[0])[0] if answers else (None, tally.zero())

    ask_workers()
    refusal, vector = converted(added, "Dask could not make or count the rows", quiet=False)
    if refusal is not None:
        raise DomainError(refusal)
    return vector
