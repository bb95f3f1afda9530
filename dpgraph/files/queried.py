"""Input of ``dpgraph query``: the tables of a saved model, and questions in a TOML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpgraph.files.arrays import mixing_of
from dpgraph.files.digest import unsealed
from dpgraph.files.limits import read_text
from dpgraph.files.models import NETWORK_READERS, drawn_table
from dpgraph.files.networks import NOT_WHOLE, network_of, parse_json, read_document, with_source_name
from dpgraph.files.packed import Packed, read_packed, unpacked
from dpgraph.inference.draws import mixing_note
from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.weighted import WeightedNaiveBayes
from dpgraph.privacy.errors import FileError, InferenceError
from dpgraph.structure.network import Network

#: The settings of a question.
SETTINGS = ("target", "given", "do", "interval", "method", "samples", "seed")


def queried(path: str, *, released: bool = False, constraints: Constraints | None = None) -> DrawnTables:
    """The tables of a saved model, draw by draw; with ``released`` a release of tables will do."""
    return drawn_tables(modelled(path, released=released, constraints=constraints))


def modelled(path: str, *, released: bool = False, constraints: Constraints | None = None) -> Any:
    """The same of a learned network before anything is drawn."""
    if constraints is None and (quick := _quick(path)) is not None:
        return drawn_tables(quick)
    from dpgraph.files.documents import population, probabilities_of
    from dpgraph.inference.graphs.learned import LearnedNetwork

    value = population(path, released=released, constraints=constraints)
    try:
        return value if isinstance(value, LearnedNetwork) else drawn_tables(value)
    except InferenceError:
        return drawn_tables(probabilities_of(value))


def _quick(path: str) -> Any:
    """The model of a file of a kind that is asked often, without the readers of all others; else None."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".npz"):
        return None
    try:
        plain = read_packed(Path(path)) if suffix == ".npz" else unsealed(parse_json(read_text(Path(path))))
        read = NETWORK_READERS.get(plain["format"])
        if read is None:
            return None
        network = network_of(plain["network"])
        if suffix == ".npz" and plain["format"] == "dpgraph-posterior-draws":
            mixing = mixing_of(plain.get("mixing", {}))
            note = mixing_note({**mixing, "draws": None}) if mixing else ""
            return DrawnTables(network, LazyTables(network, plain["tables"]), note=note)
        found = read(unpacked(plain), network, None)
        return None if isinstance(found, WeightedNaiveBayes | ConditionalClassifier) else found
    except NOT_WHOLE:
        return None  # the reader of all files says what is wrong


class LazyTables(Mapping[str, Any]):
    """Draws of tables, axes (draw, variable, *parents), each read from an archive and checked when it is asked for."""

    def __init__(self, network: Network, packed: Mapping[str, Packed]) -> None:
        if set(packed) != set(network.domain.names):
            raise FileError("every variable needs its draws, and no other")
        self._network, self._packed, self._read = network, packed, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            table = drawn_table(self._packed[name].read(), self._network.shape(self._network.family(name)))
            self._read[name] = table.reshape(-1, *table.shape[2:])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._network.domain.names)

    def __len__(self) -> int:
        return len(self._packed)


def read_questions(path: Path) -> list[dict[str, Any]]:
    """The questions of a TOML file, a table ``[[question]]`` for each."""
    document = with_source_name(path, lambda: read_document(path))
    asked = document.get("question")
    if not isinstance(asked, list) or not asked or not all(isinstance(one, dict) for one in asked):
        raise FileError(f"{path} holds no [[question]]")
    for place, one in enumerate(asked, 1):
        if "target" not in one or set(one) - set(SETTINGS):
            raise FileError(f"{path}, question {place}: it needs a target, and may have {', '.join(SETTINGS[1:])}")
    return asked
