"""The exact privacy loss of any mechanism between two data sets, from the calls it makes to its noise source.

Run it on both with the same answers (``RecordingNoise``). If it makes the same calls with the same laws in the same
order and releases the same value, the inputs of its calls are all that the rows decide, and the largest log ratio of
the probabilities of any release is a sum over the calls, of inputs s and s' and a scale b:

* Laplace noise, independent or sum-zero: ||s - s'||_1 / b, attained by the release s;
* a selection: the range over the candidates of s - s', over b, which other rows can approach arbitrarily closely.

Nothing is private here: it is for tests, and the release path never imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.recording_noise import NoiseCall, RecordingNoise
from dpgraph.privacy.records import Event, PrivacyUnit, ReleaseError, SumZeroLaplace
from dpgraph.privacy.release import Mechanism, release


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of a release between two data sets.

    Attributes:
        epsilon: The largest log ratio of any release; infinite where Gaussian noise covers a difference.
        rho: A bound on the zero-concentrated loss, exact for Gaussian noise.
        event: The mechanism's claim.
    """

    epsilon: Fraction | float
    rho: Fraction
    event: Event

    @property
    def share(self) -> Fraction | float:
        """The loss over the claim: of rho where the claim has a delta, else of epsilon. Above 1 the claim is false."""
        if self.event.delta == 0:
            return self.epsilon / self.event.epsilon
        return self.rho / self.event.rho if self.event.rho else math.inf


def privacy_loss(
    mechanism: Mechanism[Any, Any], one: Any, other: Any, *, unit: PrivacyUnit | None = None, scripts: int = 1
) -> PrivacyLoss:
    """The exact privacy loss of a mechanism, of the package or of your own, between two data sets; not private itself.

    A loss above the claim for any two neighbours proves the claim false. The reverse needs all neighbours: enumerate
    small data sets, as ``tests/contract`` does for every mechanism here, and prove the sensitivity.

    >>> import pandas as pd
    >>> from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    >>> from dpgraph.statistics.counts import count
    >>> from dpgraph.structure.network import Network
    >>> coin = Network.of({"side": ["head", "tail"]}, {})
    >>> one, other = (count(pd.DataFrame({"side": [side]}), coin) for side in ("head", "tail"))
    >>> privacy_loss(LaplaceMechanism("0.5"), one, other).epsilon
    Fraction(1, 2)
    """
    found: list[PrivacyLoss] = []
    for script in range(scripts):
        noises = RecordingNoise(script), RecordingNoise(script)
        budgets = (Budget(10**9, "0.999", unit=unit) for _ in noises)
        releases = [
            release(rows, mechanism, budget=budget, noise=noise)
            for rows, budget, noise in zip((one, other), budgets, noises, strict=True)
        ]
        epsilon, rho = loss_of_calls(noises[0].calls, noises[1].calls)
        if not same_value(releases[0].value, releases[1].value):
            raise ReleaseError("the same answers of the noise source give two releases: the rows show past the noise")
        found.append(PrivacyLoss(epsilon, rho, releases[0].event))
    return max(found, key=lambda loss: (loss.epsilon, loss.rho))


def loss_of_calls(one: Iterable[NoiseCall], other: Iterable[NoiseCall]) -> tuple[Fraction | float, Fraction]:
    """Epsilon and rho between two records of noise calls."""
    epsilon, rho = Fraction(0), Fraction(0)
    pure = True
    for number, (a, b) in enumerate(zip_longest(one, other), start=1):
        check_same_call(number, a, b)
        differences = a.inputs - b.inputs
        epsilon += Fraction(np.asarray(a.moved(differences)).item()) / a.scale
        rho += Fraction(np.asarray(a.moved_squared(differences)).item()) / (8 * a.scale**2)
        pure = pure and (a.pure or not differences.any())
    return epsilon if pure else math.inf, rho


def check_same_call(number: int, one: NoiseCall | None, other: NoiseCall | None) -> None:
    """Refuses two noise calls that differ in anything but their inputs."""
    if one is None or other is None or (one.kind, one.public) != (other.kind, other.public):
        raise ReleaseError(f"noise call {number} depends on the rows: its law, its shape, or whether it is made")
    if isinstance(one.public[0], SumZeroLaplace) and one.inputs.sum() != other.inputs.sum():
        raise ReleaseError(f"noise call {number} sums to zero and shows a total, which differs between the data sets")


def same_value(one: Any, other: Any) -> bool:
    """True if two values are equal in every part; dataclasses, mappings and arrays are compared by content."""
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        return all(
            same_value(getattr(one, part.name), getattr(other, part.name)) for part in fields(one) if part.compare
        )
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)
