"""The merge that gains most is found by a row of gains at a time: each step beside all pairs."""

import itertools

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure import margins as merging


def gain(network, merger, one, two):
    joint = network.cells(tuple(merger.members[one] | merger.members[two]))
    old = np.cbrt(merger.cells[one] * merger.served[one]) + np.cbrt(merger.cells[two] * merger.served[two])
    return old - np.cbrt((merger.served[one] + merger.served[two]) * joint)


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


def test_every_step_takes_the_best_pair_there_is():
    steps = 0
    for network in networks():
        merger = merging._Merger(network, network.maximal_families)
        while True:
            gains = [gain(network, merger, *pair) for pair in itertools.combinations(merger.members, 2)]
            best = merger.best()
            if best is None:
                break
            assert gain(network, merger, *best) == pytest.approx(max(gains), abs=1e-9)
            merger.merge(*best)
            steps += 1
        assert max(gains, default=0) <= 2 * merging.LEAST_GAIN
        places = list(merger.members)
        assert sum(merger.served[places]) == len(network.families)
        for place, members in merger.members.items():
            assert merger.cells[place] == network.cells(tuple(members))
    assert steps > 100


@pytest.mark.parametrize(
    "network",
    [
        dg.Network.of({f"x{i}": [0, 1] for i in range(900)}, {f"x{i}": [f"x{i - 1}"] for i in range(1, 900)}),
        dg.Network.of({f"x{i}": [0, 1] for i in range(900)}, {f"x{i}": ["x0"] for i in range(1, 900)}),
        dg.all_pairs({f"x{i}": [0, 1] for i in range(40)}),
    ],
    ids=["chain", "star", "pairs"],
)
def test_gains_are_looked_at_a_few_rows_for_each_table(network, monkeypatch):
    """A row of gains for each table, one for each merge, and few more: not one for each pair of tables."""
    looked = []
    real = merging._Merger._gains
    monkeypatch.setattr(merging._Merger, "_gains", lambda self, *them: looked.append(1) or real(self, *them))
    assert len(merging.measured_families.__wrapped__(network)) < len(network.maximal_families) * 0.6
    assert len(looked) < 4 * len(network.maximal_families)


def test_very_many_tables_stay_as_they_are(monkeypatch):
    pairs = dg.all_pairs({f"x{i}": [0, 1] for i in range(10)})
    monkeypatch.setattr(merging, "MOST_TABLES", 44)
    assert merging.measured_families.__wrapped__(pairs) == pairs.maximal_families
    monkeypatch.setattr(merging, "MOST_TABLES", 45)
    assert len(merging.measured_families.__wrapped__(pairs)) < 45
