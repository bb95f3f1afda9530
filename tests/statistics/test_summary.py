"""The same rows give the same counts from every engine, and rows that do not fit are refused without a word of them."""

import gzip
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics import summary
from dpgraph.statistics.counts import Counts
from tests.tiers import examples

DOMAIN = dg.Domain.of(
    {
        "color": dg.Categories(["red", "green", "other"], other="other", missing="other"),
        "size": [1, 2, 3],
        "flag": [False, True],
        "age": dg.Bins([0, 10, 20, 90], missing=True),
    }
)
NETWORK = dg.Network.of(DOMAIN, {"size": ["color"], "flag": ["size"], "age": ["color", "flag"]})
SECRET = "zanzibar-4711"

#: Declared groups of the rows; every engine counts each of them.
GROUPS = ({"flag": True}, {"flag": True, "size": 2}, {"age": "0-10", "flag": False, "color": "other"})


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(15, 30, n)
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "color": rng.choice(["red", "green", "blue", None], n).astype(object),
            "size": rng.integers(1, 4, n),
            "flag": rng.random(n) < 0.5,
            "age": age,
            "unused": [SECRET] * n,
        }
    )


def by_hand(rows, variables):
    """Cell by cell from the declaration: other and null colours, clipped ages, missing ages last."""
    table = np.zeros(NETWORK.shape(variables), np.int64)
    for row in rows.to_dict("records"):
        color = {"red": 0, "green": 1}.get(row["color"], 2)
        age = 3 if row["age"] is None or pd.isna(row["age"]) else 0 if row["age"] < 10 else 1 if row["age"] < 20 else 2
        code = {"color": color, "size": int(row["size"]) - 1, "flag": int(row["flag"]), "age": age}
        table[tuple(code[name] for name in variables)] += 1
    return table


def parquet(rows, path, **options):
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), path, **options)
    return path


def folder(rows, path):
    (path / "deep").mkdir(parents=True)
    (path / "_SUCCESS").write_text("")
    (path / "notes.txt").write_text("not rows")
    parquet(rows.iloc[:100], path / "a.parquet")
    parquet(rows.iloc[100:], path / "deep" / "b.parquet")
    return path


def gzipped(rows, path):
    with gzip.open(path, "wt") as file:
        rows.to_csv(file, index=False)
    return path


def written(rows, path):
    rows.to_csv(path, index=False)
    return path


