"""The posterior of every parameter given what was actually released, noise and all: one verb, several methods.

Treating noisy counts as true makes a posterior confidently wrong. Here the true counts are unknown, and what is known
of them is the release and the law of its noise. Everything is post-processing: no method costs privacy, and one that
approximates costs accuracy only.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from dpgraph.inference.augmentation import draw_by_records
from dpgraph.inference.dirichlet import check_prior
from dpgraph.inference.draws import ConvergenceWarning, PosteriorDraws
from dpgraph.inference.evidence import Evidence, concentration_tables, evidence, rows_estimate
from dpgraph.inference.exponential_family import ParameterDraws, moments_posterior
from dpgraph.inference.normal import draw_by_normal
from dpgraph.inference.per_table import draw_by_tables
from dpgraph.inference.progress import progress_bar
from dpgraph.inference.regression import chain_iterations, regression_posterior
from dpgraph.inference.regression_draws import RegressionDraws
from dpgraph.privacy.records import Release, ReleaseError, released_value
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

Method = Literal["auto", "tables", "records", "normal"]

#: What a compiled sweep takes for each latent row and each variable or measured table, and how long is long.
SECONDS_PER_STEP, PATIENCE = 40e-9, 20.0

#: Cells times the counts each may have, above which exact draws by tables take minutes.
MOST_TABLE_WORK = 4e8

#: The R-hat above which, or the effective size below which, chains of latent records are not trusted.
MOST_R_HAT, LEAST_SIZE = 1.05, 100.0


def noise_aware_posterior(
    noisy: NoisyCounts | NoisyCoefficients | NoisyMoments | Release[Any],
    *,
    prior: Any = 1.0,
    method: str = "auto",
    draws: int = 1000,
    seed: int | np.random.Generator | None = None,
    chains: int = 2,
    burn_in: int = 500,
    passes: int = 2,
    thin: int = 1,
    shrink: bool = False,
    progress: bool = False,
) -> PosteriorDraws | ParameterDraws | RegressionDraws:
    """Draws from the posterior given a release, with its noise accounted for.

    For a network the methods are:

    * ``"tables"``: independent exact draws for each family from the tables that hold it (``per_table``). Instant at any
      size; intervals a few per cent wider than need be.
    * ``"records"``: the exact joint posterior, by Markov chains on the unseen rows (``augmentation``). Time grows with
      their number; compiled by the ``fast`` extra.
    * ``"normal"``: independent joint draws under normal noise in the residual basis (``normal``); for coefficients with
      many rows, or tables whose counts are well above their noise.
    * ``"auto"``: records where that is a matter of seconds, else tables, or normal for coefficients and for
      thousands of cells with much noise; ``.reason`` says.

    Noisy moments of an exponential family have methods of their own; see ``exponential_family.moments_posterior``, and
    those of a regression's design others; see ``regression.regression_posterior``. Of the settings they take ``prior``,
    ``method``, ``draws`` and ``seed``, a regression ``progress`` as well.

    Args:
        noisy: A release of noisy counts, coefficients or moments, or its value.
        prior: The Dirichlet concentration of every cell before any row, above 0; for moments ``family.prior(...)``,
            of a regression ``RegressionPrior(...)`` or nothing.
        method: One of the above.
        draws: How many draws; with records, of each chain.
        seed: For the draws, a number or a Generator; what was released is public, so a seed is fine here.
        chains: For records: independent chains, compared by R-hat.
        burn_in: For records: sweeps of each chain before its first draw.
        passes: For records: coupled moves of each row of a table in a sweep; 0 mixes badly where epsilon is small.
        thin: For records: sweeps for each draw.
        shrink: For normal: learn the sizes of interactions from the release, so that those within their noise vanish.
        progress: For records, and for the chains of a regression: a bar on a terminal.

    Returns:
        ``PosteriorDraws``, or for moments ``ParameterDraws``, of a regression ``RegressionDraws``.

    Raises:
        ReleaseError: If the prior, the method or a number is out of range, or the release is of another kind.

    Warns:
        ConvergenceWarning: If chains of records have not mixed; ask for more draws or another method.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [80, 18]}, {("rain",): DiscreteLaplace(3.0)}, n=100)
    >>> made = noise_aware_posterior(noisy, method="tables", seed=0)
    >>> made.mean().table("rain").round(1).tolist()
    [0.8, 0.2]
    """
    value, provenance = released_value(noisy)
    rng = np.random.default_rng(seed)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ReleaseError(f"draws must be a whole number, at least 1; got {draws!r}")
    if isinstance(value, NoisyMoments) and isinstance(value.description, LinearDesign):
        believed = None if isinstance(prior, float) and prior == 1.0 else prior
        settings = {"method": "noise-aware" if method == "auto" else method, "draws": draws, "rng": rng}
        shown, total = progress and settings["method"] == "noise-aware", chain_iterations(draws)
        with progress_bar(shown, total, "iterations of each chain") as tick:
            return regression_posterior(noisy, believed, progress=tick, **settings)  # type: ignore[arg-type]
    if isinstance(value, NoisyMoments):
        return moments_posterior(noisy, prior, method=method, draws=draws, rng=rng)  # type: ignore[arg-type]
    if method not in get_args(Method):
        raise ReleaseError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {method!r}")
    check_prior(prior)
    if shrink and method != "normal":
        raise ReleaseError('shrink is a setting of method="normal"')
    given = evidence(value)
    concentration = concentration_tables(given.network, prior)
    chosen, reason = (method, "as asked") if method != "auto" else _chosen(given, burn_in + draws * thin, passes)
    match chosen:
        case "tables":
            drawn = draw_by_tables(given, concentration, rng=rng, draws=draws)
        case "normal":
            drawn = draw_by_normal(value, concentration, rng=rng, draws=draws, shrink=shrink)
        case _:
            settings = {"chains": chains, "burn_in": burn_in, "passes": passes, "thin": thin, "progress": progress}
            drawn = draw_by_records(given, concentration, rng=rng, draws=draws, **settings)
            _warn_of_poor_mixing(drawn)
    return replace(drawn, reason=reason, provenance=provenance)


def classifier_draws(
    noisy: NoisyCounts | NoisyCoefficients | Release[Any], *, prior: float = 1.0, draws: int = 500, seed: int = 0
) -> PosteriorDraws:
    """The posterior that a classifier predicts with: normal, with interactions of unknown size.

    A classifier multiplies many ratios of small probabilities, so an interaction that is all noise costs it dearly. The
    predictive probability of a label and its features is the average of their joint probability over the posterior;
    where tables are independent of each other in the posterior, as they nearly are, that is the product of their means.
    """
    made = noise_aware_posterior(noisy, prior=prior, method="normal", draws=draws, seed=seed, shrink=True)
    assert isinstance(made, PosteriorDraws)
    return made


def _chosen(given: Evidence, sweeps: int, passes: int) -> tuple[str, str]:
    """The method for a release, and why."""
    rows, _ = rows_estimate(given)
    network = given.network
    steps = (1 + passes / 2) * (len(network.domain.names) + 2 * len(given.tables))
    coefficients = any(table.weights is not None for table in given.tables)
    if coefficients:
        steps += sum(np.prod(table.weights.shape[1:]) for table in given.tables if table.weights is not None)
    seconds = sweeps * rows * steps * SECONDS_PER_STEP
    fast = importlib.util.find_spec("numba") is not None
    if fast and seconds <= PATIENCE:
        return "records", f"exact and quick: about {rows:.0f} latent rows"
    why = f"about {rows:.0f} latent rows would take {seconds:.0f} s" if fast else "numba (the fast extra) is not there"
    if coefficients:
        return "normal", f"{why}, and coefficients have no independent tables"
    scale = max(table.law.scale for table in given.tables)
    if network.cell_count * min(rows, 80 * scale) > MOST_TABLE_WORK:
        return "normal", f"{why}, and exact draws of {network.cell_count} cells with so much noise minutes"
    return "tables", why


def _warn_of_poor_mixing(drawn: PosteriorDraws) -> None:
    """Accuracy is at stake, not privacy."""
    found = drawn.diagnostics
    if not (found["r_hat"] <= MOST_R_HAT and found["effective_size"] >= LEAST_SIZE):
        warnings.warn(
            f"the chains have not mixed: R-hat {found['r_hat']:.3f}, effective size {found['effective_size']:.0f}; ask "
            'for more draws or burn_in, or method="tables". The posterior may be inaccurate; privacy is not at stake',
            ConvergenceWarning,
            stacklevel=3,
        )
