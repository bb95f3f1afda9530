"""The inner loops of record augmentation: arrays in, arrays out.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
Variables are numbered with parents before children; a record is a row of codes in that order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[Any]

#: Where ``tally`` counts the accepted and the tried proposals of each kind.
RECORDS, SHIFTS, RESIZES = 0, 2, 4
#: Columns of ``Layout.nodes`` and of ``Layout.tables``; pairs of a variable and its stride follow from PAIRS on.
SIZE, PAIRS = 0, 5
LEVELS, THETA, ROW, FOLLOWS = 1, 2, 3, 4
FIRST, WIDTH, WEIGHTS = 1, 2, 3
#: The most shifts of a row in a pass; each looks at all its records.
MOST_SHIFTS = 8
#: How many of the tries to shift a row's records are followed by one to exchange two levels'.
EXCHANGES = 0.04
#: Places of two concentrations: of a centre about the centre of the bin below, and about the common centre.
NEIGHBOURS, COMMON = 0, 1


class Layout(NamedTuple):
    """A network, its prior and its measured tables as a few arrays.

    ``theta``, ``counts`` and ``prior`` hold for each variable its rows one after another, a row being the levels under
    one parent configuration; ``prior`` has the Dirichlet concentrations. ``nodes`` has for each variable the number of
    parents and of levels, the starts of its theta and its rows, 1 where it follows from its parents, each row having
    one level that can be, then its parents, each with its stride in the row's number. ``tables`` has for each measured
    table the number of variables, the start and width of its residual, the start of its weights (-1 where its
    statistics are its cells), 0, then its variables and strides in the cell's number.
    ``laws`` has the cost of a unit of |residual| and of residual^2 in log-likelihood, ``weights`` the statistics of one
    record in each cell, table after table. Of each variable ``below`` has the number of descendants, then these,
    parents first, ``touched`` the number of tables that hold it or a descendant, then these.
    """

    nodes: Integers
    tables: Integers
    laws: Reals
    weights: Integers
    prior: Reals
    below: Integers
    touched: Integers


class Room(NamedTuple):
    """Where a sweep works, so that it makes no array: proposed records, and ``held``, all records sorted by cell.

    ``start`` says where each cell of a variable's table starts in ``held``, and where the last ends; ``places`` are
    cells of records, then places in ``held``.
    """

    trial: Codes
    start: Integers
    held: Integers
    places: Integers


def index_of(lines: Integers, line: int, records: Codes, i: int) -> int:
    """The parent configuration of a node, or the cell of a table, that a record is in."""
    index = 0
    for at in range(PAIRS, PAIRS + 2 * lines[line, SIZE], 2):
        index += records[i, lines[line, at]] * lines[line, at + 1]
    return index


def draw(rng: np.random.Generator, nodes: Integers, theta: Reals, v: int, records: Codes, i: int) -> None:
    """Sets a variable of a record given its parents."""
    levels = nodes[v, LEVELS]
    at = nodes[v, THETA] + index_of(nodes, v, records, i) * levels
    left = rng.random()
    level = 0
    for k in range(levels - 1):  # no early end: a branch that cannot be predicted costs more
        left -= theta[at + k]
        level += left >= 0.0
    while theta[at + level] == 0.0 and level > 0:  # rounding never reaches a level that cannot be
        level -= 1
    records[i, v] = level


def counted(
    tables: Integers, laws: Reals, weights: Integers, residual: Integers, table: int, cell: int, sign: int
) -> float:
    """Adds (sign 1) or removes (-1) a record in a cell; returns the change of the log-likelihood."""
    first, width, start = tables[table, FIRST], tables[table, WIDTH], tables[table, WEIGHTS]
    absolute, squares = 0, 0.0
    for j in range(1 if start < 0 else width):
        at = first + (cell if start < 0 else j)
        before = residual[at]
        after = before - (sign if start < 0 else sign * weights[start + cell * width + j])
        residual[at] = after
        absolute += abs(before) - abs(after)
        squares += float(before - after) * float(before + after)
    return laws[table, 0] * absolute + laws[table, 1] * squares


def moved(
    tables: Integers, laws: Reals, weights: Integers, residual: Integers, table: int,
    old: Codes, i: int, new: Codes, k: int,
) -> float:  # fmt: skip
    """Turns the record ``old[i]`` into ``new[k]`` in a table; returns the change of the log-likelihood."""
    leaves, enters = index_of(tables, table, old, i), index_of(tables, table, new, k)
    if leaves == enters:
        return 0.0
    gain = counted(tables, laws, weights, residual, table, leaves, -1)
    return gain + counted(tables, laws, weights, residual, table, enters, 1)


def accepts(rng: np.random.Generator, gain: float) -> bool:
    """Metropolis: yes with probability min(1, exp(gain))."""
    return gain >= 0.0 or rng.random() < math.exp(gain)


def refreshed(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers, proposal: Codes
) -> int:
    """Proposes for every record a new one from the network; returns how many it accepts."""
    nodes, tables, laws, weights = layout.nodes, layout.tables, layout.laws, layout.weights
    accepted = 0
    for i in range(n):
        for v in range(nodes.shape[0]):
            draw(rng, nodes, theta, v, proposal, 0)
        gain = 0.0
        for table in range(tables.shape[0]):
            gain += moved(tables, laws, weights, residual, table, records, i, proposal, 0)
        if accepts(rng, gain):
            copied(proposal, 0, records, i)
            accepted += 1
        else:
            for table in range(tables.shape[0]):
                moved(tables, laws, weights, residual, table, proposal, 0, records, i)
    return accepted


def copied(source: Codes, k: int, target: Codes, i: int) -> None:
    """Overwrites a record."""
    for v in range(source.shape[1]):
        target[i, v] = source[k, v]


def sort_by_cell(nodes: Integers, v: int, cells: int, records: Codes, n: int, room: Room) -> None:
    """Sorts the records by their row and level of a variable: a counting sort."""
    start, held, mine = room.start, room.held, room.places
    for cell in range(cells + 1):
        start[cell] = 0
    for i in range(n):
        mine[i] = index_of(nodes, v, records, i) * nodes[v, LEVELS] + records[i, v]
        start[mine[i] + 1] += 1
    for cell in range(cells):
        start[cell + 1] += start[cell]
    for i in range(n):
        held[start[mine[i]]] = i
        start[mine[i]] += 1
    for cell in range(cells, 0, -1):
        start[cell] = start[cell - 1]
    start[0] = 0


def shifted(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, residual: Integers,
    v: int, cell: int, reach: float, room: Room,
) -> bool:  # fmt: skip
    """Moves up to ``reach`` records between two levels of a row and splits the levels' probability anew.

    The split is integrated out (proofs.md P55 (5)), so an empty level of a sparse prior is reached as easily as any;
    the descendants of the variable are drawn anew in each record that moves. The row's first cell is ``cell``.
    """
    start, held, flipped, at = room.start, room.held, room.places, int(layout.nodes[v, THETA])
    low, level = two_levels(rng, layout.nodes[v, LEVELS])
    giving, taking = cell + low, cell + level
    many = 1 + int(rng.random() * reach)
    first, have, gets = start[giving], start[giving + 1] - start[giving], start[taking + 1] - start[taking]
    loses, wins = layout.prior[at + giving], layout.prior[at + taking]
    if many > have or wins == 0.0:  # no row of that level can be
        return False
    gain = log_rising(loses, have - many) - log_rising(loses, have)
    gain += log_rising(wins, gets + many) - log_rising(wins, gets)
    for k in range(many):
        place = first + k + int(rng.random() * (have - k))
        held[first + k], held[place] = held[place], held[first + k]
        flipped[k] = first + k
    gain += turned(rng, layout, theta, records, residual, v, level, first, many, 0, room)
    if accepts(rng, gain):
        for k in range(many):
            copied(room.trial, k, records, int(held[first + k]))
        relabelled(start, held, flipped, many, giving, taking)
        split(rng, theta, at + giving, at + taking, loses + have - many, wins + gets + many)
        return True
    turned_back(layout, records, residual, v, first, many, 0, room)
    return False


def exchanged(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, residual: Integers,
    v: int, cell: int, most: int, room: Room,
) -> bool:  # fmt: skip
    """All records of two levels of a row change places, where they are at most ``most``, and the split is drawn anew.

    A row that nearly follows from its parents has its records in one level; a few at a time they do not reach another.
    The move is its own inverse (proofs.md P55 (6)).
    """
    start, held, at, levels = room.start, room.held, int(layout.nodes[v, THETA]), layout.nodes[v, LEVELS]
    low, high = two_levels(rng, levels)
    one, other = cell + low, cell + high
    mine, theirs = start[one + 1] - start[one], start[other + 1] - start[other]
    before, after = layout.prior[at + one], layout.prior[at + other]
    if mine + theirs == 0 or mine + theirs > most or before == 0.0 or after == 0.0:
        return False
    gain = log_rising(before, theirs) - log_rising(before, mine)
    gain += log_rising(after, mine) - log_rising(after, theirs)
    gain += turned(rng, layout, theta, records, residual, v, high, start[one], mine, 0, room)
    gain += turned(rng, layout, theta, records, residual, v, low, start[other], theirs, mine, room)
    if accepts(rng, gain):
        for k in range(mine):
            copied(room.trial, k, records, int(held[start[one] + k]))
        for k in range(theirs):
            copied(room.trial, mine + k, records, int(held[start[other] + k]))
        changed_places(start, held, room.places, cell, levels, one, other)
        split(rng, theta, at + one, at + other, before + theirs, after + mine)
        return True
    turned_back(layout, records, residual, v, start[other], theirs, mine, room)
    turned_back(layout, records, residual, v, start[one], mine, 0, room)
    return False


def two_levels(rng: np.random.Generator, levels: int) -> tuple[int, int]:
    """Two different levels, each pair as likely as any."""
    one, other = int(rng.random() * levels), int(rng.random() * (levels - 1))
    return one, other + (other >= one)


def turned(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, residual: Integers,
    v: int, level: int, first: int, many: int, at: int, room: Room,
) -> float:  # fmt: skip
    """Proposes ``many`` held records with another level, from ``trial[at]`` on; returns the likelihood's change."""
    gain = 0.0
    for k in range(at, at + many):
        gain += redrawn(rng, layout, theta, records, residual, v, level, int(room.held[first + k - at]), k, room)
    return gain


