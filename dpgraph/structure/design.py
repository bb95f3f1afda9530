"""The design of a linear regression: bounded columns made of each row, and the products of columns that are summed.

Every column lies on a public grid of integers, so products and their sums are exact, and their sensitivity has a closed
form. Public: bounds and levels are declared, never read off rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, check_boolean, check_choice, is_whole
from dpgraph.privacy.display import MOST_ROWS, as_html, counted, escaped, short
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import MOST_SHOWN, Bins, Categories, NetworkError, undeclared_actions
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import OneBlock

OnMissing = Literal["error", "drop"]
Kind = Literal["intercept", "number", "sign", "level", "target"]
#: The most a sum is multiplied by before noise.
MOST_WEIGHT = 256
#: From so many columns on the target counts twice: see ``LinearDesign.copies``.
MANY_COLUMNS = 6
#: A design has at most so many columns: products are as many as their square.
MOST_COLUMNS = 1000
#: Steps from the middle of a column to its bound: products are multiples of its inverse squared.
RESOLUTION = 1 << 15
#: What a sum times its weight stays below, with room for noise.
MOST_SUM = 1 << 62


@dataclass(frozen=True)
class Bounded:
    """A number with public bounds; values outside count as the nearer bound.

    Args:
        low: The lower bound.
        high: The upper bound.
        missing: The number that nulls and NaN count as; without it they are refused, or the row is dropped where the
            design says so.

    Raises:
        NetworkError: If the bounds are not finite numbers that increase, or ``missing`` is not a finite number.

    >>> Bounded(0, 10).scaled(np.array([0.0, 5.0, 20.0])).tolist()
    [-1.0, 0.0, 1.0]
    """

    low: float
    high: float
    missing: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "missing"):
            value = getattr(self, name)
            if name == "missing" and value is None:
                continue
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not abs(value) <= 1.7e308:
                raise NetworkError(f"{name} must be a finite number; got {value!r:.60}")
            object.__setattr__(self, name, float(value))
        if not (self.low < self.high and 1e-290 < self.high - self.low < math.inf):
            raise NetworkError(f"bounds must increase; got {self.low:g} to {self.high:g}")

    @property
    def middle(self) -> float:
        """The value that is scaled to 0."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """Half the distance of the bounds, which is scaled to 1."""
        return self.high / 2 - self.low / 2

    @np.errstate(all="ignore")
    def scaled(self, values: Reals) -> Reals:
        """Values mapped so that the bounds are -1 and 1, and clipped there."""
        return np.clip((values - self.middle) / self.half, -1.0, 1.0)

    @np.errstate(all="ignore")
    def on_grid(self, values: Reals, out: Reals | None = None) -> Reals:
        """The same in whole steps of the grid, from ``-RESOLUTION`` to ``RESOLUTION``; written to ``out`` if given."""
        steps = np.subtract(values, self.middle, out=out)
        steps *= RESOLUTION / self.half
        np.clip(steps, -RESOLUTION, RESOLUTION, out=steps)
        return np.rint(steps, out=steps)


Feature = Bounded | Categories | Bins


@dataclass(frozen=True)
class Column:
    """One column of a design: its variable and, for variables of three or more levels, the level it indicates."""

    kind: Kind
    variable: str
    level: int | None = None
    name: str = ""


@dataclass(frozen=True)
class LinearDesign(OneBlock):
    """Features, target and their public bounds, for a private linear regression.

    Columns, each between -1 and 1: the intercept, 1; a number, its bounds scaled to -1 and 1; two levels, -1 and 1;
    K > 2 levels, K - 1 indicators, 0 or 1, of all but the first; the target last. Released are the sums of products
    of two columns, those with the target in finer steps (``copies``), save those that are known: a product of two
    indicators of one variable is 0, the square of an indicator is itself, and the squares of the intercept and of a
    two-level column sum to n.

    Args:
        features: For each feature ``Bounded``, a pair (low, high), ``Categories``, a list of levels, or ``Bins``.
        target: The name of the predicted column.
        bounds: The target's bounds, ``Bounded`` or a pair.
        intercept: True for an intercept.
        mean_weight: The weight of the target's sum: its noise is that of a product of features divided by this, and
            the noise of the others grows a little. None leaves the choice to the mechanism: ``copies``, or more where
            few rows or a small epsilon would leave the target's mean unknown
            (``mechanisms.additive.plans``).
        on_missing: The rule for a null without a declared meaning: ``"error"`` refuses the table, ``"drop"`` leaves the
            row out, which needs an add-remove unit: the number of rows left is private.
        strict: Accepts only declarations under which no row can refuse a table, as ``Domain.of`` does: ``missing`` for
            every number and level, or ``on_missing="drop"``, and ``other`` for levels. A value that is not a
            number counts as missing.

    Raises:
        NetworkError: If there is no feature, bounds are missing or wrong, the target is a feature, there are more
            than a thousand columns, or the design is strict and a row could be refused.

    >>> design = LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "income", (0, 100_000))
    >>> design
    LinearDesign(income on age, sex; 4 columns)
    >>> [column.name for column in design.columns]
    ['intercept', 'age', 'sex=M', 'income']
    >>> design.names[:5]
    ('intercept*age', 'intercept*sex=M', 'intercept*income', 'age*age', 'age*sex=M')
    """

    features: FrozenMap[str, Feature]
    target: str
    bounds: Bounded
    intercept: bool = True
    on_missing: OnMissing = "error"
    mean_weight: int | None = None
    strict: bool = False

    def __init__(
        self,
        features: Mapping[str, Any],
        target: str,
        bounds: Bounded | tuple[float, float] | None = None,
        intercept: bool = True,
        on_missing: OnMissing = "error",
        mean_weight: int | None = None,
        strict: bool = False,
    ) -> None:
        if not isinstance(features, Mapping) or not features:
            raise NetworkError("a regression needs at least one feature: a mapping from names to bounds or levels")
        declared = FrozenMap((name, feature_of(name, value)) for name, value in features.items())
        if not isinstance(target, str) or not target:
            raise NetworkError(f"the target's name must be text; got {target!r}")
        if target in declared:
            raise NetworkError(f"the target {target!r} is a feature as well")
        if unseen := [name for name, one in declared.items() if getattr(one, "unobserved", False)]:
            raise NetworkError(
                f"a regression's sums do not fill unobserved values of {unseen[0]!r}: declare missing a level, or "
                "release tables of a network, and ask dg.regression of the posterior of its people"
            )
        check_choice("on_missing", on_missing, OnMissing, error=NetworkError)
        check_boolean("strict", strict, error=NetworkError)
        settings = (declared, target, bounds_of(target, bounds), bool(intercept), on_missing, mean_weight, strict)
        for field, value in zip(fields(self), settings, strict=True):
            object.__setattr__(self, field.name, value)
        for name in (*self.features, self.target) if strict else ():
            if wanted := _undeclared(self.declared(name), on_missing == "drop"):
                raise NetworkError(
                    f"{name!r} could refuse a row, and the design is strict: declare {' and '.join(wanted)}"
                )
        if len(self.columns) > MOST_COLUMNS:
            raise NetworkError(f"the design has {len(self.columns)} columns; at most {MOST_COLUMNS} are summed")
        if mean_weight is not None and not (self.intercept and is_whole(mean_weight, self.copies, MOST_WEIGHT)):
            raise NetworkError(
                f"mean_weight must be a whole number from {self.copies} to {MOST_WEIGHT}, with an intercept; "
                f"got {mean_weight!r}"
            )

    def __repr__(self) -> str:
        kept = "" if self.intercept else ", no intercept"
        strict = ", strict" if self.strict else ""
        columns = counted(len(self.columns), "column")
        more = [f"... {len(self.features)} features"] if len(self.features) > MOST_SHOWN else []
        features = ", ".join([*map(escaped, islice(self.features, MOST_SHOWN)), *more])
        return f"LinearDesign({escaped(self.target)} on {features}; {columns}{kept}{strict})"

    def _repr_html_(self) -> str:
        names = (self.target, *self.features)
        rows = [{"variable": name, "declared": in_words(self.declared(name))} for name in names[: MOST_ROWS + 1]]
        title = f"Linear regression of {self.target} on {counted(len(self.features), 'feature')}"
        products = f"{counted(len(self.columns), 'column')}; {counted(len(self.pairs), 'product')} of two are summed"
        return as_html(title, rows, [products], total=len(names))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns, the target last."""
        made = [Column("intercept", "", name="intercept")] if self.intercept else []
        for name, feature in self.features.items():
            if isinstance(feature, Bounded):
                made.append(Column("number", name, name=name))
            elif feature.size == 2:
                made.append(Column("sign", name, 1, f"{name}={feature.levels[1]}"))
            else:
                levels = enumerate(feature.levels)
                made += [Column("level", name, k, f"{name}={level}") for k, level in levels if k > 0]
        return (*made, Column("target", self.target, name=self.target))

    def declared(self, name: str) -> Feature:
        """The declaration of a feature, or of the target."""
        return self.bounds if name == self.target else self.features[name]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The columns of each released product, i <= j, whose sum is neither known nor equal to another one."""

        def is_released(i: int, j: int) -> bool:
            one, two = self.columns[i], self.columns[j]
            if i != j:
                return not (one.kind == two.kind == "level" and one.variable == two.variable)
            return one.kind in ("number", "target") or (one.kind == "level" and not self.intercept)

        size = len(self.columns)
        return tuple((i, j) for i in range(size) for j in range(i, size) if is_released(i, j))

    @property
    def names(self) -> tuple[str, ...]:
        """The released products, as "a*b"."""
        return tuple(f"{self.columns[i].name}*{self.columns[j].name}" for i, j in self.pairs)

    def with_mean_weight(self, mean_weight: int | None) -> LinearDesign:
        """The same columns with another weight of the target's sum."""
        return replace(self, mean_weight=mean_weight)

    @property
    def copies(self) -> int:
        """How many times the target's column counts: 2 from ``MANY_COLUMNS`` columns on, else 1.

        Products with the target are then released doubled and its square threefold, as the two columns' sums would let
        one average: their noise is a half and a third of the others'. One row moves all of it little further, and least
        squares depends on X'y most: with 7 to 16 features .35 to .83 of the excess test error is left (ridge, simulated
        features, epsilon .1 to 3). With two features it does not help, and is not done.
        """
        return 2 if len(self.columns) >= MANY_COLUMNS else 1

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The factor of each product before noise, in ``names`` order."""
        last, c = len(self.columns) - 1, self.copies
        weights = [c * (c + 1) // 2 if i == last else c if j == last else 1 for i, j in self.pairs]
        if self.intercept:
            weights[self.pairs.index((0, last))] += self._extra_mean_weight
        return tuple(weights)

    @property
    def _extra_mean_weight(self) -> int:
        return 0 if self.mean_weight is None else self.mean_weight - self.copies

    @property
    def steps(self) -> tuple[float, ...]:
        """The value of one unit of each released integer, in products of columns at their bounds."""
        return tuple(1.0 / (RESOLUTION**2 * weight) for weight in self.weights)

    @property
    def weight(self) -> int:
        """The amount that a row adds to the released number of rows where n is private."""
        return RESOLUTION**2

    def companion(self, unit: PrivacyUnit) -> str | None:
        """The statistic released beside the products: n where it is private."""
        return None if unit.n_is_public else "n"

    def released(self, sums: Integers, n: int, unit: PrivacyUnit) -> Integers:
        """The integers that noise is added to."""
        weighted = sums * np.array(self.weights, np.int64)
        return weighted if unit.n_is_public else np.append(weighted, self.weight * n)

    def released_names(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """The names of the released statistics."""
        return self.names if unit.n_is_public else (*self.names, "n")

    def sensitivity(self, unit: PrivacyUnit) -> int:
        """The largest L1 distance, in steps, that one person's rows move the released statistics.

        Rows that may be dropped are refused where the number of rows is public.
        """
        if self.on_missing == "drop" and unit.n_is_public:
            raise ReleaseError(
                'on_missing="drop" makes the number of rows depend on their values; use an add-remove unit, or '
                "declare missing=... for each feature"
            )
        row_l1 = Fraction(sum(self._added_row_weights))
        if unit.n_is_public:
            intercept, numbers, signs, groups = self._column_counts
            row_l1 = largest_replacement(intercept, numbers - 1, signs, groups, self.copies, self._extra_mean_weight)
        return unit.rows_per_person * math.floor(row_l1 * RESOLUTION**2)

    def squared_sensitivity(self, unit: PrivacyUnit) -> int:
        """The largest squared L2 distance, in squared steps, that one person's rows move the released statistics."""
        self.sensitivity(unit)
        # A product times c has c^2 times the square, as if there were c^2 target columns; its own square has less.
        intercept, numbers, signs, groups = self._column_counts
        added = sum(weight**2 for weight in self._added_row_weights)
        squared = (intercept, numbers - 1 + self.copies**2, signs, groups)
        # The target's sum moves by at most 2; where it is weighted more, its square is added as that of a new number.
        target_l2_squared = 4 * ((self.copies + self._extra_mean_weight) ** 2 - self.copies**2)
        replaced = largest_squared_replacement(*squared) + target_l2_squared
        row_l2_squared = replaced if unit.n_is_public else added
        return unit.rows_per_person**2 * row_l2_squared * RESOLUTION**4

    def movement(self, unit: PrivacyUnit) -> Movement:
        """How far one person's rows move the released statistics, in steps; they have no fixed total."""
        l1 = self.sensitivity(unit)
        return Movement(l1, min(self.squared_sensitivity(unit), l1**2))

    def row_limits(self, unit: PrivacyUnit) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The least and most that a row adds to each released integer where n is public, Python integers."""
        most = np.array([RESOLUTION**2 * weight for weight in self.weights], object)
        return -most, most

    @property
    def _column_counts(self) -> tuple[int, int, int, int]:
        """How many columns are intercepts, numbers (with the target once) and signs, and variables of more levels."""
        kinds = [column.kind for column in self.columns]
        groups = len({column.variable for column in self.columns if column.kind == "level"})
        return kinds.count("intercept"), kinds.count("number") + 1, kinds.count("sign"), groups

    @property
    def _added_row_weights(self) -> list[int]:
        """The weights of all released numbers that one added row can move at once, n included."""
        intercept, numbers, signs, groups = self._column_counts
        features, c = intercept + numbers - 1 + signs + groups, self.copies
        squares = numbers - 1 + (0 if intercept else groups)
        mean = [c + self._extra_mean_weight] if intercept else []
        with_target = [c] * (features - intercept) + mean
        return [1] * (features * (features - 1) // 2 + squares + 1) + with_target + [c * (c + 1) // 2]

    def matrix(self, values: Reals, n: float) -> Reals:
        """The symmetric matrix of sums of products, shape (columns, columns), known entries filled in.

        ``values`` are the released products in their own units, in ``names`` order (anything after them is ignored);
        ``n`` is the number of rows, exact or estimated.
        """
        size = len(self.columns)
        made = np.zeros((size, size))
        for value, (i, j) in zip(values, self.pairs, strict=False):
            made[i, j] = made[j, i] = value
        for i, column in enumerate(self.columns):
            if column.kind in ("intercept", "sign"):
                made[i, i] = n
            elif column.kind == "level" and self.intercept:
                made[i, i] = made[0, i]
        return made


def _undeclared(declared: Feature, drop: bool) -> list[str]:
    """The settings a declaration lacks so that no row can be refused, where rows with nulls may be dropped."""
    if isinstance(declared, Bounded):
        return [] if drop or declared.missing is not None else ["missing=... a number"]
    lacking = undeclared_actions(declared)
    dropped = drop and declared.size > 1  # a single level cannot be told from a null
    return [action for action in lacking if not (dropped and action.startswith("missing"))]


def feature_of(name: Any, value: Any) -> Feature:
    """One declared feature: a pair of bounds, a list of levels, or one of ``Bounded``, ``Categories`` and ``Bins``."""
    if not isinstance(name, str) or not name:
        raise NetworkError(f"a feature's name must be text; got {name!r}")
    if isinstance(value, list):
        try:
            return Categories(value)
        except NetworkError as error:
            raise NetworkError(f"{name!r}: {error}") from None
    if isinstance(value, Categories | Bins):
        return value
    return bounds_of(name, value)


def in_words(declared: Feature) -> str:
    """Bounds or levels, as people read them."""
    if not isinstance(declared, Bounded):
        return short(declared.levels)
    missing = "" if declared.missing is None else f", missing as {declared.missing:g}"
    return f"{declared.low:g} to {declared.high:g}{missing}"


def bounds_of(name: str, value: Any) -> Bounded:
    """Declared bounds; there is no default."""
    if isinstance(value, Bounded):
        return value
    if value is None:
        raise NetworkError(f"{name!r} needs public bounds (low, high), or levels; they are never read off the rows")
    try:
        low, high = value
    except (TypeError, ValueError):
        raise NetworkError(f"the bounds of {name!r} must be a pair (low, high); got {value!r}") from None
    try:
        return Bounded(low, high)
    except NetworkError as error:
        raise NetworkError(f"{name!r}: {error}") from None


@lru_cache(maxsize=256)
def largest_replacement(
    intercept: int, numbers: int, signs: int, groups: int, target: int = 0, extra: int = 0
) -> Fraction:
    """The diameter in L1 of a row's products under replace, exact, by how many columns there are of each kind (P9).

    Columns are the intercept, numbers between -1 and 1, signs -1 or 1, and groups, the variables of more levels.
    ``target`` more numbers are all the same column, the target, whose sum is multiplied by ``extra`` beyond that (P11).
    """
    best = Fraction(0)
    for flipped, upper in product(range(signs + 1), range(numbers + 1) if groups else (None,)):
        split = ((numbers, None),) if upper is None else ((numbers - upper, False), (upper, True))
        kinds = tuple(_Kind(many, where) for many, where in split if many)
        for own in (False, True) if groups else (None,):
            alone = (_Kind(target, own, extra),) if target else ()
            best = max(best, _largest_with(intercept + signs - flipped, flipped, kinds + alone, groups))
    return best + 2 * groups + 2 * groups * signs + groups * (groups - 1)


class _Kind(NamedTuple):
    """Numbers with the same P: how many, whether P is in the upper half (None: anywhere), and the extra gain of P."""

    many: int
    upper: bool | None
    extra: int = 0

    @property
    def edges(self) -> tuple[Fraction, Fraction]:
        """The least and the largest P."""
        half = Fraction(1, 2)
        return (half if self.upper else Fraction(0)), (half if self.upper is False else Fraction(1))

    @property
    def sign(self) -> int:
        """1 for a group that gains with P, -1 with 1 - P, 0 with neither alone."""
        return 0 if self.upper is None else 1 if self.upper else -1


def _largest_with(still: int, flipped: int, kinds: tuple[_Kind, ...], groups: int) -> Fraction:
    """The maximum over the P of each kind, concave: kinds are at an edge or have derivative 0 (proofs.md P9)."""
    size = still + flipped + sum(kind.many for kind in kinds)

    def value(at: tuple[Fraction, ...]) -> Fraction:
        s = flipped + sum((kind.many * p for kind, p in zip(kinds, at, strict=True)), Fraction(0))
        own = [
            2 * k.many * (p * (1 - p) + groups * max(p, 1 - p)) + 2 * k.extra * p
            for k, p in zip(kinds, at, strict=True)
        ]
        return 2 * s * (size - s) + sum(own, Fraction(0))

    best = Fraction(0)
    for chosen in product(*((*kind.edges, None) for kind in kinds)):
        at = _stationary(size - 2 * flipped, kinds, chosen, groups)
        if all(kind.edges[0] <= p <= kind.edges[1] for kind, p in zip(kinds, at, strict=True)):
            best = max(best, value(at))
    return best


def _stationary(
    room: int, kinds: tuple[_Kind, ...], chosen: tuple[Fraction | None, ...], groups: int
) -> tuple[Fraction, ...]:
    """The P at which the derivatives of the kinds without a chosen P vanish: 2 F + 2 P = r for each, F = sum m P."""
    fixed = sum((k.many * p for k, p in zip(kinds, chosen, strict=True) if p is not None), Fraction(0))
    right = [room - 2 * fixed + 1 + groups * k.sign + Fraction(k.extra, k.many) for k in kinds]
    free = [k for k, p in enumerate(chosen) if p is None]
    total = sum((kinds[k].many * right[k] / 2 for k in free), Fraction(0)) / (1 + sum(kinds[k].many for k in free))
    return tuple((right[k] - 2 * total) / 2 if p is None else p for k, p in enumerate(chosen))


@lru_cache(maxsize=256)
def largest_squared_replacement(intercept: int, numbers: int, signs: int, groups: int) -> int:
    """The squared diameter in L2 of a row's products under replace, or 1 more, by the same numbers of columns (P10)."""
    free, sizes = numbers + signs, []
    for changed in range(groups + 1):
        still = groups - changed
        around = 2 * changed * (1 + free + still) + changed * (changed - 1)
        sizes.append(_largest_square_with(intercept + still, free) + around)
    return max(sizes)


def _largest_square_with(fixed: int, free: int) -> int:
    """The maximum of sum_(i<j) (1 - u_i u_j)^2 + sum_numbers (1 - u_i^2)^2 over u, 1 where ``fixed`` (P10)."""
    size = fixed + free
    flipped = min(free, size // 2)
    return max(1, 4 * flipped * (size - flipped))
