"""Tasks for workers on other machines, which return their errors as values.

An engine logs what its workers raise, and an exception raised while reading rows may repeat one. So a worker returns
its counts or a refusal in the words of the declared check, and raises nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from dpgraph import __version__
from dpgraph.structure.conversion import converted
from dpgraph.structure.domain import DomainError

#: A refusal, or the counts of a part of the rows, or what else a task makes of it.
Answer = tuple[str | None, Any]


def worker_task(task: Callable[[Any], Any]) -> Callable[[Any], Answer]:
    """A task for a worker, which first checks that the worker has dpgraph of the same version.

    Args:
        task: A module's function, or a partial of one, of what the engine gives its worker; it is pickled.
    """
    pickled, version = pickle.dumps(task), __version__

    def run(rows: Any) -> Any:
        """Imports nothing of dpgraph before checking that it is installed."""
        try:
            import dpgraph
        except ImportError:
            return f"a worker cannot import dpgraph; install dpgraph {version} on every worker", None
        if dpgraph.__version__ != version:
            return f"a worker has dpgraph {dpgraph.__version__}; install dpgraph {version} on every worker", None
        from dpgraph.statistics.engines.remote import run_task

        return run_task(pickled, rows)

    return run


def run_task(pickled: bytes, rows: Any) -> Answer:
    """Runs a task on a worker; errors are returned, so that the engine does not log them."""
    try:
        task, problem = pickle.loads(pickled), "a worker could not count its rows"
        return None, converted(lambda: task(rows), problem, passing=(DomainError,), quiet=False)
    except Exception as error:
        return str(error), None


def merge_answers(answers: list[Answer]) -> Answer:
    """One answer for many: the first refusal, or the sum of the counts."""
    refusals = [refusal for refusal, _ in answers if refusal is not None]
    if refusals:
        return refusals[0], None
    return None, reduce(np.add, [vector for _, vector in answers if vector is not None])
