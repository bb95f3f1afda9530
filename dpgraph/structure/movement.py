"""Sensitivity of a regression's products to one replaced row, in L1 and squared L2.

Columns are counted by kind: intercept, numbers between -1 and 1 (the target is one), signs -1 or 1, and groups, the
variables of more levels, each of which has at most one indicator at 1. Products are counted once, i <= j; the squares
of the intercept and of signs, and products within a group, are known and do not count.

For both norms write z = p + q and z' = q - p. Then z_i z_j - z'_i z'_j = 2 (p_i q_j + q_i p_j), and as
|p_i| + |q_i| = max(|z_i|, |z'_i|) <= 1 it is at most 2 (P_i Q_j + Q_i P_j) = 1 - u_i u_j with P + Q = 1 and u = Q - P.
Every entry attains that at once at the rows z = 1 and z' = u.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple


@lru_cache(maxsize=256)
def largest_replacement(
    intercept: int, numbers: int, signs: int, groups: int, target: int = 0, extra: int = 0
) -> Fraction:
    """The diameter in L1 of a row's products, exact.

    Write z = p + q and z' = q - p for the columns of the two rows. Then z_i z_j - z'_i z'_j = 2 (p_i q_j + q_i p_j)
    and |p_i| + |q_i| = max(|z_i|, |z'_i|) <= 1, so the distance is at most 2 (sum P)(sum Q) + 2 sum P_i Q_i, the last
    sum over numbers only, with P + Q = 1 in each column: P = 0 for the intercept, 0 or 1 for two levels. A variable of
    more levels moves furthest when its level changes: 2 by itself, with each other such variable and with two levels,
    |z| + |z'| = 2 max(P, Q) with a number. Equality holds at z = 1, z' = 1 - 2 P. In P it is concave for the numbers
    with P <= 1/2 and for those with P >= 1/2, so those of each kind are alike; without groups all numbers are.

    ``target`` more numbers are all the same column, the target, whose sum is multiplied by ``extra`` beyond that: it
    moves by 2 P more for each.
    """
    best = Fraction(0)
    for flipped, upper in product(range(signs + 1), range(numbers + 1) if groups else (None,)):
        kinds = _kinds(numbers, upper)
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
        """Whether a group gains with P, or with 1 - P."""
        return 0 if self.upper is None else 1 if self.upper else -1


def _kinds(numbers: int, upper: int | None) -> tuple[_Kind, ...]:
    split = ((numbers, None),) if upper is None else ((numbers - upper, False), (upper, True))
    return tuple(_Kind(many, where) for many, where in split if many)


def _largest_with(still: int, flipped: int, kinds: tuple[_Kind, ...], groups: int) -> Fraction:
    """The maximum over the P of each kind, within its edges.

    With S = flipped + sum m P over kinds of m columns, and as many columns in all as ``size``: 2 S (size - S)
    + sum 2 m P (1 - P) + 2 groups m max(P, 1 - P) + 2 extra P. It is concave, so the maximum is where every kind is at
    an edge or has derivative 0; of the points so found those within the edges are tried.
    """
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
