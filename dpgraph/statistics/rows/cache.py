"""Encoded rows on disk, only on request: an Arrow IPC file that is marked as sensitive.

Reading it takes a tenth of the time that encoding takes. It contains the rows: protect it like them, and delete it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpgraph.privacy.checks import is_whole
from dpgraph.privacy.scope import RowCap
from dpgraph.statistics.rows.codes import Codes
from dpgraph.statistics.rows.levels import code_dtype
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.frozen import FrozenMap

_WARNING, _FORMAT, _DOMAIN, _CAP = b"SENSITIVE", b"dpgraph codes", b"domain", b"cap"


def write_codes(codes: Codes, path: str | Path) -> None:
    """Writes encoded rows to an Arrow IPC file, readable by its owner alone. The file is as sensitive as the rows.

    Args:
        codes: From ``encode``.
        path: A new file; its metadata begins with SENSITIVE.

    Raises:
        DomainError: If the file is there already or cannot be written.

    >>> import tempfile, pandas as pd
    >>> from dpgraph.statistics.rows.codes import encode
    >>> domain = Domain.of({"sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_codes(encode(pd.DataFrame({"sex": ["F", "M"]}), domain), f"{folder}/sensitive.arrow")
    ...     read_codes(f"{folder}/sensitive.arrow", domain)
    Codes(1 variables, sensitive)
    """
    metadata = {
        _WARNING: b"these are the rows, encoded: keep them as you keep the rows",
        _DOMAIN: _digest(codes.domain),
    }
    if codes.cap is not None:
        cap = codes.cap
        facts = [cap.person, cap.rows_per_person, sorted(cap.parts), cap.drops, cap.draw]
        metadata[_CAP] = json.dumps(facts).encode()
    table = pa.table({name: pa.array(column) for name, column in codes.columns.items()})
    table = table.replace_schema_metadata({**metadata, _FORMAT: b"1"})
    try:
        file = open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")  # noqa: SIM115
    except OSError as error:
        failure = "it is there already" if isinstance(error, FileExistsError) else type(error).__name__
        raise DomainError(f"{path} cannot be written ({failure})") from None
    try:
        with file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    except OSError as error:
        Path(path).unlink()
        raise DomainError(f"{path} cannot be written ({type(error).__name__})") from None


def read_codes(path: str | Path, domain: Domain) -> Codes:
    """Reads what ``write_codes`` wrote; the columns stay in the file until they are used.

    Args:
        path: The file.
        domain: The domain the rows were encoded by.

    Raises:
        DomainError: If the file is no such file, is damaged, or was written for another domain.
    """
    problem = f"{path} cannot be read as encoded rows; is it truncated or of another format?"
    table = converted(lambda: _table(path, domain), problem, passing=OURS)
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    if metadata.get(_FORMAT) != b"1" or metadata.get(_DOMAIN) != _digest(domain):
        raise DomainError(f"{path} was not written by write_codes for this domain; encode the rows again")
    columns = {name: _column(table.column(name), domain.sizes[name], path) for name in domain.names}
    return Codes(domain, FrozenMap(columns), _cap(metadata.get(_CAP), path))


def _table(path: str | Path, domain: Domain) -> pa.Table:
    """The columns, each buffer checked to be as long as the file says it is."""
    table = pa.ipc.open_file(pa.memory_map(os.fspath(path))).read_all()
    if (table.schema.metadata or {}).get(_DOMAIN) == _digest(domain) and table.column_names != list(domain.names):
        raise DomainError(f"{path} is damaged; encode the rows again")
    table.validate(full=True)
    return table


def _cap(written: bytes | None, path: str | Path) -> RowCap | None:
    """The cap by which the rows were chosen, if there was one."""
    if written is None:
        return None
    try:
        person, rows, parts, drops, draw = json.loads(written)
        named = isinstance(parts, list) and all(isinstance(part, str) for part in (*parts, person, draw))
        if named and is_whole(rows, 1) and isinstance(drops, bool):
            return RowCap(person, rows, frozenset(parts), drops, draw)
    except (ValueError, TypeError):
        pass
    raise DomainError(f"{path} is damaged; encode the rows again")


def _column(column: pa.ChunkedArray, size: int, path: str | Path) -> np.ndarray[Any, np.dtype[Any]]:
    """The codes of one column, checked to be levels."""
    kind = code_dtype(size)
    if column.type != pa.from_numpy_dtype(kind) or column.null_count:
        raise DomainError(f"{path} is damaged; encode the rows again")
    codes = column.to_numpy()
    if codes.max(initial=0) >= size:
        raise DomainError(f"{path} is damaged; encode the rows again")
    return codes


def _digest(domain: Domain) -> bytes:
    """A digest of a domain: its variables, their declarations and their order."""
    return hashlib.sha256(repr(tuple(domain.variables.items())).encode()).hexdigest().encode()
