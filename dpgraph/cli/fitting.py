"""Commands that fit a model to rows, or learn a network of them: one release, then inference from it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpgraph as dg
from dpgraph.cli import options
from dpgraph.cli.budgets import Payer, charging, only_priced, spends
from dpgraph.cli.output import delivering, plain, records, save_charged, say, show, show_json, telling


class States(click.ParamType):
    """A number of states, or "auto"."""

    name = "integer or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word."""
        return value if value == "auto" else click.INT.convert(value, param, ctx)


#: A number of rows to judge what a dry run prices by.
SUPPOSED = options.whole("--n", 1, help="For --dry-run: a public or supposed number of rows, for relative errors.")
#: The most families that a dry run shows.
MOST_FAMILIES = 10


def _show_errors(network: dg.Network, mechanism: dg.LaplaceMechanism, unit: dg.PrivacyUnit, n: int | None) -> None:
    """Prints the expected error of each table, the largest first."""
    from dpgraph.analysis.cost import expected_errors

    rows = expected_errors(network, mechanism, unit=unit, n=n)
    names = ("variable", "parents", "cells", "scale", "rmse", *(("tv",) if n else ()))
    worst = sorted(rows, key=lambda row: row["tv" if n else "rmse"], reverse=True)[:MOST_FAMILIES]
    more = f", the {MOST_FAMILIES} worst of {len(rows)} tables" if len(rows) > MOST_FAMILIES else ""
    show(f"\nexpected errors{more}:\n{plain([{name: row[name] for name in names} for row in worst])}")
    show("rmse: standard error of one cell, in rows" + ("; tv: of the table, as a share of the rows" if n else ""))
    if n is None:
        show("Give --n for errors as a share of the rows.")


def _show_standard_errors(design: dg.LinearDesign, epsilon: str, n: int | None, unit: dg.PrivacyUnit) -> None:
    """Prints the expected standard error of each coefficient, where the number of rows is given."""
    if n is None:
        show("Give --n for the expected standard errors of the coefficients.")
        return

    table: Any = dg.privacy_cost(design, epsilon=epsilon, n=n, unit=unit)
    wanted = ["coefficient", "without", "with", "ratio", "noise share"]
    show(f"\nexpected standard errors with n = {n}:\n{plain(table[wanted].to_dict('records'))}")
    show(
        "without, with: standard errors without and with privacy, for features spread evenly\n"
        "noise share: noise on the products of features over the products, in their weakest direction;\n"
        "  below 0.6 these errors hold, above 2 noise hides the coefficients: more rows or a larger epsilon"
    )


@click.group()
def fit() -> None:
    """Fit a private model to rows: one release, then inference from it alone."""


@fit.command("naive-bayes")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file that declares the features and the target.")
@click.option("--target", required=True, help="The variable to predict.")
@click.option("--prior", type=float, default=1.0, help="Dirichlet concentration of every cell.")
@options.INFERENCE
@spends
@SUPPOSED
@options.OUT_UNLESS_DRY
def fit_naive_bayes(
    payer: Payer, rows: str, domain: str, target: str, n: int | None, out: Path | None, **how: Any
) -> None:
    """Fit a naive Bayes classifier of TARGET to ROWS."""
    from dpgraph.inference.arguments import check_above_zero

    check_above_zero("prior", how["prior"])
    declared = dg.read_domain(domain)
    graph = dg.naive_bayes_network(declared, target)
    budget = payer.budget()
    if only_priced(payer, dg.LaplaceMechanism(payer.epsilon).event(graph, budget.unit), budget):
        from dpgraph.mechanisms.additive.laplace import label_first

        public = n if budget.unit.n_is_public else None
        _show_errors(graph, label_first(graph, target, payer.epsilon, budget.unit, public), budget.unit, n)
        return

    out = options.writable(out, ".json", ".npz", ".bif")
    with charging(budget):
        classifier = dg.PrivateNaiveBayes(declared, payer.epsilon, budget=budget, progress=True, **how)
        fitted = classifier.fit(rows, target, person=payer.person)
        save_charged(fitted, out, fitted.posterior_.provenance)


