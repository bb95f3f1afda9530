"""What workers are asked before they are given a row: their Python, and their dpgraph.

The question travels without rows, so what an engine says when it fails may be told in full.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from dpgraph import __version__
from dpgraph.structure.domain import DomainError

T = TypeVar("T")

#: How much is told of what an engine says.
MOST_TOLD = 1000


def question() -> Callable[[], dict[str, str]]:
    """What a worker is asked; made without dpgraph, which a worker may lack."""

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
    """The answer to a question that holds no rows.

    Args:
        ask: Asks an engine.
        told: What a refusal says, of what the engine says of its failure.

    Raises:
        DomainError: If the engine fails, without cause and context.
    """
    try:
        return ask()
    except Exception as error:
        said = str(error)
    raise DomainError(told(said))


def check_workers(answers: Iterable[Mapping[str, str]], setting: str) -> None:
    """Refuses workers on another Python, or without this dpgraph, saying which and what mends it.

    Args:
        answers: What workers answered to ``question``.
        setting: The engine's setting that says which Python its workers run.

    Raises:
        DomainError: Naming the first such worker's Python.
    """
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
    """The minor version of this process, which its workers must share.

    >>> this_python().count(".")
    1
    """
    return ".".join(platform.python_version_tuple()[:2])


def other_python(theirs: str, setting: str, which: str = "") -> str:
    """What is said of workers on another Python.

    >>> other_python("3.9", "set PYSPARK_PYTHON to another").partition(",")[0]
    'the workers run Python 3.9'
    """
    where = f" ({which})" if which else ""
    return f"the workers run Python {theirs}{where}, this process {this_python()}: {setting}. No row was read"


def in_short(said: str) -> str:
    r"""An engine's words without the stack of its virtual machine.

    >>> in_short("Job aborted: no Python\n\tat java.base/x(Y.java:1)\nCaused by: z")
    'Job aborted: no Python Caused by: z'
    """
    lines = [line.strip() for line in said.splitlines()]
    return " ".join(line for line in lines if line and not re.match(r"at [\w.$/]+\(|\.\.\. \d+ more", line))[:MOST_TOLD]
