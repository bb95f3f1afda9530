"""A naive Bayes release as flat arrays for the loops, and where its chains start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dpgraph.inference.classifier.loops import Plan, Unseen
from dpgraph.inference.network.evidence import Evidence, MeasuredTable
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Reals

#: The most rows that go from label to label at once: a move costs time for each.
MOST_RELABELLED = 512
#: The concentration that chains start with.
FIRST = 16.0


@dataclass(frozen=True)
class Star:
    """A naive Bayes release as flat arrays, ``plan``.

    Each measured table holds the label, and each feature is in one of them; ``features`` are in the tables' order.
    """

    network: Network
    target: str
    features: tuple[str, ...]
    tables: tuple[MeasuredTable, ...]
    n: int | None
    plan: Plan


def is_star(given: Evidence, target: str) -> bool:
    """True if a release has noisy counts of tables that all hold the label, each feature in exactly one."""
    if any(table.weights is not None or target not in table.variables for table in given.tables):
        return False
    seen = [name for table in given.tables for name in table.variables if name != target]
    return sorted(seen) == sorted(name for name in given.network.domain.names if name != target)


def star_of(given: Evidence, target: str, prior: float) -> Star:
    """The arrays of a release that ``is_star``; ``prior`` is the Dirichlet concentration of each label."""
    network, tables = given.network, given.tables
    sizes, labels = network.domain.sizes, network.domain.sizes[target]
    features = tuple(name for table in tables for name in table.variables if name != target)
    levels = [sizes[name] for name in features]
    costs = np.array([table.noise.penalties for table in tables], float)
    between = max(1, min(MOST_RELABELLED, round(label_deviation(tables, labels))))
    plan = Plan(
        labels=labels,
        start=_edges([table.values.size for table in tables]),
        released=np.concatenate([label_last(table, target).reshape(-1) for table in tables]),
        absolute=costs[:, 0].copy(),
        squares=costs[:, 1].copy(),
        reach=np.array([*(max(1, min(1 << 40, round(2 * table.scale))) for table in tables), between], np.int64),
        first=_edges([len(table.variables) - 1 for table in tables]),
        levels=np.array(levels, np.int64),
        margin=_edges([size * labels for size in levels])[:-1],
        centre=_edges(levels)[:-1],
        prior=prior,
        n_is_public=given.n is not None,
    )
    return Star(network, target, features, tables, given.n, plan)


def label_last(table: MeasuredTable, target: str) -> Integers:
    """The values of a table with the target as its last axis."""
    axes = [k for k, name in enumerate(table.variables) if name != target]
    return np.transpose(table.values.reshape(table.shape), [*axes, table.variables.index(target)])


def label_deviation(tables: tuple[MeasuredTable, ...], labels: int) -> float:
    """The deviation of the noise on a label's count, after all tables are averaged."""
    return sum(_label_precision(table, labels) for table in tables) ** -0.5


def starting_state(star: Star, rng: np.random.Generator) -> Unseen:
    """Possible counts near the release, which gets fresh noise of its own variance, so that chains start apart."""
    plan, labels = star.plan, star.plan.labels
    noisy = []
    for table in star.tables:
        values = label_last(table, star.target).reshape(-1, labels)
        noisy.append(values + math.sqrt(table.law.variance(values.size)) * rng.standard_normal(values.shape))
    precision = [_label_precision(table, labels) for table in star.tables]
    estimate = np.average([values.sum(axis=0) for values in noisy], axis=0, weights=precision)
    n = star.n if star.n is not None else max(0, round(float(estimate.sum())))
    label = whole_numbers(np.maximum(estimate, 0.0) + 0.01 * n / labels + 1e-9, n)
    counts = [_columns(np.maximum(values, 0.0) + 1.0, label) for values in noisy]
    margins = [margin for g, table in enumerate(counts) for margin in _margins(plan, g, table)]
    centres = [margin.sum(axis=1) + 1.0 for margin in margins]
    nothing = np.zeros(0, np.int64)
    return Unseen(
        counts=np.concatenate([nothing, *(table.reshape(-1) for table in counts)]),
        margins=np.concatenate([nothing, *(margin.reshape(-1) for margin in margins)]),
        label=label,
        centres=np.concatenate([np.zeros(0), *(centre / centre.sum() for centre in centres)]),
        concentration=np.full(len(plan.levels), FIRST),
        laws=np.zeros(sum(margin.size for margin in margins)),
        tally=np.zeros(12, np.int64),
    )


def whole_numbers(weights: Reals, total: int) -> Integers:
    """Whole numbers in proportion to weights, which sum to a total: the largest remainders are rounded up.

    >>> whole_numbers(np.array([1.0, 1.0, 2.0]), 5).tolist()
    [1, 1, 3]
    """
    ideal = weights / weights.sum() * total
    made = np.floor(ideal).astype(np.int64)
    made[np.argsort(made - ideal, kind="stable")[: total - int(made.sum())]] += 1
    return made


def _label_precision(table: MeasuredTable, labels: int) -> float:
    """One over the variance of the noise on a label's count in one table."""
    return 1 / max(1e-9, table.law.variance(table.values.size) * table.values.size / labels)


def _columns(weights: Reals, label: Integers) -> Integers:
    """A table of whole numbers with given column sums."""
    return np.column_stack([whole_numbers(weights[:, y], int(total)) for y, total in enumerate(label)])


def _margins(plan: Plan, g: int, table: Integers) -> list[Integers]:
    """The counts of each feature of a table and the label, shape (levels, labels) each."""
    levels = plan.levels[plan.first[g] : plan.first[g + 1]]
    block = table.reshape(*levels, plan.labels)
    others = [tuple(j for j in range(len(levels)) if j != k) for k in range(len(levels))]
    return [block.sum(axis=axes) for axes in others]


def _edges(sizes: list[int]) -> Integers:
    """Where stretches of some sizes start, one after another, and the end of the last."""
    return np.array([0, *accumulate(sizes)], np.int64)
