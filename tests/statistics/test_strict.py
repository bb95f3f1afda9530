"""Strict declarations (promise.md S22): no cell decides whether a table is refused, and none moves another row."""

import datetime
import decimal
import math
import warnings
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import dpgraph as dg
from dpgraph.estimators.evaluation import outcomes
from dpgraph.statistics.rows.persons import cap_rows
from tests.privacy import hostile
from tests.statistics.engines.rows import folder_of_its_own
from tests.tiers import examples

VARIABLES = {
    "text": dg.Categories(["a", "b", "?"], other="?", missing="b"),
    "number": dg.Categories([1, 2.5, 9], other=9, missing=1),
    "flag": dg.Categories([True, False], other=False, missing=True),
    "bins": dg.Bins([0, 10, 20], missing=True),
}
STRICT = dg.Domain.of(VARIABLES, strict=True)
CLEAN = {"text": ["a", "b", None], "number": [2.5, 1.0, 9.0], "flag": [True, False, True], "bins": [3.0, 12.0, None]}
EXPECTED = {"text": [0, 1, 1], "number": [1, 0, 2], "flag": [0, 1, 0], "bins": [0, 1, 2]}

ADD = dg.PrivacyUnit("add-remove")

#: Objects that raise; hypothesis itself would ask them for their hash.
OBJECTS = dict(hostile.objects())


class Planted(str):
    """The label of an object that takes its place in a table."""


cells = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=5)
    | st.text(st.characters(categories=["Cs"]), min_size=1, max_size=2)
    | st.sampled_from(["a", "1", "2.5", "true", "FALSE", "nan", "NA", " 1 ", "1e3", "10-20", "missing", "1_0", "inf"])
    | st.binary(max_size=5)
    | st.dates()
    | st.decimals()
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)
    | st.sampled_from([np.float32(2.5), np.int8(1), np.bool_(True), np.datetime64("NaT", "s"), pd.NaT, pd.NA, math.nan])
    | st.sampled_from(list(OBJECTS)).map(Planted)
)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='\r\n\0",'), max_size=6)


def with_one(column, value, at=1):
    values = list(CLEAN[column])
    values[at] = value
    return values


def planted(cell):
    return OBJECTS[cell] if isinstance(cell, Planted) else cell


def objects(columns):
    """A table whose columns are objects, without a type."""
    frame = {}
    for name, values in columns.items():
        made = np.empty(len(values), object)
        for at, value in enumerate(values):
            made[at] = planted(value)
        frame[name] = pd.Series(made, dtype=object)
    return pd.DataFrame(frame)


def check_others(codes, column):
    """Every cell but one has its own level, and that one has some level."""
    assert codes.sensitive_rows == 3
    for name, expected in EXPECTED.items():
        found = codes.columns[name].tolist()
        assert [found[0], found[2]] == [expected[0], expected[2]]
        if name != column:
            assert found[1] == expected[1]
        assert found[1] < STRICT.sizes[name]


def test_clean_rows_have_their_levels_in_every_kind_of_table(tmp_path):
    frame = objects(CLEAN)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    typed = pa.table({name: pa.array(values) for name, values in CLEAN.items()})
    pq.write_table(typed, tmp_path / "rows.parquet")
    kinds = [
        frame,
        frame.infer_objects(),
        frame.convert_dtypes(),
        frame.astype("category"),
        typed,
        pl.from_arrow(typed),
    ]
    for rows in (*kinds, iter([frame]), tmp_path / "rows.csv", tmp_path / "rows.parquet"):
        codes = dg.statistics.encode(rows, STRICT)
        assert {name: codes.columns[name].tolist() for name in EXPECTED} == EXPECTED


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(list(VARIABLES)), cells)
def test_no_object_in_a_cell_refuses_a_table_or_moves_another_row(column, cell):
    values = with_one(column, cell)
    check_others(dg.statistics.encode(objects(CLEAN | {column: values}), STRICT), column)
    network = dg.Network.of(STRICT, {})
    assert dg.count(objects(CLEAN | {column: values}), network).sensitive_rows == 3


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(list(VARIABLES)), cells.filter(lambda cell: not isinstance(cell, list | dict)))
def test_no_category_refuses_a_table(column, cell):
    try:
        frame = objects(CLEAN | {column: with_one(column, cell)}).astype({column: "category"})
    except Exception:  # pandas itself does not make a category of an object that cannot be hashed
        return
    codes = dg.statistics.encode(frame, STRICT)
    assert codes.sensitive_rows == 3
    if frame[column].cat.categories.dtype == object:  # else the cells became numbers or text by pandas' own rules
        check_others(codes, column)


