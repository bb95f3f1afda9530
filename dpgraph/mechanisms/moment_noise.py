"""Integer noise on sums of sufficient statistics, Laplace or Gaussian.

Sensitivity: ``MomentDescription.sensitivity``, the exact largest L1 distance that one person's rows move the integer
sums, and the same of a ``LinearDesign``; every sum gets its own draw of scale sensitivity / epsilon, so the release is
epsilon-DP. Gaussian noise has scale^2 at least the squared L2 sensitivity / (2 rho), so it is rho-zCDP. One draw
shared by all sums, as in the reference code of Bernstein and Sheldon 2018, would show their differences exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_gaussian_scale, calibrated_scale
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Measurement,
    PrivacyUnit,
    ReleaseError,
    SumZeroLaplace,
)
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.moments import MomentDescription, NoisyMoments


def planned_moments(
    description: MomentDescription | LinearDesign,
    epsilon: Fraction,
    unit: PrivacyUnit,
    shape: Literal["auto", "independent", "sum-zero"],
) -> Measurement:
    """The one measurement of a release of moments.

    Args:
        description: What is summed.
        epsilon: The exact budget.
        unit: Whom it protects.
        shape: ``"auto"`` is sum-zero noise where the sums add up to a public n, else independent noise.

    Raises:
        ReleaseError: If sum-zero noise is asked for where the sums do not add up to a public n, or epsilon is too
            small to be useful.
    """
    adds_up = description.partitions and unit.n_is_public
    if shape == "sum-zero" and not adds_up:
        raise ReleaseError('noise="sum-zero" needs statistics that sum to a public n: a Multinomial under "replace"')
    sensitivity = description.sensitivity(unit)
    scale = calibrated_scale(max(1, sensitivity), epsilon, MAX_SCALE_IN_STEPS)
    law = SumZeroLaplace(scale) if adds_up and shape != "independent" else DiscreteLaplace(scale)
    names = description.released_names(unit)
    return Measurement(names, len(names), law, sensitivity)


def planned_gaussian_moments(design: LinearDesign, rho: Fraction, unit: PrivacyUnit) -> Measurement:
    """The one measurement of a release of a regression's moments with Gaussian noise.

    Raises:
        ReleaseError: If rho is too small to be useful.
    """
    scale = calibrated_gaussian_scale(design.squared_sensitivity(unit), rho, MAX_SCALE_IN_STEPS)
    names = design.released_names(unit)
    return Measurement(names, len(names), DiscreteGaussian(scale), design.sensitivity(unit))


def noisy_moments(statistics: Moments, plan: Measurement, unit: PrivacyUnit, noise: Noise) -> NoisyMoments:
    """Draws the noisy sums, one draw each; ``release`` calls this after the charge."""
    exact_sums = statistics.description.released(statistics.sensitive_sums, statistics.sensitive_rows, unit)
    n = statistics.sensitive_rows if unit.n_is_public else None
    return NoisyMoments(statistics.description, noise.add(exact_sums, plan.law), plan.law, n)
