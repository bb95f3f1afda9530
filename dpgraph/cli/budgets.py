"""The budget that a command spends from: its own, or a data set's in a ledger.

``--ledger`` and ``--dataset`` say which, the environment in their place, and a file of defaults in its place. The
budget is there already: a command that spends makes none in a ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpgraph.cli.options import EPSILON, RELATIONS, choice
from dpgraph.cli.output import Undelivered, say, show

if TYPE_CHECKING:
    from dpgraph.privacy.accounting import Budget
    from dpgraph.privacy.ledger.account import Ledger
    from dpgraph.privacy.records import Event, PrivacyUnit

#: The file of defaults that is read where there is one in the working directory.
CONFIG = "dpgraph.toml"
#: The commands that spend, by what is typed first.
SPENDING = ("discover", "release", "learn", "fit", "evaluate")
#: Options that the environment may set in their place.
_IN_LEDGER = {
    "ledger": 'Spend from a budget in a ledger: a SQLite file or postgresql://user@host/database. "" for none.',
    "dataset": "Whose budget in the ledger.",
    "who": "The user who spends, for the ledger.",
    "purpose": "The purpose, for the ledger.",
}
_METAVARS = {"ledger": "LEDGER", "purpose": "TEXT"}
_SPENT = (
    EPSILON,
    choice(
        "--neighbours",
        RELATIONS,
        help="What one person may change: replace, the default, makes the number of rows public; add-remove, the "
        "default where --person may have several rows, keeps it private. With --ledger the default is the ledger's.",
    ),
    click.option(
        "--person", metavar="COLUMN", help="The column that says whose row it is; rows beyond the cap are dropped."
    ),
    click.option("--rows-per-person", type=int, help="How many rows one person may hold; 1, or the ledger's."),
    *(
        click.option(
            f"--{name}",
            metavar=_METAVARS.get(name, "NAME"),
            envvar=f"DPGRAPH_{name.upper()}",
            show_envvar=True,
            help=words,
        )
        for name, words in _IN_LEDGER.items()
    ),
    # Eager, so that it is known when --out is judged.
    click.option("--dry-run", is_flag=True, is_eager=True, help="Print what would be spent; touch no rows."),
)


def spends(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of cost, unit and budget, as one argument, ``payer``."""

    @wraps(command)
    def paid(*args: Any, **settings: Any) -> Any:
        payer = Payer(**{one.name: settings.pop(one.name) for one in fields(Payer)})
        return command(*args, payer=payer, **settings)

    for option in reversed(_SPENT):
        paid = option(paid)
    return paid


@dataclass(frozen=True)
class Payer:
    """The options of cost, unit and budget as the user gave them; None where one was left out."""

    epsilon: str
    neighbours: str | None
    person: str | None
    rows_per_person: int | None
    dry_run: bool
    ledger: str | None
    dataset: str | None
    who: str | None
    purpose: str | None

    def budget(self, delta: str = "0") -> Budget:
        """The budget that a command spends from: a ledger's, or one of the epsilon and delta that it may spend."""
        from dpgraph.privacy.accounting import Budget
        from dpgraph.privacy.errors import LedgerError

        if self.ledger and not self.dataset:
            raise click.UsageError("--ledger needs --dataset NAME, or DPGRAPH_DATASET")
        if self.dataset and self.ledger is None:
            raise click.UsageError("a data set is named and no ledger: give --ledger, or DPGRAPH_LEDGER")
        source_of = click.get_current_context().get_parameter_source
        for name in ("dataset", "who", "purpose"):
            if getattr(self, name) and not self.ledger and source_of(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name} is written to a ledger; give --ledger")
        rows = 1 if self.rows_per_person is None else self.rows_per_person
        if self.person is None and rows > 1:
            say(
                f"taken on trust: nobody has more than {rows} rows. --person COLUMN names the column of persons, and "
                "drops rows beyond that number"
            )
        if not self.ledger:
            several = self.person is not None and rows > 1  # persons with several rows have unknown numbers of them
            relation = self.neighbours or ("add-remove" if several else "replace")
            return Budget(self.epsilon, delta, unit=unit_of(relation, rows))
        assert self.dataset is not None
        budget = opened(self.ledger, self.dataset, who=self.who or "", purpose=self.purpose or "")
        unit = budget.unit
        rows = unit.rows_per_person if self.rows_per_person is None else self.rows_per_person
        asked = unit_of(self.neighbours or unit.neighbours, rows)
        if asked != unit:
            raise LedgerError(
                f"this data set's ledger protects {unit}, and {asked} was asked for; leave --neighbours and "
                "--rows-per-person out to use it as it is"
            )
        return budget


