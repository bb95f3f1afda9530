"""``dpgraph evaluate``: scores of a model on held-out rows, each with an interval, from one release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpgraph.cli.budgets import Payer, charging, only_priced, spends
from dpgraph.cli.options import INTERVAL, JSON, OUT_PATH, writable
from dpgraph.cli.output import plain, records, save_charged, say, show, show_json, telling


@click.command()
@click.argument("model")
@click.argument("rows")
@INTERVAL
@spends
@JSON
@click.option("--out", type=OUT_PATH, help="Where to write the release as well.")
def evaluate(payer: Payer, model: str, rows: str, interval: float, as_json: bool, out: Path | None) -> None:
    """Judge MODEL on held-out ROWS, which hold its target too, and are private rows as any others.

    Prints the scores of a classifier, a regression or a hidden Markov model with intervals, from one release.
    """
    from dpgraph.estimators.evaluation import evaluate as judge
    from dpgraph.estimators.evaluation import task_of
    from dpgraph.files.documents import load
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.structure.outcomes import Classification, OutcomeDescription

    loaded, budget = load(model, progress=True), payer.budget()
    planned = LaplaceMechanism(payer.epsilon).event(OutcomeDescription(task_of(loaded)), budget.unit)
    if only_priced(payer, planned, budget):
        return
    if out is not None:
        out = writable(out, ".json", ".npz")
    with charging(budget):
        settings: dict[str, Any] = {"epsilon": payer.epsilon, "budget": budget, "person": payer.person}
        judged = telling(lambda: judge(loaded, rows, interval=interval / 100, progress=True, **settings))
        if out is not None:
            save_charged(judged.release, out)
            say(f"wrote {out}")
        frames = {"scores": judged.to_frame()}
        if isinstance(judged.release.value.description.task, Classification):
            frames |= {"confusion": judged.confusion, "reliability": judged.reliability}
        tables: dict[str, Any] = {name: frame.to_dict("records") for name, frame in frames.items()}
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
