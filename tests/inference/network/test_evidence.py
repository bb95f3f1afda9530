"""What a release says of rows: the exact statistics, and the exact law of the noise that was drawn, for every kind."""

import math
import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.network.evidence import (
    Evidence,
    MeasuredTable,
    concentration_tables,
    contingency_table,
    evidence,
    rows_estimate,
)
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.tables import NoisyCounts
from tests.inference.network.likelihoods import log_likelihood, of_table
from tests.mechanisms.additive.test_sensitivity import fixed_point_contrasts

LEVELS = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1, 2], "d": [0, 1]}, {"b": ["a"], "c": ["a", "b"]})
BINARY = dg.Network.of({name: [0, 1] for name in "abcd"}, {"b": ["a"], "c": ["b"], "d": ["b", "c"]})
ONE = dg.Network.of({"a": [0, 1, 2], "here": ["x"], "b": [0, 1]}, {"b": ["here", "a"], "here": ["a"]})
NETWORKS = {"levels": LEVELS, "binary": BINARY, "one level": ONE}
LAPLACE = {
    f"laplace {tables} {noise}": dg.LaplaceMechanism(0.2, tables=tables, noise=noise)
    for tables in ("merged", "maximal", "families")
    for noise in ("auto", "independent")
}
MECHANISMS = LAPLACE | {
    "gaussian": dg.GaussianMechanism(1, 1e-6),
    "gaussian residual": dg.GaussianMechanism(1, 1e-6, basis="residual"),
    "fourier walsh": dg.FourierMechanism(1),
    "fourier residual": dg.FourierMechanism(1, basis="residual"),
}
#: Of variables of two levels alone.
PSEUDO_RECORDS = {"fourier pseudo-records": dg.FourierMechanism(1, t=1)}


@dataclass
class Recorder:
    """Seeded noise that keeps what it drew for each law, in the order asked."""

    private: bool = False
    drawn: list = field(default_factory=list)
    source: object = field(default_factory=lambda: dg.testing.SeededNoise(3))

    def add(self, values, law):
        answer = self.source.add(values, law)
        self.drawn.append((law, answer - values))
        return answer


def cases():
    for name, network in NETWORKS.items():
        for kind, mechanism in (MECHANISMS | (PSEUDO_RECORDS if network is BINARY else {})).items():
            for neighbours in ("replace", "add-remove"):
                if kind == "gaussian residual" and neighbours == "replace":
                    continue
                yield pytest.param(network, mechanism, neighbours, id=f"{name}, {kind}, {neighbours}")


def rows_of(network, n, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.choice(size, n, p=rng.dirichlet(np.ones(size))) for name, size in network.domain.sizes.items()}


def frame(network, codes):
    return pd.DataFrame({v: np.array(network.domain.levels(v), object)[codes[v]] for v in codes})


def released(network, mechanism, neighbours, codes):
    noise = Recorder()
    budget = dg.Budget(1, 1e-6, unit=dg.PrivacyUnit(neighbours))
    release = dg.release(dg.count(frame(network, codes), network), mechanism, budget=budget, noise=noise)
    return release.value, noise


def log_pmf(law, z):
    """ln of the law up to its constant, from its definition."""
    return -(z**2) / (2 * law.scale**2) if isinstance(law, DiscreteGaussian) else -abs(z) / law.scale


@pytest.mark.parametrize(("network", "mechanism", "neighbours"), list(cases()))
def test_what_is_left_is_the_noise_that_was_drawn(network, mechanism, neighbours):
    """(values - statistics of the true rows) / step, over all tables, are the very draws of the recorded laws, and the
    log-likelihood is the sum of their log pmfs: no tolerance on the integers."""
    codes = rows_of(network, 60)
    value, noise = released(network, mechanism, neighbours, codes)
    given = evidence(value)
    assert given.network is network
    assert given.n == (60 if neighbours == "replace" else None)
    by_law = {}
    total = 0.0
    for table in given.tables:
        left = table.values - table.statistics(contingency_table(codes, table.variables, table.shape))
        assert left.dtype == np.int64
        assert (left % table.step == 0).all()
        draws = (left // table.step).tolist()
        by_law.setdefault(table.law, []).extend(abs(z) for z in draws)
        total += sum(log_pmf(table.law, z) for z in draws)
        assert table.law.gaussian == isinstance(table.law, DiscreteGaussian)
        assert table.scale == table.law.scale * table.step
    asked = {}
    for law, drawn in noise.drawn:
        asked.setdefault(law, []).extend(abs(z) for z in drawn.tolist())
    assert {law: sorted(draws) for law, draws in by_law.items()} == {law: sorted(d) for law, d in asked.items()}
    assert any(z != 0 for draws in asked.values() for z in draws)
    assert log_likelihood(given, codes) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("network", "mechanism", "neighbours"), list(cases()))
