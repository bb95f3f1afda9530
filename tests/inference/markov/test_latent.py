"""Noise-aware sampling agrees with enumeration of every table, state and parameter of a tiny log."""

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.latent import coupled
from dpgraph.inference.markov.sampler import MarkovPrior, draw_markov
from dpgraph.privacy.records import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace

FIELDS = (slice(0, 2), slice(2, 4))
RELEASED = np.array([[[5, -1, 3, 2], [1, 3, 1, 4]]])
MOST = 16
PRIOR = MarkovPrior(transition=0.8, emission=1.5, entries=(2.0, 5.0))


def enumerated(law):
    """Posterior means by summing over N, both fields' tables and the states of two cells of one chain."""
    cells = np.array([(a, n - a, b, n - b) for n in range(MOST + 1) for a in range(n + 1) for b in range(n + 1)])
    n = cells[:, :2].sum(axis=1)
    own = 2 * gammaln(n + 1) - gammaln(cells + 1).sum(axis=1)
    noise = [
        -(np.abs(y - cells) / law.scale).sum(axis=1)
        if not isinstance(law, DiscreteGaussian)
        else -((y - cells) ** 2 / (2 * law.scale**2)).sum(axis=1)
        for y in RELEASED[0]
    ]
    one, two = own + noise[0], own + noise[1]
    a, b = PRIOR.entries
    base = one[:, None] + two[None] + betaln(a + 2, b + n[:, None] + n[None])
    beta = PRIOR.emission

    def dirichlet(counts):
        fields = [counts[..., :2], counts[..., 2:]]
        return sum(gammaln(c + beta).sum(-1) - gammaln(c.sum(-1) + 2 * beta) for c in fields) - 2 * (
            2 * gammaln(beta) - gammaln(2 * beta)
        )

    together = base + dirichlet(cells[:, None] + cells[None])
    apart = base + dirichlet(cells)[:, None] + dirichlet(cells)[None]
    top = max(together.max(), apart.max())
    same, different = np.exp(together - top), np.exp(apart - top)
    whole = same.sum() + different.sum()  # a single transition is as likely to stay as to leave
    both = same + different
    level = (cells[:, None, 0] + cells[None, :, 0] + beta) / (n[:, None] + n[None] + 2 * beta)
    alone = ((cells[:, 0] + beta) / (n + 2 * beta))[:, None]
    return {
        "same state": same.sum() / whole,
        "entries of the first": (both * n[:, None]).sum() / whole,
        "entries of the second": (both * n[None]).sum() / whole,
        "emission of the first": ((same * level).sum() + (different * alone).sum()) / whole,
    }


@pytest.mark.parametrize("law", [DiscreteLaplace(1.5), SumZeroLaplace(1.5), DiscreteGaussian(2.0)])
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_posterior_means_are_those_of_the_enumeration(law, sampler):
    """500 sampler chains of 120 draws; standard errors are taken over the chains, and the bound is 6 of them.

    They are about 2e-3 of a probability and 2e-2 entries: leaving out the noise, the shared N, or a proposal's
    ratio moves these means by ten times as much.
    """
    given = cells_evidence(RELEASED, FIELDS, [(law, 8)] * 4)
    drawn = draw_markov(
        given, 2, rng=np.random.default_rng(5), prior=PRIOR, sampler=sampler, copies=500, iterations=120, burn_in=60,
        fast=None,
    )  # fmt: skip
    z = drawn.states[:, :, 0].astype(int)
    first = np.take_along_axis(drawn.emissions[..., 0], z[:, :, :1], 2)[..., 0]
    found = {
        "same state": (z[..., 0] == z[..., 1]).mean(axis=1),
        "entries of the first": drawn.entries[:, 0, 0],
        "entries of the second": drawn.entries[:, 0, 1],
        "emission of the first": first.mean(axis=1),
    }
    for name, value in enumerated(law).items():
        error = found[name].std() / np.sqrt(len(found[name]))
        assert abs(found[name].mean() - value) < 6 * error + 1e-3, (name, found[name].mean(), value, error)


