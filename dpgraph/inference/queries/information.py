"""Entropy and mutual information, in nats, draw by draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.queries.answer import Answer
from dpgraph.inference.queries.asking import joint_of
from dpgraph.inference.queries.question import check_targets, evidence_words, read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.structure.tables import Reals


def entropy(
    model: Any,
    variables: str | Sequence[str],
    given: Mapping[str, Any] | None = None,
    *,
    interval: float = 0.9,
) -> Answer:
    """The entropy of one variable, or of several together, given evidence: -sum p ln p, in nats.

    Args:
        model: As for ``query``.
        variables: A variable, or several.
        given: Evidence, as for ``query``.
        interval: The probability of the intervals.

    Raises:
        DomainError, InferenceError: As for ``query``.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> coin = Probabilities(Network.of({"coin": ["h", "t"]}, {}), {"coin": [0.5, 0.5]})
    >>> entropy(coin, "coin")
    H(coin) = 0.693
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
    just above 0 is no proof of dependence.

    Args:
        model: As for ``query``.
        first: A variable, or several.
        second: Others.
        given: Evidence, as for ``query``.
        interval: The probability of the intervals.

    Raises:
        DomainError, InferenceError: As for ``query``.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
    >>> copies = Probabilities(network, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]})
    >>> mutual_information(copies, "a", "b")
    I(a; b) = 0.693
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
    """-sum p ln p over all axes but the first."""
    from scipy.special import entr

    return entr(joint).reshape(len(joint), -1).sum(axis=1)


def _measure(question: str, draws: Reals, interval: float, note: str) -> Answer:
    return Answer(question, ("event",), ((question,),), draws[:, None], None, interval, note=note)
