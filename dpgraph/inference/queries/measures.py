"""Numbers that are read off answers, draw by draw: contrasts, expectations and quantiles, entropy and information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.asking import Method, joint_of, query
from dpgraph.inference.queries.question import check_targets, evidence_words, read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.domain import Bins, Domain, DomainError
from dpgraph.structure.tables import Reals

MEASURES = ("difference", "ratio", "odds ratio")


def contrast(
    model: Any,
    target: Any,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    *,
    by: Literal["given", "do"] = "given",
    given: Mapping[str, Any] | None = None,
    do: Mapping[str, Any] | None = None,
    interval: float = 0.9,
    method: Method = "auto",
) -> Answer:
    """The difference, the ratio and the odds ratio of P(target | first) and P(target | second), draw by draw.

    Both probabilities are computed in the same draw, so their common error cancels: the interval of a difference is
    narrower than that of two independent answers.

    Args:
        model: As for ``query``.
        target: As for ``query``: a variable, several, or an event.
        first: Evidence, as ``given`` of ``query``, or an intervention.
        second: The evidence to compare with, in the denominator of ratios.
        by: ``"do"`` if ``first`` and ``second`` are interventions; ``query`` says when a DAG is causal.
        given: Further evidence of both.
        do: Further interventions of both.
        interval: The probability of the intervals.
        method: As for ``query``.

    Returns:
        An ``Answer`` with an entry for each measure and each entry of the target. A ratio with nothing below it is
        infinite, or no number.

    Raises:
        InferenceError: If ``by`` is neither, or as for ``query``.
        DomainError: As for ``query``; where ``first`` or ``second`` repeats what both are given.

    >>> import dpgraph as dg
    >>> model = dg.load("example:asia")
    >>> contrast(model, {"lung": "yes"}, {"smoke": "yes"}, {"smoke": "no"})
    P(lung=yes): smoke=yes against smoke=no = difference 0.09, ratio 10, odds ratio 11
    """
    if by not in ("given", "do"):
        raise InferenceError(f"by must be 'given' or 'do'; got {by!r:.60}")
    for name, one in (("first", first), ("second", second)):
        if not isinstance(one, Mapping):
            raise DomainError(f"{name} must be a mapping from variables to levels, as given of query; got {one!r:.60}")
    tables = drawn_tables(model)
    answers = []
    for one in (first, second):
        for name in one:
            if name in (given or {}) or name in (do or {}):
                raise InferenceError(f"{name!r} is both compared and held fixed; leave it out of given and do")
        evidence = {**(given or {}), **one} if by == "given" else given
        set_to = {**(do or {}), **one} if by == "do" else do
        answers.append(query(tables, target, evidence, do=set_to, interval=interval, method=method))
    above, below = (answer.draws for answer in answers)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = [p / (1 - p) for p in (above, below)]
        measures = (above - below, above / below, odds[0] / odds[1])
    event = answers[0].columns == ("event",)
    labels = [() if event else label for label in answers[0].labels]
    words = [evidence_words(*((one, None) if by == "given" else (None, one))) for one in (first, second)]
    subject = answers[0].labels[0][0] if event else ", ".join(answers[0].columns)
    shared = evidence_words(given, do)
    return Answer(
        question=f"P({subject}{' | ' + shared if shared else ''}): {words[0]} against {words[1]}",
        columns=("measure", *(() if event else answers[0].columns)),
        labels=tuple((measure, *label) for measure in MEASURES for label in labels),
        draws=np.concatenate(measures, axis=1),
        predictive=None,
        interval=interval,
        method=method if method == "sampling" else "exact",
        effective_size=None if method == "auto" else min(answer.effective_size or 0.0 for answer in answers),
        note=tables.note,
    )


def expectation(
    model: Any,
    variable: str,
    given: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    quantiles: Sequence[float] = (),
    values: Mapping[Any, float] | None = None,
    interval: float = 0.9,
    method: Method = "auto",
) -> Answer:
    """The mean and the standard deviation of a variable given evidence, and its quantiles, draw by draw.

    A bin's rows are taken as spread evenly over its numbers (``Bins``): the whole ones of ``"20-40"`` are 20 to 39,
    their mean is 29.5, and quantiles are among them; of others the mean is the midpoint; quantiles are interpolated.
    Values that were counted in the end bins from outside are taken as inside them. A level ``"missing"`` of
    bins is left out: the numbers are given that there is a value.

    Args:
        model: As for ``query``.
        variable: Bins, or levels that are numbers or booleans (0 and 1).
        given: Evidence, as for ``query``.
        do: Interventions, as for ``query``.
        quantiles: Probabilities strictly between 0 and 1.
        values: The number of each level, for levels that are not numbers, or instead of them; levels without one are
            left out.
        interval: The probability of the intervals.
        method: As for ``query``.

    Returns:
        An ``Answer`` with the entries ``"mean"``, ``"sd"`` and one for each quantile, in the variable's own units.

    Raises:
        InferenceError: If the levels are not numbers and no values are given, or as for ``query``.
        DomainError: As for ``query``; if a value is of no level.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"age": Bins([20, 40, 80], whole=False)}, {})
    >>> expectation(Probabilities(network, {"age": [0.5, 0.5]}), "age", quantiles=[0.75])
    age = mean 45, sd 17.6, quantile 0.75 60
    """
    tables = drawn_tables(model)
    wanted = [check_probability("quantiles", one) for one in quantiles]
    if not isinstance(variable, str):
        raise InferenceError(f"an expectation is of one variable, by its name; got {variable!r:.60}")
    positions, low, high, step = scale(tables.network.domain, variable, values)
    answer = query(tables, variable, given, do=do, interval=interval, method=method)
    weights = answer.draws[:, positions]
    total = weights.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        raise InferenceError(f"{variable!r} is missing with probability 1 in some draws, so it has no mean there")
    weights = weights / total
    middle, variance = (low + high) / 2, ((high - low + step) ** 2 - step**2) / 12
    mean = weights @ middle
    deviation = np.sqrt(np.maximum(weights @ (middle**2 + variance) - mean**2, 0))
    columns = [mean, deviation, *(_quantile(weights, low, high, step, one) for one in wanted)]
    known = evidence_words(given, do)
    return Answer(
        question=f"{variable} | {known}" if known else variable,
        columns=("measure",),
        labels=(("mean",), ("sd",), *((f"quantile {one:g}",) for one in wanted)),
        draws=np.stack(columns, axis=1),
        predictive=None,
        interval=interval,
        method=answer.method,
        effective_size=answer.effective_size,
        note=answer.note,
    )


def scale(domain: Domain, name: str, values: Mapping[Any, float] | None) -> tuple[Any, Reals, Reals, int]:
    """The levels that stand for numbers, in increasing order, each spread evenly from its low to its high number.

    The last is the step between a level's numbers: 1 where they are whole, else 0.
    """
    variable = domain[name]
    if values is not None:
        numbers = {domain.code(name, level): value for level, value in values.items()}
        if not numbers or any(isinstance(v, bool) or not isinstance(v, Real) for v in numbers.values()):
            raise InferenceError("values must map levels to numbers, at least one")
        ordered = sorted(numbers, key=lambda code: float(numbers[code]))
        points = np.array([float(numbers[code]) for code in ordered])
        return np.array(ordered), points, points, 0
    if isinstance(variable, Bins):
        low, high = np.array(variable.spans, float).T
        return np.arange(len(low)), low, high, int(variable.whole)
    if variable.kind == "text":
        raise InferenceError(
            f"the levels of {name!r} are not numbers; give the number of each with values={{level: number}}"
        )
    points = np.array([float(level) for level in variable.levels])
    order = np.argsort(points)
    return order, points[order], points[order], 0


def _quantile(weights: Reals, low: Reals, high: Reals, step: int, probability: float) -> Reals:
    """The least number that at least this probability lies at or below, bins taken as even, of each draw."""
    below = np.cumsum(weights, axis=1)
    place = np.minimum((below < probability - 1e-12).sum(axis=1), weights.shape[1] - 1)
    rows = np.arange(len(weights))
    inside = weights[rows, place]
    share = (probability - (below[rows, place] - inside)) / np.where(inside > 0, inside, 1.0)
    inside, width = np.clip(share, 0, 1), (high - low)[place]
    return low[place] + (np.maximum(np.ceil(inside * (width + 1) - 1e-9) - 1, 0) if step else inside * width)


def entropy(
    model: Any, variables: str | Sequence[str], given: Mapping[str, Any] | None = None, *, interval: float = 0.9
) -> Answer:
    """The entropy of one variable, or of several together, given evidence: -sum p ln p, in nats.

    Args:
        model: As for ``query``.
        variables: A variable, or several.
        given: Evidence, as for ``query``.
        interval: The probability of the intervals.

    Raises:
        DomainError, InferenceError: As for ``query``.

    >>> import dpgraph as dg
    >>> entropy(dg.load("example:asia"), "smoke")
    H(smoke) = 0.693
    """
    names, tables = _several(variables), drawn_tables(model)
    joint = _joint(tables, names, given, interval)
    return _measure(f"H({', '.join(names)}{_known(given)})", _entropy(joint), interval, tables.note)


def mutual_information(
    model: Any,
    first: str | Sequence[str],
    second: str | Sequence[str],
    given: Mapping[str, Any] | None = None,
    *,
    interval: float = 0.9,
) -> Answer:
    """How much two variables, or sets of them, tell of each other given evidence: H(first) + H(second) - H(both).

    It is never below 0, so its posterior leans upwards where the two are nearly independent: an interval that starts
    just above 0 does not prove dependence.

    Args:
        model: As for ``query``.
        first: A variable, or several.
        second: Others.
        given: Evidence, as for ``query``.
        interval: The probability of the intervals.

    Raises:
        DomainError, InferenceError: As for ``query``.

    >>> import dpgraph as dg
    >>> mutual_information(dg.load("example:asia"), "smoke", "bronc")
    I(smoke; bronc) = 0.0462
    """
    one, other, tables = _several(first), _several(second), drawn_tables(model)
    joint = _joint(tables, (*one, *other), given, interval)
    split, end = len(one) + 1, joint.ndim
    found = _entropy(joint.sum(axis=tuple(range(split, end)))) + _entropy(joint.sum(axis=tuple(range(1, split))))
    question, draws = f"I({', '.join(one)}; {', '.join(other)}{_known(given)})", np.maximum(found - _entropy(joint), 0)
    return _measure(question, draws, interval, tables.note)


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _known(given: Mapping[str, Any] | None) -> str:
    words = evidence_words(given, None)
    return f" | {words}" if words else ""


def _joint(tables: DrawnTables, names: tuple[str, ...], given: Mapping[str, Any] | None, interval: float) -> Reals:
    """P(names | given), axes (draw, *names)."""
    check_probability("interval", interval)
    evidence = read_evidence(tables.network, given)
    check_targets(tables.network, names, evidence, given)
    return joint_of(tables, names, evidence)[0]


def _entropy(joint: Reals) -> Reals:
    from scipy.special import entr

    return entr(joint).reshape(len(joint), -1).sum(axis=1)


def _measure(question: str, draws: Reals, interval: float, note: str) -> Answer:
    return Answer(question, ("event",), ((question,),), draws[:, None], None, interval, note=note)
