"""Every engine that counts rows sums the products of a regression to the same integers, of groups as well."""

import io
import sys
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph import waiting
from dpgraph.statistics import moments
from dpgraph.statistics.engines import spark as spark_engine
from dpgraph.statistics.rows import files as parquet
from tests.statistics.test_summary import ENGINES, SECRET, frame
from tests.tiers import Later

dd = Later("dask.dataframe")

DESIGN = dg.LinearDesign(
    {
        "color": dg.Categories(["red", "green", "other"], other="other", missing="other"),
        "size": [1, 2, 3],
        "flag": [False, True],
    },
    "age",
    (0, 90),
    on_missing="drop",
)
#: Declares a variable that is no feature of ``NARROW``.
DOMAIN = dg.Domain.of({"size": [1, 2, 3]})
NARROW = dg.LinearDesign({"flag": [False, True]}, "age", (0, 90), on_missing="drop")
#: Groups, the design that is summed in each, the domain that declares more, and the rows that are meant.
GROUPS = {
    "a feature": ({"flag": True}, DESIGN, None, lambda rows: rows[rows["flag"]]),
    "two features": ({"flag": False, "size": 2}, DESIGN, None, lambda rows: rows[~rows["flag"] & (rows["size"] == 2)]),
    "other levels": ({"color": "other"}, DESIGN, None, lambda rows: rows[~rows["color"].isin(["red", "green"])]),
    "no feature": ({"size": 3}, NARROW, DOMAIN, lambda rows: rows[rows["size"] == 3]),
}


def content(moments):
    assert moments.sensitive_sums.dtype == np.int64
    return moments.sensitive_sums.tolist(), moments.sensitive_rows


def summed(rows, design=DESIGN, **settings):
    return content(dg.statistics.regression_moments(rows, design, **settings))


def by_hand(rows):
    """The intercept's product with the target and the number of rows, in Python integers."""
    kept = rows[rows["age"].notna()]
    grid = [round(min(1.0, max(-1.0, (age - 45) / 45)) * 2**15) for age in kept["age"]]
    return sum(grid) * 2**15, len(kept)


def held_elsewhere(rows, tmp_path, spark):
    """The rows of one table on Dask and Spark, as a stream and in files, with how each is read."""
    path = tmp_path / "rows.parquet"
    rows.to_parquet(path, row_group_size=70)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return [
        (table.to_reader(max_chunksize=31), {}),
        (iter([rows[:100], table.slice(100)]), {}),
        (dd.from_pandas(rows, npartitions=3), {}),
        (spark.createDataFrame(table).repartition(3), {}),
        (path, {"engine": spark}),
        (path, {"engine": "dask"}),
    ]


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "codes"])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_every_engine_in_memory_sums_the_same(engine, n, tmp_path):
    rows = frame(300).head(n)
    sums, many = summed(ENGINES[engine](rows, tmp_path))
    assert (sums[DESIGN.names.index("intercept*age")], many) == by_hand(rows)
    assert (sums, many) == summed(rows)


@pytest.mark.parametrize("cluster_adds", [False, True])
def test_clusters_and_streams_sum_the_same(cluster_adds, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", 50)
    monkeypatch.setattr(moments, "BATCH", 40)
    monkeypatch.setattr(spark_engine, "CLUSTER_CELLS", 0 if cluster_adds else 1 << 14)
    expected = summed(frame(300))
    for rows, settings in held_elsewhere(frame(300), tmp_path, spark):
        assert summed(rows, **settings) == expected


@pytest.mark.systems
@pytest.mark.parametrize("name", GROUPS)
def test_a_declared_group_alone_is_summed(name, tmp_path):
    where, design, domain, chosen = GROUPS[name]
    rows = frame(300)
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    expected = summed(chosen(rows), design)
    assert 0 < expected[1] < summed(rows, design)[1]
    for held in (rows, pa.Table.from_pandas(rows), path, dd.from_pandas(rows, npartitions=2)):
        assert summed(held, design, where=where, domain=domain) == expected


def test_clusters_sum_a_group(spark, tmp_path):
    where, design, domain, chosen = GROUPS["no feature"]
    rows = frame(200)
    expected = summed(chosen(rows), design)
    for held, settings in held_elsewhere(rows, tmp_path, spark):
        assert summed(held, design, where=where, domain=domain, **settings) == expected


def test_a_group_is_released_by_its_own_budget_alone():
    rows, levels = frame(200), dg.Domain.of({"flag": [False, True]})
    budgets = dg.Budget(1, unit=dg.PrivacyUnit("add-remove")).parallel(levels, "flag", epsilon=1)
    for level, budget in budgets.items():
        moments = dg.statistics.regression_moments(rows, DESIGN, where={"flag": level})
        assert dg.release(moments, dg.LaplaceMechanism(1), budget=budget).value.description.target == "age"
    with pytest.raises(dg.errors.ReleaseError, match="this budget is for the rows with flag = True"):
        dg.release(dg.statistics.regression_moments(rows, DESIGN), dg.LaplaceMechanism("1/2"), budget=budgets[True])


def test_a_domain_may_declare_the_features_as_another_network_has_them():
    """Only the variables that rows are chosen by need one declaration."""
    wide, rows = dg.Domain.of({"size": [1, 2, 3], "age": dg.Bins([0, 10, 90])}), frame(100)
    expected = summed(rows[rows["size"] == 2], NARROW)
    assert summed(rows, NARROW, where={"size": 2}, domain=wide) == expected
    with pytest.raises(dg.errors.DomainError, match="'age' is declared otherwise by the design"):
        dg.statistics.regression_moments(rows, NARROW, where={"age": "0-10"}, domain=wide)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"where": {"region": 1}}, "'region', which is not declared"),
        ({"where": {}}, "where must be variables"),
        ({"where": {"flag": 7}}, "7"),
        ({"where": {"size": 1}, "domain": dg.Domain.of({"size": [3, 2, 1]})}, "declared otherwise by the design"),
        ({"engine": "dask"}, "engine is for the path of a Parquet file"),
    ],
)
def test_what_is_not_declared_is_refused(settings, says):
    with pytest.raises(dg.errors.DomainError, match=says):
        dg.statistics.regression_moments(frame(5), DESIGN, **settings)


