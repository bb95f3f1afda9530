"""The posterior that a classifier predicts with, and the choice of its method."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_above_zero, check_no_rules
from dpgraph.inference.classifier.sampler import draw_by_counts, is_star
from dpgraph.inference.methods import Normal
from dpgraph.inference.network.by_normal import check_normal_draws
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import evidence, rows_estimate
from dpgraph.inference.network.posterior import network_posterior
from dpgraph.privacy.records import Release, released_value
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

#: The most rows and cells for which chains over the counts are quick.
MOST_ROWS, MOST_CELLS = 10_000, 500
#: Average counts that are as many deviations of their noise are normal enough.
CLEAR = 10
#: Draws of the normal method.
DRAWS = 500


def classifier_posterior(
    noisy: NoisyCounts | NoisyCoefficients | Release[Any], target: str, *, prior: float = 1.0, seed: int = 0
) -> PosteriorDraws:
    """The posterior of a naive Bayes network in which features have no effect unless the release says otherwise.

    A classifier multiplies many ratios of small probabilities, so an effect that is all noise costs it dearly. Where
    n is public, the counts are not well above their noise, and rows and cells are few, chains over the unseen counts
    (``sampler.draw_by_counts``); else, and for coefficients, the normal method with interactions of unknown size. As
    the noise vanishes that becomes naive Bayes with the prior in every cell. ``prior`` is the Dirichlet concentration
    of each label; with the normal method of every cell.

    Raises:
        InferenceError: If the prior is refused.
    """
    value, provenance = released_value(noisy)
    check_above_zero("prior", prior)
    given, rng = evidence(value), np.random.default_rng(seed)
    check_no_rules(given.network, "the posterior of a classifier")
    rows, _ = rows_estimate(given)
    may_chain = rows <= MOST_ROWS and given.network.cell_count <= MOST_CELLS and is_star(given, target)
    cells = [(table.values.size, table.law) for table in given.tables]
    clearness = min(rows / size / max(1e-9, math.sqrt(law.variance(size))) for size, law in cells)
    if may_chain and clearness < CLEAR:
        drawn = draw_by_counts(given, target, prior=prior, rng=rng)
        return replace(drawn, provenance=provenance, reason=f"counts of about {rows:.0f} rows are near their noise")
    made = network_posterior(given.network, value, prior=prior, method=Normal(shrink=True), draws=DRAWS, rng=rng)
    assert isinstance(made, PosteriorDraws)  # no other method was asked for
    limits = f"chains take counts, a public n, at most {MOST_ROWS:,} rows and {MOST_CELLS:,} cells"
    return replace(made, provenance=provenance, reason="counts are well above their noise" if may_chain else limits)


def check_classifier(network: Network, prior: float) -> None:
    """Refuses, before the charge, a prior or a network that ``classifier_posterior`` would refuse with any release.

    Raises:
        InferenceError: If the prior is out of range, or there is no room for the draws.
    """
    check_above_zero("prior", prior)
    check_normal_draws(network, DRAWS)
