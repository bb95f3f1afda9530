"""Few factors common to all pairs, learned from them together, so that each pair borrows from the others.

Columns of real tables often depend on each other through few causes. The interaction of a pair is then a product of the
loadings of both variables on each cause, far fewer numbers than pairs have. With Y_ij the residual block of
variables i and j per row, of k_i by k_j coordinates with noise of variance v_ij in each, and m_i the residual block of
i alone, measured as c_i with noise of variance u_i,

    Y_ij = m_i m_j' + A_i A_j' + R_ij + noise,   m_i ~ N(c_i, u_i),   column f of A_i ~ N(0, s_if^2 / alpha_f),
    R_ij ~ N(0, tau^2) in each coordinate; the size s_if and the strength tau have one of several values, or are none.

R is the part of a pair by itself. The error of m matters: m m' - c c' is of low rank too, and would be taken
for a factor. Alpha and the shares of sizes and strengths maximise the bound of the evidence, so a factor that no pairs
share goes to zero (automatic relevance determination; Bishop 1999, Variational principal components), and variables
that have nothing of a factor get nothing of it (spike and slab): many small errors would cost more than it gives. Rows
of (m, A) with their sizes, and the strengths, have a mean-field posterior (proofs.md P126). No block of a variable with
itself is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.privacy.checks import Integers, Reals

#: Fewer variables than these say too little of what is common; of so many there is at most a factor for two.
FEWEST = 5
#: The most factors, and the most coordinates of all variables: their square is written down.
MOST_FACTORS, MOST_COORDINATES = 8, 2048
#: The sizes of a variable's loadings on a factor, in units of the factor's, and the inverses of their squares; the
#: first is none, of precision ``NONE``. Beforehand they are alike, with the weight of ``ALIKE`` variables.
SIZES, INVERSE_SQUARES, NONE, ALIKE = np.array([0.0, 0.3, 1.0]), np.array([0.0, 1 / 0.09, 1.0]), 1e12, 1.0
#: Sizes less likely than this are not tried again.
SELDOM = 1e-12
#: The strengths of what a pair has for itself, in total variation from independence, and of a pair that has nothing.
STRENGTHS = np.concatenate([[0.0], np.geomspace(0.003, 0.4, 9)])
#: The shares of the strengths beforehand, and how many pairs' worth that is.
SHARES, WORTH = np.array([0.5, *[0.5 / 9] * 9]), 2.0
#: A coordinate of a block has this many times the square of its pair's total variation, over cells and coordinates.
SQUARED = 6.25
#: Rounds, and those between two looks at the strengths; a round that moves no loading further is the last.
ROUNDS, BETWEEN, MOVED = 100, 5, 1e-5
#: Steps of expectation and maximisation for the shares of the strengths.
SHARINGS = 40
#: The largest leverage that a pair is taken to have.
MOST_LEVERAGE = 0.9
#: Variances below this are none.
LEAST = 1e-18


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors that are common to pairs.

    ``loadings`` has the posterior mean of each variable's own residual block and of its loadings, shape (levels - 1, 1
    + factors), ``covariances`` the posterior covariance of every row of them, shape (1 + factors, 1 + factors);
    ``weights`` has the weight of a coordinate of each pair.
    """

    names: tuple[str, ...]
    loadings: Mapping[str, Reals]
    covariances: Mapping[str, Reals]
    weights: Mapping[tuple[str, str], float]

    def without(self, one: str, other: str, block: Reals) -> tuple[Reals, Reals, float]:
        """The prediction of a pair by the factors had they been fitted without its residual block; all per row.

        Returns the common factors' part of the prediction, the block's distance from the whole prediction, and the
        prediction's variance in each coordinate. The influence of the block on its own fitted value (leverage) is the
        variance of that value times the block's weight, and is removed (proofs.md P126).
        """
        first, second = self.loadings[one], self.loadings[other]
        here, there = self.covariances[one], self.covariances[other]
        variance = float(
            np.einsum("rp,pq,rq", first, there, first) / len(first)
            + np.einsum("rp,pq,rq", second, here, second) / len(second)
            + (here * there).sum()
        )
        leverage = min(variance * self.weights[one, other], MOST_LEVERAGE)
        away = (block - first @ second.T) / (1 - leverage)
        return block - away - np.outer(first[:, 0], second[:, 0]), away, variance / (1 - leverage)


