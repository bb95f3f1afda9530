"""A variable with very many levels is priced and fitted with a warning that says what to do."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.structure.domain import MANY_LEVELS

MANY = dg.Domain.of({"zip": list(range(MANY_LEVELS + 1)), "ill": [0, 1]})
FEW = dg.Domain.of({"zip": list(range(MANY_LEVELS)), "ill": [0, 1]})
X = pd.DataFrame({"zip": np.arange(50)})
Y = np.arange(50) % 2


def fit(domain):
    dg.PrivateNaiveBayes(domain, 1, inference="plug-in").fit(X, Y)


def price(domain):
    dg.privacy_cost(dg.naive_bayes_network(domain, "ill"), epsilon=1)


@pytest.mark.parametrize("call", [fit, price])
def test_many_levels_are_warned_of_where_the_call_is(call):
    with pytest.warns(dg.errors.DomainWarning, match=r"zip \(1,001\).*declare coarser levels") as told:
        call(MANY)
    assert told[0].filename == __file__


@pytest.mark.parametrize("call", [fit, price])
def test_fewer_are_not(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.errors.DomainWarning)
        call(FEW)
