"""Several releases read as one: the event of all of them, whom they protect, and what their records say of their rows.

Nothing here is private or spends: the releases were paid for one by one. Their joint cost is their composition, whoever
is in their rows, so releases of different rows are priced as if one person were in all of them; where none is in two,
``Budget.parallel`` prices them lower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from dpgraph.privacy.records import Event, Release, ReleaseError
from dpgraph.privacy.rows import relation


def joint_release(releases: Sequence[Any]) -> Any:
    """Several releases of the same rows as one, whose likelihood is the product of theirs; one of them is itself.

    Args:
        releases: Releases, or the values of releases; then the result is a value too.

    Raises:
        ReleaseError: If there are none, releases are mixed with values, the records tell that the rows differ or the
            units do, or the values cannot be joined.
        NetworkError: If their domains differ.
    """
    values = checked_values(releases, "a joint release")
    if len(releases) == 1:
        return releases[0]
    if isinstance(releases[0], Release):
        for one, other in combinations(releases, 2):
            if relation(one.scope, other.scope) in ("different", "overlapping"):
                raise ReleaseError(
                    f"these are releases of different rows of one data set, {one.scope} and {other.scope}, and make no "
                    "joint release; dg.pooled adds up releases of rows that nobody shares"
                )
    join = getattr(values[0], "joint_with", None)
    if join is None:
        raise ReleaseError(f"a joint release is of noisy counts or coefficients; got {type(values[0]).__name__}")
    value = join(*values[1:])
    return combined(value, releases) if isinstance(releases[0], Release) else value


def checked_values(releases: Sequence[Any], what: str) -> list[Any]:
    """The values of releases, or values as they are.

    Raises:
        ReleaseError: If there are none, or both kinds.
    """
    if not isinstance(releases, list | tuple) or not releases:
        got = "an empty one" if isinstance(releases, list | tuple) else type(releases).__name__
        raise ReleaseError(f"{what} is made of a list of releases, at least one; got {got}")
    if len({isinstance(one, Release) for one in releases}) > 1:
        raise ReleaseError(f"{what} is made of releases or of their values, not of both")
    return [one.value if isinstance(one, Release) else one for one in releases]


def combined(value: Any, releases: Sequence[Release[Any]], *, same_rows: bool = True) -> Release[Any]:
    """A release of a value that was made of several, with the events of all.

    Raises:
        ReleaseError: If the releases protect different units: their costs do not add.
    """
    units = {one.unit for one in releases}
    if len(units) > 1:
        raise ReleaseError(
            f"releases under different units make no one release: {' | '.join(sorted(map(str, units)))}; their values "
            "can be read together, without a record"
        )
    event = combined_event([part for one in releases for part in one.event.events])
    scope = next((one.scope for one in releases if one.scope is not None), None) if same_rows else None
    return Release(value, event, releases[0].unit, all(one.private for one in releases), scope)


def combined_event(events: Sequence[Event]) -> Event:
    """The event of several, one after another: its claim is the sum of theirs, exactly.

    >>> one = Event("a", Fraction(1, 3))
    >>> combined_event([one, one]).epsilon, combined_event([one, one]).mechanism
    (Fraction(2, 3), '2 x a')
    """
    epsilon = sum((event.epsilon for event in events), Fraction(0))
    delta = sum((event.delta for event in events), Fraction(0))
    return Event(combined_label(events), epsilon, delta, parts=tuple(events))


def combined_label(events: Sequence[Event]) -> str:
    """The label of several events."""
    times = Counter(event.mechanism for event in events)
    return " + ".join(name if many == 1 else f"{many} x {name}" for name, many in times.items())
