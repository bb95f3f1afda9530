"""The kinds of released values, as plain forms and back: each checked against the event that made it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from dpgraph.files.codecs import Codec, needed_network, register_codecs, without_network
from dpgraph.files.designs import design_of
from dpgraph.files.markov import plain_sweeps, sweeps_of
from dpgraph.files.moments import description_of, moments_of, plain_moments
from dpgraph.files.outcomes import outcome_description_of, outcomes_of, plain_outcomes
from dpgraph.files.plain import family_of, integers_of, law_of, plain_law, plain_tables, tables_of, whole
from dpgraph.files.sampled_weights import plain_sampled_weights, sampled_weights_of
from dpgraph.files.totals import check_total
from dpgraph.privacy.records import FileError, Provenance, Release
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.markov import MarkovSweeps
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.network import Network
from dpgraph.structure.outcomes import NoisyOutcomes
from dpgraph.structure.sampled_weights import SampledWeights
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities

DESCRIPTION = attrgetter("description")


def release_of(codec: Codec, plain: dict[str, Any], structure: Any, provenance: Provenance | None) -> Release[Any]:
    """A release, from the rest of its file: its record has been checked, its value and its totals are here."""
    if provenance is None:
        raise FileError("a release without its event")
    value = codec.read(plain, structure, provenance)
    check_total(value)
    return Release(value, provenance.event, provenance.unit, provenance.private)


def _numbers(plain: dict[str, Any], structure: None, provenance: Provenance) -> tuple[float, ...]:
    """As many finite numbers as the event chose."""
    values = plain["values"]
    if not isinstance(values, list) or not all(isinstance(v, float) and np.isfinite(v) for v in values):
        raise FileError("the released numbers are not a list of finite numbers")
    if sum(selection.draws for selection in provenance.event.selections) != len(values) or not values:
        raise FileError("the numbers are not as many as the event chose")
    return tuple(values)


def _plain_numbers(values: tuple[Any, ...]) -> dict[str, Any] | None:
    return {"values": list(values)} if values and all(isinstance(value, float) for value in values) else None


def _draws(plain: dict[str, Any], network: Network, provenance: Provenance) -> tuple[Probabilities, ...]:
    """As many tables of probabilities as the event chose."""
    draws = plain["draws"]
    if not isinstance(draws, list) or not draws:
        raise FileError("the draws are not a list, or there are none")
    chosen = sum(selection.draws for selection in provenance.event.selections)
    if chosen != len(draws) and not provenance.event.measurements:
        raise FileError("the draws are not as many as the event made")
    return tuple(Probabilities(network, tables_of(draw), provenance) for draw in draws)


def _plain_draws(draws: tuple[Any, ...]) -> dict[str, Any] | None:
    return {"draws": [plain_tables(draw.tables) for draw in draws]} if draws and _same_network(draws) else None


def _plain_probabilities(chosen: Probabilities) -> dict[str, Any]:
    return {"tables": plain_tables(chosen.tables)}


def _probabilities(plain: dict[str, Any], network: Network, provenance: Provenance) -> Probabilities:
    return Probabilities(network, tables_of(plain["tables"]), provenance)


def _noisy(
    kind: str, plain: dict[str, Any], network: Network, provenance: Provenance
) -> NoisyCounts | NoisyCoefficients:
    entries, values = ("tables", "counts") if kind == "counts" else ("blocks", "values")
    keys = [family_of(entry["variables"]) for entry in plain[entries]]
    planned = {m.table: m for m in provenance.event.measurements}
    if len(set(keys)) < len(keys) or set(keys) != set(planned):
        raise FileError("the tables are not those the event measured")
    tables = FrozenMap((key, integers_of(entry[values])) for key, entry in zip(keys, plain[entries], strict=True))
    laws = FrozenMap((key, law_of(entry["law"])) for key, entry in zip(keys, plain[entries], strict=True))
    cells = {key: network.cells(key) if kind == "counts" else tables[key].size for key in keys}
    if any(laws[key] != planned[key].law or cells[key] != planned[key].cells for key in keys):
        raise FileError("a table's noise law is not the event's")
    n = None if plain["n"] is None else whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")
    if kind == "counts":
        return NoisyCounts(network, tables, laws, n)
    settings = {name: whole(plain[name]) for name in ("grid", "step", "pseudo_records")}
    return NoisyCoefficients(network, tables, laws, n, **settings)


def _plain_noisy(noisy: NoisyCounts) -> dict[str, Any]:
    tables = [
        {"variables": list(key), "law": plain_law(noisy.laws[key]), "counts": table.tolist()}
        for key, table in noisy.tables.items()
    ]
    return {"n": noisy.n, "tables": tables}


def _plain_coefficients(noisy: NoisyCoefficients) -> dict[str, Any]:
    blocks = [
        {"variables": list(key), "law": plain_law(noisy.laws[key]), "values": block.tolist()}
        for key, block in noisy.blocks.items()
    ]
    settings = {"grid": noisy.grid, "step": noisy.step, "pseudo_records": noisy.pseudo_records}
    return {"n": noisy.n, **settings, "blocks": blocks}


def _same_network(draws: Any) -> bool:
    return isinstance(draws, tuple) and all(
        isinstance(draw, Probabilities) and draw.network == draws[0].network for draw in draws
    )


def _counts(plain: dict[str, Any], network: Network, provenance: Provenance) -> NoisyCounts | NoisyCoefficients:
    return _noisy("counts", plain, network, provenance)


def _coefficients(plain: dict[str, Any], network: Network, provenance: Provenance) -> NoisyCounts | NoisyCoefficients:
    return _noisy("coefficients", plain, network, provenance)


def _sampled_weights(plain: dict[str, Any], design: LinearDesign, provenance: Provenance) -> SampledWeights:
    return sampled_weights_of(plain, provenance)


def _first_network(draws: tuple[Probabilities, ...]) -> Network:
    return draws[0].network


def _design(plain: dict[str, Any]) -> LinearDesign:
    return design_of(plain["design"])


def _released(kind: str, type_: type, write: Any, read: Any, measured: Any, measured_in: Any = needed_network) -> Codec:
    return Codec("released", kind, type_, write, read, measured, measured_in)


register_codecs(
    _released("counts", NoisyCounts, _plain_noisy, _counts, attrgetter("network")),
    _released("coefficients", NoisyCoefficients, _plain_coefficients, _coefficients, attrgetter("network")),
    _released("probabilities", Probabilities, _plain_probabilities, _probabilities, attrgetter("network")),
    _released("draws", tuple, _plain_draws, _draws, _first_network),
    _released("markov-sweeps", MarkovSweeps, plain_sweeps, sweeps_of, attrgetter("network")),
    _released("numbers", tuple, _plain_numbers, _numbers, lambda values: None, without_network(lambda plain: None)),
    _released("moments", NoisyMoments, plain_moments, moments_of, DESCRIPTION, without_network(description_of)),
    _released(
        "outcomes", NoisyOutcomes, plain_outcomes, outcomes_of, DESCRIPTION, without_network(outcome_description_of)
    ),
    _released(
        "sampled-weights",
        SampledWeights,
        plain_sampled_weights,
        _sampled_weights,
        attrgetter("design"),
        without_network(_design),
    ),
)
