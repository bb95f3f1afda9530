"""Three scores of an event log are those of their definitions, by enumeration of a tiny model drawn at random."""

import math

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.models.hmm import entry_log_probability, markov_scores

DOMAIN = dg.Domain.of({"kind": ["a", "b", "c"], "month": [1, 2, 3], "grave": [0, 1], "region": ["N", "S"]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")
COPIES, DRAWS, SIZE = 2, 3, 2


def model(effects):
    """Six draws with nothing in common."""
    rng, shape = np.random.default_rng(0), (COPIES, DRAWS)
    laws = {"kind": rng.dirichlet(np.ones(3), (*shape, SIZE)), "grave": rng.dirichlet(np.ones(2), (*shape, SIZE))}
    own = {"kind": rng.normal(size=(*shape, 2, 3)), "grave": rng.normal(size=(*shape, 2, 2))} if effects else {}
    return dg.results.HiddenMarkovModel(
        NETWORK, "region", "month", rng.dirichlet(np.ones(SIZE), (*shape, SIZE)), laws,
        rng.integers(0, SIZE, (*shape, 2, 3)), rng.normal(size=shape), np.ones((2, 3)), "noise-aware", "blocked",
        effects=own,
    )  # fmt: skip


def law_of(made, c, s, name, r, k):
    """One entry's law by hand."""
    weight = made.emissions[name][c, s, k] * (np.exp(made.effects[name][c, s, r]) if made.effects else 1.0)
    return weight / weight.sum()


def defined(made, codes, cells):
    """The three sums, cell by cell, draw by draw, entry by entry."""
    single = whole = average = 0.0
    entries = 0
    for r, t in np.argwhere(cells):
        rows = [i for i in range(len(codes["kind"])) if (codes["region"][i], codes["month"][i]) == (r, t)]
        joint, alone = [], []
        for c, s in np.ndindex(COPIES, DRAWS):
            states, moves = made.states[c, s, r].astype(int), made.transition[c, s]
            prior = np.ones(SIZE)
            prior *= moves[states[t - 1]] if t > 0 else 1.0
            prior *= moves[:, states[t + 1]] if t < 2 else 1.0
            prior /= prior.sum()
            each = np.array(
                [
                    [math.prod(law_of(made, c, s, f, r, k)[codes[f][i]] for f in ("kind", "grave")) for i in rows]
                    for k in range(SIZE)
                ]
            ).reshape(SIZE, len(rows))
            joint.append(prior @ each.prod(axis=1))
            alone.append(each[states[t]])
        if rows:
            single += np.log(np.mean(alone, axis=0)).sum()
            whole += math.log(np.mean(joint))
            average += np.mean(np.log(joint))
            entries += len(rows)
    return single / entries, whole / entries, average / entries


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("held", [None, [(0, 1), (1, 0), (1, 2)]])
def test_the_three_scores_are_those_of_their_definitions(effects, held):
    made, rng = model(effects), np.random.default_rng(1)
    codes = {name: rng.integers(0, DOMAIN.sizes[name], 40) for name in DOMAIN.names}
    cells = np.ones((2, 3), bool) if held is None else np.zeros((2, 3), bool)
    for cell in held or ():
        cells[cell] = True
    found = markov_scores(made, codes, None if held is None else cells)
    assert tuple(found.values()) == pytest.approx(defined(made, codes, cells), rel=1e-9)
    assert found["average over draws"] < found["whole cells"]  # ln is concave, and these draws differ


def test_one_entry_is_what_predict_fields_says_where_fields_are_one():
    """A cell's entry of one field has the probability that is predicted for its level."""
    made = model(True)
    codes = {"kind": np.array([2]), "grave": np.array([0]), "region": np.array([1]), "month": np.array([2])}
    cells = np.zeros((2, 3), bool)
    cells[1, 2] = True
    states = made.states[:, :, 1, 2].astype(int)
    by_hand = [
        law_of(made, c, s, "kind", 1, states[c, s])[2] * law_of(made, c, s, "grave", 1, states[c, s])[0]
        for c, s in np.ndindex(COPIES, DRAWS)
    ]
    assert entry_log_probability(made, codes)[0] == pytest.approx(math.log(np.mean(by_hand)))
    frame = made.predict_fields(cells)
    of_kind = [law_of(made, c, s, "kind", 1, states[c, s]) for c, s in np.ndindex(COPIES, DRAWS)]
    np.testing.assert_allclose(frame[frame["field"] == "kind"]["probability"], np.mean(of_kind, axis=0))


def test_a_cell_picks_its_best_draw_where_draws_disagree():
    """Two draws that are sure of opposite levels, ten entries of one: whole cells hardly lose, entry by entry ln 2."""
    laws = np.array([[[[1 - 1e-9, 1e-9]], [[1e-9, 1 - 1e-9]]]])
    domain = dg.Domain.of({"region": ["N"], "month": [1], "kind": ["a", "b"]})
    made = dg.results.HiddenMarkovModel(
        dg.hmm_network(domain, "region", "month"), "region", "month", np.ones((1, 2, 1, 1)), {"kind": laws},
        np.zeros((1, 2, 1, 1)), np.zeros((1, 2)), np.ones((1, 1)), "noise-aware", "blocked",
    )  # fmt: skip
    zero = np.zeros(10, np.int64)
    found = markov_scores(made, {"region": zero, "month": zero, "kind": zero})
    assert found["entry by entry"] == pytest.approx(-math.log(2), abs=1e-6)
    assert found["whole cells"] == pytest.approx(-math.log(2) / 10, abs=1e-6)
    assert found["average over draws"] == pytest.approx(math.log(1e-9) / 2, abs=1e-6)


def test_no_entry_has_no_score_and_effects_must_fit():
    made = model(True)
    empty = {name: np.zeros(0, np.int64) for name in DOMAIN.names}
    assert all(map(math.isnan, markov_scores(made, empty).values()))
    arguments = {name: getattr(made, name) for name in made.__dataclass_fields__}
    for wrong in ({"kind": made.effects["kind"]}, {**made.effects, "grave": made.effects["kind"]}):
        with pytest.raises(dg.errors.NetworkError, match="effects"):
            dg.results.HiddenMarkovModel(**(arguments | {"effects": wrong}))


@pytest.mark.proof
def test_the_estimator_s_scores_stand_beside_two_baselines():
    """On a log whose regions differ, fields given the region beat one law; ``score`` is the first column."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({name: rng.choice(DOMAIN.levels(name), 3000) for name in DOMAIN.names})
    rows.loc[rows["region"] == "N", "grave"] = 0
    held = pd.DataFrame({"region": ["N"], "month": [2]})
    noise = dg.testing.SeededNoise(0)
    fitted = dg.PrivateHMM(2, DOMAIN, epsilon=5, iterations=30, burn_in=30, noise=noise)
    fitted.fit(rows, held_out=held)
    table = fitted.scores(rows)
    assert list(table.index) == ["model", "one state", "fields given the sequence"]
    assert list(table.columns) == ["entry by entry", "whole cells", "average over draws"]
    assert fitted.score(rows) == pytest.approx(table.loc["model", "entry by entry"])
    learned = rows[(rows["region"] != "N") | (rows["month"] != 2)]
    alone, given = table["entry by entry"]["one state"], table["entry by entry"]["fields given the sequence"]
    pooled = math.log(1 / 3) + math.log((learned["grave"] == 0).mean())
    assert alone == pytest.approx(pooled, abs=0.05)
    assert given == pytest.approx(math.log(1 / 3), abs=0.05)
    kept = fitted.baselines()["fields given the sequence"]
    again = fitted.held_out_
    codes = dg.statistics.encode(rows, DOMAIN).columns
    assert markov_scores(kept, codes, again)["entry by entry"] == pytest.approx(given)
