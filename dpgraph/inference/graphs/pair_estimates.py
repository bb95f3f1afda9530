"""Public estimates of every pair of variables, from any released tables.

Least squares reads each table in the residual basis (proofs.md P30): the interaction of a pair is one block, with noise
of one known variance in every coordinate. It is shrunk towards none, so that a pair that drowns in its noise falls back
to independence; where pairs borrow from each other, towards the common factors of their variables (``factors``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from dpgraph.inference.graphs.factors import Factors, common_factors
from dpgraph.inference.network.consistency import joint_estimates, residual_estimates
from dpgraph.inference.network.evidence import single_releases
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, Release
from dpgraph.structure.domain import Domain, NetworkError
from dpgraph.structure.joint import JointCounts, learning
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, residual_matrix

Pair = tuple[str, str]

#: Sweeps of proportional fitting that give a pair its margins, at most, and how far off they end it.
SWEEPS, CLOSE = 30, 1e-12
#: Below this share of independence no cell of a pair goes: noise never says that something is impossible.
FLOOR = 1e-6
#: And below this share none of a pair that borrowed: what others say of a rare level is rough.
BORROWED_FLOOR = 0.01
#: Noise whose variance is below this part of a pair's mean square is none.
NO_NOISE = 1e-9
#: Less noise than this is none, in rows squared.
LEAST = 1e-24
#: How strongly a pair may depend, as the total variation of its cells from independence were they alike, and the
#: exponents gamma of its margins: each with each is a law of its cells.
STRENGTHS, POWERS = np.geomspace(1e-4, 10, 33), (0.0, 1.0, 1.5, 2.0)
#: Rounds that learn the shares of laws; a law less likely than this is left out of a pair's mean.
ROUNDS, SELDOM = 200, 1e-6
#: The most numbers that are worked on at once.
MOST_NUMBERS = 1 << 20


@dataclass(frozen=True, eq=False)
class Pairs:
    """Estimates of the variables and their pairs from a release.

    ``n`` is the number of rows, at least 1; ``singles`` has the probabilities of each variable's levels. ``spread`` has
    for each measured pair, in the domain's order, the standard deviation of the noise of a coordinate of its residual
    block. ``residuals`` has the least-squares estimate of every residual block, with the variance of its coordinates.
    ``drawn`` marks a draw of the population's pairs, of which the rows are a sample; ``borrow`` pairs with few common
    factors.
    """

    domain: Domain
    n: float
    singles: Mapping[str, Reals]
    spread: Mapping[Pair, float]
    residuals: Mapping[Family, tuple[Reals, float]]
    drawn: bool = False
    borrow: bool = False

    @cached_property
    def excess(self) -> dict[Pair, Reals]:
        """The rows in each cell of each measured pair beyond independence, rows and columns summing to zero."""
        return {pair: in_cells(self.residuals[pair][0]) - self._uneven(pair, self.singles) for pair in self.spread}

    @cached_property
    def tables(self) -> dict[Pair, Reals]:
        """The shrunk probabilities of each pair; one that was not measured is independent."""
        parts = self._parts(sampled=False)
        found = {}
        for pair in combinations(self.domain.names, 2):
            first, second = self.singles[pair[0]], self.singles[pair[1]]
            found[pair] = apart = np.outer(first, second)
            if pair in parts:
                least = FLOOR if parts[pair].more == 0 else BORROWED_FLOOR
                found[pair] = fitted(apart + parts[pair].mean / self.n, first, second, least * apart)
        return found

    def table(self, one: str, other: str) -> Reals:
        """The shrunk probabilities of two variables, axes in the order asked for."""
        if (one, other) in self.tables:
            return self.tables[one, other]
        return self.tables[other, one].T

    def released(self, pair: Pair) -> Reals:
        """The probabilities of a measured pair with its interaction as released, some perhaps negative."""
        return np.outer(*(self.singles[name] for name in pair)) + self.excess[pair] / self.n

    def expected_noise(self, pair: Pair) -> float:
        """The expected total variation of the noise in a measured pair's interaction."""
        cells = self.excess[pair].size
        free = math.prod(1 - 1 / self.domain.sizes[name] for name in pair)
        return 0.5 * cells * math.sqrt(2 / math.pi * free) * self.spread[pair] / self.n

    @cached_property
    def _population(self) -> dict[Pair, Part]:
        return self._parts(sampled=True)

    def redrawn(self, rng: np.random.Generator, *, alone: bool = False) -> Pairs:
        """Estimates with the pairs drawn from the posterior of the population's, of which the rows are a sample.

        Cells are normal around the shrunk ones, given noise and sampling. A pair depends beyond its common factors,
        drawn too, as often as it is likely to. Blocks of more variables stay as they were measured, and variables by
        themselves unless they are drawn as well (``alone``).
        """
        residuals = dict(self.residuals)
        singles = {name: self._single_redrawn(name, rng) for name in self.singles} if alone else self.singles
        for pair, part in self._population.items():
            one, other = (contrasts(self.domain.sizes[name]) for name in pair)
            excess = part.drawn(rng) + self._uneven(pair, singles)
            residuals[pair] = one @ excess @ other.T, self.residuals[pair][1]
        return Pairs(self.domain, self.n, singles, dict.fromkeys(self.spread, 0.0), residuals, drawn=True)

    def _single_redrawn(self, name: str, rng: np.random.Generator) -> Reals:
        """A draw of the population's probabilities of a variable's levels: noise and sampling, both normal."""
        single = self.singles[name]
        if (name,) not in self.residuals:
            return single
        noise = contrasts(single.size).T @ rng.standard_normal(single.size - 1) * math.sqrt(self.residuals[name,][1])
        sampled = np.sqrt(self.n * single) * rng.standard_normal(single.size)
        return positive_shares(single + (noise + sampled - single * sampled.sum()) / self.n)

    def _parts(self, *, sampled: bool) -> dict[Pair, Part]:
        """The common factors of the rows' pairs and each pair's own part, or of the population's (``sampled``).

        The (r - 1)(c - 1) free coordinates of a pair are spread over r c cells of less noise. Of the population
        sampling is noise too, and so is that of independence itself: n p q has the noise of n p times q - 1 / c, and of
        n q times p - 1 / r, to first order; none where levels are even.
        """
        noise = {pair: spread**2 + sampled * self._sampling(pair).mean() for pair, spread in self.spread.items()}
        factors, found = self._factors(noise) if self.borrow else None, {}
        for pair, excess in self.excess.items():
            first, second = self.singles[pair[0]], self.singles[pair[1]]
            free = (1 - 1 / first.size) * (1 - 1 / second.size)
            of_cells: Any = self.spread[pair] ** 2 * free
            if sampled:
                one, other = (self._count_variance(name) for name in pair)
                over = np.outer(one, (second - 1 / second.size) ** 2) + np.outer((first - 1 / first.size) ** 2, other)
                of_cells = of_cells + over + self.n * np.outer(first * (1 - first), second * (1 - second))
            own, common, more = excess, 0.0, 0.0
            if factors is not None and set(pair) <= set(factors.names):
                common, own, more = factors.without(*pair, self.residuals[pair][0] / self.n)
                common, own = (self.n * in_cells(block) for block in (common, own))
                more *= self.n**2 * free
            noise_of_cells = np.maximum(np.broadcast_to(of_cells, own.shape), LEAST)
            found[pair] = Part(own, noise_of_cells, self.n, first, second, common, more)
        learned = likely_laws(np.array([part.nats() for part in found.values()])) if found else ()
        return {pair: part._replace(laws=laws) for (pair, part), laws in zip(found.items(), learned, strict=True)}

    def _factors(self, noise: Mapping[Pair, float]) -> Factors | None:
        singles = {}
        for name, levels in self.singles.items():
            variance = self.residuals[(name,)][1] if (name,) in self.residuals else 0.0
            singles[name] = contrasts(levels.size) @ levels, variance / self.n**2
        return common_factors(
            singles, {pair: (self.residuals[pair][0] / self.n, noise[pair] / self.n**2) for pair in self.excess}
        )

    def _uneven(self, pair: Pair, singles: Mapping[str, Reals]) -> Reals:
        """The rows that a pair of independent variables has in each cell beyond even margins' products."""
        first, second = (singles[name] - 1 / singles[name].size for name in pair)
        return self.n * np.outer(first, second)

    def _sampling(self, block: Family) -> Reals:
        """The variance that sampling adds to each coordinate of a block where variables are independent."""
        sampled = np.full(1, self.n)
        for name in block:
            sampled = np.multiply.outer(sampled, contrasts(self.domain.sizes[name]) ** 2 @ self.singles[name])
        return sampled.ravel()

    def block_noise(self, block: Family) -> Reals:
        """The variance of the noise in each coordinate of a residual block.

        Beside a draw of the population's pairs, what sampling adds where variables are independent is noise too.
        """
        values, variance = self.residuals[block]
        if not self.drawn:
            return np.full(values.size, variance)
        return variance + self._sampling(block)

    def _count_variance(self, name: str) -> Reals:
        """The variance of the noise in the number of rows of each level of a variable."""
        size = self.singles[name].size
        if (name,) not in self.residuals:
            return np.zeros(size)
        return self.residuals[(name,)][1] * (residual_matrix(size)[1][:, 1:] ** 2).sum(axis=1)


