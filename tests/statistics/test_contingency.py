"""Every way to count gives the same cells: packed histograms, bit-slicing plain and compiled, in threads or not."""

import itertools
import math
import tracemalloc
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.statistics import _kernels, contingency
from dpgraph.statistics.contingency import add_tables, histogram_counts, packs, sliced_counts
from tests.tiers import examples

PLAIN = _kernels.slice_column, _kernels.count_blocks
SIZES = st.one_of(st.integers(1, 5), st.integers(1, 300))


@st.composite
def encoded(draw, most_levels=300, most_cells=5000, max_rows=200):
    """Columns of codes as narrow as their levels, and tables over them, one variable in several."""
    sizes = [min(size, most_levels) for size in draw(st.lists(SIZES, min_size=1, max_size=6))]
    subsets = st.permutations(range(len(sizes))).flatmap(
        lambda order: st.integers(1, min(4, len(order))).map(lambda depth: tuple(order[:depth]))
    )
    fits = subsets.filter(lambda table: math.prod(sizes[v] for v in table) <= most_cells)
    tables = tuple(draw(st.lists(fits, min_size=1, max_size=6)))
    n, rng = draw(st.integers(0, max_rows)), np.random.default_rng(draw(st.integers(0, 2**32)))
    skew = draw(st.sampled_from([1, 4]))
    columns = [(size * rng.random(n) ** skew).astype(np.uint8 if size <= 256 else np.uint16) for size in sizes]
    return columns, tuple(sizes), tables


def by_hand(columns, sizes, tables):
    """Row after row, cell after cell."""
    counted = []
    for table in tables:
        rows = Counter(zip(*(columns[v].tolist() for v in table), strict=True))
        counted.append([rows[cell] for cell in itertools.product(*(range(sizes[v]) for v in table))])
    return counted


def zeros(sizes, tables):
    return [np.zeros(math.prod(sizes[v] for v in table), np.int64) for table in tables]


def lists(totals):
    return [total.tolist() for total in totals]


@pytest.fixture(scope="module")
def compiled():
    return _kernels.compiled()


@settings(max_examples=examples(60), deadline=None)
@given(encoded(), st.sampled_from([None, 1, 20, 300, 1 << 16]), st.sampled_from([1, 7, 64, 1 << 16]))
def test_packed_histograms_count_what_a_person_would(case, packed, block):
    columns, sizes, tables = case
    totals = zeros(sizes, tables)
    histogram_counts(columns, sizes, tables, totals, packed, block)
    assert lists(totals) == by_hand(columns, sizes, tables)


def test_a_margin_of_a_pack_has_the_order_of_its_own_table():
    rows = [(0, 2, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0)]
    columns, sizes = [np.array(column, np.uint8) for column in zip(*rows, strict=True)], (2, 3, 2)
    tables = ((1, 0, 2), (0, 1), (2, 1), (2, 0, 1))
    totals = zeros(sizes, tables)
    assert len(packs(tables, sizes, 12)) == 1
    histogram_counts(columns, sizes, tables, totals, packed=12)
    assert lists(totals) == by_hand(columns, sizes, tables)


