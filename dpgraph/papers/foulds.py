"""Markov chain Monte Carlo on private rows: the cost of updates, Barker's step, annealed importance sampling.

Foulds et al. 2016, section 4.1, let a sampler read the rows at every update and publish its state. Proofs, and where
the paper is wrong (plain Metropolis, a discount for a random scan): proofs.md P41 to P43. The costs read no rows;
``barker_step`` and ``annealed_path`` charge nothing: run on rows, a step costs ``barker_cost``, a path
``annealed_cost``, for real numbers: acceptance is decided in floating point.

The last state of a chain is not a posterior sample. ``PosteriorSample`` draws exactly instead, and noise on the
statistics (``LaplaceMechanism``) is charged once.

Throughout, neighbours replace one row, Delta is ``sensitivity``, the largest |ln p(x | theta) - ln p(x' | theta)| over
rows x, x' and parameters theta, such as ``lipschitz_constant``, times r for r rows a person, and the state before an
update is public, as is the proposal. Adding or removing a row is not covered: the state shows n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.composition import SUMS, basic, summed_cost
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import rounded
from dpgraph.privacy.noise import Noise, exp_bounds
from dpgraph.privacy.records import Event, Number, PrivacyCost, exact, exact_delta

State = TypeVar("State")
LogDensity = Callable[[State], float]
Proposal = Callable[[State, Noise], State]
#: Above this epsilon exp(epsilon) times any distance that is a float exceeds 1; digits of exp below it.
_VACUOUS, _DIGITS = 750, 400


def gibbs_update_cost(sensitivity: Number) -> PrivacyCost:
    """The cost of one Gibbs update of a parameter: epsilon = 2 Delta (Foulds et al. 2016, equations 18 to 20).

    Raises:
        ReleaseError: If the sensitivity is not a finite number above 0.

    >>> print(gibbs_update_cost("0.25"))
    epsilon 0.5 (pure)
    """
    return PrivacyCost(2 * exact(sensitivity, "sensitivity"))


def gibbs_sweep_cost(sensitivities: Iterable[Number]) -> PrivacyCost:
    """The cost of one pass over latent variables z_i that each read row i alone: the cost of its dearest update.

    Foulds et al. 2016, section 4.1, by parallel composition. It fails where other updates read the row as well, or a
    replaced row may move to another latent variable, as an entry of a log may to another cell.

    Args:
        sensitivities: Delta of each latent variable's update.

    Raises:
        ReleaseError: If there are none, or one is not a finite number above 0.

    >>> print(gibbs_sweep_cost(["0.25"] * 1000))
    epsilon 0.5 (pure)
    """
    deltas = [exact(one, "sensitivity") for one in sensitivities]
    if not deltas:
        raise ReleaseError("sensitivities must name at least one latent variable; got none")
    return PrivacyCost(2 * max(deltas))


def random_scan_cost(sensitivity: Number, latents: int) -> PrivacyCost:
    """The cost of updating one latent variable picked at random among N: epsilon = 2 Delta, whatever N is.

    Foulds et al. 2016, section 4.1, claim ln(1 + (e^epsilon - 1) / N) by amplification. That needs the pick to be
    secret, and the new state, which is public, shows it.

    Raises:
        ReleaseError: If ``latents`` is not a whole number of at least 1, or the sensitivity not a number above 0.

    >>> print(random_scan_cost("0.25", 10))
    epsilon 0.5 (pure)
    """
    check_whole("latents", latents)
    return gibbs_update_cost(sensitivity)


def composed_cost(update: PrivacyCost, updates: int, delta: Number = 0) -> PrivacyCost:
    """The cost of T updates at the same pure epsilon: the least of basic, advanced and zCDP composition at delta.

    At delta 0 it is T epsilon. A Gibbs update and Barker's acceptance are bounded-range, so each is
    epsilon^2 / 8-zCDP (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021).

    Raises:
        ReleaseError: If the update has a delta, T is not a whole number of at least 1, or delta is out of range.

    >>> step = PrivacyCost(Fraction(1, 10))
    >>> print(composed_cost(step, 100), "|", round(float(composed_cost(step, 100, "1e-6").epsilon), 2))
    epsilon 10 (pure) | 2.42
    """
    check_whole("updates", updates)
    if update.delta:
        raise ReleaseError(f"an update must have a pure cost; got {update}")
    slack = exact_delta(delta)
    events = [Event("an update of private Gibbs sampling", update.epsilon, rho=update.epsilon**2 / 8)] * updates
    if slack == 0:
        return basic(events)
    found = (advanced(update.epsilon, updates, slack), summed_cost(SUMS["zcdp"], events, slack))
    return min(basic(events), *found, key=lambda cost: cost.epsilon)


def advanced(epsilon: Fraction, updates: int, delta: Fraction) -> PrivacyCost:
    """The advanced composition of Dwork, Rothblum and Vadhan 2010, Theorem III.3, as Foulds et al. use it (section 4).

    The epsilon is sqrt(2 T ln(1 / delta)) epsilon + T epsilon (exp(epsilon) - 1), rounded up: each privacy loss lies in
    [-epsilon, epsilon] and has a mean of at most epsilon (exp(epsilon) - 1); the rest is Azuma's inequality.

    >>> round(float(advanced(Fraction(1, 10), 100, Fraction(1, 10**6)).epsilon), 2)
    6.31
    """
    one, depth = float(epsilon), math.log(delta.denominator) - math.log(delta.numerator)
    if one > 700:
        return PrivacyCost(updates * epsilon, delta)
    found = math.sqrt(2 * depth * updates) * one + updates * one * math.expm1(one)
    return PrivacyCost(rounded(Fraction(found) * (1 + Fraction(1, 10**13)), up=True), delta)


def barker_acceptance(log_ratio: npt.ArrayLike) -> Reals:
    """Barker's probability of accepting, 1 / (1 + exp(-l)), l the log Metropolis-Hastings ratio."""
    from scipy.special import expit

    return expit(np.asarray(log_ratio, np.float64))


