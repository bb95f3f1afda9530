"""The meaning of a record of privacy, in sentences for readers who are no statisticians."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpgraph.privacy.records import Event, PrivacyUnit, Provenance, decimal

#: The false-alarm rate of the test that a sentence speaks of.
FALSE_ALARMS = 0.05


def number(value: Any, digits: int = 3) -> str:
    """A number as people read it: whole ones with thin groups, others, and huge ones, to some digits; a dash for none.

    >>> number(1234567), number(0.012345), number(float("nan")), number(2.0), number("a"), number(2.6881e43)
    ('1,234,567', '0.0123', '-', '2', 'a', '2.69e+43')
    """
    if isinstance(value, str) or value is None:
        return value or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    size = float(value)
    if not math.isfinite(size):
        return "-" if math.isnan(size) else ("more than can be said" if size > 0 else "-")
    if size == int(size) and abs(size) < 1e15:
        return f"{int(size):,}"
    if 1000 <= abs(size) < 1e15:
        return f"{size:,.0f}"
    return f"{size:.{digits}g}"


def whom(unit: PrivacyUnit) -> str:
    """Who is protected.

    >>> whom(PrivacyUnit("add-remove"))
    'Each person with one row or none is protected: whether they are in the data, and all that is said there.'
    """
    rows = "one row" if unit.rows_per_person == 1 else f"up to {unit.rows_per_person} rows"
    if unit.n_is_public:
        what = "All that a person's row says" if unit.rows_per_person == 1 else "All that a person's rows say"
        return f"{what} is protected, for each person; each has {rows}. How many rows there are is public, and exact."
    return f"Each person with {rows} or none is protected: whether they are in the data, and all that is said there."


def promise(unit: PrivacyUnit, epsilon: Fraction | float, delta: Fraction | float = 0) -> list[str]:
    """The promise of epsilon and delta to one person, in three sentences.

    >>> promise(PrivacyUnit(), 1)[0]
    'Any outcome is at most 2.72 times as likely as it would be had any one person said something else.'
    """
    size, slack = float(epsilon), float(delta)
    ratio = math.exp(size) if size < 700 else math.inf
    high = 1 / (1 + math.exp(-size))
    most = min(1.0, ratio * FALSE_ALARMS + slack, 1 - (1 - slack - FALSE_ALARMS) / ratio)
    but = "" if slack == 0 else f" This may fail with a probability of {slack:.2g} (delta)."
    other = "had any one person said something else" if unit.n_is_public else "with or without any one person's data"
    guess = "which of two things one person said" if unit.n_is_public else "whether one person is in the data"
    return [
        f"Any outcome is at most {number(ratio)} times as likely as it would be {other}.{but}",
        f"Who thinks it an even bet {guess}, and knows everybody else's data, is after seeing this between "
        f"{_percent(1 - high)} and {_percent(high)} sure.",
        f"Any test of that which is allowed {FALSE_ALARMS * 100:.0f} % of false alarms finds the truth in at most "
        f"{_percent(most)} of cases.",
    ]


def _percent(share: float) -> str:
    """A share in percent, to two digits of its distance from 0 or 1.

    >>> _percent(0.2689), _percent(0.99331), _percent(1.0)
    ('27 %', '99.33 %', '100 %')
    """
    edge = 100 * min(share, 1 - share)
    digits = 0 if edge >= 10 or edge <= 0 else min(12, 1 - math.floor(math.log10(edge)))
    return f"{100 * share:.{digits}f} %"


def cost(event: Event | Provenance) -> str:
    """An event's epsilon and delta."""
    made = event.event if isinstance(event, Provenance) else event
    slack = f", delta {float(made.delta):.3g}" if made.delta else ""
    return f"epsilon {decimal(made.epsilon)}{slack}"


def neighbours(unit: PrivacyUnit) -> str:
    """The unit in the terms of the theory."""
    return f"{unit.neighbours}, {unit.rows_per_person} row{'s' if unit.rows_per_person > 1 else ''} a person"


NOT_PRIVATE = (
    "NOT PRIVATE: the noise was drawn from a seed, for tests or studies. Whoever knows the seed can take it off again; "
    "do not show this where real people's data are in it."
)
NO_RECORD = (
    "No release is on record here: these numbers were declared or made up, or their record was lost. Nothing is said "
    "of whom they protect."
)
AFTERWARDS = (
    "All below was computed from what was released, at no further cost: whatever is computed from it alone keeps the "
    "promise."
)