def redrawn(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, residual: Integers,
    v: int, level: int, i: int, k: int, room: Room,
) -> float:  # fmt: skip
    """Proposes a record of another level, its descendants anew, as ``trial[k]``; returns the likelihood's change."""
    below, touched, gain = layout.below, layout.touched, 0.0
    copied(records, i, room.trial, k)
    room.trial[k, v] = level
    for j in range(1, 1 + below[v, 0]):
        draw(rng, layout.nodes, theta, below[v, j], room.trial, k)
    for j in range(1, 1 + touched[v, 0]):
        table = touched[v, j]
        gain += moved(layout.tables, layout.laws, layout.weights, residual, table, records, i, room.trial, k)
    return gain


def taken_back(layout: Layout, records: Codes, residual: Integers, v: int, i: int, k: int, room: Room) -> None:
    """Takes back what ``redrawn`` did to the residuals."""
    for j in range(1, 1 + layout.touched[v, 0]):
        table = layout.touched[v, j]
        moved(layout.tables, layout.laws, layout.weights, residual, table, room.trial, k, records, i)


def turned_back(
    layout: Layout, records: Codes, residual: Integers, v: int, first: int, many: int, at: int, room: Room
) -> None:
    """Takes back what ``turned`` did to the residuals."""
    for k in range(at, at + many):
        taken_back(layout, records, residual, v, int(room.held[first + k - at]), k, room)


