"""The compiled loops of a regression's chains compute what the plain density says, and their movement can be undone."""

import math

import numpy as np
import pytest
from scipy import special

from dpgraph.inference.regression import _kernels
from dpgraph.inference.regression.chain import _first_metric, _first_prior, as_model, starting_points, sums_are_possible
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.structure.design import LinearDesign
from tests.inference.regression.plain_density import model_density
from tests.inference.regression.problems import simulated

FEATURES = {"a": (0, 1), "s": ["x", "y"], "l": ["p", "q", "r"], "b": (0, 1)}
COMPILED = _kernels.compiled()
MADE = {"plain": (_kernels.density, _kernels.trajectories), "compiled": COMPILED}


def problem(*, intercept=True, private=False, gaussian=False, seed=4):
    """A model, starting points of three chains, and their priors, each of its own."""
    design, rng = LinearDesign(FEATURES, "y", (0, 1), intercept=intercept), np.random.default_rng(seed)
    noisy, _ = simulated(design, RegressionPrior(), 300, 3.0, rng, private=private, gaussian=gaussian)
    model = as_model(noisy, RegressionPrior(), design)
    prior = _first_prior(model, 3)
    prior.precision[:] *= rng.uniform(0.3, 3.0, (3, 1))
    prior.rate[:] *= rng.uniform(0.3, 3.0, 3)
    return model, starting_points(model, design, 3, rng), prior


def work(model):
    return np.full((8, max(model.layout.d, 8), model.layout.d), np.nan)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_a_loops_density_and_slope_are_the_plain_ones(private, intercept, gaussian, made):
    """At five times three random points, to 1e-9 of the value and of the steepest slope."""
    for seed in range(5):
        model, flat, prior = problem(intercept=intercept, private=private, gaussian=gaussian, seed=seed)
        value, slope = model_density(model, flat, prior)
        given, found = model.given(prior), np.empty_like(flat)
        for c in range(3):
            by_loop = MADE[made][0](model.problem, given, c, flat[c], found[c], work(model), True)
            assert by_loop == pytest.approx(value[c], rel=1e-9, abs=1e-9)
        assert np.abs(found - slope).max() < 1e-9 * np.abs(slope).max()
        if not gaussian:
            MADE[made][0](model.problem, given, 0, flat[0], found[0], work(model), False)
            sums = model.problem.features.size
            at = model.problem.features
            pull = np.sign(model.noise.observed[at] - flat[0, :sums]) / model.noise.scale[at]
            assert np.abs(found[0, :sums] + pull - slope[0, :sums]).max() < 1e-9 * np.abs(slope).max()


@pytest.mark.parametrize("made", MADE)
def test_what_rows_cannot_have_has_no_density(made):
    model, flat, prior = problem()
    for k, beyond in ((0, 3.0), (int(model.layout.squares[0]), 1.1)):
        apart = flat[0].copy()
        apart[k] = beyond
        assert math.isnan(MADE[made][0](model.problem, model.given(prior), 0, apart, apart.copy(), work(model), True))


@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_trajectories_can_be_undone_and_keep_their_energy(private, gaussian, factors):
    """Back along the same way with the velocity turned about, to 1e-7; volumes aside, that is what chains need. In
    steps of a fiftieth of the noise the energy changes by less than a hundredth; plain and compiled loops agree."""
    model, flat, prior = problem(private=private, gaussian=gaussian)
    speed, step, given = np.random.default_rng(0).standard_normal(flat.shape), np.full(3, 0.002), model.given(prior)
    metric = _first_metric(model)
    if factors:
        flat = COMPILED[2](model.problem, flat, False)
    place, pace = flat.copy(), speed.copy()
    fell = COMPILED[1](model.problem, given, metric, place, pace, step, 40, factors)
    assert np.abs(fell).max() < 0.01
    assert np.abs(place - flat).max() > 1e-3
    plain, fast = flat.copy(), speed.copy()
    assert np.allclose(
        _kernels.trajectories(model.problem, given, metric, plain, fast, step, 40, factors), fell, atol=1e-7
    )
    assert np.allclose(plain, place, atol=1e-9)
    np.negative(pace, out=pace)
    COMPILED[1](model.problem, given, metric, place, pace, step, 40, factors)
    assert np.abs(place - flat).max() < 1e-7
    assert np.abs(pace + speed).max() < 1e-6


@pytest.mark.parametrize("factors", [False, True])
def test_a_trajectory_out_of_what_is_possible_is_refused(factors):
    model, flat, prior = problem()
    given, metric, speed, step = model.given(prior), _first_metric(model), 1e4 * np.ones_like(flat), np.full(3, 0.5)
    found = COMPILED[1](model.problem, given, metric, flat, speed, step, 5, factors)
    assert (found == -math.inf).all()


