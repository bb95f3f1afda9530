"""Differentially private Bayesian inference on graphical models.

Each name has its own help, such as ``help(dg.release)``:

    declare  Domain, Categories, Bins, UNOBSERVED, Numbers, Words, Network, Rules, naive_bayes_network, hmm_network,
             read_network, read_domain, read_design, all_pairs, LinearDesign, Bounded, expfam
    release  count, release, Release, Budget, PrivacyUnit, cost, privacy_cost, audit, LaplaceMechanism,
             GaussianMechanism, FourierMechanism, PosteriorSample, MapEstimate, PrivateQuantile
    learn    posterior, HierarchicalPrior, PublicPrior, RegressionPrior, pooled, choose_network, Constraints, reconcile,
             fit_hmm
    ask      query, query_rows, expectation, classifier, effect, regression, sample_rows, Probabilities
    fit      discover, learn_network, PrivateClassifier, PrivateNaiveBayes, PrivateHMM, PrivateLinearRegression,
             evaluate, cross_validate
    keep     save, load, write_html, plot, to_pgmpy, from_pgmpy, to_datatree
    more     methods (of a posterior), questions (contrasts, interventions), results (classes of what functions
             return), statistics (rows as codes), datasets, errors, papers, extension, testing (noise for tests)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names, provide, registers

__version__ = "0.1.0"

if TYPE_CHECKING:  # the one list of names, in the order data flows
    # isort: off
    # public structure
    from dpgraph.structure.domain import Categories as Categories, Bins as Bins, UNOBSERVED as UNOBSERVED
    from dpgraph.structure.domain import Domain as Domain
    from dpgraph.structure.domain import Numbers as Numbers, Words as Words
    from dpgraph.structure.network import Network as Network
    from dpgraph.structure.network import Rules as Rules
    from dpgraph.structure.margins import all_pairs as all_pairs
    from dpgraph.models.naive_bayes import naive_bayes_network as naive_bayes_network
    from dpgraph.models.hmm import hmm_network as hmm_network
    from dpgraph.files.networks import read_network as read_network, read_domain as read_domain
    from dpgraph.files.networks import read_design as read_design
    from dpgraph.structure import expfam as expfam
    from dpgraph.structure.design import Bounded as Bounded, LinearDesign as LinearDesign

    # sensitive statistics
    from dpgraph.statistics.counts import count as count

    # the door
    from dpgraph.privacy.records import PrivacyUnit as PrivacyUnit, Release as Release
    from dpgraph.privacy.accounting import Budget as Budget, cost as cost
    from dpgraph.privacy.release import release as release
    from dpgraph.mechanisms.additive.laplace import LaplaceMechanism as LaplaceMechanism
    from dpgraph.mechanisms.additive.gaussian import GaussianMechanism as GaussianMechanism
    from dpgraph.mechanisms.additive.fourier import FourierMechanism as FourierMechanism
    from dpgraph.mechanisms.selection.lattice import PosteriorSample as PosteriorSample
    from dpgraph.mechanisms.selection.lattice import MapEstimate as MapEstimate
    from dpgraph.mechanisms.selection.quantile import PrivateQuantile as PrivateQuantile

    # after the door
    from dpgraph.structure.joint import pooled as pooled
    from dpgraph.inference.graphs.constraints import Constraints as Constraints
    from dpgraph.inference.graphs.choosing import choose_network as choose_network
    from dpgraph.structure.tables import Probabilities as Probabilities
    from dpgraph.inference.network.consistency import reconcile as reconcile
    from dpgraph.inference.posterior import posterior as posterior
    from dpgraph.inference.network.prior import HierarchicalPrior as HierarchicalPrior
    from dpgraph.inference.network.public import PublicPrior as PublicPrior
    from dpgraph.inference.regression.prior import RegressionPrior as RegressionPrior
    from dpgraph.models.markov_counts import fit_hmm as fit_hmm
    from dpgraph.models.conditional import classifier as classifier
    from dpgraph.models.effect import effect as effect
    from dpgraph.models.projection import regression as regression
    from dpgraph.inference.queries.asking import query as query
    from dpgraph.inference.queries.rows import query_rows as query_rows
    from dpgraph.inference.queries.measures import expectation as expectation
    from dpgraph.inference.network.queries import sample_rows as sample_rows
    from dpgraph.files.documents import save as save, load as load
    from dpgraph.files.pgmpy import to_pgmpy as to_pgmpy, from_pgmpy as from_pgmpy
    from dpgraph.files.arviz import to_datatree as to_datatree
    from dpgraph.pages.writing import write_html as write_html

    # what privacy costs
    from dpgraph.analysis.cost import privacy_cost as privacy_cost
    from dpgraph import audit as audit

    # estimators
    from dpgraph.estimators.discovering import discover as discover
    from dpgraph.estimators.learning import learn_network as learn_network
    from dpgraph.estimators.evaluation import evaluate as evaluate
    from dpgraph.estimators.classifier import PrivateClassifier as PrivateClassifier
    from dpgraph.estimators.naive_bayes import PrivateNaiveBayes as PrivateNaiveBayes
    from dpgraph.estimators.hmm import PrivateHMM as PrivateHMM
    from dpgraph.estimators.regression import PrivateLinearRegression as PrivateLinearRegression
    from dpgraph.estimators.cross_validation import cross_validate as cross_validate

    # namespaces
    from dpgraph.privacy import errors as errors
    from dpgraph.files import datasets as datasets
    from dpgraph import extension as extension, papers as papers, plot as plot, results as results
    from dpgraph import statistics as statistics, testing as testing
    from dpgraph.inference import methods as methods, questions as questions

__getattr__, __dir__ = lazy_names(__name__)
provide("read_features", "statistics.rows.features")
provide("joint_counts", "structure.joint")
provide("NoisyMoments", "structure.moments")
provide("NoisyOutcomes", "structure.moments")
provide("question_cost", "analysis.question_cost")
registers("papers.gibbs_sample", "GibbsSample", "markov-sweeps")
registers("papers.regression_sample", "RegressionSample (idealized numerics)", "sampled-regression", "sampled-weights")
registers("mechanisms.additive.laplace", "LaplaceMechanism")
registers("mechanisms.additive.gaussian", "GaussianMechanism")
registers("mechanisms.additive.fourier", "FourierMechanism")
registers("mechanisms.selection.lattice", "PosteriorSample")
registers("mechanisms.selection.lattice", "MapEstimate")
registers("mechanisms.selection.quantile", "PrivateQuantile")
registers("mechanisms.selection.parents_choice", "ParentsChoice")
