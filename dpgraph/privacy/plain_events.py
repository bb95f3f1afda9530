"""Events as plain JSON values, and back: exact numbers as text, nothing executed.

Release files and the rows of a ledger hold events in this one form. Reading checks an event as ``Event`` does: a claim
below the cost of its noise is refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.events import Event
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.structural import FORMS, Form, plain_of, value_of

_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}


def event_text(event: Event) -> str:
    """An event as one line of JSON that reads back as an equal event.

    >>> from fractions import Fraction
    >>> event_text(Event("count", Fraction(1, 3)))
    '{"delta":"0","epsilon":"1/3","mechanism":"count"}'
    """
    try:
        text = json.dumps(plain_event(event), sort_keys=True, separators=(",", ":"), allow_nan=False)
        same = event_of_text(text) == event
    except (TypeError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, ReleaseError) else type(error).__name__
        raise ReleaseError(f"{event.mechanism} cannot be written down: {reason}") from None
    if not same:
        raise ReleaseError(f"{event.mechanism} cannot be written down: it would read back as another event")
    return text


def event_of_text(text: str) -> Event:
    """The inverse of ``event_text``."""
    try:
        return event_of(json.loads(text))
    except ReleaseError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ReleaseError(f"the record of an event is not whole ({type(error).__name__})") from None


def plain_event(event: Event) -> dict[str, Any]:
    """An event as plain JSON values; the event of several releases lists their events as its parts."""
    return plain_of(event, Event)


def event_of(plain: Any) -> Event:
    """The inverse of ``plain_event``."""
    parts = plain.get("parts", [])
    if not isinstance(parts, list) or any("parts" in single for part in parts for single in part.get("parts", [])):
        raise ReleaseError("the parts of an event are a list of single events, or of such whose parts are single")
    event = value_of(plain, Event, "event")
    if any(one.epsilon <= 0 or (one.rho is not None and one.rho <= 0) for one in (event, *event.parts, *event.events)):
        raise ReleaseError("epsilon and rho of an event are above 0")
    return event


def register_law(name: str, kind: type) -> None:
    """Lets records hold a noise law from outside the package: a frozen dataclass of finite numbers above 0."""
    if not is_dataclass(kind) or not fields(kind):
        raise ReleaseError(f"a noise law is a frozen dataclass with its scale; got {kind!r:.60}")
    if _LAWS.setdefault(name, kind) is not kind:
        raise ReleaseError(f"{name!r} is the name of another noise law")


def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by its name and its numbers, such as its scale; ReleaseError for a law that is not registered."""
    known = [name for name, kind in _LAWS.items() if type(law) is kind]
    if not known:
        raise ReleaseError(f"the noise law {type(law).__name__} is not one that files know; register_law adds it")
    return {"name": known[0]} | {part: getattr(law, part) for part in _numbers_of(type(law))}


def law_of(plain: Any) -> NoiseLaw:
    """The inverse of ``plain_law``; ReleaseError for an unknown law, or a number that is not finite and above 0."""
    name = plain.get("name") if isinstance(plain, dict) else None
    kind = _LAWS.get(name) if isinstance(name, str) else None
    if kind is None or set(plain) != {"name", *_numbers_of(kind)}:
        raise ReleaseError("a noise law is not known, or not whole")
    numbers = [plain[part] for part in _numbers_of(kind)]
    if not all(type(number) in (int, float) and 0 < number < math.inf for number in numbers):
        raise ReleaseError("the scale of a noise law is not a finite number above 0")
    return kind(*map(float, numbers))


def _numbers_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


FORMS[NoiseLaw] = Form(plain_law, lambda plain, place: law_of(plain))
