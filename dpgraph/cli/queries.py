"""``dpgraph query``: questions of a model that is public already, each answer with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

import dpgraph as dg
from dpgraph.cli.options import FILE, INTERVAL, JSON, choice, whole
from dpgraph.cli.output import aligned, plain, records, say, show, show_json
from dpgraph.privacy.display import escaped


@click.command()
@click.argument("model")
@click.option("--target", multiple=True, help="The variable asked about; repeat for a joint; NAME=LEVEL for an event.")
@click.option("--given", multiple=True, metavar="NAME=LEVEL", help="Evidence; repeat for more; LEVEL|LEVEL for any of.")
@click.option("--do", "done", multiple=True, metavar="NAME=LEVEL", help="A variable set from outside; causal.")
@INTERVAL
@choice("--method", ["auto", "sampling"], "auto")
@click.option("--questions", type=FILE, help="A TOML file of [[question]] tables.")
@whole("--n", 1, help="The number of rows, public or supposed: say what makes an interval wide.")
@JSON
def query(
    model: str, target: Any, given: Any, done: Any, interval: float, method: Any, questions: Any, n: Any, as_json: bool
) -> None:
    """Print P(target | given) from MODEL, with intervals where it holds posterior draws; free.

    With --n, data sets of so many rows are simulated from the model to say how much of an interval's width is due to
    the noise and how much to the number of rows.

    A file of questions has a table [[question]] for each, with target, and given, do, interval, method if need be:
    target = "work" or ["work", "sex"] or {work = "Private"}; given = {sex = "F", age = ["17-25", "25-50"]}.
    """
    from dpgraph.files.queried import queried, read_questions

    if bool(target) == (questions is not None):
        raise click.UsageError("give either --target or --questions")
    tables = queried(model)
    domain = tables.network.domain
    if questions is not None:
        asked = read_questions(questions)
    else:
        evidence: dict[str, Any] = {"given": pairs(given, "--given", domain), "do": pairs(done, "--do", domain)}
        evidence |= {"interval": interval / 100, "method": method}
        asked = [{"target": target_of(target, "--target", domain), **evidence}]
    answers = [dg.query(tables, **question) for question in asked]
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


@click.command()
@click.argument("model")
@click.option("--of", "treatment", required=True, help="The treatment: NAME, or NAME=LEVEL to compare with.")
@click.option("--on", "outcome", required=True, help="The outcome: NAME, or NAME=LEVEL for an event.")
@click.option("--adjust", default="auto", metavar="NAME,NAME", help="Variables to adjust for; auto: the smallest set.")
@click.option("--within", metavar="NAME", help="The effect in each group of this variable.")
@click.option("--order", metavar="A,B,...", help="Of a release of pairs: variables, causes first.")
@INTERVAL
@JSON
def effect(
    model: str, treatment: str, outcome: str, adjust: str, within: Any, order: Any, interval: float, as_json: bool
) -> None:
    """Print the average effect of a treatment on an outcome from MODEL, with intervals and the naive difference; free.

    MODEL may be a release of tables, or of pairs as ``dpgraph learn --release`` writes it.
    It is one only if the network's arcs are direct causes and every common cause is a variable of the network.
    """
    from dpgraph.files.queried import queried
    from dpgraph.models.effect import ASSUMPTION

    limits = dg.Constraints(order=[one.strip() for one in order.split(",")]) if order else None
    tables = queried(model, released=True, constraints=limits)
    domain = tables.network.domain
    asked = [target_of((text,), option, domain) for text, option in ((treatment, "--of"), (outcome, "--on"))]
    name, base = next(iter(asked[0].items())) if isinstance(asked[0], dict) else (asked[0], None)
    chosen = adjust if adjust == "auto" else [one.strip() for one in adjust.split(",") if one.strip()]
    found = dg.effect(tables, name, asked[1], chosen, baseline=base, within=within, interval=interval / 100)
    frame = found.to_frame()
    if as_json:
        settings = {"question": found.answer.question, "adjust": list(found.adjust), "reason": found.reason}
        settings |= {"interval": found.answer.interval, "draws": len(found.answer.draws), "note": tables.note}
        show_json({**settings, "assumption": ASSUMPTION, "effect": records(frame.to_dict("records"))})
        return
    show(f"{escaped(found.answer.question)}\n{plain(frame.to_dict('records'))}")
    show(f"\nadjusted for {escaped(', '.join(found.adjust)) or 'nothing'}: {escaped(found.reason)}")
    say(ASSUMPTION)


@click.command()
@click.argument("model")
@click.option("--target", required=True, metavar="NAME", help="The variable to explain.")
@click.option("--on", "features", required=True, metavar="NAME,NAME", help="The variables that explain it.")
@click.option("--family", type=click.Choice(["linear", "logistic", "poisson"]), default="linear", show_default=True)
@INTERVAL
@JSON
def regress(model: str, target: str, features: str, family: str, interval: float, as_json: bool) -> None:
    """Print the coefficients of a variable on others from MODEL, a release of tables or pairs too; free."""
    from dpgraph.files.queried import modelled

    names = [one.strip() for one in features.split(",") if one.strip()]
    found = dg.regression(modelled(model, released=True), target, names, family, interval=interval / 100)  # type: ignore[arg-type]
    rows = found.to_frame().to_dict("records")
    if as_json:
        settings = {"target": target, "features": names, "family": family, "interval": found.interval}
        settings |= {"draws": len(found.draws), "note": found.note}
        show_json({**settings, "coefficients": records(rows)})
        return
    show(f"{found.family} regression of {escaped(target)}\n{plain(rows)}")


#: The mechanism of a release by the name of its event.
MECHANISMS = {"LaplaceMechanism": "laplace", "GaussianMechanism": "gaussian", "FourierMechanism": "fourier"}


def _cause(model: str, question: dict[str, Any], n: int) -> Any:
    """How wide this answer's interval is expected to be under the release of a saved posterior, and without noise."""
    from dpgraph.analysis.question_cost import SETTINGS, question_cost

    learned = dg.load(model, progress=True)
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


