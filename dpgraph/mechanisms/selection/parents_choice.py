"""Choices of a network's parents by whole-number scores against public margins, as GreedyBayes chooses them.

A score is half the L1 distance of a child's exact table from its public margin times the parents' exact table, less
half the expected noise: about the rows that a measurement would put right. No denominator of it moves with rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np

from dpgraph.mechanisms.reproduction import register_selection
from dpgraph.privacy.checks import Integers, Reals, check_whole, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import rounded
from dpgraph.privacy.measurements import Selection, SelectionLaw
from dpgraph.privacy.noise import Noise, selection_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.statistics.counts import KEPT_CELLS, TableCounts
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import MOST_CELLS, AnyTables
from dpgraph.structure.network import Family, Network

#: Shares of a margin are whole multiples of one part in this many.
PARTS = 1 << 20
#: Bytes that a choice takes for each candidate with its exact table, as measured.
BYTES_PER_CANDIDATE = 500
#: A child with its parents.
Step = tuple[str, Family]


@dataclass(frozen=True)
class OneWays:
    """Each variable's public share of levels, in ``PARTS``, and a public number of rows or an estimate."""

    weights: FrozenMap[str, tuple[int, ...]]
    rows: int

    @classmethod
    def of(cls, margins: Mapping[str, Reals | Iterable[float]], rows: float) -> OneWays:
        """From public margins: negative counts become zero, shares are rounded, the largest takes the remainder."""
        weights: dict[str, tuple[int, ...]] = {}
        for name, margin in margins.items():
            positive = np.maximum(np.asarray(margin, float), 0.0)
            if not positive.size or not np.isfinite(positive).all():
                raise NetworkError("a margin is a list of finite numbers, one for each level")
            total = positive.sum()
            even = np.full(positive.shape, 1 / positive.size)
            shares = np.rint((positive / total if total > 0 else even) * PARTS).astype(int)
            shares[shares.argmax()] += PARTS - shares.sum()
            weights[name] = tuple(shares.tolist())
        return cls(FrozenMap(weights), max(0, round(rows)))

    def share(self, name: str) -> Integers:
        """The shares of one variable."""
        return np.array(self.weights[name], np.int64)

    def __repr__(self) -> str:
        return f"OneWays({len(self.weights)} variables, {self.rows} rows)"


def half_fixed_score(table: Integers, weights: Integers) -> int:
    """Twice the score in ``PARTS``: the L1 distance of a table, axes (child, *parents), from its margin's share."""
    flat = table.reshape(len(table), -1)
    return int(np.abs(flat * PARTS - weights[:, None] * flat.sum(axis=0)).sum())


def half_fixed_range(margins: OneWays, unit: PrivacyUnit) -> int:
    """The length of an interval of all moves of scores by one person, in parts of ``PARTS`` (proofs.md P114)."""
    least = min((min(shares) for shares in margins.weights.values()), default=0)
    return 4 * (PARTS - least) * unit.rows_per_person * (2 if unit.n_is_public else 1)


def choices_event(name: str, epsilon: Fraction, law: SelectionLaw, draws: int) -> Event:
    """The event of choices that share epsilon: each is a share of it in epsilon, and that squared / 8 in rho."""
    share = epsilon / draws
    rho = rounded(draws * share**2 / 8, up=True)
    return Event(name, epsilon, rho=rho, selections=(Selection(law, share, draws),))