def changed_places(
    start: Integers, held: Integers, work: Integers, cell: int, levels: int, one: int, other: int
) -> None:
    """Two levels of a row change their records in ``held``."""
    first, k = start[cell], 0
    for level in range(cell, cell + levels):
        source = other if level == one else one if level == other else level
        for place in range(start[source], start[source + 1]):
            work[k] = held[place]
            k += 1
    more = start[other + 1] - start[other] - (start[one + 1] - start[one])
    for place in range(k):
        held[first + place] = work[place]
    for level in range(min(one, other) + 1, max(one, other) + 1):
        start[level] += more if one < other else -more


def log_rising(concentration: float, count: int) -> float:
    """ln Gamma(concentration + count) / count!, the weight of a count in a Dirichlet-multinomial law."""
    return math.lgamma(concentration + count) - math.lgamma(count + 1.0)


def split(rng: np.random.Generator, theta: Reals, one: int, other: int, first: float, second: float) -> None:
    """Divides the sum of two entries anew, the share of the first Beta(first, second); in log space."""
    log_one = math.log(rng.standard_gamma(first + 1.0)) + math.log(1.0 - rng.random()) / first
    log_other = math.log(rng.standard_gamma(second + 1.0)) + math.log(1.0 - rng.random()) / second
    total = theta[one] + theta[other]
    theta[one] = total / (1.0 + math.exp(min(log_other - log_one, 700.0)))
    theta[other] = total / (1.0 + math.exp(min(log_one - log_other, 700.0)))


