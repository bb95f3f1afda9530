"""Three comparisons of Foulds et al. 2016: noise on the statistics (Laplace) against one posterior sample (OPS).

    python benchmarks/foulds_figures.py [--repeats 200000] [--splits 20] [--hmm-splits 10]

Asymptotic relative efficiencies by simulation (their Theorems 3.1 and 3.2), the adversary of their Appendix A by exact
integrals, and the log-likelihood of held-out entries of a simulated log (their section 5) with one hidden state, where
the model is naive Bayes without a label, and with three, where the sampler that pays for every update is there too.
All noise is seeded: the study repeats. Needs matplotlib for the figures, which are saved to docs/figures beside the
tables; without it the tables alone are.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pandas as pd
from scipy.special import betainc, betaln
from scipy.stats import beta, binom
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.sampler import dirichlet_rows
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import transition_counts

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
sys.path.append(str(ROOT / "datasets"))
import event_log  # noqa: E402

UNIT = dg.PrivacyUnit("replace")
THETA, EPSILON, FLOOR = 0.3, 1.0, 0.01
ROWS = (100, 1_000, 20_000)
TEMPERATURES = (1, 2, 5)
EPSILONS = (0.1, 0.3, 1, 3, 10)
DOMAIN = dg.read_domain("example:event_log")
FIELDS = tuple(event_log.FIELDS)
LEVELS = [len(event_log.FIELDS[name]) for name in FIELDS]
METHODS = ("not private", "Laplace, noise-aware", "Laplace, clipped at 0", "Laplace, clipped, 1 draw", "OPS")
#: With several states: one posterior sample is a Gibbs chain taken for converged, so its epsilon is no promise.
UNPROVED, CHARGED = "OPS if converged: NOT PRIVATE", ("Gibbs, charged, adaptive T", "Gibbs, charged, one T")
COLOURS = (*METHODS, UNPROVED, *CHARGED)


def laplace_estimates(n, repeats, sum_zero, rng):
    """The posterior mean and one posterior draw, each shape (repeats,), from two noisy counts clipped at 0.

    Independent discrete Laplace noise of scale 2 / epsilon as the paper, or (z, -z) of scale 1 / epsilon.
    """
    ones = rng.binomial(n, THETA, repeats)
    stay = 1 - np.exp(-EPSILON / (1 if sum_zero else 2))
    noise = rng.geometric(stay, (2, repeats)) - rng.geometric(stay, (2, repeats))
    first, second = (noise[0], -noise[0]) if sum_zero else noise
    a, b = 1 + np.maximum(ones + first, 0), 1 + np.maximum(n - ones + second, 0)
    return a / (a + b), rng.beta(a, b)


def sampled_estimates(n, repeats, temperature, rng):
    """One draw from each posterior tempered by T and truncated to [floor, 1 - floor], shape (repeats,)."""
    ones = rng.binomial(n, THETA, repeats)
    a, b = 1 + ones / temperature, 1 + (n - ones) / temperature
    drawn = rng.beta(a, b)
    while (outside := (drawn < FLOOR) | (drawn > 1 - FLOOR)).any():
        drawn[outside] = rng.beta(a[outside], b[outside])
    return drawn


def efficiency(estimates, n):
    """The mean squared error over the least variance theta (1 - theta) / n, and its standard error."""
    ratio = n * (estimates - THETA) ** 2 / (THETA * (1 - THETA))
    return ratio.mean(), ratio.std(ddof=1) / np.sqrt(len(ratio))


def laplace_theory(n, sum_zero=False):
    """The variance of the posterior mean over the least one, to first order: 1 + what the noise adds."""
    scale = (1 if sum_zero else 2) / EPSILON
    variance = 1 / (2 * np.sinh(1 / (2 * scale)) ** 2)
    weight = 1 if sum_zero else (1 - THETA) ** 2 + THETA**2
    return 1 + variance * weight / (n * THETA * (1 - THETA))


def sampled_theory(n, temperature):
    """The mean squared error of one tempered draw over the least variance, summed over the data; the truncation aside.

    At n = 100 and T = 5 all but 1e-8 of the posterior mass is inside [0.01, 0.99].
    """
    ones = np.arange(n + 1)
    law = beta(1 + ones / temperature, 1 + (n - ones) / temperature)
    squared = law.var() + (law.mean() - THETA) ** 2
    return n * (binom.pmf(ones, n, THETA) * squared).sum() / (THETA * (1 - THETA))


def efficiencies(repeats):
    """One row for each method and n: simulated, its error, the theory at n (first order for Laplace), the limit."""
    found = []
    for n in ROWS:
        rng = np.random.default_rng(n)
        for name, sum_zero in (("Laplace", False), ("Laplace, sum-zero", True)):
            mean, draw = laplace_estimates(n, repeats, sum_zero, rng)
            theory = laplace_theory(n, sum_zero)
            found.append((f"{name}: mean", n, *efficiency(mean, n), theory, 1))
            found.append((f"{name}: 1 draw", n, *efficiency(draw, n), theory + 1, 2))
        for t in TEMPERATURES:
            estimates = sampled_estimates(n, repeats, t, rng)
            found.append((f"OPS, T = {t}: 1 draw", n, *efficiency(estimates, n), sampled_theory(n, t), 1 + t))
    return pd.DataFrame(found, columns=["method", "n", "simulated", "error", "theory at n", "limit"])


def log_mass(a, b, floor):
    """ln of the integral of x^(a-1) (1-x)^(b-1) over [floor, 1 - floor]; by symmetry always from the small tail."""
    a, b = max(a, b), min(a, b)
    return betaln(a, b) + np.log(betainc(a, b, 1 - floor) - betainc(a, b, floor))


def local_epsilon(ones, zeros, floor):
    """What one draw given these rows and a 1, or these rows and a 0, can tell: the largest log ratio of densities.

    The log ratio is ln(x / (1 - x)) minus ln(E x / E(1 - x)); its first part reaches +-Delta at the two ends.
    """
    delta = np.log((1 - floor) / floor)
    return delta + abs(log_mass(ones + 2, zeros + 1, floor) - log_mass(ones + 1, zeros + 2, floor))


def adversary(steps, floor):
    """The local epsilon after each row that a greedy adversary adds, shape (steps + 1,); a tie goes to 1."""
    ones = zeros = 0
    path = [local_epsilon(0, 0, floor)]
    for _ in range(steps):
        more, less = local_epsilon(ones + 1, zeros, floor), local_epsilon(ones, zeros + 1, floor)
        ones, zeros = (ones + 1, zeros) if more >= less else (ones, zeros + 1)
        path.append(max(more, less))
    return np.array(path)


def one_state(entries, seed):
    """Nats per held-out entry of each method and epsilon with independent fields; a tenth of the log is held out."""
    network = dg.Network.of(DOMAIN.restrict(FIELDS), {name: [] for name in FIELDS})
    columns = dg.statistics.encode(event_log.simulate(entries, seed).rows, network.domain).columns
    rng = np.random.default_rng(seed)
    held = rng.random(len(columns[FIELDS[0]])) < 0.1
    counts = dg.count(Codes(network.domain, FrozenMap((k, v[~held]) for k, v in columns.items())), network)

    def nats(model):
        return sum(np.log(model.table(name))[columns[name][held]].mean() for name in FIELDS)

    open_tables = {name: 1.0 + counts.sensitive_margin((name,)) for name in FIELDS}
    free = nats(dg.Probabilities(network, {name: table / table.sum() for name, table in open_tables.items()}))
    for epsilon in EPSILONS:
        paper = dg.LaplaceMechanism(epsilon, tables="families", allocation="uniform")
        clipped = dg.posterior(released(counts, paper, seed), method=dg.methods.PlugIn("clipped"))
        aware = dg.posterior(released(counts, dg.LaplaceMechanism(epsilon), seed), method="tables", seed=0)
        sample = released(counts, dg.PosteriorSample(epsilon, floor=FLOOR), seed).value[0]
        models = (aware.mean(), clipped.mean(), clipped.sample(rng)[0], sample)
        for method, score in zip(METHODS, (free, *map(nats, models)), strict=True):
            yield method, epsilon, score


def released(counts, mechanism, seed):
    """One release under a budget of exactly its cost."""
    return dg.release(
        counts, mechanism, budget=dg.Budget(mechanism.epsilon, unit=UNIT), noise=dg.testing.SeededNoise(seed)
    )


def three_states(entries, seed, sweeps=150):
    """Nats per entry in held-out cells, a tenth of them, with three hidden states."""
    log = event_log.simulate(entries, seed)
    cells = pd.DataFrame([(r, m) for r in event_log.REGIONS for m in event_log.MONTHS], columns=["region", "month"])
    flags = np.random.default_rng(seed).random(len(cells)) < 0.1
    settings = {"iterations": sweeps, "burn_in": sweeps, "random_state": seed, "noise": dg.testing.SeededNoise(seed)}

    def nats(epsilon, inference):
        model = dg.PrivateHMM(3, DOMAIN, epsilon, inference=inference, **settings)
        return model.fit(log.rows, held_out=cells[flags]).score(log.rows)

    free = nats(10_000, "plug-in")
    for epsilon in EPSILONS:
        yield "not private", epsilon, free
        yield "Laplace, noise-aware", epsilon, nats(epsilon, "noise-aware")
        yield "Laplace, clipped at 0", epsilon, nats(epsilon, "plug-in")
        yield UNPROVED, epsilon, sampled_states(log, flags.reshape(log.states.shape), epsilon, seed, sweeps)
        for method, temperature in zip(CHARGED, ("adaptive", "fixed"), strict=True):
            yield method, epsilon, charged_sweeps(log, flags.reshape(log.states.shape), epsilon, seed, temperature)


def charged_sweeps(log, held, epsilon, seed, temperature):
    """Nats per entry of ``GibbsSample`` as it comes: three sweeps, floor 0.05, the last two averaged."""
    network = dg.hmm_network(DOMAIN, "region", "month")
    cells = tuple((event_log.REGIONS[r], event_log.MONTHS[t]) for r, t in np.argwhere(held))
    mechanism = dg.papers.GibbsSample(epsilon, 3, temperature=temperature, held_out=cells)
    model = dg.papers.sampled_markov_model(released(dg.count(log.rows, network), mechanism, seed))
    total, entries = model.log_likelihood(dg.statistics.encode(log.rows, DOMAIN).columns, held)
    return total / entries


def sampled_states(log, held, epsilon, seed, sweeps):
    """NOT PRIVATE: the last sweep of a Gibbs sampler of the tempered posterior, all emissions above the floor.

    T = 2 Delta / epsilon with Delta = sum_f ln((1 - (V_f - 1) floor) / floor). It would be epsilon-DP at convergence,
    which nobody can verify; starting at the simulated states flatters it. ``charged_sweeps`` is private.
    """
    codes = dg.statistics.encode(log.rows, DOMAIN).columns
    place = codes["region"].astype(np.int64) * held.shape[1] + codes["month"]
    reach = sum(np.log((1 - (v - 1) * FLOOR) / FLOOR) for v in LEVELS)
    temperature, rng = 2 * reach / epsilon, np.random.default_rng(seed)
    tables = [np.bincount(place * v + codes[name], minlength=held.size * v).reshape(-1, v)
              for name, v in zip(FIELDS, LEVELS, strict=True)]  # fmt: skip
    counts = np.concatenate(tables, axis=1) * ~held.reshape(-1, 1) / temperature
    edges, states = np.cumsum([0, *LEVELS]).tolist(), log.states[None].astype(np.int64)
    for _ in range(sweeps):
        total = (states.reshape(1, -1) == np.arange(3)[:, None]).astype(float) @ counts
        laws = [above_floor(total[:, a:b] + 1.0, rng) for a, b in pairwise(edges)]
        transition = dirichlet_rows(transition_counts(states, 3) + 1.0, rng)
        score = (counts @ np.log(np.concatenate(laws, axis=1)).T).reshape(1, *held.shape, 3)
        likelihood = np.exp(score - score.max(axis=-1, keepdims=True))[0]
        _kernels.compiled().draw_states(rng, likelihood, states[0], transition[0], 1.0, False)
    model = dg.results.HiddenMarkovModel(
        dg.hmm_network(DOMAIN, "region", "month"), "region", "month", transition[:, None],
        FrozenMap((name, law[None, None]) for name, law in zip(FIELDS, laws, strict=True)), states[:, None],
        np.zeros((1, 1)), np.ones(held.shape), "plug-in", "blocked",
    )  # fmt: skip
    total, entries = model.log_likelihood(codes, held)
    return total / entries


def above_floor(concentration, rng):
    """Dirichlet draws of each row, drawn again until every probability is at least the floor."""
    drawn = dirichlet_rows(concentration, rng)
    while (low := (drawn < FLOOR).any(axis=1)).any():
        drawn[low] = dirichlet_rows(concentration[low], rng)
    return drawn


def held_out(title, study, entries, splits):
    """Mean nats over simulated logs, and what is lost to no privacy on the same log with its standard error."""
    scores = [(seed, *one) for seed in tqdm(range(splits), disable=not sys.stderr.isatty())
              for one in study(entries, seed)]  # fmt: skip
    table = pd.DataFrame(scores, columns=["log", "method", "epsilon", "nats"])
    wide = table.pivot(index=["log", "epsilon"], columns="method", values="nats")[list(table["method"].unique())]
    lost = wide.drop(columns="not private").rsub(wide["not private"], axis=0).groupby("epsilon")
    mean, error = lost.mean().T, lost.sem().T
    shown = {c: [f"{a:.4f} +- {b:.4f}" for a, b in zip(mean[c], error[c], strict=True)] for c in mean}
    text = (
        f"{title}, {splits} simulated logs, a tenth held out, replace one entry: nats per held-out entry\n"
        f"{wide.groupby('epsilon').mean().T.to_string(float_format=lambda x: f'{x:.3f}')}\n"
        "nats per entry behind no privacy on the same log, with standard errors\n"
        f"{pd.DataFrame(shown, index=mean.index).to_string()}\n"
    )
    return text, (title, mean, error)


def draw_efficiency(axes, table):
    """Simulated efficiency against n, with the limits."""
    for i, (method, rows) in enumerate(table.groupby("method", sort=False)):
        axes.errorbar(rows["n"], rows["simulated"], 2 * rows["error"], marker="o", ms=4, color=f"C{i}", label=method)
        axes.axhline(rows["limit"].iloc[0], color="0.7", lw=0.8, ls=":", zorder=0)
    axes.set(xscale="log", xlabel="rows n", ylabel="mean squared error / least variance", ylim=(0, 7))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)


def draw_adversary(axes, path, floor):
    """Local epsilon against the adversary's rows."""
    worst = 2 * np.log((1 - floor) / floor)
    axes.plot(path, label="greedy adversary")
    axes.axhline(worst, color="0.5", ls=":", label=f"2 Delta = {worst:.4f}")
    axes.set(xlabel="rows n", ylabel="local epsilon of one posterior sample", ylim=(0, 1.1 * worst))
    axes.legend(fontsize=8)


