"""The inner loops of record augmentation: arrays in, arrays out.

The same source runs plain and compiled by numba, draw for draw alike, as both read one stream of uniforms from the
generator. Variables are numbered with parents before children; a record is a row of codes in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[Any]

#: Where ``tally`` counts the accepted and the tried proposals of each kind.
RECORDS, SHIFTS, RESIZES = 0, 2, 4


class Layout(NamedTuple):
    """A network, its prior and measured tables as flat arrays; ``x_start[v]:x_start[v + 1]`` is v's part of x.

    ``theta``, ``counts`` and ``prior`` (concentrations) hold for each variable its rows one after another, a row being
    the levels under one parent configuration. ``weight_start`` is -1 where the statistics are the cells themselves.
    """

    levels: Integers
    parent_start: Integers
    parents: Integers
    parent_strides: Integers
    theta_start: Integers
    row_start: Integers
    prior: Reals
    below_start: Integers
    below: Integers
    touched_start: Integers
    touched: Integers
    table_start: Integers
    table_variables: Integers
    table_strides: Integers
    residual_start: Integers
    weight_start: Integers
    weights: Integers
    rate: Reals
    gaussian: npt.NDArray[np.bool_]


def row_of(layout: Layout, v: int, record: Codes) -> int:
    """The parent configuration of a variable in a record."""
    row = 0
    for at in range(layout.parent_start[v], layout.parent_start[v + 1]):
        row += int(record[layout.parents[at]]) * layout.parent_strides[at]
    return row


def cell_of(layout: Layout, table: int, record: Codes) -> int:
    """The cell of a measured table that a record is in."""
    cell = 0
    for at in range(layout.table_start[table], layout.table_start[table + 1]):
        cell += int(record[layout.table_variables[at]]) * layout.table_strides[at]
    return cell


def draw(rng: np.random.Generator, layout: Layout, theta: Reals, v: int, record: Codes) -> None:
    """Sets a variable of a record given its parents."""
    last = layout.levels[v] - 1
    at = layout.theta_start[v] + row_of(layout, v, record) * (last + 1)
    left = rng.random() - theta[at]
    level = 0
    while left >= 0.0 and level < last:
        level += 1
        left -= theta[at + level]
    record[v] = level


def counted(layout: Layout, residual: Integers, table: int, cell: int, sign: int) -> float:
    """Adds (sign 1) or removes (-1) a record in a cell; returns the change of the log-likelihood.

    ``residual`` is the released values less the statistics of the records.
    """
    first = layout.residual_start[table]
    start = layout.weight_start[table]
    if start < 0:
        before = residual[first + cell]
        after = before - sign
        residual[first + cell] = after
        if layout.gaussian[table]:
            return float(sign) * float(before + after) * layout.rate[table]
        return float(abs(before) - abs(after)) * layout.rate[table]
    width = layout.residual_start[table + 1] - first
    total = 0.0
    for j in range(width):
        before = residual[first + j]
        after = before - sign * layout.weights[start + cell * width + j]
        residual[first + j] = after
        if layout.gaussian[table]:
            total += float(before - after) * float(before + after)
        else:
            total += float(abs(before) - abs(after))
    return total * layout.rate[table]


def moved(layout: Layout, residual: Integers, table: int, old: Codes, new: Codes) -> float:
    """Turns one record into another in a table; returns the change of the log-likelihood."""
    leaves, enters = cell_of(layout, table, old), cell_of(layout, table, new)
    if leaves == enters:
        return 0.0
    gain = counted(layout, residual, table, leaves, -1)
    return gain + counted(layout, residual, table, enters, 1)


def accepts(rng: np.random.Generator, gain: float) -> bool:
    """Metropolis: yes with probability min(1, exp(gain))."""
    return gain >= 0.0 or rng.random() < math.exp(gain)


def refreshed(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers, tally: Integers
) -> None:
    """Proposes for every record a new one from the network."""
    tables = layout.rate.size
    proposal = np.empty(layout.levels.size, records.dtype)
    for i in range(n):
        for v in range(proposal.size):
            draw(rng, layout, theta, v, proposal)
        gain = 0.0
        for table in range(tables):
            gain += moved(layout, residual, table, records[i], proposal)
        if accepts(rng, gain):
            records[i] = proposal
            tally[RECORDS] += 1
        else:
            for table in range(tables):
                moved(layout, residual, table, proposal, records[i])
    tally[RECORDS + 1] += n


def by_row(layout: Layout, v: int, records: Codes, n: int) -> tuple[Integers, Integers]:
    """The records of each row of a variable: a counting sort, with where each row starts."""
    rows = layout.row_start[v + 1] - layout.row_start[v]
    start, mine, sorted_records = np.zeros(rows + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        mine[i] = row_of(layout, v, records[i])
        start[mine[i] + 1] += 1
    for row in range(rows):
        start[row + 1] += start[row]
    place = start.copy()
    for i in range(n):
        sorted_records[place[mine[i]]] = i
        place[mine[i]] += 1
    return start, sorted_records


def shifted(
    rng: np.random.Generator,
    layout: Layout,
    theta: Reals,
    records: Codes,
    residual: Integers,
    v: int,
    row: int,
    held: Integers,
    reach: float,
    trial: Codes,
    flipped: Integers,
) -> bool:
    """Moves probability between two levels of a row together with its records, ``held`` (MATHS 8(B), item 3).

    A record at the level that gives flips with the probability that keeps the rest as they were drawn, and what is
    below it is drawn anew, so only the prior and the noise decide.
    """
    size = layout.levels[v]
    at = layout.theta_start[v] + row * size
    giving = int(rng.random() * size)
    taking = int(rng.random() * (size - 1))
    taking += taking >= giving
    amount = rng.random() * reach
    have, gets = theta[at + giving], max(theta[at + taking], 1e-300)
    if amount >= have:
        return False
    gain = (layout.prior[at + giving] - 1.0) * math.log((have - amount) / have)
    gain += (layout.prior[at + taking] - 1.0) * math.log((gets + amount) / gets)
    many = 0
    for i in held:
        if records[i, v] == giving and rng.random() * have < amount:
            new = trial[many]
            new[:] = records[i]
            new[v] = taking
            for j in range(layout.below_start[v], layout.below_start[v + 1]):
                draw(rng, layout, theta, layout.below[j], new)
            for j in range(layout.touched_start[v], layout.touched_start[v + 1]):
                gain += moved(layout, residual, layout.touched[j], records[i], new)
            flipped[many] = i
            many += 1
    if accepts(rng, gain):
        theta[at + giving], theta[at + taking] = have - amount, gets + amount
        for k in range(many):
            records[flipped[k]] = trial[k]
        return True
    for k in range(many):
        for j in range(layout.touched_start[v], layout.touched_start[v + 1]):
            moved(layout, residual, layout.touched[j], trial[k], records[flipped[k]])
    return False


def resized(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers, most: int
) -> int:
    """Adds at the end, or removes from it after a random permutation, up to ``most`` records; returns how many are left.

    Records are exchangeable, so the permutation keeps the target, and new records have their own law: under a flat
    prior on n only the noise decides, however many come or go.
    """
    many = 1 + int(rng.random() * most)
    joining = rng.random() < 0.5
    if not joining and many > n:
        return n
    gain, sign = 0.0, 1 if joining else -1
    for k in range(many):
        at = n + k if joining else n - 1 - k
        if joining:
            for v in range(layout.levels.size):
                draw(rng, layout, theta, v, records[at])
        else:
            other = int(rng.random() * (at + 1))
            for v in range(layout.levels.size):
                records[at, v], records[other, v] = records[other, v], records[at, v]
        for table in range(layout.rate.size):
            gain += counted(layout, residual, table, cell_of(layout, table, records[at]), sign)
    if accepts(rng, gain):
        return n + sign * many
    for k in range(many):
        at = n + k if joining else n - 1 - k
        for table in range(layout.rate.size):
            counted(layout, residual, table, cell_of(layout, table, records[at]), -sign)
    return n


def sweep(
    rng: np.random.Generator,
    layout: Layout,
    theta: Reals,
    records: Codes,
    n: int,
    residual: Integers,
    counts: Integers,
    passes: int,
    reach: Reals,
    shifts: Integers,
    attempts: int,
    most: int,
    tally: Integers,
) -> int:
    """One sweep over records, rows and n, in place; returns the number of records.

    Args:
        rng: The chain's stream.
        layout: The network and the evidence.
        theta: The conditional probabilities.
        records: Codes, shape (room, variables); the first n are the latent records.
        n: How many there are.
        residual: The released values less the statistics of the records.
        counts: Set to the family counts of the records at the end, laid out as theta.
        passes: Moves of every row together with its records.
        reach: The largest amount to shift, shape (rows,).
        shifts: Counted up: accepted and tried shifts, shape (2, rows).
        attempts: Proposals to add or remove records; 0 where n is public.
        most: The most records one of these adds or removes; ``records`` has room for them all.
        tally: Counted up: accepted and tried, of records, shifts and resizes.
    """
    refreshed(rng, layout, theta, records, n, residual, tally)
    trial, flipped = np.empty_like(records), np.empty(n, np.int64)
    for _ in range(passes):
        for v in range(layout.levels.size):
            if layout.levels[v] > 1:
                start, held = by_row(layout, v, records, n)
                for row in range(start.size - 1):
                    if start[row] < start[row + 1]:
                        mine, at = held[start[row] : start[row + 1]], layout.row_start[v] + row
                        yes = shifted(
                            rng, layout, theta, records, residual, v, row, mine, reach[at], trial, flipped
                        )
                        shifts[0, at] += yes
                        shifts[1, at] += 1
                        tally[SHIFTS] += yes
                        tally[SHIFTS + 1] += 1
    for _ in range(attempts):
        left = resized(rng, layout, theta, records, n, residual, most)
        tally[RESIZES] += left != n
        tally[RESIZES + 1] += 1
        n = left
    counts[:] = 0
    for i in range(n):
        for v in range(layout.levels.size):
            row = row_of(layout, v, records[i])
            counts[layout.theta_start[v] + row * layout.levels[v] + int(records[i, v])] += 1
    return n


@cache
def compiled_sweep() -> Callable[..., int]:
    """``sweep`` compiled; the machine code is kept on disk.

    Raises:
        ImportError: If numba is not installed.
    """
    import numba
    from numba.extending import register_jitable

    for function in (row_of, cell_of, draw, counted, moved, accepts, refreshed, by_row, shifted, resized):
        register_jitable(function)
    return numba.njit(sweep, cache=True, nogil=True)
