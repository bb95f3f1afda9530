"""A network chosen variable by variable, each with some parents among those before it: GreedyBayes, in exact scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from dpgraph.mechanisms.description_checks import check_any_tables, check_margins, check_one_ways
from dpgraph.mechanisms.reproduction import register_selection
from dpgraph.mechanisms.selection.table_scores import (
    as_scores,
    check_noise,
    choice_bytes,
    choice_scale,
    choices_event,
    half_fixed_range,
    half_fixed_score,
    penalty,
    share_of,
)
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, ReleaseError, exact
from dpgraph.statistics.table_counts import TableCounts
from dpgraph.structure.candidate_tables import MOST_CELLS, PARTS, AnyTables, OneWays
from dpgraph.structure.network import Family, Network

#: A child with its parents.
Step = tuple[str, Family]


@dataclass(frozen=True)
class ParentsChoice:
    """Chooses variables one after the other with their parents, as GreedyBayes of PrivBayes does (Zhang et al. 2017).

    The first choice is of a pair, of which one becomes the other's parent; then one variable after the other, each with
    one to ``max_parents`` parents among those placed. Each choice also has the candidate "stop": after it another pair
    is chosen among the rest, and "stop" then leaves the rest without parents. So there are at most d - 1 choices.

    Sensitivity: the score of a child with parents is half the L1 distance of their exact table from the child's public
    margin times the exact table of the parents, less half the expected noise of the table. A row of level x moves it by
    at most 1 - p_x, p the public margin, by twice that where it is replaced; "stop" is 0 (proofs.md P114). PrivBayes's
    score has the exact margin for the public one, and moves further.

    Args:
        epsilon: The whole budget, exact; the d - 1 choices share it equally.
        margins: Public margins and a public number of rows, such as noisy one-way tables.
        noise: The expected absolute noise of one cell of a table that is measured, in rows.
        max_parents: The most parents of a variable.
        max_cells: Tables of more cells are no candidates.
        forbidden: Arcs (parent, child) that may not be.
        required: Arcs that must be: a child has these parents and up to ``max_parents`` in all.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> from dpgraph.structure.domain import Domain
    >>> margins = OneWays.of({"a": [1, 1], "b": [1, 1], "c": [1, 1]}, 100)
    >>> event = ParentsChoice(1, margins).event(AnyTables(Domain.of({n: [0, 1] for n in "abc"})), PrivacyUnit())
    >>> event.selections
    (Selection(law='softmax', epsilon=Fraction(1, 2), draws=2),)
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
        check_one_ways(self.margins)
        check_noise(self.noise)
        check_whole("max_parents", self.max_parents, most=20)
        check_whole("max_cells", self.max_cells, most=MOST_CELLS)
        for name in ("forbidden", "required"):
            object.__setattr__(self, name, _arcs(name, getattr(self, name)))
        if both := sorted(self.forbidden & self.required):
            raise ReleaseError(f"the arc {both[0][0]} -> {both[0][1]} is both forbidden and required")

    def event(self, description: AnyTables, unit: PrivacyUnit) -> Event:
        """What a release would do: d - 1 selections that share epsilon.

        Raises:
            ReleaseError: If the margins are of other variables, there is but one, or epsilon is too small.
            NetworkError: If required arcs make a cycle.
        """
        check_any_tables(description, self)
        check_margins(description, self.margins)
        if unknown := sorted(
            {n for arc in self.forbidden | self.required for n in arc} - set(description.domain.names)
        ):
            raise ReleaseError(f"arcs are between variables of the domain; {', '.join(unknown)} is none")
        Network.of(description.domain, {name: self._needed(name) for name in description.domain.names})
        epsilon, draws = exact(self.epsilon), len(description.domain.names) - 1
        choice_scale(half_fixed_range(self.margins, unit), share_of(epsilon, draws))
        return choices_event("ParentsChoice", epsilon, "softmax", draws)

    def working_bytes(self, description: AnyTables) -> int:
        """About how much memory the choices take: the scores of all candidates and their exact tables."""
        return choice_bytes(description.domain.sizes.values(), range(2, self.max_parents + 2))

    def randomise(self, statistics: TableCounts, unit: PrivacyUnit, noise: Noise) -> Network:
        """Chooses the network; ``release`` calls this after the charge."""
        domain = statistics.description.domain
        draws = len(domain.names) - 1
        scale = choice_scale(half_fixed_range(self.margins, unit), share_of(self.epsilon, draws))
        placed: dict[str, Family] = {}
        scores: dict[Step, int] = {}
        starting = True
        for _ in range(draws):
            steps = list(self._steps(statistics.description, placed, starting))
            for step in steps:
                if step not in scores:
                    scores[step] = self._score(statistics, step, unit)
            place = noise.choose(as_scores(scores[step] for step in steps), scale) if steps else 0
            if place == 0 and starting:
                break
            starting = place == 0
            if not starting:
                child, parents = steps[place - 1]
                placed |= {name: () for name in parents if name not in placed} | {child: parents}
        return Network.of(domain, {name: list(placed.get(name, self._needed(name))) for name in domain.names})

    def _steps(self, tables: AnyTables, placed: dict[str, Family], starting: bool) -> Iterator[Step]:
        """The candidates of one choice, in an order that depends on what is public alone."""
        names = tables.domain.names
        for child in (name for name in names if name not in placed):
            allowed = [name for name in names if name != child and (name, child) not in self.forbidden]
            above = [name for name in allowed if (name in placed) != starting and not (starting and self._needed(name))]
            needed = set(self._needed(child))
            for parents in _subsets(above, 1 if starting else max(self.max_parents, len(needed))):
                if needed.issubset(parents) and self._is_measurable(tables.cells((child, *parents))):
                    yield child, parents

    def _needed(self, child: str) -> list[str]:
        """The required parents of a variable, in a fixed order."""
        return sorted(parent for parent, other in self.required if other == child)

    def _is_measurable(self, cells: int) -> bool:
        """Whether a table is small enough, and would not be sure to lose to "stop" by its noise alone."""
        return cells <= self.max_cells and cells * self.noise <= 4 * self.margins.rows + 4

    def _score(self, statistics: TableCounts, step: Step, unit: PrivacyUnit) -> int:
        """Twice the score, in parts of ``PARTS``."""
        child, parents = step
        table = statistics.sensitive_block((child, *parents), unit)
        return half_fixed_score(table, self.margins.share(child)) - penalty(table.size, self.noise, PARTS)

    def __repr__(self) -> str:
        settings = f"noise={self.noise:g}, max_parents={self.max_parents}"
        return f"ParentsChoice(epsilon={str(self.epsilon)!r}, {self.margins}, {settings})"


def _subsets(names: list[str], most: int) -> Iterator[Family]:
    """The sets of one to so many of some variables, in their order."""
    return (some for size in range(1, most + 1) for some in combinations(names, size))


def _arcs(name: str, given: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Arcs as pairs of names."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise ReleaseError(f"{name} arcs are pairs of names, (parent, child)")
    found: set[tuple[str, str]] = set()
    for arc in given:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or not all(isinstance(end, str) for end in arc):
            raise ReleaseError(f"{name} arcs are pairs of names, (parent, child)")
        found.add((arc[0], arc[1]))
    return frozenset(found)


register_selection(
    "ParentsChoice",
    AnyTables,
    draws=lambda tables, recorded: len(tables.domain.names) - 1,
    event=choices_event,
)
