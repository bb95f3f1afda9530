"""The sensitivity of a network's log likelihood to one row, by the Lipschitz calculus of Zhang et al. 2016, section 4.

Where every probability is at least ``floor``, ln p(x | theta) moves by at most ln((1 - (K - 1) floor) / floor) per
variable with K levels, and by the sum over the variables in all (Lemma 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.network import Network


def check_floor(network: Network, floor: float) -> None:
    """Refuses a floor that is too large for a variable's number of levels.

    Raises:
        ReleaseError: Naming the variable, if floor times its number of levels is 1 or more.
    """
    for name, levels in network.domain.sizes.items():
        if levels > 1 and levels * floor >= 1:
            raise ReleaseError(
                f"floor {floor:g} is too large: {name!r} has {levels} levels, so it must be below 1/{levels}"
            )


def lipschitz_constant(network: Network, floor: float) -> float:
    """The largest |ln p(x | theta) - ln p(x' | theta)| over rows x, x' and tables bounded below.

    Zhang et al. 2016, Lemma 2.

    Exact: attained where every variable differs. A draw from the posterior truncated at the floor, with the
    likelihood raised to 1 / T, is (2 L / T)-DP under replace and (L / T)-DP under add/remove, where ln p(x | theta)
    alone ranges over an interval of length L (proofs.md P38).

    Args:
        network: The DAG over its declared domain.
        floor: The smallest probability of any level in any row, above 0.

    Raises:
        ReleaseError: If the floor is too large for a variable.

    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> round(lipschitz_constant(network, 0.01), 3)
    9.19
    """
    if not 0 < floor < 1:
        raise ReleaseError(f"floor must be above 0 and below 1; got {floor!r}")
    check_floor(network, floor)
    return sum(
        math.log1p(-(levels - 1) * floor) - math.log(floor) for levels in network.domain.sizes.values() if levels > 1
    )


def lipschitz_failure_bound(
    rates: Sequence[float],
    level: float,
    *,
    offsets: Sequence[float] | None = None,
    split: Literal["optimal", "equal"] = "optimal",
) -> float:
    """A bound on the prior probability that a network is not L-Lipschitz (Zhang et al. 2016, Lemma 3).

    Variable i is not L_i-Lipschitz with probability at most exp(-c_i (L_i - o_i)) for L_i >= o_i (Assumption 2), and
    the network is L-Lipschitz where the L_i sum to L. ``"equal"`` is the paper's L_i = L / V, at most
    exp(-(min c / V - ln V / L) L); ``"optimal"`` is L_i = o_i + (L - sum o) / (c_i sum 1/c), which gives
    V exp(-(L - sum o) / sum 1/c).

    Args:
        rates: c_i of every variable, above 0.
        level: L.
        offsets: o_i of every variable; 0 unless given.
        split: How L is shared among the variables.

    Returns:
        A probability; 1 where the bound says nothing.

    >>> round(lipschitz_failure_bound([1.0, 1.0], 20.0), 6)
    9.1e-05
    """
    starts = [0.0] * len(rates) if offsets is None else list(offsets)
    if not rates or len(starts) != len(rates) or not all(0 < rate < math.inf for rate in rates):
        raise ReleaseError("lipschitz_failure_bound needs a rate above 0, and an offset, for every variable")
    if split not in ("optimal", "equal"):
        raise ReleaseError(f"split must be 'optimal' or 'equal'; got {split!r}")
    if split == "optimal":
        spare = level - sum(starts)
        failure = len(rates) * math.exp(-max(0.0, spare) / sum(1 / rate for rate in rates))
    else:
        share = level / len(rates)
        failure = sum(math.exp(-rate * max(0.0, share - start)) for rate, start in zip(rates, starts, strict=True))
    return min(1.0, failure)


def stochastic_lipschitz_bound(rate: float, offset: float, peak: float, distance: float) -> float:
    """A bound on how much the probability of any event changes under an untruncated posterior: sqrt(C (L0 + 1/c) rho).

    It replaces the constants of Zhang et al. 2016, Theorem 4 (2), which the text lost; derived in proofs.md P39 from
    KL <= 2 C (L0 + 1/c) rho and Pinsker. It is not a privacy guarantee to rely on, and no mechanism here offers it:
    it is (0, delta) with delta the result, C grows like the square root of the number of rows, and for data sets of
    any use the bound is 1. A delta of this size allows a row to be published outright now and then.

    Args:
        rate: c of Assumption 2: the prior mass of parameters that are not L-Lipschitz is at most exp(-c (L - L0)).
        offset: L0 of Assumption 2.
        peak: C, the largest ratio of the maximum likelihood to the marginal likelihood over data sets, at least 1.
        distance: rho, the distance between the two data sets: the number of rows that differ.

    Returns:
        A bound on the total variation distance of the two posteriors, at most 1.

    >>> stochastic_lipschitz_bound(rate=1.0, offset=0.7, peak=10.0, distance=1)
    1.0
    """
    if not (0 < rate < math.inf and 0 <= offset < math.inf and 1 <= peak < math.inf and 0 <= distance < math.inf):
        raise ReleaseError("the bound needs rate > 0, offset >= 0, peak >= 1 and distance >= 0, all finite")
    return min(1.0, math.sqrt(peak * (offset + 1 / rate) * distance))
