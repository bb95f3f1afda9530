"""Unobserved values of a log: states, values and holes against enumeration, recovery, and the release as it was."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln

import dpgraph as dg
from dpgraph.inference.markov.sampler import MarkovPrior
from dpgraph.models.hmm import entry_log_probability
from dpgraph.privacy.measurements import DiscreteLaplace

UNSEEN = dg.UNOBSERVED
REGIONS, MONTHS = ["N", "E", "S", "W"], list(range(1, 31))
DOMAIN = dg.Domain.of(
    {
        "region": REGIONS,
        "month": MONTHS,
        "kind": dg.Categories(["a", "b"], missing=UNSEEN),
        "hours": dg.Bins([0, 8, 24], missing=UNSEEN),
    }
)
SETTINGS = {"sequence": "region", "time": "month", "iterations": 60, "burn_in": 60, "seed": 0}
#: P(a) and P(a hole in kind) by state: the values are alike, so that holes alone tell the states apart.
VALUES, GONE = np.array([0.5, 0.55]), np.array([0.05, 0.6])

#: One sequence of two cells; a field of two levels, and nulls between them.
SMALL = dg.hmm_network(
    dg.Domain.of({"r": ["N"], "t": [1, 2], "v": dg.Categories(["0", "?", "1"], missing=UNSEEN("?"))}), "r", "t"
)
RELEASED, SCALE, MOST, RATE, CELL = np.array([[2, 3], [0, 2], [2, -1]]), 0.8, 11, (2.0, 5.0), 1.5


def enumerated():
    """Posterior means by summing over values and holes of each cell, and over whether both have one state.

    Written from the model alone: a state has a law of values, Dirichlet(1.5, 1.5), and a share of holes,
    Beta(1.5, 3); an entry has a value and, apart from it, a hole; released are the values of those without one.
    """
    cells = np.array(
        [
            (a, b, c, n - a - b - c)  # entries seen at 0 and 1, then in holes at 0 and 1
            for n in range(MOST + 1)
            for a in range(n + 1)
            for b in range(n + 1 - a)
            for c in range(n + 1 - a - b)
        ]
    )
    n = cells.sum(axis=1)
    seen = np.stack([cells[:, 0], cells[:, 2] + cells[:, 3], cells[:, 1]], axis=1)
    ways = gammaln(n + 1) - gammaln(cells + 1).sum(axis=1)
    one, two = (ways - np.abs(RELEASED[:, t] - seen).sum(axis=1) / SCALE for t in (0, 1))
    values, masks = cells[:, :2] + cells[:, 2:], np.stack([cells[:, :2].sum(axis=1), cells[:, 2:].sum(axis=1)], axis=1)

    def state(values, masks):
        """ln of the probability of a state's values and holes, its laws integrated out."""
        return (
            betaln(values[..., 0] + CELL, values[..., 1] + CELL) - betaln(CELL, CELL)
            + betaln(masks[..., 1] + CELL, masks[..., 0] + 2 * CELL) - betaln(CELL, 2 * CELL)
        )  # fmt: skip

    base = one[:, None] + two[None] + betaln(RATE[0] + 2, RATE[1] + n[:, None] + n[None])
    both_values, both_masks = values[:, None] + values[None], masks[:, None] + masks[None]
    together = base + state(both_values, both_masks)
    apart = base + state(values, masks)[:, None] + state(values, masks)[None]
    top = max(together.max(), apart.max())
    same, different = np.exp(together - top), np.exp(apart - top)
    whole = same.sum() + different.sum()

    def mean(joint, alone):
        return ((same * joint).sum() + (different * alone[:, None]).sum()) / whole

    return {
        "same state": same.sum() / whole,
        "P(0)": mean(
            (both_values[..., 0] + CELL) / (both_values.sum(-1) + 2 * CELL), (values[:, 0] + CELL) / (n + 2 * CELL)
        ),
        "P(hole)": mean(
            (both_masks[..., 1] + CELL) / (both_masks.sum(-1) + 3 * CELL), (masks[:, 1] + CELL) / (n + 3 * CELL)
        ),
    }


