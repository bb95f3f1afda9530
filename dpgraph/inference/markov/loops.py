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
#: So many cells are told apart, weighed and drawn before a stop is heard; the most numbers of entries in a block.
PART, NUMBERS = 8192, 6
#: A stop is heard every so many cells where each is moved by itself.
HEARD = 4095
#: Filtered probabilities are looked at every so many steps, and normalised where one is below this, or every so many
#: looks; chains are cut in pieces where states are at most so many.
STRETCH, TINY, LOOKS, MOST_CUT = 8, 1e-60, 4, 5
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


def fresh(rng: np.random.Generator, entries: int, law: Reals, edges: Integers, into: Integers) -> None:
    """A table of a cell drawn from an emission law."""
    into[:] = 0
    for f in range(edges.size - 1):
        scattered(rng, entries, law[edges[f] : edges[f + 1]], 1.0, into[edges[f] : edges[f + 1]])


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
    (slots, states, columns), and ``fit``, ln P(released | table), shape (slots, states), are overwritten.
    """
    width, gain = cells.counts.shape[1], np.empty(cells.counts.shape[1])
    entries = entries_of(cells, i)
    for m in range(fit.shape[0]):
        for k in range(fit.shape[1]):
            fit[m, k] = -np.inf
            if m > 0 and entries > SMALL:
                continue
            if m == 0 and k == here:
                tables[m, k] = cells.counts[i]
            elif m == 0 and (pair[k] == here or pair[k] < k):
                source = cells.counts[i] if pair[k] == here else tables[m, pair[k]]
                for f in range(cells.edges.size - 1):
                    a, b = cells.edges[f], cells.edges[f + 1]
                    couple(rng, source[a:b], emissions[pair[k], a:b], emissions[k, a:b], gain[a:b], tables[m, k, a:b])
            else:
                fresh(rng, entries, emissions[k], cells.edges, tables[m, k])
            fit[m, k] = log_law(cells, i, tables[m, k], 0, width)


def matched(rng: np.random.Generator, pair: Integers) -> None:
    """Pairs states at random, whatever the states of the cells; an odd one stays alone."""
    size, waiting = pair.size, -1
    order = np.arange(size)
    for k in range(size):
        other = k + int(rng.random() * (size - k))
        order[k], order[other] = order[other], order[k]
        here = order[k]
        pair[here] = here
        if waiting < 0:
            waiting = here
        else:
            pair[here], pair[waiting] = waiting, here
            waiting = -1


class Pieces(NamedTuple):
    """The weights of all chains, in pieces that are filtered side by side: each from every state before it.

    Attributes:
        weight: Shape (blocks, steps of a piece, states, LANES); 1 after the end of a piece.
        begins: True where a lane begins a chain, shape (lanes,).
        rows: From how many states each piece is filtered: 1 where no chain is cut.
    """

    weight: Reals
    begins: npt.NDArray[np.bool_]
    rows: int


def pieces_of(weight: Reals) -> Pieces:
    """Cuts chains of weights, shape (chains, steps, states), where most lanes of a vector would be idle otherwise."""
    chains, steps, size = weight.shape
    length = steps
    if chains * size < LANES and size <= MOST_CUT:
        length = min(steps, max(2 * LANES, -(-steps // (LANES // chains))))
    cuts = -(-steps // length)
    cut = np.ones((-(-chains * cuts // LANES), length, size, LANES))
    begins = np.zeros(chains * cuts, np.bool_)
    for r in range(chains):
        for piece in range(cuts):
            lane = r * cuts + piece
            begins[lane] = piece == 0
            for t in range(piece * length, min(steps, (piece + 1) * length)):
                for k in range(size):
                    cut[lane // LANES, t - piece * length, k, lane % LANES] = weight[r, t, k]
    return Pieces(cut, begins, size if cuts > 1 else 1)


def onward(room: Reals, old: int, rows: int, weight: Reals, b: int, t: int, transition: Reals) -> None:
    """One step of ``LANES`` filters from ``room[old]`` to the other half: the next state, times its weight."""
    size, new = transition.shape[0], 1 - old
    for s in range(rows):
        for k in range(size):
            if size == 2:
                one, two = transition[0, k], transition[1, k]
                for c in range(LANES):
                    room[new, s, k, c] = (room[old, s, 0, c] * one + room[old, s, 1, c] * two) * weight[b, t, k, c]
            elif size == 3:
                one, two, three = transition[0, k], transition[1, k], transition[2, k]
                for c in range(LANES):
                    total = room[old, s, 0, c] * one + room[old, s, 1, c] * two + room[old, s, 2, c] * three
                    room[new, s, k, c] = total * weight[b, t, k, c]
            else:
                one = transition[0, k]
                for c in range(LANES):
                    room[new, s, k, c] = room[old, s, 0, c] * one
                for j in range(1, size):
                    one = transition[j, k]
                    for c in range(LANES):
                        room[new, s, k, c] += room[old, s, j, c] * one
                for c in range(LANES):
                    room[new, s, k, c] *= weight[b, t, k, c]


def log_likelihood(pieces: Pieces, transition: Reals, room: Reals) -> float:
    """ln P(weights | transitions) of all chains, up to a constant; ``room`` is scratch: (2, states, states, LANES)."""
    weight, rows = pieces.weight, pieces.rows
    blocks, length, size, _ = weight.shape
    ends, logs = np.empty((blocks * LANES, rows, size)), np.zeros((blocks * LANES, rows))
    total, here = np.empty((rows, LANES)), 0
    for b in range(blocks):
        room[:] = 0.0
        for s in range(rows):
            room[here, s, s, :] = 1.0
        for t in range(length):
            onward(room, here, rows, weight, b, t, transition)
            here = 1 - here
            if t == 0:
                for c in range(LANES):
                    if b * LANES + c >= pieces.begins.size or pieces.begins[b * LANES + c]:
                        for s in range(rows):
                            for k in range(size):
                                room[here, s, k, c] = weight[b, t, k, c]
            if t % STRETCH == STRETCH - 1 or t == length - 1:
                lowest = totals_of(room, here, total)
                if lowest < TINY or t % (STRETCH * LOOKS) == STRETCH * LOOKS - 1 or t == length - 1:
                    for s in range(rows):
                        for c in range(LANES):
                            logs[b * LANES + c, s] += math.log(total[s, c])
                            total[s, c] = 1.0 / total[s, c]
                        for k in range(size):
                            for c in range(LANES):
                                room[here, s, k, c] *= total[s, c]
        for c in range(LANES):
            for s in range(rows):
                for k in range(size):
                    ends[b * LANES + c, s, k] = room[here, s, k, c]
    return joined(pieces, ends, logs)


def totals_of(room: Reals, here: int, total: Reals) -> float:
    """Overwrites ``total`` by the sums over states of each row and lane, and returns the least of them."""
    lowest = 1.0
    for s in range(total.shape[0]):
        for c in range(LANES):
            total[s, c] = 1e-300
        for k in range(room.shape[2]):
            for c in range(LANES):
                total[s, c] += room[here, s, k, c]
        for c in range(LANES):
            lowest = min(lowest, total[s, c])
    return lowest


def joined(pieces: Pieces, ends: Reals, logs: Reals) -> float:
    """The log-likelihood of all chains, from the end of each row of a lane and its log weight."""
    size, found = ends.shape[2], 0.0
    state, after = np.empty(size), np.empty(size)
    for lane in range(pieces.begins.size):
        if pieces.begins[lane]:
            found += logs[lane, 0]
            state[:] = ends[lane, 0]
            continue
        top = logs[lane].max()
        after[:] = 0.0
        for j in range(size):
            share = state[j] * math.exp(logs[lane, j] - top)
            for k in range(size):
                after[k] += share * ends[lane, j, k]
        total = max(after.sum(), 1e-300)
        found += top + math.log(total)
        state[:] = after / total
    return found


def forward(weight: Reals, transition: Reals, filtered: Reals) -> None:
    """Filters every chain: ``filtered``, of the shape (chains, steps, states), is proportional to P(state | so far)."""
    chains, steps, size = weight.shape
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
            if total < 1e-100 or t % STRETCH == STRETCH - 1:
                total = max(total, 1e-300)
                for k in range(size):
                    filtered[r, t, k] /= total


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
    rng: np.random.Generator, weight: Reals, transition: Reals, filtered: Reals, prior: float, tally: Reals,
    stop: Integers,
) -> None:  # fmt: skip
    """Metropolis on the transitions with all states summed out; leaves ``filtered`` as the last ones want it."""
    size, single = transition.shape[0], weight.shape[1] == 1
    pieces, room = pieces_of(weight), np.empty((2, size, size, LANES))
    now, proposed = 0.0 if single else log_likelihood(pieces, transition, room), transition.copy()
    for j in range(size):
        for _ in range(2 * (size - 1)):
            if stop[0] != 0:
                return
            a = int(rng.random() * size)
            b = (a + 1 + int(rng.random() * (size - 1))) % size
            amount = 0.5 * rng.random() ** 3
            given, taken = transition[j, a] - amount, transition[j, b] + amount
            if given > 1e-300:
                proposed[j, a], proposed[j, b] = given, taken
                found = now if single else log_likelihood(pieces, proposed, room)
                ratio = math.log(given / transition[j, a]) + math.log(taken / transition[j, b])
                if accepts(rng, found - now + (prior - 1.0) * ratio):
                    transition[j, a], transition[j, b] = given, taken
                    now = found
                    tally[RETUNE] += 1.0
                proposed[j, a], proposed[j, b] = transition[j, a], transition[j, b]
            tally[RETUNE + 1] += 1.0
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


def powers_of(laws: Reals, powers: Reals) -> None:
    """p^n / n! of every probability, n = 0, 1, ..., FEW_ENTRIES; shape (states, columns, FEW_ENTRIES + 1)."""
    for k in range(laws.shape[0]):
        for w in range(laws.shape[1]):
            powers[k, w, 0] = 1.0
            for n in range(1, FEW_ENTRIES + 1):
                powers[k, w, n] = powers[k, w, n - 1] * laws[k, w] / n


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
    """P(released | N, state) of ``many`` cells, N = first, ..., last, over their tables, up to one constant each.

    Args:
        edges: Where each field's columns start, and the end.
        many: The number of cells.
        first: The least number of entries.
        last: The largest.
        term: The factor of n entries in a column, p^n / n! P(released | n), shape (columns, FEW_ENTRIES + 1, LANES).
        part: Overwritten: row w is for n entries in the columns of the field up to w, the sum over their tables of
            the products of their terms; of the same shape.
        number: Overwritten by P(released | N, state), shape (FEW_ENTRIES + 1, LANES).
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


