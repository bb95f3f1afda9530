"""The posterior of a family's parameters given noisy sufficient statistics, the noise taken into account.

Exact independent draws where they exist: for a binomial the posterior is a mixture of Beta laws over what the exact
count may be, for a multinomial one of Dirichlet laws (``dirichlet_multinomial``). Else chains (``moment_chain``), which
rest on a central limit theorem for the sums: few records within the bounds make it rough.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.cell_noise import CellNoise
from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.inference.conjugate import draw_conjugate, draw_dirichlet, projected
from dpgraph.inference.dirichlet_multinomial import sample_counts
from dpgraph.inference.draws import ConvergenceWarning
from dpgraph.inference.moment_chain import Form, run_chains
from dpgraph.inference.moment_quadrature import quadrature_draws
from dpgraph.inference.noisy_sums import Problems
from dpgraph.privacy.records import Provenance, Release, ReleaseError, released_value
from dpgraph.structure.expfam import Binomial, Multinomial, Natural, check_prior
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.priors import BetaPrior, DirichletPrior, Prior

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]
Method = Literal["auto", "exact", "quadrature", "normal", "plug-in"]

#: Chains of the sampler; together they cost little more than one.
CHAINS = 16
#: Beyond this R-hat, or below this effective size, a warning.
WORST_R_HAT, LEAST_SIZE = 1.05, 100


@dataclass(frozen=True)
class ParameterDraws:
    """Draws from the posterior of a family's parameters.

    Attributes:
        parameters: For each parameter an array of draws, shape (draws,).
        method: ``"exact"``, ``"quadrature"``, ``"normal"`` or ``"plug-in"``.
        reason: Why this method.
        diagnostics: Of chains, R-hat and effective size of each parameter; empty for independent draws.
        provenance: The release behind it.
    """

    parameters: FrozenMap[str, Reals]
    method: str
    reason: str
    diagnostics: FrozenMap[str, float]
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        frozen = ((name, frozen_array(values, np.float64)) for name, values in self.parameters.items())
        object.__setattr__(self, "parameters", FrozenMap(frozen))

    def mean(self) -> dict[str, float]:
        """The posterior mean of each parameter."""
        return {name: float(values.mean()) for name, values in self.parameters.items()}

    def interval(self, probability: float = 0.9) -> dict[str, tuple[float, float]]:
        """The central interval of each parameter that holds this probability.

        Raises:
            ReleaseError: If the probability is not between 0 and 1.
        """
        if not 0 < probability < 1:
            raise ReleaseError(f"probability must be between 0 and 1; got {probability!r}")
        tail = (1 - probability) / 2
        ends = {name: np.quantile(values, [tail, 1 - tail]) for name, values in self.parameters.items()}
        return {name: (float(low), float(high)) for name, (low, high) in ends.items()}

    def to_frame(self) -> pd.DataFrame:
        """A row for each draw, a column for each parameter."""
        import pandas as pd

        return pd.DataFrame({name: np.array(values) for name, values in self.parameters.items()})


def moments_posterior(
    noisy: NoisyMoments | Release[NoisyMoments],
    prior: Prior,
    *,
    method: Method = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    burn_in: int = 1000,
    thin: int = 20,
    form: Form = "corrected",
    progress: Callable[[int], None] | None = None,
) -> ParameterDraws:
    """Draws the parameters of an exponential family given noisy moments.

    Args:
        noisy: A release of noisy moments, or its value.
        prior: ``family.prior(...)``.
        method: ``"exact"``: independent draws of a binomial or multinomial, known n or not. ``"normal"``: chains under
            the central limit theorem, any family. ``"quadrature"``: the same model without chains, for one parameter
            and a public n. ``"plug-in"``: the conjugate posterior with the noisy sums, made possible, taken as exact;
            overconfident, for comparison. ``"auto"``: exact where it exists, else quadrature, else normal; a ``form``
            other than the corrected one asks for chains.
        draws: How many.
        rng: Randomness for post-processing; the release is already public.
        burn_in: Iterations of each of sixteen chains before its first draw.
        thin: Iterations of a chain for each draw.
        form: The chain's form; see ``moment_chain``.
        progress: Called with the number of each iteration of the chains.

    Raises:
        ReleaseError: If the prior is another family's, a setting is out of range, or the method does not exist for
            the family.

    >>> import dpgraph as dg
    >>> moments = dg.sufficient_statistics([1, 0, 1, 1, 1, 0, 1, 1], dg.expfam.Binomial())
    >>> noisy = dg.release(moments, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.SeededNoise(0))
    >>> posterior = moments_posterior(noisy, dg.expfam.Binomial().prior(), rng=np.random.default_rng(0))
    >>> posterior.method, 0.5 < posterior.mean()["p"] < 0.9
    ('exact', True)
    """
    value, provenance = released_value(noisy)
    _check(value, prior, method, draws, burn_in, thin, form)
    family = value.of_family.family
    exact = isinstance(family, Binomial | Multinomial)
    if method == "plug-in":
        theta = _plug_in(value, prior, draws, rng)
        return _collected(value, theta, "plug-in", "asked for; the noise is not in it", {}, provenance)
    if method == "exact" or (method == "auto" and exact):
        reason = "independent exact draws exist for this family"
        return _collected(value, exact_draws(value, prior, draws, rng), "exact", reason, {}, provenance)
    if method == "quadrature" or (method == "auto" and form == "corrected" and _has_quadrature(value)):
        reason = "one parameter and a public n: the central limit theorem's posterior on a grid, independent draws"
        theta = quadrature_draws(problems_of([value], prior), draws, rng)
        return _collected(value, theta, "quadrature", reason, {}, provenance)
    length = -(-draws // CHAINS)
    theta, _ = run_chains(
        problems_of([value] * CHAINS, prior),
        max(4, length),
        burn_in=burn_in,
        thin=thin,
        rng=rng,
        form=form,
        progress=progress,
    )
    diagnostics = _diagnostics(value, theta)
    reason = "asked for" if method == "normal" else "several unknowns, no exact sampler: central limit theorem, chains"
    flat = theta.swapaxes(0, 1).reshape(-1, theta.shape[2])[:draws]
    return _collected(value, flat, "normal", reason, diagnostics, provenance)


def _check(value: object, prior: Prior, method: str, draws: int, burn_in: int, thin: int, form: str) -> None:
    """Refuses settings out of range and priors of other families."""
    if not isinstance(value, NoisyMoments):
        raise ReleaseError(f"this posterior takes noisy moments or their release; got {type(value).__name__}")
    for name, setting, choices in (("method", method, get_args(Method)), ("form", form, get_args(Form))):
        if setting not in choices:
            raise ReleaseError(f"{name} must be one of {', '.join(map(repr, choices))}; got {setting!r}")
    for name, number, least in (("draws", draws, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ReleaseError(f"{name} must be a whole number, at least {least}; got {number!r}")
    family = value.of_family.family
    check_prior(family, prior)
    if method == "exact" and not isinstance(family, Binomial | Multinomial):
        raise ReleaseError(f'method="exact" needs a Binomial or Multinomial family; got {type(family).__name__}')
    if method == "quadrature" and not _has_quadrature(value):
        raise ReleaseError('method="quadrature" needs one parameter, a conjugate family and a public n')
    if method == "normal" and isinstance(family, Binomial | Multinomial) and value.n is None:
        raise ReleaseError('where n is private a Binomial or Multinomial takes method="exact"')
    if method == "plug-in" and isinstance(family, Natural):
        raise ReleaseError("a Natural family has no plug-in posterior: its conjugate law cannot be drawn directly")
    if form != "corrected" and (isinstance(family, Natural) or value.n is None):
        raise ReleaseError('form="coded" and "printed" are of the paper: a conjugate family and a public n')


def _has_quadrature(value: NoisyMoments) -> bool:
    """Whether there is one parameter, one sum and nothing else unknown."""
    family = value.of_family.family
    return value.n is not None and len(family.parameters) == 1 and not isinstance(family, Natural)


def exact_draws(noisy: NoisyMoments, prior: Prior, draws: int, rng: np.random.Generator) -> Reals:
    """Independent draws for a binomial or multinomial, shape (draws, parameters)."""
    if isinstance(prior, DirichletPrior):
        concentration = np.array(prior.concentration, np.float64)
        counts = sample_counts(noisy.sums, noisy.law, concentration, noisy.n, rng, draws)
        return draw_dirichlet(concentration + counts.astype(np.float64), rng)
    assert isinstance(prior, BetaPrior)
    assert isinstance(noisy.of_family.family, Binomial)
    trials, shape = noisy.of_family.family.trials, np.array([prior.alpha, prior.beta])
    if noisy.n is None:
        whole = None if trials == 1 else lambda m: np.where(m % trials == 0, 0.0, -np.inf)
        counts = sample_counts(noisy.sums, noisy.law, shape, None, rng, draws, log_prior_n=whole)
    else:
        successes = _successes(noisy, prior, trials * noisy.n, draws, rng)
        counts = np.stack([successes, trials * noisy.n - successes], axis=1)
    return rng.beta(*(shape + counts).T)[:, None]


def _successes(noisy: NoisyMoments, prior: BetaPrior, trials: int, draws: int, rng: np.random.Generator) -> Reals:
    """The exact number of successes: weights BetaBinomial(s) q^|y - s| on every s within 40 noise scales."""
    from scipy.special import gammaln

    y, reach = int(noisy.sums[0]), int(40 * noisy.law.scale) + 1
    centre = min(max(y, 0), trials)
    s = np.arange(max(0, centre - reach), min(trials, centre + reach) + 1)
    log = CellNoise(noisy.law).log(y - s) - gammaln(s + 1.0) - gammaln(trials - s + 1.0)
    log += gammaln(prior.alpha + s) + gammaln(prior.beta + trials - s)
    weight = np.exp(log - log.max())
    return rng.choice(s, size=draws, p=weight / weight.sum())


def problems_of(noisy: Sequence[NoisyMoments], prior: Prior) -> Problems:
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
    """The conjugate law at the nearest possible sums."""
    family, d = noisy.of_family.family, len(noisy.description.names)
    values = noisy.values
    if noisy.n is not None:
        n = float(noisy.n)
    elif isinstance(family, Binomial):
        n = max(0.0, float(np.maximum(values, 0).sum()) / family.trials)
    else:
        n = max(0.0, float(values[d]) if values.size > d else float(values.sum()))
    many = np.full(draws, n)
    return draw_conjugate(family, prior, projected(family, np.tile(values[:d], (draws, 1)), many), many, rng)


def _diagnostics(noisy: NoisyMoments, theta: Reals) -> dict[str, float]:
    """R-hat and effective size; a warning where the chains are not to be trusted."""
    chains = np.swapaxes(theta, 0, 1)
    mixed, sizes = r_hat(chains), effective_size(chains)
    worst, least = float(mixed.max()), float(sizes.min())
    if not (worst <= WORST_R_HAT and least >= min(LEAST_SIZE, theta.shape[0] * theta.shape[1] / 4)):
        warnings.warn(
            f"the chains have not mixed: R-hat {worst:.3f}, effective size {least:.0f}; raise draws, burn_in or thin",
            ConvergenceWarning,
            stacklevel=3,
        )
    names = noisy.of_family.family.parameters
    found = {f"r_hat {name}": float(value) for name, value in zip(names, mixed, strict=True)}
    return found | {f"effective size {name}": float(value) for name, value in zip(names, sizes, strict=True)}


def _collected(
    noisy: NoisyMoments,
    theta: Reals,
    method: str,
    reason: str,
    diagnostics: Mapping[str, float],
    provenance: Provenance | None,
) -> ParameterDraws:
    """The draws by name."""
    named = FrozenMap((name, theta[:, i]) for i, name in enumerate(noisy.of_family.family.parameters))
    return ParameterDraws(named, method, reason, FrozenMap(diagnostics), provenance)
