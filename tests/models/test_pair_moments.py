"""Linear coefficients of a release of pairs are those of its tables, and their intervals hold the population's."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.graphs.pair_estimates import read_pairs
from dpgraph.models import projection
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.tables import NoisyCounts

#: The order of the features is not that of the domain; one number can be missing, ``rare`` has a level of few rows.
DOMAIN = {
    "pay": [0, 1, 2, 5],
    "sex": ["f", "m", "x"],
    "age": dg.Bins([0, 20, 50, 60], missing=True),
    "sick": ["no", "yes"],
}
FEATURES = ("sick", "age", "sex")
SIZES = {"pay": 4, "sex": 3, "age": 4, "sick": 2}


def law():
    """A joint in which age and sickness depend on each other and pay on all, axes in the domain's order."""
    pay, sex, age, sick = np.indices(tuple(SIZES.values()))
    logs = 0.5 * pay * (age == 2) - 0.6 * pay * (sick == 1) + 0.3 * pay * (sex == 1) + 0.9 * (age == 1) * sick
    weights = np.exp(logs - (sex == 2) - 1.5 * (age == 3))
    return weights / weights.sum()


LAW = law()


def measured(counts, rng, scale=20.0, n=None):
    """A release of all pairs of a table of counts, with normal noise rounded to whole numbers."""
    tables = {}
    for pair in combinations(range(4), 2):
        table = counts.sum(axis=tuple(axis for axis in range(4) if axis not in pair))
        key = tuple(list(SIZES)[axis] for axis in pair)
        tables[key] = np.rint(table + scale * rng.standard_normal(table.shape)).astype(np.int64)
    return NoisyCounts(dg.all_pairs(DOMAIN), tables, dict.fromkeys(tables, DiscreteGaussian(max(scale, 1e-3))), n)


def columns():
    """The scaled columns of features and target at each level."""
    domain = dg.Domain.of(DOMAIN)
    _, maps, centres, scales = projection._design(domain, FEATURES)
    scaled = [(one - centre) / scale for one, centre, scale in zip(maps, centres, scales, strict=True)]
    return [*scaled, (np.array([[0.0], [1], [2], [5]]) - 2.5) / 2.5]


def design():
    """The rows (1, features, target) of every cell, in the cells' order."""
    codes = dict(zip(SIZES, (axis.ravel() for axis in np.indices(LAW.shape)), strict=True))
    parts = [one[codes[name]] for one, name in zip(columns(), [*FEATURES, "pay"], strict=True)]
    return np.column_stack([np.ones(LAW.size), *parts])


def slopes_of(weights):
    """Least squares over all cells, of the unscaled numbers."""
    rows = design()
    root = np.sqrt(weights.ravel())[:, None]
    b = np.linalg.lstsq(rows[:, :-1] * root, (2.5 + 2.5 * rows[:, -1:]) * root, rcond=None)[0][:, 0]
    b[2] /= 22.5  # age, from 10 to 55
    b[0] -= b[2] * 32.5
    return b


def test_moments_of_exact_tables_are_those_of_the_rows():
    counts = np.random.default_rng(0).multinomial(3000, LAW.ravel()).reshape(LAW.shape)
    pairs = read_pairs(measured(counts, np.random.default_rng(1), 0.0, 3000))
    moments = projection._moments(pairs, (*FEATURES, "pay"), columns(), np.random.default_rng(2))
    rows = design()
    expected = (rows * counts.ravel()[:, None]).T @ rows / 3000
    np.testing.assert_allclose(moments[0], expected, atol=1e-9)
    np.testing.assert_allclose(moments[-1], expected, atol=1e-5)


@pytest.mark.parametrize("n", [3000, None])
def test_moments_are_drawn_with_the_covariance_of_the_noise(monkeypatch, n):
    """Random sums of the moments of 120 releases of the same rows, beside 1000 draws given one."""
    rng = np.random.default_rng(3)
    counts = rng.multinomial(3000, LAW.ravel()).reshape(LAW.shape)
    weights, releases = rng.standard_normal((7, 7, 3)), [measured(counts, rng, 20.0, n) for _ in range(120)]
    pairs, settings = [read_pairs(one) for one in releases], ((*FEATURES, "pay"), columns(), rng)
    drawn = projection._moments(pairs[0], *settings)[1:]
    monkeypatch.setattr(projection, "MOST_DRAWS", 1)
    monkeypatch.setattr(projection, "LEAST_DRAWS", 1)
    found = np.array([projection._moments(one, *settings)[0] for one in pairs])
    seen, given = (np.einsum("dij,ijk->dk", one, weights).var(axis=0) for one in (found, drawn))
    assert (abs(np.log(seen / given)) < 5 * math.sqrt(2 / 120 + 2 / 1000)).all(), seen / given


def coverage(releases, scale, rng, rows=3000):
    """The share of 90 % intervals that hold each slope of the population, and the slopes' errors over deviations."""
    truth, inside, errors = slopes_of(LAW), [], []
    for _ in range(releases):
        counts = rng.multinomial(rows, LAW.ravel()).reshape(LAW.shape)
        found = dg.regression(measured(counts, rng, scale), "pay", FEATURES)
        inside.append((found.low <= truth) & (truth <= found.high))
        errors.append((found.mean - truth) / found.sd)
    return np.mean(inside, axis=0), np.array(errors)


