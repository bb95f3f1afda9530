"""Faults that a private library must never have, planted one at a time in a copy of the package.

Each is one textual change. The runner applies it, runs the named tests, and the mutant dies when one of them fails.
``python -m tests.mutants`` prints which test killed which.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants.anchors import replaced

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One planted fault: in which file, what becomes what, and the tests that must notice.

    ``within`` names the function or class that holds the old text, where it is elsewhere in the file too. A fault of
    scale, sensitivity, charge or order of charge that a quick test notices is planted in the first tier too: ``first``.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    within: str = ""
    first: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed, and the first that did."""

    killed: bool
    by: str
    output: str
    seconds: float


def planted(mutant: Mutant, package: Path = ROOT / "dpgraph") -> str:
    """The text of a mutant's file with its fault.

    Raises:
        AssertionError: If its text is not there once, or the fault is no Python.
    """
    try:
        text = replaced((package / mutant.file).read_text(), mutant.old, mutant.new, mutant.within)
        compile(text, mutant.file, "exec")
    except (LookupError, SyntaxError) as error:
        raise AssertionError(f"mutant {mutant.name!r}: {error}") from error
    if "self._seeded()" in mutant.new:
        text += (
            "\n\ndef _seeded(self: Any) -> Any:\n    from dpgraph.privacy.seeded_noise import SeededNoise\n\n"
            "    return None if self.random_state is None else SeededNoise(self.random_state)\n\n\n"
            "PrivateNaiveBayes._seeded = _seeded\n"
        )
    return text


def plant(folder: Path, mutant: Mutant | None) -> None:
    """Links the package and its tests into a folder, and plants a fault there.

    Compiled code is linked too, but for that of the planted file, and of all kernels where one of them is planted: a
    compiled function may hold another.
    """
    for name in ("dpgraph", "tests"):
        shutil.copytree(_base() / name, folder / name, copy_function=os.link)
    shutil.copy(ROOT / "pyproject.toml", folder)
    if mutant is None:
        return
    path = folder / "dpgraph" / mutant.file
    text = planted(mutant)
    path.unlink()
    path.write_text(text)
    old = [*path.parent.glob(f"__pycache__/{path.stem}.*")]
    for compiled in old + [*(folder / "dpgraph").rglob("__pycache__/*.nb[ic]")] * (path.stem in ("_kernels", "loops")):
        compiled.unlink(missing_ok=True)


@cache
def _base() -> Path:
    """A copy of the package and its tests that folders link to, so that no link leads to the files themselves."""
    folder = Path(tempfile.mkdtemp(prefix="planted-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("dpgraph", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("mutants"))
    return folder


@cache
def _zygote() -> subprocess.Popen[str]:
    """The process that runs the tests, started once."""
    command = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
    own = {name: value for name, value in os.environ.items() if name != "CI"}  # else a skip would pass for a death
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=own)
    atexit.register(process.terminate)
    return process


def run(folder: Path, tests: tuple[str, ...]) -> Verdict:
    """Runs tests in the copy, up to the first failure; properties try the same examples in every run.

    A fault that keeps the tests from being collected at all is no fault of the kind planted here, and is not dead.
    """
    zygote = _zygote()
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    print(json.dumps({"folder": str(folder), "tests": tests}), file=zygote.stdin, flush=True)
    done = json.loads(zygote.stdout.readline())
    return Verdict(done["code"] == 1 and done["by"] != "", done["by"], done["output"][-2000:], done["seconds"])


def unplanted(tests: Iterable[str]) -> str:
    """What tests say where nothing is planted, run in the same way but all in one process; empty if all pass."""
    distinct = tuple(dict.fromkeys(tests))
    output = run(_unplanted(), distinct).output
    return "" if re.search(rf"(?m)^{len(distinct)} passed( in|,)", output) and " skipped" not in output else output


@cache
def _unplanted() -> Path:
    """A folder without a fault."""
    folder = Path(tempfile.mkdtemp(prefix="unplanted-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plant(folder, None)
    return folder
