"""Values come back from plain JSON as they were; what no field has a place for is refused where it stands."""

import json
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.measurements import Movement, Selection
from dpgraph.privacy.scope import Fixed, RowsRecord
from dpgraph.privacy.structural import plain_of, value_of
from dpgraph.structure.moments import OutcomeDescription, Regression


@dataclass(frozen=True)
class Leaf:
    """Every kind of scalar."""

    word: str
    share: Fraction
    flag: bool = False
    count: int | None = None
    levels: tuple[str | int | float | bool, ...] = ()


@dataclass(frozen=True)
class Other:
    """Another member of a union."""

    word: str


@dataclass(frozen=True)
class Tree:
    """A value of values."""

    leaf: Leaf | Other
    rest: tuple[Leaf, ...] = ()
    pair: tuple[int, str] | None = None


TEXTS, WHOLES = st.text(max_size=5), st.integers(-(2**200), 2**200)
LEVELS = st.lists(TEXTS | WHOLES | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()).map(tuple)
SHARES = st.fractions(0, 10).map(abs)
LEAVES = st.builds(Leaf, TEXTS, SHARES, st.booleans(), st.none() | WHOLES, LEVELS)
TREES = st.builds(
    Tree, LEAVES | st.builds(Other, TEXTS), st.lists(LEAVES).map(tuple), st.none() | st.tuples(WHOLES, TEXTS)
)


@given(TREES)
def test_a_value_comes_back_as_it_was(tree):
    text = json.dumps(plain_of(tree))
    again = value_of(json.loads(text), Tree)
    assert again == tree
    assert [type(level) for leaf in again.rest for level in leaf.levels] == [
        type(level) for leaf in tree.rest for level in leaf.levels
    ]
    assert json.dumps(plain_of(again)) == text


WHOLE = plain_of(Tree(Leaf("a", Fraction(1, 3)), (Leaf("b", Fraction(0), True, 4, ("x", 1)),), (1, "z")))
REFUSED = [
    (("leaf", "more"), 1, "the value.leaf: 'more' is unknown"),
    (("leaf", "share"), ..., "the value.leaf: 'share' is missing"),
    (("leaf", "share"), 0.5, "the value.leaf.share: an exact number, written as text,"),
    (("leaf", "share"), "2/6", "the value.leaf.share: an exact number as it is written"),
    (("leaf", "name"), "os", "the value.leaf: one of leaf, other, by its name,"),
    (("leaf", "word"), None, "the value.leaf.word: a text"),
    (("leaf",), {"name": "os.system"}, "the value.leaf: one of leaf, other, by its name,"),
    (("leaf",), {"name": ["leaf"]}, "the value.leaf: one of leaf, other, by its name,"),
    (("rest", 0, "flag"), 1, r"the value.rest\[0\].flag: true or false"),
    (("rest", 0, "count"), True, r"the value.rest\[0\].count: a whole number"),
    (("rest", 0, "count"), 2**300, r"the value.rest\[0\].count: a whole number of at most 256 bits"),
    (("rest", 0, "levels", 1), None, r"the value.rest\[0\].levels\[1\]: a text, a number or a boolean"),
    (("rest", 0, "levels"), "x1", r"the value.rest\[0\].levels: a list"),
    (("rest",), {}, "the value.rest: a list"),
    (("pair",), [1], "the value.pair: a list of 2"),
    ((), [], "the value: an object"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_does_not_fit_is_refused_where_it_stands(path, value, message):
    changed = json.loads(json.dumps({"tree": WHOLE}))
    at, (*way, last) = changed, ("tree", *path)
    for key in way:
        at = at[key]
    at[last] = value
    if value is ...:
        del at[last]
    with pytest.raises(dg.errors.ReleaseError, match=message):
        value_of(changed["tree"], Tree, "the value")


@pytest.mark.parametrize(
    "value",
    [
        Selection("softmax", Fraction(1, 7), 3),
        Movement(2, 2, 2, True),
        RowsRecord("b", (Fixed("x", "'y'", "0"),), "c", ("r",)),
        OutcomeDescription(Regression(0.0, 2.5)),
        dg.PrivacyUnit("add-remove", 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_the_package_come_back(value):
    assert value_of(json.loads(json.dumps(plain_of(value))), type(value)) == value


def test_what_a_value_checks_itself_is_checked_when_it_is_read():
    with pytest.raises(dg.errors.ReleaseError, match="no whole numbers move like this"):
        value_of({"l1": 3, "l2_squared": 1, "fixed_total": False}, Movement)
