"""A draw of regression weights is epsilon-DP by enumeration, tight by a witness, and has the law of the posterior.

The enumerations read the Gaussian that the mechanism hands to its sampler, so they see every number it uses; that the
sampler draws from it is tested in test_truncated_gaussian.
"""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgraph as dg
from dpgraph.files.documents import document
from dpgraph.papers import regression_sample
from dpgraph.papers.regression_sample import LEAST_TEMPERATURE, RegressionSample, residual_range
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import RESOLUTION, LinearDesign
from tests.conclusions import cdf_test
from tests.everything import everything
from tests.selection import counted
from tests.tiers import examples

pytestmark = pytest.mark.proof

LINE = LinearDesign({"x": (-1, 1)}, "y", (-1, 1), intercept=False)
SLOPED = LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
MIXED = LinearDesign({"age": (18, 90), "sex": ["F", "M"], "city": ["a", "b", "c"]}, "income", (0, 10))
REPLACE, ADD, PAIRS = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)
UNITS = [REPLACE, ADD, PAIRS]


def moments(design, columns, times=None):
    """Exact moments of rows given by their scaled columns, the target last, each so many times."""
    steps = np.rint(np.asarray(columns, float).reshape(-1, len(design.columns)) * RESOLUTION).astype(np.int64)
    times = np.ones(len(steps), np.int64) if times is None else np.asarray(times, np.int64)
    sums = [int((steps[:, i] * steps[:, j] * times).sum()) for i, j in design.pairs]
    return Moments(design, np.array(sums, np.int64), int(times.sum()))


def rows_of(design, values):
    """(x, y) pairs as columns."""
    return [(1.0, *row) if design.intercept else row for row in values]


def sample(epsilon, **settings_):
    return RegressionSample(epsilon, idealized_numerics=True, **settings_)


class Captured(Exception):
    """Carries what the sampler was asked for."""


@pytest.fixture
def asked(monkeypatch):
    """What a mechanism asks its sampler to draw from: gram, ridge, linear, radius, size."""

    def capture(noise, *law):
        raise Captured(law)

    def ask(mechanism, statistics, unit):
        with monkeypatch.context() as patch:
            patch.setattr(regression_sample, "draw_ball_gaussian", capture)
            with pytest.raises(Captured) as caught:
                mechanism.randomise(statistics, unit, dg.testing.SeededNoise(0))
        return caught.value.args[0]

    return ask


def ball(size, radius):
    """Points of the ball with quadrature weights, and points of it that hold the boundary; one or two dimensions."""
    x, w = np.polynomial.legendre.leggauss(400 if size == 1 else 60)
    if size == 1:
        return radius * x[:, None], radius * w, radius * np.linspace(-1, 1, 401)[:, None]
    angle = np.arange(96) * 2 * math.pi / 96
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    r = radius * (x + 1) / 2
    inner = (r[:, None, None] * circle).reshape(-1, 2)
    edge = (radius * np.linspace(0, 1, 13)[:, None, None] * circle).reshape(-1, 2)
    return inner, np.repeat(w * radius / 2 * r, 96) * 2 * math.pi / 96, edge


def log_density(law, nodes):
    """ln of the density at the last of ``ball``, normalised by its quadrature."""
    gram, ridge, linear, _, _ = law
    points, weights, seen = nodes

    def power(v):
        return v @ linear - np.einsum("ni,ij,nj->n", v, gram + ridge * np.eye(len(linear)), v) / 2

    inside = power(points)
    return power(seen) - inside.max() - math.log((np.exp(inside - inside.max()) * weights).sum())


KINDS = list(itertools.product([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]))


def neighbours(n, unit):
    """Pairs of data sets, as counts of KINDS, of at most n rows that differ in one person."""

    def sets(size):
        chosen = itertools.combinations_with_replacement(range(len(KINDS)), size)
        return [np.bincount(rows, minlength=len(KINDS)) if rows else np.zeros(len(KINDS), int) for rows in chosen]

    r = unit.rows_per_person
    if unit.n_is_public:
        people = sets(r)
        return [(kept + a, kept + b) for kept in sets(n - r) for a, b in itertools.combinations(people, 2)]
    return [(kept, kept + a) for size in range(n) for kept in sets(size) for a in sets(1)]


