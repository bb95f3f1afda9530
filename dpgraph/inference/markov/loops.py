"""Markov chain moves over the true cells of an event log, one sampler chain at a time; arrays are changed in place.

* redraw: some of a field's entries, of some of its levels, are drawn anew;
* resize: entries join (drawn from the emissions) or leave (picked evenly) all fields at once;
* switch: states are drawn together with the tables of their cells: exactly, number of entries and all, where a cell has
  few entries (proofs.md P116), from a pool of tables for each state where it has many;
* shift: probability moves between two levels of an emission table and the entries of its cells with it
  (proofs.md P55): emissions move where emissions given the tables would be stuck;
* retune: transitions move with all states summed out;
* rescale: a chain's rate of entries moves and the entries of its cells with it. The rate of a chain with one observed
  cell is integrated out (proofs.md P117).

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
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
#: Where the blocks of numbers of entries end that ``switch`` sums over; cells with more have a pool.
INNER, FEWEST = 3, 7
#: Up to this chance the entries that a shift takes are found by the gaps between them.
RARE = 0.2
#: Filtered probabilities are normalised every so many steps.
STRETCH = 16


class Cells(NamedTuple):
    """The unknown tables of one sampler chain, a row a cell, as in ``latent.LatentCells``.

    Attributes:
        counts: Changed in place, shape (cells, columns).
        released: Shape (cells, columns).
        observed: Shape (cells,).
        edges: Where each field's columns start, and the end, shape (fields + 1,).
        absolute: What a unit of |noise| costs, shape (columns,).
        squares: What a unit of noise^2 costs, shape (columns,).
        stay: Shape (cells,).
        share: Shape (2, cells, fields).
        most: Shape (cells,).
        reach: Shape (states, fields).
        tally: Accepted and tried of each move, shape (12,).
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


def binomial(rng: np.random.Generator, trials: int, chance: float) -> int:
    """How many of some trials succeed."""
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

    Args:
        rng: Randomness for post-processing.
        cells: The sampler chain.
        i: The cell.
        here: Its state.
        emissions: Shape (states, columns).
        pair: Which state is matched with which, itself where none is, shape (states,).
        tables: Overwritten, shape (slots, states, columns).
        fit: Overwritten: ln P(released | table), shape (slots, states).
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


def forward(weight: Reals, transition: Reals, filtered: Reals, kept: bool) -> float:
    """Filters every chain; returns ln P(weights | transitions) up to a constant.

    Args:
        weight: Shape (chains, steps, states).
        transition: Shape (states, states).
        filtered: Overwritten where ``kept``: for each cell proportional to P(state | weights up to it).
        kept: Whether to.
    """
    chains, steps, size = weight.shape
    found, before, here = 0.0, np.empty(size), np.empty(size)
    for r in range(chains):
        for t in range(steps):
            total = 0.0
            for k in range(size):
                into = 1.0
                if t > 0:
                    into = 0.0
                    for j in range(size):
                        into += before[j] * transition[j, k]
                here[k] = into * weight[r, t, k]
                total += here[k]
            if total < 1e-100 or t % STRETCH == STRETCH - 1 or t == steps - 1:
                total = max(total, 1e-300)
                found += math.log(total)
                for k in range(size):
                    here[k] /= total
            for k in range(size):
                before[k] = here[k]
                if kept:
                    filtered[r, t, k] = here[k]
    return found


def retune(
    rng: np.random.Generator, weight: Reals, transition: Reals, filtered: Reals, prior: float, tally: Reals
) -> None:  # fmt: skip
    """Metropolis on the transitions with all states summed out; leaves ``filtered`` as the last ones want it."""
    size, single = transition.shape[0], weight.shape[1] == 1
    now, proposed = 0.0 if single else forward(weight, transition, filtered, False), transition.copy()
    for j in range(size):
        for _ in range(2 * (size - 1)):
            a = int(rng.random() * size)
            b = (a + 1 + int(rng.random() * (size - 1))) % size
            amount = 0.5 * rng.random() ** 3
            given, taken = transition[j, a] - amount, transition[j, b] + amount
            if given > 1e-300:
                proposed[j, a], proposed[j, b] = given, taken
                found = now if single else forward(weight, proposed, filtered, False)
                ratio = math.log(given / transition[j, a]) + math.log(taken / transition[j, b])
                if accepts(rng, found - now + (prior - 1.0) * ratio):
                    transition[j, a], transition[j, b] = given, taken
                    now = found
                    tally[RETUNE] += 1.0
                proposed[j, a], proposed[j, b] = transition[j, a], transition[j, b]
            tally[RETUNE + 1] += 1.0
    forward(weight, transition, filtered, True)


