"""No cell of a CSV file that is written for people begins like a formula, and no number is changed."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.files.atomic_write import csv_text, harmless, harmless_frame


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "+",
                                  "-5-0", "-inf", "+1_0", "-٣",
                                  "\uff1d1", "\uff0b1", "\uff0d1", "\uff20a"])  # fmt: skip
def test_a_formula_gets_an_apostrophe(cell):
    assert harmless(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-3", "+1.5", "-.5", "-2.", "1e-9", "-1E+9", "a=b", "", "a-b", "5-10", -3, 1.5, True])
def test_what_is_no_formula_stays(cell):
    assert harmless(cell) is cell


words = st.text(st.sampled_from("=+-@\t\ra1.'"), max_size=4)


@given(st.lists(words, min_size=1, max_size=5, unique=True), st.data())
def test_columns_of_levels_and_of_words_are_alike(levels, data):
    """Of two levels that become one word, such as =a and '=a, each row keeps its own."""
    codes = data.draw(st.lists(st.integers(-1, len(levels) - 1), max_size=6))
    cells = [None if code < 0 else levels[code] for code in codes]
    expected = [harmless(cell) for cell in cells]
    for column in (pd.Categorical.from_codes(codes, categories=levels), np.array(cells, dtype=object)):
        before = pd.DataFrame({"=name": column})
        after = harmless_frame(before)
        assert list(after.columns) == ["'=name"]
        assert [None if pd.isna(cell) else cell for cell in after.iloc[:, 0]] == expected
        assert list(before.columns) == ["=name"]
        read = pd.read_csv(io.StringIO(csv_text(after)), keep_default_na=False, dtype=str)
        assert len(read) == len(cells)
        assert not any(str(cell).startswith(("=", "@")) for cell in read.to_numpy().ravel())


def test_a_frame_without_formulas_is_itself():
    frame = pd.DataFrame({"a": pd.Categorical(["-3", "x"]), "b": [-1.0, 2.0]})
    assert harmless_frame(frame) is frame
    assert harmless_frame(frame.iloc[:, 1:]).equals(frame.iloc[:, 1:])


@pytest.mark.parametrize("place", ["cell", "level", "name"])
def test_a_carriage_return_begins_no_line(place):
    """The line that a reader would begin after it could begin with a formula."""
    words = ["a\r=1+1", "b"] if place != "name" else ["a", "b"]
    frame = pd.DataFrame({"x\r=1" if place == "name" else "x": pd.Categorical(words) if place == "level" else words})
    read = pd.read_csv(io.StringIO(csv_text(frame), newline=""), dtype=str)
    pd.testing.assert_frame_equal(read, frame.astype(object), check_dtype=False)