@fit.command("classifier")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file that declares the features and the target.")
@click.option("--target", required=True, help="The variable to predict.")
@options.DELTA
@spends
@SUPPOSED
@options.OUT_UNLESS_DRY
def fit_classifier(
    payer: Payer, rows: str, domain: str, target: str, delta: str, n: int | None, out: Path | None
) -> None:
    """Fit a classifier of TARGET to ROWS that plans its release and chooses its model by what was released.

    With --delta pairs of features are measured where that pays.
    """
    from dpgraph.estimators.classifier import charged_at_once

    budget = payer.budget(delta)
    if only_priced(payer, charged_at_once(payer.epsilon, delta), budget):
        return
    out = options.writable(out, ".json", ".npz")
    with charging(budget):
        settings: Any = {"n": n, "budget": budget, "progress": True}
        classifier = dg.PrivateClassifier(dg.read_domain(domain), None, payer.epsilon, delta, **settings)
        fitted = classifier.fit(rows, target, person=payer.person)
        save_charged(fitted, out, fitted.model_.provenance)
    show(plain([{str(name): value for name, value in row.items()} for row in fitted.choice_.to_dict("records")]))


@fit.command("hmm")
@click.argument("log")
@click.option("--domain", required=True, help="A TOML file that declares the sequence, the time and every field.")
@click.option("--sequence", required=True, help="The variable whose levels are the sequences, such as region.")
@click.option("--time", required=True, help="The variable whose levels are the time steps, in order, such as month.")
@click.option("--states", type=States(), required=True, help='The number of hidden states, or "auto".')
@options.whole("--most-states", 1, 5, 'What "auto" tries.')
@click.option("--sequence-effects/--no-sequence-effects", default=None, help="By default with --states auto alone.")
@options.INFERENCE
@options.choice("--sampler", ["blocked", "collapsed"], "blocked")
@options.whole("--iterations", 1, None, "Draws of each chain; by default 200, with further sweeps as R-hat asks.")
@options.whole("--burn-in", 0, 100, "Sweeps before them.")
@options.SEED
@spends
@SUPPOSED
@options.OUT_UNLESS_DRY
def fit_hmm(
    payer: Payer, log: str, domain: str, states: Any, n: int | None, seed: int | None, out: Path | None, **how: Any
) -> None:
    """Fit a hidden Markov model to the event LOG, one row an entry.

    A person has an unknown number of entries, so with --person the neighbours are add-remove unless the cap is 1.
    """
    declared = dg.read_domain(domain)
    graph = dg.hmm_network(declared, how["sequence"], how["time"])
    budget = payer.budget()
    noise = dg.LaplaceMechanism(payer.epsilon, tables="maximal")
    if only_priced(payer, noise.event(graph, budget.unit), budget):
        _show_errors(graph, noise, budget.unit, n)
        return

    out = options.writable(out, ".json", ".npz")
    how |= {"person": payer.person, "rows_per_person": budget.unit.rows_per_person, "budget": budget}
    fitted = dg.PrivateHMM(states, declared, payer.epsilon, random_state=seed, progress=True, **how)
    with charging(budget):
        model = telling(lambda: fitted.fit(log))
        save_charged(model, out, model.model_.provenance)
        _say_states(model.model_)


def _say_states(model: dg.results.HiddenMarkovModel) -> None:
    """How the number of states was chosen, how many are used and how the chains mixed."""
    mixed = {name: f"{model.diagnostics[name]:.3g}" for name in ("r_hat", "effective_size")}
    if model.choice is not None:
        for line in plain(model.choice.to_frame().reset_index().to_dict("records")).split("\n"):
            say(line)
    used = f"{model.states_used.mean():.3g} of {model.n_states} states used"
    say(f"{used}, R-hat {mixed['r_hat']}, effective size {mixed['effective_size']}")


