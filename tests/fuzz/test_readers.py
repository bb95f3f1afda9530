"""Some seconds of what ``python -m tests.fuzz`` does for minutes, and that it finds what it looks for."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

import dpgraph as dg
from tests.fuzz.readers import READERS
from tests.fuzz.running import fuzz

pytestmark = pytest.mark.systems

#: Files for each reader, some three seconds on an idle machine.
RUNS = {"bif": 300, "toml": 200, "json": 1000, "documents": 300, "archives": 200, "schemas": 500}


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_read_or_refused(name):
    outcome = fuzz(READERS[name], seed=1, runs=RUNS[name])
    assert outcome.findings == {}
    assert outcome.runs == RUNS[name]
    assert 0 < outcome.read < outcome.runs


def raises(error):
    def read(path):
        if path.read_bytes() != b"seed":
            raise error

    return read


def computes(path):
    if path.read_bytes() != b"seed":
        while time.process_time():
            pass


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (raises(KeyError("x")), "KeyError at test_readers.py"),
        (raises(RecursionError()), "RecursionError at test_readers.py"),
        (raises(dg.errors.DomainError("x")), "DomainError at test_readers.py"),
        (raises(dg.errors.FileError("x" * 2000)), "a message of 2000 characters"),
        (raises(UserWarning("x")), "UserWarning"),
        (lambda path: computes(path), "slow in"),
    ],
    ids=["another error", "recursion", "another class", "a long message", "a warning", "a loop"],
)
def test_what_a_reader_must_not_do_is_found(read, what):
    planted = replace(READERS["bif"], seeds=lambda: [b"seed"], read=read)
    found = fuzz(planted, seed=1, runs=1 if what == "slow in" else 20).findings
    assert any(what in finding for finding in found), found


def test_each_reader_of_files_is_fed():
    """A reader is what opens a file by a path it is given; a new one needs a line in ``tests.fuzz.readers``."""
    opening = set()
    root = Path(dg.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if any(
            word in text
            for word in ("read_text(", "read_bytes(", "ipc.open_file(", "tomllib.", "zipfile.", "open_csv(")
        ):
            opening.add(str(path.relative_to(root)))
    assert opening == {
        "files/documents.py",  # documents
        "files/limits.py",
        "files/networks.py",  # toml, json, bif
        "files/packed.py",  # archives
        "files/pgmpy.py",  # pgmpy's own files
        "files/queried.py",  # documents
        "memory.py",  # what the system says of itself, none of a user's files
        "pages/writing.py",  # the package's own templates
        "statistics/rows/files.py",  # rows, by pyarrow: tests/privacy/test_canary.py
    }
