"""The ways in: the console script, ``python -m`` and the function are one command, and none loads what it needs not."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import dpgraph as dg
from dpgraph.cli import main


def test_the_console_script_is_this_command():
    (script,) = entry_points(group="console_scripts", name="dpgraph")
    assert script.load() is main


def test_as_a_module():
    program = [sys.executable, "-m", "dpgraph.cli"]
    done = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
    assert dg.__version__ in done.stdout
    wrong = subprocess.run([*program, "sample"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Usage: python -m dpgraph.cli sample" in wrong.stderr


@pytest.mark.parametrize("words", [["fit", "hmm"], ["fit", "regression"], ["predict"], ["sample"], ["query"]])
def test_help_loads_nothing_heavy(words):
    heavy = ["pandas", "pyarrow", "scipy", "sklearn", "tqdm"]
    program = (
        "import sys; from dpgraph.cli import main\n"
        f"main({[*words, '--help']}, standalone_mode=False)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_query_of_a_saved_model_loads_no_heavy_library(tmp_path):
    """Start-up is most of its time; the ways in are the quick reader of files and exact sums without pgmpy."""
    network = dg.Network.of({"a": ["x", "y"], "b": [0, 1]}, {"b": ["a"]})
    dg.save(dg.Probabilities(network, {"a": [0.5, 0.5], "b": [[0.5, 0.1], [0.5, 0.9]]}), tmp_path / "m.json")
    heavy = ["pandas", "pyarrow", "scipy", "sklearn", "numba", "pgmpy", "networkx", "tqdm"]
    program = (
        "import sys; from dpgraph.cli import main\n"
        f"main(['query', r'{tmp_path / 'm.json'}', '--target', 'a', '--given', 'b=1'], standalone_mode=False)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "0.3571" in done.stdout