class Part(NamedTuple):
    """The noisy interaction of a pair, and its empirical Bayes prior: the interaction is ``common`` plus its own part.

    ``own`` is the measured interaction less ``common``, in rows for each cell, with noise of variance ``noise``;
    ``common`` is predicted from other pairs with variance ``more``, both 0 where there is no prediction. Without noise,
    cell (i, j) of ``own`` is normal around zero with variance tau^2 (p_i p_j)^gamma + ``more``, p being the margins
    ``first`` and ``second``. A prior law is a value of tau and gamma; ``laws`` has the probability of each.
    """

    own: Reals
    noise: Reals
    n: float
    first: Reals
    second: Reals
    common: Reals | float = 0.0
    more: float = 0.0
    laws: Reals = np.ones(1)

    def variances(self, laws: Integers) -> Iterator[tuple[Integers, Reals]]:
        """The variances of cells without noise under some laws, axis 0, a few laws at a time; law 0 has tau = 0."""
        base = np.outer(self.first, self.second)
        for some in np.array_split(laws, math.ceil(laws.size * base.size / MOST_NUMBERS)):
            strength, power = np.divmod(np.maximum(some - 1, 0), len(POWERS))
            shapes = base ** np.array(POWERS)[power][:, None, None]
            scales = np.where(some > 0, 2 * STRENGTHS[strength] * self.n / base.size, 0.0) ** 2
            yield some, (scales / shapes.mean(axis=(1, 2)))[:, None, None] * shapes + self.more

    @property
    def free(self) -> float:
        """The share of free cells."""
        return (1 - 1 / self.first.size) * (1 - 1 / self.second.size)

    @property
    def exact(self) -> bool:
        """True where there is no noise beside the rows."""
        return float(self.noise.mean()) <= NO_NOISE * float((self.own**2).mean())

    def nats(self) -> Reals:
        """The log-likelihood of each law up to a constant; a cell counts as ``free`` observations."""
        laws = np.arange(1 + STRENGTHS.size * len(POWERS))
        each = [log_densities(self.own, whole + self.noise).sum(axis=(1, 2)) for _, whole in self.variances(laws)]
        return self.free * np.concatenate(each)

    def kept(self, likely: Reals) -> Reals:
        """The part of each cell that is not noise, averaged over laws."""
        if self.exact:
            return np.ones_like(self.own)
        found = np.zeros_like(self.own)
        for some, whole in self.variances(np.flatnonzero(likely > SELDOM)):
            found += np.tensordot(likely[some], whole / (whole + self.noise), 1)
        return found

    @property
    def mean(self) -> Reals:
        """The rows in each cell beyond independence, averaged over laws."""
        return self.kept(self.laws) * self.own + self.common

    def drawn(self, rng: np.random.Generator) -> Reals:
        """A draw of the rows in each cell beyond independence, whose row and column sums the caller removes.

        Removing them leaves the share ``free`` of the variance of independent cells, so errors are drawn wider by that.
        """
        kept = self.kept(rng.multinomial(1, self.laws).astype(float))
        error = np.sqrt(kept * self.noise / self.free) * rng.standard_normal(self.own.shape)
        return kept * self.own + error + self.common