def alone_in_chain(observed: npt.NDArray[np.bool_], alone: npt.NDArray[np.bool_]) -> None:
    """Which chains have one observed cell: nothing else tells of their rate of entries."""
    steps = observed.size // alone.size
    for r in range(alone.size):
        seen = 0
        for i in range(r * steps, (r + 1) * steps):
            seen += observed[i]
        alone[r] = seen == 1


def powers_of(laws: Reals, powers: Reals) -> None:
    """p^n / n! of every probability, n = 0, 1, ..., FEWEST; shape (states, columns, FEWEST + 1)."""
    for k in range(laws.shape[0]):
        for w in range(laws.shape[1]):
            powers[k, w, 0] = 1.0
            for n in range(1, FEWEST + 1):
                powers[k, w, n] = powers[k, w, n - 1] * laws[k, w] / n


def decays_of(cells: Cells, decay: Reals) -> None:
    """exp(-n absolute) of every column, n = 0, 1, ..., FEWEST."""
    for w in range(decay.shape[0]):
        for n in range(FEWEST + 1):
            decay[w, n] = math.exp(-n * cells.absolute[w])


def noise_of_few(cells: Cells, i: int, last: int, decay: Reals, noise: Reals) -> None:
    """P(released | n entries) of every column, n = 0, 1, ..., last, over the largest of these."""
    for w in range(decay.shape[0]):
        y = cells.released[i, w]
        near = min(max(y, 0), last)
        for n in range(last + 1):
            noise[w, n] = decay[w, abs(n - near)]
            if cells.squares[w] > 0.0:
                noise[w, n] *= math.exp(-cells.squares[w] * float(n - near) * float(n + near - 2 * y))


def sum_over_tables(
    edges: Integers, first: int, last: int, power: Reals, noise: Reals, part: Reals, number: Reals
) -> float:  # fmt: skip
    """P(released, N | state) of a cell, N = first, ..., last, over its tables, up to one constant; their sum.

    Args:
        edges: Where each field's columns start, and the end.
        first: The least number of entries.
        last: The largest.
        power: Of the state, shape (columns, FEWEST + 1).
        noise: As ``noise_of_few`` has it.
        part: Overwritten: row w is for n entries in the columns of the field up to w, the sum over their tables of
            what these contribute, over n!; shape (columns, FEWEST + 1).
        number: On entry P(N), overwritten by P(released, N | state).
    """
    for f in range(edges.size - 1):
        a, b = edges[f], edges[f + 1]
        for n in range(last + 1):
            part[a, n] = power[a, n] * noise[a, n]
        for w in range(a + 1, b):
            for n in range(first if w == b - 1 else 0, last + 1):
                total = 0.0
                for m in range(n + 1):
                    total += part[w - 1, n - m] * power[w, m] * noise[w, m]
                part[w, n] = total
        ways = 1.0
        for n in range(1, first):
            ways *= n
        for n in range(first, last + 1):
            ways *= max(n, 1)
            number[n] *= part[b - 1, n] * ways
    whole = 0.0
    for n in range(first, last + 1):
        whole += number[n]
    return whole


def few_given_rate(stay: float, law: Reals) -> None:
    """P(N) up to a constant, N = 0, 1, ..., given the rate."""
    law[0], more = 1.0, math.exp(stay)
    for n in range(1, law.size):
        law[n] = law[n - 1] * more


def few_over_rates(rates: tuple[float, float], law: Reals) -> None:
    """P(N) up to a constant, N = 0, 1, ..., over all rates."""
    law[0] = 1.0
    for n in range(1, law.size):
        law[n] = law[n - 1] * (rates[1] + n - 1.0) / (rates[0] + rates[1] + n)


