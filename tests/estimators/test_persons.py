"""``fit(person=)``: as many rows of each person count as the unit protects, wherever the rows and their persons are."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import dpgraph as dg
from dpgraph.privacy.exact_loss import RecordingNoise, loss_of_calls
from dpgraph.structure.design import RESOLUTION
from tests import streams
from tests.small_tables import LABELLED, labelled
from tests.statistics.test_summary import parquet, written

DOMAIN = dg.Domain.of({"word": ["a", "b"], "spam": [0, 1]})
UNIT = dg.PrivacyUnit("add-remove", 2)


def rows_of(flood=0):
    """Twenty people with three rows each, and one with a flood of rows."""
    rng = np.random.default_rng(0)
    calm = pd.DataFrame({"who": np.repeat(np.arange(20), 3), "word": rng.choice(["a", "b"], 60)})
    rows = pd.concat([calm, pd.DataFrame({"who": [99] * flood, "word": ["a"] * flood})], ignore_index=True)
    return rows.assign(spam=np.arange(len(rows)) % 2, pay=np.linspace(0, 1, len(rows)))


def naive_bayes(**more):
    settings = {"inference": "plug-in", "unit": UNIT, "noise": RecordingNoise()}
    return dg.PrivateNaiveBayes(DOMAIN, 1, **settings | more)


def regression(**more):
    settings = {"inference": "plug-in", "draws": 5, "unit": UNIT, "noise": RecordingNoise()}
    return dg.PrivateLinearRegression({"spam": (0, 1)}, (0, 1), 1, **settings | more)


def counted(model):
    """How many rows are behind what a fit asked of its noise, which added nothing."""
    return int(next(call for call in model.noise.calls if call.kind == "add").inputs.sum())


@pytest.mark.parametrize("flood", [0, 1, 2, 3, 500])
def test_so_many_rows_of_a_person_are_counted_as_the_unit_protects(flood):
    rows = rows_of(flood)
    model = naive_bayes().fit(rows[["who", "word"]], rows["spam"], person="who")
    assert counted(model) == 20 * 2 + min(2, flood)
    assert model.feature_names_in_.tolist() == ["word"]
    one = naive_bayes(unit=None).fit(rows[["who", "word"]], rows["spam"], person="who")
    assert one.release_.unit == dg.PrivacyUnit("replace")
    assert one.release_.value.n == 20 + min(1, flood)


def test_the_callers_budget_says_how_many():
    rows = rows_of(9)
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove", 3))
    model = naive_bayes(unit=None, budget=budget).fit(rows[["word"]], rows["spam"], person=rows["who"])
    assert counted(model) == 20 * 3 + 3


WAYS = {
    "a column": lambda rows, tmp: (rows[["who", "word"]], rows["spam"], "who"),
    "a column of polars": lambda rows, tmp: (pl.from_pandas(rows[["who", "word"]]), rows["spam"].to_numpy(), "who"),
    "a series": lambda rows, tmp: (rows[["word"]], rows["spam"], rows["who"]),
    "a series of another index": lambda rows, tmp: (
        rows[["word"]],
        rows["spam"],
        pd.Series(rows["who"].to_numpy(), index=range(7, 7 + len(rows))),
    ),
    "an array": lambda rows, tmp: (rows[["word"]], rows["spam"], rows["who"].to_numpy()),
    "a list of text": lambda rows, tmp: (rows[["word"]], rows["spam"], [str(one) for one in rows["who"]]),
    "a csv": lambda rows, tmp: (written(rows, tmp / "rows.csv"), "spam", "who"),
    "a parquet": lambda rows, tmp: (parquet(rows, tmp / "rows.parquet", row_group_size=7), "spam", "who"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_say_whose_rows_they_are_gives_the_same_release(way, tmp_path):
    """By one seeded source, which decides the key as well; rows that hold the same are of one kind."""
    rows, noise = rows_of(30), dg.testing.SeededNoise(5)
    X, y, person = WAYS[way](rows, tmp_path)
    models = [naive_bayes(noise=noise).fit(X, y, person=person) for _ in range(2)]
    expected = naive_bayes(noise=noise).fit(rows[["word"]], rows["spam"], person=rows["who"])
    for model in models:
        for key, table in expected.release_.value.tables.items():
            assert (model.release_.value.tables[key] == table).all()


def test_a_regression_sums_so_many_rows_of_a_person(tmp_path):
    rows, noise = rows_of(500), dg.testing.SeededNoise(5)
    by_column = regression(noise=noise).fit(rows[["who", "spam"]], rows["pay"], person="who")
    by_ids = regression(noise=noise).fit(rows[["spam"]].to_numpy(), rows["pay"], person=rows["who"])
    path = written(rows, tmp_path / "rows.csv")
    in_place = regression(noise=noise).fit(path, "pay", person="who")
    assert by_column.coef_ == by_ids.coef_ == in_place.coef_
    assert by_column.feature_names_in_.tolist() == in_place.feature_names_in_.tolist() == ["spam"]
    whole = regression().fit(rows[["spam"]], rows["pay"])
    capped = regression().fit(rows[["spam"]], rows["pay"], person=rows["who"])
    assert [model.noise.calls[-1].inputs.max() for model in (whole, capped)] == [
        560 * RESOLUTION**2,
        42 * RESOLUTION**2,
    ]


REFUSED = {
    "no column": ({"person": "nobody"}, "X has no column 'nobody'"),
    "a feature": ({"person": "word"}, "word"),
    "two lengths": ({"person": [1, 2]}, "the same number of rows"),
    "no ids": ({"person": 7}, "one id for each row"),
    "ids of two axes": ({"person": np.zeros((60, 2))}, "one id for each row"),
    "a null": ({"person": [None] * 60}, "holds nulls"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_persons_that_are_none_are_refused_and_charge_nothing(settings, message):
    rows, budget = rows_of(), dg.Budget(1, unit=UNIT)
    with pytest.raises(dg.errors.DomainError, match=message):
        naive_bayes(unit=None, budget=budget).fit(rows[["word"]], rows["spam"], **settings)
    for X in (rows[["spam"]], rows[["spam"]].to_numpy()):
        with pytest.raises(dg.errors.DomainError):
            regression(unit=None, budget=budget).fit(X, rows["pay"], **settings)
    assert budget.spent == 0


def test_in_place_a_person_is_the_name_of_a_column(tmp_path):
    path = written(rows_of(), tmp_path / "rows.csv")
    for person, message in (([1] * 60, "must name a column"), ("nobody", "'nobody' is not in"), ("spam", "declared")):
        with pytest.raises(dg.errors.DomainError, match=message):
            naive_bayes().fit(path, "spam", person=person)
        with pytest.raises(dg.errors.DomainError):
            regression().fit(path, "pay", person=person)


def test_replaced_persons_have_one_row_each():
    rows, unit = rows_of(), dg.PrivacyUnit("replace", 2)
    for model, y in ((naive_bayes(unit=unit), "spam"), (regression(unit=unit), "pay")):
        X = rows[["word"]] if y == "spam" else rows[["spam"]]
        with pytest.raises(dg.errors.ReleaseError, match="the number of rows is private"):
            model.fit(X, rows[y], person=rows["who"])


def test_scikit_learn_routes_the_persons():
    with config_context(enable_metadata_routing=True):
        model = clone(naive_bayes(noise=None)).set_fit_request(person=True)
        assert model.get_metadata_routing().fit.requests == {"person": True}


# --- the loss, by enumeration -----------------------------------------------------------------------------------------

KINDS = list(itertools.product(["a", "b"], [0, 1]))
OTHERS = [(1, "a", 0), (2, "b", 1), (2, "b", 0)]


def fitted(kind, rows):
    """A fit on one person's rows between those of two others; its noise source has recorded what it was asked."""
    table = [*OTHERS[:1], *((7, *row) for row in rows), *OTHERS[1:]]
    made = pd.DataFrame(table, columns=["who", "word", "spam"])
    if kind == "naive Bayes":
        return naive_bayes().fit(made[["who", "word"]], made["spam"], person="who")
    made["pay"] = (made["word"] == "b").astype(float)
    return regression().fit(made[["who", "spam"]], made["pay"], person="who")


