"""Composition: the cost of several events, or of releases on disjoint groups of rows, and the filters of budgets.

The least zero-concentrated cost of pure noise is in closed form and never rounded down. A mechanism is rho-zCDP if its
Renyi divergence of every order a above 1 is at most a rho. For each law here the ratio of the two is largest as a falls
to 1, so that the least rho is the Kullback-Leibler divergence (proofs.md P90).

A filter compares running totals with a budget's limit before each release, whatever led to it:

* ``"basic"``: epsilons and deltas add.
* ``"zcdp"``: the limit (epsilon, delta) becomes a rho once, and rhos add (Whitehouse, Ramdas, Rogers and Wu 2023,
  Theorem 1; proofs.md P89).
* ``"gdp"``: the limit becomes a mu once, and the squares of mus add (Smith and Thakurta 2022; proofs.md P92).
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import epsilon_of_mu, largest, mu_within, pure_mu_squared, rounded
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Measurement, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.noise import epsilon_of_rho, exp_bounds, rho_of_epsilon
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, decimal, exact, recorded_mu_squared

#: Digits of the bounds on exponentials; a scale of 2^50 cancels half of them.
DIGITS = 80
#: Tables of more cells are priced as if they had so many, at most 0.1 % more.
MOST_CELLS = 1024
#: The longest shift whose losses are listed one by one; beyond it Laplace noise is priced by its log ratio.
LONGEST = 1 << 12


def basic(events: Iterable[Event]) -> PrivacyCost:
    """Basic composition: epsilons and deltas add, exactly."""
    return sum((PrivacyCost(event.epsilon, event.delta) for event in events), PrivacyCost(Fraction(0)))


def rho_of(event: Event) -> Fraction | None:
    """The least rho proved of an event, by claims, pure epsilon and recorded shifts; None with a delta and no claim."""
    if len(event.priced) > 1:
        return _of_parts(event, rho_of)
    known = [event.rho, None if event.mu is None else event.mu**2 / 2]
    known += [pure_rho(event.epsilon), _recorded_rho(event)] if event.delta == 0 else []
    return min((rho for rho in known if rho is not None), default=None)


def mu_squared_of(event: Event) -> Fraction | None:
    """The square of the least mu proved of an event: by its claim, its pure epsilon or its record; None without one."""
    if len(event.priced) > 1:
        return _of_parts(event, mu_squared_of)
    known = [None if event.mu is None else event.mu**2, recorded_mu_squared(event)]
    known.append(pure_mu_squared(event.epsilon) if event.delta == 0 else None)
    return min((square for square in known if square is not None), default=None)


def check_paid_together(event: Event) -> None:
    """Refuses the rho or mu of an event with parts that one charge paid for, if theirs add up to more."""
    for part in event.parts:
        check_paid_together(part)
    claims = [("rho", event.rho, rho_of), ("mu squared", None if event.mu is None else event.mu**2, mu_squared_of)]
    for name, claim, price in claims if event.parts else ():
        whole = _of_parts(event, price)
        if claim is not None and (whole is None or whole > claim):
            raise ReleaseError(f"{event.mechanism:.60} claims {name} {float(claim):.9g}, and its parts cost more")


def _of_parts(event: Event, price: Callable[[Event], Fraction | None]) -> Fraction | None:
    prices = [one for part in event.parts if (one := price(part)) is not None]
    return sum(prices, Fraction(0)) if len(prices) == len(event.parts) else None


def _recorded_rho(event: Event) -> Fraction | None:
    """The rho of a pure event by its shifts; None where the record does not determine them."""
    whole, told = Fraction(0), Fraction(0)
    met = shifts(event)
    for (law, distance, cells), times in met.items():
        rho, epsilon = shift_rho(law, distance, cells), law.epsilon(distance)
        if rho is None or epsilon is None:
            return None
        whole += times * rho
        told += times * epsilon
    return whole + pure_rho(max(Fraction(0), event.epsilon - told)) if met else None


class Shift(NamedTuple):
    """One draw of noise that a person's rows shift by a distance; ``cells`` share noise that sums to zero."""

    law: NoiseLaw
    distance: int
    cells: int = 1


