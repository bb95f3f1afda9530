"""The kinds of released values, as plain forms and back: each checked against the event that made it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from dpgraph.files.arrays import plain_tables, tables_of
from dpgraph.files.codecs import Codec, described_in, needed_network, register_codecs, structural, without_network
from dpgraph.files.joint import joint_of, networks_in, networks_of, plain_several, pooled_of
from dpgraph.files.moments import moments_of, outcomes_of, plain_sums
from dpgraph.files.network_models import plain_probabilities, probabilities_in
from dpgraph.files.noisy_tables import coefficients_of, counts_of, plain_coefficients, plain_counts
from dpgraph.files.plain import scope_of
from dpgraph.files.totals import check_total
from dpgraph.privacy.records import FileError, Provenance, Release
from dpgraph.privacy.release import recorded
from dpgraph.structure.joint import JointCounts, PooledCounts
from dpgraph.structure.moments import MomentDescription, NoisyMoments
from dpgraph.structure.network import Network
from dpgraph.structure.outcomes import NoisyOutcomes, OutcomeDescription
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities

DESCRIPTION = attrgetter("description")


def release_of(codec: Codec, plain: dict[str, Any], structure: Any, provenance: Provenance | None) -> Release[Any]:
    """A release, from the rest of its file: its record has been checked, its value and its totals are here."""
    if provenance is None:
        raise FileError("a release without its event")
    value = codec.read(plain, structure, provenance)
    check_total(value)
    return recorded(Release(value, provenance.event, provenance.unit, provenance.private, scope_of(plain)))


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


def _same_network(draws: Any) -> bool:
    return isinstance(draws, tuple) and all(
        isinstance(draw, Probabilities) and draw.network == draws[0].network for draw in draws
    )


def _first_network(draws: tuple[Probabilities, ...]) -> Network:
    return draws[0].network


def _released(kind: str, type_: type, write: Any, read: Any, measured: Any, measured_in: Any = needed_network) -> Codec:
    return Codec("released", kind, type_, write, read, measured, measured_in)


def _described(kind: str, type_: type) -> Codec:
    """The codec of a description that is a dataclass."""
    return Codec("description", kind, type_, *structural(type_))


register_codecs(
    _released("counts", NoisyCounts, plain_counts, counts_of, attrgetter("network")),
    _released("coefficients", NoisyCoefficients, plain_coefficients, coefficients_of, attrgetter("network")),
    _released("joint-counts", JointCounts, plain_several, joint_of, networks_of, networks_in),
    _released("pooled-counts", PooledCounts, plain_several, pooled_of, networks_of, networks_in),
    _released("probabilities", Probabilities, plain_probabilities, probabilities_in, attrgetter("network")),
    _released("draws", tuple, _plain_draws, _draws, _first_network),
    _released("numbers", tuple, _plain_numbers, _numbers, lambda values: None, without_network(lambda plain: None)),
    _described("moments", MomentDescription),
    _described("outcomes", OutcomeDescription),
    _released("moments", NoisyMoments, plain_sums, moments_of, DESCRIPTION, described_in),
    _released("outcomes", NoisyOutcomes, plain_sums, outcomes_of, DESCRIPTION, described_in),
)
