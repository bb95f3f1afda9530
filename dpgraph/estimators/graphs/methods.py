"""The methods of ``learn_network`` by name, and which one is best, as far as public values tell."""

from __future__ import annotations

from dpgraph.estimators.graphs.paid import GREEDY, TREE
from dpgraph.estimators.graphs.pairs import PAIRS
from dpgraph.estimators.graphs.second_stage import with_stages
from dpgraph.estimators.graphs.task import Learner, Task

METHODS: dict[str, Learner] = {
    "pairs": with_stages(PAIRS),
    "greedy": GREEDY,
    "tree": TREE,
}


def best_method(task: Task) -> tuple[str, str]:
    """The name of the method for a task, and why that one: by n, epsilon and the domain alone."""
    return "pairs", "all pairs measured once: the choice of the graph costs nothing"
