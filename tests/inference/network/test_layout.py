"""Tables to flat arrays and back, and the kernels' likelihood against the evidence's own."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.by_records import flat_tables, kernel_layout, tables_from_flat
from dpgraph.inference.network.evidence import concentration_tables, evidence
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from tests.inference.network.likelihoods import log_likelihood

DOMAIN = {"c": [0, 1], "a": [0, 1, 2], "one": ["x"], "b": [0, 1], "d": [0, 1, 2, 3]}
NETWORK = dg.Network.of(DOMAIN, {"c": ["a", "one"], "b": ["c"], "d": ["b", "a"]})
MECHANISMS = [
    dg.LaplaceMechanism(1),
    dg.LaplaceMechanism(1, tables="families"),
    dg.GaussianMechanism(1, 1e-3),
    dg.FourierMechanism(1),
]


def test_tables_survive_the_flat_layout():
    rng = np.random.default_rng(0)
    tables = {name: rng.random(t.shape) for name, t in concentration_tables(NETWORK, 1.0).items()}
    flat = flat_tables(NETWORK, tables)
    assert np.array_equal(flat[:3], tables["a"])
    back = tables_from_flat(NETWORK, np.stack([flat, 2 * flat]))
    assert list(back) == list(NETWORK.domain.names)
    for name, table in tables.items():
        assert np.array_equal(back[name], np.stack([table, 2 * table]))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_gains_are_those_of_the_evidence(mechanism, neighbours):
    """Records added one by one, then each turned into another: the gains sum to the change of the log-likelihood."""
    rng = np.random.default_rng(1)
    columns = {name: rng.integers(size, size=9).astype(np.uint8) for name, size in NETWORK.domain.sizes.items()}
    counts = dg.count(Codes(NETWORK.domain, FrozenMap(columns)), NETWORK)
    budget = dg.Budget(1, delta=0.1, unit=dg.PrivacyUnit(neighbours))
    given = evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(3)).value)
    layout = kernel_layout(given, concentration_tables(NETWORK, 1.0))
    records = np.stack([columns[name] for name in NETWORK.order], axis=1)
    residual = np.concatenate([table.values for table in given.tables])
    arrays = (layout.tables, layout.laws, layout.weights, residual)

    def likelihood(rows):
        return log_likelihood(given, {name: rows[:, v] for v, name in enumerate(NETWORK.order)})

    gain = 0.0
    for i in range(len(records)):
        for table in range(len(given.tables)):
            cell = _kernels.index_of(layout.tables, table, records, i)
            gain += _kernels.counted(*arrays, table, cell, 1)
    assert gain == pytest.approx(likelihood(records) - likelihood(records[:0]), abs=1e-6)
    others = records[rng.permutation(len(records))]
    gain = sum(
        _kernels.moved(*arrays, table, records, i, others, i)
        for i in range(len(records))
        for table in range(len(given.tables))
    )
    assert gain == pytest.approx(0.0, abs=1e-6)


def test_descendants_come_after_their_parents():
    given = evidence_of(dg.LaplaceMechanism(1, tables="families"))
    layout = kernel_layout(given, concentration_tables(NETWORK, 1.0))
    position = {name: v for v, name in enumerate(NETWORK.order)}
    a = position["a"]
    below = layout.below[a, 1 : 1 + layout.below[a, 0]].tolist()
    assert below == sorted(position[name] for name in ("c", "b", "d"))
    assert layout.below[position["d"], 0] == 0
    held = [any(name in table.variables for name in ("a", "b", "c", "d")) for table in given.tables]
    assert layout.touched[a, 0] == sum(held)


def evidence_of(mechanism):
    uniform = {name: t / t.sum(axis=0) for name, t in concentration_tables(NETWORK, 1.0).items()}
    columns = sample_codes(dg.Probabilities(NETWORK, FrozenMap(uniform)), 20, np.random.default_rng(2))
    counts = dg.count(Codes(NETWORK.domain, FrozenMap(columns)), NETWORK)
    budget = dg.Budget(mechanism.epsilon, unit=dg.PrivacyUnit("replace"))
    return evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(3)).value)
