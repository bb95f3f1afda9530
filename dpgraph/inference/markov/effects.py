"""Moves of a hidden Markov model whose sequences have emission effects of their own; arrays are changed in place.

P(level v | state k, sequence r) is proportional to phi_k[v] exp(b_r[v]): b_r, normal around 0 with a spread learned for
each field, is how the sequence differs from the others in every state (proofs.md P78).

* level: one level's weight changes in one state's law, or in one sequence's, and the entries of its cells follow by the
  largest coupling (or stay where they are: then tables are given);
* ridge: one level's weight goes from all states to all sequences, which changes no law;
* spread: a field's spread and its effects in the sequences with the fewest entries are scaled together, entries
  following or not; or the spread alone, with the mean effect of each sequence, of which entries say nothing,
  integrated out and drawn anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.inference.markov.loops import (
    AIM,
    Cells,
    accepts,
    binomial,
    couple,
    kinds_of_chains,
    leave,
    log_law,
    move_cells,
    rates_given_entries,
    scattered,
    switch,
)

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: The least probability of a level in a state, and the least spread, that a move may propose.
LEAST = 1e-100, 1e-6
#: The largest change of a log weight that a move proposes, and of the log of a spread.
MOST = 2.0
#: How often the moves that hold the tables fixed are made where there is no other way to move, and beside the others.
ALONE, BESIDE = 8, 2
#: How often a spread is moved alone.
TRIES = 3


class Effects(NamedTuple):
    """The emission effects of one sampler chain.

    Attributes:
        effects: b, shape (sequences, columns).
        spread: The standard deviation of each field's effects, shape (fields,).
        laws: P(level | sequence, state), row r x states + k, shape (sequences x states, columns).
        state_reach: The sizes of moves of a level of a state's law, tables fixed and not, shape (2, states, columns).
        sequence_reach: The same of a sequence's, shape (2, sequences, columns).
        spread_reach: The same of a spread, shape (2, fields).
    """

    effects: Reals
    spread: Reals
    laws: Reals
    state_reach: Reals
    sequence_reach: Reals
    spread_reach: Reals


def fill_laws(emissions: Reals, effects: Reals, times: float, first: int, end: int, laws: Reals) -> None:
    """Overwrites the columns of one field in ``laws`` by the laws of states and effects, multiplied by ``times``."""
    size = emissions.shape[0]
    for r in range(effects.shape[0]):
        top = effects[r, first:end].max()
        for k in range(size):
            total = 0.0
            for w in range(first, end):
                laws[r * size + k, w] = emissions[k, w] * math.exp(times * (effects[r, w] - top))
                total += laws[r * size + k, w]
            for w in range(first, end):
                laws[r * size + k, w] = max(laws[r * size + k, w] / total, 1e-300)


def fill_every_field(edges: Integers, emissions: Reals, effects: Reals, laws: Reals) -> None:
    """``fill_laws`` of every field."""
    for f in range(edges.size - 1):
        fill_laws(emissions, effects, 1.0, edges[f], edges[f + 1], laws)


def members_of(
    cells: Cells, states: Integers, state: int, wanted: npt.NDArray[np.bool_], members: Integers, rows: Integers,
    size: int,
) -> int:  # fmt: skip
    """Lists the observed cells of some sequences in a state, or in any if it is below 0, with the row of their law."""
    many, steps = 0, states.shape[1]
    for r in range(states.shape[0]):
        for t in range(steps if wanted[r] else 0):
            k = states[r, t]
            if cells.observed[r * steps + t] and (state < 0 or k == state):
                members[many], rows[many] = r * steps + t, r * size + k
                many += 1
    return many


def followed(
    rng: np.random.Generator, cells: Cells, members: Integers, rows: Integers, many: int, a: int, b: int, laws: Reals,
    proposed: Reals, tables: Integers, room: Reals,
) -> float:  # fmt: skip
    """Tables of ``many`` cells that follow their law by the largest coupling; the gain of the noise's log-likelihood.

    ``tables`` is overwritten, shape (cells, columns); ``room`` is scratch, shape (columns,).
    """
    gain = 0.0
    for at in range(many):
        i, row = members[at], rows[at]
        before, after = cells.counts[i, a:b], tables[at, a:b]
        couple(rng, before, laws[row, a:b], proposed[row, a:b], room[a:b], after)
        gain += log_law(cells, i, after, a, b) - log_law(cells, i, before, a, b)
    return gain


def followed_level(
    rng: np.random.Generator, cells: Cells, members: Integers, rows: Integers, many: int, a: int, b: int, w: int,
    by: float, laws: Reals, tables: Integers,
) -> float:  # fmt: skip
    """As ``followed``, but faster, where the weight of column ``w`` alone is multiplied by e^by."""
    gain, factor = 0.0, math.exp(by)
    for at in range(many):
        i, row = members[at], rows[at]
        whole, after, mine, others = 1.0 + laws[row, w] * (factor - 1.0), tables[at, a:b], cells.counts[i, w], 0
        for v in range(a, b):
            after[v - a] = cells.counts[i, v]
            others += cells.counts[i, v] if v != w else 0
        if by > 0.0:
            moved = binomial(rng, others, 1.0 - 1.0 / whole)
            after[w - a] = 0
            leave(rng, moved, others, after)
            after[w - a] = mine + moved
        else:
            moved = binomial(rng, mine, 1.0 - factor / whole)
            if moved > 0:
                weight = laws[row, w]
                laws[row, w] = 0.0
                scattered(rng, moved, laws[row, a:b], 1.0 - weight, after)
                laws[row, w] = weight
                after[w - a] -= moved
        if moved > 0:
            gain += log_law(cells, i, after, a, b) - log_law(cells, i, cells.counts[i, a:b], a, b)
    return gain


def given_tables(sums: Reals, laws: Reals, proposed: Reals, a: int, b: int) -> float:
    """The gain of ln P(tables | laws) in columns a to b; ``sums`` are the tables of each row's cells."""
    gain = 0.0
    for row in range(laws.shape[0]):
        for w in range(a, b):
            if sums[row, w] > 0.0:
                gain += sums[row, w] * math.log(proposed[row, w] / laws[row, w])
    return gain


