"""Differentially private Bayesian inference on graphical models.

The public names, in the order data flows; each is imported when it is first used.

>>> import dpgraph as dg
>>> dg.read_network("example:asia").cell_count
36
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    # public structure
    "Categories": "structure.domain",
    "Bins": "structure.domain",
    "Domain": "structure.domain",
    "DomainError": "structure.domain",
    "DomainWarning": "structure.domain",
    "NetworkError": "structure.domain",
    "Network": "structure.network",
    "naive_bayes_network": "models.naive_bayes",
    "hmm_network": "models.hmm",
    "read_network": "files.networks",
    "read_domain": "files.networks",
    "read_design": "files.designs",
    "infer_domain": "statistics.infer",
    "expfam": "structure.expfam",
    "Bounded": "structure.design",
    "LinearDesign": "structure.design",
    # sensitive statistics
    "encode": "statistics.codes",
    "write_codes": "statistics.cache",
    "read_codes": "statistics.cache",
    "count": "statistics.counts",
    "sufficient_statistics": "statistics.moments",
    "regression_moments": "statistics.regression",
    # the door
    "PrivacyUnit": "privacy.records",
    "PrivacyCost": "privacy.records",
    "PrivacyLeakWarning": "privacy.records",
    "Release": "privacy.records",
    "ReleaseError": "privacy.records",
    "BudgetExceededError": "privacy.records",
    "Budget": "privacy.accounting",
    "cost": "privacy.accounting",
    "release": "privacy.release",
    "SeededNoise": "privacy.seeded_noise",
    "LaplaceMechanism": "mechanisms.laplace",
    "GaussianMechanism": "mechanisms.gaussian",
    "FourierMechanism": "mechanisms.fourier",
    "UnprovedGuaranteeWarning": "mechanisms.fourier",
    "PosteriorSample": "mechanisms.posterior_sample",
    "GibbsSample": "mechanisms.gibbs_sample",
    "RegressionSample": "mechanisms.regression_sample",
    "MapEstimate": "mechanisms.map_estimate",
    "PrivateQuantile": "mechanisms.quantile",
    # after the door
    "NoisyCounts": "structure.tables",
    "NoisyCoefficients": "structure.tables",
    "NoisyMoments": "structure.moments",
    "MarkovSweeps": "structure.markov",
    "SampledWeights": "structure.sampled_weights",
    "Probabilities": "structure.tables",
    "consistent": "inference.consistency",
    "posterior": "inference.dirichlet",
    "noise_aware_posterior": "inference.noise_aware",
    "PosteriorDraws": "inference.draws",
    "ConvergenceWarning": "inference.draws",
    "RegressionPrior": "inference.regression_prior",
    "RegressionDraws": "inference.regression_draws",
    "LinearRegressionModel": "models.regression",
    "SampledRegressionModel": "models.sampled_regression",
    "NaiveBayes": "models.naive_bayes",
    "NaiveBayesEnsemble": "models.naive_bayes",
    "HiddenMarkovModel": "models.hmm",
    "hidden_markov_model": "models.markov_counts",
    "sampled_markov_model": "models.markov_sweeps",
    "query": "files.pgmpy",
    "sample_rows": "inference.queries",
    "save": "files.documents",
    "load": "files.documents",
    "to_pgmpy": "files.pgmpy",
    "from_pgmpy": "files.pgmpy",
    "to_datatree": "files.arviz",
    # what privacy costs
    "privacy_cost": "analysis.cost",
    "regression_cost": "analysis.regression_cost",
    "audit": "audit",
    # estimators
    "PrivateNaiveBayes": "estimators.naive_bayes",
    "PrivateHMM": "estimators.hmm",
    "PrivateLinearRegression": "estimators.regression",
}

__all__ = [
    "Bins",
    "Bounded",
    "Budget",
    "BudgetExceededError",
    "Categories",
    "ConvergenceWarning",
    "Domain",
    "DomainError",
    "DomainWarning",
    "FourierMechanism",
    "GaussianMechanism",
    "GibbsSample",
    "HiddenMarkovModel",
    "LaplaceMechanism",
    "LinearDesign",
    "LinearRegressionModel",
    "MapEstimate",
    "MarkovSweeps",
    "NaiveBayes",
    "NaiveBayesEnsemble",
    "Network",
    "NetworkError",
    "NoisyCoefficients",
    "NoisyCounts",
    "NoisyMoments",
    "PosteriorDraws",
    "PosteriorSample",
    "PrivacyCost",
    "PrivacyLeakWarning",
    "PrivacyUnit",
    "PrivateHMM",
    "PrivateLinearRegression",
    "PrivateNaiveBayes",
    "PrivateQuantile",
    "Probabilities",
    "RegressionDraws",
    "RegressionPrior",
    "RegressionSample",
    "Release",
    "ReleaseError",
    "SampledRegressionModel",
    "SampledWeights",
    "SeededNoise",
    "UnprovedGuaranteeWarning",
    "audit",
    "consistent",
    "cost",
    "count",
    "encode",
    "expfam",
    "from_pgmpy",
    "hidden_markov_model",
    "hmm_network",
    "infer_domain",
    "load",
    "naive_bayes_network",
    "noise_aware_posterior",
    "posterior",
    "privacy_cost",
    "query",
    "read_codes",
    "read_design",
    "read_domain",
    "read_network",
    "regression_cost",
    "regression_moments",
    "release",
    "sample_rows",
    "sampled_markov_model",
    "save",
    "sufficient_statistics",
    "to_datatree",
    "to_pgmpy",
    "write_codes",
]

if TYPE_CHECKING:
    from dpgraph import audit
    from dpgraph.analysis.cost import privacy_cost
    from dpgraph.analysis.regression_cost import regression_cost
    from dpgraph.estimators import PrivateHMM, PrivateLinearRegression, PrivateNaiveBayes
    from dpgraph.files.arviz import to_datatree
    from dpgraph.files.designs import read_design
    from dpgraph.files.documents import load, save
    from dpgraph.files.networks import read_domain, read_network
    from dpgraph.files.pgmpy import from_pgmpy, query, to_pgmpy
    from dpgraph.inference.consistency import consistent
    from dpgraph.inference.dirichlet import posterior
    from dpgraph.inference.draws import ConvergenceWarning, PosteriorDraws
    from dpgraph.inference.noise_aware import noise_aware_posterior
    from dpgraph.inference.queries import sample_rows
    from dpgraph.inference.regression_draws import RegressionDraws
    from dpgraph.inference.regression_prior import RegressionPrior
    from dpgraph.mechanisms.fourier import FourierMechanism, UnprovedGuaranteeWarning
    from dpgraph.mechanisms.gaussian import GaussianMechanism
    from dpgraph.mechanisms.gibbs_sample import GibbsSample
    from dpgraph.mechanisms.laplace import LaplaceMechanism
    from dpgraph.mechanisms.map_estimate import MapEstimate
    from dpgraph.mechanisms.posterior_sample import PosteriorSample
    from dpgraph.mechanisms.quantile import PrivateQuantile
    from dpgraph.mechanisms.regression_sample import RegressionSample
    from dpgraph.models.hmm import HiddenMarkovModel, hmm_network
    from dpgraph.models.markov_counts import hidden_markov_model
    from dpgraph.models.markov_sweeps import sampled_markov_model
    from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble, naive_bayes_network
    from dpgraph.models.regression import LinearRegressionModel
    from dpgraph.models.sampled_regression import SampledRegressionModel
    from dpgraph.privacy.accounting import Budget, cost
    from dpgraph.privacy.records import (
        BudgetExceededError,
        PrivacyCost,
        PrivacyLeakWarning,
        PrivacyUnit,
        Release,
        ReleaseError,
    )
    from dpgraph.privacy.release import release
    from dpgraph.privacy.seeded_noise import SeededNoise
    from dpgraph.statistics.cache import read_codes, write_codes
    from dpgraph.statistics.codes import encode
    from dpgraph.statistics.counts import count
    from dpgraph.statistics.infer import infer_domain
    from dpgraph.statistics.moments import sufficient_statistics
    from dpgraph.statistics.regression import regression_moments
    from dpgraph.structure import expfam
    from dpgraph.structure.design import Bounded, LinearDesign
    from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, DomainWarning, NetworkError
    from dpgraph.structure.markov import MarkovSweeps
    from dpgraph.structure.moments import NoisyMoments
    from dpgraph.structure.network import Network
    from dpgraph.structure.sampled_weights import SampledWeights
    from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgraph' has no attribute {name!r}")
    home = importlib.import_module(f"dpgraph.{_HOMES[name]}")
    value = vars(home).get(name, home)  # expfam and audit are themselves modules
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
