"""Conjugate priors of the exponential families: frozen hyperparameters, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from dpgraph.privacy.checks import is_number
from dpgraph.privacy.records import InferenceError


def _check(prior: object, free: tuple[str, ...] = ()) -> None:
    """Refuses hyperparameters that are not finite numbers, or not above 0 where they must be."""
    for one in fields(prior):  # type: ignore[arg-type]
        value = getattr(prior, one.name)
        values = value if isinstance(value, tuple) else (value,)
        for number in values:
            if not is_number(number) or not math.isfinite(number):
                raise InferenceError(f"{one.name} of the prior must be finite; got {value!r}")
            if one.name not in free and number <= 0:
                raise InferenceError(f"{one.name} of the prior must be above 0; got {value!r}")


@dataclass(frozen=True)
class BetaPrior:
    """The prior of a probability: density proportional to p^(alpha - 1) (1 - p)^(beta - 1)."""

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class DirichletPrior:
    """The prior of the probabilities of categories: density proportional to prod_k p_k^(concentration_k - 1)."""

    concentration: tuple[float, ...]

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class GammaPrior:
    """The prior of a rate: density proportional to r^(shape - 1) exp(-rate r); its mean is shape / rate."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class NormalPrior:
    """The prior of a mean, for data of known variance: normal with this mean and variance."""

    mean: float
    variance: float

    def __post_init__(self) -> None:
        _check(self, free=("mean",))


@dataclass(frozen=True)
class NormalInverseGammaPrior:
    """The prior of a mean and a variance: 1/variance is Gamma(shape, rate), and the mean is normal about ``mean``.

    The mean's variance is that of the data divided by ``records``, so the prior is worth as many records.
    """

    mean: float
    records: float
    shape: float
    rate: float

    def __post_init__(self) -> None:
        _check(self, free=("mean",))


@dataclass(frozen=True)
class NaturalPrior:
    """The prior of natural parameters: density proportional to exp(statistics . eta - records A(eta)).

    It is worth as many imagined records as ``records``, whose statistics sum to ``statistics`` (Diaconis and Ylvisaker
    1979).
    """

    statistics: tuple[float, ...]
    records: float

    def __post_init__(self) -> None:
        _check(self, free=("statistics",))


Prior = BetaPrior | DirichletPrior | GammaPrior | NormalPrior | NormalInverseGammaPrior | NaturalPrior