def reweighted(laws: Reals, proposed: Reals, a: int, b: int, w: int, by: float) -> None:
    """Multiplies the weight of column ``w`` by e^by; columns a to b are overwritten in ``proposed``."""
    factor = math.exp(by)
    for row in range(laws.shape[0]):
        whole = 1.0 + laws[row, w] * (factor - 1.0)
        for v in range(a, b):
            proposed[row, v] = max(laws[row, v] * (factor if v == w else 1.0) / whole, 1e-300)


def stays_possible(law: Reals, w: int, by: float) -> bool:
    """True if every level of a state's law stays above the least when one level's weight is multiplied by e^by."""
    return law.min() * min(1.0, math.exp(by)) / (1.0 + law[w] * (math.exp(by) - 1.0)) > LEAST[0]


def scaled(emissions: Reals, k: int, a: int, b: int, w: int, factor: float) -> None:
    """Multiplies the weight of one level of a state's law, and divides by the very sum: else rounding would grow."""
    emissions[k, w] *= factor
    emissions[k, a:b] /= emissions[k, a:b].sum()


def taken(cells: Cells, members: Integers, many: int, tables: Integers, a: int, b: int) -> None:
    """The proposed tables of some cells become the tables."""
    for at in range(many):
        cells.counts[members[at], a:b] = tables[at, a:b]


def adapted(reach: float, accepted: bool, speed: float) -> float:
    """The size of a move after it was accepted or not."""
    return min(max(reach * math.exp(speed * (accepted - AIM)), 1e-4), MOST)


def state_ratio(law: Reals, w: int, by: float, prior: float) -> float:
    """ln of the ratio of Dirichlet densities, Jacobian included, when a level's weight is multiplied by e^by."""
    return prior * (by - law.size * math.log(1.0 + law[w] * (math.exp(by) - 1.0)))


def normal_ratio(value: float, by: float, spread: float) -> float:
    """ln of the ratio of normal densities when ``by`` is added."""
    return -by * (2.0 * value + by) / (2.0 * spread * spread)


