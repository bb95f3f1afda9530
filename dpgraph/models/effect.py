"""The average effect of a treatment on an outcome, by adjustment for the variables that confound them.

A set of variables blocks the back door if none of them comes after the treatment and every path between treatment and
outcome that enters the treatment by an arc is blocked given them (Pearl 2009, section 3.3). Then P(y | do(t)) is the
sum over their levels z of P(y | t, z) P(z). The cheapest such set is a minimum cut of the moral graph of the ancestors,
where the arcs out of the treatment are gone.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.asking import asked_of, joint_of
from dpgraph.inference.queries.contraction import ancestors
from dpgraph.inference.queries.measures import scale
from dpgraph.inference.queries.question import read_evidence
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.display import DataFrame, as_html
from dpgraph.privacy.errors import InferenceError, PositivityWarning
from dpgraph.structure.domain import Bins, DomainError, Level
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Reals

#: The share of a stratum below which a level of the treatment counts as absent: of a thousand rows not even one.
RARE = 1e-3
#: What a variable of an adjustment set costs beside its levels, so that of equal tables the one of fewer is taken.
EACH = 1e-3
ASSUMPTION = (
    "This is an effect only if the network is causal: an arc is a direct cause, and every common cause of two "
    "variables is a variable of the network."
)


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """Differences that a treatment makes to an outcome, each against the baseline level of the treatment.

    Attributes:
        answer: The effects, draw by draw: mean, sd, low, high of each level of treatment and outcome, and group.
        naive: The differences P(y | t) - P(y | baseline), without adjustment.
        adjust: The variables that are adjusted for, without those of ``within``.
        reason: The reason for these.
    """

    answer: Answer
    naive: Answer
    adjust: Family
    reason: str

    def to_frame(self) -> DataFrame:
        """A row for each difference: its labels, mean, sd, low, high, and naive, naive low, naive high."""
        return self.answer.to_frame().assign(
            **{"naive": self.naive.mean, "naive low": self.naive.low, "naive high": self.naive.high}
        )

    @property
    def _adjusted(self) -> str:
        return f"adjusted for {', '.join(self.adjust) or 'nothing'}: {self.reason}"

    def __repr__(self) -> str:
        return f"{self.answer!r}\n{self.naive!r}\n{self._adjusted}\n{ASSUMPTION}"

    def _repr_html_(self) -> str:
        said = [f"{self.answer.interval:.0%} intervals", f"{len(self.answer.draws)} draws", self._adjusted, ASSUMPTION]
        rows = self.to_frame().to_dict("records")
        return as_html(self.answer.question, rows, said, total=len(rows))


def effect(
    posterior: Any,
    treatment: str,
    outcome: Any,
    adjust: str | Iterable[str] = "auto",
    *,
    baseline: Level | None = None,
    within: str | None = None,
    interval: float = 0.9,
) -> Effect:
    """The average effect of each level of a treatment on an outcome, against one of its levels; free.

    Of an outcome of two levels it is the difference that the treatment makes to the probability of the second, of more
    levels to that of each, and of numbers, bins by the means of their numbers, to the mean as well. In every draw it is the sum
    over the levels z of the adjustment set of (P(y | t, z) - P(y | baseline, z)) P(z). Beside it is the naive
    difference P(y | t) - P(y | baseline).

    Args:
        posterior: As for ``query``: a release of tables or pairs, a learned network, posterior draws, probabilities.
        treatment: The variable that would be set from outside.
        outcome: Another variable; or an event, a mapping from that variable to a level or several.
        adjust: ``"auto"``: the set with the smallest table that blocks the back door. Variables: they are checked.
        baseline: The level of the treatment to compare with; None for the first.
        within: A variable: the effect in each group of its levels.
        interval: The probability of the intervals.

    Raises:
        NetworkError, DomainError: If a variable or a level is unknown, or a variable has two parts.
        InferenceError: If the outcome comes before the treatment, so that no set exists; if a given one has a variable
            after the treatment or leaves a path open, which is named; if arcs are known to be no causes; if a level of
            the treatment has probability 0 in a stratum; or as for ``query``.

    Warns:
        PositivityWarning: If under most draws a level of the treatment has a probability below .001 in some stratum.

    >>> import dpgraph as dg
    >>> effect(dg.load("example:asia"), "smoke", {"lung": "yes"}, baseline="no")
    effect of smoke on lung=yes, against smoke=no = yes 0.09
    naive difference = yes 0.09
    adjusted for nothing: no open path enters smoke
    This is an effect only if the network is causal: an arc is a direct cause, and every common cause of two variables is a variable of the network.
    """  # noqa: E501
    from dpgraph.inference.graphs.choosing import domain_of, learned_from

    check_probability("interval", interval)
    domain = domain_of(posterior)
    event = outcome if isinstance(outcome, Mapping) else None
    if event is not None and len(event) != 1:
        raise DomainError("an effect is on one variable: give its name, or a mapping of it alone to levels")
    result: Any = outcome if event is None else next(iter(event))
    groups = () if within is None else (within,)
    for name in (treatment, result, *groups):
        domain[name]
    if len({treatment, result, *groups}) < 2 + len(groups):
        raise DomainError("treatment, outcome and within must be different variables")
    posterior = learned_from(posterior)
    network = drawn_tables(posterior).network
    levels = network.domain.levels(treatment)
    tables, evidence = asked_of(posterior, None, {treatment: levels[0] if baseline is None else baseline})
    base = evidence.do[treatment]
    chosen, reason = _adjustment(network, treatment, result, adjust, groups)
    joint = joint_of(tables, (*groups, *chosen, treatment, result), read_evidence(network))[0]
    whole = joint.reshape(len(tables), math.prod(network.shape(groups)), -1, *joint.shape[-2:])  # draw, w, z, t, y
    strata = whole.sum(axis=(3, 4))
    treated = whole.sum(axis=4)
    if not strata.sum(axis=2).all():
        raise InferenceError(f"a level of {within!r} has probability 0, so there is no effect in it; leave within out")
    _check_positive(treated, strata, treatment)
    share = strata / strata.sum(axis=2, keepdims=True)
    adjusted = np.einsum("dwzty,dwz->dwty", whole / np.where(treated > 0, treated, 1.0)[..., None], share)
    seen = whole.sum(axis=2) / whole.sum(axis=(2, 4))[..., None]
    measures = _measures(network, result, event)
    others = [place for place in range(len(levels)) if place != base]
    columns = (*groups, treatment, *(("outcome",) if len(measures) > 1 else ()))
    names = [(group,) for group in network.domain.levels(within)] if within is not None else [()]
    every = itertools.product(names, others, measures)
    labels = tuple((*group, levels[other], *((one,) if len(measures) > 1 else ())) for group, other, one in every)

    def differences(law: Reals, question: str) -> Answer:
        read = np.stack(
            [law[..., at] @ points / law[..., at].sum(axis=-1) for at, points in measures.values()], axis=-1
        )
        draws = read[:, :, others] - read[:, :, [base]]
        return Answer(question, columns, labels, draws.reshape(len(tables), -1), None, interval, note=tables.note)

    on = result if event is None else ", ".join(f"{name}={level}" for name, level in event.items())
    on = f"{result}={next(iter(measures))}" if event is None and len(measures) == 1 else on
    question = f"effect of {treatment} on {on}, against {treatment}={levels[base]}"
    return Effect(differences(adjusted, question), differences(seen, "naive difference"), chosen, reason)


def _measures(network: Network, result: str, event: Mapping[str, Any] | None) -> dict[str, tuple[Any, Reals]]:
    """By name the levels that count, and the number of each, of which the outcome's mean is taken."""
    variable, levels = network.domain[result], network.domain.levels(result)
    every = np.arange(len(levels))
    if event is not None:
        read = read_evidence(network, event)
        weights = np.array(read.weights.get(result, every == read.levels.get(result, -1)), float)
        return {str(event[result]): (every, np.where(weights > 0, 1.0, 0.0))}
    if len(levels) == 2:
        return {str(levels[1]): (every, np.array([0.0, 1.0]))}
    found = {str(level): (every, (every == place).astype(float)) for place, level in enumerate(levels)}
    if isinstance(variable, Bins) or variable.kind == "number":
        at, low, high, _ = scale(network.domain, result, None)
        found["mean"] = at, (low + high) / 2
    return found