def shifts(event: Event) -> Counter[Shift]:
    """The independent draws of noise that one person's rows shift in an event, and how many of each.

    Where every coordinate moves by at most one, as many shifts by one as coordinates move. Otherwise:

    * Discrete Laplace: one coordinate shifted by the whole L1 distance is the worst case (proofs.md P68).
    * Noise that sums to zero: by two is a row that moves between two cells; for more only the log ratio is bounded.
    * Discrete Gaussian: a single coordinate is shifted by its distance; of several, squared distances bound rho alone.
    * Any other law: its own bound on the log ratio, where it has one.

    Measurements that move together by less than their sum are listed where they share one law. Empty where the record
    does not determine the shifts, selections included: the event's own claim is then its price.
    """
    if event.selections or not event.measurements:
        return Counter()
    if event.joint is not None:
        return _joint_shifts(event)
    met = Counter[Shift]()
    for measured in event.measurements:
        found = _measured_shifts(measured)
        if found is None:
            return Counter()
        met += found
    return met


def _measured_shifts(measured: Measurement) -> Counter[Shift] | None:
    """The shifted draws of one measurement; None where the record does not determine them."""
    law, moved = measured.law, measured.movement
    if moved.l1 == 0:
        return Counter()
    if isinstance(law, SumZeroLaplace):
        return Counter({Shift(law, moved.l1, measured.cells): 1})
    if not isinstance(law, DiscreteLaplace | DiscreteGaussian):
        return None if law.epsilon(moved.l1) is None else Counter({Shift(law, moved.l1): 1})
    if moved.moved_cells is not None:
        return Counter({Shift(law, 1): moved.moved_cells})
    if isinstance(law, DiscreteLaplace) or (measured.cells == 1 and moved.l1 <= LONGEST):
        return Counter({Shift(law, moved.l1): 1})
    return None


def _joint_shifts(event: Event) -> Counter[Shift]:
    """The same for blocks of one discrete Laplace law and one weight, which move together by a joint distance."""
    assert event.joint is not None
    laws, weights = {m.law for m in event.measurements}, set(event.joint.weights)
    law = next(iter(laws))
    if len(laws) > 1 or len(weights) > 1 or not isinstance(law, DiscreteLaplace):
        return Counter()
    distance = min(event.joint.distance // weights.pop(), sum(m.movement.l1 for m in event.measurements))
    if not distance:
        return Counter()
    simple = all(m.movement.moved_cells is not None for m in event.measurements)
    return Counter({Shift(law, 1): distance} if simple else {Shift(law, distance): 1})


def sum_zero_loss(scale: float, cells: int) -> float:
    """P(the largest loss, 2 / scale, of sum-zero noise) when a row moves between cells: N(K - 1) / N(K) (P20)."""
    from scipy.special import gammaln, logsumexp

    def log_sum(m: int) -> Any:
        j = np.arange(m)
        return logsumexp(2 * (gammaln(m) - gammaln(j + 1) - gammaln(m - j)) - 2 * j / scale)

    return min(float(np.exp(log_sum(cells - 1) - log_sum(cells))), 1 / (1 + math.exp(-2 / scale)))


def parallel_share(whole: PrivacyCost, groups: int, unit: PrivacyUnit) -> PrivacyCost:
    """The cost that each of several disjoint groups of rows may have, each under add/remove (proofs.md P52)."""
    most_groups = min(unit.rows_per_person, groups)
    if unit.neighbours == "add-remove":
        return PrivacyCost(whole.epsilon / most_groups, whole.delta / most_groups)
    epsilon = whole.epsilon / (2 * most_groups)
    return PrivacyCost(epsilon, whole.delta / (most_groups * (1 + exp_bounds(epsilon, 30)[1])))


def parallel_steps(groups: int, unit: PrivacyUnit) -> int:
    """How many times the rho of one of several equal groups they cost together; two steps cost four times (P91)."""
    most_groups = min(unit.rows_per_person, groups)
    return most_groups if unit.neighbours == "add-remove" else 4 * most_groups


@lru_cache(maxsize=4096)
def pure_rho(epsilon: Fraction) -> Fraction:
    """The least rho of every epsilon-DP mechanism: epsilon tanh(epsilon / 2), which randomised response attains."""
    low, _ = exp_bounds(-epsilon, DIGITS)
    return rounded(min(epsilon * (1 - low) / (1 + low), epsilon**2 / 2), up=True)


def shift_rho(law: NoiseLaw, distance: int, cells: int = 1) -> Fraction | None:
    """The least rho of one draw of noise that moves by a distance; None where the law has no log ratio."""
    if isinstance(law, DiscreteGaussian):
        return Fraction(distance**2) / (2 * Fraction(law.scale) ** 2)
    if isinstance(law, DiscreteLaplace):
        return laplace_rho(law.scale, distance)
    if isinstance(law, SumZeroLaplace) and distance == 2:
        return sum_zero_rho(law.scale, cells)
    epsilon = law.epsilon(distance)
    return None if epsilon is None else pure_rho(epsilon)


@lru_cache(maxsize=4096)
def laplace_rho(scale: float, distance: int) -> Fraction:
    """The least rho of discrete Laplace noise of scale b on a number moved by d (proofs.md P90)."""
    step = 1 / Fraction(scale)
    ratio, _ = exp_bounds(-step, DIGITS)
    _, end = exp_bounds(-distance * step, DIGITS)
    inverse_sinh = 2 * ratio / (1 - ratio**2)
    return rounded(step * (distance - max(Fraction(0), 1 - end) * inverse_sinh), up=True)


@lru_cache(maxsize=4096)
def sum_zero_rho(scale: float, cells: int) -> Fraction:
    """The least rho of sum-zero noise where a row moves between cells: a (1 - exp(-2 / b)) 2 / b, rounded up (P90)."""
    loss = 2 / Fraction(scale)
    low, high = exp_bounds(-loss, DIGITS)
    few = min(cells, MOST_CELLS)
    largest = Fraction(_square_sum(few - 1, high, up=True)) / Fraction(_square_sum(few, low, up=False))
    return rounded(loss * largest * (1 - low), up=True)


def _square_sum(cells: int, x: Fraction, *, up: bool) -> Decimal:
    """The sum over j of C(cells - 1, j)^2 x^j, all of whose terms are positive, rounded in one direction."""
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR, Emin=-(10**9), Emax=10**9)
    base = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    term = total = Decimal(1)
    for j in range(cells - 1):
        grown = context.multiply(term, Decimal((cells - 1 - j) ** 2))
        term = context.multiply(context.divide(grown, Decimal((j + 1) ** 2)), base)
        total = context.add(total, term)
    return total