def relabelled(start: Integers, held: Integers, flipped: Integers, many: int, giving: int, taking: int) -> None:
    """Moves the places ``flipped``, in ascending order, from one level's part of ``held`` to another's, by swaps."""
    for k in range(many):
        if giving < taking:
            place = flipped[many - 1 - k]
            for level in range(giving, taking):
                start[level + 1] -= 1
                held[place], held[start[level + 1]] = held[start[level + 1]], held[place]
                place = start[level + 1]
        else:
            place = flipped[k]
            for level in range(giving, taking, -1):
                held[place], held[start[level]] = held[start[level]], held[place]
                place = start[level]
                start[level] += 1


def all_shifted(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers,
    passes: int, reach: Reals, shifts: Integers, exchange: int, room: Room,
) -> None:  # fmt: skip
    """Shifts every row that holds records as often as it has levels, within reason, times ``passes``.

    ``shifts`` counts the accepted and the tried by row. Levels that have at most ``exchange`` records exchange them.
    """
    nodes, start = layout.nodes, room.start
    for v in range(nodes.shape[0]):
        levels = nodes[v, LEVELS]
        if levels < 2 or passes < 1 or nodes[v, FOLLOWS]:
            continue
        first = nodes[v, ROW]
        rows = (reach.size if v + 1 == nodes.shape[0] else nodes[v + 1, ROW]) - first
        sort_by_cell(nodes, v, rows * levels, records, n, room)
        for row in range(rows):
            cell = row * levels
            for _ in range(passes * min(levels, MOST_SHIFTS) if start[cell + levels] > start[cell] else 0):
                yes = shifted(rng, layout, theta, records, residual, v, cell, float(reach[first + row]), room)
                shifts[0, first + row] += yes
                shifts[1, first + row] += 1
                if rng.random() < EXCHANGES:
                    exchanged(rng, layout, theta, records, residual, v, cell, exchange, room)


