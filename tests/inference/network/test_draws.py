"""Posterior draws as a value: shapes, summaries, diagnostics, latent rows and refusals."""

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base.array import array_stats

import dpgraph as dg
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.tables import Probabilities, margin

NETWORK = dg.Network.of({"c": ["x", "y"], "a": [0, 1, 2], "here": ["only"]}, {"c": ["a", "here"]})


def dirichlet(rng, lead, shape):
    """Random tables whose columns sum to 1, axes (*lead, variable, *parents)."""
    raw = rng.standard_gamma(1.0, (*lead, *shape))
    return raw / raw.sum(axis=len(lead), keepdims=True)


def made(chains=3, draws=40, method="records", seed=0, **settings):
    rng = np.random.default_rng(seed)
    shapes = {name: NETWORK.shape(NETWORK.family(name)) for name in NETWORK.domain.names}
    tables = {name: dirichlet(rng, (chains, draws), shape) for name, shape in shapes.items()}
    return PosteriorDraws(NETWORK, tables, method, **settings), tables


def test_draws_are_numbered_chain_by_chain():
    drawn, tables = made()
    assert drawn.shape == (3, 40)
    assert len(drawn) == len(list(drawn)) == 120
    for index in (0, 39, 40, 119, -1, np.int64(85)):
        one = drawn[index]
        assert isinstance(one, Probabilities)
        for name, table in tables.items():
            chain, draw = divmod(int(index) % 120, 40)
            np.testing.assert_array_equal(one.table(name), table[chain, draw])
            np.testing.assert_array_equal(drawn.flat(name)[index], table[chain, draw])
    assert [one.table("c")[0, 0, 0] for one in drawn] == drawn.flat("c")[:, 0, 0, 0].tolist()
    for index in (120, -121):
        with pytest.raises(IndexError):
            drawn[index]
    with pytest.raises(dg.errors.DomainError):
        drawn.flat("z")


def test_means_and_intervals_are_those_of_the_draws():
    drawn, tables = made()
    mean = drawn.mean()
    for name, table in tables.items():
        flat = table.reshape(120, *table.shape[2:])
        np.testing.assert_allclose(mean.table(name), flat.mean(axis=0), rtol=1e-12)
        assert (abs(mean.table(name).sum(axis=0) - 1) <= 2e-16).all()
        low, high = drawn.interval(0.8)[name]
        sorted_draws = np.sort(flat, axis=0)
        inside = ((flat >= low) & (flat <= high)).mean(axis=0)
        assert (inside[np.ptp(flat, axis=0) > 0] == 0.8).all()
        assert (low >= sorted_draws[11]).all()
        assert (low <= sorted_draws[12]).all()
        assert drawn.interval()[name].shape == (2, *flat.shape[1:])


@pytest.mark.parametrize("probability", [0, 1, -0.1, 1.1, float("nan"), True])
def test_a_probability_out_of_range_is_refused(probability):
    with pytest.raises(dg.errors.InferenceError, match="probability must be a probability between 0 and 1"):
        made()[0].interval(probability)


def test_a_sample_repeats_nothing_until_all_are_used():
    drawn, _ = made(chains=2, draws=5)
    key = [one.table("a").tobytes() for one in drawn]
    picked = [one.table("a").tobytes() for one in drawn.sample(np.random.default_rng(0), 23)]
    assert len(picked) == 23
    assert sorted(picked[:10]) == sorted(picked[10:20]) == sorted(key)
    assert picked[:10] != picked[10:20]
    assert len(set(picked[20:])) == 3
    (one,) = drawn.sample(np.random.default_rng(1))
    (again,) = drawn.sample(np.random.default_rng(1))
    assert one.table("a").tobytes() == again.table("a").tobytes()


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
def test_a_sample_of_no_size_is_refused(size):
    with pytest.raises(dg.errors.InferenceError, match="size must be a whole number, at least 1"):
        made()[0].sample(np.random.default_rng(0), size)


def test_the_frame_has_a_row_for_each_entry():
    drawn, tables = made()
    frame = drawn.to_frame(0.5)
    assert len(frame) == NETWORK.cell_count == 6 + 3 + 1
    assert list(frame.columns) == ["variable", "level", "given", "mean", "sd", "low", "high"]
    row = frame[(frame.variable == "c") & (frame.level == "y") & (frame.given == "a=2, here=only")].iloc[0]
    values = tables["c"][:, :, 1, 2, 0].ravel()
    expected = [values.mean(), values.std(), *np.quantile(values, [0.25, 0.75])]
    assert row[["mean", "sd", "low", "high"]].tolist() == pytest.approx(expected)
    assert frame[frame.variable == "a"]["given"].unique().tolist() == [""]