def test_log_likelihood_ratios_of_other_rows_are_those_of_the_laws(network, mechanism, neighbours):
    """Statistics straight from the definition, row by row: counts by looking, contrasts by their products."""
    value, _ = released(network, mechanism, neighbours, rows_of(network, 40))
    given = evidence(value)

    def log_probability(codes):
        rows = [{v: int(codes[v][i]) for v in codes} for i in range(len(next(iter(codes.values()))))]
        total = 0.0
        for table in given.tables:
            law = table.law
            if table.weights is None:
                exact = np.zeros(table.shape, int)
                for row in rows:
                    exact[tuple(row[v] for v in table.variables)] += 1
            else:
                blocks = [fixed_point_contrasts(network, row, table.variables, value.grid) for row in rows]
                exact = np.sum(blocks, axis=0) if rows else np.zeros(table.values.shape, int)
            total += sum(log_pmf(law, z / table.step) for z in (table.values - np.ravel(exact)).tolist())
        return total

    n = 40 if neighbours == "replace" else 33
    one, other = rows_of(network, n, seed=1), rows_of(network, 40, seed=2)
    ratio = log_likelihood(given, one) - log_likelihood(given, other)
    assert ratio == pytest.approx(log_probability(one) - log_probability(other), rel=1e-9)


def test_parity_counts_move_in_steps_of_two():
    value, _ = released(BINARY, dg.FourierMechanism(1), "replace", rows_of(BINARY, 30))
    assert {table.step for table in evidence(value).tables} == {2}


def test_no_rows_at_all():
    empty = {name: np.zeros(0, int) for name in LEVELS.domain.names}
    for mechanism in MECHANISMS.values():
        value, _ = released(LEVELS, mechanism, "add-remove", empty)
        assert np.isfinite(log_likelihood(evidence(value), empty))


def test_rows_are_known_where_they_are_public():
    value, _ = released(LEVELS, dg.LaplaceMechanism(1), "replace", rows_of(LEVELS, 60))
    assert rows_estimate(evidence(value)) == (60.0, 0.0)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_estimated_number_of_rows_is_the_weighted_mean(kind):
    """Against weights 1 / variance written out, and within 6 of its own standard deviations of the truth."""
    value, _ = released(LEVELS, MECHANISMS[kind], "add-remove", rows_of(LEVELS, 5000))
    if isinstance(value, NoisyCounts):
        parts = [(int(table.sum()), value.variance(key) * table.size) for key, table in value.tables.items()]
    else:
        parts = [(value.blocks[()].item() / value.grid, value.laws[()].variance(1) * (value.step / value.grid) ** 2)]
    weights = [1 / variance for _, variance in parts]
    mean = sum(w * total for w, (total, _) in zip(weights, parts, strict=True)) / sum(weights)
    estimate, spread = rows_estimate(evidence(value))
    assert estimate == pytest.approx(mean)
    assert spread == pytest.approx(math.sqrt(1 / sum(weights)))
    assert abs(estimate - 5000) < 6 * spread < 1000


def test_the_estimated_number_of_rows_is_not_negative():
    noisy = NoisyCounts(
        ONE, {("b", "here", "a"): np.full((2, 1, 3), -9)}, {("b", "here", "a"): DiscreteLaplace(3)}, None
    )
    assert rows_estimate(evidence(noisy))[0] == 0.0


def test_sum_zero_noise_has_the_likelihood_of_independent_noise():
    """Its normalisation does not depend on the counts."""
    values = np.array([4, 1, -2])
    tables = [MeasuredTable(("a",), (3,), values, law) for law in (SumZeroLaplace(2.0), DiscreteLaplace(2.0))]
    counts = np.array([1, 1, 1])
    assert of_table(tables[0], counts) == of_table(tables[1], counts) == -3.0


def test_counted_is_the_cross_tabulation():
    codes = rows_of(LEVELS, 200)
    table = contingency_table(codes, ("c", "a"), (3, 2))
    np.testing.assert_array_equal(table, pd.crosstab(codes["c"], codes["a"]).reindex(range(3), fill_value=0))
    small = {name: column.astype(np.uint8) for name, column in codes.items()}
    np.testing.assert_array_equal(contingency_table(small, ("c", "a"), (3, 2)), table)
    assert contingency_table(codes, (), ()) == 200


def test_the_prior_is_the_same_in_every_cell():
    tables = concentration_tables(LEVELS, 0.5)
    assert {name: table.shape for name, table in tables.items()} == {"a": (2,), "b": (3, 2), "c": (3, 2, 3), "d": (2,)}
    assert {x for table in tables.values() for x in table.ravel()} == {0.5}


@pytest.mark.parametrize(
    "value", [3, None, "rows", np.zeros(3), dg.load("example:asia")], ids=lambda v: type(v).__name__
)
def test_another_kind_of_value_is_refused(value):
    with pytest.raises(dg.errors.InferenceError, match=rf"noisy counts or coefficients; got {type(value).__name__}"):
        evidence(value)


def test_a_family_that_no_table_holds_is_refused():
    noisy = NoisyCounts(BINARY, {("a", "b"): np.zeros((2, 2), np.int64)}, {("a", "b"): DiscreteLaplace(1.0)}, 5)
    with pytest.raises(NetworkError, match=re.escape("no table holds d, b, c together")):
        evidence(noisy)


def test_evidence_is_a_sum_over_tables():
    codes = rows_of(LEVELS, 20)
    given = evidence(released(LEVELS, dg.LaplaceMechanism(1, tables="families"), "replace", codes)[0])
    parts = [log_likelihood(Evidence(LEVELS, (table,), 20), codes) for table in given.tables]
    assert log_likelihood(given, codes) == pytest.approx(sum(parts))
