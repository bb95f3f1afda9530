"""The merge that gains most is found without a look at every pair: each step beside all pairs."""

import itertools

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure import merging


def gain(network, one, two):
    joint = network.cells(tuple(one.members | two.members))
    return (
        np.cbrt(one.cells * one.served) + np.cbrt(two.cells * two.served) - np.cbrt((one.served + two.served) * joint)
    )


def networks():
    rng = np.random.default_rng(0)
    for _ in range(25):
        n, levels, parents = int(rng.integers(2, 26)), int(rng.integers(2, 5)), int(rng.integers(0, 4))
        sizes = {f"x{i}": list(range(int(rng.integers(1, levels + 1)))) for i in range(n)}
        yield dg.Network.of(
            sizes,
            {f"x{i}": [f"x{j}" for j in rng.choice(i, min(i, parents), replace=False)] for i in range(1, n)},
        )
    for n in (2, 3, 40):
        names = {f"x{i}": [0, 1] for i in range(n)}
        yield dg.Network.of(names, {f"x{i}": ["x0"] for i in range(1, n)})
        yield dg.Network.of(names, {f"x{i}": [f"x{i - 1}"] for i in range(1, n)})
    for levels in ([2] * 9, [1, 2, 2, 2, 3, 3, 4, 5]):
        yield dg.all_pairs({f"x{i}": list(range(k)) for i, k in enumerate(levels)})


@pytest.mark.parametrize("hub", [0, 1, 3, 32])
def test_every_step_takes_the_best_pair_there_is(hub, monkeypatch):
    monkeypatch.setattr(merging, "HUB", hub)
    steps = 0
    for network in networks():
        families = network.maximal_families
        starting = zip(families, merging.weights(network, families), strict=True)
        tables = [merging._Table(frozenset(f), network.cells(f), w // network.cells(f)) for f, w in starting]
        merger = merging._Merger(network, tables)
        merger.begin()
        while True:
            gains = [gain(network, *pair) for pair in itertools.combinations(merger.alive.values(), 2)]
            best = merger.best()
            if best is None:
                break
            assert gain(network, merger.alive[best[0]], merger.alive[best[1]]) == pytest.approx(max(gains), abs=1e-9)
            merger.merge(*best)
            steps += 1
        assert max(gains, default=0) <= 2 * merging.LEAST_GAIN
        assert sum(table.served for table in merger.alive.values()) == len(network.families)
        for table in merger.alive.values():
            assert table.cells == network.cells(tuple(table.members))
    assert steps > 100


@pytest.mark.proof
def test_a_chain_of_thousands_is_no_matter_of_pairs(monkeypatch):
    """The gains that are looked at grow as the tables do: 4000 variables have 8 million pairs."""
    looked = []
    real = merging._Merger._gain_of
    monkeypatch.setattr(merging._Merger, "_gain_of", lambda self, *them: looked.append(1) or real(self, *them))
    for shape in (lambda i: f"x{i - 1}", lambda i: "x0"):
        looked.clear()
        names = {f"x{i}": [0, 1] for i in range(4000)}
        merging.measured_families(dg.Network.of(names, {f"x{i}": [shape(i)] for i in range(1, 4000)}))
        assert len(looked) < 40_000


@pytest.mark.proof
def test_all_pairs_of_many_variables_look_at_pairs_that_share_one(monkeypatch):
    """Of 50 variables: 1225 tables have 749 700 pairs, 58 800 of which share a variable; merging adds as many again."""
    looked = []
    real = merging._Merger._gain_of
    monkeypatch.setattr(merging._Merger, "_gain_of", lambda self, *them: looked.append(1) or real(self, *them))
    tables = merging.measured_families(dg.all_pairs({f"x{i}": [0, 1] for i in range(50)}))
    assert len(tables) < 1225 / 2
    assert len(looked) < 4 * 58_800


def test_tables_that_share_variables_with_too_many_others_stay_as_they_are(monkeypatch):
    pairs = dg.all_pairs({f"x{i}": [0, 1] for i in range(40)})
    monkeypatch.setattr(merging, "MOST_PAIRS", 10)
    merging.measured_families.cache_clear()
    assert merging.measured_families(pairs) == pairs.maximal_families
    star = dg.Network.of({f"x{i}": [0, 1] for i in range(99)}, {f"x{i}": ["x0"] for i in range(1, 99)})
    assert len(merging.measured_families(star)) < 98  # alike tables are one kind
    merging.measured_families.cache_clear()
