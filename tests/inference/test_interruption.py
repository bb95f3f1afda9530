"""Compiled loops run where no signal is heard, and stop where one was."""

import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import wait

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference import interruption
from dpgraph.inference.interruption import interruptible
from dpgraph.inference.network import by_tables

pytestmark = [pytest.mark.systems, pytest.mark.usefixtures("uncollected")]


def test_an_interruption_stops_the_work_and_is_raised_here():
    main, stopped = threading.get_ident(), []

    def work(stop):
        signal.pthread_kill(main, signal.SIGINT)
        stopped.append(stop.wait(30))
        time.sleep(0.2)
        stopped.append("ended")

    with pytest.raises(KeyboardInterrupt):
        interruptible(work)
    assert stopped == [True, "ended"]


def test_an_interruption_is_heard_whatever_handlers_of_signals_are_loaded():
    """Polars has the system begin waits again that a signal ended, unless they have a limit."""
    pytest.importorskip("polars")
    program = """
import polars, signal, threading, time
from dpgraph.inference.interruption import interruptible
main = threading.get_ident()
def work(stop):
    time.sleep(1)  # the main thread waits by then
    signal.pthread_kill(main, signal.SIGINT)
    print(stop.wait(30), flush=True)
interruptible(work)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "True\n")


def test_an_error_of_the_work_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda stop: 1 / 0)


def test_the_loops_of_a_log_run_in_another_thread(monkeypatch):
    """numba unpacks a generator with bytecode of Python's, and crashes where a signal makes that raise."""
    from dpgraph.inference.markov import sampler

    seen = set()
    real = sampler._Chain.sweep

    def told(*given):
        seen.add(threading.get_ident())
        return real(*given)

    monkeypatch.setattr(sampler._Chain, "sweep", told)
    log = pd.DataFrame({"region": ["N", "S"] * 30, "month": [1, 2, 3] * 20, "kind": ["a", "b"] * 30})
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    noise = dg.testing.SeededNoise(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dg.PrivateHMM(1, domain, epsilon=5, iterations=10, burn_in=5, noise=noise).fit(log)
    assert seen
    assert threading.get_ident() not in seen


def test_no_sweep_begins_once_an_interruption_is_heard(monkeypatch):
    """Two sampler chains of 4000 cells run in threads; what an interruption waits for is the sweep that has begun."""
    from dpgraph.inference import chains
    from dpgraph.inference.markov import sampler
    from dpgraph.inference.markov.evidence import cells_evidence
    from dpgraph.privacy.measurements import DiscreteLaplace

    main, stops, seen = threading.get_ident(), [], []

    def told(work):
        return interruptible(lambda stop: work(stops.append(stop) or stop))

    def progress(sweep):
        seen.append(sweep)
        if sweep == 2:
            signal.pthread_kill(main, signal.SIGINT)
            assert stops[-1].wait(30)

    monkeypatch.setattr(chains, "interruptible", told)
    rng = np.random.default_rng(0)
    given = cells_evidence(rng.integers(-3, 4, (4000, 1, 2)), (slice(0, 2),), [(DiscreteLaplace(1.0), 8000)] * 2)
    assert given.observed.size >= sampler.WORTH_THREADS
    with pytest.raises(KeyboardInterrupt):
        sampler.draw_markov(given, 2, rng=rng, iterations=5, burn_in=5, progress=progress)
    assert seen == [0, 1, 2]


def test_every_sweep_is_told_of_once():
    from dpgraph.inference.markov.evidence import cells_evidence
    from dpgraph.inference.markov.sampler import draw_markov
    from dpgraph.privacy.measurements import DiscreteLaplace

    rng, seen = np.random.default_rng(0), []
    given = cells_evidence(rng.integers(-3, 4, (5, 4, 2)), (slice(0, 2),), [(DiscreteLaplace(1.0), 40)] * 2)
    draw_markov(given, 2, rng=rng, iterations=4, burn_in=3, progress=seen.append)
    assert seen == list(range(7))


def test_draws_by_tables_run_in_a_thread_that_heeds_an_interruption(monkeypatch):
    """Their compiled loops take a random generator: the main thread must not be where numba unpacks it."""
    network = dg.Network.of({f"v{i}": [0, 1] for i in range(300)}, {})
    noisy = dg.release(
        dg.count(pd.DataFrame({f"v{i}": [0, 1] for i in range(300)}), network),
        dg.LaplaceMechanism(1),
        budget=dg.Budget(1, unit=dg.PrivacyUnit("replace")),
    )
    main, made, threads = threading.get_ident(), [], set()
    chain_of = by_tables.margin_chain

    def told(*given, **settings):
        threads.add(threading.get_ident())
        made.append(given)
        if len(made) == 3:
            signal.pthread_kill(main, signal.SIGINT)
            interrupted.wait(60)
        return chain_of(*given, **settings)

    interrupted = threading.Event()
    monkeypatch.setattr(interruption, "wait", lambda futures: interrupted.set() or wait(futures))
    monkeypatch.setattr(by_tables, "margin_chain", told)
    monkeypatch.setattr(by_tables, "ABREAST", 1)  # of several some would begin before they hear of it
    with pytest.raises(KeyboardInterrupt):
        dg.posterior(noisy, method="tables", draws=2, seed=0)
    assert main not in threads
    assert len(made) == 3


def test_side_by_side_begins_nothing_once_nobody_waits(monkeypatch):
    monkeypatch.setattr(interruption, "processors", lambda: 2)
    done, main = [], threading.get_ident()
    interrupted = threading.Event()
    monkeypatch.setattr(interruption, "wait", lambda futures: interrupted.set() or wait(futures))

    def work(item):
        done.append(item)
        if item == 2:
            signal.pthread_kill(main, signal.SIGINT)
        if item >= 2:
            interrupted.wait(60)

    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda stop: interruption.side_by_side(work, range(1000)))
    assert len(done) < 10


