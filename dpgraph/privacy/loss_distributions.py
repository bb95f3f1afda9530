"""Numerical composition: the price of a list of events that was fixed beforehand, by dp-accounting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpgraph.privacy.composition import LONGEST, Shift, basic, rho_of, shifts, sum_zero_loss
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    PrivacyCost,
    ReleaseError,
    SumZeroLaplace,
    rounded,
)


def numerical(events: Sequence[Event], delta: Fraction) -> PrivacyCost:
    """Composes privacy loss distributions, each rounded up to a grid fine enough for all of them together.

    The losses of Gaussian noise are spread between grid points ("connect the dots") and need no finer grid when there
    are many; the few losses of other noise are rounded up to the next point each.
    """
    try:
        from dp_accounting.pld import privacy_loss_distribution as library
        from dp_accounting.pld.common import DifferentialPrivacyParameters
    except ImportError:
        raise ReleaseError("method='pld' needs dp-accounting: pip install 'dpgraph[pld]'") from None
    opened, claims = Counter[Shift](), Counter[tuple[Fraction, Fraction]]()
    for event in events:
        met = shifts(event)
        opened.update(met)
        if not met:
            claims[event.epsilon, event.delta] += 1
    rounded_up = claims.total() + sum(n for met, n in opened.items() if not isinstance(met.law, DiscreteGaussian))
    grid = min(1e-4, max(1e-4 / max(1, rounded_up), float(basic(events).epsilon) / 1_000_000))
    whole: Any = library.identity(grid)
    for met, times in opened.items():
        whole = whole.compose(_distribution(library, met, grid).self_compose(times))
    for (epsilon, own), times in claims.items():
        claim = DifferentialPrivacyParameters(math.nextafter(float(epsilon), math.inf), float(own))
        whole = whole.compose(library.from_privacy_parameters(claim, grid).self_compose(times))
    found = min(whole.get_epsilon_for_delta(float(delta) * (1 - 1e-12)), _by_rhos(events, delta))
    plain = basic(events)
    if plain.delta <= delta and plain.epsilon <= found:
        return PrivacyCost(plain.epsilon, delta)
    if found == math.inf:
        raise ReleaseError(f"the events' own deltas leave nothing of delta {float(delta):g}")
    return PrivacyCost(rounded(found, up=True), delta)


def _by_rhos(events: Sequence[Event], delta: Fraction) -> Fraction | float:
    """The epsilon of the sum of rhos, lower where many small losses were rounded up; infinite without a rho."""
    rhos = [rho for event in events if (rho := rho_of(event)) is not None]
    if len(rhos) < len(events) or not rhos:
        return math.inf
    try:
        return epsilon_of_rho(sum(rhos, Fraction(0)), delta)
    except ReleaseError:
        return math.inf


def _distribution(library: Any, met: Shift, grid: float) -> Any:
    """The privacy loss distribution of one shifted draw of noise.

    A discrete Laplace coordinate shifted by one is exactly randomised response at 1 / scale: the loss is +-1 / scale.
    For noise that sums to zero and a row that moves between two cells the loss is 2 / scale with probability a,
    -2 / scale with exp(-2 / scale) a, else 0. Where only the log ratio is bounded it is taken to be randomised
    response, which is the worst case.
    """
    law, distance = met.law, met.distance
    if isinstance(law, DiscreteGaussian):
        return library.from_discrete_gaussian_mechanism(
            law.scale, sensitivity=distance, value_discretization_interval=grid, use_connect_dots=True
        )
    if isinstance(law, DiscreteLaplace) and 1 < distance <= LONGEST:
        return library.from_discrete_laplace_mechanism(
            1 / law.scale, sensitivity=distance, value_discretization_interval=grid
        )
    loss = float(law.epsilon(distance) or 0)
    high = 1 / (1 + math.exp(-loss))
    if isinstance(law, SumZeroLaplace) and distance == 2:
        high = sum_zero_loss(law.scale, met.cells)
    low = high * math.exp(-loss)
    masses = {1: high, -1: low} | ({0: 1 - high - low} if high + low < 1 - 1e-12 else {})
    upper = {outcome: math.log(mass) for outcome, mass in masses.items()}
    lower = {outcome: upper[-outcome] for outcome in upper}
    return library.from_two_probability_mass_functions(lower, upper, value_discretization_interval=grid)
