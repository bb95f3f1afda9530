"""The ``dpgraph`` command. Results go to stdout or to ``--out``; words go to stderr.

Exit codes: 0 done, 1 refused (budget, domain, bad data; nothing charged, nothing written), 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

    from dpgraph.privacy.accounting import Budget
    from dpgraph.structure.tables import Probabilities

#: Synthetic rows that are drawn and written at once, and their codes.
_MOST_ROWS, _MOST_CODES = 1 << 20, 1 << 26


class _Refusing(click.Group):
    """Turns the package's own errors into a message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        from dpgraph.privacy.records import ReleaseError
        from dpgraph.structure.domain import DomainError

        try:
            return super().invoke(ctx)
        except (DomainError, ReleaseError) as error:
            raise click.ClickException(f"{error} [{type(error).__name__}]") from None


_EPSILON = click.option("--epsilon", required=True, metavar="E", help="The privacy budget; read as an exact decimal.")
_DELTA = click.option("--delta", default="0", show_default=True, metavar="D", help="0 for pure differential privacy.")
_NEIGHBOURS = click.option(
    "--neighbours",
    type=click.Choice(["replace", "add-remove"]),
    default="replace",
    show_default=True,
    help="What one person may change: replace makes the number of rows public, add-remove keeps it private.",
)
_ROWS_PER_PERSON = click.option(
    "--rows-per-person", type=int, default=1, show_default=True, help="How many rows one person may hold."
)


def _needed(ctx: click.Context, option: click.Parameter, out: Path | None) -> Path | None:
    """A destination, without which only a dry run goes on."""
    if out is None and not ctx.params["dry_run"]:
        raise click.MissingParameter(ctx=ctx, param=option)
    return out


# Eager, so that it is known when --out is judged.
_DRY_RUN = click.option("--dry-run", is_flag=True, is_eager=True, help="Print what would be spent; touch no rows.")
_OUT_UNLESS_DRY = click.option(
    "--out",
    callback=_needed,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; required without --dry-run.",
)
_OUT = click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where to write.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpgraph")
def main() -> None:
    """Differentially private Bayesian inference on graphical models.

    NETWORK is a .toml, .json or .bif file, or example:NAME for one of pgmpy's networks (example:alarm). ROWS is a CSV
    file, a Parquet file or a folder of Parquet files.
    """


@main.command()
@click.argument("network")
@_EPSILON
@_DELTA
@click.option("--n", type=int, default=None, help="A public or supposed number of rows, for relative errors.")
@click.option(
    "--own", is_flag=True, help="Let a public NETWORK's own probabilities stand for the data; uniform ones otherwise."
)
@_NEIGHBOURS
@_ROWS_PER_PERSON
@_JSON
def cost(
    network: str,
    epsilon: str,
    delta: str,
    n: int | None,
    own: bool,
    neighbours: str,
    rows_per_person: int,
    as_json: bool,
) -> None:
    """Say what privacy costs on NETWORK and which mechanism to use, before any data."""
    from dpgraph.analysis.cost import privacy_cost
    from dpgraph.files.networks import read_network, read_probabilities
    from dpgraph.privacy.records import PrivacyCost

    subject = read_probabilities(network) if own else read_network(network)
    unit = _unit(neighbours, rows_per_person)
    report = privacy_cost(subject, epsilon=epsilon, delta=delta, n=n, unit=unit)
    spent = PrivacyCost(report.epsilon, report.delta)
    if as_json:
        settings = {"network": network, "epsilon": epsilon, "delta": delta, "n": n}
        promise = {"neighbours": neighbours, "rows_per_person": rows_per_person}
        advice = {"recommended": repr(report.recommended), "reason": report.reason}
        facts = {name.replace(" ", "_"): value for name, value in report.facts.items()}
        tables = {name: _records(getattr(report, name)) for name in ("mechanisms", "nodes", "arcs", "bounds")}
        click.echo(json.dumps(settings | promise | advice | facts | tables, indent=1))
        return
    listed = ", ".join(f"{name} {value}" for name, value in report.facts.items())
    click.echo(
        f"{network}: {report.facts['maximal tables']} maximal tables of {report.facts['variables']} families, "
        f"{report.facts['cells']} cells\n{listed}\n"
        f"{spent}, protecting {unit}\n\n{_plain(report.mechanisms)}\n\n"
        f"recommended: {report.recommended}\n{report.reason}\n\n"
        f"by family, under the recommended mechanism:\n{_plain(report.nodes)}\n\n"
        f"the dearest arcs:\n{_plain(report.arcs.head(10))}\n\n"
        f"what Zhang et al. 2016 prove, beside what happens:\n{_plain(report.bounds)}\n\n"
        "scale: of the integer noise in each cell of the measured table; rmse: standard error of one cell, in rows;\n"
        "n needed: rows from which on noise is below sampling error; tv: expected total variation error of the\n"
        "family's margin; kl: expected divergence of its posterior, nats; cost: factor on the standard error of all\n"
        "released counts." + ("" if n else "\nGive --n for tv and kl.")
    )


