"""Joint normal draws against dense weighted least squares over the whole table, and the law of the learned sizes."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from scipy.linalg import helmert, null_space

import dpgraph as dg
from dpgraph.inference.network import by_normal as normal
from dpgraph.inference.network import draws as network_draws
from dpgraph.inference.network.by_normal import draw_by_normal
from dpgraph.inference.network.consistency import residual_estimates
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.tables import NoisyCounts, cell_variance
from tests.mechanisms.additive.test_sensitivity import fixed_point_contrasts

LEVELS = dg.Network.of({"c": [0, 1], "b": [0, 1, 2], "a": [0, 1, 2]}, {"b": ["a"], "c": ["b"]})
BINARY = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["b", "a"]})
ONE = dg.Network.of({"a": [0, 1, 2], "here": ["x"], "b": [0, 1]}, {"b": ["here", "a"], "here": ["a"]})
MECHANISMS = {
    **{f"laplace {t}": dg.LaplaceMechanism(1, tables=t) for t in ("merged", "maximal", "families")},
    "laplace independent": dg.LaplaceMechanism(1, tables="families", noise="independent"),
    "gaussian": dg.GaussianMechanism(1, 1e-6),
    "gaussian residual": dg.GaussianMechanism(1, 1e-6, basis="residual"),
    "fourier": dg.FourierMechanism(1),
    "fourier residual": dg.FourierMechanism(1, basis="residual"),
}
DRAWS, LEVEL = 20_000, 1e-6
#: A false alarm once in a million runs of this file, of some 20 000 compared numbers.
LIMIT = stats.norm.isf(LEVEL / 20_000 / 2)


def cases():
    for name, network in (("levels", LEVELS), ("binary", BINARY), ("one level", ONE)):
        for kind, mechanism in MECHANISMS.items():
            for neighbours in ("replace", "add-remove"):
                if kind != "gaussian residual" or neighbours == "add-remove":
                    yield pytest.param(network, mechanism, neighbours, id=f"{name}, {kind}, {neighbours}")


def released(network, mechanism, neighbours, n=30_000):
    """So many rows that no cell falls below zero."""
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({v: np.array(network.domain.levels(v), object)[rng.integers(0, size, n)]
                         for v, size in network.domain.sizes.items()})  # fmt: skip
    budget = dg.Budget(1, 1e-6, unit=dg.PrivacyUnit(neighbours))
    return dg.release(dg.count(rows, network), mechanism, budget=budget, noise=dg.testing.SeededNoise(6)).value


def all_rows(network):
    names = network.domain.names
    return [dict(zip(names, row, strict=True)) for row in product(*(range(network.domain.sizes[v]) for v in names))]


def marginaliser(network, key):
    """The matrix that adds the joint table up to one over some variables."""
    rows, shape = all_rows(network), network.shape(key)
    matrix = np.zeros((int(np.prod(shape)), len(rows)))
    for j, row in enumerate(rows):
        matrix[np.ravel_multi_index([row[v] for v in key], shape), j] = 1
    return matrix


def dense(noisy):
    """Posterior mean and covariance of the joint table under a flat prior and normal noise, from the design matrix."""
    network, rows = noisy.network, all_rows(noisy.network)
    normal_matrix, moment = np.zeros((len(rows),) * 2), np.zeros(len(rows))
    parts = noisy.tables if isinstance(noisy, NoisyCounts) else noisy.blocks
    for key, values in parts.items():
        law, y = noisy.laws[key], values.ravel().astype(float)
        if isinstance(noisy, NoisyCounts):
            design, step = marginaliser(network, key), 1
        else:
            columns = [np.ravel(fixed_point_contrasts(network, row, key, noisy.grid)) for row in rows]
            design, step = np.array(columns, float).T, noisy.step
        covariance = np.eye(y.size) * law.variance(y.size) * step**2
        if isinstance(law, SumZeroLaplace):
            covariance = law.variance(y.size) * (y.size * np.eye(y.size) - 1) / (y.size - 1)
        precision = np.linalg.pinv(covariance)
        normal_matrix += design.T @ precision @ design
        moment += design.T @ precision @ y
    if noisy.n is None:
        start, free = np.zeros(len(rows)), np.eye(len(rows))
    else:
        start, free = np.full(len(rows), noisy.n / len(rows)), null_space(np.ones((1, len(rows))))
    covariance = free @ np.linalg.pinv(free.T @ normal_matrix @ free, rcond=1e-10, hermitian=True) @ free.T
    return start + covariance @ (moment - normal_matrix @ start), covariance


def residual_design(network, block):
    """The orthonormal residuals of a block of the joint table: Helmert rows inside, sums outside."""
    matrix = np.ones((1, 1))
    for v in network.domain.names:
        size = network.domain.sizes[v]
        matrix = np.kron(matrix, helmert(size) if v in block else np.ones((1, size)))
    return matrix


@pytest.mark.parametrize(("network", "mechanism", "neighbours"), list(cases()))
def test_residual_estimates_are_weighted_least_squares(network, mechanism, neighbours):
    """Means, variances, and covariances between all blocks: deterministic, to 1e-4 where a fixed-point grid rounds."""
    noisy = released(network, mechanism, neighbours)
    mean, covariance = dense(noisy)
    found = residual_estimates(noisy)
    designs = {block: residual_design(network, block) for block in found}
    for block, (values, variance) in found.items():
        design = designs[block]
        np.testing.assert_allclose(values.ravel(), design @ mean, rtol=1e-6, atol=1e-3)
        expected = design @ covariance @ design.T
        np.testing.assert_allclose(expected, variance * np.eye(len(design)), rtol=1e-4, atol=1e-4 * max(variance, 1e-4))
    blocks = list(found)
    for i, one in enumerate(blocks):
        for other in blocks[:i]:
            cross = designs[one] @ covariance @ designs[other].T
            assert np.abs(cross).max(initial=0.0) < 1e-4 * max(1.0, np.sqrt(found[one][1] * found[other][1]))


def latent_counts(monkeypatch, noisy, draws=DRAWS, **settings):
    """The latent family tables of ``draw_by_normal``: what goes into its Dirichlet draws, less the prior."""
    seen = []

    def recorded(concentration, rng):
        seen.append(concentration)
        return np.full_like(concentration, 1 / concentration.shape[1])

    monkeypatch.setattr(network_draws, "dirichlet_draws", recorded)
    prior = concentration_tables(noisy.network, 0.5)
    draw_by_normal(noisy, prior, rng=np.random.default_rng(8), draws=draws, **settings)
    monkeypatch.undo()
    assert len(seen) == len(noisy.network.domain.names)
    return {name: one - 0.5 for name, one in zip(noisy.network.domain.names, seen, strict=True)}


@pytest.mark.parametrize(("network", "mechanism", "neighbours"), list(cases()))
def test_latent_tables_have_the_dense_mean_and_covariance(network, mechanism, neighbours, monkeypatch):
    """20 000 draws: a mean off by 5 % of its standard deviation, or a variance by 6 %, is seen; so is a table that is
    independent of another, as covariances between all cells of all families are compared."""
    noisy = released(network, mechanism, neighbours)
    drawn = latent_counts(monkeypatch, noisy)
    design = np.concatenate([marginaliser(network, network.family(name)) for name in drawn])
    flat = np.concatenate([counts.reshape(DRAWS, -1) for counts in drawn.values()], axis=1)
    mean, covariance = dense(noisy)
    mean, covariance = design @ mean, design @ covariance @ design.T
    sd = np.sqrt(np.diag(covariance).clip(0))
    assert (np.abs(flat.mean(axis=0) - mean) <= LIMIT * sd / np.sqrt(DRAWS) + 1e-6 * np.abs(mean)).all()
    error = np.sqrt((np.outer(sd, sd) ** 2 + covariance**2) / DRAWS)
    assert (np.abs(np.cov(flat.T) - covariance) <= LIMIT * error + 1e-3).all()


@pytest.mark.parametrize(("network", "mechanism", "neighbours"), list(cases()))
def test_tables_agree_and_n_is_exact_where_it_is_public(network, mechanism, neighbours, monkeypatch):
    noisy = released(network, mechanism, neighbours)
    drawn = latent_counts(monkeypatch, noisy, draws=50)
    totals = {name: counts.reshape(50, -1).sum(axis=1) for name, counts in drawn.items()}
    for name in drawn:
        np.testing.assert_allclose(totals[name], totals[network.domain.names[0]], rtol=1e-9)
        assert (np.ptp(totals[name]) > 1e-6) == (neighbours == "add-remove")
        if neighbours == "replace":
            np.testing.assert_allclose(totals[name], 30_000, rtol=1e-9)
        for axis, parent in enumerate(network.family(name)[1:], start=2):
            own = drawn[parent].sum(axis=tuple(range(2, drawn[parent].ndim)))
            others = tuple(i for i in range(1, drawn[name].ndim) if i != axis)
            np.testing.assert_allclose(drawn[name].sum(axis=others), own, rtol=1e-9)


def test_the_dirichlet_step_gets_prior_and_counts():
    """With next to no noise the draws are those of the Dirichlet given the counts: moments at 20 000 draws."""
    network = dg.Network.of({"a": [0, 1, 2]}, {})
    noisy = NoisyCounts(network, {("a",): [5, 0, 15]}, {("a",): DiscreteLaplace(1e-3)}, 20)
    prior = {"a": np.array([0.5, 2.0, 1.0])}
    drawn = draw_by_normal(noisy, prior, rng=np.random.default_rng(0), draws=DRAWS).flat("a")
    alpha = prior["a"] + np.array([5, 0, 15])
    law = stats.dirichlet(alpha)
    gap = np.abs(drawn.mean(axis=0) - law.mean()) / np.sqrt(law.var() / DRAWS)
    assert gap.max() < LIMIT
    assert drawn.var(axis=0) == pytest.approx(law.var(), rel=0.1)


def shrinkage_cdf(power, rate):
    """The distribution function of B^power exp(-rate B) on (0, 1) by quadrature on a grid about its mode."""
    mode = 1.0 if rate <= power else power / rate
    sharp = max(np.sqrt(power) / mode, power / mode - rate if mode == 1.0 else 0.0, 1.0)
    grid = np.concatenate([np.linspace(0, 1, 20_001), mode + np.linspace(-60, 60, 40_001) / sharp])
    grid = np.unique(grid[(grid > 0) & (grid <= 1)])
    log = power * np.log(grid) - rate * grid
    area = cumulative_trapezoid(np.exp(log - log.max()), grid, initial=0)
    return lambda b: np.interp(b, grid, area / area[-1])


@pytest.mark.parametrize("d", [1, 3, 40, 2000])
@pytest.mark.parametrize("share", [0.0, 1e-12, 0.2, 0.6, 1.0, 1.5, 100.0, 1e8])
def test_shrinkage_follows_its_density(d, share):
    """||R||^2 / sigma^2 at a share of its mean d without signal, which is tiny, typical or huge. Kolmogorov-Smirnov at
    20 000 draws and 1e-6 / 32: a distribution function off by 0.02 is seen."""
    variance = 7.0
    mean = np.random.default_rng(0).standard_normal(d)
    mean *= np.sqrt(share * d * variance / (mean**2).sum())
    drawn = normal._shrinkage(mean, variance, np.random.default_rng(1), DRAWS)
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert stats.kstest(drawn, shrinkage_cdf(d / 2, share * d / 2)).pvalue > LEVEL / 32


@pytest.mark.proof
def test_residuals_of_unknown_size_by_double_quadrature():
    """E[R] and E[R^2] given an estimate r, from N(r; R, s^2) N(R; 0, t^2), B = s^2 / (s^2 + t^2) uniform on (0, 1)."""
    r, variance = 3.0, 2.5
    shares = (np.arange(4000) + 0.5) / 4000
    values = np.linspace(-25, 25, 8001)
    spread = np.sqrt(variance * (1 - shares) / shares)[:, None]
    weight = stats.norm.pdf(r, values, np.sqrt(variance)) * stats.norm.pdf(values, 0, spread)
    weight = weight.sum(axis=0)
    weight /= weight.sum()
    drawn = normal._residuals(np.array([r]), variance, np.random.default_rng(2), 4 * DRAWS, shrink=True).values[:, 0]
    for power in (1, 2):
        moment = drawn**power
        error = moment.std() / np.sqrt(moment.size)
        assert abs(moment.mean() - weight @ values**power) < LIMIT * error


def test_interactions_within_their_noise_vanish_and_clear_ones_stay(monkeypatch):
    independent = NoisyCounts(
        BINARY, {("c", "b", "a"): np.full((2, 2, 2), 50_000)}, {("c", "b", "a"): DiscreteLaplace(40.0)}, 400_000
    )
    wide, narrow = (latent_counts(monkeypatch, independent, 4000, shrink=shrink)["c"] for shrink in (False, True))
    assert (narrow.std(axis=0) < 0.9 * wide.std(axis=0)).all()
    table = 20 * np.array([[[9000, 1000], [2000, 6000]], [[1000, 5000], [8000, 8000]]])
    clear = NoisyCounts(BINARY, {("c", "b", "a"): table}, {("c", "b", "a"): DiscreteLaplace(40.0)}, 800_000)
    wide, narrow = (latent_counts(monkeypatch, clear, 4000, shrink=shrink)["c"] for shrink in (False, True))
    np.testing.assert_allclose(narrow.std(axis=0), wide.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(narrow.mean(axis=0), wide.mean(axis=0), rtol=0.01)


def test_the_variance_of_many_draws_at_once_is_each_ones_and_is_left_alone():
    """Two families share blocks: the second must see what the first saw."""
    blocks = [(), ("c",), ("b",), ("a",), ("c", "b"), ("b", "a")]
    rng = np.random.default_rng(0)
    variances = {block: rng.random(5) for block in blocks}
    before = {block: values.copy() for block, values in variances.items()}
    for family in (("b", "a"), ("c", "b"), ("b", "a")):
        together = cell_variance(LEVELS, variances, family)
        alone = [cell_variance(LEVELS, {b: float(v[i]) for b, v in before.items()}, family) for i in range(5)]
        np.testing.assert_allclose(together, alone)
    assert all((variances[block] == before[block]).all() for block in blocks)


def sparse(n):
    """Many cells far below zero."""
    rng = np.random.default_rng(3)
    keys = BINARY.maximal_families
    tables = {key: rng.integers(-200, 60, BINARY.shape(key)) for key in keys}
    return NoisyCounts(BINARY, tables, {key: DiscreteLaplace(3.0) for key in keys}, n)


@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("n", [None, 0, 50])
def test_cells_below_zero(shrink, n, monkeypatch):
    """Nothing is negative or nan, and redrawn tables keep their number of rows."""
    noisy = sparse(n)
    drawn = latent_counts(monkeypatch, noisy, 500, shrink=shrink)
    for counts in drawn.values():
        assert np.isfinite(counts).all()
        assert (counts >= 0).all()
        if shrink and n is not None:
            np.testing.assert_allclose(counts.reshape(500, -1).sum(axis=1), n, atol=1e-9)
    made = draw_by_normal(noisy, concentration_tables(BINARY, 0.1), rng=np.random.default_rng(0), shrink=shrink)
    assert all(np.isfinite(table).all() for table in made.tables.values())


def test_redrawn_cells_follow_the_truncated_normal():
    """One variable, a cell 2 below zero with standard deviation 1.5: its law before scaling to the total, read off the
    ratio to the other cell, against scipy's truncated normal; Kolmogorov-Smirnov at 1e-6."""
    network = dg.Network.of({"a": [0, 1]}, {})
    blocks = {(): (np.array(100.0), 0.0), ("a",): (np.array([104.0 / np.sqrt(2)]), 2 * 1.5**2)}
    rng = np.random.default_rng(0)
    latent = {block: normal._residuals(mean, var, rng, DRAWS, shrink=False) for block, (mean, var) in blocks.items()}
    raw = normal._counts(network, ("a",), latent, rng, redraw=True)
    centre = 50 - 52  # the second cell is (n - contrast) / 2, with standard deviation sqrt(2 / 4) sigma_A
    fixed = 50 + latent["a",].values[:, 0] / np.sqrt(2)  # the first cell, as drawn
    redrawn = (fixed > 100) & (raw[:, 1] > 0)
    cell = raw[redrawn, 1] * fixed[redrawn] / (100 - raw[redrawn, 1])
    law = stats.truncnorm(-centre / 1.5, np.inf, loc=centre, scale=1.5)
    assert redrawn.sum() > 10_000
    assert stats.kstest(cell, law.cdf).pvalue > LEVEL