@pytest.mark.proof
def test_values_and_holes_are_those_of_the_enumeration():
    """200 sampler chains of 120 draws; standard errors, about 2e-3, are over the chains, the bound is 6 of them."""
    noisy = dg.results.NoisyCounts(
        SMALL, {("v", "r", "t"): RELEASED[:, None, :]}, {("v", "r", "t"): DiscreteLaplace(SCALE)}, None
    )
    prior = MarkovPrior(transition=0.8, emission=CELL, entries=RATE)
    how = {"chains": 200, "iterations": 120, "burn_in": 60, "seed": 5, "prior": prior}
    model = dg.fit_hmm(noisy, 2, sequence="r", time="t", **how)
    state = model.states[:, :, 0].astype(int)
    at = np.ogrid[:200, :120]
    found = {
        "same state": state[..., 0] == state[..., 1],
        "P(0)": model.emission_draws("v")[*at, state[..., 0], 0],
        "P(hole)": model.emission_draws("v missing")[*at, state[..., 0], 1],
    }
    for name, value in enumerated().items():
        each = found[name].mean(axis=1)
        error = each.std() / np.sqrt(len(each))
        assert error < 0.01, name
        assert abs(each.mean() - value) < 6 * error + 1e-3, (name, each.mean(), value, error)


def simulated(seed=0, each=40):
    """A log whose states last, its states, with holes in kind that the state explains and a tenth in hours."""
    rng = np.random.default_rng(seed)
    states = np.zeros((4, 30), int)
    for t in range(1, 30):
        states[:, t] = np.where(rng.random(4) < 0.15, 1 - states[:, t - 1], states[:, t - 1])
    region, month = (part.repeat(each) for part in np.divmod(np.arange(120), 30))
    state = states[region, month]
    kind = np.where(rng.random(len(state)) < VALUES[state], "a", "b")
    hours = rng.integers(0, 24, len(state)).astype(float)
    rows = pd.DataFrame({"region": np.array(REGIONS)[region], "month": month + 1, "kind": kind, "hours": hours})
    rows.loc[rng.random(len(state)) < GONE[state], "kind"] = None
    rows.loc[rng.random(len(state)) < 0.1, "hours"] = np.nan
    return rows, states


