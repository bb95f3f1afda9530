"""Gibbs sampling of parameters given noisy sums of statistics, for many problems at once.

Bernstein and Sheldon 2018, Algorithms 1 (bounded statistics) and 2-3 (records outside public bounds contribute 0), in
a corrected form. The sums over records within and outside the bounds are jointly normal, with the covariance between
them that the multinomial split of the records gives; the paper treats the regions as independent, which makes the
total up to 1.2 times too uncertain (proofs.md P59). ``form="coded"`` is the paper with independent regions, as its
authors coded it, and ``"printed"`` also draws the sum within the bounds without looking at y (line 10): for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from dpgraph.inference.expfam.conjugate import (
    draw_conjugate,
    from_line,
    nearest_possible_sums,
    sums_are_possible,
    to_line,
)
from dpgraph.inference.expfam.noisy_sums import (
    Problems,
    State,
    lower_root,
    matheron,
    matrix_vector,
    moments_within_bounds,
    noise_variance,
    some_problems,
    some_states,
)
from dpgraph.inference.expfam.region_moments import region_moments
from dpgraph.inference.expfam.walk import Walk
from dpgraph.structure.expfam import Natural
from dpgraph.structure.tables import Reals

Form = Literal["corrected", "coded", "printed"]

#: Redraws of sums that no records could have, before they are projected.
REDRAWS = 20


def run_chains(
    problems: Problems,
    draws: int,
    *,
    burn_in: int,
    thin: int = 1,
    rng: np.random.Generator,
    form: Form = "corrected",
    progress: Callable[[int], None] | None = None,
) -> tuple[Reals, Reals]:
    """One chain for each problem.

    Args:
        problems: What was released, the family and the prior.
        draws: Draws kept of each chain.
        burn_in: Iterations before them, in which the random walk learns its step.
        thin: Iterations for each draw kept.
        rng: Randomness for post-processing.
        form: ``"corrected"``, ``"coded"`` or ``"printed"``.
        progress: Called with the number of each iteration.

    Returns:
        Parameters, shape (draws, B, parameters), and the n that goes with them, shape (draws, B).
    """
    state = _start(problems, rng)
    kept = np.empty((draws, *state.theta.shape))
    kept_n = np.empty((draws, len(state.n)))
    walk = Walk.start(problems, state) if form == "corrected" else None
    for i in range(burn_in + draws * thin):
        if not isinstance(problems.family, Natural):
            state = _gibbs(problems, state, rng, form)
        else:
            state = _only_noise(problems, state, rng)
        if walk is not None:
            state, walk = walk.move(problems, state, rng, learning=i < burn_in)
        if i >= burn_in and (i - burn_in) % thin == thin - 1:
            kept[(i - burn_in) // thin], kept_n[(i - burn_in) // thin] = state.theta, state.n
        if progress is not None:
            progress(i)
    return kept, kept_n


def _start(problems: Problems, rng: np.random.Generator) -> State:
    """A draw given a tenth of what was released with noise once more: spread wider than the posterior, about it."""
    n = np.maximum(problems.n, 1.0)
    tenth = np.minimum(1.0, np.maximum(0.1, 5 / n))
    if isinstance(problems.family, Natural):
        theta = np.tile(np.array(problems.family.start, float), (len(n), 1))
    else:
        jittered = problems.y + rng.laplace(size=problems.y.shape) * problems.scale
        sums = nearest_possible_sums(problems.family, jittered, n) * tenth[:, None]
        theta = draw_conjugate(problems.family, problems.prior, sums, n * tenth, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    return State(theta, 2 * problems.scale**2, np.rint(n), moments_within_bounds(problems, theta))


def _gibbs(problems: Problems, state: State, rng: np.random.Generator, form: Form) -> State:
    """Sums given parameters, parameters given sums, noise variances given sums."""
    within, total = _sums(problems, state, rng, form)
    n = state.n
    for _ in range(REDRAWS):
        bad = np.flatnonzero(~sums_are_possible(problems.family, total, n))
        if bad.size == 0:
            break
        within[bad], total[bad] = _sums(some_problems(problems, bad), some_states(state, bad), rng, form)
    theta = draw_conjugate(problems.family, problems.prior, nearest_possible_sums(problems.family, total, n), n, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    centre = moments_within_bounds(problems, theta)
    if form == "printed":
        law = n[:, None, None] * centre.covariance()
        within = n[:, None] * centre.first + matrix_vector(lower_root(law), rng.standard_normal(within.shape))
    elif form == "coded":
        within, _ = _sums(problems, State(theta, state.noise, n, centre), rng, form)
    return State(theta, noise_variance(problems.y - within, problems.scale, rng), n, centre)


def _only_noise(problems: Problems, state: State, rng: np.random.Generator) -> State:
    """For a family without a conjugate draw: noise variances given the sum within the bounds."""
    n = state.n[:, None]
    within, _ = matheron(
        problems, state, n * state.centre.first, lower_root(n[..., None] * state.centre.covariance()), None, None, rng
    )
    return State(state.theta, noise_variance(problems.y - within, problems.scale, rng), state.n, state.centre)


def _sums(problems: Problems, state: State, rng: np.random.Generator, form: Form) -> tuple[Reals, Reals]:
    """The sum within the bounds and the sum of all records, given the parameters, y and the noise variances."""
    n, centre = state.n[:, None], state.centre
    if problems.bounds is None:
        within, _ = matheron(
            problems, state, n * centre.first, lower_root(n[..., None] * centre.covariance()), None, None, rng
        )
        return within, within.copy()
    low, high = problems.bounds
    support = problems.family.support
    if form == "corrected":
        outside = region_moments(problems.family, state.theta, *support) - centre
        cross = -centre.first[:, :, None] * outside.first[:, None, :]
        joint = np.concatenate(
            [
                np.concatenate([centre.covariance(), cross], axis=2),
                np.concatenate([cross.transpose(0, 2, 1), outside.covariance()], axis=2),
            ],
            axis=1,
        )
        mean = n * np.concatenate([centre.first, outside.first], axis=1)
        d = problems.y.shape[1]
        within, beyond = matheron(
            problems,
            state,
            mean,
            lower_root(n[..., None] * joint),
            n[..., None] * centre.covariance(),
            n[..., None] * cross,
            rng,
            d,
        )
        return within, within + beyond
    below = region_moments(problems.family, state.theta, support[0], np.nextafter(low, -np.inf))
    above = region_moments(problems.family, state.theta, np.nextafter(high, np.inf), support[1])
    within, _ = matheron(
        problems, state, n * centre.first, lower_root(n[..., None] * centre.covariance()), None, None, rng
    )
    total = within.copy()
    for region in (below, above):
        law = n[..., None] * region.covariance()
        total += n * region.first + matrix_vector(lower_root(law), rng.standard_normal(total.shape))
    return within, total
