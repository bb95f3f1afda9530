"""A public number of entries is kept by every draw, and the posterior is that of the definition."""

import numpy as np
import pytest
from scipy.stats import binom

import dpgraph as dg
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.frozen import FrozenMap

DOMAIN = dg.Domain.of({"region": ["N"], "month": [1, 2, 3], "kind": ["a", "b"]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")
ENTRIES = np.array([[9, 4, 6]])
NOISY = np.array([[[12, 1], [-2, 3], [8, 2]]])
SCALE = 4.0
KEY = ("kind", "region", "month")


def noisy(n=None):
    tables = FrozenMap({KEY: np.transpose(NOISY, (2, 0, 1))})
    return dg.results.NoisyCounts(NETWORK, tables, FrozenMap({KEY: DiscreteLaplace(SCALE)}), n)


def fit(**settings):
    how = {"sequence": "region", "time": "month", "iterations": 4000, "burn_in": 300, "seed": 1} | settings
    return dg.fit_hmm(noisy(), 1, **how)


@pytest.mark.proof
def test_the_posterior_is_that_of_the_definition():
    """One state: phi by quadrature, cells summed out one by one. Unknown totals put the mean 0.15 lower."""
    phi = (np.arange(400) + 0.5) / 400
    log = np.zeros(400)
    for (a, b), n in zip(NOISY[0], ENTRIES[0], strict=True):
        s = np.arange(n + 1)
        noise = np.exp(-(np.abs(a - s) + np.abs(b - (n - s))) / SCALE)
        log += np.log(binom.pmf(s[None], n, phi[:, None]) @ noise)
    weight = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = weight @ phi
    deviation = np.sqrt(weight @ (phi - mean) ** 2)
    found = fit(entries=ENTRIES).emissions["kind"][..., 0, 0]
    assert found.mean() == pytest.approx(mean, abs=0.01)
    assert found.std() == pytest.approx(deviation, abs=0.01)
    assert fit(iterations=1000).emissions["kind"][..., 0, 0].mean() < mean - 0.08


def test_every_draw_keeps_the_public_numbers():
    model = fit(entries=ENTRIES, iterations=50, burn_in=50)
    assert model.entries.tolist() == ENTRIES.tolist()
    assert tuple(model.emissions) == ("kind",)
    assert (np.abs(fit(iterations=50, burn_in=50).entries - ENTRIES) > 0.3).any()


def test_held_out_cells_may_have_a_public_number_too():
    held = np.array([[False, True, False]])
    model = fit(entries=ENTRIES, held_out=held, iterations=200, burn_in=50)
    assert model.entries[~held].tolist() == ENTRIES[~held].tolist()


@pytest.mark.parametrize("bad", [[[1, 2]], [[1.5, 2.0, 3.0]], [[-1, 2, 3]], [[True, False, True]], "x"])
def test_what_is_no_table_of_entries_is_refused(bad):
    with pytest.raises(dg.errors.InferenceError, match="entries must be whole numbers"):
        fit(entries=bad)


def test_plug_in_inference_has_no_use_for_them():
    with pytest.raises(dg.errors.InferenceError, match="entries has no meaning"):
        fit(entries=ENTRIES, inference="plug-in")