ENGINES = {
    "pandas": lambda rows, tmp: rows,
    "pandas categories": lambda rows, tmp: rows.assign(
        color=pd.Categorical(rows["color"], categories=["never", "blue", "red", "green"]),
        size=rows["size"].astype("category"),
    ),
    "pandas nullable": lambda rows, tmp: rows.convert_dtypes(),
    "pandas floats": lambda rows, tmp: rows.assign(size=rows["size"].astype(float)),
    "polars": lambda rows, tmp: pl.from_pandas(rows),
    "polars categorical": lambda rows, tmp: pl.from_pandas(rows).with_columns(pl.col("color").cast(pl.Categorical)),
    "arrow": lambda rows, tmp: pa.Table.from_pandas(rows),
    "arrow chunks": lambda rows, tmp: pa.concat_tables(
        [pa.Table.from_pandas(rows[:7]), pa.Table.from_pandas(rows[7:])], promote_options="default"
    ),
    "arrow batch": lambda rows, tmp: pa.RecordBatch.from_pandas(rows),
    "arrow reader": lambda rows, tmp: pa.Table.from_pandas(rows).to_reader(max_chunksize=11),
    "dictionary": lambda rows, tmp: pa.Table.from_pandas(rows).set_column(
        0, "color", pa.chunked_array([pa.array(rows["color"]).dictionary_encode()])
    ),
    "codes": lambda rows, tmp: dg.statistics.encode(rows, DOMAIN),
    "csv": lambda rows, tmp: written(rows, tmp / "rows.csv"),
    "csv as text": lambda rows, tmp: str(written(rows, tmp / "rows.csv")),
    "csv.gz": lambda rows, tmp: gzipped(rows, tmp / "rows.csv.gz"),
    "parquet": lambda rows, tmp: parquet(rows, tmp / "rows.parquet", row_group_size=13),
    "folder": lambda rows, tmp: folder(rows, tmp / "rows"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_counts_what_the_definition_counts(engine, tmp_path):
    rows = frame()
    counts = dg.count(ENGINES[engine](rows, tmp_path), NETWORK)
    for family in NETWORK.families:
        assert (counts.sensitive_margin(family) == by_hand(rows, family)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [0, 1])
def test_no_row_and_one_row(engine, n, tmp_path):
    rows = frame().head(n)
    counts = dg.count(ENGINES[engine](rows, tmp_path), NETWORK)
    for family in NETWORK.families:
        assert counts.sensitive_margin(family).sum() == n
        assert (counts.sensitive_margin(family) == by_hand(rows, family)).all()


def test_an_oracle_counts_the_same():
    """pandas groupby on rows of asia, level by level."""
    rows = dg.sample_rows(dg.load("example:asia"), 700, np.random.default_rng(1))
    network = dg.read_network("example:asia")
    counts = dg.count(rows, network)
    for family in network.families:
        for levels, n in rows.astype(str).groupby(list(family), observed=False).size().items():
            key = levels if isinstance(levels, tuple) else (levels,)
            cell = tuple(network.domain.code(name, level) for name, level in zip(family, key, strict=True))
            assert counts.sensitive_margin(family)[cell] == n


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 10))
def test_counts_are_a_commutative_monoid(one, other, seed):
    a, b = frame(one, seed), frame(other, seed + 1)
    left, right, zero = dg.count(a, NETWORK), dg.count(b, NETWORK), Counts.zero(NETWORK)
    whole = dg.count(pd.concat([a, b]), NETWORK)
    for both in (left + right, right + left, left + right + zero, zero + (left + right)):
        assert both.sensitive_tables == whole.sensitive_tables


def test_counts_of_other_networks_do_not_add():
    with pytest.raises(dg.errors.ReleaseError, match="do not add"):
        dg.count(frame(), NETWORK) + Counts.zero(dg.Network.of(DOMAIN, {}))


@pytest.mark.parametrize(
    ("values", "bin_"),
    [([-1e300, -0.0, 0, -np.inf], 0), ([10, 19.999], 1), ([20, 90, 91, 1e300, np.inf], 2), ([np.nan, None], 3)],
)
def test_numbers_fall_in_their_bin_or_the_end_bins(values, bin_):
    rows = frame(len(values)).assign(age=np.array(values, float))
    codes = dg.statistics.encode(rows, DOMAIN)
    assert codes.columns["age"].tolist() == [bin_] * len(values)


STRICT = dg.Domain.of({"word": ["a", "b"], "number": [1, 2], "age": dg.Bins([0, 1, 2]), "flag": [True, False]})


def strict(**columns):
    base = {"word": ["a", "b"], "number": [1, 2], "age": [0.5, 1.5], "flag": [True, False]}
    return pd.DataFrame(base | columns)


