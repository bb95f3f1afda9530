"""One case of the contract: something that spends, run on all neighbours of small data sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dpgraph as dg
from dpgraph.privacy.exact_loss import RecordingNoise
from tests.contract.continuous import recorded_densities
from tests.contract.enumeration import UNITS, Largest, Pairs, Rows, largest_loss

#: What draws of real numbers may lose above their claim by rounding.
ROUNDING = Fraction(1, 10**9)


@dataclass(frozen=True)
class Case:
    """Something that spends.

    Attributes:
        subject: What it is of: a mechanism, an estimator, a function, or the words of a command.
        setting: What the table calls its settings and its rows.
        make: Spends on a data set; what leaves.
        pairs: All neighbours under a unit.
        units: Whom it protects.
        scripts: How many pasts, where later draws depend on earlier ones.
        idealized: Whether it draws real numbers.
        tight: The least share of the claim that the worst neighbours reach, by relation; .99 where it is not there.
        why: Why it is below .99.
    """

    subject: Any
    setting: str
    make: Callable[[Rows, dg.PrivacyUnit, RecordingNoise], Any]
    pairs: Callable[[dg.PrivacyUnit], Pairs]
    units: tuple[dg.PrivacyUnit, ...] = UNITS
    scripts: int = 1
    idealized: bool = False
    tight: tuple[tuple[str, float], ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        """What the table calls its subject."""
        if isinstance(self.subject, tuple):
            return "dpgraph " + self.subject[0]
        return getattr(self.subject, "__name__", type(self.subject).__name__)

    def __str__(self) -> str:
        return f"{self.name}: {self.setting}"

    def largest(self, unit: dg.PrivacyUnit) -> Largest:
        """The largest loss over all neighbours."""
        with recorded_densities() if self.idealized else nullcontext():
            return largest_loss(lambda rows, noise: self.make(rows, unit, noise), self.pairs(unit), unit, self.scripts)

    def check(self, unit: dg.PrivacyUnit) -> Largest:
        """No loss is above the claim, and the worst is near it."""
        found = self.largest(unit)
        found.check(ROUNDING if self.idealized else Fraction(0))
        least = dict(self.tight).get(unit.neighbours, 0.99)
        assert found.share >= least, f"only {float(found.share)} of the claim is reached: has it become too large?"
        return found
