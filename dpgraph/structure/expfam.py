"""Exponential families: public descriptions of a model of one record (Bernstein and Sheldon 2018).

A family has names of ``statistics`` and ``parameters``, the ``statistic`` t(x) of records, shape (..., statistics), a
``support``, whole where ``discrete``, and a conjugate ``prior``. A ``bounded`` family has finitely many records; others
need public bounds, outside which a record contributes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from dpgraph.privacy.checks import Reals, check_whole, is_number, is_whole
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.domain import DomainError, Level

#: The most categories or trials, and the most whole numbers between bounds.
MOST_POINTS = 1 << 20
__all__ = [
    "Binomial",
    "Exponential",
    "ExponentialFamily",
    "Gamma",
    "Multinomial",
    "Natural",
    "Normal",
    "Poisson",
    "check_prior",
]


def _checking(*free: str) -> Callable[[object], None]:
    """The ``__post_init__`` of a prior: hyperparameters are finite numbers, above 0 but for those that are free."""

    def check(prior: object) -> None:
        for one in fields(prior):  # type: ignore[arg-type]
            value = getattr(prior, one.name)
            for number in value if isinstance(value, tuple) else (value,):
                if not is_number(number) or not math.isfinite(number):
                    raise InferenceError(f"{one.name} of the prior must be finite; got {value!r}")
                if one.name not in free and number <= 0:
                    raise InferenceError(f"{one.name} of the prior must be above 0; got {value!r}")

    return check


@dataclass(frozen=True)
class BetaPrior:
    """The prior of a probability: density proportional to p^(alpha - 1) (1 - p)^(beta - 1)."""

    alpha: float = 1.0
    beta: float = 1.0

    __post_init__ = _checking()


@dataclass(frozen=True)
class DirichletPrior:
    """The prior of the probabilities of categories: density proportional to prod_k p_k^(concentration_k - 1)."""

    concentration: tuple[float, ...]

    __post_init__ = _checking()


@dataclass(frozen=True)
class GammaPrior:
    """The prior of a rate: density proportional to r^(shape - 1) exp(-rate r); its mean is shape / rate."""

    shape: float
    rate: float

    __post_init__ = _checking()


@dataclass(frozen=True)
class NormalPrior:
    """The prior of a mean, for data of known variance: normal with this mean and variance."""

    mean: float
    variance: float

    __post_init__ = _checking("mean")


@dataclass(frozen=True)
class NormalInverseGammaPrior:
    """The prior of a mean and a variance: 1/variance is Gamma(shape, rate), and the mean is normal about ``mean``.

    The mean's variance is that of the data divided by ``records``, so the prior is worth as many records.
    """

    mean: float
    records: float
    shape: float
    rate: float

    __post_init__ = _checking("mean")


@dataclass(frozen=True)
class NaturalPrior:
    """The prior of natural parameters: density proportional to exp(statistics . eta - records A(eta)).

    It is worth as many imagined records as ``records``, whose statistics sum to ``statistics`` (Diaconis and Ylvisaker
    1979).
    """

    statistics: tuple[float, ...]
    records: float

    __post_init__ = _checking("statistics")


Prior = BetaPrior | DirichletPrior | GammaPrior | NormalPrior | NormalInverseGammaPrior | NaturalPrior


@dataclass(frozen=True)
class Binomial:
    """The successes among a known number of trials; one record is 0 to ``trials``.

    >>> Binomial().statistics, Binomial().parameters
    (('successes',), ('p',))
    """

    trials: int = 1
    bounded: ClassVar[bool] = True
    discrete: ClassVar[bool] = True
    statistics: ClassVar[tuple[str, ...]] = ("successes",)
    parameters: ClassVar[tuple[str, ...]] = ("p",)

    def __post_init__(self) -> None:
        check_whole("trials", self.trials, most=MOST_POINTS, error=DomainError)

    @property
    def support(self) -> tuple[float, float]:
        """From no success to all."""
        return 0.0, float(self.trials)

    def statistic(self, x: Reals) -> Reals:
        """The successes."""
        return x[..., None]

    def prior(self, alpha: float = 1.0, beta: float = 1.0) -> BetaPrior:
        """A Beta prior of the probability of success."""
        return BetaPrior(alpha, beta)


@dataclass(frozen=True)
class Multinomial:
    """One of several declared categories; a record is its code, 0 to the number of categories less one.

    Args:
        levels: The number of categories, or their names; records are then these names.

    >>> Multinomial(["red", "green", "blue"]).statistics
    ('red', 'green', 'blue')
    """

    levels: tuple[Level, ...]
    bounded: ClassVar[bool] = True
    discrete: ClassVar[bool] = True

    def __init__(self, levels: int | Sequence[Level]) -> None:
        if is_whole(levels):
            levels = tuple(range(min(levels, MOST_POINTS + 1)))
        if isinstance(levels, str) or not isinstance(levels, Sequence):
            raise DomainError(f"levels must be a number of categories or their names; got {levels!r}")
        object.__setattr__(self, "levels", tuple(levels))
        if not 2 <= len(self.levels) <= MOST_POINTS or len(set(self.levels)) < len(self.levels):
            raise DomainError("levels must be two or more different categories")

    @property
    def support(self) -> tuple[float, float]:
        """The codes."""
        return 0.0, len(self.levels) - 1.0

    @property
    def statistics(self) -> tuple[str, ...]:
        """A count for each category."""
        return tuple(str(level) for level in self.levels)

    @property
    def parameters(self) -> tuple[str, ...]:
        """A probability for each category."""
        return self.statistics

    def statistic(self, x: Reals) -> Reals:
        """A 1 in the record's category."""
        return (x[..., None] == np.arange(len(self.levels))).astype(float)

    def prior(self, concentration: float | Sequence[float] = 1.0) -> DirichletPrior:
        """A Dirichlet prior; one number stands for all categories."""
        if isinstance(concentration, int | float):
            return DirichletPrior((float(concentration),) * len(self.levels))
        if len(concentration) != len(self.levels):
            raise InferenceError(f"concentration must be one number or {len(self.levels)}; got {len(concentration)}")
        return DirichletPrior(tuple(float(one) for one in concentration))


