"""Parallel releases over declared groups of rows: the charge is exact, and the groups are checked, not believed."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.gaussian import GaussianMechanism
from dpgraph.privacy.records import RowGroup

DOMAIN = dg.Domain.of({"region": ["north", "south"], "a": [0, 1]})
NETWORK = dg.Network.of(DOMAIN.restrict(["a"]), {})
ROWS = list(itertools.product(["north", "south"], [0, 1]))
FRAME = pd.DataFrame({"region": ["north", "south", "south"] * 8, "a": [0, 1, 1] * 8})


def units():
    return [dg.PrivacyUnit(neighbours, rows) for neighbours in ("replace", "add-remove") for rows in (1, 2)]


def multisets(n):
    return list(itertools.combinations_with_replacement(ROWS, n))


def pairs(unit):
    r = unit.rows_per_person
    if unit.neighbours == "replace":
        return [(kept + b, kept + c) for kept in multisets(2) for b in multisets(r) for c in multisets(r)]
    return [(kept, kept + b) for kept in multisets(2) for b in multisets(r)]


def tables(rows):
    """The exact table of each group, by the package's own counting of the group's rows."""
    codes = dg.encode(pd.DataFrame(rows, columns=["region", "a"]).astype({"a": int}), DOMAIN)
    return {
        level: dg.count(codes, NETWORK, where={"region": level}).sensitive_margin(("a",))
        for level in ("north", "south")
    }


@pytest.mark.parametrize("unit", units(), ids=str)
def test_the_largest_log_ratio_over_all_neighbours_is_what_was_charged(unit):
    """Each group releases its table with all its budget; rows may move between groups under replace. The whole charge
    is attained, with one row per person; with two rows all in one group it is half of it, the rest is for rows apart
    in mechanisms that, unlike counts, do not lose privacy in proportion."""
    budget = dg.Budget(1, unit=unit)
    groups = budget.parallel(DOMAIN, "region", epsilon="0.8")
    scales = {}
    for level, own in groups.items():
        (measured,) = dg.LaplaceMechanism(own.epsilon).event(NETWORK, own.unit).measurements
        scales[level] = Fraction(measured.law.scale)
    counted = {rows: tables(rows) for rows in {tuple(rows) for pair in pairs(unit) for rows in pair}}
    largest = max(
        sum(int(np.abs(counted[one][level] - counted[other][level]).sum()) / scale for level, scale in scales.items())
        for one, other in pairs(unit)
    )
    assert budget.spent == Fraction(4, 5)
    assert largest <= Fraction(4, 5)
    if unit.rows_per_person == 1:
        assert largest >= Fraction(4, 5) * Fraction(9999, 10000)


def test_the_budgets_of_the_groups():
    replace = dg.Budget(1, "1e-6").parallel(DOMAIN, "region", epsilon=1, delta="1e-6")
    assert list(replace) == ["north", "south"]
    for level, own in replace.items():
        assert own.epsilon == Fraction(1, 2)
        assert float(own.delta) == pytest.approx(1e-6 / (1 + np.exp(0.5)))
        assert own.unit == dg.PrivacyUnit("add-remove")
        assert own.group == RowGroup("region", level, DOMAIN["region"])
        assert f"region = {level!r}" in repr(own)
    removed = dg.Budget(1, unit=dg.PrivacyUnit("add-remove")).parallel(DOMAIN, "region", epsilon=1)
    assert all(own.epsilon == 1 for own in removed.values())


def test_each_group_spends_its_own_and_the_whole_is_charged_once():
    budget = dg.Budget(1)
    groups = budget.parallel(DOMAIN, "region", epsilon="0.6")
    codes = dg.encode(FRAME, DOMAIN)
    for level, own in groups.items():
        counts = dg.count(codes, NETWORK, where={"region": level})
        for _ in range(3):
            released = dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
            assert released.value.n is None
            assert released.unit.neighbours == "add-remove"
        with pytest.raises(dg.BudgetExceededError):
            dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
    assert budget.spent == Fraction(3, 5)
    assert [event.mechanism for event in budget.events] == ["parallel over region"]


def test_a_budget_too_small_gives_no_groups():
    budget = dg.Budget("0.5")
    with pytest.raises(dg.BudgetExceededError):
        budget.parallel(DOMAIN, "region", epsilon=1)
    with pytest.raises(dg.BudgetExceededError):
        budget.parallel(DOMAIN, "region", epsilon="0.1", delta="1e-9")
    with pytest.raises(dg.DomainError):
        budget.parallel(DOMAIN, "country", epsilon="0.1")
    with pytest.raises(dg.ReleaseError):
        budget.parallel(DOMAIN, "region", epsilon=0)
    assert budget.events == ()


def test_counts_of_other_rows_are_refused_uncharged():
    own = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"]
    codes = dg.encode(FRAME, DOMAIN)
    elsewhere = dg.Domain.of({"region": dg.Categories(["north", "south"], other="north"), "a": [0, 1]})
    wrong = [
        dg.count(codes, NETWORK),
        dg.count(codes, NETWORK, where={"region": "south"}),
        dg.count(codes, NETWORK, where={"a": 0}),
        dg.count(dg.encode(FRAME, elsewhere), NETWORK, where={"region": "north"}),
    ]
    for counts in wrong:
        with pytest.raises(dg.ReleaseError, match="this budget is for the rows with region = 'north'"):
            dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
    assert own.events == ()
    dg.release(dg.count(codes, NETWORK, where={"region": "north"}), dg.LaplaceMechanism("0.1"), budget=own)
    assert own.spent == Fraction(1, 10)


@pytest.mark.parametrize("mechanism", [dg.LaplaceMechanism("0.1"), GaussianMechanism("0.1", "1e-6")], ids=repr)
def test_a_group_is_refused_where_its_number_of_rows_would_be_shown(mechanism):
    counts = dg.count(dg.encode(FRAME, DOMAIN), NETWORK, where={"region": "north"})
    budget = dg.Budget(1, "1e-6")
    with pytest.raises(dg.ReleaseError, match="add-remove budget"):
        dg.release(counts, mechanism, budget=budget)
    assert budget.events == ()
    private = dg.Budget(1, "1e-6", unit=dg.PrivacyUnit("add-remove"))
    assert dg.release(counts, mechanism, budget=private).value.n is None


def test_groups_partition_the_counts_and_do_not_add():
    codes = dg.encode(FRAME, DOMAIN)
    parts = [dg.count(codes, NETWORK, where={"region": level}) for level in ("north", "south")]
    whole = dg.count(codes, NETWORK).sensitive_margin(("a",))
    assert (sum(part.sensitive_margin(("a",)) for part in parts) == whole).all()
    assert parts[0].sensitive_margin(("a",)).tolist() == [8, 0]
    with pytest.raises(dg.ReleaseError, match="groups"):
        parts[0] + parts[1]
    assert ((parts[0] + parts[0]).group, (parts[0] + parts[0]).sensitive_rows) == (parts[0].group, 16)


def test_the_variable_may_be_in_the_network_and_rows_may_be_a_frame():
    whole = dg.Network.of(DOMAIN, {"a": ["region"]})
    counts = dg.count(FRAME, whole, where={"region": "south"})
    assert counts.sensitive_margin(("region", "a")).tolist() == [[0, 0], [0, 16]]
    ages = dg.Domain.of({"age": dg.Bins([0, 10, 20]), "a": [0, 1]})
    frame = pd.DataFrame({"age": [5, 15, 99], "a": [0, 1, 1]})
    group = dg.count(frame, dg.Network.of(ages, {}), where={"age": ages.levels("age")[1]})
    assert group.sensitive_rows == 2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "one variable"),
        ({"region": "north", "a": 0}, "one variable"),
        ("north", "one variable"),
        ({"country": "x"}, "not declared"),
        ({"region": "east"}, "not a level"),
    ],
)
def test_a_group_must_be_one_declared_level(where, message):
    with pytest.raises(dg.DomainError, match=message):
        dg.count(dg.encode(FRAME, DOMAIN), NETWORK, where=where)
    with pytest.raises(dg.DomainError, match="not declared"):
        dg.count(FRAME, NETWORK, where={"region": "north"})


def test_replay_where_two_data_sets_release_the_same_integers():
    """Different rows, different group sizes under add/remove children: everything seen is the same bytes."""

    class Replayed:
        private = True

        def __init__(self):
            self.calls = []

        def add(self, values, law):
            self.calls.append((repr(law), values.shape))
            return np.arange(len(values)) + len(self.calls)

    def seen(frame):
        noise, out = Replayed(), []
        codes = dg.encode(frame, DOMAIN)
        for level, own in dg.Budget(1, "1e-6").parallel(DOMAIN, "region", epsilon=1, delta="1e-6").items():
            counts = dg.count(codes, NETWORK, where={"region": level})
            released = dg.release(counts, GaussianMechanism("0.2", "1e-9"), budget=own, noise=noise)
            out += [repr(counts), repr(released), repr(own), repr(dg.posterior(released).mean())]
        return [*out, repr(noise.calls)]

    assert seen(FRAME) == seen(FRAME.head(3)) == seen(FRAME.head(0)) == seen(FRAME.assign(region="south"))
