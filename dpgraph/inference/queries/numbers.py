"""Expectations and quantiles of a variable whose levels are numbers or bins of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.asking import Method, query
from dpgraph.inference.queries.question import evidence_words
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.domain import Bins, Domain
from dpgraph.structure.tables import Reals


@dataclass(frozen=True, eq=False)
class _Scale:
    """The numbers that levels stand for: each spread evenly from low to high; those left out are no numbers."""

    positions: Any
    low: Reals
    high: Reals


def expectation(
    model: Any,
    variable: str,
    given: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    quantiles: Sequence[float] = (),
    values: Mapping[Any, float] | None = None,
    interval: float = 0.9,
    method: Method = "auto",
) -> Answer:
    """The mean and the standard deviation of a variable given evidence, and its quantiles, draw by draw.

    A bin's rows are taken as spread evenly over it: its mean is the midpoint, and quantiles are interpolated within it.
    What lies outside the outer edges was counted in the end bins, so it is taken as inside them. A level ``"missing"``
    of bins is left out: the numbers are those given that a value is there.

    Args:
        model: As for ``query``.
        variable: Bins, or levels that are numbers or booleans (0 and 1).
        given: Evidence, as for ``query``.
        do: Interventions, as for ``query``.
        quantiles: Probabilities strictly between 0 and 1.
        values: The number of each level, for levels that are no numbers, or instead of them; levels without one are
            left out.
        interval: The probability of the intervals.
        method: As for ``query``.

    Returns:
        An ``Answer`` with the entries ``"mean"``, ``"sd"`` and one for each quantile, in the variable's own units.

    Raises:
        InferenceError: If the levels are no numbers and no values are given, or as for ``query``.
        DomainError: As for ``query``; if a value is of no level.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"age": Bins([20, 40, 80])}, {})
    >>> expectation(Probabilities(network, {"age": [0.5, 0.5]}), "age", quantiles=[0.75])
    age = mean 45, sd 17.6, quantile 0.75 60
    """
    tables = drawn_tables(model)
    wanted = [check_probability("quantiles", one) for one in quantiles]
    if not isinstance(variable, str):
        raise InferenceError(f"an expectation is of one variable, by its name; got {variable!r:.60}")
    scale = _scale(tables.network.domain, variable, values)
    answer = query(tables, variable, given, do=do, interval=interval, method=method)
    weights = answer.draws[:, scale.positions]
    total = weights.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        raise InferenceError(f"{variable!r} has no number at all in some draws, all of it being missing")
    weights = weights / total
    middle, width = (scale.low + scale.high) / 2, scale.high - scale.low
    mean = weights @ middle
    deviation = np.sqrt(np.maximum(weights @ (middle**2 + width**2 / 12) - mean**2, 0))
    columns = [mean, deviation, *(_quantile(weights, scale, one) for one in wanted)]
    known = evidence_words(given, do)
    return Answer(
        question=f"{variable} | {known}" if known else variable,
        columns=("measure",),
        labels=(("mean",), ("sd",), *((f"quantile {one:g}",) for one in wanted)),
        draws=np.stack(columns, axis=1),
        predictive=None,
        interval=interval,
        method=answer.method,
        effective_size=answer.effective_size,
        note=answer.note,
    )


def _scale(domain: Domain, name: str, values: Mapping[Any, float] | None) -> _Scale:
    """The numbers of a variable's levels, in increasing order.

    Raises:
        InferenceError: If there are none.
    """
    variable = domain[name]
    if values is not None:
        numbers = {domain.code(name, level): value for level, value in values.items()}
        if not numbers or any(isinstance(v, bool) or not isinstance(v, Real) for v in numbers.values()):
            raise InferenceError("values must map levels to numbers, at least one")
        ordered = sorted(numbers, key=lambda code: float(numbers[code]))
        points = np.array([float(numbers[code]) for code in ordered])
        return _Scale(np.array(ordered), points, points)
    if isinstance(variable, Bins):
        edges = np.array(variable.edges, float)
        return _Scale(np.arange(len(edges) - 1), edges[:-1], edges[1:])
    if variable.kind == "text":
        raise InferenceError(
            f"the levels of {name!r} are no numbers; say what each stands for with values={{level: number}}"
        )
    points = np.array([float(level) for level in variable.levels])
    order = np.argsort(points)
    return _Scale(order, points[order], points[order])


def _quantile(weights: Reals, scale: _Scale, probability: float) -> Reals:
    """The least number that at least this probability lies at or below, bins taken as even, of each draw."""
    below = np.cumsum(weights, axis=1)
    place = np.minimum((below < probability - 1e-12).sum(axis=1), weights.shape[1] - 1)
    rows = np.arange(len(weights))
    inside = weights[rows, place]
    share = (probability - (below[rows, place] - inside)) / np.where(inside > 0, inside, 1.0)
    return scale.low[place] + np.clip(share, 0, 1) * (scale.high - scale.low)[place]
