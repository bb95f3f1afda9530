"""A domain from rows and a partial declaration: bins and levels are found by releases, which are charged first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.inference.discovery import Discovered, found_bins, found_levels
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.levels import PrivateLevels
from dpgraph.privacy.accounting import Budget, promised
from dpgraph.privacy.checks import check_boolean, is_number
from dpgraph.privacy.errors import DomainWarning, ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, Number, PrivacyUnit, Release, combined_event
from dpgraph.privacy.release import release
from dpgraph.privacy.scope import RowCap
from dpgraph.statistics.counts import count, count_words
from dpgraph.statistics.rows.arrow import Held, read_once
from dpgraph.statistics.rows.batches import Columns
from dpgraph.statistics.rows.codes import Codes, encode, members
from dpgraph.statistics.rows.persons import PersonCap, rows_within
from dpgraph.structure.domain import (
    OTHER,
    Categories,
    Domain,
    NetworkError,
    Numbers,
    OpenLevels,
    Partial,
    Words,
    partial_domain,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.waiting import waiting


def discover(
    rows: Any,
    declaration: Mapping[str, Any],
    *,
    epsilon: Number,
    delta: Number = 0,
    budget: Budget | None = None,
    unit: PrivacyUnit | None = None,
    person: str | None = None,
    rare: float = 0.005,
    strict: bool = False,
    noise: Noise | None = None,
    progress: bool = False,
) -> Discovered:
    """Finds the bins and levels that a declaration leaves open, from private rows, by releases that are charged.

    Noisy counts on public grids, and of public lists, are one release: bins of about equal counts are read off it, with
    a bin of its own for a value that many rows have, and levels of which the noisy counts let one expect more than a
    few rows; rare ones are ``"other"``.
    Words without a list are named where their noisy count is above a threshold (``PrivateLevels``), a release of its
    own, which needs a delta. Each variable that is found gets the same part of epsilon. docs/discovery.md measures how
    good the bins and levels are where a tenth of epsilon 1, and of .1, pays for them.

    Args:
        rows: A pandas, polars or Arrow table, a stream, a query, or the path of a CSV or Parquet file; read once;
            the columns that are to be found are held in memory.
        declaration: From names to ``dg.Numbers(low, high)`` and ``dg.Words()``, which are found, and to levels,
            ``Categories`` and ``Bins``, which stay. ``{**found.domain.variables, "new": dg.Words()}`` finds one more.
        epsilon: The cost, exact.
        delta: Above 0 where words have no list; half of it is then theirs, and the other half pays for Gaussian noise
            where that is less.
        budget: The ``Budget`` to charge; one of exactly epsilon and delta where it is left out.
        unit: Whom to protect, where there is no budget.
        person: The column that says whose row it is; of each person as many rows as the unit protects are kept.
        rare: Levels of a smaller share of the rows are merged into ``"other"``.
        strict: Makes a strict domain (``Domain.of``), under which no row can refuse a table: all must be declared so.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the releases as not private.
        progress: A bar on a terminal.

    Returns:
        ``Discovered``: ``.domain``, ``.to_frame()``, ``.releases``, ``.provenance``; ``save(found, "domain.toml")``.

    Raises:
        NetworkError: If the declaration is not valid, or leaves nothing open; nothing is charged.
        ReleaseError, BudgetExceededError: If a setting or the budget does not fit, or the number of rows is public and
            no word of so many could be named; nothing is charged.
        DomainError: If the rows do not fit; nothing is charged.

    Warns:
        DomainWarning: Of variables of which nothing but ``"other"`` stands out of the noise.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"age": [20, 30, 40, 50] * 500, "town": ["A", "A", "B", "C"] * 500})
    >>> found = discover(rows, {"age": Numbers(0, 99), "town": Words()}, epsilon=5, delta="1e-6")
    >>> found.domain.levels("town")
    ('A', 'B', 'C', 'other')
    """
    plan = planned(declaration, epsilon=epsilon, delta=delta, budget=budget, unit=unit, strict=strict)
    if not is_number(rare) or not 0 <= rare < 1:
        raise ReleaseError(f"rare must be a share of the rows, from 0 to 1; got {rare!r:.60}")
    plan.budget.left_after(plan.event)  # refuses before anything is read or charged
    with waiting("finding the domain", progress):
        held, cap = _held(rows, plan, person)
        sums: list[tuple[Any, Any]] = []
        if plan.listed is not None:
            sums.append((replace(count(held, plan.listed), group=plan.budget.group, cap=cap), plan.additive))
        if plan.open:
            words = count_words(held, {name: one.missing for name, one in plan.open.items()}, plan.budget.group, cap)
            if plan.budget.unit.n_is_public and cap is None:
                plan.check_threshold(words.sensitive_rows)
            sums.append((words, plan.threshold))
        paid = [release(counted, mechanism, budget=plan.budget, noise=noise) for counted, mechanism in sums]
    return read_off(plan, paid, rare)


@dataclass(frozen=True, eq=False)
class Plan:
    """The variables to be found and the mechanisms that find them: public."""

    declaration: Mapping[str, Partial]
    epsilon: Fraction
    delta: Fraction
    budget: Budget
    strict: bool

    @cached_property
    def open(self) -> dict[str, Words]:
        """The variables of words without a list."""
        return {n: one for n, one in self.declaration.items() if isinstance(one, Words) and one.possible is None}

    @cached_property
    def listed(self) -> Network | None:
        """The variables that are counted on grids and lists; None without one."""
        sought = {n: one for n, one in self.declaration.items() if isinstance(one, Numbers | Words)}
        measured = {n: one.measured for n, one in sought.items() if n not in self.open}
        return Network.of(Domain.of(measured, strict=self.strict), {}) if measured else None

    @cached_property
    def _share(self) -> Fraction:
        many = 0 if self.listed is None else len(self.listed.domain.names)
        return self.epsilon * many / (many + len(self.open))

    @cached_property
    def additive(self) -> LaplaceMechanism | GaussianMechanism:
        """The noise of the counts on grids and lists: Gaussian where delta allows it and it is less."""
        delta = self.delta / 2 if self.open else self.delta
        pure = LaplaceMechanism(self._share, tables="families")
        if not delta:
            return pure
        normal = GaussianMechanism(self._share, delta, tables="families")
        return min((pure, normal), key=lambda one: max(m.law.variance(m.cells) for m in self._event(one).measurements))

    def _event(self, mechanism: LaplaceMechanism | GaussianMechanism) -> Event:
        return mechanism.event(self.listed, self.budget.unit)  # type: ignore[arg-type]

    @cached_property
    def threshold(self) -> PrivateLevels:
        """The mechanism of words without a list."""
        used = Fraction(0) if self.listed is None else self._event(self.additive).delta
        return PrivateLevels(self.epsilon - self._share, self.delta - used)

    def check_threshold(self, n: int) -> None:
        """Refuses a threshold that no word of ``n`` rows is above but for its noise; n must be public."""
        _, threshold = self.threshold.plan(len(self.open), self.budget.unit)
        if n <= threshold:
            raise ReleaseError(
                f"words without a list are named above a noisy count of {threshold}, and there are {n} rows: none "
                "could be. Give lists of possible words, dg.Words([...]), or a larger epsilon or delta"
            )

    @cached_property
    def event(self) -> Event:
        """The charge: one event, or two together."""
        events = [] if self.listed is None else [self._event(self.additive)]
        events += [self.threshold.event(OpenLevels(tuple(self.open)), self.budget.unit)] if self.open else []
        return combined_event(events)


def planned(declaration: Mapping[str, Any], *, strict: bool = False, **promise: Any) -> Plan:
    """The plan of ``discover`` by the same settings, all of them public; ``promise`` are those of ``promised``."""
    check_boolean("strict", strict)
    epsilon, delta, budget = promised(**promise)
    declared = partial_domain(declaration)
    for name, one in declared.items() if strict else ():
        if isinstance(one, Numbers | Words) and not one.missing:
            raise NetworkError(f"variable {name!r} could refuse a row, and the domain is strict: declare missing=True")
    known = {name: one for name, one in declared.items() if not isinstance(one, Numbers | Words)}
    if known:
        Domain.of(known, strict=strict)
    for condition in () if budget.group is None else budget.group.conditions:
        if known.get(condition.by) != condition.declaration:
            raise NetworkError(f"the budget is for the rows with {budget.group}: declare {condition.by!r} as there")
    plan = Plan(declared, epsilon, delta, budget, strict)
    plan.event  # noqa: B018  # a setting that does not fit is refused here
    return plan


def _held(rows: Any, plan: Plan, person: str | None) -> tuple[Held, RowCap | None]:
    """The rows that count, read once, and how many of each person they are. Sensitive."""
    if isinstance(rows, Codes):
        raise ReleaseError("discover takes rows, of which levels and bins are to be found; codes have theirs already")
    group: Any = plan.budget.group
    groups = {one.by: one.declaration for one in (() if group is None else group.conditions)}
    known: dict[str, Any] = {} if plan.listed is None else dict(plan.listed.domain.variables)
    wanted = Columns({**known, **groups, **dict.fromkeys(plan.open)}, plan.strict)
    cap = None if person is None else PersonCap(person, plan.budget.unit.rows_per_person)
    held = read_once(rows, wanted if cap is None else cap.columns(wanted))
    if cap is not None:
        held = held.where(rows_within(held, cap, plan.strict))
    if group is not None:
        held = held.where(members(encode(held, Domain.of(groups, strict=plan.strict)).columns, group))
    return held, None if cap is None else cap.record(plan.strict)


def read_off(plan: Plan, paid: list[Release[Any]], rare: float) -> Discovered:
    """The domain that releases tell of: free."""
    variables: dict[str, Any] = {}
    found: dict[str, str] = {}
    sources: dict[str, int] = {}
    listed = None if plan.listed is None else paid[0].value
    rows = 0.0
    if listed is not None:
        totals = [float(table.sum()) for table in listed.tables.values()]
        rows = float(listed.n or max(sum(totals) / len(totals), 0))
    for name, declared in plan.declaration.items():
        if not isinstance(declared, Numbers | Words):
            variables[name] = declared
            continue
        sources[name] = len(paid) - 1 if name in plan.open else 0
        if name in plan.open:
            named = paid[-1].value[name]
            many = rows or float(sum(named.values()))
            variables[name], found[name] = found_levels(plan.open[name], named, 0.0, many, rare)
            continue
        assert listed is not None
        table, deviation = listed.tables[name,], listed.variance((name,)) ** 0.5
        if isinstance(declared, Numbers):
            variables[name], found[name] = found_bins(declared, table[: len(declared.grid) - 1], deviation)
        else:
            measured = dict(zip(map(str, declared.measured.levels), table.tolist(), strict=True))
            variables[name], found[name] = found_levels(declared, measured, deviation, rows, rare, plan.strict)
    bare = [n for n in found if isinstance(variables[n], Categories) and len(set(variables[n].levels) - {OTHER}) == 0]
    if bare:
        warnings.warn(
            f"no level of {', '.join(map(repr, bare))} stands out of the noise: all count as {OTHER!r}",
            DomainWarning,
            stacklevel=3,
        )
    return Discovered(Domain(FrozenMap(variables), plan.strict), FrozenMap(found), tuple(paid), FrozenMap(sources))
