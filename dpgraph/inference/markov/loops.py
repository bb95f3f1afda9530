"""Markov chain moves over the true cells of an event log, one sampler chain at a time; arrays are changed in place.

* redraw: some of a field's entries, of some of its levels, are drawn anew;
* resize: entries join (drawn from the emissions) or leave (picked evenly) all fields at once;
* switch: states are drawn together with the tables of their cells: exactly, number of entries and all, where a cell has
  few entries (proofs.md P121), from a pool of tables for each state where it has many;
* shift: probability moves between two levels of an emission table and the entries of its cells with it
  (proofs.md P55): emissions move where emissions given the tables would be stuck;
* retune: transitions move with all states summed out;
* rescale: a chain's rate of entries moves and the entries of its cells with it. The rate of a chain with one observed
  cell is integrated out (proofs.md P122).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: A binomial draw of fewer trials is made trial by trial.
FEW = 16
#: The accepted share of proposals that burn-in aims at.
AIM = 0.35
#: Where ``tally`` counts accepted and tried proposals.
REDRAW, RESIZE, SWITCH, SHIFT, RETUNE, RESCALE = 0, 2, 4, 6, 8, 10
MOVES = ("redraw", "resize", "switch", "shift", "retune", "rescale")
#: The most tables of a cell in a pool, and the most entries of a cell that has more than one for each state.
MOST_TABLES, SMALL = 6, 40
#: Where the blocks of numbers of entries end that ``switch`` sums over, in two ways of which each sweep picks one, so
#: that every number is reached; cells with more than ``FEW_ENTRIES`` have a pool.
FEW_ENTRIES = 15
BLOCKS = np.array([[3, 7, 11, FEW_ENTRIES], [1, 5, 9, FEW_ENTRIES]])
#: Cells with at most so many entries are resized in one sweep of four only, where their blocks are summed over.
RARELY_RESIZED, TURNS = 7, 4
#: Chains of more cells are rescaled in one sweep of ``TURNS`` too: a move of so many entries is hardly ever taken.
LONG = 1000
#: So many cells are summed over at once, as the innermost loop.
LANES = 32
#: So many cells are told apart, weighed and drawn before a stop is heard.
PART = 8192
#: A stop is heard every so many cells where each is moved by itself.
HEARD = 4095
#: Filtered probabilities are normalised every so many steps.
STRETCH = 8
#: No cells are known to be alike, and nothing to stop.
ALL_DIFFER, NEVER = np.empty((2, 4, 0), np.int32), np.zeros(1, np.int64)


class Cells(NamedTuple):
    """The unknown tables of one sampler chain, a row a cell (sequence and step), and the sizes of its moves.

    Attributes:
        counts: The tables, changed in place, shape (cells, columns); 0 in held-out cells.
        released: The released tables, shape (cells, columns).
        observed: Shape (cells,).
        edges: Where each field's columns start, and the end, shape (fields + 1,).
        absolute: The cost of a unit of |noise| in log-likelihood, shape (columns,).
        squares: The cost of a unit of noise^2, shape (columns,).
        stay: ln P(one more entry) of the cell's chain, shape (cells,).
        share: The part of a field's entries that a redraw takes: of all levels, of some, shape (2, cells, fields).
        most: The most entries that join or leave at once, shape (cells,).
        reach: The most probability that a shift moves, shape (states, fields).
        tally: Accepted and tried proposals of each move, shape (12,).
        alike: For each way to cut numbers of entries and each block a number that cells with the same noise law there,
            up to a factor, share, shape (ways, blocks, cells), or of no cells where that is not known.
        stop: Other than 0 where the work is to end soon, in whatever state, shape (1,).
    """

    counts: Integers
    released: Integers
    observed: npt.NDArray[np.bool_]
    edges: Integers
    absolute: Reals
    squares: Reals
    stay: Reals
    share: Reals
    most: Reals
    reach: Reals
    tally: Reals
    alike: npt.NDArray[np.int32] = ALL_DIFFER
    stop: Integers = NEVER


def binomial(rng: np.random.Generator, trials: int, chance: float) -> int:
    """The number of successes of some trials."""
    if trials <= 0 or chance <= 0.0:
        return 0
    if chance >= 1.0:
        return trials
    if trials >= FEW:
        return rng.binomial(trials, chance)
    many = 0
    for _ in range(trials):
        many += rng.random() < chance
    return many


def copied(source: Integers, target: Integers) -> None:
    """``target[:] = source``, for which numba would compile the making of its error messages too: a second each."""
    for v in range(target.size):
        target[v] = source[v]


def largest(numbers: Reals) -> float:
    """``numbers.max()``, in the same manner."""
    most = numbers[0]
    for at in range(1, numbers.size):
        most = max(most, numbers[at])
    return most


def picked_out(numbers: Integers, places: Integers) -> Integers:
    """``numbers[places]``, in the same manner."""
    found = np.empty(places.size, np.int64)
    for at in range(places.size):
        found[at] = numbers[places[at]]
    return found


def scattered(rng: np.random.Generator, many: int, weight: Reals, total: float, into: Integers) -> None:
    """Adds ``many`` entries to the levels by their weights, which sum to ``total``."""
    last = weight.size - 1
    while last > 0 and weight[last] <= 0.0:
        last -= 1
    if many == 1:
        into[one_level(rng, weight, total, last)] += 1
        return
    for v in range(last):
        if many == 0:
            return
        if weight[v] > 0.0:
            here = binomial(rng, many, weight[v] / total)
            into[v] += here
            many -= here
            total = max(total - weight[v], 1e-300)
    into[last] += many


def one_level(rng: np.random.Generator, weight: Reals, total: float, last: int) -> int:
    """The level of one entry, ``last`` at most, by the weights, which sum to ``total``."""
    left, v = rng.random() * total, 0
    while v < last and (left >= weight[v] or weight[v] <= 0.0):
        left -= weight[v]
        v += 1
    return v


def log_law(cells: Cells, i: int, table: Integers, first: int, end: int) -> float:
    """ln P(released | table) of some columns of a cell, up to a constant; the table starts at column ``first``."""
    total = 0.0
    for w in range(first, end):
        noise = abs(float(cells.released[i, w] - table[w - first]))
        total -= noise * (cells.absolute[w] + noise * cells.squares[w])
    return total


def accepts(rng: np.random.Generator, gain: float) -> bool:
    """Metropolis: yes with probability min(1, exp(gain))."""
    return gain >= 0.0 or rng.random() < math.exp(gain)


def couple(rng: np.random.Generator, counts: Integers, old: Reals, new: Reals, gain: Reals, into: Integers) -> None:
    """Entries with law ``old`` moved by the largest coupling to the law ``new``."""
    gone, total = 0, 0.0
    for v in range(counts.size):
        gain[v] = max(new[v] - old[v], 0.0)
        total += gain[v]
        leaving = binomial(rng, counts[v], 1.0 - new[v] / old[v]) if new[v] < old[v] else 0
        into[v] = counts[v] - leaving
        gone += leaving
    if gone > 0:
        if total > 0.0:
            scattered(rng, gone, gain, total, into)
        else:
            scattered(rng, gone, new, 1.0, into)


def resized(rng: np.random.Generator, more: int, entries: int, law: Reals, edges: Integers, table: Integers) -> None:
    """Lets entries join a table of ``entries``, drawn from an emission law, or leave it, picked evenly, below 0."""
    for f in range(edges.size - 1):
        a, b = edges[f], edges[f + 1]
        if more > 0:
            scattered(rng, more, law[a:b], 1.0, table[a:b])
        else:
            leave(rng, -more, entries, table[a:b])


def entries_of(cells: Cells, i: int) -> int:
    """The number of entries of a cell."""
    entries = 0
    for w in range(cells.edges[1]):
        entries += cells.counts[i, w]
    return entries


def pool(
    rng: np.random.Generator, cells: Cells, i: int, here: int, emissions: Reals, pair: Integers, tables: Integers,
    fit: Reals,
) -> None:  # fmt: skip
    """Tables of a cell for every state: the current one and its match by coupling, all others drawn from their laws.

    ``here`` is the cell's state; ``pair`` has the match of each state, itself where it has none. ``tables``, shape
    (slots, states, columns), and ``fit``, ln P(released | table), shape (slots, states), are overwritten. Slots have
    one law and are independent, so none tells which holds the current table.
    """
    width, gain = cells.counts.shape[1], np.empty(cells.counts.shape[1])
    entries = entries_of(cells, i)
    for m in range(fit.shape[0]):
        for k in range(fit.shape[1]):
            fit[m, k] = -np.inf
            if m > 0 and entries > SMALL:
                continue
            if m == 0 and k == here:
                copied(cells.counts[i], tables[m, k])
            elif pair[k] < k or (m == 0 and pair[k] == here):
                source = cells.counts[i] if m == 0 and pair[k] == here else tables[m, pair[k]]
                for f in range(cells.edges.size - 1):
                    a, b = cells.edges[f], cells.edges[f + 1]
                    couple(rng, source[a:b], emissions[pair[k], a:b], emissions[k, a:b], gain[a:b], tables[m, k, a:b])
            else:
                tables[m, k] = 0
                resized(rng, entries, 0, emissions[k], cells.edges, tables[m, k])
            fit[m, k] = log_law(cells, i, tables[m, k], 0, width)


def matched(rng: np.random.Generator, pair: Integers) -> None:
    """Pairs states at random, whatever the states of the cells; an odd one stays alone."""
    order = np.empty(pair.size, np.int64)
    for at in range(pair.size):
        place = int(rng.random() * (at + 1))
        order[at], order[place] = order[place], at
        pair[at] = at
    for at in range(1, pair.size, 2):
        pair[order[at - 1]], pair[order[at]] = order[at], order[at - 1]


def forward(weight: Reals, transition: Reals, filtered: Reals) -> float:
    """Filters every chain; ln P(weights | transitions) of all chains, up to a constant.

    ``filtered``, of the shape (chains, steps, states), is overwritten by a multiple of P(state | so far).
    """
    chains, steps, size = weight.shape
    found = 0.0
    for r in range(chains):
        for t in range(steps):
            total = 0.0
            for k in range(size):
                into = 1.0
                if t > 0:
                    into = 0.0
                    for j in range(size):
                        into += filtered[r, t - 1, j] * transition[j, k]
                filtered[r, t, k] = into * weight[r, t, k]
                total += filtered[r, t, k]
            if total < 1e-100 or t % STRETCH == STRETCH - 1 or t == steps - 1:
                total = max(total, 1e-300)
                found += math.log(total)
                for k in range(size):
                    filtered[r, t, k] /= total
    return found


def backward(rng: np.random.Generator, filtered: Reals, transition: Reals, states: Integers) -> int:
    """Draws whole chains of states backward from filtered weights; the number of states that changed."""
    chains, steps, size = filtered.shape
    below, changed = np.empty(size), 0
    for r in range(chains):
        after = -1
        for t in range(steps - 1, -1, -1):
            total = 0.0
            for k in range(size):
                total += filtered[r, t, k] if after < 0 else filtered[r, t, k] * transition[k, after]
                below[k] = total
            after = picked(below, size, rng.random())
            changed += after != states[r, t]
            states[r, t] = after
    return changed


def picked(below: Reals, size: int, uniform: float) -> int:
    """The index that a uniform number picks, given ``size`` running sums of weights; no branch to mispredict."""
    threshold, index = uniform * below[size - 1], 0
    for k in range(size - 1):
        index += below[k] <= threshold
    return index


def retune(
    rng: np.random.Generator, weight: Reals, transition: Reals, filtered: Reals, prior: float, cells: Cells
) -> None:  # fmt: skip
    """Metropolis on the transitions with all states summed out; leaves ``filtered`` as the last ones want it."""
    size, single = transition.shape[0], weight.shape[1] == 1
    now, proposed = forward(weight, transition, filtered), transition.copy()
    for j in range(size):
        for _ in range(2 * (size - 1)):
            if cells.stop[0] != 0:
                return
            a = int(rng.random() * size)
            b = (a + 1 + int(rng.random() * (size - 1))) % size
            amount = 0.5 * rng.random() ** 3
            given, taken = transition[j, a] - amount, transition[j, b] + amount
            if given > 1e-300:
                proposed[j, a], proposed[j, b] = given, taken
                found = now if single else forward(weight, proposed, filtered)
                ratio = math.log(given / transition[j, a]) + math.log(taken / transition[j, b])
                if accepts(rng, found - now + (prior - 1.0) * ratio):
                    transition[j, a], transition[j, b] = given, taken
                    now = found
                    cells.tally[RETUNE] += 1.0
                proposed[j, a], proposed[j, b] = transition[j, a], transition[j, b]
            cells.tally[RETUNE + 1] += 1.0
    forward(weight, transition, filtered)


def kinds_of_chains(cells: Cells, alone: npt.NDArray[np.bool_], few: npt.NDArray[np.bool_]) -> None:
    """Flags of chains with one observed cell, and of chains released with at most ``FEW_ENTRIES`` a cell on average.

    Nothing but its number of entries tells of the rate of a chain with one cell.
    """
    steps = cells.observed.size // alone.size
    for r in range(alone.size):
        seen, room = 0, 0
        for i in range(r * steps, (r + 1) * steps):
            if cells.observed[i]:
                seen, room = seen + 1, room + FEW_ENTRIES
                for w in range(cells.edges[1]):
                    room -= cells.released[i, w]
        alone[r], few[r] = seen == 1, room >= 0


def noise_of_few(cells: Cells, members: Integers, last: int, decay: Reals, noise: Reals) -> None:
    """P(released | n entries) of every column of at most ``LANES`` cells, n = 0, 1, ..., last, over the largest.

    ``noise`` is overwritten, shape (columns, FEW_ENTRIES + 1, LANES).
    """
    for w in range(decay.shape[0]):
        square = cells.squares[w]
        for c in range(members.size):
            y = cells.released[members[c], w]
            near = min(max(y, 0), last)
            for n in range(last + 1):
                noise[w, n, c] = decay[w, abs(n - near)]
                if square > 0.0:
                    noise[w, n, c] *= math.exp(-square * float(n - near) * float(n + near - 2 * y))


def sum_over_tables(
    edges: Integers, many: int, first: int, last: int, term: Reals, part: Reals, number: Reals
) -> None:  # fmt: skip
    """Sets ``number`` to P(released | N, state) of ``many`` cells, N = first, ..., last, up to one constant each.

    ``term`` has the factor of n entries in a column, p^n / n! P(released | n), shape (columns, FEW_ENTRIES + 1, LANES).
    Row w of ``part`` is set to the sum over tables of n entries in the columns of the field up to w of the products of
    their terms.
    """
    for f in range(edges.size - 1):
        a, b = edges[f], edges[f + 1]
        for n in range(last + 1):
            for c in range(many):
                part[a, n, c] = term[a, n, c]
        for w in range(a + 1, b):
            for n in range(first if w == b - 1 else 0, last + 1):
                for c in range(many):
                    part[w, n, c] = part[w - 1, n, c] * term[w, 0, c]
                for m in range(1, n + 1):
                    for c in range(many):
                        part[w, n, c] += part[w - 1, n - m, c] * term[w, m, c]
        ways = 1.0
        for n in range(1, first):
            ways *= n
        for n in range(first, last + 1):
            ways *= max(n, 1)
            scale = ways
            for c in range(many):
                number[n, c] = part[b - 1, n, c] * scale if f == 0 else number[n, c] * (part[b - 1, n, c] * scale)


def terms_of(noise: Reals, laws: Reals, rows: Integers, last: int, term: Reals) -> None:
    """The terms of some cells, n = 0, 1, ..., last; ``rows`` has the row of each cell's law."""
    power, law = np.empty(rows.size), np.empty(rows.size)
    for w in range(laws.shape[1]):
        for c in range(rows.size):
            power[c], law[c] = 1.0, laws[rows[c], w]
        for n in range(last + 1):
            share = 1.0 / (n + 1.0)
            for c in range(rows.size):
                term[w, n, c] = noise[w, n, c] * power[c]
                power[c] *= law[c] * share


