"""The quick ways from values to codes give what one value after another gives, at every edge they turn at."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics.rows.codes import BLOCK, FEW, SPAN, encode_column
from tests.strategies import position

WORDS = ["red", "green", "blue"]


def encoded(values, variable):
    return dg.statistics.encode(pa.table({"v": values}), dg.Domain.of({"v": variable})).columns["v"].tolist()


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (pa.array([2**64 - 1, 2**64 - 2, 2, 0], pa.uint64()), [-1, 0, 2]),
        (pa.array([2**63 - 1, -(2**63), -1, 2**32 - 1, 2**62], pa.int64()), [-1, 0, 2]),
        (pa.array([2**63 - 1, -(2**63), 5, 6], pa.int64()), [5, 7]),
        (pa.array([255, 0, 127, 128], pa.uint8()), [-1, 0, 127]),
        (pa.array([-128, 127, -1, 0], pa.int8()), [255, 128, -1, 127]),
        (pa.array([0, 1, 2]), [0.5, 1.5]),
        (pa.array([0, 1, 2, SPAN]), [0, SPAN, 1]),
        (pa.array([0, 1, 2, SPAN]), [0, SPAN - 1, 2]),
        (pa.array([0, 1, 2**40, 2**40 + 1]), [2**40, 0.5, 0]),
        (pa.array([0.0, 0.5, -0.0, 1e300, -math.inf, 2.0]), [2, 0, 0.5]),
        (pa.array(np.arange(-2, FEW + 3) / 2), [k / 2 for k in range(FEW)]),
        (pa.array(np.arange(-2, FEW + 3) / 2), [k / 2 for k in range(FEW + 1)]),
        (pa.array([], pa.int64()), [0, 1]),
    ],
    ids=str,
)
def test_numbers_compare_by_value_at_the_ends_of_their_types(values, levels):
    variable = dg.Categories([*levels, 4711], other=4711)
    assert encoded(values, variable) == [position(variable, value) for value in values.to_pylist()]


@pytest.mark.parametrize("edges", [2, 3, FEW + 1, FEW + 2, FEW + 3, 300])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int16()])
def test_bins_of_any_number_of_edges(edges, kind):
    variable = dg.Bins(range(edges), missing=True)
    values = pa.array([-5.0, *(k / 2 for k in range(2 * edges + 4)), None]).cast(kind, safe=False)
    assert encoded(values, variable) == [position(variable, value) for value in values.to_pylist()]


@pytest.mark.parametrize("size", [1, 126, 127, 128, 129, 255, 256, 257, 32_767, 32_768])
@pytest.mark.parametrize("backwards", [False, True])
def test_categories_of_every_width_with_a_null(size, backwards):
    """pandas numbers categories by int8, int16 or int32, and the null comes after the last of them."""
    words = [f"w{k}" for k in range(size)]
    values = pd.Categorical.from_codes([0, size - 1, -1, size // 2], words[::-1] if backwards else words)
    variable = dg.Categories([*words, "none"], missing="none")
    codes = dg.statistics.encode(pd.DataFrame({"v": values}), dg.Domain.of({"v": variable})).columns["v"]
    place = [0, size - 1, None, size // 2]
    expected = [size if at is None else size - 1 - at if backwards else at for at in place]
    assert codes.tolist() == expected


def test_nulls_of_a_categorical_column_are_nulls_whatever_its_unused_categories():
    values = pd.Categorical.from_codes([-1, -1], [-98765])
    domain = dg.Domain.of({"v": dg.Categories(WORDS, missing="blue")})
    assert dg.statistics.encode(pd.DataFrame({"v": values}), domain).columns["v"].tolist() == [2, 2]
    with pytest.raises(dg.errors.DomainError, match="column 'v' holds nulls"):
        dg.statistics.encode(pd.DataFrame({"v": values}), dg.Domain.of({"v": WORDS}))
    mixed = pd.Categorical.from_codes([-1, 0], [-98765])
    with pytest.raises(dg.errors.DomainError, match="column 'v' is of type"):
        dg.statistics.encode(pd.DataFrame({"v": mixed}), domain)


def test_codes_do_not_change_with_the_frame_they_were_made_from():
    values = pd.Categorical.from_codes(np.array([0, 1, 2], np.int8), WORDS)
    codes = dg.statistics.encode(pd.DataFrame({"v": values}), dg.Domain.of({"v": WORDS}))
    values[0] = "blue"
    assert codes.columns["v"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("levels", [["a", "b"], ["b", "a"]])
@pytest.mark.parametrize("index", [2, 77, -1])
def test_a_damaged_dictionary_is_refused_without_its_index(levels, index):
    indices = pa.array([0, index], pa.int8())
    damaged = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    for declared in (levels, ["a"]):
        with pytest.raises(dg.errors.DomainError, match="column 'v' is a damaged dictionary") as caught:
            encode_column(damaged, dg.Categories(declared), "v")
        assert str(index) not in str(caught.value)


LONG = {
    "text": (lambda n: pa.array(["red", *["blue"] * (n - 1)]), WORDS, "zanzibar"),
    "integers": (lambda n: pa.array([2, *[0, 1] * (n // 2)]), [2, 0, 1], 9),
    "reals": (lambda n: pa.array([1.0, *[0.5, 0.0] * (n // 2)]), [1, 0.5, 0], 9.0),
    "dictionary": (lambda n: pa.array(["red", *["blue", "green"] * (n // 2)]).dictionary_encode(), WORDS, "zanzibar"),
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("action", [False, True])
def test_the_last_value_of_many_blocks_counts_as_the_first_does(kind, action):
    make, levels, alien = LONG[kind]
    values = make(2 * BLOCK + 10)
    plain = values.dictionary_decode() if kind == "dictionary" else values
    ends = pa.concat_arrays([plain, pa.array([alien, None], plain.type)])
    ends = ends.dictionary_encode() if kind == "dictionary" else ends
    if action:
        variable = dg.Categories(levels, other=levels[1], missing=levels[2])
        codes = encode_column(ends, variable, "v")
        assert codes[:6].tolist() == [position(variable, value) for value in plain[:6].to_pylist()]
        assert codes[2 * BLOCK :].tolist() == [position(variable, value) for value in ends[2 * BLOCK :].to_pylist()]
    else:
        with pytest.raises(dg.errors.DomainError, match="column 'v' holds nulls"):
            encode_column(ends, dg.Categories(levels), "v")
        with pytest.raises(dg.errors.DomainError, match="column 'v' holds values outside"):
            encode_column(ends.slice(0, len(ends) - 1), dg.Categories(levels), "v")
        with pytest.raises(dg.errors.DomainError, match="column 'v' holds values outside"):
            encode_column(values, dg.Categories(levels[1:]), "v")


@given(st.lists(st.sampled_from([*WORDS, "mauve", None]), max_size=30), st.integers(0, 5), st.booleans())
def test_slices_of_a_column_encode_as_its_values(words, start, dictionary):
    variable = dg.Categories(WORDS, other="red", missing="blue")
    values = pa.array(words, pa.string())
    values = values.dictionary_encode() if dictionary else values
    assert encode_column(values.slice(start), variable, "v").tolist() == [position(variable, w) for w in words[start:]]


@pytest.mark.parametrize("kind", ["integers", "reals", "bins", "booleans"])
def test_no_wide_copy_of_a_column_is_made(kind):
    """Two million rows: the codes take 2 MB, and 16 MB would be one number of eight bytes a row."""
    n = 2_000_000
    made = {
        "integers": (np.arange(n) % 3, dg.Categories([2, 0, 1])),
        "reals": (np.arange(n) % 3 / 2, dg.Categories([1, 0.5, 0])),
        "bins": (np.arange(n) % 7 / 2, dg.Bins([0, 1, 2, 3])),
        "booleans": (np.arange(n) % 2 == 0, dg.Categories([True, False])),
    }
    values, variable = pa.array(made[kind][0]), made[kind][1]
    tracemalloc.start()
    try:
        codes = encode_column(values, variable, "v")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert codes.dtype == np.uint8
    assert peak < 8e6
