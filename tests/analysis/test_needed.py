"""Inverse questions of a price: what they answer gives the error that was asked for when it is priced directly."""

import math

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.analysis.expected import expected_variation

NETWORKS = {
    "asia": dg.read_network("example:asia"),
    "bayes": dg.naive_bayes_network(
        dg.Domain.of({"y": ["n", "y"]} | {f"x{i}": list(range(i + 2)) for i in range(5)}), "y"
    ),
}


def worst(network, **settings):
    return dg.privacy_cost(network, **settings).nodes["tv"].max()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("error", [0.02, 0.2])
def test_so_many_rows_give_the_error_and_fewer_do_not(name, error):
    network = NETWORKS[name]
    n = dg.privacy_cost(network, epsilon="0.3").n_for(error)
    assert worst(network, epsilon="0.3", n=n) <= error * (1 + 1e-6)
    assert worst(network, epsilon="0.3", n=n - 1) > error


@pytest.mark.proof
@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("unit", [dg.PrivacyUnit(), dg.PrivacyUnit("add-remove", 3)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_such_an_epsilon_gives_the_error(name, unit, delta):
    """Priced directly at the epsilon that was found; 2 % is for Gaussian noise, which is no multiple of 1 / epsilon."""
    network = NETWORKS[name]
    for error in (0.03, 0.15):
        report = dg.privacy_cost(network, epsilon="0.3", delta=delta, n=2000, unit=unit)
        epsilon = report.epsilon_for(error)
        assert worst(network, epsilon=epsilon, delta=delta, n=2000, unit=unit) == pytest.approx(error, rel=0.02)


def test_both_answers_are_of_one_curve():
    """With noise in proportion to 1 / epsilon the error depends on n epsilon alone."""
    report = dg.privacy_cost(NETWORKS["asia"], epsilon=1, n=1000)
    assert report.epsilon_for(0.04) * 1000 == pytest.approx(report.n_for(0.04), rel=0.02)


def test_the_error_is_that_of_one_table():
    """A coin alone: half the expected absolute errors of two cells, by the closed form itself."""
    coin = dg.Network.of({"coin": [0, 1]}, {})
    report = dg.privacy_cost(coin, epsilon=1, unit=dg.PrivacyUnit("add-remove"))
    n = report.n_for(0.01)
    (rmse,) = report.nodes["rmse"]
    assert expected_variation(np.full(2, n / 2), rmse) / n == pytest.approx(0.01, rel=1e-2)
    assert 0.01 * n == pytest.approx(rmse * math.sqrt(2 / math.pi), rel=0.02)  # far from 0 nothing is cut


@pytest.mark.parametrize("error", [0, 1, -0.1, math.nan, "0.1", True, None])
def test_an_error_that_is_none_is_refused(error):
    report = dg.privacy_cost(NETWORKS["asia"], epsilon=1, n=100)
    for ask in (report.n_for, report.epsilon_for):
        with pytest.raises(dg.errors.ReleaseError, match="error must be a number between 0 and 1"):
            ask(error)


def test_an_epsilon_needs_rows():
    with pytest.raises(dg.errors.ReleaseError, match="give n"):
        dg.privacy_cost(NETWORKS["asia"], epsilon=1).epsilon_for(0.1)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_report_says_so_in_a_sentence_each(name):
    report = dg.privacy_cost(NETWORKS[name], epsilon="0.5", n=2000)
    off, needed, arc = report.in_words()
    row = report.nodes.loc[report.nodes["tv"].idxmax()]
    assert f"the table of {row['variable']} is off by most, {row['tv']:.3g} of the rows" in off
    rows, epsilon = report.n_for(0.05), report.epsilon_for(0.05)
    assert (
        needed
        == f"About {rows} rows at epsilon 0.5, or epsilon {epsilon:.3g} at n = 2000, keep every table within 0.05."
    )
    first = report.arcs.iloc[0]
    assert f"Without the arc {first['parent']} -> {first['child']}" in arc
    assert f"{1 - 1 / first['cost']:.0%} smaller" in arc
    for words in (repr(report).replace("\n", " "), report._repr_html_().replace("-&gt;", "->")):
        assert all(line in words for line in (off, needed, arc))
    alone = dg.privacy_cost(dg.Network.of({"a": [0, 1]}, {}), epsilon=1)
    assert alone.in_words() == [f"About {alone.n_for(0.05)} rows at epsilon 1 keep every table within 0.05."]


def test_of_a_large_graph_only_what_is_quick_is_told():
    names = [f"v{i}" for i in range(202)]
    chain = dict(zip(names[1:], ([name] for name in names), strict=False))
    large = dg.privacy_cost(dg.Network.of({name: [0, 1] for name in names}, chain), epsilon=1, n=500)
    off, needed = large.in_words()
    assert off.startswith("With n = 500")
    assert needed == f"About {large.n_for(0.05)} rows at epsilon 1 keep every table within 0.05."


def test_an_arc_of_a_cost_below_1_is_explained():
    """Measured together two coins need 8^(1/3) = 2, apart 2 x 2^(1/3); the arc's cost is the ratio to the power 1.5."""
    pair = dg.privacy_cost(dg.Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]}), epsilon=1)
    (said,) = pair.arc_in_words()
    assert said.startswith(
        f"The arc a -> b costs {(2 / 2 ** (4 / 3)) ** 1.5:.3g}, less than 1: leaving it out makes the noise larger"
    )
    assert "less than 1" not in " ".join(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1).arc_in_words())
