"""The pseudo-records of Corollary 3: the paper's proof and its limit."""

import math

import numpy as np
import pytest
from scipy import signal, stats

import dpgraph as dg
from dpgraph.mechanisms.additive.fourier import FourierMechanism

REPLACE = dg.PrivacyUnit("replace")
ASIA = dg.read_network("example:asia")


def test_the_increments_of_asia():
    """proofs.md P33: 4 t |N_I|^2 / epsilon = 4062 at t = ln 10."""
    t = math.log(10)
    assert FourierMechanism(1, "paper", t=t).pseudo_records(ASIA, REPLACE) == math.ceil(4 * t * 21**2) == 4062
    assert FourierMechanism("0.5", "paper", t=t).pseudo_records(ASIA, REPLACE) == math.ceil(8 * t * 21**2)
    assert FourierMechanism(1, t=t).pseudo_records(ASIA, REPLACE) == math.ceil(2 * t * 20 * 28)
    assert FourierMechanism(1).pseudo_records(ASIA, REPLACE) == 0


def test_pseudo_records_are_uniform_and_recorded():
    counts = dg.count(dg.sample_rows(dg.load("example:asia"), 100, np.random.default_rng(0)), ASIA)

    def released(mechanism):
        return dg.release(counts, mechanism, budget=dg.Budget(1), noise=dg.testing.SeededNoise(3)).value

    plain, lifted = released(FourierMechanism(1)), released(FourierMechanism(1, t=1))
    added = FourierMechanism(1, t=1).pseudo_records(ASIA, REPLACE)
    assert (plain.pseudo_records, lifted.pseudo_records, lifted.n) == (0, added, 100)
    assert lifted.blocks == plain.blocks
    for key, table in lifted.tables().tables.items():
        np.testing.assert_allclose(table - plain.tables().tables[key], added / ASIA.cells(key))
    assert lifted.tables().n == 100 + added


@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0, 42.0])
@pytest.mark.parametrize("t", [0.5, 1.0, math.log(10)])
def test_the_papers_claim_holds_for_integer_noise_from_one_half_on(scale, t):
    """Corollary 3: the worst deficit is at most sum |z| over m coefficients, and P(sum |z| > 2 t m scale) <= exp(-t),
    by exact convolution for m up to 34 (naive Bayes with 16 features)."""
    support = np.arange(int(80 * scale) + 80)
    one = np.exp(-support / scale) * np.where(support == 0, 1, 2)
    one /= one.sum()
    law = np.ones(1)
    for m in range(1, 35):
        law = signal.fftconvolve(law, one)
        beyond = math.floor(2 * t * m * scale) + 1
        assert law[beyond:].sum() <= math.exp(-t) + 1e-9


def test_below_one_half_the_papers_argument_fails():
    """sum |z| is Gamma(m) in the limit of large scales: at m = 20, t = 0.4 beyond 2 t m with probability .81 > .67."""
    assert stats.gamma.sf(2 * 0.4 * 20, 20) > 0.8 > math.exp(-0.4)
