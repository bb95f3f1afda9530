"""Domains from JSON Schema, Frictionless and pandera files: what fits is read, what does not is named."""

import json
import re
import warnings

import pandas as pd
import pytest
from hypothesis import given

import dpgraph as dg
from tests.strategies import categories

JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {"$ref": "#/$defs/person"},
    "$defs": {
        "sex": {"enum": ["F", "M"], "type": "string"},
        "person": {
            "type": "object",
            "required": ["sex", "grade", "works", "income", "kind", "born"],
            "properties": {
                "sex": {"$ref": "#/$defs/sex"},
                "area": {"anyOf": [{"$ref": "#/$defs/sex"}, {"type": "null"}]},
                "grade": {"type": "integer", "enum": [1, 2, 3]},
                "works": {"type": "boolean"},
                "kind": {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]},
                "owns": {"type": ["boolean", "null"]},
                "income": {"type": "number", "minimum": 0, "maximum": 90000.5},
                "born": {"type": "string", "format": "date"},
                "mixed": {"enum": ["x", 1]},
                "lists": {"enum": [[1], [2]]},
            },
        },
    },
}
TABLE = {
    "missingValues": ["", "NA"],
    "fields": [
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"], "required": True}},
        {"name": "area", "categories": [{"value": "N", "label": "North"}, {"value": "missing"}]},
        {"name": "grade", "type": "integer", "constraints": {"enum": ["1", "2", "-3"], "required": True}},
        {"name": "works", "type": "boolean", "constraints": {"required": True}},
        {"name": "owns", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        {"name": "age", "type": "integer", "constraints": {"minimum": 18}},
        {"name": "half", "type": "number", "constraints": {"enum": ["0.5", "one"]}},
    ],
}
PANDERA = {
    "schema_type": "dataframe",
    "version": "0.24.0",
    "columns": {
        "sex": {"dtype": "str", "nullable": True, "checks": {"isin": ["F", "M"]}},
        "grade": {"dtype": "int64", "checks": [{"value": [1, 2], "options": {"check_name": "isin"}}]},
        "area": {"dtype": "category", "checks": {"isin": {"value": ["N"], "options": {"raise_warning": False}}}},
        "works": {"dtype": "bool", "nullable": False, "checks": None},
        "age": {"dtype": "int64", "checks": {"in_range": {"min_value": 18, "max_value": 90}}},
        "pay": {"dtype": "float64", "checks": {"greater_than_or_equal_to": 0}},
    },
    "checks": None,
    "index": None,
}


@pytest.fixture
def read(tmp_path):
    """Reads a document, and gives the domain and the warning's text."""

    def found(document):
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(document))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            domain = dg.read_domain(path)
        assert all(one.category is dg.errors.DomainWarning and one.filename == __file__ for one in said)
        return domain, " ".join(str(one.message) for one in said)

    return found


def test_a_json_schema_gives_its_listed_values_and_booleans(read):
    domain, said = read(JSON_SCHEMA)
    assert dict(domain.variables) == {
        "sex": dg.Categories(["F", "M"]),
        "area": dg.Categories(["F", "M", "missing"], missing="missing"),
        "grade": dg.Categories([1, 2, 3]),
        "works": dg.Categories([False, True]),
        "kind": dg.Categories(["a", "b"]),
        "owns": dg.Categories([False, True]),
    }
    assert "'income' (numbers), 'born' ('string' without a list of values), 'mixed' (levels must" in said
    assert "'lists' (values that are no levels). Numbers need edges and words a list: dg.Domain.of({**domain" in said
    assert said.endswith("rows with nulls are refused in 'owns': its levels are no text")
    wider = dg.Domain.of({**domain.variables, "income": dg.Bins([0, 1000, 90000.5])})
    assert wider.names[-1] == "income"


def test_a_table_schema_gives_its_enumerations_and_categories(read):
    domain, said = read(TABLE)
    assert dict(domain.variables) == {
        "sex": dg.Categories(["F", "M"]),
        "area": dg.Categories(["N", "missing"], missing="missing"),
        "grade": dg.Categories([1, 2, -3]),
        "works": dg.Categories([False, True]),
        "owns": dg.Categories(["no", "yes", "missing"], missing="missing"),
    }
    assert "'age' (numbers), 'half' (values that are no levels)" in said


def test_a_package_is_read_if_it_has_one_table(read):
    one = {"name": "people", "path": "people.csv", "schema": TABLE}
    assert read({"resources": [{"name": "notes", "path": "a.md"}, one]}) == read(TABLE)
    for many in ([], [one, one]):
        with pytest.raises(dg.errors.FileError, match=f"{len(many)} tables with fields"):
            read({"resources": many})


def test_a_pandera_schema_gives_what_isin_lists_in_each_form(read):
    domain, said = read(PANDERA)
    assert dict(domain.variables) == {
        "sex": dg.Categories(["F", "M", "missing"], missing="missing"),
        "grade": dg.Categories([1, 2]),
        "area": dg.Categories(["N"]),
        "works": dg.Categories([False, True]),
    }
    assert "'age' (numbers), 'pay' (numbers)" in said


@given(categories("text") | categories("number") | categories("boolean"))
def test_listed_values_are_the_levels(tmp_path_factory, declared):
    """Each kind of schema gives the same levels in the same order, and no warning where all is required."""
    levels = list(declared.levels)
    schemas = [
        {"properties": {"x": {"enum": levels}}, "required": ["x"]},
        {"fields": [{"name": "x", "type": "any", "constraints": {"enum": levels, "required": True}}]},
        {"columns": {"x": {"dtype": "object", "checks": {"isin": levels}}}},
    ]
    path = tmp_path_factory.mktemp("schema") / "schema.json"
    for schema in schemas:
        path.write_text(json.dumps(schema))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dg.read_domain(path) == dg.Domain.of({"x": dg.Categories(levels)})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"properties": {"age": {"type": "integer", "minimum": 0}}}, "values of no column: 'age' (numbers)"),
        ({"properties": {f"v{i}": {"type": "date"} for i in range(99)}}, "and 87 more"),
        ({"fields": [{"name": "a", "type": "boolean"}] * 2}, "not different names"),
        ({"fields": [{"name": 5, "type": "boolean"}]}, "not different names"),
        ({"fields": [{"type": "boolean"}]}, "not a whole file"),
        ({"fields": 3}, "not a whole file"),
        ({"columns": {"a": []}}, "not a whole file"),
        ({"$ref": "#"}, "more than 8 references"),
        ({"$ref": "other.json#/a"}, "refers to another file"),
        ({"$ref": "#/nowhere", "properties": {}}, "not a whole file"),
        ({"properties": {}}, "values of no column"),
        ({"properties": {"a": {"enum": [None]}}}, "'a' (the level list is empty"),
        ({"variables": {"a": [1]}, "fields": []}, "unknown key 'fields'"),
    ],
)
def test_a_schema_without_levels_or_order_is_refused(document, message, read):
    with pytest.raises(dg.errors.FileError, match=re.escape(message)):
        read(document)


def test_rows_of_the_table_are_counted_under_its_domain(read):
    domain, _ = read(TABLE)
    rows = pd.DataFrame({"sex": ["F", "M"], "area": [None, "N"], "grade": [1, -3], "works": [True, False]})
    counts = dg.statistics.encode(rows.assign(owns=["yes", None]), domain).columns
    assert {name: column.tolist() for name, column in counts.items()} == {
        "sex": [0, 1], "area": [1, 0], "grade": [0, 2], "works": [1, 0], "owns": [1, 2],
    }  # fmt: skip
