"""``dpgraph evaluate``: scores of a model on held-out rows, each with an interval, from one release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.options import (
    DRY_RUN,
    EPSILON,
    JSON,
    NEIGHBOURS_SPENT,
    OUT_PATH,
    PERSON,
    ROWS_PER_PERSON_SPENT,
    writable,
)
from dpgraph.cli.output import TableRows, capture_warnings, plain, records, save_charged, say, show, show_json
from dpgraph.cli.paying import Payer, charging, only_priced, spends

if TYPE_CHECKING:
    from dpgraph.models.evaluation import Evaluation


@click.command()
@click.argument("model")
@click.argument("rows")
@EPSILON
@click.option(
    "--interval",
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=90,
    show_default=True,
    help="How often, in percent, an interval is to hold the population's score.",
)
@NEIGHBOURS_SPENT
@PERSON
@ROWS_PER_PERSON_SPENT
@spends
@DRY_RUN
@JSON
@click.option("--out", type=OUT_PATH, help="Where to write the release as well.")
def evaluate(
    model: str,
    rows: str,
    epsilon: str,
    interval: float,
    neighbours: str | None,
    person: str | None,
    rows_per_person: int | None,
    payer: Payer,
    dry_run: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Judge MODEL on held-out ROWS, which hold its target too, and are private rows as any others.

    Prints the scores of a classifier, a regression or a hidden Markov model with intervals, from one release.
    """
    from dpgraph.estimators.evaluation import evaluate as judge
    from dpgraph.estimators.evaluation import task_of
    from dpgraph.files.documents import load
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.structure.outcomes import OutcomeDescription

    loaded, budget = load(model, progress=True), payer.budget(epsilon, neighbours, rows_per_person, person=person)
    if only_priced(dry_run, LaplaceMechanism(epsilon), OutcomeDescription(task_of(loaded)), budget):
        return
    if out is not None:
        out = writable(out, ".json", ".npz")
    with charging(budget):
        settings: dict[str, Any] = {"epsilon": epsilon, "budget": budget, "interval": interval / 100, "progress": True}
        settings["person"] = person
        judged, said = capture_warnings(lambda: judge(loaded, rows, **settings))
        for words in said:
            say(f"warning: {words}")
        if out is not None:
            save_charged(judged.release, out)
            say(f"wrote {out}")
        tables = _tables(judged)
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
        say("the intervals take rows as independent: how alike one person's rows are is not known, nor in them")


def _tables(judged: Evaluation) -> dict[str, TableRows]:
    """The scores, and of a classifier its tables."""
    from dpgraph.structure.outcomes import Classification

    tables: dict[str, Any] = {"scores": judged.to_frame()}
    if isinstance(judged.release.value.description.task, Classification):
        tables |= {"confusion": judged.confusion, "reliability": judged.reliability}
    return {name: table.to_dict("records") for name, table in tables.items()}
