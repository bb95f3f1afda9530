"""The declared movement of one row is exact: enumerated on coarse grids, searched on the real one, never exceeded."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.structure import design as module
from dpgraph.structure.design import RESOLUTION, Bounded, LinearDesign, largest_replacement
from dpgraph.structure.domain import NetworkError
from tests.tiers import examples

REPLACE, ADD = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")
UNITS = [REPLACE, ADD]


def made(numbers, signs=0, levels=(), intercept=True, **settings):
    """A design of so many numbers beside the target, two-level variables, and variables of more levels."""
    features = {f"x{i}": (-1, 1) for i in range(numbers)} | {f"s{i}": [0, 1] for i in range(signs)}
    features |= {f"g{i}": list(range(size)) for i, size in enumerate(levels)}
    return LinearDesign(features, "y", (-1, 1), intercept=intercept, **settings)


def values(design, rng, many, grid):
    """Rows at random, mostly at the bounds, in whole steps: shape (many, columns)."""
    columns, level = [], {}
    for column in design.columns:
        if column.kind == "intercept":
            columns.append(np.full(many, grid))
        elif column.kind == "sign":
            columns.append(grid * rng.choice([-1, 1], many))
        elif column.kind == "level":
            size = design.features[column.variable].size
            chosen = level.setdefault(column.variable, rng.integers(0, size, many))
            columns.append(grid * (chosen == column.level))
        else:
            inner = rng.integers(-grid, grid + 1, many)
            columns.append(np.where(rng.random(many) < 0.5, grid * rng.choice([-1, 1], many), inner))
    return np.array(columns, np.int64).T


def every(design, grid):
    """Every row of a coarse grid."""
    choices = {}
    for name, feature in design.features.items():
        choices[name] = range(-grid, grid + 1) if isinstance(feature, Bounded) else range(feature.size)
    choices[design.target] = range(-grid, grid + 1)
    rows = []
    for chosen in itertools.product(*choices.values()):
        at = dict(zip(choices, chosen, strict=True))
        row = []
        for column in design.columns:
            match column.kind:
                case "intercept":
                    row.append(grid)
                case "sign":
                    row.append(grid * (2 * at[column.variable] - 1))
                case "level":
                    row.append(grid * (at[column.variable] == column.level))
                case _:
                    row.append(at[column.variable])
        rows.append(row)
    return np.array(rows, np.int64)


def contributions(design, z, unit):
    """What each row adds to what is released."""
    first, second = np.array(design.pairs).T
    return np.array([design.released(row, 1, unit) for row in z[:, first] * z[:, second]])


SMALL = {
    "one number": (1,),
    "two numbers": (2,),
    "two numbers, no intercept": (2, 0, (), False),
    "the target alone, a sign": (0, 1),
    "a number and a sign": (1, 1),
    "a number and two signs, no intercept": (1, 2, (), False),
    "three levels": (0, 0, (3,)),
    "a number and three levels": (1, 0, (3,)),
    "a number and three levels, no intercept": (1, 0, (3,), False),
    "a number, a sign and three levels": (1, 1, (3,)),
    "three levels twice": (0, 0, (3, 3)),
    "a number and three levels twice": (1, 0, (3, 3)),
    "three levels and four, a sign": (0, 1, (3, 4), False),
    "one level": (1, 0, (1,)),
}


TWICE = pytest.mark.parametrize("many", [1, 99], ids=["target twice", "target once"])


@pytest.mark.parametrize("weight", [2, 3, 7, 256])
@pytest.mark.parametrize("many", [1, 99], ids=["target twice", "target once"])
@pytest.mark.parametrize("name", [name for name, shape in SMALL.items() if len(shape) < 4 or shape[3]])
def test_a_weighted_sum_of_the_target_moves_as_far_as_declared(name, many, weight, monkeypatch):
    """All pairs again: in L1 up to the grid, where the target's P may be up to half a step off too; added, exactly; in
    squared L2 a bound, which with such weights is missed by a third at most."""
    monkeypatch.setattr(module, "RESOLUTION", 4)
    monkeypatch.setattr(module, "MANY_COLUMNS", many)
    design = made(*SMALL[name]).with_mean_weight(weight)
    each = contributions(design, every(design, 4), REPLACE)
    largest = max(int(np.abs(each - one).sum(axis=1).max()) for one in each)
    numbers = sum(column.kind in ("number", "target") for column in design.columns) + design.copies - 1
    assert design.sensitivity(REPLACE) - numbers * (numbers + 1) / 2 <= largest <= design.sensitivity(REPLACE)
    squared = max(int(((each - one) ** 2).sum(axis=1).max()) for one in each)
    assert design.squared_sensitivity(REPLACE) * 2 / 3 <= squared <= design.squared_sensitivity(REPLACE)
    added = contributions(design, every(design, 4), ADD)
    assert np.abs(added).sum(axis=1).max() == design.sensitivity(ADD)
    assert (added**2).sum(axis=1).max() == design.squared_sensitivity(ADD)


@pytest.mark.parametrize("weight", [0, 1, 257, 2.0, True])
def test_a_weight_of_the_mean_out_of_range_is_refused(weight):
    with pytest.raises(NetworkError, match="mean_weight must be a whole number from 2 to 256"):
        made(6, mean_weight=weight)
    with pytest.raises(NetworkError, match="with an intercept"):
        made(2, intercept=False, mean_weight=5)


@TWICE
@pytest.mark.parametrize("grid", [3, 4])
@pytest.mark.parametrize("name", SMALL)
def test_no_pair_of_rows_of_a_coarse_grid_moves_further_and_some_nearly_as_far(name, grid, many, monkeypatch):
    """All pairs. The movement is quadratic in a number's value, and its best value at most half a step off the grid,
    so the largest pair falls short of the declared one by at most a few quarters of a step squared."""
    monkeypatch.setattr(module, "RESOLUTION", grid)
    monkeypatch.setattr(module, "MANY_COLUMNS", many)
    design = made(*SMALL[name])
    each = contributions(design, every(design, grid), REPLACE)
    largest = max(int(np.abs(each - one).sum(axis=1).max()) for one in each)
    declared = design.sensitivity(REPLACE)
    numbers = sum(column.kind in ("number", "target") for column in design.columns) + design.copies - 1
    assert largest <= declared
    assert largest >= declared - numbers * (numbers + 1) / 2


@TWICE
@pytest.mark.parametrize("name", SMALL)
def test_an_added_row_moves_as_far_as_declared_and_no_further(name, many, monkeypatch):
    monkeypatch.setattr(module, "RESOLUTION", 3)
    monkeypatch.setattr(module, "MANY_COLUMNS", many)
    design = made(*SMALL[name])
    each = contributions(design, every(design, 3), ADD)
    assert np.abs(each).sum(axis=1).max() == design.sensitivity(ADD)


@TWICE
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_the_squared_movement_is_that_of_some_pair_and_of_none_more(name, unit, many, monkeypatch):
    """All pairs again: in squared L2 the rows that move furthest lie at the bounds, which every grid has. With the
    target twice the declaration is a bound, which so few columns miss by a fifth at most."""
    monkeypatch.setattr(module, "RESOLUTION", 3)
    monkeypatch.setattr(module, "MANY_COLUMNS", many)
    design = made(*SMALL[name])
    each = contributions(design, every(design, 3), unit)
    if unit.n_is_public:
        largest = max(int(((each - one) ** 2).sum(axis=1).max()) for one in each)
        assert largest <= design.squared_sensitivity(unit)
        assert largest >= design.squared_sensitivity(unit) * (1 if design.copies == 1 else 0.8)
    else:
        assert (each**2).sum(axis=1).max() == design.squared_sensitivity(unit)


def test_closed_forms_in_squared_l2():
    """d^2 for d columns, one less where d is odd, with a target that counts twice standing there four times; times the
    square of the rows of a person, who may all be alike."""
    for numbers in (2, 3, 8, 9):
        d = numbers + 1 + 3 * (numbers >= 5)
        design = made(numbers - 1)
        assert design.squared_sensitivity(REPLACE) == (d**2 - d % 2) * RESOLUTION**4
        assert design.squared_sensitivity(dg.PrivacyUnit("replace", 3)) == 9 * (d**2 - d % 2) * RESOLUTION**4
        if numbers < 5:
            assert design.squared_sensitivity(ADD) == design.sensitivity(ADD) * RESOLUTION**2
    alone = LinearDesign({"g": ["a", "b", "c"]}, "y", (0, 1), intercept=False)
    assert alone.squared_sensitivity(REPLACE) <= 5 * RESOLUTION**4


def test_the_squared_movement_of_many_columns_is_attained():
    """Seven features: four of the nine columns are flipped, two features among them and the target not, or so."""
    design = made(7)
    one, best = np.ones(9), 0
    for flipped in range(8):
        other = np.where(np.arange(9) < 9 - flipped, 1, -1)
        each = contributions(design, np.array([one, other], dtype=np.int64), REPLACE)
        best = max(best, int(((each[0] - each[1]) ** 2).sum()))
    assert best * RESOLUTION**4 == design.squared_sensitivity(REPLACE)


SHAPES = st.tuples(st.integers(0, 6), st.integers(0, 3), st.lists(st.integers(3, 5), max_size=3), st.booleans()).filter(
    lambda shape: shape[0] + shape[1] + len(shape[2]) > 0
)


@given(SHAPES, st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_no_two_rows_of_the_real_grid_move_further(shape, seed):
    """Three thousand pairs of each of sixty designs, half of the numbers at a bound."""
    design = made(*shape[:3], intercept=shape[3])
    rng = np.random.default_rng(seed)
    first, second = np.array(design.pairs).T
    drawn = (values(design, rng, 3000, RESOLUTION) for _ in range(2))
    one, other = (z[:, first] * z[:, second] * np.array(design.weights) for z in drawn)
    assert np.abs(one - other).sum(axis=1).max() <= design.sensitivity(REPLACE)
    squares = (((one - other) / RESOLUTION**2) ** 2).sum(axis=1)
    assert squares.max() <= design.squared_sensitivity(REPLACE) / RESOLUTION**4 + 1e-6
    assert (np.abs(one).sum(axis=1) + design.weight).max() <= design.sensitivity(ADD)


def climbed(design, rng, grid=24):
    """The largest distance of two rows, found one variable at a time from a random start: a local maximum."""
    names = [*design.features, design.target]
    where = {name: [i for i, c in enumerate(design.columns) if c.variable == name] for name in names}
    line = np.linspace(-1, 1, 2 * grid + 1)
    options = {}
    for name in names:
        kind = design.columns[where[name][0]].kind
        if kind in ("number", "target"):
            options[name] = line[:, None]
        elif kind == "sign":
            options[name] = np.array([[-1.0], [1.0]])
        else:
            options[name] = np.eye(len(where[name]) + 1)[:, 1:]
    first, second = np.array(design.pairs).T
    rows = values(design, rng, 2, 1).astype(float)
    best = -1.0
    while True:
        before = best
        for name in names:
            choices = options[name]
            a, b = (part.ravel() for part in np.meshgrid(range(len(choices)), range(len(choices)), indexing="ij"))
            tried = np.repeat(rows[None], len(a), axis=0)
            tried[:, 0, where[name]], tried[:, 1, where[name]] = choices[a], choices[b]
            products = tried[:, :, first] * tried[:, :, second]
            distance = np.abs(products[:, 0] - products[:, 1]) @ np.array(design.weights)
            best, rows = float(distance.max()), tried[distance.argmax()]
        if best <= before:
            return best


CLIMBED = [
    (1, 0, ()),
    (4, 0, ()),
    (7, 0, ()),
    (2, 2, ()),
    (3, 1, (3,)),
    (2, 0, (3, 3)),
    (2, 2, (4,)),
    (1, 0, (3, 3, 3)),
]


@pytest.mark.parametrize("intercept", [True, False, 20, 256])
@pytest.mark.parametrize("shape", CLIMBED, ids=str)
def test_a_search_that_knows_nothing_of_the_proof_finds_the_declared_movement(shape, intercept):
    """Rows of 49 values in each number: the largest of twelve climbs is within half a percent of the declaration. With
    20 or 256 the target's sum is weighted."""
    design, rng = made(*shape, intercept=bool(intercept)), np.random.default_rng(1)
    design = design if isinstance(intercept, bool) else design.with_mean_weight(intercept)
    declared = design.sensitivity(REPLACE) / RESOLUTION**2
    found = max(climbed(design, rng) for _ in range(12))
    assert declared * 0.995 <= found <= declared + 1e-6


