"""What events cost together, and the budget, the one mutable object in the package."""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal, get_args

from dpgraph.privacy.composition import (
    LONGEST,
    Shift,
    advanced,
    basic,
    parallel_share,
    shifts,
    sum_zero_loss,
    zero_concentrated,
)
from dpgraph.privacy.records import (
    BudgetExceededError,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Number,
    PrivacyCost,
    PrivacyUnit,
    Release,
    ReleaseError,
    SumZeroLaplace,
    decimal,
    exact,
    exact_delta,
    rounded,
)
from dpgraph.privacy.scope import Condition, RowGroup, group_with

Method = Literal["basic", "advanced", "zcdp", "pld"]


def cost(
    spent: Release | Event | Iterable[Release | Event],
    method: Method = "basic",
    delta: Number | None = None,
    *,
    unit: PrivacyUnit | None = None,
) -> PrivacyCost:
    """The privacy cost of several releases or events on the same rows, one after the other.

    This prices the past; it is no limit on what comes next: an odometer, not a filter. ``"basic"`` may also decide
    whether to go on, which is what a ``Budget`` does: sums of epsilons hold where each release is chosen after seeing
    earlier ones. The others hold where the number of releases and their costs were fixed beforehand (``"pld"``: the
    releases themselves); a rule such as "go on until zcdp says 1" is not proved to cost 1.

    Args:
        spent: What was done.
        method: ``"basic"``: epsilons and deltas add, exact. ``"advanced"``: as the papers compose (see
            ``composition.advanced``). ``"zcdp"``: zero-concentrated (``composition.zero_concentrated``). ``"pld"``:
            numerical composition of privacy loss distributions by dp-accounting, from the recorded noise laws and
            movements where those say enough (``composition.shifts``), else from each event's claim.
        delta: The delta to price at, for every method but basic. No method gives more than basic does where basic's
            own delta is within it.
        unit: The unit of bare events, so that releases under another one are refused; a release has its own.

    Raises:
        ReleaseError: If delta is missing or out of range, the releases protect different units, the method is
            unknown, or dp-accounting is not installed.

    >>> cost([Event("a", exact("0.1")), Event("b", exact("0.2"))]).epsilon
    Fraction(3, 10)
    >>> hundred = [Event("a", exact("0.1"))] * 100
    >>> [round(float(cost(hundred, method, "1e-6").epsilon), 2) for method in ("advanced", "zcdp")]
    [6.31, 5.22]
    """
    many = [spent] if isinstance(spent, Release | Event) else list(spent)
    units = {one.unit for one in many if isinstance(one, Release)} | ({unit} if unit else set())
    if len(units) > 1:
        raise ReleaseError(f"costs under different units do not add: {' | '.join(sorted(map(str, units)))}")
    events = [part for one in many for part in (one.event if isinstance(one, Release) else one).events]
    if method not in get_args(Method):
        raise ReleaseError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {method!r}")
    if method == "basic":
        if delta is not None:
            raise ReleaseError("basic composition has the events' own delta; give delta to the other methods only")
        return basic(events)
    target = Fraction(0) if delta is None else exact(delta, "delta", zero=True)
    if not 0 < target < 1:
        raise ReleaseError(f"method={method!r} needs a delta above 0 and below 1; got {delta!r}")
    if not events:
        return PrivacyCost(Fraction(0), target)
    match method:
        case "advanced":
            return advanced(events, target)
        case "zcdp":
            return zero_concentrated(events, target)
        case "pld":
            return _numerical(events, target)


def _numerical(events: Sequence[Event], delta: Fraction) -> PrivacyCost:
    """Composes privacy loss distributions, each rounded up to a grid fine enough for all of them together.

    The losses of Gaussian noise are spread between grid points ("connect the dots") and need no finer grid when there
    are many; the few losses of other noise are rounded up to the next point each.
    """
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
    found = whole.get_epsilon_for_delta(float(delta) * (1 - 1e-12))
    plain = basic(events)
    if plain.delta <= delta and plain.epsilon <= found:
        return PrivacyCost(plain.epsilon, delta)
    if found == math.inf:
        raise ReleaseError(f"the events' own deltas leave nothing of delta {float(delta):g}")
    return PrivacyCost(rounded(found, up=True), delta)


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


