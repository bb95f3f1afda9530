"""Rows to try the package on: two public surveys and a simulated log; ``"example:NAME"`` is the declaration of each.

``anes96`` and ``randhie`` are in the public domain, ``event_log`` is simulated. ``datasets/README.md`` in the
repository says where they come from and how they are made.

>>> import dpgraph as dg
>>> dg.datasets.load("anes96").shape, len(dg.read_domain("example:anes96").names)
((944, 10), 10)
"""

from __future__ import annotations

from pathlib import Path

from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import FileError

FOLDER = Path(__file__).parent
NAMES = ("anes96", "event_log", "randhie")


def load(name: str) -> DataFrame:
    """The rows of a data set, to be treated as if they were still private.

    Args:
        name: ``"anes96"`` (944 voters), ``"event_log"`` (11 561 incidents) or ``"randhie"`` (20 190 person-years).

    Raises:
        FileError: If there is no data set of this name.
    """
    import pandas as pd

    if name not in NAMES:
        raise FileError(f"no data set {name!r}; the package has {', '.join(NAMES)}")
    return pd.read_parquet(FOLDER / f"{name}.parquet")