def contrasts(size: int) -> Reals:
    """The orthonormal contrasts of a variable's levels, shape (levels - 1, levels)."""
    return residual_matrix(size)[0][1:]


def in_cells(block: Reals) -> Reals:
    """The residual block of a pair as a number for each cell."""
    first, second = (residual_matrix(size + 1)[1][:, 1:] for size in block.shape)
    return first @ block @ second.T


def read_pairs(noisy: Any, largest: int = 2, borrow: bool = False) -> Pairs:
    """The estimates of variables and pairs from noisy counts or coefficients, of one release or several.

    Residual blocks of up to ``largest`` variables are estimated besides; with ``borrow`` pairs have few common factors.
    """
    domain = declared_domain(noisy)
    names = domain.names
    found = _estimates(noisy, largest)
    missing = [name for name in names if domain.sizes[name] > 1 and (name,) not in found]
    if missing:
        raise NetworkError(f"no table holds {missing[0]!r}: a graph is chosen from a release in which each variable is")
    n = max(1.0, float(found[()][0]))
    singles = {name: _single(found, name, domain.sizes[name], n) for name in names}
    spread = {pair: float(np.sqrt(found[pair][1])) for pair in _held(single_releases(noisy), 2) if pair in found}
    return Pairs(domain, n, singles, spread, found, borrow=borrow)


