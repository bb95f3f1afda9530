"""What splits lose: the exact loss of private fits on training sets, beside what is charged for them.

Each fit releases the table of feature and label by Laplace noise at epsilon 1, so the supremum over all outputs of its
log ratio is the L1 distance of the two exact tables over the scale, 2 under replace and 1 under add-remove; the fits'
noises are independent, and their losses add. A local search looks for the data set and the row of it, replaced or
removed, with the largest sum: a lower bound of the supremum where the splitter reads rows or shuffles, and where it
does neither the last column says why the figure is exact.

    python benchmarks/splits.py [--rows 40] [--steps 1500] [--restarts 4]
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
LEVELS = 4


@dataclass(frozen=True)
class Pair:
    """Rows, and the row that a neighbour has replaced by (feature, label), or has not."""

    feature: Integers
    label: Integers
    row: int
    other: tuple[int, int]


def table(feature: Integers, label: Integers) -> Integers:
    """How often each feature and label meet."""
    return np.bincount(feature * 2 + label, minlength=2 * LEVELS)


def training_sets(splitter: Any, feature: Integers, label: Integers) -> list[Integers]:
    """The table of each training set."""
    return [table(feature[train], label[train]) for train, _ in splitter.split(feature, label)]


def neighbour(pair: Pair, unit: str) -> tuple[Integers, Integers]:
    """The rows of the other data set."""
    if unit == "add-remove":
        return np.delete(pair.feature, pair.row), np.delete(pair.label, pair.row)
    feature, label = pair.feature.copy(), pair.label.copy()
    feature[pair.row], label[pair.row] = pair.other
    return feature, label


def loss(splitter: Any, pair: Pair, unit: str) -> float:
    """The summed log ratios of one release at epsilon 1 on each training set."""
    ours = training_sets(splitter, pair.feature, pair.label)
    theirs = training_sets(splitter, *neighbour(pair, unit))
    return sum(np.abs(a - b).sum() for a, b in zip(ours, theirs, strict=True)) / (1 if unit == "add-remove" else 2)


def random_pair(rows: int, rng: np.random.Generator) -> Pair:
    """Rows and a neighbour without a thought."""
    other = (int(rng.integers(LEVELS)), int(rng.integers(2)))
    return Pair(rng.integers(0, LEVELS, rows), rng.integers(0, 2, rows), int(rng.integers(rows)), other)


def moved(pair: Pair, rng: np.random.Generator) -> Pair:
    """A few rows changed, at times the neighbour too."""
    feature, label, chosen = pair.feature.copy(), pair.label.copy(), random_pair(len(pair.feature), rng)
    places = rng.integers(0, len(feature), rng.integers(1, 4))
    feature[places], label[places] = chosen.feature[places], chosen.label[places]
    row = chosen.row if rng.random() < 0.2 else pair.row
    return Pair(feature, label, row, chosen.other if rng.random() < 0.2 else pair.other)


def largest_loss(splitter: Any, unit: str, rows: int, steps: int, restarts: int, seed: int = 0) -> float:
    """The largest loss that a local search finds."""
    best = 0.0
    for restart in range(restarts):
        rng = np.random.default_rng([seed, restart])
        here = random_pair(rows, rng)
        height = loss(splitter, here, unit)
        for _ in range(steps):
            there = moved(here, rng)
            found = loss(splitter, there, unit)
            if found >= height:
                here, height = there, found
        best = max(best, height)
    return best


def bootstrap_loss(rows: int, estimators: int, seed: int) -> int:
    """The loss of a bagging ensemble under replace: how often one row is copied into its training sets."""
    from sklearn.ensemble import BaggingClassifier
    from sklearn.tree import DecisionTreeClassifier

    labels = np.arange(rows) % 2
    ensemble = BaggingClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=estimators, random_state=seed)
    ensemble.fit(np.zeros((rows, 1)), labels)
    return int(np.bincount(np.concatenate(ensemble.estimators_samples_), minlength=rows).max())


def splitters() -> Iterator[tuple[str, str, Any, str]]:
    """A name, the unit, the splitter, and what its figure is."""
    from sklearn.model_selection import KFold, StratifiedKFold

    yield "StratifiedKFold(5)", "replace", StratifiedKFold(5), "found by search"
    shuffled = "found by search; grows with the rows"
    yield "StratifiedKFold(5), shuffled", "replace", StratifiedKFold(5, shuffle=True, random_state=0), shuffled
    yield "KFold(5)", "add-remove", KFold(5), "exact: the row in 4 sets, a row moved at each of 4 borders"
    yield "KFold(5), shuffled", "add-remove", KFold(5, shuffle=True, random_state=0), shuffled
    yield "KFold(5)", "replace", KFold(5), "exact: the row in 4 sets"
    yield "KFold(5), shuffled", "replace", KFold(5, shuffle=True, random_state=0), "exact: the row in 4 sets"


@click.command()
@click.option("--rows", default=40, show_default=True)
@click.option("--steps", default=1500, show_default=True)
@click.option("--restarts", default=4, show_default=True)
def main(rows: int, steps: int, restarts: int) -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")  # scikit-learn's, of classes with few members
    print(f"{rows} rows, {LEVELS} levels, 2 labels; {restarts} searches of {steps} steps\n")
    print("| splitter | unit | charged | lost | |\n|---|---|---|---|---|")
    for name, unit, splitter, remark in splitters():
        found = largest_loss(splitter, unit, rows, steps, restarts)
        print(f"| {name} | {unit} | 5 | {found:.1f} | {remark} |", flush=True)
    copies = [bootstrap_loss(rows, 10, seed) for seed in range(20)]
    remark = f"exact: copies of one row, the most of {len(copies)} seeds; median {sorted(copies)[len(copies) // 2]}"
    print(f"| BaggingClassifier(10) | replace | 10 | {max(copies)} | {remark} |")


if __name__ == "__main__":
    main()
