"""Checks of a description, before anything is charged, and of a record: its mechanism would record the same again.

An edited record is refused even where it claims too much: with other noise than was drawn, every posterior made from it
would be wrong. Nothing here proves who wrote a record; whoever can plan a release can forge one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dpgraph.lazy import register_by_name
from dpgraph.privacy.composition import check_paid_together
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Measurement, Selection, SelectionLaw, partition_movement
from dpgraph.privacy.noise import MIN_SCALE
from dpgraph.privacy.records import Event, PrivacyUnit, Provenance, combined_label, exceeds, total_up
from dpgraph.structure.margins import AnyTables, Margins
from dpgraph.structure.network import Network

#: A measured description, or None where a record needs none.
Structure = Any
#: The event that a mechanism plans for a description, with the settings of a recorded event.
Replan = Callable[[Event, PrivacyUnit, Structure], Event]
#: The fits of a cross-validation, which its one evaluation read and of which nothing else left.
HELD_OUT_FITS = "fits of folds"
#: The tables of a classifier's scores, whose bins follow from the other parts: its model holds what they said.
SCORES_OF_ROWS = "scores of rows"
#: The part that chose the tables that another part measured.
PARENTS_CHOICE = "ParentsChoice"
#: Scales are the smallest floats that pay for a claim, a few units in the last place; this is a thousand times more.
ROUNDING = Fraction(1, 2**40)
_REPLANS: dict[str, Replan] = {}


def check_network(description: object, mechanism: object) -> None:
    """Refuses any description but a network."""
    if not isinstance(description, Network):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes counts of a network; moments need LaplaceMechanism or GaussianMechanism")
    check_no_rules(description, type(mechanism).__name__, "LaplaceMechanism or GaussianMechanism")


def check_no_rules(network: Network, what: str, instead: str) -> None:
    """Refuses a network with rules where noise or a draw would not keep them."""
    if network.rules:
        raise ReleaseError(f"{what} does not keep the network's rules: use {instead}, or Network.of without rules=")


def check_graph(network: Network, mechanism: object) -> None:
    """Refuses tables without a graph where probabilities of one would be released: nothing would depend on anything."""
    check_network(network, mechanism)
    if isinstance(network, Margins):
        raise ReleaseError(
            f"{type(mechanism).__name__} releases probabilities of a graph, and these are tables without one: measure "
            "them with LaplaceMechanism or GaussianMechanism, choose a graph of that release, dg.choose_network(), and "
            "count the rows by it"
        )


def register_mechanism(name: str, replan: Replan) -> None:
    """Lets files hold the releases of a mechanism, checked whenever they are read or written.

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
    register_by_name(name)
    if _REPLANS.setdefault(name, replan) is not replan:
        raise ReleaseError(f"{name!r} is the name of another mechanism")


def selection_event(name: str, epsilon: Fraction, law: SelectionLaw, draws: int) -> Event:
    """The event of selections that share epsilon."""
    return Event(name, epsilon, selections=(Selection(law, epsilon / draws, draws),))


def register_selection(
    name: str,
    kind: type,
    laws: tuple[SelectionLaw, ...] = ("softmax",),
    draws: Callable[[Structure, int], int] = lambda structure, recorded: recorded,
    event: Callable[[str, Fraction, SelectionLaw, int], Event] = selection_event,
) -> None:
    """Registers a mechanism that makes one kind of selection on a ``kind`` of description, ``draws`` times."""

    def replan(recorded: Event, unit: PrivacyUnit, structure: Structure) -> Event:
        if not isinstance(structure, kind) or recorded.measurements or len(recorded.selections) != 1:
            raise ReleaseError(f"{name} makes one kind of selection and no measurements, on a {kind.__name__}")
        (chosen,) = recorded.selections
        if chosen.law not in laws:
            raise ReleaseError(f"{name} does not select by {chosen.law!r}")
        return event(name, recorded.epsilon, chosen.law, draws(structure, chosen.draws))

    register_mechanism(name, replan)


def check_laws(event: Event, laws: Any) -> None:
    """Refuses noise of another law than the mechanism's, and a block that was measured twice."""
    for m in event.measurements:
        if not isinstance(m.law, laws):
            raise ReleaseError(
                f"{event.mechanism} does not draw {type(m.law).__name__} noise, recorded for {', '.join(m.table)}"
            )
    if len({m.table for m in event.measurements}) < len(event.measurements):
        raise ReleaseError(f"{event.mechanism} is recorded to have measured a table twice")


def not_measured(event: Event, description: Any) -> ReleaseError:
    """The error of a record whose blocks are not of its description."""
    return ReleaseError(
        f"{event.mechanism} does not measure what its record says, on this {type(description).__name__}"
    )


def remeasured(event: Event, unit: PrivacyUnit, network: Network) -> tuple[Measurement, ...]:
    """A record's tables with cells and movements of the domain; a model may be of a graph chosen after the release."""
    names = [m.table for m in event.measurements]
    if not names or not all(name and all(one in network.domain for one in name) for name in names):
        raise not_measured(event, network)
    sized = [(m, network.possible_cells(m.table)) for m in event.measurements]
    return tuple(Measurement(m.table, cells, m.law, partition_movement(cells, unit)) for m, cells in sized)


