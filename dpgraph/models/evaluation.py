"""The evaluation of a model, and its cross-validation, from a release: scores with intervals for noise and sampling.

Everything here is read off the released integers and public settings. An interval is for the score in the population
that the held-out rows are a sample of, rows drawn independently: the noise and the luck of the rows are both in it.
Where a person holds several rows, how alike these are is not known, and the luck of persons is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpgraph.inference.counts.noisy_counts import checked_interval
from dpgraph.models.outcome_readings import Score, all_scores, commonest_label, confusion_rows, reliability_rows
from dpgraph.privacy.display import as_html
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.outcomes import Classification, NoisyOutcomes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model's scores on held-out rows, from one release.

    Args:
        release: The noisy outcomes, with their event and unit; ``cost`` prices it, ``save`` writes it.
        interval: The probability with which each interval is to hold the population's score.

    Raises:
        InferenceError: If it is no release of outcomes, or the probability is not between 0 and 1.
    """

    release: Release[NoisyOutcomes]
    interval: float = 0.9

    def __post_init__(self) -> None:
        if not isinstance(self.release, Release) or not isinstance(self.release.value, NoisyOutcomes):
            raise InferenceError("an evaluation is read off a release of outcomes, such as evaluate(...).release")
        object.__setattr__(self, "interval", checked_interval(self.interval))

    @cached_property
    def scores(self) -> FrozenMap[str, Score]:
        """Each score by its name: estimate, low, high, and the standard deviation of the noise in it."""
        return FrozenMap(all_scores(self.release.value, self.interval))

    def __getitem__(self, name: str) -> Score:
        """One score by its name."""
        if name not in self.scores:
            raise InferenceError(f"no score {name!r} was released; there are {', '.join(self.scores)}")
        return self.scores[name]

    def to_frame(self) -> pd.DataFrame:
        """The scores: score, estimate, low, high, noise_sd."""
        import pandas as pd

        rows = [(name, *score) for name, score in self.scores.items()]
        return pd.DataFrame(rows, columns=["score", "estimate", "low", "high", "noise_sd"])

    @cached_property
    def confusion(self) -> pd.DataFrame:
        """The share of the rows of each truth and prediction: truth, prediction, estimate, low, high.

        The estimates sum to 1.

        Raises:
            InferenceError: If it was not released.
        """
        import pandas as pd

        return pd.DataFrame(confusion_rows(*self._block("confusion"), self.interval))

    @cached_property
    def commonest(self) -> tuple[Any, Score]:
        """The label that most rows seem to have and their share, with its interval: the accuracy of always giving it.

        Where the interval is wide, the noise may have made another label the commonest.

        Raises:
            InferenceError: If no confusion table was released.
        """
        return commonest_label(*self._block("confusion"), self.interval)

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """How often predictions of a confidence are right: confidence_low, confidence_high, rows, right, low, high.

        Each bin holds the confidences in the predicted class above its lower edge up to its upper one; their mean lies
        between the two. ``rows`` is the estimated number of rows in the bin, ``right`` the share of right ones; the
        numbers of rows sum to the public number of all, or to its estimate.

        Raises:
            InferenceError: If it was not released.
        """
        import pandas as pd

        return pd.DataFrame(reliability_rows(*self._block("reliability"), self.interval))

    def _block(self, name: str) -> tuple[NoisyOutcomes, Classification]:
        task = self.release.value.description.task
        if not isinstance(task, Classification) or name not in task.scores:
            raise InferenceError(f"no {name} table was released")
        return self.release.value, task

    def __repr__(self) -> str:
        name, (estimate, low, high, _) = next(iter(self.scores.items()))
        event, note = self.release.event, "" if self.release.private else "; NOT PRIVATE: the noise was seeded"
        return (
            f"Evaluation({name} {estimate:.4g} ({low:.4g} to {high:.4g}), {PrivacyCost(event.epsilon, event.delta)}, "
            f"protecting {self.release.unit}{note})"
        )

    def _repr_html_(self) -> str:
        return as_html(
            "Evaluation", _rows(self.to_frame()), [f"{self.interval:.0%} intervals", self.release.provenance]
        )


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

    def _in_words(self) -> tuple[str, str]:
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        fit = PrivacyCost(self.training_epsilon, self.training_delta)
        return f"{self.cost} for everything, protecting {self.unit}{note}", f"each fit at {fit}"

    def __repr__(self) -> str:
        whole, fit = self._in_words()
        return f"CrossValidation: {self.folds} folds, {whole}\n{fit}, on the rows of the other folds\n{self.evaluation}"

    def _repr_html_(self) -> str:
        whole, fit = self._in_words()
        words = f"{self.folds} folds, {fit}, {self.evaluation.interval:.0%} intervals"
        return as_html("Cross-validation", _rows(self.to_frame()), [words, whole])


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
