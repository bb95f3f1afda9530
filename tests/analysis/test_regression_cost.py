"""What a regression is expected to cost, against simulated rows, real releases and least squares."""

import math

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import RESOLUTION

DESIGN = dg.LinearDesign({"a": (0, 10), "b": (-1, 3), "s": ["F", "M"], "g": ["x", "y", "z"]}, "y", (0, 50))
NO_INTERCEPT = dg.LinearDesign({"a": (0, 10), "b": (-1, 3), "g": ["x", "y", "z"]}, "y", (0, 50), intercept=False)


def columns(design, n, rng):
    """Rows of independent uniform features, as columns."""
    parts, level = [], {}
    for column in design.columns[:-1]:
        if column.kind == "intercept":
            parts.append(np.ones(n))
        elif column.kind == "sign":
            parts.append(rng.choice([-1.0, 1.0], n))
        elif column.kind == "level":
            size = design.features[column.variable].size
            parts.append(1.0 * (level.setdefault(column.variable, rng.integers(0, size, n)) == column.level))
        else:
            parts.append(rng.uniform(-1, 1, n))
    return np.column_stack(parts)


def simulated(design, n, mechanism, unit, share, tables, releases):
    """Root mean squared errors of least squares from exact and from noisy moments, in units of scaled columns.

    The moments of the rows are rounded to the grid here; the noise is that of ``release``.
    """
    rng, noise = np.random.default_rng(0), dg.testing.SeededNoise(1)
    errors = [], []
    for _ in range(tables):
        X = columns(design, n, rng)
        mean = X.mean(axis=0) if design.intercept else np.zeros(X.shape[1])
        slopes = rng.choice([-1.0, 1.0], X.shape[1]) * (np.array([c.kind != "intercept" for c in design.columns[:-1]]))
        spread = ((X - mean) ** 2).mean(axis=0).sum() if design.intercept else (X**2).mean(axis=0).sum()
        theta = slopes * math.sqrt((1 - share) / 3 / spread)
        if design.intercept:
            theta[0] = -theta[1:] @ mean[1:]
        y = X @ theta + rng.normal(0, math.sqrt(share / 3), n)
        z = np.column_stack([X, y])
        whole = z.T @ z
        first, second = np.array(design.pairs).T
        moments = Moments(design, np.rint(whole[first, second] * RESOLUTION**2).astype(np.int64), n)
        errors[0].append(np.linalg.solve(whole[:-1, :-1], whole[:-1, -1]) - theta)
        for _ in range(releases):
            value = dg.release(moments, mechanism, budget=dg.Budget(9, delta="1e-3", unit=unit), noise=noise).value
            rows = value.values[-1] if value.n is None else n
            noisy = design.matrix(value.values, rows)
            errors[1].append(np.linalg.solve(noisy[:-1, :-1], noisy[:-1, -1]) - theta)
    return [np.sqrt((np.array(each) ** 2).mean(axis=0)) for each in errors]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("design", "n", "epsilon", "delta", "neighbours"),
    [
        pytest.param(DESIGN, 4_000, 1, 0, "replace", id="laplace", marks=pytest.mark.proof),
        pytest.param(DESIGN, 4_000, 1, 0, "add-remove", id="n private"),
        pytest.param(DESIGN, 4_000, 1, "1e-6", "replace", id="gaussian"),
        pytest.param(NO_INTERCEPT, 4_000, 1, 0, "add-remove", id="no intercept", marks=pytest.mark.proof),
    ],
)
def test_standard_errors_are_those_of_simulated_releases(design, n, epsilon, delta, neighbours):
    """Noise shares of .05 to .43. 250 tables of 8 releases: a root mean square of 250 normal errors is known to 4.5 %,
    so four of those are allowed for one coefficient and 8 % for their mean; noise is two to five times the sampling
    error, and a product counted once in place of twice would show."""
    unit = dg.PrivacyUnit(neighbours)
    mechanism = dg.GaussianMechanism(epsilon, delta) if delta else dg.LaplaceMechanism(epsilon)
    table = dg.privacy_cost(design, epsilon=epsilon, n=n, delta=delta, unit=unit, noise=0.4)
    alone, together = simulated(design, n, mechanism, unit, 0.4, tables=250, releases=8)
    inner = {name: one.half for name, one in design.features.items() if isinstance(one, dg.Bounded)}
    units = np.array([25.0 / inner.get(column.variable, 1.0) for column in design.columns[:-1]])
    assert table.coefficient.tolist() == [column.name for column in design.columns[:-1]]
    for expected, found in ((table["without"], alone), (table["with"], together)):
        ratio = expected.to_numpy() / (found * units)
        assert np.abs(ratio - 1).max() < 0.18
        assert abs(ratio.mean() - 1) < 0.08
    assert table["ratio"].min() > 1.2


def test_more_rows_and_more_epsilon_cost_less_and_both_may_be_several():
    table = dg.privacy_cost(DESIGN, epsilon=[0.1, "1", 10], n=[10_000, 1_000_000])
    assert len(table) == 3 * 2 * 6
    wide = table.pivot_table(index=["epsilon", "n"], columns="coefficient", values="ratio", sort=True)
    assert (wide.groupby("n").diff().dropna() < 0).all(axis=None)
    assert (wide.groupby("epsilon").diff().dropna() < 0).all(axis=None)
    assert (table["with"] > table["without"]).all()


def test_correlated_features_cost_more():
    design = dg.LinearDesign({"a": (0, 1), "b": (0, 1)}, "y", (0, 1))
    moments = np.array([[1, 0, 0], [0, 1 / 3, 0.3], [0, 0.3, 1 / 3]])
    plain, close = (dg.privacy_cost(design, epsilon=1, n=5000, second_moments=one) for one in (None, moments))
    assert (close["with"][1:] > 2 * plain["with"][1:]).all()
    assert close["noise share"][0] > 5 * plain["noise share"][0]


def test_spread_and_noise_share_scale_the_errors():
    table = dg.privacy_cost(DESIGN, epsilon=1, n=5000, noise=1.0, spread=50 / math.sqrt(12))
    again = dg.privacy_cost(DESIGN, epsilon=1, n=5000, noise=1.0)
    assert np.allclose(table["with"], again["with"])
    assert np.allclose(dg.privacy_cost(DESIGN, epsilon=1, n=5000, noise=0.25)["without"], again["without"] / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": [1, -1]}, "epsilon"),
        ({"n": 0}, "n must be"),
        ({"n": [10, 2.5]}, "n must be"),
        ({"n": True}, "n must be"),
        ({"delta": 1}, "delta"),
        ({"noise": 0}, "noise must be"),
        ({"noise": 1.1}, "noise must be"),
        ({"noise": math.nan}, "noise must be"),
        ({"spread": -1}, "spread must be"),
        ({"spread": math.inf}, "spread must be"),
        ({"second_moments": np.eye(3)}, "second_moments must be"),
        ({"second_moments": np.ones((6, 6))}, "positive definite"),
        ({"second_moments": np.full((6, 6), np.nan)}, "second_moments must be"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        dg.privacy_cost(DESIGN, **({"epsilon": 1, "n": 100} | settings))
