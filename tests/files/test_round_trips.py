"""All 24 bundled networks through BIF and JSON: names, levels, their order, parents and probabilities."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.files.networks import read_probabilities
from dpgraph.files.pgmpy import read_bif, write_bif

SMALL = [
    "asia",
    "cancer",
    "earthquake",
    "sachs",
    "survey",
    "alarm",
    "child",
    "insurance",
    "water",
    "hailfinder",
    "win95pts",
]
LARGE = ["andes", "barley", "diabetes", "hepar2", "link", "mildew", "munin", "munin1", "munin2", "munin3", "munin4"]
ALL = [*SMALL, *(pytest.param(name, marks=pytest.mark.proof) for name in [*LARGE, "pathfinder", "pigs"])]


def test_the_list_is_that_of_the_bundled_networks():
    with pytest.raises(dg.errors.FileError, match="networks: ") as refused:
        dg.read_network("example:none")
    told = str(refused.value).partition("networks: ")[2].partition(";")[0]
    assert sorted([*SMALL, *LARGE, "pathfinder", "pigs"]) == told.split(", ")


def assert_same(found, value, tolerance):
    assert found.network.domain.names == value.network.domain.names
    for name in value.network.domain.names:
        assert found.network.domain.levels(name) == value.network.domain.levels(name)
        assert found.network.parents[name] == value.network.parents[name]
        np.testing.assert_allclose(found.table(name), value.table(name), rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.DomainWarning")
@pytest.mark.parametrize("name", ALL)
def test_a_bundled_network_comes_back_as_it_was(name, tmp_path):
    value = read_probabilities(f"example:{name}")
    for suffix in ("json", "npz"):
        dg.save(value, tmp_path / f"m.{suffix}")
        assert dg.load(tmp_path / f"m.{suffix}") == value
    dg.save(value.network, tmp_path / "n.json")
    assert dg.load(tmp_path / "n.json") == value.network
    assert_same(read_bif(write_bif(value)), value, 1e-15)
