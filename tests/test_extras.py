"""Each extra that is missing is named, with the command that installs it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.systems

MADE = """
import pandas as pd
import dpgraph as dg
from dpgraph import plot
network, budget = dg.Network.of({"a": ["x", "y"]}, {}), dg.Budget(1)
released = dg.release(dg.count(pd.DataFrame({"a": ["x", "y"]}), network), dg.LaplaceMechanism(1), budget=budget)
draws = dg.posterior(released, method="tables", draws=2)
"""
CALLS = {
    "plot": ["plot.cost_curves(dg.privacy_cost(network, epsilon=1))", "plot.posterior(draws, 'a')"],
    "arviz": ["dg.to_datatree(draws)"],
    "pld": ["budget.cost(method='pld', delta=1e-6)"],
    "team": ["dg.Budget.open('postgresql://nobody@localhost/none', dataset='survey', epsilon=1)"],
}
LIBRARIES = {"plot": "matplotlib", "arviz": "arviz_base", "pld": "dp_accounting", "team": "psycopg"}


@pytest.mark.parametrize("extra", CALLS)
def test_a_missing_extra_is_named_with_its_command(extra):
    program = f"import sys; sys.modules[{LIBRARIES[extra]!r}] = None{MADE}"
    for call in CALLS[extra]:
        program += (
            f"try:\n    {call}\nexcept (ImportError, dg.errors.DPGraphError) as error:\n    print(error)\n"
            "else:\n    print('no error')\n"
        )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == len(CALLS[extra])
    for line in said:
        assert line.endswith(f"pip install 'dpgraph[{extra}]'"), line
