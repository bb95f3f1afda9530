"""Private quantiles of one variable by the exponential mechanism on a public grid.

The quantiles of Smith 2011, as Bernstein and Sheldon 2018 use them, with weight exp(-(epsilon / 2) |i - alpha n|).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpgraph.mechanisms.reproduction import check_network, register_selection, selection_event
from dpgraph.mechanisms.selection.lattice import check_grid
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import Noise, selection_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.structure.domain import Bins, Domain, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

#: Probabilities are read as fractions with denominators up to this, so that scores are small whole numbers.
FINEST = 1_000_000


@dataclass(frozen=True)
class PrivateQuantile:
    """Releases grid edges near the quantiles of a variable's values.

    The candidates are the ``grid + 1`` edges of ``grid`` equal intervals of ``bounds``; values outside count in the
    end intervals. The score of an edge z is -|number of values below z - alpha n|.

    Sensitivity: a replaced row moves the number below an edge by at most 1, up for some edges and down for none, so
    scores move by values in [-1, 1], and weight exp(epsilon score / 2) is epsilon-DP (exp(epsilon score) would be
    2 epsilon). A row added or removed moves the number below and alpha n together, a score by at most
    max(alpha, 1 - alpha). Nulls, which a strict network admits, are left out of both: a null that takes the place of a
    value moves scores no further than the value's removal. A person with r rows moves r times as much; the
    probabilities share epsilon equally.
    Scores are compared in whole multiples of the probability's denominator: nothing is rounded.

    As in Smith's interval rule, what counts is the rank: where most values are equal, every edge on the same side of
    them has the same rank and is equally likely, however far away.

    Args:
        epsilon: The whole budget, exact; a float means the decimal it prints as.
        probabilities: One or more alphas strictly between 0 and 1, read to a millionth.
        bounds: Public lowest and highest value.
        grid: How many intervals, at least 2.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> PrivateQuantile(1, [0.5], bounds=(0, 8), grid=4).edges
    (0.0, 2.0, 4.0, 6.0, 8.0)
    """

    epsilon: Number
    probabilities: tuple[Fraction, ...]
    bounds: tuple[float, float]
    grid: int = 1024

    def __init__(
        self, epsilon: Number, probabilities: Iterable[Number] | Number, bounds: tuple[float, float], grid: int = 1024
    ) -> None:
        listed = [probabilities] if isinstance(probabilities, int | float | str | Fraction) else list(probabilities)  # type: ignore[arg-type]
        object.__setattr__(self, "epsilon", exact(epsilon))
        alphas = (exact(alpha, "a probability").limit_denominator(FINEST) for alpha in listed)
        object.__setattr__(self, "probabilities", tuple(alphas))
        object.__setattr__(self, "grid", grid)
        if not self.probabilities or any(not 0 < alpha < 1 for alpha in self.probabilities):
            raise ReleaseError(f"probabilities must be one or more numbers between 0 and 1; got {probabilities!r}")
        check_grid(grid)
        try:
            low, high = (float(bound) for bound in bounds)
        except (TypeError, ValueError):
            raise ReleaseError(f"bounds must be two numbers; got {bounds!r}") from None
        object.__setattr__(self, "bounds", (low, high))
        try:
            Bins(self.edges)
        except NetworkError:
            raise ReleaseError(f"bounds must be finite, increase and hold {grid} intervals; got {bounds!r}") from None

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The candidates, lowest first."""
        low, high = self.bounds
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            return (low,)
        return tuple(np.linspace(low, high, self.grid + 1).tolist())

    def network(self, name: str, *, strict: bool = False) -> Network:
        """The network to count on: the variable alone, in bins between the edges.

        Args:
            name: The variable.
            strict: True for a strict domain, as in ``Domain.of``: nulls and values that are not numbers are left out.
        """
        return Network.of(Domain(FrozenMap({name: Bins(self.edges, missing=strict)}), strict), {})

    def event(self, network: Network, unit: PrivacyUnit) -> Event:
        """The event of a release: a selection for each probability."""
        check_network(network, self)
        variables = list(network.domain.variables.values())
        if len(variables) != 1 or variables[0] != Bins(self.edges, missing=network.domain.strict):
            raise ReleaseError(
                "PrivateQuantile takes counts on mechanism.network(name): one variable, binned on its grid"
            )
        epsilon = exact(self.epsilon)
        many = len(self.probabilities)
        for alpha in self.probabilities:
            selection_scale(_score_range(alpha, unit), epsilon / many)
        return selection_event("PrivateQuantile", epsilon, "softmax", many)

    def randomise(self, statistics: Counts, unit: PrivacyUnit, noise: Noise) -> tuple[float, ...]:
        """Chooses an edge for each probability, in their order; ``release`` calls this after the charge.

        Larger probabilities get larger edges: the chosen edges are sorted, which costs nothing.
        """
        counts = statistics.sensitive_margin(statistics.network.families[0])
        below = np.concatenate([[0], np.cumsum(counts[: len(self.edges) - 1])])
        share = exact(self.epsilon) / len(self.probabilities)
        chosen = sorted(
            noise.choose(_scores(below, alpha), selection_scale(_score_range(alpha, unit), share))
            for alpha in self.probabilities
        )
        ranks = np.argsort(np.argsort([float(alpha) for alpha in self.probabilities], kind="stable"), kind="stable")
        return tuple(self.edges[chosen[rank]] for rank in ranks)

    def __repr__(self) -> str:
        alphas = ", ".join(str(float(alpha)) for alpha in self.probabilities)
        settings = f"probabilities=[{alphas}], bounds={self.bounds}, grid={self.grid}"
        return f"PrivateQuantile(epsilon={str(self.epsilon)!r}, {settings})"


def _score_range(alpha: Fraction, unit: PrivacyUnit) -> int:
    """The length of the interval [-d, d] that neighbours' scores move in, in multiples of 1 / alpha's denominator."""
    furthest = alpha.denominator if unit.n_is_public else max(alpha.numerator, alpha.denominator - alpha.numerator)
    return 2 * furthest * unit.rows_per_person


def _scores(below: np.ndarray, alpha: Fraction) -> np.ndarray:
    """-|below - alpha n| at every edge, in multiples of 1 / alpha's denominator; Python integers where 64 bits end."""
    if alpha.denominator * int(below[-1]) >= 2**61:
        below = below.astype(object)
    return -abs(below * alpha.denominator - alpha.numerator * below[-1])


register_selection("PrivateQuantile", type(None))
