"""Exact rational checks of claims that floats take part in: rounded the wrong way, a claim is false however little."""

from fractions import Fraction

import pytest

import dpgraph as dg
from dpgraph.privacy.noise import epsilon_of_rho, rho_of_epsilon
from tests.contract.data import LOG, SIDES
from tests.contract.enumeration import UNITS

EPSILONS = [Fraction(7 * i + 3, 10) for i in range(12)]


@pytest.mark.proof
@pytest.mark.parametrize("delta", ["1e-6", "1e-9"])
def test_the_rho_of_an_epsilon_never_costs_more(delta):
    """A rho rounded up by its twelfth digit costs too much for about half of these."""
    for epsilon in EPSILONS:
        assert epsilon_of_rho(rho_of_epsilon(epsilon, Fraction(delta)), Fraction(delta)) <= epsilon


@pytest.mark.proof
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_rho_of_a_gibbs_sampler_covers_all_its_updates(delta):
    """k updates of epsilon e are k e^2 / 8-zCDP: at most what is claimed, and at most what the epsilon allows."""
    for epsilon in EPSILONS:
        for sweeps in (3, 7, 100):
            event = dg.papers.GibbsSample(epsilon, 2, sweeps, delta=delta).event(LOG.network, UNITS[0])
            (updates,) = event.selections
            spent = updates.draws * updates.epsilon**2 / 8
            assert spent <= event.rho
            if event.delta:
                assert epsilon_of_rho(spent, event.delta) <= event.epsilon
            else:
                assert updates.draws * updates.epsilon <= event.epsilon


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_scale_of_a_regressions_moments_is_never_too_small(unit):
    """At scales around 2^35 a float is off by 2^-18; the loss over the claim is compared as fractions."""
    design = dg.LinearDesign({"x": SIDES, "z": SIDES}, "y", SIDES)
    for epsilon in EPSILONS:
        (laplace,) = dg.LaplaceMechanism(epsilon).event(design, unit).measurements
        assert design.sensitivity(unit) / Fraction(laplace.law.scale) <= epsilon
        (gaussian,) = dg.GaussianMechanism(delta="1e-6", rho=epsilon).event(design, unit).measurements
        assert design.squared_sensitivity(unit) / (2 * Fraction(gaussian.law.scale) ** 2) <= epsilon
