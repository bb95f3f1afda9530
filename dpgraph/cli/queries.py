"""``dpgraph query``: questions of a model that is public already, each answer with its interval."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.asked import pairs, target_of
from dpgraph.cli.options import JSON
from dpgraph.cli.output import aligned, records, say, show, show_json
from dpgraph.privacy.printed import escaped

if TYPE_CHECKING:
    from dpgraph.analysis.question_cost import QuestionCost
    from dpgraph.inference.queries.answer import Answer


@click.command()
@click.argument("model")
@click.option("--target", multiple=True, help="The variable asked about; repeat for a joint; NAME=LEVEL for an event.")
@click.option("--given", multiple=True, metavar="NAME=LEVEL", help="Evidence; repeat for more; LEVEL|LEVEL for any of.")
@click.option(
    "--do", "done", multiple=True, metavar="NAME=LEVEL", help="A variable set from outside: a causal question."
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=90,
    show_default=True,
    help="The probability of the intervals, in percent.",
)
@click.option("--method", type=click.Choice(["auto", "sampling"]), default="auto", show_default=True)
@click.option(
    "--questions", type=click.Path(dir_okay=False, path_type=Path), help="A TOML file of [[question]] tables."
)
@click.option(
    "--n", type=click.IntRange(min=1), help="The number of rows, public or supposed: say what makes an interval wide."
)
@JSON
def query(
    model: str,
    target: tuple[str, ...],
    given: tuple[str, ...],
    done: tuple[str, ...],
    interval: float,
    method: Any,
    questions: Path | None,
    n: int | None,
    as_json: bool,
) -> None:
    """Print P(target | given) from MODEL, with intervals where it holds posterior draws; free.

    With --n, data sets of so many rows are simulated from the model to say how much of an interval's width is due to
    the noise and how much to the number of rows.

    A file of questions has a table [[question]] for each, with target, and given, do, interval, method if need be:
    target = "work" or ["work", "sex"] or {work = "Private"}; given = {sex = "F", age = ["17-25", "25-50"]}.
    """
    from dpgraph.files.queried import queried
    from dpgraph.inference.queries.asking import query as ask

    if bool(target) == (questions is not None):
        raise click.UsageError("give either --target or --questions")
    tables = queried(model)
    domain = tables.network.domain
    if questions is not None:
        asked = _from_file(questions)
    else:
        evidence = {"given": pairs(given, "--given", domain), "do": pairs(done, "--do", domain)}
        asked = [
            {"target": target_of(target, "--target", domain), **evidence, "interval": interval / 100, "method": method}
        ]
    answers = [
        ask(tables, question.pop("target"), question.pop("given", None), **question) for question in map(dict, asked)
    ]
    causes = [] if n is None else [_cause(model, question, n) for question in asked]
    if as_json:
        plain = [_plain(question, answer) for question, answer in zip(asked, answers, strict=True)]
        for entry, cause in zip(plain, causes, strict=False):
            entry["expected_widths"] = records(cause.widths.to_dict("records"))
        show_json(plain if questions is not None else plain[0])
    else:
        show("\n\n".join(map(_table, answers)))
        for cause in causes:
            show(f"\n{cause}")
    if tables.note:
        say(f"{tables.note}: the intervals may be wrong. Longer chains from the same release are free")
    if len(tables) == 1:
        say("one set of probabilities has no intervals; posterior draws, saved as .json, have")


#: The mechanism of a release by the name of its event.
MECHANISMS = {"LaplaceMechanism": "laplace", "GaussianMechanism": "gaussian", "FourierMechanism": "fourier"}


def _cause(model: str, question: dict[str, Any], n: int) -> QuestionCost:
    """How wide this answer's interval is expected to be under the release of a saved posterior, and without noise."""
    from dpgraph.analysis.question_cost import SETTINGS, question_cost
    from dpgraph.files.documents import load

    learned = load(model, progress=True)
    made = getattr(learned, "provenance", None)
    if made is None or made.event.mechanism not in MECHANISMS or not hasattr(learned, "mean"):
        raise click.UsageError("--n is for the posterior of one release of noisy tables, saved as .json")
    return question_cost(
        learned.mean(),
        {key: question[key] for key in SETTINGS if key in question},
        n=n,
        epsilon=made.event.epsilon,
        delta=made.event.delta,
        unit=made.unit,
        mechanism=MECHANISMS[made.event.mechanism],
        progress=True,
    )


def _from_file(path: Path) -> list[dict[str, Any]]:
    """The questions of a TOML file.

    Raises:
        FileError: If it holds none, or one has no target or an unknown setting.
    """
    from dpgraph.files.queried import read_questions

    return read_questions(path)


def _plain(question: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """A question and its answer for JSON; a number that does not apply is null."""
    assert answer.predictive is not None
    entries = []
    for entry, label in enumerate(answer.labels):
        numbers = {
            "probability": answer.predictive[entry],
            "mean": answer.mean[entry],
            "sd": answer.sd[entry],
            "low": answer.low[entry],
            "high": answer.high[entry],
        }
        level = label[0] if len(label) == 1 else dict(zip(answer.columns, label, strict=True))
        entries.append({"level": level, **{key: None if math.isnan(x) else float(x) for key, x in numbers.items()}})
    kept = {key: question[key] for key in ("target", "given") if key in question}
    return {
        **kept,
        "do": question.get("do") or {},
        "interval": answer.interval,
        "draws": len(answer.draws),
        "note": answer.note,
        "answer": entries,
    }


def _table(answer: Answer) -> str:
    """An answer as a table to read; of one set of probabilities a column of them."""
    assert answer.predictive is not None
    known = len(answer.draws) > 1 or answer.error is not None
    header = [*map(escaped, answer.columns), *(["mean", "low", "high", "predictive"] if known else ["probability"])]
    columns = [answer.mean, answer.low, answer.high, answer.predictive] if known else [answer.mean]
    rows = [
        [*map(escaped, label), *(f"{column[entry]:.4f}" for column in columns)]
        for entry, label in enumerate(answer.labels)
    ]
    words = [True] * len(answer.columns) + [False] * len(columns)
    return f"{escaped(answer.question)}\n{aligned(header, rows, words)}"
