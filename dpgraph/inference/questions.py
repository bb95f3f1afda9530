"""Further questions of a model: information between variables, the best explanation of evidence, probabilities of rows.

Each takes the arguments of ``dg.query`` and costs nothing.

>>> import dpgraph as dg
>>> dg.questions.mutual_information(dg.load("example:asia"), "smoke", "bronc")
I(smoke; bronc) = 0.0462
"""

from __future__ import annotations

from dpgraph.inference.queries.buckets import Explanation, most_probable, sample_given
from dpgraph.inference.queries.measures import contrast, entropy, mutual_information
from dpgraph.inference.queries.missing import missing, sensitivity
from dpgraph.inference.queries.rows import row_probabilities

__all__ = [
    "Explanation",
    "contrast",
    "entropy",
    "missing",
    "most_probable",
    "mutual_information",
    "row_probabilities",
    "sample_given",
    "sensitivity",
]