@pytest.mark.parametrize("column", VARIABLES)
@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"abc",
        b"1e999",
        b'"',
        b"-inf",
        b"9" * 400,
        "\u0663".encode(),
        b"1_000",
        b"nan(7)",
        b"x,y",
        b"",
        b"a,b,c,d,e,f",
    ],
    ids=repr,
)
def test_no_line_refuses_a_csv_file(column, line, tmp_path):
    """Too few or too many fields make a row of nulls, and what is no UTF-8 is a word like any other."""
    lines = [b"a,2.5,true,3", b"b,1,false,12", b",9,true,"]
    fields = lines[1].split(b",")
    fields[list(VARIABLES).index(column)] = line if line != b'"' else b'"quoted ""x"""'
    path = tmp_path / "rows.csv"
    path.write_bytes(b",".join(VARIABLES_HEADER) + b"\n" + b"\n".join([lines[0], b",".join(fields), lines[2]]) + b"\n")
    codes = dg.statistics.encode(path, STRICT)
    assert codes.sensitive_rows == 3
    for name, expected in EXPECTED.items():
        found = codes.columns[name].tolist()
        assert found[0] == expected[0]
        assert expected[2] in found[1:]  # a row of nulls comes last


VARIABLES_HEADER = [name.encode() for name in VARIABLES]


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(list(VARIABLES)), words)
def test_no_word_refuses_a_csv_file(column, word):
    frame = objects(CLEAN)
    frame[column] = with_one(column, word)
    path = folder_of_its_own() / "rows.csv"
    frame.to_csv(path, index=False)
    check_others(dg.statistics.encode(path, STRICT), column)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(["number", "flag", "bins"]), words)
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_text_in_a_column_of_numbers_is_read_as_words(column, word):
    """pandas reads a whole column as text for one word; the others still are what they say."""
    said = ["" if value is None else str(value) for value in CLEAN[column]]
    said[1] = word
    table = pa.table({name: pa.array(said if name == column else values) for name, values in CLEAN.items()})
    encoded = table.set_column(table.schema.get_field_index(column), column, table[column].dictionary_encode())
    for rows in (table, encoded, table.to_pandas()):
        check_others(dg.statistics.encode(rows, STRICT), column)


def test_text_that_is_no_unicode_is_another_value():
    column = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    for text in (column, column.dictionary_encode()):
        table = pa.table({"text": text, **{name: pa.array(CLEAN[name]) for name in ("number", "flag", "bins")}})
        assert dg.statistics.encode(table, STRICT).columns["text"].tolist() == [0, 2, 1]


