"""What is sent to another machine: a task that looks for dpgraph there, and answers instead of raising.

An engine logs what its workers raise, and text raised in the middle of rows may repeat one. So a worker answers with
its counts or with a refusal that says what the declared check says, and raises nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph import __version__
from dpgraph.structure.domain import DomainError

Integers = npt.NDArray[np.int64]

#: A refusal, or the counts of a part of the rows.
Answer = tuple[str | None, Integers | None]


def errand(task: Callable[[Any], Integers]) -> Callable[[Any], Answer]:
    """A task as it travels: by value up to the point where dpgraph is found at the other end, of the same version.

    Args:
        task: A module's function, or a partial of one, of what the engine gives its worker; it is pickled.
    """
    cargo, version = pickle.dumps(task), __version__

    def run(rows: Any) -> Any:
        """Imports nothing of dpgraph before it knows that there is one."""
        try:
            import dpgraph
        except ImportError:
            return f"a worker cannot import dpgraph; install dpgraph {version} on every worker", None
        if dpgraph.__version__ != version:
            return f"a worker has dpgraph {dpgraph.__version__}; install dpgraph {version} on every worker", None
        from dpgraph.statistics.errands import answer

        return answer(cargo, rows)

    return run


def answer(cargo: bytes, rows: Any) -> Answer:
    """Does a task on a worker and keeps what it raises from the engine's logs."""
    try:
        return None, pickle.loads(cargo)(rows)
    except DomainError as error:
        return str(error), None
    except Exception as error:
        return f"a worker could not count its rows ({type(error).__name__})", None


def merged(answers: list[Answer]) -> Answer:
    """One answer for many: the first refusal, or the sum of the counts."""
    refusals = [refusal for refusal, _ in answers if refusal is not None]
    if refusals:
        return refusals[0], None
    return None, reduce(np.add, [vector for _, vector in answers if vector is not None])
