"""Replay of a user's pipeline: run on two neighbouring data sets that release the same integers, does anything move?

For the thread that runs the pipeline a stand-in replaces the secure source, and answers without looking at the values.
The two runs must agree (promise.md S7) in value, warnings, exception, output, log, calls and charges.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import logging
import math
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any
from unittest import mock

import numpy as np

from dpgraph.audit.checks import Check, Clock
from dpgraph.audit.neighbours import Pair, Rows, statistics_of, telling_neighbours
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.composition import rho_of
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import InferenceError, ReleaseError
from dpgraph.privacy.exact_loss import NoiseCall, RecordingNoise, check_same_call, difference, loss_of_calls
from dpgraph.privacy.noise import SecureNoise
from dpgraph.privacy.records import Event, PrivacyUnit
from dpgraph.privacy.release import release
from dpgraph.structure.domain import Bins
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

SEES_ROWS = (
    "whatever of the rows gets past the noise between the data sets tried: in the value, a warning, an exception, what "
    "is printed or logged, which noise is asked for, what is charged; and a loss above the charge."
)
SEES_RELEASE = (
    "a pipeline that depends on more than the release: on the clock, on randomness without a seed, on earlier runs."
)
BLIND_ROWS = (
    "data sets that were not tried; files, networks, time and memory; what other threads and processes do; a pipeline "
    "that brings its own randomness, or behaves otherwise when its noise is recorded."
)
BLIND_RELEASE = (
    "anything that reads the rows by another way: it is handed the release alone. Give pipeline(rows, budget) for that."
)
#: Rows of others beside the person's, in the pairs that are tried.
OTHERS = 20


@dataclass(frozen=True, eq=False)
class Trace:
    """The traces of one run of a pipeline."""

    value: Any
    error: str | None
    warned: tuple[str, ...]
    printed: str
    logged: str
    calls: tuple[NoiseCall, ...]
    events: tuple[Event, ...]
    spent: Fraction


def replay_check(
    network: Network,
    pipeline: Callable[..., Any],
    *,
    epsilon: Fraction,
    delta: Fraction,
    unit: PrivacyUnit,
    mechanism: Any,
    clock: Clock,
    pairs: int = 6,
    seed: int = 0,
) -> Check:
    """Compares all that leaves ``pipeline(rows, budget)`` or ``pipeline(release)`` on pairs, one at least, in time."""
    takes_rows = takes_two(pipeline)
    name = getattr(pipeline, "__qualname__", type(pipeline).__name__)
    sees, blind = (SEES_ROWS, BLIND_ROWS) if takes_rows else (SEES_RELEASE, BLIND_RELEASE)
    blank = Check("replay", f"{name}({'rows, budget' if takes_rows else 'release'})", "pass", "", sees, blind)

    def run(rows: Rows) -> Trace:
        budget = Budget(epsilon, delta, unit=unit)
        if takes_rows:
            return traced(lambda: pipeline(frame_of(network, rows), budget), budget)
        made = release(statistics_of(network, rows), mechanism, budget=budget, noise=RecordingNoise())
        return traced(lambda: pipeline(made), budget)

    tried, worst, largest, charged = 0, Fraction(0), Fraction(0), Fraction(0)

    def ended(verdict: Any, found: str) -> Check:
        numbers = {"pairs": tried, "loss epsilon": worst, "charged": charged, "share": largest}
        return replace(blank, verdict=verdict, found=found, numbers=FrozenMap(numbers), seconds=clock.spent)

    first_of: dict[int, tuple[Rows, Trace]] = {}
    failing: str | None = None
    for pair in pipeline_pairs(network, unit, np.random.default_rng(seed), pairs):
        if tried and clock.left == 0:
            break
        first, second = map(run, pair)
        for rows, trace in zip(pair, (first, second), strict=True):
            there, known = first_of.setdefault(len(rows) if unit.n_is_public else 0, (rows, trace))
            if (problem := _moved(known, trace)) is not None:
                if (again := _moved(known, run(there))) is not None:
                    words = f"two runs on the same rows differ in {again}: give it a seed after its releases"
                    return ended("not possible", words)
                return ended("fail", f"{problem} depends on the rows, past the noise")
        tried += 1
        loss, charged = loss_of_calls(first.calls, second.calls), first.spent
        share = _share(loss, first)
        worst = max(worst, loss[0])
        largest = max(largest, share)
        if share > 1:
            return ended("fail", f"it loses {float(share):.4g} of what its budget was charged")
        failing = first.error if len(pair[0]) >= OTHERS else failing
    if failing is not None:
        words = f"it ends with an exception, of a type and words that do not depend on the rows: {failing:.200}"
        return ended("not possible", words)
    if takes_rows and not charged:
        return ended("pass", f"{tried} pairs of neighbours: nothing moved, and nothing was charged to the budget")
    words = f"{tried} pairs of neighbours: nothing but the release moves"
    return ended("pass", words + (f", which loses {float(largest):.4f} of its charge" if takes_rows else ""))


def takes_two(pipeline: Any) -> bool:
    """True if a pipeline takes rows and a budget, False if it takes a release; other arguments raise InferenceError."""
    words = "a pipeline is pipeline(rows, budget) or pipeline(release)"
    if not callable(pipeline):
        raise InferenceError(f"{words}; got {type(pipeline).__name__}")
    try:
        parameters = inspect.signature(pipeline).parameters.values()
    except (TypeError, ValueError):
        raise InferenceError(f"{words}; this one's arguments cannot be read") from None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
    if len(needed) not in (1, 2):
        raise InferenceError(f"{words}; this one takes {len(needed)} arguments")
    return len(needed) == 2


def pipeline_pairs(network: Network, unit: PrivacyUnit, rng: np.random.Generator, pairs: int) -> Iterator[Pair]:
    """Pairs of lists of rows, a person's at one random place: corners and random ones among twenty; corners alone."""
    sizes = np.array(list(network.domain.sizes.values()))
    alone = next(telling_neighbours(network, unit, rng))
    for one, other in itertools.islice(telling_neighbours(network, unit, rng), pairs):
        both = Counter(one) & Counter(other)
        rest = [tuple(map(int, row)) for row in rng.integers(sizes, size=(OTHERS, len(sizes)))]
        place = int(rng.integers(len(rest) + 1))
        mine = [tuple((Counter(rows) - both).elements()) for rows in (one, other)]
        yield tuple((*rest[:place], *person, *rest[place:]) for person in mine)  # type: ignore[misc]
    yield alone


