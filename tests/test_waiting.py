"""Long steps show that they run, at a terminal and if asked to; interrupted they leave nothing half done."""

import inspect
import io
import os
import signal
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph import waiting
from dpgraph.files import packed
from dpgraph.inference.network import by_tables
from dpgraph.inference.network import draws as network_draws
from dpgraph.privacy import noise as noise_module
from dpgraph.statistics import _kernels, contingency

pytestmark = pytest.mark.usefixtures("uncollected")

UNIT = dg.PrivacyUnit("replace")


class Terminal(io.StringIO):
    """A terminal, and an event that is set once something is written to it."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        found = super().write(text)
        self.written.set()
        return found


@pytest.fixture
def at_terminal(monkeypatch):
    """Makes stderr a terminal; to be called inside the test, as pytest takes stderr for itself before it."""

    def made():
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return made


@pytest.fixture
def bars(at_terminal, monkeypatch):
    """Makes stderr a terminal at which no bar is drawn; the words of each as it begins."""

    def made():
        words = []

        @contextmanager
        def told(bar):
            words.append(bar.desc.removesuffix(": "))
            yield

        at_terminal()
        monkeypatch.setattr(waiting, "_redrawn", told)
        return words

    return made


def test_a_step_shows_its_words_and_the_share_of_its_loop(at_terminal, monkeypatch):
    terminal = at_terminal()
    monkeypatch.setattr(waiting, "AFTER", 0.0)
    monkeypatch.setattr(waiting, "EVERY", 0.001)
    with waiting.waiting("releasing", True):
        assert terminal.written.wait(60)
        for number in waiting.counted(range(4)):
            if number == 2:  # until the thread that draws has been round again
                before = len(terminal.getvalue())
                while "50%" not in terminal.getvalue()[before:]:
                    terminal.written.clear()
                    assert terminal.written.wait(60)
    shown = terminal.getvalue()
    assert "releasing" in shown
    assert shown.endswith("\r")  # the line is cleared
    assert shown.split("\r")[-2].strip() == ""


def test_a_short_step_shows_nothing(at_terminal):
    terminal = at_terminal()
    with waiting.waiting("releasing", True):
        list(waiting.counted(range(3)))
    assert terminal.getvalue() == ""


def test_nothing_is_shown_unasked_or_where_nobody_looks(bars, monkeypatch):
    drawn = bars()
    with waiting.waiting("releasing", False):
        assert waiting._BAR.get() is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with waiting.waiting("releasing", True):
        assert waiting._BAR.get() is None
    assert drawn == []


def test_the_outermost_step_and_its_outermost_loop_count(bars):
    drawn = bars()
    seen = []
    with waiting.waiting("outer", True), waiting.waiting("inner", True):
        bar = waiting._BAR.get()
        for _ in waiting.counted(range(5)):
            for _ in waiting.counted(range(7)):
                seen.append((bar.n, bar.total))
        assert bar.total is None
    assert drawn == ["outer"]
    assert seen == [(outer, 5) for outer in range(5) for _ in range(7)]
    assert waiting._BAR.get() is None


def test_a_loop_that_is_left_counts_no_longer(bars):
    bars()
    with waiting.waiting("releasing", True):
        bar = waiting._BAR.get()
        left = waiting.counted(range(5))
        assert [number for number in left if number < 3 or left.close()] == [0, 1, 2]
        assert list(waiting.counted([8, 9])) == [8, 9]
        assert bar.total is None
    with pytest.raises(KeyboardInterrupt), waiting.waiting("saving", True):
        raise KeyboardInterrupt
    assert waiting._BAR.get() is None


NETWORK = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
ROWS = pd.DataFrame({name: np.arange(60) // k % 2 for name, k in zip("abc", (1, 2, 3), strict=True)})


@pytest.fixture
def released():
    return dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(5), budget=dg.Budget(5, unit=UNIT))


def _fitted(path):
    return dg.PrivateNaiveBayes({n: [0, 1] for n in "abc"}, target="c", epsilon=5).fit(ROWS[["a", "b"]], ROWS["c"])


#: Each public step that may take above two seconds, with its words; ``made`` is a release, ``path`` a file to write.
STEPS = {
    "release": (
        "releasing",
        lambda made, path: dg.release(
            dg.count(ROWS, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=UNIT), progress=True
        ),
    ),
    "privacy_cost": ("pricing", lambda made, path: dg.privacy_cost(NETWORK, epsilon=1, progress=True)),
    "posterior": ("fitting", lambda made, path: dg.posterior(made, progress=True, method="plug-in")),
    "posterior by tables": (
        "drawing",
        lambda made, path: dg.posterior(made, method="tables", draws=5, seed=0, progress=True),
    ),
    "save": ("saving", lambda made, path: dg.save(made, path / "made.json", progress=True)),
    "load": ("loading", lambda made, path: (dg.save(made, path / "m.npz"), dg.load(path / "m.npz", progress=True))),
    "sample_rows": (
        "sampling",
        lambda made, path: dg.sample_rows(dg.posterior(made, method="plug-in").mean(), 10, 0, progress=True),
    ),
    "write_html": ("writing a page", lambda made, path: dg.write_html(made, path / "made.html", progress=True)),
    "learn_network": (
        "learning a network",
        lambda made, path: dg.learn_network(ROWS, NETWORK.domain, epsilon=9, unit=UNIT, progress=True),
    ),
    "choose_network": ("choosing a graph", lambda made, path: dg.choose_network(made, progress=True)),
    "evaluate": (
        "judging",
        lambda made, path: dg.evaluate(
            _fitted(path), ROWS[["a", "b"]], ROWS["c"], epsilon=1, budget=dg.Budget(1), progress=True
        ),
    ),
    "cross_validate": (
        "cross-validating",
        lambda made, path: dg.cross_validate(
            dg.PrivateNaiveBayes({n: [0, 1] for n in "abc"}, target="c", inference="plug-in"),
            ROWS[["a", "b"]],
            ROWS["c"],
            epsilon=1,
            budget=dg.Budget(1),
            progress=True,
        ),
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.filterwarnings("ignore")
def test_every_long_step_has_a_bar(step, bars, released, tmp_path):
    drawn = bars()
    words, run = STEPS[step]
    assert "progress" in inspect.signature(getattr(dg, step.removesuffix(" by tables"))).parameters
    run(released, tmp_path)
    assert drawn == [words]


def test_choosing_again_has_a_bar(bars):
    learned = dg.learn_network(ROWS, NETWORK.domain, epsilon=9, unit=UNIT)
    drawn = bars()
    learned.alternatives(2, progress=True)
    assert drawn == ["choosing again"]


def test_shares_of_edges_have_a_bar_once(bars):
    """A property takes no ``progress``, and may take minutes."""
    learned = dg.learn_network(ROWS, NETWORK.domain, epsilon=9, unit=UNIT)
    drawn = bars()
    assert list(learned.edges.columns) == ["parent", "child", "strength", "share"]
    assert drawn == ["choosing again"]
    assert list(learned.edges.columns) == ["parent", "child", "strength", "share"]
    assert drawn == ["choosing again"]


def test_a_bar_says_nothing_of_rows(bars, monkeypatch):
    """What a release counts is the same for any rows: tables, or cells."""
    bars()
    totals = []
    monkeypatch.setattr(noise_module, "BLOCK", 2)
    monkeypatch.setattr(waiting, "_counted", lambda bar, items: totals.append(len(items)) or items)
    for rows in (ROWS, pd.concat([ROWS] * 50)):
        counts = dg.count(rows, NETWORK)
        for unit in (UNIT, dg.PrivacyUnit("add-remove")):
            dg.release(
                counts,
                dg.LaplaceMechanism(1, tables="families", noise="independent"),
                budget=dg.Budget(1, unit=unit),
                progress=True,
            )
    half = len(totals) // 2
    assert totals[:half] == totals[half:] != []


class Interrupting:
    """Calls a function, and is interrupted instead at its second call."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given, **settings):
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return self.function(*given, **settings)


