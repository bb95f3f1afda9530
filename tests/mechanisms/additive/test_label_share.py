"""The label's share of epsilon: from public values alone, enough to know the label by, and no more."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.additive.laplace import SHARES, WANTED, label_first
from dpgraph.privacy.errors import ReleaseError
from dpgraph.structure.network import Network

DOMAIN = dg.Domain.of({"y": [0, 1], **{f"x{i}": [0, 1, 2] for i in range(8)}})
NETWORK = dg.naive_bayes_network(DOMAIN, "y")
REPLACE, ADDED = dg.PrivacyUnit(), dg.PrivacyUnit("add-remove")


def excess(mechanism, n):
    """Half the variance of a label's share over its frequency, summed over even labels, from the laws alone."""
    measured = mechanism.event(NETWORK, REPLACE).measurements
    precision = sum(1 / (m.law.variance(m.cells) * m.cells / 2) for m in measured)
    return 2 * (1 / precision) / n**2 / 2 * 2


@pytest.mark.parametrize(("n", "epsilon"), [(1_000, "0.1"), (3_000, "0.1"), (9_000, "0.01"), (500, "1")])
def test_the_least_share_makes_the_label_known_as_well_as_wanted(n, epsilon):
    share = label_first(NETWORK, "y", epsilon, REPLACE, n).margins.get("y", Fraction(0))
    below = [Fraction(one, 100) for one in SHARES if Fraction(one, 100) < share]

    def with_share(part):
        return dg.LaplaceMechanism(epsilon, margins={"y": part} if part else {})

    assert excess(with_share(share), n) <= WANTED * 1.01
    assert not below or excess(with_share(below[-1]), n) > WANTED * 0.99


def test_shares_fall_with_rows_and_with_epsilon():
    shares = [label_first(NETWORK, "y", "0.1", REPLACE, n).margins.get("y", 0) for n in (100, 700, 1500, 10_000)]
    assert shares[0] == Fraction(95, 100)
    assert shares[-1] == 0
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 4


@pytest.mark.parametrize(("unit", "n"), [(ADDED, None), (REPLACE, 10_001)])
def test_where_n_is_private_or_large_the_tables_get_all(unit, n):
    assert not label_first(NETWORK, "y", "0.0001", unit, n).margins


def test_a_label_that_is_a_table_already_is_not_measured_twice():
    alone = Network.of({"y": [0, 1]}, {})
    assert not label_first(alone, "y", "0.001", REPLACE, 10).margins


def test_a_share_is_never_why_a_release_is_refused():
    """At an epsilon whose tables have noise of nearly the largest scale that is drawn, 2^40."""
    least = Fraction(20, 2**40)
    dg.LaplaceMechanism(least).event(NETWORK, REPLACE)
    with pytest.raises(ReleaseError):
        dg.LaplaceMechanism(least, margins={"y": "0.95"}).event(NETWORK, REPLACE)
    label_first(NETWORK, "y", least, REPLACE, 10).event(NETWORK, REPLACE)


@pytest.mark.proof
def test_rows_change_nothing_but_their_number():
    """Estimators on other rows, as many: the same event, and a private n is not looked at."""
    rng = np.random.default_rng(0)
    events = []
    for unit, sizes in ((REPLACE, (200, 200)), (ADDED, (200, 3_000))):
        for n in sizes:
            rows = pd.DataFrame({name: rng.integers(0, DOMAIN.sizes[name], n) for name in DOMAIN.names})
            fitted = dg.PrivateNaiveBayes(DOMAIN, epsilon="0.2", unit=unit, noise=dg.testing.SeededNoise(1))
            events.append(fitted.fit(rows.drop(columns="y"), rows["y"]).release_.event)
    assert events[0] == events[1]
    assert ("y",) in {m.table for m in events[0].measurements}
    assert events[2] == events[3]


@pytest.mark.parametrize(
    ("margins", "said"),
    [
        ({"y": 1}, "less than 1"),
        ({"y": "0.5", "x0": "0.5"}, "less than 1"),
        ({"y": 0}, "above 0"),
        ({"y": -1}, "above 0"),
        (["y"], "must map"),
        ({1: "0.5"}, "must map"),
        ({"y": "a"}, "above 0"),
    ],
)
def test_bad_shares_are_refused(margins, said):
    with pytest.raises(ReleaseError, match=said):
        dg.LaplaceMechanism(1, margins=margins)


@pytest.mark.parametrize("name", ["z", "a"])
def test_margins_of_no_variable_or_of_a_measured_one_are_refused(name):
    network = Network.of({"a": [0, 1]}, {})
    with pytest.raises(ReleaseError, match="margins"):
        dg.LaplaceMechanism(1, margins={name: "0.5"}).event(network, REPLACE)


def test_margins_are_for_networks():
    with pytest.raises(ReleaseError, match="margins"):
        dg.LaplaceMechanism(1, margins={"y": "0.5"}).event(dg.LinearDesign({"x": (0, 1)}, "y", (0, 1)), REPLACE)


def test_a_release_with_margins_is_saved_and_checked(tmp_path):
    rows = pd.DataFrame({name: [0, 1] * 50 for name in DOMAIN.names})
    counts = dg.count(rows, NETWORK)
    mechanism = dg.LaplaceMechanism(1, margins={"y": "0.3"})
    released = dg.release(counts, mechanism, budget=dg.Budget(1))
    dg.save(released, tmp_path / "release.json")
    read = dg.load(tmp_path / "release.json")
    assert read.event == released.event
    assert (read.value.tables["y",] == released.value.tables["y",]).all()
    assert "margins={'y': '3/10'}" in repr(mechanism)