@click.command()
@click.argument("model")
@click.option("--states", type=States(), help='The number of hidden states, or "auto"; as before if absent.')
@options.whole("--iterations", 1, 2000, "Draws of each chain.")
@options.whole("--burn-in", 0, 1000, "Sweeps before them.")
@options.whole("--seed", 0, 0, "Of the draws.")
@options.OUT
def refit(model: str, states: int | str | None, out: Path, **how: Any) -> None:
    """Learn a hidden Markov MODEL again, from the release that its file keeps; free, and no rows are read.

    All cells are learned from, those that a fit in Python held out too.
    """
    out = options.writable(out, ".json", ".npz")
    before = dg.load(model, progress=True)
    if not isinstance(before, dg.results.HiddenMarkovModel):
        raise dg.errors.InferenceError(
            f"refit takes a hidden Markov model; {model} holds a {type(before).__name__}, whose release is "
            "dg.load(path, release=True)"
        )
    how |= {name: getattr(before, name) for name in ("sequence", "time", "inference", "sampler")}
    how |= {"sequence_effects": bool(before.effects), "progress": True}
    released = dg.load(model, release=True, progress=True)
    fitted = telling(lambda: dg.fit_hmm(released, before.n_states if states is None else states, **how))
    with delivering(out):
        dg.save(fitted, out, release=released, progress=True)
    _say_states(fitted)
    say(f"wrote {out}: {fitted.provenance}")


@fit.command("regression")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file: numbers as { bounds = [low, high] }, others by levels.")
@click.option("--target", required=True, help="The variable to predict, which has bounds.")
@click.option("--typical", type=float, default=None, help="A typical value of the target, from public knowledge.")
@options.INFERENCE
@options.whole("--draws", 1, 2000, "From the posterior.")
@options.SEED
@options.choice("--on-missing", ["error", "drop"], "error", "What becomes of rows with undeclared nulls.")
@spends
@SUPPOSED
@options.JSON
@options.OUT_UNLESS_DRY
def fit_regression(
    payer: Payer, rows: str, domain: str, target: str, typical: Any, n: Any, as_json: bool, out: Path | None, **how: Any
) -> None:
    """Fit a linear regression of TARGET to ROWS on all other variables of the domain file."""
    design = dg.read_design(domain, target, on_missing=how.pop("on_missing"))
    prior = dg.RegressionPrior(typical=typical)
    prior.centre(design)
    budget = payer.budget()
    if only_priced(payer, dg.LaplaceMechanism(payer.epsilon).event(design, budget.unit), budget):
        _show_standard_errors(design, payer.epsilon, n, budget.unit)
        return

    out = options.writable(out, ".json", ".npz")
    how |= {"random_state": how.pop("seed"), "prior": prior, "budget": budget, "progress": True}
    estimator = dg.PrivateLinearRegression(design, epsilon=payer.epsilon, **how)
    with charging(budget):
        fitted = telling(lambda: estimator.fit(rows, target, person=payer.person))
        learned = fitted.posterior_
        save_charged(fitted, out, learned.provenance)
        shown = learned.coefficients()
        if as_json:
            table = records(shown.reset_index(names="name").to_dict("records"))
            show_json({"target": target, "coefficients": table, **learned.diagnostics}, indent=1)
        else:
            show(plain(shown.reset_index(names="coefficient").to_dict("records")))


@click.command()
@click.argument("rows")
@click.option("--declaration", required=True, help="A TOML file of variables, some numbers or words to be found.")
@options.DELTA
@options.number("--rare", 1, help="Levels of a smaller share of the rows become 'other'; .005 if absent.")
@spends
@options.OUT_UNLESS_DRY
def discover(payer: Payer, rows: str, declaration: str, delta: str, rare: float | None, out: Path | None) -> None:
    """Find the bins and levels that a declaration leaves open in ROWS, with a part of the budget.

    The file that is written says how each variable was found, and by which charge.
    """
    from dpgraph.estimators.discovering import planned
    from dpgraph.files.networks import read_declaration

    partial, strict = read_declaration(declaration)
    budget = payer.budget(delta)
    settings: Any = {"epsilon": payer.epsilon, "delta": delta, "budget": budget, "strict": strict}
    if only_priced(payer, planned(partial, **settings).event, budget):
        return
    out = options.writable(out, ".toml")
    with charging(budget):
        asked: Any = settings | ({} if rare is None else {"rare": rare})
        found = telling(lambda: dg.discover(rows, partial, person=payer.person, progress=True, **asked))
        with delivering(out):
            dg.save(found, out)
        say(f"wrote {out}: {found.provenance}")
    show(plain(found.to_frame().reset_index().to_dict("records")))


