"""All that a value holds, as text: what a reprint in one line leaves out, so that replays compare it too."""

import dataclasses
from collections.abc import Mapping

import numpy as np

MOST = 12


def everything(value, depth=0):
    """The value and all fields below it; arrays in full.

    >>> everything({"a": np.arange(3), "b": (1.5, None)})
    "{'a': int64(3,)[0, 1, 2], 'b': (1.5, None)}"
    """
    assert depth < MOST, "a value that holds itself"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tolist()!r}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (
            f"{field.name}={everything(getattr(value, field.name), depth + 1)}"
            for field in dataclasses.fields(value)
            if field.repr
        )
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, Mapping):
        pairs = (f"{everything(key, depth + 1)}: {everything(one, depth + 1)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(everything(one, depth + 1) for one in value)})"
    return repr(value)