def relevelled(
    rng: np.random.Generator, layout: Layout, theta: Reals, proposed: Reals, records: Codes, n: int,
    residual: Integers, v: int, room: Room,
) -> tuple[float, int]:  # fmt: skip
    """Proposes records for another table of a variable: each keeps its level as likely as both tables allow.

    The descendants of the variable are drawn anew in each that does not (proofs.md P133). Returns the change of the
    log-likelihood, and how many records are proposed: ``room`` has these and their numbers.
    """
    nodes, levels, gain, many = layout.nodes, layout.nodes[v, LEVELS], 0.0, 0
    for i in range(n):
        at = nodes[v, THETA] + index_of(nodes, v, records, i) * levels
        before, after = theta[at + records[i, v]], proposed[at + records[i, v]]
        if after >= before or rng.random() * before < after:
            continue
        total = 0.0
        for k in range(at, at + levels):
            total += max(0.0, proposed[k] - theta[k])
        left, level = rng.random() * total, 0
        for k in range(at, at + levels - 1):
            left -= max(0.0, proposed[k] - theta[k])
            level += left >= 0.0
        while proposed[at + level] <= theta[at + level] and level > 0:  # rounding
            level -= 1
        gain += redrawn(rng, layout, theta, records, residual, v, level, i, many, room)
        room.places[many] = i
        many += 1
    return gain, many


def settled(
    layout: Layout, records: Codes, residual: Integers, counts: Integers, v: int, many: int, accepted: bool, room: Room
) -> None:
    """Takes the records that ``relevelled`` proposed into records and family counts, or takes their residuals back."""
    for k in range(many):
        i = int(room.places[k])
        if not accepted:
            taken_back(layout, records, residual, v, i, k, room)
            continue
        tallied(layout, records, i, counts, v, -1)
        copied(room.trial, k, records, i)
        tallied(layout, records, i, counts, v, 1)


def tallied(layout: Layout, records: Codes, i: int, counts: Integers, v: int, sign: int) -> None:
    """Adds (sign 1) or removes (-1) a record in the counts of the families of a variable and its descendants."""
    for j in range(1 + layout.below[v, 0]):
        at = v if j == 0 else layout.below[v, j]
        row = index_of(layout.nodes, at, records, i)
        counts[layout.nodes[at, THETA] + row * layout.nodes[at, LEVELS] + records[i, at]] += sign


def resized(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers, most: int
) -> int:
    """Adds at the end, or removes there after a random permutation, up to ``most`` records; returns how many are left.

    Records are exchangeable, so the permutation keeps the target, and new records have their own law: under a flat
    prior on n only the noise decides, however many come or go.
    """
    nodes, tables, laws, weights = layout.nodes, layout.tables, layout.laws, layout.weights
    many = 1 + int(rng.random() * most)
    joining = rng.random() < 0.5
    if not joining and many > n:
        return n
    gain, sign = 0.0, 1 if joining else -1
    for k in range(many):
        at = n + k if joining else n - 1 - k
        if joining:
            for v in range(nodes.shape[0]):
                draw(rng, nodes, theta, v, records, at)
        else:
            other = int(rng.random() * (at + 1))
            for v in range(nodes.shape[0]):
                records[at, v], records[other, v] = records[other, v], records[at, v]
        for table in range(tables.shape[0]):
            gain += counted(tables, laws, weights, residual, table, index_of(tables, table, records, at), sign)
    if accepts(rng, gain):
        return n + sign * many
    for k in range(many):
        at = n + k if joining else n - 1 - k
        for table in range(tables.shape[0]):
            counted(tables, laws, weights, residual, table, index_of(tables, table, records, at), -sign)
    return n


def sweep(
    rng: np.random.Generator, layout: Layout, theta: Reals, records: Codes, n: int, residual: Integers,
    counts: Integers, passes: int, reach: Reals, shifts: Integers, exchange: int, attempts: int, most: int,
    tally: Integers, room: Room,
) -> int:  # fmt: skip
    """One sweep over records, rows and n, in place; returns the number of records.

    ``records`` has codes, shape (room, variables), of which the first n are latent records, and room for ``attempts``
    proposals to add or remove up to ``most`` of them; 0 where n is public. ``residual`` is the released values less the
    records' statistics. ``counts`` is set to the family counts, laid out as theta. ``passes`` moves of every row shift
    up to ``reach`` records, at least 1, shape (rows,); two levels exchange at most ``exchange``. Counted up are
    ``shifts``, accepted and tried, shape (2, rows), and ``tally``, accepted and tried, of records, shifts and resizes.
    """
    nodes = layout.nodes
    tally[RECORDS] += refreshed(rng, layout, theta, records, n, residual, room.trial)
    tally[RECORDS + 1] += n
    all_shifted(rng, layout, theta, records, n, residual, passes, reach, shifts, exchange, room)
    for _ in range(attempts):
        left = resized(rng, layout, theta, records, n, residual, most)
        tally[RESIZES] += left != n
        tally[RESIZES + 1] += 1
        n = left
    for cell in range(counts.size):
        counts[cell] = 0
    for i in range(n):
        for v in range(nodes.shape[0]):
            row = index_of(nodes, v, records, i)
            counts[nodes[v, THETA] + row * nodes[v, LEVELS] + records[i, v]] += 1
    return n


