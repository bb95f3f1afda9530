"""A question, checked against the domain: the target, the evidence by levels and by weights, the interventions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from dpgraph.structure.domain import DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

Weights = tuple[float, ...]


@dataclass(frozen=True)
class Evidence:
    """Evidence and interventions, by positions of levels.

    ``levels`` has variables observed at one level; ``weights`` a weight for each level of others, the largest 1, the
    levels of a set having weight 1; ``do`` variables set from outside, which no longer depend on their parents.
    """

    levels: FrozenMap[str, int]
    weights: FrozenMap[str, Weights]
    do: FrozenMap[str, int]


def read_evidence(
    network: Network, given: Mapping[str, Any] | None = None, do: Mapping[str, Any] | None = None
) -> Evidence:
    """Evidence by the names of variables: a level, a collection of levels, or a weight for each level.

    Weights are proportional to the probability of the observation at each level; levels without one have weight 0.
    """
    levels: dict[str, int] = {}
    weights: dict[str, Weights] = {}
    for name, value in _mapping("given", given).items():
        found = _weights(network, name, value)
        if sum(weight > 0 for weight in found) == 1:
            levels[name] = found.index(1.0)
        elif set(found) != {1.0}:
            weights[name] = found
    fixed: dict[str, int] = {}
    for name, value in _mapping("do", do).items():
        if isinstance(value, Mapping) or _is_collection(value):
            raise DomainError(f"do sets {name!r} to one level; got {value!r:.60}")
        fixed[name] = network.domain.code(name, value)
    both = [name for name in fixed if name in (given or {})]
    if both:
        raise DomainError(f"{both[0]!r} is both given and set by do; leave it out of one of them")
    return Evidence(FrozenMap(levels), FrozenMap(weights), FrozenMap(fixed))


def check_targets(
    network: Network, targets: Iterable[str], evidence: Evidence, given: Mapping[str, Any] | None
) -> None:
    """Refuses targets that are unknown, repeated, in the evidence, or set by ``do``."""
    names = list(targets)
    if not names:
        raise DomainError("the target is empty; name a variable, several, or an event")
    for name in names:
        network.domain[name]
        if name in evidence.do:
            raise DomainError(f"{name!r} is both asked for and set by do; ask for another variable")
        if name in evidence.levels or name in evidence.weights or name in (given or {}):
            raise DomainError(f"{name!r} is both asked for and given; leave it out of one of them")
    if len(set(names)) < len(names):
        raise DomainError(f"{next(name for name in names if names.count(name) > 1)!r} is asked for twice")


def evidence_words(given: Mapping[str, Any] | None, do: Mapping[str, Any] | None) -> str:
    """Evidence and interventions as a question shows them."""
    parts = [_words(name, value) for name, value in (given or {}).items()]
    if do:
        parts.append("do(" + ", ".join(f"{name}={level}" for name, level in do.items()) + ")")
    return ", ".join(parts)


def _words(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{name}~" + "/".join(f"{level}:{weight:g}" for level, weight in value.items())
    if _is_collection(value):
        return f"{name} in " + "/".join(map(str, value))
    return f"{name}={value}"


def _mapping(argument: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DomainError(f"{argument} must be a mapping from variables to levels; got {type(value).__name__}")
    return value


def _is_collection(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _weights(network: Network, name: str, value: Any) -> Weights:
    size = network.domain[name].size
    found = [0.0] * size
    if isinstance(value, Mapping):
        for level, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
                raise DomainError(f"the weights of {name!r} must be finite numbers of at least 0; got {weight!r:.60}")
            found[network.domain.code(name, level)] += float(weight)
        if not any(found):
            raise DomainError(f"the weights of {name!r} are all 0; give at least one level a weight above 0")
    else:
        for level in value if _is_collection(value) else [value]:
            found[network.domain.code(name, level)] = 1.0
        if not any(found):
            raise DomainError(f"no level of {name!r} is given; name at least one, or leave it out")
    return tuple(weight / max(found) for weight in found)