@pytest.mark.parametrize("kind", ["naive Bayes", "regression"])
def test_with_two_rows_a_person_no_person_loses_more_than_is_charged_and_one_as_much(kind):
    """All multisets of up to four rows of a person, added to the rows of two others, one of whom has two."""
    without = fitted(kind, [])
    losses = []
    for many in range(1, 5):
        for rows in itertools.combinations_with_replacement(KINDS, many):
            losses.append(loss_of_calls(without.noise.calls, fitted(kind, rows).noise.calls)[0])
    assert max(losses) <= without.release_.event.epsilon
    assert max(losses) > 0.99 * float(without.release_.event.epsilon)


def judged_rows(model, *rows, unit=UNIT, **settings):
    """How many rows an evaluation of hardly any noise is of."""
    noise = dg.testing.SeededNoise(0)
    budget = dg.Budget(10_000, unit=unit)
    found = dg.evaluate(
        model, *rows, epsilon=10_000, budget=budget, noise=noise, person="who", **settings
    ).release.value
    block = found.block("right") if found.block("right") is not None else found.block("rows")
    return block.sum() if found.n is None else found.n


@pytest.mark.parametrize("flood", [0, 1, 2, 500])
def test_so_many_rows_of_a_person_are_judged_as_the_unit_protects(flood, tmp_path):
    rows = rows_of(flood)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    X = rows[["who", "word", "spam"]]
    many = pytest.approx(20 * 2 + min(2, flood), abs=0.5)
    bayes = naive_bayes().fit(rows[["who", "word"]], rows["spam"], person="who")
    line = regression().fit(rows[["who", "spam"]], rows["pay"], person="who")
    assert judged_rows(bayes, X.drop(columns="spam"), rows["spam"]) == many
    assert judged_rows(bayes, pl.from_pandas(X)) == many
    assert judged_rows(bayes, str(tmp_path / "rows.csv")) == many
    assert judged_rows(bayes, iter([X])) == many
    assert judged_rows(line, X, rows["pay"]) == many
    other = LogisticRegression().fit(rows[["pay"]], rows["spam"])
    assert judged_rows(other, rows[["pay", "who"]], rows["spam"]) == many
    one = judged_rows(bayes, X, unit=dg.PrivacyUnit("replace"))
    assert one == 20 + min(1, flood)