def _check_positive(treated: Reals, strata: Reals, treatment: str) -> None:
    """Refuses strata without a level of the treatment, and warns where one is rare; axes (draw, group, stratum)."""
    with np.errstate(invalid="ignore"):
        least = treated.min(axis=3) / strata
    if (least == 0).any():
        raise InferenceError(
            f"a level of {treatment!r} has probability 0 in a stratum of the adjustment set, so its effect there is "
            "not known: adjust for fewer variables or coarser ones, or use a posterior, which leaves no cell at 0"
        )
    rare = (least < RARE).mean(axis=0) > 0.5
    if rare.any():
        share = float(strata.mean(axis=0)[rare].sum())
        warnings.warn(
            f"under most draws a level of {treatment!r} has a probability below {RARE:g} in {int(rare.sum())} of "
            f"{rare.size} strata, {share:.2g} of the population: the effect there is a guess of the model; adjust for "
            "fewer variables, or for coarser ones",
            PositivityWarning,
            stacklevel=3,
        )


def _adjustment(
    network: Network, treatment: str, outcome: str, adjust: str | Iterable[str], within: Family
) -> tuple[Family, str]:
    """The adjustment set and the reason for it; a set that does not block the back door is refused."""
    names = network.domain.names
    after = {name for name in names if name != treatment and treatment in ancestors(network, [name])}
    if outcome in ancestors(network, [treatment]):
        raise InferenceError(
            f"{outcome!r} comes before {treatment!r} in the network, so no set of variables makes its effect out: a "
            "cause comes first. Ask the effect of the other one, or state the order of a release's graph: "
            "dg.choose_network(release, constraints=dg.Constraints(order=[...])), --order of a command"
        )
    chosen = within if isinstance(adjust, str) and adjust == "auto" else None
    if chosen is None:
        chosen = (adjust,) if isinstance(adjust, str) else tuple(adjust)
        for name in chosen:
            network.domain[name]
    if treatment in chosen or outcome in chosen:
        raise DomainError(f"adjust must not hold the treatment {treatment!r} nor the outcome {outcome!r}")
    if late := sorted(after.intersection((*chosen, *within))):
        raise InferenceError(
            f"{', '.join(map(repr, late))} must not be held fixed: it comes after {treatment!r} in the network, and "
            "would take out a part of the effect or open a path. Leave it out"
        )
    parents = {name: tuple(one for one in network.parents[name] if one != treatment) for name in names}
    back = Network.of(network.domain, parents)
    if adjust == "auto":
        chosen = _smallest(back, treatment, outcome, after, within)
        reason = f"the smallest table that blocks each path into {treatment}"
        given = f" given {', '.join(within)}" if within else ""
        reason = reason if set(chosen) - {*within} else f"no open path enters {treatment}{given}"
    else:
        reason = f"as asked; each path into {treatment} is blocked"
        if path := _open_path(back, treatment, outcome, {*chosen, *within}):
            raise InferenceError(
                f"adjust={list(chosen)} leaves a path open: {path}. Add a variable that blocks it, leave out one that "
                f'opens it, or say adjust="auto"'
            )
    if outcome not in after:
        reason += f"; no path leads from {treatment} to {outcome}, so the effect is 0 by the graph alone"
    return tuple(name for name in names if name in chosen and name not in within), reason


