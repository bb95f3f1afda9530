"""Declarations: what they say, and every way to say them wrong."""

import dataclasses
import datetime
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from tests.strategies import bins, domains, numbers, position, variables

NAN, INF = math.nan, math.inf


def test_a_domain_keeps_names_sizes_and_levels_in_order():
    domain = dg.Domain.of({"b": ["x", "y"], "a": dg.Bins([0, 1, 2, 3], missing=True), "c": [True]})
    assert domain.names == ("b", "a", "c")
    assert list(domain.sizes.items()) == [("b", 2), ("a", 4), ("c", 1)]
    assert domain.levels("a") == ("0-1", "1-2", "2-3", "missing")
    assert domain.levels("c") == (True,)
    assert "a" in domain
    assert "z" not in domain
    assert repr(domain) == "Domain(b: 2, a: 4, c: 1)"
    assert dg.Domain.of(domain) is domain


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "the level list is empty"),
        (["a", "b", "a"], "level 'a' is declared twice"),
        ([1, 2, 1.0], "level 1.0 is declared twice"),
        ([0, False], "all text, all numbers or all booleans; got boolean and number"),
        (["1", 1], "got number and text"),
        ("abc", "must be a list of levels, not the text 'abc'"),
        ([None], "a level must be text, a finite number"),
        ([NAN], "a level must be text, a finite number"),
        ([INF], "a level must be text, a finite number"),
        ([2**53], "a level must be text, a finite number"),
        ([b"a"], "a level must be text, a finite number"),
        ([["a"]], "a level must be text, a finite number"),
        ([1j], "a level must be text, a finite number"),
        ([datetime.date(2024, 1, 1)], "not a date"),
    ],
    ids=repr,
)
def test_a_bad_level_list_is_refused(levels, message):
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.Categories(levels)
    with pytest.raises(dg.errors.NetworkError, match=f"variable 'v': .*{message}"):
        dg.Domain.of({"v": levels})


@pytest.mark.parametrize("action", ["other", "missing"])
@pytest.mark.parametrize(
    ("levels", "level"), [(["a", "b"], "c"), ([0, 1], 2), ([0, 1], "0"), ([0, 1], True), ([True], 1), (["a"], "")]
)
def test_an_action_must_be_a_declared_level(action, levels, level):
    with pytest.raises(dg.errors.NetworkError, match=f"{action}=.* is not one of the declared levels"):
        dg.Categories(levels, **{action: level})


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "at least two edges; got 0"),
        ([1], "at least two edges; got 1"),
        ([1, 1], "must be finite and increase"),
        ([2, 1], "must be finite and increase"),
        ([0, 2, 1], "must be finite and increase"),
        ([0, "1"], "bin edges must be numbers"),
        ([False, True], "bin edges must be numbers"),
        ([0, NAN], "a level must be"),
        ([0, INF], "a level must be"),
        ([0, None], "a level must be"),
        ("01", "bin edges must be numbers"),
        ([datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)], "not dates; make numbers of the column's dates first"),
        ([datetime.datetime(2024, 1, 1), 3], "not dates"),
        (np.array(["2024", "2025"], "datetime64[ns]"), "not dates"),
        (pd.date_range("2024-01-01", periods=3), "not dates"),
    ],
    ids=repr,
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.Bins(edges)


@pytest.mark.parametrize("missing", ["missing", 1, None])
def test_missing_is_true_or_false_for_bins(missing):
    with pytest.raises(dg.errors.NetworkError, match="missing must be true or false"):
        dg.Bins([0, 1], missing=missing)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({}, "the domain is empty"),
        ([], "a mapping from names to levels; got list"),
        (None, "a mapping from names to levels; got NoneType"),
        ({"": ["a"]}, "text and not empty; got ''"),
        ({1: ["a"]}, "text and not empty; got 1"),
        ({"v": 3}, "variable 'v'"),
        ({"v": None}, "variable 'v'"),
    ],
    ids=repr,
)
def test_a_bad_domain_is_refused(declared, message):
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.Domain.of(declared)


