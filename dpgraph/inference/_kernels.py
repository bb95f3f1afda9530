"""numba: the inner loops of samplers compiled; without it they are plain Python that draws the same."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from inspect import isfunction
from types import FunctionType
from typing import Any

#: What is said before a loop is compiled that takes seconds.
COMPILING = "compiling the sampler once, about {seconds} s"
#: Processor seconds that loops take to compile, of those that take more than two (``benchmarks/cold_start.py``).
SECONDS = {
    "classifier.loops.sweep": 7, "network._kernels.sweep": 4, "counts._kernels.follow": 4,
    "regression._kernels.trajectories": 5, "markov.loops.switch": 6, "markov.effects.every_move": 7,
    "markov._kernels.gibbs": 3,
}  # fmt: skip


#: Chains in threads ask for their loops at once.
_LOCK = threading.Lock()


def compiled(loop: Callable[..., Any], inlined: bool = True, fastmath: tuple[str, ...] = ()) -> Callable[..., Any]:
    """A loop compiled with the functions that it calls; the machine code is kept on disk.

    ``inlined`` writes these into the loop: two to three times as fast for records and naive Bayes, dear to compile for
    the long loops of hidden Markov models, which gain nothing.
    """
    with _LOCK:
        return _compiled(loop, inlined, fastmath)


@lru_cache(maxsize=64)
def _compiled(loop: Callable[..., Any], inlined: bool, fastmath: tuple[str, ...]) -> Callable[..., Any]:
    import numba

    loops, names = _loops(), _callable(loop.__module__, inlined, fastmath)
    linked = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__)
    settings: Any = {"error_model": "numpy", "fastmath": set(fastmath), "_nrt": _makes_arrays(loop.__module__)}
    made = numba.njit(linked, cache=True, nogil=True, **settings)
    loops.add(made)
    return made


@lru_cache(maxsize=64)
def _callable(module: str, inlined: bool, fastmath: tuple[str, ...]) -> dict[str, Any]:
    """The names of a module, its functions such that compiled loops, and nothing else, can call them."""
    import numba

    names = dict(vars(sys.modules[module]))
    inner: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": inlined}
    inner |= {"error_model": "numpy", "fastmath": set(fastmath), "_nrt": _makes_arrays(module)}
    for name, value in names.items():
        if isfunction(value) and value.__module__ == module:
            linked = FunctionType(value.__code__, names, name, value.__defaults__)
            names[name] = _for_any_number(numba.njit(linked, **inner))
        elif isfunction(value) and value.__module__.startswith("dpgraph.inference."):
            names[name] = _callable(value.__module__, inlined, fastmath)[value.__name__]
    return names


def _makes_arrays(module: str) -> bool:
    """True if a function of a module names numpy. If none does, no references are counted, which is a quarter faster.

    Less is compiled, too; numba refuses to make an array there, or to copy one.
    """
    return any("np" in one.__code__.co_names for one in vars(sys.modules[module]).values() if isfunction(one))


def _for_any_number(function: Any) -> Any:
    """A function that is compiled once, not once for each constant that it is called with."""
    from numba import types

    of_types = function.get_call_template
    function.get_call_template = lambda args, kws: of_types([types.unliteral(each) for each in args], kws)
    return function


@lru_cache(maxsize=1)
def _loops() -> set[Any]:
    """Our loops, each added before it is compiled: from now on numba compiles their inner functions as parts of them.

    That halves the time. A part has no machine code of its own, the loop has it once all its parts are in it; it is
    optimised once; an operator of given types is looked up once; no garbage is collected meanwhile. There is a line on
    stderr before a loop of ``SECONDS`` is compiled, not where it is on disk.
    """
    from numba.core import codegen, event, registry, types

    class Whole(codegen.JITCodeLibrary):
        def _optimize_final_module(self) -> None:
            made = machine._module_pass_manager()
            passes, *builder = made if isinstance(made, tuple) else (made,)  # numba < 0.62
            passes.run(self._final_module, *builder)

    class Part(codegen.JITCodeLibrary):
        def _optimize_final_module(self) -> None:
            """Left to the loop."""

        def _finalize_final_module(self) -> None:
            self._finalized = True

    class Compiling(event.Listener):
        depth, collects = 0, False

        def on_start(self, event: event.Event) -> None:
            assert event.data is not None
            if not self.depth and event.data["dispatcher"] in loops:
                found.clear()
                self.collects = gc.isenabled()
                gc.disable()
            self._enter(self.depth + (self.depth > 0 or event.data["dispatcher"] in loops))
            loop = event.data["dispatcher"].py_func
            seconds = SECONDS.get(f"{loop.__module__.removeprefix('dpgraph.inference.')}.{loop.__name__}")
            if seconds and sys.stderr is not None:
                print(COMPILING.format(seconds=seconds), file=sys.stderr)

        def on_end(self, event: event.Event) -> None:
            self._enter(max(0, self.depth - 1))
            if not self.depth and self.collects:
                gc.enable()

        def _enter(self, depth: int) -> None:
            self.depth = depth
            machine._library_class = (codegen.JITCodeLibrary, Whole, Part)[min(depth, 2)]

    def typed(operator: Any, context: Any, args: Any, keywords: Any) -> Any:
        if not compiling.depth or keywords:
            return resolved(operator, context, args, keywords)
        if (operator, args) not in found:
            found[operator, args] = resolved(operator, context, args, keywords)
        return found[operator, args]

    context: Any = registry.cpu_target.target_context
    function: Any = types.BaseFunction
    loops, compiling, machine, found = set[Any](), Compiling(), context.codegen(), dict[Any, Any]()
    set_env, wrapped, resolved = machine.set_env, context.create_cfunc_wrapper, function.get_call_type
    machine.set_env = lambda name, env: None if compiling.depth > 1 else set_env(name, env)
    context.create_cfunc_wrapper = lambda *part, **more: None if compiling.depth else wrapped(*part, **more)
    function.get_call_type = typed
    event.register("numba:compile", compiling)
    return loops
