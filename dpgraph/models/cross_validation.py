"""The score of fits on rows that each did not see, as one private cross-validation released it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpgraph.models.evaluation import Evaluation
from dpgraph.privacy.display import as_html
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CrossValidation:
    """The released score of fits at one epsilon, on rows that each fit did not see.

    Attributes:
        evaluation: The ``Evaluation`` of all held-out rows together. The score is about fits at ``training_epsilon``
            on (k - 1) / k of the rows, not about a fit at another epsilon.
        folds: The number of folds k.
        training_epsilon: The epsilon of each fit.
        training_delta: Its delta.
        parts: The events of the k fits, then that of the evaluation, as they were priced one by one. The record of
            ``evaluation.release`` is of the whole call: ``cost``, ``unit`` and ``private`` are read off it.
    """

    evaluation: Evaluation
    folds: int
    training_epsilon: Fraction
    training_delta: Fraction
    parts: tuple[Event, ...]

    @property
    def cost(self) -> PrivacyCost:
        """The charge of the whole call."""
        return PrivacyCost(self.evaluation.release.event.epsilon, self.evaluation.release.event.delta)

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the promise protects."""
        return self.evaluation.release.unit

    @property
    def private(self) -> bool:
        """True if all noise was private."""
        return self.evaluation.release.private

    def to_frame(self) -> pd.DataFrame:
        """The evaluation's table."""
        return self.evaluation.to_frame()

    def __repr__(self) -> str:
        fit = PrivacyCost(self.training_epsilon, self.training_delta)
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        return (
            f"CrossValidation: {self.folds} folds, {self.cost} for everything, protecting {self.unit}{note}\n"
            f"each fit at {fit}, on the rows of the other folds\n{self.evaluation}"
        )

    def _repr_html_(self) -> str:
        rows = [{str(name): value for name, value in row.items()} for row in self.to_frame().to_dict("records")]
        fit = PrivacyCost(self.training_epsilon, self.training_delta)
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        words = f"{self.folds} folds, each fit at {fit}, {self.evaluation.interval:.0%} intervals"
        return as_html("Cross-validation", rows, [words, f"{self.cost} for everything, protecting {self.unit}{note}"])
