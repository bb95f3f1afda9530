"""The posterior of a family's parameters given noisy sufficient statistics, the noise taken into account.

Exact independent draws where they exist: for a binomial the posterior is a mixture of Beta laws over what the exact
count may be, for a multinomial one of Dirichlet laws (``counts.dirichlet_multinomial``). Else the sums are taken as
normal, by a central limit theorem: few records within the bounds make it rough. One parameter and a public n need no
chain (``quadrature_draws``); anything else is drawn by Markov chains (``chain``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import erfcx, gammaln, log_ndtr

from dpgraph.inference.chains import progress_bar
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.dirichlet_multinomial import sample_counts
from dpgraph.inference.draws import ParameterDraws
from dpgraph.inference.expfam.chain import (
    Problems,
    draw_conjugate,
    from_line,
    gibbs_draws,
    log_prior,
    moments_within_bounds,
    nearest_possible_sums,
    to_line,
)
from dpgraph.inference.methods import Automatic, Exact, Gibbs, PlugIn, Quadrature, chosen_method, method_name
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.expfam import BetaPrior, Binomial, DirichletPrior, Multinomial, Natural, Prior, check_prior
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import MomentDescription, NoisyMoments
from dpgraph.structure.tables import Reals

Method = Automatic | Exact | Quadrature | Gibbs | PlugIn

#: The methods of an exponential family, by name.
METHODS: dict[str, Method] = {
    "auto": Automatic(),
    "exact": Exact(),
    "quadrature": Quadrature(),
    "gibbs": Gibbs(),
    "plug-in": PlugIn(),
}

#: Chains of the sampler, together they cost little more than one, and the least draws of each.
CHAINS, LEAST_DRAWS = 16, 4
#: Quadrature: first points, rounds of refinement, and the most mass of a cell.
POINTS, FINEST, CELL = 4001, 40, 1e-3


def moments_posterior(
    description: MomentDescription,
    noisy: NoisyMoments,
    *,
    prior: Prior | None = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
) -> ParameterDraws:
    """Draws the parameters of an exponential family given noisy moments; arguments as of ``inference.posterior``.

    ``Exact()`` draws a binomial or multinomial independently, known n or not. ``Gibbs(...)`` runs chains under the
    central limit theorem, for any family. ``Quadrature()`` draws from the same model without chains, for one parameter
    and a public n. ``PlugIn()`` is the conjugate posterior with the noisy sums, made possible, taken as exact.
    ``Automatic()``: exact where it exists, else quadrature, else chains. A missing prior is uniform for a binomial or
    multinomial family; others need one.
    """
    asked = chosen_method(method, METHODS)
    family = description.family
    if prior is None and not isinstance(family, Binomial | Multinomial):
        raise InferenceError(f"{type(family).__name__} has no default prior; give prior=family.prior(...)")
    prior = family.prior() if prior is None else prior  # type: ignore[call-arg]
    check_prior(family, prior)
    _check(noisy, asked)
    chosen, reason = _automatic(noisy) if isinstance(asked, Automatic) else (asked, "as asked")
    chains = 1
    match chosen:
        case Gibbs(burn_in=burn_in, thin=thin):
            chains, length = CHAINS, max(LEAST_DRAWS, -(-draws // CHAINS))
            problems = as_problems([noisy] * CHAINS, prior)
            with progress_bar(progress, burn_in + length * thin, "iterations of each chain") as tick:
                found, _ = gibbs_draws(problems, length, burn_in=burn_in, thin=thin, rng=rng, progress=tick)
            theta = np.swapaxes(found, 0, 1).reshape(-1, found.shape[2])
        case PlugIn():
            theta = _plug_in(noisy, prior, draws, rng)
        case Exact():
            theta = exact_draws(noisy, prior, draws, rng)
        case _:
            theta = quadrature_draws(as_problems([noisy], prior), draws, rng)
    parameters = FrozenMap((name, theta[:, i]) for i, name in enumerate(family.parameters))
    return ParameterDraws(parameters, method_name(chosen, METHODS), reason, chains, asked=draws)


def _check(value: object, method: Method) -> None:
    """Refuses values of another kind, and methods that the family does not have."""
    if not isinstance(value, NoisyMoments):
        raise InferenceError(f"this posterior takes noisy moments; got {type(value).__name__}")
    family, counted = value.of_family.family, isinstance(value.of_family.family, Binomial | Multinomial)
    if value.law.gaussian and not counted:
        raise InferenceError("this posterior of an exponential family takes moments with Laplace noise")
    match method:
        case Exact() if not counted:
            raise InferenceError(f'method="exact" needs a Binomial or Multinomial family; got {type(family).__name__}')
        case Quadrature() if not _has_quadrature(value):
            raise InferenceError('method="quadrature" needs one parameter, a conjugate family and a public n')
        case Gibbs() if counted and value.n is None:
            raise InferenceError('where n is private a Binomial or Multinomial takes method="exact"')
        case PlugIn() if isinstance(family, Natural):
            raise InferenceError("a Natural family has no plug-in posterior: its conjugate law cannot be drawn")
        case _:
            return


def _has_quadrature(value: NoisyMoments) -> bool:
    """True for one parameter, one sum and a public n."""
    family = value.of_family.family
    return value.n is not None and len(family.parameters) == 1 and not isinstance(family, Natural)


def _automatic(noisy: NoisyMoments) -> tuple[Method, str]:
    if isinstance(noisy.of_family.family, Binomial | Multinomial):
        return Exact(), "independent exact draws exist for this family"
    if _has_quadrature(noisy):
        return Quadrature(), "one parameter and a public n: the central limit theorem's posterior on a grid"
    return Gibbs(), "several unknowns, no exact sampler: central limit theorem, chains"


def exact_draws(noisy: NoisyMoments, prior: Prior, draws: int, rng: np.random.Generator) -> Reals:
    """Independent draws for a binomial or multinomial, shape (draws, parameters)."""
    if isinstance(prior, DirichletPrior):
        concentration = np.array(prior.concentration, np.float64)
        counts = sample_counts(noisy.sums, noisy.law, concentration, noisy.n, rng, draws)
        return dirichlet_draws(concentration + counts.astype(np.float64), rng)
    family = noisy.of_family.family
    assert isinstance(prior, BetaPrior)
    assert isinstance(family, Binomial)
    trials, shape = family.trials, np.array([prior.alpha, prior.beta])
    if noisy.n is None:
        whole = None if trials == 1 else lambda m: np.where(m % trials == 0, 0.0, -np.inf)
        counts = sample_counts(noisy.sums, noisy.law, shape, None, rng, draws, log_prior_n=whole)
    else:
        successes = _successes(noisy, prior, trials * noisy.n, draws, rng)
        counts = np.stack([successes, trials * noisy.n - successes], axis=1)
    return rng.beta(*(shape + counts).T)[:, None]


def _successes(noisy: NoisyMoments, prior: BetaPrior, trials: int, draws: int, rng: np.random.Generator) -> Reals:
    """The exact number of successes: weights BetaBinomial(s) q^|y - s| on every s within 40 noise scales."""
    y, reach = int(noisy.sums[0]), int(40 * noisy.law.scale) + 1
    centre = min(max(y, 0), trials)
    s = np.arange(max(0, centre - reach), min(trials, centre + reach) + 1)
    log = CellNoise(noisy.law).log(y - s) - gammaln(s + 1.0) - gammaln(trials - s + 1.0)
    log += gammaln(prior.alpha + s) + gammaln(prior.beta + trials - s)
    weight = np.exp(log - log.max())
    return rng.choice(s, size=draws, p=weight / weight.sum())


def as_problems(noisy: Sequence[NoisyMoments], prior: Prior) -> Problems:
    """Noisy moments of one description as one batch of problems.

    Noise that sums to zero has the likelihood of independent noise of its scale, on the plane where the sums are.
    """
    first = noisy[0]
    d = len(first.description.names)
    y, scale = np.stack([one.values for one in noisy]), np.stack([one.scales for one in noisy])
    if first.n is None:
        n, n_scale = y[:, d], scale[:, d]
    else:
        n, n_scale = np.array([float(one.n or 0) for one in noisy]), None
    return Problems(first.of_family.family, prior, first.of_family.bounds, y[:, :d], scale[:, :d], n, n_scale)


def _plug_in(noisy: NoisyMoments, prior: Prior, draws: int, rng: np.random.Generator) -> Reals:
    family, d = noisy.of_family.family, len(noisy.description.names)
    values = noisy.values
    if noisy.n is not None:
        n = float(noisy.n)
    elif isinstance(family, Binomial):
        n = max(0.0, float(np.maximum(values, 0).sum()) / family.trials)
    else:
        n = max(0.0, float(values[d]) if values.size > d else float(values.sum()))
    many = np.full(draws, n)
    return draw_conjugate(
        family, prior, nearest_possible_sums(family, np.tile(values[:d], (draws, 1)), many), many, rng
    )


def quadrature_draws(problems: Problems, draws: int, rng: np.random.Generator) -> Reals:
    """Draws of the parameter of one problem with one statistic and a known n, shape (draws, 1), without a chain.

    The model is that of ``expfam.chain``: the sum within the bounds is normal, given the parameter, with the moments of
    the random-sum central limit theorem, and the noise is Laplace. Their convolution has a closed form, so the density
    is known on a grid, refined where the mass is. Two modes, which redacted records can make, are no obstacle.
    """
    line, log = _grid(problems, rng)
    density = np.exp(log - log.max())
    mass = np.diff(line) * (density[:-1] + density[1:]) / 2
    cell = rng.choice(mass.size, size=draws, p=mass / mass.sum())
    start, slope = density[cell], density[cell + 1] - density[cell]
    u = rng.random(draws)
    root = np.sqrt(start**2 + u * slope * (2 * start + slope))
    share = np.where(root + start > 0, u * (2 * start + slope) / np.where(root + start > 0, root + start, 1.0), u)
    return from_line(problems.prior, (line[cell] + share * (line[cell + 1] - line[cell]))[:, None])


def _grid(problems: Problems, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """Points of the unconstrained coordinate and their log posterior, refined until no cell holds much mass."""
    nothing = np.zeros((POINTS, 1))
    before = to_line(problems.prior, draw_conjugate(problems.family, problems.prior, nothing, nothing[:, 0], rng))[:, 0]
    reach = np.ptp(before) / 2
    line = np.linspace(before.min() - reach, before.max() + reach, POINTS)
    log = _log_posterior(problems, line)
    for _ in range(FINEST):
        density = np.exp(log - log.max())
        mass = np.diff(line) * (density[:-1] + density[1:]) / 2
        peak = np.r_[True, log[1:] >= log[:-1]] & np.r_[log[:-1] >= log[1:], True] & (log > log.max() - 1e4)
        coarse = mass > CELL * mass.sum()
        coarse |= (peak[:-1] | peak[1:]) & (np.abs(np.diff(log)) > 0.1)
        if not coarse.any():
            break
        middle = (line[:-1][coarse] + line[1:][coarse]) / 2
        where = np.searchsorted(line, middle)
        line, log = np.insert(line, where, middle), np.insert(log, where, _log_posterior(problems, middle))
    return line, log


def _log_posterior(problems: Problems, line: Reals) -> Reals:
    """The log density of the coordinate, up to a constant: prior times normal law convolved with Laplace noise."""
    theta = from_line(problems.prior, line[:, None])
    found = moments_within_bounds(problems, theta)
    n, b = problems.n[0], problems.scale[0, 0]
    deviation = np.sqrt(np.maximum(n * found.covariance()[:, 0, 0], 0.0))
    miss = problems.y[0, 0] - n * found.first[:, 0]
    return log_prior(problems.family, problems.prior, theta) + log_normal_laplace(miss, deviation, b)


def log_normal_laplace(x: Reals, deviation: Reals, scale: float) -> Reals:
    """The log density at x of a centred normal number plus Laplace noise of this scale, up to a constant."""
    sharp = np.maximum(deviation, 1e-9 * scale)
    z, ratio = x / sharp, sharp / scale
    return np.logaddexp(_one_side(z, ratio), _one_side(-z, ratio))


def _one_side(z: Reals, ratio: Reals) -> Reals:
    """ratio^2 / 2 - ratio z + log Phi(z - ratio), by erfcx where the terms would cancel."""
    gap = ratio - z
    scaled = np.log(erfcx(np.maximum(gap, 0.0) / np.sqrt(2)) / 2) - z**2 / 2
    with np.errstate(over="ignore"):
        plain = ratio * (ratio / 2 - z) + log_ndtr(np.maximum(-gap, 0.0))
    return np.where(gap > 0, scaled, plain)
