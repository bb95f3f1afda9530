"""Questions to workers on other machines before they get a row, and their tasks, which return errors as values.

The question travels without rows, so what an engine says when it fails may be told. An engine logs what its workers
raise, which may repeat a row: so a task returns counts or a refusal in public words, and raises nothing.
"""

from __future__ import annotations

import pickle
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from dpgraph import __version__
from dpgraph.structure.conversion import PublicWords
from dpgraph.structure.domain import DomainError

T = TypeVar("T")
#: A refusal, or the counts of a part of the rows, or what else a task makes of it.
Answer = tuple[str | None, Any]
#: How much is told of what an engine says.
MOST_TOLD = 1000


def worker_task(task: Callable[[Any], Any]) -> Callable[[Any], Answer]:
    """A pickled task for a worker, a module's function or a partial of one, which first checks the worker's dpgraph."""
    pickled, version = pickle.dumps(task), __version__

    def run(rows: Any) -> Any:
        """Imports nothing of dpgraph before checking that it is installed."""
        try:
            import dpgraph
        except ImportError:
            return f"a worker cannot import dpgraph; install dpgraph {version} on every worker", None
        if dpgraph.__version__ != version:
            return f"a worker has dpgraph {dpgraph.__version__}; install dpgraph {version} on every worker", None
        from dpgraph.statistics.engines.workers import run_task

        return run_task(pickled, rows)

    return run


def run_task(pickled: bytes, rows: Any) -> Answer:
    """Runs a task on a worker; errors are returned, so that the engine does not log them."""
    try:
        task = pickle.loads(pickled)
        with PublicWords("a worker could not count its rows", passing=(DomainError,), quiet=False):
            return None, task(rows)
    except Exception as error:
        return str(error), None


def merge_answers(answers: list[Answer]) -> Answer:
    """One answer for many: the first refusal, or the sum of the counts."""
    refusals = [refusal for refusal, _ in answers if refusal is not None]
    if refusals:
        return refusals[0], None
    return None, reduce(np.add, [vector for _, vector in answers if vector is not None])


def question() -> Callable[[], dict[str, str]]:
    """The question to a worker; made without dpgraph, which a worker may lack."""

    def answer() -> dict[str, str]:
        import sys
        from importlib import import_module

        major, minor = sys.version_info[:2]
        said = {"python": f"{major}.{minor}", "executable": sys.executable or "unknown", "dpgraph": "", "problem": ""}
        try:
            said["dpgraph"] = import_module("dpgraph").__version__
            import_module("dpgraph.statistics.counts")  # and its own imports
        except Exception as error:
            said["problem"] = f"{type(error).__name__}: {error}"
        return said

    return answer


def asked(ask: Callable[[], T], told: Callable[[str], str]) -> T:
    """The answer of an engine to a question that holds no rows; a failure is refused by ``told`` of its words."""
    try:
        return ask()
    except Exception as error:
        said = str(error)
    raise DomainError(told(said))


def check_workers(answers: Iterable[Mapping[str, str]], setting: str) -> None:
    """Refuses workers on another Python or without this dpgraph, and names the engine's setting that mends it."""
    for answer in answers:
        python, which = answer["python"], answer["executable"]
        if python != this_python():
            raise DomainError(other_python(python, setting, which))
        if not answer["dpgraph"]:
            why = f"a worker cannot import dpgraph ({answer['problem']})"
        elif answer["dpgraph"] != __version__:
            why = f"a worker has dpgraph {answer['dpgraph']}"
        elif answer["problem"]:
            why = f"a worker cannot use its dpgraph {__version__} ({answer['problem'][:MOST_TOLD]})"
        else:
            continue
        raise DomainError(
            f"{why}; install dpgraph {__version__} on every worker, {which} -m pip install dpgraph=={__version__}, or "
            f"{setting}. No row was read"
        )


def this_python() -> str:
    """The minor version of this process, which its workers must share."""
    return ".".join(platform.python_version_tuple()[:2])


def other_python(theirs: str, setting: str, which: str = "") -> str:
    """The refusal of workers on another Python."""
    where = f" ({which})" if which else ""
    return f"the workers run Python {theirs}{where}, this process {this_python()}: {setting}. No row was read"


def in_short(said: str) -> str:
    r"""An engine's words without the stack of its virtual machine."""
    lines = [line.strip() for line in said.splitlines()]
    return " ".join(line for line in lines if line and not re.match(r"at [\w.$/]+\(|\.\.\. \d+ more", line))[:MOST_TOLD]
