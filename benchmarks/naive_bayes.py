"""Accuracy and log-loss of the private naive Bayes classifier, beside the paper's design and no privacy.

Adult (48 842 rows, 12 features as coded, replace-one, stratified 80/20 splits) is read from ../shared/data when it is
there, or from --adult; breast cancer comes with scikit-learn (4 public bins a feature, add/remove). All methods see the
same splits. The noise is seeded: the study repeats.

    python benchmarks/naive_bayes.py [--splits 10] [--adult FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import CategoricalNB
from tqdm import tqdm

import dpgraph as dg

ROOT = Path(__file__).parents[1]
EPSILONS = ("0.01", "0.1", "1", "10")


@click.command()
@click.option("--splits", default=10, show_default=True)
@click.option("--adult", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "data", show_default=True)
def main(splits: int, adult: Path) -> None:
    """Prints one table for each data set."""
    if (adult / "adult.csv").exists():
        rows = pd.read_csv(adult / "adult.csv").drop(columns="fnlwgt")
        sizes = json.loads((adult / "adult-domain.json").read_text())
        domain = dg.Domain.of({name: range(sizes[name]) for name in rows.columns})
        report("adult, 12 features, replace", rows, domain, "income>50K", dg.PrivacyUnit("replace"), splits, 0.2)
    else:
        print(f"no adult.csv in {adult}: skipped")
    sys.path.insert(0, str(ROOT / "datasets"))
    from export import declaration
    from export import rows as rows_of

    for name, target, neighbours in (
        ("breast_cancer", "diagnosis", "add-remove"),
        ("breast_cancer", "diagnosis", "replace"),
        ("affairs", "affairs", "replace"),
        ("anes96", "vote", "replace"),
    ):
        domain = dg.read_domain(declaration(name))
        report(f"{name}, {neighbours}", rows_of(name), domain, target, dg.PrivacyUnit(neighbours), 2 * splits, 0.25)


def report(
    title: str, rows: pd.DataFrame, domain: dg.Domain, target: str, unit: dg.PrivacyUnit, splits: int, test: float
) -> None:
    """Scores every method on the same splits and prints means and standard deviations over them."""
    X, y = rows.drop(columns=target), rows[target].to_numpy()
    features = domain.restrict(X.columns)
    encoded = dg.statistics.encode(X, features).columns
    codes = np.column_stack([encoded[name] for name in X.columns])
    labels = np.array(domain.levels(target))
    scores: list[dict[str, object]] = []
    shuffled = StratifiedShuffleSplit(splits, test_size=test, random_state=0)
    for seed, (train, held) in enumerate(tqdm(list(shuffled.split(X, y)), desc=title, disable=not sys.stderr.isatty())):

        def add(method: str, epsilon: str, probability: np.ndarray, held: np.ndarray = held) -> None:
            order = np.argsort(labels)
            loss = log_loss(y[held], probability[:, order], labels=labels[order])
            accuracy = accuracy_score(y[held], labels[probability.argmax(axis=1)])
            scores.append({"method": method, "epsilon": epsilon, "accuracy": accuracy, "log-loss": loss})

        share = np.array([(y[train] == label).mean() for label in labels])
        add("majority class", "-", np.tile(share, (len(held), 1)))
        free = CategoricalNB(min_categories=[features.sizes[name] for name in X.columns]).fit(codes[train], y[train])
        add(
            "CategoricalNB, not private",
            "-",
            free.predict_proba(codes[held])[:, [list(free.classes_).index(c) for c in labels]],
        )
        for epsilon in EPSILONS:
            model = dg.PrivateNaiveBayes(domain, epsilon=epsilon, unit=unit, noise=dg.testing.SeededNoise(seed))
            add("dpgraph", epsilon, model.fit(X.iloc[train], y[train]).predict_proba(X.iloc[held]))
            model.set_params(inference="plug-in")
            add("dpgraph, plug-in", epsilon, model.fit(X.iloc[train], y[train]).predict_proba(X.iloc[held]))
            add(
                "Algorithm 1, clipped",
                epsilon,
                paper(domain, target, epsilon, unit, seed, rows.iloc[train], X.iloc[held]),
            )
    table = pd.DataFrame(scores).groupby(["method", "epsilon"], sort=False).agg(["mean", "std"])
    print(f"\n{title}: {len(rows)} rows, {splits} splits, test share {test}")
    print(
        table.sort_index(level="epsilon", sort_remaining=False).to_string(float_format=lambda x: f"{x:.4f}"), flush=True
    )


def paper(
    domain: dg.Domain,
    target: str,
    epsilon: str,
    unit: dg.PrivacyUnit,
    seed: int,
    train: pd.DataFrame,
    held: pd.DataFrame,
) -> np.ndarray:
    """Zhang et al. 2016, Algorithm 1, and the closed-form predictive distribution of their Appendix C.1."""
    network = dg.naive_bayes_network(domain, target)
    mechanism = dg.LaplaceMechanism(epsilon, tables="families", allocation="uniform")
    budget = dg.Budget(epsilon, unit=unit)
    released = dg.release(dg.count(train, network), mechanism, budget=budget, noise=dg.testing.SeededNoise(seed))
    model = dg.results.NaiveBayes(target, dg.posterior(released, method=dg.methods.PlugIn("clipped")).mean())
    return model.predict_proba(dg.statistics.encode(held, domain.restrict(model.features)).columns)


if __name__ == "__main__":
    main()
