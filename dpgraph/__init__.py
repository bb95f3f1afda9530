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
    "infer_domain": "statistics.rows.infer",
    "expfam": "structure.expfam",
    "Bounded": "structure.design",
    "LinearDesign": "structure.design",
    # sensitive statistics
    "encode": "statistics.rows.codes",
    "write_codes": "statistics.rows.cache",
    "read_codes": "statistics.rows.cache",
    "count": "statistics.counts",
    "sufficient_statistics": "statistics.moments",
    "regression_moments": "statistics.regression",
    # the door
    "PrivacyUnit": "privacy.records",
    "PrivacyCost": "privacy.records",
    "Event": "privacy.records",
    "PrivacyLeakWarning": "privacy.records",
    "Release": "privacy.records",
    "ReleaseError": "privacy.records",
    "BudgetExceededError": "privacy.records",
    "Budget": "privacy.accounting",
    "cost": "privacy.accounting",
    "release": "privacy.release",
    "SeededNoise": "privacy.seeded_noise",
    "RecordingNoise": "privacy.recording_noise",
    "LaplaceMechanism": "mechanisms.additive.laplace",
    "GaussianMechanism": "mechanisms.additive.gaussian",
    "FourierMechanism": "mechanisms.additive.fourier",
    "UnprovedGuaranteeWarning": "mechanisms.additive.fourier",
    "PosteriorSample": "mechanisms.selection.posterior_sample",
    "GibbsSample": "mechanisms.selection.gibbs_sample",
    "RegressionSample": "mechanisms.selection.regression_sample",
    "MapEstimate": "mechanisms.selection.map_estimate",
    "PrivateQuantile": "mechanisms.selection.quantile",
    # after the door
    "NoisyCounts": "structure.tables",
    "NoisyCoefficients": "structure.tables",
    "JointCounts": "structure.joint",
    "PooledCounts": "structure.joint",
    "pooled": "structure.joint",
    "NoisyMoments": "structure.moments",
    "MarkovSweeps": "structure.markov",
    "SampledWeights": "structure.sampled_weights",
    "Probabilities": "structure.tables",
    "consistent": "inference.network.consistency",
    "posterior": "inference.network.plug_in",
    "noise_aware_posterior": "inference.posterior",
    "Records": "inference.methods",
    "Tables": "inference.methods",
    "Normal": "inference.methods",
    "Exact": "inference.methods",
    "Quadrature": "inference.methods",
    "Gibbs": "inference.methods",
    "Hamiltonian": "inference.methods",
    "PlugIn": "inference.methods",
    "PosteriorDraws": "inference.network.draws",
    "ConvergenceWarning": "inference.draws",
    "ParameterDraws": "inference.expfam.draws",
    "RegressionPrior": "inference.regression.prior",
    "RegressionDraws": "inference.regression.draws",
    "LinearRegressionModel": "models.regression",
    "SampledRegressionModel": "models.sampled_regression",
    "NaiveBayes": "models.naive_bayes",
    "NaiveBayesEnsemble": "models.naive_bayes",
    "HiddenMarkovModel": "models.hmm",
    "hidden_markov_model": "models.markov_counts",
    "sampled_markov_model": "models.markov_sweeps",
    "query": "files.pgmpy",
    "sample_rows": "inference.network.queries",
    "save": "files.documents",
    "load": "files.documents",
    "to_pgmpy": "files.pgmpy",
    "from_pgmpy": "files.pgmpy",
    "to_datatree": "files.arviz",
    # what privacy costs
    "privacy_cost": "analysis.cost",
    "PrivacyReport": "analysis.cost",
    "regression_cost": "analysis.regression_cost",
    "audit": "audit",
    # families and mechanisms from outside
    "extension": "extension",
    # estimators
    "evaluate": "estimators.evaluation",
    "Evaluation": "models.evaluation",
    "PrivateNaiveBayes": "estimators.naive_bayes",
    "PrivateHMM": "estimators.hmm",
    "PrivateLinearRegression": "estimators.regression",
    "cross_validate": "estimators.cross_validation",
    "CrossValidation": "estimators.cross_validation",
    "SplitWarning": "estimators.splits",
    # the papers' mechanisms and formulas; noise for tests
    "papers": "papers",
    "testing": "testing",
}

