"""Coefficients of one variable of a network on others: the line, or the curve, that fits the population best.

In every draw of the tables the coefficients solve E[(y - m(x'b)) x] = 0 under the draw's joint law, with m the
identity, the logistic function or exp. They are the population's projection: no law of y given x is taken for true.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.graphs.pair_estimates import Pairs, contrasts
from dpgraph.inference.network.queries import code_columns, sample_codes
from dpgraph.inference.queries.answer import Summary
from dpgraph.inference.queries.asking import joint_of
from dpgraph.inference.queries.contraction import ancestors
from dpgraph.inference.queries.question import read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.display import DataFrame, as_html, counted, data_frame, summary
from dpgraph.privacy.errors import ConvergenceWarning, InferenceError
from dpgraph.privacy.records import Provenance, released_value
from dpgraph.structure.conversion import columns_to_predict
from dpgraph.structure.domain import Bins, Domain, DomainError
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities, Reals

#: Draws at most and at least, and the numbers in all their moments at most in between.
MOST_DRAWS, LEAST_DRAWS, ALL_MOMENTS = 1000, 100, 1 << 24
#: Rounds by which the weight of the prior and the slopes are found together.
ROUNDS = 4


def least_squares(pairs: Pairs, names: Family, maps: list[Reals], rng: np.random.Generator) -> Reals:
    """Draws of the coefficients in the population, axes (draw, coefficient), intercept first; the target comes last.

    ``maps`` has the columns of each variable at each level, on scales on which a slope of 1 is large. Counts are linear
    in the residual blocks of the release, whose noise has one known variance in each (proofs.md P30): draws of these
    under a flat prior give draws of the covariance A of the features and of theirs c with the target. Where A is as
    small as its noise, A b = c says nothing, so slopes are normal beforehand: in every draw b minimises
    (c - A b)' W^-1 (c - A b) + |b - z|^2, with W the covariance of noise and sampling in c - A b at the likeliest b,
    and z a draw of the prior.
    """
    moments = _moments(pairs, names, maps, rng)
    means = moments[:, 0, 1:]
    covariance = moments[:, 1:, 1:] - means[:, :, None] * means[:, None, :]
    square, right, spread = covariance[:, :-1, :-1], covariance[:, :-1, -1], max(float(covariance[0, -1, -1]), 1e-6)
    values, vectors = np.linalg.eigh(square[0])
    root = vectors * np.sqrt(np.maximum(values, 0) / pairs.n)
    slopes, left, weight = np.zeros(len(root)), spread, np.empty(0)
    for _ in range(ROUNDS):
        noise = (right[1:] - right[0]) - (square[1:] - square[0]) @ slopes
        made = noise.T @ noise / len(noise) + left * root @ root.T
        share = len(root) / (len(root) + len(noise))  # few draws know variances better than covariances
        weight = np.linalg.inv(made + share * (np.diag(np.diag(made)) - made) + 1e-14 * np.eye(len(root)))
        slopes = _fitted(square[:1], right[:1], weight, np.zeros((1, len(root))))[0]
        left = float(np.clip(covariance[0, -1, -1] - (2 * right[0] - square[0] @ slopes) @ slopes, 0, spread))
    normal = rng.standard_normal((3, *right[1:].shape))
    slopes = _fitted(square[1:], right[1:] + math.sqrt(left) * normal[0] @ root.T, weight, normal[1])
    first = means[1:, -1] - (slopes * means[1:, :-1]).sum(axis=1) + math.sqrt(left / pairs.n) * normal[2, :, 0]
    return np.column_stack([first, slopes])


def _fitted(square: Reals, right: Reals, weight: Reals, prior: Reals) -> Reals:
    """The slopes that fit each system of equations, and draws of the prior, best."""
    turned = square @ weight
    both = (turned @ right[..., None])[..., 0] + prior
    return np.linalg.solve(turned @ square + np.eye(square.shape[1]), both[..., None])[..., 0]  # type: ignore[return-value]


def _moments(pairs: Pairs, names: Family, maps: list[Reals], rng: np.random.Generator) -> Reals:
    """The second moments of 1 and all columns: of the release as it is, then draws of them given the release."""
    width = 1 + sum(one.shape[1] for one in maps)
    draws = min(MOST_DRAWS, max(LEAST_DRAWS, ALL_MOMENTS // width**2))

    def noise(variance: float, *shape: int) -> Reals:
        return np.concatenate([np.zeros((1, *shape)), math.sqrt(variance) * rng.standard_normal((draws, *shape))])

    total = np.maximum(pairs.n + noise(pairs.residuals[()][1]), 1.0)[:, None]
    uneven = []
    for name, size in ((name, len(columns)) for name, columns in zip(names, maps, strict=True)):
        values, variance = pairs.residuals[name,]
        uneven.append((values + noise(variance, size - 1)) @ contrasts(size) / total)

    def product(a: int, b: int) -> Reals:
        turned = (names[a], names[b]) not in pairs.residuals
        values, variance = pairs.residuals[(names[b], names[a]) if turned else (names[a], names[b])]
        first, second = (contrasts(len(maps[one])) @ maps[one] for one in (a, b))
        left, right = (np.linalg.qr(one)[1] for one in (first, second))  # the noise of as few sums as there are
        made = first.T @ (values.T if turned else values) @ second
        made = (made + left.T @ noise(variance, len(left), len(right)) @ right) / total[..., None]
        one, other = maps[a].mean(axis=0), maps[b].mean(axis=0)  # where levels are even
        made += (one + uneven[a] @ maps[a])[:, :, None] * other
        return made + one[:, None] * (uneven[b] @ maps[b])[:, None, :]

    return second_moments(maps, [one + 1 / one.shape[1] for one in uneven], product)


def second_moments(maps: list[Reals], shares: list[Reals], product: Callable[[int, int], Reals]) -> Reals:
    """E[x x'] of 1 and the columns of each variable, draw by draw, from shares of levels and products of two."""
    ends = np.cumsum([1, *(one.shape[1] for one in maps)])
    parts = [slice(*part) for part in pairwise(ends)]
    moments = np.ones((len(shares[0]), ends[-1], ends[-1]))
    for columns, share, here in zip(maps, shares, parts, strict=True):
        moments[:, 0, here] = moments[:, here, 0] = share @ columns
        moments[:, here, here] = np.einsum("dk,ki,kj->dij", share, columns, columns)
    for a, b in combinations(range(len(maps)), 2):
        moments[:, parts[a], parts[b]] = made = product(a, b)
        moments[:, parts[b], parts[a]] = made.transpose(0, 2, 1)
    return moments


Link = Literal["linear", "logistic", "poisson"]

#: The largest joint table of features and target that is summed cell by cell; and rows sampled from a draw otherwise.
MOST_CELLS, LEAST_ROWS, ALL_ROWS, SEED = 1 << 14, 20_000, 200_000, 0
#: Newton steps at most, and the change of the scaled coefficients at which they end: exact, and of sampled rows.
STEPS, TOLERANCES = 200, (1e-10, 1e-6)
#: Log odds, or the logarithm of a mean, from which no step comes back.
FAR = 30.0
#: An information matrix is kept while steps shrink by this; and draws whose Monte Carlo error is averaged.
SHRINKS, ERRORS = 0.3, 10
#: The condition from which a matrix is singular; and the information of a level that nobody has in a draw, whose
#: coefficient stays that of the draw before.
SINGULAR, NOBODY = 1e13, 1e-10
#: Rows that are predicted at once.
BLOCK = 10_000


World = tuple[Reals, Reals, int]


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Summary):
    """Coefficients of a target on features, draw by draw; ``dg.regression`` makes it.

    A word level has an indicator against the first level. A bin stands for the mean of its numbers (``Bins``), a
    number for itself, and a level for missing numbers has an indicator beside the middle of the range. So coefficients
    are those of binned rows: a feature that is even within bins of width w has a variance smaller by w^2/12
    (Sheppard), and its slope moves by as much as the target bends or piles up within bins.

    Attributes:
        target: The variable that is explained.
        family: ``"linear"``, ``"logistic"`` (of the last level) or ``"poisson"``.
        features: The variables that explain it.
        domain: The domain of these.
        names: The coefficients' names, ``"intercept"`` first.
        draws: Shape (draws, coefficients).
        interval: The probability of the intervals.
        monte_carlo_error: For each coefficient the standard deviation of one draw by its sampled rows, which the spread
            of the draws contains; 0 where the answer is exact.
        provenance: The record of the release; None where none is known.
        note: That the draws are of Markov chains that have not mixed; else empty.
    """

    target: str
    family: Link
    features: Family
    domain: Domain
    names: tuple[str, ...]
    draws: Reals
    interval: float
    monte_carlo_error: Reals
    provenance: Provenance | None = None
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", frozen_array(self.draws, np.float64))
        object.__setattr__(self, "monte_carlo_error", frozen_array(self.monte_carlo_error, np.float64))

    def _error_of_one(self) -> Reals:
        return np.where(self.monte_carlo_error > 0, self.monte_carlo_error, np.nan)

    def predict(self, X: Any) -> Reals:
        """The expected target of each row, of logistic the probability of the last level, averaged over the draws.

        ``X`` is a table that holds the features, or as for ``ConditionalClassifier.predict_proba``.
        """
        read = columns_to_predict(X, self.domain.restrict(self.features))
        codes = code_columns(read, {name: self.domain.sizes[name] for name in self.features})
        rows = _rows(_design(self.domain, self.features)[1], [codes[name].astype(np.int64) for name in self.features])
        starts = range(0, max(1, len(rows)), BLOCK)
        return np.concatenate([_mean(self.family, rows[i : i + BLOCK] @ self.draws.T).mean(axis=1) for i in starts])

    def to_frame(self) -> DataFrame:
        """A row for each coefficient: mean, sd, low, high."""
        return data_frame({"coefficient": self.names, **self._numbers()})

    @property
    def _said(self) -> str:
        return f"{self.family} regression of {self.target} on {', '.join(self.features)}"

    def __repr__(self) -> str:
        return summary("Projection", self._said, counted(len(self.draws), "draw"), self.provenance)

    def _repr_html_(self) -> str:
        notes = [f"{self.interval:.0%} intervals", counted(len(self.draws), "draw"), self.note, self.provenance]
        rows = self.to_frame().to_dict("records")
        return as_html(self._said, rows, list(filter(None, notes)), total=len(rows))  # type: ignore[arg-type]


