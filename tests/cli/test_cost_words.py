"""``dpgraph cost`` says in a sentence what its numbers mean for what to do, in lines that fit a terminal."""

import json

import pytest

import dpgraph as dg
from dpgraph.cli.networks import _cheapest


def words(told):
    """The text with its line ends as blanks: where a sentence is broken is no matter."""
    return " ".join(told.stdout.split())


def test_the_dearest_arc_is_told_with_what_leaving_it_out_would_buy(run):
    dearest = dg.privacy_cost(dg.read_network("net.toml"), epsilon=1).arcs.iloc[0]
    said = words(run("cost", "net.toml", "--epsilon", "1"))
    share = f"{1 - 1 / dearest['cost']:.0%}"
    assert f"Without the arc {dearest['parent']} -> {dearest['child']} the standard error" in said
    assert f"would be {share} smaller, which else takes epsilon {dearest['cost']:.3g};" in said
    assert dearest["cost"] == pytest.approx(1 / (1 - float(share[:-1]) / 100), abs=0.02)


def test_the_risk_of_the_recommended_mechanism_is_told(run):
    risk = dg.privacy_cost(dg.read_network("net.toml"), epsilon=1).risk
    assert str(risk) in words(run("cost", "net.toml", "--epsilon", "1"))
    assert json.loads(run("cost", "net.toml", "--epsilon", "1", "--json").stdout)["risk"] == dict(risk.facts())


def test_no_number_of_rows_is_asked_for_by_single_cells(run):
    """It was one to three million where 32 561 rows predict as well as without privacy."""
    assert "n needed" not in run("cost", "net.toml", "--epsilon", "0.1", "--n", "300").stdout
    assert "may do with far more noise than single tables" in words(
        run("cost", "net.toml", "--epsilon", "1", "--n", "9")
    )


def test_without_arcs_nothing_is_said_of_them(run, desk):
    (desk / "alone.toml").write_text('[variables]\nsex = ["F", "M"]\n[parents]\nsex = []\n')
    assert "Without the arc" not in run("cost", "alone.toml", "--epsilon", "1").stdout


def test_an_error_is_answered_by_rows_and_by_an_epsilon(run):
    report = dg.privacy_cost(dg.read_network("net.toml"), epsilon=1, n=500)
    asked = ["cost", "net.toml", "--epsilon", "1", "--error", "0.05"]
    rows = f"with about {report.n_for(0.05)} rows at epsilon 1"
    assert f"No table is expected to be off by more than 0.05 {rows}." in words(run(*asked))
    both = f"{rows}, or about epsilon {report.epsilon_for(0.05):.3g} at n = 500."
    assert both in words(run(*asked, "--n", "500"))
    found = json.loads(run(*asked, "--n", "500", "--json").stdout)["needed"]
    assert found == {"error": 0.05, "n": report.n_for(0.05), "epsilon": report.epsilon_for(0.05)}
    assert json.loads(run(*asked, "--json").stdout)["needed"]["epsilon"] is None


def test_a_target_prices_naive_bayes_whatever_the_arcs_of_the_file(run, desk):
    text = (desk / "net.toml").read_text()
    (desk / "domain.toml").write_text(text[: text.index("[parents]")])
    graph = dg.naive_bayes_network(dg.read_domain("domain.toml"), "sex")
    priced = dg.privacy_cost(graph, epsilon=1, n=100)
    for file in ("domain.toml", "net.toml"):
        found = json.loads(run("cost", file, "--target", "sex", "--epsilon", "1", "--n", "100", "--json").stdout)
        assert [(row["variable"], row["parents"]) for row in found["nodes"]] == [
            (family[0], ", ".join(family[1:])) for family in graph.families
        ]
        assert [row["tv"] for row in found["nodes"]] == pytest.approx(priced.nodes["tv"].tolist())
    assert "as naive Bayes of sex" in run("cost", "domain.toml", "--target", "sex", "--epsilon", "1").stdout


def test_a_target_that_is_not_declared_is_refused(run):
    assert "no variable 'no'" in run("cost", "net.toml", "--target", "no", "--epsilon", "1", code=1).stderr
    assert "--own" in run("cost", "example:asia", "--own", "--target", "lung", "--epsilon", "1", code=2).stderr


@pytest.mark.proof
@pytest.mark.parametrize("network", ["example:hailfinder", "net.toml"])
@pytest.mark.parametrize("more", [(), ("--n", "1000", "--delta", "1e-6", "--error", "0.1")], ids=["short", "long"])
def test_lines_fit_a_terminal(run, network, more):
    lines = run("cost", network, "--epsilon", "0.1", *more).stdout.split("\n")
    assert max(map(len, lines)) <= 100


DRY = {
    "naive-bayes": ["rows.csv", "--domain", "net.toml", "--target", "sex"],
    "hmm": ["log.csv", "--domain", "log.toml", "--sequence", "region", "--time", "month", "--states", "2"],
    "regression": ["pay.csv", "--domain", "pay.toml", "--target", "pay"],
}


@pytest.mark.parametrize("model", DRY)
def test_a_dry_run_shows_expected_errors(run, model):
    asked = ["fit", model, *DRY[model], "--epsilon", "1", "--dry-run"]
    assert "Give --n for" in run(*asked).stdout
    told = run(*asked, "--n", "300").stdout
    assert "Give --n" not in told
    assert {"naive-bayes": "  tv\n", "hmm": "  tv\n", "regression": "noise share\n"}[model] in told
    assert max(map(len, told.split("\n")[1:])) <= 100


def test_the_errors_of_a_dry_run_are_those_of_the_noise_that_a_fit_draws(run):
    """The label's own share of epsilon included: the fitted release's laws, priced as a dry run prices them."""
    told = run("fit", "naive-bayes", *DRY["naive-bayes"], "--epsilon", "1", "--dry-run", "--n", "100").stdout
    run("fit", "naive-bayes", *DRY["naive-bayes"], "--epsilon", "1", "--out", "m.json")
    laws = dg.load("m.json", release=True).value.laws
    scales = {row.split()[0]: float(row.split()[-3]) for row in told.split("\n") if row.startswith(("age", "rate"))}
    for name, scale in scales.items():
        (law,) = (law for table, law in laws.items() if name in table)
        assert scale == pytest.approx(law.scale, rel=5e-3)


def test_variables_without_parents_are_told_of_the_target(run, desk):
    (desk / "alone.toml").write_text('[variables]\nsex = ["F", "M"]\nage = [1, 2]\n')
    refused = run("cost", "alone.toml", "--epsilon", "1", code=1)
    assert "has no [parents] table" in " ".join(refused.stderr.split())
    assert "dpgraph cost --target" in " ".join(refused.stderr.split())
    assert run("cost", "alone.toml", "--target", "sex", "--epsilon", "1").stdout


def test_rows_and_a_target_say_what_each_classifier_is_expected_to_score(run, desk):
    asked = ("cost", "net.toml", "--target", "sex", "--epsilon", "2", "--rows", "500")
    plans = json.loads(run(*asked, "--json").stdout)["plans"]
    assert {row["plan"] for row in plans} == {"naive Bayes", "PrivateClassifier", "network", "no privacy"}
    assert [row["epsilon"] for row in plans if row["plan"] == "network"] == [0.2, 0.6, 2.0]
    (best,) = [row for row in plans if row["plan"] == "no privacy"]
    assert best["epsilon"] is None
    assert best["within_a_point"]
    assert "within a point of no privacy" in _cheapest(plans)
    assert "--rows needs --target" in run("cost", "net.toml", "--epsilon", "1", "--rows", "9", code=2).stderr
