"""P(target | evidence) in every draw of a posterior, by elimination or by likelihood weighting.

Likelihood weighting is for questions whose tables would be too large: samples with the evidence held fixed, weighted by
its probability (Fung and Chang 1990; Shachter and Peot 1990). Every draw of the tables has samples of its own, so the
spread over draws is that of the posterior and of the Monte Carlo error together.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_probability, check_whole_number
from dpgraph.inference.network.queries import level_thresholds
from dpgraph.inference.queries.answer import Answer, weights_of_draws
from dpgraph.inference.queries.contraction import MOST_CELLS, ancestors, conditional
from dpgraph.inference.queries.question import Evidence, check_targets, evidence_words, read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.errors import ConvergenceWarning, InferenceError
from dpgraph.structure.domain import DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

Method = Literal["auto", "sampling"]

#: The largest joint table of targets that an answer lists; and the largest that is summed up for an event.
MOST_ENTRIES, MOST_EVENT_CELLS = 1 << 20, 4096
#: Samples of all draws together where no number is asked for; at least and at most as many for each draw.
ALL_SAMPLES, LEAST_SAMPLES, MOST_SAMPLES = 1 << 20, 1000, 200_000
#: Samples that are made at once, and the effective size below which the estimate is not trusted.
BLOCK, LEAST_SIZE = 1 << 19, 100.0


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
    and they no longer depend on their parents. The answer is true only if the DAG is causal: an arc means a
    direct cause, every common cause of two variables is a variable of the network, and the other tables stay as they
    are when one variable is set. No data shows that. A naive Bayes network's arcs are not causes, and are refused.

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

    >>> import dpgraph as dg
    >>> model = dg.load("example:asia")
    >>> query(model, "smoke", {"bronc": "yes"})
    P(smoke | bronc=yes) = yes 0.667, no 0.333
    >>> query(model, {"smoke": "yes"}, do={"bronc": "yes"})
    P(smoke=yes | do(bronc=yes)) = 0.5
    """
    check_probability("interval", interval)
    check_choice("method", method, Method, error=InferenceError)
    if method == "sampling" and samples is not None:
        check_whole_number("samples", samples, 2)
    tables, evidence = asked_of(model, given, do)
    names: Any = (target,) if isinstance(target, str) else target
    several = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not several and not isinstance(target, Mapping):
        raise DomainError(f"target must be a variable, a list of variables, or an event; got {target!r:.60}")
    targets, event = tuple(names), None
    if isinstance(target, Mapping):
        event = read_evidence(tables.network, target)
        if any(isinstance(value, Mapping) for value in target.values()):
            raise DomainError("an event names levels; weights are evidence, and belong in given")
    check_targets(tables.network, targets, evidence, given)
    if not isinstance(target, Mapping):
        _check_entries(tables, targets)
        levels = itertools.product(*(tables.network.domain.levels(name) for name in targets))
        words, columns, labels = ", ".join(targets), targets, tuple(levels)
    else:
        words, columns = evidence_words(target, None), ("event",)
        labels = ((words,),)
    known = evidence_words(given, do)
    question = f"P({words} | {known})" if known else f"P({words})"
    described = {"columns": columns, "labels": labels, "interval": interval, "note": tables.note}
    if method == "auto":
        draws, predictive = _exact(tables, targets, evidence, event)
        return Answer(question, draws=draws, predictive=predictive, **described)
    inside = None if event is None else _inside(tables, targets, event)
    draws, log, variance, sizes = sampled(tables, targets, evidence, np.random.default_rng(seed), samples, inside)
    return Answer(
        question,
        draws=draws,
        predictive=weights_of_draws(log) @ draws,
        method="sampling",
        error=np.sqrt(variance.sum(axis=0)) / len(tables),
        effective_size=float(sizes.min()),
        **described,
    )


def joint_of(tables: DrawnTables, targets: Family, evidence: Evidence) -> tuple[Reals, Reals]:
    """P(targets | evidence), axes (draw, *targets), and ln P(evidence) of each draw; exact."""
    _check_entries(tables, targets)
    found, log = _conditional(tables, targets, evidence)
    check_possible(log)
    return found, log


def _conditional(tables: DrawnTables, targets: Family, evidence: Evidence) -> tuple[Reals, Reals]:
    """P(targets | evidence), axes (draw, *targets), and ln P(evidence) of each draw."""
    if tables.joints is None or evidence.do:
        found, log = conditional(tables, targets, evidence, whole=len(tables) > 1 or not targets)
        return found[0], log[0]
    sizes = tables.network.domain.sizes
    weights = {name: np.eye(sizes[name])[level] for name, level in evidence.levels.items()}
    joint = tables.joints(targets, weights | {name: np.array(some) for name, some in evidence.weights.items()})
    total = joint.reshape(len(tables), -1).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return joint / total.reshape(-1, *[1] * len(targets)), np.log(total)


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


def asked_of(model: Any, given: Mapping[str, Any] | None, do: Mapping[str, Any] | None) -> tuple[DrawnTables, Evidence]:
    """The tables of a model and the evidence; an intervention is refused where arcs are known to be no causes."""
    tables = drawn_tables(model)
    evidence = read_evidence(tables.network, given, do)
    if do and tables.arcs:
        raise InferenceError(
            f"do= needs a causal DAG, in which an arc is a direct cause and every common cause is a variable; the arcs "
            f"of {tables.arcs} are not causes. Ask with given=, or state a causal network and learn its tables"
        )
    return tables, evidence


