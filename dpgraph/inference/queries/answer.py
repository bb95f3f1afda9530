"""The answer to a question: a number for each level or measure in every draw, and their summaries."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.arguments import tails
from dpgraph.privacy.display import data_frame, escaped
from dpgraph.structure.domain import Level
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.tables import Reals

if TYPE_CHECKING:
    import pandas as pd

#: The entries that the one-line form shows.
SHOWN = 4


class Summary:
    """The posterior of several numbers by draws, shape (draws, entries), and the interval; nan of one exact draw."""

    draws: Reals
    interval: float

    @cached_property
    def mean(self) -> Reals:
        """The posterior mean of each entry."""
        return self.draws.mean(axis=0)

    @cached_property
    def sd(self) -> Reals:
        """The posterior standard deviation of each entry; by sampling with the Monte Carlo error."""
        return self.draws.std(axis=0) if len(self.draws) > 1 else self._error_of_one()

    def _error_of_one(self) -> Reals:
        return np.full(self.draws.shape[1], np.nan)

    @cached_property
    def ends(self) -> Reals:
        """The ends of central intervals, axes (low and high, entry)."""
        return np.quantile(self.draws, tails(self.interval), axis=0) if len(self.draws) > 1 else self._ends_of_one()

    def _ends_of_one(self) -> Reals:
        return np.full((2, self.draws.shape[1]), np.nan)

    @property
    def low(self) -> Reals:
        """The low end of each entry's interval."""
        return self.ends[0]

    @property
    def high(self) -> Reals:
        """The high end of each entry's interval."""
        return self.ends[1]

    def _numbers(self) -> dict[str, Reals]:
        return {"mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Summary):
    """The answer to a question.

    ``mean``, ``sd``, ``low`` and ``high`` describe the posterior of the asked quantity, given the release: how well the
    population's own number is known. ``predictive`` is the probability of the next case: draws under which the evidence
    is likely weigh more. The two differ where the evidence is rare or the release says little of it.

    Attributes:
        question: The question in words.
        columns: The columns of the labels: the targets' names, ``"event"``, or ``"measure"`` and names.
        labels: For each entry its label in every column.
        draws: Shape (draws, entries). Of a single set of probabilities one draw.
        predictive: Shape (entries,): draws weighted by their probability of the evidence; None where it has no meaning.
        interval: The probability of the intervals.
        method: ``"exact"``, or ``"sampling"``: then every draw has Monte Carlo error too, which the intervals contain.
        error: By sampling the Monte Carlo standard deviation of each entry's mean, shape (entries,); else None.
        effective_size: By sampling the smallest effective number of samples of any draw; else None.
        note: That the draws are of Markov chains that have not mixed; else empty.
    """

    question: str
    columns: tuple[str, ...]
    labels: tuple[tuple[Level, ...], ...]
    draws: Reals
    predictive: Reals | None
    interval: float
    method: str = "exact"
    error: Reals | None = None
    effective_size: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", frozen_array(self.draws, np.float64))
        if self.predictive is not None:
            object.__setattr__(self, "predictive", frozen_array(self.predictive, np.float64))

    def _error_of_one(self) -> Reals:
        return super()._error_of_one() if self.error is None else np.asarray(self.error)

    def _ends_of_one(self) -> Reals:
        """By sampling the ends are of the Monte Carlo error alone, normal and within 0 and 1."""
        if self.error is None:
            return super()._ends_of_one()
        reach = NormalDist().inv_cdf(0.5 + self.interval / 2) * np.asarray(self.error)
        return np.clip([self.mean - reach, self.mean + reach], 0, 1)

    def to_frame(self) -> pd.DataFrame:
        """A row for each entry: its labels, then mean, sd, low, high and, where it has a meaning, predictive."""
        labels = [list(column) for column in zip(*self.labels, strict=True)]
        numbers = self._numbers()
        if self.predictive is not None:
            numbers["predictive"] = self.predictive
        frame = data_frame(dict(enumerate([*labels, *numbers.values()])))
        frame.columns = [*self.columns, *numbers]
        return frame

    def to_series(self, column: str = "predictive") -> pd.Series:
        """One column, indexed by the labels: ``"predictive"``, or ``"mean"``, ``"sd"``, ``"low"``, ``"high"``."""
        found: Any = self.to_frame().set_index(list(self.columns))
        return found[column]

    def plot(self, ax: Any = None, *, plug_in: Answer | None = None) -> Any:
        """Means and intervals as a picture: ``dpgraph.plot.answer``, with the extra ``dpgraph[plot]``."""
        return importlib.import_module("dpgraph.plot").answer(self, ax, plug_in=plug_in)

    def __repr__(self) -> str:
        known = len(self.draws) > 1 or self.error is not None
        parts = []
        for entry, label in enumerate(self.labels[:SHOWN]):
            ends = f" [{self.low[entry]:.3g}, {self.high[entry]:.3g}]" if known else ""
            name = "" if self.columns == ("event",) else ", ".join(map(escaped, label))
            parts.append(f"{name} {self.mean[entry]:.3g}{ends}" if name else f"{self.mean[entry]:.3g}{ends}")
        more = f", ... ({len(self.labels)} entries)" if len(self.labels) > SHOWN else ""
        whose = f"; {self.interval:.0%} of {len(self.draws)} draws" if len(self.draws) > 1 else ""
        sampled = "" if self.effective_size is None else f"; sampled, effective size {self.effective_size:.0f}"
        note = f"; {self.note}" if self.note else ""
        return f"{escaped(self.question)} = {', '.join(parts)}{more}{whose}{sampled}{note}"

    def _repr_html_(self) -> str:
        from html import escape

        body = self.to_frame().to_html(index=False, float_format=lambda value: f"{value:.4g}")
        notes = f"{self.interval:.0%} intervals, {len(self.draws)} draws" if len(self.draws) > 1 else "one network"
        if self.effective_size is not None:
            notes += f", sampled, effective size {self.effective_size:.0f}"
        notes += f"; {self.note}" if self.note else ""
        return f"<p>{escape(self.question)}</p>{body}<p>{escape(notes)}</p>"


def weights_of_draws(log_evidence: Reals) -> Reals:
    """Weights that sum to 1 along the last axis, proportional to the evidence's probability in each draw."""
    weights = np.exp(log_evidence - log_evidence.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
