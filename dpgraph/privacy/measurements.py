"""Measurable statistics and their noise: the law of the noise, and how far one person's rows move the measured numbers.

A measurement carries everything that prices it. Accountants read nothing else, and no mechanism's name.

A description gives from public structure alone the blocks of integers and how far one person's rows move each.
Statistics hold the exact integers of those blocks, and add. ``release``, the mechanisms that add noise, files and
accountants know nothing else of a family, so a family is added by writing these two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import numpy as np

from dpgraph.privacy.checks import Reals, is_whole
from dpgraph.privacy.errors import ReleaseError

if TYPE_CHECKING:
    from dpgraph.privacy.records import PrivacyUnit


class NoiseLaw(Protocol):
    """The law of integer noise: a frozen value that gives its own cost, and knows no rows.

    Accountants, files and noise sources ask a law only for the members here. The three laws below are drawn by the
    noise source itself; another law draws itself from them, or from ``choose`` and ``bits`` of the source, and is
    priced by its own methods. ``privacy.exact_loss`` checks such a law by its calls of the source.
    """

    #: Whether the noise of all cells sums to zero, so that it shows their total.
    sums_to_zero: ClassVar[bool]

    #: Whether its tails are Gaussian, else they are exponential; like what stands last, for posteriors.
    gaussian: ClassVar[bool]

    @property
    def scale(self) -> float:
        """How wide it is: finite and above 0."""
        ...

    def epsilon(self, l1: int | Fraction) -> Fraction | None:
        """The largest log ratio where the values move by so much in L1, in proportion to it; None where unbounded."""
        ...

    def rho(self, movement: Movement) -> Fraction:
        """The zero-concentrated cost of values that move like this."""
        ...

    def reach(self, draws: int, nats: float) -> float:
        """A bound on the size of the sum of so many draws, exceeded with a chance of at most 2 exp(-nats)."""
        ...

    def variance(self, cells: int) -> float:
        """The variance of one cell of so many that share the noise."""
        ...

    def add_to(self, values: Any, noise: Any) -> Any:
        """The values with one fresh draw added, all randomness from the noise source."""
        ...

    @property
    def independent(self) -> DiscreteLaplace | DiscreteGaussian:
        """The law of independent cells with the same likelihood."""
        ...

    @property
    def penalties(self) -> tuple[float, float]:
        """How much ln P(z) falls with |z| and with z^2."""
        ...

    def log_density(self, z: Reals) -> Reals:
        """The term of each cell in ln P(z), up to a constant that no z changes."""
        ...

    def contrast_variance(self, cells: int) -> float:
        """Variance along a direction of unit length whose coordinates sum to zero."""
        ...


#: What a release needs of a law; its kind does not matter. Posteriors of networks ask for the rest as well.
_LAW_PARTS = ("epsilon", "rho", "reach", "variance", "add_to")


@dataclass(frozen=True)
class _Law:
    """The common methods of the noise laws; independent Laplace noise has no others."""

    scale: float
    gaussian: ClassVar[bool] = False
    sums_to_zero: ClassVar[bool] = False

    def epsilon(self, l1: int | Fraction) -> Fraction | None:
        """The distance over the scale."""
        return l1 / Fraction(self.scale)

    def rho(self, movement: Movement) -> Fraction:
        """The squared L2 distance over 2 scale^2; Laplace noise on a coordinate moved by d is (d / scale)-DP."""
        return Fraction(movement.l2_squared) / (2 * Fraction(self.scale) ** 2)

    def variance(self, cells: int) -> float:
        """Variance of one cell: 1 / (2 sinh(1 / 2b)^2), about 2 b^2 - 1/6."""
        half = 1 / (2 * self.scale)
        return 0.0 if half > 350 else 1 / (2 * math.sinh(half) ** 2)

    def add_to(self, values: Any, noise: Any) -> Any:
        return noise.add(values, self)

    @property
    def independent(self) -> Any:
        return self

    @property
    def penalties(self) -> tuple[float, float]:
        return 1 / self.scale, 0.0

    def log_density(self, z: Reals) -> Reals:
        linear, square = self.penalties
        return -linear * abs(z) - square * z**2

    def contrast_variance(self, cells: int) -> float:
        return self.variance(cells)


@dataclass(frozen=True)
class DiscreteLaplace(_Law):
    """Independent integer noise, P(z) proportional to exp(-|z| / scale) in every cell.

    ``gaussian`` says of every law whether its tails are Gaussian, else they are exponential; ``sums_to_zero`` whether
    the noise of all cells together does, else cells are independent.

    >>> round(DiscreteLaplace(10.0).variance(cells=4), 2)
    199.83
    >>> DiscreteLaplace(10.0).sums_to_zero, SumZeroLaplace(10.0).sums_to_zero, DiscreteGaussian(10.0).gaussian
    (False, True, True)
    """

    def reach(self, draws: int, nats: float) -> float:
        """P(|sum of K draws| >= t) is at most 2 (4/3)^K exp(-t / 2 scale), by Chernoff's bound at 1 / (2 scale)."""
        return 2 * self.scale * (nats + draws * math.log(4 / 3))

    def sum_deviation(self, copies: int) -> float:
        """Standard deviation of a sum of independent draws, as if they were not rounded: an upper bound."""
        return math.sqrt(copies) * self.scale * math.sqrt(2)

    def sum_reach(self, copies: int) -> float:
        """Beyond this distance from zero a sum of independent draws has less than exp(-36) of its mass."""
        return 40 * self.scale + 9 * (self.sum_deviation(copies) if copies > 1 else 0.0)

    def sum_tail(self, log_edge: float, edge: float, far: Reals, copies: int) -> Reals:
        """ln P of a sum of independent draws at distances beyond ``edge``, where it is ``log_edge``.

        By the saddle point of the cumulants m ln((cosh b - 1) / (cosh b - cosh t)), b = 1 / scale, in closed form.
        """
        rate = min(1 / self.scale, 300.0)

        def log(distance: Reals) -> Reals:
            mean = distance / copies
            tilt = np.log((mean * math.cosh(rate) + np.hypot(1, mean * math.sinh(rate))) / (1 + mean))
            fall = np.log(mean / np.sinh(tilt))  # less ln(cosh b - cosh t)
            curvature = np.log(math.cosh(rate) * np.cosh(tilt) - 1) / 2 + fall
            return copies * (math.log(2 * math.sinh(rate / 2) ** 2) + fall) - tilt * distance - curvature

        return log_edge + log(far) - log(np.asarray(edge, float))


