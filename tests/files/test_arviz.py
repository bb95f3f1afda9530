"""Draws go to ArviZ, and what its own first page does with them, ``arviz_stats.summary``, works with the extra."""

import warnings

import numpy as np
import pytest

import dpgraph as dg

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2]}, {"b": ["a"]})


@pytest.fixture(scope="module")
def draws():
    counts = dg.count(dg.sample_rows(uniform(), 200, 0), NETWORK)
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    return dg.posterior(release, method="tables", draws=200, seed=1)


def uniform():
    return dg.Probabilities(NETWORK, {"a": [0.5, 0.5], "b": np.full((3, 2), 1 / 3)})


@pytest.mark.proof
def test_a_summary_has_the_mean_of_every_cell(draws):
    pytest.importorskip("arviz_base", reason="needs dpgraph[arviz]")
    import arviz_stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = arviz_stats.summary(dg.to_datatree(draws), round_to="none")
    assert table.loc["a[x]", "mean"] == pytest.approx(draws.tables["a"].mean(axis=(0, 1))[0])
    assert table.loc["b[2, y]", "mean"] == pytest.approx(draws.tables["b"].mean(axis=(0, 1))[2, 1])
    assert len(table) == 2 + 6


@pytest.mark.parametrize("make", [uniform, lambda: NETWORK, lambda: "draws"], ids=["probabilities", "network", "text"])
def test_what_are_no_draws_is_refused_in_the_words_of_the_call(make):
    with pytest.raises(dg.errors.FileError, match=r"to_datatree takes posterior draws.*posterior\(release\)"):
        dg.to_datatree(make())
