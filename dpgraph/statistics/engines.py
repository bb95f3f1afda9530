"""Where rows are counted: in memory, in batches by a few threads, or on the cluster that holds them.

Law: every engine adds the vectors of the same tally over parts that hold each row once, so all give the same integers.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

from dpgraph.statistics import parquet
from dpgraph.statistics.arrow import batches, existing, foreign_engine
from dpgraph.statistics.batches import Batch
from dpgraph.statistics.codes import Codes, encode_batch
from dpgraph.statistics.parts import Integers, Tally
from dpgraph.structure.domain import DomainError

Part = TypeVar("Part")

#: Threads that decode, encode and count; each holds one batch, so they bound the memory too.
THREADS = 4


def total(rows: Any, tally: Tally, engine: Any = None, progress: bool = False) -> Integers:
    """The counts of all rows, wherever they lie. Sensitive.

    Args:
        rows: As ``count`` takes them.
        tally: Counts any part of them.
        engine: Who reads the row groups of a Parquet path: None for threads here, a ``SparkSession`` or ``"dask"``.
        progress: Shows a bar on stderr, where that is a terminal.

    Raises:
        DomainError: If the rows do not fit the tally's domain, or the engine does not take them.
    """
    library = foreign_engine(rows)
    if engine is not None:
        return _on_cluster(engine, rows, tally)
    if library == "pyspark":
        from dpgraph.statistics.spark import count_frame

        return count_frame(rows, tally)
    if library == "dask":
        from dpgraph.statistics.dask import count_frame

        return count_frame(rows, tally)
    if isinstance(rows, Codes):
        vector = tally.zero()
        tally(rows, vector)
        return vector
    if isinstance(rows, str | Path) and _is_parquet(existing(rows)):
        pieces = parquet.pieces(Path(rows), tally.domain)
        with _bar(progress, "counting {percentage:3.0f}%|{bar}| {elapsed}") as advance:
            return _pieces(pieces, tally, advance)
    with _bar(progress, "counting {elapsed}") as advance:
        return _stream(batches(rows, tally.domain), tally, advance)


def _on_cluster(engine: Any, rows: Any, tally: Tally) -> Integers:
    """The workers of an engine read a Parquet path."""
    if not isinstance(rows, str | Path) or not _is_parquet(existing(rows)):
        raise DomainError(
            f"engine is for the path of a Parquet file or folder; got {type(rows).__name__}. Other rows are counted "
            "where they are: leave engine out"
        )
    pieces = parquet.pieces(Path(rows).absolute(), tally.domain)
    if type(engine).__module__.partition(".")[0] == "pyspark" and hasattr(engine, "createDataFrame"):
        from dpgraph.statistics.spark import count_path

        return count_path(engine, pieces, tally)
    if isinstance(engine, str) and engine == "dask":
        from dpgraph.statistics.dask import count_path

        return count_path(pieces, tally)
    raise DomainError(f"engine must be a SparkSession or 'dask'; got {engine!r}")


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or parquet.is_parquet(path)


def _stream(found: Iterable[tuple[Batch, bool]], tally: Tally, advance: Callable[[float], None]) -> Integers:
    """Threads encode and count what one reads."""

    def work(part: tuple[Batch, bool], stopped: Event) -> Integers:
        batch, is_text = part
        vector = tally.zero()
        tally(encode_batch(batch, tally.domain, is_text), vector)
        advance(0)
        return vector

    return _sum(found, work, tally)


def _pieces(pieces: list[parquet.Piece], tally: Tally, advance: Callable[[float], None]) -> Integers:
    """Threads read and count the pieces; a single one is decoded by threads instead."""
    rows = sum(piece.sensitive_rows for piece in pieces)

    def work(piece: parquet.Piece, stopped: Event) -> Integers:
        vector = tally.zero()
        for batch in parquet.read(piece, tally.domain, threads=len(pieces) == 1):
            if stopped.is_set():
                break
            codes = encode_batch(batch, tally.domain)
            tally(codes, vector)
            advance(codes.sensitive_rows / rows)
        return vector

    return _sum(pieces, work, tally)


def _sum(parts: Iterable[Part], work: Callable[[Part, Event], Integers], tally: Tally) -> Integers:
    """Adds what threads make of each part, with few parts in flight; the first part that fails stops the others."""
    vector, stopped, waiting = tally.zero(), Event(), deque[Future[Integers]]()
    found = iter(parts)
    first = list(islice(found, 2))
    workers = min(THREADS, os.cpu_count() or 1)
    if len(first) < 2 or workers == 1:
        for part in chain(first, found):
            vector += work(part, stopped)
        return vector
    with ThreadPoolExecutor(workers) as pool:
        try:
            for part in chain(first, found):
                waiting.append(pool.submit(work, part, stopped))
                if len(waiting) > workers:
                    vector += waiting.popleft().result()
            while waiting:
                vector += waiting.popleft().result()
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)
    return vector


@contextmanager
def _bar(progress: bool, shown: str) -> Iterator[Callable[[float], None]]:
    """A bar that takes shares of the whole, on a terminal alone; it shows no number of rows."""
    if not progress or not sys.stderr.isatty():
        yield lambda share: None
        return
    from tqdm import tqdm

    lock = Lock()
    with tqdm(total=1, bar_format=shown, miniters=0, leave=False) as bar:

        def advance(share: float) -> None:
            with lock:
                bar.update(share)

        yield advance