@dataclass(frozen=True)
class SumZeroLaplace(_Law):
    """Integer noise on the plane sum(z) = 0, P(z) proportional to exp(-||z||_1 / scale).

    For a table whose total is public: replacing a row moves two cells, so ||z||_1 by at most 2 (proofs.md P17).
    """

    sums_to_zero: ClassVar[bool] = True

    def rho(self, movement: Movement) -> Fraction:
        """Half the square of the log ratio: the cells are not independent, so squares do not add up."""
        return Fraction(movement.l1**2) / (2 * Fraction(self.scale) ** 2)

    def reach(self, draws: int, nats: float) -> float:
        """Taken to be that of independent Laplace noise; over all cells of a table the sum is 0."""
        return self.independent.reach(draws, nats)

    def variance(self, cells: int) -> float:
        """Variance of one cell: 2 E[T (T + K)] (K - 1) / (K^2 (K + 1)), with T the sum of the positive parts."""
        return _sum_zero_variance(self.scale, cells)

    def contrast_variance(self, cells: int) -> float:
        """Variance along a direction of unit length whose coordinates sum to zero."""
        spread = self.variance(cells)
        return spread * cells / (cells - 1) if cells > 1 else spread

    @property
    def independent(self) -> DiscreteLaplace:
        """The law of independent cells with the same likelihood where the total is known (proofs.md P17)."""
        return DiscreteLaplace(self.scale)