class Budget:
    """A limit on what may be spent on one data set, kept in exact fractions.

    Charges add by basic composition: the sum never passes the limit, also where each release is chosen after seeing
    the ones before it.

    The budget lives in one process. Copies, deep copies and scikit-learn clones are the same budget; pickling it, or
    charging it from a forked child, is refused, because a second copy could spend the same epsilon twice.

    Args:
        epsilon: The whole epsilon, exact: a decimal string or a number; a float means the decimal it prints as.
        delta: The whole delta, 0 for pure differential privacy.
        unit: Whom the budget protects; every release made with it is calibrated to this unit.

    Raises:
        ReleaseError: If epsilon or delta is not a finite number in range.

    >>> budget = Budget("0.3")
    >>> for _ in range(3):
    ...     budget.charge(Event("count", exact("0.1")))
    >>> budget.remaining
    Fraction(0, 1)
    """

    def __init__(self, epsilon: Number, delta: Number = 0, *, unit: PrivacyUnit | None = None) -> None:
        self._limit = PrivacyCost(exact(epsilon), exact_delta(delta))
        if unit is not None and not isinstance(unit, PrivacyUnit):
            raise ReleaseError(f"unit must be a PrivacyUnit; got {type(unit).__name__}")
        self._unit = unit or PrivacyUnit()
        self._events: tuple[Event, ...] = ()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._group: RowGroup | None = None
        self._identity = secrets.token_hex(8)

    @property
    def epsilon(self) -> Fraction:
        """The whole epsilon."""
        return self._limit.epsilon

    @property
    def delta(self) -> Fraction:
        """The whole delta."""
        return self._limit.delta

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the budget protects."""
        return self._unit

    @property
    def group(self) -> RowGroup | None:
        """The group of rows the budget is for, where ``parallel`` made it; None for all rows."""
        return self._group

    @property
    def identity(self) -> str:
        """A random name, in the record of every release it pays for; the budgets of its groups share it."""
        return self._identity

    @property
    def events(self) -> tuple[Event, ...]:
        """What was charged, in order."""
        return self._events

    @property
    def spent(self) -> Fraction:
        """The epsilon charged so far."""
        return self.cost().epsilon

    @property
    def remaining(self) -> Fraction:
        """The epsilon that is left."""
        return self.epsilon - self.spent

    def cost(self, method: Method = "basic", delta: Number | None = None) -> PrivacyCost:
        """The price of everything charged so far; see ``cost``.

        It prices the past and is no limit on what comes next: an odometer, not a filter. What the budget enforces is
        basic composition, whatever the method asked for here, and that holds for releases chosen after seeing
        earlier ones.
        """
        return cost(self._events, method, delta, unit=self._unit)

    def parallel(self, domain: Any, by: str, *, epsilon: Number, delta: Number = 0) -> dict[Any, Budget]:
        """Charges once for releases on disjoint groups of rows, and gives each group a budget of its own.

        Each budget takes only counts of rows in its own group, ``count(rows, network, where={by: level})``, declared
        as in ``domain``, so the groups share no row. What each may spend follows from ``composition.parallel_cost``:
        with one row per person all of epsilon under add/remove, half of it under replace, where a row may move between
        groups. The groups' own unit is add/remove either way: how many rows a group has is not public.

        A group's budget may be split again, by another variable; its groups are the conjunctions,
        ``where={by: level, then: level}``. By induction everything released inside a group costs at most the group's
        epsilon, so the whole tree costs what was charged at its top.

        Args:
            domain: The domain that declares the variable.
            by: The variable whose levels are the groups.
            epsilon: What this budget is charged, now and whole, however little the groups spend.
            delta: Its delta.

        Returns:
            A budget for each declared level.

        Raises:
            BudgetExceededError: If this budget does not hold it; nothing is charged.
            DomainError: If the variable is not declared.
            ReleaseError: If this budget's rows were split by the variable already; nothing is charged.

        >>> from dpgraph.structure.domain import Domain
        >>> regions = Budget(1).parallel(Domain.of({"region": ["north", "south"]}), "region", epsilon=1)
        >>> regions["north"].epsilon, str(regions["north"].group), regions["north"].unit.neighbours
        (Fraction(1, 2), "region = 'north'", 'add-remove')
        >>> women = regions["north"].parallel(Domain.of({"sex": ["F", "M"]}), "sex", epsilon="1/2")["F"]
        >>> women.epsilon, str(women.group)
        (Fraction(1, 2), "region = 'north' and sex = 'F'")
        """
        variable, levels = domain[by], tuple(domain.levels(by))
        whole = PrivacyCost(exact(epsilon), exact(delta, "delta", zero=True))
        share = parallel_share(whole, len(levels), self._unit)
        made = {level: self._for_group(share, Condition(by, level, variable)) for level in levels}
        self.charge(Event(f"parallel over {by}", whole.epsilon, whole.delta))
        return made

    def _for_group(self, share: PrivacyCost, condition: Condition) -> Budget:
        """A budget for those of this budget's rows that meet one more condition."""
        made = Budget(share.epsilon, share.delta, unit=self._unit.within_groups())
        made._group = group_with(self._group, condition)
        made._identity = self._identity
        return made

    def charge(self, event: Event) -> None:
        """Records an event, or refuses it whole. There is no way to take a charge back.

        Raises:
            BudgetExceededError: If the event does not fit what is left; nothing is charged.
            ReleaseError: If this is a forked copy of the process that made the budget.
        """
        if os.getpid() != self._process:
            raise ReleaseError("this budget belongs to another process; make the release in the process that owns it")
        if not isinstance(event, Event):
            raise ReleaseError(f"a budget is charged with an Event; got {type(event).__name__}")
        if exact(event.epsilon) != event.epsilon or exact(event.delta, "delta", zero=True) != event.delta:
            raise ReleaseError(f"{event.mechanism} must price itself in exact fractions")
        with self._lock:
            spent, price = cost(self._events), cost(event)
            if spent.epsilon + price.epsilon > self.epsilon or spent.delta + price.delta > self.delta:
                left = PrivacyCost(self.epsilon - spent.epsilon, self.delta - spent.delta)
                raise BudgetExceededError(
                    f"{event.mechanism} costs {price} but the budget has {left} left "
                    f"of {decimal(self.epsilon)}; nothing was charged"
                )
            self._events += (event,)

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: object) -> Budget:
        return self

    def __sklearn_clone__(self) -> Budget:
        return self

    def __reduce__(self) -> str:
        raise ReleaseError("a Budget is not pickled: a copy in another process could spend the same epsilon twice")

    def __repr__(self) -> str:
        return (
            f"Budget(epsilon={decimal(self.epsilon)}, delta={decimal(self.delta)}, unit=({self.unit}), "
            f"spent={decimal(self.spent)}, remaining={decimal(self.remaining)}"
            + (")" if self._group is None else f", rows=({self._group}))")
        )
