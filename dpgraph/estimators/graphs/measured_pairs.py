"""The method ``"pairs"``: pairs are measured once, and the graph is chosen from what was measured, for free.

Which pairs are worth it depends on the number of rows. Where that is private and nobody says about how many there are,
a small part of epsilon measures one narrow variable first, whose total is a noisy number of rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgraph.estimators.graphs.charging import in_turn
from dpgraph.estimators.graphs.design import designed
from dpgraph.estimators.graphs.task import Learner, Task
from dpgraph.estimators.reading import stays_in_place
from dpgraph.inference.graphs.choosing import check_choosing, choose_within
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.records import Event, Release, ReleaseError, joint_release
from dpgraph.privacy.release import check_memory, release
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.structure.margins import Margins, all_pairs

#: The part of epsilon that measures about how many rows there are, where nobody says.
FIRST = Fraction(1, 25)


def _mechanism(task: Task, part: Fraction = Fraction(1)) -> GaussianMechanism | LaplaceMechanism:
    """Gaussian noise wherever there is a delta."""
    epsilon = task.epsilon * part
    return GaussianMechanism(epsilon, task.delta) if task.delta else LaplaceMechanism(epsilon)


def _narrowest(task: Task) -> Margins:
    """The variable of fewest levels, by itself."""
    name = min(task.domain.names, key=task.domain.sizes.__getitem__)
    return Margins.of_tables(task.domain, [(name,)])


def _asks_first(task: Task) -> bool:
    return task.n is None and not task.budget.unit.n_is_public


def _plan(task: Task) -> tuple[Event, ...]:
    """The events: which pairs the last one measures is decided by how many rows there are, its price is not."""
    if task.stages > 1:
        raise ReleaseError('method "pairs" has one stage: what it measures does not look at the rows again')
    unit, pairs = task.budget.unit, all_pairs(task.domain, beyond="leave-out")
    if not _asks_first(task):
        return (_mechanism(task).event(pairs, unit),)
    first = LaplaceMechanism(task.epsilon * FIRST).event(_narrowest(task), unit)
    return (first, _mechanism(task, 1 - FIRST).event(pairs, unit))


def _learn(task: Task, rows: Any) -> LearnedNetwork:
    rows = rows if stays_in_place(rows) or isinstance(rows, Codes) else encode(rows, task.domain)
    check_choosing(task.constraints)
    for planned in _plan(task):
        check_memory(planned)
    releases, mechanism = [], _mechanism(task)
    if _asks_first(task):
        releases.append(_release(task, rows, _narrowest(task), LaplaceMechanism(task.epsilon * FIRST)))
        n, mechanism = _rows_in(releases[0]), _mechanism(task, 1 - FIRST)
    else:
        n = float(task.n or max(1, _public_rows(task, rows)))
    margins, mechanism = designed(task.domain, mechanism, task.budget.unit, n)
    releases.append(_release(task, rows, margins, mechanism))
    made = joint_release(releases)
    made = replace(made, event=in_turn(made.event))  # how many rows there are decides what is measured
    return replace(choose_within(made, task.constraints, seed=task.seed), reason=task.reason)


def _counted(task: Task, rows: Any, margins: Margins) -> Counts:
    """The exact counts of the rows that the budget is for."""
    group = task.budget.group
    return count(rows, margins, where=None if group is None else group.where)


def _release(task: Task, rows: Any, margins: Margins, mechanism: Any) -> Release[Any]:
    return release(_counted(task, rows, margins), mechanism, budget=task.budget, noise=task.noise)


def _public_rows(task: Task, rows: Any) -> int:
    """The exact number of rows, under a unit that makes it public."""
    return _counted(task, rows, _narrowest(task)).sensitive_rows


def _rows_in(noisy: Release[Any]) -> float:
    """About how many rows there are by a noisy table, less one standard deviation of its noise, and at least that."""
    ((key, table),) = noisy.value.tables.items()
    spread = math.sqrt(table.size * noisy.value.variance(key))
    return max(1.0, spread, float(table.sum()) - spread)


PAIRS = Learner(_plan, _learn)