def barker_cost(sensitivity: Number) -> PrivacyCost:
    """The cost of one Metropolis step with Barker's acceptance: epsilon = 2 Delta.

    Its log odds of accepting move by at most 2 Delta (proofs.md P42). Plain acceptance has no guarantee.

    >>> print(barker_cost("0.25"))
    epsilon 0.5 (pure)
    """
    return PrivacyCost(2 * exact(sensitivity, "sensitivity"))


def approximate_sample_cost(sample: PrivacyCost, distance: Number) -> PrivacyCost:
    """The cost of a sampler close to a private one: the same epsilon, and (1 + exp(epsilon)) distance of delta.

    Foulds et al. 2016, Proposition 3, at half of the delta of Wang, Fienberg and Smola 2015, whose distance is twice
    the total variation (proofs.md P83).

    Args:
        sample: The cost of a draw from the private law itself, such as epsilon of ``PosteriorSample``; a delta of its
            own is added.
        distance: The largest total variation distance, 1/2 sum |p - q|, between the sampler's law and the private
            one, over all data sets: proved, as no diagnostic of a chain bounds it.

    Returns:
        The cost; delta is rounded up to twelve digits.

    Raises:
        ReleaseError: If the distance is negative or not a number, or delta reaches 1, where nothing is promised.

    >>> print(approximate_sample_cost(PrivacyCost(Fraction(1)), "1e-7"))
    epsilon 1 and delta 3.71828e-07
    >>> print(approximate_sample_cost(PrivacyCost(Fraction(1)), 0))
    epsilon 1 (pure)
    """
    far = exact(distance, "distance", zero=True)
    if far == 0:
        return sample
    if sample.epsilon < _VACUOUS:
        delta = sample.delta + (1 + exp_bounds(sample.epsilon, _DIGITS)[1]) * far
        if delta < 1 and (found := rounded(delta, up=True)) < 1:
            return PrivacyCost(sample.epsilon, found)
    said = f"a sampler within {float(far):g} of one at epsilon {float(sample.epsilon):g}"
    raise ReleaseError(f"{said} has a delta of 1: it promises nothing")


def annealed_cost(sensitivity: Number, powers: Iterable[Number]) -> PrivacyCost:
    """The cost of a path of annealed importance sampling: the sum of 2 beta_t Delta over its updates, exact.

    Named in section 4 of Foulds et al. 2016; derived in proofs.md P43. The path alone is paid for: see
    ``annealed_weight_sensitivity``.

    Args:
        sensitivity: Delta.
        powers: beta_t of each update, at least 0; an update made k times is listed k times.

    Raises:
        ReleaseError: If a power is negative or not a number.

    >>> print(annealed_cost(1, ["0", "0.5", "1"]))
    epsilon 3 (pure)
    """
    return PrivacyCost(2 * exact(sensitivity, "sensitivity") * sum(_powers(powers), Fraction(0)))


