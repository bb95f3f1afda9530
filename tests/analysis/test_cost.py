"""Expected errors against simulation and exact values, and reports that need no data."""

import itertools
import math

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.analysis.expected import draw_error, expected_kl, expected_variation
from dpgraph.papers.zhang import expected_divergence
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.margins import Margins


@pytest.mark.parametrize("counts", [[0.0, 3.0, 400.0], [25.0, 25.0, 25.0]])
def test_the_expected_variation_is_that_of_normal_noise_cut_at_zero(counts):
    """2e5 draws: a standard error of 0.2 %, and an error of a tenth would be seen."""
    table = np.array(counts)
    noise = np.random.default_rng(0).normal(0, 12.0, (200_000, 3))
    drawn = 0.5 * np.abs(np.maximum(table + noise, 0) - table).sum(axis=1).mean()
    assert expected_variation(table, 12.0) == pytest.approx(drawn, rel=0.02)


@pytest.mark.parametrize(("counts", "scale"), [([300, 700], 20.0), ([3000, 7000], 20.0), ([40, 60, 100], 8.0)])
def test_the_expected_divergence_is_near_the_exact_one_of_algorithm_1(counts, scale):
    n = sum(counts)
    rmse = math.sqrt(DiscreteLaplace(scale).variance(len(counts)))
    exact = expected_divergence(counts, scale, n)
    assert expected_kl(np.array(counts, float), rmse) == pytest.approx(exact, rel=0.08)


def test_the_expected_divergence_is_bounded_where_cells_are_empty():
    """A second-order formula gives thousands of nats here; simulation with normal noise gives what this gives."""
    counts, rmse, rng = np.array([[0.0, 10.0], [0.0, 90.0]]), 20.0, np.random.default_rng(1)
    from dpgraph.papers.zhang import dirichlet_divergence

    draws = [
        sum(
            dirichlet_divergence(1 + counts[:, row], 1 + np.maximum(counts[:, row] + rng.normal(0, rmse, 2), 0))
            for row in range(2)
        )
        for _ in range(4000)
    ]
    assert expected_kl(counts, rmse) == pytest.approx(np.mean(draws), rel=0.1)


def test_noise_needs_more_rows_on_a_dearer_budget():
    network = dg.read_network("example:asia")
    needed = [dg.privacy_cost(network, epsilon=epsilon).nodes["n needed"].sum() for epsilon in ("0.1", "1")]
    assert needed[0] == pytest.approx(100 * needed[1], rel=0.02)


def test_the_expected_variation_of_real_releases():
    """alarm's own probabilities, n = 10 000: the report's mean tv against 30 seeded releases of simulated rows, read
    off the consistent tables with negative cells cut. The report takes normal noise, whose mean absolute value is up
    to 13 % above that of Laplace noise of the same variance; so it is above, by no more than that."""
    truth = dg.load("example:alarm")
    network = truth.network
    counts = dg.count(dg.sample_rows(truth, 10_000, np.random.default_rng(0)), network)
    measured = []
    for seed in range(30):
        release = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(seed))
        tables = dg.reconcile(release)
        for name in network.domain.names:
            exact = counts.sensitive_margin(network.family(name))
            measured.append(0.5 * np.abs(np.maximum(tables.family(name), 0) - exact).sum() / 10_000)
    report = dg.privacy_cost(truth, epsilon=1, n=10_000)
    assert isinstance(report.recommended, dg.LaplaceMechanism)
    assert 0.99 < report.nodes["tv"].mean() / np.mean(measured) < 1.13


def test_a_report_of_a_bare_graph_is_that_of_uniform_probabilities():
    network = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]})
    uniform = dg.Probabilities(network, {"a": [0.5, 0.5], "b": np.full((3, 2), 1 / 3)})
    one, two = (dg.privacy_cost(subject, epsilon=1, n=500).nodes for subject in (network, uniform))
    np.testing.assert_allclose(one["tv"], two["tv"], rtol=0.01)


def test_facts_of_alarm():
    facts = dg.privacy_cost(dg.read_network("example:alarm"), epsilon=1).facts
    assert (facts["variables"], facts["arcs"], facts["cells"], facts["maximal tables"]) == (37, 46, 752, 25)
    assert facts["downward closure"] == 142
    assert facts["treewidth at most"] == 4
    assert dg.privacy_cost(dg.read_network("example:asia"), epsilon=1).facts["parity sensitivity"] == 14


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0}, {"epsilon": 1, "n": 0}, {"epsilon": 1, "n": 1.5}, {"epsilon": 1, "delta": 1}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(dg.errors.ReleaseError):
        dg.privacy_cost(dg.Network.of({"a": [0, 1]}, {}), **bad)


