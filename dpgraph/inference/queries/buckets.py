"""Elimination whose tables are kept, to go back through: the most probable levels, and rows drawn given evidence.

Draws are the last axis of every table; each message is scaled so that its largest entry is 1, and the logs are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.queries.contraction import MOST_CELLS
from dpgraph.inference.queries.question import Evidence
from dpgraph.inference.queries.tables import DrawnTables
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.elimination import smallest_elimination
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Bucket:
    """The product of the tables that held a variable when it went: axes (variable, *others, draw)."""

    variable: str
    others: Family
    table: Reals


def eliminated(
    tables: DrawnTables, names: Sequence[str], evidence: Evidence, draws: Any, *, maximum: bool
) -> tuple[list[Bucket], Reals]:
    """Eliminates all unobserved variables, and keeps what is needed to go back.

    Args:
        tables: Draws of a network's tables.
        names: The variables whose tables count; with each its ancestors.
        evidence: What is observed or set.
        draws: Which draws, a slice or positions.
        maximum: Maxima instead of sums.

    Returns:
        The buckets in the order of elimination, and the log of the sum or maximum of the product, shape (draws,).

    Raises:
        InferenceError: If a table would be too large; the message names its width.
    """
    network, fixed = tables.network, {**evidence.levels, **evidence.do}
    factors: list[tuple[Family, Reals]] = []
    for name in (one for one in names if one not in evidence.do):
        family = network.family(name)
        table = np.moveaxis(tables.tables[name][draws], 0, -1)
        table = table[tuple(fixed.get(axis, slice(None)) for axis in family)]
        factors.append((tuple(axis for axis in family if axis not in fixed), table))
    factors += [((name,), np.array(weights)[:, None]) for name, weights in evidence.weights.items()]
    order, width, cells = smallest_elimination([scope for scope, _ in factors], network.domain.sizes)
    if cells > MOST_CELLS:
        raise InferenceError(
            f"this question needs a table of {width + 1} variables (width {width}) and {cells:.3g} cells; at most "
            f'{MOST_CELLS:.3g} cells are made. Give more evidence, or ask dg.query with method="sampling"'
        )
    found: list[Bucket] = []
    log: Any = 0.0
    for name in order:
        mine = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]]
        scope, product = _product(name, mine, network.domain.sizes)
        found.append(Bucket(name, scope[1:], product))
        message = product.max(axis=0) if maximum else product.sum(axis=0)
        top = message.max(axis=tuple(range(message.ndim - 1)))
        with np.errstate(divide="ignore"):
            log = log + np.log(top)
        factors.append((scope[1:], message / np.where(top > 0, top, 1.0)))
    for _, scalar in factors:
        with np.errstate(divide="ignore"):
            log = log + np.log(scalar)
    return found, np.asarray(log)


def _product(name: str, factors: Sequence[tuple[Family, Reals]], sizes: Mapping[str, int]) -> tuple[Family, Reals]:
    """The product of factors, the variable's axis first, the draws' last."""
    scope = (name, *dict.fromkeys(axis for one, _ in factors for axis in one if axis != name))
    product: Any = 1.0
    for axes, values in factors:
        kept = sorted(range(len(axes)), key=lambda place: scope.index(axes[place]))
        shape = [sizes[axis] if axis in axes else 1 for axis in scope]
        product = product * values.transpose(*kept, len(axes)).reshape(*shape, values.shape[-1])
    return scope, product


def most_probable_codes(buckets: Sequence[Bucket], draws: int) -> dict[str, Codes]:
    """The levels that maximise the product, for each draw; the first of several that do."""
    found: dict[str, Codes] = {}
    place = np.arange(draws)
    for bucket in reversed(buckets):
        column = bucket.table[(slice(None), *(found[name] for name in bucket.others), place)]
        found[bucket.variable] = column.argmax(axis=0)
    return found


def codes_drawn(buckets: Sequence[Bucket], draw: Codes, rng: np.random.Generator) -> dict[str, Codes]:
    """Levels of rows drawn from the product, normalised.

    Args:
        buckets: From ``eliminated`` with sums.
        draw: For each row the position of its draw along the last axis.
        rng: Randomness for post-processing.
    """
    found: dict[str, Codes] = {}
    for bucket in reversed(buckets):
        weights = bucket.table[(slice(None), *(found[name] for name in bucket.others), draw)]
        thresholds = np.cumsum(weights, axis=0)
        uniform = rng.random(len(draw)) * thresholds[-1]
        found[bucket.variable] = (uniform >= thresholds[:-1]).sum(axis=0)
    return found
