"""Counting rows on Spark: its workers count, and no row leaves them.

A DataFrame goes to Python workers as Arrow batches. A Parquet path is not read by Spark: each task is given row groups
and reads them itself, so that rows need not pass through the Java virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Tally, count_columns, count_shares
from dpgraph.statistics.engines.remote import worker_task
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


def count_frame(frame: Any, tally: Tally) -> Integers:
    """Counts a Spark DataFrame. Sensitive.

    Raises:
        DomainError: If a row does not fit the domain, or Spark cannot make the rows; its own words, which may repeat
            what a row holds, are not passed on.
    """
    check_columns(frame.columns, tally.domain, "the table")
    # By position: Spark's own names ignore case and read dots as fields.
    numbered = frame.toDF(*(f"column{i}" for i in range(len(frame.columns))))
    wanted = numbered.select(*(f"column{frame.columns.index(name)}" for name in tally.domain.names))
    return _total(wanted, partial(count_columns, tally=tally), tally)


def count_path(session: Any, pieces: list[Piece], tally: Tally) -> Integers:
    """Counts Parquet files that every worker can read. Sensitive.

    Raises:
        DomainError: As ``count_frame``.
    """
    if not pieces:
        return tally.zero()
    tasks = min(len(pieces), TASKS_PER_CORE * session.sparkContext.defaultParallelism)
    shares = [pieces[i::tasks] for i in range(tasks)]
    numbers = session.range(0, tasks, 1, tasks)
    return _total(numbers, partial(count_shares, shares=shares, tally=tally), tally)


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
