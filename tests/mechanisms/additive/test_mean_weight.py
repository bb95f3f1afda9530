"""The weight of the target's sum: from public values alone, and enough to know the mean by."""

from fractions import Fraction

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.mechanisms.additive.plans import (
    LARGEST,
    LARGEST_GAUSSIAN,
    WANTED,
    WITHOUT_N,
    advised_weight,
    weighted_mean,
)
from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS
from dpgraph.structure.design import RESOLUTION

DESIGN = dg.LinearDesign({f"x{i}": (-1, 1) for i in range(7)}, "y", (-1, 1))


def sums_of(n, seed=0, design=DESIGN):
    rng = np.random.default_rng(seed)
    return dg.statistics.regression_moments((rng.uniform(-1, 1, (n, 7)), rng.uniform(-1, 1, n)), design)


@pytest.mark.parametrize(("n", "epsilon"), [(2_000, "0.5"), (5_000, "0.2"), (30_000, "0.1"), (30_000, "1")])
def test_the_mean_is_known_as_well_as_wanted_by_the_least_weight(n, epsilon):
    unit = dg.PrivacyUnit()
    weight = advised_weight(DESIGN, Fraction(epsilon), unit, n)

    def deviation(w):
        movement = DESIGN.with_mean_weight(w).sensitivity(unit) / RESOLUTION**2
        return np.sqrt(2) * movement / (w * float(Fraction(epsilon)) * n)

    assert deviation(weight) <= WANTED
    assert weight == DESIGN.copies or deviation(weight - 1) > 0.9 * WANTED


def test_the_noise_on_the_sum_is_that_of_its_weight():
    moments = sums_of(2_000)
    budget = dg.Budget("0.5")
    noisy = dg.release(weighted_mean(moments, "0.5", budget.unit), dg.LaplaceMechanism("0.5"), budget=budget).value
    weight = noisy.description.mean_weight
    at = noisy.names.index("intercept*y")
    other = noisy.names.index("x0*x1")
    assert weight > DESIGN.copies
    assert noisy.scales[other] / noisy.scales[at] == pytest.approx(weight)
    assert np.abs(noisy.values[at] - moments.sensitive_sums[at] / RESOLUTION**2) < 40 * noisy.scales[at]


def test_rows_change_nothing_but_their_sums():
    """Same n, other rows: the same design, so the same scales."""
    unit = dg.PrivacyUnit()
    one, other = (weighted_mean(sums_of(1_000, seed), "0.1", unit) for seed in (0, 1))
    assert one.description == other.description
    assert one.description.mean_weight == LARGEST
    assert (one.sensitive_sums == sums_of(1_000).sensitive_sums).all()


def test_a_private_number_of_rows_decides_nothing():
    unit = dg.PrivacyUnit("add-remove")
    weights = {weighted_mean(sums_of(n), "0.1", unit).description.mean_weight for n in (0, 10, 5_000)}
    assert weights == {WITHOUT_N}


def test_a_declared_weight_stays_and_no_intercept_has_none():
    unit = dg.PrivacyUnit()
    for design in (DESIGN.with_mean_weight(3), dg.LinearDesign(DESIGN.features, "y", (-1, 1), intercept=False)):
        moments = sums_of(100, design=design)
        assert weighted_mean(moments, "0.1", unit) is moments


def test_rows_of_one_person_count():
    three = dg.PrivacyUnit("replace", 3)
    assert advised_weight(DESIGN, Fraction("0.3"), three, 10_000) == advised_weight(
        DESIGN, Fraction("0.1"), dg.PrivacyUnit(), 10_000
    )


@pytest.mark.parametrize("features", [2, 7, 20])
@pytest.mark.parametrize("rows_per_person", [1, 5])
def test_a_weight_is_no_reason_to_refuse_a_small_epsilon(features, rows_per_person):
    """Wherever the sums could be released as they are, they can be with the advised weight."""
    unit = dg.PrivacyUnit("replace", rows_per_person)
    design = dg.LinearDesign({f"x{i}": (-1, 1) for i in range(features)}, "y", (-1, 1))
    seen = set()
    for epsilon in (Fraction(1, 2**k) for k in range(4, 20)):
        chosen = design.with_mean_weight(advised_weight(design, epsilon, unit, 100))
        fits = [one.sensitivity(unit) / epsilon <= MAX_SCALE_IN_STEPS for one in (design, chosen)]
        assert fits[0] == fits[1]
        seen.add(fits[0])
    assert seen == {True, False}


def test_gaussian_noise_has_a_smaller_largest_weight():
    """At 25 the noise on the mean is within 5 % of what any weight gives, from the squared movement as declared."""
    weighted = weighted_mean(sums_of(1_000), "0.1", dg.PrivacyUnit(), gaussian=True)
    assert weighted.description.mean_weight == LARGEST_GAUSSIAN

    def noise_of_the_mean(weight):
        return float(DESIGN.with_mean_weight(weight).squared_sensitivity(dg.PrivacyUnit())) ** 0.5 / weight

    last, most = noise_of_the_mean(LARGEST_GAUSSIAN), noise_of_the_mean(LARGEST)
    assert last < 1.05 * most