def regression(
    posterior: Any, target: str, features: str | Iterable[str], family: Link = "linear", *, interval: float = 0.9
) -> Projection:
    """The coefficients of a target on features in the population, from an earlier release or posterior; free.

    Args:
        posterior: As for ``query``: a release of tables or pairs, a learned network, posterior draws, probabilities.
        target: The variable to explain: of numbers or bins; of two levels for ``"logistic"``.
        features: The variables that explain it.
        family: ``"linear"``; ``"logistic"``, of the target's last level; ``"poisson"``, of numbers of at least 0.
        interval: The probability of the intervals.

    Of a release of all pairs, or a network learned of one, a line is read off the pairs themselves, without a graph,
    and a curve has the pairs' line; the graph only tells how it bends. Where values are unobserved a line is of draws
    of the graph, which fill them (multiple imputation). A slope of pairs is normal beforehand: one deviation is half
    the target's range, from the middle of a feature to its end or from the first level to another.

    Raises:
        NetworkError: If a variable is unknown.
        DomainError: If there are no features, one is there twice, is the target, or has one level.
        InferenceError: If the family does not fit the target, features determine each other, or there is no network to
            read, as of moments.

    Warns:
        ConvergenceWarning: If the steps of some draw did not end: a level of a feature decides the target.

    >>> import dpgraph as dg
    >>> model = regression(dg.load("example:asia"), "lung", ["smoke"], "logistic")
    >>> dict(zip(model.names, model.mean.round(2).tolist()))
    {'intercept': 2.2, 'smoke=no': 2.4}
    """
    from dpgraph.inference.graphs.choosing import domain_of, learned_from, pairs_that_hold

    check_probability("interval", interval)
    check_choice("family", family, Link, error=InferenceError)
    domain, chosen = domain_of(posterior), (features,) if isinstance(features, str) else tuple(features)
    outcome, every = _checked(domain, target, chosen, family), (*chosen, target)
    domain = domain.restrict(every)
    names, maps, centres, scales = _design(domain, chosen)
    scaled = [(one - centre) / scale for one, centre, scale in zip(maps, centres, scales, strict=True)]
    note, error, lines, pairs = "", np.zeros(len(names)), None, pairs_that_hold(posterior, every)
    if pairs is not None:
        middle, half = (outcome.max() + outcome.min()) / 2, (outcome.max() - outcome.min()) / 2
        columns = [*scaled, (outcome - middle)[:, None] / half]
        lines = least_squares(pairs, every, columns, np.random.default_rng(SEED)) * half
        lines[:, 0] += middle
    if lines is not None and family == "linear":
        draws, behind = lines, released_value(getattr(posterior, "release", posterior))[1]
    else:
        posterior = learned_from(posterior)
        tables = drawn_tables(posterior)
        behind, note = getattr(getattr(posterior, "posterior_", posterior), "provenance", None), tables.note
        if family == "linear":
            columns, whole = [*scaled, outcome[:, None]], read_evidence(tables.network)
            alone = [joint_of(tables, (name,), whole)[0] for name in every]
            moments = second_moments(
                columns,
                alone,
                lambda a, b: columns[a].T @ joint_of(tables, (every[a], every[b]), whole)[0] @ columns[b],
            )
            draws = _solved(moments[:, :-1, :-1], moments[:, :-1, -1:])[..., 0]
        else:
            draws, error = _curved(tables, every, scaled, outcome, family, lines)
    centre, scale = np.concatenate(centres), np.concatenate(scales)
    draws[:, 1:] /= scale
    draws[:, 0] -= draws[:, 1:] @ centre
    error[1:] /= scale  # that of the intercept stays the one at the middle of the numbers
    return Projection(target, family, chosen, domain, names, draws, interval, error, behind, note)


