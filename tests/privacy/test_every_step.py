"""A fault at every step of ``open``, ``charge``, ``release``, ``fit`` and ``save`` (promise.md S9).

After each: either nothing was charged and no noise was asked for, or the charge stands and the value may be lost. Never
a value, or a draw, without its charge; a file is the old one or the new one, whole; a ledger verifies and goes on.
"""

import contextlib
import os
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.privacy.ledger import store
from dpgraph.privacy.records import Event, exact
from tests.privacy.walking import FAULTS, Walk, steps

NETWORK = dg.Network.of({"word": ["no", "yes"]}, {})
ROWS = pd.DataFrame({"word": ["no", "yes", "yes"]})
DOMAIN = dg.Domain.of({"word": ["no", "yes"], "kind": ["a", "b"]})
LABELLED = ROWS.assign(kind=["a", "b", "a"])
COST = Fraction(1, 4)
#: At about so many places of a walk a fault is tried, its kinds by turns; in the slow tests at most of them.
TRIED, TRIED_AT_LENGTH = 60, 450


class Asked:
    """A source of noise that keeps what had been charged each time it was asked."""

    private = True

    def __init__(self, budget):
        self.budget, self.spent = budget, []

    def add(self, values, law):
        self.spent.append(self.budget.events)
        return np.asarray(values)

    def choose(self, *_, **__):
        raise AssertionError("not asked for here")


def in_memory(folder):
    return dg.Budget(1)


def in_a_file(folder):
    return dg.Budget.open(str(folder / "l.sqlite"), dataset="survey", epsilon=1)


def checked(budget):
    """The charges that stand, of a budget that can still be spent."""
    events = budget.events
    assert len(events) in (0, 1)
    assert budget.spent == COST * len(events)
    budget.charge(Event("afterwards", exact("0.5")))
    assert budget.spent == COST * len(events) + Fraction(1, 2)
    if "ledger=" in repr(budget):
        assert budget.ledger.verify().ok
        again = dg.Budget.open(budget.ledger.address, dataset="survey")
        assert again.spent == budget.spent
        again.ledger.close()
        budget.ledger.close()
    return len(events)


def released(budget, source):
    return dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(COST), budget=budget, noise=source)


def fitted(budget, source):
    model = dg.PrivateNaiveBayes(DOMAIN, COST, inference="plug-in", budget=budget)
    return model.fit(LABELLED[["word"]], LABELLED["kind"]).release_


def charged(budget, source):
    budget.charge(Event("a", COST))


CALLS = {"charge": charged, "release": released, "fit": fitted}
PLACES = {"in memory": in_memory, "in a file": in_a_file}


def tried(total, every):
    """Which faults of a walk are tried: at places spread over it, one kind of fault after the other."""
    stride = max(1, total // (TRIED_AT_LENGTH if every else TRIED))
    return [(at, FAULTS[(at // stride) % len(FAULTS)]) for at in range(0, total, stride)]


def walk(name, make, folder, monkeypatch, every):
    """Tries the faults of one call; each on a budget of its own. How many came before the charge, and after."""
    call, seen = CALLS[name], [0, 0]

    def fresh(at):
        place = folder / str(at)
        place.mkdir()
        budget = make(place)
        source = Asked(budget)
        monkeypatch.setattr("dpgraph.privacy.release.SecureNoise", lambda: source)
        return budget, source

    call(*fresh("warm"))  # what is imported and compiled once
    budget, source = fresh("count")
    total = steps(partial(call, budget, source))
    assert total > 10
    for number, (at, fault) in enumerate(tried(total, every)):
        budget, source = fresh(f"{number}")
        stepped, value, out = Walk(at, fault), None, None
        source.add = untraced(source.add, stepped)
        try:
            value = stepped(partial(call, budget, source))
        except (fault, dg.errors.DPGraphError) as error:
            out = error
        stands = checked(budget)
        if value is not None or source.spent:
            assert stands == 1, f"a draw or a value without its charge: {fault.__name__} at {stepped.place}"
        assert all(len(events) == 1 for events in source.spent), stepped.place
        if isinstance(out, dg.errors.DPGraphError) and not getattr(out, "charge_may_stand", False):
            assert not source.spent, stepped.place
        seen[stands] += 1
    return seen


def untraced(function, stepped):
    """The source is no part of the walk: what it looks at is the test's."""

    def call(*arguments):
        before = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["some", "all"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", CALLS)
def test_no_value_and_no_draw_without_its_charge(name, place, every, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 1.0)
    before, after = walk(name, PLACES[place], tmp_path, monkeypatch, every)
    assert before > 0
    assert after > 0 or name == "charge"


def opened(url):
    return dg.Budget.open(url, dataset="survey", epsilon=1)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["some", "all"])
@pytest.mark.parametrize("there", [False, True], ids=["made", "there"])
def test_a_ledger_that_is_being_opened_is_whole_or_not_there(every, there, tmp_path, monkeypatch):
    """Whatever stops ``open``, the next one finds or makes the one budget, and nothing is charged."""
    monkeypatch.setattr(store, "PATIENCE", 1.0)

    def place(at):
        url = str(tmp_path / f"{at}.sqlite")
        if there:
            budget = opened(url)
            budget.charge(Event("a", COST))
            budget.ledger.close()
        return url

    opened(place("warm")).ledger.close()
    total = steps(partial(opened, place("count")))
    stopped = 0
    for number, (at, fault) in enumerate(tried(total, every)):
        url, walk = place(number), Walk(at, fault)
        try:
            walk(partial(opened, url)).ledger.close()
        except (fault, dg.errors.DPGraphError):
            stopped += 1
        budget = opened(url)
        assert budget.spent == (COST if there else 0), walk.place
        assert len(budget.ledger.rows()) == 1 + there, walk.place
        budget.charge(Event("afterwards", exact("0.5")))
        assert budget.ledger.verify().ok, walk.place
        budget.ledger.close()
    assert stopped > 10


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["some", "all"])
@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_file_is_the_old_one_or_the_new_one(suffix, every, tmp_path):
    old = released(dg.Budget(1), None)
    new = dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.5"), budget=dg.Budget(1))
    path = tmp_path / f"release{suffix}"
    dg.save(old, path)
    total = steps(partial(dg.save, new, path))
    kept = {0: 0, 1: 0}
    for at, fault in tried(total, every):
        dg.save(old, path)
        walk = Walk(at, fault)
        with contextlib.suppress(fault, dg.errors.DPGraphError):
            walk(partial(dg.save, new, path))
        there = dg.load(path)
        assert there in (old, new), walk.place
        kept[there == new] += 1
    dg.save(new, path)
    left = [name for name in os.listdir(tmp_path) if name != path.name]
    # What an interrupted clean-up left went with the next write; but for a file that was interrupted before anything
    # knew of it, which is locked as long as this process lives. Of the few places tried that is one at most.
    assert all(name.startswith(".dpgraph-") and name.endswith(".tmp") for name in left)
    assert every or len(left) <= 1
    assert kept[0] > 10
