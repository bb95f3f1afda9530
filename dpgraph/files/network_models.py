"""Probabilities, posteriors and classifiers of a network as plain values, and back, their numbers checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.files.arrays import plain_tables, tables_of
from dpgraph.files.codecs import structural
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

plain_posterior, posterior_of = structural(DirichletPosterior)
plain_probabilities, probabilities_in = structural(Probabilities)


def plain_naive_bayes(model: NaiveBayes) -> dict[str, Any]:
    """The target and the tables."""
    return {"target": model.target, "tables": plain_tables(model.probabilities.tables)}


def naive_bayes_of(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> NaiveBayes:
    """A naive Bayes classifier."""
    return NaiveBayes(plain["target"], Probabilities(network, tables_of(plain["tables"]), provenance))


def _check_draws(draws: PosteriorDraws, provenance: Provenance | None) -> None:
    """Refuses draws that do not fit each other."""
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


#: Every draw of every table; the latent rows of a chain are not kept.
plain_posterior_draws, posterior_draws_of = structural(PosteriorDraws, _check_draws, without="records")


def drawn_table(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The draws of one table, axes (chain, draw, variable, *parents)."""
    table = tables_of({"": values})[""]
    if table.ndim < 3 or table.shape[2:] != shape or not table.shape[0] * table.shape[1]:
        raise FileError(f"the draws of a table have the wrong shape {table.shape}")
    _check_drawn(table)
    return table


def _check_drawn(table: np.ndarray) -> None:
    if (table < 0).any() or not np.allclose(table.sum(axis=2), 1, atol=1e-6):
        raise FileError("the draws of a table must be non-negative and sum to 1 over its own levels")


def plain_ensemble(ensemble: NaiveBayesEnsemble) -> dict[str, Any]:
    """The target and the tables of each draw."""
    return {"target": ensemble.target, "draws": [plain_tables(draw.tables) for draw in ensemble.draws]}


def naive_bayes_ensemble_of(
    plain: dict[str, Any], network: Network, provenance: Provenance | None
) -> NaiveBayesEnsemble:
    """Draws of a naive Bayes classifier."""
    if not isinstance(plain["draws"], list):
        raise FileError("an ensemble's draws are a list")
    draws = tuple(Probabilities(network, tables_of(draw), provenance) for draw in plain["draws"])
    return NaiveBayesEnsemble(plain["target"], draws)
