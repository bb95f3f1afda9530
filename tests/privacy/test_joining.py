"""Several releases read as one: what they cost together, and what their records tell of their rows."""

from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace, Measurement, Movement
from dpgraph.privacy.records import Event, Release, combined_label
from dpgraph.privacy.scope import Fixed, RowsRecord, relation

DOMAIN = dg.Domain.of({"region": ["north", "south"], "sex": ["F", "M"], "age": dg.Bins([0, 50, 100])})
NETWORK = dg.Network.of(DOMAIN, {"age": ["sex"]})
ROWS = pd.DataFrame({"region": ["north", "south"] * 20, "sex": ["F"] * 25 + ["M"] * 15, "age": range(40)})


def released(budget, mechanism=None, rows=ROWS, seed=0, where=None):
    counts = dg.count(rows, NETWORK, where=where)
    return dg.release(
        counts, mechanism or dg.LaplaceMechanism("0.5"), budget=budget, noise=dg.testing.SeededNoise(seed)
    )


@pytest.fixture
def two():
    budget = dg.Budget(2, delta="1e-6")
    return released(budget), released(budget, dg.GaussianMechanism("0.25", "1e-6"), seed=1)


@pytest.mark.proof
def test_the_cost_is_the_composition_of_both(two):
    one, other = two
    joint = one + other
    assert (joint.event.epsilon, joint.event.delta) == (Fraction(3, 4), Fraction(1, 10**6))
    assert joint.event.events == (one.event, other.event)
    assert dg.cost(joint) == dg.cost([one, other])
    for method in ("gdp", "zcdp", "pld"):
        assert dg.cost(joint, method, "1e-4") == dg.cost([one, other], method, "1e-4")
        assert dg.cost([joint, one], method, "1e-4") == dg.cost([one, other, one], method, "1e-4")
    assert joint.unit == one.unit
    assert not joint.private
    assert replace(one, private=True) + replace(other, private=True) == replace(joint, private=True)
    assert str(joint.provenance).startswith("LaplaceMechanism + GaussianMechanism, epsilon 0.75 and delta 1e-06")


def test_three_releases_are_one_list_whichever_are_joined_first(two):
    third = released(dg.Budget(1), seed=7)
    one, other = two
    ways = [(one + other) + third, one + (other + third)]
    assert ways[0] == ways[1]
    assert ways[0].event.mechanism == "2 x LaplaceMechanism + GaussianMechanism" == combined_label(ways[0].event.parts)
    assert len(ways[0].value.parts) == 3


def test_a_budget_charged_with_a_joint_event_pays_for_its_parts(two):
    budget = dg.Budget(1, delta="1e-6")
    budget.charge((two[0] + two[1]).event)
    assert budget.spent == Fraction(3, 4)
    assert budget.cost("zcdp", "1e-4") == dg.cost(list(two), "zcdp", "1e-4")
    with pytest.raises(dg.errors.BudgetExceededError):
        budget.charge((two[0] + two[1]).event)


HALF = Event("a", Fraction(1, 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": Fraction(1, 2)}, "claims something else than its parts together"),
        ({"delta": Fraction(1, 2)}, "claims something else than its parts together"),
        ({"rho": Fraction(1, 3)}, "claims a rho below that of its epsilon"),
        ({"rho": Fraction(1, 2), "delta": Fraction(1, 10**6)}, "less than its noise costs at rho 0.5"),
        ({"measurements": (Measurement(("x",), 1, DiscreteLaplace(2.0), Movement(1, 1)),)}, "beside them"),
        ({"parts": (HALF,), "epsilon": Fraction(1, 2)}, "parts that are not several single events"),
        (
            {"parts": (Event("2 x a", Fraction(1), parts=(HALF, HALF)), HALF)},
            "parts that are not several single events",
        ),
        ({"parts": (HALF, "b")}, "parts that are not several single events"),
    ],
)
def test_an_event_claims_the_sum_of_its_parts_or_what_its_rho_costs(settings, message):
    whole = {"mechanism": "all", "epsilon": Fraction(1), "parts": (HALF, HALF)}
    assert Event(**whole).epsilon == 1
    with pytest.raises(ReleaseError, match=message):
        Event(**(whole | settings))


def test_a_rho_below_that_of_the_parts_is_neither_charged_nor_priced():
    """Its epsilon and delta are what the rho costs; the parts cost nine times the rho."""
    rho, delta = Fraction(1, 10), Fraction(1, 10**6)
    part = Event("GaussianMechanism", Fraction(20), delta, rho=9 * rho / 2)
    low = Event("2 x GaussianMechanism", Fraction(3), delta, rho=rho, parts=(part, part))
    right = replace(low, epsilon=Fraction(20), rho=9 * rho)
    for accounting in ("basic", "zcdp"):
        budget = dg.Budget(100, "1e-5", accounting=accounting)
        with pytest.raises(ReleaseError, match="and its parts cost more"):
            budget.charge(low)
        assert budget.spent == 0
        budget.charge(right)
    with pytest.raises(ReleaseError, match="its parts cost more"):
        dg.cost(low)
    assert dg.cost(right).epsilon == 20


