"""Releases of noisy sums, of moments and of outcomes: their grid, and the event that made them.

A file names one of the families below; ``Natural`` holds functions, and a file holds nothing that runs.
"""

from __future__ import annotations

from typing import Any

from dpgraph.files.codecs import structural
from dpgraph.files.noisy_tables import measuring_event
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.privacy.structural import FORMS, named
from dpgraph.structure.design import RESOLUTION, LinearDesign
from dpgraph.structure.expfam import Binomial, Exponential, ExponentialFamily, Gamma, Multinomial, Normal, Poisson
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.outcomes import STEPS, NoisyOutcomes, OutcomeDescription

FORMS[ExponentialFamily] = named((Binomial, Exponential, Gamma, Multinomial, Normal, Poisson))


def _check(noisy: NoisyMoments | NoisyOutcomes, provenance: Provenance) -> None:
    """Refuses sums that the event did not measure."""
    if (noisy.n is None) == provenance.unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")
    (planned, *others) = measuring_event(provenance).measurements or (None,)
    if others or planned is None or (planned.table, planned.law) != (noisy.names, noisy.law):
        raise FileError("the sums are not those the event measured")


_FORMS = {type_: structural(type_, _check) for type_ in (NoisyMoments, NoisyOutcomes)}


def plain_sums(noisy: NoisyMoments | NoisyOutcomes) -> dict[str, Any]:
    """The sums with their grid, so that no later dpgraph misreads them."""
    return {"grid": _grid(noisy.description), **_FORMS[type(noisy)][0](noisy)}


def moments_of(plain: dict[str, Any], description: Any, provenance: Provenance) -> NoisyMoments:
    """The inverse of ``plain_sums``."""
    return _sums_of(NoisyMoments, plain, description, provenance)


def outcomes_of(plain: dict[str, Any], description: OutcomeDescription, provenance: Provenance) -> NoisyOutcomes:
    """The inverse of ``plain_sums``."""
    return _sums_of(NoisyOutcomes, plain, description, provenance)


def _sums_of(type_: Any, plain: dict[str, Any], description: Any, provenance: Provenance) -> Any:
    if plain["grid"] != _grid(description):
        raise FileError("the sums are on another grid than this dpgraph's")
    return _FORMS[type_][1]({name: part for name, part in plain.items() if name != "grid"}, description, provenance)


def _grid(description: Any) -> dict[str, Any] | None:
    """What the integers are multiples of."""
    if isinstance(description, LinearDesign):
        return {"resolution": RESOLUTION, "copies": description.copies}
    if isinstance(description, OutcomeDescription):
        return {"steps": STEPS, "weights": [block.weight for block in description.parts]}
    return None
