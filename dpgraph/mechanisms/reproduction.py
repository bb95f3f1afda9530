"""Whether a record can be reproduced: movements from public structure, scales from the claim, exactly as planned.

A record that was edited is refused here even where it claims too much: with other noise than was drawn every posterior
made from it would be wrong. Nothing here proves who wrote a record; whoever can plan a release can forge one.

A mechanism from elsewhere registers how its event is planned again (``register_mechanism``); others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from math import prod
from typing import Any, NamedTuple

from dpgraph.lazy import register_by_name
from dpgraph.mechanisms.additive.blocks import GRID
from dpgraph.mechanisms.additive.fourier import walsh_distance, walsh_movement
from dpgraph.mechanisms.additive.sensitivity import block_movements, joint_distance, table_movement
from dpgraph.privacy.claims import concentrated_parts, exceeds, joint_parts, pure_parts, total_up
from dpgraph.privacy.composition import check_paid_together
from dpgraph.privacy.noise import MIN_SCALE, epsilon_of_rho
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Joint,
    Measurement,
    Movement,
    PrivacyUnit,
    Provenance,
    ReleaseError,
    SumZeroLaplace,
    combined_label,
)
from dpgraph.structure.basis import MAX_BLOCKS, block_shape, has_blocks
from dpgraph.structure.candidate_tables import AnyTables
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network
from dpgraph.structure.outcomes import OutcomeDescription

#: What was measured: a description, or None where a record needs none.
Structure = Any
#: What a mechanism plans for a description, from what its record says of its settings.
Replan = Callable[[Event, PrivacyUnit, Structure], Event]

#: What a whole was charged beyond its parts: a claim of nothing drawn.
UNSPENT = "unspent"
#: The fits of a cross-validation, which its one evaluation read and of which nothing else left.
HELD_OUT_FITS = "fits of folds"
#: Parts that a claim is for, and no measurement.
_UNDRAWN = (UNSPENT, HELD_OUT_FITS)
#: Scales are the smallest floats that pay for a claim, a few units in the last place; this is a thousand times more.
ROUNDING = Fraction(1, 2**40)


class Remeasured(NamedTuple):
    """The measurements with the movements that follow from public structure, and how far they move together."""

    measurements: tuple[Measurement, ...]
    joint: Joint | None = None


def check_reproduced(provenance: Provenance, structure: Structure) -> None:
    """Refuses a record that its mechanism could not have made.

    Args:
        provenance: The event, the unit.
        structure: What was measured: a network or another description; None where there is none. Of several releases
            read as one, a tuple of what each measured, or what they all are read in; those that chose among tables and
            measured nothing chose among tables of the same domain.

    Raises:
        ReleaseError: Naming what does not fit: an unknown mechanism, a movement that does not follow from the structure
            and the unit, or a claim other than what the noise costs.
    """
    event, unit = provenance.event, provenance.unit
    if event.parts:
        check_paid_together(event)
        _check_parts(provenance, iter(_structures(event, structure)))
        return
    register_by_name(event.mechanism)
    if event.mechanism in _REGISTERED:
        if _REGISTERED[event.mechanism](event, unit, structure) != event:
            raise ReleaseError(f"{event.mechanism} would not record what this record says of its release")
        return
    if event.mechanism in _SELECTING:
        _check_selections(event, structure)
        return
    found = _remeasured(event, unit, structure)
    for said, true in zip(event.measurements, found.measurements, strict=True):
        if said != true:
            raise ReleaseError(
                f"{event.mechanism}: {_named(said.table)} is recorded to have {said.cells} cells and to move by "
                f"{said.movement}, but it has {true.cells} and one person moves it by {true.movement} under {unit}"
            )
    if event.joint != found.joint:
        raise ReleaseError(f"{event.mechanism}: the joint distance is {event.joint}, but should be {found.joint}")
    if event.selections or (event.delta > 0) != (event.mechanism == "GaussianMechanism"):
        raise ReleaseError(f"{event.mechanism} makes no selections, and only Gaussian noise has a delta")
    _check_scales(event)


def _check_parts(provenance: Provenance, structures: Iterator[Structure]) -> None:
    """Refuses the record of several releases, each of one of these structures, that one could not have made."""
    event = provenance.event
    if event.mechanism != combined_label(event.parts):
        raise ReleaseError(f"{event.mechanism!r:.60} is not how the event of its parts is called")
    for part in event.parts:
        if part.parts:
            _check_parts(replace(provenance, event=part), structures)
        elif part.mechanism in _UNDRAWN:
            _check_undrawn(part, event, next(structures))
        else:
            check_reproduced(replace(provenance, event=part), next(structures))


def measured_parts(event: Event) -> tuple[Event, ...]:
    """The parts of an event that released a value of their own; the others chose what these measured, or are unspent.

    >>> [part.mechanism for part in measured_parts(Event("LaplaceMechanism", Fraction(1)))]
    ['LaplaceMechanism']
    """
    return tuple(part for part in event.events if not _leaves_no_value(part))


def _leaves_no_value(event: Event) -> bool:
    """Whether it chose among the tables of a domain, which shows in what was measured afterwards, or told nothing."""
    return event.mechanism in _DRAWS or event.mechanism in _UNDRAWN


def _structures(event: Event, structure: Structure) -> Iterator[Structure]:
    """What each single event measured, or chose among; for one that drew nothing, what the first one measured.

    Raises:
        ReleaseError: If the structures are not as many as the parts that measured.
    """
    measuring = measured_parts(event)
    known = structure if isinstance(structure, tuple) else (structure,) * len(measuring)
    if len(known) != len(measuring) or not known:
        raise ReleaseError("the releases are not as many as their events")
    domain = known[0].domain if isinstance(known[0], Network) else None
    rest = iter(known)
    for part in event.events:
        if part.mechanism in _DRAWS:
            yield None if domain is None else AnyTables(domain)
        else:
            yield known[0] if part.mechanism in _UNDRAWN else next(rest)


def register_mechanism(name: str, replan: Replan) -> None:
    """Lets files hold the releases of a mechanism from outside the package, checked whenever they are read or written.

    Args:
        name: The label of its events.
        replan: The event that the mechanism plans, from the recorded event, the unit and the description: its settings
            are read off the event, and the plan is made anew, ``lambda event, unit, description:
            Mine(event.epsilon).event(description, unit)``. A record that differs from it in anything is refused.

    Raises:
        ReleaseError: If the name is taken by another mechanism.

    >>> register_mechanism("LaplaceMechanism", lambda event, unit, description: event)
    Traceback (most recent call last):
    ...
    dpgraph.privacy.errors.ReleaseError: 'LaplaceMechanism' is the name of another mechanism
    """
    if name in _ADDING or name in _SELECTING or _REGISTERED.get(name, replan) is not replan:
        raise ReleaseError(f"{name!r} is the name of another mechanism")
    _REGISTERED[name] = replan


def _remeasured(event: Event, unit: PrivacyUnit, structure: Structure) -> Remeasured:
    """The measurements of an event, their movements computed from public structure and the unit alone.

    Raises:
        ReleaseError: If the mechanism is not known, or does not measure this.
    """
    mechanism = event.mechanism
    if mechanism not in _ADDING:
        known = ", ".join([*_ADDING, *_SELECTING, *_REGISTERED])
        raise ReleaseError(f"{mechanism!r} is no mechanism whose record can be checked; known: {known}")
    laws, plan = _ADDING[mechanism]
    if len({m.table for m in event.measurements}) < len(event.measurements):
        raise ReleaseError(f"{mechanism} is recorded to have measured a table twice")
    for m in event.measurements:
        if not isinstance(m.law, laws):
            raise ReleaseError(f"{mechanism} does not draw {type(m.law).__name__} noise, recorded for {m.table}")
    found = plan(unit, structure, event.measurements, None if event.joint is None else event.joint.weights)
    if found is None:
        raise ReleaseError(f"{mechanism} does not measure what its record says, on this {type(structure).__name__}")
    return found


def _plain_sums(
    unit: PrivacyUnit, structure: Structure, recorded: Sequence[Measurement], weights: tuple[int, ...] | None
) -> Remeasured | None:
    """What is measured with noise of its own each, and does not move together: tables, or a description's blocks."""
    if weights is not None or not recorded or structure is None:
        return None
    return _measured_blocks(structure, unit, recorded)


