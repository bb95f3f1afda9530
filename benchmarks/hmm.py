"""Held-out nats per event of private hidden Markov models on the incident log, and the time of a sweep.

    python benchmarks/hmm.py [--splits 10] [--study all] [--log ../shared/data/iraq_sigacts_monthly.csv]

Each split holds out a tenth of the cells (city, month); all methods see the same cells and, at one epsilon, the same
released counts. The noise is seeded: the figures repeat. Noise-aware inference, plug-in inference on cells cut at
zero (Foulds et al. 2016), and no noise at all as the bound. ``--study baselines`` puts the number of states chosen
after the release, with effects of the cities, beside two simple models of the same release; ``--study states`` counts
the states used of ten; ``--study counts`` scores forecasts of the numbers of entries; ``--study mixing`` counts how
many default fits of simulated logs warn, and tells their states from the true ones.
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path

import click
import numpy as np
import pandas as pd
from scipy.stats import nbinom

import dpgraph as dg
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import dirichlet_rows, latent_cells
from dpgraph.models.hmm import LEAST, SIZES, count_law, markov_scores, nbinom_logpmf
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.network import transition_counts

LOG = Path(__file__).parents[1].parent / "shared/data/iraq_sigacts_monthly.csv"
COLUMNS = ("city", "month", "attack_type", "target", "time_of_day", "weekend")
STATES = 3
STUDIES = ["all", "speed", "scores", "baselines", "states", "counts", "mixing"]


def split(model_settings, domain, log, held, seed):
    """The score of one fit."""
    epsilon, inference, sweeps = model_settings
    model = dg.PrivateHMM(
        STATES, domain, epsilon, "city", "month", inference=inference, iterations=sweeps, burn_in=sweeps,
        noise=dg.testing.SeededNoise(seed), random_state=seed,
    ).fit(log, held_out=held)  # fmt: skip
    total, entries = model.model_.log_likelihood(log, held)
    return total / entries, model.diagnostics_["r_hat"]


def incidents(path, splits, sweeps):
    """Prints the mean score of each method, and the standard error of its paired distance from no noise."""
    log = pd.read_csv(path)
    domain = domain_of(log)
    cells = pd.DataFrame([(c, m) for c in domain.levels("city") for m in domain.levels("month")], columns=COLUMNS[:2])
    methods = {"no noise": (10_000, "plug-in", sweeps)}
    for epsilon in ("1", "0.1"):
        for inference in ("noise-aware", "plug-in"):
            methods[f"{inference}, epsilon {epsilon}"] = (epsilon, inference, sweeps)
    scores = {name: [] for name in methods}
    mixed = {name: [] for name in methods}
    for seed in range(splits):
        held = cells[np.random.default_rng(seed).random(len(cells)) < 0.1]
        for name, settings in methods.items():
            score, r_hat = split(settings, domain, log, held, seed)
            scores[name].append(score)
            mixed[name].append(r_hat)
        print(seed, " ".join(f"{values[-1]:.4f}" for values in scores.values()), flush=True)
    bound = np.array(scores["no noise"])
    print(f"\n{len(log)} events, {STATES} states, {splits} splits, 2 chains of {sweeps} sweeps after {sweeps}:")
    print(f"{'whole held-out cells':26} nats per event   (min to max)          from no noise        median R-hat")
    for name, values in scores.items():
        apart = np.array(values) - bound
        error = apart.std(ddof=1) / np.sqrt(splits) if splits > 1 else float("nan")
        print(f"{name:26} {np.mean(values):.4f}   ({min(values):.4f} to {max(values):.4f})"
              f"   {apart.mean():+.4f} +- {error:.4f}   {np.median(mixed[name]):.2f}")  # fmt: skip


def domain_of(log):
    """The domain of the incident log, which is public."""
    return dg.Domain.of({name: sorted(log[name].unique().tolist()) for name in COLUMNS})


def baselines(path, splits, sweeps):
    """Prints entry by entry, whole cells and the average over draws, of models of one release beside each other."""
    log = pd.read_csv(path)
    domain = domain_of(log)
    cells = pd.DataFrame([(c, m) for c in domain.levels("city") for m in domain.levels("month")], columns=COLUMNS[:2])
    found, chosen, mixed = {}, {}, {}
    for seed in range(splits):
        held = cells[np.random.default_rng(seed).random(len(cells)) < 0.1]
        for epsilon in ("1", "0.1"):
            how = {"iterations": sweeps, "burn_in": sweeps, "random_state": seed}
            made = dg.PrivateHMM(
                "auto", domain, epsilon, "city", "month", noise=dg.testing.SeededNoise(seed), **how
            ).fit(log, held_out=held)  # fmt: skip
            plain = dg.PrivateHMM(
                STATES, domain, epsilon, "city", "month", noise=dg.testing.SeededNoise(seed), **how
            ).fit(log, held_out=held)  # fmt: skip
            table = pd.concat([made.scores(log), alone(plain, log)])
            found.setdefault(epsilon, []).append(table)
            chosen.setdefault(epsilon, []).append(made.choice_.chosen)
            mixed.setdefault(epsilon, []).append(made.diagnostics_["r_hat"])
            shown = " ".join(f"{name}: {value:.4f}" for name, value in table["entry by entry"].items())
            print(seed, epsilon, made.choice_.chosen, f"R-hat {mixed[epsilon][-1]:.2f}", shown, flush=True)
    for epsilon, tables in found.items():
        compared(epsilon, tables)
        print(f"states chosen {chosen[epsilon]}, R-hat {np.round(mixed[epsilon], 2).tolist()}")


def alone(fitted, log):
    """The scores of a model without its baselines, which are those of another model of the same release."""
    found = markov_scores(
        fitted.model_, dg.statistics.encode(log, fitted.model_.network.domain).columns, fitted.held_out_
    )
    return pd.DataFrame([found], index=[f"{STATES} states"])


def compared(epsilon, tables):
    """Means over splits, and the paired distance to the better baseline of each split."""
    splits = len(tables)
    print(f"\nepsilon {epsilon}, {splits} splits")
    print(pd.concat(tables).groupby(level=0, sort=False).mean().round(4).to_string())
    single = np.array([table["entry by entry"] for table in tables])
    for name, better in (("mean", single[:, 1:3].mean(axis=0).argmax()), ("split", None)):
        other = single[:, 1:3].max(axis=1) if better is None else single[:, 1 + better]
        apart = single[:, 0] - other
        error = apart.std(ddof=1) / np.sqrt(splits) if splits > 1 else float("nan")
        print(f"  above the better baseline by {name}: {apart.mean():+.4f} +- {error:.4f}, least {apart.min():+.4f}")


def counts(path, sweeps):
    """Prints scores of forecasts of the number of entries of a city and month, by the months before them.

    The peers read the same release: means of the last months, and laws by state, the state's chain going on.
    """
    log = pd.read_csv(path)
    whole, rows = domain_of(log), []
    months, true = whole.levels("month"), pd.crosstab(log["city"], log["month"]).to_numpy()
    for epsilon, end in itertools.product(("1", "0.5", "0.25"), range(20, 43, 3)):
        domain = dg.Domain.of({**whole.variables, "month": months[:end]})
        model = dg.PrivateHMM(
            STATES, domain, epsilon, "city", "month", iterations=sweeps, burn_in=sweeps,
            noise=dg.testing.SeededNoise(end), random_state=end,
        ).fit(log[log["month"].isin(months[:end])]).model_  # fmt: skip
        for ahead in (1, 3, 6):
            if end + ahead > len(months):
                continue
            value = true[:, end + ahead - 1].astype(float)
            for name, (mean, size) in count_laws(model, ahead).items():
                low, high = (nbinom.ppf(part, size, size / (size + mean)) for part in (0.05, 0.95))
                below = nbinom.cdf(np.arange(5000), size, (size / (size + mean))[:, None])
                found = {"epsilon": epsilon, "ahead": ahead, "forecast": name, "end": end}
                found["nats"] = nbinom_logpmf(value, mean, size) / len(value)
                found["CRPS"] = ((below - (np.arange(5000) >= value[:, None])) ** 2).sum(axis=1).mean()
                rows.append(found | {"held": np.mean((low <= value) & (value <= high))})
    table = pd.DataFrame(rows)
    table.insert(4, "apart", table["nats"] - table.groupby(["epsilon", "ahead", "end"])["nats"].transform("first"))
    print(
        table.groupby(["epsilon", "ahead", "forecast"])[["nats", "apart", "CRPS", "held"]].mean().round(3).to_string()
    )
    spread = table.groupby(["epsilon", "ahead", "forecast"])["apart"].agg(["sem", "count"])
    print(spread.round(3).to_string())


def count_laws(model, ahead):
    """The mean and size of each city's law, by each method."""
    entries = model.entries
    found = {"dpgraph": count_law(entries, ahead)}
    for last in (3, 6):
        ends = np.arange(last, entries.shape[1] - ahead + 1)
        means = np.stack([entries[:, end - last : end].mean(axis=1) for end in ends], axis=1)
        found[f"last {last} months"] = spread_of(entries[:, ends + ahead - 1], means, entries[:, -last:].mean(axis=1))
    share, mean = model.state_probabilities, entries.mean(axis=1)
    for _ in range(50):
        factor = (share * entries[..., None]).sum(axis=(0, 1)) / (share * mean[:, None, None]).sum(axis=(0, 1))
        mean = entries.sum(axis=1) / (share @ factor).sum(axis=1)
    chain = np.linalg.matrix_power(model.mean_transition, ahead)
    found["by state"] = spread_of(entries, mean[:, None] * (share @ factor), mean * (share[:, -1] @ chain @ factor))
    return found