def picked(rng: np.random.Generator, weight: Reals) -> int:
    """A place with probability proportional to exp of its weight; ``weight`` is overwritten."""
    most, total = weight[0], 0.0
    for g in range(1, weight.size):
        most = max(most, weight[g])
    for g in range(weight.size):
        weight[g] = math.exp(weight[g] - most)
        total += weight[g]
    left = rng.random() * total - weight[0]
    g = 0
    while left >= 0.0 and g < weight.size - 1:
        g += 1
        left -= weight[g]
    return g


def row_weighed(grid: Reals, centre: Reals, row: Integers, weight: Reals) -> None:
    """Adds a row's log-likelihood under each concentration about a centre, its table integrated out."""
    total = 0
    for k in range(centre.size):
        total += row[k]
    for g in range(grid.size if total > 0 else 0):
        weight[g] += math.lgamma(grid[g]) - math.lgamma(grid[g] + total)
    for k in range(centre.size):
        if row[k] > 0:
            for g in range(grid.size):
                share = grid[g] * centre[k]
                weight[g] += math.lgamma(share + row[k]) - math.lgamma(share)


def concentration_chosen(
    rng: np.random.Generator, grid: Reals, centre: Reals, counts: Integers, weight: Reals
) -> float:
    """A concentration of the grid given a variable's counts, its rows' tables integrated out (proofs.md P77).

    The rows of ``counts`` lie one after another and scatter about ``centre``; ``weight`` is overwritten.
    """
    levels = centre.size
    for g in range(grid.size):
        weight[g] = 0.0
    for first in range(0, counts.size, levels):
        row_weighed(grid, centre, counts[first : first + levels], weight)
    return grid[picked(rng, weight)]


def centre_drawn(
    rng: np.random.Generator, concentration: float, spread: float, centre: Reals, counts: Integers
) -> None:
    """Sets a centre given the concentration and the counts, by the tables of a Chinese restaurant (proofs.md P77).

    The i-th record of a cell opens a table with probability a / (a + i - 1), a the cell's concentration; given how many
    tables each level has, the centre is Dirichlet. ``spread`` is its concentration before any row.
    """
    levels = centre.size
    total = 0.0
    for k in range(levels):
        mine = concentration * centre[k]
        opened = spread
        for at in range(k, counts.size, levels):
            for i in range(counts[at]):
                opened += rng.random() * (mine + i) < mine
        centre[k] = max(rng.standard_gamma(opened), 1e-300)
        total += centre[k]
    for k in range(levels):
        centre[k] /= total


def tables_opened(
    rng: np.random.Generator, concentration: float, centre: Reals, held: Integers, opened: Integers
) -> int:
    """Adds the tables that ``held`` open in a Chinese restaurant to ``opened``, by level; returns how many."""
    tables = 0
    for k in range(centre.size):
        mine = concentration * centre[k]
        for i in range(held[k]):
            if rng.random() * (mine + i) < mine:
                opened[k] += 1
                tables += 1
    return tables


