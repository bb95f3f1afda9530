"""How often the intervals of an evaluation hold the population's scores, and how near its accuracy is on Adult.

Simulated worlds: a population of known scores, n held-out rows drawn from it, one release, intervals at 90 %. The
worlds that settings were chosen on and the worlds they are judged on differ in their populations, sizes and seeds.

    python benchmarks/evaluation.py judge      # choose: the other worlds; adult: real rows, where they are there; bins
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

import dpgraph as dg
from dpgraph.estimators.evaluation import evaluation_of, outcomes
from dpgraph.statistics.moments import Moments, classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.structure.moments import Classification, Entries, Regression

ADULT = Path(__file__).parents[2] / "shared/data/adult.csv"
ATOMS, TENTHS = 4001, (0.6, 0.7, 0.8, 0.9)


class World(NamedTuple):
    """A population's scores, and outcomes of so many rows drawn from it."""

    truth: dict[str, float]
    draw: Callable[[int, np.random.Generator], Moments]


@dataclass(frozen=True)
class Setting:
    """Which world, how many rows, what epsilon, which relation."""

    world: str
    n: int
    epsilon: str
    neighbours: str


def binary(spread: float, confidence: float, middle: float = 0.0) -> World:
    """Two classes with log odds of scale ``spread`` about ``middle``, from which the model moves them away."""
    odds = spread * ndtri((np.arange(ATOMS) + 0.5) / ATOMS)
    yes, said = expit(middle + odds), expit(middle + confidence * odds)
    probabilities = np.column_stack([1 - said, said])
    return _classes(np.column_stack([1 - yes, yes]), probabilities)


def several(classes: int, sharpness: float, confidence: float, seed: int) -> World:
    """Several classes: probabilities by softmax of normal scores; the model multiplies the scores."""
    scores = sharpness * np.random.default_rng(seed).standard_normal((ATOMS, classes))
    true, said = (np.exp(by * scores) for by in (1.0, confidence))
    return _classes(true / true.sum(axis=1, keepdims=True), said / said.sum(axis=1, keepdims=True))


def _classes(true: np.ndarray, said: np.ndarray) -> World:
    """A population of atoms, each with its law of the class and what the model says."""
    task = Classification(tuple(range(true.shape[1])))
    eye = np.eye(true.shape[1])
    right = true[np.arange(len(true)), said.argmax(axis=1)].mean()
    log_loss = np.minimum(-np.log(np.maximum(said, 1e-300)), task.largest_loss or 0.0)
    brier = ((said[:, None, :] - eye) ** 2).sum(axis=2)
    below = np.cumsum(true, axis=1)

    def draw(n: int, rng: np.random.Generator) -> Moments:
        atoms = rng.integers(len(true), size=n)
        truth = (rng.random(n)[:, None] > below[atoms]).sum(axis=1).clip(max=true.shape[1] - 1)
        return classifier_outcomes(task, truth, said[atoms])

    truth = {"accuracy": right, "log-loss": (true * log_loss).sum(axis=1).mean()}
    if true.shape[1] == 2:
        (no, yes), given = true.T, said[:, 1] > 0.5
        truth["AUC"] = area(said[:, 1], no, yes)
        truth |= {"sensitivity": yes[given].sum() / yes.sum(), "specificity": no[~given].sum() / no.sum()}
        truth["positive predictive value"] = yes[given].mean()
    return World(truth | {"Brier score": (true * brier).sum(axis=1).mean()}, draw)


def area(score: np.ndarray, no: np.ndarray, yes: np.ndarray) -> float:
    """The area under the ROC curve of rows of different scores, each with its weights in two classes."""
    order = np.argsort(score)
    no, yes = no[order], yes[order]
    return float((yes * (np.cumsum(no) - no / 2)).sum() / yes.sum() / no.sum())


def errors(spread: float, tail: float) -> World:
    """A regression of a target between 0 and 1, whose errors are normal, or five times as wide in a share of rows."""
    task = Regression(0.0, 1.0)
    q = ndtri((np.arange(ATOMS) + 0.5) / ATOMS)
    middle = np.clip(0.5 + 0.1 * q, 0.25, 0.75)
    rng = np.random.default_rng(1)
    wide = np.where(rng.random(200 * ATOMS) < tail, 5.0, 1.0)
    target = np.clip(np.tile(middle, 200) + spread * wide * rng.standard_normal(200 * ATOMS), 0, 1)
    said = np.tile(middle, 200)
    squared = np.minimum(np.abs(target - said), task.largest_error or 0.0) ** 2

    def draw(n: int, rng: np.random.Generator) -> Moments:
        atoms = rng.integers(len(said), size=n)
        return regression_outcomes(task, target[atoms], said[atoms])

    mean = squared.mean()
    return World({"mean squared error": mean, "root mean squared error": np.sqrt(mean)}, draw)


