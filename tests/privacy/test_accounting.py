"""The budget is exact, is charged whole or not at all, and cannot be reset or raced (promise.md S8, S10)."""

import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from dpgraph.privacy.accounting import Budget, cost
from dpgraph.privacy.composition import Filter
from dpgraph.privacy.errors import BudgetExceededError, ReleaseError
from dpgraph.privacy.records import Event, PrivacyUnit, exact
from dpgraph.structure.domain import Domain
from tests.privacy.test_records import NOT_EPSILONS


def spend(epsilon, delta=0):
    return Event("test", exact(epsilon), exact(delta, "delta", zero=True))


def test_three_tenths_hold_three_spends_of_a_tenth_and_not_four():
    budget = Budget(0.3)
    for _ in range(3):
        budget.charge(spend(0.1))
    assert budget.remaining == 0
    with pytest.raises(BudgetExceededError, match="nothing was charged"):
        budget.charge(spend(0.1))
    assert budget.spent == Fraction(3, 10)
    assert len(budget.events) == 3


@given(st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=1), max_size=20), st.fractions(Fraction(1, 10), 5))
def test_what_is_spent_never_passes_the_limit_and_refusals_charge_nothing(prices, limit):
    budget, expected = Budget(limit), Fraction(0)
    for price in prices:
        if expected + price <= limit:
            budget.charge(spend(price))
            expected += price
        else:
            with pytest.raises(BudgetExceededError):
                budget.charge(spend(price))
        assert budget.spent == expected


def test_delta_has_its_own_limit():
    budget = Budget(1, "1e-6")
    budget.charge(spend("0.1", "1e-6"))
    with pytest.raises(BudgetExceededError):
        budget.charge(spend("0.1", "1e-9"))


@pytest.mark.parametrize("value", NOT_EPSILONS, ids=repr)
def test_a_budget_needs_an_epsilon(value):
    with pytest.raises(ReleaseError):
        Budget(value)


@pytest.mark.parametrize("delta", [1, 2, -1, float("nan"), True])
def test_a_budget_needs_a_delta_below_one(delta):
    with pytest.raises(ReleaseError):
        Budget(1, delta)


def test_a_budget_needs_a_unit():
    with pytest.raises(ReleaseError, match="PrivacyUnit"):
        Budget(1, unit="replace")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, clone], ids=["copy", "deepcopy", "clone"])
def test_a_duplicate_is_the_same_budget(duplicate):
    budget = Budget(1)
    duplicate(budget).charge(spend("0.75"))
    assert budget.remaining == Fraction(1, 4)


@pytest.mark.parametrize("accounting", ["basic", "zcdp"])
def test_a_pickled_budget_shows_what_was_spent_and_cannot_spend(accounting):
    """Where it is loaded in the process that wrote it too: it would be a second budget of the same epsilon."""
    budget = Budget(1, "1e-6", accounting=accounting)
    budget.charge(Event("a", Fraction(1, 8), rho=Fraction(1, 128)))
    copy = pickle.loads(pickle.dumps(budget))
    assert (copy.remaining, copy.events, copy.identity) == (budget.remaining, budget.events, budget.identity)
    for wrong in (copy, pickle.loads(pickle.dumps(copy))):
        with pytest.raises(ReleaseError, match=r"twice; nothing was charged.*n_jobs=1.*Budget\.open"):
            wrong.charge(spend("0.1"))
        with pytest.raises(ReleaseError, match="twice"):
            wrong.parallel(Domain.of({"region": ["n", "s"]}), "region", epsilon="0.1")
    assert copy.events == budget.events
    assert len(budget.events) == 1


def test_a_pickled_group_cannot_spend_either():
    groups = Budget(1).parallel(Domain.of({"region": ["n", "s"]}), "region", epsilon=1)
    copy = pickle.loads(pickle.dumps(groups["n"]))
    assert str(copy.group) == str(groups["n"].group)
    with pytest.raises(ReleaseError, match="twice"):
        copy.charge(spend("0.1"))


def test_eight_threads_spend_exactly_what_there_is():
    budget = Budget(50)

    def try_to_spend(_):
        try:
            budget.charge(spend(1))
        except BudgetExceededError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_to_spend, range(400))) == 50
    assert budget.remaining == 0


class Watched:
    """A budget's own lock, which says when a thread finds it taken."""

    def __init__(self, lock, taken):
        self._lock, self._taken = lock, taken

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self._taken.set()
            self._lock.acquire()

    def __exit__(self, *exception):
        self._lock.release()


@pytest.mark.parametrize("parallel", [False, True], ids=["charge", "parallel"])
def test_a_charge_that_comes_between_the_price_and_the_record_of_another_waits(monkeypatch, parallel):
    """The schedule that loses a charge, forced: one thread has read what was spent, and before it writes, the other
    spends. It goes on when the other is done, or waits at the lock; no clock decides."""
    budget, moved_on, answers = Budget(1), threading.Event(), []
    budget._account._lock = Watched(budget._account._lock, moved_on)
    domain = Domain.of({"region": ["north", "south"]})

    def spend_all():
        try:
            budget.parallel(domain, "region", epsilon=1) if parallel else budget.charge(spend(1))
            answers.append("spent")
        except BudgetExceededError:
            answers.append("refused")
        moved_on.set()

    other = threading.Thread(target=spend_all)
    real = Filter.after

    def interrupted(rule, spent, event):
        after = real(rule, spent, event)
        if threading.current_thread() is not other and not other.ident:
            other.start()
            moved_on.wait()
        return after

    monkeypatch.setattr(Filter, "after", interrupted)
    spend_all()
    other.join()
    monkeypatch.undo()
    assert sorted(answers) == ["refused", "spent"]
    assert budget.spent == 1


def test_a_forked_child_cannot_spend_its_copy():
    budget = Budget(1)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        try:
            budget.charge(spend("0.5"))
            queue.put("spent")
        except ReleaseError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join()
    assert "another process" in queue.get()
    assert budget.spent == 0


def test_the_limit_cannot_be_reassigned():
    budget = Budget(1)
    for name in ("epsilon", "delta", "unit", "spent", "remaining", "events"):
        with pytest.raises(AttributeError):
            setattr(budget, name, 0)


def test_a_budget_shows_its_unit():
    assert "add-remove up to 3 rows of one person" in repr(Budget(1, unit=PrivacyUnit("add-remove", 3)))


def test_costs_compose_by_adding():
    assert cost([spend("0.1", "1e-6"), spend("0.2")]).epsilon == Fraction(3, 10)
    assert cost([]).epsilon == 0


@pytest.mark.parametrize(
    "event", [Event("refund", Fraction(-1)), Event("nan", float("nan")), Event("float", 0.1), "event", None], ids=repr
)
def test_what_is_no_exact_price_is_not_charged(event):
    budget = Budget("0.5")
    with pytest.raises(ReleaseError):
        budget.charge(event)
    assert budget.events == ()
