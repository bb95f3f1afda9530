"""The number of states of a hidden Markov model, chosen by how well parts of a release predict the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.inference.markov.evidence import LogEvidence
from dpgraph.inference.markov.sampler import MarkovDraws, draw_markov, entries_estimate
from dpgraph.models.markov_forecasts import sequence_laws
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.tables import Reals

#: Parts into which the cells are split, each predicted from the others; draws of each fit, after as many sweeps.
PARTS, SWEEPS = 3, 40


@dataclass(frozen=True)
class StateChoice:
    """The score of each number of states on cells of the release that it did not learn from, and the chosen number.

    Attributes:
        states: The numbers that were tried, from 1.
        scores: Released entries times ln P(level), summed over fields, for each released entry: without bias the score
            of the true entries.
        deviations: The standard deviation, from noise, of a score's distance to the best one.
        chosen: The smallest number of states whose score is within that deviation of the best.
    """

    states: tuple[int, ...]
    scores: tuple[float, ...]
    deviations: tuple[float, ...]
    chosen: int

    def __post_init__(self) -> None:
        sizes = {len(self.states), len(self.scores), len(self.deviations)}
        numbers = np.array([*self.scores, *self.deviations], float)
        if len(sizes) != 1 or self.chosen not in self.states or not np.isfinite(numbers).all():
            raise InferenceError("the scores of a choice of states do not fit the numbers of states tried")

    def to_frame(self) -> DataFrame:
        """A row for each number of states: score, deviation, chosen.

        >>> StateChoice((1, 2), (-4.5, -4.4), (0.05, 0.0), 2).to_frame().loc[2, "chosen"]
        np.True_
        """
        columns = {"score": self.scores, "deviation": self.deviations, "chosen": np.equal(self.states, self.chosen)}
        return data_frame(columns, index=list(self.states)).rename_axis("states")


def states_tried(given: LogEvidence, most: int) -> int:
    """The largest number of states tried: two cells for each."""
    return max(1, min(most, int(given.observed.sum()) // 2))


def choose_states(
    given: LogEvidence, most: int, *, rng: np.random.Generator, tick: Callable[[int], None] | None = None, **how: Any
) -> StateChoice:
    """Tries 1 to ``most`` states on a split of the release's own cells; fewer where there are few cells.

    Each part of the observed cells is predicted, one entry and field at a time, by a fit to the other parts. The score
    sums released count x ln P(level): noise has mean zero and predictions do not know it, so the score is without bias
    that of the true counts. Of all numbers within one standard deviation of the noise of the best score the smallest is
    chosen. ``tick`` is called with the number of each sweep, counted over all fits; ``how`` are further settings of
    ``draw_markov``.
    """
    observed = np.argwhere(given.observed)
    limit = states_tried(given, most)
    part = np.full(given.shape, -1)
    part[tuple(observed.T)] = rng.permutation(len(observed)) % PARTS
    if limit == 1:
        return StateChoice((1,), (0.0,), (0.0,), 1)
    logs = [_predicted(given, part, size, rng, how, tick) for size in range(1, limit + 1)]
    released, entries = given.values[0], max(float(entries_estimate(given, given.values[0])[given.observed].sum()), 1.0)
    scores = np.array([(released * log)[given.observed].sum() for log in logs]) / entries
    best = int(scores.argmax())
    apart = [((log - logs[best])[given.observed] ** 2 @ given.deviation**2).sum() for log in logs]
    deviations = np.sqrt(apart) / entries
    chosen = 1 + int(np.argmax(scores >= scores[best] - deviations))
    return StateChoice(tuple(range(1, limit + 1)), tuple(scores.tolist()), tuple(deviations.tolist()), chosen)


def _predicted(
    given: LogEvidence, part: Any, size: int, rng: np.random.Generator, how: dict[str, Any],
    tick: Callable[[int], None] | None,
) -> Reals:  # fmt: skip
    """ln P(level) of each cell, from the cells of other parts; 0 where no cell is observed."""
    found = np.zeros(given.values.shape[1:])
    for p in range(PARTS):
        mine = part == p
        settings: dict[str, Any] = {"copies": 1, "iterations": SWEEPS, "burn_in": SWEEPS} | how
        before = ((size - 1) * PARTS + p) * 2 * SWEEPS
        progress = None if tick is None else lambda sweep, before=before: tick(before + sweep)
        drawn = draw_markov(given.without(mine), size, rng=rng, progress=progress, **settings)
        found[mine] = np.log(np.maximum(cell_predictions(drawn, given.fields), 1e-300))[mine]
    return found


def cell_predictions(drawn: MarkovDraws, fields: tuple[slice, ...]) -> Reals:
    """P(level) of each field for an entry of each cell, averaged over draws, shape (sequences, steps, columns)."""
    states = drawn.states.reshape(-1, *drawn.states.shape[2:]).astype(np.int64)
    draws, places = np.arange(len(states))[:, None, None], np.arange(states.shape[1])[:, None]
    size, width = drawn.emissions.shape[2:]
    found = np.empty((*states.shape[1:], width))
    for columns in fields:
        own = None if drawn.effects is None else drawn.effects[..., columns].reshape(len(states), states.shape[1], -1)
        laws = sequence_laws(drawn.emissions[..., columns].reshape(len(states), size, -1), own)
        found[..., columns] = laws[draws, 0 if own is None else places, states].mean(axis=0)
    return found
