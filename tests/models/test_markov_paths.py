"""The most likely path is that of brute force over all paths; synthetic entries follow the law of their draw."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.models.hmm import most_likely_paths


def weights(paths, size):
    """Each path's probability under the chain of the draws' neighbouring pairs, by enumeration and plain counts."""
    steps = paths.shape[1]
    found = {}
    for path in product(range(size), repeat=steps):
        chance = (paths[:, 0] == path[0]).mean()
        for t in range(1, steps):
            there = paths[:, t - 1] == path[t - 1]
            chance *= (paths[there, t] == path[t]).mean() if there.any() else 0.0
        found[path] = chance
    return found


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_no_path_is_more_likely_and_none_is_impossible(size, steps, draws, seed):
    states = np.random.default_rng(seed).integers(0, size, (draws, 2, steps))
    best = most_likely_paths(states, size)
    for sequence in range(2):
        chances = weights(states[:, sequence], size)
        assert chances[tuple(best[sequence])] == pytest.approx(max(chances.values()), rel=1e-9)
        assert max(chances.values()) > 0


def test_draws_of_a_known_chain_give_the_path_of_its_posterior():
    """Start, transitions and likelihoods in eighths: the multiset of paths with exact multiplicities is the posterior,
    so that the path must be its mode by enumeration. States by themselves have another one."""
    start, move = np.array([4, 4]), np.array([[6, 2], [1, 7]])
    likely = np.array([[3, 4], [4, 3], [4, 3], [1, 4]])  # P(entries | state) of four steps, up to a factor
    weight = {
        path: start[path[0]]
        * np.prod([move[a, b] for a, b in pairwise(path)])
        * np.prod([likely[t, k] for t, k in enumerate(path)])
        for path in product(range(2), repeat=4)
    }
    mode = max(weight, key=weight.__getitem__)
    paths = np.repeat(np.array(list(weight)), list(weight.values()), axis=0)[:, None, :]
    assert tuple(most_likely_paths(paths, 2)[0]) == mode


def test_the_best_states_of_cells_may_be_no_path():
    """Three kinds of draws: the most frequent state of each cell makes a path that none of them takes."""
    kinds = {(0, 1): 4, (1, 2): 3, (1, 0): 3}
    paths = np.repeat(np.array(list(kinds)), list(kinds.values()), axis=0)[:, None, :]
    alone = tuple(int(np.bincount(paths[:, 0, t]).argmax()) for t in range(2))
    assert alone == (1, 1)
    assert tuple(most_likely_paths(paths, 3)[0]) == (0, 1)


DOMAIN = dg.Domain.of({"kind": ["a", "b", "c"], "region": ["N", "S"], "month": [1, 2, 3]})


def model(copies=1, draws=1, effects=None):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, (copies, draws, 2, 3))
    emissions = rng.dirichlet([1, 1, 1], (copies, draws, 2))
    move = np.broadcast_to([[0.75, 0.25], [0.5, 0.5]], (copies, draws, 2, 2))
    entries = np.array([[5.0, 0.0, 10.0], [20.0, 1.0, 4.0]])
    extra = {} if effects is None else {"effects": {"kind": effects}}
    made = (dg.hmm_network(DOMAIN, "region", "month"), "region", "month", move, {"kind": emissions}, states)
    return dg.results.HiddenMarkovModel(*made, np.zeros((copies, draws)), entries, "plug-in", "blocked", **extra)


@pytest.mark.parametrize("effects", [None, np.array([[[[1.0, 0, 0], [0, 0, 2.0]]]])], ids=["alike", "effects"])
def test_entries_follow_cells_and_the_law_of_their_state(effects):
    """Each frequency within 6 standard errors of the product law; a state or a sequence mixed up is 20 away."""
    made, n = model(effects=effects), 200_000
    rows = made.sample(n, 1)
    assert list(rows.columns) == ["kind", "region", "month"]
    laws = made.sequence_laws("kind")[0]
    share = made.entries / made.entries.sum()
    for r, region in enumerate(DOMAIN.levels("region")):
        for t, month in enumerate(DOMAIN.levels("month")):
            for k, kind in enumerate(DOMAIN.levels("kind")):
                chance = share[r, t] * laws[min(r, len(laws) - 1), made.states[0, 0, r, t], k]
                seen = ((rows["region"] == region) & (rows["month"] == month) & (rows["kind"] == kind)).mean()
                assert abs(seen - chance) <= 6 * np.sqrt(chance * (1 - chance) / n) + 1e-12


def test_a_seed_repeats_and_one_draw_makes_all_entries():
    made = model(2, 3)
    assert made.sample(50, 3).equals(made.sample(50, np.random.default_rng(3)))
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(dg.errors.InferenceError, match="n must be"):
            made.sample(wrong, 1)


def test_the_path_of_a_model_is_beside_its_marginals():
    made = model(2, 4)
    path, alone = made.most_likely_path(), made.predict()
    assert list(path.columns) == list(alone.columns) == ["region", "month", "state", "probability"]
    assert (path["probability"] <= alone["probability"] + 1e-12).all()
    best = most_likely_paths(made.states.reshape(-1, 2, 3).astype(int), 2)
    assert path["state"].tolist() == best.ravel().tolist()


def test_entries_have_numbers_in_the_bins_of_a_field():
    rng = np.random.default_rng(0)
    domain = dg.Domain.of({"spent": dg.Bins([0, 10, 20], missing=True), "region": ["N", "S"], "month": [1, 2, 3]})
    laws = {"spent": rng.dirichlet([1, 1, 1], (1, 1, 1))}
    cells = (np.ones((1, 1, 1, 1)), laws, np.zeros((1, 1, 2, 3), int), np.zeros((1, 1)), np.ones((2, 3)))
    made = dg.results.HiddenMarkovModel(
        dg.hmm_network(domain, "region", "month"), "region", "month", *cells, "plug-in", "blocked"
    )
    rows, named = made.sample(300, 1), made.sample(300, 1, numbers="level")
    assert rows["spent"].dtype == "Int64"
    assert dg.statistics.encode(rows, domain).columns["spent"].tolist() == [
        domain.levels("spent").index(level) for level in named["spent"]
    ]
