"""The posterior of a naive Bayes network given noisy tables, the size of each feature's effect unknown.

Labels have a Dirichlet law. The column of feature f for a label is Dirichlet with concentration a_f about a centre of
its own, which is uniform; a_f is on a grid, every doubling as likely, up to where the label has no effect to speak of.
So a feature has no effect unless the release says otherwise, and where the noise drowns all of them the label's own
frequencies are left. Markov chains over the unseen counts (``loops``), whose time hardly depends on the number of
rows (proofs.md P74).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.classifier import _kernels, loops
from dpgraph.inference.classifier.layout import Star, star_of, starting_state
from dpgraph.inference.classifier.loops import Unseen
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import Reals

#: The concentrations that a feature's columns may have about their centre.
CONCENTRATIONS = tuple(2.0**k for k in range(17))
#: Transfers in a sweep for each cell, and moves between labels.
TRANSFERS, RELABELS = 2, 12


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
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    compiled: bool = True,
) -> PosteriorDraws:
    """Draws every table of a naive Bayes network from its posterior, effects of unknown size, by method ``"counts"``.

    ``layout.is_star`` holds for the release. Chains start from different perturbations of it; all ``concentrations`` of
    a feature are as likely. ``compiled=False`` runs the same loops as plain Python for tests: the same draws, slowly.

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
    sweep = _kernels.compiled_sweep() if compiled else loops.sweep
    grid, plan = np.array(concentrations), Plan(draws, burn_in, thin)
    done = run_chains(lambda _, own: StarChain(star, sweep, grid, plan, own), plan, rng.spawn(chains))
    tally = np.sum([one.state.tally for one in done], axis=0)
    tried = {move: (tally[2 * k], tally[2 * k + 1]) for k, move in enumerate(loops.MOVES)}
    names = star.network.domain.names
    return PosteriorDraws(
        star.network,
        FrozenMap((name, np.stack([one.tables[name] for one in done])) for name in names),
        "counts",
        n=None if given.n is not None else np.stack([one.n for one in done]),
        acceptance={move: float(yes / many) for move, (yes, many) in tried.items() if many},
        means=FrozenMap((name, np.mean([one.means[name] for one in done], axis=0)) for name in names),
    )


class StarChain:
    """A chain over the unseen counts of a naive Bayes network.

    Attributes:
        state: The counts, and the accepted and tried moves of each kind.
        tables: Draws of each table, axes (draw, variable, *parents).
        means: The average of each table's mean given the counts of each draw.
        n: The number of rows in each draw.
    """

    def __init__(
        self, star: Star, sweep: Callable[..., None], grid: Reals, plan: Plan, rng: np.random.Generator
    ) -> None:
        self._star, self._sweep, self._grid, self._plan, self._rng = star, sweep, grid, plan, rng
        self.state, self._flat = starting_state(star, rng), np.zeros(len(grid))
        shapes = {name: star.network.shape(star.network.family(name)) for name in star.network.domain.names}
        self.tables = {name: np.empty((plan.draws, *shape)) for name, shape in shapes.items()}
        self.means = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.n = np.empty(plan.draws, np.int64)

    def sweep(self, i: int) -> None:
        """Moves of rows between cells and labels."""
        if i == self._plan.burn_in:
            self.state.tally[:] = 0
        self._sweep(self._rng, self._star.plan, self.state, self._grid, self._flat, TRANSFERS, RELABELS)

    def keep(self, draw: int) -> None:
        """Draws every table given the counts."""
        for name, alpha in _concentrations_given(self._star, self.state).items():
            drawn = self._rng.standard_gamma(alpha) + 1e-300
            self.tables[name][draw] = drawn / drawn.sum(axis=0)
            self.means[name] += alpha / alpha.sum(axis=0) / self._plan.draws
        self.n[draw] = self.state.label.sum()


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
