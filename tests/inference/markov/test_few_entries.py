"""Cells with few entries are summed over and drawn exactly: against enumeration of every number and table."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from dpgraph.inference.markov import loops
from dpgraph.inference.markov.sampler import alike_cells
from tests.conclusions import law_test

FEW = loops.FEW_ENTRIES + 1
EDGES = np.array([0, 2, 5])
LAWS = np.array([[0.3, 0.7, 0.2, 0.5, 0.3], [0.8, 0.2, 0.1, 0.1, 0.8]])
RATES = (1.5, 0.7)


def cells(released, absolute=0.6, squares=0.0, stay=-0.4):
    """Cells of two fields, each the only one of its chain where the chain has one step."""
    released = np.array(released, np.int64)
    many, width = released.shape
    sizes = [np.full(many, stay), np.full((2, many, 2), 0.5), np.full(many, 2.0), np.full((2, 2), 0.4)]
    law = [np.full(width, absolute), np.full(width, squares)]
    counts = np.zeros_like(released)
    return loops.Cells(counts, released, np.ones(many, bool), EDGES, *law, *sizes, np.zeros(12))


def tables(first, last):
    """Every table of two fields with the same number of entries, from ``first`` to ``last``."""
    for entries in range(first, last + 1):
        one = [table for table in itertools.product(range(entries + 1), repeat=2) if sum(table) == entries]
        two = [table for table in itertools.product(range(entries + 1), repeat=3) if sum(table) == entries]
        yield from (np.array(a + b) for a, b in itertools.product(one, two))


def log_weight(given, i, k, table, alone):
    """ln P(released, number, table | state), over every rate where the cell is alone in its chain."""
    entries = table[:2].sum()
    number = betaln(RATES[0] + 1, RATES[1] + entries) if alone else given.stay[i] * entries
    law = 2 * gammaln(entries + 1) - gammaln(table + 1).sum() + (table * np.log(LAWS[k])).sum()
    noise = np.abs(given.released[i] - table)
    return number + law - (given.absolute * noise + given.squares * noise**2).sum()


RELEASED = [[2, 1, 0, 3, 1], [-4, 6, 2, 2, 9], [0, 0, -1, 5, -7], [40, -3, 2, 30, 1]]


@pytest.mark.parametrize("block", [(0, 3), (0, 1), (2, 5), (4, 7)])
@pytest.mark.parametrize(("absolute", "squares"), [(0.6, 0.0), (0.0, 0.15), (0.3, 0.05)])
@pytest.mark.parametrize("alone", [False, True])
def test_the_weight_of_a_state_is_the_sum_over_every_number_and_table(block, absolute, squares, alone):
    """Laplace noise, Gaussian and both; values far below and above what a cell can hold."""
    given, weight = cells(RELEASED, absolute, squares), np.zeros((4, 2))
    known = loops.known_of(given, 2, np.full(4, alone), RATES)
    loops.weights_of_few(given, np.arange(4), *block, LAWS, weight, known, given.alike[0, 0])
    for i in range(4):
        log = [np.logaddexp.reduce([log_weight(given, i, k, table, alone) for table in tables(*block)]) for k in (0, 1)]
        np.testing.assert_allclose(weight[i], np.exp(np.array(log) - max(log)), rtol=1e-9)


#: Laplace noise tells none of the first three apart at up to three entries, and none of the next two, whose 3 is a 2 in
#: the last.
ALIKE = [[-4, 6, 2, 2, 9], [0, 3, 2, 2, 40], [-1, 5, 2, 2, 3], [1, 2, -3, 4, 1], [1, 2, 0, 3, 1], [1, 2, 1, 3, 1]]
ALIKE += [[1, 2, 0, 2, 1]]


@pytest.mark.parametrize(("absolute", "squares", "classes"), [(0.6, 0.0, 4), (0.3, 0.05, 7)])
def test_cells_that_noise_does_not_tell_apart_share_their_sums(absolute, squares, classes):
    """Each cell's own weights, from its own released values; Gaussian noise tells all apart."""
    given, weight = cells(ALIKE, absolute, squares), np.zeros((7, 2))
    given = given._replace(alike=alike_cells(given.released, given.squares))
    known = loops.known_of(given, 2, np.zeros(7, bool), RATES)
    assert np.unique(given.alike[0, 0]).size == classes
    loops.weights_of_few(given, np.arange(7), 0, 3, LAWS, weight, known, given.alike[0, 0])
    for i in range(7):
        log = [np.logaddexp.reduce([log_weight(given, i, k, table, False) for table in tables(0, 3)]) for k in (0, 1)]
        np.testing.assert_allclose(weight[i], np.exp(np.array(log) - max(log)), rtol=1e-9)


