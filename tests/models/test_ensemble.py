"""Naive Bayes over several draws averages the joint probability, not the tables and not the answers."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.lattice import PosteriorSample
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from tests.selection import counted

DOMAIN = dg.Domain.of({"y": [0, 1, 2], "a": [0, 1], "b": [0, 1, 2]})
NETWORK = dg.naive_bayes_network(DOMAIN, "y")
CODES = {"a": np.array([0, 1, 1, 0]), "b": np.array([2, 0, 1, 1])}


def draws(count):
    counts = counted(NETWORK, {(0, 0, 0): 30, (1, 1, 2): 20, (2, 1, 1): 4})
    mechanism, budget = PosteriorSample(20 * count, draws=count), dg.Budget(20 * count)
    return dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(1))


def test_the_prediction_is_the_normalised_average_of_joint_probabilities():
    """Zhang et al. 2016, Appendix C.2, by hand."""
    release = draws(7)
    joint = np.zeros((4, 3))
    for draw in release.value:
        for i in range(4):
            for y in range(3):
                joint[i, y] += (
                    draw.table("y")[y] * draw.table("a")[CODES["a"][i], y] * draw.table("b")[CODES["b"][i], y]
                )
    model = NaiveBayesEnsemble("y", release)
    assert model.predict_proba(CODES) == pytest.approx(joint / joint.sum(axis=1, keepdims=True))
    assert np.exp(model.predict_log_joint(CODES)) == pytest.approx(joint / 7)
    assert model.features == ("a", "b")


def test_it_is_neither_the_average_of_predictions_nor_that_of_tables():
    release = draws(5)
    model = NaiveBayesEnsemble("y", release.value)
    members = [NaiveBayes("y", draw).predict_proba(CODES) for draw in release.value]
    assert np.abs(np.mean(members, axis=0) - model.predict_proba(CODES)).max() > 1e-3
    tables = {name: np.mean([draw.table(name) for draw in release.value], axis=0) for name in DOMAIN.names}
    averaged = NaiveBayes("y", dg.Probabilities(NETWORK, tables))
    assert np.abs(averaged.predict_proba(CODES) - model.predict_proba(CODES)).max() > 1e-3


def test_one_draw_is_plain_naive_bayes():
    (draw,) = draws(1).value
    assert NaiveBayesEnsemble("y", (draw,)).predict_proba(CODES) == pytest.approx(
        NaiveBayes("y", draw).predict_proba(CODES)
    )


@pytest.mark.parametrize("wrong", [(), [], None, 3])
def test_an_ensemble_needs_draws(wrong):
    with pytest.raises(dg.errors.NetworkError, match="at least one draw"):
        NaiveBayesEnsemble("y", wrong)


def test_an_ensemble_needs_a_naive_bayes_network():
    other = dg.Probabilities(dg.Network.of({"y": [0, 1], "a": [0, 1]}, {}), {"y": [0.5, 0.5], "a": [0.5, 0.5]})
    with pytest.raises(dg.errors.NetworkError, match="not a naive Bayes network"):
        NaiveBayesEnsemble("y", (other,))


def test_an_ensemble_is_of_one_network():
    def made(levels):
        network = dg.naive_bayes_network({"y": [0, 1], "a": levels}, "y")
        size = len(levels)
        return dg.Probabilities(network, {"y": [0.5, 0.5], "a": np.full((size, 2), 1 / size)})

    with pytest.raises(dg.errors.NetworkError, match="tables of one network"):
        NaiveBayesEnsemble("y", (made([0, 1]), made([0, 1, 2])))


def test_many_rows_and_draws_with_impossible_ones_average_the_joint():
    """More rows than a block, so features are packed; where no draw allows the features, every label is as likely."""
    rng = np.random.default_rng(8)
    made = []
    for _ in range(30):
        tables = {
            "y": rng.dirichlet(np.ones(3)),
            "a": rng.dirichlet(np.ones(2), 3).T,
            "b": rng.dirichlet(np.ones(3), 3).T,
        }
        tables["b"][2] = 0
        tables["b"] /= tables["b"].sum(axis=0)
        made.append(dg.Probabilities(NETWORK, tables))
    codes = {"a": rng.integers(0, 2, 3000), "b": rng.integers(0, 3, 3000)}
    joint = np.mean([d.table("y") * d.table("a")[codes["a"]] * d.table("b")[codes["b"]] for d in made], axis=0)
    possible = codes["b"] < 2
    model = NaiveBayesEnsemble("y", tuple(made))
    answer = model.predict_proba(codes)
    expected = joint[possible] / joint[possible].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answer[possible], expected)
    np.testing.assert_allclose(answer[~possible], 1 / 3)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.predict_log_joint(codes), np.log(joint), rtol=1e-9)