def test_a_strict_design_takes_no_group_that_could_refuse_a_row():
    design = dg.LinearDesign({"x": dg.Bounded(0, 1, missing=0)}, "y", dg.Bounded(0, 1, missing=0), strict=True)
    rows = pd.DataFrame({"x": [0.5, 0.1], "y": [0.5, 0.2], "size": [1, 2]})
    with pytest.raises(dg.errors.DomainError, match="'size' could refuse a row"):
        dg.statistics.regression_moments(rows, design, where={"size": 1}, domain=DOMAIN)
    lenient = dg.Domain.of({"size": dg.Categories([1, 2], other=2, missing=2)})
    for other in (2, "two", None, [1]):
        odd = rows.assign(size=pd.Series([1, other], dtype=object))
        assert dg.statistics.regression_moments(odd, design, where={"size": 1}, domain=lenient).sensitive_rows == 1


def test_a_pair_of_arrays_has_features_alone_to_choose_by():
    pair = (np.array([[0.0], [1.0], [1.0]]), np.array([10.0, 20.0, 30.0]))
    design = dg.LinearDesign({"flag": [0, 1]}, "age", (0, 90))
    whole = pd.DataFrame({"flag": [1, 1], "age": [20.0, 30.0]})
    assert summed(pair, design, where={"flag": 1}) == summed(whole, design)
    with pytest.raises(dg.errors.DomainError, match="has no column 'size'"):
        dg.statistics.regression_moments(pair, design, where={"size": 1}, domain=DOMAIN)
    with pytest.raises(dg.errors.DomainError, match="got a pair of arrays"):
        dg.statistics.regression_moments(pair, design, engine="dask")


def test_codes_hold_no_numbers_and_are_refused():
    codes = dg.statistics.encode(frame(5), dg.Domain.of({"flag": [False, True]}))
    with pytest.raises(dg.errors.DomainError, match="rows must be"):
        dg.statistics.regression_moments(codes, NARROW)


#: So long that no time or port in a log holds it by chance.
NUMBER = 471_193_558_620_417

BAD = {
    "text for numbers": {"age": ["1", SECRET]},
    "an unknown level": {"size": [1, NUMBER]},
    "a null": {"flag": [True, None]},
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_do_not_fit_are_refused_alike_and_nothing_of_them_is_logged(case, cluster, tmp_path):
    """Wherever they lie; outside of a group as well, where a level of the feature is not declared."""
    session, log = cluster
    design = dg.LinearDesign(dict(DESIGN.features), "age", (0, 90))
    good = {"color": ["red", "red"], "size": [1, 2], "flag": [True, False], "age": [1.0, 2.0]}
    table = pa.table(good | BAD[case])
    path, said = tmp_path / "rows.parquet", set()
    pa.parquet.write_table(table, path)
    dask_frame = dd.from_pandas(table.to_pandas(), npartitions=1)
    for rows, engine in (
        (table, None), (path, None), (path, session), (path, "dask"), (session.createDataFrame(table), None),
        (dask_frame, None),
    ):  # fmt: skip
        for where in (None, {"size": 1}):
            with pytest.raises(dg.errors.DomainError) as caught:
                dg.statistics.regression_moments(rows, design, where=where, engine=engine)
            shown = "".join(traceback.format_exception(caught.value))
            assert SECRET not in shown
            assert str(NUMBER) not in shown
            said.add(str(caught.value).partition(" ")[0])
    assert said == {"column"}
    assert SECRET not in log.read_text()
    assert str(NUMBER) not in log.read_text()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_no_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", 1)
    monkeypatch.setattr(waiting, "AFTER", 0.0)
    rows = frame(271)
    path = tmp_path / "rows.parquet"
    rows.to_parquet(path, row_group_size=90)
    for held in (path, rows):
        for stderr, progress in ((Terminal(), True), (Terminal(), False), (io.StringIO(), True)):
            monkeypatch.setattr(sys, "stderr", stderr)
            assert summed(held, progress=progress) == summed(rows)
            assert ("counting" in stderr.getvalue()) == (progress and stderr.isatty())
            assert not [number for number in ("271", "270", "180", "90", "91") if number in stderr.getvalue()]