def test_an_interrupted_save_leaves_what_was_there(released, tmp_path, monkeypatch):
    draws = dg.posterior(released, method="tables", draws=5, seed=0)
    (tmp_path / "draws.npz").write_bytes(b"before")
    monkeypatch.setattr(packed, "_stored", Interrupting(packed._stored))
    with pytest.raises(KeyboardInterrupt):
        dg.save(draws, tmp_path / "draws.npz")
    assert os.listdir(tmp_path) == ["draws.npz"]
    assert (tmp_path / "draws.npz").read_bytes() == b"before"


def test_interrupted_draws_leave_the_temporary_folder_empty(released, tmp_path, monkeypatch):
    monkeypatch.setenv("DPGRAPH_MEMORY", "5MB")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(by_tables, "HELD", 1 << 10)
    monkeypatch.setattr(network_draws, "dirichlet_draws", Interrupting(network_draws.dirichlet_draws))
    held = []
    monkeypatch.setattr(by_tables, "HeldDraws", lambda *given: held.append(by_held(*given)) or held[-1])
    with pytest.raises(KeyboardInterrupt):
        dg.posterior(released, method="tables", draws=100_000, seed=0)
    assert held[0].on_disk
    assert os.listdir(tmp_path) == []


by_held = by_tables.HeldDraws