class RateFamily:
    """A family of non-negative records with an unknown rate; its one statistic is the sum of the records."""

    bounded: ClassVar[bool] = False
    discrete: ClassVar[bool] = False
    support: ClassVar[tuple[float, float]] = (0.0, math.inf)
    statistics: ClassVar[tuple[str, ...]] = ("sum",)
    parameters: ClassVar[tuple[str, ...]] = ("rate",)

    def statistic(self, x: Reals) -> Reals:
        """The number."""
        return x[..., None]

    def prior(self, shape: float, rate: float) -> GammaPrior:
        """A Gamma prior of the rate."""
        return GammaPrior(shape, rate)


@dataclass(frozen=True)
class Poisson(RateFamily):
    """Counts with an unknown rate."""

    discrete: ClassVar[bool] = True


@dataclass(frozen=True)
class Gamma(RateFamily):
    """Positive numbers with a Gamma law of known shape and unknown rate; the mean is shape / rate."""

    shape: float

    def __post_init__(self) -> None:
        if not is_number(self.shape) or not 0 < self.shape < math.inf:
            raise DomainError(f"shape must be a finite number above 0; got {self.shape!r}")


@dataclass(frozen=True)
class Exponential(RateFamily):
    """Positive numbers with an exponential law of unknown rate: the Gamma law of shape 1."""

    shape: ClassVar[float] = 1.0


