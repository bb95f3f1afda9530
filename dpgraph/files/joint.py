"""Several releases read as one, as plain forms and back: each with its own network, checked against its own event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpgraph.files.networks import network_of, plain_network
from dpgraph.files.noisy_tables import coefficients_of, counts_of, plain_coefficients, plain_counts
from dpgraph.mechanisms.reproduction import measured_parts
from dpgraph.privacy.records import Event, FileError, Provenance
from dpgraph.structure.joint import JointCounts, PooledCounts, Several
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

#: The kinds that a part can have, and how each is read.
READ = {"counts": counts_of, "coefficients": coefficients_of}


def plain_several(several: Several) -> dict[str, Any]:
    """The parts, and the network to learn if one is known."""
    learns = None if several.network is None else plain_network(several.network)
    return {"learns": learns, "parts": [_plain_part(part) for part in several.parts]}


def networks_of(several: Several) -> tuple[Network, ...]:
    """What each release measured."""
    return tuple(single.network for single in several.singles)


def networks_in(plain: dict[str, Any], network: Network | None) -> tuple[Network, ...]:
    """The same from a file."""
    if network is not None:
        raise FileError(f"a file of kind {plain['kind']!r} has a network where it has none")
    return tuple(network_of(part["network"]) for part in _single_parts(plain))


def joint_of(plain: dict[str, Any], networks: tuple[Network, ...], provenance: Provenance) -> JointCounts:
    """A joint release, from its file."""
    value = _joint(plain, *_pieces(networks, provenance), provenance)
    assert isinstance(value, JointCounts)
    return value


def pooled_of(plain: dict[str, Any], networks: tuple[Network, ...], provenance: Provenance) -> PooledCounts:
    """A pooled release, from its file."""
    pieces = _pieces(networks, provenance)
    parts = tuple(
        _joint(part, *pieces, provenance) if part["kind"] == "joint" else _single(part, *pieces, provenance)
        for part in plain["parts"]
    )
    return PooledCounts(parts, _learns(plain))


def _plain_part(part: Any) -> dict[str, Any]:
    match part:
        case JointCounts():
            return {"kind": "joint", **plain_several(part)}
        case NoisyCounts():
            return {"kind": "counts", "network": plain_network(part.network), **plain_counts(part)}
        case NoisyCoefficients():
            return {"kind": "coefficients", "network": plain_network(part.network), **plain_coefficients(part)}
    raise FileError(f"{type(part).__name__} is no part of a joint release")


def _single_parts(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The single releases of a file, in order."""
    if not isinstance(plain["parts"], list):
        raise FileError("the parts of several releases are a list")
    for part in plain["parts"]:
        yield from _single_parts(part) if part["kind"] == "joint" else [part]


def _pieces(networks: tuple[Network, ...], provenance: Provenance) -> tuple[Iterator[Network], Iterator[Event]]:
    """The networks and the events of the single releases, in order."""
    measured = measured_parts(provenance.event)
    if len(networks) != len(measured):
        raise FileError("the releases are not as many as their events")
    return iter(networks), iter(measured)


def _joint(plain: dict[str, Any], networks: Iterator[Network], events: Iterator[Event], whole: Provenance) -> Any:
    return JointCounts(tuple(_single(part, networks, events, whole) for part in plain["parts"]), _learns(plain))


def _single(plain: dict[str, Any], networks: Iterator[Network], events: Iterator[Event], whole: Provenance) -> Any:
    if plain["kind"] not in READ:
        raise FileError(f"a part of kind {plain['kind']!r:.60} is not known")
    return READ[plain["kind"]](plain, next(networks), Provenance(next(events), whole.unit, whole.private))


def _learns(plain: dict[str, Any]) -> Network | None:
    return None if plain["learns"] is None else network_of(plain["learns"])