@main.command()
@click.argument("rows")
@click.option("--network", required=True, help="The DAG over its declared domain.")
@_EPSILON
@_DELTA
@click.option(
    "--mechanism",
    type=click.Choice(["auto", "laplace", "gaussian", "fourier", "posterior-sample", "map"]),
    default="auto",
    show_default=True,
    help="auto is the one that `dpgraph cost` recommends; gaussian needs --delta.",
)
@click.option("--tables", type=click.Choice(["merged", "maximal", "families"]), help="What laplace measures.")
@click.option(
    "--allocation", type=click.Choice(["optimal", "closed-form", "uniform"]), help="How laplace shares epsilon."
)
@_NEIGHBOURS
@_ROWS_PER_PERSON
@_DRY_RUN
@_OUT_UNLESS_DRY
def release(
    rows: str,
    network: str,
    epsilon: str,
    delta: str,
    mechanism: str,
    tables: Any,
    allocation: Any,
    neighbours: str,
    rows_per_person: int,
    dry_run: bool,
    out: Path | None,
) -> None:
    """Release noisy family counts of ROWS, once, under a budget.

    Algorithm 1 of Zhang et al. 2016 is --tables families --allocation uniform.
    """
    from dpgraph.analysis.cost import mechanism_named
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_network
    from dpgraph.mechanisms.laplace import LaplaceMechanism
    from dpgraph.privacy.release import release as make_release
    from dpgraph.statistics.counts import count

    graph, budget = read_network(network), _budget(epsilon, neighbours, rows_per_person, delta)
    if tables or allocation:
        if mechanism not in ("auto", "laplace"):
            raise click.UsageError("--tables and --allocation are settings of --mechanism laplace")
        chosen: Any = LaplaceMechanism(epsilon, tables=tables or "merged", allocation=allocation or "optimal")
    else:
        chosen = mechanism_named(mechanism, graph, epsilon=epsilon, delta=delta, unit=budget.unit)
    if _only_priced(dry_run, chosen, graph, budget):
        return
    out = _writable(out, ".json")
    noisy = make_release(count(rows, graph, progress=True), chosen, budget=budget)
    save(noisy, out)
    _say(f"wrote {out}: {noisy.provenance}")


@main.command()
@click.argument("source", metavar="RELEASE")
@click.option("--prior", type=float, default=1.0, show_default=True, help="Dirichlet concentration of every cell.")
@click.option(
    "--counts",
    type=click.Choice(["nearest", "expected", "clipped"]),
    default="nearest",
    show_default=True,
    help="What is plugged in for the true counts; expected is better for classification.",
)
@click.option("--noise-aware", is_flag=True, help="Account for the noise: draws from the posterior given the release.")
@click.option(
    "--method",
    type=click.Choice(["auto", "tables", "records", "normal"]),
    default="auto",
    show_default=True,
    help="For --noise-aware; auto says which it chose and why.",
)
@click.option("--draws", type=click.IntRange(min=1), default=1000, show_default=True, help="For --noise-aware.")
@click.option(
    "--seed", type=int, default=None, help="For --noise-aware: makes the draws repeat; it is not the noise's."
)
@_OUT
def posterior(
    source: str, prior: float, counts: Any, noise_aware: bool, method: Any, draws: int, seed: int | None, out: Path
) -> None:
    """Learn the posterior of every probability table from a RELEASE; free."""
    from dpgraph.files.documents import load, save
    from dpgraph.inference.dirichlet import posterior as make_posterior
    from dpgraph.inference.noise_aware import noise_aware_posterior

    out = _writable(out, ".json", ".bif")
    released = load(source)
    if noise_aware:
        settings = {"prior": prior, "method": method, "draws": draws, "seed": seed, "progress": True}
        learned: Any
        learned, said = _heard(lambda: noise_aware_posterior(released, **settings))
        for words in said:
            _say(f"warning: {words}")
        shown = {
            name: f"{value:.4g}" if isinstance(value, float) else value for name, value in learned.diagnostics.items()
        }
        _say(", ".join(f"{name} {value}" for name, value in shown.items()))
    else:
        learned = make_posterior(released, prior=prior, counts=counts)
    save(learned, out)
    _say(f"wrote {out}: {learned.provenance}")


