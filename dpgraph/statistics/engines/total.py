"""Counting or summing all rows: in memory, in batches by a few threads, or on a cluster.

Law: every engine adds the vectors of the same tally over parts that contain each row once, so all give the same
integers.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
import pyarrow as pa

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.engines.parts import Tally, in_pieces, read_parts
from dpgraph.statistics.rows import parquet
from dpgraph.statistics.rows.arrow import batches, foreign_engine
from dpgraph.statistics.rows.batches import Batch, Declared, batch_length
from dpgraph.statistics.rows.locations import Place, place_of
from dpgraph.structure.domain import DomainError
from dpgraph.waiting import at_terminal, result_of

#: Threads that decode, encode and count; each holds one batch, so they bound the memory too.
THREADS = 4

#: Batches of a part that one thread sums.
Part = Iterable[tuple[Batch, bool]]


def total(rows: Any, tally: Tally, engine: Any = None, progress: bool = False) -> Integers:
    """The vector of all rows, in memory, in files or on a cluster; or of the rows that a cap keeps of each person.

    Which rows a cap keeps is known when all are read: in memory, as whole numbers, or on the cluster, whose workers
    hand one another the rows of a person. Sensitive.
    """
    if engine is not None:
        pieces, cluster = _cluster(engine, rows, tally.domain)
        return cluster.count_path(pieces, tally, engine)
    library = foreign_engine(rows)
    if library == "pyspark":
        from dpgraph.statistics.engines.spark import count_frame

        return count_frame(rows, tally)
    if library == "dask":
        from dpgraph.statistics.engines.dask import count_frame

        return count_frame(rows, tally)
    if tally.cap is not None:
        with _bar(progress, "counting {elapsed}") as advance:
            held: list[pa.RecordBatch] = []
            for part in read_parts(rows, tally):
                held.append(part)
                advance(0)
            return tally.capped_total(held)
    if isinstance(rows, str | Path) and _is_parquet(place := place_of(rows)):
        pieces = parquet.pieces(place, tally.domain)
        many, alone = sum(piece.sensitive_rows for piece in pieces), len(pieces) == 1  # threads decode a single piece
        with _bar(progress, "counting {percentage:3.0f}%|{bar}| {elapsed}") as advance:
            return _sum((in_pieces([piece], tally.domain, alone) for piece in pieces), tally, advance, many)
    with _bar(progress, "counting {elapsed}") as advance:
        return _sum(_slices(batches(rows, tally.domain), tally.rows_at_once), tally, advance)


def _cluster(engine: Any, rows: Any, domain: Declared) -> tuple[list[parquet.Piece], Any]:
    """The pieces of a Parquet path that the workers of an engine read, and the module of that engine."""
    if not isinstance(rows, str | Path) or not _is_parquet(place := place_of(rows)):
        raise DomainError(
            f"engine is for the path of a Parquet file or folder; got {type(rows).__name__}. Other rows are counted "
            "where they are: leave engine out"
        )
    pieces = parquet.pieces(place.absolute(), domain)
    if type(engine).__module__.partition(".")[0] == "pyspark" and hasattr(engine, "createDataFrame"):
        from dpgraph.statistics.engines import spark

        return pieces, spark
    if isinstance(engine, str) and engine == "dask":
        from dpgraph.statistics.engines import dask

        return pieces, dask
    raise DomainError(f"engine must be a SparkSession or 'dask'; got {engine!r}")


def _is_parquet(path: Place) -> bool:
    return path.is_folder() or parquet.is_parquet(path)


def _slices(found: Part, rows: int | None) -> Iterator[Part]:
    """Each batch as a part, larger ones cut where threads are to share them."""
    for batch, is_text in found:
        many = batch_length(batch)
        for start in range(0, max(1, many), rows or max(1, many)):
            part = batch if rows is None or many <= rows else {n: a.slice(start, rows) for n, a in batch.items()}
            yield [(part, is_text)]


def _sum(parts: Iterable[Part], tally: Tally, advance: Callable[[float], None], many: int = 0) -> Integers:
    """The sum of all parts, made by threads, few at a time; the first failure stops the others."""
    vector, stopped, waiting = tally.zero(), Event(), deque[Future[Integers]]()

    def work(part: Part) -> Integers:
        own = tally.zero()
        for batch, is_text in part:
            if stopped.is_set():
                break
            tally.add(batch, own, is_text)
            advance(batch_length(batch) / many if many else 0)
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
                waiting.append(pool.submit(work, part))
                if len(waiting) > workers:
                    vector += result_of(waiting.popleft())
            while waiting:
                vector += result_of(waiting.popleft())
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)
    return vector


@contextmanager
def _bar(progress: bool, shown: str) -> Iterator[Callable[[float], None]]:
    """A progress bar, on a terminal only, advanced by shares of the whole; it shows no number of rows."""
    if not progress or not at_terminal():
        yield lambda share: None
        return
    from tqdm import tqdm

    lock = Lock()
    with tqdm(total=1, bar_format=shown, miniters=0, leave=False) as bar:

        def advance(share: float) -> None:
            with lock:
                bar.update(share)

        yield advance
