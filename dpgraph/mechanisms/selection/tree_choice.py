"""A tree, or several, chosen pair by pair: Kruskal's algorithm with private choices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from dpgraph.mechanisms.selection.table_scores import (
    GRID,
    as_scores,
    check_noise,
    choice_bytes,
    choice_scale,
    choices_event,
    fixed_range,
    fixed_score,
    penalty,
    share_of,
)
from dpgraph.mechanisms.takes import check_any_tables, check_margins, check_one_ways
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.statistics.table_counts import TableCounts
from dpgraph.structure.any_tables import MOST_CELLS, AnyTables, OneWays
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True)
class TreeChoice:
    """Chooses a forest of pairs that are furthest from independent, one pair after the other.

    Each of at most d - 1 choices is among the pairs that join two parts not joined yet, and "stop". Sensitivity: the
    score of a pair is half the L1 distance of its exact table from the counts that public margins would have were the
    two independent, less half the expected noise of its table. A row moves it by at most 1/2, by 1 where it is
    replaced, and "stop" is 0 (proofs.md P113). What is left to choose from depends on earlier choices alone, so the
    choices compose; a choice that is not made after "stop" costs nothing more.

    Args:
        epsilon: The whole budget, exact; the d - 1 choices share it equally.
        margins: Public margins and a public number of rows, such as noisy one-way tables.
        noise: The expected absolute noise of one cell of a pair that is measured, in rows.
        max_cells: Pairs of more cells are no candidates.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> from dpgraph.structure.domain import Domain
    >>> margins = OneWays.of({"a": [1, 1], "b": [1, 1], "c": [1, 1]}, 100)
    >>> event = TreeChoice(1, margins).event(AnyTables(Domain.of({n: [0, 1] for n in "abc"})), PrivacyUnit())
    >>> event.selections
    (Selection(law='softmax', epsilon=Fraction(1, 2), draws=2),)
    """

    epsilon: Number
    margins: OneWays
    noise: float = 0.0
    max_cells: int = MOST_CELLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        check_one_ways(self.margins)
        check_noise(self.noise)
        check_whole("max_cells", self.max_cells, most=MOST_CELLS)

    def event(self, description: AnyTables, unit: PrivacyUnit) -> Event:
        """What a release would do: d - 1 selections that share epsilon.

        Raises:
            ReleaseError: If the margins are of other variables, there is but one, or epsilon is too small.
        """
        check_any_tables(description, self)
        check_margins(description, self.margins)
        epsilon, draws = exact(self.epsilon), len(description.domain.names) - 1
        choice_scale(fixed_range(unit), share_of(epsilon, draws))
        return choices_event("TreeChoice", epsilon, draws)

    def working_bytes(self, description: AnyTables) -> int:
        """About how much memory the choices take: the scores of all pairs and their exact tables."""
        return choice_bytes(description.domain.sizes.values(), [2])

    def randomise(self, statistics: TableCounts, unit: PrivacyUnit, noise: Noise) -> Network:
        """Chooses the pairs; ``release`` calls this after the charge. Arcs lead away from a tree's first variable."""
        domain = statistics.description.domain
        draws = len(domain.names) - 1
        scale = choice_scale(fixed_range(unit), share_of(self.epsilon, draws))
        cells = statistics.description.cells
        scores = {
            pair: fixed_score(statistics.sensitive_block(pair, unit), self.margins.product(pair))
            - penalty(cells(pair), self.noise, GRID)
            for pair in combinations(domain.names, 2)
            if cells(pair) <= self.max_cells
        }
        part = {name: name for name in domain.names}
        chosen: list[Family] = []
        for _ in range(draws):
            joining = [(one, other) for one, other in scores if part[one] != part[other]]
            place = noise.choose(as_scores(scores[pair] for pair in joining), scale) if joining else 0
            if place == 0:
                break
            one, other = joining[place - 1]
            gone, kept = part[other], part[one]
            part = {name: kept if where == gone else where for name, where in part.items()}
            chosen.append((one, other))
        return Network.of(domain, _away_from_first(domain.names, chosen))

    def __repr__(self) -> str:
        return f"TreeChoice(epsilon={str(self.epsilon)!r}, {self.margins}, noise={self.noise:g})"


def _away_from_first(names: Family, pairs: list[Family]) -> dict[str, list[str]]:
    """The parents of each variable when every tree hangs from its first variable."""
    beside: dict[str, list[str]] = {name: [] for name in names}
    for one, other in pairs:
        beside[one].append(other)
        beside[other].append(one)
    parents: dict[str, list[str]] = {}
    for root in names:
        waiting = [] if root in parents else [root]
        parents.setdefault(root, [])
        while waiting:
            here = waiting.pop()
            for other in beside[here]:
                if other not in parents:
                    parents[other] = [here]
                    waiting.append(other)
    return parents