def _checked(domain: Domain, target: str, features: Family, family: Link) -> Reals:
    """The number of each level of the target; raises the errors of ``regression``."""
    for name in (target, *features):
        domain[name]
    if not features or len(set(features)) < len(features) or target in features:
        raise DomainError(f"features must be one or more variables, each once, without the target {target!r}")
    for name in features:
        if domain.sizes[name] < 2:
            raise DomainError(f"{name!r} has one level, so it explains nothing: leave it out of the features")
    if family == "logistic":
        if domain.sizes[target] != 2:
            raise InferenceError(
                f"a logistic regression is of two levels, and {target!r} has {domain.sizes[target]}: take "
                "dg.classifier, or declare the target with two levels"
            )
        return np.array([0.0, 1.0])
    found = _numbers(domain, target)
    if found is None or not np.isfinite(found).all():
        raise InferenceError(
            f"a {family} regression is of numbers, and a level of {target!r} is none: take family='logistic' if it has "
            "two levels, or dg.classifier"
        )
    if family == "poisson" and found.min() < 0:
        raise InferenceError(f"a poisson regression is of numbers from 0 on, and {target!r} has others: take linear")
    return found


def _numbers(domain: Domain, name: str) -> Reals | None:
    """The number that each level stands for, nan where it is missing; None of words."""
    variable = domain[name]
    if isinstance(variable, Bins):
        return np.array([*variable.middles, *[np.nan] * variable.missing])
    return None if variable.kind != "number" else np.array([float(level) for level in domain.levels(name)])


