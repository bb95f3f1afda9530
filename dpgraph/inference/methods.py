"""How a posterior is drawn: one frozen value for each method, which holds its settings.

``posterior`` takes such a value, or a name that stands for one with its defaults; each kind of release has its methods.

>>> Records(chains=4).burn_in
500
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpgraph.inference.arguments import check_above_zero, check_whole_number
from dpgraph.privacy.checks import check_choice, near
from dpgraph.privacy.display import short
from dpgraph.privacy.errors import InferenceError

__all__ = ["Exact", "Gibbs", "Hamiltonian", "Normal", "PlugIn", "Quadrature", "Records", "Tables"]


#: What ``PlugIn`` may take for the true counts of a network.
PLUGGED = ("nearest", "expected", "clipped")


@dataclass(frozen=True)
class Records:
    """Of a network: the exact joint posterior, by Markov chains on the unseen rows; ``"records"``.

    Attributes:
        chains: Independent chains, compared by R-hat.
        burn_in: Sweeps of each chain before its first draw.
        passes: Moves in a sweep of each row of a table together with its records; 0 mixes badly where epsilon is small.
        thin: Sweeps for each draw.
        seconds: Chains end after so many seconds with the draws that they have, at least four of each; how many these
            are depends on the machine. None: they never end by themselves.

    Raises:
        InferenceError: If a number is not whole, or too small.
    """

    chains: int = 2
    burn_in: int = 500
    passes: int = 2
    thin: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_above_zero("seconds", self.seconds)
        for name, least in (("chains", 1), ("burn_in", 0), ("passes", 0), ("thin", 1)):
            check_whole_number(name, getattr(self, name), least)


@dataclass(frozen=True)
class Tables:
    """Of a network: draws table by table, given all noisy margins inside each; ``"tables"``."""


@dataclass(frozen=True)
class Normal:
    """Of a network: independent joint draws, the noise taken as normal; ``"normal"``.

    Attributes:
        shrink: True learns the sizes of interactions from the release: interactions within their noise vanish.
    """

    shrink: bool = False


@dataclass(frozen=True)
class Exact:
    """Of a binomial or multinomial family: independent exact draws; ``"exact"``."""


@dataclass(frozen=True)
class Quadrature:
    """Of a family with one parameter and a public n: independent draws from a density on a grid; ``"quadrature"``."""


@dataclass(frozen=True)
class Gibbs:
    """Of any exponential family: sixteen Markov chains of the parameters and the unseen sums; ``"gibbs"``.

    Attributes:
        burn_in: Iterations of each chain before its first draw.
        thin: Iterations for each draw.

    Raises:
        InferenceError: If a number is not whole, or too small.
    """

    burn_in: int = 1000
    thin: int = 20

    def __post_init__(self) -> None:
        check_whole_number("burn_in", self.burn_in, 0)
        check_whole_number("thin", self.thin, 1)


@dataclass(frozen=True)
class Hamiltonian:
    """Of a linear regression: eight Markov chains of the unseen sums of products; ``"hamiltonian"``.

    Chains go on until they have mixed, up to eight times the draws asked for, before they warn.

    Attributes:
        burn_in: Iterations of each chain before its first draw.
        thin: Iterations for each draw.

    Raises:
        InferenceError: If a number is not whole, or too small.
    """

    burn_in: int = 300
    thin: int = 1

    def __post_init__(self) -> None:
        check_whole_number("burn_in", self.burn_in, 0)
        check_whole_number("thin", self.thin, 1)


@dataclass(frozen=True)
class PlugIn:
    """Of any release: the released numbers taken as exact; ``"plug-in"``.

    Instant and overconfident, as the noise is not in it. Of a network it is Dirichlet laws in closed form, of an
    exponential family or a regression the nearest possible sums.

    Attributes:
        counts: Of a network, what stands for the true counts. ``"nearest"``: the nearest consistent tables that are not
            negative; best for margins and synthetic rows, but a rare cell often becomes 0. ``"expected"``: interactions
            within their noise are shrunk away, and each cell is its expected count given the estimate, its noise
            variance and that counts are not negative; best where ratios matter, as in classification. ``"clipped"``:
            each table cut to [0, n] by itself, as in Zhang et al. 2016; of a single release only.

    Raises:
        InferenceError: If ``counts`` is none of these.
    """

    counts: str = "nearest"

    def __post_init__(self) -> None:
        check_choice("counts", self.counts, PLUGGED, error=InferenceError)


@dataclass(frozen=True)
class Automatic:
    """The method that suits the release, and says why in ``reason``; ``"auto"``. ``records`` has settings of chains."""

    records: Records = field(default_factory=Records)


def chosen_method(method: Any, known: Mapping[str, Any]) -> Any:
    """The method asked for by value or by name; ``known`` has the default value of each of the release's methods."""
    if isinstance(method, str) and method in known:
        return known[method]
    if type(method) in map(type, known.values()):
        return method
    values = ", ".join(f"{name!r}" for name in known)
    raise InferenceError(
        f"method must be one of {values}, or such a method with its settings; got {short(method)}{near(method, known)}"
    )


def method_name(method: Any, known: Mapping[str, Any]) -> str:
    """The name of a method that ``known`` holds."""
    return next(name for name, value in known.items() if type(value) is type(method))
