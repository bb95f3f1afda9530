"""The error bounds of Zhang, Rubinstein and Dimitrakakis 2016, and the exact values they bound.

The bounds of section 3.1 are about Algorithm 1: discrete Laplace noise of one scale on every family count, clipped to
[0, n]. None looks at data: counts are hypothetical, or noisy ones that are already public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.analysis.cost import PrivacyReport
from dpgraph.analysis.expected import expected_counts, expected_kl, log_gamma_divergence
from dpgraph.mechanisms.additive.fourier import FourierMechanism, theorem_3_bound
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.lattice import MapEstimate, lattice
from dpgraph.privacy.checks import Reals
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True)
class NoiseBound:
    """A bound on the error of all noisy counts of a release, which holds with probability 1 - delta (Proposition 1).

    ``exact`` is the smallest such whole number; ``union`` is the paper's union bound b ln(M / delta).
    """

    exact: int
    union: float


def count_error_bound(cells: int, scale: float, delta: float) -> NoiseBound:
    """A bound on the largest error of any noisy count, which holds with probability 1 - delta.

    Zhang et al. 2016, Proposition 1; the exact quantile stands beside the paper's union bound.

    Args:
        cells: M, the number of noisy counts.
        scale: b, the scale of the discrete Laplace noise; 2 |V| / epsilon in the paper.
        delta: The probability of exceeding the bound.

    >>> count_error_bound(cells=36, scale=16.0, delta=0.1)
    NoiseBound(exact=93, union=94.1776645032025)
    """
    if cells < 1 or not scale > 0 or not 0 < delta < 1:
        raise ReleaseError(
            f"count_error_bound needs cells >= 1, scale > 0 and 0 < delta < 1; got {cells}, {scale}, {delta}"
        )
    tail = -math.expm1(math.log1p(-delta) / cells)
    # P(|Z| > z) = 2 q^(z + 1) / (1 + q) <= tail, with q = exp(-1 / b).
    q = math.exp(-1 / scale)
    exact = math.ceil(-scale * math.log(tail * (1 + q) / 2) - 1 - 1e-12)
    return NoiseBound(max(0, exact), scale * math.log(cells / delta))


def dirichlet_divergence(one: Reals, other: Reals) -> float:
    """The Kullback-Leibler divergence KL(Dir(one) || Dir(other)) in nats (proofs.md P36)."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    return float(log_gamma_divergence(other, one).sum() - log_gamma_divergence(other.sum(), one.sum()))


def expected_divergence(counts: npt.ArrayLike, scale: float, n: int, prior: float = 1.0) -> float:
    """The mean of KL(Dir(prior + counts) || Dir(prior + noisy counts)) in nats, exact, for one parent configuration.

    The noisy counts are clipped to [0, n]. The sum over each cell's law needs one pass; the row total's law is the
    convolution of the cells' laws.

    Args:
        counts: Hypothetical counts of the levels.
        scale: The scale of the discrete Laplace noise.
        n: The clipping bound, the number of rows.
        prior: The Dirichlet concentration of every cell.
    """
    from scipy.signal import fftconvolve

    true = np.asarray(counts, dtype=np.int64)
    if true.ndim != 1 or true.min() < 0 or true.max() > n:
        raise ReleaseError("counts must be a list of whole numbers between 0 and n")
    support = np.arange(n + 1)
    law, total = np.ones(1), 0.0
    for count in true:
        mass = _clipped_mass(int(count), scale, n)
        total += float(mass @ log_gamma_divergence(prior + support, prior + count))
        law = fftconvolve(law, mass)
    whole = prior * len(true)
    sums = np.arange(len(law))
    return total - float(np.maximum(law, 0.0) @ log_gamma_divergence(whole + sums, whole + true.sum()))


@dataclass(frozen=True)
class DivergenceBound:
    """Theorem 1: bounds in nats on the divergence of the private posterior from the exact one.

    ``expectation`` bounds its mean and ``high_probability`` is not exceeded with probability 1 - delta.
    """

    expectation: float
    high_probability: float


