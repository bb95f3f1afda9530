"""Public values to JSON and back, exactly.

Every file names its format and version and carries the network, the noise law of each table, the event, the unit and
the cost. Loading builds plain values and checks them as any other input: nothing in a file is executed. Sensitive
values (rows, codes, counts) have no saver.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np

from dpgraph.files.networks import EXAMPLE, network_of, parse_json, plain_network, read_probabilities, read_text
from dpgraph.inference.dirichlet import DirichletPosterior
from dpgraph.models.naive_bayes import NaiveBayes
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Measurement,
    NoiseLaw,
    PrivacyUnit,
    Provenance,
    Release,
    ReleaseError,
    Selection,
    SelectionLaw,
    SumZeroLaplace,
    exact,
)
from dpgraph.structure.domain import DomainError, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities

VERSION = 1

_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}


def save(value: Any, path: str | Path) -> None:
    """Writes a public value: a Network, Release, posterior, Probabilities or fitted model to ``.json``;
    Probabilities (or a posterior's mean) also to ``.bif``.

    The file appears whole or not at all.

    Raises:
        ReleaseError: If the value is sensitive or of another kind, or the name ends otherwise.
        NetworkError: If a name would not survive BIF.
    """
    target = Path(path)
    value = getattr(value, "model_", value)
    if target.suffix.lower() == ".bif":
        from dpgraph.files.pgmpy import write_bif

        text = write_bif(probabilities_of(value))
    elif target.suffix.lower() == ".json":
        text = json.dumps(document(value), indent=1, allow_nan=False) + "\n"
    else:
        raise ReleaseError(f"{target}: the name must end in .json or .bif")
    write_whole(target, text)


def load(path: str | Path) -> Any:
    """Reads what ``save`` wrote, or the probabilities of a BIF file or of ``"example:alarm"``.

    Raises:
        ReleaseError: If the file is not one of dpgraph's, is cut short, or its parts do not fit each other.
        NetworkError: If the network in it is not valid.
    """
    if str(path).startswith(EXAMPLE) or str(path).lower().endswith((".bif", ".xmlbif")):
        return read_probabilities(path)
    text = read_text(Path(path))
    try:
        return value_of(parse_json(text))
    except (DomainError, ReleaseError) as error:
        raise type(error)(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        kind = type(error).__name__
        raise ReleaseError(f"{path} is not a whole dpgraph file; is it truncated? ({kind})") from None


def probabilities_of(value: Any) -> Probabilities:
    """The conditional probability tables that a value stands for.

    Raises:
        ReleaseError: If it stands for none.
    """
    match value:
        case Release():
            return probabilities_of(value.value)
        case Probabilities():
            return value
        case DirichletPosterior():
            return value.mean()
        case NaiveBayes():
            return value.probabilities
    raise ReleaseError(f"{type(value).__name__} has no probability tables; a release of counts needs a posterior first")


def document(value: Any) -> dict[str, Any]:
    """The plain form of a public value."""
    match value:
        case Network():
            return _head("network", value, None, {})
        case Release(value=NoisyCounts() as noisy):
            return _head("release", noisy.network, value.provenance, _plain_noisy(noisy))
        case Release(value=NoisyCoefficients() as noisy):
            return _head("release", noisy.network, value.provenance, _plain_coefficients(noisy))
        case Release(value=Probabilities() as chosen):
            body = {"kind": "probabilities", "tables": _plain_tables(chosen.tables)}
            return _head("release", chosen.network, value.provenance, body)
        case Release(value=(Probabilities(network=network), *_) as draws) if _same_network(draws):
            body = {"kind": "draws", "draws": [_plain_tables(draw.tables) for draw in draws]}
            return _head("release", network, value.provenance, body)
        case DirichletPosterior():
            body = {"concentration": _plain_tables(value.concentration)}
            return _head("posterior", value.network, value.provenance, body)
        case Probabilities():
            return _head("probabilities", value.network, value.provenance, {"tables": _plain_tables(value.tables)})
        case NaiveBayes(target=target, probabilities=probabilities):
            body = {"target": target, "tables": _plain_tables(probabilities.tables)}
            return _head("naive-bayes", probabilities.network, probabilities.provenance, body)
    raise ReleaseError(f"{type(value).__name__} is not saved: only public values that left through a release are")


def value_of(plain: Any) -> Any:
    """The inverse of ``document``."""
    if not isinstance(plain, dict) or not str(plain.get("format", "")).startswith("dpgraph-"):
        raise ReleaseError("not a dpgraph file")
    if plain.get("version") != VERSION:
        raise ReleaseError(f"version {plain.get('version')!r} is not the version {VERSION} this dpgraph reads")
    kind = plain["format"].removeprefix("dpgraph-")
    if kind not in _READERS:
        raise ReleaseError(f"unknown format {plain['format']!r}")
    return _READERS[kind](plain, network_of(plain["network"]))


def write_whole(target: Path, text: str) -> None:
    """Writes a file under a temporary name and moves it into place.

    Raises:
        ReleaseError: If the file or its folder cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", text=True)
    except OSError as error:
        raise ReleaseError(f"{target} cannot be written ({type(error).__name__})") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except OSError as error:
        os.unlink(name)
        raise ReleaseError(f"{target} cannot be written ({type(error).__name__})") from None
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _head(kind: str, network: Network, provenance: Provenance | None, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": f"dpgraph-{kind}",
        "version": VERSION,
        "network": plain_network(network),
        **({} if kind == "network" else _plain_provenance(provenance)),
        **body,
    }


def _plain_provenance(provenance: Provenance | None) -> dict[str, Any]:
    if provenance is None:
        return {"event": None, "unit": None, "cost": None, "private": None}
    event, unit = provenance.event, provenance.unit
    return {
        "event": {
            "mechanism": event.mechanism,
            "epsilon": str(event.epsilon),
            "delta": str(event.delta),
            **({} if event.rho is None else {"rho": str(event.rho)}),
            "measurements": [
                {"variables": list(m.table), "cells": m.cells, "law": _plain_law(m.law), "sensitivity": m.sensitivity}
                for m in event.measurements
            ],
            **({"selections": [_plain_selection(s) for s in event.selections]} if event.selections else {}),
        },
        "unit": {"neighbours": unit.neighbours, "rows_per_person": unit.rows_per_person},
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
    }


def _provenance(plain: dict[str, Any]) -> Provenance | None:
    if plain["event"] is None:
        return None
    event = plain["event"]
    measurements = tuple(
        Measurement(_family(m["variables"]), _whole(m["cells"]), _law(m["law"]), _whole(m["sensitivity"]))
        for m in event["measurements"]
    )
    epsilon, delta = _fraction(event["epsilon"]), _fraction(event["delta"], zero=True)
    rho = _fraction(event["rho"]) if event.get("rho") is not None else None
    unit = PrivacyUnit(plain["unit"]["neighbours"], plain["unit"]["rows_per_person"])
    if not isinstance(event["mechanism"], str) or not isinstance(plain["private"], bool):
        raise ReleaseError("the record of the release is not whole")
    selections = tuple(_selection(entry) for entry in event.get("selections", []))
    done = Event(event["mechanism"], epsilon, delta, measurements, rho, selections)
    provenance = Provenance(done, unit, plain["private"])
    if plain["cost"] != _plain_provenance(provenance)["cost"]:
        raise ReleaseError("the cost is not that of the event")
    return provenance


def _plain_selection(selection: Selection) -> dict[str, Any]:
    return {"law": selection.law, "epsilon": str(selection.epsilon), "draws": selection.draws}


def _selection(plain: dict[str, Any]) -> Selection:
    if plain["law"] not in get_args(SelectionLaw) or _whole(plain["draws"]) < 1:
        raise ReleaseError("a selection's law is not known or it has no draws")
    return Selection(plain["law"], _fraction(plain["epsilon"]), plain["draws"])


def _plain_law(law: NoiseLaw) -> dict[str, Any]:
    name = next(name for name, kind in _LAWS.items() if isinstance(law, kind))
    return {"name": name, "scale": law.scale}


def _law(plain: dict[str, Any]) -> NoiseLaw:
    scale = plain["scale"]
    if (
        plain["name"] not in _LAWS
        or isinstance(scale, bool)
        or not isinstance(scale, int | float)
        or not 0 < scale < np.inf
    ):
        raise ReleaseError("a noise law is not known or its scale is not a finite number above 0")
    return _LAWS[plain["name"]](float(scale))


def _plain_noisy(noisy: NoisyCounts) -> dict[str, Any]:
    tables = [
        {"variables": list(key), "law": _plain_law(noisy.laws[key]), "counts": table.tolist()}
        for key, table in noisy.tables.items()
    ]
    return {"n": noisy.n, "tables": tables}


def _plain_coefficients(noisy: NoisyCoefficients) -> dict[str, Any]:
    blocks = [
        {"variables": list(key), "law": _plain_law(noisy.laws[key]), "values": block.tolist()}
        for key, block in noisy.blocks.items()
    ]
    settings = {"grid": noisy.grid, "step": noisy.step, "pseudo_records": noisy.pseudo_records}
    return {"kind": "coefficients", "n": noisy.n, **settings, "blocks": blocks}


def _same_network(draws: Any) -> bool:
    return isinstance(draws, tuple) and all(
        isinstance(draw, Probabilities) and draw.network == draws[0].network for draw in draws
    )


def _release(plain: dict[str, Any], network: Network) -> Release[Any]:
    provenance = _provenance(plain)
    if provenance is None:
        raise ReleaseError("a release without its event")
    match plain.get("kind", "counts"):
        case "counts" | "coefficients" as kind:
            return _released_noise(kind, plain, network, provenance)
        case "probabilities":
            value: Any = Probabilities(network, _tables(plain["tables"]), provenance)
        case "draws" if isinstance(plain["draws"], list) and plain["draws"]:
            value = tuple(Probabilities(network, _tables(draw), provenance) for draw in plain["draws"])
            if sum(selection.draws for selection in provenance.event.selections) not in (0, len(value)):
                raise ReleaseError("the draws are not as many as the event made")
        case kind:
            raise ReleaseError(f"a release of kind {kind!r} is not known or is empty")
    return Release(value, provenance.event, provenance.unit, provenance.private)


def _released_noise(
    kind: str, plain: dict[str, Any], network: Network, provenance: Provenance
) -> Release[NoisyCounts | NoisyCoefficients]:
    entries, values = ("tables", "counts") if kind == "counts" else ("blocks", "values")
    keys = [_family(entry["variables"]) for entry in plain[entries]]
    planned = {m.table: m for m in provenance.event.measurements}
    if len(set(keys)) < len(keys) or set(keys) != set(planned):
        raise ReleaseError("the tables are not those the event measured")
    tables = FrozenMap((key, _integers(entry[values])) for key, entry in zip(keys, plain[entries], strict=True))
    laws = FrozenMap((key, _law(entry["law"])) for key, entry in zip(keys, plain[entries], strict=True))
    cells = {key: network.cells(key) if kind == "counts" else tables[key].size for key in keys}
    if any(laws[key] != planned[key].law or cells[key] != planned[key].cells for key in keys):
        raise ReleaseError("a table's noise law is not the event's")
    n = None if plain["n"] is None else _whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise ReleaseError("the number of rows is there exactly when the unit makes it public")
    if kind == "counts":
        noisy: NoisyCounts | NoisyCoefficients = NoisyCounts(network, tables, laws, n)
    else:
        settings = {name: _whole(plain[name]) for name in ("grid", "step", "pseudo_records")}
        noisy = NoisyCoefficients(network, tables, laws, n, **settings)
    return Release(noisy, provenance.event, provenance.unit, provenance.private)


def _posterior(plain: dict[str, Any], network: Network) -> DirichletPosterior:
    return DirichletPosterior(network, _tables(plain["concentration"]), _provenance(plain))


def _probabilities(plain: dict[str, Any], network: Network) -> Probabilities:
    return Probabilities(network, _tables(plain["tables"]), _provenance(plain))


def _naive_bayes(plain: dict[str, Any], network: Network) -> NaiveBayes:
    return NaiveBayes(plain["target"], _probabilities(plain, network))


def _plain_tables(tables: FrozenMap[str, Any]) -> dict[str, Any]:
    return {name: table.tolist() for name, table in tables.items()}


def _tables(plain: dict[str, Any]) -> FrozenMap[str, Any]:
    tables = {name: np.array(values) for name, values in plain.items()}
    if any(table.dtype.kind not in "fi" for table in tables.values()):
        raise ReleaseError("a table holds something that is not a number")
    return FrozenMap((name, table.astype(float)) for name, table in tables.items())


def _integers(plain: Any) -> np.ndarray:
    table = np.array(plain)
    if table.dtype.kind != "i":
        raise ReleaseError("a table of counts holds something that is not a 64-bit whole number")
    return table


def _family(plain: Any) -> tuple[str, ...]:
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise NetworkError("a table's variables are a list of names")
    return tuple(plain)


def _whole(plain: Any) -> int:
    if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain < 2**63:
        raise ReleaseError("a whole number from 0 to 2^63 was expected")
    return plain


def _fraction(plain: Any, *, zero: bool = False) -> Fraction:
    if not isinstance(plain, str):
        raise ReleaseError("epsilon, delta and rho are written as text, so that they stay exact")
    return exact(plain, "epsilon, delta or rho", zero=zero)


_READERS: dict[str, Callable[[dict[str, Any], Network], Any]] = {
    "network": lambda plain, network: network,
    "release": _release,
    "posterior": _posterior,
    "probabilities": _probabilities,
    "naive-bayes": _naive_bayes,
}
