"""Numbers rounded in one direction, so that a privacy cost is never printed or kept too low."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction


def rounded(value: Fraction | float, *, up: bool) -> Fraction:
    """A number rounded up or down to twelve decimal digits, as an exact fraction."""
    context = Context(prec=12, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = Fraction(value)
    return Fraction(context.divide(Decimal(number.numerator), Decimal(number.denominator)))
