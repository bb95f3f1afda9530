"""Differentially private Bayesian inference on graphical models.

The public names, in the order data flows; each is imported when it is first used. What a tutorial types is here, the
rest is in namespaces: ``choices`` (of a graph, where they are paid for), ``methods`` (how a posterior is drawn),
``questions`` (what else can be asked of one), ``results`` (the classes of what functions return), ``errors``,
``statistics`` (rows as codes), ``papers`` (mechanisms and formulas of the papers), ``testing`` (noise for tests) and
``extension`` (what families and mechanisms from outside are written with).

>>> import dpgraph as dg
>>> dg.read_network("example:asia").cell_count
36
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names, provide

__version__ = "0.1.0"

_HOMES = {
    # public structure
    "Categories": "structure.domain",
    "Bins": "structure.domain",
    "Domain": "structure.domain",
    "Network": "structure.network",
    "all_pairs": "structure.margins",
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
    "count": "statistics.counts",
    "sufficient_statistics": "statistics.records",
    "regression_moments": "statistics.regression",
    # the door
    "PrivacyUnit": "privacy.records",
    "Release": "privacy.records",
    "Budget": "privacy.accounting",
    "cost": "privacy.accounting",
    "release": "privacy.release",
    "LaplaceMechanism": "mechanisms.additive.laplace",
    "GaussianMechanism": "mechanisms.additive.gaussian",
    "FourierMechanism": "mechanisms.additive.fourier",
    "PosteriorSample": "mechanisms.selection.posterior_sample",
    "MapEstimate": "mechanisms.selection.map_estimate",
    "PrivateQuantile": "mechanisms.selection.quantile",
    # after the door
    "pooled": "structure.joint",
    "choose_network": "inference.graphs.choosing",
    "Probabilities": "structure.tables",
    "reconcile": "inference.network.consistency",
    "posterior": "inference.network.plug_in",
    "noise_aware_posterior": "inference.posterior",
    "HierarchicalPrior": "inference.network.prior",
    "RegressionPrior": "inference.regression.prior",
    "fit_hmm": "models.markov_counts",
    "query": "inference.queries.asking",
    "query_rows": "inference.queries.rows",
    "contrast": "inference.queries.comparing",
    "expectation": "inference.queries.numbers",
    "sample_rows": "inference.network.queries",
    "save": "files.documents",
    "load": "files.documents",
    "to_pgmpy": "files.pgmpy",
    "from_pgmpy": "files.pgmpy",
    "to_datatree": "files.arviz",
    "write_html": "pages.writing",
    # what privacy costs
    "privacy_cost": "analysis.cost",
    "regression_cost": "analysis.regression_cost",
    "audit": "audit",
    # estimators
    "learn_network": "estimators.learning",
    "evaluate": "estimators.evaluation",
    "PrivateNaiveBayes": "estimators.naive_bayes",
    "PrivateHMM": "estimators.hmm",
    "PrivateLinearRegression": "estimators.regression",
    "cross_validate": "estimators.cross_validation",
    # namespaces
    "choices": "mechanisms.choices",
    "errors": "privacy.errors",
    "extension": "extension",
    "methods": "inference.methods",
    "papers": "papers",
    "questions": "inference.questions",
    "results": "results",
    "statistics": "statistics",
    "testing": "testing",
}

__all__ = [
    "Bins",
    "Bounded",
    "Budget",
    "Categories",
    "Domain",
    "FourierMechanism",
    "GaussianMechanism",
    "HierarchicalPrior",
    "LaplaceMechanism",
    "LinearDesign",
    "MapEstimate",
    "Network",
    "PosteriorSample",
    "PrivacyUnit",
    "PrivateHMM",
    "PrivateLinearRegression",
    "PrivateNaiveBayes",
    "PrivateQuantile",
    "Probabilities",
    "RegressionPrior",
    "Release",
    "all_pairs",
    "audit",
    "choices",
    "choose_network",
    "contrast",
    "cost",
    "count",
    "cross_validate",
    "errors",
    "evaluate",
    "expectation",
    "expfam",
    "extension",
    "fit_hmm",
    "from_pgmpy",
    "hmm_network",
    "infer_domain",
    "learn_network",
    "load",
    "methods",
    "naive_bayes_network",
    "noise_aware_posterior",
    "papers",
    "pooled",
    "posterior",
    "privacy_cost",
    "query",
    "query_rows",
    "questions",
    "read_design",
    "read_domain",
    "read_network",
    "reconcile",
    "regression_cost",
    "regression_moments",
    "release",
    "results",
    "sample_rows",
    "save",
    "statistics",
    "sufficient_statistics",
    "testing",
    "to_datatree",
    "to_pgmpy",
    "write_html",
]

if TYPE_CHECKING:
    from dpgraph import audit, extension, papers, results, statistics, testing
    from dpgraph.analysis.cost import privacy_cost
    from dpgraph.analysis.regression_cost import regression_cost
    from dpgraph.estimators import PrivateHMM, PrivateLinearRegression, PrivateNaiveBayes
    from dpgraph.estimators.cross_validation import cross_validate
    from dpgraph.estimators.evaluation import evaluate
    from dpgraph.estimators.learning import learn_network
    from dpgraph.files.arviz import to_datatree
    from dpgraph.files.designs import read_design
    from dpgraph.files.documents import load, save
    from dpgraph.files.networks import read_domain, read_network
    from dpgraph.files.pgmpy import from_pgmpy, to_pgmpy
    from dpgraph.inference import methods, questions
    from dpgraph.inference.graphs.choosing import choose_network
    from dpgraph.inference.network.consistency import reconcile
    from dpgraph.inference.network.plug_in import posterior
    from dpgraph.inference.network.prior import HierarchicalPrior
    from dpgraph.inference.network.queries import sample_rows
    from dpgraph.inference.posterior import noise_aware_posterior
    from dpgraph.inference.queries.asking import query
    from dpgraph.inference.queries.comparing import contrast
    from dpgraph.inference.queries.numbers import expectation
    from dpgraph.inference.queries.rows import query_rows
    from dpgraph.inference.regression.prior import RegressionPrior
    from dpgraph.mechanisms import choices
    from dpgraph.mechanisms.additive.fourier import FourierMechanism
    from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    from dpgraph.mechanisms.selection.map_estimate import MapEstimate
    from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
    from dpgraph.mechanisms.selection.quantile import PrivateQuantile
    from dpgraph.models.hmm import hmm_network
    from dpgraph.models.markov_counts import fit_hmm
    from dpgraph.models.naive_bayes import naive_bayes_network
    from dpgraph.pages.writing import write_html
    from dpgraph.privacy import errors
    from dpgraph.privacy.accounting import Budget, cost
    from dpgraph.privacy.records import PrivacyUnit, Release
    from dpgraph.privacy.release import release
    from dpgraph.statistics.counts import count
    from dpgraph.statistics.records import sufficient_statistics
    from dpgraph.statistics.regression import regression_moments
    from dpgraph.statistics.rows.infer import infer_domain
    from dpgraph.structure import expfam
    from dpgraph.structure.design import Bounded, LinearDesign
    from dpgraph.structure.domain import Bins, Categories, Domain
    from dpgraph.structure.joint import pooled
    from dpgraph.structure.margins import all_pairs
    from dpgraph.structure.network import Network
    from dpgraph.structure.tables import Probabilities

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
provide("read_features", "statistics.rows.features")
