"""Conversion to and from pgmpy, its bundled networks, BIF files, and exact queries.

pgmpy names a table's axes (variable, *parents) in ``cpd.variables``, as dpgraph does; its other accessors reverse the
parents. State names are always passed along, because without them pgmpy takes states from whatever data it sees.
"""

from __future__ import annotations

import gzip
import importlib.resources
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Release, released_value
from dpgraph.structure.domain import Domain, DomainError, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network, check_cells
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    import pandas as pd

#: Posterior draws that a predictive query averages over.
MOST_QUERIED = 100

#: What pgmpy's BIF reader reads back as it was written.
_BIF_NAME = re.compile(r"[A-Za-z0-9_.+-]+")

#: A variable's name in which that reader would see the start of a table's numbers.
_BIF_TABLE = re.compile(r"(table|default)[0-9eE.+-]")


def to_pgmpy(probabilities: Probabilities | Release[Probabilities]) -> Any:
    """A ``pgmpy.models.DiscreteBayesianNetwork`` with the same names, states, axes and numbers.

    Levels become text states, as BIF knows no other.
    """
    value, _ = released_value(probabilities)
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
    tables = {name: np.asarray(cpds[name].values, dtype=float) for name in model.nodes}
    for name, table in tables.items():
        if table.shape != network.shape(network.family(name)):
            raise NetworkError(f"the probability table of {name!r} has the wrong shape {table.shape}")
        if not np.isfinite(table).all() or (table < 0).any() or not np.allclose(table.sum(axis=0), 1, atol=1e-2):
            raise NetworkError(f"the probability table of {name!r} does not sum to 1")
    return Probabilities(network, FrozenMap((name, table / table.sum(axis=0)) for name, table in tables.items()))


def read_bif(text: str) -> Probabilities:
    """Reads BIF text.

    Raises:
        FileError: If it is not BIF, is cut short, repeats a variable, or has an absurdly large family.
    """
    clean = text.replace("\r\n", "\n").rstrip() + "\n"
    declared = re.findall(r"^\s*variable\s+([^{]+?)\s*\{", clean, re.MULTILINE)
    if not declared:
        raise FileError("no variable is declared; is this a BIF file, and whole?")
    if len({name.lower() for name in declared}) < len(declared):
        raise FileError("a variable is declared twice (BIF names are told apart without case)")
    _check_sizes(clean)
    with _quiet():
        from pgmpy.readwrite import BIFReader

        try:
            model = BIFReader(string=clean).get_model()
        except Exception as error:  # pgmpy's parser raises whatever its regular expressions run into
            raise FileError(f"the BIF text cannot be read ({type(error).__name__}); is the file truncated?") from None
    probabilities = from_pgmpy(model)
    if set(probabilities.network.domain.names) != set(declared):
        raise FileError("the BIF text is cut short: a declared variable was not read whole")
    return probabilities


def _check_sizes(text: str) -> None:
    """Refuses an absurdly large family by its header alone; pgmpy's reader would allocate its table first."""
    states = re.findall(r"variable\s+([^{]+?)\s*\{[^{}]*\{([^}]*)\}", text)
    sizes = {
        name.lower(): len(re.split(r"\s*,\s*" if "," in levels else r"\s+", levels.strip())) for name, levels in states
    }
    for header in re.findall(r"probability\s*\(([^)]*)\)", text):
        family = tuple(re.split(r"\s*[|,]\s*" if "|" in header else r"\s+", header.strip()))
        check_cells(family, math.prod(sizes.get(name.lower(), 1) for name in family))


def read_xmlbif(text: str) -> Probabilities:
    """Reads XMLBIF text.

    Raises:
        FileError: If it is not XMLBIF or is cut short.
    """
    with _quiet():
        from pgmpy.readwrite import XMLBIFReader

        try:
            model = XMLBIFReader(string=text).get_model()
        except Exception as error:  # as in read_bif
            raise FileError(f"the XMLBIF text cannot be read ({type(error).__name__})") from None
    return from_pgmpy(model)


def write_bif(probabilities: Probabilities) -> str:
    """The tables as BIF text that pgmpy reads back unchanged.

    Raises:
        FileError: If a name or a level would not survive the format.
    """
    check_bif_names(probabilities.network.domain)
    with _quiet():
        from pgmpy.readwrite import BIFWriter

        return str(BIFWriter(to_pgmpy(probabilities)))


