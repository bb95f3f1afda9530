"""Levels and bins from noisy counts, with the releases that they come from. No rows are here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.display import as_html, counted, summary
from dpgraph.privacy.records import PrivacyCost, Provenance, Release, joined
from dpgraph.structure.domain import Bins, Categories, Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.partial import MISSING, OTHER, Numbers, Words, closed

if TYPE_CHECKING:
    import pandas as pd

#: A level of a list is kept where its noisy count is above so many standard deviations of the noise.
CLEAR = 2
#: Bins: the root of the number of rows in standard deviations of the noise, within these.
FEWEST, MOST = 2, 16


@dataclass(frozen=True)
class Discovered:
    """A domain, of which some variables were found by releases.

    ``domain`` is complete. ``found`` describes the bins or levels of each variable that was found. ``releases`` are the
    noisy counts behind them, of which those of grids and lists may be saved and asked. ``sources`` has the position of
    each variable's release.
    """

    domain: Domain
    found: FrozenMap[str, str]
    releases: tuple[Release[Any], ...]
    sources: FrozenMap[str, int] = field(repr=False)

    @property
    def provenance(self) -> Provenance:
        """The record of all releases together."""
        record = joined(one.provenance for one in self.releases)
        assert record is not None
        return record

    def to_frame(self) -> pd.DataFrame:
        """A row for each variable: levels, how they are known, and by which release at which cost."""
        import pandas as pd

        def row(name: str) -> dict[str, Any]:
            at = self.sources.get(name)
            paid = None if at is None else self.releases[at]
            return {
                "variable": name,
                "levels": self.domain.sizes[name],
                "known by": self.found.get(name, "declaration"),
                "release": "" if paid is None else paid.event.mechanism,
                "cost of the release": "" if paid is None else str(PrivacyCost(paid.event.epsilon, paid.event.delta)),
            }

        return pd.DataFrame([row(name) for name in self.domain.names]).set_index("variable")

    @property
    def remarks(self) -> tuple[str, ...]:
        """A line for the whole, and one for each variable that was found, with its release and its cost."""
        paid = f"; paid by {', '.join(self.provenance.receipts)} of a ledger" if self.provenance.receipts else ""
        events = [self.releases[self.sources[name]].event for name in self.found]
        costs = [f"{event.mechanism}, {PrivacyCost(event.epsilon, event.delta)}" for event in events]
        each = [f"{name}: {words} ({cost})" for (name, words), cost in zip(self.found.items(), costs, strict=True)]
        return (f"found by dpgraph discover: {self.provenance}{paid}", *each)

    def __repr__(self) -> str:
        sizes = counted(len(self.domain.names), "variable"), f"{len(self.found)} found"
        return summary("Discovered", *sizes, self.provenance)

    def _repr_html_(self) -> str:
        rows = self.to_frame().reset_index().to_dict("records")
        return as_html("Discovered domain", rows, [str(self.provenance)])


def found_bins(declared: Numbers, noisy: Integers, deviation: float) -> tuple[Bins, str]:
    """Bins of about equal counts, and a bin of its own for each interval of the grid that alone has as many.

    Args:
        declared: The variable, whose grid was counted.
        noisy: The noisy count of each interval of the grid, without that of nulls.
        deviation: The standard deviation of their noise.
    """
    edges, rows = declared.grid, max(float(noisy.sum()), 1.0)
    many = declared.bins or round(min(max(math.sqrt(rows / max(deviation, 1.0)), FEWEST), MOST))
    wanted = rows / many
    surely = deviation / math.sqrt(2) * math.log(10 * len(noisy))  # above all noise of the grid in 19 of 20 cases
    heavy = noisy >= max(wanted, surely)
    cuts = {0, len(noisy)}
    for at in np.flatnonzero(heavy):
        cuts |= {int(at), int(at) + 1}
    ends = sorted(cuts)
    for low, high in pairwise(ends):
        if high - low > 1:
            cuts |= set(_even_cuts(noisy[low:high], wanted, low))
    alone = int(heavy.sum())
    bins = Bins([edges[at] for at in sorted(cuts)], missing=declared.missing, whole=declared.whole)
    words = f"{len(cuts) - 1} bins" + (f", {alone} of one frequent value or interval" if alone else "")
    return bins, words


def _even_cuts(noisy: Integers, wanted: float, start: int) -> Iterable[int]:
    """Cuts of some intervals into parts of about the wanted count."""
    below = np.maximum.accumulate(np.concatenate([[0], np.cumsum(noisy)]))
    rows = float(below[-1])
    parts = min(round(rows / wanted), len(noisy))
    for part in range(1, parts):
        cut = int(np.argmin(np.abs(below - rows * part / parts)))
        if 0 < cut < len(noisy):
            yield start + cut


def found_levels(
    declared: Words, noisy: Mapping[str, float], deviation: float, least: float, strict: bool = False
) -> tuple[Categories, str]:
    """The levels whose noisy count is clear of the noise and at least ``least`` rows; the rest is ``other``.

    Of a public list all of whose levels are kept nothing is left over, unless other values stand out of the noise or
    the domain is ``strict``.
    """
    bound = max(CLEAR * deviation, least)
    named = [level for level, many in noisy.items() if many >= bound and level not in (OTHER, MISSING)]
    listed = [level for level in declared.measured.levels if level not in (OTHER, MISSING)]
    if named == listed and declared.possible and noisy[OTHER] < CLEAR * deviation and not strict:
        levels = [*named, *([MISSING] if declared.missing else [])]
        return Categories(levels, missing=MISSING if declared.missing else None), f"all {len(named)} levels of the list"
    return closed(named, declared.missing), f"{counted(len(named), 'level')}; rarer ones are {OTHER!r}"
