"""The ``dpgraph`` command. Results go to stdout or to ``--out``; words go to stderr.

Exit codes: 0 done, 1 refused (budget, domain, bad data; nothing charged, nothing written), 2 wrong usage.
"""

from __future__ import annotations

from typing import Any

import click

from dpgraph.cli.fitting import fit
from dpgraph.cli.judging import evaluate
from dpgraph.cli.models import predict, sample
from dpgraph.cli.networks import cost, posterior, release
from dpgraph.cli.queries import query


class _Refusing(click.Group):
    """Turns the package's own errors into a message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        from dpgraph.privacy.errors import DPGraphError

        try:
            return super().invoke(ctx)
        except DPGraphError as error:
            raise click.ClickException(f"{error} [{type(error).__name__}]") from None


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpgraph")
def main() -> None:
    """Differentially private Bayesian inference on graphical models.

    NETWORK is a .toml, .json or .bif file, or example:NAME for one of pgmpy's networks (example:alarm). ROWS is a CSV
    file, a Parquet file or a folder of Parquet files.

    Whether ROWS are refused tells of them, at no charge. With `strict = true` above [variables] a file must declare
    what every value and null counts as, and no row can be refused.
    """


for _command in (cost, release, posterior, fit, evaluate, predict, sample, query):
    main.add_command(_command)
