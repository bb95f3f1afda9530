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


@pytest.mark.parametrize("hub", [0, 1, 3, 32])
def test_every_step_takes_the_best_pair_there_is(hub, monkeypatch):
    monkeypatch.setattr(merging, "HUB", hub)
    steps = 0
    for network in networks():
        families = network.maximal_families
        starting = zip(families, merging.weights(network, families), strict=True)
        tables = [merging._Table(frozenset(f), network.cells(f), w // network.cells(f)) for f, w in starting]
        merger = merging._Merger(network, tables)
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


def test_a_chain_of_thousands_is_no_matter_of_pairs(monkeypatch):
    """The gains that are looked at grow as the tables do: 4000 variables have 8 million pairs."""
    looked = []
    real = merging._Merger._gain
    monkeypatch.setattr(merging._Merger, "_gain", lambda self, *them: looked.append(1) or real(self, *them))
    for shape in (lambda i: f"x{i - 1}", lambda i: "x0"):
        looked.clear()
        names = {f"x{i}": [0, 1] for i in range(4000)}
        merging.measured_families(dg.Network.of(names, {f"x{i}": [shape(i)] for i in range(1, 4000)}))
        assert len(looked) < 40_000
