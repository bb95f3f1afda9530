"""What each command leaves unloaded, in a process of its own: loading libraries is most of a short command's time."""

import subprocess
import sys

import numpy as np
import pytest

import dpgraph as dg

pytestmark = pytest.mark.systems

#: What only rows, other people's networks, samplers, pictures and clusters need.
ROWS = ("pandas", "pyarrow", "pyspark", "dask", "polars", "duckdb")
MODELS = ("pgmpy", "networkx", "sklearn", "numba", "arviz_stats", "arviz_base", "matplotlib", "tqdm")
#: Parts of scipy beside its special functions, which noise laws need.
SCIPY = ("scipy.stats", "scipy.signal", "scipy.sparse", "scipy.optimize")
BEFORE_ROWS = (*ROWS, *MODELS, *SCIPY, "opt_einsum")
NUMBERS = ("scipy", "opendp")


@pytest.fixture
def model(tmp_path):
    """A saved model of two variables and draws of it."""
    network = dg.Network.of({"a": ["x", "y"], "b": [0, 1]}, {"b": ["a"]})
    rng = np.random.default_rng(0)
    counts = dg.count(dg.statistics.Codes(network.domain, {name: rng.integers(0, 2, 50) for name in "ab"}), network)
    noise = dg.testing.SeededNoise(0)
    released = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=noise)
    dg.save(dg.posterior(released, method="plug-in"), tmp_path / "m.npz")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("--help", (*BEFORE_ROWS, *NUMBERS, "numpy")),
        ("release --help", (*BEFORE_ROWS, *NUMBERS, "numpy")),
        ("cost example:asia --epsilon 1", BEFORE_ROWS),
        ("cost example:asia --epsilon 1 --n 100 --json", BEFORE_ROWS),
        ("cost example:asia --epsilon 1 --delta 1e-6 --own --neighbours add-remove", BEFORE_ROWS),
        ("release none.csv --network example:asia --epsilon 1 --dry-run", BEFORE_ROWS),
        ("release none.csv --network example:asia --epsilon 1 --mechanism fourier --dry-run", BEFORE_ROWS),
        ("fit naive-bayes none.csv --domain example:asia --target lung --epsilon 1 --dry-run", BEFORE_ROWS),
        ("query m.npz --target a --given b=1", (*ROWS, *MODELS, *NUMBERS)),
    ],
)
def test_what_a_command_leaves_unloaded(model, words, absent):
    program = (
        "import sys; from dpgraph.cli import main\n"
        f"main({words.split()}, standalone_mode=False)\n"
        f"print([name for name in {absent} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=model, capture_output=True, text=True, check=True)
    *shown, loaded = done.stdout.splitlines()
    assert shown
    assert loaded == "[]"


def test_a_report_is_made_without_frames_until_one_is_asked_for():
    program = (
        "import sys, dpgraph as dg\n"
        "report = dg.privacy_cost(dg.read_network('example:asia'), epsilon=1)\n"
        "print(len(report.family_rows), 'pandas' in sys.modules)\n"
        "print(len(report.nodes), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "False", "8", "True"]
