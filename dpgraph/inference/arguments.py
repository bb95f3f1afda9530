"""Checks of arguments that every method of inference takes; each refuses by an ``InferenceError`` with the bound."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.network import Network


def check_whole_number(name: str, value: object, least: int) -> None:
    """Refuses a value that is not a whole number of at least ``least``; true and false are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InferenceError(f"{name} must be a whole number, at least {least}; got {value!r:.60}")


def check_probability(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InferenceError(f"{name} must be a probability between 0 and 1; got {value!r:.60}")
    return float(value)


def check_above_zero(name: str, value: object, *, infinite: bool = False) -> None:
    """Refuses a value that is not a number above 0, or infinite where that is not allowed."""
    wanted = "a number" if infinite else "a finite number"
    good = not isinstance(value, bool) and isinstance(value, int | float) and value > 0
    if not good or (value == math.inf and not infinite):
        raise InferenceError(f"{name} must be {wanted} above 0; got {value!r:.60}")


def generator(rng: object, name: str = "rng") -> np.random.Generator:
    """Randomness for post-processing: a generator as it is, or a new one of a seed; ``name`` is the argument's."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InferenceError(
            f"{name} must be a numpy Generator, such as np.random.default_rng(), or a seed, a whole number of at "
            f"least 0; got {type(rng).__name__}"
        )
    return np.random.default_rng(int(rng))


def seeded(seed: object) -> np.random.Generator:
    """Randomness of ``seed=``: a new generator where there is none."""
    return np.random.default_rng() if seed is None else generator(seed, "seed")


def tails(probability: float) -> tuple[float, float]:
    """The probabilities below the two ends of a central interval."""
    tail = (1 - check_probability("probability", probability)) / 2
    return tail, 1 - tail


def check_no_rules(network: Network, what: str, advice: str = "") -> None:
    """Refuses a network with rules where they would not be kept, and says what to do."""
    if network.rules:
        instead = advice or "dg.posterior(release) does, by method 'records'; then ask it or its mean"
        raise InferenceError(f"{what} does not keep the network's rules: {instead}")
