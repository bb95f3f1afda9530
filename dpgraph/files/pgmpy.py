"""Conversion to and from pgmpy, its bundled networks, and writing BIF.

pgmpy names a table's axes (variable, *parents) in ``cpd.variables``, as dpgraph does; its other accessors reverse the
parents. State names are always passed along, because without them pgmpy takes states from whatever data it sees.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.files.bif import read_bif
from dpgraph.files.datasets import NAMES
from dpgraph.files.limits import excerpt
from dpgraph.privacy.checks import near
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Release
from dpgraph.structure.domain import DomainWarning, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, probabilities_given

#: Characters that may not be read back as they were written, in names of variables and in levels.
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.+-]")
_NOT_IN_LEVEL = re.compile(r"[^A-Za-z0-9_.+<>=/-]|/(?=/)")
#: A variable's name in which that reader would see the start of a table's numbers.
_BIF_TABLE = re.compile(r"(table|default)([0-9eE.+-])")
#: The most names that a warning tells of.
MOST_TOLD = 4


def to_pgmpy(probabilities: Probabilities | Release[Probabilities]) -> Any:
    """A ``pgmpy.models.DiscreteBayesianNetwork`` with the same names, states, axes and numbers.

    Levels become text states, as BIF knows no other.

    Raises:
        FileError: If these are not probabilities.
        NetworkError: If two levels read the same as text.
    """
    value = probabilities_given(probabilities, "to_pgmpy", FileError)
    network = value.network
    states = {name: [str(level) for level in network.domain.levels(name)] for name in network.domain.names}
    for name, texts in states.items():
        if len(set(texts)) < len(texts):
            raise NetworkError(f"two levels of {name!r} read the same as text")
    with _quiet():
        from pgmpy.factors.discrete import TabularCPD
        from pgmpy.models import DiscreteBayesianNetwork

        model = DiscreteBayesianNetwork()
        model.add_nodes_from(network.domain.names)
        model.add_edges_from(network.to_networkx().edges)
        for name, parents in network.parents.items():
            table = value.table(name)
            cpd = TabularCPD(
                name,
                table.shape[0],
                table.reshape(table.shape[0], -1),
                evidence=list(parents) or None,
                evidence_card=list(table.shape[1:]) or None,
                state_names={variable: states[variable] for variable in (name, *parents)},
            )
            model.add_cpds(cpd)
    return model


def from_pgmpy(model: Any) -> Probabilities:
    """Reads a pgmpy discrete Bayesian network with its CPDs.

    Raises:
        NetworkError: If a variable has no CPD, or a CPD names no states or does not fit the graph.
    """
    cpds = {cpd.variables[0]: cpd for cpd in model.get_cpds()}
    bare = [str(name) for name in model.nodes if name not in cpds]
    if bare:
        raise NetworkError(f"no probability table for {', '.join(bare)}; is the file truncated?")
    levels = {name: list(cpds[name].state_names[name]) for name in model.nodes}
    parents = {name: tuple(cpds[name].variables[1:]) for name in model.nodes}
    for name in model.nodes:
        if set(parents[name]) != set(model.predecessors(name)):
            raise NetworkError(f"the probability table of {name!r} has other parents than the graph")
    network = Network.of(levels, parents)
    tables = {name: _in_declared_order(cpds[name], levels) for name in model.nodes}
    for name, table in tables.items():
        if table.shape != network.shape(network.family(name)):
            raise NetworkError(f"the probability table of {name!r} has the wrong shape {table.shape}")
        if not np.isfinite(table).all() or (table < 0).any() or not np.allclose(table.sum(axis=0), 1, atol=1e-2):
            raise NetworkError(f"the probability table of {name!r} does not sum to 1")
    return Probabilities(network, FrozenMap((name, table / table.sum(axis=0)) for name, table in tables.items()))


def _in_declared_order(cpd: Any, levels: dict[Any, list[Any]]) -> npt.NDArray[np.float64]:
    """A CPD's table with each parent's levels in the order of the parent's own CPD; it may have another."""
    table = np.asarray(cpd.values, dtype=float)
    for axis, name in enumerate(cpd.variables[1:], 1):
        own = list(cpd.state_names[name])
        if len(own) != len(levels[name]) or set(own) != set(levels[name]):
            raise NetworkError(
                f"the probability table of {cpd.variables[0]!r} names other levels of its parent {name!r} than that "
                "one's own table does"
            )
        if own != levels[name] and table.shape[axis] == len(own):
            table = table.take([own.index(level) for level in levels[name]], axis=axis)
    return table


