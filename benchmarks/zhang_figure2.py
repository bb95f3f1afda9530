"""Naive Bayes accuracy against epsilon for every mechanism of Zhang et al. 2016, as in their Figure 2 (left).

1000 rows are drawn from a random naive Bayes model of a binary class and 16 binary features, 50 of them train, the rest
test; 100 repeats, all methods on the same rows. Posteriors have uniform priors. The noise is seeded: the study repeats.

    python benchmarks/zhang_figure2.py [--repeats 100]

Needs matplotlib for the figure, which is saved to docs/figures; without it the table alone is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

FEATURES, ROWS, TRAIN = 16, 1000, 50
EPSILONS = (0.5, 1, 2, 5, 10, 20, 50, 100)
UNIT = dg.PrivacyUnit("replace")
NETWORK = dg.naive_bayes_network(dg.Domain.of({"class": [0, 1]} | {f"x{i}": [0, 1] for i in range(FEATURES)}), "class")


@click.command()
@click.option("--repeats", default=100, show_default=True)
def main(repeats: int) -> None:
    """Prints the table and saves the figure."""
    scores = [one for seed in tqdm(range(repeats), disable=not sys.stderr.isatty()) for one in repeat(seed)]
    table = pd.DataFrame(scores, columns=["method", "epsilon", "accuracy"])
    shown = table.groupby(["method", "epsilon"], sort=False)["accuracy"].agg(["mean", "sem"]).unstack("epsilon")
    print(f"accuracy, {FEATURES} features, {TRAIN} of {ROWS} rows train, {repeats} repeats, replace-one: mean, error")
    print(shown["mean"].to_string(float_format=lambda x: f"{x:.3f}"))
    print(shown["sem"].to_string(float_format=lambda x: f"{x:.3f}"))
    draw(shown["mean"], shown["sem"])


def repeat(seed: int) -> list[tuple[str, float, float]]:
    """One data set, every method and epsilon."""
    rng = np.random.default_rng(seed)
    truth = {"class": np.array([0.5, 0.5])}
    for i in range(FEATURES):
        p = rng.random(2)
        truth[f"x{i}"] = np.stack([p, 1 - p])
    columns = sample_codes(dg.Probabilities(NETWORK, truth), ROWS, rng)
    held = {name: column[TRAIN:] for name, column in columns.items()}
    counts = dg.count(Codes(NETWORK.domain, FrozenMap((k, v[:TRAIN]) for k, v in columns.items())), NETWORK)
    free = {name: 1.0 + counts.sensitive_margin(NETWORK.family(name)) for name in NETWORK.domain.names}
    open_model = dg.Probabilities(NETWORK, {name: table / table.sum(axis=0) for name, table in free.items()})
    scores = [
        ("not private", epsilon, accuracy(dg.results.NaiveBayes("class", open_model), held)) for epsilon in EPSILONS
    ]
    for epsilon in EPSILONS:
        methods = {
            "Laplace (Algorithm 1)": (dg.LaplaceMechanism(epsilon, tables="families", allocation="uniform"), "clipped"),
            "Laplace (default)": (dg.LaplaceMechanism(epsilon), "expected"),
            "Fourier (Algorithm 2)": (dg.FourierMechanism(epsilon, sensitivity="paper"), "nearest"),
            "Fourier (exact)": (dg.FourierMechanism(epsilon), "expected"),
        }
        for label, (mechanism, plug_in) in methods.items():
            model = dg.posterior(released(counts, mechanism, seed), counts=plug_in).mean()
            scores.append((label, epsilon, accuracy(dg.results.NaiveBayes("class", model), held)))
        untempered = 1 / (
            np.exp(epsilon / (2 * (FEATURES + 1))) + 1
        )  # the paper's floor, at which no tempering is needed
        for label, floor in (("sampler, 1 draw, floor .01", 0.01), ("sampler, 1 draw, the paper's floor", untempered)):
            drawn = released(counts, dg.PosteriorSample(epsilon, floor=float(floor)), seed).value[0]
            scores.append((label, epsilon, accuracy(dg.results.NaiveBayes("class", drawn), held)))
        best = released(counts, dg.MapEstimate(epsilon), seed).value
        scores.append(("MAP estimate", epsilon, accuracy(dg.results.NaiveBayes("class", best), held)))
    return scores


def released(counts: object, mechanism: object, seed: int) -> dg.Release:
    """One release under a budget of exactly its cost."""
    return dg.release(
        counts, mechanism, budget=dg.Budget(mechanism.epsilon, unit=UNIT), noise=dg.testing.SeededNoise(seed)
    )


def accuracy(model: dg.results.NaiveBayes, held: dict[str, np.ndarray]) -> float:
    """Share of held-out rows whose class is predicted."""
    return float((model.predict_proba(held).argmax(axis=1) == held["class"]).mean())


def draw(mean: pd.DataFrame, error: pd.DataFrame) -> None:
    """Saves accuracy against epsilon."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for method in mean.index:
        axes.errorbar(mean.columns, mean.loc[method], yerr=2 * error.loc[method], label=method, marker="o", ms=3)
    axes.set(xscale="log", xlabel="epsilon (replace one row)", ylabel="accuracy on held-out rows")
    axes.legend(fontsize=8)
    path = Path(__file__).parents[1] / "docs" / "figures" / "zhang_figure2.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"saved {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


if __name__ == "__main__":
    main()