def test_diagnostics_are_those_of_arviz_entry_by_entry():
    drawn, tables = made(seed=3)
    moved = {**tables, "a": tables["a"].copy()}
    moved["a"][2] = dirichlet(np.random.default_rng(5), (40,), (3,)) ** 4
    moved["a"] /= moved["a"].sum(axis=2, keepdims=True)
    drawn = PosteriorDraws(NETWORK, moved, "records")
    for name, table in moved.items():
        for place in np.ndindex(table.shape[2:]):
            chains = table[(slice(None), slice(None), *place)]
            if name == "here":
                assert drawn.r_hat[name][place] == 1
                assert drawn.effective_sizes[name][place] == 120
            else:
                assert drawn.r_hat[name][place] == pytest.approx(float(array_stats.rhat(chains)))
                assert drawn.effective_sizes[name][place] == pytest.approx(float(array_stats.ess(chains)))
    found = drawn.diagnostics
    assert found["r_hat"] == max(values.max() for values in drawn.r_hat.values()) > 1.01
    assert found["effective_size"] == min(values.min() for values in drawn.effective_sizes.values())
    assert (found["chains"], found["draws"]) == (3, 120)


def test_independent_draws_have_nothing_to_diagnose():
    drawn, _ = made(chains=1, draws=50, method="normal", reason="as asked", acceptance={"records": 0.5})
    assert drawn.diagnostics == {
        "method": "normal",
        "reason": "as asked",
        "chains": 1,
        "draws": 50,
        "r_hat": 1.0,
        "effective_size": 50.0,
        "acceptance of records": 0.5,
    }
    assert repr(drawn) == "PosteriorDraws(3 variables; method='normal'; 1 x 50 draws)"


def released(neighbours, n=80):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"c": rng.choice(["x", "y"], n), "a": rng.integers(0, 3, n), "here": "only"})
    budget = dg.Budget(1, unit=dg.PrivacyUnit(neighbours))
    return dg.release(dg.count(rows, NETWORK), dg.LaplaceMechanism(1), budget=budget, noise=dg.testing.SeededNoise(1))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_latent_rows_and_tables_are_one_possible_data_set(neighbours):
    """Whole, non-negative, with margins that agree, and n rows where n is public; the rows give the same tables."""
    drawn = dg.posterior(released(neighbours), method=dg.methods.Records(burn_in=20), draws=40, seed=0)
    tables, rows = drawn.latent_tables(), drawn.latent_rows()
    n = 80 if neighbours == "replace" else int(drawn.n[0, -1])
    assert (drawn.n is None) == (neighbours == "replace")
    assert tables.n == len(rows) == n
    assert tables.provenance == drawn.provenance
    for table in tables.tables.values():
        assert (table == table.astype(int)).all()
        assert (table >= 0).all()
        assert table.sum() == n
    assert list(rows.columns) == list(NETWORK.domain.names)
    recounted = dg.count(rows.astype({"c": str, "a": int, "here": str}), NETWORK)
    for name in NETWORK.domain.names:
        np.testing.assert_array_equal(recounted.sensitive_margin(NETWORK.family(name)), tables.family(name))
    (key,) = tables.tables
    np.testing.assert_array_equal(margin(tables.tables[key], key, ("a",)), tables.family("a"))
    assert rows["c"].cat.categories.tolist() == ["x", "y"]


def test_a_method_without_latent_rows_says_so():
    drawn, _ = made(method="tables")
    for ask in (drawn.latent_tables, drawn.latent_rows):
        with pytest.raises(dg.errors.InferenceError, match="method 'tables' has no latent rows"):
            ask()


def test_tables_that_do_not_fit_are_refused():
    _, tables = made()
    with pytest.raises(NetworkError, match="every variable needs its draws"):
        PosteriorDraws(NETWORK, {name: tables[name] for name in ("a", "c")}, "tables")
    with pytest.raises(NetworkError, match="every variable needs its draws"):
        PosteriorDraws(NETWORK, tables | {"z": tables["a"]}, "tables")
    with pytest.raises(NetworkError, match="the draws of 'a' have the wrong shape"):
        PosteriorDraws(NETWORK, tables | {"a": tables["a"][0]}, "tables")
    with pytest.raises(NetworkError, match="as many chains and draws"):
        PosteriorDraws(NETWORK, tables | {"a": tables["a"][:, :7]}, "tables")


def test_draws_are_frozen_copies():
    drawn, tables = made()
    tables["a"][:] = 0
    assert drawn.flat("a").sum() == pytest.approx(120)
    with pytest.raises(ValueError, match="read-only"):
        drawn.tables["a"][0] = 0
    with pytest.raises(AttributeError):
        drawn.method = "other"