@main.group()
def fit() -> None:
    """Fit a private model to rows: one release, then inference from it alone."""


@fit.command("naive-bayes")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file that declares the features and the target.")
@click.option("--target", required=True, help="The variable to predict.")
@_EPSILON
@click.option("--prior", type=float, default=1.0, show_default=True, help="Dirichlet concentration of every cell.")
@click.option("--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True)
@_NEIGHBOURS
@_ROWS_PER_PERSON
@_DRY_RUN
@_OUT_UNLESS_DRY
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
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_domain
    from dpgraph.files.pgmpy import check_bif_names
    from dpgraph.inference.dirichlet import check_prior
    from dpgraph.inference.dirichlet import posterior as make_posterior
    from dpgraph.inference.noise_aware import classifier_draws
    from dpgraph.mechanisms.laplace import LaplaceMechanism
    from dpgraph.models.naive_bayes import NaiveBayes, naive_bayes_network
    from dpgraph.privacy.release import release as make_release
    from dpgraph.statistics.counts import count

    check_prior(prior)
    graph = naive_bayes_network(read_domain(domain), target)
    mechanism, budget = LaplaceMechanism(epsilon), _budget(epsilon, neighbours, rows_per_person)
    if _only_priced(dry_run, mechanism, graph, budget):
        return
    out = _writable(out, ".json", ".bif")
    if out.suffix.lower() == ".bif":
        check_bif_names(graph.domain)
    released = make_release(count(rows, graph, progress=True), mechanism, budget=budget)
    if inference == "plug-in":
        learned: Any = make_posterior(released, prior=prior, counts="expected")
    else:
        learned = classifier_draws(released, prior=prior)
    save(NaiveBayes(target, learned.mean()), out)
    _say(f"wrote {out}: {learned.provenance}")


@fit.command("hmm")
@click.argument("log")
@click.option("--domain", required=True, help="A TOML file that declares the chain, the time and every field.")
@click.option("--chain", required=True, help="The variable whose levels are the chains, such as region.")
@click.option("--time", required=True, help="The variable whose levels are the time steps, in order, such as month.")
@click.option("--states", type=int, required=True, help="The number of hidden states.")
@_EPSILON
@click.option("--person", default=None, help="The column that says whose row it is; rows beyond the cap are dropped.")
@_ROWS_PER_PERSON
@click.option("--neighbours", type=click.Choice(["replace", "add-remove"]), default=None, help="As for release.")
@click.option("--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True)
@click.option("--sampler", type=click.Choice(["blocked", "collapsed"]), default="blocked", show_default=True)
@click.option("--iterations", type=click.IntRange(min=1), default=200, show_default=True, help="Draws of each chain.")
@click.option("--burn-in", type=click.IntRange(min=0), default=100, show_default=True, help="Sweeps before them.")
@click.option("--seed", type=click.IntRange(min=0), default=None, help="Of the draws; it is not the noise's.")
@_DRY_RUN
@_OUT_UNLESS_DRY
def fit_hmm(
    log: str,
    domain: str,
    chain: str,
    time: str,
    states: int,
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
    from dpgraph.mechanisms.laplace import LaplaceMechanism
    from dpgraph.models.hmm import hmm_network

    declared = read_domain(domain)
    graph = hmm_network(declared, chain, time)
    private_n = person is not None and rows_per_person > 1
    budget = _budget(epsilon, neighbours or ("add-remove" if private_n else "replace"), rows_per_person)
    if _only_priced(dry_run, LaplaceMechanism(epsilon, tables="maximal"), graph, budget):
        return
    out = _writable(out, ".json")
    who = {"person": person, "rows_per_person": rows_per_person, "budget": budget}
    how = {"inference": inference, "sampler": sampler, "iterations": iterations, "burn_in": burn_in}
    fitted = PrivateHMM(states, declared, epsilon, chain, time, random_state=seed, progress=True, **who, **how)
    model, said = _heard(lambda: fitted.fit(log))
    for words in said:
        _say(f"warning: {words}")
    save(model, out)
    mixed = {name: f"{model.diagnostics_[name]:.3g}" for name in ("r_hat", "effective_size")}
    _say(f"{model.states_used_:.3g} of {states} states used, R-hat {mixed['r_hat']}, "
         f"effective size {mixed['effective_size']}")  # fmt: skip
    _say(f"wrote {out}: {model.model_.provenance}")


@fit.command("regression")
@click.argument("rows")
@click.option("--domain", required=True, help="A TOML file: numbers as { bounds = [low, high] }, others by levels.")
@click.option("--target", required=True, help="The variable to predict, which has bounds.")
@_EPSILON
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
@_NEIGHBOURS
@_ROWS_PER_PERSON
@_DRY_RUN
@_JSON
@_OUT_UNLESS_DRY
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
    from dpgraph.files.designs import read_design
    from dpgraph.files.documents import save
    from dpgraph.inference.noise_aware import noise_aware_posterior
    from dpgraph.inference.regression_prior import RegressionPrior
    from dpgraph.mechanisms.laplace import LaplaceMechanism
    from dpgraph.mechanisms.regression_allocation import weighted_mean
    from dpgraph.privacy.release import release as make_release
    from dpgraph.statistics.regression import regression_moments

    design, prior = read_design(domain, target, on_missing=on_missing), RegressionPrior(typical=typical)
    prior.centre(design)
    mechanism, budget = LaplaceMechanism(epsilon), _budget(epsilon, neighbours, rows_per_person)
    if _only_priced(dry_run, mechanism, design, budget):
        return
    out = _writable(out, ".json")
    moments = weighted_mean(regression_moments(rows, design), mechanism.epsilon, budget.unit)
    released = make_release(moments, mechanism, budget=budget)
    settings: dict[str, Any] = {"method": inference, "draws": draws, "seed": 0 if seed is None else seed}
    learned, said = _heard(lambda: noise_aware_posterior(released, prior=prior, progress=True, **settings))
    save(learned, out)
    shown = learned.coefficients()
    if as_json:
        table = _records(shown.reset_index(names="name"))
        click.echo(json.dumps({"target": target, "coefficients": table, **learned.diagnostics}, indent=1))
    else:
        click.echo(_plain(shown.reset_index(names="coefficient")))
    for words in said:
        _say(f"warning: {words}")
    _say(f"wrote {out}: {learned.provenance}")


def _heard(make: Any) -> tuple[Any, list[str]]:
    """What a function returns, and its warnings of convergence."""
    from dpgraph.inference.draws import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        made = make()
    return made, [str(warning.message) for warning in caught]


@main.command()
@click.argument("model")
@click.argument("rows")
@_OUT
def predict(model: str, rows: str, out: Path) -> None:
    """Predict the target of MODEL for each of ROWS: a CSV of labels and probabilities (naive Bayes), or of
    prediction, std and the ends of a 90 % interval (linear regression; of sampled weights the prediction alone).
    """
    import pandas as pd

    from dpgraph.files.documents import load
    from dpgraph.files.whole import write_whole
    from dpgraph.models.naive_bayes import NaiveBayes
    from dpgraph.models.regression import LinearRegressionModel
    from dpgraph.models.sampled_regression import SampledRegressionModel
    from dpgraph.privacy.records import ReleaseError
    from dpgraph.statistics.codes import encode
    from dpgraph.statistics.regression import regression_features

    out = _writable(out, ".csv")
    match load(model):
        case LinearRegressionModel() as fitted:
            table = fitted.frame(regression_features(rows, fitted.draws.design))
        case SampledRegressionModel() as fitted:
            table = pd.DataFrame({"prediction": fitted.predict(regression_features(rows, fitted.design))})
        case NaiveBayes() as fitted:
            domain = fitted.probabilities.network.domain
            probability = fitted.predict_proba(encode(rows, domain.restrict(fitted.features)).columns)
            levels = domain.levels(fitted.target)
            table = pd.DataFrame(probability, columns=[f"P({level})" for level in levels])
            table.insert(0, fitted.target, [levels[best] for best in probability.argmax(axis=1)])
        case _:
            raise ReleaseError(f"{model} predicts nothing row by row; make a model with: dpgraph fit naive-bayes")
    write_whole(out, table.to_csv(index=False))
    _say(f"wrote {out}")


@main.command()
@click.argument("model")
@click.option("-n", "n", type=int, required=True, help="How many rows.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=None, help="A seed for the draw; the model is public already."
)
@_OUT
def sample(model: str, n: int, seed: int | None, out: Path) -> None:
    """Draw synthetic rows from MODEL into a CSV or Parquet file; free."""
    import numpy as np

    from dpgraph.files.documents import load, probabilities_of
    from dpgraph.files.whole import write_frames

    out = _writable(out, ".csv", ".parquet")
    write_frames(out, _drawn(probabilities_of(load(model)), n, np.random.default_rng(seed)))
    _say(f"wrote {out}")


def _drawn(probabilities: Probabilities, n: int, rng: Any) -> Iterator[pd.DataFrame]:
    """Synthetic rows, block by block, as one draw would hold them; a bar on a terminal."""
    from tqdm import tqdm

    from dpgraph.inference.queries import BLOCK, sample_rows

    wanted = _MOST_CODES // len(probabilities.network.domain.names)
    rows = max(BLOCK, min(_MOST_ROWS, wanted // BLOCK * BLOCK))
    shown = n > rows and sys.stderr.isatty()
    with tqdm(total=n, desc="rows", unit_scale=True, disable=not shown) as bar:
        for start in range(0, max(n, 1), rows):
            part = min(rows, n - start)
            yield sample_rows(probabilities, part, rng)
            bar.update(part)


@main.command()
@click.argument("model")
@click.option("--target", required=True, help="The variable asked about.")
@click.option("--given", multiple=True, metavar="NAME=LEVEL", help="Evidence; repeat for more.")
@_JSON
def query(model: str, target: str, given: tuple[str, ...], as_json: bool) -> None:
    """Print P(target | given) from MODEL; free."""
    from dpgraph.files.documents import load, probabilities_of
    from dpgraph.files.pgmpy import query as make_query

    probabilities = probabilities_of(load(model))
    evidence = dict(_evidence(pair, probabilities.network.domain) for pair in given)
    answer = make_query(probabilities, target, evidence)
    if as_json:
        pairs = [{"level": level, "probability": float(value)} for level, value in answer.items()]
        click.echo(json.dumps({"target": target, "given": evidence, "answer": pairs}))
    else:
        click.echo(answer.map("{:.4f}".format).to_string())


def _evidence(pair: str, domain: Any) -> tuple[str, Any]:
    """A NAME=LEVEL pair, the level matched to the declared levels as they print."""
    name, equals, text = pair.partition("=")
    if not equals:
        raise click.BadParameter(f"{pair!r} is not NAME=LEVEL", param_hint="--given")
    level = next((level for level in domain.levels(name) if str(level) == text), None)
    if level is None:
        try:
            level = float(text)
        except ValueError:
            level = text
    return name, domain.levels(name)[domain.code(name, level)]


def _unit(neighbours: Any, rows_per_person: int) -> Any:
    from dpgraph.privacy.records import PrivacyUnit

    return PrivacyUnit(neighbours, rows_per_person)


def _budget(epsilon: str, neighbours: str, rows_per_person: int, delta: str = "0") -> Budget:
    from dpgraph.privacy.accounting import Budget

    return Budget(epsilon, delta, unit=_unit(neighbours, rows_per_person))


def _only_priced(dry_run: bool, mechanism: Any, graph: Any, budget: Budget) -> bool:
    """For a dry run prints what would be spent; else checks the plan before any row is read."""
    from dpgraph.privacy.records import Provenance

    event = mechanism.event(graph, budget.unit)
    if dry_run:
        click.echo(f"would spend {Provenance(event, budget.unit)}; {len(event.measurements)} tables; nothing was read")
    return dry_run


def _writable(out: Path | None, *suffixes: str) -> Path:
    """The destination; a bad one is refused before anything is read or charged."""
    assert out is not None
    if out.suffix.lower() not in suffixes:
        raise click.BadParameter(f"{out} must end in {' or '.join(suffixes)}", param_hint="--out")
    if not out.parent.is_dir():
        raise click.BadParameter(f"there is no folder {out.parent}", param_hint="--out")
    return out


def _plain(frame: pd.DataFrame) -> str:
    """A frame as a plain table of three significant digits, no index."""

    def shown(value: float) -> str:
        return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"

    return frame.to_string(index=False, float_format=shown)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows for JSON; a number that does not apply is null."""
    return json.loads(str(frame.to_json(orient="records", double_precision=15)))


def _say(words: str) -> None:
    click.echo(words, err=True)


if __name__ == "__main__":
    sys.exit(main())
