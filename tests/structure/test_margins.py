"""Tables to be measured before there is a graph: what they are, what they refuse, and that files keep them."""

from fractions import Fraction
from itertools import combinations

import pytest

import dpgraph as dg
from dpgraph.files.networks import network_of, plain_network
from dpgraph.mechanisms.additive.plans import shares
from dpgraph.structure.margins import Margins

DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1, 2], "c": list(range(40)), "d": list(range(30))})


def test_all_pairs_are_every_pair_once():
    pairs = dg.all_pairs(DOMAIN)
    assert pairs.tables == tuple(combinations(DOMAIN.names, 2))
    assert pairs.cell_count == 2 * 3 + 2 * 40 + 2 * 30 + 3 * 40 + 3 * 30 + 40 * 30


def test_a_pair_beyond_the_limit_is_refused_by_name():
    with pytest.raises(dg.errors.NetworkError, match="'c' and 'd' has 1,200 cells"):
        dg.all_pairs(DOMAIN, max_cells=1000)
    assert ("c", "d") not in dg.all_pairs(DOMAIN, max_cells=1000, beyond="leave-out").tables


def test_a_variable_that_is_in_no_pair_is_measured_by_itself():
    assert dg.all_pairs(DOMAIN, max_cells=50, beyond="leave-out").tables == (("a", "b"), ("c",), ("d",))


@pytest.mark.parametrize(
    ("domain", "settings"),
    [
        ({"a": [0, 1]}, {}),
        (DOMAIN, {"max_cells": 0}),
        (DOMAIN, {"max_cells": 2.5}),
        (DOMAIN, {"beyond": "drop"}),
    ],
)
def test_bad_settings_are_refused(domain, settings):
    with pytest.raises(dg.errors.NetworkError):
        dg.all_pairs(domain, **settings)


@pytest.mark.parametrize(
    ("tables", "shares"),
    [
        ([], []),
        ([("a", "a")], []),
        ([("a", "b"), ("b", "a")], []),
        ([("a", "nowhere")], []),
        ([("a", "b")], [1, 2]),
        ([("a", "b")], [0]),
        ([("a", "b")], [True]),
    ],
)
def test_bad_tables_are_refused(tables, shares):
    with pytest.raises(dg.errors.NetworkError):
        Margins.of_tables(DOMAIN, tables, shares)


def test_shares_are_those_that_are_said():
    margins = Margins.of_tables(DOMAIN, [("a", "b"), ("a",)], [3, 1])
    assert shares(margins, margins.tables, "optimal", spreads=[1, 1]) == (Fraction(3, 4), Fraction(1, 4))
    event = dg.GaussianMechanism(delta="1e-6", rho="1/8").event(margins, dg.PrivacyUnit("add-remove"))
    wide, narrow = (m.law.scale for m in event.measurements)
    assert narrow**2 == pytest.approx(3 * wide**2)  # the variance is inverse to the share of rho


def test_a_file_keeps_tables_and_shares():
    margins = Margins.of_tables(DOMAIN, [("a", "b"), ("c",)], [3, 1])
    assert network_of(plain_network(margins)) == margins
    plain = plain_network(margins)
    for wrong in ({"tables": "ab"}, {"tables": [["a", 3]]}, {"shares": 3}, {"parents": {"a": ["b"]}}):
        with pytest.raises(dg.errors.DPGraphError):
            network_of(plain | wrong)


def test_a_network_as_toml_is_read_back(tmp_path):
    domain = dg.Domain.of(
        {
            'q"1': dg.Categories(["a\x7f", 'b"\\'], other='b"\\', missing="a\x7f"),
            "b": dg.Bins([0, 0.5, 2], missing=True),
        },
        strict=True,
    )
    for network in (dg.Network.of(domain, {"b": ['q"1']}), dg.all_pairs(domain)):
        dg.save(network, tmp_path / "net.toml")
        assert dg.read_network(tmp_path / "net.toml") == network
