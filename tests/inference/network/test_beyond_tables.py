"""A graph that was chosen from tables without one is learned though no table holds some family."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.methods import Records
from dpgraph.structure.margins import Margins

DOMAIN = {name: [0, 1] for name in "abcd"}
EDGES = [("a", "d"), ("b", "d"), ("c", "d")]
CELLS = np.arange(400) % 8
ROWS = pd.DataFrame({"a": CELLS % 2, "b": CELLS // 2 % 2, "c": CELLS // 4}).assign(d=lambda rows: rows.max(axis=1))
LAPLACE, FOURIER = dg.LaplaceMechanism(50, tables="maximal"), dg.FourierMechanism(50)
SHORT = Records(burn_in=20)


def released(mechanism, margins=None):
    return dg.release(dg.count(ROWS, margins or dg.all_pairs(DOMAIN)), mechanism, budget=dg.Budget(50))


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("mechanism", [LAPLACE, FOURIER], ids=["counts", "coefficients"])
@pytest.mark.parametrize("joint", [False, True], ids=["one", "joint"])
def test_the_verb_draws_what_the_learned_network_draws(mechanism, joint):
    noisy = [released(mechanism), released(mechanism)] if joint else released(mechanism)
    learned = dg.choose_network(noisy, constraints=dg.Constraints(required=EDGES))
    settings = {"method": SHORT, "draws": 20, "seed": 0}
    drawn = dg.posterior(learned.release, network=learned.network, **settings)
    expected = learned.posterior(graphs="chosen", **settings)
    for name in DOMAIN:
        np.testing.assert_array_equal(drawn.mean().table(name), expected.mean().table(name))
    assert drawn.provenance == expected.provenance == learned.provenance
    assert drawn.reason == expected.reason


@pytest.mark.parametrize("method", ["tables", "normal"])
def test_other_methods_cannot_draw_it(method):
    graph = dg.Network.of(DOMAIN, {"d": ["a", "b", "c"]})
    with pytest.raises(dg.errors.InferenceError, match="records alone can draw"):
        dg.posterior(released(LAPLACE), network=graph, method=method)


def test_what_was_released_of_another_graph_is_refused():
    """Its tables were chosen for its own families; of others the prior would say most."""
    chain = dg.Network.of(DOMAIN, {"b": ["a"], "c": ["b"], "d": ["c"]})
    with pytest.raises(dg.errors.NetworkError, match="no table holds d, a, b, c together"):
        dg.posterior(released(LAPLACE, chain), network=dg.Network.of(DOMAIN, {"d": ["a", "b", "c"]}))


def test_a_variable_that_nobody_measured_is_refused():
    some = Margins.of_tables(DOMAIN, [("a", "b"), ("b", "c")])
    with pytest.raises(dg.errors.NetworkError, match="no table holds c, a, b together"):
        dg.posterior(released(LAPLACE, some), network=dg.Network.of(DOMAIN, {"c": ["a", "b"]}))


def test_another_domain_is_refused():
    graph = dg.Network.of(DOMAIN | {"d": [0, 1, 2]}, {"d": ["a", "b", "c"]})
    with pytest.raises(dg.errors.NetworkError, match="declare d differently"):
        dg.posterior(released(LAPLACE), network=graph)
