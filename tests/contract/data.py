"""Kinds of rows, and how data sets of them become exact statistics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.statistics.counts import any_tables, count_words
from dpgraph.statistics.rows.arrow import read_once
from dpgraph.statistics.rows.batches import Columns
from tests.contract.enumeration import Pairs, Rows, pairs_of
from tests.selection import counted


@dataclass(frozen=True, eq=False)
class Tables:
    """Counts of a network: every row there can be is a kind; ``others`` are in every data set besides."""

    name: str
    network: dg.Network
    others: Rows = ()
    alike: bool = False

    @property
    def kinds(self) -> list[tuple[int, ...]]:
        """The rows, as codes."""
        return list(itertools.product(*(range(size) for size in self.network.domain.sizes.values())))

    def pairs(self, unit: PrivacyUnit) -> Pairs:
        """All neighbours, with three rows a person nobody else; or those whose person's rows are all alike."""
        kept = 1 if unit.rows_per_person == 1 and not self.alike else 0
        return pairs_of(len(self.kinds), unit, kept, self.alike)

    @cache  # noqa: B019 (as many as there are data sets here)
    def statistics(self, rows: Rows) -> Any:
        """Their counts."""
        together = map(sum, zip(rows, self.others or (0,) * len(rows), strict=True))
        return counted(self.network, {kind: times for kind, times in zip(self.kinds, together, strict=True) if times})


@dataclass(frozen=True, eq=False)
class Named:
    """Words of two variables, every one of which some others have, so that neighbours have the same."""

    name: str
    kinds: tuple[tuple[str, str], ...] = tuple(itertools.product("ab", "cd"))

    def pairs(self, unit: PrivacyUnit) -> Pairs:
        """Those whose person's rows are all alike; with one row a person all neighbours beside one row."""
        alone = unit.rows_per_person == 1
        return pairs_of(len(self.kinds), unit, int(alone), not alone)

    @cache  # noqa: B019 (as many as there are data sets here)
    def statistics(self, rows: Rows) -> Any:
        """The counts of their words."""
        frame = pd.DataFrame(np.repeat(np.array(self.kinds), [many + 1 for many in rows], axis=0), columns=["x", "y"])
        return count_words(read_once(frame, Columns({"x": None, "y": None})), {"x": False, "y": False}, None, None)


@dataclass(frozen=True, eq=False)
class Choices:
    """Any tables of a domain, to choose from."""

    name: str
    domain: dg.Domain

    @property
    def kinds(self) -> list[tuple[int, ...]]:
        """The rows, as codes."""
        return list(itertools.product(*(range(size) for size in self.domain.sizes.values())))

    def pairs(self, unit: PrivacyUnit) -> Pairs:
        """All neighbours beside at most one row of others; with three rows a person, those whose rows are all alike."""
        alone = unit.rows_per_person == 1
        return pairs_of(len(self.kinds), unit, int(alone), not alone)

    @cache  # noqa: B019 (as many as there are data sets here)
    def statistics(self, rows: Rows) -> Any:
        """Their rows, encoded."""
        listed = np.repeat(np.array(self.kinds), rows, axis=0)
        return any_tables(pd.DataFrame(listed, columns=list(self.domain.names)), self.domain)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of a family's statistics over some records."""

    name: str
    family: Any
    records: tuple[Any, ...]
    bounds: tuple[float, float] | None = None

    def pairs(self, unit: PrivacyUnit) -> Pairs:
        """All neighbours."""
        return pairs_of(len(self.records), unit, 1 if unit.rows_per_person == 1 else 0, False)

    @cache  # noqa: B019 (as many as there are data sets here)
    def statistics(self, rows: Rows) -> Any:
        """Their sums."""
        return dg.statistics.sufficient_statistics(np.repeat(self.records, rows), self.family, bounds=self.bounds)


