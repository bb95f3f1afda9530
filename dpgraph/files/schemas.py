"""Domains from schemas that others keep: JSON Schema, a Frictionless table or package, and pandera's ``to_json``.

Listed values and booleans become levels. A column without such a list is named in a warning, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from dpgraph.files.limits import excerpt, shortened
from dpgraph.privacy.errors import FileError
from dpgraph.structure.domain import Categories, Domain, NetworkError

#: How many references are followed one after the other.
MOST_STEPS = 8
#: The most columns that a message names.
MOST_NAMED = 12
#: The key by which a schema is known: of JSON Schema three, of Frictionless two, of pandera one.
KEYS = ("properties", "items", "$ref", "fields", "resources", "columns")
_NUMBERS = ("int", "uint", "float", "number", "year", "decimal")


class _Column(NamedTuple):
    """A column of a schema: its type in words, listed values, and whether nulls may be."""

    kind: str
    values: Any
    nullable: bool


def is_schema(document: dict[str, Any]) -> bool:
    """True for a document that is no declaration of ours and has a schema's key."""
    return "variables" not in document and "format" not in document and any(key in document for key in KEYS)


def domain_of_schema(document: dict[str, Any]) -> tuple[Domain, str]:
    """The columns whose levels a schema lists, and the warnings about the others.

    >>> domain_of_schema({"fields": [{"name": "ok", "type": "boolean", "constraints": {"required": True}}]})
    (Domain(ok: 2), '')
    """
    read = _package if "fields" in document or "resources" in document else _pandera
    columns = (_json_schema if any(key in document for key in KEYS[:3]) else read)(document)
    variables: dict[str, Categories] = {}
    unread, refused = list[str](), list[str]()
    for name, column in columns:
        if not isinstance(name, str) or name in variables:
            raise FileError("the columns of the schema are not different names")
        numeric = column.kind.lower().startswith(_NUMBERS)
        values = [False, True] if column.values is None and column.kind.startswith("bool") else column.values
        try:
            if values is None:
                raise NetworkError("numbers" if numeric else f"{excerpt(column.kind)} without a list of values")
            levels: list[Any] = [value for value in values if value is not None]
            words = bool(levels) and all(isinstance(level, str) for level in levels)
            if words and numeric:  # as a schema of a CSV file has them
                levels, words = [json.loads(level) for level in levels], False
            missing = ["missing"] if column.nullable and words else []
            variables[name] = Categories(dict.fromkeys([*levels, *missing]), None, *missing)
            refused += [excerpt(name)] if column.nullable and not words else []
        except NetworkError as error:
            unread.append(f"{excerpt(name)} ({shortened(str(error))})")
        except (TypeError, ValueError):
            unread.append(f"{excerpt(name)} (values that are no levels)")
    if not variables:
        raise FileError(f"the schema lists the values of no column: {_several(unread)}")
    said = []
    if unread:
        said.append(
            f"not read: {_several(unread)}. Numbers need edges and words a list: "
            "dg.Domain.of({**domain.variables, name: dg.Bins([...])})"
        )
    if refused:
        said.append(f"rows with nulls are refused in {_several(refused)}: its levels are no text")
    return Domain.of(variables), "; ".join(said)


def _several(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _json_schema(document: dict[str, Any]) -> Iterator[tuple[Any, _Column]]:
    def resolved(node: Any) -> dict[str, Any]:
        for _ in range(MOST_STEPS):
            if "$ref" not in node:
                return node
            start, *path = node["$ref"].split("/")
            if start != "#":
                raise FileError("the schema refers to another file; put its definitions into this one")
            node = document
            for step in path:
                node = node[step.replace("~1", "/").replace("~0", "~")]
        raise FileError(f"the schema has more than {MOST_STEPS} references one after the other")

    table = resolved(document)
    table = resolved(table["items"]) if "items" in table else table
    for name, node in table["properties"].items():
        plain, null = resolved(node), name not in table.get("required", [])
        parts = [resolved(part) for part in plain.get("anyOf", plain.get("oneOf", []))]
        if parts and all("const" in part for part in parts):
            plain = {"enum": [part["const"] for part in parts]}
        elif len(others := [part for part in parts if part.get("type") != "null"]) == 1:
            plain, null = plain | others[0], null or len(parts) > 1
        kinds = plain.get("type", "value")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        kind = " or ".join(one for one in kinds if one != "null")
        values = [plain["const"]] if "const" in plain else plain.get("enum")
        null = null or "null" in kinds or (values is not None and None in values)
        yield name, _Column(kind, values, null)


def _package(document: dict[str, Any]) -> Iterator[tuple[Any, _Column]]:
    if "resources" in document:
        tables = [one["schema"] for one in document["resources"] if "fields" in one.get("schema", {})]
        if len(tables) != 1:
            raise FileError(f"the package has {len(tables)} tables with fields; give a file of one table's schema")
        document = tables[0]
    for field in document["fields"]:
        kind, limits = field.get("type", "string"), field.get("constraints", {})
        values = limits.get("enum", field.get("categories"))
        if values is not None:
            values = [one["value"] if isinstance(one, dict) else one for one in values]
        elif kind == "boolean" and ("trueValues" in field or "falseValues" in field):
            words = [*field.get("falseValues", ["false"]), *field.get("trueValues", ["true"])]
            kind, values = ("string", words) if len(words) == 2 else ("boolean of several spellings", None)
        yield field["name"], _Column(kind, values, not limits.get("required", False))


def _pandera(document: dict[str, Any]) -> Iterator[tuple[Any, _Column]]:
    for name, column in document["columns"].items():
        checks = column.get("checks") or {}
        if isinstance(checks, list):
            checks = {check["options"]["check_name"]: check for check in checks}
        listed = checks.get("isin")
        listed = listed["value"] if isinstance(listed, dict) else listed
        yield name, _Column(str(column.get("dtype")), listed, column.get("nullable", False))
