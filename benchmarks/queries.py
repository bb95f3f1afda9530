"""Questions of networks beside pgmpy's variable elimination, and how often their intervals hold the truth.

Times are the median over questions of the best of several runs, both sides warmed up; both answer the same questions,
and the answers are compared. Coverage: simulated worlds with true tables from the prior, rows, a release with Laplace
noise, draws, and six questions of each world.

    python benchmarks/queries.py [--questions 10] [--repeat 3]
    python benchmarks/queries.py --coverage --worlds 100
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import click
import numpy as np

import dpgraph as dg
from dpgraph.inference.queries.contraction import MOST_CELLS, _plan, _Same, ancestors
from dpgraph.inference.queries.question import read_evidence
from dpgraph.inference.queries.tables import DrawnTables

PACKAGES = ("numpy", "pgmpy")
QUESTIONS = ("conditional", "joint", "do", "contrast", "expectation", "information")


@click.command()
@click.option("--questions", default=10, show_default=True, help="Random questions of each network.")
@click.option("--repeat", default=3, show_default=True, help="Runs of each; the best counts.")
@click.option("--coverage", is_flag=True, help="Coverage of intervals instead of times.")
@click.option("--worlds", default=100, show_default=True, help="Simulated worlds of each line of the coverage.")
@click.option("--seed", default=0, show_default=True)
def main(questions: int, repeat: int, coverage: bool, worlds: int, seed: int) -> None:
    """Prints one table."""
    warnings.simplefilter("ignore")
    print(f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()},", *(f"{p} {version(p)}" for p in PACKAGES))
    if coverage:
        covered(worlds, seed)
        return
    print("\nseconds a question, median over questions of the best run; evidence on 0 to 4 variables. made: pgmpy, its")
    print("model and engine made for the question, as each posterior draw needs it; pgmpy: its engine made once")
    print(
        f"{'network':12}{'made':>10}{'pgmpy':>10}{'one':>10}{'x':>7}{'draws':>7}{'all draws':>11}{'largest':>10}"
        f"{'error':>9}"
    )
    for name, draws in (("alarm", 1000), ("insurance", 1000), ("hailfinder", 1000)):
        timed(name, draws, questions, repeat, seed)
    ancestral("munin", 200, questions, repeat, seed)
    batch(repeat, seed)


def timed(name: str, draws: int, questions: int, repeat: int, seed: int) -> None:
    """One network beside pgmpy."""
    value, rng = dg.load(f"example:{name}"), np.random.default_rng(seed)
    many, engine = scattered(value, draws, rng), elimination(value)
    rows = []
    for _ in range(questions):
        target, given = question(value, rng)
        words = {key: str(level) for key, level in given.items()}

        def theirs(target: str = target, words: Any = words) -> Any:
            return engine.query([target], words, show_progress=False)

        found, mine = theirs(), dg.query(value, target, given)
        order = [found.state_names[target].index(str(level)) for level in value.network.domain.levels(target)]
        error = np.abs(mine.draws[0] - found.values[order]).max()
        one, all_ = (lambda t=target, g=given: dg.query(value, t, g)), (lambda t=target, g=given: dg.query(many, t, g))
        rows.append([best(theirs, repeat), best(one, 3 * repeat), best(all_, repeat), error])
    pgmpy, single, batch_, errors = map(np.array, zip(*rows, strict=True))
    first = time.perf_counter()
    elimination(value).query([target], words, show_progress=False)
    made = time.perf_counter() - first
    print(
        f"{name:12}{made:10.3f}{np.median(pgmpy):10.5f}{np.median(single):10.5f}{np.median(pgmpy / single):7.0f}"
        f"{draws:7d}{np.median(batch_):11.4f}{batch_.max():10.4f}{errors.max():9.1e}"
    )


def ancestral(name: str, draws: int, questions: int, repeat: int, seed: int) -> None:
    """A large network: questions of width up to 6, of whatever part of it they need; pgmpy is not run."""
    value, rng = dg.load(f"example:{name}"), np.random.default_rng(seed)
    network, rows, all_draws = value.network, [], []
    while len(rows) < questions:
        target, given = question(value, rng)
        evidence = read_evidence(network, given)
        plan = _plan(_Same(network), (target,), (tuple(evidence.levels), (), ()), False, True)
        if max(one.width for one in plan) > 6 or max(one.cells for one in plan) > MOST_CELLS:
            continue
        needed = ancestors(network, [target, *given])
        many = scattered(value, draws, rng, needed)
        rows.append(best(lambda t=target, g=given: dg.query(value, t, g), repeat))
        all_draws.append(best(lambda m=many, t=target, g=given: dg.query(m, t, g), repeat))
    print(
        f"{name:12}{'-':>10}{'-':>10}{np.median(rows):10.5f}{'-':>7}{draws:7d}{np.median(all_draws):11.4f}{max(all_draws):10.4f}"
    )


def batch(repeat: int, seed: int) -> None:
    """10 000 rows of evidence on alarm: sampled from it, few of them distinct, and drawn evenly from all levels."""
    value, rng = dg.load("example:alarm"), np.random.default_rng(seed)
    domain = value.network.domain
    names = [str(name) for name in rng.permutation(domain.names)]
    sampled = dg.sample_rows(value, 10_000, rng)[names[1:6]].astype(str)
    levels = {name: rng.choice(np.array(domain.levels(name), dtype=str), 10_000) for name in names[1:21]}
    print()
    for rows in (sampled, sampled.assign(**levels)):
        seconds = best(lambda rows=rows: dg.query_rows(value, names[0], rows), repeat)
        distinct = len(rows.drop_duplicates())
        print(f"10 000 rows of evidence on alarm, {rows.shape[1]} columns: {seconds:.3f} s, {distinct} distinct")


def question(value: Any, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """A target, and levels of up to four variables in a row that the network draws."""
    names = [str(name) for name in rng.permutation(value.network.domain.names)]
    row = dg.sample_rows(value, 1, rng).iloc[0]
    return names[0], {name: row[name] for name in names[1 : 1 + int(rng.integers(0, 5))]}


def scattered(value: Any, draws: int, rng: np.random.Generator, names: Any = None) -> DrawnTables:
    """Draws about a network's tables: columns with the Dirichlet law of 100 rows."""
    tables: dict[str, Any] = {}
    for name, table in value.tables.items():
        if names is not None and name not in names:
            tables[name] = np.broadcast_to(table, (draws, *table.shape))
            continue
        made = rng.standard_gamma(100 * table + 0.1, (draws, *table.shape)) + 1e-12
        tables[name] = made / made.sum(axis=1, keepdims=True)
    return DrawnTables(value.network, tables)


