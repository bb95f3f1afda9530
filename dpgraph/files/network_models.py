"""Probabilities, posteriors and classifiers of a network from their plain form, their numbers checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpgraph.files.arrays import integers_of, shares_of, tables_of
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities


def posterior_of(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> DirichletPosterior:
    """A plug-in posterior."""
    return DirichletPosterior(network, tables_of(plain["concentration"]), provenance)


def probabilities_in(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> Probabilities:
    """Conditional probability tables."""
    return Probabilities(network, tables_of(plain["tables"]), provenance)


def naive_bayes_of(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> NaiveBayes:
    """A naive Bayes classifier."""
    return NaiveBayes(plain["target"], probabilities_in(plain, network, provenance))


def posterior_draws_of(plain: dict[str, Any], network: Network, provenance: Provenance | None) -> PosteriorDraws:
    """Every draw of every table."""
    tables = tables_of(plain["tables"])
    chains = {table.shape[:2] for table in tables.values()}
    if len(chains) != 1 or any(table.ndim < 3 or not np.isfinite(table).all() for table in tables.values()):
        raise FileError("the draws of the tables do not fit each other")
    for table in tables.values():
        _check_drawn(table)
    texts = (plain["method"], plain["reason"])
    if not all(isinstance(text, str) for text in texts):
        raise FileError("the record of the draws is not whole")
    n = None if plain["latent_n"] is None else integers_of(plain["latent_n"])
    if n is not None and ({n.shape} != chains or n.min(initial=0) < 0):
        raise FileError("the numbers of latent rows are whole numbers of at least 0, one for each draw")
    means = None if plain["means"] is None else Probabilities(network, tables_of(plain["means"])).tables
    settings = {"n": n, "acceptance": shares_of(plain["acceptance"]), "means": means, "mixing": mixing_of(plain)}
    return PosteriorDraws(network, tables, *texts, **settings, provenance=provenance)


def mixing_of(plain: dict[str, Any]) -> FrozenMap[str, float]:
    """How well chains mixed, by a file of draws; empty where it does not say, as files did at first.

    Raises:
        FileError: If it is not two numbers, null standing for one that is not known.
    """
    found = plain.get("mixing", {})
    if not isinstance(found, dict) or (found and set(found) != {"r_hat", "effective_size"}):
        raise FileError("the record of the draws is not whole")
    if not all(value is None or (isinstance(value, float) and value >= 0) for value in found.values()):
        raise FileError("the record of the draws is not whole: how chains mixed is numbers of at least 0")
    return FrozenMap((name, math.nan if value is None else value) for name, value in found.items())


def drawn_table(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The draws of one table, axes (chain, draw, variable, *parents).

    Args:
        values: The array or nested lists of a file.
        shape: The sizes of the variable and its parents.

    Raises:
        FileError: If they are no draws of such a table.
    """
    table = tables_of({"": values})[""]
    if table.ndim < 3 or table.shape[2:] != shape or not table.shape[0] * table.shape[1]:
        raise FileError(f"the draws of a table have the wrong shape {table.shape}")
    _check_drawn(table)
    return table


def _check_drawn(table: np.ndarray) -> None:
    if (table < 0).any() or not np.allclose(table.sum(axis=2), 1, atol=1e-6):
        raise FileError("the draws of a table must be non-negative and sum to 1 over its own levels")


def naive_bayes_ensemble_of(
    plain: dict[str, Any], network: Network, provenance: Provenance | None
) -> NaiveBayesEnsemble:
    """Draws of a naive Bayes classifier."""
    if not isinstance(plain["draws"], list):
        raise FileError("an ensemble's draws are a list")
    draws = tuple(Probabilities(network, tables_of(draw), provenance) for draw in plain["draws"])
    return NaiveBayesEnsemble(plain["target"], draws)
