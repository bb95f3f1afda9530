"""Moves of a hidden Markov model whose sequences have emission effects of their own; arrays are changed in place.

P(level v | state k, sequence r) is proportional to phi_k[v] exp(b_r[v]): b_r, normal around 0 with a spread learned for
each field, is how the sequence differs from the others whatever its state (proofs.md P78).

* level: one level's weight changes in one state's law, or in one sequence's, and the entries of its cells follow by the
  largest coupling (or stay where they are: then tables are what is given);
* ridge: one level's weight goes from all states to all sequences, which changes no law;
* trade: one level's weight goes from one state to one sequence, which leaves the law where they meet;
* exchange: two states change places along a sequence, and its effects by the difference of their laws;
* spread: a field's spread and its effects in the sequences with the fewest entries are scaled together, entries
  following or not; or the spread alone, with the mean effect of each sequence, which no entry says anything of,
  integrated out and drawn anew.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
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
    alone_in_chain,
    binomial,
    couple,
    few_released,
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
        trade_reach: The sizes of trades of a level, shape (sequences, columns).
    """

    effects: Reals
    spread: Reals
    laws: Reals
    state_reach: Reals
    sequence_reach: Reals
    spread_reach: Reals
    trade_reach: Reals


def fill_laws(emissions: Reals, effects: Reals, times: float, first: int, end: int, laws: Reals) -> None:
    """Overwrites the columns of one field in ``laws`` by what states and effects, multiplied by ``times``, say."""
    size = emissions.shape[0]
    for r in range(effects.shape[0]):
        top = effects[r, first]
        for w in range(first, end):
            top = max(top, effects[r, w])
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
    cells: Cells, states: Integers, wanted_state: int, wanted_sequence: int, members: Integers, rows: Integers,
    size: int,
) -> int:  # fmt: skip
    """The observed cells of a state, of a sequence, or all where one is below 0, with the row of their law."""
    chains, steps, many = states.shape[0], states.shape[1], 0
    for r in range(chains):
        if wanted_sequence >= 0 and r != wanted_sequence:
            continue
        for t in range(steps):
            i, k = r * steps + t, states[r, t]
            if cells.observed[i] and (wanted_state < 0 or k == wanted_state):
                members[many], rows[many] = i, r * size + k
                many += 1
    return many


def members_of_some(
    cells: Cells, states: Integers, wanted: npt.NDArray[np.bool_], members: Integers, rows: Integers, size: int
) -> int:  # fmt: skip
    """The observed cells of some sequences, with the row of their law."""
    many, steps = 0, states.shape[1]
    for r in range(states.shape[0]):
        for t in range(steps if wanted[r] else 0):
            if cells.observed[r * steps + t]:
                members[many], rows[many] = r * steps + t, r * size + states[r, t]
                many += 1
    return many


def followed(
    rng: np.random.Generator, cells: Cells, members: Integers, rows: Integers, many: int, first: int, end: int,
    laws: Reals, proposed: Reals, tables: Integers, room: Reals,
) -> float:  # fmt: skip
    """Tables of some cells that follow their law by the largest coupling; what the log-likelihood of the noise gains.

    Args:
        rng: Randomness for post-processing.
        cells: The sampler chain.
        members: The cells, ``many`` of them.
        rows: The row of each one's law.
        many: How many.
        first: The first column of the field.
        end: The one after its last.
        laws: Before.
        proposed: After.
        tables: Overwritten, shape (cells, columns).
        room: Scratch, shape (columns,).
    """
    gain = 0.0
    for at in range(many):
        i, row = members[at], rows[at]
        before, after = cells.counts[i, first:end], tables[at, first:end]
        couple(rng, before, laws[row, first:end], proposed[row, first:end], room[first:end], after)
        gain += log_law(cells, i, after, first, end) - log_law(cells, i, before, first, end)
    return gain