@singledispatch
def _measured_blocks(structure: Any, unit: PrivacyUnit, recorded: Sequence[Measurement]) -> Remeasured | None:
    """All blocks of a description, in order; networks have a plan of their own."""
    blocks = structure.blocks(unit)
    if [one.table for one in recorded] != [block.name for block in blocks]:
        return None
    pairs = zip(blocks, recorded, strict=True)
    return Remeasured(tuple(Measurement(block.name, block.cells, one.law, block.movement) for block, one in pairs))


@_measured_blocks.register
def _measured_tables(structure: Network, unit: PrivacyUnit, recorded: Sequence[Measurement]) -> Remeasured | None:
    """Tables of a network, or blocks in its residual basis."""
    if any(not one.table for one in recorded):
        return _residual_blocks(unit, structure, recorded)
    if not all(name in structure.domain for one in recorded for name in one.table):
        return None
    return Remeasured(
        tuple(
            Measurement(one.table, structure.cells(one.table), one.law, table_movement(structure, one.table, unit))
            for one in recorded
        )
    )


def _residual_blocks(unit: PrivacyUnit, network: Network, recorded: Sequence[Measurement]) -> Remeasured | None:
    """Blocks of the residual basis, each with noise of its own."""
    if unit.n_is_public or _whose_blocks(network, [one.table for one in recorded]) is None:
        return None
    moved = block_movements(network, tuple(one.table for one in recorded), GRID, unit)
    return Remeasured(tuple(_block(network, one, moved[one.table]) for one in recorded))


