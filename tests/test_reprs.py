"""Values print in one line or a small table, notebooks get escaped tables, and sensitive ones show no number."""

import re

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg

EVIL = '<script>alert("x")</script>'
DOMAIN = dg.Domain.of({"y": ["n", EVIL], EVIL: ["a", "b"], "c": [0, 1, 2]})
NETWORK = dg.naive_bayes_network(DOMAIN, "y")
ROWS = 7013


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({name: rng.choice(np.array(DOMAIN.levels(name), object), ROWS) for name in DOMAIN.names})
    counts = dg.count(rows, NETWORK)
    noise, budget = dg.testing.SeededNoise(1), dg.Budget(9, unit=dg.PrivacyUnit("add-remove"))
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=noise)
    fourier = dg.release(counts, dg.FourierMechanism(1), budget=budget, noise=noise)
    plug_in = dg.posterior(release, method="plug-in")
    draws = dg.posterior(release, method="tables", draws=20, seed=0)
    sampled = dg.release(counts, dg.PosteriorSample(1, draws=2), budget=budget, noise=noise)
    moments = dg.statistics.sufficient_statistics(rng.random(50), dg.expfam.Exponential(), bounds=(0, 3))
    noisy = dg.release(moments, dg.LaplaceMechanism(1), budget=budget, noise=noise)
    parameters = dg.posterior(noisy, prior=dg.expfam.Exponential().prior(2, 1), draws=50, seed=0)
    made = {
        "domain": DOMAIN,
        "network": NETWORK,
        "release": release,
        "noisy": release.value,
        "coefficients": fourier.value,
        "fourier": fourier,
        "several draws": sampled,
        "event": release.event,
        "provenance": release.provenance,
        "consistent": dg.reconcile(release),
        "plug-in": plug_in,
        "draws": draws,
        "probabilities": plug_in.mean(),
        "moments": noisy,
        "parameters": parameters,
        "model": dg.results.NaiveBayes("y", plug_in.mean()),
        "ensemble": dg.results.NaiveBayesEnsemble("y", sampled),
        "budget": budget,
        "design": dg.LinearDesign({EVIL: (0, 1), "c": [0, 1, 2]}, "pay", (0, 1234567.891)),
    }
    return made | {"counts": counts, "sums": moments}


ONE_LINE = [
    "design",
    "domain",
    "network",
    "release",
    "noisy",
    "coefficients",
    "several draws",
    "event",
    "provenance",
    "consistent",
]
ONE_LINE += [
    "plug-in",
    "draws",
    "probabilities",
    "moments",
    "parameters",
    "model",
    "ensemble",
    "budget",
    "counts",
    "sums",
]
IN_NOTEBOOKS = [
    "design",
    "domain",
    "network",
    "release",
    "several draws",
    "plug-in",
    "draws",
    "probabilities",
    "moments",
    "parameters",
]
IN_NOTEBOOKS += ["fourier", "model", "ensemble", "budget"]


@pytest.mark.parametrize("name", ONE_LINE)
def test_a_value_prints_in_one_line(name, values):
    assert len(repr(values[name])) <= 260
    assert repr(values[name]).isprintable()
    assert "array(" not in repr(values[name])
    assert not re.search(r"\d\.\d{4}", repr(values[name]))


@pytest.mark.parametrize("name", IN_NOTEBOOKS)
def test_a_notebook_shows_escaped_tables(name, values):
    page = values[name]._repr_html_()
    assert "<script" not in page
    assert re.fullmatch(r"(<(/?(p|table|thead|tbody|tr|th|td))>|[^<>])+", page)
    if name in ("design", "domain", "network", "probabilities", "model"):
        assert "&lt;script&gt;" in page


@pytest.mark.parametrize("name", ["counts", "sums"])
def test_what_is_sensitive_shows_no_number_of_rows_or_cells(name, values):
    assert re.findall(r"\d+", repr(values[name])) in (["3"], ["1"])  # variables, statistics: public
    assert not hasattr(type(values[name]), "_repr_html_")


def test_a_private_number_of_rows_is_in_no_line(values):
    for name, value in values.items():
        assert str(ROWS) not in repr(value), name
        assert str(ROWS) not in getattr(value, "_repr_html_", str)(), name
    assert "n private" in repr(values["release"])


@pytest.mark.proof
def test_a_report_is_a_small_table():
    report = dg.privacy_cost(dg.read_network("example:alarm"), epsilon="0.1", delta="1e-6", n=500)
    lines = repr(report).split("\n")
    assert repr(report) == str(report)
    assert len(lines) <= 16 + 6  # and three sentences on what to do
    assert f"recommended: {report.recommended!r}" in lines
    assert sum(line.startswith(tuple(report.mechanisms["mechanism"])) for line in lines) == len(report.mechanisms)
    assert "<table>" in report._repr_html_()


def test_a_wide_network_is_shown_in_part():
    names = [f"v{i}" for i in range(300)]
    wide = dg.Network.of({name: [0, 1] for name in names}, {})
    assert len(repr(wide.domain)) < 200
    assert "300 variables" in repr(wide.domain)
    page = wide._repr_html_()
    assert page.count("<tr>") == 21
    assert "and 280 more rows" in page


def test_a_design_says_what_is_regressed_on_what():
    made = dg.LinearDesign({"age": dg.Bounded(18, 90, missing=30), "sex": ["F", "M"]}, "pay", (0, 1e5), strict=False)
    assert repr(made) == "LinearDesign(pay on age, sex; 4 columns)"
    page = made._repr_html_()
    assert "<td>age</td><td>18 to 90, missing as 30</td>" in page
    assert "<td>pay</td><td>0 to 100000</td>" in page
    wide = dg.LinearDesign({f"x{i}": (0, 1) for i in range(300)}, "pay", (0, 1), intercept=False)
    assert repr(wide).endswith("x11, ... 300 features; 301 columns, no intercept)")
    assert wide._repr_html_().count("<tr>") == 21
