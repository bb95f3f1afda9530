"""Long steps in blocks: an interruption is heard between two of them, and what has not begun never does."""

import signal
import threading

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference import interruption
from dpgraph.inference.interruption import side_by_side
from dpgraph.privacy import noise as noise_module

pytestmark = pytest.mark.usefixtures("uncollected")


class Interrupted:
    """Calls a function, and interrupts the main thread at the third call."""

    def __init__(self, function):
        self.function, self.calls, self.main = function, 0, threading.get_ident()

    def __call__(self, *given, **settings):
        self.calls += 1
        if self.calls == 3:
            signal.pthread_kill(self.main, signal.SIGINT)
        return self.function(*given, **settings)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_release_hears_an_interruption_between_two_blocks_of_noise(neighbours, monkeypatch):
    """200 cells in blocks of 2 are a hundred calls; at most one more is made, and what was charged stays charged."""
    network = dg.Network.of({"a": list(range(20)), "b": list(range(10))}, {"b": ["a"]})
    counts = dg.count(pd.DataFrame({"a": [0, 1], "b": [0, 1]}), network)
    draw = noise_module._laplace
    interrupted = Interrupted(draw(2.0))
    monkeypatch.setattr(noise_module, "BLOCK", 2)
    budget = dg.Budget(epsilon=1, unit=dg.PrivacyUnit(neighbours))
    mechanism = dg.LaplaceMechanism(1)
    mechanism.event(network, budget.unit)  # what calibrates scales is known before draws are counted
    monkeypatch.setattr(noise_module, "_laplace", lambda scale: interrupted)
    with pytest.raises(KeyboardInterrupt):
        dg.release(counts, mechanism, budget=budget)
    assert interrupted.calls in (3, 4)
    assert budget.spent == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_has_not_begun_never_does(threads, monkeypatch):
    monkeypatch.setattr(interruption, "processors", lambda: threads)
    waited = threading.Event()

    def work(item):
        if item > 2:
            waited.wait(0.2)
        return item

    interrupted = Interrupted(work)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(interrupted, range(1000))
    assert interrupted.calls < 100
