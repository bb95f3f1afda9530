"""Draws from a truncated, tempered posterior, private by the posterior's own spread.

The posterior sampling of Zhang et al. 2016, section 4, and of Foulds et al. 2016, section 3.1, with exact samplers and
only the likelihood tempered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpgraph.mechanisms.reproduction import check_graph, register_selection, selection_event
from dpgraph.mechanisms.selection.lattice import (
    DEFAULT_GRID,
    UNIT,
    check_grid,
    check_prior_and_floor,
    draw_table,
    temperature_of,
)
from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

#: Bytes that draws take for each probability and for each table, as measured.
BYTES_PER_NUMBER, BYTES_PER_TABLE = 16, 180


@dataclass(frozen=True)
class PosteriorSample:
    """Releases draws of all tables from the posterior p(theta) p(rows | theta)^(1/T), all probabilities above a floor.

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
