"""Naive Bayes accuracy against epsilon for every mechanism of Zhang et al. 2016, as in their Figure 2 (left).

1000 rows are drawn from a random naive Bayes model of a binary class and 16 binary features, 50 of them train, the rest
test; 100 repeats, all methods on the same rows. Posteriors have uniform priors. The noise is seeded: the study repeats.

Algorithm 2 is there without pseudo-records, and with those that make all cells non-negative nine times in ten by the
paper's Corollary 3 (t = ln 10); of these only releases without a negative cell count, as in the paper. The posterior
sampler is there as it is charged, one draw, and as the paper's Appendix C.2 reads: many draws from the sampler that
costs epsilon for each, averaged. Those are NOT PRIVATE at the epsilon shown.

    python benchmarks/zhang_figure2.py [--repeats 100] [--many 100] [--spread 1]

Needs matplotlib for the figure, which is saved to docs/figures; without it the tables alone are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
EPSILONS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
STEALTH = 0.9
PAPER, FLOORED = "Fourier (Algorithm 2)", "the paper's floor"
UNIT = dg.PrivacyUnit("replace")
NETWORK = dg.naive_bayes_network(dg.Domain.of({"class": [0, 1]} | {f"x{i}": [0, 1] for i in range(FEATURES)}), "class")


@click.command()
@click.option("--repeats", default=100, show_default=True)
@click.option("--many", default=100, show_default=True, help="Draws that are averaged as if they were one.")
@click.option("--spread", default=1.0, show_default=True, help="Probabilities of features lie so wide about a half.")
def main(repeats: int, many: int, spread: float) -> None:
    """Prints the tables and, for the spread of the paper's prior, saves the figure."""
    seeds = tqdm(range(repeats), disable=not sys.stderr.isatty())
    scores = [one for seed in seeds for one in repeat(seed, many, spread)]
    table = pd.DataFrame(scores, columns=["method", "epsilon", "accuracy", "stealthy"])
    by = table.groupby(["method", "epsilon"], sort=False)
    print(f"{FEATURES} features, {TRAIN} of {ROWS} rows train, {repeats} repeats, replace-one, features within")
    print(f"{(1 - spread) / 2:.2f} to {(1 + spread) / 2:.2f}: share of releases without a negative cell")
    stealth = by["stealthy"].mean().unstack("epsilon")
    print(stealth.dropna(how="all").to_string(float_format=lambda x: f"{x:.2f}"))
    shown = table[table["stealthy"] != 0].groupby(["method", "epsilon"], sort=False)["accuracy"].agg(["mean", "sem"])
    shown = shown.unstack("epsilon").loc[stealth.index]
    print("accuracy, of these releases where there are pseudo-records, of all otherwise: mean, standard error")
    print(shown["mean"].to_string(float_format=lambda x: f"{x:.3f}"))
    print(shown["sem"].to_string(float_format=lambda x: f"{x:.3f}"))
    if spread == 1:
        draw(shown["mean"], shown["sem"])


