"""The recorder answers without a look at the rows, keeps what it is asked, and is not private."""

import copy
from fractions import Fraction

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.privacy.exact_loss import RecordingNoise, loss_of_calls
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from tests.selection import counted


def answers(noise, offset):
    """One answer of each kind."""
    scores = np.arange(12).reshape(3, 4) * offset
    start, transition = np.full(4, 0.25), np.full((4, 4), 0.25)
    return [
        noise.add(np.array([offset, -offset]), DiscreteLaplace(50.0)).tolist(),
        noise.add(np.array([offset, -offset]), SumZeroLaplace(50.0)).tolist(),
        noise.choose(scores[0], 9.0),
        noise.flip(scores[0], 9.0),
        noise.choose_composition(scores, 9.0, 2).tolist(),
        noise.choose_path(scores, 9.0, start, transition).tolist(),
        noise.bits(100),
    ]


def test_answers_are_of_the_right_kind_and_do_not_depend_on_the_rows():
    found = answers(RecordingNoise(), 1)
    assert answers(RecordingNoise(), 977) == found
    assert answers(RecordingNoise(1), 1) != found
    assert sum(found[1]) == 0
    assert {sum(composition) for composition in found[4]} == {3}
    assert found[6] < 2**100


def test_a_copy_is_the_same_record_and_a_release_is_marked():
    noise = RecordingNoise()
    assert copy.deepcopy(noise) is noise
    counts = counted(dg.Network.of({"side": [0, 1]}, {}), {(0,): 3})
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=noise)
    assert not release.private
    assert len(noise.calls) == 1


def test_noise_on_numbers_that_are_not_whole_is_refused():
    with pytest.raises(TypeError, match="integers"):
        RecordingNoise().add(np.array([0.5]), DiscreteLaplace(1.0))


def test_the_rho_of_large_scores_does_not_overflow():
    """Scores of 10^12 at such a scale: rho is r^2 / (8 scale^2), and its square has 80 bits."""
    for kind, share in (("choose", 8), ("flip", 2)):
        noise = RecordingNoise(), RecordingNoise()
        for source, scores in zip(noise, ([0, 10**12], [0, 0]), strict=True):
            getattr(source, kind)(np.array(scores), 1e12)
        assert loss_of_calls(noise[0].calls, noise[1].calls) == (1, Fraction(1, share))
