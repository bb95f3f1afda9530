"""What a step takes is known before it is taken; what there is no room for goes to a file or is refused."""

import os
import subprocess
import sys
import tracemalloc
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph import memory
from dpgraph.inference.graphs import choosing
from dpgraph.inference.graphs.constraints import constraints_within
from dpgraph.inference.markov.sampler import fit_bytes
from dpgraph.inference.network import by_normal, by_tables
from dpgraph.inference.network import draws as network_draws
from dpgraph.inference.network.plug_in import posterior_bytes
from dpgraph.inference.queries import contraction
from dpgraph.privacy.errors import DomainError, DPGraphError, FileError, InferenceError, ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.privacy.release import release_bytes
from dpgraph.statistics.counts import families
from dpgraph.statistics.moments import products_of
from dpgraph.statistics.summary import groups_bytes
from dpgraph.structure.tables import NoisyCounts
from dpgraph.testing import SeededNoise

pytestmark = pytest.mark.systems

#: How far an estimate may be from what was taken.
FACTOR = 2.5


def noisy_of(network, rows=1000, scale=50.0):
    """Counts of evenly spread rows, as if released."""
    tables = {}
    for family in network.maximal_families:
        cells = network.cells(family)
        tables[family] = np.full(cells, rows // cells).reshape(network.shape(family))
        tables[family].reshape(-1)[0] += rows - rows // cells * cells
    return NoisyCounts(network, tables, {family: DiscreteLaplace(scale) for family in tables}, n=rows)


def peak(step):
    """The most bytes that Python and NumPy held at once in a step."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def near(estimate, taken):
    return taken / FACTOR < estimate < taken * FACTOR


@pytest.fixture
def network():
    """Sixty binary variables, each with three random parents before it."""
    rng, names = np.random.default_rng(0), [f"v{i}" for i in range(60)]
    parents = {name: [names[j] for j in rng.choice(i, min(3, i), replace=False)] for i, name in enumerate(names)}
    return dg.Network.of({name: [0, 1] for name in names}, parents)


@pytest.fixture
def noisy(network, monkeypatch):
    """One sweep for each draw: how much memory draws take is asked, not whether they mix."""
    for name in ("THIN", "THIN_SMALL"):
        monkeypatch.setattr(by_tables, name, 1)
    return noisy_of(network)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4GB", 4e9), ("512 MiB", 512 << 20), ("1.5KB", 1500), ("17", 17), ("2TiB", 2 << 40), ("8B", 8)],
)
def test_sizes_are_read(text, number, monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, text)
    assert memory.limit(ReleaseError) == number


@pytest.mark.parametrize("text", ["much", "-4GB", "4 G B", "1e9", "GB", "4gb"])
@pytest.mark.parametrize("error", [ReleaseError, InferenceError])
def test_what_is_no_size_is_an_error_of_the_layer(text, error, monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, text)
    with pytest.raises(error, match="a size such as 4GB"):
        memory.check(1, "this", "do that", error)


def test_by_default_half_of_what_is_free(monkeypatch):
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    monkeypatch.setattr(memory, "free", lambda: 1e9)
    memory.check(0.49e9, "this", "do that", ReleaseError)
    with pytest.raises(ReleaseError, match=r"this would take about 600\.0 MB of memory, more than half .*: do that"):
        memory.check(0.6e9, "this", "do that", ReleaseError)


def test_a_container_has_less(tmp_path):
    assert memory._container(tmp_path) == np.inf
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert memory._container(tmp_path) == 700
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._container(tmp_path) == np.inf


def test_a_release_is_refused_before_it_is_charged(network, monkeypatch):
    counts = dg.count(pd.DataFrame({name: [0, 1] for name in network.domain.names}), network)
    budget = dg.Budget(epsilon=1)
    mechanism = dg.LaplaceMechanism(epsilon=1)
    needed = release_bytes(mechanism.event(network, budget.unit))
    monkeypatch.setenv(memory.VARIABLE, str(needed - 1))
    with pytest.raises(ReleaseError, match=r"this release would take about .*fewer or smaller tables"):
        dg.release(counts, mechanism, budget=budget)
    assert budget.spent == 0
    monkeypatch.setenv(memory.VARIABLE, str(needed))
    dg.release(counts, mechanism, budget=budget)
    assert budget.spent == 1


TAKEN = """
import re, sys, pandas as pd, dpgraph as dg
from dpgraph.privacy.release import release_bytes

def most():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])

def released(levels):
    network = dg.Network.of({"a": list(range(levels)), "b": list(range(levels))}, {"b": ["a"]})
    counts = dg.count(pd.DataFrame({"a": [0], "b": [0]}), network)
    unit, mechanism = dg.PrivacyUnit(sys.argv[1]), dg.LaplaceMechanism(epsilon=1)
    estimate = release_bytes(mechanism.event(network, unit))
    before = most()
    dg.release(counts, mechanism, budget=dg.Budget(epsilon=1, unit=unit))
    return estimate, most() - before