@dataclass(frozen=True, eq=False)
class Regression:
    """Sums of products of a design's columns over some rows, the target last."""

    name: str
    design: dg.LinearDesign
    rows: Sequence[tuple[Any, ...]]
    alike: bool = False

    def pairs(self, unit: PrivacyUnit) -> Pairs:
        """All neighbours, or those whose person's rows are all alike."""
        kept = 1 if unit.rows_per_person == 1 and not self.alike else 0
        return pairs_of(len(self.rows), unit, kept, self.alike)

    @cache  # noqa: B019 (as many as there are data sets here)
    def statistics(self, rows: Rows) -> Any:
        """Their sums."""
        chosen = [row for row, times in zip(self.rows, rows, strict=True) for _ in range(times)]
        X = np.empty((len(chosen), len(self.design.features)), object)
        for i, row in enumerate(chosen):
            X[i] = row[:-1]
        return dg.statistics.regression_moments((X, np.array([float(row[-1]) for row in chosen])), self.design)


ARC = Tables("two and three levels", dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]}))
CHAIN = Tables("chain of two levels", dg.Network.of({n: [0, 1] for n in "abc"}, {"b": ["a"], "c": ["b"]}))
APART = Tables("no arc", dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "only": ["x"]}, {}))

SQUARE = Choices("two of two levels", dg.Domain.of({name: [0, 1] for name in "ab"}))
CUBE = Choices("three of two levels", dg.Domain.of({name: [0, 1] for name in "abc"}))

_LOG = dg.Domain.of({"region": ["N"], "month": [1, 2], "kind": ["a", "b"]})
LOG = Tables("a log of two cells", dg.hmm_network(_LOG, "region", "month"))
LOG_ALIKE = Tables("a log of two cells, rows alike", LOG.network, alike=True)

E = dg.expfam
NATURAL = E.Natural(
    ("x", "x^3"),
    lambda x: np.stack([x, x**3], axis=-1),
    np.zeros_like,
    lambda eta: np.zeros(len(eta)),
    support=(-2.0, 2.0),
    start=(0.0, 0.0),
    discrete=True,
)
FAMILIES = (
    Moments("Binomial()", E.Binomial(), (0, 1)),
    Moments("Binomial(3)", E.Binomial(3), (0, 1, 2, 3)),
    Moments("Multinomial(3)", E.Multinomial(3), (0, 1, 2)),
    Moments("Poisson()", E.Poisson(), (0, 2, 4, 9), (0, 4)),
    Moments("Exponential()", E.Exponential(), (0.0, 1.5, 3.0, 7.0), (0, 3)),
    Moments("Gamma(2)", E.Gamma(2.0), (1.0, 1.5, 3.0, 7.0), (1, 3)),
    Moments("Normal(variance=1)", E.Normal(1.0), (-1.0, 0.0, 3.0, 7.0), (-1, 3)),
    Moments("Normal()", E.Normal(), (-1.0, 0.0, -0.125, 3.0, 7.0), (-1, 3)),
    Moments("Natural(x, x^3)", NATURAL, (-2, -1, 0, 1, 2)),
)

SIDES, FINE = (-1.0, 1.0), (-1.0, -0.5, 0.0, 0.5, 1.0)
SLOPE = dg.LinearDesign({"x": SIDES}, "y", SIDES, intercept=False)
LINE = dg.LinearDesign({"x": SIDES}, "y", SIDES)
MIXED = dg.LinearDesign({"x": SIDES, "g": ["a", "b", "c"]}, "y", SIDES)
SIGNED = dg.LinearDesign({"x": SIDES, "s": ["a", "b"], "g": ["a", "b", "c"]}, "y", SIDES, intercept=False)
WEIGHTED = MIXED.with_mean_weight(7)
MANY = dg.LinearDesign({f"x{i}": SIDES for i in range(5)}, "y", SIDES)
_CORNERS = list(itertools.product(SIDES, "ab", SIDES))
_INSIDE = [(*[u] * 5, v) for u, v in itertools.product((-1.0, -0.125, 1.0), repeat=2)]
_TURNED = [*((*(-1.0 if i < flipped else 1.0 for i in range(5)), 1.0) for flipped in range(1, 5)), *_INSIDE]
REGRESSIONS = (
    Regression("corners", MIXED, _CORNERS),
    Regression("number and levels", MIXED, list(itertools.product(FINE, "abc", FINE)), alike=True),
    Regression("no intercept", SIGNED, list(itertools.product(FINE, "ab", "abc", (-1.0, 0.0, 1.0))), alike=True),
    Regression("mean weight 7", WEIGHTED, list(itertools.product(FINE, "abc", FINE)), alike=True),
    Regression("seven columns", MANY, _TURNED, alike=True),
)