@pytest.mark.parametrize(("unit", "n"), [(REPLACE, 4), (ADD, 4), (PAIRS, 3)], ids=["replace", "add-remove", "pairs"])
@pytest.mark.parametrize(("design", "radius"), [(LINE, 1.0), (LINE, 0.5), (LINE, 2.0), (SLOPED, 1.0), (SLOPED, 2.0)])
def test_no_data_sets_of_up_to_four_rows_are_told_apart_better_than_epsilon(asked, design, radius, unit, n):
    """All multisets of nine kinds of rows, all neighbours, densities all over the ball, its boundary included."""
    mechanism = sample(3, radius=radius, precision=0.5)
    nodes, laws = ball(len(design.columns) - 1, radius), {}

    def law(times):
        key = tuple(times.tolist())
        if key not in laws:
            laws[key] = log_density(asked(mechanism, moments(design, rows_of(design, KINDS), times), unit), nodes)
        return laws[key]

    worst = max(float(np.abs(law(one) - law(other)).max()) for one, other in neighbours(n, unit))
    assert 0.35 * 3 < worst <= 3 * (1 + 1e-9)


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(("radius", "unit", "share"), [
    (1.0, REPLACE, 0.99), (0.5, REPLACE, 0.99), (1.0, ADD, 0.99), (0.5, ADD, 0.99), (2.0, ADD, 0.99),
    (1.0, PAIRS, 0.99), (2.0, REPLACE, 0.88),
])  # fmt: skip
def test_epsilon_is_attained_where_the_posterior_is_concentrated(asked, radius, unit, draws, share):
    """The witness: many rows (1 / B, 1) hold the slope at B, and one person says (1, -1), under replace in place of
    (1, 1): all draws together. Under replace with a radius of 2 this pair attains 4 B / (1 + B)^2 = .89 of the bound.
    """
    r = unit.rows_per_person
    mechanism = sample(3, radius=radius, draws=draws)
    base, other = [400_000, r if unit.n_is_public else 0, 0], [400_000, 0, r]
    x = [(1 / max(1.0, radius), 1.0), (1.0, 1.0), (1.0, -1.0)]
    away = np.geomspace(1e-9, 2 * radius, 20_001)
    grid = np.unique(np.clip(np.append(radius - away, radius), -radius, radius))
    gaps = np.diff(grid)
    trapezoid = np.concatenate([[gaps[0]], gaps[:-1] + gaps[1:], [gaps[-1]]]) / 2
    nodes = grid[:, None], trapezoid, grid[:, None]
    one, two = (log_density(asked(mechanism, moments(LINE, x, times), unit), nodes) for times in (base, other))
    attained = draws * float(np.abs(one - two).max())
    assert share * 3 < attained <= 3 * 1.001


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, 6), st.sampled_from([0.3, 1.0, 1.7, 4.0]), st.randoms(use_true_random=False))
def test_no_row_moves_the_log_likelihood_over_a_longer_interval_than_declared(size, radius, random):
    """From the definition: (y - x'w)^2 / 2 over many weights with ||w|| <= radius / sqrt(p), rows in the box."""
    rng = np.random.default_rng(random.randrange(2**32))
    w = rng.standard_normal((4000, size))
    w *= radius / math.sqrt(size) * (rng.random((4000, 1)) ** (1 / size)) / np.linalg.norm(w, axis=1, keepdims=True)
    x = np.clip(rng.standard_normal((2, size)) * 2, -1, 1)
    y = np.clip(rng.standard_normal(2) * 2, -1, 1)
    terms = (y - w @ x.T) ** 2 / 2
    assert np.ptp(terms, axis=0).max() <= residual_range(radius) * (1 + 1e-12)
    assert np.ptp(terms[:, 0] - terms[:, 1]) <= 2 * residual_range(radius) * (1 + 1e-12)


