"""The prior of a linear regression, in the units of the design's scaled columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpgraph.inference.arguments import check_above_zero
from dpgraph.privacy.checks import is_number
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.tables import Reals


@dataclass(frozen=True)
class RegressionPrior:
    """Normal-inverse-gamma: 1/s2 ~ Gamma(shape, rate), weights given s2 normal with deviation s times a scale.

    Every column and the target lie in [-1, 1], so weights and s are of order 1 at most. The defaults are weak there:
    s is .21 to .75 with probability .9, and all features together explain about half of the residual variance, or far
    less or more where the release says so: their weights have one unknown scale. The spread of weights about 0 follows
    the columns (a g-prior): where two columns nearly determine each other, or a level is rare, they may be as large as
    such columns allow, and predictions are alike however columns are coded; no level of a feature is special.

    The prior of s2 resists values far below: where the target's bounds are more than ten times wider than the deviation
    about the prediction, and the release is precise, narrow the bounds or set ``half_cauchy``.

    Args:
        intercept: The scale of the average prediction, in deviations s, about ``typical``.
        explained: The variance that all features together explain, as a multiple of s2, if weights were normal.
            Slopes given s are normal with the inverse of the columns' covariance, times ``explained`` over the number
            of columns (Zellner 1986).
        degrees: The intercept, and all other weights together, are (multivariate) Student-t with these degrees of
            freedom given s; infinity makes them normal. Light tails trust the prior, heavy ones the release where the
            two disagree.
        shape: Of 1/s2.
        rate: Of 1/s2.
        half_cauchy: A scale; s is then half-Cauchy with it, and shape and rate do not count.
        typical: A typical value of the target, in its units, from public knowledge; the middle of its bounds if None.
        features: Three numbers (a, b, c) for S = X'X / n: the mean square of a scaled number is Beta(b, c), 1 where all
            rows lie on its bounds, and independent of it correlations C have density |C|^a. Uniform numbers have 1/3.
            With more than 6 a columns a sixth of them counts in place of a, as chains mix slowly in near singular C.

    Raises:
        InferenceError: If a number is out of range.

    >>> RegressionPrior(half_cauchy=0.5).half_cauchy
    0.5
    """

    intercept: float = 0.3
    explained: float = 0.5
    degrees: float = 5.0
    shape: float = 2.0
    rate: float = 0.2
    half_cauchy: float | None = None
    typical: float | None = None
    features: tuple[float, float, float] = (2.0, 1.5, 4.0)

    def __post_init__(self) -> None:
        for name in ("intercept", "explained", "shape", "rate", "half_cauchy", "degrees"):
            value = getattr(self, name)
            if value is not None or name != "half_cauchy":
                check_above_zero(f"{name} of the prior", value, infinite=name == "degrees")
        if self.typical is not None and not (is_number(self.typical) and math.isfinite(self.typical)):
            raise InferenceError(f"typical of the prior must be finite; got {self.typical!r}")
        three = self.features
        numbers = isinstance(three, tuple) and all(is_number(one) and math.isfinite(one) for one in three)
        if not numbers or len(three) != 3 or not three[0] >= 0 or not min(three[1:]) > 0:
            raise InferenceError(
                f"features of the prior must be three numbers, the first at least 0, the others above 0; got {three!r}"
            )

    def centre(self, design: LinearDesign) -> Reals:
        """The mean of the weights, shape (columns - 1,).

        Raises:
            InferenceError: If ``typical`` is outside the target's bounds, or the design has no intercept to hold it.
        """
        mean = np.zeros(len(design.columns) - 1)
        if self.typical is not None:
            if not design.intercept:
                raise InferenceError("typical is the prior mean of the intercept; this design has none")
            if not design.bounds.low <= self.typical <= design.bounds.high:
                ends = f"{design.bounds.low:g} and {design.bounds.high:g}"
                raise InferenceError(f"typical must lie within the target's bounds, {ends}; got {self.typical!r}")
            mean[0] = (self.typical - design.bounds.middle) / design.bounds.half
        return mean

    def scale(self, design: LinearDesign) -> Reals:
        """The deviation over s of each weight were columns unrelated and of variance 1, shape (columns - 1,)."""
        columns = len(design.columns) - 1
        scale = np.full(columns, math.sqrt(self.explained / max(1, columns - design.intercept)))
        if design.intercept:
            scale[0] = self.intercept
        return scale

    def exponents(self, columns: int) -> tuple[float, float, float]:
        """Of |S|, of mean squares S_jj and of 1 - S_jj in the density of S = X'X / n, of so many columns (P81).

        S_jj has marginally the power of |S| and half a power for each other column, which are taken off.
        """
        a, b, c = self.features
        a = max(a, columns / 6)
        return a, b - 1 - a - (columns - 1) / 2, c - 1

    @property
    def inverse_gamma(self) -> tuple[float, float]:
        """Shape and rate of 1/s2; of a half-Cauchy deviation given its hyperparameter, where that starts."""
        return (self.shape, self.rate) if self.half_cauchy is None else (0.5, self.half_cauchy**2)

    @property
    def typical_variance(self) -> float:
        """A variance the prior finds likely."""
        return self.rate / (self.shape + 1) if self.half_cauchy is None else self.half_cauchy**2
