"""Noisy tables and coefficients of a network as plain forms, and back: each checked against the event that made it."""

from __future__ import annotations

from typing import Any

from dpgraph.files.arrays import integers_of
from dpgraph.files.plain import family_of, law_of, plain_law, whole
from dpgraph.mechanisms.reproduction import measured_parts
from dpgraph.privacy.records import Event, FileError, Provenance
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts


def plain_counts(noisy: NoisyCounts) -> dict[str, Any]:
    """Noisy tables with their laws."""
    tables = [
        {"variables": list(key), "law": plain_law(noisy.laws[key]), "counts": table.tolist()}
        for key, table in noisy.tables.items()
    ]
    return {"n": noisy.n, "tables": tables}


def plain_coefficients(noisy: NoisyCoefficients) -> dict[str, Any]:
    """Noisy coefficients with their laws."""
    blocks = [
        {"variables": list(key), "law": plain_law(noisy.laws[key]), "values": block.tolist()}
        for key, block in noisy.blocks.items()
    ]
    settings = {"grid": noisy.grid, "step": noisy.step, "pseudo_records": noisy.pseudo_records}
    return {"n": noisy.n, **settings, "blocks": blocks}


def counts_of(plain: dict[str, Any], network: Network, provenance: Provenance) -> NoisyCounts:
    """The inverse of ``plain_counts``."""
    tables, laws = _measured(plain["tables"], "counts", provenance)
    cells = {key: network.cells(key) for key in tables}
    _check_planned(laws, cells, provenance)
    return NoisyCounts(network, tables, laws, _rows(plain, provenance))


def coefficients_of(plain: dict[str, Any], network: Network, provenance: Provenance) -> NoisyCoefficients:
    """The inverse of ``plain_coefficients``."""
    blocks, laws = _measured(plain["blocks"], "values", provenance)
    _check_planned(laws, {key: block.size for key, block in blocks.items()}, provenance)
    settings = {name: whole(plain[name]) for name in ("grid", "step", "pseudo_records")}
    return NoisyCoefficients(network, blocks, laws, _rows(plain, provenance), **settings)


def _measured(entries: list[dict[str, Any]], values: str, provenance: Provenance) -> tuple[Any, Any]:
    """The numbers and the laws of what an event measured."""
    keys = [family_of(entry["variables"]) for entry in entries]
    planned = {m.table for m in measuring_event(provenance).measurements}
    if len(set(keys)) < len(keys) or set(keys) != planned:
        raise FileError("the tables are not those the event measured")
    numbers = FrozenMap((key, integers_of(entry[values])) for key, entry in zip(keys, entries, strict=True))
    return numbers, FrozenMap((key, law_of(entry["law"])) for key, entry in zip(keys, entries, strict=True))


def _check_planned(laws: Any, cells: dict[Any, int], provenance: Provenance) -> None:
    planned = {m.table: m for m in measuring_event(provenance).measurements}
    if any(laws[key] != planned[key].law or cells[key] != planned[key].cells for key in laws):
        raise FileError("a table's noise law is not the event's")


def measuring_event(provenance: Provenance) -> Event:
    """The event that measured: beside it there may be some that chose what to measure, and in the end nothing more."""
    measured = measured_parts(provenance.event)
    if len(measured) != 1:
        raise FileError("the releases are not as many as their events")
    return measured[0]


def _rows(plain: dict[str, Any], provenance: Provenance) -> int | None:
    n = None if plain["n"] is None else whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")
    return n
