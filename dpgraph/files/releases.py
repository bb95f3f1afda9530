"""The kinds of released values, as plain forms and back: each checked against the event that made it, and its total.

Noise that sums to zero leaves every total at the public n exactly. Independent noise leaves it near
(``NoiseLaw.reach``): a total further off than happens once in 2^100 is refused.
"""

from __future__ import annotations

import math
from functools import partial, singledispatch
from operator import attrgetter
from typing import Any

import numpy as np

from dpgraph.files.arrays import integers_of, plain_tables, tables_of
from dpgraph.files.codecs import Codec, Plain, needed_network, register_codecs, structural, without_network
from dpgraph.files.networks import network_of, plain_network
from dpgraph.mechanisms.reproduction import measured_parts
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.privacy.records import Event, PrivacyUnit, Provenance
from dpgraph.privacy.structural import FORMS, law_of, named, plain_law
from dpgraph.privacy.structural import value_of as structural_value
from dpgraph.structure import tables
from dpgraph.structure.design import RESOLUTION, LinearDesign
from dpgraph.structure.expfam import Binomial, Exponential, ExponentialFamily, Gamma, Multinomial, Normal, Poisson
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, PooledCounts, Several
from dpgraph.structure.moments import STEPS, MomentDescription, NoisyMoments, NoisyOutcomes, OutcomeDescription
from dpgraph.structure.network import Network

#: ln of 2 and of the chance of refusing a true total: once in 2^100.
NATS = 101 * math.log(2)
# A file names one of the families; ``Natural`` holds functions, and a file holds nothing that runs.
FORMS[ExponentialFamily] = named((Binomial, Exponential, Gamma, Multinomial, Normal, Poisson))


def reach(law: NoiseLaw, draws: int) -> float:
    """The bound that the sum of so many draws exceeds once in 2^100."""
    return law.reach(draws, NATS)


@singledispatch
def check_total(noisy: Any) -> None:
    """Refuses a public n that noisy numbers contradict; values of unknown kinds pass."""


@check_total.register
def _(noisy: tables.NoisyCounts) -> None:
    if noisy.n is not None:
        for key, table in noisy.tables.items():
            _check(key, abs(int(table.sum()) - noisy.n), reach(noisy.laws[key], table.size), noisy.n)


@check_total.register
def _(noisy: tables.NoisyCoefficients) -> None:
    if noisy.n is not None:
        for block, values in noisy.blocks.items():
            _check_block(noisy, block, values, noisy.n)


@check_total.register(JointCounts)
@check_total.register(PooledCounts)
def _(several: JointCounts | PooledCounts) -> None:
    for single in several.singles:
        check_total(single)


@check_total.register
def _(noisy: tables.NoisySums) -> None:
    if noisy.n is not None:
        low, high = noisy.description.row_limits(PrivacyUnit("replace"))
        away = np.maximum(noisy.n * low - noisy.sums, noisy.sums - noisy.n * high)
        _check(noisy.names, float(away.max(initial=0)), reach(noisy.law, 1), noisy.n)


def _check(names: tuple[str, ...], away: float, allowed: float, n: int) -> None:
    if away > allowed:
        raise FileError(f"n = {n} is not the number of rows behind the noisy numbers of {', '.join(names) or 'n'}")


def _check_block(noisy: tables.NoisyCoefficients, block: tuple[str, ...], values: tables.Integers, n: int) -> None:
    """Contrasts are at most n times their largest coefficient; with parity counts they are even or odd as n is."""
    shape = noisy.network.shape(block)
    largest = tables.fixed_point(shape, noisy.grid).astype(float)
    for axis, size in enumerate(shape):
        coefficients = np.abs(tables.contrast_matrix(size)[1:]).max(axis=1)
        largest = largest * coefficients.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    away = np.abs(values - n) if not block else np.abs(values) - n * largest
    _check(block, float(away.max(initial=0)), noisy.step * reach(noisy.laws[block], 1), n)
    if noisy.step == 2 and ((values - n) % 2).any():
        _check(block, math.inf, 0, n)


