"""Rows on Dask: its workers count their partitions, or row groups of Parquet, and add on the way.

Dask's active scheduler is used: threads, processes or the cluster of a ``dask.distributed.Client``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpgraph.statistics.batches import require
from dpgraph.statistics.errands import errand, merged
from dpgraph.statistics.parquet import Piece
from dpgraph.statistics.parts import Integers, Tally, count_pieces, count_table
from dpgraph.structure.domain import DomainError

#: How many answers are merged at once.
FAN_IN = 16


def count_frame(frame: Any, tally: Tally) -> Integers:
    """Counts a dask DataFrame, partition by partition. Sensitive.

    Raises:
        DomainError: If a partition does not fit the domain, or Dask cannot make it; its own words, which may repeat
            what a row holds, are not passed on.
    """
    require(frame.columns, tally.domain, "the table")
    return _total(lambda: frame[list(tally.domain.names)].to_delayed(), partial(count_table, tally=tally), tally)


def count_path(pieces: list[Piece], tally: Tally) -> Integers:
    """Counts Parquet files that every worker can read. Sensitive.

    Raises:
        DomainError: As ``count_frame``.
    """
    return _total(lambda: [[piece] for piece in pieces], partial(count_pieces, tally=tally), tally)


def _total(parts: Callable[[], list[Any]], task: Callable[[Any], Integers], tally: Tally) -> Integers:
    """The workers' answers, merged by the workers in a tree."""
    from dask.base import compute
    from dask.delayed import delayed

    run, add = delayed(errand(task), pure=False), delayed(merged, pure=False)
    try:
        answers = [run(part) for part in parts()]
        while len(answers) > 1:
            answers = [add(answers[i : i + FAN_IN]) for i in range(0, len(answers), FAN_IN)]
        refusal, vector = compute(answers[0])[0] if answers else (None, tally.zero())
    except Exception as error:  # what makes the partitions raises its own, and that may repeat a value
        failure = type(error).__name__
    else:
        if refusal is not None:
            raise DomainError(refusal)
        return vector
    raise DomainError(f"Dask could not make or count the rows ({failure})")