def law_of_number(first: int, last: int, more: float, over_rates: Reals, law: Reals) -> None:
    """P(N) of a cell up to a constant, N = first, ..., last: by the chance of one more entry, or over rates if < 0."""
    here = 1.0
    for n in range(first, last + 1):
        law[n] = over_rates[n] if more < 0.0 else here
        here *= more


def drawn_table(
    rng: np.random.Generator, edges: Integers, first: int, last: int, term: Reals, part: Reals, law: Reals, c: int,
    table: Integers,
) -> None:  # fmt: skip
    """Draws the table of a cell, over whose tables the sums of lane ``c`` have been taken; ``law`` is of its number."""
    left = 0.0
    for n in range(first, last + 1):
        left += law[n]
    left, entries = rng.random() * left, first
    while entries < last and left >= law[entries]:
        left -= law[entries]
        entries += 1
    for f in range(edges.size - 1):
        rest = entries
        for w in range(edges[f + 1] - 1, edges[f], -1):
            many = 0
            if rest > 0:
                left = rng.random() * part[w, rest, c]
                for m in range(rest + 1):
                    here = part[w - 1, rest - m, c] * term[w, m, c]
                    if here > 0.0:
                        many = m
                        if left < here:
                            break
                        left -= here
            table[w] = many
            rest -= many
        table[edges[f]] = rest