def sampled(network, noisy, **settings):
    prior = concentration_tables(network, 1.0)
    return draw_by_normal(noisy, prior, rng=np.random.default_rng(0), draws=DRAWS, **settings)


@pytest.mark.proof
@pytest.mark.parametrize("method", ["tables", "records", "normal", dg.methods.Normal(shrink=True)], ids=str)
def test_one_coin_whose_noise_exceeds_its_rows_is_enumerated(method):
    """Released [700, -600] at Laplace scale 200, n = 100. Mean and ends of the 90 % interval within .01 of the sum over
    the count; counts with a flat prior that are cut at zero give .998 and [.995, 1]."""
    network = dg.Network.of({"a": [0, 1]}, {})
    noisy = NoisyCounts(network, {("a",): [700, -600]}, {("a",): DiscreteLaplace(200.0)}, 100)
    drawn = dg.posterior(noisy, method=method, draws=DRAWS, seed=0, prior=1.0).flat("a")[:, 0]
    mean, low, high = coin(100, 700, -600, 200.0)
    assert drawn.mean() == pytest.approx(mean, abs=0.01)
    np.testing.assert_allclose(np.quantile(drawn, [0.05, 0.95]), [low, high], atol=0.01)


def coin(n, one, other, scale):
    """Posterior mean and 90 % interval of a coin by summation over the count."""
    s = np.arange(n + 1)
    weight = np.exp(-(np.abs(one - s) + np.abs(other - (n - s))) / scale)
    weight /= weight.sum()
    grid = np.linspace(0, 1, 20_001)
    below = (weight * stats.beta.cdf(grid[:, None], s + 1, n - s + 1)).sum(axis=1)
    return weight @ (s + 1) / (n + 2), *np.interp([0.05, 0.95], below, grid)


