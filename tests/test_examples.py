"""The numbered examples run from a fresh process at the root of the repository, and say what they showed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.systems

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def test_examples_are_numbered_in_reading_order():
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_it_showed(path):
    words = [sys.executable, "-W", "ignore:the chains have not mixed", str(path)]  # whether they warn is luck
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Shown: " in done.stdout
    said = [line for line in done.stderr.splitlines() if not line.startswith("compiling the sampler once")]
    assert said == []