def relearned_within(
    rng: np.random.Generator, prior: Reals, counts: Integers, grid: Reals, spread: float, centre: Reals, weight: Reals
) -> None:
    """Draws the concentration and the centre of a variable of which some rows have levels of prior 0, which cannot be.

    A row scatters about the centre's shares within its own levels. Levels of the centre are gamma variables, whose sum
    the rows do not tell; one exponent for each row makes them independent given the tables of ``centre_drawn``
    (proofs.md P108). Sets the prior.
    """
    levels = centre.size
    for g in range(grid.size):
        weight[g] = 0.0
    for first in range(0, counts.size, levels):
        shares = centre / mass_within(prior, first, centre)
        row_weighed(grid, shares, counts[first : first + levels], weight)
    concentration = grid[picked(rng, weight)]
    whole = rng.standard_gamma(spread * levels)
    opened, rate = np.zeros(levels, np.int64), np.ones(levels)
    for first in range(0, counts.size, levels):
        mass = mass_within(prior, first, centre)
        tables = tables_opened(rng, concentration / mass, centre, counts[first : first + levels], opened)
        if tables > 0:
            exponent = rng.standard_gamma(float(tables)) / (whole * mass)
            for k in range(levels):
                if prior[first + k] > 0.0:
                    rate[k] += exponent
    total_centre = 0.0
    for k in range(levels):
        centre[k] = max(rng.standard_gamma(spread + opened[k]) / rate[k], 1e-250)
        total_centre += centre[k]
    for k in range(levels):
        centre[k] /= total_centre
    for first in range(0, counts.size, levels):
        mass = mass_within(prior, first, centre)
        for k in range(levels):
            if prior[first + k] > 0.0:
                prior[first + k] = max(concentration * centre[k] / mass, 1e-250)


def mass_within(prior: Reals, first: int, centre: Reals) -> float:
    """The sum of a centre over the levels that a row may have."""
    mass = 0.0
    for k in range(centre.size):
        if prior[first + k] > 0.0:
            mass += centre[k]
    return mass


def relearned(
    rng: np.random.Generator, layout: Layout, counts: Integers, grid: Reals, spread: float, centres: Reals,
    weight: Reals,
) -> None:  # fmt: skip
    """Draws the concentration and the centre of every variable that has several rows, and sets the prior to them.

    ``counts`` are laid out as theta, ``centres`` are those of each variable, one after another, and overwritten; a
    variable whose centre is 0 is left out. ``spread`` is the Dirichlet concentration of a level of a centre, ``weight``
    room for a number for each of the grid.
    """
    nodes, at = layout.nodes, 0
    for v in range(nodes.shape[0]):
        levels, first = nodes[v, LEVELS], nodes[v, THETA]
        last = counts.size if v + 1 == nodes.shape[0] else nodes[v + 1, THETA]
        if levels > 1 and last - first > levels and centres[at] > 0.0:
            mine, centre = counts[first:last], centres[at : at + levels]
            if layout.prior[first:last].min() == 0.0:
                relearned_within(rng, layout.prior[first:last], mine, grid, spread, centre, weight)
                at += levels
                continue
            concentration = concentration_chosen(rng, grid, centre, mine, weight)
            centre_drawn(rng, concentration, spread, centre, mine)
            for cell in range(first, last):
                layout.prior[cell] = concentration * centre[(cell - first) % levels]
        at += levels


def followed(
    rng: np.random.Generator, prior: Reals, counts: Integers, sizes: Integers, public: Reals, worth: Reals,
    grid: Reals, held: Reals, choice: Integers, weight: Reals,
) -> None:  # fmt: skip
    """Draws how closely each row follows the public one, its table integrated out, and sets the prior of those that do.

    ``prior`` has the concentrations of rows that follow nothing, choice 0; choice g weighs the public row as
    ``grid[g - 1]`` records, less than the ``worth`` records that it is known from (proofs.md P130). ``held`` has how
    often each choice is made by the other rows, and before any, ``weight`` room for a number for each choice.
    """
    first = 0
    for row in range(sizes.size):
        last = first + sizes[row]
        held[choice[row]] -= 1.0
        own, total = 0.0, 0
        for k in range(first, last):
            own += prior[k]
            total += counts[k]
        for g in range(held.size):
            mass = own if g == 0 else grid[g - 1] / (1.0 + grid[g - 1] / worth[row])
            weight[g] = math.log(held[g]) + math.lgamma(mass) - math.lgamma(mass + total)
            for k in range(first, last):
                if counts[k] > 0:
                    cell = prior[k] if g == 0 else mass * public[k]
                    weight[g] += math.lgamma(cell + counts[k]) - math.lgamma(cell)
        g = picked(rng, weight)
        choice[row] = g
        held[g] += 1.0
        if g > 0:
            for k in range(first, last):
                prior[k] = grid[g - 1] / (1.0 + grid[g - 1] / worth[row]) * public[k]
        first = last


