"""How much is missing of a network's variables, and how far answers move with the assumption that fills it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_above_zero
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.queries import indicator
from dpgraph.inference.queries.asking import query
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network


def missing(model: Any, *, interval: float = 0.9) -> DataFrame:
    """The share of missing values of each variable, their assumed causes, and the distance of observed values from all.

    Args:
        model: As for ``query``: of a network with unobserved values, such as ``dg.posterior`` gives.
        interval: The probability of the intervals.

    Returns:
        A frame with a row for each variable with unobserved values: ``missing``, ``low`` and ``high``, their share;
        ``because``, the variables that they were assumed to depend on; ``moved``, the total variation between the
        variable's probabilities among observed values and among all.

    Raises:
        InferenceError: If no variable has unobserved values, or as for ``query``.
    """
    network = drawn_tables(model).network
    rows = {}
    for name, sign in network.domain.indicators.items():
        share = query(model, sign, interval=interval)
        seen = query(model, name, {sign: "no"}).mean
        moved = float(abs(query(model, name).mean - seen).sum() / 2)
        rows[name] = [share.mean[1], share.low[1], share.high[1], ", ".join(network.parents[sign]), moved]
    if not rows:
        raise InferenceError("no variable of the network has unobserved values: declare them missing=dg.UNOBSERVED")
    return data_frame([*rows.values()], ["missing", "low", "high", "because", "moved"], [*rows])


def sensitivity(
    posterior: PosteriorDraws, name: str, odds: Iterable[float], *, levels: Iterable[Any] | None = None
) -> dict[float, PosteriorDraws]:
    """The posterior if some values are missing more often than others, one for each of several odds: costs nothing.

    That holes do not depend on the value itself is an assumption that no data can check. Here the odds of ``levels``
    to others among missing values are ``odds`` times those among observed ones with the same parents (a pattern
    mixture; Little 1993). At odds 1 it is the posterior itself.

    Args:
        posterior: Draws of a network with unobserved values.
        name: The variable with holes, whose indicator's parents are among its own.
        odds: Numbers above 0.
        levels: The levels that are missing more often; None for the last one.

    Returns:
        A posterior for each of ``odds``, without the indicator of the variable; ask them as any other.

    Raises:
        InferenceError: If the posterior has no holes of the variable, their parents are others than its own, or odds
            are not above 0.
        DomainError: If a level is unknown.
    """
    sign = indicator(name)
    if not isinstance(posterior, PosteriorDraws) or sign not in posterior.tables:
        raise InferenceError(f"sensitivity takes draws of a network in which values of {name!r} are unobserved")
    network = posterior.network
    family, reasons = network.family(name), network.parents[sign]
    if not set(reasons) <= set(family[1:]):
        raise InferenceError(f"the holes of {name!r} depend on others than its parents, for which this has no answer")
    used = [child for child, parents in network.parents.items() if sign in parents]
    if used:
        raise InferenceError(f"{sign!r} is a parent of {used[0]!r}, so it cannot be left out")
    domain = network.domain
    chosen = [domain.code(name, level) for level in (domain.levels(name)[-1:] if levels is None else levels)]
    kept = domain.restrict(one for one in domain.names if one != sign)
    less = Network.of(kept, {one: network.parents[one] for one in kept.names}, network.rules)
    table = posterior.tables[name]
    order = sorted(range(len(reasons)), key=lambda at: family.index(reasons[at]))
    gone = np.moveaxis(posterior.tables[sign][:, :, 1], [2 + at for at in order], range(2, 2 + len(order)))
    shape = [size if one in reasons else 1 for one, size in zip(family, network.shape(family), strict=True)]
    gone = gone.reshape(*table.shape[:2], *shape)
    found: dict[float, PosteriorDraws] = {}
    for one in odds:
        check_above_zero("odds", one)
        weight = np.ones(table.shape[2])
        weight[chosen] = one
        tilted = table * weight.reshape(-1, *[1] * (table.ndim - 3))
        tilted = (1 - gone) * table + gone * tilted / tilted.sum(axis=2, keepdims=True)
        tables = FrozenMap((v, tilted if v == name else posterior.tables[v]) for v in kept.names)
        said = f"{posterior.reason}; odds {one:g} of being missing for some levels of {name!r}"
        found[one] = replace(posterior, network=less, tables=tables, means=None, records=None, reason=said)
    return found
