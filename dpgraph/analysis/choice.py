"""The mechanisms that ``privacy_cost`` compares, the expected error of each, and which one suits a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_no_rules
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.mechanisms.additive.blocks import GRID
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.checks import Reals, check_choice
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Measurement
from dpgraph.privacy.records import Number, PrivacyUnit, exact, exact_delta
from dpgraph.structure.basis import MOST_LEVELS
from dpgraph.structure.network import Family, Network

#: Values whose quadrature is held at once, and the fewest that are worth a search for equal ones.
HELD, FEW = 1 << 14, 32
#: The most rows, and the least and greatest factor of the noise, that are tried.
MOST_ROWS, REACH = 1e15, 1e9
#: Bisections in logarithms, which halve an interval to a millionth.
STEPS = 60


def expected_variation(counts: Reals, rmse: float) -> float:
    """Half the expected absolute error of counts c under normal noise, negative results set to 0, summed over cells."""
    from scipy.special import ndtr

    if rmse == 0:
        return 0.0
    ratio = counts / rmse
    errors = rmse / math.sqrt(2 * math.pi) * (2 - np.exp(-0.5 * ratio**2)) + counts * ndtr(-ratio)
    return min(float(counts.sum()), 0.5 * float(errors.sum()))


def expected_kl(counts: Reals, rmse: float, prior: float = 1.0) -> float:
    """The expected divergence of the plug-in posterior from the exact one in nats, under clipped normal noise (axes as
    P28).
    """
    flat = counts.ravel()
    different, place = np.unique(flat, return_inverse=True) if flat.size > FEW else (flat, np.arange(flat.size))
    place = place.reshape(counts.shape)
    means, squares, apart = (np.empty(different.size) for _ in range(3))
    for held in _blocks(different.size):
        noisy, apart[held] = _clipped(different[held], different[held], rmse, prior)
        means[held], squares[held] = noisy
    spread = np.sqrt(np.maximum((squares - means**2)[place].sum(axis=0), 0.0))
    of_rows = np.stack([np.ravel(part) for part in (counts.sum(axis=0), means[place].sum(axis=0), spread)])
    times = np.ones(of_rows.shape[1], int)
    if times.size > FEW:
        of_rows, times = np.unique(of_rows, axis=1, return_counts=True)
    exact, total, spread = of_rows
    whole = len(counts) * prior
    cells = float(apart @ np.bincount(place.ravel(), minlength=different.size))
    rows = sum(
        float(_clipped(exact[held], total[held], spread[held], whole)[1] @ times[held]) for held in _blocks(times.size)
    )
    return cells - rows


def _blocks(size: int) -> list[slice]:
    return [slice(start, start + HELD) for start in range(0, size, HELD)]


def _clipped(exact: Reals, mean: Reals, spread: Reals | float, prior: float) -> tuple[tuple[Reals, Reals], Reals]:
    """Values with normal noise, set to 0 where they are negative: their first two moments, and expected divergence."""
    nodes, weights = normal_quadrature()
    noisy = np.maximum(mean[:, None] + np.multiply.outer(spread, nodes), 0.0)
    divergence = log_gamma_divergence(prior + noisy, (prior + exact)[:, None]) @ weights
    return (noisy @ weights, noisy**2 @ weights), divergence


@cache
def normal_quadrature() -> tuple[Reals, Reals]:
    """Nodes and weights of the mean of a function of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    return nodes, weights / weights.sum()


def draw_error(counts: Reals, temperature: float, prior: float = 1.0) -> float:
    """The mean squared error of a cell, in rows, of tables drawn from a posterior tempered by T: bias and variance."""
    total = counts.sum(axis=0)
    concentration = prior + counts / temperature
    size = concentration.sum(axis=0)
    mean = concentration / size
    share = counts / np.where(total > 0, total, 1.0)
    return float((total**2 * ((mean - share) ** 2 + mean * (1 - mean) / (size + 1))).mean())


