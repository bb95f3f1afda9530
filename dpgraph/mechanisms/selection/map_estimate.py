"""A private estimate of the most probable tables, by a selection on the log posterior.

Zhang et al. 2016, Algorithm 3, is ``selector="exponential"``; permute-and-flip (McKenna and Sheldon 2020) is never
less accurate at the same privacy, and is the default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpgraph.mechanisms.reproduction import check_graph, register_selection, selection_event
from dpgraph.mechanisms.selection.lattice import (
    UNIT,
    Law,
    check_grid,
    check_prior_and_floor,
    draw_table,
    temperature_of,
)
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

Selector = Literal["permute-and-flip", "exponential"]


@dataclass(frozen=True)
class MapEstimate:
    """Chooses tables on a public grid by their log posterior u = ln p(rows | theta) + ln p(theta).

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
        if self.selector not in ("permute-and-flip", "exponential"):
            raise ReleaseError(f"selector must be 'permute-and-flip' or 'exponential'; got {self.selector!r}")

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