def common_factors(
    singles: Mapping[str, tuple[Reals, float]], pairs: Mapping[tuple[str, str], tuple[Reals, float]]
) -> Factors | None:
    """The factors of some pairs; None where there are too few variables, or too many coordinates.

    Variables and pairs come as residual blocks per row, each with the variance of the noise in a coordinate.
    """
    held = {name for pair in pairs for name in pair}
    names = tuple(name for name, (values, _) in singles.items() if name in held and values.size)
    widths = np.array([singles[name][0].size for name in names], np.int64)
    if len(names) < FEWEST or widths.sum() > MOST_COORDINATES:
        return None
    fit = _Fit.of(names, [singles[name] for name in names], pairs)
    for turn in range(1, ROUNDS + 1):
        before = fit.means.copy()
        fit.learn_loadings(turn % BETWEEN == 1)
        fit.learn_scales()
        if turn % BETWEEN == 0:
            fit.learn_strengths()
            if np.abs(fit.means - before).max() < MOVED:
                break
    rows = {name: slice(start, start + width) for name, start, width in zip(names, fit.starts, widths, strict=True)}
    weights = {
        (one, other): float(fit.precisions[i, j]) for i, one in enumerate(names) for j, other in enumerate(names)
    }
    loadings = {name: fit.means[at] for name, at in rows.items()}
    return Factors(names, loadings, dict(zip(names, fit.covariances, strict=True)), weights)


@dataclass(frozen=True, eq=False)
class Rows:
    """The posterior of a variable's residual block and loadings, others given: a mixture over the sizes of loadings.

    ``sizes`` has the tried sizes of all factors, as places in ``SIZES``, shape (tried, factors), and ``likely`` the
    probability of each; ``means``, shape (tried, width, 1 + factors), and ``covariances`` of each row are given them.
    """

    sizes: Integers
    likely: Reals
    means: Reals
    covariances: Reals

    @classmethod
    def of(cls, seen: Reals, weight: Reals, sure: float, scales: Reals, shares: Reals, sizes: Integers) -> Rows:
        """By Bayes' rule: the log-likelihood of a row b is b seen' - b weight b' / 2, with the prior's mean in it."""
        width, factors = len(seen), scales.size
        of_factors = scales * INVERSE_SQUARES[sizes] + NONE * (sizes == 0)
        prior = np.column_stack([np.full(len(sizes), sure), of_factors])
        covariances: Any = np.linalg.inv(weight + prior[:, :, None] * np.eye(1 + factors))
        means = seen @ covariances
        logs = np.log(prior).sum(axis=1) + np.linalg.slogdet(covariances)[1]
        logs = 0.5 * (width * logs + (means * seen).sum(axis=(1, 2)))
        logs += np.log(shares)[np.arange(factors), sizes].sum(axis=1)
        likely = np.exp(logs - logs.max())
        return cls(sizes, likely / likely.sum(), means, covariances)

    def moments(self) -> tuple[Reals, Reals]:
        """The mean of every row, and the covariance that they share."""
        mean = np.tensordot(self.likely, self.means, 1)
        apart = self.means - mean
        between = np.einsum("t,trp,trq->pq", self.likely, apart, apart) / len(mean)
        return mean, np.tensordot(self.likely, self.covariances, 1) + between

    def of_sizes(self) -> tuple[Reals, Reals]:
        """The probability of each size of each factor, and the sum of its loadings' squares in units of their sizes."""
        squares = (self.means**2).sum(axis=1) + self.means.shape[1] * np.einsum("tpp->tp", self.covariances)
        each = self.likely[:, None, None] * (self.sizes[:, :, None] == np.arange(SIZES.size))
        return each.sum(axis=0), np.einsum("tfk,tf,k->f", each, squares[:, 1:], INVERSE_SQUARES)

    def next_sizes(self, more: bool) -> Integers:
        """Sizes to try: the likely ones; with ``more`` their neighbours too.

        Neighbours differ from the likeliest sizes in one factor, or are one size for all factors.
        """
        if not more:
            return self.sizes[self.likely > SELDOM]
        factors, every = self.sizes.shape[1], np.arange(SIZES.size)
        near = np.repeat(self.sizes[self.likely.argmax()][None], factors * every.size, axis=0)
        near[np.arange(len(near)), np.repeat(np.arange(factors), every.size)] = np.tile(every, factors)
        alike = np.repeat(every[:, None], factors, axis=1)
        return np.unique(np.concatenate([self.sizes[self.likely > SELDOM], near, alike]), axis=0)


