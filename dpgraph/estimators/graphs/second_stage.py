"""``stages=2``: pairs first, then tables of three variables.

Where the noise of all of them together would be small, they are measured at once, and nothing is chosen by exact
scores. Otherwise those are measured where the public model of the pairs is most likely wrong: round by round a table is
chosen (``TableChoice``), measured, and the model fitted again: AIM (McKenna, Mullins, Sheldon and Miklau 2022) with
exact scores, started from all pairs. A round that shows no more than its noise, or that chooses to stop, makes the next
one cost four times the rho. The whole is charged once before the first draw; its parts are paid from a budget of that
size, a filter that holds for whatever was chosen before.

A choice that saw exact scores is no longer ignorable: which tables were measured tells something of the rows.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.estimators.graphs.charging import (
    LESS,
    adding,
    as_one,
    charged,
    check_fits,
    claimed,
    late_bytes,
    one_charge,
    purse_of,
    root_below,
)
from dpgraph.estimators.graphs.design import PER_CELL
from dpgraph.estimators.graphs.task import Learner, Task
from dpgraph.inference.graphs.choosing import choose_within, choosing_bytes
from dpgraph.inference.graphs.joint import Joint, is_small
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.graphs.pair_estimates import read_pairs
from dpgraph.inference.graphs.refining import JointModel, PublicModel
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.table_choice import TableChoice, choice_bytes
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import PriorWarning
from dpgraph.privacy.filters import rho_within
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event, PrivacyCost, Release, ReleaseError, rounded
from dpgraph.privacy.release import release
from dpgraph.statistics.counts import count
from dpgraph.statistics.table_counts import TableCounts, any_tables
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

#: What the pairs get of the budget; what a round's choice gets of the round's; the most rounds.
PAIRS_SHARE, CHOICE_SHARE, MOST_ROUNDS = Fraction(1, 2), Fraction(1, 10), 16
#: How many variables a table of the second stage has.
VARIABLES = 3
#: All such tables are measured where the noise of one would be, on average, at most this far in total variation.
BEARABLE = 0.025
#: Bytes of the expected counts of a candidate, as the model has them and as the choice keeps them.
BYTES_PER_EXPECTED = 1600


def with_stages(one: Learner) -> Learner:
    """A method that has one stage, and with ``stages=2`` two."""
    two = in_two_stages(one)
    return Learner(
        lambda task: (one if task.stages == 1 else two).plan(task),
        lambda task, rows: (one if task.stages == 1 else two).learn(task, rows),
    )


def in_two_stages(first: Learner) -> Learner:
    """The method that measures as another one does, then tables of three variables."""

    def parts(task: Task) -> tuple[Event, ...]:
        if task.budget.group is not None:
            raise ReleaseError("stages=2 learns from all rows, not from those of a group's budget")
        if len(task.domain.names) < VARIABLES:
            raise ReleaseError(f"stages=2 measures tables of {VARIABLES} variables; the domain has fewer")
        planned = first.plan(_first(task, purse_of(task)))
        check_fits(task, planned, "the first stage")
        return planned

    def plan(task: Task) -> tuple[Event, ...]:
        parts(task)
        return (one_charge(task),)

    def learn(task: Task, rows: Any) -> LearnedNetwork:
        statistics = any_tables(rows, task.domain)
        planned, purse = parts(task), purse_of(task)
        scope = charged(task, statistics, planned, _needed(task))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PriorWarning)  # the second stage may find what pairs do not tell
            start = first.learn(_first(task, purse), statistics.sensitive_codes)
        model, measured = _rounds(task, purse, statistics, start)
        noisy = as_one((start.release, *measured), scope, purse)
        if isinstance(model, JointModel):
            return replace(choose_within(noisy, task.constraints, seed=task.seed), reason=task.reason)
        tables = replace(model.probabilities, provenance=noisy.provenance)
        return replace(start, probabilities=tables, release=noisy, reason=task.reason)

    return Learner(plan, learn)


def _needed(task: Task) -> int:
    """The most bytes that the candidates of a round, the table that is measured, or the choice of a graph may take."""
    sizes = sorted(task.domain.sizes.values())
    candidates = choice_bytes(sizes, [VARIABLES]) + math.comb(len(sizes), VARIABLES) * BYTES_PER_EXPECTED
    late = max(candidates, choosing_bytes(task.constraints))
    return max(late, late_bytes(task, [min(task.constraints.max_cells, math.prod(sizes[-VARIABLES:]))]))


def _first(task: Task, purse: Budget) -> Task:
    """The task of the first stage: its share of the budget, paid from the purse."""
    if not task.delta:
        return replace(task, epsilon=PAIRS_SHARE * task.epsilon, budget=purse, stages=1)
    rho = PAIRS_SHARE * LESS * rho_within(PrivacyCost(task.epsilon, task.delta))
    epsilon = rounded(epsilon_of_rho(rho, task.delta), up=False)
    return replace(task, epsilon=epsilon, budget=purse, stages=1)


@dataclass(frozen=True)
class _Round:
    """What one round may spend: an epsilon, or where there is a delta a rho."""

    share: Fraction
    delta: Fraction

    @property
    def choosing(self) -> Fraction:
        """The epsilon of the choice."""
        return root_below(8 * CHOICE_SHARE * self.share) if self.delta else CHOICE_SHARE * self.share

    def adding(self) -> GaussianMechanism | LaplaceMechanism:
        """The mechanism that measures."""
        return adding((1 - CHOICE_SHARE) * self.share, self.delta)

    def noise(self, task: Task) -> tuple[float, float]:
        """The standard deviation of a cell, and its expected absolute noise."""
        unit, rest = task.budget.unit, float((1 - CHOICE_SHARE) * self.share)
        moved = unit.rows_per_person * (2 if unit.n_is_public else 1)
        if not self.delta:
            return math.sqrt(2) * moved / rest, moved / rest
        spread = math.sqrt(moved * unit.rows_per_person / (2 * rest))
        return spread, spread * math.sqrt(2 / math.pi)


def _rounds(
    task: Task, purse: Budget, statistics: TableCounts, start: LearnedNetwork
) -> tuple[PublicModel | JointModel, list[Release[Any]]]:
    """The model and the tables that were measured, all paid from the purse."""
    model = _start(task, start)
    if isinstance(model, JointModel):
        everything = _measured_at_once(task, purse, statistics, model)
        if everything is not None:
            return model, [everything]
    measured: list[Release[Any]] = []
    most = min(MOST_ROUNDS, len(task.domain.names))
    share = _left(purse) / most
    for _ in range(most):
        left = LESS * _left(purse)
        if left < share / 100:
            break
        share = left if left < 2 * share else share
        here = _Round(share, task.delta)
        spread, noise = here.noise(task)
        done = {frozenset(table) for one in measured for table in one.value.tables}
        expected = {
            table: counts for table, counts in model.expected(VARIABLES).items() if frozenset(table) not in done
        }
        if not expected:
            break
        choice = TableChoice(here.choosing, expected, noise)
        table = release(statistics, choice, budget=purse, noise=task.noise).value
        if table is None:
            share = 4 * share if task.delta else 2 * share
            continue
        found = _measure(task, purse, statistics, table, here)
        measured.append(found)
        ((key, values),) = found.value.tables.items()
        counts = values.transpose([key.index(name) for name in table]).astype(float)
        if isinstance(model, JointModel):
            model = model.with_tables(found.value)
            now = model.n * Joint(task.domain.names, model.cells).margin(table)
        else:
            model = model.with_table(table, counts, spread)
            now = model.n * model.joint(table)
        moved = float(np.abs(now - expected[table]).sum())
        if moved <= noise * counts.size:
            share = 4 * share if task.delta else 2 * share
    return model, measured


def _start(task: Task, start: LearnedNetwork) -> PublicModel | JointModel:
    """The model of the first stage."""
    value = start.release.value
    if is_small(task.domain):
        return JointModel.of(value, task.constraints)
    return PublicModel(start.probabilities, float(value.n or read_pairs(value).n), task.constraints)


def _measured_at_once(
    task: Task, purse: Budget, statistics: TableCounts, model: JointModel
) -> Release[NoisyCoefficients] | None:
    """All tables, where their noise is small beside the rows: by their coefficients, which share what they share.

    A function of what was released before, and of nothing else; so is what is measured.
    """
    unit, tables = task.budget.unit, list(model.candidates(VARIABLES))
    if not task.delta or unit.n_is_public or not tables:
        return None
    rho = LESS * _left(purse)
    mechanism = GaussianMechanism(claimed(rho, task.delta), task.delta, rho=rho, basis="residual")
    margins = Margins.of_tables(task.domain, tables)
    variances = mechanism.variance(margins, unit)
    noise = [PER_CELL * margins.cells(table) * math.sqrt(variances[table]) / model.n for table in tables]
    if sum(noise) / len(noise) > BEARABLE:
        return None
    return release(count(statistics.sensitive_codes, margins), mechanism, budget=purse, noise=task.noise)


def _left(purse: Budget) -> Fraction:
    """What is left in the purse: epsilon, or rho."""
    return purse.remaining if purse.remaining_rho is None else purse.remaining_rho


def _measure(task: Task, purse: Budget, statistics: TableCounts, table: Family, here: _Round) -> Release[NoisyCounts]:
    """One table with noise, as counts over the whole domain."""
    child, others = table[-1], table[:-1]
    alone = Network.of(task.domain.restrict(table), {child: list(others)})
    made = release(count(statistics.sensitive_codes, alone), here.adding(), budget=purse, noise=task.noise)
    whole = Network.of(task.domain, {})
    return made.map(lambda noisy: NoisyCounts(whole, noisy.tables, noisy.laws, noisy.n))