def test_alike_cells_in_two_states_are_drawn_by_the_law_of_each():
    """Chains with rates of their own: neither state nor rate of a cell that shares its sums is taken for another's."""
    given = cells([[1, 2, 0, 3, -1], [1, 2, -4, 7, 0]] * 32)
    given = given._replace(alike=alike_cells(given.released, given.squares))
    states, several = np.tile([0, 1, 1, 0], 16), np.zeros(64, bool)
    given.stay[:32] = -2.0
    known, every = loops.known_of(given, 2, several, RATES), [tuple(table) for table in tables(0, 3)]
    assert np.unique(given.alike[0, 0]).size == 1
    kinds = [(i, int(states[i])) for i in (0, 1, 32, 33)]
    log = {kind: np.array([log_weight(given, *kind, np.array(table), False) for table in every]) for kind in kinds}
    plans = {kind: law_test(log[kind], [log[other] for other in kinds if other != kind]) for kind in kinds}
    rng, drawn = np.random.default_rng(14), {kind: [] for kind in kinds}
    while any(len(drawn[kind]) < plans[kind].draws for kind in kinds):
        loops.tables_of_few(rng, given, np.arange(64), 0, 3, states, 2, LAWS, known, given.alike[0, 0])
        found = [every.index(tuple(table)) for table in given.counts.tolist()]
        for first, k in kinds:
            mine = range(first // 32 * 32, first // 32 * 32 + 32)
            drawn[first, k] += [found[i] for i in mine if states[i] == k]
    for kind, plan in plans.items():
        plan.check(drawn[kind][: plan.draws])


@pytest.mark.parametrize("levels", [3, 40])
def test_numbers_of_cells_tell_rows_apart(levels):
    """Of few columns by one code, of many by codes of codes."""
    rng = np.random.default_rng(15)
    released = rng.integers(-50, 50, (40, levels)).repeat(5, axis=0)[rng.permutation(200)]
    gaussian = alike_cells(released, np.ones(levels))
    assert gaussian.shape == (2, 4, 200)
    same = (released[:, None] == released[None]).all(axis=2)
    for found in gaussian.reshape(-1, 200):
        assert ((found[:, None] == found[None]) == same).all()


@pytest.mark.parametrize(("alone", "state"), [(False, 0), (True, 1)])
def test_a_number_and_a_table_are_drawn_by_their_law(alone, state):
    """Up to three entries, 53 tables; tables drawn whatever was released, and by the other state's law, are told."""
    given = cells([[1, 2, 0, 3, -1]] * loops.LANES)
    known = loops.known_of(given, 2, np.full(loops.LANES, alone), RATES)
    every = [tuple(table) for table in tables(0, 3)]
    log = {
        k: np.array([log_weight(given, 0, k, np.array(table), alone) for table in every]) for k in (state, 1 - state)
    }
    noise = [(np.abs(given.released[0] - np.array(table)) * given.absolute).sum() for table in every]
    test = law_test(log[state], [log[state] + noise, log[1 - state]])
    rng, states, drawn = np.random.default_rng(3), np.full(loops.LANES, state), []
    while len(drawn) < test.draws:
        loops.tables_of_few(rng, given, np.arange(loops.LANES), 0, 3, states, 2, LAWS, known, given.alike[0, 0])
        drawn += [every.index(tuple(table)) for table in given.counts.tolist()]
    test.check(drawn[: test.draws])


def test_fields_that_cannot_agree_on_a_number_leave_the_cell_to_a_pool():
    given, weight = cells([[0, 0, 6, 6, 6]], absolute=500.0), np.full((1, 2), np.nan)
    known = loops.known_of(given, 2, np.zeros(1, bool), RATES)
    loops.weights_of_few(given, np.arange(1), 0, 3, LAWS, weight, known, given.alike[0, 0])
    assert weight.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("which", [0, 1])
def test_blocks_are_cut_without_a_gap(which):
    ends = loops.BLOCKS[which]
    found = [loops.block_of(entries, ends) for entries in range(FEW + 1)]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] == len(ends)
    assert all(loops.block_of(end, ends) + 1 == loops.block_of(end + 1, ends) for end in ends)


def test_every_number_is_reached_through_the_blocks():
    """No end of one way of cutting but the last is an end of the other."""
    assert set(loops.BLOCKS[0].tolist()) & set(loops.BLOCKS[1].tolist()) == {loops.FEW_ENTRIES}
    assert loops.RARELY_RESIZED < loops.FEW_ENTRIES


