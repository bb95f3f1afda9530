"""What ``dpgraph query`` reads: the tables of a saved model, and questions in a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpgraph.files.networks import read_document, with_source_name
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.errors import FileError, InferenceError

#: What a table of a question may set.
SETTINGS = ("target", "given", "do", "interval", "method", "samples", "seed")


def queried(path: str) -> DrawnTables:
    """The tables of a saved model, draw by draw.

    Raises:
        FileError: If the file cannot be read, or stands for no probabilities of a network.
    """
    from dpgraph.files.documents import load, probabilities_of

    value = load(path)
    try:
        return drawn_tables(value)
    except InferenceError:
        return drawn_tables(probabilities_of(value))


def read_questions(path: Path) -> list[dict[str, Any]]:
    """The questions of a TOML file, a table ``[[question]]`` for each.

    Raises:
        FileError: If it holds none, or one of them has no target or a setting that is not known.
    """
    document = with_source_name(path, lambda: read_document(path))
    asked = document.get("question")
    if not isinstance(asked, list) or not asked or not all(isinstance(one, dict) for one in asked):
        raise FileError(f"{path} holds no [[question]]")
    for place, one in enumerate(asked, 1):
        if "target" not in one or set(one) - set(SETTINGS):
            raise FileError(f"{path}, question {place}: it needs a target, and may have {', '.join(SETTINGS[1:])}")
    return asked