class Heard:
    """A flag that is 0 until it has been read so often, and what is drawn after that."""

    def __init__(self, reads):
        self.left, self.drawn = reads, 0

    def __getitem__(self, index):
        self.left -= 1
        return int(self.left < 0)


class Told:
    """A generator that tells a flag of each draw, once it is up."""

    def __init__(self, rng, flag):
        self._rng, self._flag = rng, flag

    def __getattr__(self, name):
        self._flag.drawn += self._flag.left < 0
        return getattr(self._rng, name)


def swept(monkeypatch, flag, weigh):
    """A sweep in plain Python over sixty cells, in parts of four, whose weights are asked of ``weigh``."""
    from dpgraph.inference.markov import loops
    from dpgraph.inference.markov.evidence import cells_evidence
    from dpgraph.inference.markov.sampler import latent_cells
    from dpgraph.privacy.measurements import DiscreteLaplace

    real, rng = loops.weights_of_few, np.random.default_rng(2)
    given = cells_evidence(
        np.random.default_rng(1).integers(-2, 12, (1, 60, 2)), (slice(0, 2),), [(DiscreteLaplace(2.0), 60)] * 2
    )
    states, transition, emissions = rng.integers(0, 2, (1, 60)), np.full((2, 2), 0.5), rng.dirichlet([2, 2], 2)
    cells = latent_cells(given, 2, np.maximum(given.values[0], 0), stop=flag)
    with monkeypatch.context() as patched:
        patched.setattr(loops, "PART", 4)
        patched.setattr(loops, "HEARD", 3)
        patched.setattr(loops, "weights_of_few", lambda *given: (weigh(), real(*given)))
        rng = Told(rng, flag) if isinstance(flag, Heard) else rng
        loops.sweep(rng, cells, states, transition, emissions, (1.0, 1.0, 1.0, 1.0), 2, 0.1)


def test_weights_are_left_once_nobody_waits(monkeypatch):
    """Of some fifteen parts the second is the last where the flag goes up in it."""
    flag, parts = np.zeros(1, np.int64), []

    def weigh():
        parts.append(len(parts))
        flag[0] = len(parts) == 2

    swept(monkeypatch, flag, weigh)
    assert len(parts) == 2
    parts.clear()
    swept(monkeypatch, np.zeros(1, np.int64), lambda: parts.append(0))
    assert len(parts) > 10


def test_a_sweep_ends_soon_wherever_it_is(monkeypatch):
    """Whichever look at the flag is the first to see it up, little follows: four cells take tens of numbers."""
    outcomes, reads = [], 0
    while True:
        flag, weighed = Heard(reads), []
        swept(monkeypatch, flag, lambda flag=flag, weighed=weighed: weighed.append(flag.left < 0))
        assert not any(weighed)
        outcomes.append(flag.drawn)
        if flag.left >= 0:
            break
        reads += 1
    assert len(outcomes) > 100
    assert max(outcomes) <= 60