@pytest.mark.parametrize("temperature", [1.0, 12.0, 400.0])
def test_the_error_of_a_tempered_draw_is_that_of_simulated_ones(temperature):
    """4e4 draws: a standard error of the mean square below 2 %, and a temperature a tenth off would be seen where the
    draws are not all prior."""
    counts, rng = np.array([[300.0, 5.0], [650.0, 40.0], [50.0, 5.0]]), np.random.default_rng(0)
    squared = 0.0
    for row in counts.T:
        draws = rng.dirichlet(1 + row / temperature, 40_000) * row.sum()
        squared += float(((draws - row) ** 2).mean(axis=0).sum())
    assert draw_error(counts, temperature) == pytest.approx(squared / counts.size, rel=0.05)


def test_choices_are_compared_but_not_recommended():
    network = dg.read_network("example:asia")
    for n, known in ((None, False), (1000, True)):
        frame = dg.privacy_cost(network, epsilon=100, n=n).mechanisms.set_index("mechanism")
        assert np.isfinite(frame["rmse"]["Posterior sample, one draw"]) == known
        assert np.isfinite(frame["rmse"]["MAP by the exponential mechanism"]) == known
        assert isinstance(dg.privacy_cost(network, epsilon=100, n=n).recommended, dg.LaplaceMechanism)
    wide = dg.Network.of({"a": list(range(200))}, {})
    assert not any("Posterior" in label for label in dg.privacy_cost(wide, epsilon=1, n=10).mechanisms["mechanism"])


@pytest.mark.parametrize("tables", [None, [("b", "a")], [("a", "b"), ("d", "c"), ("c",)]])
@pytest.mark.parametrize("n", [None, 100])
def test_tables_without_a_graph_are_priced(tables, n):
    """The variables are those of the domain, in a table or not; the paper's theorems are of a network's families."""
    domain = {name: [0, 1] for name in "abcd"}
    margins = dg.all_pairs(domain) if tables is None else Margins.of_tables(domain, tables)
    report = dg.privacy_cost(margins, epsilon=1, n=n)
    assert dg.papers.error_bounds(report).empty
    assert report.facts["variables"] == 4
    assert report.facts["maximal tables"] == len(report.nodes) == len(margins.tables)


ONE_LEVEL = [["x"], ["x", "y"], [1, 2, 3]]


@pytest.mark.proof
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("parents", [{}, {"b": ["a"]}, {"b": ["a"], "c": ["a", "b"]}])
def test_variables_of_one_level_are_priced(parents, neighbours):
    """Coefficients leave them out, where n is public a table of theirs is known, and no reading of them fails."""
    unit = dg.PrivacyUnit(neighbours)
    for sizes, delta in zip(itertools.product(ONE_LEVEL, repeat=3), itertools.cycle((0, "1e-6")), strict=False):
        network = dg.Network.of(dict(zip("abc", sizes, strict=True)), parents)
        report = dg.privacy_cost(network, epsilon=1, delta=delta, n=1000, unit=unit)
        alone = [row for row in report.family_rows if row["cells"] == 1]
        assert all((row["rmse"] == 0) == (unit.n_is_public) for row in alone)
        assert all(row["scale"] > 0 for row in report.family_rows if row["rmse"] > 0)
        assert "recommended" in str(report)


def test_a_table_that_gets_no_noise_has_no_scale():
    """A one-cell table where n is public is n itself; the share of epsilon that it is owed is the least, 1e-6."""
    network = dg.Network.of({"a": ["x"], "b": ["x", "y"], "c": [1, 2, 3]}, {"c": ["b"]})
    unit = dg.PrivacyUnit("replace")
    report = dg.privacy_cost(network, epsilon="0.1", unit=unit)
    (row,) = [row for row in report.mechanism_rows if row["mechanism"] == "Laplace, maximal tables"]
    laws = [m.law.scale for m in dg.LaplaceMechanism("0.1", tables="maximal").event(network, unit).measurements]
    assert max(laws) > 1e6
    assert row["lowest scale"] == row["highest scale"] == min(laws)
