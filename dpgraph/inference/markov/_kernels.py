"""Draws of hidden states given the tables, and the compiler of these and of ``loops``: arrays in, arrays out.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import isfunction
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.inference import _kernels
from dpgraph.inference.markov import effects, loops
from dpgraph.inference.markov.loops import (
    backward,
    entries_of,
    forward,
    kinds_of_chains,
    largest,
    log_law,
    log_of_more,
    picked,
)

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def draw_states(
    rng: np.random.Generator, likelihood: Reals, states: Integers, transition: Reals, prior: float,
    single_states: bool,
) -> None:  # fmt: skip
    """Draws all states: one by one as ``collapsed`` does, or whole chains given the transitions, the first uniform.

    ``likelihood`` is P(cell | state) over its largest value in the cell, shape (chains, steps, states).
    """
    if single_states:
        collapsed(rng, likelihood, prior, states)
    else:
        filtered = np.empty(likelihood.shape)
        forward(likelihood, transition, filtered)
        backward(rng, filtered, transition, states)


def collapsed(rng: np.random.Generator, likelihood: Reals, concentration: float, states: Integers) -> None:
    """Draws each state in turn with the transition matrix integrated out (Foulds et al. 2016; proofs.md P62)."""
    chains, steps, size = likelihood.shape
    moves = transitions_of(states, size)
    leaving, weight = np.zeros(size, np.int64), np.empty(size)
    for k in range(size):
        leaving[k] = moves[k].sum()
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
            new = picked(weight, size, rng.random())
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
    """The number of each transition, shape (states, states)."""
    moves = np.zeros((size, size), np.int64)
    for r in range(states.shape[0]):
        for t in range(1, states.shape[1]):
            moves[states[r, t - 1], states[r, t]] += 1
    return moves


def relative(counts: Integers, log_laws: Reals, likelihood: Reals) -> None:
    """Overwrites ``likelihood`` by P(cell | state) over its largest value in the cell: no log can overflow or vanish.

    Laws have a row for each state, or one for each sequence and state.
    """
    steps, size = likelihood.shape[1], likelihood.shape[2]
    for i in range(counts.shape[0]):
        r, t = i // steps, i % steps
        first = r * size if log_laws.shape[0] > size else 0
        likelihood[r, t] = 0.0
        for w in range(log_laws.shape[1]):
            if counts[i, w] > 0:
                for k in range(size):
                    likelihood[r, t, k] += counts[i, w] * log_laws[first + k, w]
        top = largest(likelihood[r, t])
        for k in range(size):
            likelihood[r, t, k] = math.exp(likelihood[r, t, k] - top)


def gibbs(
    rng: np.random.Generator, cells: loops.Cells, states: Integers, transition: Reals, emissions: Reals, laws: Reals,
    priors: tuple[float, float], single_states: bool, keep_states: bool, keep_emissions: bool,
) -> None:  # fmt: skip
    """A sweep given the tables: states by ``laws``, then transitions, then emissions; states or emissions may be kept.

    ``priors`` are the Dirichlet concentrations of transitions and of emissions.
    """
    counts, edges, size, steps = cells.counts, cells.edges, transition.shape[0], states.shape[1]
    if not keep_states:
        likelihood = np.empty((states.shape[0], steps, size))
        relative(counts, np.log(laws), likelihood)
        draw_states(rng, likelihood, states, transition, priors[0], single_states)
    moves, totals = transitions_of(states, size).astype(np.float64), np.zeros(emissions.shape)
    for i in range(0 if keep_emissions else states.size):
        for w in range(emissions.shape[1]):
            totals[states[i // steps, i % steps], w] += counts[i, w]
    for k in range(size):
        dirichlet(rng, moves[k], priors[0], transition[k])
        for f in range(0 if keep_emissions else edges.size - 1):
            a, b = edges[f], edges[f + 1]
            dirichlet(rng, totals[k, a:b], priors[1], emissions[k, a:b])


def log_joint(
    cells: loops.Cells, states: Integers, transition: Reals, laws: Reals, rates: tuple[float, float]
) -> float:  # fmt: skip
    """ln P(released, tables, states | parameters) of the observed cells, up to a constant.

    ``laws`` are those of each state, or of each sequence and state; ``rates`` is the Beta law of rates of entries, over
    which chains with one observed cell are integrated.
    """
    chains, steps, size = states.shape[0], states.shape[1], transition.shape[0]
    log_laws, log_move = np.log(laws), np.log(transition)
    factorial, alone, few = np.zeros(256), np.empty(chains, np.bool_), np.empty(chains, np.bool_)
    for n in range(2, factorial.size):
        factorial[n] = factorial[n - 1] + math.log(n)
    kinds_of_chains(cells, alone, few)
    total = 0.0
    for i in range(chains * steps):
        r, t = i // steps, i % steps
        if t > 0:
            total += log_move[states[r, t - 1], states[r, t]]
        if not cells.observed[i]:
            continue
        row = states[r, t] + (r * size if laws.shape[0] > size else 0)
        total += log_law(cells, i, cells.counts[i], 0, laws.shape[1])
        for w in range(laws.shape[1]):
            many = cells.counts[i, w]
            if many > 0:
                total += many * log_laws[row, w]
                total -= factorial[many] if many < factorial.size else math.lgamma(many + 1.0)
        entries = entries_of(cells, i)
        if entries > 0:
            ways = factorial[entries] if entries < factorial.size else math.lgamma(entries + 1.0)
            total += (cells.edges.size - 1) * ways
            total += log_of_more(0, entries, rates) if alone[r] else entries * float(cells.stay[i])
    return float(total)


class Kernels(NamedTuple):
    """The loops of a sampler, compiled or plain."""

    draw_states: Callable[..., Any]
    gibbs: Callable[..., Any]
    sweep: Callable[..., Any]
    given_cells: Callable[..., Any]
    sweep_of_effects: Callable[..., Any]
    log_joint: Callable[..., Any]


#: The same source without the compiler, a hundred times slower: tests compare with it.
PLAIN = Kernels(draw_states, gibbs, loops.sweep, effects.given_cells, effects.sweep, log_joint)


#: The functions that call the moves of a sweep one after another.
LISTS = (loops.sweep, loops.move_cells, effects.sweep, effects.given_cells)


@cache
def compiled() -> Kernels:
    """The loops compiled, each when it is first called; the machine code is kept on disk.

    The lists of moves stay plain Python: linked into one function the moves would take a fifth longer to compile.
    """
    return Kernels(*(_compiled(kernel) for kernel in PLAIN))


def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop compiled; of ``LISTS`` only the loops that they call."""
    if loop not in LISTS:
        return _kernels.compiled(loop, inlined=False)
    called = {name: loop.__globals__[name] for name in loop.__code__.co_names if name in loop.__globals__}
    compiled = {name: _compiled(value) for name, value in called.items() if isfunction(value)}
    return FunctionType(loop.__code__, loop.__globals__ | compiled, loop.__name__)
