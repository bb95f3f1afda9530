"""Simulation-based calibration: a parameter's rank among posterior draws is uniform when inference knows the noise."""

import numpy as np
import pytest

from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import MarkovPrior, draw_markov
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace

FIELDS = (slice(0, 2), slice(2, 5))
CHAINS, STEPS, SIZE = 2, 8, 2
PRIOR = MarkovPrior(entries=(3.0, 30.0))


def quantities(transition, emissions):
    """What labels do not change, last axis: the trace and the extremes of the transition matrix, and of emissions."""
    stay = np.diagonal(transition, axis1=-2, axis2=-1)
    parts = [stay.sum(-1), stay.max(-1), stay.min(-1)]
    for column in (0, 2, 4):
        parts += [emissions[..., column].max(-1), emissions[..., column].min(-1)]
    return np.stack(parts, axis=-1)


def simulated(rng, trials, law):
    """Parameters from the prior and released cells given them; (trials, chains, steps, columns)."""
    transition = rng.dirichlet(np.ones(SIZE), (trials, SIZE))
    emissions = np.concatenate([rng.dirichlet(np.ones(c.stop - c.start), (trials, SIZE)) for c in FIELDS], axis=2)
    rate = rng.beta(*PRIOR.entries, (trials, CHAINS, 1))
    entries = rng.geometric(np.broadcast_to(rate, (trials, CHAINS, STEPS))) - 1
    states = rng.integers(0, SIZE, (trials, CHAINS, STEPS))
    each = np.arange(trials)[:, None]
    for t in range(1, STEPS):
        states[:, :, t] = rng.random((trials, CHAINS)) > transition[each, states[:, :, t - 1], 0]
    laws = emissions[np.arange(trials)[:, None, None], states]
    cells = np.concatenate([rng.multinomial(entries, laws[..., c]) for c in FIELDS], axis=3)
    if isinstance(law, DiscreteGaussian):
        noise = np.rint(rng.normal(0, law.scale, cells.shape)).astype(int)
    else:
        chance = -np.expm1(-1 / law.scale)
        noise = rng.geometric(chance, cells.shape) - rng.geometric(chance, cells.shape)
    return transition, emissions, cells + noise


def distances(inference, trials, law, sampler="blocked", seed=0, iterations=600, thin=12):
    """The Kolmogorov-Smirnov distance of each quantity's ranks from uniform ones."""
    rng = np.random.default_rng(seed)
    transition, emissions, released = simulated(rng, trials, law)
    given = cells_evidence(released, FIELDS, [(law, 10)] * 5)
    drawn = draw_markov(
        given, SIZE, rng=rng, prior=PRIOR, copies=trials, iterations=iterations, burn_in=300, inference=inference,
        sampler=sampler,
    )  # fmt: skip
    posterior = quantities(drawn.transition[:, ::thin], drawn.emissions[:, ::thin])
    truth = quantities(transition, emissions)[:, None]
    below = (posterior < truth).sum(axis=1)
    rank = np.sort((below + rng.random(below.shape)) / (posterior.shape[1] + 1), axis=0)
    steps = np.arange(1, trials + 1)[:, None] / trials
    return np.maximum(steps - rank, rank - steps + 1 / trials).max(axis=0)


def critical(trials):
    """What one of nine distances of a right posterior exceeds with a chance of at most 1e-6 (Massart 1990)."""
    return np.sqrt(np.log(2 * 9 / 1e-6) / (2 * trials))


def check(trials, law, sampler="blocked", seed=0):
    """No quantity of nine is beyond the critical value, and one at least of the plug-in's is."""
    aware = distances("noise-aware", trials, law, sampler, seed)
    assert aware.max() < critical(trials), aware
    plug_in = distances("plug-in", trials, law, sampler, seed, iterations=300, thin=6)
    assert plug_in.max() > critical(trials), plug_in


@pytest.mark.proof
def test_noise_aware_inference_is_calibrated_and_plug_in_is_not():
    """150 logs at scale 4, cells of about 15 entries: the critical value is 0.24."""
    check(150, DiscreteLaplace(4.0))


@pytest.mark.proof
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
@pytest.mark.parametrize("law", [DiscreteLaplace(4.0), DiscreteGaussian(6.0)])
def test_calibration_at_length(law, sampler):
    """300 logs: the critical value is 0.17."""
    check(300, law, sampler, seed=1)


@pytest.mark.proof
def test_calibration_where_noise_is_as_large_as_the_cells():
    """60 logs at scale 10: the critical value is 0.37. Power: plug-in inference was at 0.48 in logs of another seed."""
    check(60, DiscreteLaplace(10.0), seed=7)


if __name__ == "__main__":
    for scale in (4.0, 10.0):
        for method in ("noise-aware", "plug-in"):
            print(scale, method, distances(method, 300, DiscreteLaplace(scale), seed=2).round(3))
