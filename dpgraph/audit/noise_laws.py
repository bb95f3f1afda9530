"""Does a noise source draw the laws that it is asked for? By sampling: a lower bound on epsilon, and the law itself.

Draws at two inputs are counted in an event that was chosen on the first half of them; Clopper-Pearson bounds on the
second half bound the epsilon that the draws show from below (proofs.md P94). The law is compared with the exact
probabilities by relative entropy, whose tail is bounded for any number of draws (Agrawal 2020, Theorem 1.3). Neither
conclusion is an approximation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.audit.checks import FALSE_ALARM, Check, Clock
from dpgraph.privacy.arrays import Integers, Reals
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.recording_noise import NoiseCall
from dpgraph.privacy.records import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.frozen import FrozenMap

NAME = "noise"
BLIND = (
    "a smaller violation; draws that depend on one another, or that somebody can predict; a law of another scale than "
    "the one drawn here; what the mechanism does with the draws (see exact loss)."
)

#: Draws at each of two inputs: as many as take a second or two.
DRAWS = {"laplace": 60_000, "gaussian": 40_000, "sum-zero": 2_000, "selection": 6_000, "composition": 6_000}

#: Violations whose chance of being seen is computed; and the chance from which one counts as seen.
VIOLATIONS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0)
SEEN = 0.999

#: No fewer are made, however little time there is.
FEWEST = 500

#: Integers are pooled to so many cells of like mass: more see finer differences and need more draws for it.
CELLS = 12


@dataclass(frozen=True, eq=False)
class Primitive:
    """A draw from a noise source at one of two inputs, and its exact law.

    Attributes:
        label: What it is called.
        draw: ``draw(source, which, count)``: draws at the first or the second input, each an integer from 0 on.
        log_laws: ``log_laws(factor)``: the log probabilities at both inputs of a source whose scales are divided by a
            factor, each over the same integers; what lies outside them is in the first and the last.
        epsilon: The claim between the two inputs.
        delta: The same.
        draws: How many draws at each input.
    """

    label: str
    draw: Callable[[Noise, int, int], Integers]
    log_laws: Callable[[float], tuple[Reals, Reals]]
    epsilon: float
    delta: float
    draws: int


@dataclass(frozen=True)
class Sampled:
    """What draws show of a primitive.

    Attributes:
        epsilon: A lower bound on the epsilon between the two inputs at the claimed delta; 0 if none is shown.
        entropy: n KL(observed, law), of both inputs together.
        threshold: What a right source exceeds with the chance of its share of the false alarm.
    """

    epsilon: float
    entropy: float
    threshold: float


def primitive_of(call: NoiseCall) -> Primitive | None:
    """A primitive that makes such calls as one that was recorded; None for a kind whose law is not compared."""
    scale = float(call.scale)
    if call.kind == "add":
        match call.public[0]:
            case DiscreteLaplace():
                return _additive("discrete Laplace", DiscreteLaplace, scale, DRAWS["laplace"])
            case DiscreteGaussian():
                return _additive("discrete Gaussian", DiscreteGaussian, scale, DRAWS["gaussian"])
            case SumZeroLaplace():
                return _sum_zero(scale) if call.inputs.size > 1 else None
    if call.kind in ("choose", "flip"):
        return _selection(call.kind, scale)
    return _composition(scale) if call.kind == "choose_composition" else None


def primitives_of(calls: Iterable[NoiseCall]) -> list[Primitive]:
    """For each kind of call and law the primitive of its smallest scale, in the order they come up."""
    least: dict[tuple[str, str], NoiseCall] = {}
    for call in calls:
        law = type(call.public[0]).__name__ if call.kind == "add" else ""
        known = least.get((call.kind, law))
        if known is None or call.scale < known.scale:
            least[call.kind, law] = call
    return [found for found in map(primitive_of, least.values()) if found is not None]


def noise_check(
    primitive: Primitive, source: Noise, *, share: float = FALSE_ALARM, clock: Clock | None = None
) -> Check:
    """Draws from a source and judges its law.

    Args:
        primitive: What to draw.
        source: Where from.
        share: The chance that this check fails on a right source, at most.
        clock: Fewer draws are made where this leaves less time.
    """
    clock = clock or Clock(math.inf)
    primitive = _affordable(primitive, source, clock)
    found = sampled(primitive, source, share)
    power = violation_seen(primitive, share)
    short, wrong = found.epsilon > primitive.epsilon, found.entropy > found.threshold
    claim = f"{primitive.epsilon:.4g}" + (f" at delta {primitive.delta:.3g}" if primitive.delta else "")
    words = f"{2 * primitive.draws:,} draws certify epsilon {found.epsilon:.4g} of {claim}"
    words += "; they are not of the law" if wrong else "; they fit the exact law"
    words += f" (n KL {found.entropy:.1f}, up to {found.threshold:.1f})"
    seen = (
        f"a source whose scale is divided by {1 + power:.4g} or more fails" if power < math.inf else "no fault is seen"
    )
    sees = f"{seen} with a chance of {SEEN} or more; a right one with at most {share:.1g}."
    numbers = {"draws": 2 * primitive.draws, "epsilon": primitive.epsilon, "delta": primitive.delta}
    numbers |= {"epsilon at least": found.epsilon, "n KL": found.entropy, "n KL up to": found.threshold}
    numbers |= {"scale divided by": 1 + power, "false alarm": share}
    verdict = "fail" if short or wrong else "pass"
    return Check(NAME, primitive.label, verdict, words, sees, BLIND, FrozenMap(numbers), clock.spent)


def _affordable(primitive: Primitive, source: Noise, clock: Clock) -> Primitive:
    """The primitive with as many draws as there is time for, from how long a few take."""
    if clock.left == math.inf:
        return primitive
    few, before = max(FEWEST // 10, 1), clock.spent
    for which in (0, 1):
        primitive.draw(source, which, few)
    each = (clock.spent - before) / few  # of a draw at either input
    return replace(primitive, draws=max(FEWEST, min(primitive.draws, int(clock.left / max(each, 1e-9)))))


def sampled(primitive: Primitive, source: Noise, share: float) -> Sampled:
    """Draws at both inputs; half of ``share`` is for the bound on epsilon, half for the law."""
    laws = [np.exp(law) for law in primitive.log_laws(1.0)]
    cells, both = _pooled(laws)
    found = [cells[np.clip(primitive.draw(source, which, primitive.draws), 0, len(cells) - 1)] for which in (0, 1)]
    size, half = both.shape[1], primitive.draws // 2
    first, second, every = (
        [np.bincount(mine[part], minlength=size) for mine in found]
        for part in (slice(half), slice(half, None), slice(None))
    )
    bounds = [_bound(first[i], first[1 - i], second[i], second[1 - i], primitive.delta, share / 8) for i in (0, 1)]
    entropy = primitive.draws * sum(
        _relative(mine / primitive.draws, law) for mine, law in zip(every, both, strict=True)
    )
    return Sampled(max(bounds), entropy, entropy_threshold(2 * size - 2, share / 2))


def _bound(a: Integers, b: Integers, later_a: Integers, later_b: Integers, delta: float, level: float) -> float:
    """A lower bound on epsilon from counts at two inputs, by the event that looks best on the first half of them.

    Events: those of the cells, ordered by their ratio on the first half, that come first.
    """
    ratio = (a + 0.5) / (b + 0.5)
    order = np.argsort(-ratio, kind="stable")
    hits, misses = np.cumsum(a[order]), np.cumsum(b[order])
    scores = epsilon_bounds(hits, misses, int(a.sum()), int(b.sum()), delta, level)
    event = order[: int(np.argmax(scores)) + 1]
    hit, miss = np.array([later_a[event].sum()]), np.array([later_b[event].sum()])
    found = epsilon_bounds(hit, miss, int(later_a.sum()), int(later_b.sum()), delta, level)
    return max(0.0, float(found[0]))


def epsilon_bounds(hits: Integers, misses: Integers, n: int, m: int, delta: float, level: float) -> Reals:
    """Lower bounds on epsilon: P(S) <= e^epsilon Q(S) + delta, where S was hit so often in n and in m draws.

    Each of the two Clopper-Pearson bounds is wrong with a chance of at most ``level``.
    """
    from scipy.special import betainccinv, betaincinv

    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(hits > 0, betaincinv(hits, n - hits + 1, level), 0.0)
        high = np.where(misses < m, betainccinv(misses + 1, m - misses, level), 1.0)
        return np.log(np.maximum(low - delta, 0.0)) - np.log(high)


def entropy_threshold(free: int, level: float) -> float:
    """What the sum of n KL(observed, law) exceeds with at most a chance of ``level``, for every n and all laws.

    The moment generating function of one on k cells is at most (1 - s)^-(k - 1) (Agrawal 2020, Theorem 1.3), and that
    of independent ones their product.

    Args:
        free: The sum of cells less one.
        level: The chance.
    """
    from scipy.optimize import brentq

    free = max(free, 1)
    excess: Any = lambda t: t - free * math.log(math.e * t / free) + math.log(level)  # noqa: E731
    return float(brentq(excess, free, 100 * free + 10_000))  # type: ignore[arg-type]


def _pooled(laws: Sequence[Reals]) -> tuple[Integers, Reals]:
    """Neighbouring integers as at most ``CELLS`` cells of like mass: the cell of each, and the laws of the cells."""
    mean = np.mean(laws, axis=0)
    cells = np.arange(len(mean))
    if len(mean) > CELLS:
        middle = np.cumsum(mean) - mean / 2
        cells = np.unique(np.minimum((middle * CELLS).astype(np.int64), CELLS - 1), return_inverse=True)[1]
    return cells, np.array([np.bincount(cells, law) for law in laws], float)


def _relative(one: Reals, other: Reals) -> float:
    """KL(one, other) in nats; infinite where the other has no mass."""
    some = one > 0
    if (other[some] <= 0).any():
        return math.inf
    return float(np.sum(one[some] * np.log(one[some] / other[some])))


def violation_seen(primitive: Primitive, share: float) -> float:
    """The least of ``VIOLATIONS`` that the test of the law sees with a chance of ``SEEN``; infinite if none.

    A violation of v is a source whose scales are divided by 1 + v. What passes is convex, so the chance that draws of a
    wrong law pass is at most exp(-n KL(r, wrong)) at the r in it nearest to the wrong law (Csiszar 1984, Theorem 1),
    which lies between the two laws on the exponential curve.
    """
    right = [np.exp(law) for law in primitive.log_laws(1.0)]
    cells, tested = _pooled(right)
    limit = entropy_threshold(tested.size - 2, share / 2) / primitive.draws
    for violation in VIOLATIONS:
        wrong = np.array([np.bincount(cells, np.exp(law)) for law in primitive.log_laws(1 + violation)], float)
        if _passing(wrong, tested, limit, primitive.draws) <= 1 - SEEN:
            return violation
    return math.inf


def _passing(truth: Reals, tested: Reals, limit: float, draws: int) -> float:
    """A bound on the chance that draws of some laws are within a limit of others; shape (inputs, cells)."""
    from scipy.optimize import brentq

    with np.errstate(divide="ignore"):
        logs = np.log(tested), np.log(truth)

    def between(s: float) -> Reals:
        mixed = (1 - s) * logs[0] + s * logs[1] if 0 < s < 1 else logs[int(s)]
        return np.exp(mixed - np.logaddexp.reduce(mixed, axis=1)[:, None])

    def apart(one: Reals, other: Reals) -> float:
        return sum(map(_relative, one, other))

    if apart(truth, tested) <= limit:
        return 1.0
    s = brentq(lambda s: apart(between(s), tested) - limit, 0, 1)
    return math.exp(-draws * apart(between(float(s)), truth))  # type: ignore[arg-type]


# --- the primitives


def _normalised(log_weights: Reals) -> Reals:
    return log_weights - np.logaddexp.reduce(log_weights)


def _additive(name: str, law: Any, scale: float, draws: int) -> Primitive:
    """Noise on an integer, at two inputs about a scale apart."""
    apart = max(1, round(scale))
    gaussian = law is DiscreteGaussian
    reach = math.ceil(scale * (9 if gaussian else 37)) + apart
    values = np.arange(-reach, reach + 1)

    def log_laws(factor: float) -> tuple[Reals, Reals]:
        b = scale / factor
        return tuple(  # type: ignore[return-value]
            _normalised(-((values - at) ** 2) / (2 * b**2) if gaussian else -np.abs(values - at) / b)
            for at in (0, apart)
        )

    def draw(source: Noise, which: int, count: int) -> Integers:
        return source.add(np.full(count, apart * which, np.int64), law(scale)) + reach

    epsilon, delta = float(Fraction(apart) / Fraction(scale)), 0.0
    if gaussian:
        one, other = log_laws(1.0)
        delta = float(np.maximum(np.exp(one) - math.exp(epsilon) * np.exp(other), 0).sum()) + 1e-12
    return Primitive(f"{name} of scale {scale:.4g}", draw, log_laws, epsilon, delta, draws)


def _sum_zero(scale: float) -> Primitive:
    """Noise on two integers whose sum is public, at inputs of which one unit in each of ``apart`` is exchanged.

    The first integer's noise z has P(z) proportional to exp(-2 |z| / scale).
    """
    apart = max(1, round(scale / 2))
    reach = math.ceil(37 * scale / 2) + apart + 1
    values = np.arange(-reach, reach + 1)

    def log_laws(factor: float) -> tuple[Reals, Reals]:
        return tuple(_normalised(-2 * np.abs(values - at) * factor / scale) for at in (0, apart))  # type: ignore[return-value]

    def draw(source: Noise, which: int, count: int) -> Integers:
        at = apart * which
        pairs = [source.add(np.array([at, -at]), SumZeroLaplace(scale)) for _ in range(count)]
        found = np.array(pairs)
        return np.where(found.sum(axis=1) == 0, found[:, 0], 10**9) + reach

    label = f"sum-zero Laplace of scale {scale:.4g}"
    return Primitive(label, draw, log_laws, 2 * apart / scale, 0.0, DRAWS["sum-zero"])


def _selection(kind: str, scale: float) -> Primitive:
    """A choice among four candidates whose scores are up to two scales apart; one goes from first to last."""
    step = max(1, round(scale))
    scores = np.array([[0, 0, -step, -2 * step], [-step, 0, -step, -2 * step]])

    def log_laws(factor: float) -> tuple[Reals, Reals]:
        law = _normalised if kind == "choose" else permute_and_flip
        return tuple(law(mine * factor / scale) for mine in scores)  # type: ignore[return-value]

    def draw(source: Noise, which: int, count: int) -> Integers:
        pick = source.choose if kind == "choose" else source.flip
        return np.array([pick(scores[which], scale) for _ in range(count)])

    name = "exponential selection" if kind == "choose" else "permute-and-flip selection"
    return Primitive(f"{name} of scale {scale:.4g}", draw, log_laws, step / scale, 0.0, DRAWS["selection"])


def permute_and_flip(logits: Reals) -> Reals:
    """The log law of permute-and-flip: candidates come at uniform times and each is taken with probability e^logit.

    P(i) = q_i times the integral over t of prod_{k != i} (1 - t q_k), a polynomial that Gauss-Legendre integrates
    exactly (McKenna and Sheldon 2020).

    >>> np.exp(permute_and_flip(np.array([0.0, -np.log(2)]))).round(4).tolist()
    [0.75, 0.25]
    """
    logits = logits - logits.max()
    q = np.exp(logits)
    nodes, weights = np.polynomial.legendre.leggauss(len(q) // 2 + 1)
    factors = 1 - (1 + nodes)[:, None] / 2 * q
    others = np.array([np.delete(factors, i, axis=1).prod(axis=1) for i in range(len(q))])
    return logits + np.log(others @ (weights / 2))


def _composition(scale: float) -> Primitive:
    """A composition of two into three parts, each of its six; the second input favours one of them."""
    step = max(1, round(scale / 2))
    scores = np.array([[[0, 0, 0], [0, step, 0], [0, 0, -step]], [[0, 0, step], [0, step, 0], [0, 0, -step]]])
    every = [z for z in itertools.product(range(3), repeat=3) if sum(z) == 2]
    sums = np.array([[sum(mine[part][j] for part, j in enumerate(z)) for z in every] for mine in scores])
    place = {z: number for number, z in enumerate(every)}

    def log_laws(factor: float) -> tuple[Reals, Reals]:
        return tuple(_normalised(mine * factor / scale) for mine in sums)  # type: ignore[return-value]

    def draw(source: Noise, which: int, count: int) -> Integers:
        found = source.choose_composition(scores[which], scale, count)
        return np.array([place.get(tuple(map(int, z)), len(every) - 1) for z in found])

    label = f"selection of compositions of scale {scale:.4g}"
    return Primitive(label, draw, log_laws, step / scale, 0.0, DRAWS["composition"])


def smallest_scales(records: Sequence[Iterable[NoiseCall]]) -> list[Primitive]:
    """The primitives of several mechanisms' recorded calls together."""
    return primitives_of(itertools.chain.from_iterable(records))
