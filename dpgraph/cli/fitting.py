"""Commands that fit a model to rows: one release, then inference from it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dpgraph.cli.options import (
    DRY_RUN,
    EPSILON,
    JSON,
    NEIGHBOURS,
    OUT_UNLESS_DRY,
    ROWS_PER_PERSON,
    budget_of,
    only_priced,
    writable,
)
from dpgraph.cli.output import capture_warnings, plain, records, say


class States(click.ParamType):
    """A number of states, or "auto"."""

    name = "integer or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word."""
        return value if value == "auto" else click.INT.convert(value, param, ctx)


@click.group()
def fit() -> None:
    """Fit a private model to rows: one release, then inference from it alone."""


@fit.command("naive-bayes")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file that declares the features and the target.")
@click.option("--target", required=True, help="The variable to predict.")
@EPSILON
@click.option("--prior", type=float, default=1.0, show_default=True, help="Dirichlet concentration of every cell.")
@click.option("--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True)
@NEIGHBOURS
@ROWS_PER_PERSON
@DRY_RUN
@OUT_UNLESS_DRY
def fit_naive_bayes(
    rows: str,
    domain: str,
    target: str,
    epsilon: str,
    prior: float,
    inference: str,
    neighbours: str,
    rows_per_person: int,
    dry_run: bool,
    out: Path | None,
) -> None:
    """Fit a naive Bayes classifier of TARGET to ROWS."""
    from dpgraph.estimators.naive_bayes import PrivateNaiveBayes
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_domain
    from dpgraph.files.pgmpy import check_bif_names
    from dpgraph.inference.network.plug_in import check_prior
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.models.naive_bayes import naive_bayes_network

    check_prior(prior)
    declared = read_domain(domain)
    graph, budget = naive_bayes_network(declared, target), budget_of(epsilon, neighbours, rows_per_person)
    if only_priced(dry_run, LaplaceMechanism(epsilon), graph, budget):
        return
    out = writable(out, ".json", ".bif")
    if out.suffix.lower() == ".bif":
        check_bif_names(graph.domain)
    how = {"inference": inference, "prior": prior, "budget": budget, "progress": True}
    fitted = PrivateNaiveBayes(declared, epsilon, **how).fit(rows, target)
    save(fitted.model_, out)
    say(f"wrote {out}: {fitted.posterior_.provenance}")


@fit.command("hmm")
@click.argument("log")
@click.option("--domain", required=True, help="A TOML file that declares the sequence, the time and every field.")
@click.option("--sequence", required=True, help="The variable whose levels are the sequences, such as region.")
@click.option("--time", required=True, help="The variable whose levels are the time steps, in order, such as month.")
@click.option("--states", type=States(), required=True, help='The number of hidden states, or "auto".')
@click.option("--most-states", type=click.IntRange(min=1), default=5, show_default=True, help='What "auto" tries.')
@click.option(
    "--sequence-effects/--no-sequence-effects",
    default=None,
    help="Whether sequences differ whatever their state; by default with --states auto alone.",
)
@EPSILON
@click.option("--person", default=None, help="The column that says whose row it is; rows beyond the cap are dropped.")
@ROWS_PER_PERSON
@click.option("--neighbours", type=click.Choice(["replace", "add-remove"]), default=None, help="As for release.")
@click.option("--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True)
@click.option("--sampler", type=click.Choice(["blocked", "collapsed"]), default="blocked", show_default=True)
@click.option("--iterations", type=click.IntRange(min=1), default=200, show_default=True, help="Draws of each chain.")
@click.option("--burn-in", type=click.IntRange(min=0), default=100, show_default=True, help="Sweeps before them.")
@click.option("--seed", type=click.IntRange(min=0), default=None, help="Of the draws; it is not the noise's.")
@DRY_RUN
@OUT_UNLESS_DRY
def fit_hmm(
    log: str,
    domain: str,
    sequence: str,
    time: str,
    states: int | str,
    most_states: int,
    sequence_effects: bool | None,
    epsilon: str,
    person: str | None,
    rows_per_person: int,
    neighbours: Any,
    inference: str,
    sampler: str,
    iterations: int,
    burn_in: int,
    seed: int | None,
    dry_run: bool,
    out: Path | None,
) -> None:
    """Fit a hidden Markov model to the event LOG, one row an entry.

    A person has an unknown number of entries, so with --person the neighbours are add-remove unless the cap is 1.
    """
    from dpgraph.estimators.hmm import PrivateHMM
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_domain
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.models.hmm import hmm_network

    declared = read_domain(domain)
    graph = hmm_network(declared, sequence, time)
    private_n = person is not None and rows_per_person > 1
    budget = budget_of(epsilon, neighbours or ("add-remove" if private_n else "replace"), rows_per_person)
    if only_priced(dry_run, LaplaceMechanism(epsilon, tables="maximal"), graph, budget):
        return
    out = writable(out, ".json")
    who = {"person": person, "rows_per_person": rows_per_person, "budget": budget}
    how = {"inference": inference, "sampler": sampler, "iterations": iterations, "burn_in": burn_in}
    how |= {"most_states": most_states, "sequence_effects": sequence_effects}
    fitted = PrivateHMM(states, declared, epsilon, sequence, time, random_state=seed, progress=True, **who, **how)
    model, said = capture_warnings(lambda: fitted.fit(log))
    for words in said:
        say(f"warning: {words}")
    save(model, out)
    mixed = {name: f"{model.diagnostics_[name]:.3g}" for name in ("r_hat", "effective_size")}
    if model.choice_ is not None:
        say(plain(model.choice_.to_frame().reset_index()))
    say(f"{model.states_used_:.3g} of {model.model_.n_states} states used, R-hat {mixed['r_hat']}, "
         f"effective size {mixed['effective_size']}")  # fmt: skip
    say(f"wrote {out}: {model.model_.provenance}")


@fit.command("regression")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file: numbers as { bounds = [low, high] }, others by levels.")
@click.option("--target", required=True, help="The variable to predict, which has bounds.")
@EPSILON
@click.option("--typical", type=float, default=None, help="What the target is about, from public knowledge.")
@click.option("--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True)
@click.option("--draws", type=click.IntRange(min=1), default=2000, show_default=True, help="From the posterior.")
@click.option("--seed", type=click.IntRange(min=0), default=None, help="Of the draws; it is not the noise's.")
@click.option(
    "--on-missing",
    type=click.Choice(["error", "drop"]),
    default="error",
    show_default=True,
    help="A row with a null that is not declared: drop it, under add-remove only, or refuse the table.",
)
@NEIGHBOURS
@ROWS_PER_PERSON
@DRY_RUN
@JSON
@OUT_UNLESS_DRY
def fit_regression(
    rows: str,
    domain: str,
    target: str,
    epsilon: str,
    typical: float | None,
    inference: str,
    draws: int,
    seed: int | None,
    on_missing: Any,
    neighbours: str,
    rows_per_person: int,
    dry_run: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Fit a linear regression of TARGET to ROWS on all other variables of the domain file."""
    from dpgraph.estimators.regression import PrivateLinearRegression
    from dpgraph.files.designs import read_design
    from dpgraph.files.documents import save
    from dpgraph.inference.regression.prior import RegressionPrior
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism

    design, prior = read_design(domain, target, on_missing=on_missing), RegressionPrior(typical=typical)
    prior.centre(design)
    budget = budget_of(epsilon, neighbours, rows_per_person)
    if only_priced(dry_run, LaplaceMechanism(epsilon), design, budget):
        return
    out = writable(out, ".json")
    how = {"inference": inference, "draws": draws, "random_state": seed, "prior": prior, "progress": True}
    estimator = PrivateLinearRegression(design, epsilon=epsilon, budget=budget, **how)
    fitted, said = capture_warnings(lambda: estimator.fit(rows, target))
    learned = fitted.posterior_
    save(learned, out)
    shown = learned.coefficients()
    if as_json:
        table = records(shown.reset_index(names="name"))
        click.echo(json.dumps({"target": target, "coefficients": table, **learned.diagnostics}, indent=1))
    else:
        click.echo(plain(shown.reset_index(names="coefficient")))
    for words in said:
        say(f"warning: {words}")
    say(f"wrote {out}: {learned.provenance}")