@dataclass(frozen=True)
class ParentsChoice:
    """Chooses variables one after the other with their parents, as GreedyBayes of PrivBayes does (Zhang et al. 2017).

    The first choice is of a pair, of which one becomes the other's parent; then one variable after the other, each with
    one to ``max_parents`` parents among those placed. Each choice also has the candidate "stop": after it another pair
    is chosen among the rest, and "stop" then leaves the rest without parents. So there are at most d - 1 choices, which
    share ``epsilon`` equally. ``noise`` is the expected absolute noise of one cell of a table that is measured, in
    rows; tables of more than ``max_cells`` are not candidates; ``forbidden`` and ``required`` are arcs (parent, child).

    Sensitivity: the score of a child with parents is half the L1 distance of their exact table from the child's public
    margin times the exact table of the parents, less half the expected noise of the table. A row of level x moves it by
    at most 1 - p_x, p the public margin, by twice that where it is replaced; "stop" is 0 (proofs.md P114). PrivBayes's
    score has the exact margin for the public one, and moves further.
    """

    epsilon: Number
    margins: OneWays
    noise: float = 0.0
    max_parents: int = 2
    max_cells: int = MOST_CELLS
    forbidden: frozenset[tuple[str, str]] = frozenset()
    required: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        if not isinstance(self.margins, OneWays):
            raise ReleaseError(f"public margins are OneWays; got {type(self.margins).__name__}")
        if not is_number(self.noise) or not 0 <= self.noise <= 2.0**40:
            raise ReleaseError(f"noise must be a number of rows, at least 0 and at most 2^40; got {self.noise!r:.60}")
        check_whole("max_parents", self.max_parents, most=20)
        check_whole("max_cells", self.max_cells, most=MOST_CELLS)

    def event(self, description: AnyTables, unit: PrivacyUnit) -> Event:
        """The event of a release: d - 1 selections that share epsilon."""
        if not isinstance(description, AnyTables):
            raise ReleaseError("ParentsChoice chooses among the tables of a domain (any_tables)")
        sizes = description.domain.sizes
        if len(sizes) < 2:
            raise ReleaseError("a choice of arcs needs at least two variables")
        if {name: len(shares) for name, shares in self.margins.weights.items()} != dict(sizes):
            raise ReleaseError("the public margins are not those of the domain's variables")
        Network.of(description.domain, {name: self._needed(name) for name in description.domain.names})
        epsilon, draws = exact(self.epsilon), len(description.domain.names) - 1
        selection_scale(half_fixed_range(self.margins, unit), epsilon / draws)
        return choices_event("ParentsChoice", epsilon, "softmax", draws)

    def working_bytes(self, description: AnyTables) -> int:
        """About how much memory the choices take: the scores of all candidates and their exact tables."""
        sizes, most = list(description.domain.sizes.values()), self.max_parents + 1
        cells = [1, *[0] * most]  # of all tables of each number of variables together
        for size in sizes:
            cells = [1, *(here + size * below for below, here in pairwise(cells))]
        candidates = sum(math.comb(len(sizes), width) for width in range(2, most + 1))
        return candidates * BYTES_PER_CANDIDATE + 8 * min(KEPT_CELLS, sum(cells[2:]))

    def randomise(self, statistics: TableCounts, unit: PrivacyUnit, noise: Noise) -> Network:
        """Chooses the network; ``release`` calls this after the charge."""
        domain = statistics.description.domain
        draws = len(domain.names) - 1
        scale = selection_scale(half_fixed_range(self.margins, unit), exact(self.epsilon) / draws)
        placed: dict[str, Family] = {}
        scores: dict[Step, int] = {}
        starting = True
        for _ in range(draws):
            steps = list(self._steps(statistics.description, placed, starting))
            for step in steps:
                if step not in scores:
                    child, parents = step
                    table = statistics.sensitive_block((child, *parents), unit)
                    penalty = math.floor(table.size * self.noise * PARTS)  # half the expected noise in L1, twice
                    scores[step] = half_fixed_score(table, self.margins.share(child)) - penalty
            place = noise.choose(np.array([0, *(scores[step] for step in steps)], dtype=object), scale) if steps else 0
            if place == 0 and starting:
                break
            starting = place == 0
            if not starting:
                child, parents = steps[place - 1]
                placed |= {name: () for name in parents if name not in placed} | {child: parents}
        return Network.of(domain, {name: list(placed.get(name, self._needed(name))) for name in domain.names})

    def _steps(self, tables: AnyTables, placed: dict[str, Family], starting: bool) -> Iterator[Step]:
        """The candidates of one choice, in an order that depends on public values alone."""
        names = tables.domain.names
        for child in (name for name in names if name not in placed):
            allowed = [name for name in names if name != child and (name, child) not in self.forbidden]
            above = [name for name in allowed if (name in placed) != starting and not (starting and self._needed(name))]
            needed = set(self._needed(child))
            for size in range(1, 1 + (1 if starting else max(self.max_parents, len(needed)))):
                for parents in combinations(above, size):
                    cells = tables.cells((child, *parents))
                    loud = cells * self.noise > 4 * self.margins.rows + 4  # its noise alone makes it lose to "stop"
                    if needed.issubset(parents) and cells <= self.max_cells and not loud:
                        yield child, parents

    def _needed(self, child: str) -> list[str]:
        return sorted(parent for parent, other in self.required if other == child)

    def __repr__(self) -> str:
        settings = f"noise={self.noise:g}, max_parents={self.max_parents}"
        return f"ParentsChoice(epsilon={str(self.epsilon)!r}, {self.margins}, {settings})"


register_selection(
    "ParentsChoice", AnyTables, draws=lambda tables, recorded: len(tables.domain.names) - 1, event=choices_event
)
