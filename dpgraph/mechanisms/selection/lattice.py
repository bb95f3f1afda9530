"""Public finite grids for the rows of conditional probability tables, with integer log probabilities.

A row with K levels takes the values floor + (1 - K floor) j_a / G, where the j_a >= 0 sum to G. Its log likelihood is a
sum of counts times logs in whole multiples of 1 / UNIT: nothing floating touches the counts before the draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, check_whole, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import MAX_SCALE, Noise, selection_scale
from dpgraph.privacy.records import PrivacyUnit, exact
from dpgraph.structure.network import Network


def check_floor(network: Network, floor: float) -> None:
    """Refuses a floor that is too large for a variable's number of levels."""
    for name, levels in network.domain.sizes.items():
        if levels > 1 and levels * floor >= 1:
            raise ReleaseError(
                f"floor {floor:g} is too large: {name!r} has {levels} levels, so it must be below 1/{levels}"
            )


def lipschitz_constant(network: Network, floor: float) -> float:
    """The largest |ln p(x | theta) - ln p(x' | theta)| over rows x, x' and tables bounded below.

    Zhang et al. 2016, Lemma 2.

    Exact: attained where every variable differs. A draw from the posterior truncated at the floor, with the
    likelihood raised to 1 / T, is (2 L / T)-DP under replace and (L / T)-DP under add/remove, where ln p(x | theta)
    alone ranges over an interval of length L (proofs.md P38).

    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> round(lipschitz_constant(network, 0.01), 3)
    9.19
    """
    if not 0 < floor < 1:
        raise ReleaseError(f"floor must be above 0 and below 1; got {floor!r}")
    check_floor(network, floor)
    return sum(
        math.log1p(-(levels - 1) * floor) - math.log(floor) for levels in network.domain.sizes.values() if levels > 1
    )


Law = Literal["softmax", "permute-and-flip"]
Scores = npt.NDArray[Any]
#: Log likelihoods are whole multiples of one part in this many of a nat.
UNIT = 2**32
#: Points of a two-level row where no grid is given.
DEFAULT_GRID = 1001
#: With more than two levels: the most steps along a probability, and for permute-and-flip the most points of a row.
MAX_STEPS = 200
MAX_CANDIDATES = 20_000


@dataclass(frozen=True)
class Lattice:
    """The grid of a row with some number of levels."""

    levels: int
    steps: int
    floor: float

    @cached_property
    def probabilities(self) -> Reals:
        """The values of one probability, from the floor up; shape (steps + 1,)."""
        return self.floor + (1 - self.levels * self.floor) * np.arange(self.steps + 1) / self.steps

    @cached_property
    def logs(self) -> Integers:
        """The logs of the probabilities, in whole units."""
        return np.rint(np.log(self.probabilities) * UNIT).astype(np.int64)

    @property
    def score_range(self) -> int:
        """The largest change, by one row of data, of the difference of two candidates' scores, in units; attained."""
        return int(self.logs[-1] - self.logs[0]) if self.levels > 1 else 0

    @cached_property
    def points(self) -> Integers:
        """Every candidate, shape (candidates, levels): all j with sum j = steps."""
        found = np.zeros((1, 0), np.int64)
        for _ in range(self.levels - 1):
            values = self.steps - found.sum(axis=1) + 1
            found = np.repeat(found, values, axis=0)
            part = np.arange(len(found)) - np.repeat(np.cumsum(values) - values, values)
            found = np.column_stack([found, part])
        return np.column_stack([found, self.steps - found.sum(axis=1)])


@lru_cache(maxsize=64)
def lattice(levels: int, grid: int, floor: float, law: Law) -> Lattice:
    """The grid of a row: ``grid`` points where there are two levels, a bounded number where there are more."""
    steps = grid - 1
    if levels > 2:
        steps = min(steps, MAX_STEPS)
        while law == "permute-and-flip" and steps > 1 and math.comb(steps + levels - 1, levels - 1) > MAX_CANDIDATES:
            steps -= 1
    return Lattice(levels, steps, floor)