def _design(domain: Domain, features: Family) -> tuple[tuple[str, ...], list[Reals], list[Reals], list[Reals]]:
    """The coefficients' names; for each feature its columns at each level, and their centres and scales."""
    names, maps, centres, scales = ["intercept"], [], [], []
    for name in features:
        levels, numbers = domain.levels(name), _numbers(domain, name)
        there = np.zeros(0) if numbers is None else numbers[np.isfinite(numbers)]
        if numbers is None or len(there) < 2:
            columns, said = np.eye(len(levels))[:, 1:], [f"{name}={level}" for level in levels[1:]]
            centre, scale = np.zeros(len(said)), np.ones(len(said))
        else:
            gone = np.isnan(numbers)
            middle = (there.min() + there.max()) / 2
            columns = np.column_stack([np.where(gone, middle, numbers), np.eye(len(levels))[:, gone]])
            said = [name, *(f"{name}={level}" for level, one in zip(levels, gone, strict=True) if one)]
            centre, scale = np.zeros(len(said)), np.ones(len(said))
            centre[0], scale[0] = middle, (there.max() - there.min()) / 2
        names += said
        maps.append(columns)
        centres.append(centre)
        scales.append(scale)
    return tuple(names), maps, centres, scales


def _rows(maps: list[Reals], codes: list[Any]) -> Reals:
    return np.column_stack([np.ones(len(codes[0])), *(one[code] for one, code in zip(maps, codes, strict=True))])