def followed_level(
    rng: np.random.Generator, cells: Cells, members: Integers, rows: Integers, many: int, first: int, end: int, w: int,
    by: float, laws: Reals, tables: Integers,
) -> float:  # fmt: skip
    """As ``followed``, where the weight of column ``w`` alone is multiplied by e^by: it gains from others or gives."""
    gain, factor = 0.0, math.exp(by)
    for at in range(many):
        i, row = members[at], rows[at]
        whole, after = 1.0 + laws[row, w] * (factor - 1.0), tables[at, first:end]
        others = 0
        for v in range(first, end):
            after[v - first] = cells.counts[i, v]
            others += cells.counts[i, v] if v != w else 0
        if by > 0.0:
            moved = binomial(rng, others, 1.0 - 1.0 / whole)
            after[w - first] = 0
            if moved > 0:
                leave(rng, moved, others, after)
            after[w - first] = cells.counts[i, w] + moved
        else:
            moved = binomial(rng, cells.counts[i, w], 1.0 - factor / whole)
            if moved > 0:
                kept_weight = laws[row, w]
                laws[row, w] = 0.0
                scattered(rng, moved, laws[row, first:end], 1.0 - kept_weight, after)
                laws[row, w] = kept_weight
                after[w - first] -= moved
        if moved > 0:
            gain += log_law(cells, i, after, first, end) - log_law(cells, i, cells.counts[i, first:end], first, end)
    return gain


def given_tables(sums: Reals, laws: Reals, proposed: Reals, start: int, stop: int, step: int, a: int, b: int) -> float:
    """What ln P(tables | laws) gains from some rows of laws; ``sums`` are the tables of each row's cells."""
    gain = 0.0
    for row in range(start, stop, step):
        for w in range(a, b):
            if sums[row, w] > 0.0:
                gain += sums[row, w] * math.log(proposed[row, w] / laws[row, w])
    return gain


def reweighted(
    laws: Reals, proposed: Reals, start: int, stop: int, step: int, a: int, b: int, w: int, by: float
) -> None:  # fmt: skip
    """Multiplies the weight of column ``w`` by e^by in some rows; columns a to b are overwritten in ``proposed``."""
    factor = math.exp(by)
    for row in range(start, stop, step):
        whole = 1.0 + laws[row, w] * (factor - 1.0)
        for v in range(a, b):
            proposed[row, v] = max(laws[row, v] * (factor if v == w else 1.0) / whole, 1e-300)


def smallest(emissions: Reals, k: int, a: int, b: int) -> float:
    """The least probable level of a state's law."""
    least = 1.0
    for w in range(a, b):
        least = min(least, emissions[k, w])
    return least


def scaled(emissions: Reals, k: int, a: int, b: int, w: int, factor: float) -> None:
    """Multiplies the weight of one level of a state's law, and divides by the very sum: else rounding would grow."""
    emissions[k, w] *= factor
    whole = 0.0
    for v in range(a, b):
        whole += emissions[k, v]
    for v in range(a, b):
        emissions[k, v] /= whole


def kept(laws: Reals, proposed: Reals, start: int, stop: int, step: int, a: int, b: int) -> None:
    """The proposed laws of some rows become the laws."""
    for row in range(start, stop, step):
        for w in range(a, b):
            laws[row, w] = proposed[row, w]


def taken(cells: Cells, members: Integers, many: int, tables: Integers, a: int, b: int) -> None:
    """The proposed tables of some cells become the tables."""
    for at in range(many):
        for w in range(a, b):
            cells.counts[members[at], w] = tables[at, w]


def adapted(reach: float, accepted: bool, speed: float) -> float:
    """The size of a move after it was accepted or not."""
    return min(max(reach * math.exp(speed * (accepted - AIM)), 1e-4), MOST)


def state_ratio(law: Reals, w: int, by: float, prior: float) -> float:
    """ln of the ratio of Dirichlet densities, Jacobian included, when a level's weight is multiplied by e^by."""
    return prior * (by - law.size * math.log(1.0 + law[w] * (math.exp(by) - 1.0)))


def normal_ratio(value: float, by: float, spread: float) -> float:
    """ln of the ratio of normal densities when ``by`` is added."""
    return -by * (2.0 * value + by) / (2.0 * spread * spread)