def write_bif(probabilities: Probabilities) -> str:
    """The tables as BIF text that pgmpy and bnlearn read back, with names that the format keeps (``_bif_words``)."""
    kept = _named_for_bif(probabilities)
    with _quiet():
        from pgmpy.readwrite import BIFWriter

        text = str(BIFWriter(to_pgmpy(kept)))
    return _in_order(text, kept.network.domain.names)


def _in_order(text: str, names: Sequence[str]) -> str:
    head, *blocks = text.removesuffix("\n}\n").split("\n}\n")
    place = {name: i for i, name in enumerate(sorted(names))}
    assert len(blocks) == 2 * len(place)
    chosen = [blocks[start + place[name]] for start in (0, len(place)) for name in names]
    return "".join(f"{block}\n}}\n" for block in (head, *chosen))


def _named_for_bif(probabilities: Probabilities) -> Probabilities:
    network = probabilities.network
    names = _bif_words(network.domain.names, names=True)
    levels = {name: _bif_words(map(str, network.domain.levels(name))) for name in network.domain.names}
    changed = [(old, new) for words in (names, *levels.values()) for old, new in words.items() if old != new]
    if not changed:
        return probabilities
    shown = ", ".join(f"{old!r} as {new}" for old, new in changed[:MOST_TOLD])
    more = f" and {len(changed) - MOST_TOLD} more" if len(changed) > MOST_TOLD else ""
    warnings.warn(
        f"BIF does not keep every name: {shown}{more} in the file. A .json file, and dg.to_pgmpy(probabilities), keep "
        "the names as they are",
        DomainWarning,
        stacklevel=4,  # past write_bif and save
    )
    domain = {names[name]: list(levels[name].values()) for name in network.domain.names}
    parents = {names[name]: [names[parent] for parent in found] for name, found in network.parents.items()}
    tables = FrozenMap((names[name], table) for name, table in probabilities.tables.items())
    return Probabilities(Network.of(domain, parents), tables, probabilities.provenance)


def _bif_words(words: Iterable[str], *, names: bool = False) -> dict[str, str]:
    """Levels, or names of variables, as BIF keeps them; it tells names apart without case."""
    given = list(words)
    if len(set(given)) < len(given):
        raise NetworkError("two levels read the same as text")
    made: dict[str, str] = {}
    taken: set[str] = set()
    fold = str.lower if names else str
    for word in sorted(given, key=lambda word: _bif_word(word, names) != word):  # those that stay come first
        number, found = 1, _bif_word(word, names)
        while fold(found) in taken:
            number += 1
            found = f"{_bif_word(word, names)}_{number}"
        taken.add(fold(found))
        made[word] = found
    return {word: made[word] for word in given}


def _bif_word(word: str, name: bool) -> str:
    """A word in the characters that BIF keeps, and in which no reader sees the start of a table."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))
    lost = _NOT_IN_NAME if name else _NOT_IN_LEVEL
    return _BIF_TABLE.sub(r"\1_\2", lost.sub("_", plain) or "_")


def example(name: str) -> Probabilities:
    """One of the networks in pgmpy's wheel, read without a download."""
    spec = importlib.util.find_spec("pgmpy")  # finds the folder; importing pgmpy takes a second
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "utils" / "example_models"
    known = sorted(file.name.removesuffix(".bif.gz") for file in folder.glob("*.bif.gz"))
    if name not in known:
        told = f"there is no example {excerpt(name)}{near(name, [*known, *NAMES])}; networks: {', '.join(known)}; "
        raise FileError(f"{told}data sets: {', '.join(NAMES)}")
    return read_bif(gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode())


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