def log_gamma_divergence(y: npt.ArrayLike, x: npt.ArrayLike) -> Reals:
    """The Bregman divergence of ln Gamma: ln Gamma(y) - ln Gamma(x) - psi(x) (y - x), at least 0."""
    from scipy.special import gammaln, psi

    y, x = np.asarray(y, float), np.asarray(x, float)
    return gammaln(y) - gammaln(x) - psi(x) * (y - x)


def worst_error(tables: Sequence[tuple[Reals, float]], n: float) -> float:
    """The largest expected total variation error of margins with n rows, each with the error of a cell in rows."""
    return max(expected_variation(share * n, rmse) / n for share, rmse in tables)


def rows_needed(tables: Sequence[tuple[Reals, float]], error: float) -> float:
    """The number of rows from which on no table errs by more; infinite where none suffices."""
    return _smallest(lambda n: worst_error(tables, n) <= error, 1.0, MOST_ROWS)


def noise_allowed(tables: Sequence[tuple[Reals, float]], error: float, n: float) -> float:
    """The factor by which the noise may grow, or must shrink if below 1, so that no table errs by more."""

    def within(shrunk: float) -> bool:
        return worst_error([(share, rmse / shrunk) for share, rmse in tables], n) <= error

    return 1 / _smallest(within, 1 / REACH, REACH)


def checked_error(error: object) -> float:
    """The error to reach, or a ReleaseError if it is not a number between 0 and 1."""
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise ReleaseError(f"error must be a number between 0 and 1, a total variation; got {error!r:.60}")
    return float(error)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number of an interval from which on something holds; infinite where it does not at its end."""
    if holds(low):
        return low
    if not holds(high):
        return math.inf
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


#: The names of the mechanisms that promise pure differential privacy, and all names that ``mechanism_named`` knows.
PURE = {
    "laplace": LaplaceMechanism,
    "fourier": FourierMechanism,
    "posterior-sample": PosteriorSample,
    "map": MapEstimate,
}
MECHANISMS = ("auto", "laplace", "gaussian", "fourier", "posterior-sample", "map")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism's measurements and cell variances; ``grid`` units make a row, ``usable`` may be recommended."""

    label: str
    mechanism: Any
    network: Network
    measured: tuple[Measurement, ...]
    variances: dict[Family, float]
    sensitivity: float
    note: str = ""
    grid: int = 1
    usable: bool = True
    paper: bool = False

    @cached_property
    def rmse(self) -> float:
        """Root mean squared error over the cells of all families, in rows."""
        total = sum(self.variances[family] * self.network.cells(family) for family in self.network.families)
        return math.sqrt(total / self.network.cell_count)


def ranked(
    network: Network,
    epsilon: Fraction,
    delta: Fraction,
    unit: PrivacyUnit,
    counts: Mapping[Family, Reals] | None = None,
) -> list[Candidate]:
    """Mechanisms with a price in closed form, smallest error first; draws need ``counts``, Gaussian noise a delta."""
    check_no_rules(network, "the price of mechanisms", "name one, laplace or gaussian; its event has its noise")
    found = [*_laplace(network, epsilon, unit)]
    if max(network.domain.sizes.values()) <= MOST_LEVELS:
        found += _fourier(network, epsilon, unit)
    if delta > 0:
        found += _gaussian(network, epsilon, delta, unit)
    found += _choices(network, epsilon, unit, counts)
    return sorted(found, key=lambda one: (math.isnan(one.rmse), one.rmse))


def recommended(priced: Sequence[Candidate]) -> Candidate:
    """The first of ranked candidates that may be recommended."""
    return next(candidate for candidate in priced if candidate.usable)


def mechanism_named(
    name: str, network: Network, *, epsilon: Number, delta: Number = 0, unit: PrivacyUnit | None = None
) -> Any:
    """The mechanism of a name, for one budget; ``"auto"`` is the recommendation of ``privacy_cost``.

    >>> from dpgraph.files.networks import read_network
    >>> alarm = read_network("example:alarm")
    >>> type(mechanism_named("auto", alarm, epsilon=1, delta="1e-6")).__name__
    'GaussianMechanism'
    """
    check_choice("mechanism", name, MECHANISMS)
    if name == "auto":
        return recommended(ranked(network, exact(epsilon), exact_delta(delta), checked_unit(unit))).mechanism
    if name == "gaussian":
        return GaussianMechanism(epsilon, delta)
    if exact(delta, "delta", zero=True) > 0:
        raise ReleaseError(f"mechanism {name!r} is pure, delta 0; got delta {delta!r}")
    return PURE[name](epsilon)


