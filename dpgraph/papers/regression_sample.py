"""Draws of regression weights from a truncated, tempered posterior.

Zhang et al. 2016, Appendix D, at any epsilon, with exact draws and an exact range in place of a gradient bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar, root_scalar
from scipy.special import erfcx, log_ndtr, ndtri, ndtri_exp

from dpgraph.files.codecs import Codec, register_codecs, structural
from dpgraph.inference.regression.draws import RegressionDraws, scaled_columns
from dpgraph.mechanisms.reproduction import register_mechanism
from dpgraph.mechanisms.selection.lattice import check_temperature
from dpgraph.privacy.checks import Flags, Reals, check_boolean, check_whole
from dpgraph.privacy.display import DataFrame, counted, data_frame, summary
from dpgraph.privacy.errors import FileError, ReleaseError
from dpgraph.privacy.measurements import Selection
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, Provenance, Release, exact
from dpgraph.structure.conversion import weighted
from dpgraph.structure.design import RESOLUTION, LinearDesign
from dpgraph.structure.frozen import FrozenMap, frozen_array

if TYPE_CHECKING:
    from dpgraph.statistics.moments import Moments

#: Weights beyond this many would take over a thousand proposals for each that is kept.
MOST_WEIGHTS = 200
#: Below this a draw is the constrained least squares to eleven digits.
LEAST_TEMPERATURE = 2.0**-40
#: Proposals for each draw, times (dimensions + 1): at the least acceptance found, all fail less than once in 10^9.
ROUND = 32
#: Standard deviations beyond which a truncated tail is drawn by Robert's exponential proposal.
TAIL = -5.0


@dataclass(frozen=True)
class RegressionSample:
    """Releases draws of regression weights from prior(u) prod_i exp(-(y_i - z_i'u)^2 / (2 T)), ||u|| <= radius.

    z is a row's columns over sqrt(``largest_squared_norm(design)``), a public number, so ||z|| <= 1, |y| <= 1 as in the
    paper, whatever the row; the prior is N(0, I / precision) truncated to the ball, whose radius bounds every
    prediction. ``SampledWeights`` has the weights of the columns themselves, u / sqrt(largest_squared_norm).

    Sensitivity (proofs.md P15 and P47): one row's term (y - z'u)^2 / 2, as u varies over the ball, takes values in an
    interval of length at most L = (1 + radius)^2 / 2 for a radius of 1 or more and 2 radius below that. Between
    neighbours the log density moves, up to a constant, by one such term over T under add/remove and by the difference
    of two under replace, and the normaliser moves by as much the other way. So one draw is epsilon-DP at
    T = L / epsilon, 2 L / epsilon under replace (the paper bounds a gradient). r rows a person and k draws make T r k
    times larger. T is the residual variance that the draws assume, in scaled units.

    The draws are real numbers in floating point, by rejection (``BallGaussian``), so the claim holds for real
    numbers only: ``idealized_numerics=True`` asks for that by name, and the event says so. The number of rounds
    of proposals and the time of the arithmetic depend on the rows: time is a side channel.

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
        """``draws`` selections that share epsilon; refuses whatever ``temperature`` refuses, and real numerics."""
        self.temperature(network, unit)
        if not self.idealized_numerics:
            raise ReleaseError(
                "draws of real weights are private for real numbers only, not proved for floating point; ask for that "
                "by idealized_numerics=True, or use LaplaceMechanism"
            )
        return _event(self)

    def temperature(self, design: Any, unit: PrivacyUnit) -> float:
        """T: the residual variance, in scaled units of the target, that the likelihood is given."""
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

    def model_of(self, release: Release[Any]) -> SampledRegressionModel:
        """The model of a release by this mechanism, for ``PrivateLinearRegression``."""
        return SampledRegressionModel(release.value, release.provenance)

    def __repr__(self) -> str:
        numerics = ", idealized_numerics=True" if self.idealized_numerics else ""
        settings = f"draws={self.draws}, radius={self.radius:g}, precision={self.precision:g}{numerics}"
        return f"RegressionSample(epsilon={str(self.epsilon)!r}, {settings})"


def _event(mechanism: RegressionSample) -> Event:
    epsilon = exact(mechanism.epsilon)
    selections = (Selection("continuous", epsilon / mechanism.draws, mechanism.draws),)
    return Event("RegressionSample (idealized numerics)", epsilon, selections=selections)


def residual_range(radius: float) -> float:
    """The length L of the interval of (y - z'u)^2 / 2 as u varies over the ball, at most; ||z|| and |y| up to 1."""
    return (1 + radius) ** 2 / 2 if radius >= 1 else 2 * radius


@dataclass(frozen=True, eq=False)
class SampledWeights:
    """Draws of the weights w of a linear regression, which predicts the scaled target by the design's other columns.

    Attributes:
        design: The design; its columns are between -1 and 1.
        weights: Shape (draws, columns - 1), in the order of the columns; every row has
            ||w|| <= radius / sqrt(largest_squared_norm(design)), so no prediction leaves [-radius, radius].
        radius: The declared bound on predictions, where the target is between -1 and 1.
        precision: The prior precision of sqrt(largest_squared_norm(design)) w.

    Raises:
        ReleaseError: If the parts do not fit.
    """

    design: LinearDesign
    weights: Reals
    radius: float
    precision: float

    def __post_init__(self) -> None:
        for name in ("radius", "precision"):
            check_positive(name, getattr(self, name))
        weights = frozen_array(self.weights, np.float64)
        object.__setattr__(self, "weights", weights)
        if weights.ndim != 2 or not len(weights) or weights.shape[1] != len(self.design.columns) - 1:
            raise ReleaseError(f"weights must have shape (draws, {len(self.design.columns) - 1}); got {weights.shape}")
        largest = self.radius / math.sqrt(largest_squared_norm(self.design))
        if not (np.linalg.norm(weights, axis=1) <= largest * (1 + 1e-9)).all():
            raise ReleaseError(f"weights must be finite and of a norm up to {largest:g}")

    def coefficients(self) -> FrozenMap[str, Reals]:
        """The intercept and each coefficient in the units of the rows, shape (draws,) each.

        A coefficient of a level compares it with the first of its variable.
        """
        read = RegressionDraws(self.design, self.weights, np.ones(len(self.weights)), "sampled")
        named = zip(read.names, read.in_units.T, strict=True)
        return FrozenMap((name, frozen_array(values, np.float64)) for name, values in named)

    def __repr__(self) -> str:
        draws, weights = self.weights.shape
        return summary(
            "SampledWeights", counted(draws, "draw"), counted(weights, "weight"), f"radius {self.radius:.3g}"
        )


def largest_squared_norm(design: LinearDesign) -> int:
    """The largest squared norm of a row's columns without the target, attained: 1 a column, 1 a variable of levels."""
    columns = design.columns[:-1]
    groups = {column.variable for column in columns if column.kind == "level"}
    return sum(column.kind != "level" for column in columns) + len(groups)


def check_positive(name: str, value: Any) -> None:
    """Refuses a setting that is not a number above 0 of a reasonable size."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 1e-6 <= value <= 1e6:
        raise ReleaseError(f"{name} must be a number from 1e-6 to 1e6; got {value!r}")


@dataclass(frozen=True, eq=False)
class SampledRegressionModel:
    """A linear regression by the mean of weights drawn through ``RegressionSample``.

    Its draws spread with epsilon, and tell of no residual variance: so there are no intervals here.

    Attributes:
        drawn: The released weights.
        provenance: The release they left through.
    """

    drawn: SampledWeights
    provenance: Provenance | None = None

    @property
    def design(self) -> LinearDesign:
        """The columns and the target, with their public bounds."""
        return self.drawn.design

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in order."""
        return tuple(self.design.features)

    @property
    def target(self) -> str:
        """The target."""
        return self.design.target

    def coefficients(self) -> DataFrame:
        """The mean over draws of the intercept and each coefficient, in the units of the rows: a column mean."""
        drawn = self.drawn.coefficients()
        return data_frame({"mean": [float(values.mean()) for values in drawn.values()]}, index=list(drawn))

    def predict(self, X: Any) -> Reals:
        """The prediction of each row by the mean of the draws, cut at the target's bounds, in its units.

        Args:
            X: A table, of which the features are read, the path of a CSV or Parquet file, or an array with the features
                in order as its columns; or a mapping, for each feature an array: numbers, or of a feature with levels
                the codes of these.

        Raises:
            DomainError: If a feature is missing, does not fit its declaration, or holds nulls of no declared meaning.
        """
        scaled = weighted(scaled_columns(self.design, X), self.drawn.weights.mean(axis=0))
        return self.design.bounds.middle + self.design.bounds.half * np.clip(scaled, -1.0, 1.0)


@dataclass(frozen=True)
class BallGaussian:
    """f(v) proportional to exp(-v'Av / 2 + b'v) on ||v|| <= radius, A diagonal, by exact rejection (proofs.md P26)."""

    precision: Reals
    linear: Reals
    radius: float

    @cached_property
    def peak(self) -> tuple[Reals, float, float]:
        """The point of largest density in the ball, b / (A + t) with the least t >= 0: direction e, length and t."""

        def excess(multiplier: float) -> float:
            return float(np.linalg.norm(self.linear / (self.precision + multiplier))) - self.radius

        multiplier = 0.0
        if excess(0.0) > 0:
            most = 2 * float(np.linalg.norm(self.linear)) / self.radius
            multiplier = root_scalar(excess, bracket=(0.0, most), xtol=1e-300).root
        point = self.linear / (self.precision + multiplier)
        length = float(np.linalg.norm(point))
        if length == 0:
            return np.eye(len(point))[0], 0.0, 0.0
        return point / length, self.radius if multiplier > 0 else min(length, self.radius), multiplier

    @cached_property
    def tilt(self) -> float:
        """The tilt k that minimises the mass of g; the multiplier of the peak is at most ||b|| / radius."""
        largest = float(self.precision.max()) + float(np.linalg.norm(self.linear)) / self.radius
        low, high = 1e-2 / self.radius**2, 100 * (largest + (len(self.precision) + 1) / self.radius**2)
        bounds = math.log(low), math.log(high)
        found = minimize_scalar(lambda log_k: self.log_mass(math.exp(log_k)), bounds=bounds, method="bounded")
        return math.exp(float(found.x))

    def log_mass(self, tilt: float) -> float:
        """ln of the integral of g over its value at the peak, up to a constant that does not depend on the tilt."""
        spread, scale, pull, edge = self._proposal_law(tilt)
        short = self.radius - self.peak[1]
        log_volume = float(np.log(spread).sum()) / 2 + tilt * short * (2 * self.radius - short) / 2
        if edge < TAIL:
            tail = math.log(float(erfcx(-edge / math.sqrt(2))) / 2)
            return log_volume + tail + short * pull - (short / scale) ** 2 / 2
        return log_volume + float(log_ndtr(edge)) + (pull * scale) ** 2 / 2

    def propose(self, noise: Noise, size: int) -> tuple[Reals, Flags]:
        """Proposals, shape (size, p), and which of them are kept."""
        direction, length, _ = self.peak
        spread, scale, _, edge = self._proposal_law(self.tilt)
        dimensions = len(spread)
        uniform = uniforms(noise, size * (dimensions + 2)).reshape(dimensions + 2, size)
        below, log_odds = _draw_below(edge, uniform[0])
        gap = scale * below
        spread_out = np.sqrt(spread) * ndtri(uniform[2:]).T
        along = spread * direction / scale**2
        from_peak = spread_out + (self.radius - length - gap - spread_out @ direction)[:, None] * along
        across = from_peak - np.outer(from_peak @ direction, direction)
        # radius^2 - ||v||^2 without cancellation, however near the boundary
        inside = (gap * (2 * self.radius - gap) - (across**2).sum(axis=1)) / 2
        return length * direction + from_peak, (inside >= 0) & (np.log(uniform[1]) <= log_odds - self.tilt * inside)

    def draw(self, noise: Noise) -> Reals:
        """One draw: the first kept of a round of proposals, shape (p,)."""
        while True:
            points, kept = self.propose(noise, ROUND * (len(self.precision) + 1))
            if kept.any():
                return points[int(kept.argmax())]

    def _proposal_law(self, tilt: float) -> tuple[Reals, float, float, float]:
        """Variances of g, its deviation along e, its slope along e at the peak, and the plane in deviations."""
        direction, length, multiplier = self.peak
        spread = 1 / (self.precision + tilt)
        scale = math.sqrt(float(direction**2 @ spread))
        pull = (multiplier - tilt) * length
        return spread, scale, pull, (self.radius - length) / scale - pull * scale


def draw_ball_gaussian(noise: Noise, gram: Reals, ridge: float, linear: Reals, radius: float, size: int) -> Reals:
    """Independent exact draws of exp(-v'(G + ridge I)v / 2 + b'v) on ||v|| <= radius, shape (size, p)."""
    values, axes = np.linalg.eigh(gram)
    law = BallGaussian(np.maximum(values, 0.0) + ridge, axes.T @ linear, radius)
    return np.array([law.draw(noise) for _ in range(size)]) @ axes.T


def uniforms(noise: Noise, count: int) -> Reals:
    """Uniform numbers strictly between 0 and 1, from 52 bits each."""
    drawn = np.frombuffer(noise.bits(64 * count).to_bytes(8 * count, "little"), np.uint64)
    return ((drawn >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


def _draw_below(edge: float, uniform: Reals) -> tuple[Reals, Reals]:
    """The distance below the edge of a normal number truncated there, and the log odds of keeping it (Robert 1995)."""
    if edge < TAIL:
        distance = np.log(uniform) / edge
        return distance, -(distance**2) / 2
    return edge - ndtri_exp(np.log(uniform) + log_ndtr(edge)), np.zeros_like(uniform)


def _check_draws(drawn: SampledWeights, provenance: Provenance | None) -> None:
    if provenance is None or sum(one.draws for one in provenance.event.selections) != len(drawn.weights):
        raise FileError("the draws are not as many as the event made")


def _replanned(event: Event, unit: PrivacyUnit, structure: Any) -> Event:
    if not isinstance(structure, LinearDesign) or len(event.selections) != 1:
        raise ReleaseError("RegressionSample makes one kind of selection and no measurements, on a LinearDesign")
    return _event(RegressionSample(event.epsilon, event.selections[0].draws))


register_mechanism("RegressionSample (idealized numerics)", _replanned)
_plain_weights, _weights_of = structural(SampledWeights, _check_draws)
register_codecs(
    Codec("released", "sampled-weights", SampledWeights, _plain_weights, _weights_of, attrgetter("design")),
    Codec(
        "fitted",
        "sampled-regression",
        SampledRegressionModel,
        lambda model: _plain_weights(model.drawn),
        lambda plain, design, provenance: SampledRegressionModel(_weights_of(plain, design, provenance), provenance),
        attrgetter("design"),
    ),
)