def test_an_interrupted_draw_keeps_the_charge_that_it_was_drawn_for(monkeypatch):
    """Two stages of learning: the first is charged and drawn, the second is charged, its draw is interrupted."""
    budget = dg.Budget(4, unit=dg.PrivacyUnit("add-remove"))
    source = noise_module.SecureNoise()
    add = Interrupting(source.add)
    monkeypatch.setattr(noise_module.SecureNoise, "add", lambda self, *given: add(*given))
    with pytest.raises(KeyboardInterrupt):
        dg.learn_network(ROWS, NETWORK.domain, epsilon=4, budget=budget)
    assert len(budget.events) == 2  # the narrowest variable's table, then the pairs'
    assert budget.spent == 4
    assert add.calls == 2


def test_an_interrupted_cross_validation_is_charged_once_and_whole(monkeypatch):
    """An attacker who interrupts between two folds must not be able to try again for free."""
    budget = dg.Budget(2)
    fit = Interrupting(dg.PrivateNaiveBayes.fit)
    monkeypatch.setattr(dg.PrivateNaiveBayes, "fit", lambda self, *given: fit(self, *given))
    estimator = dg.PrivateNaiveBayes({n: [0, 1] for n in "abc"}, target="c", inference="plug-in")
    with pytest.raises(KeyboardInterrupt):
        dg.cross_validate(
            estimator,
            ROWS[["a", "b"]],
            ROWS["c"],
            epsilon=1,
            budget=budget,
            noise=dg.testing.SeededNoise(0),
        )
    assert budget.spent in (0, 1)
    assert not hasattr(estimator, "model_")


def test_threads_that_count_stop_between_two_blocks(monkeypatch):
    """A hundred blocks of rows in two threads; an interruption at the third is heard before many more are counted."""
    main, calls, whole = threading.get_ident(), [], threading.Event()
    slice_column, count_blocks = _kernels.slice_column, _kernels.count_blocks

    def counted(*given):
        calls.append(given)
        if len(calls) == 3:
            signal.pthread_kill(main, signal.SIGINT)
        if len(calls) > 3:
            whole.wait(0.05)
        count_blocks(*given)

    monkeypatch.setattr(_kernels, "compiled", lambda: (slice_column, counted))
    monkeypatch.setattr(contingency, "processors", lambda: 2)
    monkeypatch.setattr(contingency, "THREAD_VALUES", 1)
    monkeypatch.setattr(contingency, "MASKS", 1)
    rows = 100 * contingency.BLOCK
    with pytest.raises(KeyboardInterrupt):
        contingency.add_tables([np.zeros(rows, np.uint8)], [1], [(0,)], [np.zeros(1, np.int64)], fast=True)
    assert len(calls) < 50