@pytest.mark.parametrize(("entries", "many"), [(0, 1), (3, 4), (2, 40), (12, -5), (70, -60)])
def test_more_entries_where_the_rate_is_integrated_out(entries, many):
    a, b = RATES
    expected = betaln(a + 1, b + entries + many) - betaln(a + 1, b + entries)
    assert loops.log_of_more(entries, many, RATES) == pytest.approx(expected, rel=1e-9)


def test_a_chain_with_one_observed_cell_has_the_law_of_all_rates():
    """The number of entries of a cell of which nothing is known, by resizes: P(N = n) = B(3, n + 4) / B(2, 4)."""
    rates, numbers = (2.0, 4.0), np.arange(40)
    log = betaln(rates[0] + 1, rates[1] + numbers)
    given_rate = numbers * math.log(rates[1] / sum(rates))
    test = law_test(log, [given_rate, betaln(rates[0], rates[1] + numbers)], most=6_000)
    rng, found = np.random.default_rng(5), []
    given = cells([[0, 0, 0, 0, 0]] * test.draws, absolute=0.0)
    made = rng.geometric(rng.beta(*rates, test.draws)) - 1
    for i, entries in enumerate(made):
        given.counts[i] = [entries, 0, entries, 0, 0]
    alone, every = np.ones(test.draws, bool), np.arange(test.draws)
    for _ in range(2):
        loops.resize(rng, given, LAWS, np.zeros(test.draws, np.int64), 0.0, every, -1, alone, rates)
    assert given.tally[loops.RESIZE] > test.draws / 4
    found = given.counts[:, :2].sum(axis=1)
    test.check(found)


def test_cells_left_alone_by_their_number_stay_apart_from_the_others():
    rng, given = np.random.default_rng(6), cells([[0, 0, 0, 0, 0]] * 200, absolute=0.0, stay=-1.0)
    given.counts[:100, [0, 2]], given.counts[100:, [0, 2]] = 5, 8
    key, several = np.zeros(200, np.int64), np.zeros(200, bool)
    for _ in range(20):
        loops.resize(rng, given, LAWS, key, 0.0, np.arange(200), 7, several, RATES)
    entries = given.counts[:, :2].sum(axis=1)
    assert (entries[:100] == 5).all()
    assert (entries[100:] > 7).all()
    assert (entries[100:] > 8).any()


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_entries_are_taken_one_by_one_with_their_chance(chance):
    """By the gaps between them where they are rare; each of 0 to 8 of eight, in the order of two cells' counts."""
    column, where, taken = np.array([3, 0, 5], np.int32), np.empty(3, np.int64), np.empty(3, np.int64)

    def law(p):
        parts = [[math.log(math.comb(n, x) * p**x * (1 - p) ** (n - x)) for x in range(n + 1)] for n in (3, 5)]
        return np.add.outer(*map(np.array, parts)).ravel()

    test = law_test(law(chance), [law(chance * 1.3), law(chance * 0.75)])
    rng, drawn = np.random.default_rng(8), []
    for _ in range(test.draws):
        many = loops.taken_from(rng, column, 0, 3, chance, where, taken)
        found = dict(zip(where[:many].tolist(), taken[:many].tolist(), strict=True))
        assert 1 not in found
        drawn.append(found.get(0, 0) * 6 + found.get(2, 0))
    test.check(drawn)
    assert loops.taken_from(rng, column, 0, 3, 0.0, where, taken) == 0


@pytest.mark.parametrize("shape", [(1, 300, 3), (2, 70, 2), (40, 7, 3), (5, 90, 6), (33, 1, 2)])
def test_chains_are_filtered_and_as_likely_as_sums_of_products_say(shape):
    rng = np.random.default_rng(10)
    weight, size = rng.random(shape) ** 3, shape[2]
    transition, filtered = rng.dirichlet(np.full(size, 0.5), size), np.empty(shape)
    found, expected = loops.forward(weight, transition, filtered), 0.0
    for chain, kept in zip(weight, filtered, strict=True):
        state = np.ones(size)
        for t, here in enumerate(chain):
            state = here * (state @ transition if t else state)
            expected += math.log(state.sum())
            state = state / state.sum()
            np.testing.assert_allclose(kept[t] / kept[t].sum(), state, rtol=1e-9)
    assert found == pytest.approx(expected, rel=1e-9)


def test_states_are_matched_evenly():
    """Three states: each pair, and so each that stays alone, a third of the time."""
    rng, pair, seen = np.random.default_rng(12), np.empty(3, np.int64), []
    test = law_test(np.log([1, 1, 1]), [np.log([1, 1, 1.5]), np.log([1, 1.5, 1])])
    for _ in range(test.draws):
        loops.matched(rng, pair)
        assert (pair[pair] == np.arange(3)).all()
        seen.append(int(np.flatnonzero(pair == np.arange(3))[0]))
    test.check(seen)
