"""The layers, the privacy wall and the homes of foreign engines hold, and breaking each one is noticed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(folder):
    """Runs import-linter on a copy of the package."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    import shutil

    shutil.copytree(ROOT / "dpgraph", tmp_path / "dpgraph", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_holds(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("structure/network.py", "import dpgraph.statistics.counts", "a module imports only from lower layers"),
        (
            "mechanisms/additive/laplace.py",
            "import dpgraph.inference.network.queries",
            "a module imports only from lower layers",
        ),
        ("inference/network/plug_in.py", "import dpgraph.statistics.rows.codes", "the privacy wall"),
        ("models/naive_bayes.py", "import dpgraph.privacy.accounting", "the privacy wall"),
        ("structure/tables.py", "import dpgraph.privacy.release", "the privacy wall"),
        (
            "mechanisms/additive/laplace.py",
            "import dpgraph.privacy.seeded_noise",
            "seeded and recording noise is out of reach",
        ),
        ("privacy/release.py", "import dpgraph.privacy.recording_noise", "seeded and recording noise is out of reach"),
        ("cli/output.py", "import dpgraph.testing", "seeded and recording noise is out of reach"),
        ("mechanisms/additive/laplace.py", "import opendp.measurements", "opendp lives in privacy.noise"),
        (
            "mechanisms/additive/gaussian.py",
            "import dp_accounting.pld",
            "dp-accounting lives in privacy.loss_distributions",
        ),
        ("privacy/ledger/sqlite.py", "import psycopg", "psycopg lives in privacy.ledger.postgres"),
        ("models/naive_bayes.py", "import dpgraph.privacy.ledger.account", "the privacy wall"),
        ("inference/network/queries.py", "import pgmpy.models", "pgmpy lives in files.pgmpy"),
        ("audit/calibrating.py", "import matplotlib.axes", "matplotlib lives in plot"),
        ("inference/network/draws.py", "import arviz_base", "arviz lives in files.arviz"),
        ("structure/tables.py", "import pyarrow", "pyarrow lives in statistics and files"),
        ("statistics/engines/total.py", "import pyspark.sql", "pyspark lives in statistics.engines.spark"),
        ("files/networks.py", "import dask.dataframe", "dask lives in statistics.engines.dask"),
        ("statistics/rows/parquet.py", "import fsspec", "fsspec lives in statistics.rows.places"),
        ("models/naive_bayes.py", "import sklearn.base", "scikit-learn lives in estimators"),
        ("analysis/cost.py", "import click", "click lives in cli"),
        ("inference/network/queries.py", "import opt_einsum", "opt_einsum lives in inference.queries"),
        ("pages/learned.py", "import dpgraph.statistics.counts", "pages are of public values"),
        ("pages/released.py", "import dpgraph.privacy.release", "pages are of public values"),
        ("cli/output.py", "import jinja2", "jinja2 lives in pages"),
        ("inference/network/by_records.py", "import numba", "numba lives in modules named _kernels"),
    ],
)
def test_a_broken_contract_is_reported(copy, module, line, broken):
    path = copy / "dpgraph" / module
    path.write_text(path.read_text() + f"\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert f"{broken}" in done.stdout
    assert "BROKEN" in done.stdout


def test_a_new_room_must_be_placed_in_a_layer(copy):
    (copy / "dpgraph" / "utils.py").write_text('"""A room without a place."""\n')
    done = lint(copy)
    assert done.returncode == 1
    assert "utils" in done.stdout


def test_the_public_names_are_those_that_are_listed():
    import dpgraph as dg

    assert set(dg._HOMES) == set(dg.__all__)
    for name in dg.__all__:
        assert getattr(dg, name).__name__.rpartition(".")[2] == name  # a module's name is dotted


ENGINES = [
    "pandas",
    "scipy",
    "sklearn",
    "pgmpy",
    "pyarrow",
    "opendp",
    "matplotlib",
    "networkx",
    "dp_accounting",
    "psycopg",
    "sqlite3",
    "arviz_base",
    "arviz_stats",
    "numba",
    "pyspark",
    "dask",
]
HELP = "import sys; from dpgraph.cli import main; main({words}, standalone_mode=False)"


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import sys, dpgraph", ["numpy", "click", *ENGINES]),
        ("import sys; from dpgraph import *", ["click", "pgmpy", "matplotlib", "numba", "pyspark", "dask"]),
        (HELP.format(words=["--help"]), ["numpy", *ENGINES]),
        (HELP.format(words=["--version"]), ["numpy", *ENGINES]),
        (HELP.format(words=["cost", "--help"]), ENGINES),
        (HELP.format(words=["fit", "naive-bayes", "--help"]), ENGINES),
    ],
)
def test_starting_up_loads_no_engine(program, heavy):
    program += f"; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_no_cache_of_what_callers_bring_grows_without_bound():
    """In a service that runs for months each network and setting would stay in memory."""
    found = []
    for path in sorted((ROOT / "dpgraph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (node.args.args or node.args.kwonlyargs):
                names = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
                if names & {"cache", "lru_cache(None)", "lru_cache(maxsize=None)"}:
                    found.append(path.relative_to(ROOT / "dpgraph").as_posix() + f"::{node.name}")
    assert found == []


def test_style():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
