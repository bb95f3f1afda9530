"""``dpgraph posterior --public``: a file of public rows as a prior."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg


def test_a_public_table_is_a_prior(run, desk):
    run("release", "rows.csv", "--network", "net.toml", "--epsilon", "5", "--out", "r.json")
    asked = ["posterior", "r.json", "--public", "rows.csv", "--draws", "20", "--seed", "0", "--out", "m.json"]
    assert "wrote m.json" in run(*asked).stderr
    prior, made = dg.PublicPrior(pd.read_csv(desk / "rows.csv")), dg.load(desk / "m.json")
    with pytest.warns(dg.errors.ConvergenceWarning):
        same = dg.posterior(dg.load(desk / "r.json"), prior=prior, draws=20, seed=0)
    assert all(np.array_equal(made.flat(name), same.flat(name)) for name in same.tables)
    assert "leave --prior out" in run(*asked, "--prior", "1", code=2).stderr
    (desk / "less.csv").write_text("sex\nF\n")
    assert "rate" in run(*asked[:3], "less.csv", *asked[4:], code=1).stderr