@click.command()
@click.argument("rows")
@click.option("--domain", required=True, help="The variables and their levels, declared.")
@options.DELTA
@click.option("--method", default="auto", help="The method; auto tells its choice and the reason.")
@options.whole("--max-parents", 0, help="The most parents of a variable.")
@options.whole("--max-cells", 1, help="The most cells of a family's table.")
@click.option("--required", metavar="A->B", multiple=True, help="An edge that must be there; may be repeated.")
@click.option("--forbidden", metavar="A->B", multiple=True, help="An edge that must not be; may be repeated.")
@click.option("--order", metavar="A,B,...", help="Variables first to last: no edge leads backwards.")
@click.option("--target", help="A variable that is a parent of every other: tree-augmented naive Bayes.")
@options.whole("--n", 1, help="About how many rows there are, if that is public.")
@spends
@options.OUT_UNLESS_DRY
@click.option("--shares", is_flag=True, help="Print how often each edge is chosen on draws of the pairs, too; slow.")
@click.option("--release", "release_out", type=options.OUT_PATH, help="Where to write every noisy table as well.")
@click.option("--model", "model_out", type=options.OUT_PATH, help="Where to write the probabilities as well.")
def learn(
    payer: Payer, rows: str, domain: str, out: Any, shares: bool, release_out: Any, model_out: Any, **settings: Any
) -> None:
    """Learn a network of ROWS that have no graph: pairs are measured once, and the graph is chosen for free."""
    from dpgraph.estimators.learning import planned_events

    options.apart({"--out": out, "--release": release_out, "--model": model_out})
    declared = dg.read_domain(domain)
    budget = payer.budget(settings["delta"])
    bounds = {name: settings.pop(name) for name in ("max_parents", "max_cells", "target")}
    edges = {name: [_edge(text) for text in settings.pop(name)] for name in ("required", "forbidden")}
    order = settings.pop("order")
    order = None if order is None else [name.strip() for name in order.split(",")]
    settings |= {
        "epsilon": payer.epsilon,
        "budget": budget,
        "constraints": dg.Constraints(order=order, **edges, **bounds),
    }
    if only_priced(payer, planned_events(declared, **settings), budget):
        return

    out = options.writable(out, ".toml", ".json")
    beside = [None if path is None else options.writable(path, ".json", ".npz") for path in (release_out, model_out)]
    with charging(budget):
        learned = telling(lambda: dg.learn_network(rows, declared, person=payer.person, progress=True, **settings))
        if beside[0] is not None:
            save_charged(learned.release, beside[0])
        with delivering(out):
            dg.save(learned.network, out, progress=True)
        say(f"wrote {out}: {learned.provenance}; {learned.reason}")
        if beside[1] is not None:
            save_charged(learned.probabilities, beside[1])
    found = _edges(learned, shares)
    show(plain(found) if found else "no edge stands out of the noise")
    if found and not shares and learned.method == "pairs":
        where = "learned.edges" if release_out is None else f"dg.choose_network(dg.load({str(release_out)!r})).edges"
        say(f"how often each edge is chosen on draws of the pairs: --shares prints it; in Python it is in {where}")


def _edges(learned: dg.results.LearnedNetwork, shares: bool) -> list[dict[str, str]]:
    """The edges, strongest first; with the share of draws that have them, a dash where that would cost epsilon."""
    if not shares:  # which ``learned.edges`` would compute
        found = sorted(learned.to_networkx().edges(data=True), key=lambda edge: -edge[2]["strength"])
        return [{"parent": one, "child": other, "strength": f"{data['strength']:.4f}"} for one, other, data in found]
    rows: Any = learned.edges[["parent", "child", "strength", "share"]]
    rows = rows.to_dict("records")
    for row in rows:
        share = row["share"]
        row |= {"strength": f"{row['strength']:.4f}", "share": "-" if share != share else f"{share:.2f}"}
    return rows


def _edge(text: str) -> tuple[str, str]:
    parent, arrow, child = text.partition("->")
    if not arrow or not parent.strip() or not child.strip():
        raise click.UsageError(f"an edge is written PARENT->CHILD; got {text!r:.60}")
    return parent.strip(), child.strip()