def elimination(value: Any) -> Any:
    """pgmpy's engine, made once."""
    from pgmpy.inference import VariableElimination

    return VariableElimination(dg.to_pgmpy(value))


def best(run: Callable[[], Any], repeat: int) -> float:
    """Seconds of the best of several runs, after one that warms up."""
    run()
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def covered(worlds: int, seed: int) -> None:
    """The share of worlds in which 90 % intervals hold the truth, by question; the plug-in posterior beside it."""
    print(f"\nn 1000, {worlds} worlds a line: share of 90 % intervals that hold, noise-aware / plug-in posterior")
    print(f"{'network':10}{'epsilon':>8}" + "".join(f"{name:>16}" for name in QUESTIONS))
    for name in ("asia", "survey", "random"):
        network = random_network(seed) if name == "random" else dg.read_network(f"example:{name}")
        for epsilon in (0.5, 2):
            held = np.zeros((2, len(QUESTIONS)))
            for world in range(worlds):
                held += world_of(network, epsilon, np.random.default_rng([seed, world, int(10 * epsilon)]), world)
            shown = "".join(f"{a / worlds:9.3f} /{b / worlds:5.3f}" for a, b in held.T)
            print(f"{name:10}{epsilon:8}{shown}", flush=True)


def world_of(network: Any, epsilon: float, rng: np.random.Generator, world: int) -> np.ndarray:
    """Which intervals hold in one world: axes (noise-aware and plug-in, question)."""
    tables = {name: rng.standard_gamma(1.0, network.shape(network.family(name))) for name in network.domain.names}
    truth = dg.Probabilities(network, {name: table / table.sum(axis=0) for name, table in tables.items()})
    rows = dg.sample_rows(truth, 1000, rng)
    noise, budget = dg.testing.SeededNoise(int(rng.integers(2**32))), dg.Budget(epsilon)
    release = dg.release(dg.count(rows, network), dg.LaplaceMechanism(epsilon), budget=budget, noise=noise)
    posteriors = dg.posterior(release, draws=500, seed=world), dg.posterior(release, method="plug-in")
    found = np.zeros((2, len(QUESTIONS)))
    for place, ask in enumerate(six(network, rng)):
        exact = ask(truth).mean[0]
        for side, posterior in enumerate(posteriors):
            answer = ask(posterior)
            found[side, place] = answer.low[0] <= exact <= answer.high[0]
    return found


def six(network: Any, rng: np.random.Generator) -> list[Callable[[Any], Any]]:
    """A conditional two steps apart, a joint, a do, a contrast, an expectation and a mutual information."""
    domain, children = network.domain, [name for name in network.order if network.parents[name]]
    pairs = [(low, top) for low in children for mid in network.parents[low] for top in network.parents[mid]]
    low, top = pairs[int(rng.integers(len(pairs)))] if pairs else (children[0], network.parents[children[0]][0])
    child = children[int(rng.integers(len(children)))]
    parent = network.parents[child][0]
    first, second = domain.levels(top)[:2]
    number = {level: place for place, level in enumerate(domain.levels(low))}
    return [
        lambda model: dg.query(model, {low: domain.levels(low)[0]}, {top: first}),
        lambda model: dg.query(model, {low: domain.levels(low)[0], top: second}),
        lambda model: dg.query(model, {child: domain.levels(child)[0]}, do={parent: domain.levels(parent)[0]}),
        lambda model: dg.questions.contrast(model, {low: domain.levels(low)[0]}, {top: first}, {top: second}),
        lambda model: dg.expectation(model, low, {top: second}, values=number),
        lambda model: dg.questions.mutual_information(model, child, parent),
    ]


def random_network(seed: int) -> Any:
    """Eight variables of two or three levels, each with up to two parents before it."""
    rng = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(8)]
    levels = {name: [f"l{j}" for j in range(int(rng.integers(2, 4)))] for name in names}
    parents = {
        name: [names[int(j)] for j in rng.choice(k, size=min(k, int(rng.integers(1, 3))), replace=False)]
        for k, name in enumerate(names)
    }
    return dg.Network.of(levels, parents)


if __name__ == "__main__":
    main()