def check_grid(grid: int) -> None:
    """Refuses a number of grid points that is not a whole number from 2 to a million."""
    check_whole("grid", grid, 2, 1_000_000)


def check_prior_and_floor(prior: float, floor: float, name: str = "prior") -> None:
    """Refuses a prior concentration or a floor that is out of range for every network."""
    if not is_number(prior) or not 0 < prior <= 1e9:
        raise ReleaseError(f"{name} must be a number above 0, at most 1e9; got {prior!r}")
    if not is_number(floor) or not 1e-300 <= floor < 0.5:
        raise ReleaseError(f"floor must be at least 1e-300 and below 1/2; got {floor!r}")


def check_temperature(temperature: float, epsilon: Fraction) -> float:
    """Refuses a temperature so high that nothing could be learned."""
    if temperature > MAX_SCALE:
        raise ReleaseError(
            f"epsilon {float(epsilon):g} asks for temperature {temperature:.3g}: nothing could be learned from a draw"
        )
    return temperature


def score_range(network: Network, unit: PrivacyUnit, grid: int, floor: float, law: Law) -> int:
    """The range over candidates of the difference of two neighbours' scores over the network, in units (P38, P40)."""
    check_floor(network, floor)
    one = sum(lattice(levels, grid, floor, law).score_range for levels in network.domain.sizes.values())
    return one * unit.rows_per_person * (2 if unit.n_is_public else 1)


@lru_cache(maxsize=64)
def temperature_of(mechanism: Any, network: Network, unit: PrivacyUnit, law: Law, draws: int) -> float:
    """The temperature of each draw; times UNIT, a power of two, it is the exact scale of the integer scores."""
    epsilon = exact(mechanism.epsilon)
    reach = score_range(network, unit, mechanism.grid, mechanism.floor, law)
    return check_temperature(selection_scale(reach, epsilon / draws) / UNIT, epsilon)


def row_scores(counts: Integers, logs: Integers, prior: Reals) -> Scores:
    """Integer scores of one row's levels at each value of their probability, shape (levels, steps + 1)."""
    largest = int(counts.sum()) * int(np.abs(logs).max()) + len(counts) * float(np.abs(prior).max())
    if largest < 2**61:
        return counts[:, None] * logs[None, :] + np.rint(prior).astype(np.int64)
    public = np.array([round(float(value)) for value in prior], dtype=object)
    return counts.astype(object)[:, None] * logs.astype(object)[None, :] + public


def draw_row(noise: Noise, law: Law, candidates: Lattice, scores: Scores, scale: float, size: int) -> Reals:
    """Draws a row of a table, size times over, shape (size, levels)."""
    if candidates.levels == 1:
        return np.ones((size, 1))
    if law == "softmax" and candidates.levels > 2:
        return candidates.probabilities[noise.choose_composition(scores, scale, size)]
    points = candidates.points
    totals = sum(scores[level, points[:, level]] for level in range(candidates.levels))
    pick = noise.choose if law == "softmax" else noise.flip
    chosen = [pick(totals, scale) for _ in range(size)]
    return candidates.probabilities[points[chosen]]


def draw_table(
    noise: Noise, law: Law, counts: Integers, mechanism: Any, scale: float, sharpness: float, size: int
) -> Reals:
    """Draws of a table, row by row, axes (draw, level, *parents); the prior's log counts ``sharpness`` times."""
    candidates = lattice(len(counts), mechanism.grid, mechanism.floor, law)
    prior = (mechanism.prior - 1) * np.log(candidates.probabilities) * sharpness
    scores = [row_scores(row, candidates.logs, prior) for row in counts.reshape(len(counts), -1).T]
    rows = [draw_row(noise, law, candidates, row, scale, size) for row in scores]
    return np.stack(rows, axis=-1).reshape(size, *counts.shape)
