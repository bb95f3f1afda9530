"""Outcomes are exact sums of integers that add; losses are clipped and rounded row by row; nothing shows them."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import dpgraph as dg
from dpgraph.privacy.scope import Condition, RowGroup
from dpgraph.statistics.moments import Moments, classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.structure.moments import STEPS, Classification, Entries, OutcomeDescription, Regression

TASK = Classification((0, 1, 2))


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, n), rng.dirichlet([0.4] * 3, n)


def blocks(found):
    description = found.description
    parts = np.split(found.sensitive_sums, description.ends[:-1])
    return {block.name: part for block, part in zip(description.parts, parts, strict=True)}


def test_sums_are_those_of_scikit_learn():
    truth, said = rows(2000)
    found, guess = blocks(classifier_outcomes(TASK, truth, said)), said.argmax(axis=1)
    assert found["right"].tolist() == [(truth == guess).sum(), (truth != guess).sum()]
    assert found["confusion"].tolist() == metrics.confusion_matrix(truth, guess).ravel().tolist()
    clipped = np.minimum(-np.log(said[np.arange(2000), truth]), np.log(150)) / np.log(150)
    assert found["log-loss"] / STEPS == pytest.approx(clipped.sum(), abs=2000 / STEPS)
    assert found["log-loss squared"] / STEPS == pytest.approx((clipped**2).sum(), abs=2000 / STEPS)
    wide = Classification((0, 1, 2), largest_loss=700.0)
    whole = blocks(classifier_outcomes(wide, truth, said))["log-loss"] / STEPS * 700 / 2000
    assert whole == pytest.approx(metrics.log_loss(truth, said, labels=[0, 1, 2]), abs=700 / STEPS)
    brier = ((said - np.eye(3)[truth]) ** 2).sum()
    assert found["brier"] / STEPS * 2 == pytest.approx(brier, abs=2 * 2000 / STEPS)


def test_bins_hold_their_upper_edge_and_count_right_and_wrong():
    task = Classification(("n", "y"), edges=(0.7, 0.9))
    said = np.array([[0.5, 0.5], [0.3, 0.7], [0.7, 0.3], [0.9, 0.1], [0.05, 0.95], [0.0, 1.0]])
    found = blocks(classifier_outcomes(task, np.array([1, 1, 0, 0, 0, 1]), said))
    assert found["scores"].reshape(2, 6).tolist() == [[0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 1]]
    alone = Classification(("n", "y"), edges=(0.7, 0.9), scores=("accuracy", "reliability"))
    found = blocks(classifier_outcomes(alone, np.array([1, 1, 0, 0, 0, 1]), said))
    assert found["reliability"].tolist() == [2, 1, 1, 0, 1, 1]


def test_each_of_several_classes_is_counted_by_the_bin_of_its_probability():
    truth, said = rows(500)
    found = blocks(classifier_outcomes(TASK, truth, said))
    for k in range(3):
        bins = pd.cut(said[:, k], [-1, *TASK.cuts, 2], labels=False)
        for own in (0, 1):
            counted = np.bincount(bins[(truth == k) == own], minlength=14)
            assert found[f"scores of class {k}"].reshape(2, 14)[own].tolist() == counted.tolist()


def test_what_is_clipped_is_what_is_summed():
    """An impossible class, an entry of probability 0, a target far outside: each adds its bound and no more."""
    sure = classifier_outcomes(TASK, np.array([0]), np.array([[0.0, 0.0, 1.0]]))
    assert [blocks(sure)[name].tolist() for name in ("log-loss", "brier", "brier squared")] == [[STEPS]] * 3
    lost = blocks(entry_outcomes(Entries(5), np.array([-np.inf])))
    assert (lost["log-loss"], lost["log-loss squared"]) == (STEPS, STEPS)
    far = blocks(regression_outcomes(Regression(0.0, 1.0), np.array([1e300]), np.array([-1e300])))
    assert [part.tolist() for part in far.values()] == [[1], [STEPS], [STEPS]]
    inside = blocks(regression_outcomes(Regression(0.0, 1.0, 1.0), np.array([0.25]), np.array([0.5])))
    assert inside["squared error"] == STEPS // 16


@pytest.mark.parametrize("cut", [0, 1, 70, 200])
def test_outcomes_add(cut):
    truth, said = rows(200)
    whole = classifier_outcomes(TASK, truth, said)
    parts = [classifier_outcomes(TASK, truth[part], said[part]) for part in (slice(cut), slice(cut, None))]
    for total in (parts[0] + parts[1], parts[1] + parts[0], whole + Moments.zero(OutcomeDescription(TASK))):
        assert total.sensitive_sums.tolist() == whole.sensitive_sums.tolist()
        assert total.sensitive_rows == 200


def test_probabilities_far_above_1_count_as_1():
    """Their squares would be infinite, and the loss no number, which no bound clips."""
    truth = np.array([0, 1])
    wild = classifier_outcomes(TASK, truth, np.array([[1e308, 0.0, 1e308], [1e308, 0.0, 0.0]]))
    ones = classifier_outcomes(TASK, truth, np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert wild.sensitive_sums.tolist() == ones.sensitive_sums.tolist()
    assert (wild.sensitive_sums >= 0).all()


def test_outcomes_of_different_classes_bounds_or_groups_do_not_add():
    truth, said = rows(20)
    one = classifier_outcomes(TASK, truth, said)
    for other in (
        classifier_outcomes(Classification((0, 1, 3)), truth, said),
        classifier_outcomes(Classification((0, 1, 2), largest_loss=2.0), truth, said),
        classifier_outcomes(TASK, truth, said, RowGroup((Condition("r", "n", None),))),
    ):
        with pytest.raises(dg.errors.ReleaseError, match="do not add"):
            one + other


def test_outcomes_show_no_number_and_are_not_pickled():
    truth, said = rows(737)
    found = classifier_outcomes(TASK, truth, said)
    assert "737" not in repr(found)
    assert repr(found) == repr(classifier_outcomes(TASK, truth[:5], said[:5]))
    for way in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="sensitive"):
            way(found)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_probabilities_that_are_none_are_refused(bad):
    truth, said = rows(3)
    said[1, 1] = bad
    with pytest.raises(dg.errors.DomainError, match="probabilities"):
        classifier_outcomes(TASK, truth, said)
    with pytest.raises(dg.errors.DomainError, match="probabilities"):
        classifier_outcomes(TASK, truth, said[:, :2])


def test_missing_numbers_are_refused():
    with pytest.raises(dg.errors.DomainError, match="none missing"):
        regression_outcomes(Regression(0.0, 1.0), np.array([np.nan]), np.array([0.0]))
    with pytest.raises(dg.errors.DomainError, match="a number"):
        entry_outcomes(Entries(3), np.array([np.nan]))


def test_no_rows_have_the_same_shape():
    truth, said = rows(0)
    assert classifier_outcomes(TASK, truth, said).sensitive_sums.shape == (len(OutcomeDescription(TASK).names),)
