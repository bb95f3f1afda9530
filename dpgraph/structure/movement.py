"""How far one replaced row moves the products of a design's columns: exact, in L1 and in squared L2.

Columns are counted by kind: intercept, numbers between -1 and 1 (the target is one), signs -1 or 1, and groups, the
variables of more levels, each of which has at most one indicator at 1. Products are counted once, i <= j; the squares
of the intercept and of signs, and products within a group, are known and do not count.

For both norms write z = p + q and z' = q - p. Then z_i z_j - z'_i z'_j = 2 (p_i q_j + q_i p_j), and as
|p_i| + |q_i| = max(|z_i|, |z'_i|) <= 1 it is at most 2 (P_i Q_j + Q_i P_j) = 1 - u_i u_j with P + Q = 1 and u = Q - P.
Every entry attains that at once at the rows z = 1 and z' = u.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product


@cache
def largest_replacement(intercept: int, numbers: int, signs: int, groups: int) -> Fraction:
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


@cache
def largest_squared_replacement(intercept: int, numbers: int, signs: int, groups: int) -> int:
    """The squared diameter in L2 of a row's products.

    A group whose level stays is one more column with u = 1. One whose level changes moves by 2 by itself, with each
    sign and with each other group, and by z^2 + z'^2 <= 2 with a number. Exact but where the target is the only
    column beside groups that change, which may be 1 too much.
    """
    free, sizes = numbers + signs, []
    for changed in range(groups + 1):
        still = groups - changed
        around = 2 * changed * (1 + free + still) + changed * (changed - 1)
        sizes.append(_largest_square_with(intercept + still, free) + around)
    return max(sizes)


def _largest_square_with(fixed: int, free: int) -> int:
    """The maximum of f = sum_(i<j) (1 - u_i u_j)^2 + sum_numbers (1 - u_i^2)^2 over u, 1 where ``fixed``.

    It is 4 k (d - k) with d columns and k of them at u = -1, k as near d / 2 as it can be. With w = u^2, A = sum u and
    B = sum w, 2 f = d^2 + B^2 + sum_numbers (1 - w_i)^2 - 2 A^2 <= d^2 + B^2 + (d - B) - 2 A^2 <= 2 d^2. For odd d
    let B = d - e: if e <= 1 then |A| >= 1 - e, since a sum of d signs is odd and each u is within 1 - w of one, so
    f <= d^2 - 1 - (d - 5/2) e - e^2 / 2; else f <= max(d^2 - d + 1, (d^2 + d) / 2); both at most d^2 - 1 from d = 3.
    If fixed >= free, no free u is better positive, and then f grows with every -u: all are -1.
    """
    size = fixed + free
    flipped = min(free, size // 2)
    return max(1, 4 * flipped * (size - flipped))
