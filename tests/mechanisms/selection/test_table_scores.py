"""Scores that choose a table: what one row moves them by, by enumeration of small tables (proofs.md P114)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.parents_choice import PARTS, OneWays, half_fixed_range, half_fixed_score
from tests.selection import multisets

#: Shape and the most rows: 3 876, 1 287 and 792 tables at the most rows.
SHAPES = [((2, 2), 14), ((3, 3), 5), ((2, 4), 5)]
UNITS = [dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace")]


def tables(shape, most):
    """All tables of up to so many rows, by their number of rows."""
    return [[np.array(cells).reshape(shape) for cells in multisets(math.prod(shape), n)] for n in range(most + 1)]


def moves(shape, most, score, unit):
    """What one row moves a score by, at its largest and its least, over all neighbours of tables of n - 1 rows."""
    found = set()
    cells = list(np.ndindex(shape))
    for here in itertools.chain.from_iterable(tables(shape, most - 1)):
        after = []
        for cell in cells:
            grown = here.copy()
            grown[cell] += 1
            after.append(score(grown))
        if unit.n_is_public:
            found |= {max(after) - min(after)}
        else:
            before = score(here)
            found |= {abs(one - before) for one in after}
    return max(found)


def margins_of(shape, kind):
    """Public margins of the rows of a table, and the counts of independent variables."""
    weights = {"even": np.ones, "steep": lambda k: 2.0 ** -np.arange(k), "one level": lambda k: np.eye(k)[0]}[kind]
    return OneWays.of({"a": weights(shape[0]), "b": weights(shape[1])}, 18)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize("kind", ["even", "steep", "one level"])
@pytest.mark.parametrize(("shape", "most"), SHAPES)
def test_a_half_fixed_score_moves_by_one_or_by_two(shape, most, kind, unit):
    """By one less the share of the rarest level, exactly, and by twice that where a row is replaced."""
    margins = margins_of(shape, kind)
    least = Fraction(min(margins.weights["a"]), PARTS)
    worst = moves(shape, most, lambda table: half_fixed_score(table, margins.share("a")), unit)
    bound = (1 - least) * (2 if unit.n_is_public else 1)
    assert Fraction(worst, 2 * PARTS) <= bound <= (2 if unit.n_is_public else 1)
    if kind == "even" or not unit.n_is_public:  # a level of no share can be above its share, not below
        assert Fraction(worst, 2 * PARTS) == bound
    alone = OneWays.of({"a": margins.share("a").astype(float)}, 5)
    assert half_fixed_range(alone, unit) == 2 * bound * 2 * PARTS


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize("order", [*itertools.permutations(("even", "steep", "rare"))], ids="-".join)
def test_a_half_fixed_range_is_that_of_the_rarest_level_of_any_variable(order, unit):
    """Rejects the largest of the variables' least shares, and the first's or the last's."""
    shares = {"even": [1.0, 1.0], "steep": [3.0, 1.0], "rare": [6.0, 1.0, 1.0]}
    margins = OneWays.of({name: shares[name] for name in order}, 5)
    assert half_fixed_range(margins, unit) == (2 if unit.n_is_public else 1) * 4 * (PARTS - PARTS // 8)
    before, after = np.array([[0], [0], [0]]), np.array([[0], [1], [0]])  # a row of the rarest level
    moved = half_fixed_score(after, margins.share("rare")) - half_fixed_score(before, margins.share("rare"))
    assert 2 * moved * (2 if unit.n_is_public else 1) == half_fixed_range(margins, unit)


def test_one_row_moves_two_candidates_apart_by_the_whole_range():
    """Candidates may move in opposite directions, and "stop" not at all: the range is twice what a score moves by."""
    margins = OneWays.of({"a": [1.0, 1.0]}, 9)
    row = np.array([[1], [0]])
    gains = [
        half_fixed_score(before + row, margins.share("a")) - half_fixed_score(before, margins.share("a"))
        for before in (row, 1 - row)
    ]
    assert max(gains) - min(gains) == half_fixed_range(margins, dg.PrivacyUnit("add-remove"))


def test_ranges_grow_with_the_rows_of_a_person():
    margins = margins_of((2, 4), "steep")
    for rows, neighbours in itertools.product((1, 3), ("add-remove", "replace")):
        one, unit = dg.PrivacyUnit(neighbours), dg.PrivacyUnit(neighbours, rows)
        assert half_fixed_range(margins, unit) == rows * half_fixed_range(margins, one)


def information(table):
    """n times the mutual information, in bits."""
    n = table.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = table * np.log2(n * table / np.outer(table.sum(1), table.sum(0)))
    return float(np.nansum(terms))


def normalised(table):
    """Half the L1 distance from the product of the exact margins: the R of PrivBayes times n."""
    n = int(table.sum())
    if n == 0:
        return Fraction(0)
    product = np.outer(table.sum(1), table.sum(0))
    return Fraction(int(np.abs(n * table - product).sum()), 2 * n)


@pytest.mark.parametrize(("shape", "replaced"), [((2, 2), lambda n: 2 - Fraction(2, n)), ((3, 3), None)])
def test_a_score_with_exact_margins_moves_twice_as_far(shape, replaced):
    """Why the margins are public: with exact ones a row moves the score by up to 2 where the public ones leave 1."""
    for n in (4, 5):
        worst = moves_at(shape, n, normalised)
        assert worst > 1
        if replaced is not None:
            assert worst == replaced(n)
        else:
            assert worst <= Fraction(5, 2) - Fraction(3, n)


def moves_at(shape, n, score):
    """The largest move of a score by a replaced row, at n rows."""
    worst = 0
    for here in tables(shape, n - 1)[n - 1]:
        after = []
        for cell in np.ndindex(shape):
            grown = here.copy()
            grown[cell] += 1
            after.append(score(grown))
        worst = max(worst, max(after) - min(after))
    return worst


def test_mutual_information_moves_further_the_more_rows_there_are():
    """Under replace by 2 log2 n or so: a bound that does not grow with n, such as that of the scores here, is wrong."""
    worst = [moves_at((2, 2), n, information) for n in (4, 8, 14)]
    assert worst[0] > 2
    assert worst == sorted(worst)
    assert worst[-1] > worst[0] + 1


def test_a_score_is_half_the_distance_in_rows():
    """Against the definition in fractions, on random tables and margins."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        shape = tuple(rng.integers(2, 5, rng.integers(2, 4)))
        table = rng.integers(0, 50, shape)
        margins = OneWays.of({"x": rng.random(shape[0])}, int(table.sum()))
        shares = [Fraction(share, PARTS) for share in margins.weights["x"]]
        flat = table.reshape(shape[0], -1)
        distance = sum(
            abs(int(flat[x, p]) - shares[x] * int(flat[:, p].sum()))
            for x, p in itertools.product(range(shape[0]), range(flat.shape[1]))
        )
        assert half_fixed_score(table, margins.share("x")) == distance * PARTS


def test_public_margins_are_whole_numbers_that_sum_to_their_parts():
    margins = OneWays.of({"a": [-3.0, 10.0, 20.0], "b": [0.0, -1.0]}, -2.0)
    assert margins.rows == 0
    assert margins.weights["a"][0] == 0
    assert margins.weights["b"] == (PARTS // 2, PARTS // 2)
    assert all(sum(shares) == PARTS for shares in margins.weights.values())


@pytest.mark.parametrize("margin", [[math.nan, 1.0], [math.inf, 1.0], []])
def test_margins_that_are_none_are_refused(margin):
    with pytest.raises(dg.errors.NetworkError):
        OneWays.of({"a": margin}, 3)
