"""Public values to JSON and back, exactly.

Every file names its format and version and carries the network, the noise law of each table, the event, the unit and
the cost. Loading builds plain values and checks them as any other input: nothing in a file is executed. Sensitive
values (rows, codes, counts) have no saver.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.files.designs import design_of, plain_design
from dpgraph.files.markov import markov_model_of, plain_markov_model
from dpgraph.files.networks import EXAMPLE, network_of, parse_json, plain_network, read_probabilities, read_text
from dpgraph.files.plain import integers_of, plain_provenance, plain_tables, provenance_of, tables_of
from dpgraph.files.regression import plain_regression, regression_of
from dpgraph.files.releases import plain_release, release_of
from dpgraph.files.sampled_weights import plain_sampled_weights, sampled_regression_of
from dpgraph.files.whole import write_whole
from dpgraph.inference.dirichlet import DirichletPosterior
from dpgraph.inference.draws import PosteriorDraws
from dpgraph.inference.regression_draws import RegressionDraws
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.models.sampled_regression import SampledRegressionModel
from dpgraph.privacy.records import (
    Provenance,
    Release,
    ReleaseError,
)
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

VERSION = 1


def save(value: Any, path: str | Path) -> None:
    """Writes a public value: a Network, LinearDesign, Release, posterior, Probabilities or fitted model to ``.json``;
    Probabilities (or a posterior's mean) also to ``.bif``.

    The file appears whole or not at all.

    Raises:
        ReleaseError: If the value is sensitive or of another kind, or the name ends otherwise.
        NetworkError: If a name would not survive BIF.
    """
    target = Path(path)
    value = getattr(value, "model_", value)
    if target.suffix.lower() == ".bif":
        from dpgraph.files.pgmpy import write_bif

        text = write_bif(probabilities_of(value))
    elif target.suffix.lower() == ".json":
        text = json.dumps(document(value), indent=1, allow_nan=False) + "\n"
    else:
        raise ReleaseError(f"{target}: the name must end in .json or .bif")
    write_whole(target, text)


def load(path: str | Path) -> Any:
    """Reads what ``save`` wrote, or the probabilities of a BIF file or of ``"example:alarm"``.

    Raises:
        ReleaseError: If the file is not one of dpgraph's, is cut short, or its parts do not fit each other.
        NetworkError: If the network in it is not valid.
    """
    if str(path).startswith(EXAMPLE) or str(path).lower().endswith((".bif", ".xmlbif")):
        return read_probabilities(path)
    text = read_text(Path(path))
    try:
        return value_of(parse_json(text))
    except (DomainError, ReleaseError) as error:
        raise type(error)(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        kind = type(error).__name__
        raise ReleaseError(f"{path} is not a whole dpgraph file; is it truncated? ({kind})") from None


def probabilities_of(value: Any) -> Probabilities:
    """The conditional probability tables that a value stands for.

    Raises:
        ReleaseError: If it stands for none.
    """
    match value:
        case Release():
            return probabilities_of(value.value)
        case Probabilities():
            return value
        case DirichletPosterior() | PosteriorDraws():
            return value.mean()
        case NaiveBayes():
            return value.probabilities
    raise ReleaseError(f"{type(value).__name__} has no probability tables; a release of counts needs a posterior first")


def document(value: Any) -> dict[str, Any]:
    """The plain form of a public value."""
    match value:
        case Network():
            return _head("network", value, None, {})
        case LinearDesign():
            return _head("linear-design", None, None, {"design": plain_design(value)})
        case Release() if (saved := plain_release(value)) is not None:
            return _head("release", saved[0], value.provenance, saved[1])
        case DirichletPosterior():
            body = {"concentration": plain_tables(value.concentration)}
            return _head("posterior", value.network, value.provenance, body)
        case PosteriorDraws():
            return _head("posterior-draws", value.network, value.provenance, _plain_draws(value))
        case Probabilities():
            return _head("probabilities", value.network, value.provenance, {"tables": plain_tables(value.tables)})
        case NaiveBayesEnsemble(target=target, draws=draws):
            body = {"target": target, "draws": [plain_tables(draw.tables) for draw in draws]}
            return _head("naive-bayes-ensemble", draws[0].network, draws[0].provenance, body)
        case NaiveBayes(target=target, probabilities=probabilities):
            body = {"target": target, "tables": plain_tables(probabilities.tables)}
            return _head("naive-bayes", probabilities.network, probabilities.provenance, body)
        case HiddenMarkovModel():
            return _head("hidden-markov-model", value.network, value.provenance, plain_markov_model(value))
        case RegressionDraws():
            return document(LinearRegressionModel(value))
        case LinearRegressionModel():
            return _head("linear-regression", None, value.provenance, plain_regression(value))
        case SampledRegressionModel():
            return _head("sampled-regression", None, value.provenance, plain_sampled_weights(value.drawn))
    raise ReleaseError(f"{type(value).__name__} is not saved: only public values that left through a release are")


def value_of(plain: Any) -> Any:
    """The inverse of ``document``."""
    if not isinstance(plain, dict) or not str(plain.get("format", "")).startswith("dpgraph-"):
        raise ReleaseError("not a dpgraph file")
    if plain.get("version") != VERSION:
        raise ReleaseError(f"version {plain.get('version')!r} is not the version {VERSION} this dpgraph reads")
    kind = plain["format"].removeprefix("dpgraph-")
    if kind not in _READERS:
        raise ReleaseError(f"unknown format {plain['format']!r}")
    if plain["network"] is None and kind not in _WITHOUT_NETWORK:
        raise ReleaseError(f"a file of format {plain['format']!r} needs a network")
    return _READERS[kind](plain, None if plain["network"] is None else network_of(plain["network"]))


def _head(kind: str, network: Network | None, provenance: Provenance | None, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": f"dpgraph-{kind}",
        "version": VERSION,
        "network": None if network is None else plain_network(network),
        **({} if kind in ("network", "linear-design") else plain_provenance(provenance)),
        **body,
    }


def _posterior(plain: dict[str, Any], network: Network) -> DirichletPosterior:
    return DirichletPosterior(network, tables_of(plain["concentration"]), provenance_of(plain))


def _probabilities(plain: dict[str, Any], network: Network) -> Probabilities:
    return Probabilities(network, tables_of(plain["tables"]), provenance_of(plain))


def _naive_bayes(plain: dict[str, Any], network: Network) -> NaiveBayes:
    return NaiveBayes(plain["target"], _probabilities(plain, network))


def _plain_draws(draws: PosteriorDraws) -> dict[str, Any]:
    """Every draw of every table; the latent rows of a chain are not kept."""
    body = {"method": draws.method, "reason": draws.reason, "acceptance": dict(draws.acceptance)}
    n = None if draws.n is None else draws.n.tolist()
    means = None if draws.means is None else plain_tables(draws.means)
    return body | {"latent_n": n, "means": means, "tables": plain_tables(draws.tables)}


def _posterior_draws(plain: dict[str, Any], network: Network) -> PosteriorDraws:
    tables = tables_of(plain["tables"])
    chains = {table.shape[:2] for table in tables.values()}
    if len(chains) != 1 or any(table.ndim < 3 or not np.isfinite(table).all() for table in tables.values()):
        raise ReleaseError("the draws of the tables do not fit each other")
    if any((table < 0).any() or not np.allclose(table.sum(axis=2), 1, atol=1e-6) for table in tables.values()):
        raise ReleaseError("the draws of a table must be non-negative and sum to 1 over its own levels")
    texts = (plain["method"], plain["reason"])
    acceptance = plain["acceptance"]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(v, float) for v in acceptance.values()):
        raise ReleaseError("the record of the draws is not whole")
    n = None if plain["latent_n"] is None else integers_of(plain["latent_n"])
    means = None if plain["means"] is None else Probabilities(network, tables_of(plain["means"])).tables
    settings = {"n": n, "acceptance": FrozenMap(acceptance), "means": means}
    return PosteriorDraws(network, tables, *texts, **settings, provenance=provenance_of(plain))


def _naive_bayes_ensemble(plain: dict[str, Any], network: Network) -> NaiveBayesEnsemble:
    if not isinstance(plain["draws"], list):
        raise ReleaseError("an ensemble's draws are a list")
    provenance = provenance_of(plain)
    draws = tuple(Probabilities(network, tables_of(draw), provenance) for draw in plain["draws"])
    return NaiveBayesEnsemble(plain["target"], draws)


_WITHOUT_NETWORK = ("release", "linear-design", "linear-regression", "sampled-regression")

_READERS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "network": lambda plain, network: network,
    "release": release_of,
    "linear-design": lambda plain, network: design_of(plain["design"]),
    "posterior-draws": _posterior_draws,
    "naive-bayes-ensemble": _naive_bayes_ensemble,
    "posterior": _posterior,
    "probabilities": _probabilities,
    "naive-bayes": _naive_bayes,
    "hidden-markov-model": markov_model_of,
    "linear-regression": regression_of,
    "sampled-regression": sampled_regression_of,
}
