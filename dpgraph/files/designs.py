"""Regression designs from files and as plain values: the variables of a domain file, some with bounds.

A variable is what it is in a network's file or, for a number, ``{ bounds = [low, high] }`` or
``{ bounds = [low, high], missing = ... }``. ``strict = true``, before the first table, is that of ``LinearDesign``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpgraph.files.networks import plain_variable, read_document, variable_of, with_source_name
from dpgraph.privacy.checks import check_boolean
from dpgraph.privacy.errors import FileError
from dpgraph.structure.design import Bounded, Feature, LinearDesign, OnMissing
from dpgraph.structure.domain import NetworkError


def read_design(
    source: str | Path,
    target: str,
    *,
    features: Iterable[str] | None = None,
    intercept: bool = True,
    on_missing: OnMissing = "error",
    mean_weight: int | None = None,
) -> LinearDesign:
    r"""Reads the design of a regression from the ``[variables]`` of a TOML or JSON file.

    Args:
        source: The file: ``sex = ["F", "M"]``, ``age = { bounds = [18, 90] }``, ``{ bounds = [0, 10], missing = 0 }``.
        target: The variable that is predicted, which has bounds.
        features: Which variables predict it, in order; by default all others.
        intercept: As in ``LinearDesign``.
        on_missing: As in ``LinearDesign``.
        mean_weight: As in ``LinearDesign``.

    Raises:
        FileError: If the file cannot be read or is not valid, or a variable is not in it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "wages.toml"
    >>> _ = path.write_text('[variables]\nage = { bounds = [18, 90] }\nwage = { bounds = [0, 10], missing = 0 }')
    >>> read_design(path, "wage").names
    ('intercept*age', 'intercept*wage', 'age*age', 'age*wage', 'wage*wage')
    """
    document = read_document(Path(source))
    variables, strict = document.get("variables"), document.get("strict", False)
    wanted = None if features is None else list(features)

    def read() -> LinearDesign:
        declared = _declared(variables)
        for name in [target, *(wanted or [])]:
            if name not in declared:
                raise FileError(f"there is no variable {name!r}; there are {', '.join(declared)}")
        bounds = declared[target]
        if not isinstance(bounds, Bounded):
            raise FileError(f"the target {target!r} needs bounds = [low, high], not levels")
        chosen = [name for name in declared if name != target] if wanted is None else wanted
        return LinearDesign(
            {name: declared[name] for name in chosen}, target, bounds, intercept, on_missing, mean_weight, strict
        )

    return with_source_name(source, read)


def plain_design(design: LinearDesign) -> dict[str, Any]:
    """A design as plain values; features are in order."""
    features = [{"name": name, "variable": _plain(feature)} for name, feature in design.features.items()]
    settings: dict[str, Any] = {"intercept": design.intercept, "on_missing": design.on_missing}
    settings |= {"mean_weight": design.mean_weight} | ({"strict": True} if design.strict else {})
    return {"features": features, "target": design.target, "bounds": _plain(design.bounds), **settings}


def design_of(plain: dict[str, Any]) -> LinearDesign:
    """The inverse of ``plain_design``."""
    if set(plain) - {"strict"} != {"features", "target", "bounds", "intercept", "on_missing", "mean_weight"}:
        raise FileError("the design of a regression is not whole, or holds more than one")
    names = [entry["name"] for entry in plain["features"]]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise FileError("the features of a design are not different names")
    check_boolean("intercept", plain["intercept"], error=FileError)
    declared = _declared({entry["name"]: entry["variable"] for entry in plain["features"]})
    bounds = _declared({plain["target"]: plain["bounds"]})[plain["target"]]
    if not isinstance(bounds, Bounded):
        raise FileError("the target of a design needs bounds")
    settings = (plain["intercept"], plain["on_missing"], plain["mean_weight"], plain.get("strict", False))
    return LinearDesign(declared, plain["target"], bounds, *settings)


def _declared(variables: Any) -> dict[str, Feature]:
    """Variables from their plain form."""
    if not isinstance(variables, dict) or not variables:
        raise FileError("there is no table of variables")
    return {name: _variable(name, plain) for name, plain in variables.items()}


def _variable(name: str, plain: Any) -> Feature:
    """A variable with levels, bins or bounds from its plain form."""
    if not isinstance(plain, dict) or "bounds" not in plain:
        return variable_of(name, plain)
    if set(plain) - {"bounds", "missing"}:
        unknown = sorted(set(plain) - {"bounds", "missing"})
        raise FileError(f"variable {name!r} has unknown settings {unknown}; known: ['bounds', 'missing']")
    bounds = plain["bounds"]
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise FileError(f"variable {name!r}: bounds are a list of two numbers, [low, high]")
    try:
        return Bounded(bounds[0], bounds[1], plain.get("missing"))
    except NetworkError as error:
        raise FileError(f"variable {name!r}: {error}") from None


def _plain(variable: Feature) -> Any:
    """The inverse of ``_variable``."""
    if not isinstance(variable, Bounded):
        return plain_variable(variable)
    return {"bounds": [variable.low, variable.high]} | (
        {} if variable.missing is None else {"missing": variable.missing}
    )
