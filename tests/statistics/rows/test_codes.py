"""Encoding: each value to its level by the declaration, nulls and unknown values by their declared actions."""

import datetime
import decimal
import math
import warnings
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

import dpgraph as dg
from dpgraph.statistics.rows.batches import spelled
from dpgraph.statistics.rows.codes import Codes
from tests.statistics.engines.rows import ENGINES, csv, dictionary
from tests.strategies import domains, fitting_values, frames, position, variables
from tests.tiers import examples

COLORS = ["red", "green", "blue"]


def encoded(values, variable, as_csv=False):
    """The codes of one column."""
    table = values if isinstance(values, pa.Array | pa.ChunkedArray) else pd.Series(values)
    rows = pa.table({"v": table}) if isinstance(values, pa.Array | pa.ChunkedArray) else pd.DataFrame({"v": table})
    return dg.statistics.encode(csv(rows) if as_csv else rows, dg.Domain.of({"v": variable})).columns["v"].tolist()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(4), deadline=None)
@given(domains().flatmap(lambda domain: st.tuples(st.just(domain), frames(domain, max_rows=8))))
def test_codes_are_positions_of_levels(engine, case):
    domain, frame = case
    codes = dg.statistics.encode(ENGINES[engine](frame), domain)
    for name in domain.names:
        assert codes.columns[name].tolist() == [position(domain[name], value) for value in frame[name]]
        assert codes.columns[name].dtype.kind == "u"
    assert codes.sensitive_rows == len(frame)


@pytest.mark.parametrize(
    ("levels", "dtype"), [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)]
)
def test_columns_are_as_narrow_as_their_levels(levels, dtype):
    codes = dg.statistics.encode(pd.DataFrame({"v": [levels - 1]}), dg.Domain.of({"v": range(levels)}))
    assert codes.columns["v"].dtype == dtype
    assert codes.columns["v"].tolist() == [levels - 1]


@pytest.mark.parametrize("as_csv", [False, True])
@pytest.mark.parametrize(
    ("variable", "values", "expected"),
    [
        (dg.Categories(COLORS, other="blue"), ["red", "mauve", "blue"], [0, 2, 2]),
        (dg.Categories(COLORS, missing="green"), ["red", None, "blue"], [0, 1, 2]),
        (dg.Categories(COLORS, other="red", missing="blue"), [None, "mauve"], [2, 0]),
        (dg.Categories([1, 2, 3], other=2), [1, 99, 3.5], [0, 1, 1]),
        (dg.Categories([1, 2, 3], missing=3), [1.0, math.nan, 2.0], [0, 2, 1]),
        (dg.Categories([True, False], missing=False), [True, None, False], [0, 1, 1]),
        (dg.Bins([0, 1, 2], missing=True), [0.0, math.nan, 2.0], [0, 2, 1]),
    ],
    ids=repr,
)
def test_nulls_and_unknown_values_do_what_is_declared(variable, values, expected, as_csv):
    assert encoded(values, variable, as_csv) == expected


@pytest.mark.parametrize("as_csv", [False, True])
@pytest.mark.parametrize(
    ("variable", "values", "problem"),
    [
        (dg.Categories(COLORS, missing="red"), ["red", "mauve"], "holds values outside the levels 'red'"),
        (dg.Categories(COLORS, other="red"), ["red", None], "holds nulls or NaN"),
        (dg.Categories([1, 2], missing=1), [1, 3], "holds values outside the levels 1, 2"),
        (dg.Categories([1, 2], other=1), [1, math.nan], "holds nulls or NaN"),
        (dg.Categories([True], missing=True), [True, False], "holds values outside the levels True"),
        (dg.Bins([0, 1, 2]), [0.5, math.nan], "holds nulls or NaN"),
    ],
    ids=repr,
)
def test_without_an_action_they_refuse_the_table(variable, values, problem, as_csv):
    with pytest.raises(dg.errors.DomainError, match=f"column 'v' {problem}"):
        encoded(values, variable, as_csv)


