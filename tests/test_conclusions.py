"""The bounds that statistical tests rest on hold in simulation, and a test without power cannot be planned."""

import math

import numpy as np
import pytest

from tests.conclusions import LEVEL, law_test, passing, relative_entropy, threshold

LAWS = {
    "two": [0.5, 0.5],
    "rare": [0.97, 0.02, 0.007, 0.003],
    "six": [0.3, 0.25, 0.2, 0.15, 0.07, 0.03],
    "many": np.arange(1, 31) / np.arange(1, 31).sum(),
}


def entropies(drawn_from, law, draws, repeats=40_000):
    """n KL(observed || law) of repeated samples."""
    seen = np.random.default_rng(7).multinomial(draws, drawn_from, repeats) / draws
    return draws * np.where(seen > 0, seen * np.log(np.where(seen > 0, seen, 1) / law), 0).sum(axis=1)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("draws", [20, 2_000])
@pytest.mark.parametrize("level", [0.2, 0.001])
def test_a_right_sample_is_refused_less_often_than_the_level(law, draws, level):
    assert (entropies(law, np.array(law), draws) > threshold(len(law), level)).mean() <= level


@pytest.mark.proof
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("draws", [50, 1_000])
def test_a_wrong_sample_passes_less_often_than_the_bound(law, draws):
    law = np.array(law)
    for strength in np.linspace(0.2, 2, 12):
        wrong = law * np.exp(strength * np.cos(3 * np.arange(len(law))))
        wrong /= wrong.sum()
        limit = threshold(len(law), 0.001)
        assert (entropies(wrong, law, draws) <= limit).mean() <= passing(wrong, law, draws, limit)


def test_laws_that_share_no_cell_never_pass_for_each_other():
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert passing(one, other, 10, 20.0) == 0
    assert relative_entropy(one, other) == math.inf
    assert passing(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 10, 20.0) == 1


def test_a_plan_accepts_its_law_and_nothing_else():
    law, wrong = np.log([0.5, 0.3, 0.2]), np.log([0.4, 0.3, 0.3])
    test = law_test(law, [wrong])
    assert test.error == LEVEL
    rng = np.random.default_rng(1)
    test.check(rng.choice(3, test.draws, p=np.exp(law)))
    with pytest.raises(AssertionError, match="not the law"):
        test.check(rng.choice(3, test.draws, p=np.exp(wrong)))
    with pytest.raises(AssertionError, match="not the law"):
        test.check(np.full(test.draws, 5))
    with pytest.raises(AssertionError, match="planned"):
        test.check([0, 1])


def test_a_wrong_law_that_fits_as_well_is_noticed():
    """Draws half way between two laws that the test can just tell apart are accepted by both, which is a failure."""
    law, wrong = np.log([0.5, 0.5]), np.log([0.6, 0.4])
    test = law_test(law, [wrong])
    ones = round(0.45 * test.draws)
    with pytest.raises(AssertionError, match="wrong law 0 accepted"):
        test.check([1] * ones + [0] * (test.draws - ones))


def test_a_test_without_power_cannot_be_planned():
    """The chance of missing a wrong law is stated by planning it, whichever direction is the harder."""
    law, near = np.log([0.5, 0.5]), np.log([0.51, 0.49])
    with pytest.raises(ValueError, match="state a wrong law"):
        law_test(law, [])
    with pytest.raises(ValueError, match="1000 draws do not tell"):
        law_test(law, [near], draws=1_000)
    with pytest.raises(ValueError, match="60000 draws do not tell"):
        law_test(law, [near])
    assert law_test(law, [near], most=10**6).draws > 200_000
