"""Words above a threshold: the law of small tables by enumeration, and what is refused."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.levels import PrivateLevels
from dpgraph.privacy.exact_loss import RecordingNoise
from dpgraph.privacy.noise import word_threshold
from dpgraph.statistics.counts import count_words
from dpgraph.statistics.rows.arrow import read_once
from dpgraph.statistics.rows.batches import Columns

UNITS = [dg.PrivacyUnit(one, rows) for one in ("replace", "add-remove") for rows in (1, 2)]


def counted(frame, missing=False):
    return count_words(read_once(frame, Columns(dict.fromkeys(frame))), dict.fromkeys(frame, missing), None, None)


def law(count, scale, threshold):
    """The probability of each noisy count above the threshold, and of silence first; of a word that nobody has too."""
    if count == 0:
        return np.array([1.0])
    reach = np.arange(threshold + 1, threshold + 1 + int(60 * scale))
    noise = np.arange(-int(80 * scale) - threshold, int(80 * scale) + threshold + 1)
    weights = np.exp(-(noise.astype(float) ** 2) / (2 * scale**2))
    weights /= weights.sum()
    named = weights[reach - count - noise[0]]
    return np.concatenate([[1 - named.sum()], named])


def joint(counts, scale, threshold):
    """The law of several words together, flat; a word that nobody has is silent."""
    size = 1 + int(60 * scale)
    whole = np.ones(1)
    for count in counts:
        one = np.zeros(size)
        found = law(count, scale, threshold)
        one[: len(found)] = found
        whole = np.multiply.outer(whole, one).ravel()
    return whole


def delta_at(epsilon, one, other):
    """The least delta at an epsilon, in both directions."""
    return max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((one, other), (other, one)))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("delta", ["1e-1", "1e-3"])
def test_no_neighbours_of_two_words_are_told_apart_better_than_claimed(unit, delta):
    """All tables of up to three rows, so that words vanish, appear, and are on both sides of the threshold."""
    mechanism = PrivateLevels(2, delta)
    scale, threshold = mechanism.plan(1, unit)
    worst = 0.0
    tables = list(itertools.product(range(5), repeat=2))
    for one, other in itertools.product(tables, tables):
        gone, come = (sum(max(a - b, 0) for a, b in zip(*pair, strict=True)) for pair in ((one, other), (other, one)))
        rows = unit.rows_per_person
        alike = gone == come <= rows if unit.n_is_public else min(gone, come) == 0 and gone + come <= rows
        if one < other and alike:
            worst = max(worst, delta_at(2.0, joint(one, scale, threshold), joint(other, scale, threshold)))
    assert 0 < worst <= float(Fraction(delta))


def test_a_threshold_that_is_one_lower_is_above_its_delta():
    scale, delta = 4.0, Fraction(1, 1000)
    threshold = word_threshold(scale, 1, 1, delta)
    z = np.arange(-200, 201)
    weights = np.exp(-(z.astype(float) ** 2) / (2 * scale**2))
    chance = {t: weights[1 + z > t].sum() / weights.sum() for t in (threshold, threshold - 2)}
    assert chance[threshold] <= delta < chance[threshold - 2]  # OpenDP's bound is that of the normal law


def test_what_is_named_is_above_the_threshold_and_nothing_else_leaves():
    rare = [f"rare {i}" for i in range(200)]  # of noise alone half would be above 0
    frame = pd.DataFrame({"town": ["A"] * 900 + ["B"] * 500 + rare, "code": [7] * 1400 + [None] * 200})
    statistics = counted(frame, missing=True)
    mechanism = PrivateLevels(1, "1e-6")
    made = dg.release(statistics, mechanism, budget=dg.Budget(1, "1e-6"))
    _, threshold = mechanism.plan(2, made.unit)
    assert list(made.value["town"]) == ["A", "B"]
    assert list(made.value["code"]) == ["7"]
    assert all(many > threshold for words in made.value.values() for many in words.values())
    assert "rare" not in repr(made) + repr(statistics)
    assert (made.event.epsilon, made.event.delta) == (1, Fraction(1, 10**6))


def test_the_noise_gets_no_word_that_nobody_has():
    noise = RecordingNoise()
    budget = dg.Budget(1, "1e-6")
    dg.release(counted(pd.DataFrame({"a": ["x", "y", "x"], "b": ["p", "p", "p"]})), PrivateLevels(1, "1e-6"),
               budget=budget, noise=noise)  # fmt: skip
    assert [call.inputs.tolist() for call in noise.calls] == [[2, 1], [3]]


def test_what_does_not_fit_is_refused_uncharged():
    with pytest.raises(dg.errors.ReleaseError, match="need a delta"):
        PrivateLevels(1, 0)
    with pytest.raises(dg.errors.ReleaseError, match="above delta"):
        PrivateLevels("1e-9", "1e-3").plan(1, dg.PrivacyUnit())
    budget = dg.Budget(2, "1e-6", accounting="gdp")
    statistics = counted(pd.DataFrame({"a": ["x"] * 9}))
    with pytest.raises(dg.errors.ReleaseError, match="has no price for it"):
        dg.release(statistics, PrivateLevels(1, "1e-7"), budget=budget)
    with pytest.raises(dg.errors.ReleaseError, match="needs a method noisy"):
        dg.release(statistics, dg.LaplaceMechanism(1), budget=budget)
    with pytest.raises(dg.errors.ReleaseError, match="takes counts of words"):
        dg.release(dg.count(pd.DataFrame({"a": ["x"]}), dg.Network.of({"a": ["x"]}, {})), PrivateLevels(1, "1e-7"),
                   budget=budget)  # fmt: skip
    assert budget.events == ()
    with pytest.raises(TypeError, match="not pickled"):
        statistics.__reduce__()


def test_nulls_and_values_without_words_are_refused_in_words_of_the_declaration_alone():
    with pytest.raises(dg.errors.DomainError, match="'a' holds nulls; declare missing=True"):
        counted(pd.DataFrame({"a": ["secret", None]}))
    with pytest.raises(dg.errors.DomainError, match=r"'a' of type timestamp holds no words"):
        counted(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(dg.errors.DomainError, match=r"'a' of type struct holds no words") as caught:
        counted(pd.DataFrame({"a": [{"secret 731": 1}]}))  # the fields of a struct are contents of rows
    assert "731" not in str(caught.value)


def test_places_as_narrow_as_their_words_are_many_are_read():
    words = pa.array([f"w{i:03}" for i in range(128)])
    places = pa.array([*range(128), None], pa.int8())
    table = pa.table({"a": pa.DictionaryArray.from_arrays(places, words)})
    found = count_words(read_once(table, Columns({"a": None})), {"a": True}, None, None)
    assert len(found.sensitive_counts["a"]) == 128


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 2.5, 1.0], {"1": 2, "2.5": 1}),
        ([True, False, True], {"True": 2, "False": 1}),
        (pd.Categorical(["x", "y", "x"], categories=["x", "y", "unused"]), {"x": 2, "y": 1}),
        (["other", "missing", "x"], {"x": 1}),
    ],
)
def test_numbers_and_booleans_are_the_words_that_spell_them(values, found):
    assert dict(counted(pd.DataFrame({"a": values})).sensitive_counts["a"]) == found