def _smallest(back: Network, treatment: str, outcome: str, after: set[str], within: Family) -> Family:
    """The variables, beside ``within``, with the smallest joint table that separate treatment and outcome."""
    import networkx as nx

    held = ancestors(back, [treatment, outcome, *within])
    graph = nx.DiGraph()
    for name in held:
        cost = 0 if name in within else round(1e6 * (math.log(back.domain.sizes[name]) + EACH))  # floats may not end
        free = name not in after and name not in (treatment, outcome)
        graph.add_edge((name, "in"), (name, "out"), **({"capacity": cost} if free else {}))
        family = back.family(name)
        graph.add_edges_from(((a, "out"), (b, "in")) for a in family for b in family if a != b)
    _, (near, _) = nx.minimum_cut(graph, (treatment, "out"), (outcome, "in"))
    return tuple(name for name in held if (name, "in") in near and (name, "out") not in near)


def _open_path(back: Network, treatment: str, outcome: str, held: set[str]) -> str:
    """A path between the two that is open given some variables, as it is written; empty if all are blocked."""
    colliding = ancestors(back, held)  # a collider is open if it or one after it is held
    children = {name: [child for child in back.order if name in back.parents[child]] for name in back.order}
    seen, waiting = set[tuple[str, bool]](), [(treatment, False, treatment)]
    while waiting:
        name, down, path = waiting.pop(0)  # down: it was reached from a parent
        if name == outcome:
            return path
        if (name, down) in seen:
            continue
        seen.add((name, down))
        if (name in colliding) if down else (name not in held):
            waiting += [(parent, False, f"{path} <- {parent}") for parent in back.parents[name]]
        if name not in held:
            waiting += [(child, True, f"{path} -> {child}") for child in children[name]]
    return ""