@pytest.mark.parametrize(
    "sizes", [(1, 256), (256, 1), (1, 65_536), (2, 128), (2, 32_768), (257, 255), (1, 1), (1, 70_000)]
)
def test_tables_that_just_fit_a_byte_or_two(sizes):
    rows = [(a, b) for a in (0, sizes[0] - 1) for b in (0, sizes[1] // 2, sizes[1] - 1)]
    columns = [
        np.array(column).astype(np.min_scalar_type(size - 1))
        for column, size in zip(zip(*rows, strict=True), sizes, strict=True)
    ]
    totals = zeros(sizes, ((0, 1), (1, 0)))
    histogram_counts(columns, sizes, ((0, 1), (1, 0)), totals, packed=1)
    for total, order in zip(totals, (rows, [row[::-1] for row in rows]), strict=True):
        assert {cell: total[cell] for cell in np.flatnonzero(total)} == {
            cell[0] * sizes[1 if order is rows else 0] + cell[1]: n for cell, n in Counter(order).items()
        }


@settings(max_examples=examples(60), deadline=None)
@given(encoded(), st.sampled_from([1, 20, 300, 1 << 16]))
def test_packs_hold_every_table_once_and_are_no_larger_than_asked(case, packed):
    _, sizes, tables = case
    made = packs(tables, sizes, packed)
    assert sorted(member for _, members in made for member in members) == list(range(len(tables)))
    for joint, members in made:
        assert len(set(joint)) == len(joint)
        assert set(joint) == {v for member in members for v in tables[member]}
        assert len(members) == 1 or math.prod(sizes[v] for v in joint) <= packed


def packs_by_looking_at_all(tables, sizes, packed):
    """The greedy rule word by word: each table, largest first, joins the pack whose joint table it enlarges least."""
    made = []
    cells = [math.prod(sizes[v] for v in table) for table in tables]
    for at in sorted(range(len(tables)), key=lambda at: -cells[at]):
        grown = [math.prod(sizes[v] for v in {*joint, *tables[at]}) for joint, _ in made]
        best = min(range(len(made)), key=grown.__getitem__, default=-1)
        if best < 0 or grown[best] > packed:
            made.append((tables[at], (at,)))
        else:
            joint, members = made[best]
            made[best] = ((*joint, *(v for v in tables[at] if v not in joint)), (*members, at))
    return tuple(made)


@settings(max_examples=examples(200), deadline=None)
@given(encoded(), st.sampled_from([1, 20, 300, 1 << 16]))
def test_packs_are_those_of_a_look_at_every_pack(case, packed):
    """Rejects packs that miss the one which grows least; no variable is in more than HUB packs here."""
    _, sizes, tables = case
    assert packs(tables, sizes, packed) == packs_by_looking_at_all(tables, sizes, packed)


@pytest.mark.parametrize("shared", [True, False])
def test_packing_looks_at_few_packs_for_each_table(monkeypatch, shared):
    """Rejects a look at every pack for every table, which is the number of tables times that of packs."""
    size, looked = 3000, 0
    tables = tuple((v, 0) if shared else (v, v - 1) for v in range(1, size))
    grown = contingency._Packing.grown

    def counted(packing, table):
        nonlocal looked
        for found in grown(packing, table):
            looked += 1
            yield found

    monkeypatch.setattr(contingency._Packing, "grown", counted)
    made = packs(tables, (2,) * size, 1 << 12)
    assert len(made) >= size / 13
    assert looked <= (contingency.HUB + 2) * size


def test_a_hub_s_tables_still_fill_their_packs():
    """Rejects packs left half empty where a variable is in more packs than are looked at: 11 leaves fill 4096 cells."""
    made = packs(tuple((v, 0) for v in range(1, 1101)), (2,) * 1101, 1 << 12)
    assert [len(members) for _, members in made] == [11] * 100


@settings(max_examples=examples(25), deadline=None)
@given(encoded(most_levels=40, most_cells=300, max_rows=150), st.sampled_from([64, 128]))
def test_plain_bit_slicing_counts_what_a_person_would(case, block):
    columns, sizes, tables = case
    with np.errstate(over="ignore"):
        cells = sliced_counts(columns, sizes, tables, PLAIN, block)
    assert cells.tolist() == list(itertools.chain.from_iterable(by_hand(columns, sizes, tables)))


@pytest.mark.proof
@settings(max_examples=examples(60), deadline=None)
@given(encoded(most_levels=256), st.sampled_from([64, 128, 1 << 15]), st.sampled_from([1, 1 << 12]))
def test_compiled_bit_slicing_counts_what_a_person_would(compiled, case, block, masks):
    columns, sizes, tables = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contingency, "MASKS", masks)
        cells = sliced_counts(columns, sizes, tables, compiled, block)
    assert cells.tolist() == list(itertools.chain.from_iterable(by_hand(columns, sizes, tables)))


@pytest.mark.parametrize("fast", [False, True, None])
@settings(max_examples=examples(30), deadline=None)
@given(encoded())
def test_the_tables_are_added_whichever_way_is_chosen(compiled, fast, case):
    columns, sizes, tables = case
    totals = [total + 5 for total in zeros(sizes, tables)]
    add_tables(columns, sizes, tables, totals, fast)
    assert lists(totals) == [[count + 5 for count in cells] for cells in by_hand(columns, sizes, tables)]


@pytest.mark.parametrize("rows", [0, 1, 32_768, 65_537, 200_000])
def test_threads_count_as_one_does(compiled, monkeypatch, rows):
    """Parts end at blocks; rows that fill no block, and parts that are empty, are in none or in one."""
    rng = np.random.default_rng(rows)
    sizes, tables = (2, 3, 256, 300), ((0, 1), (2, 0), (3, 1), (3,))
    columns = [rng.integers(0, size, rows).astype(np.uint8 if size <= 256 else np.uint16) for size in sizes]
    alone, together = zeros(sizes, tables), zeros(sizes, tables)
    histogram_counts(columns, sizes, tables, alone)
    monkeypatch.setattr(contingency, "THREAD_VALUES", 1)
    monkeypatch.setattr(contingency, "processors", lambda: 3)
    add_tables(columns, sizes, tables, together, fast=True)
    assert lists(together) == lists(alone)
    assert {int(total.sum()) for total in together} == {rows}


def test_where_machine_code_cannot_be_kept_numpy_counts(monkeypatch):
    def homeless():
        raise RuntimeError("cannot cache: no locator available")

    homeless.cache_info = _kernels.compiled.cache_info
    monkeypatch.setattr(_kernels, "compiled", homeless)
    monkeypatch.setattr(contingency, "START_UP", 0)
    columns = [np.tile(np.arange(3, dtype=np.uint8), 20_000)]
    totals = zeros((3,), ((0,),))
    add_tables(columns, (3,), ((0,),), totals)
    assert lists(totals) == [[20_000] * 3]
    with pytest.raises(RuntimeError):
        add_tables(columns, (3,), ((0,),), totals, fast=True)


def test_few_rows_do_not_load_the_compiler(monkeypatch):
    def loaded():
        raise AssertionError("numba was loaded for a few rows")

    loaded.cache_info = lambda: type("Info", (), {"currsize": 0})
    monkeypatch.setattr(_kernels, "compiled", loaded)
    add_tables([np.zeros(100_000, np.uint8)], (2,), ((0,),), zeros((2,), ((0,),)))


def test_a_very_large_table_takes_no_memory_besides_itself():
    """Nine million cells, a hundred thousand rows: a dense histogram of each block would take 72 MB more."""
    sizes, rows = (300, 300, 100), 100_000
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, size, rows).astype(np.uint16) for size in sizes]
    totals = zeros(sizes, ((0, 1, 2),))
    tracemalloc.start()
    try:
        add_tables(columns, sizes, ((0, 1, 2),), totals)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6
    cells, counts = np.unique(np.ravel_multi_index(columns, sizes), return_counts=True)
    assert np.array_equal(np.flatnonzero(totals[0]), cells)
    assert np.array_equal(totals[0][cells], counts)


