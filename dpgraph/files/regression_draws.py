"""Releases of regression weights as plain forms: the design by its declared bounds and levels, the draws, and back."""

from __future__ import annotations

from typing import Any

from dpgraph.files.networks import domain_of, plain_domain
from dpgraph.files.plain import tables_of
from dpgraph.privacy.records import Provenance, ReleaseError
from dpgraph.structure.design import Bounded, LinearDesign
from dpgraph.structure.domain import Domain
from dpgraph.structure.regression_draw import RegressionDraws


def plain_regression_draws(drawn: RegressionDraws) -> dict[str, Any]:
    """The body of a release's file."""
    settings = {"radius": drawn.radius, "precision": drawn.precision}
    return {
        "kind": "regression-draws",
        "design": plain_design(drawn.design),
        **settings,
        "weights": drawn.weights.tolist(),
    }


def regression_draws_of(plain: dict[str, Any], provenance: Provenance) -> RegressionDraws:
    """The inverse of ``plain_regression_draws``, checked against the event that made it.

    Raises:
        ReleaseError, NetworkError: If the parts do not fit.
    """
    weights = tables_of({"weights": plain["weights"]})["weights"]
    drawn = RegressionDraws(design_of(plain["design"]), weights, plain["radius"], plain["precision"])
    if sum(selection.draws for selection in provenance.event.selections) != len(drawn.weights):
        raise ReleaseError("the draws are not as many as the event made")
    return drawn


def plain_design(design: LinearDesign) -> dict[str, Any]:
    """Bounds and levels as plain values, in the order of the features."""
    return {
        "features": {name: _plain_feature(name, feature) for name, feature in design.features.items()},
        "target": design.target,
        "bounds": _plain_bounded(design.bounds),
        "intercept": design.intercept,
        "on_missing": design.on_missing,
    }


def design_of(plain: dict[str, Any]) -> LinearDesign:
    """The inverse of ``plain_design``; the design checks its parts.

    Raises:
        NetworkError: If they do not fit.
        ReleaseError: If a setting has no place in a design.
    """
    if set(plain) != {"features", "target", "bounds", "intercept", "on_missing"}:
        raise ReleaseError("the design of a regression is not whole")
    if not isinstance(plain["target"], str) or not isinstance(plain["intercept"], bool):
        raise ReleaseError("the target of a regression is a name, and its intercept true or false")
    features = {name: _feature(name, feature) for name, feature in plain["features"].items()}
    return LinearDesign(features, plain["target"], _bounded(plain["bounds"]), plain["intercept"], plain["on_missing"])


def _plain_feature(name: str, feature: Any) -> Any:
    if isinstance(feature, Bounded):
        return _plain_bounded(feature)
    return plain_domain(Domain.of({name: feature}))[name]


def _feature(name: str, plain: Any) -> Any:
    if isinstance(plain, dict) and "low" in plain:
        return _bounded(plain)
    return domain_of({name: plain})[name]


def _plain_bounded(bounded: Bounded) -> dict[str, Any]:
    missing = {} if bounded.missing is None else {"missing": bounded.missing}
    return {"low": bounded.low, "high": bounded.high, **missing}


def _bounded(plain: Any) -> Bounded:
    if not isinstance(plain, dict) or not {"low", "high"} <= set(plain) <= {"low", "high", "missing"}:
        raise ReleaseError("bounds are a low and a high number, and what missing counts as")
    return Bounded(**plain)
