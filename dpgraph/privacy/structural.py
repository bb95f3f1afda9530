"""Frozen dataclasses as plain JSON values and back, by the types of their fields.

A dataclass is an object of its fields; empty ones with an empty default are left out. A union names its member, and
only declared members are made: nothing in a file is imported or executed. Exact numbers are text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from dpgraph.privacy.checks import near
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.records import Event, exact

#: The largest whole number of a plain value.
MOST = 2**256


class Form(NamedTuple):
    """How values of one type are written, and read from a place that a refusal names."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


#: Types with a form of their own.
FORMS: dict[Any, Form] = {}


def plain_of(value: Any, kind: Any = None, but: tuple[str, ...] = ()) -> Any:
    """A value as plain JSON values."""
    return _object(value, but) if but else form_of(type(value) if kind is None else kind).write(value)


def value_of(plain: Any, kind: Any, place: str = "value", **given: Any) -> Any:
    """The inverse of ``plain_of``."""
    return _made(plain, kind, place, given) if given else form_of(kind).read(plain, place)


@lru_cache(maxsize=1024)
def form_of(kind: Any) -> Form:
    """The form of a type, as a field declares it."""
    if kind in FORMS:
        return FORMS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(inner)
    if origin is Literal:
        return Form(_same, _one_of(inner))
    if origin is tuple:
        return _tuple(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(origin, inner)
    if is_dataclass(kind):
        return Form(_object, lambda plain, place: _made(plain, kind, place, {}))
    raise TypeError(f"{kind} has no plain form")


def refused(place: str, expected: str) -> ReleaseError:
    """The refusal of a plain value."""
    return ReleaseError(f"{place}: {expected} was expected")


def _same(value: Any) -> Any:
    return value


def _scalar(types: tuple[type, ...], expected: str) -> Form:
    """Texts, booleans and numbers, which stand for themselves; numbers are finite."""

    def read(plain: Any, place: str) -> Any:
        if type(plain) not in types or (type(plain) is float and not math.isfinite(plain)):
            raise refused(place, expected)
        if type(plain) is int and abs(plain) > MOST:
            raise refused(place, "a whole number of at most 256 bits")
        return plain

    return Form(_same, read)


def _fraction(plain: Any, place: str) -> Fraction:
    if not isinstance(plain, str):
        raise refused(place, "an exact number, written as text,")
    number = exact(plain, place, zero=True)
    if str(number) != plain:
        raise refused(place, "an exact number as it is written, such as 1/3,")
    return number


def _one_of(known: tuple[Any, ...]) -> Callable[[Any, str], Any]:
    def read(plain: Any, place: str) -> Any:
        if type(plain) not in map(type, known) or plain not in known:
            raise refused(place, f"one of {', '.join(map(repr, known))}")
        return plain

    return read


def _tuple(inner: tuple[Any, ...]) -> Form:

    def write(value: Any) -> list[Any]:
        return [form_of(inner[0] if inner[-1] is ... else inner[at]).write(part) for at, part in enumerate(value)]

    def read(plain: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(plain, list):
            raise refused(place, "a list")
        kinds = inner[:1] * len(plain) if inner[-1] is ... else inner
        if len(kinds) != len(plain):
            raise refused(place, f"a list of {len(kinds)}")
        return tuple(
            form_of(kind).read(part, f"{place}[{at}]") for at, (kind, part) in enumerate(zip(kinds, plain, strict=True))
        )

    return Form(write, read)


def _mapping(origin: Any, inner: tuple[Any, ...]) -> Form:
    if inner[0] is not str:
        raise TypeError("a mapping by other keys than texts has no plain form")

    def write(value: Any) -> dict[str, Any]:
        return {name: form_of(inner[1]).write(part) for name, part in value.items()}

    def read(plain: Any, place: str) -> Any:
        if not isinstance(plain, dict):
            raise refused(place, "an object")
        return origin({name: form_of(inner[1]).read(part, f"{place}.{name:.60}") for name, part in plain.items()})

    return Form(write, read)


def _union(members: tuple[Any, ...]) -> Form:
    """``X | None``, unions of scalars, and unions of dataclasses by the names of their classes."""
    if NoneType in members:
        other = form_of(Union[tuple(member for member in members if member is not NoneType)])  # noqa: UP007
        return Form(
            lambda value: None if value is None else other.write(value),
            lambda plain, place: None if plain is None else other.read(plain, place),
        )
    if all(member in (str, int, float, bool) for member in members):
        return _scalar(members, "a text, a number or a boolean")
    return named(members)


def named(kinds: tuple[Any, ...] | Mapping[str, Any]) -> Form:
    """A form that says which of several dataclasses a value is; only these are made."""
    known = kinds if isinstance(kinds, Mapping) else {kind.__name__.lower(): kind for kind in kinds}

    def write(value: Any) -> dict[str, Any]:
        for name, kind in known.items():
            if type(value) is kind:
                return {"name": name, **form_of(kind).write(value)}
        raise ReleaseError(f"{type(value).__name__} is not written to files: known are {', '.join(known)}")

    def read(plain: Any, place: str) -> Any:
        if not isinstance(plain, dict) or not isinstance(name := plain.get("name"), str) or name not in known:
            raise refused(place, f"one of {', '.join(known)}, by its name,")
        return form_of(known[name]).read({key: part for key, part in plain.items() if key != "name"}, place)

    return Form(write, read)


@lru_cache(maxsize=256)
def _fields(kind: Any) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind, localns={"Provenance": Any, "PrivacyUnit": Any})
    return [(field, hints[field.name]) for field in fields(kind) if field.init]


def _object(value: Any, but: tuple[str, ...] = ()) -> dict[str, Any]:
    parts = [(field, hint, getattr(value, field.name)) for field, hint in _fields(type(value)) if field.name not in but]
    return {field.name: form_of(hint).write(part) for field, hint, part in parts if not _is_left_out(field, part)}


def _is_left_out(field: Field[Any], value: Any) -> bool:
    """True for None or an empty value with a default, which is then the same."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and (value is default is None or (isinstance(value, tuple | Mapping) and not value))


def _made(plain: Any, kind: Any, place: str, given: dict[str, Any]) -> Any:
    expected = [pair for pair in _fields(kind) if pair[0].name not in given]
    if not isinstance(plain, dict):
        raise refused(place, "an object")
    known = [field.name for field, _ in expected]
    if unknown := set(plain).difference(known):
        first = min(map(str, unknown))
        raise ReleaseError(f"{place}: {first!r:.60} is unknown{near(first, known)}")
    made = dict(given)
    for field, hint in expected:
        if field.name in plain:
            made[field.name] = form_of(hint).read(plain[field.name], f"{place}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ReleaseError(f"{place}: {field.name!r} is missing")
    return kind(**made)


FORMS.update(
    {
        str: _scalar((str,), "a text"),
        bool: _scalar((bool,), "true or false"),
        int: _scalar((int,), "a whole number"),
        float: _scalar((float, int), "a finite number"),
        Fraction: Form(str, _fraction),
    }
)


_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(plain: Any) -> str:
    """Plain values as the one JSON text that stands for them.

    >>> canonical({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return _ENCODER.encode(plain)


def event_text(event: Event) -> str:
    """An event as one line of JSON that reads back as an equal event.

    >>> from fractions import Fraction
    >>> event_text(Event("count", Fraction(1, 3)))
    '{"delta":"0","epsilon":"1/3","mechanism":"count"}'
    """
    try:
        text = canonical(plain_of(event, Event))
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


def event_of(plain: Any) -> Event:
    """An event from plain JSON values; the event of several releases lists their events as its parts."""
    parts = plain.get("parts", [])
    if not isinstance(parts, list) or any("parts" in single for part in parts for single in part.get("parts", [])):
        raise ReleaseError("the parts of an event are a list of single events, or of such whose parts are single")
    event = value_of(plain, Event, "event")
    claims = [claim for one in (event, *event.parts, *event.events) for claim in (one.epsilon, one.rho, one.mu)]
    if any(claim is not None and claim <= 0 for claim in claims):
        raise ReleaseError("epsilon, rho and mu of an event are above 0")
    return event


def register_law(name: str, kind: type) -> None:
    """Lets records hold a noise law from outside the package: a frozen dataclass of finite numbers above 0.

    Raises:
        ReleaseError: If it is none, or the name is taken.
    """
    if not is_dataclass(kind) or not fields(kind):
        raise ReleaseError(f"a noise law is a frozen dataclass with its scale; got {kind!r:.60}")
    if _LAWS.setdefault(name, kind) is not kind:
        raise ReleaseError(f"{name!r} is the name of another noise law")


def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by its name and its numbers, such as its scale; ReleaseError for a law that is not registered."""
    if type(law) not in _LAWS.values():
        raise ReleaseError(f"the noise law {type(law).__name__} is not one that files know; register_law adds it")
    return named(_LAWS).write(law)


def law_of(plain: Any) -> NoiseLaw:
    """The inverse of ``plain_law``; ReleaseError for an unknown law, or a number that is not finite and above 0."""
    law = named(_LAWS).read(plain, "a noise law")
    if not all(number > 0 for number in vars(law).values()):
        raise ReleaseError("the scale of a noise law is not above 0")
    return law


FORMS[NoiseLaw] = Form(plain_law, lambda plain, place: law_of(plain))
