"""Releases of regression weights as plain forms: the design by its declared bounds and levels, the draws, and back."""

from __future__ import annotations

from typing import Any

from dpgraph.files.arrays import tables_of
from dpgraph.files.designs import design_of, plain_design
from dpgraph.models.sampled_regression import SampledRegressionModel
from dpgraph.privacy.records import FileError, Provenance
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.sampled_weights import SampledWeights


def plain_sampled_weights(drawn: SampledWeights) -> dict[str, Any]:
    """The body of a release's file."""
    settings = {"radius": drawn.radius, "precision": drawn.precision}
    return {
        "design": plain_design(drawn.design),
        **settings,
        "weights": drawn.weights,
    }


def sampled_weights_of(plain: dict[str, Any], provenance: Provenance) -> SampledWeights:
    """The inverse of ``plain_sampled_weights``, checked against the event that made it.

    Raises:
        FileError, NetworkError: If the parts do not fit.
    """
    weights = tables_of({"weights": plain["weights"]})["weights"]
    drawn = SampledWeights(design_of(plain["design"]), weights, plain["radius"], plain["precision"])
    if sum(selection.draws for selection in provenance.event.selections) != len(drawn.weights):
        raise FileError("the draws are not as many as the event made")
    return drawn


def plain_sampled_regression(model: SampledRegressionModel) -> dict[str, Any]:
    """The body of a model's file: that of the release it is made from."""
    return {"kind": "sampled-weights", **plain_sampled_weights(model.drawn)}


def sampled_regression_of(
    plain: dict[str, Any], design: LinearDesign, provenance: Provenance | None
) -> SampledRegressionModel:
    """A model from the body of its weights and the provenance beside it.

    Raises:
        FileError, NetworkError: If the parts do not fit.
    """
    if provenance is None or plain["kind"] != "sampled-weights":
        raise FileError("a sampled regression has an event and weights")
    return SampledRegressionModel(sampled_weights_of(plain, provenance), provenance)
