"""Counting rows on Dask: its workers count partitions, or row groups of Parquet, and add the counts.

Dask's active scheduler is used: threads, processes or the cluster of a ``dask.distributed.Client``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpgraph.privacy.checks import Integers
from dpgraph.statistics.engines import workers
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import check_columns
from dpgraph.statistics.rows.files import Piece, in_pieces
from dpgraph.statistics.tally import Source, Tally, buckets, counted
from dpgraph.structure.conversion import PublicWords
from dpgraph.structure.domain import DomainError

#: How many answers are merged at once.
FAN_IN = 16
#: Into how many parts persons are split at most; each is capped and counted by one task.
BUCKETS = 64


def ask_workers() -> None:
    """Refuses a cluster's workers that cannot count; this machine's threads and processes are not asked."""
    client = cluster()
    if client is None:
        return
    mine = workers.this_python()
    setting = f"start the scheduler and its workers (dask worker) by a Python {mine} with dpgraph and pyarrow"

    def no_answer(said: str) -> str:
        return f"Dask's workers did not answer: {setting}. No row was read; Dask says: {workers.in_short(said)}"

    # by name and number alone: other Pythons cannot read a function
    said = workers.asked(client.get_versions, no_answer)
    for worker in said["workers"].values():
        theirs = ".".join(worker["host"]["python"].split(".")[:2])
        if theirs != mine:
            raise DomainError(workers.other_python(theirs, setting))
    workers.check_workers(workers.asked(lambda: client.run(workers.question()), no_answer).values(), setting)


def cluster() -> Any:
    """The client of the cluster that Dask would use; None where it would use threads or processes here."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "get_versions") else None


def count_frame(frame: Any, tally: Tally) -> Integers:
    """Counts a dask DataFrame by partition; Dask's own words, which may repeat a row, are not passed on. Sensitive."""
    check_columns(list(frame.columns), tally.domain, "the table")
    return _counted(lambda: frame[list(tally.domain.names)].to_delayed(), tally, batches)


def count_path(pieces: list[Piece], tally: Tally, engine: Any = "dask") -> Integers:
    """Counts Parquet files that every worker can read. Sensitive."""
    return _counted(lambda: [[piece] for piece in pieces], tally, in_pieces)


def _counted(parts: Callable[[], list[Any]], tally: Tally, source: Source) -> Integers:
    """The sum of all rows; under a cap workers split theirs by person, and others cap and count a bucket each."""
    from dask.delayed import delayed

    if tally.cap is None:
        return _total(parts, partial(counted, tally=tally, source=source), tally)

    def gathered() -> list[Any]:
        found = parts()
        many = max(1, min(len(found), BUCKETS))
        split = workers.worker_task(partial(buckets, many=many, tally=tally, source=source))
        run, pick = delayed(split, pure=False), delayed(one_bucket, pure=False)
        answers = [run(part) for part in found]
        return [[pick(answer, number) for answer in answers] for number in range(many)] if answers else []

    return _total(gathered, partial(count_bucket, tally=tally), tally)


def one_bucket(answer: workers.Answer, number: int) -> workers.Answer:
    """One bucket of a worker's answer, so that no more of it travels."""
    refusal, found = answer
    return refusal, None if found is None else found[number]


def count_bucket(answers: list[Any], tally: Tally) -> Integers:
    """The counts of the kept rows of a bucket's persons; a refusal of any part is one of the whole."""
    refusals = [refusal for refusal, _ in answers if refusal is not None]
    if refusals:
        raise DomainError(refusals[0])
    return tally.capped_total([part for _, found in answers for part in found])


def _total(parts: Callable[[], list[Any]], task: Callable[[Any], Integers], tally: Tally) -> Integers:
    """The sum of the workers' counts, added by the workers in a tree."""
    from dask.base import compute
    from dask.delayed import delayed

    run, add = delayed(workers.worker_task(task), pure=False), delayed(workers.merge_answers, pure=False)

    ask_workers()
    with PublicWords("Dask could not make or count the rows", quiet=False):
        answers = [run(part) for part in parts()]
        while len(answers) > 1:
            answers = [add(answers[i : i + FAN_IN]) for i in range(0, len(answers), FAN_IN)]
        refusal, vector = compute(answers[0])[0] if answers else (None, tally.zero())
    if refusal is not None:
        raise DomainError(refusal)
    return vector
