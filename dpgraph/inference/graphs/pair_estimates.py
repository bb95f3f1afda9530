"""Public estimates of every pair of variables, from any released tables.

Least squares reads each table in the residual basis (proofs.md P30): the interaction of a pair is one block, with noise
of one known variance in every coordinate. It is shrunk towards none, so that a pair that drowns in its noise falls back
to independence; where pairs borrow from each other, towards the common factors of their variables (``factors``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from dpgraph.inference.graphs.factors import Factors, common_factors
from dpgraph.inference.network.consistency import joint_estimates, residual_estimates
from dpgraph.inference.network.evidence import single_releases
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.checks import Reals
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
#: What maximising over tau and gamma adds to the log-likelihood of a pair that is independent, at most, as a rule.
CHOSEN = 1.0
#: The exponents gamma and, in units of the noise, the variances tau^2 that shrinking chooses from.
POWERS, SCALES = (0.0, 1.0, 1.5, 2.0), np.geomspace(1e-3, 1e5, 33)


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
        factors, parts = self._parts(sampled=False)
        found = {}
        for pair in combinations(self.domain.names, 2):
            first, second = self.singles[pair[0]], self.singles[pair[1]]
            found[pair] = apart = np.outer(first, second)
            if pair in parts:
                part, common = parts[pair], self._common(factors, pair)
                least = FLOOR if common is None else BORROWED_FLOOR
                cells = part.likely * part.kept + (0.0 if common is None else common)
                found[pair] = fitted(apart + cells / self.n, first, second, least * apart)
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
    def _population(self) -> tuple[Factors | None, dict[Pair, Part]]:
        return self._parts(sampled=True)

    def redrawn(self, rng: np.random.Generator, *, alone: bool = False) -> Pairs:
        """Estimates with the pairs drawn from the posterior of the population's, of which the rows are a sample.

        Cells are normal around the shrunk ones, given noise and sampling. A pair depends beyond its common factors,
        drawn too, as often as it is likely to. Blocks of more variables stay as they were measured, and variables by
        themselves unless they are drawn as well (``alone``).
        """
        residuals = dict(self.residuals)
        singles = {name: self._single_redrawn(name, rng) for name in self.singles} if alone else self.singles
        factors, parts = self._population
        drawn = None if factors is None else factors.redrawn(rng)
        for pair, part in parts.items():
            depends = rng.random() < part.likely
            own = depends * (part.kept + part.left * rng.standard_normal(part.kept.shape))
            common = self._common(drawn, pair)
            excess = own if common is None else common + own
            one, other = (contrasts(self.domain.sizes[name]) for name in pair)
            residuals[pair] = one @ (excess + self._uneven(pair, singles)) @ other.T, self.residuals[pair][1]
        return Pairs(self.domain, self.n, singles, dict.fromkeys(parts, 0.0), residuals, drawn=True)

    def _single_redrawn(self, name: str, rng: np.random.Generator) -> Reals:
        """A draw of the population's probabilities of a variable's levels: noise and sampling, both normal."""
        single = self.singles[name]
        if (name,) not in self.residuals:
            return single
        noise = contrasts(single.size).T @ rng.standard_normal(single.size - 1) * math.sqrt(self.residuals[name,][1])
        sampled = np.sqrt(self.n * single) * rng.standard_normal(single.size)
        return positive_shares(single + (noise + sampled - single * sampled.sum()) / self.n)

    def _parts(self, *, sampled: bool) -> tuple[Factors | None, dict[Pair, Part]]:
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
            own = excess
            if factors is not None and set(pair) <= set(factors.names):
                own = in_cells(self.residuals[pair][0] - self.n * factors.block(*pair))
            kept, left, nats = likeliest(own, np.sqrt(of_cells), first, second, free)
            found[pair] = kept * own, left, nats
        likely = dependent([nats for _, _, nats in found.values()]).tolist()
        found = zip(found.items(), likely, strict=True)
        return factors, {pair: Part(kept, left, chance) for (pair, (kept, left, _)), chance in found}

    def _factors(self, noise: Mapping[Pair, float]) -> Factors | None:
        singles = {}
        for name, levels in self.singles.items():
            variance = self.residuals[(name,)][1] if (name,) in self.residuals else 0.0
            singles[name] = contrasts(levels.size) @ levels, variance / self.n**2
        return common_factors(
            singles, {pair: (self.residuals[pair][0] / self.n, noise[pair] / self.n**2) for pair in self.excess}
        )

    def _common(self, factors: Factors | None, pair: Pair) -> Reals | None:
        """The rows in each cell of a pair that common factors add to independence; None where they say nothing."""
        if factors is None or not set(pair) <= set(factors.names):
            return None
        return self.n * in_cells(factors.common(*pair))

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
    """A pair's rows in each cell beyond common factors, shrunk, the deviation of their error, and how likely they are.

    ``likely`` is the probability that the pair depends at all, the share of those that do learned from all of them.
    """

    kept: Reals
    left: Reals
    likely: float


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


def likeliest(
    excess: Reals, spread: float | Reals, first: Reals, second: Reals, free: float = 1.0
) -> tuple[Reals, Reals, float]:
    """The kept part of each cell of a pair's excess, the standard deviation of its error, and the evidence in nats.

    Empirical Bayes: cell (i, j) is normal around zero with variance tau^2 (p_i p_j)^gamma, plus the noise of this
    spread; tau and gamma maximise the likelihood of the whole pair, and the evidence is its gain over no dependence.
    Each cell counts as ``free`` observations, the share of free cells; p are the table's row and column probabilities.
    """
    noise = np.maximum(np.square(spread), LEAST)
    typical = float(noise.mean())
    if typical <= NO_NOISE * float((excess**2).mean()):
        return np.ones_like(excess), np.full_like(excess, spread), np.inf
    base = np.outer(first, second)
    none = -0.5 * free * float((np.zeros_like(excess) + np.log(noise) + excess**2 / noise).sum())
    best, kept = -np.inf, np.zeros_like(excess)
    for power in POWERS:
        shape = base**power
        shape = shape / shape.mean()
        for scale in SCALES * typical:
            whole = scale * shape + noise
            likelihood = -0.5 * free * float((np.log(whole) + excess**2 / whole).sum())
            if likelihood > best:
                best, kept = likelihood, scale * shape / whole
    return kept, np.sqrt(kept * noise), best - none


def beyond_noise(values: Reals, noise: Reals) -> tuple[Reals, float]:
    """The kept part of each coordinate of a block, and by how many nats the likeliest variance beats none.

    Coordinates are normal around zero with one variance, the likeliest, plus the noise.
    """
    noise = np.maximum(noise, LEAST * max(1.0, float((values**2).mean())))
    whole = np.multiply.outer(SCALES * float(noise.mean()), np.ones_like(noise)) + noise
    likely = -0.5 * (np.log(whole / noise) + values**2 * (1 / whole - 1 / noise)).sum(axis=1)
    best = int(likely.argmax())
    return 1 - noise / whole[best], float(likely[best])


def dependent(nats: Sequence[float]) -> Reals:
    """The probability that each of several pairs depends, from the nats by which dependence is likelier than none.

    The share of dependent pairs is uniform beforehand, and its most likely value is found together with theirs;
    ``CHOSEN`` nats, the gain from the choice of the best tau and gamma, are taken off.
    """
    odds = np.exp(np.clip(np.asarray(nats, float) - CHOSEN, -500.0, 500.0))
    share = 0.5
    for _ in range(200):
        likely = share * odds / (share * odds + 1 - share)
        share = (1 + float(likely.sum())) / (2 + likely.size)
    return share * odds / (share * odds + 1 - share)


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