def frame_of(network: Network, rows: Rows) -> DataFrame:
    """Rows as a frame of the domain's levels; of a bin its middle, of a missing value NaN."""
    columns: dict[str, list[Any]] = {}
    for place, name in enumerate(network.domain.names):
        variable = network.domain[name]
        levels: list[Any] = list(variable.levels)
        if isinstance(variable, Bins):
            levels = [*variable.middles, math.nan]
        columns[name] = [levels[row[place]] for row in rows]
    return data_frame(columns, columns=list(network.domain.names))


def traced(call: Callable[[], Any], budget: Budget) -> Trace:
    """Calls something with recorded noise; all that it leaves."""
    noise, out, lines, root = RecordingNoise(), io.StringIO(), io.StringIO(), logging.getLogger()
    log = logging.StreamHandler(lines)
    log.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    value: Any = None
    error: str | None = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(recorded(noise))
        said = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(out))
        stack.callback(root.setLevel, root.level)
        stack.callback(root.removeHandler, log)
        root.addHandler(log)
        root.setLevel(logging.DEBUG)
        try:
            value = call()
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    warned = tuple(f"{one.category.__name__}: {one.message}" for one in said)
    said_and_spent = (lines.getvalue(), tuple(noise.calls), budget.events, Fraction(budget.spent))
    return Trace(value, error, warned, out.getvalue(), *said_and_spent)


#: The modules that make a secure source where none is named (``tests/test_audit_report.py`` holds the list).
MAKERS = ("dpgraph.privacy.release", "dpgraph.estimators.cross_validation")


@contextlib.contextmanager
def recorded(noise: RecordingNoise) -> Iterator[None]:
    """Gives this source to the releases of this thread that name none; all other releases stay secure."""
    here: list[int] = [threading.get_ident()]

    class Recorded(SecureNoise):
        def __new__(cls) -> Any:
            return noise if threading.get_ident() in here else super().__new__(cls)

    with contextlib.ExitStack() as stack:
        stack.callback(here.clear)
        for module in MAKERS:
            stack.enter_context(mock.patch(f"{module}.SecureNoise", Recorded))
        yield


def _moved(one: Trace, other: Trace) -> str | None:
    named = {
        "a warning, or its words,": (one.warned, other.warned),
        "what is printed": (one.printed, other.printed),
        "what is logged": (one.logged, other.logged),
        "an exception, or its words,": (one.error, other.error),
        "what is charged": (one.events, other.events),
    }
    for number, (a, b) in enumerate(zip_longest(one.calls, other.calls), start=1):
        try:
            check_same_call(number, a, b)
        except ReleaseError:
            return f"noise call {number}: its law, its shape, or whether it is made,"
    for name, (a, b) in named.items():
        if a != b:
            return name
    try:
        return difference(one.value, other.value)
    except ReleaseError as error:
        return f"({error})"
    except Exception as error:  # of somebody's own comparison
        return f"(comparing values of type {type(one.value).__name__} fails with {type(error).__name__})"


def _share(loss: tuple[Fraction | float, Fraction], run: Trace) -> Fraction | float:
    """The loss over the charge: of epsilon where that is finite, else of rho where every charge has one."""
    epsilon, rho = loss
    if not epsilon and not rho:
        return Fraction(0)
    if not run.spent:
        return math.inf
    if math.isfinite(epsilon) and (epsilon <= run.spent or not any(event.delta for event in run.events)):
        return epsilon / run.spent
    return rho / sum(event.epsilon**2 / 2 if (own := rho_of(event)) is None else own for event in run.events)