def below(row: int, stride: int, size: int, bins: int) -> int:
    """The place of the centre that a row's centre scatters about, one above the row's number; 0 is the common one.

    ``stride`` is how far apart the bins of the number are among the rows, ``size`` how many levels it has, of which the
    first ``bins`` are in order.
    """
    level = row // stride % size
    return row - stride + 1 if 0 < level < bins else 0


def centre_set(rng: np.random.Generator, centre: Reals, about: Reals, concentration: float, opened: Integers) -> None:
    """Draws a centre, Dirichlet(concentration about + opened), by gammas in log space so that none is all zeros."""
    most, total = -math.inf, 0.0
    for k in range(centre.size):
        shape = concentration * about[k] + opened[k]
        centre[k] = math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape
        most = max(most, centre[k])
    for k in range(centre.size):
        centre[k] = math.exp(max(centre[k] - most, -600.0))
        total += centre[k]
    for k in range(centre.size):
        centre[k] /= total


def relearned_along(
    rng: np.random.Generator, prior: Reals, counts: Integers, grid: Reals, bounds: Reals, spread: float,
    chosen: Reals, centres: Reals, stride: int, size: int, bins: int, opened: Integers, weight: Reals,
) -> None:  # fmt: skip
    """Draws the centres and concentrations of a variable along a parent whose bins are in order (proofs.md P109).

    ``prior`` and ``counts`` have shape (rows, levels), ``centres`` a common centre before the centres of the rows.
    ``chosen`` has the two concentrations of centres, ``bounds`` the least and the most of each, shape (2, 2), ``grid``
    the possible concentrations of rows. ``spread`` is the Dirichlet concentration of a level of the common centre.
    ``opened`` and ``weight`` are room, as large as ``centres`` and ``grid``.
    """
    rows, levels = counts.shape
    for g in range(grid.size):
        weight[g] = 0.0
    for row in range(rows):
        row_weighed(grid, centres[row + 1], counts[row], weight)
    own = grid[picked(rng, weight)]
    opened[:] = 0
    tables, rate = np.zeros(2), np.zeros(2)
    for row in range(rows - 1, -1, -1):
        at, to = row + 1, below(row, stride, size, bins)
        kind = NEIGHBOURS if to > 0 else COMMON
        tables_opened(rng, own, centres[at], counts[row], opened[at])
        held = opened[at].sum()
        if held > 0:
            tables[kind] += tables_opened(rng, chosen[kind], centres[to], opened[at], opened[to])
            rate[kind] -= math.log(max(rng.beta(chosen[kind], held), 1e-300))
    for kind in range(2):
        least, most = bounds[kind, 0], bounds[kind, 1]
        if tables[kind] == 0.0:
            chosen[kind] = least * (most / least) ** rng.random()
        else:
            proposed = rng.standard_gamma(tables[kind]) / rate[kind]
            if least <= proposed <= most:
                chosen[kind] = proposed
    for k in range(levels):
        centres[0, k] = 1.0
    centre_set(rng, centres[0], centres[0], spread, opened[0])
    for row in range(rows):
        at, to = row + 1, below(row, stride, size, bins)
        centre_set(rng, centres[at], centres[to], chosen[NEIGHBOURS if to > 0 else COMMON], opened[at])
        for k in range(levels):
            prior[row, k] = own * centres[at, k]
