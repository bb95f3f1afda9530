"""The posterior of a graph that was chosen from tables without one, of which none holds some family.

Chains of records read all tables at once: what no table holds together is left to the tables of its parts and the
prior (``evidence.evidence_for``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_whole_number
from dpgraph.inference.methods import Records
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import concentration_tables, evidence_for
from dpgraph.inference.network.posterior import read_prior
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.joint import JointCounts
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts


def is_beyond_tables(value: Any, network: Any) -> bool:
    """Whether only chains of records can learn a network from a value, tables of which were released without a graph.

    What was released of a graph alone is read for graphs whose families its tables hold; another has been mistaken.

    Args:
        value: What was released, once or several times of the same rows.
        network: The network to learn.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> margins = Margins.of_tables({name: [0, 1] for name in "abc"}, ["ab", "bc", "ac"])
    >>> tables = {table: np.zeros((2, 2), int) for table in margins.tables}
    >>> noisy = NoisyCounts(margins, tables, dict.fromkeys(tables, DiscreteLaplace(1.0)), 9)
    >>> collider = Network.of(margins.domain, {"c": ["a", "b"]})
    >>> is_beyond_tables(noisy, collider), is_beyond_tables(noisy, Network.of(margins.domain, {"c": ["a"]}))
    (True, False)
    """
    parts: tuple[Any, ...] = value.singles if isinstance(value, JointCounts) else (value,)
    if not isinstance(network, Network) or isinstance(network, Margins):
        return False
    if not all(isinstance(part, NoisyCounts | NoisyCoefficients) for part in parts):
        return False
    if not any(isinstance(part.network, Margins) for part in parts):
        return False
    if any(part.network.domain != network.domain for part in parts):
        return False
    holding = Holding(network, [key for part in parts for key in _measured(part)])
    return all(holding.places((name,)) for name in network.domain.names) and not holds_families(value, network)


def holds_families(value: Any, network: Network) -> bool:
    """Whether each family of a network lies in a table that was measured; coefficients have no tables."""
    parts: tuple[Any, ...] = value.singles if isinstance(value, JointCounts) else (value,)
    if not all(isinstance(part, NoisyCounts) for part in parts):
        return False
    holding = Holding(network, [key for part in parts for key in _measured(part)])
    return all(holding.places(family) for family in network.maximal_families)


def posterior_beyond_tables(
    value: Any,
    network: Network,
    *,
    prior: Any = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
) -> PosteriorDraws:
    """Draws of a network some family of which lies in no measured table, by chains of records.

    Raises:
        InferenceError: If another method is asked for, or a setting is out of range.
    """
    if not isinstance(method, Records) and method not in ("auto", "records"):
        raise InferenceError(
            'no table holds some family, so records alone can draw: leave method out, or "records", or for longer '
            "chains dg.methods.Records(burn_in=2000, thin=5)"
        )
    chains = vars(method) if isinstance(method, Records) else {}
    check_whole_number("draws", draws, 1)
    hierarchy, cells = read_prior("hierarchical" if prior is None else prior)
    given = evidence_for(network, value)
    settings: dict[str, Any] = {"draws": draws, "progress": progress, "hierarchy": hierarchy, **chains}
    made = draw_by_records(given, concentration_tables(network, cells), rng=rng, **settings)
    return replace(made, reason="no table holds some family")


def _measured(part: NoisyCounts | NoisyCoefficients) -> tuple[Family, ...]:
    """The variables of each table, or block of coefficients, that was released."""
    return tuple(part.tables if isinstance(part, NoisyCounts) else part.blocks)