def _check_entries(tables: DrawnTables, targets: Family) -> None:
    entries = math.prod(tables.network.domain.sizes[name] for name in targets)
    if entries > MOST_ENTRIES or entries * len(tables) > 4 * MOST_CELLS:
        raise InferenceError(
            f"the joint of {len(targets)} variables has {entries:.3g} entries for each of {len(tables)} draws; ask for "
            "fewer variables, or for an event"
        )


def _exact(tables: DrawnTables, targets: Family, evidence: Evidence, event: Evidence | None) -> tuple[Reals, Reals]:
    """The exact probabilities of the targets' levels, or of an event, in every draw, and the predictive ones."""
    if event is not None and math.prod(tables.network.shape(targets)) > MOST_EVENT_CELLS:
        levels, weights = {**evidence.levels, **event.levels}, {**evidence.weights, **event.weights}
        both = Evidence(FrozenMap(levels), FrozenMap(weights), evidence.do)
        held, log = (_conditional(tables, (), one)[1] for one in (both, evidence))
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


def sampled(
    tables: DrawnTables,
    targets: Family,
    evidence: Evidence,
    rng: np.random.Generator,
    samples: int | None = None,
    inside: npt.NDArray[np.bool_] | None = None,
) -> tuple[Reals, Reals, Reals, Reals]:
    """Estimates P(targets | evidence) by likelihood weighting, where the targets' joint table has few cells.

    ``inside`` marks the cells of an event, whose probability alone is then estimated. Returns the probabilities, axes
    (draw, entry), ln of the estimated P(evidence) of each draw, the Monte Carlo variances of the probabilities, and the
    effective number of samples of each draw, (sum w)^2 / sum w^2.
    """
    count = samples or min(MOST_SAMPLES, max(LEAST_SAMPLES, ALL_SAMPLES // len(tables)))
    place = np.arange(math.prod(tables.network.shape(targets))) if inside is None else np.where(inside, 0, 1)
    cells = int(place.max()) + 1 if inside is None else 2
    found, variance = np.empty((len(tables), cells)), np.empty((len(tables), cells))
    logs, sizes = np.empty(len(tables)), np.empty(len(tables))
    some = max(1, BLOCK // count)
    for start in range(0, len(tables), some):
        draws = slice(start, start + some)
        codes, weights = _weighted(tables, targets, evidence, draws, count, rng)
        top = weights.max(axis=1)
        impossible = int(np.isneginf(top).sum())
        if impossible:
            raise InferenceError(
                f"none of {count} samples agrees with the evidence in {impossible} draws: its probability is 0 or too "
                "small to sample; ask for more samples, give less evidence, or use method='auto'"
            )
        relative = np.exp(weights - top[:, None])
        total = relative.sum(axis=1)
        logs[draws] = top + np.log(total / count)
        sizes[draws] = total**2 / (relative**2).sum(axis=1)
        share = relative / total[:, None]
        flat = place[codes] + cells * np.arange(len(codes))[:, None]
        mine, squares = (
            np.bincount(flat.ravel(), power.ravel(), cells * len(codes)).reshape(-1, cells)
            for power in (share, share**2)
        )
        spread = squares * (1 - 2 * mine) + mine**2 * squares.sum(axis=1, keepdims=True)
        found[draws], variance[draws] = mine, np.maximum(spread, 0)
    if sizes.min() < LEAST_SIZE:
        warnings.warn(
            f"the effective number of samples is {sizes.min():.0f} of {count} in the worst draw; ask for more samples",
            ConvergenceWarning,
            stacklevel=3,
        )
    kept = slice(None) if inside is None else slice(1)
    return found[:, kept], logs, variance[:, kept], sizes


def _weighted(
    tables: DrawnTables, targets: Family, evidence: Evidence, draws: slice, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], Reals]:
    """Cells of the targets' joint table, and log weights, both with axes (draw, sample)."""
    network = tables.network
    needed = ancestors(network, [*targets, *evidence.levels, *evidence.weights], evidence.do)
    size = len(range(*draws.indices(len(tables))))
    codes: dict[str, npt.NDArray[np.intp]] = {}
    weights = np.zeros((size, count))
    for name in (one for one in network.order if one in needed):
        if name in evidence.do:
            codes[name] = np.full((size, count), evidence.do[name], np.intp)
            continue
        table, place = tables.tables[name][draws], np.arange(size)[:, None]
        parents = tuple(codes[parent] for parent in network.parents[name])
        with np.errstate(divide="ignore"):
            if name in evidence.levels:
                level = evidence.levels[name]
                codes[name] = np.full((size, count), level, np.intp)
                weights += np.log(table[(place, level, *parents)])
                continue
            codes[name] = levels_drawn(table, place, parents, rng.random((size, count)))
            if name in evidence.weights:
                weights += np.log(np.array(evidence.weights[name]))[codes[name]]
    cells = np.zeros((size, count), np.intp)
    for name in targets:
        cells = cells * network.domain.sizes[name] + codes[name]
    return cells, weights


def levels_drawn(
    table: Reals, place: npt.NDArray[np.intp], parents: tuple[npt.NDArray[np.intp], ...], uniform: Reals
) -> npt.NDArray[np.intp]:
    """A level for each sample given its parents' levels, by its uniform number."""
    code = np.zeros(uniform.shape, np.intp)
    for threshold in np.moveaxis(level_thresholds(table, 1), 1, 0):
        code += uniform >= threshold[(place, *parents)]
    return code
