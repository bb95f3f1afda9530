"""A fitted linear regression as plain values, every draw of it, and back."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from dpgraph.files.designs import design_of, plain_design
from dpgraph.files.plain import provenance_of, tables_of
from dpgraph.inference.regression import Method
from dpgraph.inference.regression_draws import RegressionDraws
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.frozen import FrozenMap


def plain_regression(model: LinearRegressionModel) -> dict[str, Any]:
    """The design, and the draws as nested lists."""
    draws = model.draws
    arrays = {"weights": draws.weights.tolist(), "variance": draws.variance.tolist()}
    settings = {"method": draws.method, "diagnostics": dict(draws.diagnostics)}
    return {"design": plain_design(draws.design), **settings, **arrays}


def regression_of(plain: dict[str, Any], network: None = None) -> LinearRegressionModel:
    """The inverse of ``plain_regression``; the draws check that their parts fit.

    Raises:
        ReleaseError, NetworkError: If they do not.
    """
    if network is not None:
        raise ReleaseError("a linear regression has no network")
    diagnostics = plain["diagnostics"]
    if plain["method"] not in get_args(Method) or not all(isinstance(value, float) for value in diagnostics.values()):
        raise ReleaseError("the record of the draws is not whole")
    arrays = tables_of({name: plain[name] for name in ("weights", "variance")})
    if arrays["weights"].ndim != 2 or arrays["variance"].ndim != 1 or not np.isfinite(arrays["variance"]).all():
        raise ReleaseError("the draws of weights are a table, and those of variances a list")
    design, found = design_of(plain["design"]), FrozenMap(diagnostics)
    draws = RegressionDraws(design, arrays["weights"], arrays["variance"], plain["method"], found, provenance_of(plain))
    return LinearRegressionModel(draws)