def test_intervals_hold_the_slopes_of_the_population():
    inside, _ = coverage(25, 20.0, np.random.default_rng(4))
    assert 0.8 < inside.mean() < 0.97, inside  # of 150, some dependent


@pytest.mark.proof
@pytest.mark.parametrize("scale", [0.5, 20.0, 60.0])
def test_intervals_are_calibrated_from_little_noise_to_much(scale):
    inside, errors = coverage(400, scale, np.random.default_rng(5))
    assert (inside > 0.85).all(), inside
    assert scale == 60.0 or (inside < 0.96).all(), inside  # where the prior decides, all is held
    assert (abs(errors.mean(axis=0)) < 0.5).all(), errors.mean(axis=0)


def test_a_level_that_drowns_in_its_noise_keeps_to_the_prior():
    """Half the target's range is one deviation of the prior; without it the coefficient is any number."""
    weights = LAW * (np.arange(3) != 2)[None, :, None, None]
    counts = np.random.default_rng(6).multinomial(3000, weights.ravel() / weights.sum()).reshape(LAW.shape)
    found = dg.regression(measured(counts, np.random.default_rng(7), 20.0), "pay", FEATURES)
    name = found.names.index("sex=x")
    assert 1.0 < found.sd[name] < 4.0
    assert abs(found.mean[name]) < 2.5
    assert found.sd[found.names.index("sex=m")] < 0.6


def test_a_graph_that_is_asked_for_is_read():
    """Draws of a graph without arcs have no slopes; a learned network with the same one has its release's."""
    released = measured(np.rint(5000 * LAW).astype(int), np.random.default_rng(8), 2.0)
    learned = dg.choose_network(released, constraints=dg.Constraints(max_parents=0))
    assert np.array_equal(dg.regression(learned, "pay", FEATURES).draws, dg.regression(released, "pay", FEATURES).draws)
    empty = dg.regression(learned.posterior(method="refitted", draws=5), "pay", FEATURES)
    np.testing.assert_allclose(empty.draws[:, 1:], 0, atol=1e-9)


@pytest.mark.parametrize(("target", "family"), [("sick", "logistic"), ("pay", "poisson")])
def test_curves_agree_with_the_pairs_where_the_graph_does_not(target, family):
    """Independent features and a graph without arcs: the slopes are those of the law all the same."""
    pay, sex, age, sick = np.indices(LAW.shape)
    weights = np.exp(0.7 * (pay if target == "pay" else sick) * ((age == 2) + 0.8 * (sex == 1) - 0.5))
    weights /= weights.sum(axis=(0, 3), keepdims=True)
    features = ["age", "sex"]
    released = measured(np.rint(2e5 * weights / weights.sum()).astype(int), np.random.default_rng(9), 1.0)
    learned = dg.choose_network(released, constraints=dg.Constraints(max_parents=0))
    found = dg.regression(learned, target, features, family).mean
    law = dg.Network.of(DOMAIN, {"sick": ["age", "sex"], "pay": ["age", "sex"]})
    joint = weights / weights.sum()
    tables = {"sex": joint.sum(axis=(0, 2, 3)), "age": joint.sum(axis=(0, 1, 3))}
    for name, axis in (("sick", 0), ("pay", 3)):
        table = np.moveaxis(joint.sum(axis=axis), [-1, 1, 0] if axis == 0 else [0, 2, 1], [0, 1, 2])
        tables[name] = table / table.sum(axis=0)
    wanted = dg.regression(dg.Probabilities(law, tables), target, features, family).mean
    np.testing.assert_allclose(found[1:], wanted[1:], atol=0.03)
    assert abs(wanted[3:]).max() > 0.3


def test_a_line_that_no_curve_has_is_cut():
    """Of few rows and much noise: every draw settles on odds that a number can be made of."""
    released = measured(np.rint(60 * LAW).astype(int), np.random.default_rng(10), 30.0)
    learned = dg.choose_network(released, constraints=dg.Constraints(max_parents=0))
    found = dg.regression(learned, "sick", ["age", "sex", "pay"], "logistic")
    assert np.isfinite(found.draws).all()
    assert np.isclose(found.predict(pd.DataFrame({"age": [30], "sex": ["f"], "pay": [1]})), 0.5, atol=0.4)
    assert found.sd.min() > 0


def test_a_wrong_target_is_refused_before_anything_is_drawn(monkeypatch):
    """Choosing a graph, drawing tables and reading pairs would each raise another error."""
    released = measured(np.rint(500 * LAW).astype(int), np.random.default_rng(10))
    learned = dg.choose_network(released)
    for name in ("choose_network", "posterior", "read_pairs"):
        monkeypatch.setattr(f"dpgraph.inference.graphs.choosing.{name}", None)
    monkeypatch.setattr(type(learned), "posterior", None)
    for model in (released, learned):
        for ask in (dg.regression, dg.classifier, dg.effect):
            with pytest.raises(dg.errors.NetworkError, match="nothing"):
                ask(model, "nothing", ["age"] if ask is not dg.effect else "age")