def flood_of(found):
    """How many rows of the one with a flood were judged, by an evaluation of hardly any noise."""
    if found.block("confusion") is not None:
        return np.reshape(found.block("confusion"), (2, 2))[1].sum()
    return found.block("squared error").sum()


@pytest.mark.parametrize("kind", ["bayes", "line"])
@pytest.mark.parametrize("made", [streams.Stream, streams.Once, streams.Query, streams.reader])
def test_rows_of_a_person_are_judged_by_one_reading(made, kind):
    """A second reading in another order named other rows for theirs: 42 of the 2 000 were judged where 2 may be."""
    rows = rows_of(2_000)
    flood = rows["who"] == 99
    rows = pa.Table.from_pandas(rows.assign(spam=flood.astype(int), pay=np.where(flood, 1, 0.5)))
    weights = np.zeros((1, 2))  # which predict a half of every row
    design = dg.LinearDesign({"spam": (0, 1)}, "pay", (0, 1))
    bayes = naive_bayes().fit(rows_of()[["who", "word"]], rows_of()["spam"], person="who")
    line = dg.papers.SampledRegressionModel(dg.papers.SampledWeights(design, weights, 1.0, 1.0))
    budget, noise = dg.Budget(10_000, unit=UNIT), dg.testing.SeededNoise(0)
    model = bayes if kind == "bayes" else line
    found = dg.evaluate(model, made(rows), epsilon=10_000, budget=budget, noise=noise, person="who").release.value
    assert flood_of(found) == pytest.approx(2, abs=0.5)


def test_rows_beyond_a_cap_and_of_other_groups_reach_no_model():
    """What is judged is chosen first: another library's model never sees the rest, not even where nothing is left."""
    rows, seen = rows_of(500).assign(word=0), []

    class Watching(LogisticRegression):
        def predict_proba(self, X):
            seen.append(X.copy())
            return super().predict_proba(X)

    watching = Watching().fit(rows[["pay"]], rows["spam"])
    assert judged_rows(watching, rows[["pay", "who"]], rows["spam"]) == pytest.approx(42, abs=0.5)
    declared = dg.Domain.of({"word": [0, 1]})
    groups = dg.Budget(4000, unit=dg.PrivacyUnit("add-remove")).parallel(declared, "word", epsilon=4000)
    word = LogisticRegression().fit(rows[["pay", "word"]], rows["spam"])
    for level, many in ((0, 560), (1, 0)):
        made = dg.evaluate(word, rows[["pay", "word"]], rows["spam"], epsilon=4000, budget=groups[level])
        assert made.release.value.block("right").sum() == pytest.approx(many, abs=0.5)
    assert sum(map(len, seen)) == 42
    assert list(seen[0].columns) == ["pay"]


@pytest.mark.parametrize(
    ("rows", "person", "unit", "words"),
    [
        (labelled(), "who", UNIT, "'who' is not in the table"),
        (labelled(), "a", UNIT, "no.* declared variable; got 'a'"),
        (labelled(), 7, UNIT, "no.* declared variable; got 7"),
        (labelled().assign(who=None), "who", UNIT, "holds nulls"),
        (labelled().assign(who=1), "who", dg.PrivacyUnit("replace", 2), "number of rows is private"),
    ],
    ids=["no column", "a feature", "a number", "nulls", "replaced persons"],
)
def test_persons_of_an_evaluation_that_are_none_are_refused_and_charge_nothing(rows, person, unit, words):
    model = dg.PrivateNaiveBayes(LABELLED, target="y", epsilon=5).fit(labelled()[["a", "c"]], labelled().y)
    budget = dg.Budget(1, unit=unit)
    with pytest.raises(dg.errors.DPGraphError, match=words):
        dg.evaluate(model, rows, epsilon=1, budget=budget, person=person)
    assert budget.spent == 0


def test_a_group_is_not_judged_by_persons():
    rows = labelled().assign(who=1)
    model = dg.PrivateNaiveBayes(LABELLED, target="y", epsilon=5).fit(rows[["a", "c"]], rows.y)
    budget = dg.Budget(1, unit=UNIT)
    group = budget.parallel(LABELLED, "c", epsilon=1)[1]
    with pytest.raises(dg.errors.DomainError, match="where and person do not go together"):
        dg.evaluate(model, rows, epsilon=1, budget=group, person="who")
    assert group.spent == 0
