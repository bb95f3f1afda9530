"""Markov chain moves over the true cells of an event log, one sampler chain at a time; arrays are changed in place.

* redraw: some of a field's entries, of some of its levels, are drawn anew;
* resize: entries join (drawn from the emissions) or leave (picked evenly) all fields at once;
* switch: states are drawn together with the tables of their cells, from a pool of tables for each state;
* shift: probability moves between two levels of an emission table and the entries of its cells with it
  (proofs.md P55): emissions move where emissions given the tables would be stuck;
* retune: transitions move with all states summed out;
* rescale: a chain's rate of entries moves and the entries of its cells with it.

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
    for v in range(last):
        if many == 0:
            return
        if weight[v] > 0.0:
            here = binomial(rng, many, weight[v] / total)
            into[v] += here
            many -= here
            total = max(total - weight[v], 1e-300)
    into[last] += many


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
    entries = 0
    for w in range(cells.edges[1]):
        entries += cells.counts[i, w]
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
    order = np.argsort(rng.random(pair.size))
    for k in range(pair.size):
        pair[k] = k
    for k in range(0, pair.size - 1, 2):
        pair[order[k]], pair[order[k + 1]] = order[k + 1], order[k]


def forward(weight: Reals, transition: Reals, filtered: Reals) -> float:
    """Filters every chain; returns ln P(weights | transitions) up to a constant; shapes (chains, steps, states)."""
    chains, steps, size = weight.shape
    found, product = 0.0, 1.0
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
            total = max(total, 1e-300)
            if total < 1e-100:
                found += math.log(total)
            else:  # one logarithm for many factors
                product *= total
                if product < 1e-200 or product > 1e100:
                    found += math.log(product)
                    product = 1.0
            scale = 1.0 / total
            for k in range(size):
                filtered[r, t, k] *= scale
    return found + math.log(product)


def retune(
    rng: np.random.Generator, weight: Reals, transition: Reals, filtered: Reals, prior: float, tally: Reals
) -> None:  # fmt: skip
    """Metropolis on the transitions with all states summed out; leaves ``filtered`` as the last ones want it."""
    size = transition.shape[0]
    now, proposed, other = forward(weight, transition, filtered), transition.copy(), np.empty_like(filtered)
    for j in range(size):
        for _ in range(2 * (size - 1)):
            a = int(rng.random() * size)
            b = (a + 1 + int(rng.random() * (size - 1))) % size
            amount = 0.5 * rng.random() ** 3
            given, taken = transition[j, a] - amount, transition[j, b] + amount
            if given > 1e-300:
                proposed[j, a], proposed[j, b] = given, taken
                found = forward(weight, proposed, other)
                ratio = math.log(given / transition[j, a]) + math.log(taken / transition[j, b])
                if accepts(rng, found - now + (prior - 1.0) * ratio):
                    transition[j, a], transition[j, b] = given, taken
                    now = found
                    filtered[:] = other
                    tally[RETUNE] += 1.0
                proposed[j, a], proposed[j, b] = transition[j, a], transition[j, b]
            tally[RETUNE + 1] += 1.0


def switch(
    rng: np.random.Generator, cells: Cells, states: Integers, transition: Reals, emissions: Reals, prior: float
) -> None:  # fmt: skip
    """Draws transitions, then all states with their tables, among a pool of tables for each state of each cell.

    The pool's law is the same whichever of its tables is the current one, so given the pool states and tables are an
    ordinary hidden Markov model (an embedded one: Neal, Beal and Roweis 2003) and are drawn exactly. Emissions have a
    row for each state, or one for each sequence and state.
    """
    chains, steps = states.shape
    size, width = transition.shape[0], cells.counts.shape[1]
    own = emissions.shape[0] > size
    slots = max(1, MOST_TABLES // size)
    tables = np.empty((chains * steps, slots, size, width), np.int64)
    fit, weight = np.zeros((chains * steps, slots, size)), np.ones((chains, steps, size))
    pair, below = np.empty(size, np.int64), np.empty(max(size, slots))
    for r in range(chains):
        laws = emissions[r * size : (r + 1) * size] if own else emissions
        for t in range(steps):
            i = r * steps + t
            if not cells.observed[i]:
                continue
            matched(rng, pair)
            pool(rng, cells, i, states[r, t], laws, pair, tables[i], fit[i])
            top = fit[i].max()
            for k in range(size):
                weight[r, t, k] = 0.0
                for m in range(slots):
                    fit[i, m, k] = math.exp(fit[i, m, k] - top)
                    weight[r, t, k] += fit[i, m, k]
    filtered = np.empty_like(weight)
    retune(rng, weight, transition, filtered, prior, cells.tally)
    for r in range(chains):
        after = -1
        for t in range(steps - 1, -1, -1):
            i, total = r * steps + t, 0.0
            for k in range(size):
                total += filtered[r, t, k] if after < 0 else filtered[r, t, k] * transition[k, after]
                below[k] = total
            after = first_above(below, size, rng.random() * total)
            cells.tally[SWITCH] += after != states[r, t]
            cells.tally[SWITCH + 1] += 1.0
            states[r, t] = after
            if cells.observed[i]:
                total = 0.0
                for m in range(slots):
                    total += fit[i, m, after]
                    below[m] = total
                cells.counts[i] = tables[i, first_above(below, slots, rng.random() * total), after]


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
    order = np.argsort(key, kind="mergesort")
    start = np.searchsorted(key[order], np.arange(emissions.shape[0] + 1))
    flipped = np.empty(key.size, np.int64)
    for f in range(cells.edges.size - 1):
        first, levels = cells.edges[f], cells.edges[f + 1] - cells.edges[f]
        for k in range(emissions.shape[0]):
            for _ in range(levels if levels > 1 else 0):
                giving = int(rng.random() * levels)
                taking = first + (giving + 1 + int(rng.random() * (levels - 1))) % levels
                giving += first
                have, gets = emissions[k, giving], emissions[k, taking]
                amount = math.sqrt(rng.random()) * cells.reach[k, f]
                accepted = False
                if amount < have:
                    gain = (prior - 1.0) * math.log((have - amount) / have * ((gets + amount) / gets))
                    for at in range(start[k], start[k + 1]):
                        i = order[at]
                        flipped[at] = binomial(rng, int(cells.counts[i, giving]), amount / have)
                        if flipped[at] > 0:
                            gain += flip_gain(cells, i, giving, taking, flipped[at])
                    accepted = accepts(rng, gain)
                if accepted:
                    emissions[k, giving], emissions[k, taking] = have - amount, gets + amount
                    for at in range(start[k], start[k + 1]):
                        cells.counts[order[at], giving] -= flipped[at]
                        cells.counts[order[at], taking] += flipped[at]
                cells.tally[SHIFT] += accepted
                cells.tally[SHIFT + 1] += 1.0
                if speed > 0.0:
                    reach = cells.reach[k, f] * math.exp(speed * (accepted - AIM))
                    cells.reach[k, f] = min(max(reach, 1e-5), 0.9)


def flip_gain(cells: Cells, i: int, giving: int, taking: int, many: int) -> float:
    """What a cell's log-likelihood gains when entries move from one column to another."""
    total = 0.0
    for column, sign in ((giving, -1), (taking, 1)):
        before = cells.released[i, column] - cells.counts[i, column]
        after = before - sign * many
        total += cells.absolute[column] * (abs(before) - abs(after))
        total += cells.squares[column] * float(before - after) * float(before + after)
    return total