@pytest.mark.parametrize("index", [-5, 3, 100])
def test_a_row_of_a_damaged_dictionary_counts_as_missing(index):
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, index, 1], pa.int32()), pa.array(["a", "b"]), safe=False)
    table = pa.table({"text": damaged, **{name: pa.array(CLEAN[name]) for name in ("number", "flag", "bins")}})
    assert dg.statistics.encode(table, STRICT).columns["text"].tolist() == [0, 1, 1]
    loose = dg.Domain.of(VARIABLES)
    with pytest.raises(dg.errors.DomainError, match="damaged"):
        dg.statistics.encode(table, loose)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"k": 1}] * 3),
        pa.array([[1]] * 3),
        pa.array([datetime.date(2020, 1, 1)] * 3),
        pa.array([decimal.Decimal("1.5")] * 3),
    ],
    ids=lambda column: str(column.type),
)
def test_a_type_that_fits_no_declaration_is_refused_whatever_the_values(column):
    """The schema is public: nulls alone of that type are refused as well."""
    for name in VARIABLES:
        for values in (column, pa.nulls(3, column.type)):
            table = pa.table({other: pa.array(CLEAN[other]) for other in VARIABLES if other != name} | {name: values})
            if values.null_count:  # a column of nulls has no value that its type excludes
                assert dg.statistics.encode(table, STRICT).sensitive_rows == 3
            else:
                with pytest.raises(dg.errors.DomainError, match="is of type"):
                    dg.statistics.encode(table, STRICT)


# --- regression -------------------------------------------------------------------------------------------------------

DESIGN = dg.LinearDesign(
    {"x": dg.Bounded(0, 10, missing=5), "text": VARIABLES["text"], "bins": VARIABLES["bins"]},
    "y",
    dg.Bounded(0, 1, missing=0.5),
    strict=True,
)
DROPPING = dg.LinearDesign(
    {"x": (0, 10), "text": dg.Categories(["a", "b", "?"], other="?"), "bins": dg.Bins([0, 10, 20])},
    "y",
    (0, 1),
    on_missing="drop",
    strict=True,
)
ROWS = {"x": [1.0, 2.0, 9.0], "text": ["a", "b", "?"], "bins": [1.0, 11.0, 5.0], "y": [0.1, 0.2, 0.9]}


def sums_without(column, design):
    """The sums of all rows but the middle one."""
    return dg.statistics.regression_moments(
        objects({name: [v[0], v[2]] for name, v in ROWS.items()}), design
    ).sensitive_sums


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(list(ROWS)), cells)
def test_no_cell_refuses_a_regression_or_moves_another_row(column, cell):
    values = [ROWS[column][0], cell, ROWS[column][2]]
    rows = objects(ROWS | {column: values})
    kept = dg.statistics.regression_moments(rows, DESIGN)
    assert kept.sensitive_rows == 3
    alone = dg.statistics.regression_moments(rows.iloc[[1]], DESIGN)
    assert kept.sensitive_sums.tolist() == (sums_without(column, DESIGN) + alone.sensitive_sums).tolist()
    dropped = dg.statistics.regression_moments(rows, DROPPING)
    alone = dg.statistics.regression_moments(rows.iloc[[1]], DROPPING)
    assert dropped.sensitive_sums.tolist() == (sums_without(column, DROPPING) + alone.sensitive_sums).tolist()
    table = rows[["x", "text", "bins"]].to_numpy(object)
    assert (
        dg.statistics.regression_moments((table, list(rows["y"])), DESIGN).sensitive_sums.tolist()
        == kept.sensitive_sums.tolist()
    )


