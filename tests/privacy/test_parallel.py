"""Parallel releases over declared groups of rows: the charge is exact, and the groups are checked, not believed."""

import copy
import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.privacy.scope import Condition, RowGroup
from tests.everything import everything

DOMAIN = dg.Domain.of({"region": ["north", "south"], "a": [0, 1]})
NETWORK = dg.Network.of(DOMAIN.restrict(["a"]), {})
ROWS = list(itertools.product(["north", "south"], [0, 1]))
FRAME = pd.DataFrame({"region": ["north", "south", "south"] * 8, "a": [0, 1, 1] * 8})


def units():
    return [dg.PrivacyUnit(neighbours, rows) for neighbours in ("replace", "add-remove") for rows in (1, 2, 3)]


def multisets(n):
    return list(itertools.combinations_with_replacement(ROWS, n))


def pairs(unit):
    r = unit.rows_per_person
    if unit.neighbours == "replace":
        return [(kept + b, kept + c) for kept in multisets(2) for b in multisets(r) for c in multisets(r)]
    return [(kept, kept + b) for kept in multisets(2) for b in multisets(r)]


def tables(rows):
    """The exact table of each group, by the package's own counting of the group's rows."""
    codes = dg.statistics.encode(pd.DataFrame(rows, columns=["region", "a"]).astype({"a": int}), DOMAIN)
    return {
        level: dg.count(codes, NETWORK, where={"region": level}).sensitive_margin(("a",))
        for level in ("north", "south")
    }


@pytest.mark.parametrize("unit", units(), ids=str)
def test_the_largest_log_ratio_over_all_neighbours_is_what_was_charged(unit):
    """Each group releases its table with all its budget; rows may move between groups under replace. The whole charge
    is attained, with one row per person; with more, all in one group, it is half of it, the rest is for rows apart
    in mechanisms that, unlike counts, do not lose privacy in proportion. Groups calibrated to one row of a person of
    three would lose 1.2."""
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
        assert own.group == RowGroup((Condition("region", level, DOMAIN["region"]),))
        assert f"region = {level!r}" in repr(own)
    removed = dg.Budget(1, unit=dg.PrivacyUnit("add-remove")).parallel(DOMAIN, "region", epsilon=1)
    assert all(own.epsilon == 1 for own in removed.values())


def test_each_group_spends_its_own_and_the_whole_is_charged_once():
    budget = dg.Budget(1)
    groups = budget.parallel(DOMAIN, "region", epsilon="0.6")
    codes = dg.statistics.encode(FRAME, DOMAIN)
    for level, own in groups.items():
        counts = dg.count(codes, NETWORK, where={"region": level})
        for _ in range(3):
            released = dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
            assert released.value.n is None
            assert released.unit.neighbours == "add-remove"
        with pytest.raises(dg.errors.BudgetExceededError):
            dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
    assert budget.spent == Fraction(3, 5)
    assert [event.mechanism for event in budget.events] == ["parallel over region"]


def test_a_budget_too_small_gives_no_groups():
    budget = dg.Budget("0.5")
    with pytest.raises(dg.errors.BudgetExceededError):
        budget.parallel(DOMAIN, "region", epsilon=1)
    with pytest.raises(dg.errors.BudgetExceededError):
        budget.parallel(DOMAIN, "region", epsilon="0.1", delta="1e-9")
    with pytest.raises(dg.errors.DomainError):
        budget.parallel(DOMAIN, "country", epsilon="0.1")
    with pytest.raises(dg.errors.ReleaseError):
        budget.parallel(DOMAIN, "region", epsilon=0)
    assert budget.events == ()


def test_counts_of_other_rows_are_refused_uncharged():
    own = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"]
    codes = dg.statistics.encode(FRAME, DOMAIN)
    elsewhere = dg.Domain.of({"region": dg.Categories(["north", "south"], other="north"), "a": [0, 1]})
    wrong = [
        dg.count(codes, NETWORK),
        dg.count(codes, NETWORK, where={"region": "south"}),
        dg.count(codes, NETWORK, where={"a": 0}),
        dg.count(dg.statistics.encode(FRAME, elsewhere), NETWORK, where={"region": "north"}),
    ]
    for counts in wrong:
        with pytest.raises(dg.errors.ReleaseError, match="this budget is for the rows with region = 'north'"):
            dg.release(counts, dg.LaplaceMechanism("0.1"), budget=own)
    assert own.events == ()
    dg.release(dg.count(codes, NETWORK, where={"region": "north"}), dg.LaplaceMechanism("0.1"), budget=own)
    assert own.spent == Fraction(1, 10)


@pytest.mark.parametrize("mechanism", [dg.LaplaceMechanism("0.1"), GaussianMechanism("0.1", "1e-6")], ids=repr)
def test_a_group_is_refused_where_its_number_of_rows_would_be_shown(mechanism):
    counts = dg.count(dg.statistics.encode(FRAME, DOMAIN), NETWORK, where={"region": "north"})
    budget = dg.Budget(1, "1e-6")
    with pytest.raises(dg.errors.ReleaseError, match="add-remove budget"):
        dg.release(counts, mechanism, budget=budget)
    assert budget.events == ()
    private = dg.Budget(1, "1e-6", unit=dg.PrivacyUnit("add-remove"))
    assert dg.release(counts, mechanism, budget=private).value.n is None


