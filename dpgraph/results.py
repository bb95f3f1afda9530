"""The classes of what the public functions return, for annotations and ``isinstance``.

A few are also made by hand from a value that was loaded: an ``Evaluation`` of a saved release, a ``NaiveBayes`` of
probabilities. Names are imported when they are first used.

>>> import dpgraph as dg
>>> isinstance(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1, n=1000), dg.results.PrivacyReport)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names

_HOMES = {
    # budgets and prices
    "Ledger": "privacy.ledger.book",
    "LedgerRow": "privacy.ledger.row",
    "Allowance": "privacy.ledger.terms",
    "Verification": "privacy.ledger.checking",
    "Receipt": "privacy.accounts",
    "PrivacyCost": "privacy.records",
    "PrivacyReport": "analysis.cost",
    # what a Release holds, and the record of how it was made
    "Event": "privacy.records",
    "Provenance": "privacy.records",
    "NoisyCounts": "structure.tables",
    "NoisyCoefficients": "structure.tables",
    "NoisyMoments": "structure.moments",
    "JointCounts": "structure.joint",
    "PooledCounts": "structure.joint",
    "NoisyOutcomes": "structure.outcomes",
    # what was measured: of one group of rows, of a family's moments, of a design's columns
    "RowCap": "privacy.scope",
    "RowGroup": "privacy.scope",
    "MomentDescription": "structure.moments",
    "Column": "structure.design",
    # posteriors
    "DirichletPosterior": "inference.network.plug_in",
    "PosteriorDraws": "inference.network.draws",
    "ParameterDraws": "inference.expfam.draws",
    "RegressionDraws": "inference.regression.draws",
    # networks that were learned, and what is measured for them
    "LearnedNetwork": "inference.graphs.learned",
    "Alternative": "inference.graphs.learned",
    "Margins": "structure.margins",
    # answers
    "Answer": "inference.queries.answer",
    # fitted models
    "NaiveBayes": "models.naive_bayes",
    "NaiveBayesEnsemble": "models.naive_bayes",
    "HiddenMarkovModel": "models.hmm",
    "LinearRegressionModel": "models.regression",
    # scores
    "Evaluation": "models.evaluation",
    "CrossValidation": "models.cross_validation",
    "Score": "models.outcome_readings",
}

__all__ = [
    "Allowance",
    "Alternative",
    "Answer",
    "Column",
    "CrossValidation",
    "DirichletPosterior",
    "Evaluation",
    "Event",
    "HiddenMarkovModel",
    "JointCounts",
    "LearnedNetwork",
    "Ledger",
    "LedgerRow",
    "LinearRegressionModel",
    "Margins",
    "MomentDescription",
    "NaiveBayes",
    "NaiveBayesEnsemble",
    "NoisyCoefficients",
    "NoisyCounts",
    "NoisyMoments",
    "NoisyOutcomes",
    "ParameterDraws",
    "PooledCounts",
    "PosteriorDraws",
    "PrivacyCost",
    "PrivacyReport",
    "Provenance",
    "Receipt",
    "RegressionDraws",
    "RowCap",
    "RowGroup",
    "Score",
    "Verification",
]

if TYPE_CHECKING:
    from dpgraph.analysis.cost import PrivacyReport
    from dpgraph.inference.expfam.draws import ParameterDraws
    from dpgraph.inference.graphs.learned import Alternative, LearnedNetwork
    from dpgraph.inference.network.draws import PosteriorDraws
    from dpgraph.inference.network.plug_in import DirichletPosterior
    from dpgraph.inference.queries.answer import Answer
    from dpgraph.inference.regression.draws import RegressionDraws
    from dpgraph.models.cross_validation import CrossValidation
    from dpgraph.models.evaluation import Evaluation
    from dpgraph.models.hmm import HiddenMarkovModel
    from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
    from dpgraph.models.outcome_readings import Score
    from dpgraph.models.regression import LinearRegressionModel
    from dpgraph.privacy.accounts import Receipt
    from dpgraph.privacy.ledger.book import Ledger
    from dpgraph.privacy.ledger.checking import Verification
    from dpgraph.privacy.ledger.row import LedgerRow
    from dpgraph.privacy.ledger.terms import Allowance
    from dpgraph.privacy.records import Event, PrivacyCost, Provenance
    from dpgraph.privacy.scope import RowCap, RowGroup
    from dpgraph.structure.design import Column
    from dpgraph.structure.joint import JointCounts, PooledCounts
    from dpgraph.structure.margins import Margins
    from dpgraph.structure.moments import MomentDescription, NoisyMoments
    from dpgraph.structure.outcomes import NoisyOutcomes
    from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