@dataclass(eq=False)
class _Fit:
    """The state of the fit, per row; coordinates lie one variable's after the other's.

    ``widths`` counts the coordinates of each variable; ``known`` is each one's own measurement, of precision ``sure``
    for each variable. ``blocks`` has the measurements of pairs, zero where there is none, and ``noise`` their variance,
    infinite then. ``means`` has the variable itself and its loadings, ``covariances`` the covariance of a row of each
    variable's means, and ``rows`` the mixture behind both. ``scales`` is the precision alpha of each factor's loadings,
    ``precisions`` the weight of a coordinate of each pair, the mean of 1 / (v + tau^2), ``shares`` those of the
    strengths, and ``size_shares`` those of the sizes of each factor.
    """

    widths: Integers
    known: Reals
    sure: Reals
    blocks: Reals
    noise: Reals
    means: Reals
    covariances: Reals
    scales: Reals
    precisions: Reals
    shares: Reals
    size_shares: Reals
    rows: list[Rows]

    @classmethod
    def of(cls, names: tuple[str, ...], singles: list[tuple[Reals, float]], pairs: Mapping[Any, Any]) -> _Fit:
        """A start from the leading eigenvectors of the interactions of pairs."""
        place = {name: i for i, name in enumerate(names)}
        widths = np.array([values.size for values, _ in singles], np.int64)
        known = np.concatenate([values for values, _ in singles])
        starts = np.cumsum(widths) - widths
        blocks = np.zeros((known.size, known.size))
        noise = np.full((len(names), len(names)), np.inf)
        for (one, other), (values, variance) in pairs.items():
            if one in place and other in place:
                i, j = place[one], place[other]
                at = slice(starts[i], starts[i] + widths[i]), slice(starts[j], starts[j] + widths[j])
                blocks[at], blocks[at[::-1]] = values, values.T
                noise[i, j] = noise[j, i] = max(variance, LEAST)
        measured = np.repeat(np.repeat(np.isfinite(noise), widths, axis=0), widths, axis=1)
        factors = min(MOST_FACTORS, (len(names) - 1) // 2)
        values, vectors = np.linalg.eigh(blocks - np.outer(known, known) * measured)
        lead = np.maximum(values[: -factors - 1 : -1], 1e-9 * max(float(values[-1]), 1e-9))
        loadings = vectors[:, : -factors - 1 : -1] * np.sqrt(lead)
        none = Rows(np.zeros((1, factors), np.int64), np.ones(1), np.zeros((1, 0, 0)), np.zeros((1, 0, 0)))
        return cls(
            widths,
            known,
            1 / np.maximum([variance for _, variance in singles], LEAST),
            blocks,
            noise,
            np.column_stack([known, loadings]),
            np.zeros((len(names), factors + 1, factors + 1)),
            known.size / (loadings**2).sum(axis=0),
            1 / noise,
            SHARES,
            np.full((factors, SIZES.size), 1 / SIZES.size),
            [none] * len(names),
        )

    @property
    def starts(self) -> Integers:
        """The first coordinate of each variable."""
        return np.cumsum(self.widths) - self.widths

    def squares(self) -> Reals:
        """The posterior mean of B' B for each variable, B of its own block and its loadings."""
        apart = np.add.reduceat(np.einsum("rp,rq->rpq", self.means, self.means), self.starts)
        return apart + self.widths[:, None, None] * self.covariances

    def learn_loadings(self, more: bool = True) -> None:
        """One variable's block and loadings after the other's, given all others'; with ``more`` sizes tried."""
        squares = self.squares()
        for i, (start, width) in enumerate(zip(self.starts, self.widths, strict=True)):
            at = slice(start, start + width)
            weight = np.tensordot(self.precisions[i], squares, 1)
            seen = (self.blocks[at] * np.repeat(self.precisions[i], self.widths)) @ self.means
            seen[:, 0] += self.sure[i] * self.known[at]
            tried = self.rows[i].next_sizes(more)
            self.rows[i] = Rows.of(seen, weight, self.sure[i], self.scales, self.size_shares, tried)
            self.means[at], self.covariances[i] = self.rows[i].moments()
            squares[i] = self.means[at].T @ self.means[at] + width * self.covariances[i]

    def learn_scales(self) -> None:
        """The likeliest precision of each factor's loadings, and shares of their sizes."""
        likely, squares = (np.array(each) for each in zip(*(rows.of_sizes() for rows in self.rows), strict=True))
        self.size_shares = (likely.sum(axis=0) + ALIKE / SIZES.size) / (len(likely) + ALIKE)
        some = (self.widths[:, None] * likely[:, :, 1:].sum(axis=2)).sum(axis=0)
        self.scales = np.minimum(some / np.maximum(squares.sum(axis=0), LEAST), NONE)

    def missed(self) -> Reals:
        """The posterior mean of the squares of each pair's block less its factors."""
        apart = (self.blocks - self.means @ self.means.T) ** 2
        left = np.add.reduceat(np.add.reduceat(apart, self.starts, axis=0), self.starts, axis=1)
        squares = self.squares()
        alone = squares - self.widths[:, None, None] * self.covariances
        return left + np.tensordot(squares, squares, ((1, 2), (1, 2))) - np.tensordot(alone, alone, ((1, 2), (1, 2)))

    def learn_strengths(self) -> None:
        """How strong each pair is by itself, and the shares of the strengths."""
        upper = np.triu(np.isfinite(self.noise), 1)
        free = np.outer(self.widths, self.widths)[upper].astype(float)
        cells = np.outer(self.widths + 1, self.widths + 1)[upper]
        own = SQUARED * STRENGTHS**2 / (cells * free)[:, None]
        whole = own + self.noise[upper][:, None]
        logs = -0.5 * (free[:, None] * np.log(whole) + self.missed()[upper][:, None] / whole)
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        for _ in range(SHARINGS):
            each = likely * self.shares / (likely @ self.shares)[:, None]
            self.shares = (each.sum(axis=0) + WORTH * SHARES) / (len(each) + WORTH)
        each = likely * self.shares / (likely @ self.shares)[:, None]
        self.precisions = np.zeros_like(self.noise)
        self.precisions[upper] = (each / whole).sum(axis=1)
        self.precisions += self.precisions.T
