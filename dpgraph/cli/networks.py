"""Commands about a network: the cost of privacy, a release of its counts, and the posterior given the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import click

import dpgraph as dg
from dpgraph.cli import options
from dpgraph.cli.budgets import Payer, charging, only_priced, spends
from dpgraph.cli.output import delivering, plain, records, save_charged, say, show, show_json, telling, write_page
from dpgraph.cli.queries import question_of
from dpgraph.privacy.display import WIDTH, cell, escaped
from dpgraph.waiting import waiting


@click.command()
@click.argument("network")
@options.EPSILON
@options.DELTA
@click.option("--n", type=int, help="A public or supposed number of rows, for relative errors.")
@click.option("--own", is_flag=True, help="A public NETWORK's own probabilities stand for the data, not uniform ones.")
@click.option("--question", metavar="TEXT", help='Price an answer, with --n: "work=Private | sex=F, age=17-25".')
@options.number("--half-width", help="For --question: which epsilon gives plus or minus that.")
@click.option("--target", help="Price a naive Bayes classifier of this variable of NETWORK; its arcs are not read.")
@click.option("--rows", "many", type=int, help="With --target: what each classifier is expected to score with so many.")
@options.number("--error", 1, help="Which epsilon, and how many rows, keep every table within this error (tv).")
@options.NEIGHBOURS
@options.ROWS_PER_PERSON
@options.JSON
@options.HTML
def cost(
    network: str,
    own: bool,
    question: Any,
    half_width: Any,
    target: Any,
    many: Any,
    html: Any,
    as_json: Any,
    **asked: Any,
) -> None:
    """Show the cost of privacy on NETWORK and the best mechanism, before any data.

    The page of --html has sliders for epsilon and n, and the network coloured by the cost of its tables.
    """
    page = None if html is None else options.writable(html, ".html")
    from dpgraph.files.networks import read_probabilities

    if many is not None and target is None:
        raise click.UsageError("--rows needs --target; --n is for tables of any network")
    if target is not None and own:
        raise click.UsageError("--own needs NETWORK's own arcs, which --target does not read; leave one out")
    if target is not None:
        subject = dg.naive_bayes_network(dg.read_domain(network), target)
    else:
        subject = read_probabilities(network) if own else dg.read_network(network)
    unit, error = dg.PrivacyUnit(asked["neighbours"], asked["rows_per_person"]), asked.pop("error")
    if half_width is not None and question is None:
        raise click.UsageError("--half-width needs --question")
    graph, n = getattr(subject, "network", subject), many if asked["n"] is None else asked["n"]
    asked["n"] = n
    how = {"question": None if question is None else question_of(question, graph.domain), "progress": True}
    report = dg.privacy_cost(subject, epsilon=asked["epsilon"], delta=asked["delta"], n=n, unit=unit, **how)
    plans = None if many is None else _plans(graph.domain, target, many, asked["epsilon"], asked["delta"], unit)
    needed = None
    if report.question is not None and half_width is not None:
        needed = report.question.epsilon_for(2 * half_width, progress=True)
    reached = None
    if error is not None:
        reached = {"error": error, "n": report.n_for(error), "epsilon": report.epsilon_for(error) if n else None}
    if page is not None:
        write_page(report, page)
        say(f"wrote {html}")
    if as_json:
        found = {"network": network, **asked, "recommended": repr(report.recommended), "reason": report.reason}
        found |= {name.replace(" ", "_"): value for name, value in report.facts.items()}
        found |= {"mechanisms": records(report.mechanism_rows), "nodes": records(report.family_rows)}
        found["arcs"], found["risk"] = records(report.arc_rows), dict(report.risk.facts())
        if report.question is not None:
            widths = records(report.question.widths.to_dict("records"))
            words = {"words": report.question.question, "worlds": report.question.worlds, "widths": widths}
            found["question"] = words | {"half_width": half_width, "epsilon_needed": needed}
        beside = {"needed": reached, "target": target, "plans": plans}
        show_json(found | {name: value for name, value in beside.items() if value is not None}, indent=1)
        return
    words = "" if target is None else f", as naive Bayes of {escaped(target)}"
    show(_in_words(report, f"{escaped(network)}{words}", len(graph.families), unit) + _advice(report, reached))
    if plans is not None:
        show(f"\nexpected on random public worlds, {many} rows:\n{plain(plans)}\n{_cheapest(plans)}")
    if report.question is not None:
        show(f"\n{report.question}\n{plain(report.question.widths.to_dict('records'))}")
        show("width: of the interval, the mean over simulated data sets; noise: its share of the squared width.")
    if needed is not None:
        show(f"plus or minus {half_width:g} needs about epsilon {needed:.3g}.")


def _plans(domain: Any, target: Any, rows: int, epsilon: Any, delta: Any, unit: dg.PrivacyUnit) -> list[dict[str, Any]]:
    with waiting("simulating classifiers", True):
        found = dg.PrivateClassifier(domain, target, epsilon, delta, unit=unit).plan(rows)
    return records(found.replace({"epsilon": {float("inf"): None}}).astype(object).to_dict("records"))


def _cheapest(plans: Sequence[Mapping[str, Any]]) -> str:
    """The least epsilon that is tried and comes within a point of no privacy, and its best plan."""
    near = [row for row in plans if row["within_a_point"] and row["plan"] != "no privacy"]
    if not near:
        return "None comes within a point of no privacy: more rows or more epsilon are needed."
    best = min(near, key=lambda row: (row["epsilon"], row["log_loss"]))
    return f"The cheapest within a point of no privacy: {best['plan']} at epsilon {best['epsilon']:g}."


def _in_words(report: dg.results.PrivacyReport, name: str, families: int, unit: dg.PrivacyUnit) -> str:
    from dpgraph.analysis.cost import compared

    listed = ", ".join(f"{name} {value}" for name, value in report.facts.items())
    arc = "".join(f"{fill(line, WIDTH)}\n" for line in report.arc_in_words())
    return (
        f"{name}: {report.facts['maximal tables']} maximal tables of "
        f"{families} families, {report.facts['cells']} cells\n{fill(listed, WIDTH)}\n"
        f"{dg.results.PrivacyCost(report.epsilon, report.delta)}, protecting {unit}\n"
        f"{fill(str(report.risk), WIDTH)}\n\n"
        f"{plain(compared(report.mechanism_rows))}\n\n{_notes(report.mechanism_rows)}\n\n"
        f"{fill(f'recommended: {report.recommended}', WIDTH, subsequent_indent='  ')}\n"
        f"{fill(escaped(report.reason), WIDTH)}\n\n"
        f"by family, under the recommended mechanism:\n{_families(report.family_rows)}\n\n"
        f"the most expensive arcs:\n{plain(report.arc_rows[:10])}\n{arc}\n"
        "scale: of the integer noise in each cell of the measured table\n"
        "rmse: standard error of one cell, in rows\n"
        "tv: expected total variation error of the family's table, as a share of the rows\n"
        "kl: expected divergence of its posterior, nats\n"
        "cost: factor on the standard error of all released counts; below 1 it is larger without the arc\n"
    )


def _notes(rows: Sequence[Mapping[str, Any]]) -> str:
    noted: dict[str, list[str]] = {}
    for row in rows:
        noted.setdefault(row["note"], []).append(row["mechanism"])
    lines = (f"{escaped('; '.join(labels))}: {escaped(note)}" for note, labels in noted.items())
    return "\n".join(fill(line, WIDTH, subsequent_indent="  ") for line in lines)


def _families(rows: Sequence[Mapping[str, Any]]) -> str:
    """The families as a table; a column of one value is said once, below."""
    same = {name for name in ("sensitivity", "law") if len({row[name] for row in rows}) == 1}
    shown = plain([{name: value for name, value in row.items() if name not in {*same, "n needed"}} for row in rows])
    once = "; ".join(f"{name} {cell(rows[0][name])}" for name in rows[0] if name in same)
    return f"{shown}\nin every row: {once}" if same else shown


def _advice(report: dg.results.PrivacyReport, reached: Mapping[str, Any] | None) -> str:
    lines: list[str] = []
    if report.n is None:
        lines.append("Give --n, public or supposed, for tv and kl: whether the noise matters depends on the rows.")
    else:
        lines.append(f"{report.worst_in_words}: --question prices an answer, `dpgraph evaluate` judges a model.")
    if reached is not None:
        least = f"about {reached['n']} rows at epsilon {float(report.epsilon):g}"
        more = "" if reached["epsilon"] is None else f", or about epsilon {reached['epsilon']:.3g} at n = {report.n}"
        lines.append(f"No table is expected to be off by more than {reached['error']:g} with {least}{more}.")
    else:
        lines.append("--error 0.05 says which epsilon, and how many rows, keep every table within 0.05.")
    return "\n".join(fill(line, WIDTH) for line in lines)


@click.command()
@click.argument("rows")
@click.option("--network", required=True, help="The DAG over its declared domain.")
@options.DELTA
@options.choice("--mechanism", options.MECHANISMS, "auto", "auto is the one that `dpgraph cost` recommends.")
@options.choice("--tables", ["merged", "maximal", "families"], help="What laplace measures.")
@options.choice("--allocation", ["optimal", "uniform"], help="How laplace shares epsilon.")
@spends
@options.OUT_UNLESS_DRY
def release(
    payer: Payer, rows: str, network: str, delta: str, mechanism: str, tables: Any, allocation: Any, out: Path | None
) -> None:
    """Release noisy family counts of ROWS, once, under a budget.

    Algorithm 1 of Zhang et al. 2016 is --tables families --allocation uniform.
    """
    from dpgraph.analysis.candidates import mechanism_named

    graph = dg.read_network(network)
    epsilon, budget = payer.epsilon, payer.budget(delta)
    if tables or allocation:
        if mechanism not in ("auto", "laplace"):
            raise click.UsageError("--tables and --allocation are settings of --mechanism laplace")
        chosen: Any = dg.LaplaceMechanism(epsilon, tables=tables or "merged", allocation=allocation or "optimal")
    else:
        with waiting("pricing", True):
            chosen = mechanism_named(mechanism, graph, epsilon=epsilon, delta=delta, unit=budget.unit)
    if only_priced(payer, chosen.event(graph, budget.unit), budget):
        return

    out = options.writable(out, ".json", ".npz")
    whose = {"person": payer.person, "rows_per_person": budget.unit.rows_per_person} if payer.person else {}
    with charging(budget):
        noisy = dg.release(dg.count(rows, graph, **whose, progress=True), chosen, budget=budget, progress=True)
        save_charged(noisy, out, noisy.provenance)


@click.command()
@click.argument("source", metavar="RELEASE")
@click.option("--network", help="The graph, if the release is of tables without one: dpgraph learn --release.")
@click.option("--prior", type=float, help="Dirichlet concentration of a cell; learned for records, else 1, if absent.")
@click.option("--public", metavar="TABLE", help="PUBLIC rows, of nobody in RELEASE, as a prior of learned strength.")
@click.option(
    "--missing-because", multiple=True, metavar="NAME=CAUSE,CAUSE", help="What its holes depend on; else its parents."
)
@options.choice("--counts", ["nearest", "expected", "clipped"], "nearest", "What plug-in takes as true counts.")
@options.choice("--method", ["auto", "tables", "records", "normal", "plug-in"], "auto", "auto chooses and says why.")
@options.whole("--draws", 1, 1000, "How many draws.")
@click.option("--seed", type=int, default=None, help="Seed of the draws, never of the noise.")
@options.OUT
def posterior(
    source: str, network: Any, public: Any, missing_because: Any, method: str, counts: Any, out: Path, **how: Any
) -> None:
    """Learn the posterior of every probability table from a RELEASE; free."""
    from dpgraph.privacy.records import released_value

    out = options.writable(out, ".json", ".npz", ".bif")
    released, graph = dg.load(source, progress=True), None if network is None else dg.read_network(network)
    if public is not None:
        if how["prior"] is not None:
            raise click.UsageError("--public is a prior; leave --prior out")
        subject = getattr(released_value(released)[0], "network", None) if graph is None else graph
        if subject is None:
            raise click.UsageError("--public is for a release of a network's tables")
        from dpgraph.statistics.rows.codes import encode

        levels, columns = subject.domain.levels, encode(public, subject.domain).columns
        how["prior"] = dg.PublicPrior({name: [levels(name)[c] for c in column] for name, column in columns.items()})
    if missing_because:
        said = (one.partition("=") for one in missing_because)
        how["missing_because"] = {name: causes.split(",") if causes else [] for name, _, causes in said}
    chosen = dg.methods.PlugIn(counts) if method == "plug-in" else method
    learned: Any = telling(lambda: dg.posterior(released, method=chosen, network=graph, progress=True, **how))
    if facts := getattr(learned, "diagnostics", None):
        told = (
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in facts.items()
        )
        say(", ".join(told))
    with delivering(out):
        telling(lambda: dg.save(learned, out, progress=True))
    say(f"wrote {out}: {learned.provenance}")