def block_of(entries: int, ends: Integers) -> int:
    """The block of numbers of entries that holds this one; the number of blocks where none does."""
    block = 0
    for b in range(ends.size):
        block += entries > ends[b]
    return block


def sorted_by(kind: Integers, start: Integers, order: Integers) -> None:
    """Sorts 0, 1, ... by kind, stable: ``order[start[k]:start[k + 1]]`` are of kind k; kinds below 0 are left out."""
    start[:] = 0
    for i in range(kind.size):
        if kind[i] >= 0:
            start[kind[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    free = start.copy()
    for i in range(kind.size):
        if kind[i] >= 0:
            order[free[kind[i]]] = i
            free[kind[i]] += 1


class Known(NamedTuple):
    """Values that ``switch`` computes once for all cells, and scratch.

    Attributes:
        decay: exp(-n absolute), shape (columns, FEW_ENTRIES + 1).
        over_rates: P(N) up to a constant, over all rates, shape (FEW_ENTRIES + 1,).
        more: The chance of one more entry in each chain, -1 where its rate is integrated out, shape (chains,).
        place: -1 for each cell and state, shape (cells x states,).
    """

    decay: Reals
    over_rates: Reals
    more: Reals
    place: Integers


def known_of(cells: Cells, size: int, alone: npt.NDArray[np.bool_], rates: tuple[float, float]) -> Known:
    """Decays and laws of numbers of entries, for so many states."""
    width, few, steps = cells.counts.shape[1], FEW_ENTRIES + 1, cells.observed.size // alone.size
    known = Known(
        np.empty((width, few)), np.ones(few), np.empty(alone.size), np.full(cells.observed.size * size, -1, np.int64)
    )
    law = known.over_rates
    for n in range(few):
        for w in range(width):
            known.decay[w, n] = math.exp(-n * cells.absolute[w])
        if n > 0:
            law[n] = law[n - 1] * (rates[1] + n - 1.0) / (rates[0] + rates[1] + n)
    for r in range(alone.size):
        known.more[r] = -1.0 if alone[r] else math.exp(cells.stay[r * steps])
    return known


def grouped(keys: Integers, place: Integers, group: Integers, first: Integers) -> int:
    """Numbers equal keys alike, from 0 in the order in which they come; the number of groups.

    ``group`` is overwritten by the number of each key, ``first`` by where each group's key comes first.
    """
    many = 0
    for at in range(keys.size):
        if place[keys[at]] < 0:
            place[keys[at]], first[many] = many, at
            many += 1
        group[at] = place[keys[at]]
    for u in range(many):
        place[keys[first[u]]] = -1
    return many


def weights_of_few(
    cells: Cells, members: Integers, first: int, last: int, emissions: Reals, weight: Reals, known: Known,
    alike: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """P(released | state) of some cells of a block over their numbers of entries and tables, over the largest.

    Tables are summed over once for all cells that share a number in ``alike``, shape (cells,), if it is not empty.
    Where all weights are next to nothing, as where two fields cannot agree on a number, they are 0. The block has
    ``first`` to ``last`` entries; ``emissions`` have a row for each state, or one for each sequence and state;
    ``weight``, shape (cells, states), is overwritten in the members' rows.
    """
    steps, size = cells.observed.size // known.more.size, weight.shape[1]
    shape = emissions.shape[1], FEW_ENTRIES + 1, LANES
    noise, term, part = np.empty(shape), np.empty(shape), np.empty(shape)
    number, law = np.empty((FEW_ENTRIES + 1, LANES)), np.empty(FEW_ENTRIES + 1)
    group, first_of = np.empty(members.size, np.int64), np.empty(members.size, np.int64)
    keys = np.empty(members.size, np.int64)
    for at in range(members.size):
        keys[at] = alike[members[at]] if alike.size > 0 else members[at]
    many = grouped(keys, known.place, group, first_of)
    ways = np.empty((many, size, last - first + 1))
    for begin in range(0, many, LANES):
        lanes = picked_out(members, first_of[begin : min(begin + LANES, many)])
        noise_of_few(cells, lanes, last, known.decay, noise)
        rows = np.empty_like(lanes)
        for k in range(size):
            for c in range(lanes.size):
                rows[c] = k + (lanes[c] // steps * size if emissions.shape[0] > size else 0)
            terms_of(noise, emissions, rows, last, term)
            sum_over_tables(cells.edges, lanes.size, first, last, term, part, number)
            for c in range(lanes.size):
                for n in range(first, last + 1):
                    ways[begin + c, k, n - first] = number[n, c]
    for at in range(members.size):
        i, top = members[at], 0.0
        law_of_number(first, last, float(known.more[i // steps]), known.over_rates, law)
        for k in range(size):
            total = 0.0
            for n in range(first, last + 1):
                total += law[n] * ways[group[at], k, n - first]
            weight[i, k] = total
            top = max(top, total)
        for k in range(size):
            weight[i, k] = weight[i, k] / top if top > 1e-250 else 0.0


def tables_of_few(
    rng: np.random.Generator, cells: Cells, members: Integers, first: int, last: int, states: Integers, size: int,
    emissions: Reals, known: Known, alike: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Draws the number of entries and the table of some cells of a block given their states, shape (cells,).

    Tables are summed over once for all cells that are alike and in one of ``size`` states.
    """
    steps = cells.observed.size // known.more.size
    shape = emissions.shape[1], FEW_ENTRIES + 1, LANES
    noise, term, part = np.empty(shape), np.empty(shape), np.empty(shape)
    number, law = np.empty((FEW_ENTRIES + 1, LANES)), np.empty(FEW_ENTRIES + 1)
    group, first_of = np.empty(members.size, np.int64), np.empty(members.size, np.int64)
    keys = np.empty(members.size, np.int64)
    for at in range(members.size):
        keys[at] = (alike[members[at]] if alike.size > 0 else members[at]) * size + states[members[at]]
    many = grouped(keys, known.place, group, first_of)
    start, order = np.empty(many + 1, np.int64), np.empty(members.size, np.int64)
    sorted_by(group, start, order)
    for begin in range(0, many, LANES):
        lanes = picked_out(members, first_of[begin : min(begin + LANES, many)])
        rows = np.empty_like(lanes)
        for c in range(lanes.size):
            rows[c] = states[lanes[c]] + (lanes[c] // steps * size if emissions.shape[0] > size else 0)
        noise_of_few(cells, lanes, last, known.decay, noise)
        terms_of(noise, emissions, rows, last, term)
        sum_over_tables(cells.edges, lanes.size, first, last, term, part, number)
        for c in range(lanes.size):
            for at in range(start[begin + c], start[begin + c + 1]):
                i = members[order[at]]
                law_of_number(first, last, float(known.more[i // steps]), known.over_rates, law)
                for n in range(first, last + 1):
                    law[n] *= number[n, c]
                drawn_table(rng, cells.edges, first, last, term, part, law, c, cells.counts[i])


def switch(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, prior: float,
    alone: npt.NDArray[np.bool_], rates: tuple[float, float],
) -> None:  # fmt: skip
    """Draws transitions, then all states with their tables.

    A cell with at most ``FEW_ENTRIES`` entries: all tables with as many as its block of numbers of entries allows are
    summed over, and once its state is drawn a number and a table are, exactly (proofs.md P121). Others: among a pool of
    tables for each state. The pool's law is the same whichever of its tables is the current one, so given the pool
    states and tables are an ordinary hidden Markov model (an embedded one: Neal, Beal and Roweis 2003) and are drawn
    exactly. ``emissions`` have a row for each state, or one for each sequence and state.
    """
    chains, steps = states.shape
    size, width = transition.shape[0], cells.counts.shape[1]
    known, way = known_of(cells, size, alone, rates), int(rng.random() * len(BLOCKS))
    ends, alike = BLOCKS[way], cells.alike[way]
    kind, order = np.full(chains * steps, -1, np.int64), np.empty(chains * steps, np.int64)
    for i in range(chains * steps):
        if cells.observed[i]:
            kind[i] = block_of(entries_of(cells, i), ends)
    start, weight = np.empty(ends.size + 2, np.int64), np.ones((chains * steps, size))
    sorted_by(kind, start, order)
    for block in range(ends.size):
        first, end = ends[block - 1] + 1 if block > 0 else 0, start[block + 1]
        for begin in range(start[block], end, PART):
            if cells.stop[0] != 0:
                return
            members = order[begin : min(begin + PART, end)]
            weights_of_few(cells, members, first, ends[block], emissions, weight, known, alike[block])
            for i in members:
                if largest(weight[i]) == 0.0:
                    kind[i] = ends.size
    sorted_by(kind, start, order)
    pooled, slots = order[start[ends.size] : start[ends.size + 1]], max(1, MOST_TABLES // size)
    tables, fit = np.empty((pooled.size, slots, size, width), np.int64), np.zeros((pooled.size, slots, size))
    pair, below = np.empty(size, np.int64), np.empty(slots)
    for at in range(pooled.size):
        i, r = pooled[at], pooled[at] // steps
        if at & HEARD == 0 and cells.stop[0] != 0:
            return
        matched(rng, pair)
        laws = emissions[r * size : (r + 1) * size] if emissions.shape[0] > size else emissions
        pool(rng, cells, i, int(states[r, i % steps]), laws, pair, tables[at], fit[at])
        top = largest(fit[at].ravel())
        weight[i] = 0.0
        for m in range(slots):
            for k in range(size):
                fit[at, m, k] = math.exp(fit[at, m, k] - top)
                weight[i, k] += fit[at, m, k]
    filtered = np.empty((chains, steps, size))
    by_chain = np.empty((chains, steps, size))
    for i in range(chains * steps):
        for k in range(size):
            by_chain[i // steps, i % steps, k] = weight[i, k]
    retune(rng, by_chain, transition, filtered, prior, cells)
    if cells.stop[0] != 0:
        return
    cells.tally[SWITCH] += backward(rng, filtered, transition, states)
    cells.tally[SWITCH + 1] += chains * steps
    found = states.ravel()
    for at in range(pooled.size):
        i = pooled[at]
        total = 0.0
        for m in range(slots):
            total += fit[at, m, found[i]]
            below[m] = total
        copied(tables[at, picked(below, slots, rng.random()), found[i]], cells.counts[i])
    for block in range(ends.size):
        first, end = ends[block - 1] + 1 if block > 0 else 0, start[block + 1]
        for begin in range(start[block], end, PART):
            if cells.stop[0] != 0:
                return
            members = order[begin : min(begin + PART, end)]
            tables_of_few(rng, cells, members, first, ends[block], found, size, emissions, known, alike[block])


def shift(
    rng: np.random.Generator, cells: Cells, key: Integers, emissions: Reals, prior: float, speed: float
) -> None:  # fmt: skip
    """Moves probability between two levels of every state's emissions, with the entries of its cells."""
    start, order = np.empty(emissions.shape[0] + 1, np.int64), np.empty(key.size, np.int64)
    sorted_by(key, start, order)
    columns = np.empty((cells.counts.shape[1], key.size), np.int32)
    for at in range(key.size):
        for w in range(columns.shape[0]):
            columns[w, at] = cells.counts[order[at], w]
    where, flipped = np.empty(key.size, np.int64), np.empty(key.size, np.int64)
    for f in range(cells.edges.size - 1):
        first, levels = cells.edges[f], cells.edges[f + 1] - cells.edges[f]
        for k in range(emissions.shape[0]):
            for _ in range(levels if levels > 1 and cells.stop[0] == 0 else 0):
                giving = int(rng.random() * levels)
                taking = first + (giving + 1 + int(rng.random() * (levels - 1))) % levels
                giving += first
                have, gets = emissions[k, giving], emissions[k, taking]
                amount = math.sqrt(rng.random()) * cells.reach[k, f]
                accepted, many = False, 0
                if amount < have:
                    gain = (prior - 1.0) * math.log((have - amount) / have * ((gets + amount) / gets))
                    many = taken_from(rng, columns[giving], start[k], start[k + 1], amount / have, where, flipped)
                    for j in range(many):
                        gain += flip_gain(cells, int(order[where[j]]), giving, taking, flipped[j])
                    accepted = accepts(rng, gain)
                if accepted:
                    emissions[k, giving], emissions[k, taking] = have - amount, gets + amount
                    for j in range(many):
                        i, at = order[where[j]], where[j]
                        cells.counts[i, giving] -= flipped[j]
                        cells.counts[i, taking] += flipped[j]
                        columns[giving, at] -= flipped[j]
                        columns[taking, at] += flipped[j]
                cells.tally[SHIFT] += accepted
                cells.tally[SHIFT + 1] += 1.0
                if speed > 0.0:
                    reach = cells.reach[k, f] * math.exp(speed * (accepted - AIM))
                    cells.reach[k, f] = min(max(reach, 1e-5), 0.9)


def taken_from(
    rng: np.random.Generator, column: npt.NDArray[np.int32], begin: int, end: int, chance: float, where: Integers,
    taken: Integers,
) -> int:  # fmt: skip
    """Takes each entry of some cells with a chance, all independent; the cells that lose any, and how many they lose.

    The number of entries between one that is taken and the next is drawn, which is geometric.
    """
    many = 0
    if chance <= 0.0:
        return many
    each = 1.0 / math.log1p(-chance)
    left = gap(rng, each)
    for at in range(begin, end):
        entries = int(column[at])
        if left < entries:
            here = 0
            while left < entries:
                here += 1
                left += 1 + gap(rng, each)
            where[many], taken[many] = at, here
            many += 1
        left -= entries
    return many


def gap(rng: np.random.Generator, each: float) -> int:
    """The number of failures before the next success, where ``each`` is 1 / ln P(failure)."""
    return int(min(math.log1p(-rng.random()) * each, 1e15))


def flip_gain(cells: Cells, i: int, giving: int, taking: int, many: int) -> float:
    """The gain of a cell's log-likelihood when entries move from one column to another."""
    total = 0.0
    for column, sign in ((giving, -1), (taking, 1)):
        before = cells.released[i, column] - cells.counts[i, column]
        after = before - sign * many
        total += cells.absolute[column] * (abs(before) - abs(after))
        total += cells.squares[column] * float(before - after) * float(before + after)
    return total


def redraw(rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float, more_than: int) -> None:
    """Draws some entries of every field anew, in cells with ``more_than`` entries, which the move leaves as many.

    Of all levels of a field, or of about half of them, as a coin decides.
    """
    new, law = np.empty(cells.counts.shape[1], np.int64), np.empty(cells.counts.shape[1])
    for i in range(key.size):
        if i & HEARD == 0 and cells.stop[0] != 0:
            return
        if not cells.observed[i] or entries_of(cells, i) <= more_than:
            continue
        for f in range(cells.edges.size - 1):
            a, b = cells.edges[f], cells.edges[f + 1]
            if b - a < 2:
                continue
            part = 1 if rng.random() < 0.5 else 0
            gone, total = 0, 0.0
            for w in range(a, b):
                law[w] = laws[key[i], w] if part == 0 or rng.random() < 0.5 else 0.0
                total += law[w]
                leaving = binomial(rng, cells.counts[i, w], cells.share[part, i, f]) if law[w] > 0.0 else 0
                new[w] = cells.counts[i, w] - leaving
                gone += leaving
            accepted = True
            if gone > 0:
                scattered(rng, gone, law[a:b], total, new[a:b])
                gain = log_law(cells, i, new[a:b], a, b) - log_law(cells, i, cells.counts[i, a:b], a, b)
                accepted = accepts(rng, gain)
                if accepted:
                    copied(new[a:b], cells.counts[i, a:b])
                cells.tally[REDRAW] += accepted
                cells.tally[REDRAW + 1] += 1.0
            if speed > 0.0:
                moved = cells.share[part, i, f] * math.exp(speed * (accepted - AIM))
                cells.share[part, i, f] = min(max(moved, 1e-4), 1.0)


def log_of_more(entries: int, many: int, rates: tuple[float, float]) -> float:
    """ln P(N = entries + many) - ln P(N = entries) of a cell whose rate is integrated out."""
    whole, after = rates[0] + rates[1] + 1.0, entries + many
    total = math.lgamma(rates[1] + after) - math.lgamma(rates[1] + entries)
    return total - math.lgamma(whole + after) + math.lgamma(whole + entries)


def resize(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float, members: Integers,
    more_than: int, alone: npt.NDArray[np.bool_], rates: tuple[float, float],
) -> None:  # fmt: skip
    """Lets entries join or leave some cells, all fields at once.

    Cells with ``more_than`` entries or fewer are left alone, and no other comes to have so few.
    """
    width, steps = cells.counts.shape[1], key.size // alone.size
    new = np.empty(width, np.int64)
    for at in range(members.size):
        i = members[at]
        if at & HEARD == 0 and cells.stop[0] != 0:
            return
        if not cells.observed[i]:
            continue
        entries = entries_of(cells, i)
        if entries <= more_than:
            continue
        more = 1 + int(rng.random() * cells.most[i])
        more = more if rng.random() < 0.5 else -more
        gain, accepted = -np.inf, False
        if entries + more > more_than:
            copied(cells.counts[i], new)
            resized(rng, more, entries, laws[key[i]], cells.edges, new)
            gain = log_law(cells, i, new, 0, width) - log_law(cells, i, cells.counts[i], 0, width)
            gain += log_of_more(entries, more, rates) if alone[i // steps] else more * float(cells.stay[i])
            accepted = accepts(rng, gain)
            if accepted:
                copied(new, cells.counts[i])
        cells.tally[RESIZE] += accepted
        cells.tally[RESIZE + 1] += 1.0
        if speed > 0.0:
            adapted = cells.most[i] * math.exp(speed * (math.exp(min(gain, 0.0)) - AIM))
            cells.most[i] = min(max(adapted, 1.0), 1e6)


def leave(rng: np.random.Generator, many: int, entries: int, counts: Integers) -> None:
    """Takes ``many`` of the entries away, picked evenly without replacement."""
    for _ in range(many):
        place, v = int(rng.random() * entries), 0
        while place >= counts[v]:
            place -= counts[v]
            v += 1
        counts[v] -= 1
        entries -= 1


def rescale(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, prior: tuple[float, float],
    still: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Moves each chain's mean number of entries and the entries of its cells with it, except ``still`` chains.

    A geometric number thinned is geometric; the other way entries join, as many as thinning would have lost (negative
    binomial), so only the noise and the prior of the rate decide.
    """
    width, steps = cells.counts.shape[1], key.size // still.size
    new, moved = np.empty((steps, width), np.int64), np.empty(steps, np.bool_)
    for r in range(still.size):
        if still[r]:
            continue
        stay = cells.stay[r * steps]
        odds = -math.expm1(stay) / math.exp(stay)
        step = 2.0 * (2.0 * rng.random() - 1.0) ** 3
        rate = 1.0 / (1.0 + math.exp(step) / odds)
        gain = prior[0] * (math.log(rate) - math.log(-math.expm1(stay)))
        gain += prior[1] * (math.log1p(-rate) - stay)
        kept = math.exp(-abs(step))
        lost = (1.0 - min(rate, -math.expm1(stay))) * (1.0 - kept)
        for t in range(steps):
            i, moved[t] = r * steps + t, False
            if i & HEARD == 0 and cells.stop[0] != 0:
                return
            if not cells.observed[i]:
                continue
            entries = entries_of(cells, i)
            more = (
                binomial(rng, entries, kept) - entries if step < 0.0 else rng.negative_binomial(entries + 1, 1.0 - lost)
            )
            if more == 0:
                continue
            moved[t] = True
            copied(cells.counts[i], new[t])
            resized(rng, more, entries, laws[key[i]], cells.edges, new[t])
            gain += log_law(cells, i, new[t], 0, width) - log_law(cells, i, cells.counts[i], 0, width)
        cells.tally[RESCALE + 1] += 1.0
        if 1e-12 < rate < 1.0 - 1e-12 and accepts(rng, gain):
            cells.tally[RESCALE] += 1.0
            for t in range(steps):
                i = r * steps + t
                cells.stay[i] = math.log1p(-rate)
                if moved[t]:
                    copied(new[t], cells.counts[i])


def rates_given_entries(
    rng: np.random.Generator, cells: Cells, prior: tuple[float, float], alone: npt.NDArray[np.bool_]
) -> None:  # fmt: skip
    """Draws each chain's rate: P(N) = p (1 - p)^N with p from a Beta law, given its observed cells.

    The rate of a chain with one of these is integrated out (proofs.md P122), and stays as it is.
    """
    steps = cells.observed.size // alone.size
    for r in range(alone.size):
        if alone[r]:
            continue
        seen, total = 0, 0
        for i in range(r * steps, (r + 1) * steps):
            if cells.observed[i]:
                seen += 1
                total += entries_of(cells, i)
        rate = min(max(rng.beta(prior[0] + seen, prior[1] + total), 1e-12), 1.0 - 1e-12)
        cells.stay[r * steps : (r + 1) * steps] = math.log1p(-rate)


def move_cells(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, rates: tuple[float, float], speed: float,
    alone: npt.NDArray[np.bool_], few: npt.NDArray[np.bool_], summed: bool, again: bool,
) -> None:  # fmt: skip
    """A redraw and a resize of every cell, a rescaling of every chain; ``key`` names the row of each cell's law.

    Where ``switch`` has summed over the tables of cells with few entries, a redraw gains nothing there, a resize is
    needed now and then, where blocks are of no use, and chains of such cells are rescaled once a sweep, but not
    ``again``; long chains now and then, by a coin.
    """
    members = np.arange(key.size)
    if not summed:
        redraw(rng, cells, laws, key, speed, -1)
        resize(rng, cells, laws, key, speed, members, -1, alone, rates)
        rescale(rng, cells, laws, key, rates, alone)
        return
    still = alone | few if again else alone
    if not again:
        turn = members[int(rng.random() * TURNS) :: TURNS].copy()
        resize(rng, cells, laws, key, speed, turn, -1, alone, rates)
    redraw(rng, cells, laws, key, speed, FEW_ENTRIES)
    resize(rng, cells, laws, key, speed, members, RARELY_RESIZED, alone, rates)
    if key.size // alone.size <= LONG or rng.random() * TURNS < 1.0:
        rescale(rng, cells, laws, key, rates, still)


def sweep(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals,
    priors: tuple[float, float, float, float], passes: int, speed: float,
) -> None:  # fmt: skip
    """Rates, a switch, then ``passes`` times a shift, a redraw and a resize of every cell, a rescaling of every chain.

    ``priors`` are the Dirichlet concentrations of transitions and of emissions and the Beta law of the rates; ``speed``
    is that of adapting the sizes of moves, 0 after burn-in.
    """
    alone, few = np.empty(states.shape[0], np.bool_), np.empty(states.shape[0], np.bool_)
    kinds_of_chains(cells, alone, few)
    rates_given_entries(rng, cells, priors[2:], alone)
    summed = transition.shape[0] > 1
    if summed:
        switch(rng, cells, states, transition, emissions, priors[0], alone, priors[2:])
    key = states.ravel().copy()
    for p in range(passes):
        if cells.stop[0] != 0:
            return
        shift(rng, cells, key, emissions, priors[1], speed)
        move_cells(rng, cells, emissions, key, priors[2:], speed, alone, few, summed, p > 0)
