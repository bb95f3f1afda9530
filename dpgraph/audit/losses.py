"""The largest exact loss of a mechanism over neighbouring data sets of a user's own network (proofs.md P93).

Each is released with a noise source that answers without looking at the values. Neighbours must make the same calls,
claim the same and release the same value; the loss is a sum over the inputs of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from dpgraph.audit.checks import Check, Clock, Verdict
from dpgraph.audit.neighbours import Enumeration, Pair, Rows, all_neighbours, changed, statistics_of, telling_neighbours
from dpgraph.privacy import exact_loss
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import DPGraphError, InferenceError, ReleaseError
from dpgraph.privacy.gdp import epsilon_of_mu, unit_shift
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event, PrivacyUnit
from dpgraph.privacy.release import release
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

SEES = (
    "any loss above the claim between the data sets tried, exactly; noise that is too small, shared by cells or not "
    "drawn from the source; anything of the rows in the value, the claim, the calls or an exception."
)
BLIND = (
    "data sets that were not tried; whether the source draws the laws it is asked for; time, "
    "memory, files; a mechanism that behaves otherwise when its noise is recorded."
)
#: Pairs that are compared at once, and those of a network with too many that are tried whatever the time.
BLOCK, FIRST = 4096, 8


@dataclass(frozen=True)
class Loss:
    """The largest epsilon, rho and squared mu so far, infinite where Gaussian, or other, noise covers a difference."""

    epsilon: Fraction | float = Fraction(0)
    rho: Fraction = Fraction(0)
    mu_squared: Fraction | float = Fraction(0)

    def __or__(self, other: Loss) -> Loss:
        squares = max(self.mu_squared, other.mu_squared)
        return Loss(max(self.epsilon, other.epsilon), max(self.rho, other.rho), squares)


@dataclass(frozen=True, eq=False)
class Run:
    """The run of a mechanism on one data set: its noise calls, its claim and its value, or its exception."""

    calls: list[exact_loss.NoiseCall]
    event: Event | None
    value: Any
    error: str | None = None


@dataclass
class _Runs:
    """Runs of one mechanism, each data set once; all runs of a number of rows must repeat the first one."""

    network: Network
    mechanism: Any
    unit: PrivacyUnit
    script: int
    made: dict[Rows, Run] = field(default_factory=dict)
    first: dict[int, Run] = field(default_factory=dict)

    def run(self, rows: Rows) -> Run:
        """The run of some rows, compared with those before."""
        if rows not in self.made:
            found = once(self.network, self.mechanism, self.unit, rows, self.script)
            check_replay(self.first.setdefault(len(rows) if self.unit.n_is_public else 0, found), found)
            self.made[rows] = found
        return self.made[rows]


def once(network: Network, mechanism: Any, unit: PrivacyUnit, rows: Rows, script: int) -> Run:
    """Releases a data set with recorded noise; an exception is kept, as an attacker would see it."""
    noise, budget = exact_loss.RecordingNoise(script), Budget(10**9, "0.999", unit=unit)
    try:
        made = release(statistics_of(network, rows), mechanism, budget=budget, noise=noise)
    except Exception as error:
        return Run(noise.calls, None, None, f"{type(error).__name__}: {error}")
    return Run(noise.calls, made.event, made.value)


def check_replay(one: Run, other: Run) -> None:
    """Refuses two runs of which anything differs but the inputs of noise calls; it names what, never a value."""
    if one.error != other.error:
        raise InferenceError("an exception, or its words, depends on the rows")
    for number, (a, b) in enumerate(zip_longest(one.calls, other.calls), start=1):
        try:
            exact_loss.check_same_call(number, a, b)
        except ReleaseError as error:
            raise InferenceError(str(error)) from None
    if one.event != other.event:
        raise InferenceError("the claim, its event, depends on the rows")
    try:
        apart = exact_loss.difference(one.value, other.value)
    except ReleaseError as error:
        raise InferenceError(str(error)) from None
    if apart is not None:
        raise InferenceError("the same answers of the noise source give two values: the rows show past the noise")


def exact_loss_check(
    network: Network, mechanism: Any, *, unit: PrivacyUnit, clock: Clock, scripts: int = 2, seed: int = 0
) -> Check:
    """The largest loss of a mechanism over neighbours against its claim: a few pairs, more while there is time."""
    blank = Check("exact loss", repr(mechanism), "not possible", "", SEES, BLIND)
    try:
        event = mechanism.event(network, unit)
    except DPGraphError as error:
        return replace(blank, found=f"it refuses this network: {error}", seconds=clock.spent)
    found = _Search(network, mechanism, unit, clock, np.random.default_rng(seed))
    try:
        found.search(scripts)
    except InferenceError as error:
        numbers = FrozenMap({"pairs": found.pairs, "data sets": found.data_sets})
        return replace(blank, verdict="fail", found=str(error), numbers=numbers, seconds=clock.spent)
    verdict, words, share = judged(event, found.loss)
    numbers = {"epsilon": event.epsilon, "delta": event.delta, "loss epsilon": found.loss.epsilon}
    numbers |= {"rho": event.rho, "loss rho": found.loss.rho, "share": share}
    numbers |= {"pairs": found.pairs, "data sets": found.data_sets, "all pairs": found.complete}
    found_words = f"{words}; {found.words}"
    return replace(blank, verdict=verdict, found=found_words, numbers=FrozenMap(numbers), seconds=clock.spent)


def judged(event: Event, loss: Loss) -> tuple[Verdict, str, float | None]:
    """A verdict on a loss against a claim, and their ratio; the epsilon of a rho at delta can pass, and never fails."""
    claimed = event.rho is not None or event.mu is not None
    if event.delta == 0 or (math.isfinite(loss.epsilon) and loss.epsilon <= event.epsilon and not claimed):
        share = loss.epsilon / event.epsilon
        verdict: Verdict = "pass" if share <= 1 else "fail"
        return verdict, f"loses {_shown(share)} of the epsilon {float(event.epsilon):g} it claims", float(share)
    if event.mu is not None and isinstance(loss.mu_squared, Fraction):
        return _against("mu squared", loss.mu_squared, event.mu**2, event, epsilon_of_mu)
    if event.rho is not None:
        return _against("rho", loss.rho, event.rho, event, epsilon_of_rho)
    needed = epsilon_of_rho(loss.rho, event.delta) if loss.rho else Fraction(0)
    if needed <= event.epsilon:
        return "pass", f"costs epsilon {float(needed):.4g} of the {float(event.epsilon):g} it claims", None
    words = f"claims no rho, and its rho of {float(loss.rho):.4g} converts to epsilon {float(needed):.4g}"
    return "not possible", words, None


def _against(
    name: str, lost: Fraction, claim: Fraction, event: Event, epsilon_of: Callable[[Fraction, Fraction], Fraction]
) -> tuple[Verdict, str, float | None]:
    """A verdict on a lost rho, or squared mu, against the claimed one and what it costs at the claim's delta."""
    needed = epsilon_of(lost, event.delta) if lost else Fraction(0)
    share = lost / claim
    words = f"loses {_shown(share)} of the {name} {float(claim):.4g} it claims"
    if needed > event.epsilon:
        words += f", which costs epsilon {float(needed):.4g}, not {float(event.epsilon):g}"
    return ("pass" if share <= 1 and needed <= event.epsilon else "fail"), words, float(share)