def _coefficients(
    unit: PrivacyUnit, structure: Structure, recorded: Sequence[Measurement], weights: tuple[int, ...] | None
) -> Remeasured | None:
    """Blocks that move together: Walsh sums, parity counts, or blocks of the residual basis."""
    if not isinstance(structure, Network):
        return None
    if not recorded:
        return Remeasured(()) if unit.n_is_public and has_blocks(structure, [()]) else None
    measured = [one.table for one in recorded]
    structure = _whose_blocks(structure, [(), *measured] if unit.n_is_public else measured)
    if structure is None:
        return None
    if all(size <= 2 for size in structure.domain.sizes.values()):
        for paper in (False, True) if () in measured and unit.n_is_public else (False,):
            moved = [walsh_movement(block, unit, paper=paper) for block in measured]
            if [one.sensitivity for one in recorded] == [one.l1 for one in moved]:
                made = tuple(_block(structure, one, m) for one, m in zip(recorded, moved, strict=True))
                return Remeasured(made, Joint((1,) * len(made), max(1, walsh_distance(structure, unit, paper=paper))))
    if () in measured and unit.n_is_public:
        return None
    if weights is None or len(weights) != len(recorded):
        return None
    moves = block_movements(structure, tuple(measured), GRID, unit)
    together = joint_distance(structure, tuple(measured), weights, GRID, unit)
    return Remeasured(tuple(_block(structure, one, moves[one.table]) for one in recorded), Joint(weights, together))


def _whose_blocks(network: Network, measured: Sequence[Family]) -> Network | None:
    """What some blocks are all blocks of: the network, or other tables over its variables; None where of none.

    A model may be of a graph that was chosen after its blocks were measured.
    """
    found = set(measured)
    if has_blocks(network, found):
        return network
    if () not in found or any(2 ** len(block) > len(found) for block in found):
        return None  # a block is there with its subsets
    if not all(name in network.domain for block in found for name in block):
        return None
    covered = {block[:i] + block[i + 1 :] for block in found for i in range(len(block))}
    largest = sorted(block for block in found - covered if block)
    if not largest or sum(2 ** len(block) for block in largest) > MAX_BLOCKS:
        return None
    tables = Margins.of_tables(network.domain, largest)
    return tables if has_blocks(tables, found) else None


def _block(network: Network, one: Measurement, moved: Movement) -> Measurement:
    return Measurement(one.table, prod(block_shape(network, one.table)), one.law, moved)


def _check_scales(event: Event) -> None:
    """Refuses scales that are not the smallest that pay for the claim, as every plan chooses them.

    Measurements that nobody moves are planned as if they moved by one: each by itself, or together where Laplace noise
    shares a scale. Below ``MIN_SCALE`` no scale goes, so a plan that holds it may claim more than it costs.
    """
    if not event.measurements or any(m.law.scale == MIN_SCALE for m in event.measurements):
        return
    if event.mechanism == "GaussianMechanism":
        if event.rho is None:
            raise ReleaseError(f"{event.mechanism} claims no rho")
        claim = event.rho
        if epsilon_of_rho(claim, event.delta) > event.epsilon:
            raise ReleaseError(f"{event.mechanism} claims less epsilon than its rho converts to")
        parts, name = concentrated_parts(event.measurements, least=1), "rho"
    elif event.joint is not None:
        claim, parts, name = event.epsilon, [min(joint_parts(event))], "epsilon"
    else:
        claim, parts, name = event.epsilon, _shared_parts(event.measurements), "epsilon"
        alone = pure_parts(event.measurements, least=1)
        if exceeds(alone, claim * (1 - ROUNDING)) and not exceeds(alone, claim * (1 + ROUNDING)):
            return
    if not exceeds(parts, claim * (1 - ROUNDING)):
        raise ReleaseError(
            f"{event.mechanism} claims {name} {float(claim):.9g}, but noise of these scales costs "
            f"{float(total_up(parts)):.9g}: they are not the scales it was made with"
        )