def test_the_movements_of_every_part_must_fit_the_unit(two):
    joint = two[0] + two[1]
    with pytest.raises(ReleaseError, match="LaplaceMechanism does not fit a unit of replace up to 2 rows"):
        Release(joint.value, joint.event, dg.PrivacyUnit("replace", 2))


def test_what_makes_no_joint_release_is_refused(two):
    one, other = two
    with pytest.raises(ReleaseError, match=r"under different units make no one release: add-remove .* \| replace"):
        one + released(dg.Budget(1, unit=dg.PrivacyUnit("add-remove")))
    with pytest.raises(ReleaseError, match="one n, not 20 and 40"):
        one + released(dg.Budget(1), rows=ROWS.head(20))
    with pytest.raises(ReleaseError, match="the same release twice"):
        one + one
    with pytest.raises(ReleaseError, match="releases or of their values, not of both"):
        dg.posterior([one, other.value])
    for nothing, got in (([], "an empty one"), ((), "an empty one")):
        for verb in (dg.posterior, dg.posterior, dg.reconcile, dg.pooled):
            with pytest.raises(ReleaseError, match=f"at least one; got {got}"):
                verb(nothing)
    sample = dg.release(dg.count(ROWS, NETWORK), dg.PosteriorSample(1), budget=dg.Budget(1))
    for mixed in ([sample, one], [one, sample], [sample, sample]):
        with pytest.raises(ReleaseError, match=r"is of noisy counts or coefficients.*; got tuple"):
            dg.posterior(mixed)
    with pytest.raises(ReleaseError, match=r"is of noisy counts or coefficients.*; got tuple"):
        sample + one
    with pytest.raises(TypeError):
        one + one.value


def test_the_record_of_a_release_names_its_budget_and_its_group_and_no_row():
    budget = dg.Budget(4)
    whole = released(budget)
    regions = budget.parallel(DOMAIN, "region", epsilon=2)
    north, south = (released(regions[level], where={"region": level}) for level in ("north", "south"))
    assert whole.scope == RowsRecord(budget.identity)
    assert north.scope == RowsRecord(budget.identity, (Fixed.of("region", "north", DOMAIN["region"]),))
    assert str(north.scope) == "region = 'north'"
    assert relation(north.scope, south.scope) == "different"
    assert relation(north.scope, whole.scope) == "overlapping"
    assert relation(whole.scope, released(budget, seed=3).scope) == "same"
    assert relation(whole.scope, released(dg.Budget(1)).scope) is None
    assert budget.identity != dg.Budget(4).identity
    assert whole.map(dg.reconcile).scope == whole.scope


def test_groups_that_fix_different_variables_may_share_rows():
    north, south, female = (Fixed.of(*pair, "declared") for pair in (("region", "N"), ("region", "S"), ("sex", "F")))
    record = {fixed: RowsRecord("b", fixed) for fixed in ((north,), (south,), (female,), (north, female))}
    assert (
        relation(record[north,], record[female,]) == relation(record[female,], record[north, female]) == "overlapping"
    )
    assert relation(record[north, female], record[south,]) == "different"
    otherwise = RowsRecord("b", (Fixed.of("region", "S", "declared otherwise"),))
    assert relation(record[north,], otherwise) == "overlapping"
    assert relation(None, otherwise) is None


def test_each_verb_refuses_the_rows_of_the_other_where_records_tell():
    budget = dg.Budget(6, unit=dg.PrivacyUnit("add-remove"))
    whole, again = released(budget), released(budget, seed=1)
    regions = budget.parallel(DOMAIN, "region", epsilon=2)
    north, south = (released(regions[r], where={"region": r}, seed=i) for i, r in enumerate(("north", "south")))
    northern = released(regions["north"], where={"region": "north"}, seed=9)
    for one, other in ((north, south), (north, whole)):
        with pytest.raises(ReleaseError, match=r"dg\.pooled adds up releases of rows that nobody shares"):
            one + other
    for one, other in ((whole, again), (north, northern), (north, whole)):
        with pytest.raises(ReleaseError, match="one budget paid for both of these releases"):
            dg.pooled([one, other])
    assert (whole + again).scope == whole.scope
    assert (north + northern).scope == north.scope
    both = dg.pooled([north + northern, south])
    assert both.scope is None
    assert both.event.epsilon == north.event.epsilon * 3
    assert dg.cost(both) == dg.cost([north, northern, south])


def test_what_the_records_do_not_tell_is_left_to_the_caller():
    one, other = released(dg.Budget(1)), released(dg.Budget(1), seed=1)
    assert dg.pooled([one, other]).value.n == 80
    assert (one + other).value.n == 40
    budget = dg.Budget(1)  # one budget for two data sets; their public numbers of rows tell them apart
    half, rest = released(budget, rows=ROWS.head(15)), released(budget, rows=ROWS.tail(25), seed=1)
    assert dg.pooled([half, rest]).value.n == 40
    same = released(dg.Budget(1), seed=4)
    assert dg.pooled([same.value, other.value]).n == 80
