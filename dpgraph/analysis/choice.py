"""Which mechanism suits a network under a budget, by the expected errors of all candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpgraph.analysis.candidates import Candidate, candidates
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.map_estimate import MapEstimate
from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import Number, PrivacyUnit, ReleaseError, exact, exact_delta
from dpgraph.structure.network import Family, Network

#: The names ``mechanism_named`` knows.
MECHANISMS = ("auto", "laplace", "gaussian", "fourier", "posterior-sample", "map")


def ranked(
    network: Network,
    epsilon: Fraction,
    delta: Fraction,
    unit: PrivacyUnit,
    counts: Mapping[Family, Reals] | None = None,
) -> list[Candidate]:
    """Every mechanism that can be priced, the smallest error over all family cells first; unknown errors last.

    Args:
        network: The DAG over its domain.
        epsilon: The budget.
        delta: Above 0, Gaussian mechanisms too.
        unit: Whom to protect.
        counts: Hypothetical family counts, on which the errors of some mechanisms depend.
    """
    found = candidates(network, epsilon, delta, unit, counts)
    return sorted(found, key=lambda one: (math.isnan(one.rmse), one.rmse))


def recommended(priced: Sequence[Candidate]) -> Candidate:
    """The first of ranked candidates that may be recommended."""
    return next(candidate for candidate in priced if candidate.usable)


def mechanism_named(
    name: str, network: Network, *, epsilon: Number, delta: Number = 0, unit: PrivacyUnit | None = None
) -> Any:
    """The mechanism of a name, for one budget; ``"auto"`` is the one ``privacy_cost`` recommends.

    Raises:
        ReleaseError: If the name is unknown, or delta is above 0 where a mechanism has no use for it, or 0 where it
            has.

    >>> from dpgraph.files.networks import read_network
    >>> alarm = read_network("example:alarm")
    >>> type(mechanism_named("auto", alarm, epsilon=1, delta="1e-6")).__name__
    'GaussianMechanism'
    """
    if name not in MECHANISMS:
        raise ReleaseError(f"mechanism must be one of {', '.join(map(repr, MECHANISMS))}; got {name!r}")
    if name == "auto":
        priced = ranked(network, exact(epsilon), exact_delta(delta), checked_unit(unit))
        return recommended(priced).mechanism
    if name == "gaussian":
        return GaussianMechanism(epsilon, delta)
    if exact(delta, "delta", zero=True) > 0:
        raise ReleaseError(f"mechanism {name!r} is pure, delta 0; got delta {delta!r}")
    pure = {
        "laplace": LaplaceMechanism,
        "fourier": FourierMechanism,
        "posterior-sample": PosteriorSample,
        "map": MapEstimate,
    }
    return pure[name](epsilon)
