"""All neighbours of small data sets, and the largest privacy loss among them, exact.

A data set is a tuple of how often each of some kinds of rows is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

import dpgraph as dg
from dpgraph.estimators.cross_validation import ClosedDoor
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made, Receipt
from dpgraph.privacy.exact_loss import NoiseCall, RecordingNoise, check_same_call, difference
from dpgraph.privacy.gdp import epsilon_of_mu, mu_within, pure_mu_squared, root, unit_shift
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import CLASSIFIER, CROSS_VALIDATION, PAID_IN_PARTS, Event
from tests.selection import neighbours

Rows = tuple[int, ...]
Pairs = tuple[tuple[Rows, Rows], ...]
REPLACE, ADD = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")
REPLACE_3, ADD_3 = dg.PrivacyUnit("replace", 3), dg.PrivacyUnit("add-remove", 3)
#: The charge of a whole, whose parts are paid from a budget of their own.
WHOLES = (CROSS_VALIDATION, PAID_IN_PARTS, CLASSIFIER)
UNITS = (REPLACE, ADD, REPLACE_3, ADD_3)


@dataclass(frozen=True)
class Run:
    """What one data set made of a mechanism: its noise calls, what was charged, and what left."""

    calls: list[NoiseCall]
    charged: tuple[Event, ...]
    left: Any


@dataclass(frozen=True)
class Largest:
    """The largest loss over all neighbours, and the claim."""

    epsilon: Fraction | float
    rho: Fraction
    mu_squared: Fraction
    claimed: Event
    pairs: int

    @property
    def share(self) -> Fraction | float:
        """Loss over claim: of mu or rho where the claim has a delta, else of epsilon."""
        if self.claimed.delta and self.claimed.mu is not None:
            return self.mu_squared / self.claimed.mu**2
        if self.claimed.delta and self.claimed.rho is not None:
            return self.rho / self.claimed.rho
        if self.claimed.delta:  # half of it for the threshold, which test_levels.py enumerates
            half = self.claimed.delta / 2
            return self.mu_squared / mu_within(self.claimed.epsilon - 2 * half, half) ** 2
        return self.epsilon / self.claimed.epsilon

    def check(self, slack: Fraction = Fraction(0)) -> None:
        """No loss is above any of the claims; ``slack`` is for draws that are made in floats."""
        claim, room = self.claimed, 1 + slack
        assert self.share <= room, f"{claim.mechanism} loses {float(self.share)} of its claim"
        if claim.delta:
            priced = [epsilon_of_rho(self.rho, claim.delta) if self.rho else Fraction(0)]
            assert min(*priced, epsilon_of_mu(self.mu_squared, claim.delta)) <= claim.epsilon
        if claim.rho is not None:
            assert self.rho <= claim.rho * room, f"{claim.mechanism} claims a rho below its loss"


@cache
def pairs_of(kinds: int, unit: dg.PrivacyUnit, kept: int, alike_only: bool) -> Pairs:
    """Unordered pairs of data sets that differ in one person, beside at most ``kept`` rows of others.

    With ``alike_only`` all rows of the person are of one kind, before and after, and nobody else is there: where kinds
    are many. A norm of a sum of moves is at most the sum of norms, so for additive noise that is the worst anyway.
    """
    if not alike_only:
        return tuple(pair for pair in neighbours(kinds, unit.rows_per_person + kept, unit) if pair[0] < pair[1])
    one_kind = [tuple(unit.rows_per_person * (i == k) for i in range(kinds)) for k in range(kinds)]
    if unit.n_is_public:
        return tuple((a, b) for i, a in enumerate(one_kind) for b in one_kind[:i])
    return tuple(((0,) * kinds, a) for a in one_kind)


@contextmanager
def charges() -> Iterator[list[Event]]:
    """Everything that any budget is charged meanwhile, but for what is inside the charge of a whole: by a group, and by
    the parts of a cross-validation or of a learned network, from budgets of their own; and but for what stops at a
    closed door."""
    found: list[Event] = []
    plain = Budget.charge

    def charge(self: Budget, event: Event, made: Made | None = None) -> Receipt | None:
        receipt = plain(self, event, made)
        inside = self.group is not None or any(one.mechanism in WHOLES for one in found)
        if not inside and not isinstance(self, ClosedDoor):
            found.append(event)
        return receipt

    with mock.patch.object(Budget, "charge", charge):
        yield found


def run(make: Callable[[RecordingNoise], Any], script: int) -> Run:
    """Runs what spends with a recording noise source."""
    noise = RecordingNoise(script)
    with charges() as found:
        left = make(noise)
    return Run(noise.calls, tuple(found), left)


def largest_loss(
    make: Callable[[Rows, RecordingNoise], Any], pairs: Pairs, unit: dg.PrivacyUnit, scripts: int
) -> Largest:
    """Runs all data sets and compares all pairs.

    Data sets that may be neighbours of one another, by way of others, must make the same calls, be charged the same and
    release the same value given the same answers.
    """
    found = []
    for script in range(scripts):
        runs = {rows: run(lambda noise, rows=rows: make(rows, noise), script) for rows in dict.fromkeys(sum(pairs, ()))}
        groups: dict[int, list[Rows]] = {}
        for rows in runs:
            groups.setdefault(sum(rows) if unit.n_is_public else 0, []).append(rows)
        for members in groups.values():
            here = [(one, other) for one, other in pairs if one in members]
            check_replay([runs[rows] for rows in members])
            epsilon, rho, square = _largest([runs[rows].calls for rows in members], _places(members, here))
            found.append(Largest(epsilon, rho, square, together(runs[members[0]].charged), len(here)))
    assert len({one.claimed for one in found}) == 1
    worst = max(found, key=lambda one: one.share)
    largest = [max(getattr(one, name) for one in found) for name in ("rho", "mu_squared")]
    return Largest(worst.epsilon, *largest, worst.claimed, len(pairs) * scripts)


def together(charged: tuple[Event, ...]) -> Event:
    """What is charged in all; of a rho only where every charge has one."""
    if len(charged) == 1:
        return charged[0]
    rhos = [event.rho for event in charged]
    rho = None if None in rhos else sum((Fraction(one or 0) for one in rhos), Fraction(0))
    zero = Fraction(0)
    epsilon, delta = sum((e.epsilon for e in charged), zero), sum((e.delta for e in charged), zero)
    mus = [event.mu for event in charged]
    mu = None if None in mus else root(sum((Fraction(one or 0) ** 2 for one in mus), zero), up=True)
    return Event(" + ".join(event.mechanism for event in charged), epsilon, delta, rho=rho, mu=mu)


def check_replay(runs: list[Run]) -> None:
    """promise.md S7: laws, charges and releases are the same whatever the rows."""
    first = runs[0]
    for other in runs[1:]:
        assert len(other.calls) == len(first.calls)
        for number, (a, b) in enumerate(zip(first.calls, other.calls, strict=True), start=1):
            check_same_call(number, a, b)
        assert other.charged == first.charged
        assert difference(first.left, other.left) is None, "the same answers make two releases"


def _places(members: list[Rows], pairs: list[tuple[Rows, Rows]]) -> np.ndarray:
    place = {rows: i for i, rows in enumerate(members)}
    return np.array([(place[one], place[other]) for one, other in pairs]).T


def _largest(records: list[list[NoiseCall]], pairs: np.ndarray) -> tuple[Fraction | float, Fraction, Fraction]:
    """The largest epsilon, rho and squared mu over all pairs of records of the same calls."""
    ends: dict[Fraction, Any] = {}
    squares: dict[Fraction, Any] = {}
    columns: dict[tuple[str, Fraction], list[Any]] = {}
    one, other = pairs
    covered = True
    for calls in zip(*records, strict=True):
        call, inputs = calls[0], np.stack([call.inputs for call in calls])
        differences = inputs[one] - inputs[other]
        ends[call.scale] = ends.get(call.scale, 0) + call.moved(differences)
        squares[call.scale] = squares.get(call.scale, 0) + call.moved_squared(differences)
        columns.setdefault((_kind(call), call.scale), []).append(
            call.moved(differences) // call.times if call.kind.startswith("choose") else call.moved_squared(differences)
        )
        covered = covered and (call.pure or not differences.any())
    epsilon = _largest_sum(ends, Fraction) if covered else float("inf")
    return epsilon, _largest_sum(squares, lambda scale: 8 * scale**2), _largest_mu_squared(columns)


def _kind(call: NoiseCall) -> str:
    """How a call is priced in squared mus: by squares of moves, or draw by draw."""
    return f"{call.times} draws" if call.kind.startswith("choose") else "gaussian" if not call.pure else "pure"


def _largest_mu_squared(columns: dict[tuple[str, Fraction], list[Any]]) -> Fraction:
    """Gaussian squares by the law's own, draws by their range, and pure noise by pi / 2 times its squared epsilon."""

    @cache
    def price(kind: str, scale: Fraction, moved: int) -> Fraction:
        if kind == "gaussian":
            return Fraction(moved) / 4 * unit_shift(float(scale))
        if kind == "pure":  # 355 / 113 is above pi
            return Fraction(moved) * Fraction(355, 113) / (8 * scale**2)
        return int(kind.split()[0]) * pure_mu_squared(Fraction(moved) / scale / 2) if moved else Fraction(0)

    keys = [key for key, many in columns.items() for _ in many]
    rows = set(zip(*(np.asarray(one).tolist() for many in columns.values() for one in many), strict=True))
    sums = (sum((price(*key, n) for key, n in zip(keys, row, strict=True)), Fraction(0)) for row in rows)
    return max(sums, default=Fraction(0))


def _largest_sum(parts: dict[Fraction, Any], unit_of: Callable[[Fraction], Fraction]) -> Fraction:
    """The largest over pairs of the sum of whole numbers over their units; equal pairs are added up once."""
    units = [unit_of(scale) for scale in parts]
    rows = set(zip(*(column.tolist() for column in parts.values()), strict=True))
    sums = (sum((Fraction(n) / unit for n, unit in zip(row, units, strict=True)), Fraction(0)) for row in rows)
    return max(sums, default=Fraction(0))