def numerical(events: Sequence[Event], delta: Fraction) -> PrivacyCost:
    """Composes privacy loss distributions, each rounded up to a grid fine enough for all of them together."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as library
        from dp_accounting.pld.common import DifferentialPrivacyParameters
    except ImportError:
        raise ReleaseError("method='pld' needs dp-accounting: pip install 'dpgraph[pld]'") from None
    opened, claims = Counter[Shift](), Counter[tuple[Fraction, Fraction]]()
    for event in events:
        met = shifts(event)
        opened.update(met)
        if not met:
            claims[event.epsilon, event.delta] += 1
    rounded_up = claims.total() + sum(n for met, n in opened.items() if not isinstance(met.law, DiscreteGaussian))
    grid = min(1e-4, max(1e-4 / max(1, rounded_up), float(basic(events).epsilon) / 1_000_000))
    whole: Any = library.identity(grid)
    for met, times in opened.items():
        whole = whole.compose(_distribution(library, met, grid).self_compose(times))
    for (epsilon, own), times in claims.items():
        claim = DifferentialPrivacyParameters(math.nextafter(float(epsilon), math.inf), float(own))
        whole = whole.compose(library.from_privacy_parameters(claim, grid).self_compose(times))
    found = min(whole.get_epsilon_for_delta(float(delta) * (1 - 1e-12)), *_by_sums(events, delta))
    plain = basic(events)
    if plain.delta <= delta and plain.epsilon <= found:
        return PrivacyCost(plain.epsilon, delta)
    if found == math.inf:
        raise ReleaseError(f"the events' own deltas leave nothing of delta {float(delta):g}")
    return PrivacyCost(rounded(found, up=True), delta)


def _by_sums(events: Sequence[Event], delta: Fraction) -> Iterator[Fraction]:
    """The epsilons of the sums of rhos and of squared mus: lower where many small losses were rounded up."""
    for sum_of in SUMS.values():
        prices = [price for event in events if (price := sum_of.price(event)) is not None]
        with contextlib.suppress(ReleaseError):
            if len(prices) == len(events) > 0:
                yield sum_of.epsilon(sum(prices, Fraction(0)), delta)


def _distribution(library: Any, met: Shift, grid: float) -> Any:
    """The privacy loss distribution of one shifted draw of noise.

    A discrete Laplace coordinate shifted by one is exactly randomised response at 1 / scale: the loss is +-1 / scale.
    For noise that sums to zero and a row that moves between two cells the loss is 2 / scale with probability a,
    -2 / scale with exp(-2 / scale) a, else 0. Where only the log ratio is bounded it is taken to be randomised
    response, which is the worst case.
    """
    law, distance = met.law, met.distance
    if isinstance(law, DiscreteGaussian):
        return library.from_discrete_gaussian_mechanism(
            law.scale, sensitivity=distance, value_discretization_interval=grid, use_connect_dots=True
        )
    if isinstance(law, DiscreteLaplace) and 1 < distance <= LONGEST:
        return library.from_discrete_laplace_mechanism(
            1 / law.scale, sensitivity=distance, value_discretization_interval=grid
        )
    loss = float(law.epsilon(distance) or 0)
    high = 1 / (1 + math.exp(-loss))
    if isinstance(law, SumZeroLaplace) and distance == 2:
        high = sum_zero_loss(law.scale, met.cells)
    low = high * math.exp(-loss)
    masses = {1: high, -1: low} | ({0: 1 - high - low} if high + low < 1 - 1e-12 else {})
    upper = {outcome: math.log(mass) for outcome, mass in masses.items()}
    lower = {outcome: upper[-outcome] for outcome in upper}
    return library.from_two_probability_mass_functions(lower, upper, value_discretization_interval=grid)


class Summed(NamedTuple):
    """What adds up under a filter: its name in ``Spent``, its prices of events, limits and totals."""

    name: str
    price: Callable[[Event], Fraction | None]
    pure: Callable[[Fraction], Fraction]
    within: Callable[[PrivacyCost], Fraction]
    epsilon: Callable[[Fraction, Fraction], Fraction]


def rho_within(limit: PrivacyCost) -> Fraction:
    """The largest rho, to ten digits, that is (epsilon, delta)-DP by OpenDP's conversion; never more."""
    rho = rho_of_epsilon(limit.epsilon, limit.delta)
    while epsilon_of_rho(rho, limit.delta) > limit.epsilon:
        rho = rounded(rho * LESS, up=False)
    return rho