def check_bif_names(domain: Domain) -> None:
    """Refuses names and levels that BIF would not keep, to be called before anything is spent.

    Raises:
        FileError: Naming the first of them.
    """
    for name in domain.names:
        for word in (name, *map(str, domain.levels(name))):
            if not _BIF_NAME.fullmatch(word):
                raise FileError(f"{word!r} ({name}) does not survive BIF: use letters, digits, _ . + - only, or .json")
        if _BIF_TABLE.search(name):
            raise FileError(f"{name!r} does not survive BIF, where a table's numbers follow that word; or use .json")
    if len({name.lower() for name in domain.names}) < len(domain.names):
        raise FileError("BIF tells names apart without case; rename one, or use .json")


def example(name: str) -> Probabilities:
    """One of the networks in pgmpy's wheel, read without a download.

    Raises:
        FileError: If pgmpy bundles no such network; the message lists those it does.
    """
    folder = importlib.resources.files("pgmpy") / "utils" / "example_models"
    known = sorted(file.name.removesuffix(".bif.gz") for file in folder.iterdir() if file.name.endswith(".bif.gz"))
    if name not in known:
        raise FileError(f"pgmpy bundles no network {name!r}; it has {', '.join(known)}")
    return read_bif(gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode())


def query(
    probabilities: Probabilities | PosteriorDraws | Release[Probabilities],
    target: str,
    evidence: Mapping[str, Any] | None = None,
) -> pd.Series:
    """P(target | evidence), exact, by pgmpy's variable elimination.

    Of posterior draws it is the predictive probability: P(target, evidence) is averaged over the draws, up to
    ``MOST_QUERIED`` of them, evenly spaced, and then normalised.

    Args:
        probabilities: The conditional probability tables, or posterior draws of them.
        target: The variable asked about.
        evidence: Levels of other variables; for a binned variable a bin's name or a number.

    Returns:
        A Series indexed by the target's levels, which sums to 1.

    Raises:
        DomainError: If a variable or a level is unknown, the target is in the evidence, or the network holds the
            evidence to be impossible.
    """
    import pandas as pd

    if isinstance(probabilities, PosteriorDraws):
        return _predictive(probabilities, target, dict(evidence or {}))
    value, _ = released_value(probabilities)
    domain = value.network.domain
    domain[target]
    given = {name: str(domain.levels(name)[domain.code(name, level)]) for name, level in (evidence or {}).items()}
    if target in given:
        raise DomainError(f"{target!r} is both asked for and given")
    with _quiet(), np.errstate(invalid="ignore", divide="ignore"):
        from pgmpy.inference import VariableElimination

        engine: Any = VariableElimination(to_pgmpy(value))
        possible = all((table > 0).all() for table in value.tables.values()) or _is_possible(engine, given)
        factor = engine.query([target], evidence=given, show_progress=False)
        answer = np.asarray(factor.values, dtype=float)
    if not possible or not np.isfinite(answer).all():
        raise DomainError("the network gives this evidence probability 0, so nothing follows from it")
    order = [factor.state_names[target].index(str(level)) for level in domain.levels(target)]
    return pd.Series(answer[order], index=pd.Index(domain.levels(target), name=target), name="probability")


def _predictive(draws: PosteriorDraws, target: str, evidence: dict[str, Any]) -> pd.Series:
    """The average over draws of P(target | evidence), each weighted by its P(evidence), by the chain rule."""
    total: Any = 0.0
    for index in np.linspace(0, len(draws) - 1, min(len(draws), MOST_QUERIED)).astype(int):
        tables, weight = draws[int(index)], 1.0
        for count, (name, level) in enumerate(evidence.items()):
            asked = query(tables, name, dict(list(evidence.items())[:count]))
            weight *= float(asked.iloc[draws.network.domain.code(name, level)])
        total = total + weight * query(tables, target, evidence)
    return total / total.sum()


def _is_possible(engine: Any, evidence: Mapping[str, str]) -> bool:
    """Whether the evidence has positive probability, which a query alone does not check for irrelevant evidence."""
    before: dict[str, str] = {}
    for name, level in evidence.items():
        factor = engine.query([name], evidence=before, show_progress=False)
        if not factor.values[factor.state_names[name].index(level)] > 0:
            return False
        before[name] = level
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the deprecation warnings that pgmpy raises about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
