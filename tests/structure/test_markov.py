"""Sweeps of a private sampler fit their network, cannot be changed, and show no numbers they should not."""

from itertools import pairwise

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure.network import check_markov_network, transition_counts

DOMAIN = dg.Domain.of({"month": [1, 2, 3], "kind": ["a", "b"], "region": ["N", "S"]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")
PARTS = {
    "network": NETWORK,
    "sequence": "region",
    "time": "month",
    "transition": np.full((4, 2, 2), 0.5),
    "emissions": {"kind": np.full((4, 2, 2), 0.5)},
    "states": np.zeros((4, 2, 3), np.int64),
}


def test_transitions_are_counted_within_each_chain_of_each_copy():
    states = np.array([[[0, 1, 1], [2, 0, 1]], [[2, 2, 2], [0, 0, 0]], [[1, 0, 2], [1, 0, 2]]])
    wanted = np.zeros((3, 3, 3), int)
    for copy, chains in enumerate(states.tolist()):
        for chain in chains:
            for pair in pairwise(chain):
                wanted[copy][pair] += 1
    assert transition_counts(states, 3).tolist() == wanted.tolist()
    assert transition_counts(states[:, :, :1], 3).tolist() == np.zeros((3, 3, 3)).tolist()


def test_sweeps_are_frozen_copies_in_the_networks_order():
    transition = PARTS["transition"].copy()
    sweeps = dg.papers.MarkovSweeps(**PARTS | {"transition": transition})
    transition[:] = 0.1
    assert (sweeps.transition == 0.5).all()
    assert (sweeps.sweeps, sweeps.n_states, sweeps.states.shape) == (4, 2, (4, 2, 3))
    with pytest.raises(ValueError, match="read-only"):
        sweeps.states[0, 0, 0] = 1
    assert repr(sweeps) == "MarkovSweeps(2 states, 1 fields, 4 sweeps)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequence", "month"),
        ("sequence", "kind"),
        ("time", "nowhere"),
        ("network", dg.naive_bayes_network(DOMAIN, "region")),
        ("network", dg.Network.of(DOMAIN.restrict(["region", "month"]), {})),
        ("transition", np.full((4, 2, 2), 0.4)),
        ("transition", np.full((4, 2, 3), 1 / 3)),
        ("transition", np.full((2, 2), 0.5)),
        ("transition", np.full((0, 2, 2), 0.5)),
        ("transition", np.full((4, 2, 2), np.nan)),
        ("emissions", {}),
        ("emissions", {"kind": np.full((4, 2, 3), 1 / 3)}),
        ("emissions", {"kind": np.tile([1.5, -0.5], (4, 2, 1))}),
        ("states", np.full((4, 2, 3), 2)),
        ("states", np.full((4, 2, 3), -1)),
        ("states", np.zeros((4, 3, 2), np.int64)),
    ],
)
def test_parts_that_do_not_fit_are_refused(name, value):
    with pytest.raises(dg.errors.NetworkError):
        dg.papers.MarkovSweeps(**PARTS | {name: value})


def test_the_fields_of_a_markov_network_are_all_but_chain_and_time():
    assert check_markov_network(NETWORK, "region", "month") == ("kind",)
    assert check_markov_network(NETWORK, "month", "region") == ("kind",)
