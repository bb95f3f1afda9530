"""Moments are an exact monoid, sensitive, and made of declared records only."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.errors import ReleaseError
from dpgraph.statistics.moments import Moments, sufficient_statistics
from dpgraph.structure.domain import DomainError
from tests.tiers import examples

E = dg.expfam
SECRET = 0.123456789


def content(moments):
    return moments.sensitive_sums.tolist(), moments.sensitive_rows


RECORDS = st.lists(st.floats(-20, 20), max_size=20)


@given(RECORDS, RECORDS, RECORDS)
@settings(max_examples=examples(100), deadline=None)
def test_moments_are_a_commutative_monoid(a, b, c):
    family, bounds = E.Normal(), (-7.3, 11.1)
    one, two, three = (sufficient_statistics(x, family, bounds=bounds) for x in (a, b, c))
    zero = Moments.zero(one.description)
    assert content(one + two) == content(two + one) == content(sufficient_statistics(a + b, family, bounds=bounds))
    assert content((one + two) + three) == content(one + (two + three))
    assert content(one + zero) == content(one)
    assert content(sufficient_statistics(a[::-1], family, bounds=bounds)) == content(one)


@given(RECORDS)
@settings(max_examples=examples(100), deadline=None)
def test_sums_are_those_of_the_records_within_the_bounds(x):
    """Apart from rounding: half a point of 12 / 65536 in each record, and its effect on a square."""
    bounds = (-4.0, 8.0)
    moments = sufficient_statistics(x, E.Normal(), bounds=bounds)
    kept = np.array([one for one in x if bounds[0] <= one <= bounds[1]])
    sums = moments.sensitive_sums * np.array(moments.description.steps)
    assert moments.sensitive_rows == len(x)
    assert abs(sums[0] - kept.sum()) <= len(x) * 12 / 65536 + 1e-9
    assert abs(sums[1] - (kept**2).sum()) <= len(x) * 12 / 65536 * 16 + 1e-9


def test_whole_numbers_are_summed_without_rounding():
    assert content(sufficient_statistics([0, 3, 2, 9, 4], E.Poisson(), bounds=(0, 5))) == ([9], 5)
    assert content(sufficient_statistics([0, 3, 2], E.Binomial(3))) == ([5], 3)
    assert content(sufficient_statistics([True, False, True], E.Binomial())) == ([2], 3)
    assert content(sufficient_statistics(["b", "a", "b"], E.Multinomial(["a", "b", "c"]))) == ([1, 2, 0], 3)
    assert content(sufficient_statistics(pd.Series([2, 0]), E.Multinomial(3))) == ([1, 0, 1], 2)
    assert content(sufficient_statistics([], E.Binomial())) == ([0], 0)


@pytest.mark.parametrize(
    ("x", "family", "bounds"),
    [
        ([SECRET, np.nan], E.Exponential(), (0, 1)),
        ([SECRET, np.inf], E.Exponential(), (0, 1)),
        ([SECRET, -SECRET], E.Exponential(), (0, 1)),
        ([None, SECRET], E.Exponential(), (0, 1)),
        (["x", SECRET], E.Exponential(), (0, 1)),
        ([SECRET, 1], E.Poisson(), (0, 5)),
        ([2, 1], E.Binomial(), None),
        ([SECRET], E.Binomial(), None),
        ([3], E.Multinomial(3), None),
        ([SECRET], E.Multinomial(3), None),
        (["d"], E.Multinomial(["a", "b"]), None),
        ([[SECRET]], E.Exponential(), (0, 1)),
        ([[1]], E.Multinomial(2), None),
        (pd.array([1, None]), E.Binomial(), None),
    ],
)
def test_records_that_do_not_fit_are_refused_without_naming_them(x, family, bounds):
    with pytest.raises(DomainError) as caught:
        sufficient_statistics(x, family, bounds=bounds)
    assert str(SECRET)[:6] not in str(caught.value)


def test_moments_show_nothing_and_do_not_leave():
    moments = sufficient_statistics([SECRET] * 37, E.Exponential(), bounds=(0, 1))
    assert repr(moments) == str(moments) == "Moments(Exponential, 1 statistics, sensitive)"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="sensitive"):
            leave(moments)
    with pytest.raises(ValueError, match="read-only"):
        moments.sensitive_sums[0] = 1


def test_moments_of_different_descriptions_do_not_add():
    one = sufficient_statistics([0.5], E.Exponential(), bounds=(0, 1))
    with pytest.raises(ReleaseError, match="do not add"):
        one + sufficient_statistics([0.5], E.Exponential(), bounds=(0, 2))
    with pytest.raises(ReleaseError, match="do not add"):
        one + sufficient_statistics([0.5], E.Gamma(2.0), bounds=(0, 1))
    with pytest.raises(TypeError):
        one + 1
    with pytest.raises(ReleaseError, match="one sum"):
        Moments(one.description, np.zeros(2), 1)