def _estimates(noisy: Any, largest: int) -> dict[Family, tuple[Reals, float]]:
    """The least-squares estimates of the residual blocks; coefficients are blocks as they are."""
    parts = single_releases(noisy)
    blocks = [replace(part, pseudo_records=0) for part in parts if isinstance(part, NoisyCoefficients)]
    tables = [part for part in parts if isinstance(part, NoisyCounts)]
    found = [residual_estimates(part) for part in blocks]
    if tables:
        held = [block for size in range(2, largest + 1) for block in _held(tables, size)]
        inside = {name for block in held for name in block}
        alone = [(name,) for part in tables for table in part.tables for name in table if name not in inside]
        margins = Margins.of_tables(declared_domain(noisy), [*held, *dict.fromkeys(alone)])
        together = learning(tables[0], margins) if len(tables) == 1 else JointCounts(tuple(tables), margins)
        found.append(residual_estimates(together))
    return joint_estimates(found, noisy.n)


def declared_domain(noisy: Any) -> Domain:
    """The domain of noisy counts or coefficients, of one release or several; InferenceError for other values."""
    if not isinstance(noisy, NoisyCounts | NoisyCoefficients | JointCounts):
        raise InferenceError(
            "a graph is chosen from a release of noisy counts or coefficients, such as that of count(rows, "
            f"all_pairs(domain)); got {type(noisy).__name__}{_where_it_is(noisy)}"
        )
    return single_releases(noisy)[0].network.domain


