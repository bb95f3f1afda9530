"""How far two pieces of evidence, or two interventions, move a probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.asking import Method, query
from dpgraph.inference.queries.question import evidence_words
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.domain import DomainError

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

    Both probabilities are computed in the same draw, so what they share cancels: the interval of a difference is not
    that of two independent answers.

    Args:
        model: As for ``query``.
        target: As for ``query``: a variable, several, or an event.
        first: Evidence, as ``given`` of ``query``, or an intervention.
        second: What it is compared with; ratios have it below.
        by: ``"do"`` if ``first`` and ``second`` are interventions; what a DAG must mean then is in ``query``.
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

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> model = Probabilities(network, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]})
    >>> contrast(model, {"wet": "yes"}, {"rain": "yes"}, {"rain": "no"})
    P(wet=yes): rain=yes against rain=no = difference 0.8, ratio 9, odds ratio 81
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