@pytest.mark.parametrize("as_csv", [False, True])
def test_bins_are_half_open_and_the_end_bins_take_what_is_outside(as_csv):
    values = [-math.inf, -1e300, -1, 0, 0.999, 1, 2.999, 3, 7, 7.001, 1e300, math.inf]
    assert encoded(values, dg.Bins([0, 1, 3, 7]), as_csv) == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    "levels", [["x", "?"], ["x", "?", "NA", "None"], [0, 1], [False, True], dg.Bins([0, 1], missing=True)]
)
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_a_path_has_the_nulls_of_the_frame_that_pandas_reads(levels):
    """Every null word of pandas, bare and quoted; a word that is a declared level stays that level."""
    words = [word for word in sorted(STR_NA_VALUES) if not isinstance(levels, list) or word not in levels]
    text = [f'"{word}"' for word in words] + [word for word in words if word]
    path = csv(pd.DataFrame({"v": ["0" if 0 in getattr(levels, "edges", levels) else "x"]}))
    path.write_text("v,w\n" + "".join(f"{word},1\n" for word in text))
    declared = levels if isinstance(levels, dg.Bins) else dg.Categories(levels, missing=levels[1])
    domain = dg.Domain.of({"v": declared})
    read = [dg.statistics.encode(rows, domain).columns["v"].tolist() for rows in (path, pd.read_csv(path))]
    assert read[0] == read[1] == [1] * len(text)


def test_a_declared_null_word_of_a_path_is_its_level():
    domain = dg.Domain.of({"v": dg.Categories(["NA", "x", "None", "?"], missing="?")})
    path = csv(pd.DataFrame({"v": ["NA", "x", "None", "null", "none "]}).head(4))
    assert dg.statistics.encode(path, domain).columns["v"].tolist() == [0, 1, 2, 3]


ALIKE = {
    "numbers": dg.Categories([0, 1]),
    "numbers as text": dg.Categories(["0", "1"]),
    "floats as text": dg.Categories(["0.0", "01"]),
    "booleans": dg.Categories([False, True]),
    "booleans as text": dg.Categories(["FALSE", "true"]),
    "with another level": dg.Categories(["0", "1", "?"], missing="?"),
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize(
    "values", [[0, 1], [0.0, 1.0], ["0", "1"], ["0.0", " 1e0"], [False, True], ["False", "True"]], ids=repr
)
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_zero_and_one_are_the_same_levels_however_they_are_written(name, values):
    found = [encoded(values, ALIKE[name], as_csv=True)]
    if not (isinstance(values[0], str) and ALIKE[name].kind == "text"):  # text beside text is equal or not
        found.append(encoded(values, ALIKE[name]))
        found.append(encoded(pa.array(values).dictionary_encode() if values[0] is not False else values, ALIKE[name]))
    assert found == [[0, 1]] * len(found)


@pytest.mark.parametrize(
    ("levels", "values"), [(["0", "1"], [0, 1]), ([0, 1], ["0", "1"]), ([0, 1], [False, True]), ([False, True], [1, 0])]
)
def test_a_warning_of_types_is_one_whatever_the_rows_are(levels, values):
    """One for each table, of the column, its type and its declaration alone; none where the types agree."""
    domain, told = dg.Domain.of({"v": levels}), []
    for rows in (pd.DataFrame({"v": values}), pd.DataFrame({"v": values[:1] * 3}), pa.table({"v": values * 200_000})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dg.count(rows, dg.Network.of(domain, {}))
        told.append([(one.category, str(one.message)) for one in caught])
    assert told[0] == told[1] == told[2]
    assert [kind for kind, _ in told[0]] == [dg.errors.DomainWarning]
    dg.count(pd.DataFrame({"v": levels}), dg.Network.of(domain, {}))


@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
@settings(max_examples=examples(60), deadline=None)
@given(domains().flatmap(lambda domain: st.tuples(st.just(domain), frames(domain, max_rows=8))), st.booleans())
def test_a_path_has_the_codes_of_its_frame(case, again):
    """Of the frame that pandas wrote, and of the frame that pandas reads of it, whose columns may have other types."""
    domain, frame = case
    for name, variable in domain.variables.items():
        # pandas reads a level such as "null" as a null; in memory such a text is no null, level or not
        levels = {str(level) for level in variable.levels}
        assume(not frame[name].isin(STR_NA_VALUES & levels if again else STR_NA_VALUES).any())
    path = csv(frame)
    expected = dg.statistics.encode(path, domain).columns
    rows = pd.read_csv(path) if again else frame
    refused = again and any(no_type_of(domain[name], rows[name]) for name in domain.names)
    with pytest.raises(dg.errors.DomainError, match="is of type") if refused else nullcontext():
        found = dg.statistics.encode(rows, domain).columns
    for name in () if refused else domain.names:
        assert found[name].tolist() == expected[name].tolist()


def no_type_of(variable, column):
    """Whether pandas read words as numbers or booleans of which no level spells any: the type is refused."""
    kind = column.dtype.kind
    if isinstance(variable, dg.Bins) or kind not in "ifb" or column.isna().all():
        return False
    if variable.kind == {"b": "boolean"}.get(kind, "number"):
        return False
    return not spelled(variable, kind == "b")


@pytest.mark.parametrize("as_csv", [False, True])
@pytest.mark.parametrize("edges", [[0, 1, 3, 7], [*range(100), 101]])
def test_numbers_outside_the_bins_count_as_missing_where_that_is_declared(edges, as_csv):
    declared = dg.Bins(edges, missing=True, outside="missing")
    inside, outside = [edges[0], edges[-1]], [-math.inf, -1e300, -0.001, edges[-1] + 0.001, 999, math.inf, math.nan]
    last = len(edges) - 2
    assert encoded([*inside, *outside], declared, as_csv) == [0, last, *[last + 1] * 7]
    assert [declared.code(value) for value in outside[:-1]] == [last + 1] * 6


@pytest.mark.parametrize("as_csv", [False, True])
def test_the_names_of_bins_are_read_back(as_csv):
    declared = dg.Bins([-5, -1.5, 0, 10], missing=True)
    assert encoded(list(declared.levels), declared, as_csv) == [0, 1, 2, 3]
    with pytest.raises(dg.errors.DomainError):
        encoded(["-5--1.5", "1-2"], declared, as_csv)


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()],
)
def test_numbers_of_any_width_compare_by_value(kind):
    values = pa.array([0, 1, 7, None], pa.float64()).cast(kind)
    assert encoded(values, dg.Categories([7, 1.0, 0], missing=0)) == [2, 1, 0, 2]
    assert encoded(values, dg.Bins([0, 1, 8], missing=True)) == [0, 1, 1, 2]


