"""Draws of regression weights from a truncated, tempered posterior.

Zhang et al. 2016, Appendix D, at any epsilon, with exact draws and an exact range in place of a gradient bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgraph.mechanisms.selection.lattice import check_temperature
from dpgraph.mechanisms.selection.truncated_gaussian import draw_ball_gaussian
from dpgraph.privacy.checks import check_boolean, check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, ReleaseError, Selection, exact
from dpgraph.structure.design import RESOLUTION, LinearDesign
from dpgraph.structure.sampled_weights import SampledWeights, check_positive, largest_squared_norm

if TYPE_CHECKING:
    from dpgraph.statistics.moments import Moments

#: Weights beyond this many would take over a thousand proposals for each that is kept.
MOST_WEIGHTS = 200

#: Below this a draw is the constrained least squares to eleven digits.
LEAST_TEMPERATURE = 2.0**-40


@dataclass(frozen=True)
class RegressionSample:
    """Releases draws of regression weights from prior(u) prod_i exp(-(y_i - z_i'u)^2 / (2 T)), ||u|| <= radius.

    z is a row's columns over sqrt(``largest_squared_norm(design)``), a public number, so ||z|| <= 1, |y| <= 1 as in the
    paper, whatever the row; the prior is N(0, I / precision) truncated to the ball. ``SampledWeights`` has the weights
    of the columns themselves, u / sqrt(largest_squared_norm). So radius bounds every prediction: at 1 the predictions
    stay within the target's bounds.

    Sensitivity: one row's term (y - z'u)^2 / 2, as u varies over the ball, takes values between (|y| - m)_+^2 / 2 and
    (|y| + m)^2 / 2 with m = radius ||z|| <= radius, an interval of length at most L = (1 + radius)^2 / 2 for a radius
    of 1 or more and 2 radius below that, attained by y = 1 and ||z|| = 1. Between neighbours the log density moves, up
    to a constant, by one such term over T under add/remove and by the difference of two under replace, and the
    normaliser moves by as much the other way. So one draw is epsilon-DP at T = L / epsilon, 2 L / epsilon under replace
    (proofs.md P47; (1 + B)^2 at T = 1; the paper bounds a gradient). r rows a person and k draws make T r k
    times larger: k draws cost k times as much. The bound is attained under add/remove, and under replace for a radius
    up to 1; above 1, two rows come within a tenth of it in all designs of two to six columns searched by the tests
    (one column alone: .89 of it at a radius of 2, less beyond).

    A declared residual variance s^2 would divide the terms and L alike and leave the law as it is: T is the residual
    variance that the draws assume. At epsilon = 2 L / s0^2, s0 the real one in scaled units, a draw is one of the real
    posterior; at less, it spreads as if residuals were larger; at more, it is narrower.

    The draws are real numbers in floating point, by rejection (``truncated_gaussian``), so the claim holds for real
    numbers only: ``idealized_numerics=True`` asks for that by name, and the event says so. Each draw makes one round
    of proposals of a public size; whether a second is needed, less than once in 10^9 draws at the least acceptance
    found, and how long the arithmetic takes depend on the rows: time is a side channel.

    Args:
        epsilon: The whole budget, exact; a float means the decimal it prints as.
        draws: How many independent draws; together they cost epsilon.
        radius: B, the bound on ||u|| and so on predictions of the target in [-1, 1].
        precision: lambda, the prior precision of u.
        idealized_numerics: Must be True.

    Raises:
        ReleaseError: If a setting is out of its range.

    >>> design = LinearDesign({"age": (18, 90)}, "income", (0, 100_000))
    >>> RegressionSample(4, radius=1, idealized_numerics=True).temperature(design, PrivacyUnit("replace"))
    1.0
    """

    epsilon: Number
    draws: int = 1
    radius: float = 1.0
    precision: float = 1.0
    idealized_numerics: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        check_whole("draws", self.draws)
        for name in ("radius", "precision"):
            check_positive(name, getattr(self, name))
            object.__setattr__(self, name, float(getattr(self, name)))
        check_boolean("idealized_numerics", self.idealized_numerics)

    def event(self, network: Any, unit: PrivacyUnit) -> Event:
        """What a release would do: ``draws`` selections that share epsilon.

        Raises:
            ReleaseError: If the statistics are not the moments of a regression, there are too many columns, epsilon is
                too small to be useful, or ``idealized_numerics`` was not asked for.
        """
        self.temperature(network, unit)
        if not self.idealized_numerics:
            raise ReleaseError(
                "draws of real weights are private for real numbers only, not proved for floating point; ask for that "
                "by idealized_numerics=True, or use LaplaceMechanism"
            )
        epsilon = exact(self.epsilon)
        selections = (Selection("continuous", epsilon / self.draws, self.draws),)
        return Event("RegressionSample (idealized numerics)", epsilon, selections=selections)

    def temperature(self, design: Any, unit: PrivacyUnit) -> float:
        """T: the residual variance, in scaled units of the target, that the likelihood is given.

        Raises:
            ReleaseError: As ``event``.
        """
        if not isinstance(design, LinearDesign):
            raise ReleaseError("RegressionSample takes the moments of a regression: regression_moments(rows, design)")
        design.sensitivity(unit)
        if not 1 <= len(design.columns) - 1 <= MOST_WEIGHTS:
            raise ReleaseError(f"a draw has 1 to {MOST_WEIGHTS} weights; the design has {len(design.columns) - 1}")
        epsilon = exact(self.epsilon)
        reach = residual_range(self.radius) * unit.rows_per_person * (2 if unit.n_is_public else 1)
        return check_temperature(max(reach * self.draws / float(epsilon), LEAST_TEMPERATURE), epsilon)

    def randomise(self, statistics: Moments, unit: PrivacyUnit, noise: Noise) -> SampledWeights:
        """Draws the weights; ``release`` calls this after the charge."""
        design = statistics.description
        assert isinstance(design, LinearDesign)
        temperature, norm = self.temperature(design, unit), math.sqrt(largest_squared_norm(design))
        sums = statistics.sensitive_sums / RESOLUTION**2
        products = design.matrix(sums, statistics.sensitive_rows)
        gram, linear = products[:-1, :-1] / norm**2 / temperature, products[:-1, -1] / norm / temperature
        drawn = draw_ball_gaussian(noise, gram, self.precision, linear, self.radius, self.draws)
        return SampledWeights(design, drawn / norm, self.radius, self.precision)

    def __repr__(self) -> str:
        numerics = ", idealized_numerics=True" if self.idealized_numerics else ""
        settings = f"draws={self.draws}, radius={self.radius:g}, precision={self.precision:g}{numerics}"
        return f"RegressionSample(epsilon={str(self.epsilon)!r}, {settings})"


def residual_range(radius: float) -> float:
    """The length L of the interval of (y - z'u)^2 / 2 as u varies over the ball, at most; ||z|| and |y| up to 1.

    >>> residual_range(0.5), residual_range(1.0), residual_range(3.0)
    (1.0, 2.0, 8.0)
    """
    return (1 + radius) ** 2 / 2 if radius >= 1 else 2 * radius
