"""P(target | evidence) in every draw of a posterior."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_probability, check_whole_number
from dpgraph.inference.queries.answer import Answer, weights_of_draws
from dpgraph.inference.queries.contraction import MOST_CELLS, conditional
from dpgraph.inference.queries.question import Evidence, check_targets, event_words, evidence_words, read_evidence
from dpgraph.inference.queries.sampling import sampled
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.domain import DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

Method = Literal["auto", "sampling"]

#: The largest joint table of targets that an answer lists; and the largest that is summed up for an event.
MOST_ENTRIES, MOST_EVENT_CELLS = 1 << 20, 4096


def query(
    model: Any,
    target: Any,
    given: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    interval: float = 0.9,
    method: Method = "auto",
    samples: int | None = None,
    seed: int = 0,
) -> Answer:
    """P(target | given), with an interval where there are draws; free, as it reads released values alone.

    ``mean``, ``sd``, ``low`` and ``high`` are the posterior of the conditional probability itself: each draw of the
    tables gives one number, all with equal weight. ``predictive`` is the probability for the next case with this
    evidence: draws under which the evidence is likely weigh more.

    ``do`` sets variables from outside (truncated factorisation, Pearl 2009, section 3.2): their own tables are dropped
    and they no longer depend on their parents. That is what would happen only if the DAG is causal: an arc means a
    direct cause, every common cause of two variables is a variable of the network, and the other tables stay as they
    are when one variable is set. No data shows that. A naive Bayes network's arcs are no causes, and are refused.

    Args:
        model: ``Probabilities``, posterior draws of any method, a plug-in posterior, a naive Bayes model, a fitted
            estimator of one, a list of ``Probabilities``, or a release of any of these.
        target: A variable; a list of variables, for their joint; or an event, a mapping from variables to a level or a
            list of levels, for the probability that all hold.
        given: For each observed variable a level (of bins a name or a number), a list of levels any of which it may
            have, or a mapping from levels to weights (soft evidence).
        do: For each variable that is set, its level.
        interval: The probability of the intervals.
        method: ``"auto"``: exact by variable elimination, refused where its tables would be too large; ``"sampling"``:
            likelihood weighting.
        samples: Of ``"sampling"``, for each draw; None for about a million together.
        seed: Of ``"sampling"``; the model is public already.

    Returns:
        An ``Answer``, an entry for each level, or combination of levels, or for the event.

    Raises:
        NetworkError: If a variable is unknown.
        DomainError: If a level is unknown, a variable is in two places, or the evidence has probability 0 in a draw.
        InferenceError: If the model holds no network's probabilities, a table would be too large, or a setting is out
            of range.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> model = Probabilities(network, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]})
    >>> query(model, "rain", {"wet": "yes"})
    P(rain | wet=yes) = no 0.308, yes 0.692
    >>> query(model, {"rain": "yes"}, do={"wet": "yes"})
    P(rain=yes | do(wet=yes)) = 0.2
    """
    check_probability("interval", interval)
    if method not in get_args(Method):
        raise InferenceError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {method!r:.60}")
    if method == "sampling" and samples is not None:
        check_whole_number("samples", samples, 2)
    tables = drawn_tables(model)
    evidence = read_evidence(tables.network, given, do)
    if do:
        check_causes(tables)
    targets, event = _targets(target), None
    if isinstance(target, Mapping):
        event = read_evidence(tables.network, target)
        if any(isinstance(value, Mapping) for value in target.values()):
            raise DomainError("an event names levels; weights are evidence, and belong in given")
    check_targets(tables.network, targets, evidence, given)
    if event is None:
        _check_entries(tables, targets)
        levels = itertools.product(*(tables.network.domain.levels(name) for name in targets))
        words, columns, labels = ", ".join(targets), targets, tuple(levels)
    else:
        words, columns = event_words(target), ("event",)
        labels = ((words,),)
    known = evidence_words(given, do)
    question = f"P({words} | {known})" if known else f"P({words})"
    described = {"columns": columns, "labels": labels, "interval": interval, "note": tables.note}
    if method == "auto":
        draws, predictive = _exact(tables, targets, evidence, event)
        return Answer(question, draws=draws, predictive=predictive, **described)
    inside = None if event is None else _inside(tables, targets, event)
    made = sampled(tables, targets, evidence, np.random.default_rng(seed), samples, inside)
    return Answer(
        question,
        draws=made.probabilities,
        predictive=weights_of_draws(made.log_evidence) @ made.probabilities,
        method="sampling",
        error=np.sqrt(made.variance.sum(axis=0)) / len(tables),
        effective_size=float(made.effective_sizes.min()),
        **described,
    )


def joint_of(tables: DrawnTables, targets: Family, evidence: Evidence) -> tuple[Reals, Reals]:
    """P(targets | evidence), axes (draw, *targets), and ln P(evidence) of each draw; exact."""
    _check_entries(tables, targets)
    found = conditional(tables, targets, evidence, whole=len(tables) > 1)
    check_possible(found.log_evidence[0])
    return found.probabilities[0], found.log_evidence[0]


def check_possible(log_evidence: Reals) -> None:
    """Refuses evidence of probability 0 by a DomainError that says in how many draws."""
    impossible = int(np.isneginf(log_evidence).sum())
    if not impossible:
        return
    if impossible == log_evidence.size:
        raise DomainError("the network gives this evidence probability 0, so nothing follows from it; give less of it")
    raise DomainError(
        f"{impossible} of {log_evidence.size} draws give this evidence probability 0, so nothing follows in them; give "
        "less evidence, ask the posterior mean, or use a prior that leaves no cell at 0"
    )


def check_causes(tables: DrawnTables) -> None:
    """Refuses an intervention on a network whose arcs are known to be no causes."""
    if tables.arcs:
        raise InferenceError(
            f"do= needs a causal DAG, in which an arc is a direct cause and every common cause is a variable; the arcs "
            f"of {tables.arcs} are none. Ask with given=, or state a causal network and learn its tables"
        )


def _check_entries(tables: DrawnTables, targets: Family) -> None:
    entries = math.prod(tables.network.domain.sizes[name] for name in targets)
    if entries > MOST_ENTRIES or entries * len(tables) > 4 * MOST_CELLS:
        raise InferenceError(
            f"the joint of {len(targets)} variables has {entries:.3g} entries for each of {len(tables)} draws; ask for "
            "fewer variables, or for an event"
        )


def _targets(target: Any) -> Family:
    """The variables of a target: a name, several, or those of an event."""
    names = (target,) if isinstance(target, str) else target
    if not isinstance(target, Mapping) and not (
        isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    ):
        raise DomainError(f"target must be a variable, a list of variables, or an event; got {target!r:.60}")
    return tuple(names)


def _exact(tables: DrawnTables, targets: Family, evidence: Evidence, event: Evidence | None) -> tuple[Reals, Reals]:
    """The exact probabilities of the targets' levels, or of an event, in every draw, and the predictive ones."""
    if event is not None and math.prod(tables.network.shape(targets)) > MOST_EVENT_CELLS:
        levels, weights = {**evidence.levels, **event.levels}, {**evidence.weights, **event.weights}
        both = Evidence(FrozenMap(levels), FrozenMap(weights), evidence.do)
        held = conditional(tables, (), both).log_evidence[0]
        log = conditional(tables, (), evidence).log_evidence[0]
        check_possible(log)
        flat = np.exp(held - log)[:, None]
    else:
        joint, log = joint_of(tables, targets, evidence)
        flat = joint.reshape(len(tables), -1)
        if event is not None:
            flat = flat[:, _inside(tables, targets, event)].sum(axis=1, keepdims=True)
    if tables.centre is None:
        return flat, weights_of_draws(log) @ flat
    return flat, _exact(tables.centre, targets, evidence, event)[1]


def _inside(tables: DrawnTables, targets: Family, event: Evidence) -> npt.NDArray[np.bool_]:
    """A mask of the cells of the targets' joint table, flat, that make up the event."""
    domain, held = tables.network.domain, np.ones((), bool)
    for name in targets:
        levels = np.ones(domain.sizes[name], bool)
        if name in event.levels:
            levels = np.arange(domain.sizes[name]) == event.levels[name]
        elif name in event.weights:
            levels = np.array(event.weights[name]) > 0
        held = np.logical_and.outer(held, levels)
    return held.reshape(-1)