released(10)
print(*released(400))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_estimate_of_a_release(neighbours):
    """Of one table of 160 000 cells in a process of its own, as the numbers on the way are OpenDP's too."""
    told = subprocess.run(
        [sys.executable, "-c", TAKEN, neighbours], capture_output=True, text=True, check=True, env=os.environ
    ).stdout
    assert near(*map(int, told.split()))


def test_the_estimate_of_a_posterior(noisy):
    dg.posterior(noisy, method="plug-in")  # what is kept from call to call
    assert near(posterior_bytes(noisy.network), peak(lambda: dg.posterior(noisy, method="plug-in")))


def test_a_posterior_is_refused_by_its_figure(noisy, monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, str(posterior_bytes(noisy.network) - 1))
    with pytest.raises(InferenceError, match="this posterior would take about"):
        dg.posterior(noisy, method="plug-in")


@pytest.mark.filterwarnings("ignore::dpgraph.inference.draws.ConvergenceWarning")
@pytest.mark.parametrize("method", ["tables", "normal"])
def test_the_estimate_of_draws(method, noisy, monkeypatch):
    monkeypatch.setattr(by_tables, "ABREAST", 1)
    network, draws = noisy.network, 400
    largest = max(map(network.cells, network.families))
    at_once = draws * largest if method == "tables" else by_normal._steps(network, draws)[1]
    dg.posterior(noisy, method=method, draws=2, seed=0)  # what is loaded and kept from call to call
    taken = peak(lambda: dg.posterior(noisy, method=method, draws=draws, seed=0))
    assert near(sum(network_draws.draws_bytes(network, draws, at_once)), taken)


