"""Several releases read by one method: the values of the verbs, and residuals estimated from all (proofs.md P75).

Each release estimates a residual block R_A with an error of known variance, independent of the others'. Of the same
rows they estimate one number, and the best linear estimate is their inverse-variance average; of different rows each
has its own, and estimates and variances of the sum add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, joint_release, released_value
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.joint import JointCounts, PooledCounts, Several, learning
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCounts, Reals

#: The estimate of every residual block, and the variance of each of its coordinates.
Estimates = Mapping[Family, tuple[Reals, float]]


def read_released(noisy: Any, network: Network | None) -> tuple[Any, Provenance | None]:
    """The value to learn from and its record: of a release, or of a list of releases of the same rows.

    ``network`` is the one to learn, None the one that was released.
    """
    together = joint_release(noisy) if isinstance(noisy, list | tuple) else noisy
    value, provenance = released_value(together)
    if network is not None:
        value = learning(value, network)
    if isinstance(value, JointCounts | PooledCounts) and value.network is None:
        raise NetworkError("these releases are of different networks; name the one to learn, network=")
    return value, provenance


def check_graph(value: Any) -> None:
    """Refuses tables without a graph where one is needed: every variable would be independent of every other."""
    if isinstance(getattr(value, "network", None), Margins):
        named = ", or give network=, --network of a command" if isinstance(value, NoisyCounts | Several) else ""
        raise InferenceError(
            "these are tables without a graph, in which nothing depends on anything; choose one first: "
            f"dg.choose_network(release), of a release of counts or coefficients{named}"
        )


def measured_tables(noisy: NoisyCounts | JointCounts) -> tuple[dict[Family, Reals], dict[Family, float]]:
    """The measured tables, and the variance of their noise along any direction that sums to zero.

    A table of several releases is their inverse-variance average, which loses nothing for least squares (proofs.md
    P75).
    """
    parts: Any = noisy.parts if isinstance(noisy, JointCounts) else (noisy,)
    each = [
        {k: (t.astype(float), part.laws[k].contrast_variance(t.size)) for k, t in part.tables.items()} for part in parts
    ]
    found = joint_estimates(each, None)
    return {key: mean for key, (mean, _) in found.items()}, {key: spread for key, (_, spread) in found.items()}


def joint_estimates(parts: Iterable[Estimates], n: int | None) -> dict[Family, tuple[Reals, float]]:
    """The inverse-variance average of each residual block from releases of the same rows; exact ones win, as does n."""
    met: dict[Family, list[tuple[Reals, float]]] = {}
    for part in parts:
        for block, estimate in part.items():
            met.setdefault(block, []).append(estimate)
    found: dict[Family, tuple[Reals, float]] = {}
    for block, mine in met.items():
        weights = [1 / max(spread, 1e-300) for _, spread in mine]
        total = sum(weights)
        mean = sum((weight / total * values for weight, (values, _) in zip(weights, mine, strict=True)), np.zeros(()))
        exact = any(spread == 0 for _, spread in mine)
        found[block] = mine[0] if len(mine) == 1 else (np.asarray(mean), 0.0 if exact else 1 / total)
    return found if n is None else found | {(): (np.array(float(n)), 0.0)}


def pooled_estimates(parts: Sequence[Estimates]) -> dict[Family, tuple[Reals, float]]:
    """The estimate of each residual block of all rows together from releases of different rows: sums."""
    return {
        block: (np.asarray(sum(part[block][0] for part in parts)), sum(part[block][1] for part in parts))
        for block in parts[0]
    }
