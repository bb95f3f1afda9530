"""The kinds of released values, as plain forms and back: each checked against the event that made it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.files.markov import plain_sweeps, sweeps_of
from dpgraph.files.moments import moments_of, plain_moments
from dpgraph.files.plain import family_of, integers_of, law_of, plain_law, plain_tables, provenance_of, tables_of, whole
from dpgraph.files.sampled_weights import plain_sampled_weights, sampled_weights_of
from dpgraph.privacy.records import Provenance, Release, ReleaseError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.markov import MarkovSweeps
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.network import Network
from dpgraph.structure.sampled_weights import SampledWeights
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities


def plain_release(release: Release[Any]) -> tuple[Network | None, dict[str, Any]] | None:
    """The network and the body of a release's file; None if values of its kind are not saved."""
    match release.value:
        case NoisyCounts() as noisy:
            return noisy.network, _plain_noisy(noisy)
        case NoisyCoefficients() as noisy:
            return noisy.network, _plain_coefficients(noisy)
        case Probabilities() as chosen:
            return chosen.network, {"kind": "probabilities", "tables": plain_tables(chosen.tables)}
        case (Probabilities(network=network), *_) as draws if _same_network(draws):
            return network, {"kind": "draws", "draws": [plain_tables(draw.tables) for draw in draws]}
        case MarkovSweeps() as sweeps:
            return sweeps.network, plain_sweeps(sweeps)
        case NoisyMoments() as noisy:
            return None, plain_moments(noisy)
        case SampledWeights() as drawn:
            return None, plain_sampled_weights(drawn)
        case (float(), *_) as numbers if all(isinstance(number, float) for number in numbers):
            return None, {"kind": "numbers", "values": list(numbers)}
    return None


def release_of(plain: dict[str, Any], network: Network | None) -> Release[Any]:
    """The inverse of ``plain_release``, with the provenance that stands beside the body."""
    provenance = provenance_of(plain)
    if provenance is None:
        raise ReleaseError("a release without its event")
    value = _value(plain, network, provenance)
    return Release(value, provenance.event, provenance.unit, provenance.private)


def _value(plain: dict[str, Any], network: Network | None, provenance: Provenance) -> Any:
    """What was released, by its kind."""
    match plain.get("kind", "counts"):
        case "numbers" if network is None:
            return _numbers(plain["values"], provenance)
        case "moments" if network is None:
            return moments_of(plain, provenance)
        case "sampled-weights" if network is None:
            return sampled_weights_of(plain, provenance)
        case "counts" | "coefficients" as kind if network is not None:
            return _noisy(kind, plain, network, provenance)
        case "probabilities" if network is not None:
            return Probabilities(network, tables_of(plain["tables"]), provenance)
        case "draws" if network is not None and isinstance(plain["draws"], list) and plain["draws"]:
            if sum(selection.draws for selection in provenance.event.selections) not in (0, len(plain["draws"])):
                raise ReleaseError("the draws are not as many as the event made")
            return tuple(Probabilities(network, tables_of(draw), provenance) for draw in plain["draws"])
        case "markov-sweeps" if network is not None:
            return sweeps_of(plain, network, provenance)
        case kind:
            raise ReleaseError(f"a release of kind {kind!r} is not known, is empty, or has a network where it has none")


def _numbers(plain: Any, provenance: Provenance) -> tuple[float, ...]:
    """As many finite numbers as the event chose."""
    if not isinstance(plain, list) or not all(isinstance(v, float) and np.isfinite(v) for v in plain):
        raise ReleaseError("the released numbers are not a list of finite numbers")
    if sum(selection.draws for selection in provenance.event.selections) != len(plain) or not plain:
        raise ReleaseError("the numbers are not as many as the event chose")
    return tuple(plain)


def _noisy(
    kind: str, plain: dict[str, Any], network: Network, provenance: Provenance
) -> NoisyCounts | NoisyCoefficients:
    entries, values = ("tables", "counts") if kind == "counts" else ("blocks", "values")
    keys = [family_of(entry["variables"]) for entry in plain[entries]]
    planned = {m.table: m for m in provenance.event.measurements}
    if len(set(keys)) < len(keys) or set(keys) != set(planned):
        raise ReleaseError("the tables are not those the event measured")
    tables = FrozenMap((key, integers_of(entry[values])) for key, entry in zip(keys, plain[entries], strict=True))
    laws = FrozenMap((key, law_of(entry["law"])) for key, entry in zip(keys, plain[entries], strict=True))
    cells = {key: network.cells(key) if kind == "counts" else tables[key].size for key in keys}
    if any(laws[key] != planned[key].law or cells[key] != planned[key].cells for key in keys):
        raise ReleaseError("a table's noise law is not the event's")
    n = None if plain["n"] is None else whole(plain["n"])
    if (n is None) == provenance.unit.n_is_public:
        raise ReleaseError("the number of rows is there exactly when the unit makes it public")
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
    return {"kind": "coefficients", "n": noisy.n, **settings, "blocks": blocks}


def _same_network(draws: Any) -> bool:
    return isinstance(draws, tuple) and all(
        isinstance(draw, Probabilities) and draw.network == draws[0].network for draw in draws
    )
