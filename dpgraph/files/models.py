"""Probabilities, posteriors and fitted models: their codecs, and the checks that their classes do not make."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, get_args

import numpy as np

from dpgraph.files.arrays import plain_tables, tables_of
from dpgraph.files.codecs import Codec, Plain, Read, needed_network, register_codecs, structural, written
from dpgraph.inference.markov.sampler import Inference, Sampler
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.models.weighted import WeightedNaiveBayes
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities


def _ensemble_of(plain: Plain, network: Network, provenance: Provenance | None) -> NaiveBayesEnsemble:
    if not isinstance(plain["draws"], list):
        raise FileError("an ensemble's draws are a list")
    draws = tuple(Probabilities(network, tables_of(draw), provenance) for draw in plain["draws"])
    return NaiveBayesEnsemble(plain["target"], draws)


def _check_draws(draws: PosteriorDraws, provenance: Provenance | None) -> None:
    chains = {table.shape[:2] for table in draws.tables.values()}
    if len(chains) != 1 or any(table.ndim < 3 for table in draws.tables.values()):
        raise FileError("the draws of the tables do not fit each other")
    for table in draws.tables.values():
        _check_drawn(table)
    if draws.n is not None and ({draws.n.shape} != chains or draws.n.min(initial=0) < 0):
        raise FileError("the numbers of latent rows are whole numbers of at least 0, one for each draw")
    if draws.mixing and set(draws.mixing) != {"r_hat", "effective_size"}:
        raise FileError("the record of the draws is not whole")
    if draws.means is not None:
        Probabilities(draws.network, draws.means)


def drawn_table(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The draws of one table, axes (chain, draw, variable, *parents); ``shape`` is the shape of one draw."""
    table = tables_of({"": values})[""]
    if table.ndim < 3 or table.shape[2:] != shape or not table.shape[0] * table.shape[1]:
        raise FileError(f"the draws of a table have the wrong shape {table.shape}")
    _check_drawn(table)
    return table


def _check_drawn(table: np.ndarray) -> None:
    if (table < 0).any() or not np.allclose(table.sum(axis=2), 1, atol=1e-6):
        raise FileError("the draws of a table must be non-negative and sum to 1 over its own levels")


def _check_markov(model: HiddenMarkovModel, provenance: Provenance | None) -> None:
    if model.inference not in (*get_args(Inference), "private-gibbs") or model.sampler not in get_args(Sampler):
        raise FileError("the inference or the sampler is not one of dpgraph's")
    if model.states.size == 0 or np.abs(model.states).max() > np.iinfo(np.int16).max:
        raise FileError("the states are not those of a model")


def _plain_model(model: NaiveBayes) -> Plain:
    """The posterior, whose means are the tables, or the tables alone."""
    if model.posterior is None:
        return {"target": model.target, "tables": plain_tables(model.probabilities.tables)}
    return {"target": model.target, "posterior": _plain_posterior(model.posterior)}


def _plain_posterior(posterior: Any) -> Plain:
    codec, plain = written(posterior, released=False)
    return {"kind": codec.kind, **plain}


def _model_of(plain: Plain, network: Network, provenance: Provenance | None) -> NaiveBayes:
    if "posterior" not in plain:
        return NaiveBayes(plain["target"], Probabilities(network, tables_of(plain["tables"]), provenance))
    posterior = _posterior_of(plain["posterior"], network, provenance)
    return NaiveBayes(plain["target"], posterior.mean(), posterior)


def _weighted_of(plain: Plain, network: Network, provenance: Provenance | None) -> WeightedNaiveBayes:
    return WeightedNaiveBayes(plain["target"], Probabilities(network, tables_of(plain["tables"]), provenance))


def _posterior_of(plain: Plain, network: Network, provenance: Provenance | None) -> Any:
    return _POSTERIORS[plain["kind"]].read(plain, network, provenance)


def _plain_classifier(model: ConditionalClassifier) -> Plain:
    head = {"target": model.target, "features": list(model.features)}
    return {**head, "posterior": _plain_posterior(model.posterior)}


def _classifier_of(plain: Plain, network: Network, provenance: Provenance | None) -> ConditionalClassifier:
    if not isinstance(plain["features"], list) or not isinstance(plain["target"], str):
        raise FileError("a classifier's features are a list of names, and its target is one")
    posterior = _posterior_of(plain["posterior"], network, provenance)
    return ConditionalClassifier(plain["target"], posterior, tuple(plain["features"]))


def _fitted(kind: str, type_: type, write: Any, read: Any, network: Any = attrgetter("network")) -> Codec:
    return Codec("fitted", kind, type_, write, read, network, needed_network)


#: The posteriors of networks, by kind; of draws the latent rows of a chain are not kept.
_POSTERIORS = {
    codec.kind: codec
    for codec in (
        _fitted("posterior", DirichletPosterior, *structural(DirichletPosterior)),
        _fitted("posterior-draws", PosteriorDraws, *structural(PosteriorDraws, _check_draws, without="records")),
        _fitted("probabilities", Probabilities, *structural(Probabilities)),
    )
}
#: The models that questions are asked of.
_NETWORK_MODELS = (
    *_POSTERIORS.values(),
    _fitted("classifier", ConditionalClassifier, _plain_classifier, _classifier_of),
    _fitted("naive-bayes", NaiveBayes, _plain_model, _model_of, attrgetter("probabilities.network")),
    _fitted(
        "weighted-naive-bayes", WeightedNaiveBayes, _plain_model, _weighted_of, attrgetter("probabilities.network")
    ),
    _fitted(
        "naive-bayes-ensemble",
        NaiveBayesEnsemble,
        lambda model: {"target": model.target, "draws": [plain_tables(draw.tables) for draw in model.draws]},
        _ensemble_of,
        lambda model: model.draws[0].network,
    ),
)
#: Their readers, by the format of a file.
NETWORK_READERS: dict[str, Read] = {f"dpgraph-{codec.kind}": codec.read for codec in _NETWORK_MODELS}

register_codecs(
    *_NETWORK_MODELS, _fitted("hidden-markov-model", HiddenMarkovModel, *structural(HiddenMarkovModel, _check_markov))
)