@pytest.mark.proof
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("kind", ["fourier residual", "gaussian residual", "laplace maximal"])
def test_records_agree_where_noise_exceeds_the_rows(kind, neighbours):
    """20 rows of one variable at a tenth of epsilon: the chain over records and draws by family have one posterior.
    Means within .04, six standard errors of some 1000 effective draws; one that is cut at zero is off by .1."""
    if (kind, neighbours) == ("gaussian residual", "replace"):
        return
    network = dg.Network.of({"a": [0, 1, 2, 3]}, {})
    rows = pd.DataFrame({"a": [0] * 15 + [1] * 3 + [2] * 2})
    noise = {
        "laplace maximal": dg.LaplaceMechanism("0.2", tables="maximal"),
        "fourier residual": dg.FourierMechanism("0.2", basis="residual"),
        "gaussian residual": dg.GaussianMechanism(1, 1e-6, basis="residual"),
    }
    budget = dg.Budget(1, 1e-6, unit=dg.PrivacyUnit(neighbours))
    noisy = dg.release(dg.count(rows, network), noise[kind], budget=budget, noise=dg.testing.SeededNoise(4)).value
    made = sampled(network, noisy)
    exact = dg.posterior(noisy, method="records", draws=4000, seed=0)
    np.testing.assert_allclose(made.mean().table("a"), exact.mean().table("a"), atol=0.04)
    np.testing.assert_allclose(made.flat("a").std(axis=0), exact.flat("a").std(axis=0), rtol=0.2)


