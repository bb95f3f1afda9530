"""Draws of an exponential family's parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.arguments import tails
from dpgraph.inference.draws import diagnostics_of, mixing_note, random_indices
from dpgraph.privacy.display import as_html, summary
from dpgraph.privacy.records import Provenance
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.tables import Reals

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ParameterDraws:
    """Draws from the posterior of a family's parameters.

    Attributes:
        parameters: For each parameter an array of draws, shape (draws,).
        method: ``"exact"``, ``"quadrature"``, ``"gibbs"`` or ``"plug-in"``.
        reason: Why this method.
        chains: How many chains drew them; 1 for independent draws.
        r_hat: Of chains, the R-hat of each parameter; empty for independent draws.
        effective_sizes: Of chains, the effective sample size of each parameter; empty for independent draws.
        provenance: The release behind it.
    """

    parameters: FrozenMap[str, Reals]
    method: str
    reason: str
    chains: int = 1
    r_hat: FrozenMap[str, float] = field(default_factory=lambda: FrozenMap(()))
    effective_sizes: FrozenMap[str, float] = field(default_factory=lambda: FrozenMap(()))
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        frozen = ((name, frozen_array(values, np.float64)) for name, values in self.parameters.items())
        object.__setattr__(self, "parameters", FrozenMap(frozen))

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def mean(self) -> dict[str, float]:
        """The posterior mean of each parameter."""
        return {name: float(values.mean()) for name, values in self.parameters.items()}

    def interval(self, probability: float = 0.9) -> dict[str, tuple[float, float]]:
        """The central interval of each parameter that holds this probability.

        Raises:
            InferenceError: If the probability is not between 0 and 1.
        """
        ends = {name: np.quantile(values, tails(probability)) for name, values in self.parameters.items()}
        return {name: (float(low), float(high)) for name, (low, high) in ends.items()}

    def sample(self, rng: np.random.Generator | int, size: int = 1) -> tuple[dict[str, float], ...]:
        """Some of the draws, picked at random without repetition until all are used; then all over again.

        Args:
            rng: Randomness for post-processing, or a seed for it; the release is already public.
            size: How many, at least 1.

        Raises:
            InferenceError: If the size is not a whole number, at least 1.
        """
        picked = random_indices(len(self), rng, size)
        return tuple({name: float(values[i]) for name, values in self.parameters.items()} for i in picked)

    @property
    def diagnostics(self) -> dict[str, Any]:
        """How the draws were made and how well the chains mixed: worst R-hat and smallest effective sample size."""
        if not self.r_hat:
            return diagnostics_of(self)
        worst, least = np.max(list(self.r_hat.values())), np.min(list(self.effective_sizes.values()))
        return diagnostics_of(self, chains=self.chains, r_hat=float(worst), effective_size=float(least))

    def to_frame(self, probability: float = 0.9) -> pd.DataFrame:
        """A row for each parameter: mean, standard deviation and the credible interval."""
        import pandas as pd

        ends = self.interval(probability)
        rows = [(name, values.mean(), values.std(), *ends[name]) for name, values in self.parameters.items()]
        return pd.DataFrame(rows, columns=["parameter", "mean", "sd", "low", "high"])

    def __repr__(self) -> str:
        ends = self.interval()
        shown = [f"{name} {mean:.3g} [{ends[name][0]:.3g}, {ends[name][1]:.3g}]" for name, mean in self.mean().items()]
        made = [f"90% of {len(self)} draws", f"method={self.method!r}", mixing_note(self.diagnostics)]
        return summary("ParameterDraws", ", ".join(shown), *filter(None, made))

    def _repr_html_(self) -> str:
        rows = [{str(name): value for name, value in row.items()} for row in self.to_frame().to_dict("records")]
        notes = [
            f"90% intervals, {len(self)} draws, method {self.method}",
            *([self.provenance] if self.provenance else []),
        ]
        return as_html("Posterior of a family's parameters", rows, notes)
