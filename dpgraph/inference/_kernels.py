"""numba: the inner loops of samplers compiled; without it they are plain Python that draws the same."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from inspect import isfunction
from pathlib import Path
from typing import Any

from dpgraph.waiting import at_terminal

#: What is said where loops are compiled, which a fit waits for.
COMPILING = "compiling the sampler's loops, once for this installation: up to a minute of processor time, then as usual"


#: Chains in threads ask for their loops at once.
_LOCK = threading.Lock()


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop compiled with the functions of its module that it calls; the machine code is kept on disk."""
    with _LOCK:
        return _compiled(loop)


@lru_cache(maxsize=64)
def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    _register(loop.__module__)
    return numba.njit(loop, cache=True, nogil=True)


@lru_cache(maxsize=64)
def _register(module: str) -> None:
    """Lets compiled loops call the functions of a module; code that is not written into its caller is twice as slow."""
    from numba.extending import register_jitable

    for function in vars(sys.modules[module]).values():
        if isfunction(function) and function.__module__ == module:
            register_jitable(forceinline=True)(function)


def say_that_loops_are_compiled(loops: Iterable[Any]) -> None:
    """A line on stderr, where that is a terminal, if numba will compile a loop because no machine code is on disk."""
    if at_terminal() and any(not _on_disk(loop) for loop in loops):
        print(COMPILING, file=sys.stderr)


def _on_disk(loop: Any) -> bool:
    """True if machine code of a loop is loaded, or lies in numba's cache."""
    if loop.signatures:
        return True
    kept = Path(loop.stats.cache_path) if loop.stats.cache_path else None
    return kept is not None and any(kept.glob(f"*.{loop.__name__}-{loop.py_func.__code__.co_firstlineno}.py*.nbi"))
