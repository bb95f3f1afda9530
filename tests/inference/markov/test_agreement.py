"""The collapsed and the blocked sampler agree on a simulated log, in what labels do not change."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.inference.chains import effective_size
from dpgraph.inference.markov.evidence import log_evidence
from dpgraph.inference.markov.labels import sorted_occupancies
from dpgraph.inference.markov.sampler import draw_markov

sys.path.append(str(Path(__file__).parents[3] / "datasets"))
import event_log


def quantities(drawn):
    """Sorted occupancies, the trace of the transitions, the entropy of emissions; shape (copies, draws, 5)."""
    parts = [
        sorted_occupancies(drawn.states, 3).astype(float),
        np.trace(drawn.transition, axis1=2, axis2=3)[..., None],
        -(drawn.emissions * np.log(drawn.emissions)).sum(axis=(2, 3))[..., None],
    ]
    return np.concatenate(parts, axis=2)


@pytest.mark.proof
@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
def test_samplers_agree_within_monte_carlo_error(inference):
    """Four chains of 400 draws each way at epsilon 1; the error is from the effective sizes, the level 1e-6."""
    domain = dg.read_domain("example:event_log")
    counts = dg.count(event_log.simulate(seed=3).rows, dg.hmm_network(domain, "region", "month"))
    mechanism = dg.LaplaceMechanism(1, tables="maximal")
    noisy = dg.release(counts, mechanism, budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    given = log_evidence(noisy.value, "region", "month")
    means, errors = [], []
    for seed, sampler in enumerate(("blocked", "collapsed")):
        drawn = draw_markov(
            given, 3, rng=np.random.default_rng(seed), sampler=sampler, inference=inference, copies=4, iterations=400,
            burn_in=200,
        )  # fmt: skip
        found = quantities(drawn)
        means.append(found.mean(axis=(0, 1)))
        errors.append(found.var(axis=(0, 1)) / effective_size(found))
    apart = np.abs(means[0] - means[1]) / np.sqrt(errors[0] + errors[1])
    assert apart.max() < 5.3, (means, apart)