def redraw(rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float) -> None:
    """Draws some entries of every field anew: of all its levels, or of about half of them, as a coin decides."""
    new, law = np.empty(cells.counts.shape[1], np.int64), np.empty(cells.counts.shape[1])
    for i in range(key.size):
        if not cells.observed[i]:
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


def resize(rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, speed: float) -> None:
    """Lets entries join or leave every cell, all fields at once."""
    width = cells.counts.shape[1]
    new = np.empty(width, np.int64)
    for i in range(key.size):
        if not cells.observed[i]:
            continue
        entries = 0
        for w in range(cells.edges[1]):
            entries += cells.counts[i, w]
        many, joining = 1 + int(rng.random() * cells.most[i]), rng.random() < 0.5
        gain, accepted = -np.inf, False
        if joining or many <= entries:
            new[:] = cells.counts[i]
            for f in range(cells.edges.size - 1):
                a, b = cells.edges[f], cells.edges[f + 1]
                if joining:
                    scattered(rng, many, laws[key[i], a:b], 1.0, new[a:b])
                else:
                    leave(rng, many, entries, new[a:b])
            gain = log_law(cells, i, new, 0, width) - log_law(cells, i, cells.counts[i], 0, width)
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


def rescale(
    rng: np.random.Generator, cells: Cells, laws: Reals, key: Integers, steps: int, prior: tuple[float, float]
) -> None:  # fmt: skip
    """Moves each chain's mean number of entries, and the entries of its cells with it.

    A geometric number thinned is geometric; the other way entries join, as many as thinning would have lost (negative
    binomial), so only the noise and the prior of the rate decide.
    """
    width = cells.counts.shape[1]
    new = np.empty((steps, width), np.int64)
    for r in range(key.size // steps):
        stay = cells.stay[r * steps]
        odds = -math.expm1(stay) / math.exp(stay)
        step = 2.0 * (2.0 * rng.random() - 1.0) ** 3
        rate = 1.0 / (1.0 + math.exp(step) / odds)
        gain = prior[0] * (math.log(rate) - math.log(-math.expm1(stay)))
        gain += prior[1] * (math.log1p(-rate) - stay)
        kept = math.exp(-abs(step))
        lost = (1.0 - min(rate, -math.expm1(stay))) * (1.0 - kept)
        for t in range(steps):
            i, entries = r * steps + t, 0
            if not cells.observed[i]:
                continue
            for w in range(cells.edges[1]):
                entries += cells.counts[i, w]
            new[t] = cells.counts[i]
            if step < 0.0:
                many = entries - binomial(rng, entries, kept)
            else:
                many = rng.poisson(rng.standard_gamma(entries + 1.0) * lost / (1.0 - lost))
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
                if cells.observed[i]:
                    cells.counts[i] = new[t]


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
    if transition.shape[0] > 1:
        switch(rng, cells, states, transition, emissions, priors[0])
    key = states.ravel().copy()
    for _ in range(passes):
        shift(rng, cells, key, emissions, priors[1], speed)
        redraw(rng, cells, emissions, key, speed)
        resize(rng, cells, emissions, key, speed)
        rescale(rng, cells, emissions, key, states.shape[1], priors[2:])


#: What ``sweep`` calls, callees first.
PARTS = (
    binomial, scattered, log_law, accepts, couple, fresh, pool, matched, forward, retune, first_above, switch,
    flip_gain, shift, redraw, leave, resize,
    rescale,
)  # fmt: skip