def entries(outcomes: int, power: float) -> World:
    """Log entries whose kinds follow a power law, known to the model but for a tenth of uniform."""
    true = np.arange(1.0, outcomes + 1) ** -power
    true /= true.sum()
    said = np.log(0.9 * true + 0.1 / outcomes)
    task = Entries(outcomes)

    def draw(n: int, rng: np.random.Generator) -> Moments:
        return entry_outcomes(task, said[rng.choice(outcomes, n, p=true)])

    return World({"nats an entry": float(true @ np.maximum(said, -(task.largest_loss or 0.0)))}, draw)


CHOSEN_ON = {
    "2 classes, .76": lambda: binary(2.0, 1.0),
    "2 classes, .91": lambda: binary(7.0, 1.5),
    "2 classes, 5 %": lambda: binary(1.5, 1.0, -3.6),
    "4 classes": lambda: several(4, 2.0, 1.2, 0),
    "errors": lambda: errors(0.1, 0.0),
    "entries": lambda: entries(40, 1.2),
}
JUDGED_ON = {
    "2 classes, .65": lambda: binary(0.8, 1.4),
    "2 classes, .84": lambda: binary(3.5, 1.3),
    "2 classes, .985": lambda: binary(45.0, 1.0),
    "2 classes, 17 %": lambda: binary(0.6, 1.2, -1.7),
    "2 classes, 10 %": lambda: binary(1.6, 1.0, -3.0),
    "3 classes": lambda: several(3, 3.0, 1.5, 1),
    "errors, wide tail": lambda: errors(0.06, 0.05),
    "entries, 200 kinds": lambda: entries(200, 1.0),
}


#: Rows and epsilon of the settings.
SIZES = {
    "choose": ((500, "0.1"), (500, "2"), (5000, "0.1"), (5000, "2")),
    "judge": ((100, "0.1"), (1000, "0.1"), (1000, "1"), (9000, "0.1")),
}


def settings(kind: str) -> Iterator[Setting]:
    """The settings of a study."""
    for world in CHOSEN_ON if kind == "choose" else JUDGED_ON:
        for n, epsilon in SIZES[kind]:
            for neighbours in ("replace", "add-remove"):
                yield Setting(world, n, epsilon, neighbours)


def coverage(setting: Setting, world: World, repeats: int, seed: int) -> list[dict[str, Any]]:
    """How often each interval holds the truth, and its mean width."""
    rng, noise = np.random.default_rng(seed), dg.testing.SeededNoise(seed + 1)
    unit: Any = dg.PrivacyUnit(setting.neighbours)  # type: ignore[arg-type]
    held = dict.fromkeys(world.truth, 0)
    width = dict.fromkeys(world.truth, 0.0)
    for _ in range(repeats):
        found = world.draw(setting.n, rng)
        judged = evaluation_of(found, epsilon=setting.epsilon, budget=dg.Budget("5", unit=unit), noise=noise)
        for name, truth in world.truth.items():
            score = judged.scores[name]
            held[name] += score.low <= truth <= score.high
            width[name] += (score.high - score.low) / repeats
    return [
        {**setting.__dict__, "score": name, "truth": truth, "held": held[name] / repeats, "width": width[name]}
        for name, truth in world.truth.items()
    ]


def study(kind: str, repeats: int, part: str) -> None:
    """Coverage in every setting of the worlds whose name holds ``part``, beside its standard error at 90 %."""
    started, known = time.monotonic(), CHOSEN_ON if kind == "choose" else JUDGED_ON
    made = {name: make() for name, make in known.items() if part in name}
    rows: list[dict[str, Any]] = []
    for k, setting in enumerate(settings(kind)):
        if setting.world in made:
            rows += coverage(setting, made[setting.world], repeats, seed=(0 if kind == "choose" else 10_000) + 2 * k)
            print(f"{setting} {time.monotonic() - started:.0f} s", file=sys.stderr)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    print(f"{repeats} worlds each; standard error of a coverage of .9: {np.sqrt(0.09 / repeats):.4f}")
    for name, of_score in table.groupby("score"):
        print(f"{name}: {of_score.held.min():.3f} to {of_score.held.max():.3f}, mean {of_score.held.mean():.3f}")