def _laplace(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    for label, mechanism in (
        ("Laplace, Zhang et al. 2016 Algorithm 1", LaplaceMechanism(epsilon, tables="families", allocation="uniform")),
        ("Laplace, maximal tables", LaplaceMechanism(epsilon, tables="maximal")),
        ("Laplace, merged tables (default)", LaplaceMechanism(epsilon)),
    ):
        paper = mechanism.tables == "families"
        measured = mechanism.event(network, unit).measurements
        laws = {m.table: m.law for m in measured}
        variances = (
            {m.table: m.law.variance(m.cells) for m in measured}
            if paper
            else consistent_variance(network, laws, unit.n_is_public)
        )
        reach, note = sum(m.sensitivity for m in measured), "clipped tables" if paper else "least squares"
        yield Candidate(label, mechanism, network, measured, variances, reach, note, paper=paper)


def _fourier(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    binary = max(network.domain.sizes.values()) <= 2
    designs = [("Fourier, exact sensitivity", FourierMechanism(epsilon), "consistent by construction")]
    if binary:
        paper = FourierMechanism(epsilon, sensitivity="paper")
        designs.append(("Fourier, Zhang et al. 2016 Algorithm 2", paper, "before pseudo-records"))
    for label, mechanism, note in designs:
        measured = mechanism.event(network, unit).measurements
        grid = 1 if binary else GRID
        reach = max((m.law.scale for m in measured), default=0.0) * float(epsilon) / grid
        yield Candidate(label, mechanism, network, measured, mechanism.variance(network, unit), reach, note, grid)


def _gaussian(network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    mechanism = GaussianMechanism(epsilon, delta)
    measured = mechanism.event(network, unit).measurements
    laws = {m.table: m.law for m in measured}
    reach = math.sqrt(sum(m.movement.l2_squared for m in measured))
    variances = consistent_variance(network, laws, unit.n_is_public)
    note = "least squares; delta above 0"
    yield Candidate("Gaussian, maximal tables", mechanism, network, measured, variances, reach, note)
    if not unit.n_is_public and max(network.domain.sizes.values()) <= MOST_LEVELS:
        residual = GaussianMechanism(epsilon, delta, basis="residual")
        measured, variances = residual.event(network, unit).measurements, residual.variance(network, unit)
        reach = math.sqrt(sum(m.movement.l2_squared for m in measured)) / GRID
        note = "ResidualPlanner; consistent by construction"
        yield Candidate("Gaussian, residual basis", residual, network, measured, variances, reach, note, GRID)


def _choices(
    network: Network, epsilon: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None
) -> Iterator[Candidate]:
    """Mechanisms that choose tables instead of adding noise; not recommended, as nothing else can be learned."""
    for label, mechanism in (
        ("Posterior sample, one draw", PosteriorSample(epsilon)),
        ("MAP by the exponential mechanism", MapEstimate(epsilon, selector="exponential")),
    ):
        try:
            temperature = mechanism.temperature(network, unit)
        except ReleaseError:  # the floor leaves a variable of many levels no room
            continue
        if counts is None:
            variances, note = dict.fromkeys(network.families, math.nan), "its error depends on the rows: give n"
        else:
            variances = draw_variances(counts, temperature)
            note = "releases probabilities; error at the given n, floor aside"
        reach = temperature * float(epsilon)
        yield Candidate(label, mechanism, network, (), variances, reach, note, usable=False)


def draw_variances(counts: Mapping[Family, Reals], temperature: float) -> dict[Family, float]:
    """The mean squared error of a cell of each family's drawn table; families that share an array share the work."""
    known: dict[int, float] = {}
    for table in counts.values():
        if id(table) not in known:
            known[id(table)] = draw_error(table, temperature)
    return {family: known[id(table)] for family, table in counts.items()}