def levels_of_states(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    prior: float, speed: float, follow: int,
) -> None:  # fmt: skip
    """The move ``level`` of every level of every state; tables follow where ``follow`` is 1."""
    size, rows_of_laws = emissions.shape[0], given.laws.shape[0]
    many, proposed, tables = 0, np.empty_like(given.laws), np.empty_like(cells.counts)
    members, rows = np.empty(states.size, np.int64), np.empty(states.size, np.int64)
    for k in range(size):
        if follow == 1:
            many = members_of(cells, states, k, -1, members, rows, size)
        for f in range(cells.edges.size - 1):
            a, b = cells.edges[f], cells.edges[f + 1]
            for w in range(a, b if b - a > 1 else a):
                by = given.state_reach[follow, k, w] * (2.0 * rng.random() - 1.0)
                gain = state_ratio(emissions[k, a:b], w - a, by, prior)
                reweighted(given.laws, proposed, k, rows_of_laws, size, a, b, w, by)
                if follow == 1:
                    gain += followed_level(rng, cells, members, rows, many, a, b, w, by, given.laws, tables)
                else:
                    gain += given_tables(sums, given.laws, proposed, k, rows_of_laws, size, a, b)
                whole = 1.0 + emissions[k, w] * (math.exp(by) - 1.0)
                least = smallest(emissions, k, a, b) * min(1.0, math.exp(by)) / whole
                accepted = accepts(rng, gain) and least > LEAST[0]
                if accepted:
                    scaled(emissions, k, a, b, w, math.exp(by))
                    kept(given.laws, proposed, k, rows_of_laws, size, a, b)
                    if follow == 1:
                        taken(cells, members, many, tables, a, b)
                if speed > 0.0:
                    given.state_reach[follow, k, w] = adapted(given.state_reach[follow, k, w], accepted, speed)


def levels_of_sequences(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    speed: float, follow: int,
) -> None:  # fmt: skip
    """The move ``level`` of every level of every sequence; tables follow where ``follow`` is 1."""
    size, many = emissions.shape[0], 0
    proposed, tables = np.empty_like(given.laws), np.empty_like(cells.counts)
    members, rows = np.empty(states.size, np.int64), np.empty(states.size, np.int64)
    for r in range(states.shape[0]):
        start, stop = r * size, (r + 1) * size
        if follow == 1:
            many = members_of(cells, states, -1, r, members, rows, size)
        for f in range(cells.edges.size - 1):
            a, b = cells.edges[f], cells.edges[f + 1]
            for w in range(a, b if b - a > 1 else a):
                by = given.sequence_reach[follow, r, w] * (2.0 * rng.random() - 1.0)
                gain = normal_ratio(given.effects[r, w], by, given.spread[f])
                reweighted(given.laws, proposed, start, stop, 1, a, b, w, by)
                if follow == 1:
                    gain += followed_level(rng, cells, members, rows, many, a, b, w, by, given.laws, tables)
                else:
                    gain += given_tables(sums, given.laws, proposed, start, stop, 1, a, b)
                accepted = accepts(rng, gain)
                if accepted:
                    given.effects[r, w] += by
                    kept(given.laws, proposed, start, stop, 1, a, b)
                    if follow == 1:
                        taken(cells, members, many, tables, a, b)
                if speed > 0.0:
                    given.sequence_reach[follow, r, w] = adapted(given.sequence_reach[follow, r, w], accepted, speed)


def ridge(rng: np.random.Generator, edges: Integers, emissions: Reals, given: Effects, prior: float) -> None:
    """Moves every level's weight from all states to all sequences, or back: no law changes, so the priors decide."""
    for f in range(edges.size - 1):
        a, b = edges[f], edges[f + 1]
        for w in range(a, b if b - a > 1 else a):
            by = given.spread[f] * (2.0 * rng.random() - 1.0) * 2.0 / math.sqrt(given.effects.shape[0])
            gain, least = 0.0, 1.0
            for k in range(emissions.shape[0]):
                gain += state_ratio(emissions[k, a:b], w - a, -by, prior)
                least = min(least, smallest(emissions, k, a, b))
            for r in range(given.effects.shape[0]):
                gain += normal_ratio(given.effects[r, w], by, given.spread[f])
            if accepts(rng, gain) and least * math.exp(-abs(by)) > LEAST[0]:
                for r in range(given.effects.shape[0]):
                    given.effects[r, w] += by
                for k in range(emissions.shape[0]):
                    scaled(emissions, k, a, b, w, math.exp(-by))