def repeat(seed: int, many: int = 100, spread: float = 1.0) -> list[tuple[str, float, float, float]]:
    """One data set, every method and epsilon: accuracy, and whether no cell is negative where that is the question."""
    rng = np.random.default_rng(seed)
    truth = {"class": np.array([0.5, 0.5])}
    for i in range(FEATURES):
        p = 0.5 + spread * (rng.random(2) - 0.5)
        truth[f"x{i}"] = np.stack([p, 1 - p])
    columns = sample_codes(dg.Probabilities(NETWORK, truth), ROWS, rng)
    held = {name: column[TRAIN:] for name, column in columns.items()}
    counts = dg.count(Codes(NETWORK.domain, FrozenMap((k, v[:TRAIN]) for k, v in columns.items())), NETWORK)
    free = {name: 1.0 + counts.sensitive_margin(NETWORK.family(name)) for name in NETWORK.domain.names}
    open_model = dg.Probabilities(NETWORK, {name: table / table.sum(axis=0) for name, table in free.items()})
    free_score = accuracy(dg.results.NaiveBayes("class", open_model), held)
    scores = [("not private", epsilon, free_score, np.nan) for epsilon in EPSILONS]
    for epsilon in EPSILONS:
        methods = {
            "Laplace (Algorithm 1)": (dg.LaplaceMechanism(epsilon, tables="families", allocation="uniform"), "clipped"),
            "Laplace (default)": (dg.LaplaceMechanism(epsilon), "expected"),
            PAPER: (dg.FourierMechanism(epsilon, sensitivity="paper"), "nearest"),
            "Fourier (exact)": (dg.FourierMechanism(epsilon), "expected"),
        }
        increments = {
            f"{PAPER}, t = ln 10": dg.FourierMechanism(epsilon, sensitivity="paper", t=float(-np.log(1 - STEALTH))),
        }
        for label, (mechanism, plug_in) in methods.items():
            model = dg.posterior(released(counts, mechanism, seed), method=dg.methods.PlugIn(plug_in)).mean()
            scores.append((label, epsilon, accuracy(dg.results.NaiveBayes("class", model), held), np.nan))
        for label, mechanism in increments.items():
            release = released(counts, mechanism, seed)
            model = dg.posterior(release, method=dg.methods.PlugIn("clipped")).mean()
            score = accuracy(dg.results.NaiveBayes("class", model), held)
            scores.append((label, epsilon, score, float(without_negative_cells(release))))
        for label, epsilon_of, draws, floor in samplers(epsilon, many):
            drawn = released(counts, dg.PosteriorSample(epsilon_of, draws=draws, floor=floor), seed).value
            scores.append((label, epsilon, accuracy(dg.results.NaiveBayesEnsemble("class", drawn), held), np.nan))
        best = released(counts, dg.MapEstimate(epsilon), seed).value
        scores.append(("MAP estimate", epsilon, accuracy(dg.results.NaiveBayes("class", best), held), np.nan))
    return scores


def samplers(epsilon: float, many: int) -> Iterator[tuple[str, float, int, float]]:
    """Label, what is charged, draws and floor; the last averages draws that would each cost the epsilon shown.

    The paper's floor is the one at which no tempering is needed.
    """
    untempered = float(1 / (np.exp(epsilon / (2 * (FEATURES + 1))) + 1))
    yield "sampler, 1 draw, floor .01", epsilon, 1, 0.01
    yield f"sampler, 1 draw, {FLOORED}", epsilon, 1, untempered
    yield f"sampler, {many} draws at the price of 1: NOT PRIVATE", many * epsilon, many, untempered


def without_negative_cells(release: dg.Release) -> bool:
    """Whether an unsuspecting reader of the family tables sees counts."""
    return all(table.min() >= -1e-9 for table in release.value.tables().tables.values())


def released(counts: object, mechanism: object, seed: int) -> dg.Release:
    """One release under a budget of exactly its cost."""
    return dg.release(
        counts, mechanism, budget=dg.Budget(mechanism.epsilon, unit=UNIT), noise=dg.testing.SeededNoise(seed)
    )


def accuracy(model: dg.results.NaiveBayes | dg.results.NaiveBayesEnsemble, held: dict[str, np.ndarray]) -> float:
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
    for i, method in enumerate(mean.index):
        colour = pyplot.get_cmap("tab20")(2 * (i - 1) % 20 if i < 11 else 1) if i else "black"
        style = {"color": colour, "label": method, "marker": "o", "ms": 3}
        axes.errorbar(mean.columns, mean.loc[method], yerr=2 * error.loc[method], **style)
    axes.set(xscale="log", xlabel="epsilon (replace one row)", ylabel="accuracy on held-out rows")
    axes.legend(fontsize=8)
    path = Path(__file__).parents[1] / "docs" / "figures" / "zhang_figure2.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"saved {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


if __name__ == "__main__":
    main()
