"""The loops of ``loops`` compiled by numba, which no other module of this room knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import isfunction

from dpgraph.inference.classifier import loops


@cache
def compiled_sweep() -> Callable[..., None]:
    """``loops.sweep`` compiled; the machine code is kept on disk."""
    import numba
    from numba.extending import register_jitable

    for part in vars(loops).values():
        if isfunction(part) and part.__module__ == loops.__name__:
            register_jitable(part)
    return numba.njit(loops.sweep, cache=True, nogil=True)
