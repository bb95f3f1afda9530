"""Releases of noisy moments as plain forms: the family by name or the design of a regression, and the integers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dpgraph.files.arrays import integers_of
from dpgraph.files.designs import design_of, plain_design
from dpgraph.files.plain import law_of, plain_law, whole
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.structure.design import RESOLUTION, LinearDesign
from dpgraph.structure.expfam import Binomial, Exponential, ExponentialFamily, Gamma, Multinomial, Normal, Poisson
from dpgraph.structure.moments import MomentDescription, NoisyMoments

#: The families a file can name; ``Natural`` holds functions, and a file holds nothing that runs.
FAMILIES: dict[str, Any] = {
    family.__name__.lower(): family for family in (Binomial, Exponential, Gamma, Multinomial, Normal, Poisson)
}


def plain_moments(noisy: NoisyMoments) -> dict[str, Any]:
    """The body of a release's file.

    Raises:
        FileError: If the family is a user's own.
    """
    body = {"law": plain_law(noisy.law), "n": noisy.n, "sums": noisy.sums.tolist()}
    if isinstance(noisy.description, LinearDesign):
        design = noisy.description
        return {"design": plain_design(design), "grid": _grid(design), **body}
    family: Any = noisy.description.family
    name = type(family).__name__.lower()
    if name not in FAMILIES:
        raise FileError(f"moments of {type(family).__name__} are not saved: it holds functions, not settings")
    settings = {field.name: _plain(getattr(family, field.name)) for field in fields(family)}
    bounds = noisy.description.bounds
    return {
        "family": {"name": name, **settings},
        "bounds": None if bounds is None else list(bounds),
        **body,
    }


def moments_of(
    plain: dict[str, Any], description: MomentDescription | LinearDesign, provenance: Provenance
) -> NoisyMoments:
    """The inverse of ``plain_moments``, checked against the event that made it."""
    if isinstance(description, LinearDesign) and plain["grid"] != _grid(description):
        raise FileError("the sums are on another grid than this dpgraph's")
    n = None if plain["n"] is None else whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")
    noisy = NoisyMoments(description, integers_of(plain["sums"]), law_of(plain["law"]), n)
    (planned, *others) = provenance.event.measurements or (None,)
    if others or planned is None or (planned.table, planned.law) != (noisy.names, noisy.law):
        raise FileError("the moments are not those the event measured")
    return noisy


def description_of(plain: dict[str, Any]) -> MomentDescription | LinearDesign:
    """What was summed."""
    return design_of(plain["design"]) if "design" in plain else _described(plain)


def _grid(design: LinearDesign) -> dict[str, int]:
    """What the integers of a design's release are multiples of, so that no later dpgraph misreads them."""
    return {"resolution": RESOLUTION, "copies": design.copies}


def _described(plain: dict[str, Any]) -> MomentDescription:
    """A family by name, with its bounds."""
    settings = dict(plain["family"])
    name = settings.pop("name")
    if name not in FAMILIES or set(settings) != {field.name for field in fields(FAMILIES[name])}:
        raise FileError(f"a family of moments named {name!r} with these settings is not known")
    family: ExponentialFamily = FAMILIES[name](**{key: _setting(value) for key, value in settings.items()})
    bounds = None if plain["bounds"] is None else tuple(plain["bounds"])
    return MomentDescription(family, bounds)  # type: ignore[arg-type]


def _plain(setting: Any) -> Any:
    return list(setting) if isinstance(setting, tuple) else setting


def _setting(plain: Any) -> Any:
    return tuple(plain) if isinstance(plain, list) else plain
