"""Counting rows on Spark, in this process or through Spark Connect: its workers count, and no row leaves them.

A DataFrame goes to Python workers as Arrow batches. A Parquet path is not read by Spark: each task is given row groups
and reads them itself, so that rows need not pass through the Java virtual machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from dpgraph.privacy.checks import Integers
from dpgraph.statistics.engines import workers
from dpgraph.statistics.rows.batches import Batch, Declared, check_columns
from dpgraph.statistics.rows.files import Piece, in_pieces
from dpgraph.statistics.tally import PERSON, Source, Tally, counted, read_parts
from dpgraph.structure.conversion import PublicWords
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
    """How many tasks run side by side; workers that cannot count are refused, by a job without rows, once a session."""
    python = getattr(getattr(session, "sparkContext", None), "pythonExec", "")  # Spark Connect has no such context
    known = _ASKED.get(session)
    if known is None or known[0] != python:
        answers = workers.asked(lambda: _answers_without_rows(session), _no_answer)
        workers.check_workers(answers, _setting())
        known = _ASKED[session] = python, max(1, len(answers))
    return known[1]


def _answers_without_rows(session: Any) -> list[dict[str, str]]:
    answer = workers.question()

    def partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            pass
        yield pyarrow.RecordBatch.from_pylist([answer()])

    schema = ", ".join(f"{name} string" for name in ("python", "executable", "dpgraph", "problem"))
    return session.range(0, NUMBERS).mapInArrow(partition, schema).toArrow().to_pylist()


def _setting() -> str:
    return (
        f"set PYSPARK_PYTHON (or spark.pyspark.python) to a Python {workers.this_python()} with dpgraph on every "
        "worker before the session, or the server of Spark Connect, starts"
    )


def _no_answer(said: str) -> str:
    """The refusal where the job without rows failed, by Spark's words of it."""
    if other := re.search(r"different version: (\d+\.\d+)", said):
        return workers.other_python(other[1], _setting())
    if missing := re.search(r'Cannot run program "([^"]+)"', said):
        return f"the workers cannot run {missing[1]}: {_setting()}. No row was read"
    if lacking := re.search(r"No module named '([\w.]+)'", said):
        return f"the Python that the workers run has no {lacking[1]}: {_setting()}. No row was read"
    failed = f"Spark's workers could not run Python: {_setting()}. No row was read"
    return f"{failed}; of a job without rows Spark says: {workers.in_short(said)}"


def count_frame(frame: Any, tally: Tally) -> Integers:
    """Counts a Spark DataFrame; Spark's own words, which may repeat a row, are not passed on. Sensitive."""
    check_columns(frame.columns, tally.domain, "the table")
    # By position: Spark's own names ignore case and read dots as fields.
    numbered = frame.toDF(*(f"column{i}" for i in range(len(frame.columns))))
    wanted = numbered.select(*(f"column{frame.columns.index(name)}" for name in tally.domain.names))
    ask_workers(frame.sparkSession)
    return _counted(wanted, tally, in_columns)


def count_path(pieces: list[Piece], tally: Tally, session: Any) -> Integers:
    """Counts Parquet files that every worker can read, a share of the pieces by each task. Sensitive."""
    if not pieces:
        return tally.zero()
    tasks = min(len(pieces), TASKS_PER_CORE * ask_workers(session))
    shares = [pieces[i::tasks] for i in range(tasks)]
    return _counted(session.range(0, tasks, 1, tasks), tally, partial(in_shares, shares=shares))


def in_columns(found: Iterable[pa.RecordBatch], domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """Arrow batches of the declared columns, in order, whatever they are called."""
    yield from ((dict(zip(domain.names, batch.columns, strict=True)), False) for batch in found)


def in_shares(
    ids: Iterable[pa.RecordBatch], domain: Declared, shares: Sequence[Sequence[Piece]]
) -> Iterator[tuple[Batch, bool]]:
    """The batches of those shares of a Parquet path whose numbers Spark hands out."""
    numbers = [number for batch in ids for number in batch.column(0).to_pylist()]
    return in_pieces([piece for number in numbers for piece in shares[number]], domain)


def _counted(frame: Any, tally: Tally, source: Source) -> Integers:
    """The sum of all rows; under a cap Spark brings a person's rows to one worker, which caps and counts."""
    if tally.cap is None:
        return _total(frame, partial(counted, tally=tally, source=source), tally)
    names = tally.person_columns()
    schema = f"refusal string, {PERSON} string, " + ", ".join(f"{name} long" for name in names[1:])
    task = workers.worker_task(partial(_held, tally=tally, source=source))
    read = frame.mapInArrow(_readings(task, names), schema)
    return _total(read.repartition(PERSON), partial(count_persons, tally=tally), tally)


def _held(found: Iterable[pa.RecordBatch], tally: Tally, source: Source) -> Any:
    """The contents of a part, as columns of Spark's types: the persons as text, whole numbers in 64 bits."""
    types = [pa.string(), *[pa.int64()] * len(tally.summed.names)]
    return [
        pa.record_batch([a.cast(kind) for a, kind in zip(part.columns, types, strict=True)], names=part.schema.names)
        for part in read_parts(found, tally, source)
    ]


def count_persons(found: Iterable[pa.RecordBatch], tally: Tally) -> Integers:
    """The counts of the kept rows of those persons that a worker was given; a refusal is one of the whole."""
    parts: list[pa.RecordBatch] = []
    for batch in found:
        refusals = batch.column(0).drop_null()
        if len(refusals):
            raise DomainError(refusals[0].as_py())
        parts.append(batch.select(batch.schema.names[1:]))
    return tally.capped_total(parts)


def _readings(
    run: Callable[[Any], Any], names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A partition's contents as Arrow, or one row with a refusal; made without dpgraph, which a worker may lack."""

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
    from pyspark.sql import functions as sql

    vector = tally.zero()

    with PublicWords("Spark could not make or count the rows", quiet=False):
        found = frame.mapInArrow(_answers(workers.worker_task(task)), SCHEMA)
        if len(vector) >= CLUSTER_CELLS:
            found = found.groupBy("cell").agg(sql.min("refusal").alias("refusal"), sql.sum("rows").alias("rows"))
        table = found.toArrow()
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