def test_an_unknown_variable_is_named_with_those_there_are():
    domain = dg.Domain.of({"a": [0, 1], "b": [0]})
    with pytest.raises(dg.errors.NetworkError, match="no variable 'z' in the domain; it has a, b"):
        domain.levels("z")


def test_a_value_that_is_no_level_is_named_with_the_levels():
    domain = dg.Domain.of({"a": list(range(30))})
    with pytest.raises(
        dg.errors.DomainError, match=r"99 is not a level of 'a'; declared: 0, 1, .*, 11, \.\.\. \(30 levels\)"
    ):
        domain.code("a", 99)


@given(bins())
def test_bins_have_distinct_names_and_one_level_for_each_gap(declared):
    assert len(set(declared.levels)) == declared.size == len(declared.edges) - 1 + declared.missing
    assert (declared.levels[-1] == "missing") is declared.missing


def test_bins_that_differ_after_the_sixth_digit_keep_their_names_apart():
    assert dg.Bins([1, 1.0000001, 2]).levels == ("1-1.0000001", "1.0000001-2")


@given(variables(), st.data())
def test_the_code_of_a_public_value_is_its_position(variable, data):
    for i, level in enumerate(variable.levels):
        assert variable.code(level) == i
    if isinstance(variable, dg.Bins):
        value = data.draw(st.floats(allow_nan=False))
        assert variable.code(value) == position(variable, value)
    else:
        value = data.draw(numbers | st.booleans() | st.text(max_size=3))
        known = [
            i
            for i, level in enumerate(variable.levels)
            if level == value and isinstance(level, bool) == isinstance(value, bool)
        ]
        assert variable.code(value) == (known[0] if known else None)


@pytest.mark.parametrize("value", [None, NAN, True, [1], pytest.param(object(), id="object()")], ids=repr)
def test_what_is_neither_a_number_nor_a_bin_has_no_code(value):
    assert dg.Bins([0, 1]).code(value) is None


@pytest.mark.parametrize("value", [None, [1], pytest.param(object(), id="object()"), b"a"], ids=repr)
def test_what_is_no_level_has_no_code(value):
    assert dg.Categories(["a"]).code(value) is None


def test_numpy_scalars_become_plain_values():
    declared = dg.Categories(np.array([1, 2]), other=np.int64(2))
    assert [type(level) for level in (*declared.levels, declared.other)] == [int, int, int]
    assert type(dg.Categories(np.array(["a"])).levels[0]) is str
    assert type(dg.Categories(np.array([True])).levels[0]) is bool


@given(domains())
def test_a_domain_is_a_value(domain):
    again = dg.Domain.of(dict(domain.variables))
    assert again == domain
    assert hash(again) == hash(domain)
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert domain.restrict(domain.names) == domain
    backwards = domain.restrict(reversed(domain.names))
    assert backwards.names == domain.names[::-1]
    assert (backwards == domain) == (len(domain.names) == 1)


@pytest.mark.parametrize(
    ("value", "field"),
    [(dg.Categories([0]), "levels"), (dg.Bins([0, 1]), "edges"), (dg.Domain.of({"a": [0]}), "variables")],
)
def test_nothing_of_it_can_be_changed(value, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, ())


def test_a_network_error_is_a_domain_error_is_a_value_error():
    assert issubclass(dg.errors.NetworkError, dg.errors.DomainError)
    assert issubclass(dg.errors.DomainError, ValueError)


TEXT = dg.Categories(["a", "b"], other="b", missing="b")


