"""Draws of the hidden states of many sampler chains at once, from numpy or from compiled loops."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov import _kernels
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.markov import transition_counts
from dpgraph.structure.tables import Integers, Reals

Engine = Literal["compiled", "numpy"]


def engine(fast: bool | None) -> Engine:
    """Which loops to use: the compiled ones where numba is installed, unless ``fast`` says otherwise.

    Raises:
        ReleaseError: If ``fast`` is True and numba is not installed.
    """
    if fast is False:
        return "numpy"
    try:
        _kernels.compiled()
    except ImportError:
        if fast:
            raise ReleaseError("fast=True needs numba; install dpgraph[fast]") from None
        return "numpy"
    return "compiled"


def draw_blocked(log_emission: Reals, transition: Reals, rng: np.random.Generator, loops: Engine) -> Integers:
    """``draw_filtered`` from log P(cell | state), shape (copies, chains, steps, states)."""
    return draw_filtered(relative(log_emission), transition, rng, loops)


def draw_filtered(likelihood: Reals, transition: Reals, rng: np.random.Generator, loops: Engine) -> Integers:
    """Whole chains of states given the transitions, shape (copies, chains, steps).

    Args:
        likelihood: P(cell | state) over its largest value in the cell, shape (copies, chains, steps, states).
        transition: Shape (copies, states, states), every entry above 0.
        rng: One uniform number for each cell is taken.
        loops: Compiled loops, or numpy over all copies and chains at once; the draws are the same.
    """
    uniforms = rng.random(likelihood.shape[:3])
    if loops == "numpy":
        return filter_backward(likelihood, transition, uniforms)
    states = np.empty(uniforms.shape, np.int64)
    for c in range(len(states)):
        _kernels.compiled()[0](likelihood[c], transition[c], uniforms[c], states[c])
    return states


def relative(log_emission: Reals) -> Reals:
    """Likelihoods over the largest of each cell: logs end here, where nothing can overflow or vanish altogether."""
    top = log_emission[..., 0].copy()
    for k in range(1, log_emission.shape[-1]):
        np.maximum(top, log_emission[..., k], out=top)
    return np.exp(log_emission - top[..., None])


def filter_backward(weight: Reals, transition: Reals, uniforms: Reals) -> Integers:
    """``_kernels.blocked`` for many copies and chains at once, a time step at a time."""
    steps = weight.shape[2]
    filtered = np.empty_like(weight)
    for t in range(steps):
        here = weight[:, :, t] if t == 0 else (filtered[:, :, t - 1] @ transition) * weight[:, :, t]
        filtered[:, :, t] = here / here.sum(axis=2, keepdims=True)
    states = np.empty(uniforms.shape, np.int64)
    states[:, :, -1] = _picked(filtered[:, :, -1], uniforms[:, :, -1])
    copies = np.arange(len(states))[:, None]
    onward = np.ascontiguousarray(np.swapaxes(transition, 1, 2))
    for t in range(steps - 2, -1, -1):
        states[:, :, t] = _picked(filtered[:, :, t] * onward[copies, states[:, :, t + 1]], uniforms[:, :, t])
    return states


def _picked(weight: Reals, uniforms: Reals) -> Integers:
    """For each row of weights the index that its uniform number picks."""
    below = np.cumsum(weight, axis=-1)
    return (below[..., :-1] <= (uniforms * below[..., -1])[..., None]).sum(axis=-1)


def draw_collapsed(
    log_emission: Reals, states: Integers, concentration: float, rng: np.random.Generator, loops: Engine
) -> Integers:
    """One sweep over single states with the transitions integrated out; shapes as for ``draw_blocked``."""
    kernel = _kernels.collapsed if loops == "numpy" else _kernels.compiled()[1]
    likelihood, uniforms, new = relative(log_emission), rng.random(states.shape), states.copy()
    moves = transition_counts(states, log_emission.shape[3])
    for c in range(len(new)):
        kernel(likelihood[c], concentration, uniforms[c], new[c], moves[c])
    return new


def draw_rows(concentration: npt.NDArray[Any], rng: np.random.Generator) -> Reals:
    """Dirichlet draws along the last axis, every entry above 0."""
    drawn = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return np.maximum(drawn / drawn.sum(axis=-1, keepdims=True), 1e-300)
