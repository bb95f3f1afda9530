"""Releases of moments round-trip for every family that a file can name, and a file that does not fit is refused."""

import json

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.files.documents import document, value_of
from tests.files.edits import edited

RNG = np.random.default_rng(0)
CASES = [
    (dg.expfam.Binomial(3), None, RNG.integers(0, 4, 50)),
    (dg.expfam.Multinomial(("a", "b", "c")), None, RNG.choice(["a", "b", "c"], 50)),
    (dg.expfam.Poisson(), (0, 20), RNG.poisson(4, 50)),
    (dg.expfam.Exponential(), (0, 5), RNG.exponential(1, 50)),
    (dg.expfam.Gamma(2.5), (0, 9), RNG.gamma(2.5, 1, 50)),
    (dg.expfam.Normal(), (-4, 4), RNG.normal(0, 1, 50)),
    (dg.expfam.Normal(2.0), (-4, 4), RNG.normal(0, 1, 50)),
]


def released(family, bounds, x, neighbours):
    moments = dg.statistics.sufficient_statistics(x, family, bounds=bounds)
    return dg.release(moments, dg.LaplaceMechanism("1/3"), budget=dg.Budget(1, unit=dg.PrivacyUnit(neighbours)))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case[0]))
def test_round_trip(case, neighbours, tmp_path):
    release = released(*case, neighbours)
    dg.save(release, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert (loaded.event, loaded.unit, loaded.private) == (release.event, release.unit, release.private)
    assert loaded.value.description == release.value.description
    np.testing.assert_array_equal(loaded.value.sums, release.value.sums)
    assert document(loaded) == document(release)
    np.testing.assert_array_equal(loaded.value.scales, release.value.scales)
    if case[0].bounded:
        draws = [dg.posterior(one, prior=case[0].prior(), draws=20, seed=1) for one in (loaded, release)]
        assert draws[0].mean() == draws[1].mean()


@pytest.mark.parametrize(
    "change",
    [
        {"description": {"kind": "moments", "family": {"name": "cauchy"}, "bounds": [0, 20]}},
        {"description": {"kind": "moments", "family": {"name": "gamma"}, "bounds": [0, 20]}},
        {"description": {"kind": "moments", "family": {"name": "poisson", "rate": 2}, "bounds": [0, 20]}},
        {"description": {"kind": "moments", "family": {"name": "poisson"}}},
        {"description": {"kind": "moments", "family": {"name": "poisson"}, "bounds": [5, 0]}},
        {"description": {"kind": "moments", "bounds": [0, 20]}},
        {"sums": [1, 2]},
        {"sums": [0.5]},
        {"n": None},
        {"law": {"name": "discrete-laplace", "scale": 1.0}},
        {"network": {"variables": {"a": [0, 1]}, "parents": {"a": []}}},
    ],
)
def test_a_file_that_does_not_fit_is_refused(change, tmp_path):
    plain = json.loads(json.dumps(document(released(*CASES[2], "replace"))))
    value_of(plain)
    (tmp_path / "m.json").write_text(edited(plain | change))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "m.json")
