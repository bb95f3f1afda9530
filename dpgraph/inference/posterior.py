"""Posteriors given releases, with the privacy noise accounted for: one function for every kind of release.

Treating noisy counts as true makes a posterior confidently wrong. Here the true counts are unknown, known
only by the release and the law of its noise. Everything is post-processing: no method costs privacy, and one that
approximates costs accuracy only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from dpgraph.inference.arguments import check_whole_number, seeded
from dpgraph.inference.draws import warn_if_mostly_prior, warn_if_not_mixed
from dpgraph.inference.methods import PlugIn
from dpgraph.inference.network.evidence import check_graph, read_released
from dpgraph.inference.network.holes import Holes
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.posterior import is_beyond_tables, network_posterior, posterior_beyond_tables
from dpgraph.inference.network.public import PublicPrior
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import joined, joint_release, released_value
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.moments import MomentDescription
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Tables


def posterior(
    noisy: Any,
    *,
    prior: Any = None,
    method: Any = "auto",
    draws: int = 1000,
    seed: int | np.random.Generator | None = None,
    progress: bool = False,
    network: Network | None = None,
    missing_because: Mapping[str, Iterable[str]] | None = None,
) -> Any:
    """Draws from the posterior given a release, or several, with their noise accounted for.

    A method is a value with its settings, such as ``dg.methods.Records(chains=4)``, or its name. For a network:

    * ``"tables"``, ``dg.methods.Tables()``: draws of one measured table after another, given all that the others say of
      margins inside it. The same time at any number of rows; a little less exact than records.
    * ``"records"``, ``dg.methods.Records(...)``: the exact joint posterior, by Markov chains on the unseen rows. Time
      grows with their number; compiled by numba.
    * ``"normal"``, ``dg.methods.Normal(...)``: independent joint draws under normal noise in the residual basis; for
      coefficients with many rows, or tables whose counts are well above their noise.
    * ``"auto"``: records where that is forecast to take a minute and a half at most, else tables, or normal for
      coefficients; ``.reason`` says. First sweeps much slower than forecast choose again, and chains stop at half again
      their time with the draws they have, ``stopped_after`` in ``.diagnostics``. Chains that have not mixed go on, for
      three minutes in all, so results depend on the machine. ``"records"`` by name never stops or goes on by itself.
    * ``"plug-in"``, ``dg.methods.PlugIn(...)``: the released counts taken as exact: Dirichlet laws, instant, with
      intervals that are too narrow where the noise matters.

    For an exponential family: ``"exact"``, ``"quadrature"``, ``"gibbs"``, ``"plug-in"``, by value
    ``dg.methods.Exact()``, ``dg.methods.Quadrature()``, ``dg.methods.Gibbs(...)``, ``dg.methods.PlugIn()``; see
    ``expfam.posterior.moments_posterior``. For a linear regression: ``"hamiltonian"``,
    ``dg.methods.Hamiltonian(...)``, and ``"plug-in"``; see ``regression.posterior.regression_posterior``. ``"auto"``
    picks one for every release.

    Several releases of the same rows of a network, a list or their sum, have the product of their likelihoods. Releases
    of different rows, ``dg.pooled([...])``, have latent rows of their own, for ``"records"`` and ``"normal"``.

    Args:
        noisy: A release of noisy counts, coefficients or moments, or its value; or a list of releases of the same rows;
            for ``"plug-in"`` also tables that ``reconcile`` made.
        prior: For a network the Dirichlet concentration of every cell, above 0, or one that is learned by chains of
            records: ``HierarchicalPrior(...)``, by name ``"hierarchical"``, or ``PublicPrior(table)``; for an
            exponential family ``family.prior(...)``; for a regression ``RegressionPrior(...)``. None is
            ``"hierarchical"`` for a network's records, one concentration for each family that is learned for its
            tables and 1 for its other methods, the uniform prior for a binomial or multinomial family, and the default
            ``RegressionPrior()``; other families need one.
        method: One of the above.
        draws: How many draws; with records, of each chain.
        seed: For the draws, a number or a Generator; the release is public, so a seed is fine here.
        progress: A bar on a terminal.
        network: The network to learn from noisy counts over its domain; None for the one that was released. Releases of
            several networks need it, and its families must lie in tables that they measured; a graph that was chosen
            from tables without one, such as ``all_pairs``, may have others, which chains of records draw.
        missing_because: Of variables declared with ``missing=dg.UNOBSERVED``, the variables that their holes depend on;
            None, or for those not named, their parents in the network. Never the variable itself:
            ``questions.sensitivity`` says how answers move if it is.

    Returns:
        ``PosteriorDraws`` of a network, ``ParameterDraws`` of an exponential family, ``RegressionDraws`` of a linear
        regression; all answer ``mean``, ``interval``, ``sample``, ``to_frame`` and ``diagnostics`` (``Draws``). Of a
        network by ``"plug-in"`` a ``DirichletPosterior``, which answers ``mean``, ``mode``, ``interval``, ``sample``.

    Raises:
        InferenceError: If the prior, the method or a number is out of range, the release is of another kind, or several
            make no joint release: none at all, other rows as far as records tell, other n, other units. If it is of
            tables without a graph, such as ``all_pairs``, and no network is named.
        NetworkError: If several releases declare other domains or are of different networks and none is named.

    Warns:
        ApproximationWarning: If ``"normal"`` is asked for and too rough for a family of pooled releases.
        ConvergenceWarning: If Markov chains have not mixed, or were stopped; ask for more draws or another method.
        PriorWarning: If most of the posterior of a regression's coefficient is prior, or the private number of rows of
            a network is within two standard deviations of its noise.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [80, 18]}, {("rain",): DiscreteLaplace(3.0)}, n=100)
    >>> made = posterior(noisy, method="tables", seed=0)
    >>> made.mean().table("rain").round(1).tolist()
    [0.8, 0.2]
    """
    settings = {"prior": prior, "method": method, "draws": draws, "progress": progress}
    value, provenance = released_value(joint_release(noisy) if isinstance(noisy, list | tuple) else noisy)
    if isinstance(prior, PublicPrior):
        provenance = prior.recorded(provenance)
    plug_in = method == "plug-in" or isinstance(method, PlugIn)
    if network is not None and not plug_in and is_beyond_tables(value, network):
        made = posterior_beyond_tables(
            value, network, rng=seeded(seed), holes=_holes(network, prior, missing_because), **settings
        )
    else:
        value, _ = read_released(noisy, network)
        check_graph(value)
        check_whole_number("draws", draws, 1)
        described = value.network if isinstance(value, Tables) else getattr(value, "description", None)
        if (holes := _holes(described, prior, missing_because)) is not None:
            settings["holes"] = holes
        made = posterior_given(described, value, rng=seeded(seed), **settings)
    if isinstance(made, DirichletPosterior):
        return replace(made, provenance=joined([provenance, made.provenance]))
    made = made.judged()
    warn_if_not_mixed(made.diagnostics)
    if isinstance(made, RegressionDraws):
        warn_if_mostly_prior(dict(zip(made.names, made.prior_share.tolist(), strict=True)))
    return replace(made, provenance=provenance)


def _holes(description: Any, prior: Any, because: Mapping[str, Iterable[str]] | None) -> Holes | None:
    if not isinstance(description, Network):
        if because is not None:
            raise InferenceError("missing_because is for networks")
        return None
    holes = Holes.of(description, because)
    if holes is not None and isinstance(prior, PublicPrior):
        raise InferenceError("a public prior knows no unobserved values: leave prior= out, or declare missing a level")
    return holes


@singledispatch
def posterior_given(
    description: Any, noisy: Any, *, prior: Any, method: Any, draws: int, rng: np.random.Generator, progress: bool
) -> Any:
    """Draws from the posterior of the subject of a public description: chosen by the description's type.

    A family registers a function of this signature, ``posterior_given.register(Description, function)``; the verb then
    finds it by the ``description`` of the release.

    Args:
        description: The public description of the measurements.
        noisy: The released noisy statistics with their noise laws.
        prior: The family's prior; None for its default.
        method: One of the family's methods, or its name; ``"auto"`` is always one.
        draws: How many.
        rng: Randomness for post-processing.
        progress: A bar on a terminal.

    Returns:
        Draws (``inference.draws.Draws``); the verb fills in their provenance.

    Raises:
        InferenceError: If nothing is registered for the description.
    """
    raise InferenceError(
        "a posterior takes noisy counts or coefficients of a network, or noisy moments of an exponential "
        f"family or a linear regression; got {type(noisy).__name__}"
    )


posterior_given.register(Network, network_posterior)


@posterior_given.register
def _of_moments(description: MomentDescription, noisy: Any, **settings: Any) -> Any:
    """Imports the family when it is asked for."""
    from dpgraph.inference.expfam.posterior import moments_posterior

    return moments_posterior(description, noisy, **settings)


@posterior_given.register
def _of_a_regression(description: LinearDesign, noisy: Any, **settings: Any) -> Any:
    from dpgraph.inference.regression.posterior import regression_posterior

    return regression_posterior(description, noisy, **settings)
