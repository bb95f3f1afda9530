"""The one place behind which rows are converted: nothing of what goes wrong in it comes out."""

import itertools
import threading
import warnings

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure import conversion
from dpgraph.structure.conversion import OURS, PublicWords, array_of, converted_each
from tests.privacy.hostile import CANARY, CanaryError, Named, repeated, said


def converted(convert, problem, **settings):
    with PublicWords(problem, **settings):
        return convert()


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


def test_a_silence_lasts_until_the_last_thread_has_left_it():
    """A thread that leaves first takes nobody else's silence with it; once it did."""
    inside, left = threading.Event(), threading.Event()

    def second():
        inside.set()
        assert left.wait(10)
        warnings.warn(CANARY, FutureWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other = threading.Thread(target=converted, args=(second, "a problem"))

        def first():
            other.start()
            assert inside.wait(10)

        converted(first, "a problem")
        left.set()
        other.join()
        assert caught == []
        warnings.warn("heard again", FutureWarning, stacklevel=1)
    assert [str(one.message) for one in caught] == ["heard again"]


def test_no_lock_is_held_during_a_silence():
    """The threads of a model of another library may run dpgraph's own code."""
    found = []

    def outer():
        inner = threading.Thread(target=lambda: found.append(converted(lambda: 1, "a problem")), daemon=True)
        inner.start()
        inner.join(10)

    converted(outer, "a problem")
    assert found == [1]


@pytest.mark.parametrize("quiet", [True, False])
def test_floating_point_errors_are_off(quiet):
    def overflow():
        return np.float64(1e308) * np.array([10.0])

    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert converted(overflow, "a problem", quiet=quiet) == [np.inf]
        with pytest.raises(FloatingPointError):
            overflow()


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
        lambda: dg.statistics.sufficient_statistics(ragged, dg.expfam.Exponential(), bounds=(0, 3)),
        lambda: dg.statistics.sufficient_statistics(ragged, dg.expfam.Multinomial([0, 1])),
        lambda: dg.statistics.regression_moments((ragged, [1.0] * 12347), dg.LinearDesign({"x": (0, 1)}, "y", (0, 1))),
        lambda: dg.PrivateNaiveBayes(dg.Domain.of({"x": [0, 1], "y": [0, 1]})).fit(ragged, ragged),
        lambda: dg.PrivateLinearRegression({"x": (0, 1)}, (0, 1)).fit(np.ones((12347, 1)), ragged),
    ):
        with pytest.raises(dg.errors.DomainError) as refusal:
            refuse()
        assert not repeated(said(refusal.value))


def test_a_silence_that_an_interruption_keeps_from_ending_ends_with_its_frame(recwarn):
    """Interrupted before the first line of its end, in another life of the same process."""
    warnings.simplefilter("always")
    conversion._SILENCES.add(conversion._Silence())  # nobody holds it
    converted(lambda: None, "no problem")
    warnings.warn("heard", UserWarning, stacklevel=1)
    assert [str(one.message) for one in recwarn] == ["heard"]