def trade(
    rng: np.random.Generator, emissions: Reals, edges: Integers, given: Effects, sums: Reals, prior: float, speed: float
) -> None:  # fmt: skip
    """Moves every level's weight from a sequence to a state picked evenly, or back; tables stay.

    The law of that sequence in that state is as before: only the state's other sequences and the sequence's other
    states have a say.
    """
    size, proposed = emissions.shape[0], np.empty_like(given.laws)
    for r in range(given.effects.shape[0]):
        for f in range(edges.size - 1):
            a, b = edges[f], edges[f + 1]
            for w in range(a, b if b - a > 1 else a):
                k = int(rng.random() * size)
                meet, by = r * size + k, given.trade_reach[r, w] * (2.0 * rng.random() - 1.0)
                gain = state_ratio(emissions[k, a:b], w - a, by, prior) + normal_ratio(
                    given.effects[r, w], -by, given.spread[f]
                )
                reweighted(given.laws, proposed, k, given.laws.shape[0], size, a, b, w, by)
                reweighted(given.laws, proposed, r * size, (r + 1) * size, 1, a, b, w, -by)
                for v in range(a, b):
                    proposed[meet, v] = given.laws[meet, v]
                gain += given_tables(sums, given.laws, proposed, k, given.laws.shape[0], size, a, b)
                gain += given_tables(sums, given.laws, proposed, r * size, (r + 1) * size, 1, a, b)
                whole = 1.0 + emissions[k, w] * (math.exp(by) - 1.0)
                least = smallest(emissions, k, a, b) * min(1.0, math.exp(by)) / whole
                accepted = accepts(rng, gain) and least > LEAST[0]
                if accepted:
                    scaled(emissions, k, a, b, w, math.exp(by))
                    given.effects[r, w] -= by
                    kept(given.laws, proposed, k, given.laws.shape[0], size, a, b)
                    kept(given.laws, proposed, r * size, (r + 1) * size, 1, a, b)
                if speed > 0.0:
                    given.trade_reach[r, w] = adapted(given.trade_reach[r, w], accepted, speed)


def exchange(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, given: Effects,
    sums: Reals,
) -> None:  # fmt: skip
    """Two states j, k, picked evenly, change places along a sequence whose effects gain ln phi_j - ln phi_k, centred.

    The law of what was in j does not change; what was in k, the transitions and the effects' prior have a say.

    Args:
        rng: Randomness for post-processing.
        cells: The sampler chain; its tables stay.
        states: Changed in place, shape (chains, steps).
        transition: Shape (states, states).
        emissions: Shape (states, columns).
        given: Changed in place.
        sums: The tables of each row's cells, of which ``laws`` are up to date; changed in place.
    """
    size, steps = emissions.shape[0], states.shape[1]
    proposed, moved, by = np.empty_like(emissions), np.empty_like(emissions), np.empty(emissions.shape[1])
    other = np.empty(size, np.int64)
    for r in range(states.shape[0]):
        j = int(rng.random() * size)
        k = (j + 1 + int(rng.random() * (size - 1))) % size
        for at in range(size):
            other[at] = at
        other[j], other[k], gain = k, j, 0.0
        for t in range(1, steps):
            before, after = states[r, t - 1], states[r, t]
            gain += math.log(transition[other[before], other[after]] / transition[before, after])
        for f in range(cells.edges.size - 1):
            a, b = cells.edges[f], cells.edges[f + 1]
            mean = 0.0
            for w in range(a, b):
                by[w] = math.log(emissions[j, w] / emissions[k, w])
                mean += by[w] / (b - a)
            for w in range(a, b):
                by[w] -= mean
                gain += normal_ratio(given.effects[r, w], by[w], given.spread[f])
            for at in range(size):
                total, row = 0.0, r * size + other[at]
                for w in range(a, b):
                    proposed[at, w] = emissions[at, w] * math.exp(given.effects[r, w] + by[w])
                    total += proposed[at, w]
                for w in range(a, b):
                    proposed[at, w] = max(proposed[at, w] / total, 1e-300)
                    moved[at, w] = sums[row, w]
                    if sums[row, w] > 0.0:
                        gain += sums[row, w] * math.log(proposed[at, w] / given.laws[row, w])
        if accepts(rng, gain):
            for t in range(steps):
                states[r, t] = other[states[r, t]]
            given.laws[r * size : (r + 1) * size] = proposed
            sums[r * size : (r + 1) * size] = moved
            given.effects[r] += by


