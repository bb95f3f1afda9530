"""Held-out nats per event of private hidden Markov models on the incident log, and the time of a sweep.

    python benchmarks/hmm.py [--splits 10] [--log ../shared/data/iraq_sigacts_monthly.csv]

Each split holds out a tenth of the cells (city, month); all methods see the same cells and, at one epsilon, the same
released counts. The noise is seeded: the figures repeat. Noise-aware inference, plug-in inference on cells cut at
zero (Foulds et al. 2016), and no noise at all as the bound.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.sampler import dirichlet_rows, relative_likelihood
from dpgraph.structure.markov import transition_counts

LOG = Path(__file__).parents[1].parent / "shared/data/iraq_sigacts_monthly.csv"
COLUMNS = ("city", "month", "attack_type", "target", "time_of_day", "weekend")
STATES = 3


def split(model_settings, domain, log, held, seed):
    """The score of one fit."""
    epsilon, inference, sweeps = model_settings
    model = dg.PrivateHMM(
        STATES, domain, epsilon, "city", "month", inference=inference, iterations=sweeps, burn_in=sweeps,
        noise=dg.testing.SeededNoise(seed), random_state=seed,
    ).fit(log, held_out=held)  # fmt: skip
    return model.score(log), model.diagnostics_["r_hat"]


def incidents(path, splits, sweeps):
    """Prints the mean score of each method, and the standard error of its paired distance from no noise."""
    log = pd.read_csv(path)
    domain = dg.Domain.of({name: sorted(log[name].unique().tolist()) for name in COLUMNS})
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
    print(f"{'':26} nats per event   (min to max)          from no noise        median R-hat")
    for name, values in scores.items():
        apart = np.array(values) - bound
        error = apart.std(ddof=1) / np.sqrt(splits) if splits > 1 else float("nan")
        print(f"{name:26} {np.mean(values):.4f}   ({min(values):.4f} to {max(values):.4f})"
              f"   {apart.mean():+.4f} +- {error:.4f}   {np.median(mixed[name]):.2f}")  # fmt: skip


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
    fields = [int(edge) for edge in np.cumsum([0, *levels])]
    edges, gibbs = np.array(fields), _kernels.compiled().gibbs

    def sweep(single_states):
        state, law = np.zeros((chains, steps), np.int64), np.full((size, size), 1 / size)
        emissions = np.concatenate([rng.dirichlet(np.ones(v), size) for v in levels], axis=1)

        def once():
            log = (counts @ np.log(emissions).T).reshape(chains, steps, size)
            gibbs(rng, relative_likelihood(log), counts, edges, state, law, emissions, (1.0, 1.0), single_states)

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
        likelihood = relative_likelihood(np.log(emissions).T)[symbol]
        _kernels.compiled().blocked(likelihood, law, rng.random(symbol.shape), state)
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
@click.option("--log", "path", type=click.Path(path_type=Path), default=LOG)
def main(splits, length, path):
    """Prints both tables."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # R-hat is in the table
    sweeps(20, 72, 10, (2, 4, 8, 20, 40))
    observations()
    if path.exists() and splits:
        incidents(path, splits, length)
    else:
        print(f"no {path.name}; the incident log is left out")


if __name__ == "__main__":
    main()