def levels(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    prior: float, speed: float, follow: int,
) -> None:  # fmt: skip
    """The move ``level`` of every level of every state, then of every sequence; tables follow where ``follow`` is 1."""
    size, chains, many = emissions.shape[0], states.shape[0], 0
    proposed, tables = np.empty_like(given.laws), np.empty_like(cells.counts)
    members, rows = np.empty(states.size, np.int64), np.empty(states.size, np.int64)
    wanted = np.ones(chains, np.bool_)
    for owner in range(size + chains):
        k, r, of_state = owner, owner - size, owner < size
        which = slice(k, chains * size, size) if of_state else slice(r * size, (r + 1) * size, 1)
        laws, other, tabled = given.laws[which], proposed[which], sums[which]
        reach = given.state_reach[follow, k] if of_state else given.sequence_reach[follow, r]
        if follow == 1:
            for c in range(chains):
                wanted[c] = of_state or c == r
            many = members_of(cells, states, k if of_state else -1, wanted, members, rows, size)
        for f in range(cells.edges.size - 1):
            a, b = cells.edges[f], cells.edges[f + 1]
            for w in range(a, b if b - a > 1 else a):
                by = reach[w] * (2.0 * rng.random() - 1.0)
                if of_state:
                    gain = state_ratio(emissions[k, a:b], w - a, by, prior)
                else:
                    gain = normal_ratio(given.effects[r, w], by, given.spread[f])
                reweighted(laws, other, a, b, w, by)
                if follow == 1:
                    gain += followed_level(rng, cells, members, rows, many, a, b, w, by, given.laws, tables)
                else:
                    gain += given_tables(tabled, laws, other, a, b)
                accepted = accepts(rng, gain) and (not of_state or stays_possible(emissions[k, a:b], w - a, by))
                if accepted:
                    if of_state:
                        scaled(emissions, k, a, b, w, math.exp(by))
                    else:
                        given.effects[r, w] += by
                    laws[:, a:b] = other[:, a:b]
                    if follow == 1:
                        taken(cells, members, many, tables, a, b)
                if speed > 0.0:
                    reach[w] = adapted(reach[w], accepted, speed)


def ridge(rng: np.random.Generator, edges: Integers, emissions: Reals, given: Effects, prior: float) -> None:
    """Moves every level's weight from all states to all sequences, or back: no law changes, so the priors decide."""
    for f in range(edges.size - 1):
        a, b = edges[f], edges[f + 1]
        for w in range(a, b if b - a > 1 else a):
            by = given.spread[f] * (2.0 * rng.random() - 1.0) * 2.0 / math.sqrt(given.effects.shape[0])
            gain, least = 0.0, 1.0
            for k in range(emissions.shape[0]):
                gain += state_ratio(emissions[k, a:b], w - a, -by, prior)
                least = min(least, emissions[k, a:b].min())
            for r in range(given.effects.shape[0]):
                gain += normal_ratio(given.effects[r, w], by, given.spread[f])
            if accepts(rng, gain) and least * math.exp(-abs(by)) > LEAST[0]:
                for r in range(given.effects.shape[0]):
                    given.effects[r, w] += by
                for k in range(emissions.shape[0]):
                    scaled(emissions, k, a, b, w, math.exp(-by))


def spread_alone(rng: np.random.Generator, given: Effects, f: int, a: int, b: int, scale: float) -> None:
    """Moves a field's spread given its effects about their mean in each sequence, then draws these means."""
    free, squares = given.effects.shape[0] * (b - a - 1), 0.0
    for own in given.effects[:, a:b]:
        own -= own.mean()
        squares += (own**2).sum()
    for _ in range(TRIES):
        old, by = given.spread[f], min(1.0, 3.0 / math.sqrt(2.0 * free)) * (2.0 * rng.random() - 1.0)
        new = old * math.exp(by)
        gain = (1 - free) * by - 0.5 * squares * (1.0 / new**2 - 1.0 / old**2) - (new**2 - old**2) / (2.0 * scale**2)
        if new > LEAST[1] and accepts(rng, gain):
            given.spread[f] = new
    for own in given.effects[:, a:b]:
        own += given.spread[f] / math.sqrt(b - a) * rng.standard_normal()


