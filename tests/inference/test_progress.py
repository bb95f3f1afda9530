"""A fit that waits for numba says so, on a terminal and once; one whose loops are on disk says nothing."""

import io
import sys

import numba
import pytest

from dpgraph.inference._kernels import COMPILING, say_that_loops_are_compiled


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """A module of its own whose code numba keeps beside it, as an installation does."""
    (tmp_path / "own_loops.py").write_text("def doubled(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_loops

    yield lambda: numba.njit(own_loops.doubled, cache=True)
    del sys.modules["own_loops"]


def said(loop, monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    say_that_loops_are_compiled([loop])
    return stream.getvalue()


def test_it_is_said_before_the_first_call_and_not_in_the_next_process(loop, monkeypatch):
    first = loop()
    assert said(first, monkeypatch, Terminal()) == f"{COMPILING}\n"
    assert first(2) == 4
    assert said(first, monkeypatch, Terminal()) == ""
    assert said(loop(), monkeypatch, Terminal()) == ""  # a dispatcher that has run nothing, as in a new process


def test_nobody_is_told_where_nobody_looks(loop, monkeypatch):
    assert said(loop(), monkeypatch, io.StringIO()) == ""
