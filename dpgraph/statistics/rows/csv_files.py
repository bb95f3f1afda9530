"""CSV files, batch by batch: every declared column as text, an empty unquoted field as null.

Where the declaration is strict, a line of too few or too many fields is a row of nulls, and text that is not UTF-8 is
text: no line refuses the file. A file that does not end where its quotes and lines end is damaged, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dpgraph.statistics.rows.batches import Batch, Declared, batch_rows, check_columns, select_columns
from dpgraph.statistics.rows.locations import Place
from dpgraph.structure.conversion import converted, converted_each

SUFFIXES = (".csv", ".csv.gz")


def read(path: Place, domain: Declared) -> Iterator[Batch]:
    """The declared columns of one file."""
    import pyarrow.csv as csv

    problem = f"{path} cannot be read as CSV; is it truncated or of another format?"
    ragged: list[int] = []

    def skip(row: Any) -> str:
        ragged.append(1)
        return "skip"

    options: Any = {"newlines_in_values": True, "invalid_row_handler": skip if domain.strict else None}
    with path.open() as source:
        header = csv.ParseOptions(**options)
        names = converted(lambda: csv.open_csv(source, parse_options=header).schema.names, problem)
    check_columns(names, domain, path.name)
    ragged.clear()
    # In a file of one column an empty line is a row with a null; skipping it would let a value change n.
    parsing = csv.ParseOptions(ignore_empty_lines=len(names) > 1, **options)
    columns = _column_options(domain)
    with path.open() as source:
        reader = converted(lambda: csv.open_csv(source, convert_options=columns, parse_options=parsing), problem)
        for batch in converted_each(iter(reader), problem):
            yield select_columns(batch, domain)
    for start in range(0, len(ragged), batch_rows(domain)):
        rows = min(batch_rows(domain), len(ragged) - start)
        yield {name: pa.nulls(rows, pa.binary()) for name in domain.names}


def _column_options(domain: Declared) -> Any:
    """Options that read every declared column as text, or as bytes where no row may be refused."""
    import pyarrow.csv as csv

    return csv.ConvertOptions(
        include_columns=list(domain.names),
        column_types=dict.fromkeys(domain.names, pa.binary() if domain.strict else pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