@pytest.mark.parametrize("made", [_kernels.all_folded, COMPILED[2]], ids=["plain", "compiled"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_factors_are_coordinates_with_their_volume(private, intercept, made):
    """proofs.md P98. There and back, to 1e-12; the volume's logarithm is that of the measured Jacobian; whatever the
    numbers' factors are, X'X is positive definite and mean squares are below 1."""
    model, flat, _ = problem(private=private, intercept=intercept)
    factors, d = made(model.problem, flat, False), model.layout.d
    assert np.abs(made(model.problem, factors, True) - flat).max() < 1e-12
    volume = _kernels.unfolded(model.problem, factors[0], np.empty(flat.shape[1]), np.empty((d, d)))
    step = 1e-6 * np.eye(flat.shape[1])
    ahead, behind = (made(model.problem, factors[0] + way * step, True) for way in (1, -1))
    assert volume == pytest.approx(np.linalg.slogdet((ahead - behind) / 2e-6)[1], abs=1e-7)
    rows = np.unique(model.problem.source[model.layout.is_number])
    rows = rows[rows < model.layout.entries]
    apart = np.repeat(factors[:1], 20, axis=0)
    apart[:, rows] = 2 * np.random.default_rng(0).standard_normal((20, rows.size))
    moved = made(model.problem, apart, True)[:, : flat.shape[1] - d - 1]
    assert sums_are_possible(moved, model.layout).all()
    assert model.layout.is_number.tolist() == [column.startswith(("a", "b")) for column in model_columns(intercept)]


def model_columns(intercept):
    return ["1"] * intercept + ["a", "s", "l", "l", "b"]


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_the_slope_by_factors_is_that_of_their_density(private, intercept, gaussian):
    """The density of coordinates and the volume, by finite differences, to 1e-7 of the steepest slope."""
    model, flat, prior = problem(private=private, intercept=intercept, gaussian=gaussian)
    given, factors = model.given(prior), COMPILED[2](model.problem, flat, False)
    other, room = np.empty(flat.shape[1]), work(model)

    def density(y):
        slope = np.empty_like(y)
        return _kernels.density_of_factors(model.problem, given, 0, y, other, slope, room), slope

    value, slope = density(factors[0])
    volume = _kernels.unfolded(model.problem, factors[0], other.copy(), np.empty((model.layout.d,) * 2))
    assert value == pytest.approx(model_density(model, flat, prior)[0][0] + volume, rel=1e-12)
    step = 1e-6 * np.eye(flat.shape[1])
    measured = np.array([(density(factors[0] + e)[0] - density(factors[0] - e)[0]) / 2e-6 for e in step])
    assert np.abs(measured - slope).max() < 1e-7 * np.abs(slope).max()


@pytest.mark.parametrize(("y", "v"), [(0.5, 1.0), (-0.2, 3.0), (0.0, -1.0), (0.0, 0.0), (1e-9, -20.0)])
def test_a_bounced_coordinate_follows_its_force(y, v):
    """Against a hundred thousand small symplectic steps, in which it passes the middle often, once or never: place and
    velocity to two thousandths, and its own energy exactly."""
    scale, force, time = 0.7, 2.0, 6.0
    found = _kernels.bounced(y, v, scale, force, time)
    place, speed, h = y, v, time / 100_000
    for _ in range(100_000):
        place += h / 2 * scale * speed
        speed -= h * force * np.sign(place)
        place += h / 2 * scale * speed
    assert found == pytest.approx((place, speed), abs=2e-3)
    energy = force * abs(y) / scale + v**2 / 2
    assert force * abs(found[0]) / scale + found[1] ** 2 / 2 == pytest.approx(energy, rel=1e-10, abs=1e-12)


def test_the_derivative_of_the_log_gamma_function():
    x = np.geomspace(0.01, 1e6, 60)
    assert np.allclose([_kernels.digamma(one) for one in x], special.digamma(x), rtol=1e-12, atol=1e-12)


def test_matrices_without_an_inverse_are_seen():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((9, 5))
    for matrix in (half.T @ half, np.diag([1.0, 2, 3, 4, -1e-3]), np.ones((5, 5))):
        inverse = np.empty((5, 5))
        found = _kernels.inverted(matrix, np.empty((5, 5)), inverse)
        if np.linalg.eigvalsh(matrix)[0] < 1e-9:
            assert math.isnan(found)
        else:
            assert found == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
            assert np.allclose(inverse, np.linalg.inv(matrix), rtol=1e-10)
