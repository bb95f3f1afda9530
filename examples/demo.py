"""The whole of dpgraph on a real survey: what privacy costs, a private classifier, how good it is, a model file.

The survey asks 6366 married women about their marriage and their affairs. One row is one woman; under "replace" her
answers may be any others, and a release must look almost the same.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import CategoricalNB
from tqdm import tqdm

import dpgraph as dg

ROOT = Path(__file__).parents[1]
OUT = ROOT / "demo-output"
TARGET, SPLITS, EPSILONS = "affairs", 6, ("1", "0.1")
UNIT = dg.PrivacyUnit("replace")


def main() -> None:
    """Prints the four parts in order."""
    started = time.monotonic()
    sys.path.insert(0, str(ROOT / "datasets"))
    from export import rows as rows_of

    network = dg.read_network(ROOT / "datasets" / "affairs.toml")
    rows = rows_of("affairs")
    show_cost(network, n=len(rows))
    study(network.domain, rows)
    publish(network.domain, rows)
    print(f"\ndone in {time.monotonic() - started:.0f} s; next: examples/01_what_privacy_costs.py and the README")


def show_cost(network: dg.Network, n: int) -> None:
    """Part 1: what privacy costs on the graph, before any row is read."""
    print("1. WHAT PRIVACY COSTS ON THIS GRAPH, BEFORE ANY ROW IS READ\n")
    report = dg.privacy_cost(network, epsilon=1, n=n, unit=UNIT)
    columns = ["variable", "parents", "cells", "sensitivity", "scale", "rmse", "tv"]
    print(f"{network}, epsilon 1, protecting {UNIT}; n = {n} is public\n")
    print(report.nodes[columns].to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print(
        "\nscale: of the integer noise in a cell; rmse: error of a cell in rows; tv: of the family's margin, at most\n"
    )
    print(report.mechanisms.to_string(index=False, float_format=lambda x: f"{x:.3g}"))


def study(domain: dg.Domain, rows: pd.DataFrame) -> None:
    """Part 2: how good a private classifier is, over splits, beside what is public and what is not private."""
    print(f"\n2. A PRIVATE NAIVE BAYES CLASSIFIER OF {TARGET!r}, OVER {SPLITS} TRAIN/TEST SPLITS\n")
    X, y = rows.drop(columns=TARGET), rows[TARGET].to_numpy()
    codes = np.column_stack([dg.statistics.encode(X, domain.restrict(X.columns)).columns[name] for name in X.columns])
    budget = dg.Budget(sum(SPLITS * float(epsilon) for epsilon in EPSILONS) + 0.5, unit=UNIT)
    splits = ShuffleSplit(SPLITS, test_size=0.25, random_state=0)
    # It goes by place, and places are public under replace: here the charges do cover what several fits lose.
    warnings.simplefilter("ignore", dg.errors.SplitWarning)
    scores: list[dict[str, object]] = []
    for train, test in tqdm(list(splits.split(X, y)), desc="splits", disable=not sys.stderr.isatty()):
        share = np.mean(y[train] == "yes")
        majority = np.tile([1 - share, share], (len(test), 1))
        scores.append(score("majority class", y[test], majority))
        levels = [domain.sizes[name] for name in X.columns]
        open_model = CategoricalNB(min_categories=levels).fit(codes[train], y[train])
        scores.append(score("not private (CategoricalNB)", y[test], open_model.predict_proba(codes[test])))
        for epsilon in EPSILONS:
            model = dg.PrivateNaiveBayes(domain, epsilon=epsilon, budget=budget).fit(X.iloc[train], y[train])
            scores.append(score(f"private, epsilon {epsilon}", y[test], model.predict_proba(X.iloc[test])))
    table = pd.DataFrame(scores).groupby("classifier", sort=False).agg(["mean", "std"])
    print(table.to_string(float_format=lambda x: f"{x:.3f}"))
    print(f"\n{conclusion(table)}")
    print("\nThese scores are exact functions of the women held out. The survey is public, so they may stand here. Of")
    print(
        "rows of your own you could not see them, and would release them. The last model, on the last women held out:\n"
    )
    evaluation = dg.evaluate(model, X.iloc[test], y[test], epsilon="0.5", budget=budget)
    print(evaluation.to_frame().to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    exact = accuracy_score(y[test], model.predict(X.iloc[test]))
    spent = dg.cost(evaluation.release)
    print(f"\none release, {spent}; exact accuracy, which only a public survey may show: {exact:.3f}")
    fits = len(budget.events) - 1
    print(
        f"\ncharged: {fits} fits on overlapping parts of one survey and an evaluation, {dg.cost(budget.events)} in all."
    )
    print("A study spends that much because it fits that often; an analyst fits once and spends what part 3 spends.")


def conclusion(table: pd.DataFrame) -> str:
    """What the scores mean for a reader, in a sentence for each epsilon.

    Args:
        table: Mean and standard deviation over splits of accuracy and log-loss, a row for each classifier.
    """
    lines: list[str] = []
    mean = table.xs("mean", axis=1, level=1)
    constant, open_model = mean.loc["majority class"], mean.loc["not private (CategoricalNB)"]
    for epsilon in EPSILONS:
        private = mean.loc[f"private, epsilon {epsilon}"]
        gained, lost = private["accuracy"] - constant["accuracy"], open_model["accuracy"] - private["accuracy"]
        better = private["log-loss"] < constant["log-loss"]
        if gained <= 0 and not better:
            verdict = "worse than always naming the majority class: of no use here; spend more, or find more rows"
        elif gained <= 0:
            verdict = "labels no better than the majority class, though its probabilities say more (log-loss)"
        elif better:
            verdict = "better than the majority class in labels and in probabilities"
        else:
            verdict = "labels better than the majority class, its probabilities worse than a constant one (log-loss)"
        lines.append(f"epsilon {epsilon}: {verdict}; {lost:+.3f} accuracy is what privacy costs.")
    return "What to conclude, of means over splits:\n" + "\n".join(lines)


def score(classifier: str, truth: np.ndarray, probability: np.ndarray) -> dict[str, object]:
    """Accuracy and log-loss of predicted probabilities, columns ("no", "yes")."""
    guess = np.where(probability[:, 1] > 0.5, "yes", "no")
    loss = log_loss(truth == "yes", probability[:, 1])
    return {"classifier": classifier, "accuracy": accuracy_score(truth, guess), "log-loss": loss}


def publish(domain: dg.Domain, rows: pd.DataFrame) -> None:
    """Part 3: one fit on all rows, saved with its intervals, and as BIF for pgmpy."""
    print("\n3. ONE PRIVATE MODEL OF ALL ROWS, AS A FILE FOR OTHERS\n")
    OUT.mkdir(exist_ok=True)
    budget = dg.Budget("1", unit=UNIT)
    model = dg.PrivateNaiveBayes(domain, epsilon="1", budget=budget).fit(rows.drop(columns=TARGET), rows[TARGET])
    dg.save(model, OUT / "affairs.json")
    dg.save(model.model_.probabilities, OUT / "affairs.bif")
    print(f"released: {model.release_.provenance}")
    print(f"budget: {budget}")
    print(f"not released: the rows and the exact counts. saved: {OUT.name}/affairs.json and affairs.bif\n")
    loaded = dg.to_pgmpy(dg.load(OUT / "affairs.bif"))
    print(f"pgmpy reads it: {type(loaded).__name__} with {len(loaded.nodes)} variables, check {loaded.check_model()}")
    for rating in ("very_poor", "very_good"):
        print(dg.query(dg.load(OUT / "affairs.json"), {TARGET: "yes"}, {"rate_marriage": rating}))


if __name__ == "__main__":
    main()
