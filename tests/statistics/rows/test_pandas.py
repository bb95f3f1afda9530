"""Columns of a data frame: what Arrow makes of them, with the codes of a categorical reused."""

import math

import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.statistics.rows.arrow import pandas_array

CATEGORICALS = {
    "text with nulls": pd.Series(["a", "b", None], dtype="category"),
    "text as objects": pd.Series(["a", "b"], dtype=object).astype("category"),
    "nullable text": pd.Series(["a", None], dtype="string").astype("category"),
    "whole": pd.Series([3, 1, 3], dtype="category"),
    "nullable whole": pd.Series([3, None], dtype="Int64").astype("category"),
    "real": pd.Series([0.5, None], dtype="category"),
    "boolean": pd.Series([True, False], dtype="category"),
    "many": pd.Series(range(300), dtype="category"),
    "no rows": pd.Series([], dtype="category"),
    "nulls alone": pd.Series([None, None], dtype="category"),
    "ordered": pd.Series(pd.Categorical(["b", "a"], ["b", "a", "c"], ordered=True)),
    "intervals": pd.cut(pd.Series([1, 2, 3]), 2),
    "times": pd.Series(pd.to_datetime(["2020-01-01"])).astype("category"),
}


@pytest.mark.parametrize("name", CATEGORICALS)
def test_a_categorical_is_the_dictionary_that_arrow_makes_of_it(name):
    values = CATEGORICALS[name]
    ours, theirs = pandas_array(values), pa.array(values, from_pandas=True)
    ours.validate(full=True)
    assert ours.type == theirs.type
    assert ours.to_pylist() == theirs.to_pylist()


def test_a_categorical_of_mixed_kinds_is_as_unreadable_as_arrow_finds_it():
    with pytest.raises(pa.ArrowInvalid):
        pandas_array(pd.Series(["a", 1], dtype=object).astype("category"))


@pytest.mark.parametrize("variable", [dg.Categories(["a", "b"], missing="b"), dg.Bins([0, 1], missing=True)])
def test_categories_of_the_wrong_kind_that_no_row_has_do_not_matter(variable):
    """A part of a table whose values are all null is counted, whatever its unused categories are."""
    nulls = [
        pd.Categorical([None, None], categories=[True]),
        pd.Categorical([None, None], categories=[pd.Timestamp("2020-01-01")]),
        pd.cut(pd.Series([math.nan, math.nan]), [0, 2]),
    ]
    for values in nulls:
        codes = dg.statistics.encode(pd.DataFrame({"v": values}), dg.Domain.of({"v": variable}))
        assert codes.columns["v"].tolist() == [1, 1]
