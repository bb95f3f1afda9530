"""Whether posteriors from noisy sufficient statistics are calibrated, as in Bernstein and Sheldon 2018, Figure 1.

Simulation-based calibration: parameters from the prior, records from the parameters, a release, a posterior; the rank
of the true parameter among the posterior's draws is uniform if the posterior is right. The exponential's bounds are
fixed beforehand, at the middle 95 % of the law at the prior mean: bounds at the quantiles of the true law, as in the
paper, tell the truth and hide miscalibration. Of the binomial there are posterior samples as well (OPS): 100 draws of
the posterior tempered and cut to [0.1, 0.9], each at a hundredth of epsilon, as in the paper. Traces of 500 iterations
from the first are the paper's Appendix E. The noise is seeded: the study repeats.

    python benchmarks/calibration.py [--trials 300] [--only figure] [--only samples] [--only forms] [--only traces]

Needs matplotlib for the figure, which is saved to docs/figures; without it the tables alone are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.chains import effective_size
from dpgraph.inference.expfam.chain import Form, draw_conjugate, gibbs_draws, nearest_possible_sums
from dpgraph.inference.expfam.posterior import as_problems
from dpgraph.structure.moments import NoisyMoments

Reals = np.ndarray[Any, np.dtype[np.float64]]

UNIT = dg.PrivacyUnit("replace")
SIZES, EPSILONS = (100, 300, 1000), (0.01, 0.1)
DRAWS, FEW = 400, 100
RATES = dg.expfam.Exponential().prior(8, 2)
BOUNDS = (0.0063, 0.92)
FAMILIES: dict[str, tuple[Any, Any, Any]] = {
    "binomial": (dg.expfam.Binomial(), dg.expfam.Binomial().prior(), None),
    "multinomial": (dg.expfam.Multinomial(4), dg.expfam.Multinomial(4).prior(), None),
    "exponential": (dg.expfam.Exponential(), RATES, BOUNDS),
}
#: One posterior sample of a binomial: bounds of the parameter, and draws that share epsilon.
LOWEST, SAMPLES = 0.1, 100
OPS = "posterior samples"
TRACED, TRACE_EPSILONS, CHAINS = 500, (0.1, 0.01), 16
FORMS: dict[str, Form] = {"ours": "corrected", "regions independent": "coded", "as printed": "printed"}


PARTS = ("figure", "samples", "forms", "traces")
#: A prior under which tempering shows: of a uniform one the flattest posterior is the prior itself.
INFORMED, SAMPLED_EPSILONS = 10.0, (0.01, 0.1, 1.0, 10.0, 100.0)


@click.command()
@click.option("--trials", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Parts to run; all where none is named.")
def main(trials: int, seed: int, only: tuple[str, ...]) -> None:
    """Prints the tables and saves the figures."""
    wanted = only or PARTS
    if "figure" in wanted:
        figure_1(trials, seed)
    if "samples" in wanted:
        print(f"\nbinomial, n = 1000, prior Beta({INFORMED:g}, {INFORMED:g}), {SAMPLES} samples that share epsilon")
        print(samples_under_a_prior(1000, trials, seed).to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    if "forms" in wanted:
        print("\nexponential, n = 1000, bounds fixed beforehand, 100 draws (a central 90 % of them covers 88 %)")
        print(forms(trials, seed).to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    if "traces" in wanted:
        traces(seed)


def figure_1(trials: int, seed: int) -> None:
    """Calibration and distance from the posterior that is not private, as a table and as Figure 1."""
    cells = [(name, n, epsilon) for name in FAMILIES for n in SIZES for epsilon in EPSILONS]
    ranks: dict[tuple[str, int, float, str], Reals] = {}
    rows = []
    for i, (name, n, epsilon) in enumerate(tqdm(cells, disable=not sys.stderr.isatty())):
        drawn, truth = studied(name, n, epsilon, trials, np.random.SeedSequence([seed, i]))
        for method, values in drawn.items():
            ranks[name, n, epsilon, method] = uniform_ranks(values, truth, np.random.default_rng(i))
            far = np.mean([mmd(a[:FEW], b[:FEW]) for a, b in zip(values, drawn["not private"], strict=True)])
            ks = stats.kstest(ranks[name, n, epsilon, method], "uniform").statistic
            rows.append((name, n, epsilon, method, ks, coverage(values, truth), far))
    table = pd.DataFrame(rows, columns=["family", "n", "epsilon", "method", "KS", "coverage of 90 %", "MMD"])
    critical = stats.kstwo.ppf(0.99, trials)
    print(f"{trials} trials, replace-one; KS of the ranks, 1 % critical value {critical:.3f}; MMD to the not private")
    wide = table.set_index(["family", "n", "epsilon", "method"]).unstack("method")
    print(wide.to_string(float_format=lambda x: f"{x:.3f}"))
    draw(table, ranks, critical)


def simulated(name: str, n: int, trials: int, rng: np.random.Generator) -> Iterator[tuple[Reals, Reals]]:
    """Parameters from the prior, and n records from each."""
    family, prior, _ = FAMILIES[name]
    nothing = np.zeros((trials, len(family.statistics)))
    for theta in draw_conjugate(family, prior, nothing, nothing[:, 0], rng):
        match name:
            case "binomial":
                yield theta, (rng.random(n) < theta[0]).astype(float)
            case "multinomial":
                yield theta, rng.choice(len(theta), size=n, p=theta).astype(float)
            case _:
                yield theta, rng.exponential(1 / theta[0], n)


def released(name: str, x: Reals, epsilon: float, noise: dg.testing.SeededNoise) -> NoisyMoments:
    """One release under a budget of exactly its cost."""
    family, _, bounds = FAMILIES[name]
    records = x.astype(int) if name == "multinomial" else x
    moments = dg.statistics.sufficient_statistics(records, family, bounds=bounds)
    return dg.release(moments, dg.LaplaceMechanism(epsilon), budget=dg.Budget(epsilon, unit=UNIT), noise=noise).value


def studied(
    name: str, n: int, epsilon: float, trials: int, seeds: np.random.SeedSequence
) -> tuple[dict[str, Reals], Reals]:
    """Draws of the first parameter by each method, shape (trials, draws), and the truth.

    As in the paper the plug-in of the exponential cheats: it sees the sum of all records, with the same noise.
    """
    family, prior, _ = FAMILIES[name]
    rng, noise = np.random.default_rng(seeds), dg.testing.SeededNoise(int(seeds.generate_state(1)[0]))
    simulations = list(simulated(name, n, trials, rng))
    noisy = [released(name, x, epsilon, noise) for _, x in simulations]
    exact = np.array([family.statistic(x).sum(axis=0) for _, x in simulations])
    if name == "exponential":
        kept, _ = gibbs_draws(as_problems(noisy, prior), DRAWS, burn_in=1500, thin=8, rng=rng)
        ours = kept[:, :, 0].T
        seen = exact + np.array([noise.add(np.zeros(1, np.int64), one.law) * one.steps for one in noisy])
    else:
        first = family.parameters[0]
        ours = np.stack([dg.posterior(one, prior=prior, draws=DRAWS, seed=rng).parameters[first] for one in noisy])
        seen = np.stack([one.values for one in noisy])
    methods = {"ours": ours, "plug-in": conjugate(name, seen, n, rng), "not private": conjugate(name, exact, n, rng)}
    if name == "binomial":
        methods[OPS] = posterior_samples(exact[:, 0], n, epsilon, rng)
    return methods, np.array([theta[0] for theta, _ in simulations])


def conjugate(name: str, sums: Reals, n: int, rng: np.random.Generator) -> Reals:
    """Draws of the first parameter from the conjugate law of each trial's sums."""
    family, prior, _ = FAMILIES[name]
    repeated = np.repeat(sums, DRAWS, axis=0)
    many = np.full(len(repeated), float(n))
    return draw_conjugate(family, prior, nearest_possible_sums(family, repeated, many), many, rng)[:, 0].reshape(
        -1, DRAWS
    )


