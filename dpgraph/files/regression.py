"""A fitted linear regression as plain values, every draw of it, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.files.arrays import tables_of
from dpgraph.files.designs import plain_design
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.posterior import METHODS
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap

#: Methods by the names that earlier files have.
FORMER_NAMES = {"noise-aware": "hamiltonian"}


def plain_regression(model: LinearRegressionModel) -> dict[str, Any]:
    """The design, and the draws as arrays."""
    draws = model.draws
    arrays = {"weights": draws.weights, "variance": draws.variance}
    settings = {"method": draws.method, "diagnostics": dict(draws.mixing)}
    if draws.prior_covariance is not None:
        arrays["prior_covariance"] = draws.prior_covariance
    return {"design": plain_design(draws.design), **settings, **arrays}


def regression_of(plain: dict[str, Any], design: LinearDesign, provenance: Provenance | None) -> LinearRegressionModel:
    """The inverse of ``plain_regression``; the draws check that their parts fit.

    Raises:
        FileError, NetworkError: If they do not.
    """
    diagnostics, method = plain["diagnostics"], FORMER_NAMES.get(plain["method"], plain["method"])
    if method not in METHODS or not all(
        isinstance(value, float) and np.isfinite(value) for value in diagnostics.values()
    ):
        raise FileError("the record of the draws is not whole")
    arrays = tables_of({name: plain[name] for name in ("weights", "variance")})
    if arrays["weights"].ndim != 2 or arrays["variance"].ndim != 1 or not np.isfinite(arrays["variance"]).all():
        raise FileError("the draws of weights are a table, and those of variances a list")
    before = tables_of({"prior_covariance": plain["prior_covariance"]}) if "prior_covariance" in plain else {}
    found = FrozenMap(diagnostics)
    draws = RegressionDraws(
        design, arrays["weights"], arrays["variance"], method, found, before.get("prior_covariance"), provenance
    )
    return LinearRegressionModel(draws)
