"""The bases against dense linear algebra: transforms, blocks, reconstruction, variances."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

import dpgraph as dg
from dpgraph.structure.tables import (
    block_shape,
    cell_variance,
    coefficient_blocks,
    contrast_blocks,
    contrast_matrix,
    contrast_norms,
    contrast_transform,
    error_weights,
    fixed_point,
    inverse_contrasts,
    margin,
    residual_matrix,
    residual_transform,
    subsets,
    table_of,
)
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.tiers import examples

NETWORK = dg.Network.of(
    {"d": [0, 1, 2], "a": [0, 1], "one": [0], "b": [0, 1, 2, 3]}, {"b": ["a", "one"], "d": ["b", "a"]}
)
shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def dense(matrices):
    return reduce(np.kron, matrices, np.ones((1, 1)))


@pytest.mark.parametrize("axes", range(6))
def test_the_fast_walsh_transform_is_the_hadamard_matrix(axes):
    table = np.random.default_rng(axes).integers(-9, 9, (2,) * axes)
    ours = contrast_transform(table)
    assert ours.dtype == np.int64
    assert ours.ravel().tolist() == (hadamard(2**axes) @ table.ravel()).tolist() if axes else True
    assert (contrast_transform(ours) == 2**axes * table).all()


def test_walsh_sums_are_sums_of_signs():
    """w_g = sum over records of (-1)^<g, x> (Zhang et al. 2016, section 3.2)."""
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    table = np.zeros((2, 2, 2), np.int64)
    np.add.at(table, tuple(rows.T), 1)
    for g in itertools.product(range(2), repeat=3):
        assert contrast_transform(table)[g] == ((-1) ** (rows @ g)).sum()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_contrasts_are_orthogonal_and_residuals_orthonormal(size):
    contrasts = contrast_matrix(size)[1:]
    gram = contrasts @ contrasts.T
    assert (gram == np.diag([r * (r + 1) for r in range(1, size)])).all()
    assert (contrasts.sum(axis=1) == 0).all()
    forward, inverse = residual_matrix(size)
    np.testing.assert_allclose(forward[1:] @ forward[1:].T, np.eye(size - 1), atol=1e-14)
    np.testing.assert_allclose(forward @ inverse, np.eye(size), atol=1e-14)
    np.testing.assert_allclose(contrast_norms((size,))[:, None] * forward[1:], contrasts, atol=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(shapes, st.integers(0, 9))
def test_transforms_along_axes_are_kronecker_products(shape, seed):
    table = np.random.default_rng(seed).integers(0, 1000, shape)
    integers = contrast_transform(table)
    assert integers.dtype == np.int64
    reference = dense([contrast_matrix(size) for size in shape]) @ table.ravel()
    assert integers.ravel().tolist() == reference.tolist()
    np.testing.assert_allclose(inverse_contrasts(integers.astype(float)), table, atol=1e-9)
    residuals = residual_transform(table.astype(float), forward=True)
    reference = dense([residual_matrix(size)[0] for size in shape]) @ table.ravel()
    np.testing.assert_allclose(residuals.ravel(), reference, atol=1e-9)
    np.testing.assert_allclose(residual_transform(residuals, forward=False), table, atol=1e-9)
    batch = np.stack([integers, 3 * integers]).astype(float)
    np.testing.assert_allclose(inverse_contrasts(batch, batched=True), np.stack([table, 3 * table]), atol=1e-8)


@settings(max_examples=examples(60), deadline=None)
@given(small_networks(), st.integers(0, 9))
def test_every_table_is_rebuilt_from_the_blocks_of_the_closure(network, seed):
    names = network.domain.names
    joint = np.random.default_rng(seed).integers(0, 9, network.shape(names))
    families = network.maximal_families
    blocks = contrast_blocks(network, ((family, margin(joint, names, family)) for family in families))
    assert set(blocks) == set(coefficient_blocks(network))
    for block, values in blocks.items():
        assert values.shape == block_shape(network, block)
        matrices = [contrast_matrix(size)[1:] for size in network.shape(block)]
        reference = dense(matrices) @ margin(joint, names, block).ravel()
        assert values.ravel().tolist() == reference.tolist()
    for family in network.families:
        rebuilt = table_of(network, {key: values.astype(float) for key, values in blocks.items()}, family)
        np.testing.assert_allclose(rebuilt, margin(joint, names, family), atol=1e-9)


def test_blocks_leave_out_variables_of_one_level():
    expected = {(), ("d",), ("a",), ("b",), ("d", "a"), ("d", "b"), ("a", "b"), ("d", "a", "b")}
    assert set(coefficient_blocks(NETWORK)) == expected


def test_a_family_with_too_many_subsets_is_refused():
    parents = [f"p{i}" for i in range(20)]
    network = dg.Network.of({name: [0, 1] for name in ["x", *parents]}, {"x": parents})
    with pytest.raises(dg.errors.NetworkError, match="subsets"):
        coefficient_blocks(network)


@pytest.mark.parametrize(("name", "size"), [("asia", 21), ("sachs", 39), ("alarm", 142), ("win95pts", 935)])
def test_the_closures_of_known_networks(name, size):
    """|N_I| of proofs.md P3."""
    assert len(coefficient_blocks(dg.read_network(f"example:{name}"))) == size


@given(shapes, st.sampled_from([1, 7, 1 << 16]))
def test_fixed_point_is_close_to_orthonormal_and_never_increases(shape, grid):
    ours = fixed_point(shape, grid)
    exact = np.array(
        [
            grid / math.sqrt(math.prod(r * (r + 1) for r in rows))
            for rows in itertools.product(*(range(1, k) for k in shape))
        ]
    ).reshape(ours.shape)
    assert (np.abs(ours - np.maximum(exact, 1)) <= 0.5 + 1e-9).all()
    for axis in range(ours.ndim):
        assert (np.diff(ours, axis=axis) <= 0).all()
    assert grid > 1 or (ours == 1).all()


@pytest.mark.parametrize("table", [("b", "a", "one"), ("d", "b", "a"), ("a",), ("one",), ()])
def test_the_cell_variance_is_that_of_the_dense_map(table):
    blocks = [block for block in coefficient_blocks(NETWORK) if set(block) <= set(table)]
    variances = {block: 1.0 + i for i, block in enumerate(blocks)}
    variance = np.zeros(NETWORK.shape(table))
    for block in blocks:
        for cell in np.ndindex(block_shape(NETWORK, block)):
            unit = {other: np.zeros(block_shape(NETWORK, other)) for other in blocks}
            unit[block][cell] = contrast_norms(NETWORK.shape(block))[cell]
            variance += variances[block] * table_of(NETWORK, unit, table) ** 2
    np.testing.assert_allclose(variance, cell_variance(NETWORK, variances, table))


def test_the_error_weights_add_up_to_the_total_error():
    """sum_A V_A sigma_A^2 is the summed variance of all family cells."""
    blocks = coefficient_blocks(NETWORK)
    variances = {block: 0.5 + i for i, block in enumerate(blocks)}
    total = sum(cell_variance(NETWORK, variances, f) * NETWORK.cells(f) for f in NETWORK.families)
    weights = error_weights(NETWORK, blocks)
    assert sum(weights[block] * variances[block] for block in blocks) == pytest.approx(total)


def test_families_count_as_often_as_is_said():
    """A family that counts three times weighs as three families of the same cells would."""
    blocks = coefficient_blocks(NETWORK)
    variances = {block: 0.5 + i for i, block in enumerate(blocks)}
    counted = [1 + 2 * (i == 1) for i, _ in enumerate(NETWORK.families)]
    cells = [cell_variance(NETWORK, variances, f) * NETWORK.cells(f) for f in NETWORK.families]
    weights = error_weights(NETWORK, blocks, counted)
    found = sum(weights[block] * variances[block] for block in blocks)
    assert found == pytest.approx(sum(a * b for a, b in zip(counted, cells, strict=True)))


def test_subsets_keep_the_order_of_the_table():
    assert subsets(("b", "a")) == [(), ("b",), ("a",), ("b", "a")]
