"""The classes of the values that public functions return, for annotations and ``isinstance``.

A few are also made by hand from a value that was loaded: an ``Evaluation`` of a saved release, a ``NaiveBayes`` of
probabilities. Names are imported when they are first used.

>>> import dpgraph as dg
>>> isinstance(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1, n=1000), dg.results.PrivacyReport)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names

if TYPE_CHECKING:  # the one list of names, in the order data flows
    # isort: off
    # budgets and prices
    from dpgraph.privacy.ledger.account import Ledger as Ledger
    from dpgraph.privacy.ledger.verification import Verification as Verification
    from dpgraph.privacy.ledger.store import LedgerRow as LedgerRow, Allowance as Allowance
    from dpgraph.privacy.accounts import Receipt as Receipt
    from dpgraph.privacy.records import PrivacyCost as PrivacyCost
    from dpgraph.privacy.risk import Risk as Risk
    from dpgraph.analysis.cost import PrivacyReport as PrivacyReport

    # what a Release holds, and the record of how it was made
    from dpgraph.privacy.records import Event as Event, Provenance as Provenance
    from dpgraph.structure.tables import NoisyCounts as NoisyCounts, NoisyCoefficients as NoisyCoefficients
    from dpgraph.structure.moments import NoisyMoments as NoisyMoments
    from dpgraph.structure.joint import JointCounts as JointCounts, PooledCounts as PooledCounts
    from dpgraph.structure.moments import NoisyOutcomes as NoisyOutcomes

    # what was measured: of one group of rows, of a family's moments, of a design's columns
    from dpgraph.privacy.scope import RowCap as RowCap, RowGroup as RowGroup
    from dpgraph.structure.moments import MomentDescription as MomentDescription
    from dpgraph.structure.design import Column as Column

    # posteriors
    from dpgraph.inference.network.plug_in import DirichletPosterior as DirichletPosterior
    from dpgraph.inference.network.draws import PosteriorDraws as PosteriorDraws
    from dpgraph.inference.draws import ParameterDraws as ParameterDraws
    from dpgraph.inference.regression.draws import RegressionDraws as RegressionDraws

    # domains that were found, networks that were learned, and what is measured for them
    from dpgraph.inference.discovery import Discovered as Discovered
    from dpgraph.inference.graphs.learned import LearnedNetwork as LearnedNetwork, Alternative as Alternative
    from dpgraph.structure.margins import Margins as Margins

    # answers
    from dpgraph.inference.queries.answer import Answer as Answer

    # fitted models
    from dpgraph.models.naive_bayes import NaiveBayes as NaiveBayes, NaiveBayesEnsemble as NaiveBayesEnsemble
    from dpgraph.models.weighted import WeightedNaiveBayes as WeightedNaiveBayes
    from dpgraph.models.conditional import ConditionalClassifier as ConditionalClassifier
    from dpgraph.models.effect import Effect as Effect
    from dpgraph.models.projection import Projection as Projection
    from dpgraph.models.hmm import HiddenMarkovModel as HiddenMarkovModel
    from dpgraph.models.regression import LinearRegressionModel as LinearRegressionModel

    # scores
    from dpgraph.models.evaluation import Evaluation as Evaluation, CrossValidation as CrossValidation, Score as Score

__getattr__, __dir__ = lazy_names(__name__)
