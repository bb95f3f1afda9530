"""Noise-aware sampling agrees with enumeration of every table, state and parameter of a tiny log."""

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from dpgraph.inference.markov import _kernels, loops
from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import MarkovPrior, draw_markov, latent_cells
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace

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


LAWS = [DiscreteLaplace(1.5), SumZeroLaplace(1.5), DiscreteGaussian(2.0)]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("law", "sampler"),
    [(LAWS[0], "blocked"), (LAWS[1], "collapsed"), (LAWS[2], "blocked")],
)
def test_posterior_means_are_those_of_the_enumeration(law, sampler):
    """200 sampler chains of 120 draws; standard errors are over the chains, the bound is 6 of them.

    They are about 2e-3 of a probability and 2e-2 entries: leaving out the noise, the shared N, or a proposal's
    ratio moves these means by ten times as much.
    """
    given = cells_evidence(RELEASED, FIELDS, [(law, 8)] * 4)
    drawn = draw_markov(
        given, 2, rng=np.random.default_rng(5), prior=PRIOR, sampler=sampler, copies=200, iterations=120,
        burn_in=60,
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


def three_steps(law, values, most, alpha, size):
    """P(states) of three cells of one chain with one binary field, everything else summed or integrated out."""
    cells = np.array([(a, n - a) for n in range(most + 1) for a in range(n + 1)])
    n = cells.sum(axis=1)
    own = gammaln(n + 1) - gammaln(cells + 1).sum(axis=1)
    one, two, three = (own - np.abs(y - cells).sum(axis=1) / law.scale for y in values)
    a, b = PRIOR.entries
    whole = n[:, None, None] + n[None, :, None] + n
    base = one[:, None, None] + two[None, :, None] + three + betaln(a + 3, b + whole)
    log = []
    for states in np.ndindex((size,) * 3):
        total = base.copy()
        moves = np.zeros((size, size))
        np.add.at(moves, (states[:2], states[1:]), 1)
        total += gammaln(moves + alpha).sum() - gammaln(moves.sum(axis=1) + size * alpha).sum()
        for k in set(states):
            parts = [cells if z == k else np.zeros_like(cells) for z in states]
            mine = parts[0][:, None, None] + parts[1][None, :, None] + parts[2]
            total += gammaln(mine + PRIOR.emission).sum(-1) - gammaln(mine.sum(-1) + 2 * PRIOR.emission)
            total += gammaln(2 * PRIOR.emission) - 2 * gammaln(PRIOR.emission)
        log.append(np.logaddexp.reduce(total.ravel()))
    weight = np.exp(np.array(log) - max(log)).reshape((size,) * 3)
    return weight / weight.sum()


@pytest.mark.proof
@pytest.mark.parametrize(("sampler", "size"), [("collapsed", 2), ("blocked", 3)])
def test_states_of_three_steps_are_those_of_the_enumeration(sampler, size):
    """Two transitions share their rows, so neighbours matter; 400 sampler chains, 6 standard errors."""
    law, values, alpha = DiscreteLaplace(0.8), np.array([(3, 1), (1, 2), (3, 0)]), 0.3
    given = cells_evidence(values[None], (slice(0, 2),), [(law, 6)] * 2)
    prior = MarkovPrior(transition=alpha, emission=PRIOR.emission, entries=PRIOR.entries)
    drawn = draw_markov(
        given, size, rng=np.random.default_rng(9), prior=prior, sampler=sampler, copies=400, iterations=100,
        burn_in=40,
    )  # fmt: skip
    z = drawn.states[:, :, 0].astype(int)
    exact = three_steps(law, values, 10, alpha, size)
    every = np.array(list(np.ndindex(exact.shape)))
    for first, second in ((0, 1), (1, 2), (0, 2)):
        same = (z[..., first] == z[..., second]).mean(axis=1)
        wanted = exact.ravel()[every[:, first] == every[:, second]].sum()
        error = same.std() / np.sqrt(len(same))
        assert abs(same.mean() - wanted) < 6 * error + 1e-3, (same.mean(), wanted, error)


def test_the_coupling_keeps_the_law_and_moves_as_few_as_it_can():
    """From multinomial(old) to multinomial(new); the share that moves is the total variation distance."""
    rng = np.random.default_rng(6)
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    before = rng.multinomial(50, old, size=20_000)
    after = coupled(rng, before, old, new)
    assert (after.sum(axis=1) == 50).all()
    assert np.abs(after.mean(axis=0) / 50 - new).max() < 6 * 0.071 / np.sqrt(20_000)
    assert np.abs(after.var(axis=0) / (50 * new * (1 - new)) - 1).max() < 6 * np.sqrt(2 / 20_000) * 1.5
    assert (before - after)[:, 0].mean() / 50 == pytest.approx(0.3, abs=6 * 0.09 / np.sqrt(20_000))
    assert (coupled(rng, before, old, old) == before).all()


def coupled(rng, before, old, new):
    """Each table by ``loops.couple``."""
    after = np.empty_like(before)
    for table, into in zip(before, after, strict=True):
        loops.couple(rng, table, old, new, np.empty(old.size), into)
    return after


@pytest.mark.parametrize("here", range(4))
def test_a_pool_has_one_law_whichever_table_is_the_current_one(here):
    """States 0 and 1, 2 and 3 are matched: tables of a pair differ by the total variation distance of its laws."""
    rng = np.random.default_rng(11)
    laws = np.array([[0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.5, 0.1, 0.4]])
    entries, many = 40, 2000
    pair, tables, fit = np.array([1, 0, 3, 2]), np.zeros((2, 4, 3), np.int64), np.zeros((2, 4))
    moved, means = np.zeros((many, 4)), np.zeros((2, 4, 3))
    for d in range(many):
        start = rng.multinomial(entries, laws[here])[None]
        loops.pool(rng, one_cell(start), 0, here, laws, pair, tables, fit)
        moved[d] = [np.abs(one[a] - one[b]).sum() / 2 for one in tables for a, b in ((0, 1), (2, 3))]
        means += tables / many
        assert (tables[0, here] == start[0]).all()
        assert (tables.sum(axis=2) == entries).all()
    error = 6 * np.sqrt(entries * 0.25 / many)
    assert np.abs(means - entries * laws).max() < error
    assert np.abs(moved.mean(axis=0) - entries * np.array([0.6, 0.2, 0.6, 0.2])).max() < error


def one_cell(counts):
    """A sampler chain of one cell with one field, released as it is with Laplace noise of scale 5."""
    width = counts.shape[1]
    sizes = [np.full(1, -0.1), np.full((2, 1, 1), 0.3), np.ones(1), np.full((4, 1), 0.05)]
    law = [np.full(width, 0.2), np.zeros(width)]
    return loops.Cells(
        counts, counts.copy(), np.ones(1, bool), np.array([0, width]), *law, *sizes, np.zeros(2 * len(loops.MOVES))
    )


def test_plain_and_compiled_sweeps_are_the_same_draws():
    """Eight sweeps, in which every move is tried and taken; one random number more or less would show at the end."""
    found = []
    for kernels in (_kernels.PLAIN, _kernels.compiled()):
        rng = np.random.default_rng(12)
        given = cells_evidence(
            rng.integers(-3, 30, (2, 4, 5)), (slice(0, 2), slice(2, 5)), [(DiscreteLaplace(3.0), 8)] * 5
        )
        given = given.without(np.arange(8).reshape(2, 4) == 5)
        start = np.concatenate([rng.multinomial(15, law, (2, 4)) for law in ([0.3, 0.7], [0.2, 0.3, 0.5])], axis=2)
        latent = latent_cells(given, 3, start)
        states, transition = rng.integers(0, 3, (2, 4)), rng.dirichlet(np.ones(3), 3)
        emissions = np.concatenate([rng.dirichlet(np.ones(size), 3) for size in (2, 3)], axis=1)
        for _ in range(8):
            kernels.sweep(rng, latent, states, transition, emissions, (1.0, 1.5, 2.0, 5.0), 2, 0.3)
        assert latent.tally.all(), "a move was never tried, or never taken"
        found.append((latent.counts, states, transition, emissions, latent.stay, latent.most, rng.random()))
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=1e-12)