def test_a_number_beyond_2_to_53_is_no_other_level():
    """2^53 and 2^53 + 1 are one double; the largest level that may be declared has it to itself."""
    largest = 2**53 - 1
    values = pa.array([largest, 2**53, 2**53 + 1, 2**63 - 1])
    assert encoded(values, dg.Categories([0, largest], other=0)) == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_any_arrow_type(kind):
    values = pa.array(["blue", "red", None])
    values = values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind)
    assert encoded(values, dg.Categories(COLORS, missing="green")) == [2, 0, 1]


def test_minus_zero_is_zero():
    assert encoded([0.0, -0.0, 1.0], dg.Categories([1, 0])) == [1, 1, 0]
    assert encoded([0, 1], dg.Categories([-0.0, 1])) == [0, 1]
    assert encoded([-0.0, -1e-9], dg.Bins([-1, 0, 1])) == [1, 0]


def test_text_is_matched_exactly():
    variable = dg.Categories(["a", "A", " a", "é", "e\u0301", "", "NA", "null", "1"], other="1")
    values = ["a", "A", " a", "é", "e\u0301", "", "NA", "null", "1", "b", "a "]
    assert encoded(values, variable) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8]


def test_csv_words_for_nulls_are_words_where_text_is_declared():
    variable = dg.Categories(["", "NA", "nan", "x"])
    assert encoded(["", "NA", "nan", "x"], variable, as_csv=True) == [0, 1, 2, 3]


