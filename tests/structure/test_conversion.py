"""The one function behind which rows are converted: nothing of what goes wrong in it comes out."""

import itertools
import threading
import warnings

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure.conversion import OURS, array_of, converted, converted_each
from tests.privacy.hostile import CANARY, CanaryError, Named, repeated, said


def raising(error):
    def convert():
        raise error

    return convert


@pytest.mark.parametrize(
    "error",
    [ValueError(CANARY), MemoryError(CANARY), CanaryError(CANARY), Named(), dg.errors.DomainError(CANARY)],
    ids=repr,
)
def test_a_failure_is_refused_in_public_words(error):
    error.add_note(CANARY)
    with pytest.raises(dg.errors.DomainError, match="column 'age' must hold numbers") as refusal:
        converted(raising(error), "column 'age' must hold numbers")
    assert not repeated(said(refusal.value))
    assert refusal.value.__cause__ is refusal.value.__context__ is None


def test_what_dpgraph_itself_says_passes_without_context():
    def inner():
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise dg.errors.DomainError("public") from None

    with pytest.raises(dg.errors.DomainError, match=r"^public$") as refusal:
        converted(inner, "other words", passing=OURS)
    assert not repeated(said(refusal.value))


def test_interruptions_pass():
    for interruption in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(interruption)):
            converted(raising(interruption), "a problem")


def test_warnings_are_dropped_and_the_filters_come_back():
    before = list(warnings.filters)

    def warned():
        warnings.warn(CANARY, FutureWarning, stacklevel=1)
        return 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert converted(warned, "a problem") == 1
    assert caught == []
    threads = [threading.Thread(target=converted, args=(warned, "a problem")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_each_item_is_made_behind_it():
    def items():
        yield 1
        yield 2
        raise CanaryError(CANARY)

    found = converted_each(items(), "no more items")
    assert list(itertools.islice(found, 2)) == [1, 2]
    with pytest.raises(dg.errors.DomainError, match="no more items") as refusal:
        next(found)
    assert not repeated(said(refusal.value))
    assert list(converted_each(iter([None, 3]), "a problem")) == [None, 3]


def test_ragged_rows_do_not_say_how_many_they_are():
    ragged = [[1.0]] * 12346 + [[1.0, 2.0]]
    with pytest.raises(ValueError, match="12347"):  # what numpy says
        np.asarray(ragged)
    for refuse in (
        lambda: array_of(ragged, "a problem"),
        lambda: dg.sufficient_statistics(ragged, dg.expfam.Exponential(), bounds=(0, 3)),
        lambda: dg.sufficient_statistics(ragged, dg.expfam.Multinomial([0, 1])),
        lambda: dg.regression_moments((ragged, [1.0] * 12347), dg.LinearDesign({"x": (0, 1)}, "y", (0, 1))),
        lambda: dg.PrivateNaiveBayes(dg.Domain.of({"x": [0, 1], "y": [0, 1]})).fit(ragged, ragged),
        lambda: dg.PrivateLinearRegression({"x": (0, 1)}, (0, 1)).fit(np.ones((12347, 1)), ragged),
    ):
        with pytest.raises(dg.errors.DomainError) as refusal:
            refuse()
        assert not repeated(said(refusal.value))
