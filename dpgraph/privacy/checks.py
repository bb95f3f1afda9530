"""Kinds of values: numpy arrays by their elements, and settings, whose checks have one wording."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeGuard, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.display import short
from dpgraph.privacy.errors import ReleaseError

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Unsigned integers of any width, as codes are.
Unsigned = npt.NDArray[np.unsignedinteger[Any]]
#: 64 bits each, as bitmaps are.
Words = npt.NDArray[np.uint64]
#: The largest setting: a whole number of 64 bits.
MOST = 2**63 - 1


def is_whole(value: object, least: int = 0, most: int | None = None) -> TypeGuard[int]:
    """True for a Python int within bounds; False for True and False."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return least <= value and (most is None or value <= most)


def check_whole(
    name: str, value: object, least: int = 1, most: int = MOST, *, error: type[Exception] = ReleaseError
) -> None:
    """Refuses a setting that is not a whole number within bounds."""
    if not is_whole(value, least, most):
        bounds = f", at least {least}" if most == MOST and not is_whole(value, MOST) else f" from {least} to {most}"
        raise error(f"{name} must be a whole number{bounds}; got {short(value)}")


def check_boolean(name: str, value: object, *, error: type[Exception] = ReleaseError) -> None:
    """Refuses a setting that is neither True nor False."""
    if not isinstance(value, bool):
        raise error(f"{name} must be true or false; got {short(value)}")


def check_choice(name: str, value: object, choices: Any, *, error: type[Exception] = ReleaseError) -> None:
    """Refuses a setting that is not among the names of a Literal or a collection."""
    known = get_args(choices) or tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise error(f"{name} must be one of {', '.join(map(repr, known))}; got {short(value)}{near(value, known)}")


def near(value: object, known: Iterable[object]) -> str:
    """The nearest of the declared names, in brackets; empty where none is near. Of names alone, never of rows.

    >>> near("agee", ["age", "sex"]), near("1", [0, 1]), near("colour", ["age", "sex"])
    (" (did you mean 'age'?)", ' (did you mean 1?)', '')
    """
    words = {str(one).casefold(): one for one in islice(known, 1000)}
    text = value if isinstance(value, str) else short(value)
    found = get_close_matches(text[:60].casefold(), words, n=2, cutoff=0.6 if isinstance(value, str) else 1)
    return f" (did you mean {' or '.join(short(words[word]) for word in found)}?)" if found else ""


def is_number(value: Any) -> TypeGuard[int | float]:
    """True for a Python int or float, infinity and NaN too; False for True and False."""
    return isinstance(value, int | float) and not isinstance(value, bool)
