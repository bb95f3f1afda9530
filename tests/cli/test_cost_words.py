"""``dpgraph cost`` says in a sentence what its numbers mean for what to do."""

import pytest

import dpgraph as dg


def test_the_dearest_arc_is_told_with_what_leaving_it_out_would_buy(run):
    dearest = dg.privacy_cost(dg.read_network("net.toml"), epsilon=1).arcs.iloc[0]
    said = run("cost", "net.toml", "--epsilon", "1").stdout
    share = f"{1 - 1 / dearest['cost']:.0%}"
    assert f"Without the arc {dearest['parent']} -> {dearest['child']} the standard error" in said
    assert f"would be {share} smaller" in said
    assert dearest["cost"] == pytest.approx(1 / (1 - float(share[:-1]) / 100), abs=0.02)
    assert "n needed: rows from which on the noise of single cells" in said


def test_without_arcs_nothing_is_said_of_them(run, desk):
    (desk / "alone.toml").write_text('[variables]\nsex = ["F", "M"]\n[parents]\nsex = []\n')
    assert "Without the arc" not in run("cost", "alone.toml", "--epsilon", "1").stdout
