"""The result of one check of an audit, and the time that it may take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpgraph.structure.frozen import FrozenMap

Verdict = Literal["pass", "fail", "not possible"]
#: The chance that all sampled checks of one audit together fail on right code is at most this.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Check:
    """One check: its name, subject, verdict, finding in words, seen and unseen faults, numbers, and seconds."""

    name: str
    subject: str
    verdict: Verdict
    found: str
    sees: str
    blind: str
    numbers: FrozenMap[str, Any] = field(default_factory=lambda: FrozenMap({}))
    seconds: float = 0.0


class Clock:
    """The rest of a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self.begun, self.seconds = time.perf_counter(), seconds

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.begun

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.seconds - self.spent)

    def part(self, share: float) -> Clock:
        """A clock that begins now and has a share of the seconds that are left."""
        return Clock(share * self.left)


def plain(value: Any) -> Any:
    """A number or text for JSON: fractions and numpy's numbers as floats, whole numbers as they are."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    number = float(value)
    return number if abs(number) != float("inf") else str(number)