def _shared_parts(measurements: Sequence[Measurement]) -> list[Fraction]:
    """The epsilons of the measurements of each scale together, which move by at least one."""
    moved: dict[float, int] = {}
    for m in measurements:
        moved[m.law.scale] = moved.get(m.law.scale, 0) + m.sensitivity
    return [Fraction(max(1, l1)) / Fraction(scale) for scale, l1 in moved.items()]


def _check_undrawn(part: Event, whole: Event, structure: Structure) -> None:
    """Refuses a part of which nothing left but where its kind belongs, or with anything that was drawn."""
    beside = [other for other in whole.parts if other.mechanism == part.mechanism]
    if part.measurements or part.selections or part.joint is not None or len(beside) > 1:
        raise ReleaseError(f"what is {part.mechanism} is there once at most, and drew nothing")
    if part.mechanism == UNSPENT and not any(other.mechanism in _DRAWS for other in whole.parts):
        raise ReleaseError(f"only a release whose tables were chosen has a part that is {UNSPENT}")
    if part.mechanism == HELD_OUT_FITS and not (isinstance(structure, OutcomeDescription) and len(whole.parts) == 2):
        raise ReleaseError(f"only one evaluation, which read {HELD_OUT_FITS}, has them beside it")


def _check_selections(event: Event, structure: Structure) -> None:
    """Refuses selections that are not the mechanism's, or do not add up to its claim."""
    kind, laws = _SELECTING[event.mechanism]
    if not isinstance(structure, kind) or event.measurements or event.joint is not None or len(event.selections) != 1:
        raise ReleaseError(f"{event.mechanism} makes one kind of selection and no measurements, on a {kind.__name__}")
    (chosen,) = event.selections
    if chosen.law not in laws or (event.mechanism == "MapEstimate" and chosen.draws != 1):
        raise ReleaseError(f"{event.mechanism} does not select {chosen.draws} times by {chosen.law!r}")
    if event.mechanism in _DRAWS and chosen.draws != _DRAWS[event.mechanism](structure):
        raise ReleaseError(f"{event.mechanism} does not choose {chosen.draws} times among these tables")
    whole = chosen.epsilon * chosen.draws
    if event.delta == 0 and whole == event.epsilon:
        return
    raise ReleaseError(
        f"{event.mechanism} claims epsilon {float(event.epsilon):.9g}, but its selections cost {float(whole):.9g}"
    )


Planner = Callable[[PrivacyUnit, Structure, Sequence[Measurement], tuple[int, ...] | None], Remeasured | None]

#: Mechanisms that add noise, by label: the laws they draw, and what their measurements move by.
_ADDING: dict[str, tuple[Any, Planner]] = {
    "LaplaceMechanism": (DiscreteLaplace | SumZeroLaplace, _plain_sums),
    "GaussianMechanism": (DiscreteGaussian, _plain_sums),
    "FourierMechanism": (DiscreteLaplace, _coefficients),
}

#: Mechanisms that select, by label: from what structure, and by which laws.
_SELECTING: dict[str, tuple[type, tuple[str, ...]]] = {
    "PosteriorSample": (Network, ("softmax",)),
    "PosteriorSample (idealized numerics)": (Network, ("continuous",)),
    "MapEstimate": (Network, ("softmax", "permute-and-flip")),
    "PrivateQuantile": (type(None), ("softmax",)),
    "ParentsChoice": (AnyTables, ("softmax",)),
    "TableChoice": (AnyTables, ("softmax",)),
}

#: Those that choose among the tables of a domain, by label: how often.
_DRAWS: dict[str, Callable[[AnyTables], int]] = {
    "ParentsChoice": lambda tables: len(tables.domain.names) - 1,
    "TableChoice": lambda tables: 1,
}

#: Mechanisms from outside the package, by label.
_REGISTERED: dict[str, Replan] = {}


def _named(table: Family) -> str:
    return f"the table of {', '.join(table)}" if table else "the number of rows"
