"""The inner loops over hidden states, and the compiler of these and of ``loops``: arrays in, arrays out.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov import effects, loops

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def picked(below: Reals, uniform: float) -> int:
    """The index that a uniform number picks, given the running sums of the weights; no branch to mispredict."""
    last = below.size - 1
    threshold, index = uniform * below[last], 0
    for k in range(last):
        index += below[k] <= threshold
    return index


def blocked(likelihood: Reals, transition: Reals, uniforms: Reals, states: Integers) -> None:
    """Draws whole chains given the transitions: filters forward, samples backward; the first state is uniform.

    Args:
        likelihood: P(cell | state) over its largest value in the cell, shape (chains, steps, states).
        transition: Rows sum to 1, every entry above 0, shape (states, states).
        uniforms: Shape (chains, steps).
        states: Overwritten, shape (chains, steps).
    """
    chains, steps, size = likelihood.shape
    filtered, weight, last = np.empty((steps, size)), np.empty(size), np.empty(size)
    onward = np.ascontiguousarray(transition.T)
    for r in range(chains):
        for t in range(steps):
            weight[:] = 1.0 if t == 0 else 0.0
            if t > 0:
                for j in range(size):
                    share = last[j]
                    for k in range(size):
                        weight[k] += share * transition[j, k]
            total = 0.0
            for k in range(size):
                weight[k] *= likelihood[r, t, k]
                total += weight[k]
            scale = 1.0 / total
            for k in range(size):
                last[k] = weight[k] * scale
                filtered[t, k] = last[k]
        after = -1
        for t in range(steps - 1, -1, -1):
            total = 0.0
            for k in range(size):
                total += filtered[t, k] if after < 0 else filtered[t, k] * onward[after, k]
                weight[k] = total
            after = picked(weight, uniforms[r, t])
            states[r, t] = after


def collapsed(likelihood: Reals, concentration: float, uniforms: Reals, states: Integers, moves: Integers) -> None:
    """Draws each state in turn with the transition matrix integrated out (Foulds et al. 2016; proofs.md P62).

    Args:
        likelihood: As for ``blocked``.
        concentration: The Dirichlet concentration of every transition.
        uniforms: Shape (chains, steps).
        states: Updated in place, shape (chains, steps).
        moves: How often each transition occurs in ``states``, kept up to date, shape (states, states).
    """
    chains, steps, size = likelihood.shape
    leaving, weight = moves.sum(axis=1), np.empty(size)
    for r in range(chains):
        for t in range(steps):
            old = states[r, t]
            before = states[r, t - 1] if t > 0 else -1
            after = states[r, t + 1] if t < steps - 1 else -1
            if before >= 0:
                moves[before, old] -= 1
                leaving[before] -= 1
            if after >= 0:
                moves[old, after] -= 1
                leaving[old] -= 1
            total = 0.0
            for k in range(size):
                value = likelihood[r, t, k]
                if before >= 0:
                    value *= moves[before, k] + concentration
                if after >= 0:
                    here = 1 if before == k else 0
                    both = 1 if before == k and after == k else 0
                    value *= moves[k, after] + both + concentration
                    value /= leaving[k] + here + size * concentration
                total += value
                weight[k] = total
            new = picked(weight, uniforms[r, t])
            states[r, t] = new
            if before >= 0:
                moves[before, new] += 1
                leaving[before] += 1
            if after >= 0:
                moves[new, after] += 1
                leaving[new] += 1


def dirichlet(rng: np.random.Generator, totals: Reals, prior: float, law: Reals) -> None:
    """Overwrites ``law`` by a draw from Dirichlet(totals + prior), every entry above 0."""
    whole = 0.0
    for v in range(totals.size):
        law[v] = max(rng.standard_gamma(totals[v] + prior), 1e-300)
        whole += law[v]
    for v in range(totals.size):
        law[v] = max(law[v] / whole, 1e-300)


def transitions_of(states: Integers, size: int) -> Integers:
    """How often each transition occurs, shape (states, states)."""
    moves = np.zeros((size, size), np.int64)
    for r in range(states.shape[0]):
        for t in range(1, states.shape[1]):
            moves[states[r, t - 1], states[r, t]] += 1
    return moves


def sampled_states(
    rng: np.random.Generator, likelihood: Reals, states: Integers, transition: Reals, prior: float,
    single_states: bool,
) -> None:  # fmt: skip
    """Draws all states by ``collapsed`` or by ``blocked``."""
    uniforms = rng.random(states.shape)
    if single_states:
        collapsed(likelihood, prior, uniforms, states, transitions_of(states, likelihood.shape[2]))
    else:
        blocked(likelihood, transition, uniforms, states)


def states_alone(
    rng: np.random.Generator, likelihood: Reals, states: Integers, transition: Reals, prior: float,
    single_states: bool,
) -> None:  # fmt: skip
    """Draws states, then transitions, as ``gibbs`` does; emissions stay as they are."""
    sampled_states(rng, likelihood, states, transition, prior, single_states)
    moves = transitions_of(states, transition.shape[0]).astype(np.float64)
    for k in range(transition.shape[0]):
        dirichlet(rng, moves[k], prior, transition[k])


def gibbs(
    rng: np.random.Generator, likelihood: Reals, counts: npt.NDArray[Any], edges: Integers, states: Integers,
    transition: Reals, emissions: Reals, priors: tuple[float, float], single_states: bool,
) -> None:  # fmt: skip
    """A whole sweep given the cells: states, then transitions, then emissions.

    Args:
        rng: Randomness for post-processing.
        likelihood: As for ``blocked``.
        counts: The tables of the cells, shape (chains x steps, columns).
        edges: Where each field's columns start, and the end, shape (fields + 1,).
        states: Overwritten, shape (chains, steps).
        transition: Overwritten, shape (states, states).
        emissions: Overwritten, shape (states, columns).
        priors: The Dirichlet concentrations of transitions and of emissions.
        single_states: Whether states are drawn one by one as ``collapsed`` does, or by chains as ``blocked`` does.
    """
    sampled_states(rng, likelihood, states, transition, priors[0], single_states)
    laws_given_states(rng, counts, edges, states, transition, emissions, priors)


def laws_given_states(
    rng: np.random.Generator, counts: npt.NDArray[Any], edges: Integers, states: Integers, transition: Reals,
    emissions: Reals, priors: tuple[float, float],
) -> None:  # fmt: skip
    """Transitions, then emissions, given states and tables."""
    chains, steps, size = states.shape[0], states.shape[1], transition.shape[0]
    moves, totals = transitions_of(states, size).astype(np.float64), np.zeros(emissions.shape)
    for r in range(chains):
        for t in range(steps):
            for w in range(emissions.shape[1]):
                totals[states[r, t], w] += counts[r * steps + t, w]
    for k in range(size):
        dirichlet(rng, moves[k], priors[0], transition[k])
        for f in range(edges.size - 1):
            a, b = edges[f], edges[f + 1]
            dirichlet(rng, totals[k, a:b], priors[1], emissions[k, a:b])


def relative(counts: Integers, laws: Reals, states: Integers, likelihood: Reals) -> None:
    """P(cell | state) over its largest value in the cell, from the logs of emissions, shape (chains, steps, states)."""
    size, width = laws.shape
    for i in range(counts.shape[0]):
        r, t = i // states.shape[1], i % states.shape[1]
        for k in range(size):
            likelihood[r, t, k] = 0.0
        entries = 0
        for w in range(width):
            if counts[i, w] > 0:
                entries += 1
                for k in range(size):
                    likelihood[r, t, k] += counts[i, w] * laws[k, w]
        top = likelihood[r, t].max() if entries > 0 else 0.0
        for k in range(size):
            likelihood[r, t, k] = math.exp(likelihood[r, t, k] - top) if entries > 0 else 1.0


def given_tables(
    rng: np.random.Generator, counts: Integers, edges: Integers, states: Integers, transition: Reals, emissions: Reals,
    priors: tuple[float, float], single_states: bool, keep_states: bool,
) -> None:  # fmt: skip
    """``gibbs`` where the likelihood is that of the tables; states may be left to ``loops.switch``."""
    if not keep_states:
        likelihood = np.empty((*states.shape, transition.shape[0]))
        relative(counts, np.log(emissions), states, likelihood)
        sampled_states(rng, likelihood, states, transition, priors[0], single_states)
    laws_given_states(rng, counts, edges, states, transition, emissions, priors)


def log_joint(
    cells: loops.Cells, states: Integers, transition: Reals, laws: Reals, rates: tuple[float, float]
) -> float:  # fmt: skip
    """ln P(released, tables, states | parameters) of the observed cells, up to a constant.

    Args:
        cells: The sampler chain.
        states: Shape (chains, steps).
        transition: Shape (states, states).
        laws: The emissions of each state, or of each sequence and state.
        rates: The Beta law of rates of entries; that of a chain with one observed cell is integrated out.
    """
    chains, steps, size = states.shape[0], states.shape[1], transition.shape[0]
    log_law, log_move = np.log(laws), np.log(transition)
    factorial, alone = np.zeros(256), np.empty(chains, np.bool_)
    for n in range(2, factorial.size):
        factorial[n] = factorial[n - 1] + math.log(n)
    loops.alone_in_chain(cells.observed, alone)
    total = 0.0
    for i in range(chains * steps):
        r, t = i // steps, i % steps
        if t > 0:
            total += log_move[states[r, t - 1], states[r, t]]
        if not cells.observed[i]:
            continue
        row = states[r, t] + (r * size if laws.shape[0] > size else 0)
        for w in range(laws.shape[1]):
            many = cells.counts[i, w]
            noise = abs(float(cells.released[i, w] - many))
            total -= noise * (cells.absolute[w] + noise * cells.squares[w])
            if many > 0:
                total += many * log_law[row, w]
                total -= factorial[many] if many < factorial.size else math.lgamma(many + 1.0)
        entries = loops.entries_of(cells, i)
        if entries > 0:
            ways = factorial[entries] if entries < factorial.size else math.lgamma(entries + 1.0)
            total += (cells.edges.size - 1) * ways
            total += loops.log_of_more(0, entries, rates) if alone[r] else entries * float(cells.stay[i])
    return float(total)


class Kernels(NamedTuple):
    """The loops that a sampler runs, compiled or plain."""

    blocked: Callable[..., Any]
    collapsed: Callable[..., Any]
    gibbs: Callable[..., Any]
    sweep: Callable[..., Any]
    states_alone: Callable[..., Any]
    given_cells: Callable[..., Any]
    sweep_of_effects: Callable[..., Any]
    given_tables: Callable[..., Any]
    log_joint: Callable[..., Any]


#: The same source without the compiler, a hundred times slower: what tests compare with.
PLAIN = Kernels(
    blocked, collapsed, gibbs, loops.sweep, states_alone, effects.given_cells, effects.sweep, given_tables, log_joint
)


@cache
def compiled() -> Kernels:
    """The loops compiled, each when it is first called; the machine code is kept on disk."""
    import numba
    from numba.extending import register_jitable

    own = (picked, blocked, collapsed, dirichlet, transitions_of, sampled_states, laws_given_states, relative)
    for part in (*own, *loops.PARTS, *effects.PARTS):
        register_jitable(part)
    return Kernels(*(numba.njit(kernel, cache=True, nogil=True, error_model="numpy") for kernel in PLAIN))