@pytest.mark.parametrize(
    ("least", "variance", "expected"),
    [(100, 19, True), (100, 21, False), (-1, 1e-9, False), (2, 0.2, True), (2, 0.3, False), (0, 0, True)],
)
def test_settled_families_are_clear_of_their_noise(least, variance, expected):
    assert normal.settled(np.array([[least, 500.0]]), variance) == expected


@pytest.mark.parametrize("shrink", [False, True])
def test_no_noise_at_all(shrink):
    """A scale so small that its variance is zero: nothing divides by it."""
    keys = BINARY.maximal_families
    tables = {key: np.full(BINARY.shape(key), 4) for key in keys}
    for n, law in ((32, DiscreteLaplace(1e-3)), (None, DiscreteLaplace(1e-3)), (32, SumZeroLaplace(1e-3))):
        noisy = NoisyCounts(BINARY, tables, dict.fromkeys(keys, law), n)
        made = draw_by_normal(noisy, concentration_tables(BINARY, 1.0), rng=np.random.default_rng(0), shrink=shrink)
        assert all(np.isfinite(table).all() for table in made.tables.values())


def test_draws_in_pieces_are_as_many_as_asked(monkeypatch):
    monkeypatch.setattr(normal, "HELD", 100)
    noisy = released(BINARY, dg.LaplaceMechanism(1), "replace", n=500)
    made = draw_by_normal(noisy, concentration_tables(BINARY, 1.0), rng=np.random.default_rng(0), draws=37)
    assert made.shape == (1, 37)
    assert len({float(x) for x in made.flat("a")[:, 0]}) == 37