def posterior_samples(
    ones: Reals, n: int, epsilon: float, rng: np.random.Generator, *, shape: float = 1.0, whole: bool = False
) -> Reals:
    """Draws of each trial's posterior, tempered so that each costs its share of epsilon, shape (trials, samples).

    The prior is Beta(shape, shape); ``whole`` tempers it as well, as Foulds et al. 2016 do.
    """
    temperature = max(1.0, 2 * float(np.log((1 - LOWEST) / LOWEST)) * SAMPLES / epsilon)
    prior = 1 + (shape - 1) / temperature if whole else shape
    law = stats.beta(prior + ones[:, None] / temperature, prior + (n - ones[:, None]) / temperature)
    low, high = law.cdf(LOWEST), law.cdf(1 - LOWEST)
    drawn = law.ppf(low + (high - low) * rng.random((len(ones), SAMPLES)))
    return np.clip(drawn, LOWEST, 1 - LOWEST)


def samples_under_a_prior(n: int, trials: int, seed: int) -> pd.DataFrame:
    """Calibration of posterior samples under an informed prior, tempered with the likelihood or left as it is."""
    rows = []
    for i, epsilon in enumerate(SAMPLED_EPSILONS):
        rng = np.random.default_rng([seed, 3000, i])
        truth = rng.beta(INFORMED, INFORMED, trials)
        ones = rng.binomial(n, truth).astype(float)
        for label, whole in (("prior and likelihood", True), ("likelihood", False)):
            drawn = posterior_samples(ones, n, epsilon, rng, shape=INFORMED, whole=whole)
            ranks = uniform_ranks(drawn, truth, rng)
            middle = float(((ranks > 0.25) & (ranks < 0.75)).mean())
            distance = stats.kstest(ranks, "uniform").statistic
            rows.append((epsilon, label, distance, coverage(drawn, truth), middle, width(drawn)))
    return pd.DataFrame(rows, columns=["epsilon", "tempered", "KS", "coverage", "in the middle half", "width"])


