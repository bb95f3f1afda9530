"""A desk of its own for every test: a folder with networks, rows and what the commands are told."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

from dpgraph.cli import main
from tests.cli.commands import run

NETWORK = """
[variables]
sex = ["F", "M"]
age = { bins = [17, 25, 50.5, 90], missing = true }
rate = [0, 1.5]
[parents]
sex = []
age = ["sex"]
rate = ["age"]
"""
PAY = """
[variables]
area = { levels = ["N", "NA", "none"], missing = "NA" }
age = { bounds = [18, 90], missing = 30 }
pay = { bounds = [0, 100] }
"""
LOG = """
[variables]
region = ["N", "S"]
month = [1, 2, 3]
kind = ["a", "b"]
"""


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, text in (("net.toml", NETWORK), ("pay.toml", PAY), ("log.toml", LOG)):
        (tmp_path / name).write_text(text)
    area = rng.choice(["N", "NA", "none"], 200)
    pay = pd.DataFrame({"area": area, "age": rng.uniform(18, 90, 200), "pay": 20 + 30 * (area == "NA")})
    log = pd.DataFrame({"region": rng.choice(["N", "S"], 200), "month": rng.integers(1, 4, 200)}).assign(kind="a")
    rows = pd.DataFrame({"sex": ["F", "M"] * 50, "age": rng.uniform(17, 90, 100), "rate": [0, 0, 1.5, 1.5] * 25})
    for name, table in (("pay", pay), ("log", log), ("rows", rows)):
        table.to_csv(f"{name}.csv", index=False)
    return tmp_path


@pytest.fixture(name="run")
def _run():
    """Runs a command; see ``tests.cli.commands``."""
    return run


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_terminal(monkeypatch):
    """Runs a command whose stderr is a terminal; what it shows there."""

    def shown(*words):
        monkeypatch.setattr(sys, "stderr", Terminal())
        main([str(word) for word in words], standalone_mode=False)
        return sys.stderr.getvalue()

    return shown