@pytest.mark.filterwarnings("ignore::dpgraph.inference.draws.ConvergenceWarning")
@pytest.mark.parametrize("method", ["tables", "normal"])
def test_draws_on_disk_are_those_in_memory(method, noisy, monkeypatch, tmp_path):
    """In single precision; means in full, questions and files as ever, and the temporary folder left as it was."""
    monkeypatch.setattr(network_draws.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(by_tables, "ABREAST", 1)
    whole = dg.posterior(noisy, method=method, draws=400, seed=3)
    kept, working = network_draws.draws_bytes(noisy.network, 400, 400 * 16)
    if method == "normal":
        monkeypatch.setattr(network_draws, "WORKING", 0)
    monkeypatch.setenv(memory.VARIABLE, str(working + kept // 2))
    held = dg.posterior(noisy, method=method, draws=400, seed=3)
    monkeypatch.delenv(memory.VARIABLE)
    assert all(isinstance(table, np.memmap) and table.dtype == np.float32 for table in held.tables.values())
    assert not list(tmp_path.iterdir())
    for name in noisy.network.domain.names:
        assert np.allclose(held.flat(name), whole.flat(name), rtol=2e-7, atol=1e-12)
        assert np.allclose(held.flat(name).sum(axis=1), 1, rtol=0, atol=1e-12)
        assert np.array_equal(held.mean().tables[name], whole.mean().tables[name])
        assert np.allclose(held[7].tables[name], whole[7].tables[name], rtol=2e-7, atol=1e-12)
    last = noisy.network.domain.names[-1]
    assert np.allclose(dg.query(held, last).draws, dg.query(whole, last).draws, rtol=0, atol=1e-5)
    dg.save(held, tmp_path / "held.npz")
    again = dg.load(tmp_path / "held.npz")
    assert np.allclose(again.flat(last), whole.flat(last), rtol=2e-7, atol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        held.tables[last][0, 0] = 0


def test_draws_that_fit_nowhere_are_refused(noisy, monkeypatch):
    monkeypatch.setattr(by_tables, "ABREAST", 1)
    kept, working = network_draws.draws_bytes(noisy.network, 400, 400 * 16)
    monkeypatch.setenv(memory.VARIABLE, str(working))
    monkeypatch.setattr(network_draws.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(InferenceError, match=r"of memory or .* of the temporary folder, which has less free: ask"):
        dg.posterior(noisy, method="tables", draws=400)
    monkeypatch.setenv(memory.VARIABLE, str(working - 1))
    with pytest.raises(InferenceError, match="each step of these draws would take"):
        dg.posterior(noisy, method="tables", draws=400)
    assert kept > working / 10


@pytest.mark.filterwarnings("ignore::dpgraph.inference.draws.ConvergenceWarning")
def test_a_question_in_small_blocks_has_the_same_answer(noisy, monkeypatch):
    drawn = dg.posterior(noisy, method="tables", draws=300, seed=1)
    names = noisy.network.domain.names
    whole = dg.query(drawn, list(names[-3:]), {names[0]: 1})
    sizes, plain = [], contraction._normalised

    def seen(one, tables, codes, evidence, draws):
        sizes.append(len(range(*draws.indices(300))))
        return plain(one, tables, codes, evidence, draws)

    monkeypatch.setattr(contraction, "_normalised", seen)
    ask = partial(dg.query, drawn, list(names[-3:]), {names[0]: 1})
    ask()
    most = max(sizes)
    sizes.clear()
    monkeypatch.setenv(memory.VARIABLE, "1KB")
    small = ask()
    assert max(sizes) == 1 < most
    assert np.allclose(small.draws, whole.draws, rtol=1e-12, atol=0)


def test_nothing_of_a_refusal_is_of_the_rows(monkeypatch):
    """What is free depends on whatever lies in memory: only a limit that was declared is named."""
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    said = set()
    for free in (1e8, 1.5e8):
        monkeypatch.setattr(memory, "free", lambda free=free: free)
        with pytest.raises(FileError) as refused:
            memory.check(1e9, "this", "do that", FileError)
        said.add(str(refused.value))
    assert said == {
        "this would take about 1.0 GB of memory, more than half of the memory that is free: do that, or set "
        "DPGRAPH_MEMORY"
    }


NAMES = [f"v{i}" for i in range(6)]
LEARNED = dg.Domain.of({name: [0, 1, 2] for name in NAMES})


def rows_of(names=NAMES, rows=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.integers(3, size=rows) for name in names})


def naive_bayes(budget, **settings):
    rows = rows_of()
    model = dg.PrivateNaiveBayes(LEARNED, budget=budget, noise=SeededNoise(1), target="v0", **settings)
    return model.fit(rows.drop(columns="v0"), rows["v0"])


def learned(budget, **settings):
    return dg.learn_network(rows_of(), LEARNED, epsilon=1, budget=budget, noise=SeededNoise(1), **settings)


def sampled(budget):
    network = dg.Network.of(LEARNED, {name: NAMES[max(0, i - 2) : i] for i, name in enumerate(NAMES)})
    mechanism = dg.PosteriorSample(1, draws=50, grid=11)
    return dg.release(dg.count(rows_of(), network), mechanism, budget=budget, noise=SeededNoise(1))


def hidden_markov(budget, **settings):
    log = pd.DataFrame({"region": ["N", "S"] * 60, "month": [0, 1, 2] * 40, "kind": ["a", "b"] * 60})
    domain = dg.Domain.of({"region": ["N", "S"], "month": range(12), "kind": ["a", "b"]})
    return dg.PrivateHMM(2, domain, budget=budget, noise=SeededNoise(1), **settings).fit(log)


SPENDERS = {
    "hidden Markov": (partial(hidden_markov, iterations=30, burn_in=5), "replace"),
    "hidden Markov, plug-in": (partial(hidden_markov, inference="plug-in", iterations=30, burn_in=5), "replace"),
    "naive Bayes": (partial(naive_bayes, random_state=0), "replace"),
    "naive Bayes, plug-in": (partial(naive_bayes, inference="plug-in"), "replace"),
    "pairs": (partial(learned, method="pairs"), "replace"),
    "pairs, n private": (partial(learned, method="pairs"), "add-remove"),
    "greedy": (partial(learned, method="greedy"), "replace"),
    "posterior sample": (sampled, "replace"),
}


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.filterwarnings("ignore::dpgraph.inference.draws.ConvergenceWarning")
@pytest.mark.parametrize("name", SPENDERS)
def test_what_is_refused_for_memory_is_not_charged(name, monkeypatch):
    """Limits that double from next to nothing on: nothing is charged until one is enough, and then all of it is."""
    run, neighbours = SPENDERS[name]
    outcomes = []
    for power in range(8, 27):
        monkeypatch.setenv(memory.VARIABLE, str(1 << power))
        budget = dg.Budget(1, unit=dg.PrivacyUnit(neighbours))
        try:
            run(budget)
        except DPGraphError as refused:
            outcomes.append((memory.VARIABLE in str(refused), budget.spent))
        else:
            outcomes.append((True, budget.spent))
            break
    assert len(outcomes) > 1
    assert outcomes == [*[(True, 0)] * (len(outcomes) - 1), (True, 1)]


@pytest.mark.parametrize("inference", ["plug-in", "noise-aware"])
def test_a_refused_fit_leaves_the_earlier_one(monkeypatch, inference):
    rows = rows_of()
    model = dg.PrivateNaiveBayes(LEARNED, target="v0", inference=inference, budget=dg.Budget(2))
    model.fit(rows.drop(columns="v0"), rows["v0"])
    before = model.model_
    monkeypatch.setenv(memory.VARIABLE, "1KB")
    with pytest.raises(InferenceError, match="would take about"):
        model.fit(rows.drop(columns="v0"), rows["v0"])
    assert model.model_ is before
    assert model.budget.spent == 1


@pytest.mark.parametrize(("levels", "parents", "draws"), [(2, 2, 100), (3, 1, 400)])
def test_the_estimate_of_posterior_samples(levels, parents, draws):
    names = [f"v{i}" for i in range(20)]
    network = dg.Network.of(
        {name: range(levels) for name in names}, {name: names[max(0, i - parents) : i] for i, name in enumerate(names)}
    )
    counts = dg.count(pd.DataFrame({name: [0, 1] for name in names}), network)
    mechanism, unit = dg.PosteriorSample(1000, draws=draws, grid=11), dg.PrivacyUnit("replace")
    mechanism.randomise(counts, unit, SeededNoise(0))  # what is kept from call to call
    # of little memory: the least of three, as what ends of earlier tests takes meanwhile is counted too
    taken = min(peak(lambda: mechanism.randomise(counts, unit, SeededNoise(0))) for _ in range(3))
    assert near(mechanism.working_bytes(network), taken)


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.parametrize(("variables", "levels"), [(30, 2), (12, 8)])
def test_the_estimate_of_choosing_a_graph(variables, levels):
    """Of pairs that were measured, all of which depend; families and the tree are counted at their most cells."""
    domain = dg.Domain.of({f"v{i}": range(levels) for i in range(variables)})
    pairs, rows = dg.all_pairs(domain), 5000
    alike = np.full((levels, levels), rows // levels // (levels + 1)) + np.eye(levels, dtype=int) * (
        rows // levels // (levels + 1)
    )
    tables = dict.fromkeys(pairs.tables, alike)
    noisy = NoisyCounts(pairs, tables, {table: DiscreteLaplace(2.0) for table in tables}, n=None)
    constraints = constraints_within(dg.Constraints(max_parents=1), domain)
    choosing.choose_within(noisy, constraints)
    taken = peak(lambda: choosing.choose_within(noisy, constraints))
    assert near(choosing.choosing_bytes(constraints), taken)


@pytest.mark.filterwarnings("ignore::dpgraph.inference.draws.ConvergenceWarning")
@pytest.mark.parametrize(("sequences", "steps", "draws"), [(3000, 1, 100), (20, 150, 20)])
def test_the_estimate_of_hidden_markov_models(sequences, steps, draws):
    domain = dg.Domain.of({"region": range(sequences), "month": range(steps), "kind": list("abcd")})
    network = dg.hmm_network(domain, "region", "month")
    rng = np.random.default_rng(3)
    log = pd.DataFrame({name: rng.integers(k, size=6000) for name, k in domain.sizes.items()})
    log["kind"] = np.array(list("abcd"))[log["kind"]]
    noisy = dg.release(dg.count(log, network), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=SeededNoise(1))
    fit = partial(dg.fit_hmm, noisy, 2, sequence="region", time="month", burn_in=2, seed=1)
    fit(iterations=2)
    taken = peak(lambda: fit(iterations=draws))
    assert near(fit_bytes((sequences, steps), 4, 2, chains=2, draws=draws), taken)


def test_the_estimate_of_groups(monkeypatch):
    names = [f"v{i}" for i in range(8)]
    parents = {name: names[max(0, i - 2) : i] for i, name in enumerate(names)}
    network = dg.Network.of({name: range(10) for name in names}, parents)
    rows = pd.DataFrame({name: [0, 1] for name in [*names, "group"]})
    groups = dg.Domain.of({"group": range(100)})
    count = partial(dg.statistics.count_groups, rows, network, "group", domain=groups)
    count()
    taken = peak(count)
    needed = groups_bytes(families(network), 100)
    assert near(needed, taken)
    monkeypatch.setenv(memory.VARIABLE, str(needed - 1))
    with pytest.raises(DomainError, match="counts of 100 groups would take about"):
        count()


def test_the_estimate_of_sums_of_groups(monkeypatch):
    names = [f"x{i}" for i in range(80)]
    design = dg.LinearDesign(dict.fromkeys(names, (0, 1)), "y", (0, 1))
    rows = pd.DataFrame({name: [0.0, 1.0] for name in [*names, "y"]}).assign(group=[0, 1])
    groups = dg.Domain.of({"group": range(400)})
    summed = partial(dg.statistics.count_groups, rows, design, "group", domain=groups)
    summed()
    needed = groups_bytes(products_of(design), 400)
    assert near(needed, peak(summed))
    monkeypatch.setenv(memory.VARIABLE, str(needed - 1))
    with pytest.raises(DomainError, match="sums of 400 groups would take about"):
        summed()
