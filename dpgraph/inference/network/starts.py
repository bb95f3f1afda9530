"""Where a Markov chain over latent records starts: records of a network fitted to a perturbed release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network.evidence import Evidence, rows_estimate
from dpgraph.inference.network.queries import sample_codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family
from dpgraph.structure.table_search import Holding
from dpgraph.structure.tables import Probabilities, Reals, margin


def starting_records(
    given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator
) -> dict[str, npt.NDArray[np.integer[Any]]]:
    """Records near the release: chains that start here are more dispersed than the posterior.

    Every value gets fresh noise of its own variance; a network is fitted to the values clipped at 0, and as many
    records are drawn from it as the release speaks of.

    Args:
        given: The released tables.
        concentration: The Dirichlet prior of every variable, axes (variable, *parents).
        rng: Randomness for post-processing.
    """
    estimate, spread = rows_estimate(given)
    n = max(0, round(estimate + spread * rng.standard_normal()))
    values = [
        table.values
        + math.sqrt(table.law.variance(table.values.size)) * table.step * rng.standard_normal(table.values.size)
        for table in given.tables
    ]
    fitted: dict[str, Reals] = {}
    direct = {t.variables: v.reshape(t.shape) for t, v in zip(given.tables, values, strict=True) if t.weights is None}
    holding = Holding(given.network, direct)
    for name in given.network.domain.names:
        family = given.network.family(name)
        if holding.places(family):
            holder = holding.smallest(family)
            estimate = margin(direct[holder], holder, family)
        else:
            estimate = _from_contrasts(given, values, family, n)
        rough = np.maximum(estimate, 0.0) + concentration[name]
        fitted[name] = rough / rough.sum(axis=0)
    drawn = sample_codes(Probabilities(given.network, FrozenMap(fitted)), n, rng)
    return dict[str, npt.NDArray[np.integer[Any]]](drawn)


def _from_contrasts(given: Evidence, values: list[Reals], family: Family, n: int) -> Reals:
    """n spread evenly, plus what each block of contrasts inside the family says; columns of weights are orthogonal."""
    shape = given.network.shape(family)
    total = np.full(shape, n / math.prod(shape))
    for table, value in zip(given.tables, values, strict=True):
        if table.weights is not None and table.variables and set(table.variables) <= set(family):
            part = (table.weights @ (value / (table.weights**2).sum(axis=0))).reshape(table.shape)
            inside = [name for name in family if name in table.variables]
            part = np.transpose(part, [table.variables.index(name) for name in inside])
            lifted = part.reshape([size if name in inside else 1 for name, size in zip(family, shape, strict=True)])
            total = total + lifted * (part.size / math.prod(shape))
    return total
