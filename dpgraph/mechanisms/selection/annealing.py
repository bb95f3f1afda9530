"""Barker's Metropolis step and annealed importance sampling, as functions of a log density; their costs stand apart.

Foulds et al. 2016, section 4, name both for models without Gibbs updates; the supplement with their derivation is not
available, so this follows proofs.md P42 and P43. Nothing here charges: run on rows, a step costs
``private_gibbs.barker_cost``, a path ``annealed_cost``, and the weight is private until noise is added to it
(``annealed_weight_sensitivity``). Acceptance is decided in floating point, so that cost holds for real numbers, as of
``PosteriorSample(idealized_numerics=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from dpgraph.mechanisms.selection.private_gibbs import barker_acceptance
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import ReleaseError

State = TypeVar("State")
LogDensity = Callable[[State], float]
Proposal = Callable[[State, Noise], State]


def barker_step(
    noise: Noise, state: State, log_density: LogDensity[State], propose: Proposal[State]
) -> tuple[State, bool]:
    """One Metropolis step with Barker's acceptance: a proposal is taken with probability 1 / (1 + exp(-l)).

    l is ln density(proposed) - ln density(state); for the cost of ``barker_cost`` the density is
    p(theta) p(rows | theta), truncated so that a row moves ln p(row | theta) by at most Delta. Where the rows decide
    between min(1, exp(l)) and a rejection, plain Metropolis, a rejection can be impossible for one data set and not
    for its neighbour (``private_gibbs``); here both answers always are possible.

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