@dataclass(frozen=True)
class DiscreteGaussian(_Law):
    """Independent integer noise, P(z) proportional to exp(-z^2 / (2 scale^2)) in every cell.

    Canonne, Kamath and Steinke 2020; its rho is that of Theorem 4. The scale is the sigma of the formula; the standard
    deviation is no larger.

    >>> round(DiscreteGaussian(10.0).variance(cells=4), 2)
    100.0
    """

    gaussian: ClassVar[bool] = True

    def epsilon(self, l1: int | Fraction) -> Fraction | None:
        """Unbounded for all that moves."""
        return None if l1 else Fraction(0)

    def reach(self, draws: int, nats: float) -> float:
        """P(|sum of K draws| >= t) is at most 2 exp(-t^2 / (2 K scale^2)): it is subgaussian."""
        return self.scale * math.sqrt(2 * draws * nats)

    def variance(self, cells: int) -> float:
        """Variance of one cell: scale^2 above a scale of 4 (exact in 53 bits), else the sum over the pmf."""
        if self.scale > 4:
            return self.scale**2
        weight = [math.exp(-(z**2) / (2 * self.scale**2)) for z in range(1, 41)]
        moment = sum(z**2 * part for z, part in enumerate(weight, start=1))
        return 2 * moment / (1 + 2 * sum(weight))

    @property
    def penalties(self) -> tuple[float, float]:
        """How much ln P(z) falls with |z| and with z^2."""
        return 0.0, 1 / (2 * self.scale**2)

    def sum_deviation(self, copies: int) -> float:
        """Standard deviation of a sum of independent draws, as if they were not rounded: an upper bound."""
        return math.sqrt(copies) * self.scale

    def sum_reach(self, copies: int) -> float:
        """Beyond this distance from zero a sum of independent draws has less than exp(-36) of its mass."""
        return 10 * self.sum_deviation(copies) + 1

    def sum_tail(self, log_edge: float, edge: float, far: Reals, copies: int) -> Reals:
        """ln P of a sum of independent draws at distances beyond ``edge``, where it is ``log_edge``."""
        return log_edge - (far**2 - edge**2) / (2 * copies * self.scale**2)


SelectionLaw = Literal["softmax", "permute-and-flip", "continuous"]


@lru_cache(maxsize=1 << 16)
def _sum_zero_variance(scale: float, cells: int) -> float:
    """Sums P(T) over the T that matter; P(T) is proportional to C(T+K-1, K-1)^2 exp(-2T / scale)."""
    if cells == 1:
        return 0.0
    from scipy.special import gammaln

    odds = 1 / math.expm1(min(1 / scale, 700.0))
    mode, spread = (cells - 1) * odds, math.sqrt(cells * odds * (1 + odds)) + 1
    low, high = max(0, int(mode - 15 * spread)), int(mode + 15 * spread)
    total = np.unique(np.linspace(low, high, 8_001).astype(np.int64)).astype(float)
    log_weight = 2 * (gammaln(total + cells) - gammaln(total + 1)) - 2 * total / scale
    weight = np.exp(log_weight - log_weight.max()) * np.gradient(total)
    moment = float((weight * total * (total + cells)).sum() / weight.sum())
    return 2 * moment * (cells - 1) / (cells**2 * (cells + 1))


@dataclass(frozen=True)
class Movement:
    """How far one person's rows can move a measurement, in the whole numbers that noise is added to.

    It follows from public structure and the unit alone, and is computed by whoever plans the measurement.

    Attributes:
        l1: The largest L1 distance.
        l2_squared: The largest squared L2 distance, or an upper bound on it.
        moved_cells: How many coordinates move at most, where none moves by more than one; None where one may.
        fixed_total: True if the sum over all coordinates never moves.

    Raises:
        ReleaseError: If the numbers cannot be true of whole numbers together.

    >>> Movement(2, 2, moved_cells=2, fixed_total=True)  # a table of counts, one row replaced
    Movement(l1=2, l2_squared=2, moved_cells=2, fixed_total=True)
    """

    l1: int
    l2_squared: int
    moved_cells: int | None = None
    fixed_total: bool = False

    def __post_init__(self) -> None:
        cells = self.moved_cells
        wholes = (self.l1, self.l2_squared) if cells is None else (self.l1, self.l2_squared, cells)
        if not all(is_whole(number) for number in wholes) or not isinstance(self.fixed_total, bool):
            raise ReleaseError(f"a movement is given in whole numbers, at least 0; got {self}")
        simple = cells is None or cells == self.l1 == self.l2_squared
        if not self.l1 <= self.l2_squared <= self.l1**2 or not simple:
            raise ReleaseError(f"no whole numbers move like this: {self}")


