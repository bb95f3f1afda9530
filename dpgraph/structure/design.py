"""The design of a linear regression: how a row becomes bounded columns, and which of their products are summed.

Every column lies on a public grid of integers, so products and their sums are exact, and how far one row moves them has
a closed form. Public: bounds and levels are declared, never read off rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.structure.domain import Bins, Categories, NetworkError
from dpgraph.structure.frozen import FrozenMap

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
OnMissing = Literal["error", "drop"]
Kind = Literal["intercept", "number", "sign", "level", "target"]

#: Steps from the middle of a column to its bound: products are multiples of its inverse squared.
RESOLUTION = 1 << 15


@dataclass(frozen=True)
class Bounded:
    """A number with public bounds; values outside count as the nearer bound.

    Args:
        low: The lower bound.
        high: The upper bound.
        missing: The number that nulls and NaN count as; without it they are refused, or the row is dropped where the
            design says so.

    Raises:
        NetworkError: If the bounds are not finite numbers that increase, or ``missing`` is no finite number.

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
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise NetworkError(f"{name} must be a finite number; got {value!r}")
            object.__setattr__(self, name, float(value))
        if not (self.low < self.high and 1e-290 < self.high - self.low < math.inf):
            raise NetworkError(f"bounds must increase; got {self.low:g} to {self.high:g}")

    @property
    def middle(self) -> float:
        """What is scaled to 0."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """What is scaled to 1, measured from the middle."""
        return self.high / 2 - self.low / 2

    def scaled(self, values: Reals) -> Reals:
        """Values mapped so that the bounds are -1 and 1, and clipped there."""
        return np.clip((values - self.middle) / self.half, -1.0, 1.0)

    def on_grid(self, values: Reals, out: Reals | None = None) -> Reals:
        """The same in whole steps of the grid, from ``-RESOLUTION`` to ``RESOLUTION``; written to ``out`` if given."""
        with np.errstate(over="ignore"):
            steps = np.subtract(values, self.middle, out=out)
            steps *= RESOLUTION / self.half
        np.clip(steps, -RESOLUTION, RESOLUTION, out=steps)
        return np.rint(steps, out=steps)


Feature = Bounded | Categories | Bins


@dataclass(frozen=True)
class Column:
    """One column of a design: the variable it comes from and, of three or more levels, which one it indicates."""

    kind: Kind
    variable: str
    level: int | None = None
    name: str = ""


@dataclass(frozen=True)
class LinearDesign:
    """Features, target and their public bounds: what a private linear regression is about.

    Columns, each between -1 and 1: the intercept, 1; a number, its bounds scaled to -1 and 1; two levels, -1 and 1;
    K > 2 levels, K - 1 indicators, 0 or 1, of all but the first; the target last. Released are the sums of products
    of two columns, save those that are known: a product of two indicators of one variable is 0, the square of an
    indicator is itself, and the squares of the intercept and of a two-level column sum to n.

    Args:
        features: For each feature ``Bounded``, a pair (low, high), ``Categories``, a list of levels, or ``Bins``.
        target: The name of what is predicted.
        bounds: The target's bounds, ``Bounded`` or a pair.
        intercept: Whether there is one.
        on_missing: What a row with a null that has no declared meaning does: ``"error"`` refuses the table, ``"drop"``
            leaves the row out, which needs an add-remove unit: the number of rows left is private.

    Raises:
        NetworkError: If there is no feature, bounds are missing or wrong, or the target is a feature.

    >>> design = LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "income", (0, 100_000))
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

    def __init__(
        self,
        features: Mapping[str, Any],
        target: str,
        bounds: Bounded | tuple[float, float] | None = None,
        intercept: bool = True,
        on_missing: OnMissing = "error",
    ) -> None:
        if not isinstance(features, Mapping) or not features:
            raise NetworkError("a regression needs at least one feature: a mapping from names to bounds or levels")
        declared = ((name, _feature(name, value)) for name, value in features.items())
        object.__setattr__(self, "features", FrozenMap(declared))
        if not isinstance(target, str) or not target:
            raise NetworkError(f"the target's name must be text; got {target!r}")
        object.__setattr__(self, "target", target)
        if target in self.features:
            raise NetworkError(f"the target {target!r} is a feature as well")
        object.__setattr__(self, "bounds", _bounded(target, bounds))
        object.__setattr__(self, "intercept", bool(intercept))
        if on_missing not in get_args(OnMissing):
            raise NetworkError(f'on_missing must be "error" or "drop"; got {on_missing!r}')
        object.__setattr__(self, "on_missing", on_missing)

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
        """What was declared of a feature, or of the target."""
        return self.bounds if name == self.target else self.features[name]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The columns of each released product, i <= j."""
        size = len(self.columns)
        return tuple((i, j) for i in range(size) for j in range(i, size) if self._unknown(i, j))

    def _unknown(self, i: int, j: int) -> bool:
        """Whether the sum of a product is neither known nor another one's."""
        one, two = self.columns[i], self.columns[j]
        if i != j:
            return not (one.kind == two.kind == "level" and one.variable == two.variable)
        return one.kind in ("number", "target") or (one.kind == "level" and not self.intercept)

    @property
    def names(self) -> tuple[str, ...]:
        """The released products, as "a*b"."""
        return tuple(f"{self.columns[i].name}*{self.columns[j].name}" for i, j in self.pairs)

    @property
    def steps(self) -> tuple[float, ...]:
        """What one unit of each integer sum stands for."""
        return (1.0 / RESOLUTION**2,) * len(self.pairs)

    @property
    def weight(self) -> int:
        """What each row adds to the released number of rows where n is private: as much as to a product."""
        return RESOLUTION**2

    @property
    def partitions(self) -> bool:
        """Whether the statistics sum to n: never."""
        return False

    def companion(self, unit: PrivacyUnit) -> str | None:
        """What is released beside the products: n where it is private."""
        return None if unit.n_is_public else "n"

    def released(self, sums: Integers, n: int, unit: PrivacyUnit) -> Integers:
        """The integers that noise is added to."""
        return sums.copy() if unit.n_is_public else np.append(sums, self.weight * n)

    def released_names(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """The names of what is released."""
        return self.names if unit.n_is_public else (*self.names, "n")

    def sensitivity(self, unit: PrivacyUnit) -> int:
        """The largest L1 distance, in steps, that one person's rows move what is released.

        Raises:
            ReleaseError: If rows may be dropped and the number of rows is public.
        """
        if self.on_missing == "drop" and unit.n_is_public:
            raise ReleaseError(
                'on_missing="drop" makes the number of rows depend on their values; use an add-remove unit, or '
                "declare missing=... for each feature"
            )
        return unit.rows_per_person * math.floor(self._movement(unit) * RESOLUTION**2)

    def _movement(self, unit: PrivacyUnit) -> Fraction:
        """The same for one row, in units of a product of columns at their bounds."""
        count = {kind: sum(c.kind == kind for c in self.columns) for kind in get_args(Kind)}
        numbers = count["number"] + 1
        groups = len({c.variable for c in self.columns if c.kind == "level"})
        if unit.n_is_public:
            return _largest_replacement(int(self.intercept), numbers, count["sign"], groups)
        active = self.intercept + numbers + count["sign"] + groups
        squares = numbers + (0 if self.intercept else groups)
        return Fraction(active * (active - 1) // 2 + squares + 1)

    def matrix(self, values: Reals, n: float) -> Reals:
        """The symmetric matrix of sums of products, shape (columns, columns), known entries filled in.

        Args:
            values: The released products in their own units, in ``names`` order (anything after them is ignored).
            n: The number of rows, exact or estimated.
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


def _largest_replacement(intercept: int, numbers: int, signs: int, groups: int) -> Fraction:
    """The diameter in L1 of a row's products, exact.

    Write z = p + q and z' = q - p for the columns of the two rows. Then z_i z_j - z'_i z'_j = 2 (p_i q_j + q_i p_j)
    and |p_i| + |q_i| = max(|z_i|, |z'_i|) <= 1, so the distance is at most 2 (sum P)(sum Q) + 2 sum P_i Q_i, the last
    sum over numbers only, with P + Q = 1 in each column: P = 0 for the intercept, 0 or 1 for two levels. A variable of
    more levels moves furthest when its level changes: 2 by itself, with each other such variable and with two levels,
    |z| + |z'| = 2 max(P, Q) with a number. Equality holds at z = 1, z' = 1 - 2 P. In P it is concave for the numbers
    with P <= 1/2 and for those with P >= 1/2, so those of each kind are alike: what is left is at most two unknowns.
    """
    best = Fraction(0)
    for flipped, upper in product(range(signs + 1), range(numbers + 1)):
        best = max(best, _largest_with(intercept + signs - flipped, flipped, numbers - upper, upper, groups))
    alone = 2 * groups + 2 * groups * signs + groups * (groups - 1)
    return best + alone


def _largest_with(still: int, flipped: int, lower: int, upper: int, groups: int) -> Fraction:
    """The maximum over P = a of the ``lower`` numbers, in [0, 1/2], and P = b of the ``upper`` ones, in [1/2, 1].

    With S = flipped + lower a + upper b and Q the rest: 2 S (still + flipped + lower + upper - S)
    + 2 (lower a (1 - a) + upper b (1 - b)) + 2 groups (lower (1 - a) + upper b), concave: stationary or on an edge.
    """
    size = still + flipped + lower + upper

    def value(a: Fraction, b: Fraction) -> Fraction:
        s = flipped + lower * a + upper * b
        return 2 * s * (size - s) + 2 * (lower * a * (1 - a) + upper * b * (1 - b)) + 2 * groups * (
            lower * (1 - a) + upper * b
        )  # fmt: skip

    half, zero, one = Fraction(1, 2), Fraction(0), Fraction(1)

    def best_a(b: Fraction) -> Fraction:
        # d/da / (2 lower): size - 2 (flipped + lower a + upper b) + 1 - 2 a - groups = 0
        return min(half, max(zero, (size - 2 * flipped - 2 * upper * b + 1 - groups) / Fraction(2 * lower + 2)))

    def best_b(a: Fraction) -> Fraction:
        return min(one, max(half, (size - 2 * flipped - 2 * lower * a + 1 + groups) / Fraction(2 * upper + 2)))

    candidates = [(best_a(b), b) for b in (half, one)] + [(a, best_b(a)) for a in (zero, half)]
    inner = _stationary(size - 2 * flipped, lower, upper, groups)
    if inner is not None and 0 <= inner[0] <= half <= inner[1] <= 1:
        candidates.append(inner)
    return max(value(a, b) for a, b in candidates)


def _stationary(size: int, lower: int, upper: int, groups: int) -> tuple[Fraction, Fraction] | None:
    """Where both derivatives vanish: (2 lower + 2) a + 2 upper b = size + 1 - groups, and its mirror image."""
    determinant = (2 * lower + 2) * (2 * upper + 2) - 4 * lower * upper
    first, second = size + 1 - groups, size + 1 + groups
    a = Fraction((2 * upper + 2) * first - 2 * upper * second, determinant)
    b = Fraction((2 * lower + 2) * second - 2 * lower * first, determinant)
    return a, b


def _feature(name: Any, value: Any) -> Feature:
    """One declared feature."""
    if not isinstance(name, str) or not name:
        raise NetworkError(f"a feature's name must be text; got {name!r}")
    if isinstance(value, list):
        try:
            return Categories(value)
        except NetworkError as error:
            raise NetworkError(f"{name!r}: {error}") from None
    if isinstance(value, Categories | Bins):
        return value
    return _bounded(name, value)


def _bounded(name: str, value: Any) -> Bounded:
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