@pytest.mark.parametrize("word", ["abc", "", "1_0", "\u0663", "nan", "1e999"])
@pytest.mark.parametrize("column", ROWS)
def test_no_word_refuses_a_regression(column, word, tmp_path):
    rows = objects(ROWS | {column: [ROWS[column][0], word, ROWS[column][2]]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert dg.statistics.regression_moments(tmp_path / "rows.csv", DESIGN).sensitive_rows == 3
    text = pa.table({name: pa.array(rows[name].astype(str)) for name in rows})
    for table in (text, text.to_pandas(), text.to_pandas().astype("category")):
        assert dg.statistics.regression_moments(table, DESIGN).sensitive_rows == 3


def test_a_list_of_rows_is_refused_whatever_is_in_it():
    for rows in ([[1.0, "a", 1.0]] * 2, [[1.0, "a", 1.0], [2.0]]):
        with pytest.raises(dg.errors.DomainError, match="a list of rows may be no rectangle"):
            dg.statistics.regression_moments((rows, [0.1, 0.2]), DESIGN)


# --- persons ----------------------------------------------------------------------------------------------------------

ONE = dg.Domain.of({"text": VARIABLES["text"]}, strict=True)


@settings(max_examples=examples(100), deadline=None)
@given(cells)
def test_no_persons_name_refuses_a_table_or_moves_another_row(cell):
    rows = objects({"who": ["p", cell, "q"], "text": ["a", "?", "b"]})
    capped = cap_rows(rows, ONE, "who", 3).columns["text"].tolist()
    assert capped in ([0, 2, 1], [0, 1])  # a row that names nobody is nobody's


def test_persons_are_compared_as_text_whatever_table_they_come_from():
    tables = [objects({"who": [7, 8.0, None], "text": ["a"] * 3}), pa.table({"who": [7, 7], "text": ["b", "b"]})]
    tables += [pd.DataFrame({"who": ["7", "8"], "text": ["?", "?"]}).astype({"who": "category"})]
    kept = Counter(cap_rows(iter(tables), ONE, "who", 2).columns["text"].tolist())
    seven = kept - Counter([0, 2])  # both rows of 8, and two of the four of 7, by a key; none of nobody's
    assert kept.total() == 4
    assert seven.total() == 2
    assert seven <= Counter([0, 1, 1, 2])


def test_a_persons_type_is_schema():
    with pytest.raises(dg.errors.DomainError, match="must hold text, numbers or dates"):
        cap_rows(pa.table({"who": [{"k": 1}], "text": ["a"]}), ONE, "who", 1)


def test_the_log_of_persons_needs_a_private_number_of_rows():
    domain = STRICT.restrict(["text", "number", "flag"])
    settings = {"sequence": "text", "time": "number", "person": "who"}
    settings |= {"iterations": 2, "burn_in": 1, "chains": 1, "inference": "plug-in"}
    rows = objects({"who": ["p", None, {}], **CLEAN}).drop(columns="bins")
    model = dg.PrivateHMM(1, domain, 1, **settings)
    assert not model.fit(rows).release_.unit.n_is_public
    with pytest.raises(dg.errors.ReleaseError, match="names no person is dropped"):
        dg.PrivateHMM(1, domain, 1, unit=dg.PrivacyUnit("replace"), **settings).fit(rows)


# --- moments ----------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(100), deadline=None)
@given(cells)
def test_no_record_refuses_the_others(cell):
    family, records = dg.expfam.Exponential(), np.empty(3, object)
    records[0], records[1], records[2] = 0.5, planted(cell), 2.0
    without = dg.statistics.sufficient_statistics([0.5, 2.0], family, bounds=(0, 3))
    for x in (records, list(records)):
        found = dg.statistics.sufficient_statistics(x, family, bounds=(0, 3), strict=True)
        more = (found.sensitive_sums - without.sensitive_sums).item()
        assert found.sensitive_rows == 3
        assert 0 <= more <= dg.statistics.sufficient_statistics([3.0], family, bounds=(0, 3)).sensitive_sums.item()


@pytest.mark.parametrize("family", [dg.expfam.Binomial(3), dg.expfam.Multinomial([0, 1])], ids=repr)
def test_a_family_without_bounds_has_nowhere_to_put_a_record(family):
    with pytest.raises(dg.errors.DomainError, match="strict=True cannot be kept"):
        dg.statistics.sufficient_statistics([0, 1], family, strict=True)


# --- estimators -------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(cells, st.sampled_from([0, 1, 2]))
def test_no_cell_refuses_a_fit(cell, at):
    X, y = np.empty((3, 2), object), ["a", "b", "?"]
    X[:] = [[2.5, 3.0], [1.0, 12.0], [9.0, None]]
    if at < 2:
        X[1, at] = planted(cell)
    else:
        y[1] = planted(cell)
    domain = STRICT.restrict(["number", "bins", "text"])
    assert domain.strict
    dg.PrivateNaiveBayes(domain, 1, inference="plug-in", target="text").fit(X, y).predict(X)
    bounds = {"number": dg.Bounded(0, 10, missing=5), "bins": VARIABLES["bins"]}
    target = dg.Bounded(0, 1, missing=0)
    dg.PrivateLinearRegression(bounds, target, 1, inference="plug-in", draws=5, strict=True).fit(X, y).predict(X)


MAILS = STRICT.restrict(["number", "bins", "text"])
FITTED = {
    "nb": dg.PrivateNaiveBayes(MAILS, 1, inference="plug-in", noise=dg.testing.SeededNoise(0), target="text"),
    "regression": dg.PrivateLinearRegression(
        {"number": dg.Bounded(0, 10, missing=5), "bins": VARIABLES["bins"]},
        dg.Bounded(0, 1, missing=0),
        1,
        inference="plug-in",
        draws=5,
        strict=True,
        noise=dg.testing.SeededNoise(0),
    ),
}
LOG = dg.Domain.of({"chain": dg.Categories(["N", "S"], other="S", missing="N"), **VARIABLES}, strict=True)
ENTRIES = LOG.restrict(["chain", "number", "text"])


@cache
def models():
    """Fitted on rows of no matter."""
    X, y = pd.DataFrame({"number": [2.5, 1.0, 9.0], "bins": [3.0, 12.0, 4.0]}), ["a", "b", "?"]
    found = {"nb": FITTED["nb"].fit(X, y), "regression": FITTED["regression"].fit(X, [0.1, 0.5, 0.9])}
    log = pd.DataFrame({"chain": ["N", "S"], "number": [1.0, 9.0], "text": ["a", "b"]})
    settings = {"sequence": "chain", "time": "number", "iterations": 2, "burn_in": 1, "chains": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hmm = dg.PrivateHMM(1, ENTRIES, 1, inference="plug-in", noise=dg.testing.SeededNoise(0), **settings)
        return found | {"hmm": hmm.fit(log)}


def check_judged(model, rows, others, alone):
    """No cell of the middle row refuses the rows, and what it adds is its own."""
    found = outcomes(model, *rows, unit=ADD)
    parts = outcomes(model, *others, unit=ADD).sensitive_sums + outcomes(model, *alone, unit=ADD).sensitive_sums
    assert found.sensitive_sums.tolist() == parts.tolist()
    return found.sensitive_rows


@settings(max_examples=examples(60), deadline=None)
@given(cells, st.sampled_from([0, 1, 2]), st.sampled_from(["nb", "regression"]))
def test_no_cell_refuses_an_evaluation_or_moves_another_row(cell, at, name):
    """X and y as arrays, y as a list, and one table."""
    model, table, y = models()[name], np.empty((3, 2), object), ["a", "b", "?"]
    table[:] = [[2.5, 3.0], [1.0, 12.0], [9.0, None]]
    if at < 2:
        table[1, at] = planted(cell)
    else:
        y[1] = planted(cell)
    ends = [0, 2]
    assert check_judged(model, (table, y), (table[ends], [y[0], y[2]]), (table[1:2], y[1:2])) == 3
    target = model.model_.target if name == "nb" else model.design_.target
    rows = objects({"number": table[:, 0], "bins": table[:, 1], target: y})
    assert check_judged(model, (rows,), (rows.iloc[ends],), (rows.iloc[[1]],)) == 3
    assert outcomes(model, rows).sensitive_sums.tolist() == outcomes(model, table, y).sensitive_sums.tolist()


@settings(max_examples=examples(60), deadline=None)
@given(cells, st.sampled_from(["chain", "number", "text"]))
def test_no_cell_of_a_log_refuses_its_evaluation(cell, column):
    log = {"chain": ["N", "S", "N"], "number": [1.0, 9.0, 2.5], "text": ["a", "b", "?"]}
    log[column][1] = cell
    rows = objects(log)
    assert check_judged(models()["hmm"], (rows,), (rows.iloc[[0, 2]],), (rows.iloc[[1]],)) == 3


@settings(max_examples=examples(60), deadline=None)
@given(cells, st.sampled_from(list(ROWS)))
def test_no_cell_refuses_an_evaluation_that_drops_rows(cell, column):
    """Under add-remove a row with a null is left out of the scores, as of the fit; under replace none may be."""
    model = dg.papers.SampledRegressionModel(
        dg.papers.SampledWeights(DROPPING, np.zeros((1, len(DROPPING.columns) - 1)), 1.0, 1.0)
    )
    rows = objects(ROWS | {column: [ROWS[column][0], cell, ROWS[column][2]]})
    kept = dg.statistics.regression_moments(rows, DROPPING).sensitive_rows
    assert check_judged(model, (rows,), (rows.iloc[[0, 2]],), (rows.iloc[[1]],)) == kept
    for some in (rows, rows.iloc[[0, 2]]):
        with pytest.raises(dg.errors.DomainError, match="judge it under add-remove"):
            dg.evaluate(model, some, epsilon=1, budget=dg.Budget(1))


@pytest.mark.proof
@settings(max_examples=examples(25), deadline=None)
@given(cells, st.sampled_from([0, 1, 2, 3]), st.sampled_from(["nb", "regression"]))
def test_no_cell_refuses_a_cross_validation(cell, at, name):
    """Nor does what names nobody: its row is left out."""
    table, y, who = np.empty((4, 2), object), ["a", "b", "?", "a"], ["p", "q", "r", "s"]
    table[:] = [[2.5, 3.0], [1.0, 12.0], [9.0, None], [1.0, 1.0]]
    if at < 2:
        table[1, at] = planted(cell)
    else:
        (y if at == 2 else who)[1] = planted(cell)
    for person in (who, objects({"who": who})["who"].to_numpy()):
        model, budget = clone(FITTED[name]).set_params(noise=None), dg.Budget(4, unit=ADD)
        dg.cross_validate(model, table, y, person=person, folds=2, epsilon=4, budget=budget)
        assert budget.spent == 4


def test_a_cross_validation_takes_no_list_of_rows():
    for X in ([[1.0, 1.0]] * 2, [[1.0, 1.0], [1.0]]):
        with pytest.raises(dg.errors.DomainError, match="a list of rows may be no rectangle"):
            dg.cross_validate(FITTED["nb"], X, ["a", "b"], folds=2, epsilon=4, budget=dg.Budget(4))


def test_a_fit_takes_no_list_of_rows():
    domain = STRICT.restrict(["number", "text"])
    for X in ([[1.0]] * 2, [[1.0], [1.0, 2.0]]):
        with pytest.raises(dg.errors.DomainError, match="a list of rows may be no rectangle"):
            dg.PrivateNaiveBayes(domain, 1).fit(X, ["a", "b"])


def test_a_strict_domain_is_read_off_public_rows():
    public = pd.DataFrame({"text": ["x", "other"], "few": [1, 2], "many": [1.5, None]})
    with pytest.warns(dg.errors.DomainWarning):
        domain = dg.statistics.infer_domain(public, strict=True)
    assert domain.strict
    assert domain["text"] == dg.Categories(["other", "x", "missing"], other="other", missing="missing")
    assert domain["few"] == dg.Bins([1.0, 2.0, 3.0], missing=True)
    hostile_rows = objects({"text": [{}, 1], "few": ["?", None], "many": [[], 2.0]})
    assert dg.statistics.encode(hostile_rows, domain).sensitive_rows == 2
    with pytest.warns(dg.errors.DomainWarning), pytest.raises(dg.errors.DomainError, match="holds booleans"):
        dg.statistics.infer_domain(pd.DataFrame({"flag": [True, False]}), strict=True)
