"""Levels and bins from noisy counts, with the releases that they come from. No rows are here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.display import DataFrame, as_html, counted, data_frame, summary
from dpgraph.privacy.records import PrivacyCost, Provenance, Release, joined
from dpgraph.structure.domain import MISSING, OTHER, Bins, Categories, Domain, Numbers, Words, closed
from dpgraph.structure.frozen import FrozenMap

#: Values besides those of a list get a level where their noisy count is above so many standard deviations of the noise.
CLEAR = 2
#: Bins: the root of the number of rows in standard deviations of the noise, within these.
FEWEST, MOST = 2, 16
#: Deviations below 0 from which a normal law that is cut off at 0 is exponential, to eight digits.
FAR = 1e4


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

    def to_frame(self) -> DataFrame:
        """A row for each variable: levels, how they are known, and by which release at which cost."""

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

        return data_frame([row(name) for name in self.domain.names]).set_index("variable")

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
    below = np.maximum.accumulate(np.concatenate([[0], np.cumsum(noisy)]))
    rows = float(below[-1])
    parts = min(round(rows / wanted), len(noisy))
    for part in range(1, parts):
        cut = int(np.argmin(np.abs(below - rows * part / parts)))
        if 0 < cut < len(noisy):
            yield start + cut


def found_levels(
    declared: Words, noisy: Mapping[str, float], deviation: float, rows: float, rare: float, strict: bool = False
) -> tuple[Categories, str]:
    """The levels whose expected count is at least a share ``rare`` of the rows; the rest is ``other``.

    Of a public list all of whose levels are kept nothing is left over, unless other values stand out of the noise or
    the domain is ``strict``.
    """
    counts = (
        noisy
        if deviation == 0
        else dict(zip(noisy, expected_counts([*noisy.values()], deviation, rows).tolist(), strict=True))
    )
    named = [level for level, many in counts.items() if many >= rare * rows and level not in (OTHER, MISSING)]
    listed = [level for level in declared.measured.levels if level not in (OTHER, MISSING)]
    if named == listed and declared.possible and noisy[OTHER] < CLEAR * deviation and not strict:
        levels = [*named, *([MISSING] if declared.missing else [])]
        return Categories(levels, missing=MISSING if declared.missing else None), f"all {len(named)} levels of the list"
    return closed(named, declared.missing), f"{counted(len(named), 'level')}; rarer ones are {OTHER!r}"


def expected_counts(noisy: Sequence[float], deviation: float, rows: float) -> Reals:
    """The mean of each level's count given the noisy counts of a list of K levels, some of which nobody has.

    The prior: the number k of levels that somebody has is uniform from 1 to K, these are any k of the list, and their
    counts are exponential of mean rows / k. The noise is taken to be normal.

    Args:
        noisy: The noisy counts, shape (K,).
        deviation: The standard deviation of their noise, above 0.
        rows: About how many rows there are.

    >>> expected_counts([900, 90, 60, *[0] * 17], 50, 1000).round()[[0, 1, 2, 3]].tolist()
    [895.0, 10.0, 3.0, 1.0]
    """
    from scipy.special import erfcx, expit, log_ndtr, softmax

    many = np.arange(1, len(noisy) + 1) / len(noisy)
    mean = max(rows, 1.0) / (many * len(noisy))
    at = np.asarray(noisy, float)[:, None] / deviation - deviation / mean
    # The count of a level that somebody has is normal about at, cut off at 0; hazard: its density there.
    below = math.log(2 / math.pi) / 2 - np.log(erfcx(-np.minimum(at, 0) / math.sqrt(2)))
    hazard = np.where(at > 0, -(at**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(at), below)
    somebody = np.log(many * deviation / mean) - hazard
    with np.errstate(divide="ignore"):
        nobody = np.log1p(-many)
    whole = np.logaddexp(nobody, somebody).sum(axis=0)
    counts = deviation * np.where(at > -FAR, at + np.exp(hazard), -1 / np.minimum(at, -1))
    return (expit(somebody - nobody) * counts) @ softmax(whole)
