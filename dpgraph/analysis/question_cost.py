"""How wide the interval of one answer will be at each epsilon, before any data: by simulated releases.

Rows are drawn from a public network's own probabilities, or from uniform ones, counted, released and learned from as
real rows would be. Nothing private is read, and the budget of each simulated release is made for it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.network.evidence import contingency_table
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.inference.posterior import noise_aware_posterior
from dpgraph.inference.queries.asking import query
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.privacy.release import release
from dpgraph.statistics.counts import count
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    import pandas as pd

#: Epsilons that are tried, as multiples of the one asked about.
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
#: Simulated releases for each epsilon, and draws of each posterior.
WORLDS, DRAWS = 8, 300
#: What a question may set.
SETTINGS = {"target", "given", "do", "interval"}


def question_widths(
    network: Network | Probabilities, question: Mapping[str, Any], *, epsilon: Fraction, n: int, unit: PrivacyUnit
) -> pd.DataFrame:
    """The expected width of the widest interval of an answer.

    Args:
        network: As for ``privacy_cost``.
        question: ``target``, and ``given``, ``do`` and ``interval`` if need be, as for ``query``.
        epsilon: Widths are of a quarter of it to four times it, by ``LaplaceMechanism``.
        n: How many rows there are supposed to be.
        unit: Whom to protect.

    Returns:
        A row for each epsilon: ``width`` from the noise-aware posterior, its standard error ``se`` over 8 simulated
        releases, and ``without noise``, the width that the exact counts of the same rows give: what n alone costs.

    Raises:
        ReleaseError: If the question has no target, or a setting that is not known.
        DomainError, InferenceError: As for ``query``.
    """
    import pandas as pd

    if "target" not in question or set(question) - SETTINGS:
        raise ReleaseError(
            f"a question has a target, and may have given, do, interval; got {sorted(map(str, question))}"
        )
    truth = network if isinstance(network, Probabilities) else _uniform(network)
    query(truth, **question)
    rng, rows = np.random.default_rng(0), []
    exact, found = [], {factor: [] for factor in FACTORS}
    for _ in range(WORLDS):
        codes = sample_codes(truth, n, rng)
        exact.append(_width(_learned_exactly(truth.network, codes), question))
        frame = pd.DataFrame(
            {name: pd.Categorical.from_codes(codes[name], list(truth.network.domain.levels(name))) for name in codes}
        )
        counts = count(frame, truth.network)
        for factor in FACTORS:
            spent = epsilon * factor
            made = release(counts, LaplaceMechanism(spent), budget=Budget(spent, unit=unit))
            found[factor].append(_width(noise_aware_posterior(made, method="tables", draws=DRAWS, seed=rng), question))
    for factor, widths in found.items():
        error = float(np.std(widths, ddof=1) / np.sqrt(WORLDS))
        numbers = {"width": float(np.mean(widths)), "se": error, "without noise": float(np.mean(exact))}
        rows.append({"epsilon": float(epsilon * factor), "n": n, **numbers})
    return pd.DataFrame(rows)


def epsilon_needed(widths: pd.DataFrame, width: float) -> float:
    """The epsilon at which the expected width is the wanted one, between the simulated ones on a log scale.

    Args:
        widths: From ``question_widths``.
        width: The whole width of the interval: .04 for plus or minus two points.

    Raises:
        ReleaseError: If no simulated epsilon is as narrow, or all are: the message says what to change.
    """
    known = np.minimum.accumulate(widths["width"].to_numpy())
    if not known[-1] <= width <= known[0]:
        raise ReleaseError(
            f"widths go from {known[0]:.3g} at epsilon {widths['epsilon'].iloc[0]:g} to {known[-1]:.3g} at "
            f"{widths['epsilon'].iloc[-1]:g} ({widths['without noise'].iloc[0]:.3g} without noise); ask at another "
            "epsilon, suppose more rows, or accept another width"
        )
    logs = np.interp(np.log(width), np.log(known[::-1]), np.log(widths["epsilon"].to_numpy()[::-1]))
    return float(np.exp(logs))


def _width(model: Any, question: Mapping[str, Any]) -> float:
    answer = query(model, **question)
    return float((answer.high - answer.low).max())


def _uniform(network: Network) -> Probabilities:
    shapes = {name: network.shape(network.family(name)) for name in network.domain.names}
    return Probabilities(network, FrozenMap((name, np.full(shape, 1 / shape[0])) for name, shape in shapes.items()))


def _learned_exactly(network: Network, codes: Mapping[str, Any]) -> DirichletPosterior:
    """The posterior from exact counts of simulated rows."""
    whole = {name: column.astype(np.int64) for name, column in codes.items()}
    tables: dict[str, Any] = {
        name: 1.0 + contingency_table(whole, network.family(name), network.shape(network.family(name)))
        for name in network.domain.names
    }
    return DirichletPosterior(network, FrozenMap(tables))