@dataclass(frozen=True)
class Measurement:
    """Whole numbers with noise: a table, a block of coefficients, or sums of moments.

    Attributes:
        table: The variables of the table or block, or the names of the moments.
        cells: How many numbers there are.
        law: The law of their noise.
        movement: How far one person's rows can move them.

    Raises:
        ReleaseError: If so many cells cannot move like this, or noise that sums to zero meets a total that moves.
    """

    table: tuple[str, ...]
    cells: int
    law: NoiseLaw
    movement: Movement

    def __post_init__(self) -> None:
        name, moved = ", ".join(self.table), self.movement
        if not isinstance(moved, Movement) or not is_whole(self.cells):
            raise ReleaseError(f"the measurement of {name} needs its number of cells and its Movement")
        if not is_law(self.law) or not 0 < self.law.scale < math.inf:
            raise ReleaseError(f"the measurement of {name} needs a noise law with a finite scale above 0")
        if moved.l1**2 > self.cells * moved.l2_squared or (moved.moved_cells or 0) > self.cells:
            raise ReleaseError(f"the measurement of {name} has {self.cells} cells, which cannot move like {moved}")
        if self.law.sums_to_zero and not moved.fixed_total:
            raise ReleaseError(f"noise that sums to zero would show the total of {name}, which a person moves")

    @property
    def sensitivity(self) -> int:
        """The L1 sensitivity."""
        return self.movement.l1


@dataclass(frozen=True)
class Joint:
    """A joint distance of measurements, below the sum of the distances of each by itself.

    Attributes:
        weights: One whole number for each measurement of the event, in order.
        distance: The sum over measurements of weight times L1 distance is at most this, whatever the person's rows.

    Raises:
        ReleaseError: If the weights or the distance are not whole numbers above 0.
    """

    weights: tuple[int, ...]
    distance: int

    def __post_init__(self) -> None:
        numbers = (*self.weights, self.distance)
        if not self.weights or not all(is_whole(number) and number > 0 for number in numbers):
            raise ReleaseError("joint weights and their distance are whole numbers, at least 1")


@dataclass(frozen=True)
class Selection:
    """Public candidates chosen by their scores, ``draws`` times independently.

    ``law`` is ``"softmax"``, the exponential mechanism, ``"permute-and-flip"``, or ``"continuous"``: the exponential
    mechanism over real numbers, in floating point. ``epsilon`` is the exact cost of one draw, the largest range of a
    score difference between neighbours over the scale; for ``"softmax"`` a draw is also epsilon^2 / 8-zCDP.
    """

    law: SelectionLaw
    epsilon: Fraction
    draws: int = 1

    def __post_init__(self) -> None:
        if self.law not in get_args(SelectionLaw) or not is_whole(self.draws) or self.draws < 1:
            raise ReleaseError(f"a selection has one of the laws {get_args(SelectionLaw)} and at least one draw")
        if not isinstance(self.epsilon, int | Fraction) or self.epsilon <= 0:
            raise ReleaseError(f"a selection's epsilon must be an exact number above 0; got {self.epsilon!r}")


def is_law(value: object) -> bool:
    """True for a value with the members of a noise law (``NoiseLaw``); False for a class of laws."""
    return isinstance(value, _Law) or (
        not isinstance(value, type)
        and all(callable(getattr(value, part, None)) for part in _LAW_PARTS)
        and isinstance(getattr(value, "sums_to_zero", None), bool)
        and isinstance(getattr(value, "scale", None), float)
    )


