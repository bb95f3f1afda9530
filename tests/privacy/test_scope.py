"""Groups of rows are conjunctions, whatever their order, and fix each variable once."""

import itertools

import pytest

import dpgraph as dg
from dpgraph.privacy.scope import Condition, RowGroup, RowsRecord, group_with, together

DOMAIN = dg.Domain.of({"region": ["north", "south"], "sex": ["F", "M"], "age": dg.Bins([0, 30, 99])})
CONDITIONS = [Condition(name, DOMAIN.levels(name)[0], DOMAIN[name]) for name in DOMAIN.names]


def test_every_order_is_the_same_group():
    made = {RowGroup(order) for order in itertools.permutations(CONDITIONS)}
    one = group_with(group_with(group_with(None, CONDITIONS[2]), CONDITIONS[0]), CONDITIONS[1])
    assert made == {one}
    assert str(one) == "age = '0-30' and region = 'north' and sex = 'F'"
    assert one.where == {"age": "0-30", "region": "north", "sex": "F"}


def test_a_group_is_within_another_if_it_meets_all_its_conditions():
    groups = [RowGroup(some) for size in (1, 2, 3) for some in itertools.combinations(CONDITIONS, size)]
    for one, other in itertools.product(groups, groups):
        assert one.within(other) == (set(other.where) <= set(one.where))
    south = RowGroup((Condition("region", "south", DOMAIN["region"]),))
    assert not south.within(RowGroup(CONDITIONS[:1]))
    elsewhere = RowGroup((Condition("region", "north", dg.Categories(["north", "south", "east"])),))
    assert not elsewhere.within(RowGroup(CONDITIONS[:1]))


def test_a_variable_is_fixed_once_and_a_group_has_a_condition():
    for level in ("north", "south"):
        with pytest.raises(dg.errors.ReleaseError, match="the rows are those with region = 'north' already"):
            group_with(RowGroup((*CONDITIONS[:2],)), Condition("region", level, DOMAIN["region"]))
    with pytest.raises(dg.errors.ReleaseError, match="at least one condition"):
        RowGroup(())


def test_a_joint_record_has_the_receipts_of_all():
    known = [RowsRecord("b", receipts=(one,)) for one in "12"]
    assert together([None, *known]).receipts == ("1", "2")
    assert together([None]) is None
