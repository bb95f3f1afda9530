"""Noisy coefficients: what they must hold, what they stand for, and their variances."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.tables import NoisyCoefficients, block_shape, coefficient_blocks

NETWORK = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]})
CLOSURE = ((), ("a",), ("b",), ("a", "b"))


def noisy(n=None, keep=CLOSURE, scale=2.0, **settings):
    rng = np.random.default_rng(0)
    blocks = {block: rng.integers(-50, 50, block_shape(NETWORK, block)) for block in keep}
    return NoisyCoefficients(NETWORK, blocks, dict.fromkeys(keep, DiscreteLaplace(scale)), n, **settings)


def test_the_number_of_rows_is_measured_or_public():
    measured = noisy()
    assert measured.tables().tables["b", "a"].sum() == pytest.approx(measured.blocks[()])
    public = noisy(7, CLOSURE[1:])
    assert public.tables().tables["b", "a"].sum() == pytest.approx(7)
    assert public.tables().n == 7
    both = noisy(7)
    assert both.tables().tables["b", "a"].sum() == pytest.approx(both.blocks[()])


def test_the_tables_have_the_contrasts_they_were_rebuilt_from():
    table = noisy(grid=1).tables().tables["b", "a"]
    blocks = noisy(grid=1).blocks
    assert table[:, 0].sum() - table[:, 1].sum() == pytest.approx(blocks["a",].item())
    assert table[0].sum() + table[1].sum() - 2 * table[2].sum() == pytest.approx(blocks["b",][1])
    assert table[0, 0] - table[1, 0] - table[0, 1] + table[1, 1] == pytest.approx(blocks["a", "b"][0, 0])


def test_fixed_point_is_divided_out():
    """At grid 100 the contrasts of b are held 71 and 41 times over, as 100 / sqrt(2) and 100 / sqrt(6) round."""
    held = noisy(grid=100)
    np.testing.assert_allclose(held.contrasts()["b",], held.blocks["b",] / np.array([71, 41]))


@pytest.mark.parametrize("settings", [{}, {"grid": 100}, {"grid": 1000, "step": 2}], ids=str)
@pytest.mark.parametrize("n", [None, 9])
@pytest.mark.parametrize("table", [("b", "a"), ("a",), ("b",), ()])
def test_the_variance_is_the_mean_over_cells_of_the_linear_map(settings, n, table):
    """Every unit of noise pushed through the reconstruction."""
    keep = CLOSURE if n is None else CLOSURE[1:]
    base = noisy(n, keep, **settings)
    variance = np.zeros(NETWORK.shape(table))
    for block in keep:
        for cell in np.ndindex(block_shape(NETWORK, block)):
            moved = {key: np.array(values) for key, values in base.blocks.items()}
            moved[block][cell] += 1000 * base.step
            other = NoisyCoefficients(NETWORK, moved, base.laws, n, base.grid, base.step)
            gap = (other.tables().margin(*table) - base.tables().margin(*table)) / 1000
            variance += gap**2 * DiscreteLaplace(2.0).variance(1)
    assert base.variance(table) == pytest.approx(variance.mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": lambda blocks: {k: v for k, v in blocks.items() if k != ("b",)}}, "downward closure"),
        ({"blocks": lambda blocks: blocks | {("c",): np.zeros(1, int)}}, "downward closure"),
        ({"blocks": lambda blocks: {k: v for k, v in blocks.items() if k}}, "downward closure"),
        ({"blocks": lambda blocks: {("b", "a") if k == ("a", "b") else k: v for k, v in blocks.items()}}, "closure"),
        ({"blocks": lambda blocks: blocks | {("b",): np.zeros(3, int)}}, "wrong shape"),
        ({"laws": lambda laws: {k: v for k, v in laws.items() if k}}, "noise law"),
        ({"laws": lambda laws: laws | {("c",): DiscreteLaplace(1.0)}}, "noise law"),
        ({"laws": lambda laws: laws | {("b",): SumZeroLaplace(1.0)}}, "independent"),
        ({"grid": lambda _: 0}, "at least 1"),
        ({"step": lambda _: 0}, "at least 1"),
        ({"pseudo_records": lambda _: -1}, "at least 0"),
    ],
)
def test_what_is_not_whole_is_refused(change, message):
    good = noisy()
    settings = {"blocks": dict(good.blocks), "laws": dict(good.laws), "grid": 1, "step": 1, "pseudo_records": 0}
    for name, function in change.items():
        settings[name] = function(settings[name])
    with pytest.raises(dg.errors.NetworkError, match=message):
        NoisyCoefficients(NETWORK, n=None, **settings)


def test_a_copy_is_kept_and_the_order_is_the_networks():
    blocks = {block: np.zeros(block_shape(NETWORK, block), np.int64) for block in reversed(CLOSURE)}
    value = NoisyCoefficients(NETWORK, blocks, dict.fromkeys(blocks, DiscreteLaplace(1.0)), None)
    blocks["a",][0] = 5
    assert value.blocks["a",][0] == 0
    assert tuple(value.blocks) == coefficient_blocks(NETWORK) == CLOSURE
    with pytest.raises(ValueError, match="read-only"):
        value.blocks["a",][0] = 1