def annealed_weight_sensitivity(sensitivity: Number, powers: Iterable[Number]) -> Fraction:
    """How far one row moves the log importance weight of a published path: Delta times the sum of |beta_t - beta_t-1|.

    From 0 up to 1 it is Delta. A weight is released with Laplace noise of scale Delta / epsilon, on a grid and charged
    beside the path, or not at all.

    Args:
        sensitivity: Delta.
        powers: beta_0, beta_1, ... in the order of the path.

    Raises:
        ReleaseError: If a power is negative or not a number.

    >>> annealed_weight_sensitivity("1.5", ["0", "0.5", "1"])
    Fraction(3, 2)
    """
    return exact(sensitivity, "sensitivity") * sum((abs(b - a) for a, b in pairwise(_powers(powers))), Fraction(0))


def barker_step(
    noise: Noise, state: State, log_density: LogDensity[State], propose: Proposal[State]
) -> tuple[State, bool]:
    """One Metropolis step with Barker's acceptance: a proposal is taken with probability 1 / (1 + exp(-l)).

    l is ln density(proposed) - ln density(state); for the cost of ``barker_cost`` the density is
    p(theta) p(rows | theta), truncated so that a row moves ln p(row | theta) by at most Delta.

    Args:
        noise: The randomness.
        state: Where the chain is; public.
        log_density: Up to a constant; -inf where the density is 0. A public region must not depend on the rows.
        propose: A symmetric proposal, ``propose(state, noise)``; it reads no row.

    Returns:
        The next state, and whether it is the proposed one.

    Raises:
        ReleaseError: If the density of the state is 0 or not a number.
    """
    here = float(log_density(state))
    if not np.isfinite(here):
        raise ReleaseError("a step must start where the density is above 0")
    proposed = propose(state, noise)
    there = float(log_density(proposed))
    accept = (noise.bits(64) + 0.5) / 2.0**64 < float(barker_acceptance(there - here))
    return (proposed, True) if accept else (state, False)


@dataclass(frozen=True)
class AnnealedPath(Generic[State]):
    """A path from the prior to the posterior, theta_0 to theta_T-1, and its log importance weight.

    The states cost ``annealed_cost``. The log weight contains ln p(rows | theta) itself: it is as private as the rows.
    """

    states: tuple[State, ...]
    log_weight: float


def annealed_path(
    noise: Noise,
    start: State,
    powers: Sequence[float],
    *,
    log_prior: LogDensity[State],
    log_likelihood: LogDensity[State],
    propose: Proposal[State],
    steps: int = 1,
) -> AnnealedPath[State]:
    """Annealed importance sampling (Neal 2001), its updates by ``barker_step``.

    With powers beta_0 = 0 < ... < beta_T the state theta_0 is ``start``, a draw from the prior, and theta_t comes from
    theta_t-1 by steps that leave p(theta) p(rows | theta)^beta_t as it is, t < T. The log weight is
    sum_t (beta_t - beta_t-1) ln p(rows | theta_t-1), and the mean of the weights is p(rows) exactly.

    Args:
        noise: The randomness.
        start: A draw from the prior.
        powers: From 0 to 1, increasing.
        log_prior: ln p(theta), up to a constant.
        log_likelihood: ln p(rows | theta).
        propose: As of ``barker_step``.
        steps: Barker steps at each power; each is charged.

    Raises:
        ReleaseError: If the powers do not increase from 0 to 1, or ``steps`` is below 1.

    >>> from dpgraph.privacy.seeded_noise import SeededNoise
    >>> flat = dict(log_prior=lambda x: 0.0, log_likelihood=lambda x: -2.0, propose=lambda x, noise: noise.bits(1))
    >>> annealed_path(SeededNoise(1), 0, [0, 0.5, 1], **flat).log_weight
    -2.0
    """
    if len(powers) < 2 or powers[0] != 0 or powers[-1] != 1 or any(not a < b for a, b in pairwise(powers)):
        raise ReleaseError(f"powers must increase from 0 to 1; got {list(powers)!r}")
    check_whole("steps", steps)
    states, log_weight, state = [start], 0.0, start
    for i, (before, power) in enumerate(pairwise(powers)):
        log_weight += (power - before) * float(log_likelihood(state))
        if i == len(powers) - 2:
            break
        for _ in range(steps):
            state, _ = barker_step(noise, state, lambda x, b=power: log_prior(x) + b * log_likelihood(x), propose)
        states.append(state)
    return AnnealedPath(tuple(states), log_weight)


def _powers(powers: Iterable[Number]) -> list[Fraction]:
    return [exact(beta, "a power", zero=True) for beta in powers]
