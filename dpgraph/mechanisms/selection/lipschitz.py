"""The sensitivity of a network's log likelihood to one row, by the Lipschitz calculus of Zhang et al. 2016, section 4.

Where every probability is at least ``floor``, ln p(x | theta) moves by at most ln((1 - (K - 1) floor) / floor) per
variable with K levels, and by the sum over the variables in all (Lemma 2).
"""

from __future__ import annotations

import math

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.network import Network


def check_floor(network: Network, floor: float) -> None:
    """Refuses a floor that is too large for a variable's number of levels."""
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