def test_groups_partition_the_counts_and_do_not_add():
    codes = dg.statistics.encode(FRAME, DOMAIN)
    parts = [dg.count(codes, NETWORK, where={"region": level}) for level in ("north", "south")]
    whole = dg.count(codes, NETWORK).sensitive_margin(("a",))
    assert (sum(part.sensitive_margin(("a",)) for part in parts) == whole).all()
    assert parts[0].sensitive_margin(("a",)).tolist() == [8, 0]
    with pytest.raises(dg.errors.ReleaseError, match="groups"):
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
        ({}, "with a level each"),
        ("north", "with a level each"),
        ([("region", "north")], "with a level each"),
        ({"region": "north", "country": "x"}, "not declared"),
        ({"region": "north", "a": 2}, "not a level"),
        ({"country": "x"}, "not declared"),
        ({"region": "east"}, "not a level"),
    ],
)
def test_a_group_is_declared_variables_at_declared_levels(where, message):
    with pytest.raises(dg.errors.DomainError, match=message):
        dg.count(dg.statistics.encode(FRAME, DOMAIN), NETWORK, where=where)
    with pytest.raises(dg.errors.DomainError, match="not declared"):
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
        codes = dg.statistics.encode(frame, DOMAIN)
        for level, own in dg.Budget(1, "1e-6").parallel(DOMAIN, "region", epsilon=1, delta="1e-6").items():
            counts = dg.count(codes, NETWORK, where={"region": level})
            released = dg.release(counts, GaussianMechanism("0.2", "1e-9"), budget=own, noise=noise)
            out += [
                repr(counts),
                everything(released),
                repr(own),
                everything(dg.posterior(released, method="plug-in").mean()),
            ]
        return [*out, repr(noise.calls)]

    assert seen(FRAME) == seen(FRAME.head(3)) == seen(FRAME.head(0)) == seen(FRAME.assign(region="south"))


REGIONS = [f"region {i}" for i in range(20)]
NESTED = dg.Domain.of({"region": REGIONS, "sex": ["F", "M"], "a": [0, 1]})


def test_twenty_regions_each_split_by_sex_lose_what_was_charged_and_no_more():
    """Of the 400 pairs of a budget and a group, as many releases are accepted as there are groups; a group by sex alone
    would take all twenty of its regions' budgets, 20 spent of 1 on the same rows."""
    codes = dg.statistics.encode(pd.DataFrame({"region": REGIONS, "sex": "F", "a": 0}), NESTED)
    top = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    regions = top.parallel(NESTED, "region", epsilon=1)
    women = {region: own.parallel(NESTED, "sex", epsilon=1)["F"] for region, own in regions.items()}
    everywhere = dg.count(codes, NETWORK, where={"sex": "F"})
    groups = {region: dg.count(codes, NETWORK, where={"sex": "F", "region": region}) for region in REGIONS}
    mechanism, accepted = dg.LaplaceMechanism(1), []
    for region, own in women.items():
        with pytest.raises(dg.errors.ReleaseError, match=r"this budget is for the rows with region = .* and sex = 'F'"):
            dg.release(everywhere, mechanism, budget=own)
        for counted, counts in groups.items():
            if counted != region:
                with pytest.raises(dg.errors.ReleaseError, match="this budget is for"):
                    dg.release(counts, mechanism, budget=own)
        assert own.spent == 0
        dg.release(groups[region], mechanism, budget=own)
        accepted.append(groups[region].sensitive_rows)
    assert accepted == [1] * 20
    assert top.spent == 1


OVERLAPPING = {
    "alike": DOMAIN["region"],
    "otherwise": dg.Categories(["north", "south"], other="south"),
    "in another order": dg.Categories(["south", "north"]),
    "as bins": dg.Bins([0, 1, 2]),
}


@pytest.mark.parametrize("declared", OVERLAPPING.values(), ids=OVERLAPPING)
def test_a_group_is_not_split_by_its_own_variable_however_declared(declared):
    """Two declarations of one name may overlap: a row in the north of one may be in the south of the other."""
    north = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"]
    first = north.parallel(DOMAIN, "a", epsilon="1/4")[0]
    for own, epsilon in ((north, "1/4"), (first, "1/8")):
        spent = own.spent
        with pytest.raises(dg.errors.ReleaseError, match="the rows are those with region = 'north' already"):
            own.parallel(dg.Domain.of({"region": declared}), "region", epsilon=epsilon)
        assert own.spent == spent


