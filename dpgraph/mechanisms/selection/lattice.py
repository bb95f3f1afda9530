"""Tables drawn from a tempered posterior, or chosen as the most probable, on public finite grids (Zhang et al. 2016).

A row with K levels takes the values floor + (1 - K floor) j_a / G, where the j_a >= 0 sum to G. Its log likelihood is a
sum of counts times logs in whole multiples of 1 / UNIT: nothing floating touches the counts before the draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.mechanisms.reproduction import check_graph, register_selection, selection_event
from dpgraph.privacy.checks import Integers, Reals, check_choice, check_whole, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import MAX_SCALE, Noise, selection_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

Selector = Literal["permute-and-flip", "exponential"]
Law = Literal["softmax", "permute-and-flip"]
Scores = npt.NDArray[Any]
#: Log likelihoods are whole multiples of one part in this many of a nat.
UNIT = 2**32
#: Points of a two-level row where no grid is given.
DEFAULT_GRID = 1001
#: With more than two levels: the most steps along a probability, and for permute-and-flip the most points of a row.
MAX_STEPS, MAX_CANDIDATES = 200, 20_000
#: Bytes that draws take for each probability and for each table, as measured.
BYTES_PER_NUMBER, BYTES_PER_TABLE = 16, 180


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


@dataclass(frozen=True)
class MapEstimate:
    """Chooses tables on a public grid by their log posterior u = ln p(rows | theta) + ln p(theta).

    ``selector="exponential"`` is Zhang et al. 2016, Algorithm 3; permute-and-flip (McKenna and Sheldon 2020) is never
    less accurate at the same privacy.

    Sensitivity: u is not normalised, because the normaliser would move too and double its sensitivity for the same
    choice (proofs.md P40). Between neighbours u moves by values in an interval of length 2 L under replace and L
    under add/remove, L the network's Lipschitz constant on the grid, r times as much for r rows per person. The
    exponential mechanism exp(u / T) is epsilon-DP at T = that length / epsilon, and factorises over the rows of the
    tables, so each row is chosen by itself. Permute-and-flip does not factorise: it is run on each row at the same T,
    and the rows' costs add up: a row of data moves the scores of one row of each table by a range of L_v under
    add/remove, and of two rows by L_v each, or of one by 2 L_v, under replace, so the sum is epsilon either way.

    Args:
        epsilon: The whole budget, exact; a float means the decimal it prints as.
        prior: The Dirichlet concentration of every cell, part of u.
        floor: The smallest probability of any level; below 1 / K for every variable with K levels.
        grid: How many values a probability may take where there are two levels. With more levels there are at most
            200 steps along each probability; for permute-and-flip, which must list the candidates, at most as many
            as keep a row's candidates within 20 000.
        selector: ``"permute-and-flip"`` or ``"exponential"``.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> MapEstimate(2).event(network, PrivacyUnit("replace")).epsilon
    Fraction(2, 1)
    """

    epsilon: Number
    prior: float = 1.0
    floor: float = 0.01
    grid: int = 1001
    selector: Selector = "permute-and-flip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        check_prior_and_floor(self.prior, self.floor)
        check_grid(self.grid)
        check_choice("selector", self.selector, Selector)

    @property
    def law(self) -> Law:
        """The law of the choice."""
        return "softmax" if self.selector == "exponential" else "permute-and-flip"

    def event(self, network: Network, unit: PrivacyUnit) -> Event:
        """The event of a release: one selection."""
        check_graph(network, self)
        self.temperature(network, unit)
        return selection_event("MapEstimate", exact(self.epsilon), self.law, 1)

    def temperature(self, network: Network, unit: PrivacyUnit) -> float:
        """T, the divisor of the log posterior, in nats; the utility bounds take it."""
        return temperature_of(self, network, unit, self.law, 1)

    def randomise(self, statistics: Counts, unit: PrivacyUnit, noise: Noise) -> Probabilities:
        """Chooses every row of every table; ``release`` calls this after the charge."""
        network = statistics.network
        scale = self.temperature(network, unit) * UNIT
        tables = {name: statistics.sensitive_margin(network.family(name)) for name in network.domain.names}
        chosen = (draw_table(noise, self.law, table, self, scale, UNIT, 1)[0] for table in tables.values())
        return Probabilities(network, FrozenMap(zip(tables, chosen, strict=True)))

    def __repr__(self) -> str:
        settings = f"prior={self.prior}, floor={self.floor}, grid={self.grid}, selector={self.selector!r}"
        return f"MapEstimate(epsilon={str(self.epsilon)!r}, {settings})"


def map_failure_bound(temperature: float, shortfall: float, good_mass: float) -> float:
    """A bound on the probability that a MAP estimate is far from the best: P(u < u* - 2 t) <= exp(-t / T) / p(S_t).

    S_t are the tables with u >= u* - t (Zhang et al. 2016, Lemma 4). It holds for the exponential mechanism with base
    measure p, and for permute-and-flip on a finite grid with p uniform.

    >>> round(map_failure_bound(temperature=2.0, shortfall=20.0, good_mass=0.01), 4)
    0.0045
    """
    if not (temperature > 0 and shortfall >= 0 and 0 < good_mass <= 1):
        raise ReleaseError("the bound needs temperature > 0, shortfall >= 0 and a mass above 0, at most 1")
    return min(1.0, math.exp(-shortfall / temperature) / good_mass)


def map_loss_bound(temperature: float, candidates: float, failure: float, *, best: float = 1.0) -> float:
    """A bound on the loss of a MAP estimate: with probability 1 - failure, at most T ln(candidates / best / failure).

    The form of Zhang et al. 2016, Lemma 4, for a finite grid; the loss is u* - u.

    >>> round(map_loss_bound(temperature=2.0, candidates=1001, failure=0.05), 2)
    19.81
    """
    if not (temperature > 0 and candidates >= best >= 1 and 0 < failure <= 1):
        raise ReleaseError("the bound needs temperature > 0, candidates >= best >= 1 and a failure above 0, at most 1")
    return temperature * (math.log(candidates / best) - math.log(failure))


register_selection("MapEstimate", Network, ("softmax", "permute-and-flip"), lambda network, recorded: 1)


@dataclass(frozen=True)
class PosteriorSample:
    """Releases draws of all tables from the posterior p(theta) p(rows | theta)^(1/T), all probabilities above a floor.

    The sampling of Zhang et al. 2016, section 4, and Foulds et al. 2016, section 3.1; the likelihood alone is tempered.

    Sensitivity: ln p(row | theta) ranges over an interval of length L = sum over the variables of
    ln((1 - (K - 1) floor) / floor) as theta varies (Zhang et al. 2016, Lemma 2). The log density of theta moves
    between neighbours by the difference of two such terms under replace and by one under add/remove, up to a
    constant, so a draw is epsilon-DP at T = 2 L / epsilon and T = L / epsilon (proofs.md P38; the range counts,
    not the largest absolute value). A person with r rows makes T r times larger, and k draws share epsilon, so
    each is drawn at k times the temperature. The prior depends on no row, and is not tempered.

    theta lives on a public finite grid and is chosen exactly, by OpenDP for two levels and by
    ``Noise.choose_composition`` for more: the law is exact and the claim is pure. The grid has ``grid`` points, 1001
    unless given, where a variable has two levels, and at most 200 steps along each probability where it has more.

    Args:
        epsilon: The whole budget, exact; a float means the decimal it prints as.
        draws: How many independent draws; together they cost epsilon.
        prior: The Dirichlet concentration of every cell before any row.
        floor: The smallest probability of any level; below 1 / K for every variable with K levels. Smaller floors
            lose less truth and make T larger.
        grid: How many values a probability may take.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> round(PosteriorSample(1).temperature(network, PrivacyUnit("replace")), 2)
    18.38
    """

    epsilon: Number
    draws: int = 1
    prior: float = 1.0
    floor: float = 0.01
    grid: int = DEFAULT_GRID

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        check_whole("draws", self.draws)
        check_prior_and_floor(self.prior, self.floor)
        check_grid(self.grid)

    def event(self, network: Network, unit: PrivacyUnit) -> Event:
        """The event of a release: ``draws`` selections that share epsilon."""
        check_graph(network, self)
        self.temperature(network, unit)
        return selection_event("PosteriorSample", exact(self.epsilon), "softmax", self.draws)

    def temperature(self, network: Network, unit: PrivacyUnit) -> float:
        """T: a row counts as 1 / T of a row, so the draws spread as if there were T times fewer rows."""
        return temperature_of(self, network, unit, "softmax", self.draws)

    def working_bytes(self, network: Network) -> int:
        """About how much memory the draws take while they are made."""
        numbers = self.draws * network.cell_count
        return numbers * BYTES_PER_NUMBER + self.draws * len(network.domain.names) * BYTES_PER_TABLE

    def randomise(self, statistics: Counts, unit: PrivacyUnit, noise: Noise) -> tuple[Probabilities, ...]:
        """Draws the tables, row by row; ``release`` calls this after the charge."""
        network = statistics.network
        scale = self.temperature(network, unit) * UNIT
        drawn: dict[str, Reals] = {}
        for name in network.domain.names:
            table = statistics.sensitive_margin(network.family(name))
            drawn[name] = draw_table(noise, "softmax", table, self, scale, scale, self.draws)
        return tuple(
            Probabilities(network, FrozenMap((name, tables[i]) for name, tables in drawn.items()))
            for i in range(self.draws)
        )

    def __repr__(self) -> str:
        settings = f"draws={self.draws}, prior={self.prior}, floor={self.floor}, grid={self.grid}"
        return f"PosteriorSample(epsilon={str(self.epsilon)!r}, {settings})"


register_selection("PosteriorSample", Network)
