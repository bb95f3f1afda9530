"""What benchmarks/regression.py compares with: AdaSSP without noise is least squares, and its noise is what is said."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.privacy.gdp import delta_of_mu

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import regression

TABLE = regression.Table(pd.DataFrame, "y", {"x": (-1, 1)}, (-2, 2))
DESIGN = dg.LinearDesign(TABLE.features, "y", TABLE.bounds)


@pytest.mark.parametrize("rounds", [1, 100])
def test_without_noise_ada_ssp_is_least_squares(rounds):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(-1, 1, 500)}).assign(y=lambda f: 0.3 + f["x"] + rng.uniform(-0.5, 0.5, 500))
    made = regression.ada_ssp(TABLE, DESIGN, rows, rows, "100000000", 0, rounds)
    assert np.abs(made - regression.least_squares(DESIGN, rows, rows)[0]).max() < 1e-3


@pytest.mark.proof
def test_the_noise_of_ada_ssp_is_that_of_a_third_of_what_it_may_lose():
    """X'X is n times the identity and X'y is 0, so weights are the noise of X'y over n: 800 normal numbers, whose
    deviation is 5 standard errors (of 1 / sqrt(1600)) off with probability 6e-7."""
    n, sign = 200_000, np.tile([-1.0, 1.0], 100_000)
    rows, ends = pd.DataFrame({"x": sign, "y": 0.0}), pd.DataFrame({"x": [-1.0, 1.0], "y": 0.0})
    made = np.array([regression.ada_ssp(TABLE, DESIGN, rows, ends, "1", seed, 1) for seed in range(400)]) / 2
    weights = np.column_stack([made.mean(axis=1), (made[:, 1] - made[:, 0]) / 2])
    # one replaced row moves X'y by twice the norm sqrt(2) of a row; the noise over that is sqrt(3) / mu
    mu = 2 * math.sqrt(2) * math.sqrt(3) / (n * weights.std())
    low, high = (float(delta_of_mu(Fraction((mu * by) ** 2), Fraction(1))) for by in (0.875, 1.125))
    assert low < 1e-6 < high