@pytest.mark.parametrize("numbers", [2, 4, 8, 21])
def test_closed_forms_where_all_columns_are_numbers(numbers):
    """``numbers`` counts the target, twice from six columns on. With an intercept there are d columns:
    (d - 1)(d + 1)^2 / (2 d), at rows (1, ..., 1) and (1, -1/d, ..., -1/d); without one d (d + 1) / 2, at rows of ones
    and zeros."""
    d = numbers + 1 + (numbers >= 5)
    declared = made(numbers - 1).sensitivity(REPLACE)
    assert declared == math.floor(Fraction((d - 1) * (d + 1) ** 2, 2 * d) * RESOLUTION**2)
    d = numbers + (numbers >= 6)
    alone = made(numbers - 1, intercept=False).sensitivity(REPLACE)
    assert alone == d * (d + 1) // 2 * RESOLUTION**2
    assert largest_replacement(1, 8, 0, 0) == Fraction(8 * 100, 18)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("numbers", [2, 9, 21])
def test_rows_at_the_witness_move_the_release_that_far_through_the_encoding(numbers, rows):
    """r equal rows of one person: r times as far, up to the rounding of -1/d to the grid."""
    design = made(numbers - 1)
    d = numbers + design.copies
    one, other = (
        dg.statistics.regression_moments((np.full((rows, numbers - 1), value), np.full(rows, value)), design)
        for value in (1.0, -1 / d)
    )
    moved = design.released(one.sensitive_sums, rows, REPLACE) - design.released(other.sensitive_sums, rows, REPLACE)
    declared = design.sensitivity(dg.PrivacyUnit("replace", rows))
    assert declared * (1 - 1e-8) <= np.abs(moved).sum() <= declared
    added = design.released(one.sensitive_sums, rows, ADD)
    assert np.abs(added).sum() == design.sensitivity(dg.PrivacyUnit("add-remove", rows))


