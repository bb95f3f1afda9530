"""The method ``"pairs"``: tables are measured once, and the graph is chosen from the release, for free.

Which tables are worth it depends on the number of rows. Where that is private and ``n`` is not given, a small part of
epsilon measures one narrow variable first, whose total is a noisy number of rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgraph.estimators.graphs.design import designed, with_triples
from dpgraph.estimators.graphs.task import Learner, Task, in_turn
from dpgraph.estimators.reading import stays_in_place
from dpgraph.inference.graphs.choosing import check_choosing, choose_within
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.records import Event, Release, joint_release
from dpgraph.privacy.release import check_memory, release
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.structure.margins import Margins, all_pairs

#: The part of epsilon that measures about how many rows there are, where ``n`` is not given.
FIRST = Fraction(1, 25)


def _mechanism(task: Task) -> GaussianMechanism | LaplaceMechanism:
    epsilon = task.epsilon * (1 - FIRST if _asks_first(task) else 1)
    return GaussianMechanism(epsilon, task.delta) if task.delta else LaplaceMechanism(epsilon)


def _narrowest(task: Task) -> Margins:
    name = min(task.domain.names, key=task.domain.sizes.__getitem__)
    return Margins.of_tables(task.domain, [(name,)])


def _asks_first(task: Task) -> bool:
    return task.n is None and not task.budget.unit.n_is_public


def _plan(task: Task) -> tuple[Event, ...]:
    """The events: the number of rows decides which tables the last one measures, not its price."""
    unit, pairs = task.budget.unit, all_pairs(task.domain, beyond="leave-out")
    tables = _mechanism(task).event(pairs, unit)
    return (LaplaceMechanism(task.epsilon * FIRST).event(_narrowest(task), unit), tables)[not _asks_first(task) :]


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    rows = rows if stays_in_place(rows) or isinstance(rows, Codes) else encode(rows, task.domain)
    unit, releases, mechanism = task.budget.unit, [], _mechanism(task)
    check_choosing(task.constraints)
    for planned in _plan(task):
        check_memory(planned)
    triples = with_triples(task.constraints, mechanism, unit)
    if triples is not None:
        check_memory(triples[1].event(triples[0], unit))
    if _asks_first(task):
        releases.append(_release(task, rows, _narrowest(task), LaplaceMechanism(task.epsilon * FIRST)))
        n = _rows_in(releases[0])
    else:
        n = float(task.n or max(1, _counted(task, rows, _narrowest(task)).sensitive_rows))  # the unit makes n public
    releases.append(_release(task, rows, *designed(task.constraints, mechanism, unit, n)))
    made = joint_release(releases)
    made = replace(made, event=in_turn(made.event))  # the noisy number of rows decides which tables are measured
    return replace(choose_within(made, task.constraints), reason=task.reason)


def _counted(task: Task, rows: Any, margins: Margins) -> Counts:
    group = task.budget.group
    return count(rows, margins, where=None if group is None else group.where)


def _release(task: Task, rows: Any, margins: Margins, mechanism: Any) -> Release[Any]:
    return release(_counted(task, rows, margins), mechanism, budget=task.budget, noise=task.noise)


def _rows_in(noisy: Release[Any]) -> float:
    """About how many rows there are by a noisy table, less one standard deviation of its noise, and at least that."""
    ((key, table),) = noisy.value.tables.items()
    spread = math.sqrt(table.size * noisy.value.variance(key))
    return max(1.0, spread, float(table.sum()) - spread)


PAIRS = Learner(_plan, _learn)
