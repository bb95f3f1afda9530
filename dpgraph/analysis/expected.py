"""Expected errors of tables with noise, in rows, as shares of the rows and as divergences; and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Reals, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.structure.network import Family

Found = TypeVar("Found")

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


def rows_needed(shares: Mapping[Family, Reals], rmse: Mapping[Family, float], error: float) -> float:
    """The number of rows from which on no table errs by more; infinite where none suffices."""
    _check_error(error)
    tables = distinct_tables(shares, rmse)
    return _smallest(lambda n: worst_error(tables, n) <= error, 1.0, MOST_ROWS)


def noise_allowed(shares: Mapping[Family, Reals], rmse: Mapping[Family, float], error: float, n: float) -> float:
    """The factor by which the noise may grow, or must shrink if below 1, so that no table errs by more."""
    _check_error(error)
    tables = distinct_tables(shares, rmse)

    def within(shrunk: float) -> bool:
        return worst_error([(share, rmse / shrunk) for share, rmse in tables], n) <= error

    return 1 / _smallest(within, 1 / REACH, REACH)


def _check_error(error: object) -> None:
    """Refuses an error to reach that is not a number between 0 and 1."""
    if not is_number(error) or not 0 < error < 1:
        raise ReleaseError(f"error must be a number between 0 and 1, a total variation; got {error!r:.60}")


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


def of_each(work: Callable[[Reals], Found], tables: Mapping[Family, Reals]) -> dict[Family, Found]:
    """The result of some work on each family's table; families that share an array share the work."""
    found = {place: work(table) for place, table in {id(table): table for table in tables.values()}.items()}
    return {family: found[id(table)] for family, table in tables.items()}


def expected_counts(shares: Mapping[Family, Reals], n: int | None) -> dict[Family, Reals] | None:
    """The counts of n rows, None where n is None; families that share an array of shares share one of counts."""
    return None if n is None else of_each(lambda share: n * share, shares)


def distinct_tables(shares: Mapping[Family, Reals], rmse: Mapping[Family, float]) -> list[tuple[Reals, float]]:
    """The different pairs of a family's margin and the standard error of one of its cells."""
    return list({(id(share), rmse[family]): (share, rmse[family]) for family, share in shares.items()}.values())


def table_errors(
    shares: Mapping[Family, Reals], rmse: Mapping[Family, float], n: int
) -> dict[Family, tuple[float, float]]:
    """The expected total variation error of each family's margin with n rows, and the divergence of its posterior."""
    found = {
        (id(share), error): (expected_variation(share * n, error) / n, expected_kl(share * n, error))
        for share, error in distinct_tables(shares, rmse)
    }
    return {family: found[id(share), rmse[family]] for family, share in shares.items()}
