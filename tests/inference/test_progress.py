"""A fit that waits for numba says so once, on a terminal or not; one whose loops are on disk says nothing."""

import subprocess
import sys

import pytest

from dpgraph.inference._kernels import COMPILING

OWN_LOOPS = """
import sys
import numpy as np
from dpgraph.inference import _kernels

def doubled(x):
    return np.full(2, x).sum()

def sweep(x):
    return doubled(x) + doubled(1) - 2

_kernels.SECONDS["own_loops.sweep"] = 7
if __name__ != "__main__":
    loop = _kernels.compiled(sweep)
    part = _kernels._callable("own_loops", True, ())["doubled"]
    print(loop(2), loop(2), len(part.signatures))
"""
#: A loop of somebody else that calls what ours calls, then whether ours and theirs were compiled by themselves.
THEIRS = """
import numba, numpy as np, own_loops

@numba.njit
def filled(x):
    return np.full(2, x).sum()

@numba.njit
def theirs(x):
    return filled(x) + np.full(3, x).sum()

print(theirs(2), filled(3))
print(*(one.library._compiled for loop in (own_loops.part, filled) for one in loop.overloads.values()))
"""


@pytest.fixture
def run(tmp_path):
    """A process that calls a loop of a module whose code numba keeps beside it; its output and what it said."""
    (tmp_path / "own_loops.py").write_text(OWN_LOOPS)

    def ended(words="import own_loops"):
        command = [sys.executable, "-c", words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout, done.stderr

    return ended


def test_it_is_said_once_before_the_first_call_and_not_in_the_next_process(run):
    """A constant and a number are one type: the inner loop is compiled once."""
    assert run() == ("4 4 1\n", COMPILING.format(seconds=7) + "\n")
    assert run() == ("4 4 0\n", "")


def test_a_process_without_stderr_compiles_in_silence(run):
    assert run("import sys; sys.stderr = None; import own_loops") == ("4 4 1\n", "")


def test_what_a_loop_calls_is_compiled_in_it_alone_and_other_peoples_loops_as_ever(run):
    assert run(THEIRS)[0] == "4 4 1\n10 6\nFalse True\n"