def drawn_table(
    rng: np.random.Generator, edges: Integers, first: int, last: int, power: Reals, noise: Reals, part: Reals,
    number: Reals, table: Integers,
) -> None:  # fmt: skip
    """Draws a number of entries and a table of a cell given its state, where ``sum_over_tables`` has been."""
    total = 0.0
    for n in range(first, last + 1):
        total += number[n]
    left, entries = rng.random() * total, first
    while entries < last and left >= number[entries]:
        left -= number[entries]
        entries += 1
    for f in range(edges.size - 1):
        rest = entries
        for w in range(edges[f + 1] - 1, edges[f], -1):
            many = 0
            if rest > 0:
                left = rng.random() * part[w, rest]
                for m in range(rest + 1):
                    here = part[w - 1, rest - m] * power[w, m] * noise[w, m]
                    if here > 0.0:
                        many = m
                        if left < here:
                            break
                        left -= here
            table[w] = many
            rest -= many
        table[edges[f]] = rest


def block_of(entries: int) -> tuple[int, int]:
    """The first and the last number of entries of the block that holds this one."""
    return (0, INNER) if entries <= INNER else (INNER + 1, FEWEST)


def switch(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, prior: float,
    alone: npt.NDArray[np.bool_], rates: tuple[float, float],
) -> None:  # fmt: skip
    """Draws transitions, then all states with their tables.

    A cell with at most ``FEWEST`` entries: all tables with as many as its block of numbers of entries allows are summed
    over, and once its state is drawn a number and a table are, exactly (proofs.md P116). Others: among a pool of tables
    for each state. The pool's law is the same whichever of its tables is the current one, so given the pool states and
    tables are an ordinary hidden Markov model (an embedded one: Neal, Beal and Roweis 2003) and are drawn exactly.

    Args:
        rng: Randomness for post-processing.
        cells: The sampler chain.
        states: Changed in place, shape (chains, steps).
        transition: Changed in place, shape (states, states).
        emissions: A row for each state, or one for each sequence and state.
        prior: The concentration of transitions.
        alone: As ``alone_in_chain`` has it, shape (chains,).
        rates: The Beta law of rates of entries.
    """
    chains, steps = states.shape
    size, width = transition.shape[0], cells.counts.shape[1]
    own = emissions.shape[0] > size
    weight, place = np.ones((chains, steps, size)), np.full(chains * steps, -1, np.int64)
    power, decay = np.empty((size, width, FEWEST + 1)), np.empty((width, FEWEST + 1))
    noise, part, number = np.empty((width, FEWEST + 1)), np.empty((width, FEWEST + 1)), np.empty(FEWEST + 1)
    given_rate, over_rates, many = np.empty(FEWEST + 1), np.empty(FEWEST + 1), 0
    decays_of(cells, decay)
    few_over_rates(rates, over_rates)
    for r in range(chains):
        if not alone[r]:
            few_given_rate(cells.stay[r * steps], given_rate)
        if own or r == 0:
            powers_of(emissions[r * size : (r + 1) * size] if own else emissions, power)
        for t in range(steps):
            i = r * steps + t
            if not cells.observed[i]:
                continue
            entries, top = entries_of(cells, i), 0.0
            if entries <= FEWEST:
                first, last = block_of(entries)
                noise_of_few(cells, i, last, decay, noise)
                for k in range(size):
                    number[:] = over_rates if alone[r] else given_rate
                    weight[r, t, k] = sum_over_tables(cells.edges, first, last, power[k], noise, part, number)
                    top = max(top, weight[r, t, k])
            if top > 1e-250:
                for k in range(size):
                    weight[r, t, k] /= top
            else:
                place[i] = many
                many += 1
    slots = max(1, MOST_TABLES // size)
    tables, fit = np.empty((many, slots, size, width), np.int64), np.zeros((many, slots, size))
    pair, below = np.empty(size, np.int64), np.empty(max(size, slots))
    for i in range(place.size):
        at, r, t = place[i], i // steps, i % steps
        if at < 0:
            continue
        matched(rng, pair)
        laws = emissions[r * size : (r + 1) * size] if own else emissions
        pool(rng, cells, i, states[r, t], laws, pair, tables[at], fit[at])
        top = fit[at].max()
        for k in range(size):
            weight[r, t, k] = 0.0
            for m in range(slots):
                fit[at, m, k] = math.exp(fit[at, m, k] - top)
                weight[r, t, k] += fit[at, m, k]
    filtered = np.empty_like(weight)
    retune(rng, weight, transition, filtered, prior, cells.tally)
    for r in range(chains):
        after = -1
        if not alone[r]:
            few_given_rate(cells.stay[r * steps], given_rate)
        if own:
            powers_of(emissions[r * size : (r + 1) * size], power)
        for t in range(steps - 1, -1, -1):
            i, total = r * steps + t, 0.0
            for k in range(size):
                total += filtered[r, t, k] if after < 0 else filtered[r, t, k] * transition[k, after]
                below[k] = total
            after = first_above(below, size, rng.random() * total)
            cells.tally[SWITCH] += after != states[r, t]
            cells.tally[SWITCH + 1] += 1.0
            states[r, t] = after
            at = place[i]
            if at >= 0:
                total = 0.0
                for m in range(slots):
                    total += fit[at, m, after]
                    below[m] = total
                cells.counts[i] = tables[at, first_above(below, slots, rng.random() * total), after]
            elif cells.observed[i]:
                first, last = block_of(entries_of(cells, i))
                number[:] = over_rates if alone[r] else given_rate
                noise_of_few(cells, i, last, decay, noise)
                sum_over_tables(cells.edges, first, last, power[after], noise, part, number)
                drawn_table(rng, cells.edges, first, last, power[after], noise, part, number, cells.counts[i])


def first_above(below: Reals, size: int, threshold: float) -> int:
    """The first of ``size`` running sums above a threshold."""
    k = 0
    while k < size - 1 and below[k] <= threshold:
        k += 1
    return k


def shift(
    rng: np.random.Generator, cells: Cells, key: Integers, emissions: Reals, prior: float, speed: float
) -> None:  # fmt: skip
    """Moves probability between two levels of every state's emissions, with the entries of its cells."""
    start, order = np.zeros(emissions.shape[0] + 1, np.int64), np.empty(key.size, np.int64)
    by_state(key, start, order)
    columns = np.empty((cells.counts.shape[1], key.size), np.int32)
    for at in range(key.size):
        for w in range(columns.shape[0]):
            columns[w, at] = cells.counts[order[at], w]
    where, flipped = np.empty(key.size, np.int64), np.empty(key.size, np.int64)
    for f in range(cells.edges.size - 1):
        first, levels = cells.edges[f], cells.edges[f + 1] - cells.edges[f]
        for k in range(emissions.shape[0]):
            for _ in range(levels if levels > 1 else 0):
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
                        gain += flip_gain(cells, order[where[j]], giving, taking, flipped[j])
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


def by_state(key: Integers, start: Integers, order: Integers) -> None:
    """The cells sorted by state: ``order[start[k]:start[k + 1]]`` are those of state k, as they come."""
    for i in range(key.size):
        start[key[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    free = start.copy()
    for i in range(key.size):
        order[free[key[i]]] = i
        free[key[i]] += 1


def taken_from(
    rng: np.random.Generator, column: npt.NDArray[np.int32], begin: int, end: int, chance: float, where: Integers,
    taken: Integers,
) -> int:  # fmt: skip
    """Takes each entry of some cells with a chance, all independent: where it took any, how many there, in how many.

    Where the chance is small the number of entries between one that is taken and the next is drawn, which is geometric.
    """
    many = 0
    if chance > RARE:
        for at in range(begin, end):
            here = binomial(rng, int(column[at]), chance)
            if here > 0:
                where[many], taken[many] = at, here
                many += 1
        return many
    if chance <= 0.0:
        return 0
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
    """How many trials fail before the next that succeeds, where ``each`` is 1 / ln P(failure)."""
    return int(min(math.log1p(-rng.random()) * each, 1e15))


def flip_gain(cells: Cells, i: int, giving: int, taking: int, many: int) -> float:
    """What a cell's log-likelihood gains when entries move from one column to another."""
    total = 0.0
    for column, sign in ((giving, -1), (taking, 1)):
        before = cells.released[i, column] - cells.counts[i, column]
        after = before - sign * many
        total += cells.absolute[column] * (abs(before) - abs(after))
        total += cells.squares[column] * float(before - after) * float(before + after)
    return total


def redraw(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float, more_than: int = -1
) -> None:  # fmt: skip
    """Draws some entries of every field anew: of all its levels, or of about half of them, as a coin decides.

    Cells with ``more_than`` entries or fewer are left alone; the move does not change which these are.
    """
    new, law = np.empty(cells.counts.shape[1], np.int64), np.empty(cells.counts.shape[1])
    for i in range(key.size):
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
    low, high = min(entries, entries + many), max(entries, entries + many)
    total = 0.0
    if high - low <= FEW:
        for n in range(low, high):
            total += math.log((rates[1] + n) / (rates[0] + rates[1] + n + 1.0))
    else:
        total = math.lgamma(rates[1] + high) - math.lgamma(rates[1] + low)
        total -= math.lgamma(rates[0] + rates[1] + high + 1.0) - math.lgamma(rates[0] + rates[1] + low + 1.0)
    return total if many > 0 else -total


def resize(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float, more_than: int,
    alone: npt.NDArray[np.bool_], rates: tuple[float, float],
) -> None:  # fmt: skip
    """Lets entries join or leave every cell, all fields at once.

    Cells with ``more_than`` entries or fewer are left alone, and no other comes to have so few.
    """
    width, steps = cells.counts.shape[1], key.size // alone.size
    new = np.empty(width, np.int64)
    for i in range(key.size):
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
                gain += (many if joining else -many) * cells.stay[i]
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
    """As many as thinning lost where so many are left: negative binomial, a geometric number for each and one more."""
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
    """Moves each chain's mean number of entries, and the entries of its cells with it, but of those that are ``still``.

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


def few_released(cells: Cells, few: npt.NDArray[np.bool_]) -> None:
    """Which chains were released with at most ``FEWEST`` entries a cell on average."""
    steps = cells.observed.size // few.size
    for r in range(few.size):
        room = 0
        for i in range(r * steps, (r + 1) * steps):
            if cells.observed[i]:
                room += FEWEST
                for w in range(cells.edges[1]):
                    room -= cells.released[i, w]
        few[r] = room >= 0


def move_cells(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, rates: tuple[float, float], speed: float,
    alone: npt.NDArray[np.bool_], few: npt.NDArray[np.bool_], summed: bool, again: bool,
) -> None:  # fmt: skip
    """A redraw and a resize of every cell, a rescaling of every chain.

    Where ``switch`` has summed over the tables of cells with few entries a redraw gains nothing there, and moving them
    ``again`` after the first time little.

    Args:
        rng: Randomness for post-processing.
        cells: Changed in place.
        laws: The rows that ``key`` names, shape (laws, columns).
        key: The law of each cell.
        rates: The Beta law of rates of entries.
        speed: How fast the sizes of moves adapt.
        alone: As ``alone_in_chain`` has it.
        few: As ``few_released`` has it.
        summed: Whether ``switch`` has been.
        again: Whether the cells have been moved since.
    """
    redraw(rng, cells, laws, key, speed, FEWEST if summed else -1)
    resize(rng, cells, laws, key, speed, FEWEST if summed and again else -1, alone, rates)
    rescale(rng, cells, laws, key, rates, alone | few if summed and again else alone)


def sweep(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals,
    priors: tuple[float, float, float, float], passes: int, speed: float,
) -> None:  # fmt: skip
    """A switch, then ``passes`` times a shift, a redraw and a resize of every cell, a rescaling of every chain.

    Args:
        rng: Randomness for post-processing.
        cells: Changed in place.
        states: Changed in place, shape (chains, steps).
        transition: Changed in place, shape (states, states).
        emissions: Changed in place, shape (states, columns).
        priors: The Dirichlet concentrations of transitions and of emissions, the Beta law of the rates.
        passes: How often.
        speed: How fast the sizes of moves adapt; 0 after burn-in.
    """
    alone, few = np.empty(states.shape[0], np.bool_), np.empty(states.shape[0], np.bool_)
    alone_in_chain(cells.observed, alone)
    few_released(cells, few)
    summed = transition.shape[0] > 1
    if summed:
        switch(rng, cells, states, transition, emissions, priors[0], alone, priors[2:])
    key = states.ravel().copy()
    for p in range(passes):
        shift(rng, cells, key, emissions, priors[1], speed)
        move_cells(rng, cells, emissions, key, priors[2:], speed, alone, few, summed, p > 0)


#: What ``sweep`` calls, callees first.
PARTS = (
    binomial, one_level, scattered, log_law, accepts, couple, fresh, entries_of, pool, matched, forward, retune,
    first_above, alone_in_chain, powers_of, decays_of, noise_of_few, sum_over_tables, few_given_rate, few_over_rates,
    drawn_table, block_of, switch, flip_gain, by_state, gap, taken_from, shift, redraw, leave, log_of_more, resize,
    joiners, rescale, few_released, move_cells,
)  # fmt: skip