def mu_squared_within(limit: PrivacyCost) -> Fraction:
    """The square of the largest mu, to ten digits, that is (epsilon, delta)-DP; never more."""
    return mu_within(limit.epsilon, limit.delta) ** 2


Accounting = Literal["basic", "zcdp", "gdp"]
#: What adds up under each filter but ``"basic"``.
SUMS = {
    "zcdp": Summed("rho", rho_of, pure_rho, rho_within, epsilon_of_rho),
    "gdp": Summed("mu_squared", mu_squared_of, pure_mu_squared, mu_squared_within, epsilon_of_mu),
}


def summed_cost(added: Summed, events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """The cost of events whose rhos, or squared mus, add; the epsilon and delta of one without are added to it."""
    prices = [added.price(event) for event in events]
    outside = basic(event for event, price in zip(events, prices, strict=True) if price is None)
    if outside.delta >= delta:
        raise ReleaseError(
            f"the events claim delta {float(outside.delta):g} for themselves; ask at a delta above it, not "
            f"{float(delta):g}"
        )
    inside, plain = [price for price in prices if price is not None], basic(events)
    converted = added.epsilon(sum(inside, Fraction(0)), delta - outside.delta) if inside else Fraction(0)
    above = rounded((converted + outside.epsilon) * (1 + Fraction(1, 10**13)), up=True)
    return PrivacyCost(min(above, plain.epsilon) if plain.delta <= delta else above, delta)


#: How much less than the largest possible a group's epsilon is, so that its rho or mu is within its share.
LESS = 1 - Fraction(1, 10**9)


@dataclass(frozen=True)
class Spent:
    """The totals of all charges so far, in exact sums; rho and squared mu are 0 but under their own filter."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)


@dataclass(frozen=True)
class Filter:
    """A rule that says before each release whether it fits; ``whole`` is the largest sum of rhos or squared mus."""

    name: str
    limit: PrivacyCost
    whole: Fraction | None = field(init=False)
    start: ClassVar[Spent] = Spent()

    def __post_init__(self) -> None:
        check_choice("accounting", self.name, Accounting)
        if self.name != "basic" and self.limit.delta == 0:
            raise ReleaseError(f"accounting={self.name!r} needs a delta above 0, such as 1e-6")
        object.__setattr__(self, "whole", self._sum.within(self.limit) if self.name != "basic" else None)

    @property
    def _sum(self) -> Summed:
        return SUMS[self.name]

    def summed(self, spent: Spent) -> Fraction:
        """The sum of rhos, or of squared mus, so far."""
        return getattr(spent, self._sum.name)

    def after(self, spent: Spent, event: Event) -> Spent:
        """The totals with one more event; an error if the filter has no price for it."""
        totals = Spent(spent.epsilon + event.epsilon, spent.delta + event.delta, spent.rho, spent.mu_squared)
        if self.whole is None:
            return totals
        price = self._sum.price(event)
        if price is None:
            word = {"zcdp": "rho", "gdp": "mu"}[self.name]
            raise ReleaseError(
                f"{event.mechanism} claims a delta and no {word}, so accounting={self.name!r} has no price for it; use "
                f'a mechanism with a {word}, such as GaussianMechanism, or a budget with accounting="basic"'
            )
        return replace(totals, **{self._sum.name: self.summed(spent) + price})

    def fits(self, spent: Spent) -> bool:
        """True if the totals are within the limit."""
        if self.whole is not None:
            return self.summed(spent) <= self.whole
        return spent.epsilon <= self.limit.epsilon and spent.delta <= self.limit.delta

    def in_words(self, total: Fraction) -> str:
        """A sum of rhos, or of squared mus."""
        return f"rho {float(total):.6g}" if self.name == "zcdp" else f"mu {math.sqrt(total):.6g}"

    def left(self, spent: Spent) -> str:
        """The remaining epsilon, rho or mu in words, for messages."""
        if self.whole is None:
            return f"{self.remaining(spent)} left of {decimal(self.limit.epsilon)}"
        left = self.in_words(self.whole - self.summed(spent))
        enough = f"enough for a pure release of epsilon {float(self.remaining(spent).epsilon):.6g}"
        return f"{left} left of {self.in_words(self.whole).split()[1]}, {enough}"

    def price(self, spent: Spent) -> PrivacyCost:
        """The totals as an epsilon and a delta, where rhos or mus add at the limit's delta."""
        if self.whole is None:
            return PrivacyCost(spent.epsilon, spent.delta)
        total = self.summed(spent)
        if not total:
            return PrivacyCost(Fraction(0))
        return PrivacyCost(rounded(self._sum.epsilon(total, self.limit.delta), up=True), self.limit.delta)

    def remaining(self, spent: Spent) -> PrivacyCost:
        """The largest epsilon of one more pure release, and the delta it may claim: deltas add under basic alone."""
        if self.whole is None:
            return PrivacyCost(self.limit.epsilon - spent.epsilon, self.limit.delta - spent.delta)
        return PrivacyCost(pure_within(self.whole - self.summed(spent), self._sum.pure), self.limit.delta)


def split(
    accounting: str, whole: PrivacyCost, groups: int, unit: PrivacyUnit, label: str
) -> tuple[Event, Accounting, PrivacyCost]:
    """The one charge for disjoint groups of rows, which share a rho, a mu (P91) or epsilon; their filter and limit."""
    if accounting == "basic" or whole.delta == 0:
        return Event(label, whole.epsilon, whole.delta), "basic", parallel_share(whole, groups, unit)
    added, accounting = SUMS[accounting], cast("Accounting", accounting)
    total = added.within(whole)
    share = total / parallel_steps(groups, unit)
    epsilon = rounded(added.epsilon(share, whole.delta), up=False)
    while epsilon > 0 and added.within(PrivacyCost(epsilon, whole.delta)) > share:
        epsilon = rounded(epsilon * LESS, up=False)
    if epsilon <= 0:
        part = Filter(accounting, whole).in_words(share)
        raise ReleaseError(f"a group's share, {part}, is within delta alone; use a larger epsilon")
    rho, mu = (total, None) if accounting == "zcdp" else (None, mu_within(whole.epsilon, whole.delta))
    return Event(label, whole.epsilon, whole.delta, rho=rho, mu=mu), accounting, PrivacyCost(epsilon, whole.delta)


def too_dear(rule: Filter, spent: Spent, after: Spent, event: Event) -> str:
    """The message of a refused charge."""
    price: Any = PrivacyCost(event.epsilon, event.delta)
    if rule.whole is not None:
        price = rule.in_words(rule.summed(after) - rule.summed(spent))
    words = f"{event.mechanism} costs {price} but the budget has {rule.left(spent)}; nothing was charged"
    if event.delta > 0 and rule.remaining(rule.start).delta == 0:
        words += f". A budget with a delta is Budget(epsilon, {float(event.delta):g})"
    return words


def checked(event: Any) -> Event:
    """An event whose claims are exact fractions."""
    if not isinstance(event, Event):
        raise ReleaseError(f"a budget is charged with an Event; got {type(event).__name__}")
    claims = {"epsilon": event.epsilon, "delta": event.delta, "rho": event.rho or 0, "mu": event.mu or 0}
    known = {name: exact(claim, name, zero=name != "epsilon") for name, claim in claims.items()}
    if claims != known or not all(isinstance(claim, int | Fraction) for claim in claims.values()):
        raise ReleaseError(f"{event.mechanism} must price itself in exact fractions")
    check_paid_together(event)
    return event


def pure_within(total: Fraction, price: Callable[[Fraction], Fraction]) -> Fraction:
    """The largest epsilon, to twelve digits, of a pure release whose price is at most a total."""
    return largest(lambda epsilon: price(epsilon) <= total) if total > 0 else Fraction(0)
