"""Immutable mappings and arrays: their laws of equality and hashing, and that nothing changes them."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.structure.frozen import FrozenMap, frozen_array

items = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3)), unique_by=lambda item: item[0], max_size=4)


@given(items, items)
def test_equal_maps_hash_alike_and_have_the_same_order(one, other):
    """An equal network must lay its tables out alike, so the order counts between frozen maps."""
    a, b = FrozenMap(one), FrozenMap(other)
    assert (a == b) == (one == other)
    if a == b:
        assert hash(a) == hash(b)


@given(items)
def test_it_reads_like_a_dict_and_equals_one_in_any_order(pairs):
    frozen, plain = FrozenMap(pairs), dict(pairs)
    assert frozen == plain
    assert frozen == dict(reversed(pairs))
    assert list(frozen) == list(plain)
    assert len(frozen) == len(plain)
    assert repr(frozen) == repr(plain)
    assert FrozenMap(plain) == frozen
    assert pickle.loads(pickle.dumps(frozen)) == copy.deepcopy(frozen) == frozen


def test_it_cannot_be_changed():
    source = {"a": 1}
    frozen = FrozenMap(source)
    source["a"] = 2
    assert frozen["a"] == 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        frozen["a"] = 3
    with pytest.raises(TypeError, match="does not support item deletion"):
        del frozen["a"]
    with pytest.raises(AttributeError):
        frozen.more = 1


def test_a_missing_key_is_a_key_error():
    with pytest.raises(KeyError):
        FrozenMap({"a": 1})["b"]
    assert FrozenMap({"a": 1}).get("b") is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1, 2], [[1, 2]], False),
        ([1, 2], [1.0, 2.0], False),
        ([[1], [2]], [[1], [2]], True),
    ],
)
def test_arrays_are_compared_by_shape_kind_and_value(one, other, same):
    assert (FrozenMap({"a": np.array(one)}) == FrozenMap({"a": np.array(other)})) is same


@pytest.mark.parametrize("other", [None, 1, [("a", 1)], {"a": 2}, {"a": 1, "b": 2}, {"b": 1}, {}])
def test_what_differs_is_not_equal(other):
    assert FrozenMap({"a": 1}) != other


def test_a_frozen_array_is_a_read_only_copy():
    source = np.arange(4.0)
    frozen = frozen_array(source, np.int64)
    source[0] = 9
    assert frozen.tolist() == [0, 1, 2, 3]
    assert frozen.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 1