def test_what_is_outside_the_bins_counts_as_missing_by_declaration_alone(tmp_path):
    with pytest.raises(dg.errors.NetworkError, match="declare missing=True as well"):
        dg.Bins([0, 1], outside="missing")
    with pytest.raises(dg.errors.NetworkError, match='"ends" or "missing"; got True'):
        dg.Bins([0, 1], True, True)
    path = tmp_path / "d.toml"
    path.write_text('[variables]\nage = { bins = [0, 50, 90], missing = true, outside = "missing" }\n')
    domain = dg.read_domain(path)
    assert domain["age"] == dg.Bins([0, 50, 90], missing=True, outside="missing") != dg.Bins([0, 50, 90], missing=True)
    network = dg.Network.of(domain, {})
    for name in ("n.toml", "n.json"):
        dg.save(network, tmp_path / name)
        assert dg.read_network(tmp_path / name) == network


BINNED = dg.Bins([0, 1], missing=True)


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        (["a", "b"], "declare other=... one of the levels and missing=... one of the levels"),
        (dg.Categories(["a"], other="a"), "declare missing=... one of the levels"),
        (dg.Categories([1, 2], missing=1), "declare other=... one of the levels"),
        (dg.Categories([True, False]), "declare other=... one of the levels and missing=... one of the levels"),
        (dg.Bins([0, 1]), "declare missing=True"),
    ],
    ids=repr,
)
def test_a_strict_domain_declares_what_becomes_of_every_value(variable, wanted):
    with pytest.raises(dg.errors.NetworkError) as refusal:
        dg.Domain.of({"fine": BINNED, "v": variable}, strict=True)
    assert str(refusal.value) == f"variable 'v' could refuse a row, and the domain is strict: {wanted}"
    assert not dg.Domain.of({"fine": BINNED, "v": variable}).strict


def test_strictness_stays():
    domain = dg.Domain.of({"t": TEXT, "n": BINNED}, strict=True)
    assert domain.strict
    assert domain == dg.Domain.of(dict(domain.variables), strict=True)
    assert domain != dg.Domain.of(dict(domain.variables))
    assert hash(domain) != hash(dg.Domain.of(dict(domain.variables)))
    assert domain.restrict(["n"]).strict
    assert dg.Domain.of(domain) is domain
    assert dg.Domain.of(dg.Domain.of(dict(domain.variables)), strict=True) == domain
    with pytest.raises(dg.errors.NetworkError, match="'v' could refuse a row"):
        dg.Domain.of(dg.Domain.of({"v": ["a"]}), strict=True)
    assert repr(domain) == "Domain(t: 2, n: 2, strict)"
    assert dg.Network.of(domain, {"n": ["t"]}).domain.strict
    assert dg.naive_bayes_network(domain, "t").domain.strict
    assert dg.Network.of(domain, {}) != dg.Network.of(dg.Domain.of(dict(domain.variables)), {})
    for bad in (1, "yes", None):
        with pytest.raises(dg.errors.NetworkError, match="strict must be true or false"):
            dg.Domain.of({"t": TEXT}, strict=bad)


def test_bins_without_edges_say_so():
    with pytest.raises(dg.errors.NetworkError, match="bins are a list of edges"):
        dg.Bins(5)


def test_bins_of_whole_numbers_are_those_with_whole_edges_unless_declared_otherwise():
    by_default, reals = dg.Bins([0, 1, 4.0]), dg.Bins([0, 1, 4], whole=False)
    assert (by_default.spans, by_default.middles) == (((0, 0), (1, 4)), (0, 2.5))
    assert (reals.spans, reals.middles) == (((0, 1), (1, 4)), (0.5, 2.5))
    assert by_default == dg.Bins([0, 1, 4], whole=True) != reals
    assert dg.Bins([0, 0.5, 4]).middles == (0.25, 2.25)
    assert dg.Bins([0, 1, 6.5], whole=True).spans == ((0, 0), (1, 6))
    with pytest.raises(dg.errors.NetworkError, match="a whole number in each bin"):
        dg.Bins([0, 0.5, 0.75, 4], whole=True)
    with pytest.raises(dg.errors.NetworkError, match="whole must be"):
        dg.Bins([0, 1], whole="no")