def spread_of(entries, means, mean):
    """The mean and the size of the largest likelihood."""
    means, mean = np.maximum(means, LEAST), np.maximum(mean, LEAST)
    return mean, max(SIZES, key=lambda size: nbinom_logpmf(entries, means, size))


def ten_states(path, sweeps):
    """Prints how many of ten states have a cell, as in the paper's study, with and without effects of the cities."""
    log = pd.read_csv(path)
    domain = domain_of(log)
    print("\nten states, how many have a cell (mean over draws); of 860 cells")
    for epsilon, inference in (("0.1", None), ("1", None), ("10", None), ("none", "plug-in")):
        for own in (False, True):
            spent, how = 10_000 if epsilon == "none" else epsilon, inference or "noise-aware"
            made = dg.PrivateHMM(
                10, domain, spent, "city", "month", iterations=sweeps, burn_in=sweeps, inference=how,
                noise=dg.testing.SeededNoise(0), random_state=0, sequence_effects=own,
            ).fit(log)  # fmt: skip
            flat = made.model_.states.reshape(-1, 860)
            large = np.mean([(np.bincount(one, minlength=10) >= 9).sum() for one in flat])
            print(f"epsilon {epsilon}, effects {own}: {made.states_used_:.1f}, with at least 1 % of cells {large:.1f}, "
                  f"R-hat {made.diagnostics_['r_hat']:.2f}", flush=True)  # fmt: skip


