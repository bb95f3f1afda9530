"""The ``dpgraph`` command. Results go to stdout or to ``--out``; words go to stderr.

Exit codes: 0 done, 1 refused (budget, domain, bad data; nothing charged, nothing written), 2 wrong usage, 3 charged or
done but not delivered whole, 4 a check of ``audit`` failed, 130 and 143 stopped by a signal (``cli.exit_codes``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import dpgraph as dg
from dpgraph.cli.auditing import audit
from dpgraph.cli.budgets import SPENDING, read_defaults
from dpgraph.cli.exit_codes import ended
from dpgraph.cli.fitting import discover, fit, learn, refit
from dpgraph.cli.ledger import ledger
from dpgraph.cli.models import evaluate, predict, report, sample
from dpgraph.cli.networks import cost, posterior, release
from dpgraph.cli.options import FILE
from dpgraph.cli.queries import effect, query, regress


class _Refusing(click.Group):
    """Turns the package's own errors into a message and exit code 1, and every end into its exit code."""

    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Runs the command that is typed; alone it ends the process, else errors and signals are the caller's."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **settings)
        run = super().main
        sys.exit(ended(lambda: run(*args, standalone_mode=False, **settings)))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except dg.errors.DPGraphError as error:
            raise click.ClickException(f"{error} [{type(error).__name__}]") from None


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="dpgraph")
@click.option("--config", type=FILE, help="Defaults for --ledger, --dataset, --who, --purpose; else ./dpgraph.toml.")
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Differentially private Bayesian inference on graphical models.

    NETWORK is a .toml, .json or .bif file, or example:NAME for one of pgmpy's networks (example:alarm). ROWS is a CSV
    file, a Parquet file or a folder of Parquet files.

    A refusal of ROWS reveals something about them at no charge. With `strict = true` above [variables] the file must
    declare a level for every value and null, and no row can be refused.
    """
    if ctx.invoked_subcommand in SPENDING and (defaults := read_defaults(config)) is not None:
        ctx.default_map = {**dict.fromkeys(SPENDING, defaults), "fit": dict.fromkeys(fit.commands, defaults)}


for _command in (cost, audit, discover, release, learn, posterior, fit, refit):
    main.add_command(_command)
for _command in (evaluate, predict, sample, query, effect, regress, report, ledger):  # of what was made
    main.add_command(_command)
