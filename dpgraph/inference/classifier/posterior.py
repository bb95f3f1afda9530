"""The posterior that a classifier predicts with, the choice of its method, and chains over the unseen counts.

In chains labels have a Dirichlet law. The column of feature f for a label is Dirichlet with concentration a_f about a
centre of its own, which is uniform; a_f is on a grid, every doubling as likely, up to where the label has no effect to
speak of. So a feature has no effect unless the release says otherwise, and where the noise drowns all of them the
label's own frequencies are left. The time of chains (``loops``) hardly depends on the number of rows (proofs.md P74).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.arguments import check_above_zero, check_no_rules
from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.classifier import loops
from dpgraph.inference.classifier.loops import Unseen
from dpgraph.inference.methods import Normal
from dpgraph.inference.network.by_normal import check_normal_draws
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, evidence, rows_estimate
from dpgraph.inference.network.posterior import network_posterior
from dpgraph.inference.simplex import whole_numbers
from dpgraph.privacy.records import Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, NoisyCoefficients, NoisyCounts, Reals

#: The most rows and cells for which chains over the counts are quick.
MOST_ROWS, MOST_CELLS = 10_000, 500
#: Average counts that are as many deviations of their noise are normal enough.
CLEAR = 10
#: Draws of the normal method.
DRAWS = 500


def classifier_posterior(
    noisy: NoisyCounts | NoisyCoefficients | Release[Any], target: str, *, prior: float = 1.0, seed: int = 0
) -> PosteriorDraws:
    """The posterior of a naive Bayes network in which features have no effect unless the release says otherwise.

    A classifier multiplies many ratios of small probabilities, so an effect that is all noise costs it dearly. Where
    n is public, the counts are not well above their noise, and rows and cells are few, chains over the unseen counts
    (``draw_by_counts``); else, and for coefficients, the normal method with interactions of unknown size. As
    the noise vanishes that becomes naive Bayes with the prior in every cell. ``prior`` is the Dirichlet concentration
    of each label; with the normal method of every cell.

    Raises:
        InferenceError: If the prior is refused.
    """
    value, provenance = released_value(noisy)
    check_above_zero("prior", prior)
    given, rng = evidence(value), np.random.default_rng(seed)
    check_no_rules(given.network, "the posterior of a classifier")
    rows, _ = rows_estimate(given)
    may_chain = rows <= MOST_ROWS and given.network.cell_count <= MOST_CELLS and is_star(given, target)
    cells = [(table.values.size, table.law) for table in given.tables]
    clearness = min(rows / size / max(1e-9, math.sqrt(law.variance(size))) for size, law in cells)
    if may_chain and clearness < CLEAR:
        drawn = draw_by_counts(given, target, prior=prior, rng=rng)
        return replace(drawn, provenance=provenance, reason=f"counts of about {rows:.0f} rows are near their noise")
    made = network_posterior(given.network, value, prior=prior, method=Normal(shrink=True), draws=DRAWS, rng=rng)
    assert isinstance(made, PosteriorDraws)  # no other method was asked for
    limits = f"chains take counts, a public n, at most {MOST_ROWS:,} rows and {MOST_CELLS:,} cells"
    return replace(made, provenance=provenance, reason="counts are well above their noise" if may_chain else limits)


def check_classifier(network: Network, prior: float) -> None:
    """Refuses, before the charge, a prior or a network that ``classifier_posterior`` would refuse with any release.

    Raises:
        InferenceError: If the prior is out of range, or there is no room for the draws.
    """
    check_above_zero("prior", prior)
    check_normal_draws(network, DRAWS)


#: The concentrations that a feature's columns may have about their centre.
CONCENTRATIONS = tuple(2.0**k for k in range(17))
#: Transfers in a sweep for each cell, and moves between labels.
TRANSFERS, RELABELS = 2, 12
#: The most rows that go from label to label at once: a move costs time for each.
MOST_RELABELLED = 512
#: Added to gamma draws: two levels that a draw all but excludes have a product above 0, so a row of both has an answer.
LEAST = 1e-30
#: The concentration that chains start with.
FIRST = 16.0


def draw_by_counts(
    given: Evidence,
    target: str,
    *,
    prior: float = 1.0,
    rng: np.random.Generator,
    draws: int = 250,
    burn_in: int = 500,
    chains: int = 2,
    thin: int = 4,
) -> PosteriorDraws:
    """Draws every table of a naive Bayes network from its posterior, effects of unknown size, by method ``"counts"``.

    ``is_star`` holds for the release. Chains start from different perturbations of it; all
    ``CONCENTRATIONS`` of a feature are as likely.

    >>> from dpgraph.inference.network.evidence import evidence
    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> network = Network.of({"spam": [0, 1], "word": [0, 1]}, {"word": ["spam"]})
    >>> tables = {("word", "spam"): [[70, 3], [2, 25]]}
    >>> noisy = NoisyCounts(network, tables, {("word", "spam"): DiscreteLaplace(2.0)}, n=100)
    >>> drawn = draw_by_counts(evidence(noisy), "spam", rng=np.random.default_rng(1))
    >>> drawn.mean().table("word").round(1).tolist()
    [[1.0, 0.1], [0.0, 0.9]]
    """
    star = star_of(given, target, prior)
    sweep, grid, plan = compiled(loops.sweep), np.array(CONCENTRATIONS), Plan(draws, burn_in, thin)
    done = run_chains(lambda _, own: StarChain(star, sweep, grid, plan, own), plan, rng.spawn(chains))
    tally = np.sum([one.state.tally for one in done], axis=0)
    tried = {move: (tally[2 * k], tally[2 * k + 1]) for k, move in enumerate(loops.MOVES)}
    names = star.network.domain.names
    return PosteriorDraws(
        star.network,
        FrozenMap((name, np.stack([one.tables[name] for one in done])) for name in names),
        "counts",
        acceptance={move: float(yes / many) for move, (yes, many) in tried.items() if many},
        means=FrozenMap((name, np.mean([one.means[name] for one in done], axis=0)) for name in names),
    )


class StarChain:
    """A chain over the unseen counts of a naive Bayes network.

    Attributes:
        state: The counts, and the accepted and tried moves of each kind.
        tables: Draws of each table, axes (draw, variable, *parents).
        means: The average of each table's mean given the counts of each draw.
    """

    def __init__(
        self, star: Star, sweep: Callable[..., None], grid: Reals, plan: Plan, rng: np.random.Generator
    ) -> None:
        self._star, self._sweep, self._grid, self._plan, self._rng = star, sweep, grid, plan, rng
        self.state = starting_state(star, rng)
        shapes = {name: star.network.shape(star.network.family(name)) for name in star.network.domain.names}
        self.tables = {name: np.empty((plan.draws, *shape)) for name, shape in shapes.items()}
        self.means = {name: np.zeros(shape) for name, shape in shapes.items()}

    def sweep(self, i: int) -> None:
        """Moves of rows between cells and labels."""
        if i == self._plan.burn_in:
            self.state.tally[:] = 0
        self._sweep(self._rng, self._star.plan, self.state, self._grid, TRANSFERS, RELABELS)

    def keep(self, draw: int) -> None:
        """Draws every table given the counts."""
        for name, alpha in _concentrations_given(self._star, self.state).items():
            drawn = self._rng.standard_gamma(alpha) + LEAST
            self.tables[name][draw] = drawn / drawn.sum(axis=0)
            self.means[name] += alpha / alpha.sum(axis=0) / self._plan.draws


def _concentrations_given(star: Star, state: Unseen) -> dict[str, Any]:
    """The Dirichlet law of every table given the counts, axes (variable, *parents)."""
    plan = star.plan
    found: dict[str, Any] = {star.target: state.label + plan.prior}
    for f, name in enumerate(star.features):
        first, levels = plan.margin[f], plan.levels[f]
        counts = state.margins[first : first + levels * plan.labels].reshape(levels, plan.labels)
        centre = state.centres[plan.centre[f] : plan.centre[f] + levels]
        found[name] = counts + state.concentration[f] * centre[:, None]
    return found


@dataclass(frozen=True)
class Star:
    """A naive Bayes release as flat arrays, ``plan``.

    Each measured table holds the label, and each feature is in one of them; ``features`` are in the tables' order.
    """

    network: Network
    target: str
    features: tuple[str, ...]
    tables: tuple[MeasuredTable, ...]
    n: int
    plan: loops.Plan


def is_star(given: Evidence, target: str) -> bool:
    """True if a release has a public n and noisy counts of tables that all hold the label, each feature in just one."""
    if given.n is None or any(table.weights is not None or target not in table.variables for table in given.tables):
        return False
    seen = [name for table in given.tables for name in table.variables if name != target]
    return sorted(seen) == sorted(name for name in given.network.domain.names if name != target)


def star_of(given: Evidence, target: str, prior: float) -> Star:
    """The arrays of a release that ``is_star``; ``prior`` is the Dirichlet concentration of each label."""
    assert given.n is not None  # is_star
    network, tables = given.network, given.tables
    sizes, labels = network.domain.sizes, network.domain.sizes[target]
    features = tuple(name for table in tables for name in table.variables if name != target)
    levels = [sizes[name] for name in features]
    costs = np.array([table.noise.penalties for table in tables], float)
    deviation = sum(_label_precision(table, labels) for table in tables) ** -0.5  # of a label's count, of all tables
    between = max(1, min(MOST_RELABELLED, round(deviation)))
    plan = loops.Plan(
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
    )
    return Star(network, target, features, tables, given.n, plan)


def label_last(table: MeasuredTable, target: str) -> Integers:
    """The values of a table with the target as its last axis."""
    axes = [k for k, name in enumerate(table.variables) if name != target]
    return np.transpose(table.values.reshape(table.shape), [*axes, table.variables.index(target)])


def starting_state(star: Star, rng: np.random.Generator) -> Unseen:
    """Possible counts near the release, which gets fresh noise of its own variance, so that chains start apart."""
    plan, labels = star.plan, star.plan.labels
    noisy = []
    for table in star.tables:
        values = label_last(table, star.target).reshape(-1, labels)
        noisy.append(values + math.sqrt(table.law.variance(values.size)) * rng.standard_normal(values.shape))
    precision = [_label_precision(table, labels) for table in star.tables]
    estimate = np.average([values.sum(axis=0) for values in noisy], axis=0, weights=precision)
    label = whole_numbers(np.maximum(estimate, 0.0) + 0.01 * star.n / labels + 1e-9, star.n)
    counts = [_columns(np.maximum(values, 0.0) + 1.0, label) for values in noisy]
    margins = [margin for g, table in enumerate(counts) for margin in _margins(plan, g, table)]
    centres = [margin.sum(axis=1) + 1.0 for margin in margins]
    nothing, many = np.zeros(0, np.int64), sum(margin.size for margin in margins)
    return Unseen(
        counts=np.concatenate([nothing, *(table.reshape(-1) for table in counts)]),
        margins=np.concatenate([nothing, *(margin.reshape(-1) for margin in margins)]),
        label=label,
        centres=np.concatenate([np.zeros(0), *(centre / centre.sum() for centre in centres)]),
        concentration=np.full(len(plan.levels), FIRST),
        laws=np.zeros(many),
        change=np.zeros(plan.start[-1], np.int64),
        room=np.zeros(many + max([len(CONCENTRATIONS), *plan.levels])),
        tally=np.zeros(10, np.int64),
    )


def _label_precision(table: MeasuredTable, labels: int) -> float:
    """One over the variance of the noise on a label's count in one table."""
    return 1 / max(1e-9, table.law.variance(table.values.size) * table.values.size / labels)


def _columns(weights: Reals, label: Integers) -> Integers:
    return np.column_stack([whole_numbers(weights[:, y], int(total)) for y, total in enumerate(label)])


def _margins(plan: loops.Plan, g: int, table: Integers) -> list[Integers]:
    """The counts of each feature of a table and the label, shape (levels, labels) each."""
    levels = plan.levels[plan.first[g] : plan.first[g + 1]]
    block = table.reshape(*levels, plan.labels)
    others = [tuple(j for j in range(len(levels)) if j != k) for k in range(len(levels))]
    return [block.sum(axis=axes) for axes in others]


def _edges(sizes: list[int]) -> Integers:
    """Where stretches of some sizes start, one after another, and the end of the last."""
    return np.array([0, *accumulate(sizes)], np.int64)