def _shown(share: Fraction | float) -> str:
    text = f"{float(share):.4f}"
    return "slightly more than all" if share > 1 and float(text) <= 1 else text


@dataclass
class _Search:
    """The largest loss found so far, and the pairs that were tried."""

    network: Network
    mechanism: Any
    unit: PrivacyUnit
    clock: Clock
    rng: np.random.Generator
    loss: Loss = field(default_factory=Loss)
    pairs: int = 0
    data_sets: int = 0
    complete: bool = False
    words: str = ""

    def search(self, scripts: int) -> None:
        """Tries all pairs if there is time, else the most telling pairs and those that lead uphill from them."""
        telling = telling_neighbours(self.network, self.unit, self.rng)
        trial = next(telling)[-1]
        one = once(self.network, self.mechanism, self.unit, trial, 0)  # the first run also loads and compiles
        before = self.clock.spent
        again = once(self.network, self.mechanism, self.unit, trial, 0)
        each = self.clock.spent - before
        if one.error is not None:
            raise InferenceError(f"it passes its own claim and then fails: {one.error}")
        words = "two runs on the same rows with the same answers differ: randomness past the noise source"
        try:
            check_replay(one, again)
        except InferenceError:
            raise InferenceError(words) from None
        if _calls(one) != _calls(again):
            raise InferenceError(words)
        if _calls(again) == _calls(once(self.network, self.mechanism, self.unit, trial, 1)):
            scripts = 1  # the inputs of the calls are the same under every script
        every = self._affordable(each * scripts)
        if every is not None:
            pairs = [every.pairs[place] for place in self.rng.permutation(len(every.pairs))]
            tried = [self._all(pairs, script) for script in range(scripts)]
            self.complete = all(tried)
            others = f"beside up to {every.others} rows of others" if every.others else "beside nobody else"
            kinds = ", the person's rows all alike" if every.alike else ""
            how_many = f"all {self.pairs:,}" if self.complete else f"{self.pairs:,}, drawn from {len(pairs):,},"
            self.words = f"{how_many} pairs of neighbours, a person {others}{kinds}"
        else:
            self._some(telling, scripts)
            self.words = (
                f"{self.pairs:,} pairs of neighbours, not all there are: the corners, random ones beside up to three "
                "rows of others, and what leads uphill from the worst of them"
            )

    def _affordable(self, each: float) -> Enumeration | None:
        """All pairs beside as many rows of others as there is time for, at so many seconds a data set."""
        every = all_neighbours(self.network, self.unit)
        while every is not None and each * len({rows for pair in every.pairs for rows in pair}) > self.clock.left:
            every = all_neighbours(self.network, self.unit, len(every.pairs) // 4)
        return every

    def _all(self, pairs: Sequence[Pair], script: int) -> bool:
        """Tries these pairs, many at once, while there is time; True if all were tried."""
        runs = _Runs(self.network, self.mechanism, self.unit, script)
        begin, size = 0, 256
        while begin < len(pairs):
            block, begin, size = pairs[begin : begin + size], begin + size, BLOCK
            for rows in sorted({rows for pair in block for rows in pair}):
                runs.run(rows)
            groups: dict[int, list[Pair]] = {}
            for pair in block:
                groups.setdefault(len(pair[0]) if self.unit.n_is_public else 0, []).append(pair)
            for group in groups.values():
                self.loss |= _largest(runs.made, group)
            self.pairs += len(block)
            if self.clock.left == 0 and begin < len(pairs):
                break
        self.data_sets += len(runs.made)
        return begin >= len(pairs)

    def _some(self, telling: Iterable[Pair], scripts: int) -> None:
        """Pairs until the time is over: half of it for drawn pairs, half for those that lead uphill from the worst."""
        runs = [_Runs(self.network, self.mechanism, self.unit, script) for script in range(scripts)]
        best, worst, half = Loss(), None, self.clock.left / 2
        for pair in telling:
            loss = self._tried(runs, pair)
            if worst is None or (loss.rho, loss.epsilon) > (best.rho, best.epsilon):
                best, worst = loss, pair
            if self.clock.left <= half and self.pairs >= FIRST:
                break
        while worst is not None and self.clock.left > 0:
            pair = changed(worst, self.network, self.unit, self.rng)
            loss = self._tried(runs, pair)
            if (loss.rho, loss.epsilon) >= (best.rho, best.epsilon):
                best, worst = loss, pair

    def _tried(self, runs: Sequence[_Runs], pair: Pair) -> Loss:
        found = Loss()
        for one in runs:
            calls = [one.run(rows).calls for rows in pair]
            found |= Loss(*exact_loss.loss_of_calls(*calls), exact_loss.mu_squared_of_calls(*calls))
            self.data_sets += len(one.made)
            for rows in pair:  # a climb comes back to few of them, and large tables fill the memory
                one.made.pop(rows, None)
        self.loss |= found
        self.pairs += 1
        return found


def _calls(run: Run) -> list[Any]:
    return [(call.public, np.asarray(call.inputs).tolist()) for call in run.calls]


def _largest(runs: dict[Rows, Run], pairs: Sequence[Pair]) -> Loss:
    """The largest epsilon, rho and squared mu over pairs whose runs made the same calls."""
    rows = sorted({one for pair in pairs for one in pair})
    place = {one: number for number, one in enumerate(rows)}
    left, right = np.array([(place[one], place[other]) for one, other in pairs]).T
    ends: dict[Fraction, Any] = {}
    squares: dict[Fraction, Any] = {}
    pure = gaussian = True
    for calls in zip(*(runs[one].calls for one in rows), strict=True):
        call, inputs = calls[0], np.stack([call.inputs for call in calls])
        differences = inputs[left] - inputs[right]
        ends[call.scale] = ends.get(call.scale, 0) + call.moved(differences)
        squares[call.scale] = squares.get(call.scale, 0) + call.moved_squared(differences)
        moved = differences.any()
        pure, gaussian = pure and (call.pure or not moved), gaussian and not (call.pure and moved)
    epsilon = _largest_sum(ends, Fraction) if pure else math.inf
    mu_squared = _largest_sum(squares, lambda scale: 4 / unit_shift(float(scale))) if gaussian else math.inf
    return Loss(epsilon, _largest_sum(squares, lambda scale: 8 * scale**2), mu_squared)


def _largest_sum(parts: dict[Fraction, Any], unit_of: Callable[[Fraction], Fraction]) -> Fraction:
    """The largest over pairs of the sum of whole numbers over their units; equal pairs are added up once."""
    units = [unit_of(scale) for scale in parts]
    rows = set(zip(*(np.asarray(column).tolist() for column in parts.values()), strict=True))
    sums = (sum((Fraction(n) / unit for n, unit in zip(row, units, strict=True)), Fraction(0)) for row in rows)
    return max(sums, default=Fraction(0))