def spread_alone(rng: np.random.Generator, given: Effects, f: int, a: int, b: int, scale: float) -> None:
    """Moves a field's spread given its effects about their mean in each sequence, then draws these means."""
    free, squares = given.effects.shape[0] * (b - a - 1), 0.0
    for r in range(given.effects.shape[0]):
        mean = 0.0
        for w in range(a, b):
            mean += given.effects[r, w] / (b - a)
        for w in range(a, b):
            given.effects[r, w] -= mean
            squares += given.effects[r, w] ** 2
    for _ in range(TRIES):
        old, by = given.spread[f], min(1.0, 3.0 / math.sqrt(2.0 * free)) * (2.0 * rng.random() - 1.0)
        new = old * math.exp(by)
        gain = (1 - free) * by - 0.5 * squares * (1.0 / new**2 - 1.0 / old**2) - (new**2 - old**2) / (2.0 * scale**2)
        if new > LEAST[1] and accepts(rng, gain):
            given.spread[f] = new
    for r in range(given.effects.shape[0]):
        mean = given.spread[f] / math.sqrt(b - a) * rng.standard_normal()
        for w in range(a, b):
            given.effects[r, w] += mean


def spreads(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, sums: Reals,
    scale: float, speed: float, follow: int,
) -> None:  # fmt: skip
    """The move ``spread`` of every field: alone, then with effects, entries following where ``follow`` is 1.

    Effects of the sequences with the fewest released entries are scaled with it, up to one of them picked evenly; those
    of the others stay, as they are known too well to follow.
    """
    size, many, room = emissions.shape[0], 0, np.empty(emissions.shape[1])
    known = np.zeros(states.shape[0])
    for i in range(states.size):
        if cells.observed[i]:
            for w in range(cells.edges[1]):
                known[i // states.shape[1]] += cells.released[i, w]
    scales = np.empty(states.shape[0], np.bool_)
    proposed, tables = np.empty_like(given.laws), np.empty_like(cells.counts)
    members, rows = np.empty(states.size, np.int64), np.empty(states.size, np.int64)
    for f in range(cells.edges.size - 1):
        a, b = cells.edges[f], cells.edges[f + 1]
        if b - a < 2:
            continue
        most = known[int(rng.random() * known.size)]
        for r in range(known.size):
            scales[r] = known[r] <= most
        if follow == 1:
            many = members_of_some(cells, states, scales, members, rows, size)
        spread_alone(rng, given, f, a, b, scale)
        old, by = given.spread[f], given.spread_reach[follow, f] * (2.0 * rng.random() - 1.0)
        new = old * math.exp(by)
        gain = by - (new**2 - old**2) / (2.0 * scale**2)
        fill_laws(emissions, given.effects, math.exp(by), a, b, proposed)
        for r in range(known.size):
            if not scales[r]:
                for w in range(a, b):
                    gain -= by + 0.5 * given.effects[r, w] ** 2 * (1.0 / new**2 - 1.0 / old**2)
                    for k in range(size):
                        proposed[r * size + k, w] = given.laws[r * size + k, w]
        if follow == 1:
            gain += followed(rng, cells, members, rows, many, a, b, given.laws, proposed, tables, room)
        else:
            gain += given_tables(sums, given.laws, proposed, 0, given.laws.shape[0], 1, a, b)
        accepted = new > LEAST[1] and accepts(rng, gain)
        if accepted:
            given.spread[f] = new
            for r in range(given.effects.shape[0]):
                for w in range(a, b if scales[r] else a):
                    given.effects[r, w] *= math.exp(by)
            kept(given.laws, proposed, 0, given.laws.shape[0], 1, a, b)
            if follow == 1:
                taken(cells, members, many, tables, a, b)
        if speed > 0.0:
            given.spread_reach[follow, f] = adapted(given.spread_reach[follow, f], accepted, speed)


def sums_of(cells: Cells, states: Integers, size: int, sums: Reals) -> None:
    """Overwrites ``sums`` by the tables of the observed cells of each sequence and state."""
    steps = states.shape[1]
    for row in range(sums.shape[0]):
        for w in range(sums.shape[1]):
            sums[row, w] = 0.0
    for r in range(states.shape[0]):
        for t in range(steps):
            i = r * steps + t
            if cells.observed[i]:
                for w in range(cells.counts.shape[1]):
                    sums[r * size + states[r, t], w] += cells.counts[i, w]


def given_cells(
    rng: np.random.Generator, cells: Cells, states: Integers, emissions: Reals, given: Effects, prior: float,
    scale: float, speed: float, passes: int,
) -> None:  # fmt: skip
    """The moves that hold the tables fixed, ``passes`` times."""
    fill_every_field(cells.edges, emissions, given.effects, given.laws)
    sums = np.empty_like(given.laws)
    sums_of(cells, states, emissions.shape[0], sums)
    for _ in range(passes):
        levels_of_states(rng, cells, states, emissions, given, sums, prior, speed, 0)
        levels_of_sequences(rng, cells, states, emissions, given, sums, speed, 0)
        ridge(rng, cells.edges, emissions, given, prior)
        trade(rng, emissions, cells.edges, given, sums, prior, speed)
        spreads(rng, cells, states, emissions, given, sums, scale, speed, 0)
    fill_every_field(cells.edges, emissions, given.effects, given.laws)


def sweep(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, given: Effects,
    priors: tuple[float, float, float, float], scale: float, passes: int, speed: float,
) -> None:  # fmt: skip
    """As ``loops.sweep``, where laws differ by sequence and follow from states and effects.

    Args:
        rng: Randomness for post-processing.
        cells: Changed in place.
        states: Changed in place, shape (chains, steps).
        transition: Changed in place, shape (states, states).
        emissions: Changed in place, shape (states, columns).
        given: Changed in place.
        priors: The Dirichlet concentrations of transitions and of emissions, the Beta law of the rates.
        scale: The half-normal law of the spreads.
        passes: How often tables are redrawn and resized.
        speed: How fast the sizes of moves adapt; 0 after burn-in.
    """
    size, steps = transition.shape[0], states.shape[1]
    alone, few = np.empty(states.shape[0], np.bool_), np.empty(states.shape[0], np.bool_)
    alone_in_chain(cells.observed, alone)
    few_released(cells, few)
    rates_given_entries(rng, cells, priors[2:], alone)
    given_cells(rng, cells, states, emissions, given, priors[1], scale, speed, BESIDE)
    if size > 1:
        sums = np.empty_like(given.laws)
        sums_of(cells, states, size, sums)
        exchange(rng, cells, states, transition, emissions, given, sums)
        switch(rng, cells, states, transition, given.laws, priors[0], alone, priors[2:])
    key = states.ravel().copy()
    for i in range(key.size):
        key[i] += i // steps * size
    for p in range(passes):
        if cells.stop[0] != 0:
            return
        if p < 2:
            fill_every_field(cells.edges, emissions, given.effects, given.laws)
            levels_of_states(rng, cells, states, emissions, given, given.laws, priors[1], speed, 1)
            levels_of_sequences(rng, cells, states, emissions, given, given.laws, speed, 1)
            ridge(rng, cells.edges, emissions, given, priors[1])
            spreads(rng, cells, states, emissions, given, given.laws, scale, speed, 1)
        move_cells(rng, cells, given.laws, key, priors[2:], speed, alone, few, size > 1, p > 0)


#: What ``sweep`` and ``given_cells`` call, callees first.
PARTS = (
    fill_laws, fill_every_field, members_of, members_of_some, followed, followed_level, given_tables, reweighted,
    smallest, scaled, kept, taken, adapted, state_ratio, normal_ratio, levels_of_states, levels_of_sequences, ridge,
    trade, exchange, spread_alone, spreads, sums_of, given_cells,
)  # fmt: skip