def check_scales(event: Event, claim: Fraction, *ways: Sequence[Fraction], rounding: Fraction = ROUNDING) -> None:
    """Refuses scales that are not the smallest that pay for the claim, by one way of adding up its cost."""
    if any(m.law.scale == MIN_SCALE for m in event.measurements):
        return
    fitting = [parts for parts in ways if not exceeds(parts, claim * (1 + rounding))]
    if not any(exceeds(parts, claim * (1 - rounding)) for parts in fitting or ways):
        names = {event.rho: "rho", event.mu and event.mu**2: "mu squared"}
        raise ReleaseError(
            f"{event.mechanism} claims {names.get(claim, 'epsilon')} {float(claim):.9g}, but noise of "
            f"these scales costs {float(total_up(ways[-1])):.9g}: they are not the scales it was made with"
        )


def check_reproduced(provenance: Provenance, structure: Structure) -> None:
    """Refuses a record that its mechanism could not have made of its description, or of several a tuple of theirs."""
    event, unit = provenance.event, provenance.unit
    try:
        _check_recorded(event, unit, structure)
    except ReleaseError:  # a model of filled values is of a release that counted nulls as a level
        released = structure.released if isinstance(structure, Network) else structure
        if released is structure:
            raise
        _check_recorded(event, unit, released)


def _check_recorded(event: Event, unit: PrivacyUnit, structure: Structure) -> None:
    if event.parts:
        check_paid_together(event)
        _check_parts(event, unit, iter(_structures(event, structure)))
    else:
        _check_single(event, unit, structure)


def _check_single(event: Event, unit: PrivacyUnit, structure: Structure) -> None:
    register_by_name(event.mechanism)
    if event.mechanism not in _REPLANS:
        raise ReleaseError(
            f"{event.mechanism!r} is not a mechanism whose record can be checked; import the module that registers it"
        )
    planned = _REPLANS[event.mechanism](event, unit, structure)
    if planned != event:
        raise ReleaseError(f"{event.mechanism} {_difference(event, planned)}")


def _difference(event: Event, planned: Event) -> str:
    """The first difference between a record and the plan of its mechanism, in words."""
    if [m.table for m in event.measurements] != [m.table for m in planned.measurements]:
        return "does not measure what its record says"
    for said, true in zip(event.measurements, planned.measurements, strict=True):
        name = f"the table of {', '.join(said.table)}" if said.table else "the number of rows"
        if (said.cells, said.movement) != (true.cells, true.movement):
            return (
                f"would not record this: {name} is recorded to have {said.cells} cells and to move by {said.movement}, "
                f"but it has {true.cells} and one person moves it by {true.movement}"
            )
        if said.law != true.law:
            return (
                f"claims epsilon {float(event.epsilon):.9g}, but {name} has noise of scale {said.law.scale:.12g}, not "
                f"{true.law.scale:.12g}: they are not the scales it was made with"
            )
    if event.joint != planned.joint:
        return f"would not record this: the joint distance is {event.joint}, but should be {planned.joint}"
    return f"claims epsilon {float(event.epsilon):.9g}, but {_rest(event)} where its plan has {_rest(planned)}"


def _rest(event: Event) -> str:
    chosen = [f"{one.draws} selections of epsilon {one.epsilon}" for one in event.selections]
    return ", ".join([f"delta {event.delta}", f"rho {event.rho}", *chosen])


def _check_parts(event: Event, unit: PrivacyUnit, structures: Iterator[Structure]) -> None:
    """Refuses the event of several releases, each of one of these structures, if one of them could not be made."""
    if event.mechanism != combined_label(event.parts):
        raise ReleaseError(f"{event.mechanism!r:.60} is not how the event of its parts is called")
    for part in event.parts:
        if part.parts:
            _check_parts(part, unit, structures)
        elif part.mechanism in (HELD_OUT_FITS, SCORES_OF_ROWS):
            _check_undrawn(part, event, next(structures))
        else:
            _check_single(part, unit, next(structures))


def _check_undrawn(part: Event, whole: Event, structure: Structure) -> None:
    """Refuses a part without a release where its kind does not belong, or with anything that was drawn."""
    from dpgraph.structure.moments import OutcomeDescription

    beside = [other for other in whole.parts if other.mechanism == part.mechanism]
    if part.measurements or part.selections or part.joint is not None or len(beside) > 1:
        raise ReleaseError(f"the part {part.mechanism!r} is there once at most, and drew nothing")
    if part.mechanism == SCORES_OF_ROWS:
        if not isinstance(structure, Network) or whole.parts[-1] != part or len(whole.parts) < 2:
            raise ReleaseError(f"the part {part.mechanism!r} is the last of a classifier's")
        return
    if not (isinstance(structure, OutcomeDescription) and len(whole.parts) == 2):
        raise ReleaseError(f"only one evaluation, which read {HELD_OUT_FITS}, has them beside it")


def measured_parts(event: Event) -> tuple[Event, ...]:
    """The parts of an event that released a value of their own: no choice of tables, fits of folds or scores."""
    apart = (PARENTS_CHOICE, HELD_OUT_FITS, SCORES_OF_ROWS)
    return tuple(part for part in event.events if part.mechanism not in apart)


def _structures(event: Event, structure: Structure) -> Iterator[Structure]:
    """The description of each single event; for an event that drew nothing, that of the first measurement."""
    measuring = measured_parts(event)
    known = structure if isinstance(structure, tuple) else (structure,) * len(measuring)
    if len(known) != len(measuring) or not known:
        raise ReleaseError("the releases are not as many as their events")
    rest = iter(known)
    for part in event.events:
        if part.mechanism == PARENTS_CHOICE:
            yield AnyTables(known[0].domain) if isinstance(known[0], Network) else None
        else:
            yield known[0] if part.mechanism in (HELD_OUT_FITS, SCORES_OF_ROWS) else next(rest)
