"""The hidden Markov network has the right families; the model's scores and predictions are those of brute force."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpgraph as dg
from dpgraph.inference.markov.sampler import MarkovDraws
from dpgraph.models import markov_counts
from dpgraph.models.hmm import StateChoice, count_law, later_times

DOMAIN = dg.Domain.of({"kind": ["a", "b", "c"], "month": [1, 2, 3], "grave": [0, 1], "region": ["N", "S"]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")


def rows(number, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.choice(DOMAIN.levels(name), number) for name in DOMAIN.names})


@pytest.fixture(scope="module")
def released():
    budget = dg.Budget(2, unit=dg.PrivacyUnit("add-remove"))
    mechanism = dg.LaplaceMechanism(2, tables="maximal")
    return dg.release(dg.count(rows(200), NETWORK), mechanism, budget=budget, noise=dg.testing.SeededNoise(0))


@pytest.fixture(scope="module")
def model(released):
    held = np.zeros((2, 3), bool)
    held[0, 1] = held[1, 2] = True
    settings = {"iterations": 15, "burn_in": 15, "seed": 1, "held_out": held}
    return dg.fit_hmm(released, 2, sequence="region", time="month", **settings)


def test_the_families_are_the_fields_by_chain_and_time():
    assert {frozenset(family) for family in NETWORK.maximal_families} == {
        frozenset(("kind", "region", "month")),
        frozenset(("grave", "region", "month")),
    }
    for neighbours, moved in (("add-remove", 2), ("replace", 4)):
        event = dg.LaplaceMechanism(1, tables="maximal").event(NETWORK, dg.PrivacyUnit(neighbours))
        assert sum(m.sensitivity for m in event.measurements) == moved


@pytest.mark.parametrize(
    ("domain", "sequence", "time", "message"),
    [
        (DOMAIN, "county", "month", "sequence='county'"),
        (DOMAIN, "region", None, "time=None"),
        (DOMAIN, "month", "month", "two variables"),
        (DOMAIN.restrict(["region", "month"]), "region", "month", "field"),
    ],
)
def test_networks_without_a_sequence_a_time_or_a_field_are_refused(domain, sequence, time, message):
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.hmm_network(domain, sequence, time)


@pytest.mark.proof
def test_the_score_is_the_brute_force_one(model):
    """Cell by cell and draw by draw: sum over states of P(state | neighbours) times the product over entries."""
    log = rows(60, seed=2)
    codes = dg.statistics.encode(log, DOMAIN).columns
    total, many = 0.0, 0
    transition = model.transition.reshape(-1, 2, 2)
    states = model.states.reshape(-1, 2, 3)
    for r in range(2):
        for t in range(3):
            mine = (codes["region"] == r) & (codes["month"] == t)
            many += int(mine.sum())
            likelihood = []
            for d in range(len(states)):
                weight = np.ones(2)
                if t > 0:
                    weight *= transition[d, states[d, r, t - 1]]
                if t < 2:
                    weight *= transition[d, :, states[d, r, t + 1]]
                weight /= weight.sum()
                for name in model.fields:
                    law = model.emissions[name].reshape(-1, 2, DOMAIN.sizes[name])[d]
                    weight *= np.prod(law[:, codes[name][mine]], axis=1)
                likelihood.append(weight.sum())
            total += np.log(np.mean(likelihood)) if mine.any() else 0.0
    found = model.log_likelihood(codes)
    assert found == (pytest.approx(total, rel=1e-9), many)
    only = np.zeros((2, 3), bool)
    only[1, 0] = True
    part = model.log_likelihood(codes, only)
    rest = model.log_likelihood(codes, ~only)
    assert part[0] + rest[0] == pytest.approx(total, rel=1e-9)
    assert part[1] + rest[1] == many


def test_predicted_fields_average_over_draws(model):
    cells = np.zeros((2, 3), bool)
    cells[1, 2] = True
    frame = model.predict_fields(cells)
    states = model.states.reshape(-1, 2, 3)[:, 1, 2].astype(int)
    law = model.emissions["kind"].reshape(-1, 2, 3)[np.arange(len(states)), states].mean(axis=0)
    kind = frame[frame["field"] == "kind"]
    np.testing.assert_allclose(kind["probability"], law)
    assert kind["level"].tolist() == ["a", "b", "c"]
    assert (frame["region"] == "S").all()
    assert (frame["month"] == 3).all()
    assert list(frame.columns) == ["region", "month", "field", "level", "probability"]
    each = model.emissions["kind"].reshape(-1, 2, 3)[np.arange(len(states)), states]
    wider = model.predict_fields(cells, interval=0.5)
    wider = wider[wider["field"] == "kind"]
    np.testing.assert_allclose(wider[["low", "high"]], np.quantile(each, [0.25, 0.75], axis=0).T)
    np.testing.assert_allclose(wider["sd"], each.std(axis=0))
    with pytest.raises(dg.errors.InferenceError, match="interval"):
        model.predict_fields(cells, interval=1.0)


@pytest.mark.proof
def test_held_out_cells_are_not_learned_from(released):
    """Whatever their released values, the draws are the same."""
    held = np.zeros((2, 3), bool)
    held[0, 1] = True
    tables = {}
    for key, table in released.value.tables.items():
        changed = table.copy()
        changed[tuple({"region": 0, "month": 1}.get(name, slice(None)) for name in key)] += 1000
        tables[key] = changed
    other = dg.results.NoisyCounts(NETWORK, tables, dict(released.value.laws), None)
    settings = {"sequence": "region", "time": "month", "iterations": 5, "burn_in": 5, "held_out": held, "seed": 3}
    for inference in ("noise-aware", "plug-in"):
        one = dg.fit_hmm(released.value, 2, inference=inference, **settings)
        two = dg.fit_hmm(other, 2, inference=inference, **settings)
        np.testing.assert_array_equal(one.states, two.states)
        np.testing.assert_array_equal(one.transition, two.transition)


def test_gaussian_releases_are_read_too():
    mechanism = dg.GaussianMechanism(1, "1e-6", tables="maximal")
    noisy = dg.release(
        dg.count(rows(200), NETWORK), mechanism, budget=dg.Budget(1, "1e-6"), noise=dg.testing.SeededNoise(1)
    )
    made = dg.fit_hmm(noisy, 2, sequence="region", time="month", iterations=5, burn_in=5, seed=0)
    assert np.isfinite(made.log_joint).all()
    assert made.provenance == noisy.provenance


def test_held_out_cells_must_fit(released):
    with pytest.raises(dg.errors.InferenceError, match="held_out"):
        dg.fit_hmm(released, 2, sequence="region", time="month", held_out=np.zeros((3, 2), bool))
    with pytest.raises(dg.errors.InferenceError, match="n_states"):
        dg.fit_hmm(released, 2, sequence="region", time="month", held_out=np.ones((2, 3), bool))


def chains_apart(*apart):
    """In place of ``markov_draws``: draws of one law, but for what is added to the log joint of one of two chains."""

    def drawn(given, states, **settings):
        rng = np.random.default_rng(0)
        laws = [np.full((2, 200, states, v), 1 / v) for v in (3, 2)]
        transition = np.full((2, 200, states, states), 1 / states)
        for i, one in enumerate(apart):
            where = rng.integers(0, states, (2, 200, *given.shape))
            log_joint = rng.normal(size=(2, 200)) + one * np.arange(2)[:, None]
            entries = np.full((2, *given.shape), i + 1.0)
            yield MarkovDraws(transition, np.concatenate(laws, axis=3), where, entries, log_joint, {})

    return drawn


@pytest.mark.parametrize(
    ("apart", "settings", "used"),
    [
        ((0,), {}, 1),
        ((50, 50, 0, 50), {}, 3),
        ((50, 50, 50, 50, 0), {}, 4),
        ((50, 0), {"iterations": 200}, 1),
    ],
)
def test_chains_go_on_until_they_have_mixed_or_are_told_of(released, apart, settings, used, monkeypatch):
    """At most three times; where the number of draws is given, they do not go on."""
    monkeypatch.setattr(markov_counts, "markov_draws", chains_apart(*apart))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = dg.fit_hmm(released, 2, sequence="region", time="month", **settings)
    assert made.entries.max() == used
    warned = apart[used - 1] > 0
    assert [issubclass(one.category, dg.errors.ConvergenceWarning) for one in caught] == [True] * warned
    assert (made.diagnostics["r_hat"] > markov_counts.MOST_R_HAT) == warned
    assert all(f"{made.diagnostics['r_hat']:.3f}" in str(one.message) for one in caught)


def test_chains_do_not_go_on_after_40_seconds(released, monkeypatch):
    clock = iter([0.0, 39.0, 41.0])
    monkeypatch.setattr(markov_counts, "markov_draws", chains_apart(50, 50, 0))
    monkeypatch.setattr(markov_counts, "perf_counter", lambda: next(clock))
    with pytest.warns(dg.errors.ConvergenceWarning):
        made = dg.fit_hmm(released, 2, sequence="region", time="month")
    assert made.entries.max() == 2


@pytest.mark.parametrize("steps", [1, 3])
def test_a_forecast_follows_each_draws_own_chain(model, steps):
    """Against a walk over all paths of states, draw by draw."""
    found = model.forecast(steps, interval=0.8)
    assert found["step"].unique().tolist() == list(range(1, steps + 1))
    assert list(found.columns) == ["region", "step", "month", "field", "level", "mean", "sd", "low", "high"]
    found = found[found["step"] == steps]
    transition = model.transition.reshape(-1, 2, 2)
    states = model.states.reshape(-1, *model.states.shape[2:])
    for place, region in enumerate(("N", "S")):
        for name in ("kind", "grave"):
            law = model.emissions[name].reshape(len(states), 2, -1)
            draws = []
            for draw in range(len(states)):
                reached = np.zeros(2)
                for path in np.ndindex(*(2,) * steps):
                    before = (int(states[draw, place, -1]), *path)
                    reached[path[-1]] += np.prod(
                        [transition[draw, i, j] for i, j in zip(before[:-1], path, strict=True)]
                    )
                draws.append(reached @ law[draw])
            mine = found[(found["region"] == region) & (found["field"] == name)]
            np.testing.assert_allclose(mine["mean"], np.mean(draws, axis=0), rtol=1e-10)
            np.testing.assert_allclose(mine["sd"], np.std(draws, axis=0), rtol=1e-8)
            np.testing.assert_allclose(mine[["low", "high"]], np.quantile(draws, [0.1, 0.9], axis=0).T, rtol=1e-10)
            assert mine["level"].tolist() == list(DOMAIN.levels(name))
    for wrong in ({"steps": 0}, {"interval": 1.0}):
        with pytest.raises(dg.errors.InferenceError):
            model.forecast(**wrong)


@pytest.mark.parametrize(
    ("levels", "later"),
    [
        (("2023-11", "2023-12"), ["2024-01", "2024-02"]),
        (("2024-02-14", "2024-02-21"), ["2024-02-28", "2024-03-06"]),
        ((3, 5, 7), [9, 11]),
        ((1, 2, 4), ["4 + 1", "4 + 2"]),
        (("2023-10", "2023-12", "2024-01"), ["2024-01 + 1", "2024-01 + 2"]),
        (("early", "late"), ["late + 1", "late + 2"]),
    ],
)
def test_steps_to_come_have_their_dates(levels, later):
    assert later_times(levels, 2) == later


def test_counts_to_come_are_about_the_latest_ones(model):
    """Of independent counts the law is theirs, though it is learned; where the mean wanders, the forecast follows."""
    rng = np.random.default_rng(0)
    still = rng.negative_binomial(5, 5 / (5 + 40), (30, 60)).astype(float)
    mean, size = count_law(still, 1)
    assert mean.mean() == pytest.approx(40, rel=0.15)
    assert 2.5 < size < 8
    walk = rng.poisson(np.exp(np.cumsum(0.5 * rng.standard_normal((30, 60)), axis=1) + 4)).astype(float)
    mean, _ = count_law(walk, 1)
    assert np.corrcoef(np.log(mean + 1), np.log(walk[:, -1] + 1))[0, 1] > 0.95
    for wrong in ({"steps": 0}, {"interval": 1.0}, {"steps": 60}):
        with pytest.raises(dg.errors.InferenceError):
            model.forecast_counts(**wrong)


@pytest.mark.proof
def test_intervals_of_counts_hold_the_next_one_as_often_as_they_say():
    """Of 200 logs with a wandering mean, the 90 % interval of each next count, of 10 sequences each."""
    rng, held = np.random.default_rng(1), []
    for _ in range(200):
        rates = np.exp(np.cumsum(0.3 * rng.standard_normal((10, 41)), axis=1) + 4)
        counts = rng.poisson(rates).astype(float)
        mean, size = count_law(counts[:, :-1], 1)
        low, high = (stats.nbinom.ppf(part, size, size / (size + mean)) for part in (0.05, 0.95))
        held.append(np.mean((low <= counts[:, -1]) & (counts[:, -1] <= high)))
    assert 0.85 < np.mean(held) < 0.95


def test_the_most_states_tried_are_told(model):
    choice = StateChoice((1, 2), (-4.0, -3.0), (0.1, 0.0), 2)
    assert "2 states are the most that were tried" in repr(replace(model, choice=choice))
    assert "most that were tried" not in repr(replace(model, choice=replace(choice, chosen=1)))


def test_a_forecast_has_the_effects_of_its_sequence(model):
    """Effects that leave nothing but one level in the first sequence: its forecast is that level in every draw."""
    copies, draws, sequences = model.states.shape[:3]
    effects = {
        name: np.zeros((copies, draws, sequences, model.network.domain.sizes[name])) for name in ("kind", "grave")
    }
    effects["kind"][:, :, 0, 0] = 60.0
    with_effects, without = (one.forecast(1) for one in (replace(model, effects=effects), model))
    changed = (with_effects["region"] == "N") & (with_effects["field"] == "kind")
    np.testing.assert_allclose(with_effects[changed]["low"], [1.0] + [0.0] * (changed.sum() - 1), atol=1e-12)
    np.testing.assert_allclose(with_effects[~changed]["mean"], without[~changed]["mean"], rtol=1e-12)


def test_a_question_of_a_hidden_markov_model_says_what_it_takes(model):
    with pytest.raises(dg.errors.InferenceError, match=r"HiddenMarkovModel.*forecast"):
        dg.query(model, "kind")


def test_predictions_of_500_sequences_at_most_are_judged_evenly_spread(monkeypatch):
    """With five sequences and room for three, those are the first, the middle one and the last."""
    from dpgraph.models import hmm

    assert hmm.JUDGED == 500
    domain = dg.Domain.of({"region": range(5), "month": [1, 2], "kind": ["a", "b"]})
    rng = np.random.default_rng(0)
    log = pd.DataFrame({name: rng.choice(domain.levels(name), 60) for name in domain.names})
    release = dg.release(
        dg.count(log, dg.hmm_network(domain, "region", "month")),
        dg.LaplaceMechanism(2, tables="maximal"),
        budget=dg.Budget(2),
        noise=dg.testing.SeededNoise(0),
    )
    fitted = dg.fit_hmm(release, 2, sequence="region", time="month", iterations=8, burn_in=4, seed=0)
    whole = fitted._mean_predictions()
    monkeypatch.setattr(hmm, "JUDGED", 3)
    found = fitted._mean_predictions()
    assert whole.shape == (2, 8, 10)
    assert found.shape == (2, 8, 6)
    np.testing.assert_array_equal(found, whole.reshape(2, 8, 5, 2)[:, :, [0, 2, 4]].reshape(2, 8, 6))
