"""Allowances within a ledger, and groups whose budgets survive: every charge fits its own limit and the whole."""

import copy
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.ledger import account
from dpgraph.privacy.ledger.store import moment_of
from tests.privacy.ledger.charging import DOMAIN, open_, spend
from tests.tiers import examples

TENTHS = st.integers(1, 6).map(lambda n: Fraction(n, 10))


def test_an_allowance_limits_who_has_it_and_the_whole_limits_all(url):
    budget = open_(url, 1, delta="1e-6")
    budget.ledger.allow("ann", epsilon="0.5")
    ann, bob = budget.for_("ann"), open_(url, who="bob")
    ann.charge(spend("0.3"))
    assert (ann.remaining, bob.remaining, budget.remaining) == (Fraction(2, 10), Fraction(7, 10), Fraction(7, 10))
    with pytest.raises(dg.errors.BudgetExceededError, match=r"the allowance of 'ann' has epsilon 0.2 .*left of 0.5"):
        ann.charge(spend("0.3"))
    with pytest.raises(dg.errors.BudgetExceededError):
        ann.charge(spend("0.1", "1e-9"))  # the allowance has no delta
    bob.charge(spend("0.6"))
    with pytest.raises(dg.errors.BudgetExceededError, match=r"the budget has epsilon 0.1"):
        ann.charge(spend("0.2"))
    ann.charge(spend("0.1"))
    assert budget.remaining == ann.remaining == 0
    laid, spent = budget.ledger.allowances()["ann"]
    assert (laid.limit.epsilon, spent.epsilon) == (Fraction(1, 2), Fraction(4, 10))
    assert budget.ledger.verify().ok


def test_an_allowance_reaches_budgets_that_are_open_already(url):
    ann = open_(url, 1, who="ann")
    open_(url).ledger.allow("ann", epsilon="0.1")
    with pytest.raises(dg.errors.BudgetExceededError, match="allowance"):
        ann.charge(spend("0.2"))


def test_a_later_allowance_replaces_the_earlier_and_keeps_what_was_spent(url):
    budget = open_(url, 1)
    ann = budget.for_("ann")
    budget.ledger.allow("ann", epsilon="0.2")
    ann.charge(spend("0.2"))
    budget.ledger.allow("ann", epsilon="0.3", by="the board")
    assert ann.remaining == Fraction(1, 10)
    budget.ledger.allow("ann", epsilon="0.1")
    assert ann.remaining == 0
    with pytest.raises(dg.errors.BudgetExceededError):
        ann.charge(spend("0.01"))
    assert [row.who for row in budget.ledger.rows() if row.kind == "allow"] == ["", "the board", ""]
    assert budget.ledger.verify().ok


def test_nothing_is_left_of_an_allowance_that_was_lowered_below_what_was_spent(url):
    budget = open_(url, 1, delta="1e-5")
    ann = budget.for_("ann")
    budget.ledger.allow("ann", epsilon="0.2", delta="1e-6")
    ann.charge(spend("0.2", "1e-6"))
    budget.ledger.allow("ann", epsilon="0.1")
    assert ann.remaining == ann.remaining_delta == 0