def traces(seed: int) -> None:
    """Prints how well chains of 500 iterations mix and where they are, and saves those at the larger epsilon."""
    shown, rows = {}, []
    for i, (name, epsilon) in enumerate((f, e) for e in TRACE_EPSILONS for f in ("binomial", "exponential")):
        rng, noise = np.random.default_rng([seed, 2000, i]), dg.testing.SeededNoise(seed + 2000 + i)
        (theta, x), prior = next(simulated(name, 1000, 1, rng)), FAMILIES[name][1]
        problems = as_problems([released(name, x, epsilon, noise)] * CHAINS, prior)
        for label, form in {"the paper's": "coded", "our": "corrected"}.items():
            burn_in = 0 if form == "coded" else TRACED
            kept, _ = gibbs_draws(problems, TRACED, burn_in=burn_in, rng=rng, form=form)
            chains = kept[:, :, 0].T
            rows.append((name, epsilon, label, theta[0], chains[:, TRACED // 2 :].mean(), *first_visit(chains),
                         float(effective_size(chains[:, :, None])[0]) / CHAINS))  # fmt: skip
            if epsilon == TRACE_EPSILONS[0]:
                shown[name, label] = chains, theta[0]
    columns = ["family", "epsilon", "chain", "truth", "posterior mean", "median visit", "last visit", "ESS a chain"]
    print(f"\nn = 1000, {CHAINS} chains of {TRACED} iterations of one release; ours after as many of burn-in, theirs")
    print("from the first; the iteration of the first visit to the middle 90 % of all chains' later half")
    print(pd.DataFrame(rows, columns=columns).to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    draw_traces(shown)


def first_visit(chains: Reals) -> tuple[float, float]:
    """The median and the last of the iterations at which chains, shape (chains, iterations), first reach the middle."""
    low, high = np.quantile(chains[:, chains.shape[1] // 2 :], [0.05, 0.95])
    inside = (chains >= low) & (chains <= high)
    visit = np.where(inside.any(axis=1), inside.argmax(axis=1), chains.shape[1])
    return float(np.median(visit)), float(visit.max())


def draw_traces(shown: dict[tuple[str, str], tuple[Reals, float]]) -> None:
    """Saves four chains of each family and form, with the true parameter."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure", file=sys.stderr)
        return
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    for axes, ((name, label), (chains, truth)) in zip(
        figure.subplots(2, 2, sharex=True, sharey="row").ravel(), shown.items(), strict=True
    ):
        axes.plot(chains[:4].T, lw=0.7, alpha=0.8)
        axes.axhline(truth, color="black", ls="--", lw=1.2)
        axes.set(title=f"{name}, {label} chain, n = 1000, epsilon {TRACE_EPSILONS[0]:g}", xlabel="iteration")
        axes.set_ylabel("parameter; dashed: the truth")
        axes.label_outer()
    figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "calibration_traces.png", dpi=120)
    print("saved calibration_traces.png to docs/figures")


def forms(trials: int, seed: int) -> pd.DataFrame:
    """The corrected chain, the paper's with independent regions, and the paper's as printed, on the same releases."""
    rows = []
    for i, epsilon in enumerate((0.1, 1.0, 5.0)):
        rng = np.random.default_rng([seed, 1000, i])
        noise = dg.testing.SeededNoise(seed + 1000 + i)
        simulations = list(simulated("exponential", 1000, trials, rng))
        noisy = [released("exponential", x, epsilon, noise) for _, x in simulations]
        truth = np.array([theta[0] for theta, _ in simulations])
        for label, form in FORMS.items():
            kept, _ = gibbs_draws(as_problems(noisy, RATES), FEW, burn_in=1500, thin=20, rng=rng, form=form)
            values = kept[:, :, 0].T
            ks = stats.kstest(uniform_ranks(values, truth, rng), "uniform").statistic
            rows.append((epsilon, label, ks, coverage(values, truth), width(values)))
    return pd.DataFrame(rows, columns=["epsilon", "form", "KS", "coverage", "width"])


def uniform_ranks(drawn: Reals, truth: Reals, rng: np.random.Generator) -> Reals:
    """(rank + U) / (draws + 1), uniform on [0, 1] for a right posterior."""
    rank = (drawn < truth[:, None]).sum(axis=1)
    return (rank + rng.random(truth.size)) / (drawn.shape[1] + 1)


def coverage(drawn: Reals, truth: Reals) -> float:
    """How often the central 90 % of the draws hold the truth."""
    low, high = np.quantile(drawn, [0.05, 0.95], axis=1)
    return float(((low <= truth) & (truth <= high)).mean())


def width(drawn: Reals) -> float:
    """The mean width of the central 90 %."""
    low, high = np.quantile(drawn, [0.05, 0.95], axis=1)
    return float((high - low).mean())


def mmd(one: Reals, other: Reals) -> float:
    """Unbiased squared maximum mean discrepancy of as many draws of each, Gaussian kernel of median width."""
    both = np.concatenate([one, other])
    distance = np.abs(both[:, None] - both)
    kernel = np.exp(-((distance / max(float(np.median(distance)), 1e-12)) ** 2) / 2)
    m = one.size
    off = ~np.eye(m, dtype=bool)
    cross = kernel[:m, m:]
    return float((kernel[:m, :m] + kernel[m:, m:] - cross - cross.T)[off].mean())


def draw(table: pd.DataFrame, ranks: dict[tuple[str, int, float, str], Reals], critical: float) -> None:
    """Saves KS against n, the ranks' distribution at n = 1000 and epsilon .01, and MMD against n."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no figure", file=sys.stderr)
        return
    colours = {"ours": "#1b6ca8", "plug-in": "#d1495b", "not private": "#888888", OPS: "#edae49"}
    figure, axes = plt.subplots(3, 3, figsize=(10, 9))
    for column, name in enumerate(FAMILIES):
        top, middle, bottom = axes[:, column]
        top.set_title(name)
        for method, colour in colours.items():
            for epsilon, style in zip(EPSILONS, ("-", "--"), strict=True):
                mine = table.query("family == @name and method == @method and epsilon == @epsilon")
                label = f"{method}, epsilon {epsilon:g}"
                top.plot(mine["n"], mine["KS"], style, color=colour, marker="o", markersize=4, label=label)
                if name != "exponential" and method not in ("not private", OPS):
                    bottom.plot(mine["n"], mine["MMD"], style, color=colour, marker="o", markersize=4)
            sorted_ranks = np.sort(ranks.get((name, 1000, 0.01, method), np.empty(0)))
            middle.plot(sorted_ranks, np.linspace(0, 1, sorted_ranks.size), color=colour)
        top.axhline(critical, color="black", linewidth=0.7, linestyle=":")
        top.set(xscale="log", ylim=(0, None), xlabel="n")
        middle.plot([0, 1], [0, 1], color="black", linewidth=0.7, linestyle=":")
        middle.set(xlabel="rank of the truth, n = 1000, epsilon 0.01", xlim=(0, 1), ylim=(0, 1))
        bottom.set(xscale="log", xlabel="n")
    axes[0, 0].set_ylabel("(a) KS; dotted: 1 % critical")
    axes[1, 0].set_ylabel("(b) share of trials below")
    axes[2, 0].set_ylabel("(c) MMD to the not private")
    axes[2, 2].axis("off")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[2, 2].legend(handles, labels, loc="center", frameon=False)
    figure.tight_layout()
    path = Path(__file__).parents[1] / "docs" / "figures" / "calibration.png"
    figure.savefig(path, dpi=150)
    print(f"\nsaved {path.name} to docs/figures")


if __name__ == "__main__":
    main()
