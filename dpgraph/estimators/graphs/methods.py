"""The methods of ``learn_network`` by name, and which one is best, as far as public values tell."""

from __future__ import annotations

from itertools import combinations

from dpgraph.estimators.graphs.measured_pairs import PAIRS
from dpgraph.estimators.graphs.paid import GREEDY, expected_noise
from dpgraph.estimators.graphs.task import Learner, Task

METHODS: dict[str, Learner] = {"pairs": PAIRS, "greedy": GREEDY}

#: Paid choices pay where the noise of all pairs would move more than this share of the rows.
DROWNED = 0.03
#: And where that of d - 1 tables moves less than this share; or less than the other, if a choice errs by few rows.
CLEAR, BEARABLE = 0.1, 0.6
#: By how large a share of the rows a choice may err, then.
SHARP = 0.005


def best_method(task: Task) -> tuple[str, str]:
    """The name of the method for a task, and why that one: by n, epsilon, delta, the unit and the domain alone.

    All pairs are measured wherever there is a delta, or ``n`` is not given: which pairs are worth their noise is then
    found from the release. Paid choices are better in pure epsilon, where the
    noise of each of d (d - 1) / 2 tables is in proportion to their number, as long as the choices are not blind.
    benchmarks/paid_choices.py has the simulated worlds that the bounds were chosen on, docs/structure-learning.md the
    figures.
    """
    once = "all pairs measured once"
    if task.budget.group is not None:
        return "pairs", f"{once}: the other methods take no group of rows"
    if task.delta:
        return "pairs", f"{once}: with a delta their noise grows with the root of their number only"
    if task.n is None:
        known = "; it is public, and n=len(rows) lets methods be compared" if task.budget.unit.n_is_public else ""
        return "pairs", f"{once}: nothing says how many rows there are, so no choice is paid{known}"
    pairs, tables, choice = noise_shares(task)
    if pairs < DROWNED:
        return "pairs", f"{once}: their noise moves {pairs:.2g} of the rows, so no choice need be paid"
    if tables < CLEAR or (tables < BEARABLE and choice < SHARP):
        return "greedy", (
            f"choices are paid: the noise of all pairs would move {pairs:.2g} of the rows, that of a network's tables "
            f"{tables:.2g}"
        )
    alone = f"that of a network's tables would move {tables:.2g} of the rows"
    return "pairs", f"all pairs, or those above their noise: {alone}"


def noise_shares(task: Task) -> tuple[float, float, float]:
    """What noise is beside the rows, of all pairs measured, of d - 1 tables, and of one choice: shares of n.

    The first two are the expected total variation that noise alone gives the mean pair of the domain, in pure epsilon.
    """
    sizes, n = task.domain.sizes, float(task.n or 1)
    both = [sizes[one] * sizes[other] for one, other in combinations(task.domain.names, 2)]
    half = sum(both) / len(both) / (2 * n)
    moved = task.budget.unit.rows_per_person * (2 if task.budget.unit.n_is_public else 1)
    tables, choice = expected_noise(task)
    return half * moved * len(both) / float(task.epsilon), half * tables, choice / n