def divergence_bound(network: Network, scale: float, n: int, delta: float, prior: float = 2.0) -> DivergenceBound:
    """The bound of Zhang et al. 2016, Theorem 1, as best its constants can be recovered (proofs.md P37, uncertain).

    It grows as n ln n while the truth falls as 1 / n, so it says nothing useful; ``expected_divergence`` is exact.
    """
    _check_theorem(scale, n, delta, prior, least=2.0)
    mean = spread = 0.0
    lead = min(float(n), scale + 0.5 * n * math.exp(-n / scale)) if n >= scale else float(n)
    for family in network.families:
        levels, rows = network.domain.sizes[family[0]], network.cells(family[1:])
        size = levels * math.log(prior + n + 1)
        mean += rows * lead * size
        spread += rows * levels * ((2 * n + 1) * size) ** 2
    return DivergenceBound(mean, mean + math.sqrt(0.5 * spread * math.log(1 / delta)))


def corrected_divergence_bound(
    network: Network, scale: float, n: int, delta: float, prior: float = 1.0
) -> DivergenceBound:
    """A provable bound in place of Theorem 1: E KL <= sum E|Z| [psi(prior + n) - psi(prior)] over all cells.

    McDiarmid's inequality gives the second bound (proofs.md P37). ``expected_divergence`` should be used instead.
    """
    from scipy.special import psi

    _check_theorem(scale, n, delta, prior, least=0.0)
    q = math.exp(-1 / scale)
    magnitude = 2 * q / (1 - q * q)
    mean = spread = 0.0
    for family in network.families:
        levels, cells = network.domain.sizes[family[0]], network.cells(family)
        mean += cells * magnitude * float(psi(prior + n) - psi(prior))
        spread += cells * (n * float(psi(levels * prior + (levels - 1) * n) - psi(prior))) ** 2
    return DivergenceBound(mean, mean + math.sqrt(0.5 * spread * math.log(1 / delta)))


def _check_theorem(scale: float, n: int, delta: float, prior: float, *, least: float) -> None:
    if not (scale > 0 and n >= 1 and 0 < delta < 1 and prior > 0 and prior >= least):
        raise ReleaseError(
            f"needs scale > 0, n >= 1, 0 < delta < 1, prior >= {least}; got {scale}, {n}, {delta}, {prior}"
        )


def _clipped_mass(count: int, scale: float, n: int) -> Reals:
    """The law of a count plus discrete Laplace noise, clipped to [0, n]: the tails are at the ends."""
    q = math.exp(-1 / scale)
    mass = (1 - q) / (1 + q) * q ** np.abs(np.arange(n + 1) - float(count))
    mass[0], mass[n] = q**count / (1 + q), q ** (n - count) / (1 + q)
    return mass


