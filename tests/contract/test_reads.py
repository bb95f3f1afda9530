"""Rows are read once (promise.md S23): a second reading may have them in another order, or not at all.

Every public function that takes rows is handed a stream whose every reading has another order, one that can be read
once, and a lazy table each column of which is a reading. It gives the answer of one reading, or refuses by name and
charges nothing. ``test_canary`` finds public functions that are not among these.
"""

import numpy as np
import pyarrow as pa
import pytest

import dpgraph as dg
from tests.privacy import hostile
from tests.privacy.test_canary import COLUMNS, MATRICES, TABLES, budget_of, models
from tests.streams import Once, Query, Stream

__all__ = ["models"]  # the fixture
pytestmark = pytest.mark.filterwarnings("ignore")

#: What needs rows whose places mean something, as beside a y: a query has none.
REFUSED = {
    "PrivateClassifier.fit, person",
    "PrivateClassifier.score",
    "PrivateNaiveBayes.fit",
    "PrivateNaiveBayes.fit, person",
    "PrivateNaiveBayes.score",
    "PrivateLinearRegression.fit",
    "PrivateLinearRegression.fit, person",
    "PrivateLinearRegression.score",
    "query_rows",
    "row_probabilities",
    "evaluate, X and y",
    "evaluate, X and y of a regression",
    "evaluate, scikit-learn",
    "evaluate, scikit-learn regressor",
    "cross_validate",
    "cross_validate, regression",
    "cross_validate, HMM",
}


def refused(function, rows, fitted, budget):
    """Whether a function refuses rows, which it then charges nothing for; they are read once at most."""
    spent = budget.spent
    try:
        function(rows, fitted)
    except (dg.errors.DomainError, dg.errors.ReleaseError):
        assert budget.spent == spent
        assert len(rows.reads) <= 1
        return True
    assert len(rows.reads) == 1
    return False


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_read_once_or_refused(name, models):
    for kind in (Stream, Once, Query):
        rows = kind(hostile.typed(hostile.N))
        assert refused(TABLES[name], rows, models, budget_of(name)) == (name in REFUSED), kind


@pytest.mark.parametrize("name", [*COLUMNS, *MATRICES])
def test_a_column_or_an_array_is_no_query_or_read_once(name, models):
    """A column beside others, or a matrix beside a target, has an order of rows, and a query has none."""
    function = COLUMNS.get(name) or MATRICES[name]
    rows = Query(pa.table({"age": np.full(hostile.N, 0.5)}))
    whole = name.startswith("sufficient_statistics") or (name in MATRICES and ("predict" in name or "log_" in name))
    assert refused(function, rows, models, budget_of(name)) or whole


@pytest.mark.parametrize("kind", [Stream, Query])
def test_a_function_that_reads_twice_is_seen(kind, models):
    def twice(rows, fitted):
        return [pa.RecordBatchReader.from_stream(rows).read_all() for _ in range(2)]

    with pytest.raises(AssertionError):
        refused(twice, kind(hostile.typed(10)), models, budget_of("count"))