NUMBER = st.one_of(st.floats(-3, 3), st.sampled_from([-1.0, 1.0, 0.0, -1 / 3, math.inf, -math.inf]))
ROW = st.tuples(NUMBER, NUMBER, st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]), NUMBER)


@given(st.lists(ROW, min_size=1, max_size=4), ROW, st.sampled_from(UNITS), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_no_neighbour_moves_what_is_released_further(rows, other, unit, intercept):
    """Through ``regression_moments``: rows inside, outside and at the bounds."""
    design = made(2, 1, (3,), intercept=intercept)

    def released(table):
        table = np.array(table)
        moments = dg.statistics.regression_moments((table[:, :-1], table[:, -1]), design)
        return design.released(moments.sensitive_sums, moments.sensitive_rows, unit)

    neighbour = [other, *rows[1:]] if unit.n_is_public else [other, *rows]
    assert np.abs(released(rows) - released(neighbour)).sum() <= design.sensitivity(unit)


def test_known_entries_are_not_released_and_are_put_back():
    """The square of the intercept and of a sign is n, that of an indicator its sum, that of two indicators 0."""
    design = made(1, 1, (3,))
    names = {tuple(design.columns[i].kind for i in pair) for pair in design.pairs if pair[0] == pair[1]}
    assert names == {("number", "number"), ("target", "target")}
    assert "g0=1*g0=2" not in design.names
    z = values(design, np.random.default_rng(0), 50, 1).astype(float)
    whole = z.T @ z
    first, second = np.array(design.pairs).T
    assert (design.matrix(whole[first, second], 50) == whole).all()
    bare = made(1, 1, (3,), intercept=False)
    z = z[:, 1:]
    first, second = np.array(bare.pairs).T
    assert (bare.matrix((z.T @ z)[first, second], 50) == z.T @ z).all()
    assert (
        design.matrix(np.append((whole)[np.array(design.pairs)[:, 0], np.array(design.pairs)[:, 1]], 7.0), 50)[0, 0]
        == 50
    )


def test_what_is_released_beside_the_products():
    design = made(1)
    assert design.released_names(REPLACE) == design.names
    assert design.released_names(ADD) == (*design.names, "n")
    assert design.released(np.arange(5), 3, ADD).tolist() == [0, 1, 2, 3, 4, 3 * RESOLUTION**2]
    assert design.released(np.arange(5), 3, REPLACE).dtype == np.int64


def test_rows_may_be_dropped_only_where_their_number_is_private():
    dropping = made(1, on_missing="drop")
    assert dropping.sensitivity(ADD) == made(1).sensitivity(ADD)
    with pytest.raises(dg.errors.ReleaseError, match='on_missing="drop"'):
        dropping.sensitivity(REPLACE)


@pytest.mark.parametrize("low", [-3.0, 0.0, 18])
def test_bounds_are_mapped_to_the_ends_of_the_grid(low):
    bounds = Bounded(low, low + 10)
    x = np.array([-math.inf, low - 1, low, low + 5, low + 7.5, low + 10, low + 1e6, math.inf])
    assert bounds.on_grid(x).tolist() == [-RESOLUTION] * 3 + [0, RESOLUTION / 2] + [RESOLUTION] * 3
    assert np.abs(bounds.on_grid(x) / RESOLUTION - bounds.scaled(x)).max() <= 0.5 / RESOLUTION
    assert np.isnan(bounds.on_grid(np.array([math.nan]))[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounded(1, 1), "increase"),
        (lambda: Bounded(2, 1), "increase"),
        (lambda: Bounded(-1e308, 1e308), "increase"),
        (lambda: Bounded(0, 1e-300), "increase"),
        (lambda: Bounded(0, math.inf), "high must be a finite number"),
        (lambda: Bounded(math.nan, 1), "low must be a finite number"),
        (lambda: Bounded(True, 2), "low must be a finite number"),
        (lambda: Bounded(0, 1, missing=math.nan), "missing must be a finite number"),
        (lambda: Bounded(0, "1"), "high must be a finite number"),
        (lambda: LinearDesign({}, "y", (0, 1)), "at least one feature"),
        (lambda: LinearDesign(["a"], "y", (0, 1)), "at least one feature"),
        (lambda: LinearDesign({"a": (0, 1)}, "y"), "'y' needs public bounds"),
        (lambda: LinearDesign({"a": None}, "y", (0, 1)), "'a' needs public bounds"),
        (lambda: LinearDesign({"a": (3, 1)}, "y", (0, 1)), "'a': bounds must increase"),
        (lambda: LinearDesign({"a": (1, 2, 3)}, "y", (0, 1)), "'a' must be a pair"),
        (lambda: LinearDesign({"a": 7}, "y", (0, 1)), "'a' must be a pair"),
        (lambda: LinearDesign({"y": (0, 1)}, "y", (0, 1)), "target 'y' is a feature"),
        (lambda: LinearDesign({"a": (0, 1)}, 3, (0, 1)), "target's name must be text"),
        (lambda: LinearDesign({3: (0, 1)}, "y", (0, 1)), "name must be text"),
        (lambda: LinearDesign({"": (0, 1)}, "y", (0, 1)), "name must be text"),
        (lambda: LinearDesign({"a": []}, "y", (0, 1)), "level list is empty"),
        (lambda: LinearDesign({"a": [1, "x"]}, "y", (0, 1)), "'a': levels must be all"),
        (lambda: LinearDesign({"a": (0, 1)}, "y", (0, 1), on_missing="impute"), "on_missing must be"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_a_design_is_a_value():
    one, other = made(2, 1, (3,)), made(2, 1, (3,))
    assert one == other
    assert hash(one) == hash(other)
    assert one != made(2, 1, (3,), intercept=False)
    import pickle

    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("features", "target", "drop", "wanted"),
    [
        (
            {"x": (0, 1)},
            dg.Bounded(0, 1, 0),
            False,
            "'x' could refuse a row, and the design is strict: declare missing",
        ),
        ({"x": dg.Bounded(0, 1, 0)}, (0, 1), False, "'y' could refuse a row"),
        ({"x": ["a", "b"]}, (0, 1), True, "'x' could refuse a row, and the design is strict: declare other=... one of"),
        ({"x": dg.Categories(["a"], other="a")}, (0, 1), True, "'x' could refuse a row"),
        ({"x": dg.Bins([0, 1, 2])}, dg.Bounded(0, 1, 0), False, "declare missing=True"),
    ],
)
def test_a_strict_design_declares_what_becomes_of_every_row(features, target, drop, wanted):
    settings = {"on_missing": "drop" if drop else "error"}
    assert not dg.LinearDesign(features, "y", target, **settings).strict
    with pytest.raises(dg.errors.NetworkError, match=wanted):
        dg.LinearDesign(features, "y", target, strict=True, **settings)


def test_a_strict_design_stays_strict():
    made = dg.LinearDesign({"x": (0, 1)}, "y", (0, 1), on_missing="drop", strict=True)
    assert made.strict
    assert made.with_mean_weight(8).strict
    assert made != dg.LinearDesign({"x": (0, 1)}, "y", (0, 1), on_missing="drop")
    with pytest.raises(dg.errors.NetworkError, match="strict must be true or false"):
        dg.LinearDesign({"x": (0, 1)}, "y", (0, 1), strict="yes")