__all__ = [
    "Bins",
    "Bounded",
    "Budget",
    "BudgetExceededError",
    "Categories",
    "ConvergenceWarning",
    "CrossValidation",
    "Domain",
    "DomainError",
    "DomainWarning",
    "Evaluation",
    "Event",
    "Exact",
    "FourierMechanism",
    "GaussianMechanism",
    "Gibbs",
    "GibbsSample",
    "Hamiltonian",
    "HiddenMarkovModel",
    "JointCounts",
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
    "Normal",
    "ParameterDraws",
    "PlugIn",
    "PooledCounts",
    "PosteriorDraws",
    "PosteriorSample",
    "PrivacyCost",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "PrivacyUnit",
    "PrivateHMM",
    "PrivateLinearRegression",
    "PrivateNaiveBayes",
    "PrivateQuantile",
    "Probabilities",
    "Quadrature",
    "RecordingNoise",
    "Records",
    "RegressionDraws",
    "RegressionPrior",
    "RegressionSample",
    "Release",
    "ReleaseError",
    "SampledRegressionModel",
    "SampledWeights",
    "SeededNoise",
    "SplitWarning",
    "Tables",
    "UnprovedGuaranteeWarning",
    "audit",
    "consistent",
    "cost",
    "count",
    "cross_validate",
    "encode",
    "evaluate",
    "expfam",
    "extension",
    "from_pgmpy",
    "hidden_markov_model",
    "hmm_network",
    "infer_domain",
    "load",
    "naive_bayes_network",
    "noise_aware_posterior",
    "papers",
    "pooled",
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
    "testing",
    "to_datatree",
    "to_pgmpy",
    "write_codes",
]

if TYPE_CHECKING:
    from dpgraph import audit, extension, papers, testing
    from dpgraph.analysis.cost import PrivacyReport, privacy_cost
    from dpgraph.analysis.regression_cost import regression_cost
    from dpgraph.estimators import PrivateHMM, PrivateLinearRegression, PrivateNaiveBayes
    from dpgraph.estimators.cross_validation import CrossValidation, cross_validate
    from dpgraph.estimators.evaluation import evaluate
    from dpgraph.estimators.splits import SplitWarning
    from dpgraph.files.arviz import to_datatree
    from dpgraph.files.designs import read_design
    from dpgraph.files.documents import load, save
    from dpgraph.files.networks import read_domain, read_network
    from dpgraph.files.pgmpy import from_pgmpy, query, to_pgmpy
    from dpgraph.inference.draws import ConvergenceWarning
    from dpgraph.inference.expfam.draws import ParameterDraws
    from dpgraph.inference.methods import Exact, Gibbs, Hamiltonian, Normal, PlugIn, Quadrature, Records, Tables
    from dpgraph.inference.network.consistency import consistent
    from dpgraph.inference.network.draws import PosteriorDraws
    from dpgraph.inference.network.plug_in import posterior
    from dpgraph.inference.network.queries import sample_rows
    from dpgraph.inference.posterior import noise_aware_posterior
    from dpgraph.inference.regression.draws import RegressionDraws
    from dpgraph.inference.regression.prior import RegressionPrior
    from dpgraph.mechanisms.additive.fourier import FourierMechanism, UnprovedGuaranteeWarning
    from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.mechanisms.selection.gibbs_sample import GibbsSample
    from dpgraph.mechanisms.selection.map_estimate import MapEstimate
    from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
    from dpgraph.mechanisms.selection.quantile import PrivateQuantile
    from dpgraph.mechanisms.selection.regression_sample import RegressionSample
    from dpgraph.models.evaluation import Evaluation
    from dpgraph.models.hmm import HiddenMarkovModel, hmm_network
    from dpgraph.models.markov_counts import hidden_markov_model
    from dpgraph.models.markov_sweeps import sampled_markov_model
    from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble, naive_bayes_network
    from dpgraph.models.regression import LinearRegressionModel
    from dpgraph.models.sampled_regression import SampledRegressionModel
    from dpgraph.privacy.accounting import Budget, cost
    from dpgraph.privacy.recording_noise import RecordingNoise
    from dpgraph.privacy.records import (
        BudgetExceededError,
        Event,
        PrivacyCost,
        PrivacyLeakWarning,
        PrivacyUnit,
        Release,
        ReleaseError,
    )
    from dpgraph.privacy.release import release
    from dpgraph.privacy.seeded_noise import SeededNoise
    from dpgraph.statistics.counts import count
    from dpgraph.statistics.moments import sufficient_statistics
    from dpgraph.statistics.regression import regression_moments
    from dpgraph.statistics.rows.cache import read_codes, write_codes
    from dpgraph.statistics.rows.codes import encode
    from dpgraph.statistics.rows.infer import infer_domain
    from dpgraph.structure import expfam
    from dpgraph.structure.design import Bounded, LinearDesign
    from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, DomainWarning, NetworkError
    from dpgraph.structure.joint import JointCounts, PooledCounts, pooled
    from dpgraph.structure.markov import MarkovSweeps
    from dpgraph.structure.moments import NoisyMoments
    from dpgraph.structure.network import Network
    from dpgraph.structure.sampled_weights import SampledWeights
    from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpgraph' has no attribute {name!r}")
    home = importlib.import_module(f"dpgraph.{_HOMES[name]}")
    value = vars(home).get(name, home)  # audit, expfam, extension, papers and testing are themselves modules
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
