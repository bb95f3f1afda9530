"""Networks, domains and regression designs from files: TOML and JSON as docs/reference/commands.md says, and BIF.

A variable is a list of levels, ``{ levels = [...], other = ..., missing = ... }``, ``{ bins = [...], missing = true }``
or, in a design, ``{ bounds = [low, high], missing = ... }``. ``strict = true``, before the first table, is that of
``Domain.of``.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dpgraph.files import datasets
from dpgraph.files.digest import unsealed
from dpgraph.files.limits import MAX_DOCUMENT_BYTES, MAX_NETWORK_BYTES, MAX_TOML_BYTES, excerpt, read_text, shortened
from dpgraph.files.schemas import domain_of_schema, is_schema
from dpgraph.privacy.checks import check_boolean, near
from dpgraph.privacy.errors import DPGraphError, FileError
from dpgraph.privacy.structural import FORMS, Form
from dpgraph.privacy.structural import value_of as structural_value
from dpgraph.structure.design import Bounded, Feature, LinearDesign
from dpgraph.structure.domain import (
    UNOBSERVED,
    Bins,
    Categories,
    Domain,
    DomainWarning,
    NetworkError,
    Numbers,
    Partial,
    Words,
    first_twice,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network, Rules

EXAMPLE = "example:"
#: The keys of a network's file.
KEYS = ("variables", "strict", "parents", "rules", "tables", "shares")
#: What values raise that are not what a file of this kind holds.
NOT_WHOLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
#: The most parts of a TOML key.
MAX_KEY_PARTS = 16
_PART = r"""(?:(?<![\w-])[A-Za-z0-9_-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def read_network(source: str | Path) -> Network:
    """Reads a network.

    Args:
        source: A ``.toml``, ``.json``, or ``.bif`` file, or ``"example:alarm"`` for one of the networks
            that pgmpy bundles, or ``"example:anes96"`` for the declaration of a data set of ``dg.datasets``.
            Of a JSON file that ``save`` wrote, such as a release, the network in it.

    Raises:
        FileError: If the file cannot be read, is cut short, or does not describe a network.

    >>> read_network("example:asia")
    Network(8 variables, 8 arcs, 36 cells)
    """
    text_source = str(source := _located(source))
    if text_source.startswith(EXAMPLE) or text_source.lower().endswith(".bif"):
        return read_probabilities(source).network
    document = _public_part(source, read_document(Path(source)))
    if not isinstance(document.get("parents"), dict):
        raise FileError(
            f"{source} has no [parents] table; a network names each variable's parents, [] for none. Of variables "
            "alone `dpgraph cost --target` prices a naive Bayes classifier, and `dpgraph learn` finds parents"
        )
    return with_source_name(source, lambda: network_of(document))


def read_domain(source: str | Path) -> Domain:
    """Reads the variables of a TOML or JSON file, whether or not it has parents, or the domain of any network.

    Also a schema as JSON: JSON Schema, a Frictionless table schema or data package, and pandera's ``to_json``. Of these
    the columns that list their values, and booleans; text that may be null gets a level ``"missing"``.

    Args:
        source: The file, or an example, as for ``read_network``.

    Raises:
        FileError: If the file cannot be read, or declares no variable.

    Warns:
        DomainWarning: Naming the columns of a schema that are not read, and why.
    """
    source = _located(source)
    if str(source).startswith(EXAMPLE) or str(source).lower().endswith(".bif"):
        return read_network(source).domain
    document = read_document(Path(source))
    if is_schema(document):
        domain, unread = with_source_name(source, lambda: domain_of_schema(document))
        if unread:
            warnings.warn(f"{source}: {unread}", DomainWarning, stacklevel=2)
        return domain
    document = _public_part(source, document)
    return with_source_name(source, lambda: domain_of(document.get("variables"), document.get("strict", False)))


def read_declaration(source: str | Path) -> tuple[dict[str, Partial], bool]:
    r"""Reads variables, of which some are to be found by ``dg.discover``, and whether the domain is to be strict.

    Raises:
        FileError: If the file cannot be read, or does not describe variables.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "open.toml"
    >>> text = '[variables]\nage = { numbers = [0, 120] }\njob = { words = true, missing = true }'
    >>> _ = path.write_text(text)
    >>> read_declaration(path)[0]["job"]
    Words(possible=None, missing=True)
    """
    document = _public_part(source, read_document(Path(source)))
    variables, strict = document.get("variables"), document.get("strict", False)

    def read() -> tuple[dict[str, Partial], bool]:
        if not isinstance(variables, dict) or not variables:
            raise FileError("there is no table of variables")
        sought = {name: _sought_of(name, one) for name, one in variables.items()}
        known = {name: variables[name] for name, one in sought.items() if one is None}
        declared = domain_of(known).variables if known else {}
        return {name: one or declared[name] for name, one in sought.items()}, strict

    return with_source_name(source, read)


def _sought_of(name: str, plain: Any) -> Numbers | Words | None:
    """A variable that is to be found, from its plain form; None for one that is declared."""
    kind = next((kind for kind in ("numbers", "words") if isinstance(plain, dict) and kind in plain), None)
    if kind is None:
        return None
    known = {kind, "missing", *(["about"] if kind == "numbers" else [])}
    if unknown := sorted(set(plain) - known):
        raise FileError(
            f"variable {name!r} has unknown settings {unknown}{near(unknown[0], known)}; known: {sorted(known)}"
        )
    value, missing = plain[kind], plain.get("missing", False)
    try:
        if kind == "words" and (value is True or isinstance(value, list)):
            return Words(None if value is True else value, missing)
        if kind == "numbers" and isinstance(value, list) and len(value) == 2:
            return Numbers(*value, missing=missing, bins=plain.get("about"))
    except NetworkError as error:
        raise FileError(f"variable {name!r}: {error}") from None
    wanted = "words are true, or a list of all that may occur" if kind == "words" else "numbers are [low, high]"
    raise FileError(f"variable {name!r}: {wanted}")


def _located(source: str | Path) -> str | Path:
    """The declaration that the package ships of a data set named as an example; any other source as it is."""
    shipped = {f"{EXAMPLE}{name}": datasets.FOLDER / f"{name}.toml" for name in datasets.NAMES}
    return shipped.get(str(source), source)


def read_probabilities(source: str | Path) -> Any:
    """Reads a network with its probabilities from BIF or an example."""
    from dpgraph.files.bif import read_bif

    text_source = str(source := _located(source))
    if text_source.startswith(EXAMPLE):
        from dpgraph.files.pgmpy import example

        return example(text_source.removeprefix(EXAMPLE))
    if (suffix := Path(source).suffix.lower()) in (".toml", ".json"):
        raise FileError(
            f"{excerpt(text_source)}: a {suffix} file of a network holds no probabilities; give a .bif or example:NAME"
        )
    text = read_text(Path(source), MAX_NETWORK_BYTES)
    return with_source_name(source, lambda: read_bif(text))


def read_document(path: Path) -> dict[str, Any]:
    """A TOML or JSON file as plain values; nothing in it is executed."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise FileError(f"{path}: the name must end in .toml, .json or .bif")
    text = read_text(path, MAX_TOML_BYTES if suffix == ".toml" else MAX_DOCUMENT_BYTES)
    try:
        document = parse_toml(text) if suffix == ".toml" else parse_json(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError | FileError) else type(error).__name__
        cause = "is it truncated? Names and texts stand in quotes" if suffix == ".toml" else "is it truncated?"
        raise FileError(f"{path} cannot be parsed; {cause} ({shortened(reason)})") from None
    if not isinstance(document, dict):
        raise FileError(f"{path} does not hold a table of variables")
    return document


def parse_toml(text: str) -> dict[str, Any]:
    """TOML whose keys have few parts: tomllib takes time by their square."""
    if _LONG_KEY.search(text):
        raise FileError(f"more than {MAX_KEY_PARTS} words joined by dots; a key here has one or two")
    return tomllib.loads(text)


def parse_json(text: str) -> Any:
    """JSON in which no key is repeated and no number is infinite or NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise FileError(f"the key {excerpt(str(first_twice(key for key, _ in pairs)))} is there twice")
        return found

    def constant(name: str) -> Any:
        raise FileError(f"{name} is not a number")

    def finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise FileError(f"{excerpt(text)} is not a number that a computer holds")
        return number

    return json.loads(text, object_pairs_hook=unique, parse_constant=constant, parse_float=finite)


def _public_part(source: str | Path, document: dict[str, Any]) -> dict[str, Any]:
    """The network in a file that ``documents.save`` wrote, after checking its digest; else the document itself."""
    inside = document.get("network")
    if "format" not in document and (unknown := sorted(set(document).difference(KEYS))):
        # a misspelt ``strict`` would declare less than its author meant
        words = f"unknown key {excerpt(unknown[0])}{near(unknown[0], KEYS)}; known: {', '.join(KEYS)}"
        raise FileError(f"{source}: {words}")
    if "format" not in document or not isinstance(inside, dict):
        return document
    with_source_name(source, lambda: unsealed(document))
    return inside


def network_of(document: dict[str, Any]) -> Network:
    """A network from its plain form."""
    domain = domain_of(document.get("variables"), document.get("strict", False))
    if "tables" not in document:
        rules, known = document.get("rules", {}), {"impossible", "determines", "order", "sums", "broken"}
        if not isinstance(rules, dict) or set(rules) - known:
            raise FileError(f"rules are a table of {', '.join(sorted(known))}")
        return Network.of(domain, document.get("parents"), Rules(**rules))  # type: ignore[arg-type]
    if document.get("rules"):
        raise FileError("tables to be measured have no rules")
    tables, shares = document["tables"], document.get("shares", [])
    if any((document.get("parents") or {}).values()):
        raise FileError("tables to be measured have no parents")
    if not isinstance(shares, list):
        raise FileError("shares are a list of whole numbers")
    return Margins.of_tables(domain, structural_value(tables, tuple[tuple[str, ...], ...], "tables"), shares)


def domain_of(variables: Any, strict: Any = False) -> Domain:
    """A domain from its plain form."""
    declared = _declared(variables)
    if bounded := [name for name, variable in declared.items() if isinstance(variable, Bounded)]:
        raise FileError(
            f"variable {bounded[0]!r} has bounds, as in a regression (dg.read_design); in a network it needs levels or "
            "bins"
        )
    return Domain.of(declared, strict=strict)  # type: ignore[arg-type]


def _declared(variables: Any) -> dict[str, Feature]:
    if not isinstance(variables, dict) or not variables:
        raise FileError("there is no table of variables")
    return {name: _variable_of(name, plain) for name, plain in variables.items()}


def plain_network(network: Network) -> dict[str, Any]:
    """The inverse of ``network_of``."""
    domain = network.domain
    plain: dict[str, Any] = {"strict": True} if domain.strict else {}
    plain["variables"] = {name: _plain_variable(domain[name]) for name in domain.names}
    plain["parents"] = {name: list(above) for name, above in network.parents.items()}
    if rules := network.rules:
        told = [{name: list(levels) for name, levels in rule.items()} for rule in rules.impossible]
        plain["rules"] = {"impossible": told} | ({} if rules.broken == "refuse" else {"broken": rules.broken})
    if isinstance(network, Margins):
        plain |= {"tables": [list(table) for table in network.tables], "shares": list(network.shares)}
    return plain


def domain_toml(domain: Domain, remarks: Iterable[str] = ()) -> str:
    """A domain as TOML that ``read_domain`` reads, after remarks of a line each."""
    lines = [f"# {re.sub(r'[^ -~]', '?', remark)}" for remark in remarks]
    lines += ["strict = true", ""] if domain.strict else []
    return "\n".join([*lines, *_variable_lines({name: _plain_variable(domain[name]) for name in domain.names}), ""])


def _variable_lines(plain: dict[str, Any]) -> list[str]:
    return ["[variables]", *(f"{_toml(name)} = {_toml(declared)}" for name, declared in plain.items())]


def toml_of(network: Network) -> str:
    """A network as TOML that ``read_network`` reads: variables, then parents.

    >>> print(toml_of(Network.of({"rain": ["no", "yes"], "wet": [0, 1]}, {"wet": ["rain"]})))
    [variables]
    "rain" = ["no", "yes"]
    "wet" = [0, 1]
    <BLANKLINE>
    [parents]
    "rain" = []
    "wet" = ["rain"]
    <BLANKLINE>
    """
    plain = plain_network(network)
    lines = ["strict = true", ""] if plain.get("strict") else []
    if "tables" in plain:
        lines += [f"tables = {_toml(plain['tables'])}", f"shares = {_toml(plain['shares'])}", ""]
    lines += _variable_lines(plain["variables"])
    lines += ["", "[parents]", *(f"{_toml(name)} = {_toml(above)}" for name, above in plain["parents"].items()), ""]
    if "rules" in plain:
        lines += ["[rules]", *(f"{name} = {_toml(value)}" for name, value in plain["rules"].items()), ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """A plain value as TOML on one line; its texts are those of JSON but for DEL, which TOML escapes too."""
    if isinstance(value, dict):
        if list(value) == ["levels"]:
            return _toml(value["levels"])
        return "{ " + ", ".join(f"{_key(name)} = {_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _key(name: str) -> str:
    """A key of TOML, in quotes where it is not a plain word."""
    return name if re.fullmatch("[A-Za-z_]+", name) else _toml(name)


def _variable_of(name: str, plain: Any) -> Feature:
    plain = {"levels": plain} if isinstance(plain, list) else plain
    kinds = [kind for kind in ("bounds", "bins", "levels") if isinstance(plain, dict) and kind in plain]
    if kinds[:1] != ["bounds"] and len(kinds) != 1:
        sought = isinstance(plain, dict) and ("numbers" in plain or "words" in plain)
        hint = "; numbers and words are found by `dpgraph discover`" if sought else ""
        raise FileError(f"variable {name!r} needs a list of levels, {{levels = [...]}} or {{bins = [...]}}{hint}")
    kind, values = kinds[0], plain[kinds[0]]
    own = {"levels": ["other"], "bins": ["outside", "whole"]}
    known = {kind, "missing", *([*own[kind], "unobserved", "filled"] if kind in own else [])}
    if unknown := sorted(set(plain) - known):
        hint = near(unknown[0], known)
        raise FileError(f"variable {name!r} has unknown settings {unknown}{hint}; known: {sorted(known)}")
    if not isinstance(values, list) or (kind == "bounds" and len(values) != 2):
        wanted = "bounds are a list of two numbers, [low, high]" if kind == "bounds" else "levels and bins are lists"
        raise FileError(f"variable {name!r}: {wanted}")
    try:
        if (filled := plain.get("filled")) is not None:  # of the people behind a release
            rest = {key: value for key, value in plain.items() if key != "filled"}
            variable = _variable_of(name, rest | {"missing": filled, "unobserved": True})
            return variable.complete if not isinstance(variable, Bounded) else variable
        missing = _missing_of(plain, values)
        if kind == "bins":
            return Bins(values, missing or False, plain.get("outside", "ends"), plain.get("whole"))
        return (
            Bounded(values[0], values[1], missing)
            if kind == "bounds"
            else Categories(values, plain.get("other"), missing)
        )
    except NetworkError as error:
        raise FileError(f"variable {name!r}: {error}") from None


def _missing_of(plain: Mapping[str, Any], values: list[Any]) -> Any:
    """The setting ``missing`` of a variable: ``"unobserved"`` where that is no level, or a level of unobserved ones."""
    missing: Any = plain.get("missing")
    unobserved = plain.get("unobserved", False)
    check_boolean("unobserved", unobserved, error=NetworkError)
    if "bounds" not in plain and missing == "unobserved" and missing not in values:
        return UNOBSERVED
    if unobserved and missing in (None, False):
        raise NetworkError('unobserved = true says of which level: missing = "?", or of bins missing = true')
    return (UNOBSERVED if missing is True else UNOBSERVED(missing)) if unobserved else missing


def _plain_variable(variable: Feature) -> dict[str, Any]:
    """The inverse of ``_variable_of``; settings at their defaults are left out."""
    match variable:
        case Bounded():
            plain: dict[str, Any] = {"bounds": [variable.low, variable.high]}
        case Bins():
            plain = {"bins": list(variable.edges)}
        case _:
            plain = {"levels": list(variable.levels)}
    none = False if isinstance(variable, Bins) else None
    defaults = {"other": None, "missing": none, "filled": none, "unobserved": False, "outside": "ends"}
    defaults["whole"] = getattr(variable, "whole_edges", None)
    settings = {name: getattr(variable, name, default) for name, default in defaults.items()}
    return plain | {name: value for name, value in settings.items() if value != defaults[name]}


def _with_bounds(name: str, variable: Feature) -> Bounded:
    if not isinstance(variable, Bounded):
        raise FileError(f"the target {name!r} needs bounds = [low, high], not levels")
    return variable


def read_design(
    source: str | Path, target: str, *, features: Iterable[str] | None = None, **settings: Any
) -> LinearDesign:
    r"""Reads the design of a regression from the ``[variables]`` of a TOML or JSON file.

    Args:
        source: The file: ``sex = ["F", "M"]``, ``age = { bounds = [18, 90] }``, ``{ bounds = [0, 10], missing = 0 }``.
        target: The variable that is predicted, which has bounds.
        features: The variables that predict it, in order; by default all others.
        settings: ``intercept``, ``on_missing`` and ``mean_weight``, as in ``LinearDesign``.

    Raises:
        FileError: If the file cannot be read or is not valid, or a variable is not in it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "wages.toml"
    >>> _ = path.write_text('[variables]\nage = { bounds = [18, 90] }\nwage = { bounds = [0, 10], missing = 0 }')
    >>> read_design(path, "wage").names
    ('intercept*age', 'intercept*wage', 'age*age', 'age*wage', 'wage*wage')
    """
    document = _public_part(source, read_document(Path(source)))
    variables, strict = document.get("variables"), document.get("strict", False)
    wanted = None if features is None else list(features)

    def read() -> LinearDesign:
        declared = _declared(variables)
        for name in [target, *(wanted or [])]:
            if name not in declared:
                raise FileError(f"there is no variable {name!r}{near(name, declared)}; there are {', '.join(declared)}")
        bounds = _with_bounds(target, declared[target])
        chosen = [name for name in declared if name != target] if wanted is None else wanted
        return LinearDesign({name: declared[name] for name in chosen}, target, bounds, strict=strict, **settings)

    return with_source_name(source, read)


def _features_of(plain: Any, place: str) -> FrozenMap[str, Feature]:
    names = [entry["name"] for entry in plain]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise FileError("the features of a design are not different names")
    return FrozenMap(_declared({entry["name"]: entry["variable"] for entry in plain}))


FORMS[Bounded] = Form(_plain_variable, lambda plain, place: _with_bounds(place, _variable_of(place, plain)))
FORMS[FrozenMap[str, Feature]] = Form(
    lambda features: [{"name": name, "variable": _plain_variable(one)} for name, one in features.items()], _features_of
)


def with_source_name(source: str | Path, read: Callable[[], Any]) -> Any:
    """The result of reading a file."""
    try:
        return read()
    except DPGraphError as error:
        raise FileError(f"{source}: {shortened(str(error))}") from None
    except NOT_WHOLE as error:
        raise FileError(f"{source} is not a whole file; is it truncated? ({type(error).__name__})") from None
