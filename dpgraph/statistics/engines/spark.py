"""Counting rows on Spark, in this process or through Spark Connect: its workers count, and no row leaves them.

A DataFrame goes to Python workers as Arrow batches. A Parquet path is not read by Spark: each task is given row groups
and reads them itself, so that rows need not pass through the Java virtual machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Source, Tally, counted, in_columns, in_shares
from dpgraph.statistics.engines.persons import PERSON, Capped, read_parts
from dpgraph.statistics.engines.remote import worker_task
from dpgraph.statistics.engines.workers import asked, check_workers, in_short, other_python, question, this_python
from dpgraph.statistics.rows.batches import check_columns
from dpgraph.statistics.rows.parquet import Piece
from dpgraph.structure.conversion import converted
from dpgraph.structure.domain import DomainError

#: A partition's answer: its occupied cells, or one row that holds a refusal.
SCHEMA = "refusal string, cell long, rows long"

#: From so many cells the cluster adds the partitions' counts; smaller ones are added by the driver, and Spark then
#: puts none of them on its scratch disks.
CLUSTER_CELLS = 1 << 14

#: Tasks per core, for an even end.
TASKS_PER_CORE = 4

#: How many numbers the job without rows is of: at least as many as there are cores.
NUMBERS = 1 << 14

#: Sessions whose workers were asked already, with the Python that these ran, and how many tasks run side by side.
_ASKED: WeakKeyDictionary[Any, tuple[str, int]] = WeakKeyDictionary()


def ask_workers(session: Any) -> int:
    """Asks the workers of a session, by a job without rows, for their Python and their dpgraph; once a session.

    Returns:
        How many tasks run side by side.

    Raises:
        DomainError: If they cannot count; saying why, and which setting mends it.
    """
    python = getattr(getattr(session, "sparkContext", None), "pythonExec", "")  # Spark Connect has no such context
    known = _ASKED.get(session)
    if known is None or known[0] != python:
        answers = asked(lambda: _answers_without_rows(session), _no_answer)
        check_workers(answers, _setting())
        known = _ASKED[session] = python, max(1, len(answers))
    return known[1]


def _answers_without_rows(session: Any) -> list[dict[str, str]]:
    """What each task of a job without rows says of its worker."""
    answer = question()

    def partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            pass
        yield pyarrow.RecordBatch.from_pylist([answer()])

    schema = ", ".join(f"{name} string" for name in ("python", "executable", "dpgraph", "problem"))
    return session.range(0, NUMBERS).mapInArrow(partition, schema).toArrow().to_pylist()


def _setting() -> str:
    """Which setting says what Python workers run."""
    return (
        f"set PYSPARK_PYTHON (or spark.pyspark.python) to a Python {this_python()} with dpgraph on every worker before "
        "the session, or the server of Spark Connect, starts"
    )


def _no_answer(said: str) -> str:
    """What is said where the job without rows failed."""
    other = re.search(r"different version: (\d+\.\d+)", said)
    if other:
        return other_python(other[1], _setting())
    missing = re.search(r'Cannot run program "([^"]+)"', said)
    if missing:
        return f"the workers cannot run {missing[1]}: {_setting()}. No row was read"
    lacking = re.search(r"No module named '([\w.]+)'", said)
    if lacking:
        return f"the Python that the workers run has no {lacking[1]}: {_setting()}. No row was read"
    failed = f"Spark's workers could not run Python: {_setting()}. No row was read"
    return f"{failed}; of a job without rows Spark says: {in_short(said)}"


def count_frame(frame: Any, tally: Tally | Capped) -> Integers:
    """Counts a Spark DataFrame. Sensitive.

    Raises:
        DomainError: If the workers cannot count, as ``ask_workers`` finds before any row is read; if a row does not fit
            the domain, or Spark cannot make the rows: its own words, which may repeat what a row holds, are not passed
            on then.
    """
    check_columns(frame.columns, tally.domain, "the table")
    # By position: Spark's own names ignore case and read dots as fields.
    numbered = frame.toDF(*(f"column{i}" for i in range(len(frame.columns))))
    wanted = numbered.select(*(f"column{frame.columns.index(name)}" for name in tally.domain.names))
    ask_workers(frame.sparkSession)
    return _counted(wanted, tally, in_columns)


def count_path(pieces: list[Piece], tally: Tally | Capped, session: Any) -> Integers:
    """Counts Parquet files that every worker can read. Sensitive.

    Raises:
        DomainError: As ``count_frame``.
    """
    if not pieces:
        return tally.zero()
    numbers, shares = _shares(session, pieces)
    return _counted(numbers, tally, partial(in_shares, shares=shares))


def _counted(frame: Any, tally: Tally | Capped, source: Source) -> Integers:
    """The sum of all rows that a frame leads to, or of those that a cap keeps."""
    if isinstance(tally, Capped):
        return _capped_total(frame, partial(_held, capped=tally, source=source), tally)
    return _total(frame, partial(counted, tally=tally, source=source), tally)


def _shares(session: Any, pieces: list[Piece]) -> tuple[Any, list[list[Piece]]]:
    """A frame of the numbers of shares, one a task, and the shares."""
    tasks = min(len(pieces), TASKS_PER_CORE * ask_workers(session))
    return session.range(0, tasks, 1, tasks), [pieces[i::tasks] for i in range(tasks)]


def _held(found: Iterable[pa.RecordBatch], capped: Capped, source: Source) -> Any:
    """What a part holds, as columns of Spark's types."""
    return [_widened(part) for part in read_parts(found, capped, source)]