def test_csv_words_for_nulls_are_nulls_where_numbers_are_declared(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('v\nNA\nNaN\nnan\n\n1\n 2 \n"1"\n1e0\n', encoding="utf-8")
    domain = dg.Domain.of({"v": dg.Categories([1, 2, 9], missing=9)})
    assert dg.statistics.encode(path, domain).columns["v"].tolist() == [
        2,
        2,
        2,
        2,
        0,
        1,
        0,
        0,
    ]  # an empty line is a null


def test_csv_booleans_are_read_in_any_case_and_nothing_else():
    values = ["True", "true", "FALSE", "false"]
    assert encoded(values, dg.Categories([False, True]), as_csv=True) == [1, 1, 0, 0]
    assert encoded(["1", "0", "1.0"], dg.Categories([False, True]), as_csv=True) == [1, 0, 1]
    for word in ("2", "yes", "T"):
        with pytest.raises(dg.errors.DomainError, match="holds values outside"):
            encoded([word], dg.Categories([False, True]), as_csv=True)


def test_csv_fields_with_commas_quotes_and_newlines():
    levels = ["a,b", 'say "x"', "two\nlines", "plain"]
    assert encoded(levels, dg.Categories(levels), as_csv=True) == [0, 1, 2, 3]


TEXT, NUMBER, FLAG, AGE = (
    dg.Categories(["a", "b"], "a", "a"),
    dg.Categories([0, 1], 0, 0),
    dg.Categories([True, False]),
    dg.Bins([0, 1], True),
)
WRONG = {
    "numbers for text": ([1, 2], TEXT, "int64"),
    "booleans for text": ([True], TEXT, "bool"),
    "bytes for text": ([b"a"], TEXT, "binary"),
    "booleans for numbers": ([True], dg.Categories([0, 1, 2], 0, 0), "bool"),
    "booleans for bins": ([True], AGE, "bool"),
    "dates for bins": ([datetime.date(2020, 1, 1)], AGE, "date32"),
    "times for bins": ([datetime.datetime(2020, 1, 1)], AGE, "timestamp"),
    "decimals for bins": ([decimal.Decimal("0.5")], AGE, "decimal128"),
    "lists for bins": ([[0]], AGE, "list"),
    "structs for bins": ([{"x": 0}], AGE, "struct"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("engine", ["pandas", "pyarrow", "dictionary"])
def test_a_column_of_the_wrong_type_is_refused_even_where_actions_are_declared(case, engine):
    values, variable, kind = WRONG[case]
    array = pa.array(values)
    if engine == "dictionary" and not (pa.types.is_nested(array.type) or pa.types.is_boolean(array.type)):
        array = array.dictionary_encode()  # the type of its values is named
    rows = pd.DataFrame({"v": pd.Series(values, dtype=object)}) if engine == "pandas" else pa.table({"v": array})
    with pytest.raises(
        dg.errors.DomainError, match=f"column 'v' is of type {kind}, which does not fit its declaration"
    ):
        dg.statistics.encode(rows, dg.Domain.of({"v": variable}))


@pytest.mark.parametrize(
    "values",
    [["a", 1], [1, "a"], [True, "a"], [1.5, "b"], [2**70], [1j], pytest.param([object()], id="[object()]")],
    ids=repr,
)
def test_a_pandas_column_of_mixed_kinds_is_refused(values):
    for variable in (TEXT, NUMBER, AGE):
        with pytest.raises(dg.errors.DomainError, match="column 'v'"):
            dg.statistics.encode(pd.DataFrame({"v": pd.Series(values, dtype=object)}), dg.Domain.of({"v": variable}))


def test_categories_that_no_row_has_do_not_matter():
    values = pd.Categorical(["red", None, "blue"], categories=["never", "blue", "red", "green", "nor this"])
    assert encoded(values, dg.Categories(COLORS, missing="green")) == [0, 1, 2]
    with pytest.raises(dg.errors.DomainError, match="holds values outside"):
        encoded(pd.Categorical(["red", "never"]), dg.Categories(COLORS))
    assert encoded(pd.Categorical([3, 1, 3]), dg.Bins([0, 2, 4])) == [1, 0, 1]
    assert encoded(pl.Series(["red"], dtype=pl.Enum(["blue", "red"])).to_arrow(), dg.Categories(COLORS)) == [0]


def test_nulls_inside_a_dictionary_are_nulls():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["red", None, "blue"]))
    assert encoded(values, dg.Categories(COLORS, missing="green")) == [0, 1, 1, 2]
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 2]), pa.array(["red", None, "blue"]))
    assert encoded(unused, dg.Categories(COLORS)) == [0, 2]


@given(variables().flatmap(lambda v: st.tuples(st.just(v), st.lists(fitting_values(v), max_size=10))))
def test_a_dictionary_encodes_as_its_values_do(case):
    variable, values = case
    array = pa.array(pd.Series(values, dtype=float if isinstance(variable, dg.Bins) else object), from_pandas=True)
    plain = encoded(array, variable)
    assert encoded(dictionary(pa.table({"v": array}))["v"], variable) == plain
    assert encoded(array.slice(3), variable) == plain[3:]


def test_an_untyped_column_is_all_null():
    for rows in (pa.table({"v": pa.nulls(2)}), pd.DataFrame({"v": [None, None]})):
        for variable in (TEXT, NUMBER, dg.Bins([0, 1], missing=True)):
            missing = position(variable, None)
            assert dg.statistics.encode(rows, dg.Domain.of({"v": variable})).columns["v"].tolist() == [missing, missing]
        with pytest.raises(dg.errors.DomainError, match="holds nulls"):
            dg.statistics.encode(rows, dg.Domain.of({"v": FLAG}))