BAD = {
    "unknown text": (strict(word=["a", SECRET]), "word"),
    "null text": (strict(word=["a", None]), "word"),
    "unknown number": (strict(number=[1, 4711]), "number"),
    "null number": (strict(number=[1, None]), "number"),
    "nan in a binned column": (strict(age=[0.5, np.nan]), "age"),
    "text in a binned column": (strict(age=["0.5", SECRET]), "age"),
    "text for numbers": (strict(number=["1", SECRET]), "number"),
    "numbers for text": (strict(word=[4711, 4712]), "word"),
    "numbers for booleans": (strict(flag=[0, 2]), "flag"),
    "booleans for numbers": (strict(number=[True, False]), "number"),
    "dates in a binned column": (strict(age=pd.to_datetime(["2020-01-01", "2021-01-01"])), "age"),
    "a mixture": (strict(word=pd.Series(["a", 4711], dtype=object)), "word"),
    "a missing column": (strict().drop(columns="word"), "word"),
    "a repeated column": (pd.concat([strict(), strict()[["word"]]], axis=1), "word"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("engine", ["pandas", "arrow", "csv"])
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_rows_that_do_not_fit_are_refused_and_nothing_of_them_is_said(case, engine, tmp_path):
    rows, column = BAD[case]
    if engine == "arrow":
        try:
            rows = pa.Table.from_pandas(rows)
        except (pa.ArrowException, ValueError):
            return  # Arrow itself cannot hold these rows
    elif engine == "csv":
        if case in ("text in a binned column", "text for numbers", "booleans for numbers", "a mixture"):
            rows = rows.assign(**{column: [SECRET] * len(rows)})
        elif case in ("numbers for booleans",):
            rows = rows.assign(**{column: ["7", SECRET]})
        rows.to_csv(tmp_path / "rows.csv", index=False)
        rows = tmp_path / "rows.csv"
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.count(rows, dg.Network.of(STRICT, {}))
    assert f"'{column}'" in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert "4711" not in shown


UNREADABLE = {
    "cut.parquet": lambda path: path.write_bytes(parquet(frame(), path).read_bytes()[:-20]),
    "empty.parquet": lambda path: path.write_bytes(b""),
    "text.parquet": lambda path: path.write_text(SECRET),
    "ragged.csv": lambda path: path.write_text(f"color,size,flag,age\nred,1,true,5\n{SECRET},1\n"),
    "empty.csv": lambda path: path.write_text(""),
    "binary.csv": lambda path: path.write_bytes(bytes(range(256)) * 10),
    "rows.txt": lambda path: path.write_text("color,size,flag,age\n"),
    "nothing.csv": lambda path: None,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_files_that_cannot_be_read_are_refused(name, tmp_path):
    UNREADABLE[name](tmp_path / name)
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.count(tmp_path / name, NETWORK)
    assert name in str(caught.value) or "column" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("rows", [None, 3, [1, 2], {"color": ["red"]}, np.zeros((2, 4))], ids=repr)
def test_what_is_no_table_is_refused(rows):
    with pytest.raises(dg.errors.DomainError, match="rows must be"):
        dg.count(rows, NETWORK)


def test_sensitive_values_show_nothing_and_are_not_pickled():
    import pickle

    for value in (dg.count(frame(), NETWORK), dg.statistics.encode(frame(), DOMAIN)):
        assert repr(value) in ("Counts(4 variables, sensitive)", "Codes(4 variables, sensitive)")
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(value)
        with pytest.raises(TypeError):
            iter(value)


def test_codes_serve_another_network_only_if_declared_alike():
    codes = dg.statistics.encode(frame(), DOMAIN)
    part = dg.Network.of(DOMAIN.restrict(["size", "flag"]), {"flag": ["size"]})
    assert dg.count(codes, part).sensitive_margin(("size",)).sum() == 300
    with pytest.raises(dg.errors.DomainError, match="another declaration"):
        dg.count(codes, dg.Network.of({"size": [3, 2, 1]}, {}))


def test_synthetic_rows_are_counted_again():
    probabilities = dg.posterior(
        dg.release(dg.count(frame(), NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1)), method="plug-in"
    ).mean()
    rows = dg.sample_rows(probabilities, 100, np.random.default_rng(0))
    assert dg.count(rows, NETWORK).sensitive_margin(("age",)).sum() == 100


def test_infer_domain_warns_and_reads_public_rows():
    rows = pd.DataFrame({"word": ["b", "a", None], "n": [1, 2, 2], "x": [0.0, 1.0, 2.0]})
    many = pd.DataFrame({"wide": np.arange(100.0)})
    with pytest.warns(dg.errors.DomainWarning, match="public"):
        domain = dg.statistics.infer_domain(rows)
    assert domain.levels("word") == ("a", "b", "missing")
    assert domain.levels("n") == (1, 2)
    with pytest.warns(dg.errors.DomainWarning):
        assert dg.statistics.infer_domain(many).sizes["wide"] == 4
    dg.count(rows, dg.Network.of(domain, {}))


@pytest.mark.parametrize("rows", [["", ""], ["", "x"], ["x", ""], ["NA", "", "x"]])
def test_an_empty_csv_field_means_the_same_whatever_the_other_rows_hold(rows, tmp_path):
    """A level "" of its own beside another level for nulls: one row must never move another."""
    network = dg.Network.of({"a": dg.Categories(["", "x", "NA"], missing="NA"), "b": ["0"]}, {})
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{word},0\n" for word in rows))
    expected = [rows.count(level) for level in ("", "x", "NA")]
    assert dg.count(path, network).sensitive_margin(("a",)).tolist() == expected


def test_a_null_row_of_a_one_column_csv_is_a_row(tmp_path):
    """Else replacing one person by a null would change the public n."""
    network = dg.Network.of({"a": dg.Categories(["x", "y", "NA"], missing="NA")}, {})
    path = tmp_path / "rows.csv"
    for middle in ("y", ""):
        path.write_text(f"a\nx\n{middle}\nx\n")
        assert dg.count(path, network).sensitive_rows == 3


def test_csv_words_that_mean_null_or_other(tmp_path):
    domain = {"n": dg.Categories([1, 2, 9], other=9, missing=2), "b": dg.Bins([0, 1, 2], missing=True)}
    network = dg.Network.of(domain, {})
    path = tmp_path / "rows.csv"
    path.write_text("n,b\nNAN,0.5\nNULL,-nan\nabc,none\n1,n/a\n")
    counts = dg.count(path, network)
    assert counts.sensitive_margin(("n",)).tolist() == [1, 2, 1]
    assert counts.sensitive_margin(("b",)).tolist() == [1, 0, 3]


def test_a_folder_reads_parquet_files_whatever_their_case(tmp_path):
    parquet(frame(5), tmp_path / "a.parquet")
    parquet(frame(7), tmp_path / "b.PARQUET")
    (tmp_path / "c.parquet").mkdir()
    assert dg.count(tmp_path, NETWORK).sensitive_rows == 12


@pytest.mark.parametrize("where", GROUPS, ids=str)
def test_a_group_is_the_rows_that_meet_every_condition(where):
    """Against a count by hand of each row that lies in the cell of all conditions; rows in memory and encoded."""
    wanted = {name: DOMAIN.code(name, level) for name, level in where.items()}
    rows = frame()
    cells = [{name: int(by_hand(rows[i : i + 1], (name,)).argmax()) for name in DOMAIN.names} for i in range(len(rows))]
    chosen = rows[[all(cell[name] == code for name, code in wanted.items()) for cell in cells]]
    assert 0 < len(chosen) < len(rows)
    for held in (rows, pl.from_pandas(rows), pa.Table.from_pandas(rows), dg.statistics.encode(rows, DOMAIN)):
        for order in (where, dict(reversed(where.items()))):
            counts = dg.count(held, NETWORK, where=order)
            assert (
                counts.sensitive_margin(("age", "color", "flag")).tolist()
                == by_hand(chosen, ("age", "color", "flag")).tolist()
            )


def test_floating_point_errors_of_counting_threads_are_not_heard(monkeypatch):
    """numpy's error state is a thread's own, and a warning would tell of a value."""

    class Dividing:
        def zero(self):
            return np.zeros(1, np.int64)

        def add(self, batch, vector, is_text):
            vector += np.isinf(np.ones(1) / np.zeros(1))

    monkeypatch.setattr(summary.os, "cpu_count", lambda: 2)
    parts = [[({"x": pa.array([1])}, False)] for _ in range(3)]
    assert summary._sum(parts, Dividing()).tolist() == [3]