def draw_held_out(axes, study):
    """Nats lost to no privacy against epsilon; linear below 0.01, logarithmic above."""
    title, mean, error = study
    for method in mean.index:
        settings = {"marker": "o", "ms": 3, "label": method, "color": f"C{COLOURS.index(method)}"}
        axes.errorbar(mean.columns, mean.loc[method], 2 * error.loc[method], **settings)
    axes.set(xscale="log", xlabel="epsilon (replace one entry)", ylabel="nats per held-out entry behind no privacy")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(-0.005, 10)
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=7)


def save(name, painters, width):
    """One panel for each painter, to docs/figures."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure = Figure(figsize=(width * len(painters), 4.2), layout="constrained")
    for axes, painter in zip(figure.subplots(1, len(painters), squeeze=False)[0], painters, strict=True):
        painter(axes)
    path = FIGURES / f"foulds_{name}.png"
    figure.savefig(path, dpi=130)
    print(f"saved docs/figures/{path.name}", flush=True)


@click.command()
@click.option("--repeats", default=200_000, show_default=True, help="Simulated data sets for an efficiency.")
@click.option("--splits", default=20, show_default=True, help="Simulated logs with one state.")
@click.option("--hmm-splits", default=10, show_default=True, help="Simulated logs with three states.")
def main(repeats: int, splits: int, hmm_splits: int) -> None:
    """Prints the tables and saves the figures."""
    table = efficiencies(repeats)
    path = adversary(400, 0.2)
    texts = [
        f"efficiency, Bernoulli {THETA}, Laplace epsilon {EPSILON:g}, floor {FLOOR} for OPS, {repeats} repeats\n"
        f"{table.to_string(index=False, float_format=lambda x: f'{x:.3f}')}\n",
        "adversary, Beta-Bernoulli truncated to [0.2, 0.8], uniform prior: local epsilon after n rows\n"
        + "  ".join(f"{n}: {path[n]:.4f}" for n in (0, 1, 2, 5, 10, 20, 50, 100, 200, 400))
        + "\n",
    ]
    print("\n".join(texts), flush=True)
    save("efficiency", [lambda axes: draw_efficiency(axes, table)], 7.5)
    save("adversary", [lambda axes: draw_adversary(axes, path, 0.2)], 6)
    studies = []
    for title, study, entries, logs in (
        ("1 state, about 290 entries", one_state, 1.0, splits),
        ("1 state, about 11500 entries", one_state, 40.0, splits),
        ("3 states, about 11500 entries", three_states, 40.0, hmm_splits),
    ):
        text, found = held_out(title, study, entries, logs)
        print(f"\n{text}", flush=True)
        texts.append(text)
        studies.append(found)
    save("held_out", [lambda axes, study=study: draw_held_out(axes, study) for study in studies], 4.5)
    (FIGURES / "foulds_tables.txt").write_text("\n".join(texts))
    print("saved docs/figures/foulds_tables.txt")


if __name__ == "__main__":
    main()
