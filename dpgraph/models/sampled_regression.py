"""Predictions of a linear regression by the mean of privately drawn weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.regression.draws import scaled_columns
from dpgraph.privacy.records import Provenance
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.sampled_weights import SampledWeights
from dpgraph.structure.tables import Reals

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class SampledRegressionModel:
    """A linear regression by the mean of weights drawn through ``RegressionSample``.

    Its draws spread with epsilon, and tell of no residual variance: so there are no intervals here.

    Attributes:
        drawn: The released weights.
        provenance: The release they left through.
    """

    drawn: SampledWeights
    provenance: Provenance | None = None

    @property
    def design(self) -> LinearDesign:
        """The columns and the target, with their public bounds."""
        return self.drawn.design

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in order."""
        return tuple(self.design.features)

    @property
    def target(self) -> str:
        """What is predicted."""
        return self.design.target

    def coefficients(self) -> pd.DataFrame:
        """The mean over draws of the intercept and each coefficient, in the units of the rows: a column mean."""
        import pandas as pd

        drawn = self.drawn.coefficients()
        return pd.DataFrame({"mean": [float(values.mean()) for values in drawn.values()]}, index=pd.Index(list(drawn)))

    def predict(self, X: Any) -> Reals:
        """The prediction of each row by the mean of the draws, cut at the target's bounds, in its units.

        Args:
            X: A table, of which the features are read, the path of a CSV or Parquet file, or an array with the features
                in order as its columns; or a mapping, for each feature an array: numbers, or of a feature with levels
                the codes of these.

        Raises:
            DomainError: If a feature is missing, does not fit its declaration, or holds nulls of no declared meaning.
        """
        scaled = scaled_columns(self.design, X) @ self.drawn.weights.mean(axis=0)
        return self.design.bounds.middle + self.design.bounds.half * np.clip(scaled, -1.0, 1.0)
