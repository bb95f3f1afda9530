"""Kinds of values: numpy arrays by their elements, and settings, whose checks have one wording."""

from __future__ import annotations

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
    """Refuses a setting that is not a whole number within bounds.

    >>> check_whole("draws", 0)
    Traceback (most recent call last):
    ...
    dpgraph.privacy.errors.ReleaseError: draws must be a whole number, at least 1; got 0
    """
    if not is_whole(value, least, most):
        bounds = f", at least {least}" if most == MOST and not is_whole(value, MOST) else f" from {least} to {most}"
        raise error(f"{name} must be a whole number{bounds}; got {short(value)}")


def check_boolean(name: str, value: object, *, error: type[Exception] = ReleaseError) -> None:
    """Refuses a setting that is neither True nor False."""
    if not isinstance(value, bool):
        raise error(f"{name} must be true or false; got {short(value)}")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuses a setting that is not among a Literal's values."""
    if value not in get_args(choices):
        raise ReleaseError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}; got {value!r}")


def is_number(value: Any) -> TypeGuard[int | float]:
    """True for a Python int or float, infinity and NaN too; False for True and False."""
    return isinstance(value, int | float) and not isinstance(value, bool)