@dataclass(frozen=True)
class Normal:
    """Real numbers with a normal law: unknown mean, and a variance that is known if given, else unknown too.

    >>> Normal().statistics, Normal(variance=4.0).statistics
    (('sum', 'sum of squares'), ('sum',))
    """

    variance: float | None = None
    bounded: ClassVar[bool] = False
    discrete: ClassVar[bool] = False
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        known = self.variance
        if known is not None and (not is_number(known) or not 0 < known < math.inf):
            raise DomainError(f"variance must be a finite number above 0, or left out; got {known!r}")

    @property
    def statistics(self) -> tuple[str, ...]:
        """The sum, and the sum of squares where the variance is unknown."""
        return ("sum", "sum of squares") if self.variance is None else ("sum",)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The mean, and the variance where it is unknown."""
        return ("mean", "variance") if self.variance is None else ("mean",)

    def statistic(self, x: Reals) -> Reals:
        """The number, and its square where the variance is unknown."""
        return np.stack([x, x**2], axis=-1) if self.variance is None else x[..., None]

    def prior(
        self,
        mean: float,
        variance: float | None = None,
        *,
        records: float | None = None,
        shape: float | None = None,
        rate: float | None = None,
    ) -> NormalPrior | NormalInverseGammaPrior:
        """``prior(mean, variance)`` of the mean, or ``prior(mean, records=, shape=, rate=)`` of mean and variance."""
        if self.variance is not None and variance is not None and (records, shape, rate) == (None,) * 3:
            return NormalPrior(mean, variance)
        if self.variance is None and variance is None and None not in (records, shape, rate):
            return NormalInverseGammaPrior(mean, records, shape, rate)  # type: ignore[arg-type]
        wanted = "mean, records, shape and rate" if self.variance is None else "mean and variance"
        raise InferenceError(f"the prior of this normal family takes {wanted}")


@dataclass(frozen=True)
class Natural:
    """A user-defined family in its natural parameters: p(x) = h(x) exp(eta . t(x) - A(eta)).

    Args:
        names: Names of the statistics, which are those of the parameters eta too.
        t: t(x) of an array of records, shape (records, statistics); vectorised.
        log_base: log h(x) of an array of records.
        log_partition: A(eta) of an array of parameters, shape (problems, statistics); infinite where eta is not valid.
        support: The least and largest record.
        discrete: True if records are whole numbers.
        start: A valid eta, for the sampler to start at.

    >>> exponential = Natural(("x",), lambda x: x[..., None], np.zeros_like, lambda eta: -np.log(-eta[..., 0]),
    ...                       support=(0.0, math.inf), start=(-1.0,))
    >>> exponential.bounded
    False
    """

    names: tuple[str, ...]
    t: Callable[[Reals], Reals]
    log_base: Callable[[Reals], Reals]
    log_partition: Callable[[Reals], Reals]
    support: tuple[float, float]
    start: tuple[float, ...]
    discrete: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.names) <= 10 or len(self.start) != len(self.names):
            raise DomainError("names and start must have one entry for each statistic, ten at most")
        if not self.support[0] < self.support[1]:
            raise DomainError(f"support must increase; got {self.support!r}")
        if not np.isfinite(self.log_partition(np.array([self.start], float))).all():
            raise DomainError("log_partition must be finite at start")

    @property
    def bounded(self) -> bool:
        """True if the support is finite."""
        return math.isfinite(self.support[0]) and math.isfinite(self.support[1])

    @property
    def statistics(self) -> tuple[str, ...]:
        """Their names."""
        return self.names

    @property
    def parameters(self) -> tuple[str, ...]:
        """One natural parameter for each statistic."""
        return self.names

    def statistic(self, x: Reals) -> Reals:
        """t(x)."""
        return np.asarray(self.t(x), float)

    def prior(self, statistics: Sequence[float], records: float) -> NaturalPrior:
        """The conjugate prior equivalent to this many records whose statistics have these sums."""
        if len(statistics) != len(self.names):
            raise InferenceError(f"statistics of the prior must be {len(self.names)} numbers; got {len(statistics)}")
        return NaturalPrior(tuple(float(one) for one in statistics), records)


ExponentialFamily = Binomial | Multinomial | RateFamily | Normal | Natural


def check_prior(family: ExponentialFamily, prior: Prior) -> None:
    """Refuses a prior that belongs to another family.

    Raises:
        InferenceError: If the prior is not what ``family.prior(...)`` makes.
    """
    kinds = {Binomial: BetaPrior, Multinomial: DirichletPrior, Natural: NaturalPrior}
    kind: Any = kinds.get(type(family), GammaPrior)
    if isinstance(family, Normal):
        kind = NormalInverseGammaPrior if family.variance is None else NormalPrior
    own = getattr(prior, "concentration", getattr(prior, "statistics", family.statistics))
    if not isinstance(prior, kind) or len(own) != len(family.statistics):
        name = type(family).__name__
        raise InferenceError(f"the prior of a {name} family is family.prior(...); got {type(prior).__name__}")
