"""Commands on a saved value: judge a model, predict and sample from it, report the content of any file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

import dpgraph as dg
from dpgraph.cli.budgets import Payer, charging, only_priced, opened, spends
from dpgraph.cli.options import INTERVAL, JSON, OUT, OUT_PATH, choice, whole, writable
from dpgraph.cli.output import delivering, plain, records, save_charged, say, show, show_json, telling, write_page
from dpgraph.privacy.display import WIDTH, DataFrame, data_frame, escaped
from dpgraph.waiting import at_terminal

if TYPE_CHECKING:
    from dpgraph.inference.network.queries import Numbers

#: Synthetic rows that are drawn and written at once, and their codes.
_MOST_ROWS, _MOST_CODES = 1 << 20, 1 << 26
RAW = click.option("--raw", is_flag=True, help="Write CSV cells that a spreadsheet would run (=1+1) as they are.")


@click.command()
@click.argument("model")
@click.argument("rows")
@INTERVAL
@click.option(
    "--costs", type=(float, float), metavar="POSITIVE NEGATIVE", help="Of false ones; prints the cheapest threshold."
)
@spends
@JSON
@click.option("--out", type=OUT_PATH, help="Where to write the release as well.")
def evaluate(payer: Payer, model: str, rows: str, interval: float, costs: Any, as_json: bool, out: Path | None) -> None:
    """Judge MODEL on held-out ROWS, which hold its target too, and are private rows as any others.

    Prints the scores of a classifier, a regression or a hidden Markov model with intervals, from one release.
    """
    from dpgraph.estimators.evaluation import task_of
    from dpgraph.structure.moments import Classification, OutcomeDescription

    loaded, budget = dg.load(model, progress=True), payer.budget()
    task = task_of(loaded)
    planned = dg.LaplaceMechanism(payer.epsilon).event(OutcomeDescription(task), budget.unit)
    if costs is not None:
        if not isinstance(task, Classification) or len(task.classes) != 2:
            raise click.UsageError("--costs is of a classifier of two classes")
        if not (min(costs) >= 0 and 0 < max(costs) < math.inf):
            raise click.UsageError("--costs takes two finite numbers, at least 0, and not both 0")
    if only_priced(payer, planned, budget):
        return
    if out is not None:
        out = writable(out, ".json", ".npz")
    with charging(budget):
        settings: dict[str, Any] = {"epsilon": payer.epsilon, "budget": budget, "person": payer.person}
        judged = telling(lambda: dg.evaluate(loaded, rows, interval=interval / 100, progress=True, **settings))
        if out is not None:
            save_charged(judged.release, out)
        frames = {"scores": judged.to_frame()}
        if isinstance(task, Classification):
            frames |= {"confusion": judged.confusion, "reliability": judged.reliability}
            frames |= {"thresholds": judged.thresholds} if len(task.classes) == 2 else {"classes": judged.classes}
        tables: dict[str, Any] = {name: frame.to_dict("records") for name, frame in frames.items()}
        if costs is not None:
            threshold, cost = judged.threshold(false_positive=costs[0], false_negative=costs[1])
            tables["cheapest"] = [{"threshold": threshold, "cost": cost.estimate, "low": cost.low, "high": cost.high}]
        if as_json:
            show_json({name: records(table) for name, table in tables.items()}, indent=1)
        else:
            show("\n\n".join(plain(table) for table in tables.values()))
            if "confusion" in tables:
                label, share = judged.commonest
                say(
                    f"always giving the commonest answer, {label}, would be right for about {share.estimate:.3g} "
                    f"({share.low:.3g} to {share.high:.3g}) of the population of these rows"
                )
        say(f"{interval:g} % intervals for the population of the rows, from {judged.release.provenance}")
    if budget.unit.rows_per_person > 1:
        say("the intervals take rows as independent; one person's rows may be alike, and intervals too short")


@click.command()
@click.argument("model")
@click.argument("rows", required=False)
@whole("--forecast", 1, help="Of a hidden Markov model: fields in so many steps to come.", metavar="STEPS")
@click.option("--counts", is_flag=True, help="With --forecast: the numbers of entries, in place of their fields.")
@RAW
@OUT
def predict(model: str, rows: str | None, forecast: int | None, counts: bool, raw: bool, out: Path) -> None:
    """Predict the target of MODEL for each of ROWS: a CSV of labels and probabilities with 90 % intervals (naive
    Bayes, a classifier), or of prediction, std and the ends of a 90 % interval (linear regression; of sampled weights
    the prediction alone).

    A hidden Markov model needs no ROWS: for each cell its likeliest state, that state's probability, and the state on
    its sequence's likeliest path. With ROWS, whose sequence and time columns name cells, the probabilities of the
    fields there; with --forecast those of the steps to come, or numbers of entries. All have 90 % intervals.

    Programs that read the labels back need --raw if a level begins with = + - or @.
    """
    from dpgraph.files.atomic_write import csv_text, harmless_frame, write_text

    out = writable(out, ".csv")
    loaded = dg.load(model, progress=True)
    hidden = isinstance(loaded, dg.results.HiddenMarkovModel)
    if forecast is not None and not hidden:
        raise click.UsageError("--forecast needs a hidden Markov model; give ROWS in its place")
    if forecast is not None and rows is not None:
        raise click.UsageError("--forecast STEPS takes no ROWS: a forecast goes on from the last step; leave one out")
    if counts and forecast is None:
        raise click.UsageError("--counts needs --forecast STEPS")
    if rows is None and not hidden:
        raise click.UsageError("give ROWS to predict")
    match loaded:
        case dg.results.HiddenMarkovModel() as fitted if forecast is not None:
            table = fitted.forecast_counts(forecast) if counts else fitted.forecast(forecast)
        case dg.results.HiddenMarkovModel() as fitted if rows is not None:
            table = fitted.predict_fields(rows, interval=0.9)
        case dg.results.HiddenMarkovModel() as fitted:
            table = fitted.predict().assign(path=fitted.most_likely_path()["state"])
        case dg.results.LinearRegressionModel() as fitted:
            table = fitted.frame(rows)
        case dg.results.NaiveBayes() | dg.results.NaiveBayesEnsemble() as fitted:
            table = _labels(fitted, _of_naive_bayes(fitted, rows))
        case dg.results.ConditionalClassifier(posterior=posterior) as fitted:
            several = not isinstance(posterior, dg.Probabilities)
            found = fitted.predict_proba(rows, return_interval=several)
            table = _labels(fitted, found if several else (found,))
        case fitted if callable(getattr(fitted, "predict", None)):
            table = data_frame({"prediction": fitted.predict(rows)})
        case _:
            raise dg.errors.InferenceError(
                f"{model} predicts nothing row by row; make a model with: dpgraph fit naive-bayes"
            )
    text = csv_text(table if raw else harmless_frame(table))
    with delivering(out):
        write_text(out, text)
    say(f"wrote {out}")


def _of_naive_bayes(model: Any, rows: Any) -> Sequence[Any]:
    """P(label) of each row, and with a posterior the ends of its interval."""
    from dpgraph.structure.conversion import columns_to_predict

    if (posterior := getattr(model, "posterior", None)) is None:
        return (model.predict_proba(rows),)
    rows = columns_to_predict(rows, posterior.network.domain.restrict(model.features))  # read once
    probability = model.predict_proba(rows)
    return (
        probability,
        *(model.predict_proba(rows, return_interval=True)[1:] if len(probability) else [probability] * 2),
    )


def _labels(model: Any, found: Sequence[Any]) -> DataFrame:
    """The likeliest label of each row, the probability of each label, and where there are draws its interval."""
    levels = model.classes_.tolist()
    parts = zip(("P", "low", "high"), found, strict=False)
    columns = {f"{what}({level})": part[:, i] for what, part in parts for i, level in enumerate(levels)}
    return data_frame({model.target: [levels[best] for best in found[0].argmax(axis=1)], **columns})


@click.command()
@click.argument("model")
@click.option("-n", "n", type=int, required=True, help="How many rows.")
@whole("--seed", 0, help="A seed for the draw; the model is public already.")
@choice("--numbers", ["uniform", "midpoint", "level"], "uniform", "What a column of bins holds.")
@click.option("--holes", is_flag=True, help="With nulls where values are unobserved, as many as people have.")
@RAW
@OUT
def sample(model: str, n: int, seed: int | None, numbers: Numbers, holes: bool, raw: bool, out: Path) -> None:
    """Draw synthetic rows from MODEL into a CSV or Parquet file; free. Of a hidden Markov model: entries of a log.

    A CSV file that is to be read as rows again needs --raw if a level or a name begins with = + - or @.
    """
    import numpy as np

    from dpgraph.files.atomic_write import harmless_frame, write_frames
    from dpgraph.files.documents import population, probabilities_of

    out = writable(out, ".csv", ".parquet")
    found, rng = population(model, progress=True), np.random.default_rng(seed)
    hidden = isinstance(found, dg.results.HiddenMarkovModel)
    frames = (
        iter([found.sample(n, rng, numbers=numbers, holes=holes)])
        if hidden
        else _drawn(probabilities_of(found), n, rng, numbers, holes)
    )
    if not raw and out.suffix.lower() != ".parquet":
        frames = map(harmless_frame, frames)
    with delivering(out):
        write_frames(out, frames)
    say(f"wrote {out}")


def _drawn(probabilities: dg.Probabilities, n: int, rng: Any, numbers: Numbers, holes: bool) -> Iterator[DataFrame]:
    """Synthetic rows, block by block, as one draw would hold them; a bar on a terminal."""
    from tqdm import tqdm

    from dpgraph.inference.network.queries import BLOCK, numbered

    domain = probabilities.network.domain
    wanted = _MOST_CODES // (
        len(domain.names) + 8 * len(numbered(domain, numbers))
    )  # a number takes as much as 8 codes
    rows = max(BLOCK, min(_MOST_ROWS, wanted // BLOCK * BLOCK))
    shown = n > rows and at_terminal()
    with tqdm(total=n, desc="rows", unit_scale=True, disable=not shown) as bar:
        for start in range(0, max(n, 1), rows):
            part = min(rows, n - start)
            yield dg.sample_rows(probabilities, part, rng, numbers=numbers, holes=holes, progress=not shown)
            bar.update(part)


@click.command()
@click.argument("source", metavar="FILE")
@click.option("--html", type=OUT_PATH, help="Write a page instead: one file, for people without Python.")
@click.option("--dataset", metavar="NAME", help="FILE is a ledger: the page of this data set's budget.")
@click.option("--release", "beside", is_flag=True, help="Of a fitted model: the page of the release it keeps.")
def report(source: str, html: Path | None, dataset: str | None, beside: bool) -> None:
    """Summarise FILE: the protected unit, the measurements, the model; free.

    FILE is a network, a release, a posterior or a model; or a ledger, with --dataset. Of a hidden Markov model: how
    states follow each other, what each of them emits, and how well the chains mixed. The page of --html has drawings
    and needs no network to be read. All of it is of public values alone.
    """
    page = None if html is None else writable(html, ".html")
    if beside and dataset is not None:
        raise click.UsageError("--release needs a model's file, --dataset a ledger; leave one out")
    value = _value_of(source, beside) if dataset is None else opened(source, dataset)
    if page is not None:
        write_page(value, page)
        say(f"wrote {html}")
        return
    show(f"{escaped(source)}: {value!r}")
    made = getattr(value, "provenance", None)
    if made is not None:
        show(f"learned from {made}")
    if dataset is not None or (made is not None and made.private):
        risk = dg.results.Risk.of(made or value)
        show("" if made else "if all of the budget is spent:")
        show("\n".join(fill(line, WIDTH) for line in (str(risk), risk.assumption)))
        show(plain([{"figure": name, "bound": bound} for name, bound in risk.facts()]))

    if isinstance(value, dg.results.HiddenMarkovModel):
        _show_states(value)
    _show_missing(value)


def _show_missing(value: Any) -> None:
    """How much is missing of each variable of a posterior with unobserved values."""
    from dpgraph.inference.queries.missing import missing

    if isinstance(value, dg.results.PosteriorDraws | dg.results.DirichletPosterior) and value.network.domain.indicators:
        rows = missing(value).rename_axis("variable").reset_index().to_dict("records")
        show(
            "\nthe share missing, with a 90 % interval, what it was assumed to depend on, and how far observed values\n"
            f"are from those of all people, in total variation:\n{plain(rows)}"
        )


def _value_of(source: str, beside: bool) -> Any:
    if Path(source).suffix.lower() == ".toml":
        return dg.read_network(source)

    return dg.load(source, release=beside, progress=True)


def _show_states(model: dg.results.HiddenMarkovModel) -> None:
    states = range(model.n_states)
    cells = model.state_probabilities.sum(axis=(0, 1))
    moves: list[dict[str, Any]] = [
        {"state": state, "cells": float(cells[state])}
        | {f"to {other}": float(model.mean_transition[state, other]) for other in states}
        for state in states
    ]
    where = f"{model.sequence} by {model.time}"
    show(f"\nstates, the cells ({where}) in each, and the next one's probability:\n{plain(moves)}")
    for name in model.emitted:
        levels, law = model.people.levels(name), model.mean_emission(name)
        rows = [
            {str(name): str(level)} | {f"state {k}": float(law[k, i]) for k in states} for i, level in enumerate(levels)
        ]
        show(f"\n{plain(rows)}")
    found = model.diagnostics
    show(
        f"\nR-hat {found['r_hat']:.3g}, effective size {found['effective_size']:.3g}: above 1.05 the chains have not "
        "mixed, and\n`dpgraph refit` learns again from the release that the file keeps, free"
    )
