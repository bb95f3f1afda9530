"""Commands about a ledger: make a budget in it, set allowances, show, list, verify and export its entries.

A ledger is opened when its command runs and closed before it ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.budgets import opened, unit_of
from dpgraph.cli.options import DELTA, EPSILON, JSON, NEIGHBOURS, ROWS_PER_PERSON
from dpgraph.cli.output import plain, say, show_json
from dpgraph.cli.output import show as show_text
from dpgraph.privacy.display import counted, escaped

if TYPE_CHECKING:
    from dpgraph.privacy.accounting import Budget
    from dpgraph.privacy.ledger.store import LedgerRow

PLACE = click.argument("place", metavar="LEDGER")
DATASET = click.option("--dataset", metavar="NAME", help="The data set; all of them, or the only one, if left out.")
NAMED = click.option("--dataset", metavar="NAME", required=True, help="The data set.")


@click.group()
def ledger() -> None:
    """Keep budgets in LEDGER: a SQLite file, or postgresql://user@host/database.

    A charge is written before any noise is drawn, and entries never change.
    """


@ledger.command()
@PLACE
@NAMED
@EPSILON
@DELTA
@NEIGHBOURS
@ROWS_PER_PERSON
@click.option("--accounting", default="basic", help="How charges add: basic, gdp or zcdp.")
@click.option("--source", metavar="TEXT", help="A name for the source of the rows; one source has one budget.")
@click.option("--who", metavar="NAME", default="", show_default=False, help="Who makes it.")
def create(place: str, dataset: str, neighbours: str, rows_per_person: int, **settings: Any) -> None:
    """Make the budget of a data set; one that is there already is left as it is, if it is the same."""
    budget = opened(place, dataset, unit=unit_of(neighbours, rows_per_person), **settings)
    say(f"{budget}")
    click.echo(budget.ledger.head)


@ledger.command()
@PLACE
@NAMED
@click.option("--who", metavar="NAME", required=True, help="The user whose charges it limits.")
@EPSILON
@DELTA
@click.option("--expires", metavar="DATE", help="The last day, in UTC.")
@click.option("--by", metavar="NAME", default="", show_default=False, help="The user who sets it.")
def allow(place: str, dataset: str, who: str, **settings: Any) -> None:
    """Set the allowance of one user of a shared budget; a later one replaces it."""
    budget = opened(place, dataset)
    budget.ledger.allow(who, **settings)
    click.echo(budget.ledger.head)


@ledger.command()
@PLACE
@DATASET
@JSON
def show(place: str, dataset: str | None, as_json: bool) -> None:
    """Show each budget: spent, left, and the allowances."""
    shown = [_summary(opened(place, name)) for name in _names(place, dataset)]
    if as_json:
        show_json(shown, indent=1)
        return
    for one in shown:
        lines = [
            f"{one['dataset']}: {one['spent']} of epsilon {one['epsilon']} and delta {one['delta']} spent, "
            f"{one['remaining']} left, {one['accounting']}",
            f"  protects {one['neighbours']}, {counted(one['rows_per_person'], 'row')} a person; "
            f"{counted(one['rows'], 'entry')}" + (f"; source {one['source']}" if one["source"] else ""),
            f"  head {one['head']}",
        ]
        for who, allowed in one["allowances"].items():
            until = f", until {allowed['expires']}" if allowed["expires"] else ""
            lines.append(f"  {who}: {allowed['spent']} of epsilon {allowed['epsilon']}{until}")
        show_text("\n".join(map(escaped, lines)))


@ledger.command()
@PLACE
@DATASET
@JSON
def history(place: str, dataset: str | None, as_json: bool) -> None:
    """List the entries of a data set, oldest first."""
    rows = _rows(place, dataset)
    if as_json:
        show_json([row.plain for row in rows], indent=1)
        return
    heads = ("entry", "time (UTC)", "kind", "who", "account", "mechanism", "epsilon", "spent", "purpose")
    show_text(plain([dict(zip(heads, _line(row), strict=True)) for row in rows]))


@ledger.command()
@PLACE
@DATASET
@click.option("--head", metavar="DIGEST", help="A digest that was kept elsewhere: an entry must have it.")
@click.option("--release", "source", metavar="RELEASE", help="A release file: its record must be its entries'.")
@JSON
def verify(place: str, dataset: str | None, head: str | None, source: str | None, as_json: bool) -> None:
    """Check every digest, and compute every total again from the events.

    With --json the findings are printed either way; the exit code is 1 where something is wrong.
    """
    from dpgraph.files.documents import load
    from dpgraph.privacy.ledger.account import verify_at

    if (head or source) and dataset is None:
        dataset = _only(place, None)
    released = None if source is None else load(source, progress=True)
    found = [verify_at(place, one, expected_head=head, release=released) for one in _names(place, dataset)]
    if as_json:
        checked = [
            {"dataset": one.dataset, "rows": one.rows, "head": one.head, "spent": str(one.spent.epsilon)}
            | {"problems": list(one.problems)}
            for one in found
        ]
        show_json(checked, indent=1)
    for one in found:
        say(str(one) if one.ok else f"Error: {one}")
    if not all(one.ok for one in found):
        raise click.exceptions.Exit(1)
    if source is not None:
        say(f"{source}: the entries that it names paid for it")


@ledger.command()
@PLACE
@DATASET
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write; stdout if left out.")
def export(place: str, dataset: str | None, out: Path | None) -> None:
    """Write the entries of a data set as JSON, one entry a line, as their digests are computed from them."""
    from dataclasses import asdict

    from dpgraph.files.atomic_write import write_text
    from dpgraph.privacy.structural import canonical

    text = "".join(f"{canonical(asdict(row))}\n" for row in _rows(place, dataset))
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(out, text)
        say(f"wrote {out}")


def _names(place: str, dataset: str | None) -> list[str]:
    from dpgraph.privacy.ledger.account import datasets

    known = datasets(place)
    if dataset is not None and dataset not in known:
        from dpgraph.privacy.checks import near

        problem = f"the ledger has no data set {dataset!r}{near(dataset, known)}"
        raise click.BadParameter(problem, param_hint="--dataset")
    return known if dataset is None else [dataset]


def _only(place: str, dataset: str | None) -> str:
    names = _names(place, dataset)
    if len(names) != 1:
        raise click.UsageError(f"the ledger has {len(names)} data sets; say which with --dataset")
    return names[0]


def _rows(place: str, dataset: str | None) -> tuple[LedgerRow, ...]:
    return opened(place, _only(place, dataset)).ledger.rows()


def _summary(budget: Budget) -> dict[str, Any]:
    """A budget for people and programs; exact numbers as text."""
    from dpgraph.privacy.records import decimal

    book, spent = budget.ledger, budget.cost()
    allowances = {
        who: {
            "epsilon": decimal(laid.limit.epsilon),
            "delta": decimal(laid.limit.delta),
            "spent": decimal(used.epsilon),
            "expires": None if laid.expires is None else laid.expires.isoformat(),
        }
        for who, (laid, used) in book.allowances().items()
    }
    return {
        "dataset": book.dataset,
        "epsilon": decimal(budget.epsilon),
        "delta": decimal(budget.delta),
        "accounting": budget.accounting,
        "spent": decimal(spent.epsilon),
        "spent_delta": decimal(spent.delta),
        "remaining": decimal(budget.remaining),
        "neighbours": budget.unit.neighbours,
        "rows_per_person": budget.unit.rows_per_person,
        "source": book.source,
        "rows": len(book.rows()),
        "head": book.head,
        "allowances": allowances,
    }


def _line(row: LedgerRow) -> tuple[str, ...]:
    from dpgraph.privacy.records import decimal, exact_sum

    told = row.plain
    price = told["event"] or (told["terms"] or {}).get("limit")
    costs = (decimal(exact_sum(cost["epsilon"])) if cost else "" for cost in (price, told["spent"]))
    what = row.mechanism or row.allowance
    return (str(row.number), row.time[:16], row.kind, row.who, row.account, what, *costs, row.purpose)
