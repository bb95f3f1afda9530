"""A fitted linear regression as plain values, every draw of it, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.files.codecs import structural
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.posterior import METHODS
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.structure.design import LinearDesign


def _check(draws: RegressionDraws, provenance: Provenance | None) -> None:
    if draws.method not in METHODS or not all(map(np.isfinite, draws.mixing.values())):
        raise FileError("the record of the draws is not whole")
    if draws.weights.ndim != 2 or draws.variance.ndim != 1:
        raise FileError("the draws of weights are a table, and those of variances a list")


_plain, _draws_of = structural(RegressionDraws, _check)


def plain_regression(model: LinearRegressionModel) -> dict[str, Any]:
    """The draws as arrays."""
    return _plain(model.draws)


def regression_of(plain: dict[str, Any], design: LinearDesign, provenance: Provenance | None) -> LinearRegressionModel:
    """The inverse of ``plain_regression``."""
    return LinearRegressionModel(_draws_of(plain, design, provenance))
