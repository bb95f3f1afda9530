"""Counting rows on Dask: its workers count partitions, or row groups of Parquet, and add the counts.

Dask's active scheduler is used: threads, processes or the cluster of a ``dask.distributed.Client``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Tally, count_pieces, count_table
from dpgraph.statistics.engines.remote import merge_answers, worker_task
from dpgraph.statistics.rows.batches import check_columns
from dpgraph.statistics.rows.parquet import Piece
from dpgraph.structure.conversion import converted
from dpgraph.structure.domain import DomainError

#: How many answers are merged at once.
FAN_IN = 16


def count_frame(frame: Any, tally: Tally) -> Integers:
    """Counts a dask DataFrame, partition by partition. Sensitive.

    Raises:
        DomainError: If a partition does not fit the domain, or Dask cannot make it; its own words, which may repeat
            what a row holds, are not passed on.
    """
    check_columns(list(frame.columns), tally.domain, "the table")
    return _total(lambda: frame[list(tally.domain.names)].to_delayed(), partial(count_table, tally=tally), tally)


def count_path(pieces: list[Piece], tally: Tally) -> Integers:
    """Counts Parquet files that every worker can read. Sensitive.

    Raises:
        DomainError: As ``count_frame``.
    """
    return _total(lambda: [[piece] for piece in pieces], partial(count_pieces, tally=tally), tally)


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

    refusal, vector = converted(added, "Dask could not make or count the rows", quiet=False)
    if refusal is not None:
        raise DomainError(refusal)
    return vector