def release(rows, domain=DOMAIN):
    return dg.release(
        dg.count(rows, dg.hmm_network(domain, "region", "month")), dg.LaplaceMechanism(5, tables="maximal"),
        budget=dg.Budget(5), noise=dg.testing.SeededNoise(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    rows, states = simulated()
    return dg.fit_hmm(release(rows), 2, **SETTINGS), rows, states


def test_holes_tell_the_states_apart_and_values_are_of_all_entries(fitted):
    """By values alone 40 entries of a cell tell hardly anything; by holes their shares are 6 deviations apart."""
    model, _, states = fitted
    found = model.predict()["state"].to_numpy().reshape(states.shape)
    order = [0, 1] if (found == states).mean() > 0.5 else [1, 0]
    assert (np.array(order)[found] == states).mean() > 0.97
    assert model.emitted == ("kind", "hours", "kind missing", "hours missing")
    # Deviations of the posterior are .016, .010 and .007.
    assert np.abs(model.mean_emission("kind")[order][:, 0] - VALUES).max() < 0.11
    assert np.abs(model.mean_emission("kind missing")[order][:, 1] - GONE).max() < 0.07
    assert np.abs(model.mean_emission("hours missing")[:, 1] - 0.1).max() < 0.05
    assert model.emission_frame("hours").columns.tolist() == ["0-8", "8-24"]


def test_predictions_and_forecasts_are_of_values(fitted):
    model = fitted[0]
    for frame, mean in ((model.predict_fields(interval=0.9), "probability"), (model.forecast(2), "mean")):
        kind = frame[frame["field"] == "kind"]
        assert set(kind["level"]) == {"a", "b"}
        sums = frame.groupby([one for one in frame if one in ("region", "month", "field")], observed=True)[mean].sum()
        np.testing.assert_allclose(sums, 1)
        assert set(frame.loc[frame["field"] == "kind missing", "level"]) == {"no", "yes"}


def test_a_hole_is_scored_as_evidence_of_the_state(fitted):
    """Against sums over draws: a hole by its share in the cell's state, a value by its law and the share seen."""
    model = fitted[0]
    log = pd.DataFrame({"region": ["N", "N"], "month": [1, 1], "kind": [None, "a"], "hours": [3, 3]})
    codes = dg.statistics.encode(log, DOMAIN).columns
    found = entry_log_probability(model, codes)
    state = model.states.reshape(-1, 4, 30)[:, 0, 0].astype(int)
    draws = np.arange(len(state))
    law = {name: model.sequence_laws(name)[draws, 0, state] for name in model.emitted}
    seen = {name: law[f"{name} missing"][:, 0] for name in ("kind", "hours")}
    hours = seen["hours"] * law["hours"][:, 0]
    np.testing.assert_allclose(found[0], np.log(np.mean(hours * law["kind missing"][:, 1])))
    np.testing.assert_allclose(found[1], np.log(np.mean(hours * seen["kind"] * law["kind"][:, 0])))


def test_synthetic_entries_are_complete_or_have_the_holes_of_the_log(fitted):
    model, rows, _ = fitted
    made = model.sample(4800, 0)
    assert list(made) == list(DOMAIN.names)
    assert not made.isna().to_numpy().any()
    assert made["hours"].dtype.kind == "i"
    holed = model.sample(4800, 0, holes=True)
    assert abs(holed["kind"].isna().mean() - rows["kind"].isna().mean()) < 0.07  # a share's deviation is below .01
    assert abs(holed["hours"].isna().mean() - 0.1) < 0.04
    assert dg.count(holed, model.network).description == model.network


def test_with_effects_values_are_of_entries_that_have_one(fitted):
    effects = {name: np.random.default_rng(0).normal(size=(2, 60, 4, law.shape[-1]))
               for name, law in fitted[0].emissions.items()}  # fmt: skip
    model = replace(fitted[0], effects=effects)
    whole = model.emissions["kind"][:, :, None] * np.exp(effects["kind"])[:, :, :, None]
    whole = (whole / whole.sum(axis=-1, keepdims=True)).reshape(-1, 4, 2, 3)
    np.testing.assert_allclose(model.sequence_laws("kind missing")[..., 1], whole[..., 2])
    np.testing.assert_allclose(model.sequence_laws("kind")[..., 0], whole[..., 0] / whole[..., :2].sum(axis=-1))


def test_the_release_and_the_draws_are_those_of_a_level_for_nulls(fitted):
    """Statistic, sensitivity, noise and price are unchanged; all else is read off the same draws."""
    rows = fitted[1]
    levels = dg.Categories(["a", "b", "missing"], missing="missing")
    plain = {**DOMAIN.variables, "kind": levels, "hours": dg.Bins([0, 8, 24], missing=True)}
    one, other = release(rows), release(rows, dg.Domain.of(plain))
    assert one.provenance == other.provenance
    assert one.event == other.event
    assert all((one.value.tables[key] == table).all() for key, table in other.value.tables.items())
    as_level = dg.fit_hmm(other, 2, **SETTINGS)
    np.testing.assert_array_equal(fitted[0].states, as_level.states)
    np.testing.assert_array_equal(fitted[0].mean_emission("kind missing")[:, 1], as_level.mean_emission("kind")[:, 2])


def test_an_estimator_and_a_file_have_them_too(fitted, tmp_path):
    rows, budget = fitted[1], dg.Budget(1)
    model = dg.PrivateHMM(2, DOMAIN, epsilon=1, iterations=5, burn_in=5, budget=budget).fit(rows)
    assert model.emissions_["kind"].columns.tolist() == ["a", "b"]
    assert model.emissions_["kind missing"].columns.tolist() == ["no", "yes"]
    assert np.isfinite(model.score(rows))
    dg.save(model, tmp_path / "model.json")
    again = dg.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.mean_emission("kind"), model.model_.mean_emission("kind"))
    dg.write_html(model, tmp_path / "model.html")
    assert "What the states emit: kind missing" in (tmp_path / "model.html").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"region": dg.Categories(REGIONS, missing=UNSEEN)}, "has no cell"),
        ({"month": dg.Categories(MONTHS, missing=UNSEEN(-1))}, "has no cell"),
        ({"kind missing": ["no", "yes"]}, "one that holes need"),
    ],
)
def test_holes_that_cannot_be_filled_are_refused_before_the_charge(fitted, more, message):
    budget = dg.Budget(1)
    domain = dg.Domain.of({**DOMAIN.variables, **more})
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.PrivateHMM(2, domain, epsilon=1, budget=budget).fit(fitted[1])
    assert budget.spent == 0
