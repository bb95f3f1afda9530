"""The least zero-concentrated cost of pure noise, in closed form and never rounded down.

A mechanism is rho-zCDP if its Renyi divergence of every order a above 1 is at most a rho. For each law here the ratio
of the two is largest as a falls to 1, so that the least rho is the Kullback-Leibler divergence (proofs.md P90).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.noise import exp_bounds
from dpgraph.privacy.records import rounded

#: Digits of the bounds on exponentials; a scale of 2^50 cancels half of them.
DIGITS = 80

#: Tables of more cells are priced as if they had so many, at most 0.1 % more.
MOST_CELLS = 1024


@lru_cache(maxsize=4096)
def pure_rho(epsilon: Fraction) -> Fraction:
    """The least rho of every epsilon-DP mechanism: epsilon tanh(epsilon / 2), which randomised response attains.

    >>> float(pure_rho(Fraction(1))), float(pure_rho(Fraction(1, 10)))
    (0.462117157261, 0.00499583749579)
    """
    low, _ = exp_bounds(-epsilon, DIGITS)
    return rounded(min(epsilon * (1 - low) / (1 + low), epsilon**2 / 2), up=True)


def shift_rho(law: NoiseLaw, distance: int, cells: int = 1) -> Fraction | None:
    """The least rho of one draw of noise that moves by a distance; None where the law has no log ratio.

    >>> float(shift_rho(DiscreteLaplace(1.0), 1)), float(shift_rho(DiscreteLaplace(2.0), 2))
    (0.462117157261, 0.393469340288)
    """
    if isinstance(law, DiscreteGaussian):
        return Fraction(distance**2) / (2 * Fraction(law.scale) ** 2)
    if isinstance(law, DiscreteLaplace):
        return laplace_rho(law.scale, distance)
    if isinstance(law, SumZeroLaplace) and distance == 2:
        return sum_zero_rho(law.scale, cells)
    epsilon = law.epsilon(distance)
    return None if epsilon is None else pure_rho(epsilon)


@lru_cache(maxsize=4096)
def laplace_rho(scale: float, distance: int) -> Fraction:
    """The least rho of discrete Laplace noise of scale b on a number that moves by d.

    (d - (1 - exp(-d / b)) / sinh(1 / b)) / b.
    """
    step = 1 / Fraction(scale)
    ratio, _ = exp_bounds(-step, DIGITS)
    _, end = exp_bounds(-distance * step, DIGITS)
    inverse_sinh = 2 * ratio / (1 - ratio**2)
    return rounded(step * (distance - max(Fraction(0), 1 - end) * inverse_sinh), up=True)


@lru_cache(maxsize=4096)
def sum_zero_rho(scale: float, cells: int) -> Fraction:
    """The least rho of noise of scale b that sums to zero over cells, where a row moves from one cell to another.

    a (1 - exp(-2 / b)) 2 / b, with a the probability of the largest loss (``composition.sum_zero_loss``), bounded
    above.
    """
    loss = 2 / Fraction(scale)
    low, high = exp_bounds(-loss, DIGITS)
    few = min(cells, MOST_CELLS)
    largest = Fraction(_square_sum(few - 1, high, up=True)) / Fraction(_square_sum(few, low, up=False))
    return rounded(loss * largest * (1 - low), up=True)


def _square_sum(cells: int, x: Fraction, *, up: bool) -> Decimal:
    """The sum over j of C(cells - 1, j)^2 x^j, all of whose terms are positive, rounded in one direction."""
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR, Emin=-(10**9), Emax=10**9)
    base = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    term = total = Decimal(1)
    for j in range(cells - 1):
        grown = context.multiply(term, Decimal((cells - 1 - j) ** 2))
        term = context.multiply(context.divide(grown, Decimal((j + 1) ** 2)), base)
        total = context.add(total, term)
    return total
