"""A column's sums of statistics are those of the array, wherever the rows lie and however they are split."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.statistics import summary
from dpgraph.statistics.rows.persons import PersonCap
from tests.statistics.engines.test_capped import KEY
from tests.statistics.test_summary import SECRET, parquet
from tests.tiers import Later

dd = Later("dask.dataframe")

SEX = dg.Domain.of({"sex": ["F", "M"]})
FAMILIES = {
    "exponential": (dg.expfam.Exponential(), "wait", {"bounds": (0, 3)}),
    "exponential, strict": (dg.expfam.Exponential(), "gaps", {"bounds": (0, 3), "strict": True}),
    "poisson": (dg.expfam.Poisson(), "visits", {"bounds": (0, 9)}),
    "binomial": (dg.expfam.Binomial(9), "visits", {}),
    "multinomial": (dg.expfam.Multinomial(["F", "M"]), "sex", {}),
}


def frame(n=200):
    rng = np.random.default_rng(7)
    wait = rng.exponential(2, n)
    return pd.DataFrame(
        {
            "wait": wait,
            "gaps": np.where(rng.random(n) < 0.1, np.nan, wait),
            "visits": rng.integers(0, 10, n),
            "sex": rng.choice(["F", "M"], n).astype(object),
            "who": rng.integers(0, 40, n),
        }
    )


def content(moments):
    assert moments.sensitive_sums.dtype == np.int64
    return moments.sensitive_sums.tolist(), moments.sensitive_rows


def held_elsewhere(rows, tmp_path, spark):
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=60)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return [
        (rows, {}),
        (pl.from_pandas(rows), {}),
        (table.to_reader(max_chunksize=31), {}),
        (path, {}),
        (path, {"engine": "dask"}),
        (path, {"engine": spark}),
        (dd.from_pandas(rows, npartitions=3), {}),
        (spark.createDataFrame(table).repartition(3), {}),
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_column_is_summed_as_the_array_is(name, spark, tmp_path):
    family, column, settings = FAMILIES[name]
    rows = frame()
    expected = content(dg.statistics.sufficient_statistics(rows[column], family, **settings))
    assert expected[1] == len(rows)
    women = content(dg.statistics.sufficient_statistics(rows[column][rows["sex"] == "F"], family, **settings))
    strict = settings.get("strict", False)
    domain = dg.Domain.of({"sex": dg.Categories(["F", "M"], other="M", missing="M")}, strict=True) if strict else SEX
    where = {} if column == "sex" else {"where": {"sex": "F"}, "domain": domain}
    for held, how in held_elsewhere(rows, tmp_path, spark):
        if where:
            given = held if not isinstance(held, pa.RecordBatchReader) else pa.Table.from_pandas(rows)
            assert (
                content(dg.statistics.sufficient_statistics(given, family, column=column, **where, **settings, **how))
                == women
            )
        assert content(dg.statistics.sufficient_statistics(held, family, column=column, **settings, **how)) == expected


@pytest.mark.parametrize("name", ["exponential", "exponential, strict", "multinomial"])
def test_every_engine_keeps_the_same_rows_of_a_person(name, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "cap_of", lambda person, rows: PersonCap(person, rows, KEY))
    family, column, settings = FAMILIES[name]
    rows, made = frame(), []
    for held, how in held_elsewhere(rows.sample(frac=1, random_state=1), tmp_path, spark):
        found = dg.statistics.sufficient_statistics(
            held, family, column=column, person="who", rows_per_person=2, **settings, **how
        )
        made.append(content(found))
        assert found.cap.rows_per_person == 2
    assert made[0][1] == rows["who"].value_counts().clip(upper=2).sum() < len(rows)
    assert all(one == made[0] for one in made)


def test_words_of_a_csv_file_are_numbers(tmp_path):
    rows = frame()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for name in ("exponential", "exponential, strict", "poisson", "multinomial"):
        family, column, settings = FAMILIES[name]
        expected = content(dg.statistics.sufficient_statistics(rows[column], family, **settings))
        assert (
            content(dg.statistics.sufficient_statistics(tmp_path / "rows.csv", family, column=column, **settings))
            == expected
        )


REFUSED = {
    "a null": (
        lambda rows: rows.assign(wait=rows["gaps"]),
        {},
        "every record of a Exponential family must be a finite",
    ),
    "text": (lambda rows: rows.assign(wait=[SECRET] * len(rows)), {}, "column 'wait' is of type"),
    "out of the support": (lambda rows: rows.assign(wait=-47_119_355.0), {}, "every record of a Exponential family"),
    "no such column": (lambda rows: rows.drop(columns="wait"), {}, "column 'wait' is not in"),
    "no domain": (lambda rows: rows, {"where": {"sex": "F"}}, "where needs domain="),
    "groups that are capped": (
        lambda rows: rows,
        {"where": {"sex": "F"}, "domain": SEX, "person": "who"},
        "where and per",
    ),
    "rows of nobody": (lambda rows: rows, {"rows_per_person": 2}, "needs person="),
}


@pytest.mark.systems
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_of_it_is_said(case):
    spoil, settings, says = REFUSED[case]
    rows = spoil(frame(20))
    for held in (rows, dd.from_pandas(rows, npartitions=2)):
        with pytest.raises(dg.errors.DomainError) as caught:
            dg.statistics.sufficient_statistics(held, dg.expfam.Exponential(), bounds=(0, 3), column="wait", **settings)
        assert str(caught.value).startswith(says) or says in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "471" not in str(caught.value)


def test_a_group_of_an_array_needs_a_column():
    with pytest.raises(dg.errors.DomainError, match="person is for rows, one column of which is summed"):
        dg.statistics.sufficient_statistics([1.0], dg.expfam.Exponential(), bounds=(0, 3), person="who")
    for strict, where, says in (
        (True, {"sex": "F"}, "'sex' could refuse a row"),
        (False, {"wait": 1}, "column of records"),
    ):
        domain = dg.Domain.of({"sex": ["F", "M"], "wait": [1]})
        settings = {"bounds": (0, 3), "column": "wait", "where": where, "domain": domain, "strict": strict}
        with pytest.raises(dg.errors.DomainError, match=says):
            dg.statistics.sufficient_statistics(frame(5), dg.expfam.Exponential(), **settings)
