"""Moments of a regression: an exact monoid over any table, of clipped whole numbers and of nothing else."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics import moments
from dpgraph.statistics import summary as engines
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.rows import features
from dpgraph.structure.design import RESOLUTION
from dpgraph.structure.domain import DomainError
from tests.statistics.engines.rows import ENGINES
from tests.tiers import examples

R = RESOLUTION
SECRET = 0.123456789
DESIGN = dg.LinearDesign(
    {"age": (18, 90), "sex": ["F", "M"], "area": ["N", "E", "S"], "hours": dg.Bins([0, 20, 40, 80])}, "wage", (0, 10)
)
EDGES = [-math.inf, math.inf, 1e308, -1e308, 18, 90, 54]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 120), st.sampled_from(EDGES)),
        st.sampled_from("FM"),
        st.sampled_from("NES"),
        st.floats(-10, 100),
        st.one_of(st.floats(-5, 20), st.sampled_from(EDGES)),
    ),
    max_size=12,
)


def frame(rows):
    made = pd.DataFrame(rows, columns=["age", "sex", "area", "hours", "wage"])
    return made.astype({"age": float, "hours": float, "wage": float})


def content(moments):
    return moments.sensitive_sums.tolist(), moments.sensitive_rows


def by_hand(rows, design):
    """Python integers, one row at a time, from the definition of the columns."""

    def grid(value, low, high):
        if math.isinf(value):
            return R if value > 0 else -R
        return round(min(1.0, max(-1.0, (value - (low + high) / 2) / ((high - low) / 2))) * R)

    sums = [0] * len(design.pairs)
    for age, sex, area, hours, wage in rows:
        third = 0 if hours < 20 else 1 if hours < 40 else 2
        levels = [R * (area == "E"), R * (area == "S"), R * (third == 1), R * (third == 2)]
        z = [R, grid(age, 18, 90), R if sex == "M" else -R, *levels, grid(wage, 0, 10)]
        sums = [total + z[i] * z[j] for total, (i, j) in zip(sums, design.pairs, strict=True)]
    return sums, len(rows)


@given(ROWS)
@settings(max_examples=examples(150), deadline=None)
def test_sums_are_those_of_the_clipped_columns(rows):
    """Ties of rounding aside, which the drawn numbers do not meet: to one step of the grid in each row."""
    sums, n = content(dg.statistics.regression_moments(frame(rows), DESIGN))
    expected, many = by_hand(rows, DESIGN)
    assert n == many
    assert np.abs(np.array(sums, dtype=object) - np.array(expected, dtype=object)).max() <= 2 * R * n


@given(ROWS, ROWS, ROWS)
@settings(max_examples=examples(60), deadline=None)
def test_moments_are_a_commutative_monoid(a, b, c):
    one, two, three = (dg.statistics.regression_moments(frame(rows), DESIGN) for rows in (a, b, c))
    assert content(one + two) == content(two + one) == content(dg.statistics.regression_moments(frame(a + b), DESIGN))
    assert content((one + two) + three) == content(one + (two + three))
    assert content(one + Moments.zero(DESIGN)) == content(one)
    assert content(dg.statistics.regression_moments(frame(a[::-1]), DESIGN)) == content(one)


MANY = [
    (float(18 + (7 * i) % 80), "FM"[i % 2], "NES"[i % 3], float((11 * i) % 90 - 5), (i % 23) / 2 - 0.7)
    for i in range(50)
]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_sums(engine):
    assert content(dg.statistics.regression_moments(ENGINES[engine](frame(MANY)), DESIGN)) == content(
        dg.statistics.regression_moments(frame(MANY), DESIGN)
    )


@pytest.mark.parametrize(("block", "batch", "threads"), [(1, 1, 1), (30, 7, 2), (100, 64, 4)])
def test_blocks_batches_and_threads_change_nothing(block, batch, threads, monkeypatch):
    whole = content(dg.statistics.regression_moments(frame(MANY), DESIGN))
    for module, name, value in (
        (moments, "BLOCK", block),
        (moments, "BATCH", batch),
        (engines, "THREADS", threads),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 8)
    assert content(dg.statistics.regression_moments(frame(MANY), DESIGN)) == whole
    assert content(dg.statistics.regression_moments(pa.Table.from_pandas(frame(MANY)), DESIGN)) == whole


def test_a_block_of_rows_at_the_bounds_is_summed_exactly():
    """The largest sums a block can have are whole numbers below 2^53, where doubles hold them all."""
    assert moments.BLOCK * R**2 <= 2**53
    design = dg.LinearDesign({"x": (0, 1)}, "y", (0, 1))
    n = moments.BATCH + moments.BLOCK // 3 + 1
    sums, many = content(dg.statistics.regression_moments((np.full((n, 1), 7.0), np.full(n, -7.0)), design))
    assert many == n
    assert sums == [n * R**2, -n * R**2, n * R**2, -n * R**2, n * R**2]


def test_more_rows_than_a_sum_can_hold_are_refused(monkeypatch):
    """Weights below ``LEAST_ROOM`` have room from the start; with larger ones fewer rows do."""
    monkeypatch.setattr(moments, "MOST_SUM", 49 * moments.LEAST_ROOM * R**2)
    with pytest.raises(DomainError, match="more than 49 rows"):
        dg.statistics.regression_moments(frame(MANY), DESIGN.with_mean_weight(None))
    with pytest.raises(DomainError, match="more than 24 rows"):
        dg.statistics.regression_moments(frame(MANY), DESIGN.with_mean_weight(2 * moments.LEAST_ROOM))


def test_a_pair_of_arrays_is_a_table_without_names():
    design = dg.LinearDesign({"a": (0, 4), "b": [1, 2, 3], "c": [False, True]}, "y", (-1, 1), intercept=False)
    X = np.array([[1.0, 2, 1], [3.5, 3, 0]])
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": [True, False], "y": [0.5, 9.0]})
    objects = np.array([[1.0, 2, True], [3.5, 3, False]], dtype=object)
    wanted = content(dg.statistics.regression_moments(table, design))
    assert content(dg.statistics.regression_moments((objects, [0.5, 9.0]), design)) == wanted
    numbers = dg.LinearDesign({"a": (0, 4), "b": [1, 2, 3], "c": [0, 1]}, "y", (-1, 1), intercept=False)
    assert content(dg.statistics.regression_moments((X, np.array([0.5, 9.0])), numbers)) == wanted
    assert content(dg.statistics.regression_moments([X[:, ::-1][:, ::-1], (0.5, 9.0)], numbers)) == wanted


def one_row(value, **settings):
    design = dg.LinearDesign({"x": dg.Bounded(0, 10, **settings)}, "y", (-1, 1))
    return content(dg.statistics.regression_moments(pd.DataFrame({"x": [value], "y": [1.0]}), design))


@pytest.mark.parametrize(("value", "same"), [(99.0, 10.0), (-3.0, 0.0), (math.inf, 10.0), (-math.inf, 0.0), (7, 7.0)])
def test_what_is_clipped_is_what_is_used(value, same):
    assert one_row(value) == one_row(same)
    assert all(abs(entry) <= R**2 for entry in one_row(value)[0])


def test_infinities_of_both_signs_clip_to_both_bounds():
    design = dg.LinearDesign({"x": (0, 10)}, "y", (-1, 1))
    both = content(dg.statistics.regression_moments(([[math.inf], [-math.inf]], [0.5, 0.5]), design))
    assert both == content(dg.statistics.regression_moments(([[10.0], [0.0]], [0.5, 0.5]), design))


@pytest.mark.parametrize("value", [math.nan, None])
def test_a_null_counts_as_what_was_declared(value):
    assert one_row(value, missing=4) == one_row(4.0)
    assert one_row(value, missing=-4) == one_row(0.0)
    with pytest.raises(DomainError, match="column 'x' holds nulls or NaN"):
        one_row(value)


LEVELS = dg.LinearDesign({"x": (0, 10), "k": dg.Categories([0, 1, 2])}, "y", (-1, 1), on_missing="drop")
HOLES = pd.DataFrame({"x": [1, math.nan, 3, 4, 5.0], "k": [0, 1, None, 2, 1], "y": [0.1, 0.2, 0.3, math.nan, 0.5]})


def test_rows_with_a_null_are_dropped_whole():
    wanted = content(dg.statistics.regression_moments(HOLES.iloc[[0, 4]], LEVELS))
    assert content(dg.statistics.regression_moments(HOLES, LEVELS)) == wanted
    assert content(dg.statistics.regression_moments(HOLES.iloc[1:4], LEVELS)) == content(Moments.zero(LEVELS))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_dropped_alike_by_every_engine(engine):
    """A frame in which every column has a null, of text too."""
    design = dg.LinearDesign(
        {"age": (18, 90), "area": ["N", "E", "S"], "hours": dg.Bins([0, 20, 80])}, "wage", (0, 10), on_missing="drop"
    )
    holes = frame(MANY)
    for row, name in enumerate(("age", "area", "hours", "wage")):
        holes.loc[5 * row, name] = None
    wanted = content(dg.statistics.regression_moments(holes.dropna().reset_index(drop=True), design))
    assert content(dg.statistics.regression_moments(ENGINES[engine](holes), design)) == wanted
    assert wanted[1] == 46


@pytest.mark.parametrize("missing", [0, 1])
def test_a_declared_level_for_nulls_keeps_the_row(missing):
    design = dg.LinearDesign({"k": dg.Categories([0, 1, 2], missing=missing)}, "y", (-1, 1), on_missing="drop")
    table = pd.DataFrame({"k": [None, 2], "y": [0.5, 0.5]})
    filled = pd.DataFrame({"k": [missing, 2], "y": [0.5, 0.5]})
    assert content(dg.statistics.regression_moments(table, design)) == content(
        dg.statistics.regression_moments(filled, design)
    )
    binned = dg.LinearDesign({"k": dg.Bins([0, 1, 2], missing=True)}, "y", (-1, 1), on_missing="drop")
    assert dg.statistics.regression_moments(table, binned).sensitive_rows == 2


def test_undeclared_levels_are_refused_even_where_nulls_are_dropped():
    with pytest.raises(DomainError, match="outside the levels"):
        dg.statistics.regression_moments(HOLES.assign(k=[0, 1, None, 7, 1]), LEVELS)


TINY = dg.LinearDesign({"a": (0, 1), "b": (0, 1)}, "y", (0, 1))


@pytest.mark.parametrize(
    "X",
    [np.zeros((0, 2)), np.ones((1, 2)), np.ones((9, 2)), np.tile(np.linspace(0, 1, 9)[:, None], 2)],
    ids=["no rows", "fewer rows than features", "constant columns", "collinear columns"],
)
def test_degenerate_tables_have_moments_like_any_other(X):
    moments = dg.statistics.regression_moments((X, np.linspace(0, 1, len(X))), TINY)
    values = moments.sensitive_sums / R**2
    z = np.column_stack([np.ones(len(X)), 2 * X - 1, 2 * np.linspace(0, 1, len(X)) - 1])
    assert moments.sensitive_sums.dtype == np.int64
    assert np.allclose(TINY.matrix(values, len(X)), z.T @ z, atol=1e-3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": ["x", str(SECRET)], "b": [1, 2], "y": [0, 0]}), "column 'a' is of type"),
        (pd.DataFrame({"a": [True, False], "b": [1, 2], "y": [0, 0]}), "column 'a' is of type bool"),
        (pd.DataFrame({"a": [SECRET, None], "b": [1, 2], "y": [0, 0]}), "column 'a' holds nulls"),
        (pd.DataFrame({"a": [SECRET, 1], "y": [0, 0]}), "column 'b' is not in"),
        (pd.DataFrame({"a": ["x", SECRET], "b": [1, 2], "y": [0, 0]}), "more than one kind"),
        (([[SECRET]], [1.0]), "X has 1 columns, and the model has 2"),
        (([[SECRET, 1.0]], [1.0, 2.0]), "a value for each row of X"),
        (([SECRET, 1.0], [1.0, 2.0]), "two-dimensional"),
        ((np.array([[SECRET, "x"], [1.0, 2]], dtype=object), [1.0, 2.0]), "column 'b' holds values of more than"),
        ((np.array([[SECRET, "x"], [1.0, "2"]], dtype=object), [None, 2.0]), "column 'b' is of type string"),
        (SECRET, "rows must be"),
    ],
)
def test_rows_that_do_not_fit_are_refused_without_naming_them(table, message):
    with pytest.raises(DomainError, match=message) as caught:
        dg.statistics.regression_moments(table, TINY)
    assert str(SECRET)[:6] not in str(caught.value)


def test_text_where_a_csv_should_hold_numbers_is_refused_without_showing_it(tmp_path):
    (tmp_path / "t.csv").write_text(f"a,b,y\n1,2,3\n1,secret{SECRET},3\n")
    with pytest.raises(DomainError, match="column 'b' is of type text") as caught:
        dg.statistics.regression_moments(tmp_path / "t.csv", TINY)
    assert "secret" not in str(caught.value)
    (tmp_path / "t.csv").write_text("a,b,y\n1, 2 ,3\n0.5,NaN,1e-1\n,0,1\n")
    dropping = dg.LinearDesign({"a": (0, 1), "b": (0, 1)}, "y", (0, 1), on_missing="drop")
    assert dg.statistics.regression_moments(tmp_path / "t.csv", dropping).sensitive_rows == 1


def test_the_sums_are_sensitive():
    moments = dg.statistics.regression_moments((np.full((37, 2), SECRET), np.zeros(37)), TINY)
    assert repr(moments) == "Moments(LinearDesign, 9 statistics, sensitive)"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="sensitive"):
            leave(moments)
    with pytest.raises(dg.errors.FileError, match="not saved"):
        dg.save(moments, "never.json")


WORDS = dg.LinearDesign(
    {
        "area": dg.Categories(["N", "NA", "none"], missing="NA"),
        "age": dg.Bounded(18, 90, missing=30),
        "flag": [False, True],
        "hours": dg.Bins([0, 20, 40], missing=True),
    },
    "wage",
    (0, 10),
)
WORDS_CSV = """area,unread,age,flag,hours,wage
NA,x,20,true,0,1
none,x,n/a,False,NaN,2
,x, NaN ,TRUE,20-40,3
N,x,,false,,4
N,x,1e2,True,39.5,5
"""
WORDS_TABLE = {
    "area": ["NA", "none", None, "N", "N"],
    "unread": ["x"] * 5,
    "age": [20.0, None, math.nan, None, 100.0],
    "flag": [True, False, True, False, True],
    "hours": [0.0, math.nan, 20.0, None, 39.5],
    "wage": [1.0, 2.0, 3.0, 4.0, 5.0],
}
WORDS_READ = {"area": [1, 2, 1, 0, 0], "age": [20, 30, 30, 30, 100], "flag": [1, 0, 1, 0, 1], "hours": [0, 2, 1, 2, 1]}


def words_as(kind, path):
    """The same rows as a file, or as a table."""
    table = pa.table(WORDS_TABLE)
    match kind:
        case "csv":
            (path / "rows.csv").write_text(WORDS_CSV)
        case "parquet":
            pa.parquet.write_table(table, path / "rows.parquet", row_group_size=2)
        case "folder":
            (path / "rows.folder").mkdir()
            for at in range(5):
                pa.parquet.write_table(table.slice(at, 1), path / "rows.folder" / f"{at}.parquet")
        case _:
            return table if kind == "arrow" else table.to_pandas()
    return path / f"rows.{kind}"


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder", "arrow", "pandas"])
def test_rows_to_predict_are_read_as_rows_to_fit_are(kind, tmp_path):
    """A level NA is a level, the words for nothing and NaN are what was declared; fitting sums those very values."""
    rows = words_as(kind, tmp_path)
    read = features.regression_features(rows, WORDS)
    assert {name: values.tolist() for name, values in read.items()} == WORDS_READ
    plain = {"area": [WORDS.features["area"].levels[code] for code in WORDS_READ["area"]], "age": WORDS_READ["age"]}
    plain |= {"flag": WORDS_TABLE["flag"], "hours": [[0.0, 20.0, None][code] for code in WORDS_READ["hours"]]}
    plain |= {"wage": WORDS_TABLE["wage"]}
    assert content(moments.regression_moments(rows, WORDS)) == content(
        moments.regression_moments(pa.table(plain), WORDS)
    )


@given(ROWS)
@settings(max_examples=examples(50), deadline=None)
def test_predicted_rows_are_those_whose_products_are_summed(rows):
    """What prediction reads, written out as rows again, has the very sums that fitting makes of the rows."""
    read = features.regression_features(frame(rows), DESIGN)
    levels = {"sex": "FM", "area": "NES", "hours": (0, 20, 40)}
    named = {name: [levels[name][code] for code in codes] for name, codes in read.items() if name in levels}
    again = frame(rows).assign(age=read["age"], **named)
    assert content(moments.regression_moments(again, DESIGN)) == content(
        moments.regression_moments(frame(rows), DESIGN)
    )


def test_rows_to_predict_need_no_target_and_none_is_dropped(tmp_path):
    """A null that fitting drops the row for is NaN, in its place; one among levels is refused."""
    design = dg.LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "wage", (0, 10), on_missing="drop")
    (tmp_path / "rows.csv").write_text("sex,age\nM,20\nF,\nF,90\n")
    read = features.regression_features(tmp_path / "rows.csv", design)
    assert read["sex"].tolist() == [1, 0, 0]
    assert np.array_equal(read["age"], [20, math.nan, 90], equal_nan=True)
    (tmp_path / "rows.csv").write_text("sex,age\n,20\n")
    with pytest.raises(DomainError, match="column 'sex' holds nulls"):
        features.regression_features(tmp_path / "rows.csv", design)
    (tmp_path / "rows.csv").write_text("sex,age\n")
    empty = features.regression_features(tmp_path / "rows.csv", design)
    assert [len(values) for values in empty.values()] == [0, 0]
    (tmp_path / "rows.csv").write_text("sex,wage\nF,1\n")
    with pytest.raises(DomainError, match="column 'age' is not in"):
        features.regression_features(tmp_path / "rows.csv", design)