@pytest.mark.parametrize("radius", [0.3, 1.0, 1.7, 4.0])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_one_row_attains_the_range(size, radius):
    """x all ones and y = 1, along w proportional to x: the interval declared, to the step of the search."""
    along = np.linspace(-radius, radius, 200_001) / size
    term = (1 - size * along) ** 2 / 2
    assert np.ptp(term) == pytest.approx(residual_range(radius), rel=1e-8)


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("radius", [1.5, 2.0, 4.0])
def test_under_replace_two_rows_come_within_a_tenth_of_the_bound(size, radius):
    """Corners of the box with an intercept: over the plane of two rows the difference spans .93 of 2 L or more."""
    best, turn = 0.0, np.linspace(0, 2 * math.pi, 1441)
    for flipped, y in itertools.product(range(size), (-1, 1)):
        cosine = 1 - 2 * flipped / size
        one, two = np.array([1.0, 0.0]), np.array([cosine, math.sqrt(1 - cosine**2)])
        u = (np.linspace(0, radius, 81)[:, None, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)).reshape(-1, 2)
        best = max(best, float(np.ptp(((y - u @ two) ** 2 - (1 - u @ one) ** 2) / 2)))
    assert 0.93 * 2 * residual_range(radius) < best <= 2 * residual_range(radius) * (1 + 1e-12)


def test_the_papers_price():
    """(1 + B)^2 at T = 1 under replace from a radius of 1, half under add/remove, and k draws cost k times as much."""
    for radius in (1.0, 2.0, 5.0):
        price = (1 + radius) ** 2
        assert sample(price, radius=radius).temperature(MIXED, REPLACE) == pytest.approx(1)
        assert sample(price / 2, radius=radius).temperature(MIXED, ADD) == pytest.approx(1)
        assert sample(3 * price, radius=radius, draws=3).temperature(MIXED, REPLACE) == pytest.approx(1)
        assert sample(2 * price, radius=radius).temperature(MIXED, PAIRS) == pytest.approx(1)
    assert sample(2, radius=0.5).temperature(MIXED, REPLACE) == pytest.approx(1)
    assert sample(10**300).temperature(MIXED, REPLACE) == LEAST_TEMPERATURE


@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
def test_what_is_drawn_from_is_the_tempered_posterior(asked, unit):
    """From the rows, by the definition: -lambda ||u||^2 / 2 - sum (y - x'w)^2 / (2 T) with u = sqrt(4) w."""
    rng = np.random.default_rng(3)
    columns = np.column_stack(
        [np.ones(30), rng.uniform(-1, 1, 30), rng.choice([-1, 1], 30), *np.eye(3)[rng.integers(0, 3, 30)].T[1:]]
    )
    y = rng.uniform(-1, 1, 30)
    mechanism = sample("0.7", draws=2, radius=1.5, precision=3.0)
    gram, ridge, linear, radius, size = asked(mechanism, moments(MIXED, np.column_stack([columns, y])), unit)
    assert (ridge, radius, size) == (3.0, 1.5, 2)
    temperature = (2 if unit.n_is_public else 1) * 2.5**2 / 2 * 2 / 0.7
    w = rng.standard_normal((50, 5)) * 0.2
    u = 2 * w
    by_rows = -3.0 * (u**2).sum(axis=1) / 2 - ((y - w @ columns.T) ** 2).sum(axis=1) / (2 * temperature)
    drawn = u @ linear - np.einsum("ni,ij,nj->n", u, gram + ridge * np.eye(5), u) / 2
    gap = by_rows - drawn
    assert np.ptp(gap) < 1e-3