#: The kinds of noisy tables: their class, the field of their numbers and its name in an entry of a file, and settings.
_TABLES: dict[str, tuple[type, str, str, tuple[str, ...]]] = {
    "counts": (tables.NoisyCounts, "tables", "counts", ()),
    "coefficients": (tables.NoisyCoefficients, "blocks", "values", ("grid", "step", "pseudo_records")),
}


def _plain_single(kind: str, noisy: Any) -> Plain:
    _, field, name, settings = _TABLES[kind]
    parts = [
        {"variables": list(key), "law": plain_law(noisy.laws[key]), name: array.tolist()}
        for key, array in getattr(noisy, field).items()
    ]
    return {"n": noisy.n, **{setting: getattr(noisy, setting) for setting in settings}, field: parts}


def _single_of(kind: str, plain: Plain, network: Network, event: Event, unit: PrivacyUnit) -> Any:
    """Noisy tables or blocks, which must have the variables, laws and numbers of cells of the measuring event."""
    type_, field, name, settings = _TABLES[kind]
    entries = plain[field]
    keys = [structural_value(entry["variables"], tuple[str, ...], "the variables of a table") for entry in entries]
    planned = {m.table: m for m in event.measurements}
    if len(set(keys)) < len(keys) or set(keys) != set(planned):
        raise FileError("the tables are not those the event measured")
    numbers = FrozenMap((key, integers_of(entry[name])) for key, entry in zip(keys, entries, strict=True))
    laws = FrozenMap((key, law_of(entry["law"])) for key, entry in zip(keys, entries, strict=True))
    fixed = {key: network.cells(key) - network.possible_cells(key) for key in planned}  # 0 by the network's rules
    if any(laws[key] != m.law or numbers[key].size != m.cells + fixed[key] for key, m in planned.items()):
        raise FileError("a table's noise law is not the event's")
    n = None if plain["n"] is None else _whole(plain["n"])
    _check_rows(n, unit)
    return type_(network, numbers, laws, n, **{setting: _whole(plain[setting]) for setting in settings})


def _measuring_event(provenance: Provenance) -> Event:
    """The one event that measured; events beside it chose the tables."""
    measured = measured_parts(provenance.event)
    if len(measured) != 1:
        raise FileError("the releases are not as many as their events")
    return measured[0]


def _check_rows(n: int | None, unit: PrivacyUnit) -> None:
    if (n is None) == unit.n_is_public:
        raise FileError("the number of rows is there exactly when the unit makes it public")


def _whole(plain: Any) -> int:
    number = structural_value(plain, int, "a number")
    if not 0 <= number < 2**63:
        raise FileError("a whole number from 0 to 2^63 was expected")
    return number


def _plain_several(several: Several) -> Plain:
    learns = None if several.network is None else plain_network(several.network)
    return {"learns": learns, "parts": [_plain_part(part) for part in several.parts]}


def _plain_part(part: Any) -> Plain:
    if isinstance(part, JointCounts):
        return {"kind": "joint", **_plain_several(part)}
    kind = next(kind for kind, (type_, *_) in _TABLES.items() if isinstance(part, type_))
    return {"kind": kind, "network": plain_network(part.network), **_plain_single(kind, part)}


def _networks_in(plain: Plain) -> tuple[Network, ...]:
    found: list[Network] = []
    for part in plain["parts"]:
        found += _networks_in(part) if part["kind"] == "joint" else [network_of(part["network"])]
    return tuple(found)


def _several_of(type_: Any, plain: Plain, networks: tuple[Network, ...], provenance: Provenance) -> Several:
    """Several releases; the single ones take their networks and events in order, and each is checked by its own."""
    pairs = zip(networks, measured_parts(provenance.event), strict=True)

    def part_of(part: Plain) -> Any:
        if part["kind"] == "joint":
            return several_of(JointCounts, part)
        return _single_of(part["kind"], part, *next(pairs), provenance.unit)

    def several_of(made: Any, whole: Plain) -> Any:
        learns = None if whole["learns"] is None else network_of(whole["learns"])
        return made(tuple(map(part_of, whole["parts"])), learns)

    return several_of(type_, plain)