def _widened(part: pa.RecordBatch) -> pa.RecordBatch:
    """The persons as text, whole numbers in 64 bits."""
    types = [pa.string(), *[pa.int64()] * (part.num_columns - 1)]
    return pa.record_batch([a.cast(kind) for a, kind in zip(part.columns, types, strict=True)], names=part.schema.names)


def _capped_total(frame: Any, task: Callable[[Any], Any], capped: Capped) -> Integers:
    """The sum of the kept rows: Spark brings those of one person to one worker, by name, which caps and counts."""
    schema = f"refusal string, {PERSON} string, " + ", ".join(f"{name} long" for name in capped.names[1:])
    read = frame.mapInArrow(_readings(worker_task(task), capped.names), schema)
    return _total(read.repartition(PERSON), partial(count_persons, capped=capped), capped.tally)


def count_persons(found: Iterable[pa.RecordBatch], capped: Capped) -> Integers:
    """The counts of the kept rows of those persons that a worker was given; a refusal is one of the whole."""
    parts: list[pa.RecordBatch] = []
    for batch in found:
        refusals = batch.column(0).drop_null()
        if len(refusals):
            raise DomainError(refusals[0].as_py())
        parts.append(batch.select(batch.schema.names[1:]))
    return capped.total(parts)


def _readings(
    run: Callable[[Any], Any], names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a partition holds as Arrow, or one row with a refusal; made without dpgraph, which a worker may lack."""

    def partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            refusal, parts = run([batch])
            if refusal is not None:
                types = [pyarrow.string(), *[pyarrow.int64()] * (len(names) - 1)]
                empty = [pyarrow.nulls(1, kind) for kind in types]
                yield pyarrow.record_batch([pyarrow.array([refusal]), *empty], names=["refusal", *names])
                return
            for part in parts:
                none = pyarrow.nulls(part.num_rows, pyarrow.string())
                yield pyarrow.record_batch([none, *part.columns], names=["refusal", *names])

    return partition


def _total(frame: Any, task: Callable[[Any], Integers], tally: Tally) -> Integers:
    """The sum of the workers' counts."""
    from pyspark.sql import functions as sql

    vector = tally.zero()

    def answers() -> Any:
        found = frame.mapInArrow(_answers(worker_task(task)), SCHEMA)
        if len(vector) >= CLUSTER_CELLS:
            found = found.groupBy("cell").agg(sql.min("refusal").alias("refusal"), sql.sum("rows").alias("rows"))
        return found.toArrow()

    table = converted(answers, "Spark could not make or count the rows", quiet=False)
    refusals = table["refusal"].drop_null()
    if len(refusals):
        raise DomainError(refusals[0].as_py())
    np.add.at(vector, table["cell"].to_numpy(), table["rows"].to_numpy())
    return vector


def _answers(run: Callable[[Any], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A partition's answer as Arrow, made without dpgraph, which a worker may lack."""

    def partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        refusal, vector = run(batches)
        cells = [-1] if refusal is not None else vector.nonzero()[0]
        rows = [0] if refusal is not None else vector[cells]
        columns = [
            pyarrow.array([refusal] * len(cells), pyarrow.string()),
            pyarrow.array(cells, pyarrow.int64()),
            pyarrow.array(rows, pyarrow.int64()),
        ]
        yield pyarrow.record_batch(columns, names=["refusal", "cell", "rows"])

    return partition
