"""Whether intervals hold when the graph was chosen: without, and after choices that saw exact scores.

    python benchmarks/learned_coverage.py [--worlds 300] [--first 0] [--ways one] [--max-parents 2] [--seconds 600]

A world is a network of six variables of 2 or 3 levels: in a random order each has none, one or two parents among those
before it, and tables from a Dirichlet law of one concentration, .3 to 3; it has 100 to 500 rows and is learned at
epsilon .5 to 5 (all three uniform in their logarithm, by the world's number alone). zCDP at delta 1e-6, add-remove, n
private and not said. Four questions each: a variable by itself, a child given one of its parents, a variable given
another one, and a variable given two. Printed for each way: how often the 90 % interval of the posterior given the
release holds the answer of the network that the rows came from, the same in thirds of n epsilon, with the standard
error over worlds, the mean width of intervals, and processor seconds.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

import dpgraph as dg
from dpgraph.testing import SeededNoise

NAMES = tuple("abcdef")
WAYS: dict[str, dict[str, Any]] = {
    "one": {"method": "pairs"},
    "greedy": {"method": "greedy"},
}
QUESTIONS = ("alone", "parent", "another", "two given")


@dataclass(frozen=True)
class World:
    """A network with its probabilities, how many rows there are, epsilon, and four questions."""

    truth: dg.Probabilities
    rows: int
    epsilon: str
    questions: tuple[tuple[str, dict[str, int]], ...]


def world(number: int) -> World:
    """The world of a number."""
    rng = np.random.default_rng([18, number])
    levels = {name: list(range(rng.integers(2, 4))) for name in NAMES}
    order = [str(name) for name in rng.permutation(NAMES)]
    parents: dict[str, list[str]] = {}
    for i, name in enumerate(order):
        many = min(i, int(rng.integers(0, 3)))
        parents[name] = [str(one) for one in rng.choice(order[:i], many, replace=False)] if many else []
    if not any(parents.values()):
        parents[order[1]] = [order[0]]
    concentration, rows, epsilon = (
        float(np.exp(rng.uniform(*np.log(between)))) for between in ((0.3, 3), (100, 500), (0.5, 5))
    )
    tables = {}
    for name in NAMES:
        shape = [len(levels[one]) for one in parents[name]]
        drawn = rng.gamma(concentration, size=(len(levels[name]), *shape)) + 1e-12
        tables[name] = drawn / drawn.sum(axis=0)
    truth = dg.Probabilities(dg.Network.of(levels, parents), tables)

    def given(*names: str) -> dict[str, int]:
        return {name: int(rng.integers(len(levels[name]))) for name in names}

    child = str(rng.choice([name for name in NAMES if parents[name]]))
    others = [str(name) for name in rng.choice(NAMES, 6, replace=False)]
    questions = (
        (others[0], {}),
        (child, given(str(rng.choice(parents[child])))),
        (others[1], given(others[2])),
        (others[3], given(others[4], others[5])),
    )
    return World(truth, round(rows), f"{epsilon:.3f}", questions)


def held(
    number: int, way: str, graphs: str = "averaged", method: str = "auto", **settings: Any
) -> tuple[list[bool], list[float]]:
    """Whether each question's interval holds the truth, and how wide it is."""
    made = world(number)
    drawn = dg.sample_rows(made.truth, made.rows, np.random.default_rng([19, number]))
    learned = dg.learn_network(
        drawn, made.truth.network.domain, epsilon=made.epsilon, delta="1e-6", unit=dg.PrivacyUnit("add-remove"),
        noise=SeededNoise(number), **WAYS[way], **settings,
    )  # fmt: skip
    asked = graphs == "asked"
    draws = learned if asked else learned.posterior(graphs=graphs, method=method, draws=400, seed=number)
    inside, widths = [], []
    for target, given in made.questions:
        true = float(dg.query(made.truth, target, given).to_frame()["mean"].iloc[0])
        row = dg.query(draws, target, given, interval=0.9).to_frame().iloc[0]
        inside.append(bool(row["low"] <= true <= row["high"]))
        widths.append(float(row["high"] - row["low"]))
    return inside, widths


@click.command()
@click.option("--worlds", default=300, show_default=True)
@click.option("--first", default=0, show_default=True, help="The number of the first world.")
@click.option("--ways", default="one", show_default=True, help=f"Some of {', '.join(WAYS)}.")
@click.option("--graphs", default="averaged", show_default=True, help="averaged, chosen, or asked: as dg.query asks.")
@click.option("--method", default="auto", show_default=True, help="auto, or refitted, of the chosen graph.")
@click.option("--max-parents", type=int, help="The most parents of a variable; as many as cells allow unless given.")
@click.option("--seconds", default=600, show_default=True, help="After so many no further world is begun.")
def main(worlds: int, first: int, ways: str, graphs: str, method: str, max_parents: int | None, seconds: float) -> None:
    """Prints a row for each way."""
    warnings.simplefilter("ignore")
    for way in ways.split(","):
        started = time.process_time()
        found, widths, size = [], [], []
        for number in range(first, first + worlds):
            if time.process_time() - started > seconds:
                break
            inside, wide = held(number, way, graphs, method, constraints=dg.Constraints(max_parents=max_parents))
            found.append(inside)
            widths.append(wide)
            one = world(number)
            size.append(one.rows * float(one.epsilon))
        each = np.array(found, float)
        error = each.mean(axis=1).std() / len(each) ** 0.5
        print(f"{way}: worlds {first} to {first + len(each) - 1}, {time.process_time() - started:.0f} s")
        print("  " + ", ".join(f"{name} {share:.3f}" for name, share in zip(QUESTIONS, each.mean(axis=0), strict=True)))
        print(f"  together {each.mean():.3f} +- {error:.3f}, width {np.mean(widths):.3f}", end="")
        thirds = np.array_split(np.argsort(size), 3)
        print(", by n epsilon " + " ".join(f"{each[part].mean():.3f}" for part in thirds), flush=True)


if __name__ == "__main__":
    main()