def _solved(square: Reals, right: Reals) -> Reals:
    """The solutions of systems of equations; raises an error where there are none."""
    if (np.linalg.cond(square) > SINGULAR).any():
        raise InferenceError("some features determine each other, so their coefficients are not known: leave one out")
    return np.linalg.solve(square, right)  # type: ignore[return-value]


def _mean(family: Link, eta: Reals) -> Reals:
    if family == "linear":
        return eta
    return np.exp(np.minimum(eta, 700)) if family == "poisson" else 0.5 * (1 + np.tanh(eta / 2))


def _curved(
    tables: DrawnTables, names: Family, maps: list[Reals], outcome: Reals, family: Link, lines: Reals | None
) -> tuple[Reals, Reals]:
    """The solutions of the expected score equations of every draw, and the Monte Carlo error of one draw.

    With ``lines`` these have the least-squares line of released pairs: the graph tells how a line bends alone. Where no
    curve has it, noise having carried it too far, it is cut where the target ends.
    """
    exact = math.prod(tables.network.shape(names)) <= MOST_CELLS
    worlds = (_enumerated if exact else _sampled)(tables, names[-1], names[:-1], maps, outcome)
    width = 1 + sum(one.shape[1] for one in maps)
    draws, variance, b, ended = np.empty((len(tables), width)), np.zeros(width), np.zeros(width), True
    whole = np.zeros((width, width))
    for draw, (x, sums, n) in enumerate(worlds):
        whole += _gram(x, sums[:, 0])
        line = None if lines is None else x @ lines[draw % len(lines)]
        for cut in (math.inf, 0.0):
            if line is not None:
                line = np.clip(line, outcome.min() - cut, outcome.max() + cut)
                sums = sums[:, :1] * line[:, None] ** np.arange(3)
            b, inverse, done = _newton(x, sums, b if cut else np.zeros(width), family, TOLERANCES[n > 0])
            if done or line is None:
                break
        draws[draw], ended = b, ended and done
        if n and draw < ERRORS:
            mu = _mean(family, x @ b)
            residual = sums[:, 2] - 2 * mu * sums[:, 1] + mu**2 * sums[:, 0]
            variance += np.diag(inverse @ _gram(x, residual) @ inverse) / n / min(ERRORS, len(tables))
    _solved(whole, np.eye(width))
    if not ended:
        warnings.warn(
            "the coefficients of some draws did not settle: nobody has a level of a feature there, or it decides the "
            "target, or nearly; leave the feature out or declare coarser levels",
            ConvergenceWarning,
            stacklevel=3,
        )
    return draws, np.sqrt(variance)