def test_codes_serve_a_domain_they_were_made_for():
    domain = dg.Domain.of({"a": COLORS, "b": dg.Bins([0, 1, 2]), "c": [0, 1]})
    codes = dg.statistics.encode(pd.DataFrame({"a": ["blue", "red"], "b": [0.5, 9], "c": [1, 1]}), domain)
    part = dg.statistics.encode(codes, domain.restrict(["c", "a"]))
    assert isinstance(part, Codes)
    assert {name: column.tolist() for name, column in part.columns.items()} == {"c": [1, 1], "a": [2, 0]}
    for other in (
        {"a": COLORS[::-1]},
        {"b": dg.Bins([0, 1, 3])},
        {"a": dg.Categories(COLORS, other="red")},
        {"z": [0]},
    ):
        with pytest.raises(dg.errors.DomainError, match="the codes were made with another declaration"):
            dg.statistics.encode(codes, dg.Domain.of(other))


def test_a_message_lists_twelve_levels_at_most():
    with pytest.raises(dg.errors.DomainError, match=r"0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, \.\.\. \(5000 levels\)"):
        encoded([-1], dg.Categories(range(5000)))


DATES = pd.to_datetime(["2024-01-03", "2025-02-01"])


@pytest.mark.parametrize(
    "column",
    [DATES, DATES.tz_localize("UTC"), DATES.date, DATES.strftime("%Y-%m-%d"), DATES.strftime("%d/%m/%y")],
    ids=["timestamps", "of a zone", "dates", "text", "text of another form"],
)
def test_dates_where_bins_are_declared_say_how_to_make_numbers_of_them(column):
    rows, domain = pd.DataFrame({"day": column}), dg.Domain.of({"day": dg.Bins([2020, 2025, 2030])})
    with pytest.raises(dg.errors.DomainError, match=r"their year, pd.to_datetime\(column\).dt.year"):
        dg.statistics.encode(rows, domain)
    rows["day"] = pd.to_datetime(rows["day"], dayfirst=True, format="mixed").dt.year
    assert dg.statistics.encode(rows, domain).columns["day"].tolist() == [0, 1]


def test_the_days_since_a_public_day_are_numbers_of_dates():
    """The line that the refusal says, as it is typed."""
    with pytest.raises(dg.errors.DomainError) as told:
        encoded(DATES, dg.Bins([0, 1]))
    line = str(told.value).partition("a public day, ")[2].partition(", and bins")[0]
    for column in (pd.Series(DATES), pd.Series(DATES.date), pd.Series(DATES.strftime("%Y-%m-%d"))):
        days = eval(line, {"column": column, "pd": pd})
        assert encoded(days, dg.Bins([0, 1500, 3000])) == [0, 1]


@pytest.mark.parametrize(
    ("column", "levels", "words"),
    [
        ([False, True], ["no", "yes"], "declare the levels False, True, which are false, true in TOML"),
        ([False, True], [0, 1, 2], "make it numbers, astype"),
    ],
)
def test_booleans_that_are_declared_otherwise_say_which_levels_to_declare(column, levels, words):
    with pytest.raises(dg.errors.DomainError, match=words):
        encoded(column, dg.Categories(levels))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.to_timedelta([1, 2], unit="D"), "column.dt.days"),
        ([b"a", b"b"], "make it text, column.str.decode"),
        ([Decimal("1"), Decimal("2")], "make it numbers, astype"),
    ],
    ids=["durations", "bytes", "decimals"],
)
def test_a_column_of_another_type_says_what_to_make_of_it(column, words):
    with pytest.raises(dg.errors.DomainError, match=words):
        dg.count(pd.DataFrame({"a": column}), dg.Network.of({"a": [1, 2]}, {}))


@pytest.mark.parametrize(
    ("levels", "column", "words"),
    [
        (["01", "1"], [1, 1], r"leading zeros, which numbers lose: .*dtype={column: str}"),
        (["1", "1.0"], [1.0, 1.0], r"make it text, astype\(str\)"),
    ],
    ids=["leading zeros", "floats"],
)
def test_numbers_that_two_levels_spell_are_refused(levels, column, words):
    domain = {"a": dg.Categories([*levels, "other"], other="other")}
    with pytest.raises(dg.errors.DomainError, match=words):
        dg.count(pd.DataFrame({"a": column}), dg.Network.of(domain, {}))


@pytest.mark.parametrize("variable", [dg.Bins([0, 1]), dg.Categories([0, 1])], ids=["bins", "levels"])
def test_a_null_is_to_be_declared_before_its_row_is_left_out(variable):
    """Rejects "drop those rows yourself": how many rows are left is private, and replace tells it."""
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.statistics.encode(pd.DataFrame({"a": [0.0, math.nan]}), dg.Domain.of({"a": variable}))
    declared, left_out = str(caught.value).split("Without these rows n is private: ")
    assert "missing=" in declared
    assert left_out.startswith("leave them out under an add-remove unit only")