def terms_of(noise: Reals, power: Reals, lane_state: Integers, last: int, term: Reals) -> None:
    """The terms of some cells, each with the powers of its state."""
    for w in range(power.shape[1]):
        for n in range(last + 1):
            for c in range(lane_state.size):
                term[w, n, c] = noise[w, n, c] * power[lane_state[c], w, n]


def law_of_number(first: int, last: int, more: float, over_rates: Reals, law: Reals) -> None:
    """P(N) of a cell up to a constant, N = first, ..., last: by the chance of one more entry, or over rates if < 0."""
    here = 1.0
    for n in range(first, last + 1):
        law[n] = over_rates[n] if more < 0.0 else here
        here *= more


def drawn_tables(
    rng: np.random.Generator, cells: Cells, room: Room, begin: int, stop: int, first: int, last: int
) -> None:  # fmt: skip
    """Draws a number of entries and a table of every cell of some lanes, over whose tables the sums have been taken."""
    counts, edges, term, part, number, law = cells.counts, cells.edges, room.term, room.part, room.number, room.law
    steps = cells.observed.size // room.more.size
    for at in range(room.start[begin], room.start[stop]):
        i = room.order[at]
        c = room.class_of[at] - begin
        law_of_number(first, last, float(room.more[i // steps]), room.over_rates, law)
        left = 0.0
        for n in range(first, last + 1):
            law[n] *= number[n, c]
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
                counts[i, w] = many
                rest -= many
            counts[i, edges[f]] = rest


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


class Room(NamedTuple):
    """Scratch of ``switch``, so that no cell asks for memory.

    Attributes:
        power: p^n / n!, shape (states, columns, FEW_ENTRIES + 1).
        decay: exp(-n absolute), shape (columns, FEW_ENTRIES + 1).
        noise: Shape (columns, FEW_ENTRIES + 1, LANES).
        term: Of the same shape.
        part: Of the same shape.
        number: Shape (FEW_ENTRIES + 1, LANES).
        law: Shape (FEW_ENTRIES + 1,).
        over_rates: P(N) up to a constant, over all rates, shape (FEW_ENTRIES + 1,).
        more: The chance of one more entry in each chain, -1 where its rate is integrated out, shape (chains,).
        ways: P(released | N, state) of classes of cells, shape (PART, states, NUMBERS).
        class_of: The class of each cell of a part, then the lane of each cell in ``order``, shape (PART,).
        first_of: The first cell of each class, then of each lane, shape (PART,).
        place_of: -1, or the class of alike cells, shape (cells,).
        lane_of: -1, or the lane of a class and state, shape (PART x states,).
        start: Where the cells of each lane begin, shape (PART + 1,).
        order: The cells of a part by their lane, shape (PART,).
    """

    power: Reals
    decay: Reals
    noise: Reals
    term: Reals
    part: Reals
    number: Reals
    law: Reals
    over_rates: Reals
    more: Reals
    ways: Reals
    class_of: Integers
    first_of: Integers
    place_of: Integers
    lane_of: Integers
    start: Integers
    order: Integers


def room_of(cells: Cells, size: int, alone: npt.NDArray[np.bool_], rates: tuple[float, float]) -> Room:
    """Scratch for so many states, with decays and laws of numbers of entries."""
    width, few, steps = cells.counts.shape[1], FEW_ENTRIES + 1, cells.observed.size // alone.size
    several, most = (width, few, LANES), min(PART, cells.observed.size)
    room = Room(
        np.empty((size, width, few)), np.empty((width, few)), np.empty(several), np.empty(several), np.empty(several),
        np.empty((few, LANES)), np.empty(few), np.ones(few), np.empty(alone.size),
        np.empty((most, size, NUMBERS)), np.empty(most, np.int64), np.empty(most, np.int64),
        np.full(cells.alike.shape[2], -1, np.int64), np.full(most * size, -1, np.int64), np.empty(most + 1, np.int64),
        np.empty(most, np.int64),
    )  # fmt: skip
    law = room.over_rates
    for n in range(few):
        for w in range(width):
            room.decay[w, n] = math.exp(-n * cells.absolute[w])
        if n > 0:
            law[n] = law[n - 1] * (rates[1] + n - 1.0) / (rates[0] + rates[1] + n)
    for r in range(alone.size):
        room.more[r] = -1.0 if alone[r] else math.exp(cells.stay[r * steps])
    return room


def classes_of(members: Integers, alike: npt.NDArray[np.int32], room: Room) -> int:
    """Tells at most ``PART`` cells apart: fills ``class_of`` and ``first_of``; the number of classes.

    Alike cells share a number in ``alike``, shape (cells,); where it is empty every cell is a class of its own.
    """
    many = 0
    if alike.size == 0:
        for at in range(members.size):
            room.class_of[at], room.first_of[at] = at, members[at]
        return members.size
    for at in range(members.size):
        place = alike[members[at]]
        if room.place_of[place] < 0:
            room.place_of[place], room.first_of[many] = many, members[at]
            many += 1
        room.class_of[at] = room.place_of[place]
    for u in range(many):
        room.place_of[alike[room.first_of[u]]] = -1
    return many


def weights_of_few(
    cells: Cells, members: Integers, first: int, last: int, emissions: Reals, weight: Reals, room: Room,
    alike: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """P(released | state) of some cells of a block over their numbers of entries and tables, over the largest.

    Tables are summed over once for all cells that are alike. Where all weights are next to nothing, as where two fields
    cannot agree on a number, they are 0. The block has ``first`` to ``last`` entries; ``emissions`` have a row for each
    state, or one for each sequence and state; ``weight``, shape (cells, states), is overwritten in the members' rows.
    """
    steps, size = cells.observed.size // room.more.size, weight.shape[1]
    many, begin, own = classes_of(members, alike, room), 0, emissions.shape[0] > size
    while begin < many:
        stop = part_of(room.first_of, begin, many, steps, own)
        lanes = room.first_of[begin:stop]
        if own or begin == 0:
            r = lanes[0] // steps if own else 0
            powers_of(emissions[r * size : (r + 1) * size], room.power)
        noise_of_few(cells, lanes, last, room.decay, room.noise)
        for k in range(size):
            terms_of(room.noise, room.power, np.full(lanes.size, k), last, room.term)
            sum_over_tables(cells.edges, lanes.size, first, last, room.term, room.part, room.number)
            for c in range(lanes.size):
                for n in range(first, last + 1):
                    room.ways[begin + c, k, n - first] = room.number[n, c]
        begin = stop
    law = room.law
    for at in range(members.size):
        i, u, top = members[at], room.class_of[at], 0.0
        law_of_number(first, last, float(room.more[i // steps]), room.over_rates, law)
        for k in range(size):
            total = 0.0
            for n in range(first, last + 1):
                total += law[n] * room.ways[u, k, n - first]
            weight[i, k] = total
            top = max(top, total)
        for k in range(size):
            weight[i, k] = weight[i, k] / top if top > 1e-250 else 0.0


def lanes_of(members: Integers, states: Integers, size: int, room: Room) -> int:
    """Sorts some cells by class and state: fills ``first_of``, ``start``, ``order``; the number of lanes."""
    many, size_of_part = 0, members.size
    for at in range(size_of_part):
        pair = room.class_of[at] * size + states[members[at]]
        if room.lane_of[pair] < 0:
            room.lane_of[pair] = many
            many += 1
        room.class_of[at] = room.lane_of[pair]
    room.lane_of[: size_of_part * size] = -1
    sorted_by(room.class_of[:size_of_part], room.start[: many + 1], room.order)
    for v in range(many):
        for at in range(room.start[v], room.start[v + 1]):
            room.order[at], room.class_of[at] = members[room.order[at]], v
        room.first_of[v] = room.order[room.start[v]]
    return many


def tables_of_few(
    rng: np.random.Generator, cells: Cells, members: Integers, first: int, last: int, states: Integers,
    emissions: Reals, room: Room, alike: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Draws the number of entries and the table of some cells of a block given their states, shape (cells,).

    Tables are summed over once for all cells that are alike and in one state.
    """
    steps, size = cells.observed.size // room.more.size, room.power.shape[0]
    classes_of(members, alike, room)
    many, begin, own = lanes_of(members, states, size, room), 0, emissions.shape[0] > size
    while begin < many:
        stop = part_of(room.first_of, begin, many, steps, own)
        lanes = room.first_of[begin:stop]
        if own or begin == 0:
            r = lanes[0] // steps if own else 0
            powers_of(emissions[r * size : (r + 1) * size], room.power)
        noise_of_few(cells, lanes, last, room.decay, room.noise)
        terms_of(room.noise, room.power, states[lanes], last, room.term)
        sum_over_tables(cells.edges, lanes.size, first, last, room.term, room.part, room.number)
        drawn_tables(rng, cells, room, begin, stop, first, last)
        begin = stop


def part_of(sequences: Integers, begin: int, end: int, steps: int, own: bool) -> int:
    """Where the next part of a list of cells ends: ``LANES`` of them at most, of one sequence where these differ."""
    stop = min(begin + LANES, end)
    if own:
        r, at = sequences[begin] // steps, begin + 1
        while at < stop and sequences[at] // steps == r:
            at += 1
        stop = at
    return stop


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
    own = emissions.shape[0] > size
    room = room_of(cells, size, alone, rates)
    way = int(rng.random() * len(BLOCKS))
    ends, alike = BLOCKS[way], cells.alike[way]
    kind, order = np.full(chains * steps, -1, np.int64), np.empty(chains * steps, np.int64)
    for i in range(chains * steps):
        if cells.observed[i]:
            kind[i] = block_of(entries_of(cells, i), ends)
    start, weight = np.empty(ends.size + 2, np.int64), np.ones((chains * steps, size))
    sorted_by(kind, start, order)
    for block in range(ends.size):
        begin, first = start[block], ends[block - 1] + 1 if block > 0 else 0
        while begin < start[block + 1] and cells.stop[0] == 0:
            stop = min(begin + PART, start[block + 1])
            weights_of_few(cells, order[begin:stop], first, ends[block], emissions, weight, room, alike[block])
            begin = stop
    place, many = np.full(chains * steps, -1, np.int64), 0
    for i in range(chains * steps):
        if cells.observed[i]:
            told = 0.0
            for k in range(size):
                told += weight[i, k]
            if told == 0.0 or entries_of(cells, i) > FEW_ENTRIES:
                place[i] = many
                many += 1
    slots = max(1, MOST_TABLES // size)
    tables, fit = np.empty((many, slots, size, width), np.int64), np.zeros((many, slots, size))
    pair, below = np.empty(size, np.int64), np.empty(slots)
    for i in range(place.size):
        at, r = place[i], i // steps
        if i & HEARD == 0 and cells.stop[0] != 0:
            return
        if at < 0:
            continue
        matched(rng, pair)
        laws = emissions[r * size : (r + 1) * size] if own else emissions
        pool(rng, cells, i, int(states[r, i % steps]), laws, pair, tables[at], fit[at])
        top = fit[at].max()
        for k in range(size):
            weight[i, k] = 0.0
            for m in range(slots):
                fit[at, m, k] = math.exp(fit[at, m, k] - top)
                weight[i, k] += fit[at, m, k]
    filtered = np.empty((chains, steps, size))
    retune(rng, weight.reshape((chains, steps, size)), transition, filtered, prior, cells.tally, cells.stop)
    if cells.stop[0] != 0:
        return
    cells.tally[SWITCH] += backward(rng, filtered, transition, states)
    cells.tally[SWITCH + 1] += chains * steps
    found = states.reshape(chains * steps)
    for i in range(place.size):
        at, k = place[i], found[i]
        if at >= 0:
            for m in range(slots):
                below[m] = fit[at, m, k] + (below[m - 1] if m > 0 else 0.0)
            cells.counts[i] = tables[at, picked(below, slots, rng.random()), k]
    for block in range(ends.size):
        summed, first = 0, ends[block - 1] + 1 if block > 0 else 0
        for at in range(start[block], start[block + 1]):
            if place[order[at]] < 0:
                order[start[block] + summed] = order[at]
                summed += 1
        begin, end = start[block], start[block] + summed
        while begin < end and cells.stop[0] == 0:
            stop = min(begin + PART, end)
            tables_of_few(rng, cells, order[begin:stop], first, ends[block], found, emissions, room, alike[block])
            begin = stop


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


def redraw(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float, members: Integers, more_than: int
) -> None:  # fmt: skip
    """Draws some entries of every field anew, in cells with ``more_than`` entries, which the move leaves as many.

    Of all levels of a field, or of about half of them, as a coin decides.
    """
    new, law = np.empty(cells.counts.shape[1], np.int64), np.empty(cells.counts.shape[1])
    for at in range(members.size):
        i = members[at]
        if at & HEARD == 0 and cells.stop[0] != 0:
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
                    cells.counts[i, a:b] = new[a:b]
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
        many, joining = 1 + int(rng.random() * cells.most[i]), rng.random() < 0.5
        gain, accepted = -np.inf, False
        if joining or entries - many > more_than:
            new[:] = cells.counts[i]
            for f in range(cells.edges.size - 1):
                a, b = cells.edges[f], cells.edges[f + 1]
                if joining:
                    scattered(rng, many, laws[key[i], a:b], 1.0, new[a:b])
                else:
                    leave(rng, many, entries, new[a:b])
            gain = log_law(cells, i, new, 0, width) - log_law(cells, i, cells.counts[i], 0, width)
            if alone[i // steps]:
                gain += log_of_more(entries, many if joining else -many, rates)
            else:
                gain += (many if joining else -many) * float(cells.stay[i])
            accepted = accepts(rng, gain)
            if accepted:
                cells.counts[i] = new
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


def joiners(rng: np.random.Generator, entries: int, lost: float) -> int:
    """A number lost by thinning where so many are left: negative binomial, a geometric for each and one more."""
    if lost <= 0.0:
        return 0
    if entries >= FEW:
        return rng.poisson(rng.standard_gamma(entries + 1.0) * lost / (1.0 - lost))
    many = 0
    for _ in range(entries + 1):
        uniform = rng.random()
        if uniform < lost:
            many += int(math.log(max(uniform, 1e-300)) / math.log(lost))
    return many


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
            many = entries - binomial(rng, entries, kept) if step < 0.0 else joiners(rng, entries, lost)
            if many == 0:
                continue
            moved[t], new[t] = True, cells.counts[i]
            for f in range(cells.edges.size - 1):
                a, b = cells.edges[f], cells.edges[f + 1]
                if step < 0.0:
                    leave(rng, many, entries, new[t, a:b])
                else:
                    scattered(rng, many, laws[key[i], a:b], 1.0, new[t, a:b])
            gain += log_law(cells, i, new[t], 0, width) - log_law(cells, i, cells.counts[i], 0, width)
        cells.tally[RESCALE + 1] += 1.0
        if 1e-12 < rate < 1.0 - 1e-12 and accepts(rng, gain):
            cells.tally[RESCALE] += 1.0
            for t in range(steps):
                i = r * steps + t
                cells.stay[i] = math.log1p(-rate)
                if moved[t]:
                    cells.counts[i] = new[t]


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


def with_more_than(cells: Cells, entries: int, members: Integers) -> int:
    """Lists the observed cells with more entries than so many; the number of these cells."""
    many = 0
    for i in range(members.size):
        if cells.observed[i] and entries_of(cells, i) > entries:
            members[many] = i
            many += 1
    return many


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
        redraw(rng, cells, laws, key, speed, members, -1)
        resize(rng, cells, laws, key, speed, members, -1, alone, rates)
        rescale(rng, cells, laws, key, rates, alone)
        return
    still = alone | few if again else alone
    if not again:
        turn = members[int(rng.random() * TURNS) :: TURNS].copy()
        resize(rng, cells, laws, key, speed, turn, -1, alone, rates)
    large = members[: with_more_than(cells, RARELY_RESIZED, members)]
    redraw(rng, cells, laws, key, speed, large, FEW_ENTRIES)
    resize(rng, cells, laws, key, speed, large, RARELY_RESIZED, alone, rates)
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
