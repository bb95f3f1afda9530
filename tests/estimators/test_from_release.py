"""An estimator's model of an existing release: that of a fit with the same release, or free from a wider one."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.testing import SeededNoise

DOMAIN = dg.Domain.of({"spam": ["no", "yes"], "word": ["a", "b", "c"], "size": dg.Bins([0, 10, 20])})
LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
RNG = np.random.default_rng(0)
SPAM = RNG.choice(["no", "yes"], 4000, p=[0.7, 0.3])
ROWS = pd.DataFrame(
    {
        "word": np.where(RNG.random(4000) < 0.8, np.where(SPAM == "yes", "a", "b"), "c"),
        "size": np.where(SPAM == "yes", RNG.uniform(0, 20, 4000), RNG.uniform(0, 12, 4000)),
    }
)
FITTED = dg.PrivateNaiveBayes(DOMAIN, 3, noise=SeededNoise(1), target="spam").fit(ROWS, SPAM)
RELEASE = dg.release(
    dg.count(ROWS.assign(spam=SPAM), dg.all_pairs(DOMAIN)),
    dg.LaplaceMechanism(3),
    budget=dg.Budget(3),
    noise=SeededNoise(2),
)


STAR = dg.release(
    dg.count(ROWS.assign(spam=SPAM), dg.naive_bayes_network(DOMAIN, "spam")),
    dg.LaplaceMechanism(3, tables="maximal"),
    budget=dg.Budget(3),
    noise=SeededNoise(3),
)


def test_the_release_of_a_fit_gives_its_model():
    again = dg.PrivateNaiveBayes.from_release(FITTED.release_, "spam")
    np.testing.assert_array_equal(again.predict_proba(ROWS), FITTED.predict_proba(ROWS))
    assert again.predict(ROWS[:5]).tolist() == FITTED.predict(ROWS[:5]).tolist()
    assert (again.privacy_cost_, again.epsilon, again.unit) == (FITTED.privacy_cost_, 3, FITTED.release_.unit)
    assert again.model_.provenance == FITTED.model_.provenance
    assert again.feature_names_in_.tolist() == ["word", "size"]


def test_one_release_of_pairs_gives_a_model_of_each_variable(tmp_path):
    rows = ROWS.assign(spam=SPAM)
    for target in DOMAIN.names:
        model = dg.results.NaiveBayes.from_release(RELEASE, target)
        X, y = rows.drop(columns=target), rows[target]
        truth = np.where(y < 10, "0-10", "10-20") if target == "size" else y
        exact = dg.PrivateNaiveBayes(DOMAIN, 1000, noise=SeededNoise(1), target=target).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.02)
        assert (model.predict(X) == truth).mean() == pytest.approx((exact.predict(X) == truth).mean(), abs=0.01)
        dg.save(model, tmp_path / "m.npz")
        assert dg.load(tmp_path / "m.npz").provenance == RELEASE.provenance


def test_a_release_without_the_tables_is_refused_with_the_missing_ones():
    with pytest.raises(dg.errors.NetworkError, match="no table of this release holds 'word' with size: a naive Bayes"):
        dg.PrivateNaiveBayes.from_release(STAR, "word")
    with pytest.raises(dg.errors.NetworkError, match="no variable 'words'"):
        dg.PrivateNaiveBayes.from_release(FITTED.release_, "words")
    with pytest.raises(dg.errors.InferenceError, match="learned from noisy tables"):
        dg.results.NaiveBayes.from_release(FITTED.model_.probabilities, "spam")


def test_a_log_s_release_gives_the_model_of_a_fit():
    log = pd.DataFrame({"region": ["N", "S"] * 90, "month": [1, 2, 3] * 60, "kind": ["a", "b", "b"] * 60})
    how = {"iterations": 20, "burn_in": 10, "inference": "plug-in"}
    fitted = dg.PrivateHMM(2, LOG, 20, noise=SeededNoise(1), **how).fit(log)
    again = dg.PrivateHMM.from_release(fitted.release_, 2, sequence="region", time="month", **how)
    np.testing.assert_array_equal(again.states_, fitted.states_)
    pd.testing.assert_frame_equal(again.transition_, fitted.transition_)
    assert (again.privacy_cost_, again.score(log)) == (fitted.privacy_cost_, fitted.score(log))
    with pytest.raises(dg.errors.DPGraphError, match="no table holds"):
        dg.PrivateHMM.from_release(STAR, 2, sequence="spam", time="word", **how)
    judged = dg.evaluate(FITTED, ROWS, SPAM, epsilon=1, budget=dg.Budget(1), noise=SeededNoise(0))
    with pytest.raises(dg.errors.ReleaseError, match="learned from noisy counts; got NoisyOutcomes"):
        dg.PrivateHMM.from_release(judged.release, 2, sequence="spam", time="word")
