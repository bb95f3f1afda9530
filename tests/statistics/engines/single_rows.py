"""What reads single rows, and so takes none of a cluster: each is tried with a table of Spark's and of Dask's."""

import pandas as pd
import pytest

import dpgraph as dg

#: What is said of a library's table.
STAY = (
    "the rows of a {} table stay on its cluster: count takes them, as fit does, and this does not; collect them, or a "
    "sample of them, first: {}"
)
NUMBERS = pd.DataFrame({"a": [0, 1] * 20, "y": [0, 1, 1, 0] * 10})
DOMAIN = dg.Domain.of({"a": [0, 1], "y": [0, 1]})
BOUNDS = {"a": (0, 1)}


def not_taken(held, column):
    """What each says of a table that a cluster holds, its columns taken out by ``column``; nothing may be charged."""
    noise = dg.testing.SeededNoise(1)
    classifier = dg.PrivateNaiveBayes(DOMAIN, epsilon=9, inference="plug-in", noise=noise)
    line = dg.PrivateLinearRegression(BOUNDS, (0, 1), epsilon=9, inference="plug-in", noise=noise)
    fitted = [one.fit(NUMBERS[["a"]], NUMBERS["y"]) for one in (classifier, line)]
    X, y = held[["a"]], column(held, "y")
    budget = dg.Budget(9)
    tried = [
        *(lambda one=one: dg.evaluate(one, X, y, epsilon=1, budget=budget) for one in fitted),
        *(lambda one=one: dg.evaluate(one, held, epsilon=1, budget=budget) for one in fitted),
        *(lambda one=one: dg.evaluate(one, NUMBERS[["a"]], y, epsilon=1, budget=budget) for one in fitted),
        *(lambda one=one: dg.cross_validate(one, X, y, epsilon=1, budget=budget) for one in (classifier, line)),
        lambda: dg.cross_validate(classifier, NUMBERS[["a"]], y, epsilon=1, budget=budget),
        lambda: dg.statistics.encode(held, DOMAIN),
        lambda: infer(held),
    ]
    for one in tried:
        with pytest.raises(dg.errors.DomainError) as caught:
            one()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        yield str(caught.value)
    assert budget.spent == 0


def infer(held):
    with pytest.warns(dg.errors.DomainWarning, match="public rows only"):
        return dg.statistics.infer_domain(held)
