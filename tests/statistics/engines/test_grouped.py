"""Groups of rows in one pass have the integers of each by itself, however rows are split (proofs.md P124)."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics import summary
from dpgraph.statistics.rows.persons import PersonCap, capped_codes
from tests.statistics.engines.test_capped import DESIGN, KEY, rows_of
from tests.statistics.test_summary import NETWORK, SECRET, parquet
from tests.tiers import Later, examples

dask = Later("dask")

dd = Later("dask.dataframe")

REGION = dg.Domain.of({"region": ["N", "S", "W"]})
WIDE = dg.Domain.of({**NETWORK.domain.variables, **REGION.variables})


def located(n, seed=4):
    return rows_of(n, seed=seed).assign(region=np.random.default_rng(seed).choice(["N", "S", "W"], n).astype(object))


@pytest.fixture
def one_key(monkeypatch):
    """Every choice of rows by one key, so that choices can be compared."""
    monkeypatch.setattr(summary, "cap_of", lambda person, rows: person and PersonCap(person, rows, KEY))


def tables(counts):
    return {level: one.sensitive_tables for level, one in counts.items()}


def sums(moments):
    return {level: (one.sensitive_rows, one.sensitive_sums.tolist()) for level, one in moments.items()}


def expected_tables(rows, by, domain, cap=None):
    """Each group counted by itself, of codes that were capped once."""
    codes = (
        dg.statistics.encode(rows, domain) if cap is None else capped_codes(rows, domain, PersonCap("who", cap, KEY))
    )
    found = itertools.product(*(domain.levels(name) for name in by))
    return [dg.count(codes, NETWORK, where=dict(zip(by, one, strict=True))).sensitive_tables for one in found]


def expected_sums(rows, by, domain):
    """Each group summed by itself."""
    levels = DESIGN.features[by].levels if domain is None else domain.levels(by)
    made = [dg.statistics.regression_moments(rows, DESIGN, where={by: level}, domain=domain) for level in levels]
    return [(one.sensitive_rows, one.sensitive_sums.tolist()) for one in made]


CAPS = {"all rows": {}, "two of a person": {"person": "who", "rows_per_person": 2}}


def held_elsewhere(rows, tmp_path, spark):
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=40)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return [
        (rows, {}),
        (path, {}),
        (iter([rows[:50], table.slice(50)]), {}),
        (dd.from_pandas(rows, npartitions=4), {}),
        (path, {"engine": "dask"}),
        (path, {"engine": spark}),
        (spark.createDataFrame(table).repartition(3), {}),
    ]


@pytest.mark.parametrize("cap", CAPS)
def test_every_engine_counts_the_groups_that_memory_counts(cap, one_key, spark, tmp_path):
    rows = located(200)
    expected = expected_tables(rows, ["region"], WIDE, CAPS[cap].get("rows_per_person"))
    for held, how in held_elsewhere(rows, tmp_path, spark):
        made = tables(dg.statistics.count_groups(held, NETWORK, "region", domain=REGION, **CAPS[cap], **how))
        assert list(made) == ["N", "S", "W"]
        assert list(made.values()) == expected


def test_every_engine_sums_the_groups_that_memory_sums(spark, tmp_path):
    rows = located(200)
    for by, domain in (("region", REGION), ("flag", None)):
        expected = expected_sums(rows, by, domain)
        for held, how in held_elsewhere(rows, tmp_path, spark):
            assert list(sums(dg.statistics.count_groups(held, DESIGN, by, domain=domain, **how)).values()) == expected


@pytest.mark.parametrize("by", [["flag", "region"], ["region", "size"]])
def test_several_variables_make_their_combinations(by, one_key):
    rows = located(300)
    for cap, how in ((None, {}), (2, CAPS["two of a person"])):
        domain = dg.Domain.of({**NETWORK.domain.variables, **REGION.variables})
        made = tables(dg.statistics.count_groups(rows, NETWORK, by, domain=REGION, **how))
        assert list(made) == list(itertools.product(*(WIDE.levels(name) for name in by)))
        assert list(made.values()) == expected_tables(rows, by, domain, cap)


def test_groups_of_one_choice_hold_together_what_the_whole_keeps():
    """At most so many rows of a person in all groups together, and exactly so many where there are as many."""
    rows = located(300)
    made = dg.statistics.count_groups(rows, NETWORK, "region", domain=REGION, person="who", rows_per_person=2)
    wanted = rows["who"].value_counts().clip(upper=2).sum()
    assert sum(one.sensitive_rows for one in made.values()) == wanted < len(rows)
    moments = dg.statistics.count_groups(rows, DESIGN, "region", domain=REGION, person="who", rows_per_person=2)
    assert sum(one.sensitive_rows for one in moments.values()) == wanted
    assert len({one.cap.draw for one in made.values()}) == 1
    assert {one.cap.rows_per_person for one in moments.values()} == {2}


def test_the_door_takes_the_groups_of_one_choice():
    rows, unit = located(100), dg.PrivacyUnit("add-remove", 2)
    budgets = dg.Budget(1, unit=unit).parallel(REGION, "region", epsilon=1)
    made = dg.statistics.count_groups(rows, NETWORK, "region", domain=REGION, person="who", rows_per_person=2)
    for level, budget in budgets.items():
        dg.release(made[level], dg.LaplaceMechanism(budget.epsilon), budget=budget)
    with pytest.raises(dg.errors.ReleaseError, match="this budget is for the rows with region = 'N'"):
        dg.release(made["S"], dg.LaplaceMechanism("1/2"), budget=budgets["N"])


def parts_of(rows, cuts, order):
    """The rows in another order, cut in parts."""
    mixed = rows.iloc[order] if len(rows) else rows
    ends = [0, *sorted(cuts), len(rows)]
    return [mixed.iloc[start:stop] for start, stop in itertools.pairwise(ends)]


@pytest.mark.systems
@pytest.mark.proof
@settings(max_examples=examples(15), deadline=None)
@given(st.data(), st.integers(0, 40), st.integers(1, 3), st.integers(0, 5))
def test_no_split_of_the_rows_changes_an_integer(data, n, cap, seed):
    """Counts, groups, sums and caps over random partitions, in which a person's rows are spread."""
    rows = located(max(n, 1), seed).head(n).assign(who=lambda found: found["who"] % 7)
    cuts = data.draw(st.lists(st.integers(0, n), max_size=6))
    parts = parts_of(rows, cuts, data.draw(st.permutations(range(n))))
    held = dd.from_map(lambda part: part, parts, meta=rows.head(0))
    limit = PersonCap("who", cap, KEY)
    with dask.config.set(scheduler="synchronous", **{"dataframe.convert-string": False}):
        assert dg.count(held, NETWORK).sensitive_tables == dg.count(rows, NETWORK).sensitive_tables
        assert (
            dg.count(held, NETWORK, person=limit).sensitive_tables
            == dg.count(rows, NETWORK, person=limit).sensitive_tables
        )
        for made in (held, rows):
            found = dg.statistics.count_groups(made, NETWORK, "region", domain=REGION, person=limit)
            assert list(tables(found).values()) == expected_tables(rows, ["region"], WIDE, cap)
        there, here = (dg.statistics.regression_moments(made, DESIGN, person=limit) for made in (held, rows))
        assert there.sensitive_sums.tolist() == here.sensitive_sums.tolist()
        there, here = (dg.statistics.count_groups(made, DESIGN, "flag", person=limit) for made in (held, rows))
        assert sums(there) == sums(here)
        whole = dg.statistics.regression_moments(rows, DESIGN, person=limit)
        assert sum(one.sensitive_sums for one in here.values()).tolist() == whole.sensitive_sums.tolist()


