"""Integer Laplace noise on sums of sufficient statistics.

Sensitivity: ``MomentDescription.sensitivity``, the exact largest L1 distance that one person's rows move the integer
sums; every sum gets its own draw of scale sensitivity / epsilon, so the release is epsilon-DP. One draw shared by all
sums, as in the reference code of Bernstein and Sheldon 2018, would show their differences exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_scale
from dpgraph.privacy.records import DiscreteLaplace, Measurement, PrivacyUnit, ReleaseError, SumZeroLaplace
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


def noisy_moments(statistics: Moments, plan: Measurement, unit: PrivacyUnit, noise: Noise) -> NoisyMoments:
    """Draws the noisy sums, one draw each; ``release`` calls this after the charge."""
    exact_sums = statistics.description.released(statistics.sensitive_sums, statistics.sensitive_rows, unit)
    n = statistics.sensitive_rows if unit.n_is_public else None
    return NoisyMoments(statistics.description, noise.add(exact_sums, plan.law), plan.law, n)