def lipschitz_failure_bound(
    rates: Sequence[float],
    level: float,
    *,
    offsets: Sequence[float] | None = None,
    split: Literal["optimal", "equal"] = "optimal",
) -> float:
    """A bound on the prior probability that a network is not L-Lipschitz (Zhang et al. 2016, Lemma 3).

    Variable i is not L_i-Lipschitz with probability at most exp(-c_i (L_i - o_i)) for L_i >= o_i (Assumption 2), and
    the network is L-Lipschitz where the L_i sum to L (proofs.md P39).

    Args:
        rates: c_i of every variable, above 0.
        level: L.
        offsets: o_i of every variable; 0 unless given.
        split: ``"equal"`` is the paper's L_i = L / V; ``"optimal"`` is L_i = o_i + (L - sum o) / (c_i sum 1/c).

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

    It replaces the constants of Zhang et al. 2016, Theorem 4 (2), which the text lost (proofs.md P39). It is not a
    privacy guarantee to rely on, and no mechanism here offers it: C grows like the square root of the number of rows,
    and for data sets of any use the bound is 1.

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


#: The probability with which the bounds that may fail do.
FAILURE = 0.1
#: Cells times rows up to which expected divergences are summed exactly.
MAX_EXACT = 20_000_000


def error_bounds(report: PrivacyReport) -> DataFrame:
    """Every error bound of Zhang et al. 2016 at the budget of a cost report, beside the value that it bounds.

    Args:
        report: Of ``privacy_cost``. Without an n the statements that need one are left out.

    Returns:
        A row for each statement: its ``bound``, the bounded ``value`` (its ``unit``, and how it was ``found``), and
        their ``ratio``. Bounds that may fail do so with probability at most 0.1. No row for tables without a graph,
        which the paper has not.

    >>> from dpgraph.analysis.cost import privacy_cost
    >>> coin = Network.of({"side": ["heads", "tails"]}, {})
    >>> error_bounds(privacy_cost(coin, epsilon=1, n=100))["statement"][0]
    'Proposition 1: any count is off by at most'
    """
    network, asked = report.network, (report.network, report.epsilon, report.unit)
    columns = ["statement", "bound", "value", "found", "unit"]
    if isinstance(network, Margins):
        return data_frame([], columns=[*columns, "ratio"])
    paper = LaplaceMechanism(report.epsilon, tables="families", allocation="uniform")
    scale = paper.event(network, report.unit).measurements[0].law.scale
    counts = count_error_bound(network.cell_count, scale, FAILURE)
    rows = [
        ("Proposition 1: any count is off by at most", counts.union, float(counts.exact), "exact", "rows"),
        *_divergences(network, scale, expected_counts(report.shares, report.n)),
        *_fourier_distance(*asked),
        *_map_loss(*asked),
    ]
    found = data_frame(rows, columns=columns)
    return found.assign(ratio=[row[1] / row[2] if row[2] else math.inf for row in rows])


def _divergences(network: Network, scale: float, counts: Mapping[Family, Reals] | None) -> Iterator[tuple[Any, ...]]:
    """Theorem 1 as printed and as it can be proved, beside the expectation under a Dirichlet(2) prior."""
    if counts is None:
        return
    n = round(float(next(iter(counts.values())).sum()))
    prior = 2.0
    if network.cell_count * n <= MAX_EXACT:
        found, value = "exact", sum(_exact_divergence(counts[f], scale, n, prior) for f in network.families)
    else:
        spread = math.sqrt(DiscreteLaplace(scale).variance(1))
        found, value = "normal noise", sum(expected_kl(counts[f], spread, prior) for f in network.families)
    for name, theorem in (("as printed", divergence_bound), ("corrected", corrected_divergence_bound)):
        bound = theorem(network, scale, n, FAILURE, prior)
        yield f"Theorem 1, {name}: mean divergence of the posterior", bound.expectation, value, found, "nats"


def _exact_divergence(counts: Reals, scale: float, n: int, prior: float) -> float:
    """The expected divergence of all rows of one table, at hypothetical counts rounded to whole ones."""
    rows, many = np.unique(np.rint(counts.reshape(len(counts), -1).T).astype(np.int64), axis=0, return_counts=True)
    return sum(int(times) * expected_divergence(row, scale, n, prior) for row, times in zip(rows, many, strict=True))


def _fourier_distance(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[tuple[Any, ...]]:
    """Theorem 3 for the family where it is largest, without pseudo-records, beside the mean under normal noise."""
    if max(network.domain.sizes.values()) > 2 or not unit.n_is_public:
        return
    bound = theorem_3_bound(network, epsilon, FAILURE, 0.0)
    worst = max(bound, key=bound.__getitem__)
    family = network.family(worst)
    variance = FourierMechanism(epsilon, sensitivity="paper").variance(network, unit)[family]
    value = network.cells(family) * math.sqrt(2 * variance / math.pi)
    yield f"Theorem 3: the table of {worst!r} moves in L1 by at most", bound[worst], value, "mean, normal noise", "rows"


def _map_loss(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[tuple[Any, ...]]:
    """Lemma 4 on the grid, beside T times a Gamma quantile: the loss of a normal log posterior."""
    from scipy.special import gammaincinv

    mechanism = MapEstimate(epsilon, selector="exponential")
    try:
        temperature = mechanism.temperature(network, unit)
    except ReleaseError:  # the floor leaves a variable of many levels no room
        return
    rows = [(network.domain.sizes[family[0]], network.cells(family[1:])) for family in network.families]
    free = sum((levels - 1) * many for levels, many in rows)
    log_candidates = sum(
        many * _log_candidates(levels, lattice(levels, mechanism.grid, mechanism.floor, mechanism.law).steps)
        for levels, many in rows
    )
    bound = temperature * (log_candidates - math.log(FAILURE))
    value = temperature * float(gammaincinv(free / 2, 1 - FAILURE))
    yield "Lemma 4: log posterior lost by the MAP estimate", bound, value, "large n", "nats"


def _log_candidates(levels: int, steps: int) -> float:
    """ln of the number of ways to share steps among levels."""
    return math.log(math.comb(steps + levels - 1, levels - 1))