def _check_sums(noisy: tables.NoisySums, provenance: Provenance) -> None:
    _check_rows(noisy.n, provenance.unit)
    (planned, *others) = _measuring_event(provenance).measurements or (None,)
    if others or planned is None or (planned.table, planned.law) != (noisy.names, noisy.law):
        raise FileError("the sums are not those the event measured")


def _grid(description: Any) -> Plain | None:
    if isinstance(description, LinearDesign):
        return {"resolution": RESOLUTION, "copies": description.copies}
    if isinstance(description, OutcomeDescription):
        return {"steps": STEPS, "weights": [block.weight for block in description.parts]}
    return None


def _sums(kind: str, type_: Any) -> Codec:
    """The codec of noisy sums, which stand with their grid, so that no later dpgraph misreads them."""
    write, read = structural(type_, _check_sums)

    def sums_of(plain: Plain, description: Any, provenance: Provenance | None) -> Any:
        if plain["grid"] != _grid(description):
            raise FileError("the sums are on another grid than this dpgraph's")
        return read({name: part for name, part in plain.items() if name != "grid"}, description, provenance)

    return Codec("released", kind, type_, lambda noisy: {"grid": _grid(noisy.description), **write(noisy)}, sums_of)


def _numbers_of(plain: Plain, structure: None, provenance: Provenance) -> tuple[float, ...]:
    values = plain["values"]
    if not isinstance(values, list) or not all(isinstance(v, float) and np.isfinite(v) for v in values):
        raise FileError("the released numbers are not a list of finite numbers")
    if sum(selection.draws for selection in provenance.event.selections) != len(values) or not values:
        raise FileError("the numbers are not as many as the event chose")
    return tuple(values)


def _plain_numbers(values: tuple[Any, ...]) -> Plain | None:
    return {"values": list(values)} if values and all(isinstance(value, float) for value in values) else None


def _draws_of(plain: Plain, network: Network, provenance: Provenance) -> tuple[tables.Probabilities, ...]:
    draws = plain["draws"]
    if not isinstance(draws, list) or not draws:
        raise FileError("the draws are not a list, or there are none")
    chosen = sum(selection.draws for selection in provenance.event.selections)
    if chosen != len(draws) and not provenance.event.measurements:
        raise FileError("the draws are not as many as the event made")
    return tuple(tables.Probabilities(network, tables_of(draw), provenance) for draw in draws)


def _plain_draws(draws: tuple[Any, ...]) -> Plain | None:
    if not draws or not all(isinstance(one, tables.Probabilities) and one.network == draws[0].network for one in draws):
        return None
    return {"draws": [plain_tables(draw.tables) for draw in draws]}


def _released(
    kind: str, type_: type, write: Any, read: Any, measured: Any, read_measured: Any = needed_network
) -> Codec:
    return Codec("released", kind, type_, write, read, measured, read_measured)


def _tables(kind: str) -> Codec:
    def read(plain: Plain, network: Network, provenance: Provenance) -> Any:
        return _single_of(kind, plain, network, _measuring_event(provenance), provenance.unit)

    return _released(kind, _TABLES[kind][0], partial(_plain_single, kind), read, attrgetter("network"))


def _several(kind: str, type_: type) -> Codec:
    def networks(several: Any) -> tuple[Network, ...]:
        return tuple(single.network for single in several.singles)

    return _released(kind, type_, _plain_several, partial(_several_of, type_), networks, without_network(_networks_in))


register_codecs(
    *map(_tables, _TABLES),
    _several("joint-counts", JointCounts),
    _several("pooled-counts", PooledCounts),
    _released("probabilities", tables.Probabilities, *structural(tables.Probabilities), attrgetter("network")),
    _released("draws", tuple, _plain_draws, _draws_of, lambda draws: draws[0].network),
    _released("numbers", tuple, _plain_numbers, _numbers_of, lambda values: None, without_network(lambda plain: None)),
    Codec("description", "moments", MomentDescription, *structural(MomentDescription)),
    Codec("description", "outcomes", OutcomeDescription, *structural(OutcomeDescription)),
    _sums("moments", NoisyMoments),
    _sums("outcomes", NoisyOutcomes),
)