def opened(place: str, dataset: str, **settings: Any) -> Budget:
    """The budget of a data set in a ledger, which is closed when the command ends."""
    from dpgraph.privacy.accounting import Budget

    budget = Budget.open(place, dataset=dataset, **settings)
    click.get_current_context().call_on_close(budget.ledger.close)
    return budget


def unit_of(neighbours: Any, rows_per_person: int) -> PrivacyUnit:
    """Whom to protect."""
    from dpgraph.privacy.records import PrivacyUnit

    return PrivacyUnit(neighbours, rows_per_person)


def only_priced(payer: Payer, event: Event, budget: Budget) -> bool:
    """Checks the plan against the budget before rows are read and prints a dry run's; a fit's rho may follow n."""
    from dpgraph.privacy.records import Provenance

    dry_run = payer.dry_run
    left = budget.left_after(event) if dry_run or budget.accounting == "basic" else None
    book = ledger_of(budget)
    if dry_run and left is not None:
        tables = sum(len(part.measurements) for part in event.events)
        show(f"would spend {Provenance(event, budget.unit)}; {tables} tables; nothing was read")
        if book is not None:
            now = _amount(budget, budget.remaining, budget.remaining_delta)
            about = "" if budget.accounting == "basic" else "about "
            show(f"would leave {about}{_amount(budget, left.epsilon, left.delta)} of {now} in {_place(book)}")
    return dry_run


def _amount(budget: Budget, epsilon: Any, delta: Any) -> str:
    """The rest of a budget in print, with delta where charges use one up."""
    from dpgraph.privacy.records import decimal

    shown = f"epsilon {decimal(epsilon)}" if budget.accounting == "basic" else f"epsilon {float(epsilon):.6g}"
    return shown + (f" and delta {decimal(delta)}" if budget.delta else "")


def _place(book: Ledger) -> str:
    return f"{book.dataset!r} at {book.address}"


def ledger_of(budget: Budget) -> Ledger | None:
    """The ledger behind a budget; None for one in memory."""
    from dpgraph.privacy.errors import ReleaseError

    try:
        return budget.ledger
    except ReleaseError:
        return None


@contextmanager
def charging(budget: Budget) -> Iterator[None]:
    """Around a charge to a ledger: gives a failure after it its own exit code; says at the end how much is left."""
    from dpgraph.privacy.errors import DPGraphError, LedgerError

    book = ledger_of(budget)
    if book is None:
        yield
        return
    before = book.seen
    try:
        yield
    except Undelivered:
        raise
    except DPGraphError as error:
        may_stand = isinstance(error, LedgerError) and error.charge_may_stand
        if not may_stand and book.seen == before:
            raise
        words = f"{error}; the charge {'may stand' if may_stand else 'stands'}, and what it paid for is lost"
        raise Undelivered(f"{words} [{type(error).__name__}]") from None
    except BaseException:
        if book.seen > before:
            say(f"entry {book.seen} of {_place(book)} was charged, and stands")
        raise
    with suppress(LedgerError):  # all is done, and this line alone would be missing
        left = _amount(budget, budget.remaining, budget.remaining_delta)
        say(f"paid by entry {book.seen} of {_place(book)}, which has {left} left")


def read_defaults(config: Path | None) -> dict[str, Any] | None:
    """The defaults of the commands that spend, from a file, as click takes them; None where there is no file."""
    path = Path(CONFIG) if config is None else config
    if config is None and not path.is_file():
        return None
    from dpgraph.files.limits import excerpt
    from dpgraph.files.networks import read_document
    from dpgraph.privacy.checks import near
    from dpgraph.privacy.errors import FileError

    if path.suffix.lower() != ".toml":
        raise FileError(f"{path}: the name of a file of defaults must end in .toml")
    found = read_document(path)
    if unknown := sorted(set(found) - set(_IN_LEDGER)):
        hint = near(unknown[0], _IN_LEDGER)
        raise FileError(f"{path} sets {excerpt(unknown[0])}{hint}; a file of defaults may set {', '.join(_IN_LEDGER)}")
    for name, value in found.items():
        if not isinstance(value, str):
            raise FileError(f"{path}: {name} must be text")
    if (place := found.get("ledger")) and "://" not in place:
        found["ledger"] = str(path.parent / place)
    return found