#: Candidates for the edges between bins of P(class) above one half; the others mirror them.
EDGES = {8: (0.7, 0.9, 0.97), 12: (*TENTHS, 0.97), 14: (*TENTHS, 0.97, 0.99), 16: (*TENTHS, 0.97, 0.99, 0.997)}


def bins() -> None:
    """What each number of bins takes from the area, and the noise in it, in cells' deviations over the rows."""
    rows = []
    for middle, spread in itertools.product((0.0, -1.7, -3.0, -4.6), (0.6, 1.2, 2.0, 4.0)):
        score = expit(middle + spread * ndtri((np.arange(400 * ATOMS) + 0.5) / (400 * ATOMS)))
        for many, edges in EDGES.items():
            place = np.searchsorted([*(1 - edge for edge in edges[::-1]), 0.5, *edges], score)
            no, yes = (np.bincount(place, each, many) / len(score) for each in (1 - score, score))
            exact, below = area(score, 1 - score, score), np.cumsum(no) - no / 2
            found = (yes @ below) / yes.sum() / no.sum()
            over, under = below / no.sum() - found, 1 - found - (np.cumsum(yes) - yes / 2) / yes.sum()
            noise = np.sqrt((over**2).sum() / yes.sum() ** 2 + (under**2).sum() / no.sum() ** 2)
            rows.append(
                {
                    "positives": round(yes.sum(), 3),
                    "AUC": round(exact, 3),
                    "bins": many,
                    "off": found - exact,
                    "noise": noise,
                }
            )
    table = pd.DataFrame(rows).pivot_table(index=["positives", "AUC"], columns="bins", values=["off", "noise"])
    print(table.to_string(float_format=lambda x: f"{x:.4f}"))


def adult(runs: int, splits: int) -> None:
    """The accuracy of a private naive Bayes classifier on 9 000 held-out rows: released beside exact, rows public."""
    if not ADULT.exists():
        print(f"No {ADULT.name} beside the repository.")
        return
    rows = pd.read_csv(ADULT).drop(columns="fnlwgt")
    sizes = json.loads(ADULT.with_name("adult-domain.json").read_text())
    domain = dg.Domain.of({name: list(range(sizes[name])) for name in rows.columns})
    target, noise, exact = "income>50K", dg.testing.SeededNoise(1), None
    for neighbours in ("replace", "add-remove"):
        unit: Any = dg.PrivacyUnit(neighbours)
        errors: dict[str, list[float]] = {}
        held: list[bool] = []
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(rows))
            test, train = rows.iloc[order[:9000]], rows.iloc[order[9000:]]
            fitted = dg.PrivateNaiveBayes(
                domain, "1", noise=dg.testing.SeededNoise(split), unit=unit, inference="plug-in"
            )
            model = fitted.fit(train.drop(columns=target), train[target])
            found = outcomes(model, test.drop(columns=target), test[target])
            exact = evaluation_of(found, epsilon=10**6, budget=dg.Budget(10**6, unit=unit), noise=noise)
            for _ in range(runs):
                judged = evaluation_of(found, epsilon="0.1", budget=dg.Budget("0.1", unit=unit), noise=noise)
                for name, score in judged.scores.items():
                    errors.setdefault(name, []).append(score.estimate - exact[name].estimate)
                held.append(judged["accuracy"].low <= exact["accuracy"].estimate <= judged["accuracy"].high)
        assert exact is not None
        for name, many in errors.items():
            off = np.abs(many)
            print(
                f"{neighbours:11} {name:12} exact in the last split {exact[name].estimate:.4f}; error of "
                f"{len(off)} runs: median {np.median(off):.4f}, 95 % within {np.quantile(off, 0.95):.4f}; "
                f"within .01 {np.mean(off <= 0.01):.3f}; of the splits "
                f"{[round(float(np.mean(part <= 0.01)), 2) for part in off.reshape(splits, runs)]}"
            )
        print(f"{neighbours:11} intervals of the accuracy that hold the exact one: {np.mean(held):.3f}")


@click.command()
@click.argument("kind", type=click.Choice(["choose", "judge", "adult", "bins"]), default="judge")
@click.option("--repeats", default=1000, show_default=True, help="Worlds, or runs of a split.")
@click.option("--part", default="", help="Only the worlds whose names hold this.")
def main(kind: str, repeats: int, part: str) -> None:
    """Runs one study."""
    if kind == "bins":
        bins()
    elif kind == "adult":
        adult(repeats, splits=10)
    else:
        study(kind, repeats, part)


if __name__ == "__main__":
    main()