def _enumerated(
    tables: DrawnTables, target: str, features: Family, maps: list[Reals], outcome: Reals
) -> Iterator[World]:
    """For each draw every row of the design, the sums of 1, y and y^2 over the law at it, and no rows sampled."""
    joint = joint_of(tables, (*features, target), read_evidence(tables.network))[0]
    x = _rows(maps, [axis.ravel() for axis in np.indices(tables.network.shape(features))])
    for sums in joint.reshape(len(tables), -1, len(outcome)) @ outcome[:, None] ** np.arange(3):
        yield x, sums, 0


def _sampled(tables: DrawnTables, target: str, features: Family, maps: list[Reals], outcome: Reals) -> Iterator[World]:
    """The same of the distinct rows among those sampled from each draw, and their number."""
    network = tables.network
    held = ancestors(network, (*features, target))
    part = Network.of(network.domain.restrict(held), {name: network.parents[name] for name in held})
    rng, n = np.random.default_rng(SEED), max(LEAST_ROWS, ALL_ROWS // len(tables))
    marks = {name: rng.random(network.domain.sizes[name]) for name in features}
    for draw in range(len(tables)):
        one = Probabilities(part, {name: tables.tables[name][draw] for name in part.parents})  # type: ignore[arg-type]
        codes = sample_codes(one, n, rng)
        sketch = sum(some[codes[name]] for name, some in marks.items())  # differs where rows do, as good as surely
        _, first, group = np.unique(sketch, return_index=True, return_inverse=True)
        sums = np.column_stack([np.bincount(group, outcome[codes[target]] ** power) for power in range(3)]) / n
        yield _rows(maps, [codes[name][first] for name in features]), sums, n


def _gram(x: Reals, weight: Reals) -> Reals:
    root = x * np.sqrt(np.maximum(weight, 0))[:, None]
    return root.T @ root


def _newton(x: Reals, sums: Reals, b: Reals, family: Link, tolerance: float) -> tuple[Reals, Reals, bool]:
    """Newton's method, halved where the likelihood falls: coefficients, the inverse information, and if it ended."""
    weight, total = sums[:, 0], sums[:, 1]

    def loss(eta: Reals) -> float:
        height = np.exp(np.minimum(eta, 700)) if family == "poisson" else np.logaddexp(0, eta)
        return float((weight * height - total * eta).sum())

    eta = x @ b
    value, bend, last, longest = loss(eta), np.eye(len(b)), 0.0, math.inf
    inverse: Any = bend
    for _ in range(STEPS):
        mu = _mean(family, eta)
        if longest > SHRINKS * last:
            bend = _gram(x, weight * (mu if family == "poisson" else mu * (1 - mu)))
            inverse = np.linalg.inv(bend + NOBODY * np.eye(len(b)))
        step = inverse @ np.einsum("ij,i->j", x, total - weight * mu)  # threads of BLAS wait longer than this takes
        size, move = 1.0, np.einsum("ij,j->i", x, step)
        while (new := loss(eta + size * move)) > value + 1e-12 * abs(value) and size > 1e-6:
            size /= 2
        b, eta, value = b + size * step, eta + size * move, new
        last, longest = longest, float(np.abs(step).max())
        if np.abs(eta).max() > FAR:
            break
        if longest < tolerance:
            return b, inverse, bool(np.linalg.cond(bend) < SINGULAR)
    return b, inverse, False