def test_nothing_is_charged_after_an_allowance_has_ended(url, monkeypatch):
    budget = open_(url, 1)
    budget.ledger.allow("ann", epsilon="0.5", expires="2026-12-31")
    clock = [datetime(2026, 12, 31, 23, 59, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return clock[0]

    monkeypatch.setattr(account, "datetime", Clock)
    ann = budget.for_("ann")
    ann.charge(spend("0.1"))
    assert ann.remaining == Fraction(4, 10)
    clock[0] += timedelta(minutes=1)
    with pytest.raises(dg.errors.BudgetExceededError, match="ended at 2027-01-01 00:00 UTC; nothing was charged"):
        ann.charge(spend("0.1"))
    assert ann.remaining == 0
    budget.charge(spend("0.1"))
    assert budget.ledger.verify().ok


@pytest.mark.parametrize("expires", ["soon", 3, "2026-13-01", "2026-12-31T25:00"])
def test_an_end_is_a_date_or_a_time(sqlite_url, expires):
    ledger = open_(sqlite_url, 1).ledger
    with pytest.raises(dg.errors.ReleaseError, match="expires must be a date"):
        ledger.allow("ann", epsilon=1, expires=expires)
    assert len(ledger.rows()) == 1


def test_times_without_a_zone_are_in_utc():
    plain, zoned = moment_of("2026-05-01T12:00"), moment_of("2026-05-01T14:00+02:00")
    assert plain == zoned == moment_of(datetime(2026, 5, 1, 12))
    assert moment_of(datetime(2026, 5, 1).date()) == moment_of("2026-05-01") == moment_of("2026-05-02T00:00")


@pytest.mark.parametrize("asked", [{"who": ""}, {"who": "a\n"}, {"epsilon": 0}, {"delta": 1}, {"by": 3}])
def test_a_bad_allowance_is_refused(sqlite_url, asked):
    ledger = open_(sqlite_url, 1).ledger
    words = {"who": "ann", "epsilon": 1} | asked
    with pytest.raises(dg.errors.ReleaseError):
        ledger.allow(words.pop("who"), **words)
    assert len(ledger.rows()) == 1


STEPS = st.tuples(st.sampled_from(["", "ann", "bob"]), st.sampled_from(["charge", "allow"]), TENTHS)


@settings(max_examples=examples(15))  # each writes to a disk
@given(st.lists(STEPS, max_size=12))
def test_no_order_of_charges_and_allowances_passes_a_limit(tmp_path_factory, steps):
    """Against a model in plain fractions."""
    budget = open_(tmp_path_factory.mktemp("any") / "l.sqlite", 1)
    whole, limits, own = Fraction(0), {}, {}
    for who, kind, price in steps:
        if kind == "allow" and who:
            budget.ledger.allow(who, epsilon=price)
            limits[who] = price
            continue
        fits = whole + price <= 1 and (who not in limits or own.get(who, 0) + price <= limits[who])
        try:
            budget.for_(who).charge(spend(price))
            assert fits
            whole += price
            if who in limits:
                own[who] = own.get(who, Fraction(0)) + price
        except dg.errors.BudgetExceededError:
            assert not fits
    assert budget.spent == whole
    assert budget.ledger.verify().ok


def test_groups_keep_what_they_spent_over_a_restart(url):
    """A process that opens the ledger again neither pays again nor gets a second share."""
    budget = open_(url, 1)
    regions = budget.parallel(DOMAIN, "region", epsilon=1)
    regions["north"].charge(spend("0.3"))
    again = open_(url).groups(DOMAIN, "region")
    assert {level: one.remaining for level, one in again.items()} == {"north": Fraction(2, 10), "south": Fraction(1, 2)}
    assert again["north"].group == regions["north"].group
    assert again["north"].unit == dg.PrivacyUnit("add-remove")
    assert again["north"].identity == budget.identity
    with pytest.raises(dg.errors.BudgetExceededError):
        again["north"].charge(spend("0.3"))
    again["north"].charge(spend("0.2"))
    assert regions["north"].remaining == budget.remaining == 0
    with pytest.raises(dg.errors.BudgetExceededError):
        open_(url).parallel(DOMAIN, "region", epsilon=1)
    assert budget.ledger.verify().ok


def test_groups_within_groups_are_found_again(url):
    north = open_(url, 1, unit=dg.PrivacyUnit("add-remove", 2)).parallel(DOMAIN, "region", epsilon=1)["north"]
    north.parallel(DOMAIN, "sex", epsilon="0.5")["F"].charge(spend("0.2"))
    women = open_(url).groups(DOMAIN, "region")["north"].groups(DOMAIN, "sex")["F"]
    assert str(women.group) == "region = 'north' and sex = 'F'"
    assert (women.remaining, women.unit.rows_per_person) == (Fraction(1, 20), 2)
    with pytest.raises(dg.errors.LedgerError, match="no entry paid for these groups"):
        open_(url).groups(DOMAIN, "sex")
    with pytest.raises(dg.errors.LedgerError, match="no entry paid for these groups"):
        open_(url).groups(dg.Domain.of({"region": ["north", "south", "east"]}), "region")


def test_each_split_has_its_own_groups(url):
    budget = open_(url, 1)
    first = budget.parallel(DOMAIN, "region", epsilon="0.2")
    second = budget.parallel(DOMAIN, "region", epsilon="0.4")
    first["north"].charge(spend("0.1"))
    assert second["north"].remaining == Fraction(2, 10)
    assert budget.groups(DOMAIN, "region")["north"].remaining == Fraction(2, 10)
    assert budget.groups(DOMAIN, "region", row=1)["north"].remaining == 0
    with pytest.raises(dg.errors.LedgerError, match="no entry 7"):
        budget.groups(DOMAIN, "region", row=7)


def test_a_split_that_does_not_fit_makes_no_groups(url):
    budget = open_(url, "0.5")
    with pytest.raises(dg.errors.BudgetExceededError):
        budget.parallel(DOMAIN, "region", epsilon=1)
    assert len(budget.ledger.rows()) == 1


def test_a_group_that_is_split_is_charged_to_the_allowance_whole(url):
    budget = open_(url, 1)
    budget.ledger.allow("ann", epsilon="0.4")
    groups = budget.for_("ann").parallel(DOMAIN, "region", epsilon="0.4")
    groups["north"].charge(spend("0.2"))
    assert budget.for_("ann").remaining == 0
    assert groups["south"].remaining == Fraction(2, 10)
    assert budget.ledger.verify().ok


def test_copies_are_the_same_budget(sqlite_url):
    from sklearn.base import clone

    budget = open_(sqlite_url, 1)
    for duplicate in (copy.copy, copy.deepcopy, clone):
        duplicate(budget).charge(spend("0.2"))
    assert budget.remaining == Fraction(4, 10)


def test_what_only_a_ledger_has_is_refused_in_memory():
    budget = dg.Budget(1)
    for ask in (
        lambda: budget.ledger,
        lambda: budget.ledger.head,
        lambda: budget.for_("ann"),
        lambda: budget.groups(DOMAIN, "region"),
    ):
        with pytest.raises(dg.errors.ReleaseError, match="lives in memory"):
            ask()
