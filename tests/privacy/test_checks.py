"""One wording for settings that are out of range, and booleans that are not numbers."""

from fractions import Fraction

import numpy as np
import pytest

from dpgraph.privacy.checks import check_boolean, check_choice, check_whole, is_number, is_whole
from dpgraph.privacy.display import cell, counted, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import PrivacyUnit, exact_delta


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, np.float64(1), np.int64(1)])
def test_only_python_integers_are_whole(value):
    assert not is_whole(value)
    with pytest.raises(ReleaseError, match="draws must be a whole number, at least 1; got"):
        check_whole("draws", value)


@pytest.mark.parametrize(("value", "whole"), [(1, False), (2, True), (5, True), (6, False)])
def test_both_ends_of_a_range_belong_to_it(value, whole):
    assert is_whole(value, 2, 5) == whole
    if whole:
        check_whole("grid", value, 2, 5)
    else:
        with pytest.raises(ReleaseError, match=f"grid must be a whole number from 2 to 5; got {value}"):
            check_whole("grid", value, 2, 5)


def test_the_error_is_the_callers():
    with pytest.raises(KeyError):
        check_whole("n", 0, error=KeyError)
    with pytest.raises(KeyError):
        check_boolean("strict", 1, error=KeyError)


@pytest.mark.parametrize("value", [0, 1, None, "true"])
def test_only_true_and_false_are_boolean(value):
    with pytest.raises(ReleaseError, match="strict must be true or false; got"):
        check_boolean("strict", value)
    for said in (True, False):
        check_boolean("strict", said)


def test_true_and_false_are_no_numbers():
    assert is_number(1)
    assert is_number(-0.5)
    assert is_number(float("nan"))
    assert not any(map(is_number, (True, False, "1", None, 1j)))


def test_a_delta_is_below_one():
    assert exact_delta(0) == 0
    assert exact_delta("1e-6") == Fraction(1, 10**6)
    for value in (1, "1.5", -1, True, float("nan")):
        with pytest.raises(ReleaseError, match="delta must be"):
            exact_delta(value)


@pytest.mark.parametrize("value", [2**63, 10**5000], ids=["64 bits", "many digits"])
def test_a_setting_fits_64_bits(value):
    """Rejects rows of a person that no float and no message holds."""
    with pytest.raises(
        ReleaseError, match="rows_per_person must be a whole number from 1 to 9223372036854775807"
    ) as caught:
        PrivacyUnit("replace", value)
    assert len(str(caught.value)) < 150
    assert PrivacyUnit("replace", 2**63 - 1).rows_per_person == 2**63 - 1


def test_a_refused_choice_names_the_known_and_the_nearest():
    words = r"method must be one of 'auto', 'planned'; got 'planed' \(did you mean 'planned'\?\)"
    with pytest.raises(ReleaseError, match=words):
        check_choice("method", "planed", ["auto", "planned"])


def test_values_in_words():
    assert [cell(one) for one in (1.23456, 12345.6, float("nan"), "a")] == ["1.23", "12346", "-", "a"]
    assert [counted(1, "table"), counted(12000, "cell"), counted(3, "entry")] == [
        "1 table",
        "12,000 cells",
        "3 entries",
    ]
    assert summary("Tables", "3 tables", None, "n = 7") == "Tables(3 tables; n = 7)"
