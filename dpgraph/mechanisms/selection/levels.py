"""Words that are frequent enough to be named: noisy counts above a threshold (Korolova et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import mu_within
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.privacy.noise import Noise, scale_of_mu, word_threshold
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact, exact_delta
from dpgraph.structure.domain import OpenLevels
from dpgraph.structure.frozen import FrozenMap

if TYPE_CHECKING:
    from dpgraph.statistics.counts import LevelCounts


@dataclass(frozen=True)
class PrivateLevels:
    """Releases the words of each variable whose noisy counts are above a threshold, with these counts.

    A word that nobody has gets no noise and is never named, so delta is needed. Half of it bounds the chance that a
    word of one person's rows alone is named, the other half pays for discrete Gaussian noise. A person with r rows
    moves a count by at most r, and at most r counts of each variable where rows are added or removed, 2 r where they
    are replaced; squared, all by r^2 or 2 r^2 for each variable (proofs.md P129). The threshold is that of OpenDP's
    ``make_gaussian_threshold``.

    Args:
        epsilon: The whole budget, exact.
        delta: Above 0, exact.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> scale, threshold = PrivateLevels("0.5", "1e-6").plan(1, PrivacyUnit("add-remove"))
    >>> round(scale, 2), threshold
    (8.35, 42)
    """

    epsilon: Number
    delta: Number

    def __post_init__(self) -> None:
        exact(self.epsilon)
        if exact_delta(self.delta) == 0:
            raise ReleaseError(
                "words without a public list need a delta above 0, such as 1e-6: it bounds the chance that a word of "
                "one person alone is named. Or give the list of what may occur, dg.Words([...])"
            )

    def plan(self, variables: int, unit: PrivacyUnit) -> tuple[float, int]:
        """The scale of the noise, and the threshold, of so many variables."""
        times, rows, half = (2 if unit.n_is_public else 1), unit.rows_per_person, exact_delta(self.delta) / 2
        left = exact(self.epsilon) - 2 * half  # a word's absence tells, too, at most log(1 / (1 - half))
        if left <= 0:
            raise ReleaseError("epsilon must be above delta, or nothing could be learned")
        scale = scale_of_mu(variables * times * rows**2, mu_within(left, half) ** 2)
        return scale, word_threshold(scale, variables * times * rows, rows, half)

    def event(self, description: OpenLevels, unit: PrivacyUnit) -> Event:
        """The event of a release: its claim, since the number of noisy counts is not public."""
        if not isinstance(description, OpenLevels):
            raise ReleaseError(f"PrivateLevels takes counts of words; got those of a {type(description).__name__}")
        self.plan(len(description.names), unit)
        return Event("PrivateLevels", exact(self.epsilon), exact_delta(self.delta))

    def randomise(
        self, statistics: LevelCounts, unit: PrivacyUnit, noise: Noise
    ) -> FrozenMap[str, FrozenMap[str, int]]:
        """The named words of each variable by name; ``release`` calls this after the charge."""
        scale, threshold = self.plan(len(statistics.description.names), unit)
        found: dict[str, FrozenMap[str, int]] = {}
        for name in statistics.description.names:
            words, true = sorted(statistics.sensitive_counts[name]), statistics.sensitive_block(name, unit)
            noisy = noise.add(true, DiscreteGaussian(scale)) if words else true
            named = zip(words, noisy.tolist(), strict=True)
            found[name] = FrozenMap((word, many) for word, many in named if many > threshold)
        return FrozenMap(found)