def spreads(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    scale: float, speed: float, follow: int,
) -> None:  # fmt: skip
    """The move ``spread`` of every field: alone, then with effects, entries following where ``follow`` is 1.

    Effects of the sequences with the fewest released entries are scaled with it, up to one of them picked evenly; the
    others stay, as they are known too well to follow.
    """
    size, many, room = emissions.shape[0], 0, np.empty(emissions.shape[1])
    known = np.zeros(states.shape[0])
    for i in range(states.size):
        if cells.observed[i]:
            known[i // states.shape[1]] += cells.released[i, : cells.edges[1]].sum()
    proposed, tables = np.empty_like(given.laws), np.empty_like(cells.counts)
    members, rows = np.empty(states.size, np.int64), np.empty(states.size, np.int64)
    for f in range(cells.edges.size - 1):
        a, b = cells.edges[f], cells.edges[f + 1]
        if b - a < 2:
            continue
        scales = known <= known[int(rng.random() * known.size)]
        if follow == 1:
            many = members_of(cells, states, -1, scales, members, rows, size)
        spread_alone(rng, given, f, a, b, scale)
        old, by = given.spread[f], given.spread_reach[follow, f] * (2.0 * rng.random() - 1.0)
        new = old * math.exp(by)
        gain = by - (new**2 - old**2) / (2.0 * scale**2)
        fill_laws(emissions, given.effects, math.exp(by), a, b, proposed)
        for r in range(known.size):
            if not scales[r]:
                proposed[r * size : (r + 1) * size, a:b] = given.laws[r * size : (r + 1) * size, a:b]
                for w in range(a, b):
                    gain -= by + 0.5 * given.effects[r, w] ** 2 * (1.0 / new**2 - 1.0 / old**2)
        if follow == 1:
            gain += followed(rng, cells, members, rows, many, a, b, given.laws, proposed, tables, room)
        else:
            gain += given_tables(sums, given.laws, proposed, a, b)
        accepted = new > LEAST[1] and accepts(rng, gain)
        if accepted:
            given.spread[f] = new
            for r in range(known.size):
                if scales[r]:
                    given.effects[r, a:b] *= math.exp(by)
            given.laws[:, a:b] = proposed[:, a:b]
            if follow == 1:
                taken(cells, members, many, tables, a, b)
        if speed > 0.0:
            given.spread_reach[follow, f] = adapted(given.spread_reach[follow, f], accepted, speed)


def every_move(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    prior: float, scale: float, speed: float, follow: int, passes: int,
) -> None:  # fmt: skip
    """The moves ``level``, ``ridge`` and ``spread``, ``passes`` times."""
    for _ in range(passes):
        levels(rng, cells, states, emissions, given, sums, prior, speed, follow)
        ridge(rng, cells.edges, emissions, given, prior)
        spreads(rng, cells, states, emissions, given, sums, scale, speed, follow)


def sums_of(cells: Cells, states: Integers, size: int, sums: Reals) -> None:
    """Overwrites ``sums`` by the tables of the observed cells of each sequence and state."""
    for row in range(sums.shape[0]):
        for w in range(sums.shape[1]):
            sums[row, w] = 0.0
    for i in range(states.size):
        if cells.observed[i]:
            r, t = i // states.shape[1], i % states.shape[1]
            for w in range(sums.shape[1]):
                sums[r * size + states[r, t], w] += cells.counts[i, w]


def given_cells(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, prior: float,
    scale: float, speed: float, passes: int,
) -> None:  # fmt: skip
    """The moves that hold the tables fixed, ``passes`` times."""
    fill_every_field(cells.edges, emissions, given.effects, given.laws)
    sums = np.empty_like(given.laws)
    sums_of(cells, states, emissions.shape[0], sums)
    every_move(rng, cells, states, emissions, given, sums, prior, scale, speed, 0, passes)
    fill_every_field(cells.edges, emissions, given.effects, given.laws)


def sweep(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, given: Effects,
    priors: tuple[float, float, float, float], scale: float, passes: int, speed: float,
) -> None:  # fmt: skip
    """As ``loops.sweep``, where laws differ by sequence and follow from states and effects.

    ``scale`` is that of the half-normal law of the spreads.
    """
    size, steps = transition.shape[0], states.shape[1]
    alone, few = np.empty(states.shape[0], np.bool_), np.empty(states.shape[0], np.bool_)
    kinds_of_chains(cells, alone, few)
    rates_given_entries(rng, cells, priors[2:], alone)
    given_cells(rng, cells, states, emissions, given, priors[1], scale, speed, BESIDE)
    if size > 1:
        switch(rng, cells, states, transition, given.laws, priors[0], alone, priors[2:])
    key = states.ravel() + np.arange(states.size) // steps * size
    for p in range(passes):
        if cells.stop[0] != 0:
            return
        if p < 2:
            fill_every_field(cells.edges, emissions, given.effects, given.laws)
            every_move(rng, cells, states, emissions, given, given.laws, priors[1], scale, speed, 1, 1)
        move_cells(rng, cells, given.laws, key, priors[2:], speed, alone, few, size > 1, p > 0)
