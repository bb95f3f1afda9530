"""The cost of events together, and the budget, the one mutable object in the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

from dpgraph.privacy.accounts import InMemory, Made, Receipt, Split, checked_unit
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.composition import (
    SUMS,
    Accounting,
    basic,
    check_paid_together,
    checked,
    numerical,
    split,
    summed_cost,
)
from dpgraph.privacy.display import as_html
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import mu_within, root
from dpgraph.privacy.records import Event, Number, PrivacyCost, PrivacyUnit, Release, decimal, exact, exact_delta
from dpgraph.privacy.scope import Condition, RowGroup, group_with

if TYPE_CHECKING:
    from dpgraph.privacy.ledger.account import DurableAccount, Ledger

    Account = InMemory | DurableAccount

Method = Literal["basic", "zcdp", "gdp", "pld"]


def cost(
    spent: Release | Event | Iterable[Release | Event],
    method: Method = "basic",
    delta: Number | None = None,
    *,
    unit: PrivacyUnit | None = None,
) -> PrivacyCost:
    """The privacy cost of several releases or events on the same rows, one after the other.

    A cost prices the past and does not limit later releases. ``"basic"`` may also decide whether to go on; the others
    hold where the number of releases and their costs were fixed beforehand (docs/accounting.md).

    Args:
        spent: One release or event, or several.
        method: ``"basic"``: epsilons and deltas add, exact. ``"zcdp"``: rhos add. ``"gdp"``: squares of mus add.
            ``"pld"``: numerical composition of privacy loss distributions by dp-accounting, from the recorded noise
            laws and movements where those say enough, else from each event's claim.
        delta: The delta to price at, for every method but basic. No method gives more than basic does where basic's
            own delta is within it.
        unit: The unit of bare events; releases under another unit are refused.

    Raises:
        ReleaseError: If delta is missing or out of range, the releases protect different units, the method is
            unknown, or dp-accounting is not installed.

    >>> cost([Event("a", exact("0.1")), Event("b", exact("0.2"))]).epsilon
    Fraction(3, 10)
    >>> hundred = [Event("a", exact("0.1"))] * 100
    >>> [round(float(cost(hundred, method, "1e-6").epsilon), 2) for method in ("zcdp", "gdp")]
    [5.22, 6.33]
    """
    many = [spent] if isinstance(spent, Release | Event) else list(spent)
    units = {one.unit for one in many if isinstance(one, Release)} | ({unit} if unit else set())
    if len(units) > 1:
        raise ReleaseError(f"costs under different units do not add: {' | '.join(sorted(map(str, units)))}")
    wholes = [one.event if isinstance(one, Release) else one for one in many]
    for whole in wholes:
        check_paid_together(whole)
    events = [part for whole in wholes for part in whole.priced]
    check_choice("method", method, Method)
    if method == "basic":
        if delta is not None:
            raise ReleaseError("basic composition has the events' own delta; give delta to the other methods only")
        return basic(wholes)
    target = Fraction(0) if delta is None else exact(delta, "delta", zero=True)
    if not 0 < target < 1:
        raise ReleaseError(f"method={method!r} needs a delta above 0 and below 1; got {delta!r}")
    if not events:
        return PrivacyCost(Fraction(0), target)
    price = numerical(events, target) if method == "pld" else summed_cost(SUMS[method], events, target)
    plain = basic(wholes)
    return PrivacyCost(min(price.epsilon, plain.epsilon), target) if plain.delta <= target else price


class Budget:
    """A limit on the privacy cost of one data set, kept in exact fractions.

    The sum of all charges never passes the limit, also where each release is chosen after seeing the ones before it.
    ``accounting`` says by which filter (``composition.Filter``; docs/accounting.md says which when):

    * ``"basic"``: epsilons and deltas add.
    * ``"gdp"``: (epsilon, delta) becomes a mu once, each event is charged its mu, and their squares add. Best for
      Gaussian noise.
    * ``"zcdp"``: the same with rhos. Best for many small releases with Laplace noise.

    A budget made by its name lives in the memory of one process; ``Budget.open`` keeps it in a ledger, which processes
    share. Copies, deep copies and scikit-learn clones are the same budget. A pickled copy of a budget in memory, or one
    in a forked child, cannot be charged; a budget in a ledger opens that ledger again there.

    Args:
        epsilon: The whole epsilon, exact: a decimal string or a number; a float means the decimal it prints as.
        delta: The whole delta, 0 for pure differential privacy; above 0 for ``"gdp"`` and ``"zcdp"``.
        unit: Whom the budget protects; every release made with it is calibrated to this unit.
        accounting: ``"basic"``, ``"gdp"`` or ``"zcdp"``.

    Raises:
        ReleaseError: If epsilon or delta is not a finite number in range, or accounting is none of these.

    >>> budget = Budget("0.3")
    >>> for _ in range(3):
    ...     budget.charge(Event("count", exact("0.1")))
    >>> budget.remaining
    Fraction(0, 1)
    >>> budget = Budget(1, "1e-6", accounting="zcdp")
    >>> for _ in range(40):
    ...     budget.charge(Event("count", exact("0.03")))
    >>> float(budget.cost("basic").epsilon), round(float(budget.spent), 3), round(float(budget.remaining), 3)
    (1.2, 0.851, 0.113)
    """

    def __init__(
        self, epsilon: Number, delta: Number = 0, *, unit: PrivacyUnit | None = None, accounting: Accounting = "basic"
    ) -> None:
        limit = PrivacyCost(exact(epsilon), exact_delta(delta))
        self._account: Account = InMemory(limit, checked_unit(unit), accounting)
        self._group: RowGroup | None = None

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        dataset: str,
        epsilon: Number | None = None,
        delta: Number | None = None,
        unit: PrivacyUnit | None = None,
        accounting: Accounting | None = None,
        source: str | None = None,
        who: str = "",
        purpose: str = "",
    ) -> Budget:
        """The budget of a data set in a ledger, which is made where it is not there yet.

        A ledger is an append-only list of entries in a SQLite file or a PostgreSQL database (docs/ledger.md). Every
        charge is checked and written in one transaction before anything is drawn. Edited, removed or reordered entries
        are noticed here and by ``budget.ledger.verify()``.

        Args:
            url: A path, ``sqlite:///path`` or ``postgresql://user@host/database``. Leave passwords to ``~/.pgpass`` or
                ``PGPASSWORD``: one in the address is not handed to other processes.
            dataset: The name of the data set, of which a ledger may hold several. One name has one budget.
            epsilon: The whole epsilon. It makes the data set's budget if there is none; else it must be as it was made.
            delta: The whole delta; 0 where the budget is made.
            unit: Whom the budget protects; one replaced row where the budget is made.
            accounting: How charges add; ``"basic"`` where the budget is made.
            source: The name of the rows, such as a table's or an extract's, never their content; where the ledger names
                one it must be the same.
            who: The user of the charges, in their entries; an allowance of that name limits them (``Ledger.allow``).
            purpose: The purpose of the charges, in their entries.

        Raises:
            LedgerError: If the ledger cannot be read or written, was edited, is not of this data set, or was made
                otherwise than asked.
            ReleaseError: If epsilon, delta, unit, accounting or a label is not valid.

        >>> import tempfile
        >>> place = tempfile.mkdtemp() + "/ledger.sqlite"
        >>> _ = Budget.open(place, dataset="survey", epsilon=1).charge(Event("count", exact("0.4")))
        >>> Budget.open(place, dataset="survey").remaining
        Fraction(3, 5)
        """
        from dpgraph.privacy.ledger.account import opened

        settings = {"epsilon": epsilon, "delta": delta, "unit": unit, "accounting": accounting, "source": source}
        return cls._of(opened(str(os.fspath(url)), dataset, settings, who, purpose))

    @classmethod
    def _of(cls, account: Account, group: RowGroup | None = None) -> Budget:
        made = Budget.__new__(Budget)
        made._account, made._group = account, group
        return made

    @property
    def epsilon(self) -> Fraction:
        """The whole epsilon."""
        return self._account.limit.epsilon

    @property
    def delta(self) -> Fraction:
        """The whole delta."""
        return self._account.limit.delta

    @property
    def accounting(self) -> Accounting:
        """The filter that charges keep to."""
        return cast("Accounting", self._account.rule.name)

    @property
    def rho(self) -> Fraction | None:
        """The whole rho under ``"zcdp"``: the largest that OpenDP converts to (epsilon, delta)."""
        return self._account.rule.whole if self.accounting == "zcdp" else None

    @property
    def mu(self) -> Fraction | None:
        """The whole mu under ``"gdp"``: the largest, to ten digits, that costs no more than (epsilon, delta)."""
        return mu_within(self.epsilon, self.delta) if self.accounting == "gdp" else None

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the budget protects."""
        return self._account.unit

    @property
    def group(self) -> RowGroup | None:
        """The group of rows the budget is for, where ``parallel`` made it; None for all rows."""
        return self._group

    @property
    def identity(self) -> str:
        """A random name, in the record of every release it pays for; the budgets of its groups share it."""
        return self._account.identity

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all charges, in order."""
        return self._account.events()

    @property
    def spent(self) -> Fraction:
        """The epsilon charged so far; where rhos or mus add, that of their sum, at the budget's delta."""
        return self.cost().epsilon

    @property
    def remaining(self) -> Fraction:
        """The epsilon that is left, also of an allowance; where rhos or mus add, the most of one more pure release."""
        return self._account.remaining().epsilon

    @property
    def remaining_delta(self) -> Fraction:
        """The delta that one more release may claim; where rhos or mus add, the budget's own, since deltas do not."""
        return self._account.remaining().delta

    @property
    def remaining_rho(self) -> Fraction | None:
        """The rho that is left under ``"zcdp"``, for ``GaussianMechanism(delta=budget.delta, rho=...)``."""
        return None if self.rho is None else self.rho - self._account.spent().rho

    @property
    def remaining_mu(self) -> Fraction | None:
        """The mu that is left under ``"gdp"``, rounded down: for ``GaussianMechanism(delta=budget.delta, mu=...)``."""
        return None if self.mu is None else root(self.mu**2 - self._account.spent().mu_squared, up=False)

    @property
    def ledger(self) -> Ledger:
        """The ledger behind the budget: its entries, allowances and checks; ReleaseError for a budget in memory."""
        return self._durable().book()

    def for_(self, who: str, purpose: str = "") -> Budget:
        """The same budget, charged under another name: an allowance of that name limits it too.

        Raises:
            ReleaseError: If the budget is in memory, or the name is not a short line of text.
        """
        return Budget._of(self._durable().labelled(who, purpose), self._group)

    def _durable(self) -> DurableAccount:
        if isinstance(self._account, InMemory):
            raise ReleaseError("this budget lives in memory; Budget.open keeps one in a ledger")
        return self._account

    def cost(self, method: Method | None = None, delta: Number | None = None) -> PrivacyCost:
        """The price of all charges so far, by the budget's own accounting or, with a method, as ``cost`` prices it."""
        if method is None and delta is None:
            return self._account.rule.price(self._account.spent())
        return cost(self.events, method or "basic", delta, unit=self.unit)

    def left_after(self, event: Event) -> PrivacyCost:
        """The cost that remains after an event: the epsilon of one more pure release, and the delta; nothing is
        charged.

        Args:
            event: A possible event, such as ``LaplaceMechanism(1).event(network, budget.unit)``.

        Raises:
            BudgetExceededError: If the event does not fit the budget or an allowance.
            LedgerError: If the ledger cannot be read, or was edited.
            ReleaseError: If the budget's accounting has no price for the event.

        >>> budget = Budget(1)
        >>> budget.left_after(Event("count", exact("0.4"))).epsilon, budget.remaining
        (Fraction(3, 5), Fraction(1, 1))
        """
        return self._account.left_after(checked(event))

    def parallel(self, domain: Any, by: str, *, epsilon: Number, delta: Number = 0) -> dict[Any, Budget]:
        """Charges once for releases on disjoint groups of rows, and gives each group a budget of its own.

        Each budget takes only counts of rows in its own group, ``count(rows, network, where={by: level})``, declared as
        in ``domain``. The limit of each is ``composition.parallel_share``: with one row per person all of epsilon under
        add/remove, half of it under replace, where a row may move between groups. The groups' own unit is add/remove
        either way: how many rows a group has is not public. A group's budget may be split again, by another variable
        (proofs.md P66). In a ledger, ``groups`` returns the groups' budgets after a restart.

        Args:
            domain: The domain that declares the variable.
            by: The variable whose levels are the groups.
            epsilon: The charge to this budget, now and whole, however little the groups spend.
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
        conditions = _conditions(domain, by)
        groups = [group_with(self._group, condition) for condition in conditions]
        whole = PrivacyCost(exact(epsilon), exact(delta, "delta", zero=True))
        event, accounting, share = split(self.accounting, whole, len(groups), self.unit, f"parallel over {by}")
        parts = Split(accounting, share, tuple(one.fixed for one in conditions))
        receipt = self.charge(event, Made(split=parts))
        accounts = self._account.parts(receipt, parts)
        return {
            condition.level: Budget._of(account, group)
            for condition, group, account in zip(conditions, groups, accounts, strict=True)
        }

    def groups(self, domain: Any, by: str, *, row: int | None = None) -> dict[Any, Budget]:
        """The budgets of groups that ``parallel`` made of this budget in a ledger, with their remaining epsilon; free.

        Args:
            domain: The domain that declares the variable, as it did then.
            by: The variable.
            row: The number of the ledger's entry that paid for them; by default the newest of this variable.

        Raises:
            LedgerError: If no entry of the ledger paid for such groups of this budget.
            ReleaseError: If the budget is in memory.
        """
        conditions = _conditions(domain, by)
        receipt, parts = self._durable().split_of(tuple(one.fixed for one in conditions), row)
        return {
            condition.level: Budget._of(account, group_with(self._group, condition))
            for condition, account in zip(conditions, self._account.parts(receipt, parts), strict=True)
        }

    def charge(self, event: Event, made: Made | None = None) -> Receipt | None:
        """Records an event, or refuses it whole. There is no way to take a charge back.

        Args:
            event: The event of the next draw.
            made: The description and the mechanism, for a ledger's entry.

        Returns:
            The ledger's entry, by its number and its digest; None in memory.

        Raises:
            BudgetExceededError: If the event does not fit the budget or an allowance; nothing is charged.
            LedgerError: If the ledger cannot be read or written. The charge may stand; nothing may be drawn.
            ReleaseError: If this is a forked copy of the process that made a budget in memory, its accounting has no
                price for the event, or a group beside this one was charged for another choice of rows.
        """
        return self._account.charge(checked(event), made or Made())

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: object) -> Budget:
        return self

    def __sklearn_clone__(self) -> Budget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._group, *self._account.reopening())

    def __repr__(self) -> str:
        parts = [f"epsilon={decimal(self.epsilon)}, delta={decimal(self.delta)}, unit=({self.unit})"]
        if self.accounting != "basic":
            parts.append(f"accounting={self.accounting!r}")
        for name, whole, left in (("rho", self.rho, self.remaining_rho), ("mu", self.mu, self.remaining_mu)):
            if whole is not None and left is not None:
                parts.append(f"{name}={decimal(whole)}, remaining_{name}={float(left):.6g}")
        parts.append(f"spent={decimal(self.spent)}, remaining={decimal(self.remaining)}")
        if not isinstance(self._account, InMemory):
            parts.append(f"ledger={self._account}")
        if self._group is not None:
            parts.append(f"rows=({self._group})")
        return f"Budget({', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [
            {"": "limit", "epsilon": decimal(self.epsilon), "delta": decimal(self.delta)},
            {"": "left", "epsilon": decimal(self.remaining), "delta": decimal(self.remaining_delta)},
        ]
        where = [] if isinstance(self._account, InMemory) else [f"ledger {self._account}"]
        group = [] if self._group is None else [f"rows: {self._group}"]
        return as_html("Budget", rows, [f"protecting {self.unit}; accounting {self.accounting}", *where, *group])


def budget_of(budget: Any, unit: PrivacyUnit | None, epsilon: Fraction, delta: Fraction) -> Budget:
    """The budget that a user gave for a whole of this cost, or one of exactly this cost where there is none."""
    if budget is None:
        return Budget(epsilon, delta, unit=unit)
    if not isinstance(budget, Budget):
        raise ReleaseError(f"budget must be a Budget to charge, such as dg.Budget(1), or None; got {budget!r:.60}")
    if unit is not None and unit != budget.unit:
        raise ReleaseError(f"unit ({unit}) differs from the budget's ({budget.unit}); leave unit out")
    return budget


def promised(
    epsilon: Number, delta: Number = 0, budget: Budget | None = None, unit: PrivacyUnit | None = None
) -> tuple[Fraction, Fraction, Budget]:
    """The exact epsilon and delta of a call, and the budget that pays them."""
    spend, slack = exact(epsilon), exact_delta(delta)
    return spend, slack, budget_of(budget, unit, spend, slack)


def _conditions(domain: Any, by: str) -> list[Condition]:
    return [Condition(by, level, domain[by]) for level in domain.levels(by)]


def _reopened(group: RowGroup | None, function: Callable[..., Account], arguments: tuple[Any, ...]) -> Budget:
    return Budget._of(function(*arguments), group)