def simulated_log(seed, own, sequences=12, steps=30, entries=40, sizes=(3, 4), states=3):
    """Entries, their domain and the true states: fields of Dirichlet(1) laws, effects of deviation ``own``."""
    rng = np.random.default_rng(seed)
    moves = 0.1 + 0.7 * np.eye(states)
    laws = [rng.dirichlet(np.ones(size), states) for size in sizes]
    effects = [rng.normal(0, own, (sequences, size)) for size in sizes]
    rows, true = [], np.empty((sequences, steps), int)
    for r in range(sequences):
        state = rng.integers(states)
        for t in range(steps):
            true[r, t], many = state, rng.poisson(entries)
            columns = []
            for law, effect in zip(laws, effects, strict=True):
                weights = law[state] * np.exp(effect[r])
                columns.append(rng.choice(len(weights), many, p=weights / weights.sum()))
            rows.append(pd.DataFrame({"region": r, "month": t, **{f"f{i}": one for i, one in enumerate(columns)}}))
            state = rng.choice(states, p=moves[state])
    levels = {"region": range(sequences), "month": range(steps), **{f"f{i}": range(k) for i, k in enumerate(sizes)}}
    return pd.concat(rows), dg.Domain.of({name: list(one) for name, one in levels.items()}), true


def mixing(logs):
    """Prints how many fits of simulated logs warn, with effects of sequences and without."""
    print(f"\n{logs} logs of 12 sequences, 30 steps, 40 entries a cell, three states; fits by default but for effects")
    for own, epsilon in itertools.product((0.0, 1.0), ("1", "0.3")):
        mixed, right, began = [], [], time.perf_counter()
        for seed in range(logs):
            log, domain, true = simulated_log(seed, own)
            how = {"random_state": seed, "sequence_effects": own > 0, "noise": dg.testing.SeededNoise(seed)}
            made = dg.PrivateHMM(3, domain, epsilon, "region", "month", **how).fit(log)
            found = made.model_.state_probabilities.argmax(axis=2)
            mixed.append(made.diagnostics_["r_hat"])
            right.append(max((np.array(names)[found] == true).mean() for names in itertools.permutations(range(3))))
        seconds = (time.perf_counter() - began) / max(logs, 1)
        print(f"effects {own}, epsilon {epsilon}: {sum(one > 1.05 for one in mixed)} warn, R-hat at most "
              f"{max(mixed):.2f}, states right {np.mean(right):.3f} ({min(right):.2f} to {max(right):.2f}), "
              f"{seconds:.1f} s a fit", flush=True)  # fmt: skip