#: The numbers of an answer, by their names in JSON.
NUMBERS = {"probability": "predictive", "mean": "mean", "sd": "sd", "low": "low", "high": "high"}


def _plain(question: dict[str, Any], answer: dg.results.Answer) -> dict[str, Any]:
    entries = [
        {"level": label[0] if len(label) == 1 else dict(zip(answer.columns, label, strict=True))}
        | {name: float(getattr(answer, attribute)[entry]) for name, attribute in NUMBERS.items()}
        for entry, label in enumerate(answer.labels)
    ]
    return {
        **{key: question[key] for key in ("target", "given") if key in question},
        "do": question.get("do") or {},
        "interval": answer.interval,
        "draws": len(answer.draws),
        "note": answer.note,
        "answer": records(entries),
    }


def _table(answer: dg.results.Answer) -> str:
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


def pairs(given: Iterable[str], option: str, domain: Any) -> dict[str, Any]:
    """NAME=LEVEL pairs, levels as they are declared; several levels, apart by |, as a list."""
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=LEVEL", param_hint=option)
        if name in found:
            raise click.BadParameter(f"{name!r} is there twice", param_hint=option)
        whole = any(text in _spellings(level) for level in domain.levels(name))
        levels = [_level(name, one, domain) for one in ([text] if whole else text.split("|"))]
        found[name] = levels[0] if len(levels) == 1 else levels
    return found


def target_of(names: tuple[str, ...], option: str, domain: Any) -> Any:
    """A variable, several, or an event."""
    if any("=" in name for name in names):
        return pairs(names, option, domain)
    return names[0] if len(names) == 1 else list(names)


def question_of(text: str, domain: Any) -> dict[str, Any]:
    """A question in one line: ``"work=Private | sex=F, age=17-25"``, evidence after `` | ``, parts apart by ``, ``."""
    target, bar, evidence = text.partition(" | ")
    asked = tuple(part.strip() for part in target.split(", "))
    known = [part.strip() for part in evidence.split(", ")] if bar else []
    return {"target": target_of(asked, "--question", domain), "given": pairs(known, "--question", domain)}


def _level(name: str, text: str, domain: Any) -> Any:
    level: Any = next((level for level in domain.levels(name) if text in _spellings(level)), None)
    if level is None:
        try:
            level = float(text)
        except ValueError:
            level = text
    return domain.levels(name)[domain.code(name, level)]


def _spellings(level: Any) -> set[str]:
    """How a level may be typed: as it prints, and a boolean as a file of variables and JSON write it, too."""
    return {str(level), str(level).lower()} if isinstance(level, bool) else {str(level)}
