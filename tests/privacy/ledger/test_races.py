"""Exactly k spends fit a ledger for k, however many threads and processes try (promise.md S10)."""

import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from joblib import Parallel, delayed

import dpgraph as dg
from dpgraph.privacy.composition import Filter
from tests.privacy.ledger.charging import (
    DOMAIN,
    SPENDER,
    finished,
    open_,
    python,
    released,
    spend,
    what_another_writer_hears,
)

pytestmark = pytest.mark.systems


def try_to_spend(budget, epsilon=1):
    try:
        budget.charge(spend(epsilon))
    except dg.errors.BudgetExceededError:
        return 0
    return 1


def test_eight_threads_spend_exactly_what_there_is(url):
    budget = open_(url, 7)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_to_spend, [budget] * 24)) == 7
    assert open_(url).remaining == 0


def test_eight_threads_with_a_connection_each_spend_exactly_what_there_is(url):
    open_(url, 5)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: try_to_spend(open_(url)), range(16))) == 5


def race(url, rounds, k=5, processes=4, threads=2, tries=2):
    """Rounds of processes that try to spend more than there is, all let go at once; what each round spent."""
    words = (url, str(tries * threads), str(threads), str(rounds))
    started = [python(SPENDER, *words) for _ in range(processes)]
    totals = []
    for at in range(rounds):
        name = f"round {at}"
        budget = dg.Budget.open(url, dataset=name, epsilon=k)
        for process in started:
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in started:
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
        answers = [process.stdout.readline() for process in started]
        assert all(answers), [process.communicate()[1] for process in started]
        totals.append(sum(map(int, answers)))
        assert budget.remaining == 0
        assert len(budget.events) == k
    for process in started:
        finished(process)
    return totals


def test_four_processes_of_two_threads_spend_exactly_what_there_is(url):
    assert race(url, 3) == [5] * 3


@pytest.mark.proof
def test_four_processes_of_two_threads_spend_exactly_what_there_is_in_250_rounds(url):
    """The schedule that loses a charge is forced below; these are others, as they come."""
    assert race(url, 250) == [5] * 250


def test_nobody_else_writes_between_the_price_and_the_row(sqlite_url, monkeypatch):
    """The schedule that loses a charge, forced: while a charge is priced another connection asks to write."""
    budget, real, seen = open_(sqlite_url, 1), Filter.after, []

    def priced(rule, spent, event):
        seen.append(what_another_writer_hears(sqlite_url))
        return real(rule, spent, event)

    monkeypatch.setattr(Filter, "after", priced)
    budget.charge(spend(1))
    assert seen == ["database is locked"]


def test_nobody_else_writes_between_the_price_and_the_row_in_postgres(postgres_url, monkeypatch):
    import psycopg

    budget, real, seen = open_(postgres_url, 1), Filter.after, []

    def priced(rule, spent, event):
        with psycopg.connect(postgres_url) as other:
            try:
                other.execute("SELECT * FROM dpgraph_heads FOR UPDATE NOWAIT")
                seen.append("free")
            except psycopg.errors.LockNotAvailable:
                seen.append("locked")
        return real(rule, spent, event)

    monkeypatch.setattr(Filter, "after", priced)
    budget.charge(spend(1))
    assert seen == ["locked"]


def test_a_pickled_budget_is_the_same_one(url):
    budget = open_(url, 1, who="ann", purpose="p", unit=dg.PrivacyUnit("add-remove", 2))
    copy = pickle.loads(pickle.dumps(budget))
    copy.charge(spend("0.75"))
    assert budget.remaining == copy.remaining == Fraction(1, 4)
    assert (copy.unit, copy.identity, budget.ledger.rows()[-1].who) == (budget.unit, budget.identity, "ann")


def test_a_pickled_group_is_the_same_one(url):
    north = open_(url, 1).parallel(DOMAIN, "region", epsilon=1)["north"]
    copy = pickle.loads(pickle.dumps(north))
    copy.charge(spend("0.5"))
    assert north.remaining == 0
    assert copy.group == north.group


def test_fits_in_two_worker_processes_are_charged_exactly(url):
    """What n_jobs=2 does with an estimator: it pickles the budget, and each worker charges the one ledger."""
    budget = open_(url, "0.3")
    made = Parallel(n_jobs=2)(delayed(fit_or_not)(budget) for _ in range(5))
    assert sorted(made) == [False, False, True, True, True]
    assert budget.remaining == 0
    assert len(budget.events) == 3


def fit_or_not(budget):
    try:
        released(budget)
    except dg.errors.BudgetExceededError:
        return False
    return True


def test_a_forked_child_charges_the_same_ledger(url):
    budget = open_(url, 3)
    budget.charge(spend(1))  # a connection is open when the fork comes
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    children = [context.Process(target=lambda: queue.put(try_to_spend(budget))) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert sum(queue.get() for _ in children) == 2
    assert budget.remaining == 0
    assert budget.ledger.verify().ok


def test_no_connection_crosses_a_fork(url):
    budget = open_(url, 3)
    budget.charge(spend(1))
    found = []
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(budget._account.chain.store._connection is None))
    child.start()
    child.join()
    found.append(queue.get())
    assert found == [True]


def test_a_fork_waits_for_the_end_of_a_charge(sqlite_url, monkeypatch):
    budget, real, order = open_(sqlite_url, 3), Filter.after, []
    inside, go = threading.Event(), threading.Event()

    def priced(rule, spent, event):
        inside.set()
        assert go.wait(10)
        order.append("charged")
        return real(rule, spent, event)

    monkeypatch.setattr(Filter, "after", priced)
    charging = threading.Thread(target=budget.charge, args=(spend(1),))
    charging.start()
    assert inside.wait(10)
    child = multiprocessing.get_context("fork").Process(target=int)
    forking = threading.Thread(target=lambda: (child.start(), order.append("forked")))
    forking.start()
    forking.join(1.5)  # as long as a fork that does not wait may take
    assert order == []
    go.set()
    charging.join()
    forking.join()
    child.join()
    assert order == ["charged", "forked"]


def test_two_who_make_the_same_budget_make_one(url):
    with ThreadPoolExecutor(8) as pool:
        budgets = list(pool.map(lambda _: open_(url, 1), range(8)))
    assert len({budget.identity for budget in budgets}) == 1
    assert [row.number for row in budgets[0].ledger.rows()] == [0]