Name = tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Integers that are measured together: a table, or a vector of sums.

    Attributes:
        name: The variables of the table, or the names of the sums.
        shape: The axes of the integers.
        movement: How far one person's rows move them, under the unit that the description was asked for.

    >>> from dpgraph.privacy.records import PrivacyUnit
    >>> Block(("age",), (3,), partition_movement(3, PrivacyUnit())).cells
    3
    """

    name: Name
    shape: tuple[int, ...]
    movement: Movement

    @property
    def cells(self) -> int:
        """How many integers there are."""
        return math.prod(self.shape)


class Description(Protocol):
    """A public, frozen, comparable and hashable description, such as a network or a regression's design.

    Mechanisms that add noise to any description also need the meaning of noisy integers of its blocks: a method
    ``noisy(values, laws, n, unit)``, or a function registered with ``noisy_value``.
    """

    def blocks(self, unit: PrivacyUnit) -> tuple[Block, ...]:
        """The blocks of a release that protects this unit, in order.

        The movements are the privacy proof of the family: no two data sets that differ in one person's rows, as the
        unit says, differ by more in any block. ``audit.privacy_loss`` checks pairs.

        Raises:
            ReleaseError: If nothing can be released under this unit.
        """
        ...


class Statistics(Protocol):
    """The exact integers of a description: sensitive, with no numbers in the ``repr``, not pickled, never saved.

    ``group`` and ``cap`` (``privacy.scope``), where there are such attributes, say which rows they are of.
    """

    @property
    def description(self) -> Description:
        """The public description of the statistics."""
        ...

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows; public under replace, and only there."""
        ...

    def sensitive_block(self, name: Name, unit: PrivacyUnit) -> Any:
        """The exact integers of one of ``description.blocks(unit)``, an int64 array of its shape."""
        ...

    def __add__(self, other: Any) -> Any:
        """The statistics of both sets of rows together."""
        ...


@singledispatch
def noisy_value(
    description: Any, values: Mapping[Name, Any], laws: Mapping[Name, NoiseLaw], n: int | None, unit: PrivacyUnit
) -> Any:
    """The public value that a release of noisy blocks holds; by default the description's method ``noisy``.

    Args:
        description: The description; a value of a type that cannot have the method registers a function here.
        values: The noisy integers of each measured block.
        laws: The law of the noise of each.
        n: The exact number of rows where it is public, else None.
        unit: Whom the release protects.
    """
    return description.noisy(values, laws, n, unit)


def is_readable(description: Any) -> bool:
    """True if noisy blocks of this description have a meaning: a method ``noisy`` or a registered function."""
    registered = noisy_value.dispatch(type(description)) is not noisy_value.dispatch(object)
    return registered or callable(getattr(description, "noisy", None))


def description_of(statistics: Any) -> Any:
    """The public description of sensitive statistics; refuses any other value."""
    description = getattr(statistics, "description", None)
    has_blocks = callable(getattr(description, "blocks", None)) and not isinstance(description, type)
    if not has_blocks or not callable(getattr(statistics, "sensitive_block", None)):
        raise ReleaseError(f"release takes statistics such as count(rows, network); got {type(statistics).__name__}")
    return description


def partition_movement(cells: int, unit: PrivacyUnit) -> Movement:
    """How far one person moves counts of rows, each row being in one of so many cells: exact, and attained.

    One row is one cell more or less by one; replaced it leaves a cell and enters another, if there are two. Several
    rows of a person may all be alike and move those cells by as many. Under replace the total is n.

    >>> from dpgraph.privacy.records import PrivacyUnit
    >>> partition_movement(3, PrivacyUnit("replace"))
    Movement(l1=2, l2_squared=2, moved_cells=2, fixed_total=True)
    """
    rows = unit.rows_per_person
    moved = (2 if cells > 1 else 0) if unit.n_is_public else 1
    l1, square = moved * rows, moved * rows**2
    return Movement(l1, square, l1 if rows == 1 or l1 == 0 else None, fixed_total=unit.n_is_public)