def test_released_draws_have_the_truncated_law_and_no_atom_on_the_boundary():
    """The whole way through the door: 4000 draws at T = 1 against the truncated normal, half of which is outside.

    Rows (1, .9) pull the slope to the boundary; 2/3 and 3/2 of the likelihood are rejected, each but for 1e-6."""
    n, size = 12, 4000
    mechanism = sample(4 * size, draws=size, precision=1.0)
    assert mechanism.temperature(LINE, REPLACE) == pytest.approx(1)
    statistics = moments(LINE, [(1.0, 0.9)] * n)
    released = dg.release(statistics, mechanism, budget=dg.Budget(4 * size), noise=dg.testing.SeededNoise(1)).value
    w = released.weights[:, 0]

    def truncated(times):
        precision = 1 + n * times
        law = stats.norm(0.9 * n * times / precision, 1 / math.sqrt(precision))
        low, high = law.cdf(-1), law.cdf(1)
        return lambda v: (law.cdf(v) - low) / (high - low)

    test = cdf_test(truncated(1), [truncated(2 / 3), truncated(3 / 2)], np.linspace(0, 1, 201), draws=size)
    test.check(w)
    assert np.abs(w).max() <= 1
    assert len(set(w.tolist())) == size
    assert (np.abs(w) > 1 - 1e-6).sum() <= 1


def simulated(n, seed=0):
    rng = np.random.default_rng(seed)
    city = np.eye(3)[rng.integers(0, 3, n)][:, 1:]
    columns = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), rng.choice([-1, 1], n), city])
    y = np.clip(columns @ [0.1, 0.3, -0.2, 0.15, 0.0] + rng.normal(0, 0.1, n), -1, 1)
    return np.column_stack([columns, y])


def test_many_rows_and_a_large_epsilon_give_the_truth():
    many = moments(MIXED, simulated(50_000))
    release = dg.release(many, sample(1000), budget=dg.Budget(1000), noise=dg.testing.SeededNoise(1))
    assert release.value.weights[0] == pytest.approx([0.1, 0.3, -0.2, 0.15, 0.0], abs=0.02)


@pytest.mark.parametrize("rows", [0, 1, 400])
@pytest.mark.parametrize("epsilon", ["0.1", 100])
def test_weights_never_leave_the_ball_whatever_the_rows(rows, epsilon):
    mechanism = sample(epsilon, draws=5, radius=0.4)
    value = dg.release(moments(MIXED, simulated(rows)), mechanism, budget=dg.Budget(epsilon)).value
    assert value.weights.shape == (5, 5)
    assert np.linalg.norm(value.weights, axis=1).max() <= 0.4 / 2 * (1 + 1e-12)
    assert len({tuple(row) for row in value.weights.tolist()}) == 5


def test_the_event_says_what_is_done_and_k_draws_are_charged_k_times():
    event = sample("0.6", draws=3).event(MIXED, REPLACE)
    assert event.mechanism == "RegressionSample (idealized numerics)"
    assert (event.epsilon, event.delta, event.measurements) == (dg.cost(event).epsilon, 0, ())
    (selection,) = event.selections
    assert (selection.law, selection.draws, selection.epsilon * 3) == ("continuous", 3, event.epsilon)
    budget = dg.Budget(1)
    for _ in range(3):
        dg.release(moments(MIXED, simulated(9)), sample("0.3", draws=2), budget=budget)
    assert budget.spent == budget.epsilon * 9 / 10
    with pytest.raises(dg.errors.BudgetExceededError):
        dg.release(moments(MIXED, simulated(9)), sample("0.3"), budget=budget)


class Watching:
    """Seeded bits, and how many were asked for."""

    private = True

    def __init__(self, seed):
        self.source, self.calls = dg.testing.SeededNoise(seed), []

    def bits(self, count):
        self.calls.append(count)
        return self.source.bits(count)