@pytest.mark.parametrize("unit", [unit for unit in units() if unit.rows_per_person < 3], ids=str)
def test_groups_within_groups_lose_what_was_charged_over_all_neighbours(unit):
    """Every pair of neighbours with one kept row, counted by the package; each region is split by sex."""
    domain = dg.Domain.of({"region": ["north", "south"], "sex": ["F", "M"], "a": [0, 1]})
    kinds = list(itertools.product(["north", "south"], ["F", "M"], [0, 1]))
    budget = dg.Budget(1, unit=unit)
    leaves = {}
    for region, own in budget.parallel(domain, "region", epsilon="0.8").items():
        for sex, inner in own.parallel(domain, "sex", epsilon=own.epsilon).items():
            (measured,) = dg.LaplaceMechanism(inner.epsilon).event(NETWORK, inner.unit).measurements
            leaves[region, sex] = Fraction(measured.law.scale)

    def changed(before, after):
        """What moves in each leaf, over the leaf's scale, summed."""
        return sum(int(np.abs(before[leaf] - after[leaf]).sum()) / scale for leaf, scale in leaves.items())

    counted = {}
    for n in range(unit.rows_per_person + 2):
        for rows in itertools.combinations_with_replacement(kinds, n):
            codes = dg.statistics.encode(pd.DataFrame(rows, columns=domain.names).astype({"a": int}), domain)
            counted[rows] = {
                leaf: dg.count(codes, NETWORK, where=dict(zip(("region", "sex"), leaf, strict=True))).sensitive_margin(
                    ("a",)
                )
                for leaf in leaves
            }
    many = list(itertools.combinations_with_replacement(kinds, unit.rows_per_person))
    largest = Fraction(0)
    for kept in kinds[:2]:
        held = [counted[tuple(sorted((kept, *rows)))] for rows in many]
        without = [counted[(kept,)]] if unit.neighbours == "add-remove" else held
        largest = max(largest, *(changed(before, after) for before in without for after in held))
    assert largest <= budget.spent == Fraction(4, 5)
    if unit.rows_per_person == 1:
        assert largest >= Fraction(4, 5) * Fraction(9999, 10000)


def test_a_narrower_group_may_use_the_budget_of_a_wider_one():
    north = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"]
    codes = dg.statistics.encode(FRAME, DOMAIN)
    counts = dg.count(codes, NETWORK, where={"a": 1, "region": "north"})
    dg.release(counts, dg.LaplaceMechanism("0.1"), budget=north)
    assert north.spent == Fraction(1, 10)
    inner = north.parallel(DOMAIN, "a", epsilon="0.4")[1]
    with pytest.raises(dg.errors.ReleaseError, match=r"count with where=\{'a': 1, 'region': 'north'\}"):
        dg.release(dg.count(codes, NETWORK, where={"region": "north"}), dg.LaplaceMechanism("0.1"), budget=inner)
    assert inner.spent == 0


def test_the_order_of_conditions_does_not_matter():
    by_region = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"].parallel(DOMAIN, "a", epsilon="1/2")[1]
    by_a = dg.Budget(1).parallel(DOMAIN, "a", epsilon=1)[1].parallel(DOMAIN, "region", epsilon="1/2")["north"]
    codes = dg.statistics.encode(FRAME, DOMAIN)
    one, other = (
        dg.count(codes, NETWORK, where=where) for where in ({"region": "north", "a": 1}, {"a": 1, "region": "north"})
    )
    assert by_region.group == by_a.group == one.group == other.group
    assert (one + other).sensitive_rows == 2 * one.sensitive_rows
    for budget in (by_region, by_a):
        dg.release(one, dg.LaplaceMechanism("0.1"), budget=budget)


def test_copies_of_a_groups_budget_are_the_same_budget():
    from sklearn.base import clone

    inner = dg.Budget(1).parallel(DOMAIN, "region", epsilon=1)["north"].parallel(DOMAIN, "a", epsilon="1/2")[1]
    for duplicate in (copy.copy(inner), copy.deepcopy(inner), clone(inner)):
        assert duplicate is inner
    held = copy.deepcopy({"budgets": [inner]})["budgets"][0]
    held.parallel(dg.Domain.of({"sex": ["F", "M"]}), "sex", epsilon="1/2")
    assert inner.remaining == 0


def test_the_numbers_0_and_1_are_not_the_groups_of_false_and_true(tmp_path):
    """A "2" in a CSV file is undeclared: the number 0 here, and as a truth value false. Were 0 and False one group, as
    they are equal in Python, a budget of the one would pay for the other."""
    numbers = dg.Domain.of({"flag": dg.Categories([0, 1], other=0), "a": [0, 1]})
    truths = dg.Domain.of({"flag": dg.Categories([False, True], other=False), "a": [0, 1]})
    own = dg.Budget(1, unit=dg.PrivacyUnit("add-remove")).parallel(numbers, "flag", epsilon=1)
    (tmp_path / "rows.csv").write_text("flag,a\n2,0\n")
    number, truth = (dg.statistics.encode(tmp_path / "rows.csv", domain) for domain in (numbers, truths))
    counted = dg.count(number, NETWORK, where={"flag": 0}), dg.count(truth, NETWORK, where={"flag": False})
    assert [counts.sensitive_rows for counts in counted] == [1, 1]
    dg.release(counted[0], dg.LaplaceMechanism(1), budget=own[0])
    with pytest.raises(dg.errors.ReleaseError, match="this budget is for"):
        dg.release(counted[1], dg.LaplaceMechanism(1), budget=own[0])