def _where_it_is(value: Any) -> str:
    """Where the release behind a value of dpgraph's is, in words; nothing for anything else."""
    if not type(value).__module__.startswith("dpgraph."):
        return ""
    for name in ("release", "release_"):
        if isinstance(getattr(value, name, None), Release):
            return f": give its .{name}"
    if isinstance(getattr(value, "provenance", None), Provenance):
        return ": give the release behind it; of a file of what was learned, dg.load(path, release=True)"
    return ""


def _held(parts: Sequence[Any], size: int) -> list[Any]:
    """The sets of so many variables that some measured table or block holds, in the domain's order."""
    tables: set[Family] = {
        key for part in parts for key in (part.blocks if isinstance(part, NoisyCoefficients) else part.tables)
    }
    names = parts[0].network.domain.names
    held = {tuple(sorted(map(names.index, some))) for table in tables for some in combinations(table, size)}
    return [tuple(names[i] for i in some) for some in sorted(held)]


def _single(found: Any, name: str, size: int, n: float) -> Reals:
    """The probabilities of one variable's levels: its least-squares counts, moved to the simplex."""
    if size == 1:
        return np.ones(1)
    counts = n / size + residual_matrix(size)[1][:, 1:] @ found[(name,)][0]
    return positive_shares(counts / n)


def positive_shares(shares: Reals) -> Reals:
    """Probabilities near some shares, none of them 0."""
    kept = onto_simplex(shares)
    return (kept + FLOOR / kept.size) / (1 + FLOOR)


def log_densities(values: Reals, variances: Reals) -> Reals:
    """The log densities of normal values around zero, up to a constant."""
    return -0.5 * (np.log(variances) + values**2 / variances)


def likely_laws(nats: Reals) -> Reals:
    """The probability of each law for each pair from its log-likelihood, shape (pairs, laws); the first law is none.

    The shares of laws are learned from all pairs together (empirical Bayes on a grid, as Stephens 2017, False discovery
    rates: a new deal): beforehand half are none, half are spread evenly, with the weight of two pairs.
    """
    before = np.full(nats.shape[1], 1 / (nats.shape[1] - 1))
    before[0] = 1.0
    likely = likelihood = np.exp(nats - nats.max(axis=1, keepdims=True))
    shares = before / 2
    for _ in range(ROUNDS):
        likely = likelihood * shares
        likely /= likely.sum(axis=1, keepdims=True)
        shares = (before + likely.sum(axis=0)) / (2 + len(nats))
    return likely


def beyond_noise(blocks: Sequence[tuple[Reals, Reals, int]]) -> list[Reals]:
    """The kept part of each coordinate of some blocks: values, the variance of their noise, and the number of cells.

    Coordinates of a block are normal around zero with one variance, one of ``STRENGTHS`` or none, plus the noise.
    """
    found, parts = [], []
    for values, noise, cells in blocks:
        scales = np.concatenate([[0.0], 4 * STRENGTHS**2 / (cells * values.size)])[:, None]
        whole = scales + np.maximum(noise, LEAST * max(1.0, float((values**2).mean())))
        found.append(log_densities(values, whole).sum(axis=1))
        parts.append(scales / whole)
    return [laws @ part for laws, part in zip(likely_laws(np.array(found)), parts, strict=True)]


def fitted(table: Reals, first: Reals, second: Reals, floor: Reals) -> Reals:
    """A table with non-negative cells and the given margins, by proportional fitting."""
    table = np.maximum(table, floor)
    for _ in range(SWEEPS):
        rows = first / table.sum(axis=1)
        table = table * rows[:, None]
        table = table * (second / table.sum(axis=0))
        if np.abs(rows - 1).max() < CLOSE:
            break
    return table


def dependence(joint: Reals) -> float:
    """The total variation of axis 0 and all others from independence."""
    flat = joint.reshape(joint.shape[0], -1)
    return 0.5 * float(np.abs(flat - np.outer(flat.sum(axis=1), flat.sum(axis=0))).sum())