@pytest.fixture
def unloaded(monkeypatch):
    """A process that has counted nothing yet; the list grows with each call that asks for the compiled loops."""
    asked = []

    def load():
        asked.append(None)
        return compiled_loops()

    compiled_loops = _kernels.compiled
    load.cache_info = lambda: SimpleNamespace(currsize=len(asked))
    monkeypatch.setattr(_kernels, "compiled", load)
    monkeypatch.setattr(contingency, "_PAST", {"work": 0.0})
    monkeypatch.setattr(contingency, "LOADING", 300_000)
    return asked


def test_a_process_that_has_counted_much_loads_the_loops(unloaded):
    """Each call alone is far below what repays loading; three of them have taken as long as loading would."""
    columns = [np.tile(np.arange(3, dtype=np.uint8), 40_000)]
    seen = []
    for _ in range(5):
        totals = zeros((3,), ((0,),))
        add_tables(columns, (3,), ((0,),), totals)
        assert lists(totals) == [[40_000] * 3]
        seen.append(len(unloaded))
    assert seen == [0, 0, 0, 1, 2]


def test_small_calls_never_load_the_loops(unloaded):
    """Calls of fewer rows than a block cannot use them, however many there are."""
    columns = [np.tile(np.arange(3, dtype=np.uint8), 1000)]
    totals = zeros((3,), ((0,),))
    for _ in range(200):
        add_tables(columns, (3,), ((0,),), totals)
    assert unloaded == []
    assert contingency._PAST["work"] == 0


def test_where_machine_code_cannot_be_kept_it_is_not_tried_at_every_call(monkeypatch, unloaded):
    def homeless():
        unloaded.append(None)
        raise RuntimeError("cannot cache: no locator available")

    homeless.cache_info = lambda: SimpleNamespace(currsize=0)
    monkeypatch.setattr(_kernels, "compiled", homeless)
    columns = [np.tile(np.arange(3, dtype=np.uint8), 40_000)]
    for _ in range(6):
        add_tables(columns, (3,), ((0,),), zeros((3,), ((0,),)))
    assert len(unloaded) == 1