@pytest.mark.usefixtures("budgets_of_one_name")
@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_all_but_the_weights_is_the_same_whatever_the_rows(unit):
    """promise.md S4 and S7: the bits asked for, the event, the budget, shapes and the file but for the weights."""
    seen = []
    for n, seed in ((50, 1), (50, 2), (50 if unit.n_is_public else 0, 3), (50 if unit.n_is_public else 4000, 4)):
        noise, budget = Watching(5), dg.Budget(9, unit=unit)
        release = dg.release(moments(MIXED, simulated(n, seed)), sample("2.5", draws=4), budget=budget, noise=noise)
        plain = document(release)
        plain["weights"] = np.shape(plain["weights"])
        seen.append([json.dumps(plain), repr(noise.calls), repr(budget), everything(release.event)])
    assert seen[1:] == seen[:-1]
    assert len(noise.calls) == 4


def test_a_number_of_rows_that_is_private_shows_nowhere():
    rows, budget = moments(MIXED, simulated(7013)), dg.Budget(1, unit=ADD)
    release = dg.release(rows, sample(1), budget=budget, noise=dg.testing.SeededNoise(1))
    for text in (everything(release), json.dumps(document(release))):
        assert "7013" not in text.replace(".", " ").split()


def test_two_releases_differ():
    drawn = [dg.release(moments(MIXED, simulated(9)), sample(1), budget=dg.Budget(1)).value.weights for _ in range(2)]
    assert (drawn[0] != drawn[1]).all()


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"epsilon": 0}, "epsilon"), ({"epsilon": -1}, "epsilon"), ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": True}, "epsilon"), ({"draws": 0}, "draws"), ({"draws": 1.5}, "draws"), ({"draws": True}, "draws"),
        ({"radius": 0}, "radius"), ({"radius": -1}, "radius"), ({"radius": math.inf}, "radius"),
        ({"radius": "1"}, "radius"), ({"radius": True}, "radius"), ({"radius": 1e9}, "radius"),
        ({"precision": 0}, "precision"), ({"precision": -2}, "precision"), ({"precision": math.nan}, "precision"),
        ({"precision": None}, "precision"), ({"idealized_numerics": 1}, "idealized_numerics"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings_, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        RegressionSample(**({"epsilon": 1} | settings_))


NETWORK = dg.Network.of({"a": [0, 1]}, {})
DROPPING = LinearDesign({"x": (-1, 1)}, "y", (-1, 1), on_missing="drop")
WIDE = LinearDesign({f"x{i}": (0, 1) for i in range(200)}, "y", (0, 1))
EMPTY = LinearDesign({"only": ["one"]}, "y", (0, 1), intercept=False)


@pytest.mark.parametrize(
    ("statistics", "mechanism", "message"),
    [
        (moments(LINE, [(1, 1)]), RegressionSample(1), "idealized_numerics=True"),
        (moments(LINE, [(1, 1)]), sample("1e-14"), "nothing could be learned"),
        (moments(LINE, [(1, 1)]), sample("1.5", draws=5), "costs epsilon 1.5"),
        (dg.statistics.sufficient_statistics([0, 1], dg.expfam.Binomial()), sample(1), "moments of a regression"),
        (counted(NETWORK, {(0,): 3}), sample(1), "moments of a regression"),
        ([[1.0, 1.0]], sample(1), "takes statistics"),
        (Moments.zero(DROPPING), sample(1), "on_missing"),
        (Moments.zero(WIDE), sample(1), "1 to 200 weights"),
        (Moments.zero(EMPTY), sample(1), "1 to 200 weights"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(statistics, mechanism, message):
    class Forbidden:
        private = True

        def bits(self, count):
            pytest.fail("drew for a refused release")

    budget = dg.Budget(1)
    with pytest.raises(dg.errors.ReleaseError, match=message):
        dg.release(statistics, mechanism, budget=budget, noise=Forbidden())
    assert budget.spent == 0


def test_a_draw_that_fails_stays_charged():
    class Failing:
        private = True

        def bits(self, count):
            raise MemoryError

    budget = dg.Budget(1)
    with pytest.raises(MemoryError):
        dg.release(moments(LINE, [(1, 1)]), sample("0.4"), budget=budget, noise=Failing())
    assert budget.spent == budget.epsilon * 2 / 5