def test_no_split_on_spark_changes_an_integer(spark, one_key):
    rows = located(150).assign(who=lambda found: found["who"] % 7)
    expected = expected_tables(rows, ["region"], WIDE, 2)
    for seed, parts in ((1, 2), (2, 7)):
        mixed = pa.Table.from_pandas(rows.sample(frac=1, random_state=seed), preserve_index=False)
        held = spark.createDataFrame(mixed).repartition(parts)
        made = dg.statistics.count_groups(held, NETWORK, "region", domain=REGION, person="who", rows_per_person=2)
        assert list(tables(made).values()) == expected


@pytest.mark.parametrize(
    ("by", "settings", "says"),
    [
        ("region", {}, "'region', which is not declared"),
        ((), {}, "by must be the name of a variable"),
        (["flag", "flag"], {}, "by must be the name of a variable"),
        ("flag", {"domain": dg.Domain.of({"flag": [True, False]})}, "'flag' is declared otherwise by the network"),
        ("flag", {"rows_per_person": 2}, "needs person="),
        (["a", "b"], {"domain": dg.Domain.of({name: list(range(65)) for name in "ab"})}, "by makes 4225 groups"),
    ],
    ids=str,
)
def test_what_makes_no_groups_is_refused(by, settings, says):
    with pytest.raises(dg.errors.DomainError, match=says):
        dg.statistics.count_groups(rows_of(5), NETWORK, by, **settings)


def test_a_regression_tells_groups_by_levels_alone():
    for by in ("age", "region"):
        with pytest.raises(dg.errors.DomainError, match=f"'{by}', which is not declared with levels"):
            dg.statistics.count_groups(located(5), DESIGN, by)
    with pytest.raises(dg.errors.DomainError, match="a pair of arrays has no column of groups"):
        dg.statistics.count_groups((np.zeros((2, 3)), np.zeros(2)), DESIGN, "flag")
    with pytest.raises(dg.errors.DomainError, match="codes are counted group by group"):
        dg.statistics.count_groups(dg.statistics.encode(located(5), WIDE), NETWORK, "region")


@pytest.mark.parametrize("cap", CAPS)
def test_a_row_that_fits_no_group_refuses_them_all_and_nothing_is_said_of_it(cap, spark):
    rows = located(20).assign(region=[SECRET, *["N"] * 19])
    held = [rows, dd.from_pandas(rows, npartitions=2)]
    held.append(spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False)))
    for one in held:
        with pytest.raises(dg.errors.DomainError, match="column 'region' holds values outside") as caught:
            dg.statistics.count_groups(one, NETWORK, "region", domain=REGION, **CAPS[cap])
        assert SECRET not in str(caught.value)