def three_steps(law, values, most, alpha):
    """P(states) of three cells of one chain with one binary field, everything else summed or integrated out."""
    cells = np.array([(a, n - a) for n in range(most + 1) for a in range(n + 1)])
    n = cells.sum(axis=1)
    own = gammaln(n + 1) - gammaln(cells + 1).sum(axis=1)
    one, two, three = (own - np.abs(y - cells).sum(axis=1) / law.scale for y in values)
    a, b = PRIOR.entries
    whole = n[:, None, None] + n[None, :, None] + n
    base = one[:, None, None] + two[None, :, None] + three + betaln(a + 3, b + whole)
    log = []
    for states in np.ndindex(2, 2, 2):
        total = base.copy()
        moves = np.zeros((2, 2))
        np.add.at(moves, (states[:2], states[1:]), 1)
        total += gammaln(moves + alpha).sum() - gammaln(moves.sum(axis=1) + 2 * alpha).sum()
        for k in (0, 1):
            parts = [cells if z == k else np.zeros_like(cells) for z in states]
            mine = parts[0][:, None, None] + parts[1][None, :, None] + parts[2]
            total += gammaln(mine + PRIOR.emission).sum(-1) - gammaln(mine.sum(-1) + 2 * PRIOR.emission)
        log.append(np.logaddexp.reduce(total.ravel()))
    weight = np.exp(np.array(log) - max(log)).reshape(2, 2, 2)
    return weight / weight.sum()


@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_states_of_three_steps_are_those_of_the_enumeration(sampler):
    """Two transitions share their rows, so neighbours matter; 1000 sampler chains, bound at 6 standard errors."""
    law, values, alpha = DiscreteLaplace(0.8), np.array([(3, 1), (1, 2), (3, 0)]), 0.3
    given = cells_evidence(values[None], (slice(0, 2),), [(law, 6)] * 2)
    prior = MarkovPrior(transition=alpha, emission=PRIOR.emission, entries=PRIOR.entries)
    drawn = draw_markov(
        given, 2, rng=np.random.default_rng(9), prior=prior, sampler=sampler, copies=1000, iterations=100, burn_in=40
    )
    z = drawn.states[:, :, 0].astype(int)
    exact = three_steps(law, values, 10, alpha)
    for first, second in ((0, 1), (1, 2), (0, 2)):
        same = (z[..., first] == z[..., second]).mean(axis=1)
        kept = np.ones((2, 2, 2), bool)
        for states in np.ndindex(2, 2, 2):
            kept[states] = states[first] == states[second]
        error = same.std() / np.sqrt(len(same))
        assert abs(same.mean() - exact[kept].sum()) < 6 * error + 1e-3, (same.mean(), exact[kept].sum(), error)


def test_the_coupling_keeps_the_law_and_moves_as_few_as_it_can():
    """From multinomial(old) to multinomial(new); the share that moves is the total variation distance."""
    rng = np.random.default_rng(6)
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    before = rng.multinomial(50, old, size=20_000)
    after = coupled(rng, before, np.tile(old, (20_000, 1)), np.tile(new, (20_000, 1)))
    assert (after.sum(axis=1) == 50).all()
    assert np.abs(after.mean(axis=0) / 50 - new).max() < 6 * 0.071 / np.sqrt(20_000)
    assert np.abs(after.var(axis=0) / (50 * new * (1 - new)) - 1).max() < 6 * np.sqrt(2 / 20_000) * 1.5
    assert (before - after)[:, 0].mean() / 50 == pytest.approx(0.3, abs=6 * 0.09 / np.sqrt(20_000))
    assert (coupled(rng, before, np.tile(old, (20_000, 1)), np.tile(old, (20_000, 1))) == before).all()
