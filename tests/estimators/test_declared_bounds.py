"""Declared bounds become a design, and columns that do not fit them are refused."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.estimators.regression import DeclaredBounds

FRAME = pd.DataFrame({"age": [30.0, 40.0], "sex": ["F", "M"], "more": [7.0, 7.0]})
TARGET = "pay", np.array([10.0, 20.0])


def test_a_mapping_is_read_by_name_in_its_own_order_and_other_columns_are_left():
    declared = DeclaredBounds({"sex": ["F", "M"], "age": (20, 60)}, (0, 100))
    assert not declared.infer
    declared.check_count(3)
    assert declared.names(2) == ["sex", "age"]
    wanted = dg.LinearDesign({"sex": ["F", "M"], "age": (20, 60)}, "pay", (0, 100), intercept=False)
    assert declared.design(FRAME, TARGET, intercept=False) == wanted
    with pytest.raises(dg.errors.DomainError, match=r"X has 3 columns, and bounds_X declares 2: .* without the target"):
        declared.names(3)
    with pytest.raises(dg.errors.DomainError, match="no column 'sex'"):
        declared.design(FRAME[["age"]], TARGET, intercept=True)


def test_a_list_is_read_by_place():
    declared = DeclaredBounds([(20, 60), ["F", "M"]], (0, 100))
    assert declared.names(2) == ["x0", "x1"]
    wanted = dg.LinearDesign({"age": (20, 60), "sex": ["F", "M"]}, "pay", (0, 100))
    assert declared.design(FRAME[["age", "sex"]], TARGET, intercept=True) == wanted
    with pytest.raises(dg.errors.DomainError, match="declares 2"):
        declared.check_count(3)


def test_bounds_are_read_off_rows_by_name_alone_and_never_meet():
    declared = DeclaredBounds("infer", "infer")
    assert declared.infer
    declared.check_count(5)
    with pytest.warns(dg.errors.PrivacyLeakWarning):
        made = declared.design(FRAME[["age", "more"]], TARGET, intercept=True)
    assert made == dg.LinearDesign({"age": (30, 40), "more": (7, 8)}, "pay", (10, 20))
    for bounds in (("guess", (0, 100)), ([(0, 1)] * 3, "guess")):
        assert not DeclaredBounds(*bounds).infer
        with pytest.raises(dg.errors.DomainError, match='"infer" by name'):
            DeclaredBounds(*bounds).design(FRAME, TARGET, intercept=True)


@pytest.mark.parametrize(("bounds", "name"), [((None, (0, 1)), "bounds_X"), (({"age": (0, 1)}, None), "bounds_y")])
def test_nothing_is_read_off_rows_by_default(bounds, name):
    with pytest.raises(dg.errors.DomainError, match=f"needs {name}="):
        DeclaredBounds(*bounds)


def test_what_is_no_declaration_is_refused():
    with pytest.raises(dg.errors.DomainError, match="a mapping or a list of bounds; got 3"):
        DeclaredBounds(3, (0, 1)).check_count(2)
    with pytest.raises(dg.errors.DomainError, match="increase"):
        DeclaredBounds({"age": (3, 3)}, (0, 1)).design(FRAME, TARGET, intercept=True)