def per_second(function, seconds=1.0):
    """Calls per second, after one call to warm up."""
    function()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    return calls / (time.perf_counter() - start)


def sweeps(chains, steps, size, levels):
    """States, transitions and emissions drawn once given counts: sweeps per second, and hmmlearn's EM iterations."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(4.0, (chains * steps, sum(levels))).astype(float)
    fields = tuple(slice(int(end) - size, int(end)) for size, end in zip(levels, np.cumsum(levels), strict=True))
    tables = counts.astype(int).reshape(chains, steps, -1)
    given = cells_evidence(tables, fields, [(DiscreteLaplace(1.0), counts.size)] * sum(levels))
    cells, gibbs = latent_cells(given, size, tables), _kernels.compiled().gibbs

    def sweep(single_states):
        state, law = np.zeros((chains, steps), np.int64), np.full((size, size), 1 / size)
        emissions = np.concatenate([rng.dirichlet(np.ones(v), size) for v in levels], axis=1)

        def once():
            gibbs(rng, cells, state, law, emissions, emissions, (1.0, 1.0), single_states, False, False)

        return once

    print(f"\n{chains} chains x {steps} steps, {size} states, fields of {levels} levels; sweeps per second of a chain:")
    for name, single_states in (("blocked", False), ("collapsed", True)):
        print(f"  {name:26} {per_second(sweep(single_states)):10.0f}")
    reference(counts, chains, steps, size, levels)


def reference(counts, chains, steps, size, levels):
    """EM iterations of hmmlearn on the same statistics, where it is installed."""
    try:
        from hmmlearn.hmm import MultinomialHMM
    except ImportError:
        print("  hmmlearn is not installed: no ratio")
        return
    model = MultinomialHMM(size, n_iter=1, tol=-np.inf)
    rate = per_second(lambda: model.fit(counts.astype(int), [steps] * chains))
    print(f"  {'hmmlearn, an EM iteration':26} {rate:10.1f}")


def observations(number=100_000, size=8, symbols=32):
    """One symbol a time step, in a hundred chains: compiled sweeps per EM iteration of hmmlearn."""
    rng = np.random.default_rng(1)
    symbol = rng.integers(0, symbols, (100, number // 100))
    state, law = np.zeros(symbol.shape, np.int64), np.full((size, size), 1 / size)
    emissions = rng.dirichlet(np.ones(symbols), size)

    def once():
        nonlocal law, emissions
        likelihood = (emissions / emissions.max(axis=0)).T[symbol]
        _kernels.compiled().draw_states(rng, likelihood, state, law, 1.0, False)
        law = dirichlet_rows(transition_counts(state[None], size)[0] + 1.0, rng)
        total = np.bincount(state.ravel() * symbols + symbol.ravel(), minlength=size * symbols)
        emissions = dirichlet_rows(total.reshape(size, symbols) + 1.0, rng)

    print(f"\n{number} observations, {size} states, {symbols} symbols; per second:")
    print(f"  {'compiled, blocked':26} {per_second(once):10.2f}")
    try:
        from hmmlearn.hmm import CategoricalHMM
    except ImportError:
        return
    model = CategoricalHMM(size, n_iter=1, tol=-np.inf)
    lengths = [symbol.shape[1]] * symbol.shape[0]
    print(f"  {'hmmlearn, an EM iteration':26} {per_second(lambda: model.fit(symbol.reshape(-1, 1), lengths)):10.2f}")


@click.command()
@click.option("--splits", default=10, help="How many.")
@click.option("--sweeps", "length", default=200, help="Burn-in, and again as many draws.")
@click.option(
    "--study", type=click.Choice(["all", "speed", "scores", "baselines", "states", "counts", "mixing"]), default="all"
)
@click.option("--log", "path", type=click.Path(path_type=Path), default=LOG)
def main(splits, length, study, path):
    """Prints the tables."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # R-hat is in the table
    if study in ("all", "speed"):
        sweeps(20, 72, 10, (2, 4, 8, 20, 40))
        observations()
    if study in ("all", "mixing"):
        mixing(splits)
    if path.exists() and splits:
        if study in ("all", "scores"):
            incidents(path, splits, length)
        if study in ("all", "baselines"):
            baselines(path, splits, length)
        if study in ("all", "states"):
            ten_states(path, length)
        if study in ("all", "counts"):
            counts(path, length)
    else:
        print(f"no {path.name}; the incident log is left out")


if __name__ == "__main__":
    main()
