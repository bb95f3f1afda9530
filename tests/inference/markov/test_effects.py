"""Sequences with emission effects of their own: draws agree with a sum over all tables and states by quadrature."""

import math

import numpy as np
import pytest
from scipy.special import betaln, expit, gammaln, logit

from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.effects import Effects
from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import MarkovPrior, draw_markov, latent_cells, markov_draws
from dpgraph.privacy.measurements import DiscreteLaplace
from tests.inference.markov.test_calibration import FIELDS, PRIOR, SIZE, simulated

FIELD = (slice(0, 2),)
#: Two sequences of two cells, one field of two levels.
RELEASED = np.array([[(6, 0), (4, 2)], [(1, 4), (0, 7)]])
LAW, MOST = DiscreteLaplace(1.0), 14
PRIORS = MarkovPrior(transition=0.7, emission=1.5, entries=(2.0, 6.0), effects=1.2)
GRID = 24


def nodes():
    """Points and weights of phi ~ Beta, the spread ~ half-normal, and a standard normal effect."""
    x, w = np.polynomial.legendre.leggauss(GRID)
    angle = (x + 1) * math.pi / 4
    phi = np.sin(angle) ** 2
    alpha = PRIORS.emission
    of_phi = w * 2 * np.sin(angle) * np.cos(angle) * (phi * (1 - phi)) ** (alpha - 1) / np.exp(betaln(alpha, alpha))
    spread = (x + 1) * 2.5 * PRIORS.effects
    of_spread = w * np.exp(-((spread / PRIORS.effects) ** 2) / 2)
    normal, of_normal = np.polynomial.hermite_e.hermegauss(GRID)
    return (phi, of_phi / of_phi.sum()), (spread, of_spread / of_spread.sum()), (normal, of_normal / of_normal.sum())


def enumerated(size):
    """Posterior means for one state or two: everything else summed or integrated out."""
    (phi, of_phi), (spread, of_spread), (normal, of_normal) = nodes()
    apart = math.sqrt(2) * spread[:, None] * normal  # the difference of two effects
    p = expit(logit(phi)[:, None, None] + apart)  # (phi, spread, normal)
    many = np.arange(MOST + 1)
    found = np.zeros((2, 2, MOST + 1, *p.shape))  # sum over tables of N entries
    for r, t, n in np.ndindex(2, 2, MOST + 1):
        for one in range(n + 1):
            noise = np.abs(RELEASED[r, t] - (one, n - one)).sum() / LAW.scale
            ways = gammaln(n + 1) - gammaln(one + 1) - gammaln(n - one + 1)
            found[r, t, n] += math.exp(ways - noise) * p**one * (1 - p) ** (n - one)
    a, b = PRIORS.entries
    rates = np.exp(betaln(a + 2, b + many[:, None] + many) - betaln(a, b))
    second = np.einsum("mn,rnabc->rmabc", rates, found[:, 1])
    scale = found.max()
    found, second = found / scale, second / scale

    def chain(r, states, read=None):
        """The sequence's weight given its states, phi of both states and the spread, shape (phi, phi, spread)."""
        first = found[r, 0] * (1.0 if read is None else read)
        same = "mabc,mabc,c->ab" if states[0] == states[1] else "mabc,mdbc,c->adb"
        got = np.einsum(same, first, second[r], of_normal)
        if states[0] == states[1]:
            shape = (GRID, 1, GRID) if states[0] == 0 else (1, GRID, GRID)
            return got.reshape(shape) * np.ones((GRID, GRID, GRID))
        return got if states[0] == 0 else np.swapaxes(got, 0, 1)

    weight = of_phi[:, None, None] * of_phi[:, None] * of_spread
    patterns = [(0, 0)] if size == 1 else [(0, 0), (0, 1), (1, 0), (1, 1)]
    reads = {"law": p[None], "entries": many[:, None, None, None] * 1.0, "effect": (apart**2)[None, None]}
    total, same, means = 0.0, 0.0, dict.fromkeys(reads, 0.0)
    for one in patterns:
        for two in patterns:
            moves = np.zeros((size, size))
            np.add.at(moves, ([one[0], two[0]], [one[1], two[1]]), 1)
            alpha = PRIORS.transition
            prior = math.exp((gammaln(moves + alpha)).sum() - gammaln(moves.sum(axis=1) + size * alpha).sum())
            other = weight * chain(1, two) * prior
            here = (chain(0, one) * other).sum()
            total += here
            same += here if one[0] == one[1] else 0.0
            for name, read in reads.items():
                means[name] += (chain(0, one, read) * other).sum()
    return {name: value / total for name, value in means.items()} | {"same state": same / total}


def read_off(drawn):
    """What ``enumerated`` has, one value for each sampler chain."""
    z = drawn.states[:, :, 0].astype(int)
    law = np.take_along_axis(drawn.emissions, z[:, :, :1, None], 2)[:, :, 0] * np.exp(drawn.effects[:, :, 0])
    law = law[..., 0] / law.sum(axis=-1)
    apart = drawn.effects[:, :, 0, 0] - drawn.effects[:, :, 0, 1]
    return {
        "law": law.mean(axis=1),
        "entries": drawn.entries[:, 0, 0],
        "effect": (apart**2).mean(axis=1),
        "same state": (z[..., 0] == z[..., 1]).mean(axis=1),
    }


@pytest.mark.proof
@pytest.mark.parametrize(("size", "sampler"), [(2, "blocked"), (2, "collapsed")])
def test_posterior_means_are_those_of_the_quadrature(size, sampler):
    """200 sampler chains of 150 draws, 6 standard errors over the chains.

    A level that moves without its prior, a spread without its Jacobian, tables that do not follow, or the law of
    another sequence move one of these means by more than ten standard errors.
    """
    given = cells_evidence(RELEASED, FIELD, [(LAW, 8)] * 2)
    drawn = draw_markov(
        given, size, rng=np.random.default_rng(3), prior=PRIORS, sampler=sampler, copies=200, iterations=150,
        burn_in=80, effects=True,
    )  # fmt: skip
    found = read_off(drawn)
    for name, value in enumerated(size).items():
        error = found[name].std() / math.sqrt(200)
        assert abs(found[name].mean() - value) < 6 * error + 1e-3, (name, found[name].mean(), value, error)


@pytest.mark.proof
def test_effects_given_tables_are_those_of_the_quadrature():
    """Plug-in inference of one state: the released tables are the truth."""
    (phi, of_phi), (spread, of_spread), (normal, of_normal) = nodes()
    apart = math.sqrt(2) * spread[:, None] * normal
    p = expit(logit(phi)[:, None, None] + apart)
    sums = RELEASED.sum(axis=1)
    likelihood = [p**a * (1 - p) ** b for a, b in sums]
    weight = of_phi[:, None] * of_spread
    other = weight * (likelihood[1] @ of_normal)
    total = ((likelihood[0] @ of_normal) * other).sum()
    expected = {
        "law": (((likelihood[0] * p) @ of_normal) * other).sum() / total,
        "effect": (((likelihood[0] * apart**2) @ of_normal) * other).sum() / total,
    }
    given = cells_evidence(RELEASED, FIELD, [(LAW, 8)] * 2)
    drawn = draw_markov(
        given, 1, rng=np.random.default_rng(4), prior=PRIORS, inference="plug-in", copies=200, iterations=150,
        burn_in=80, effects=True,
    )  # fmt: skip
    found = read_off(drawn)
    for name, value in expected.items():
        error = found[name].std() / math.sqrt(200)
        assert abs(found[name].mean() - value) < 6 * error + 1e-3, (name, found[name].mean(), value, error)


@pytest.mark.proof
def test_without_an_entry_effects_spreads_and_laws_keep_their_priors():
    """Cells without entries say nothing: 200 chains of 400 sweeps, 6 standard errors; s^2 has mean 1.44.

    A spread that moves without the Jacobian of its effects has a mean square several times as large or small.
    """
    given, rng = cells_evidence(0 * RELEASED, FIELD, [(LAW, 8)] * 2), np.random.default_rng(7)
    move, states, scale = _kernels.compiled().given_cells, np.zeros((2, 2), np.int64), PRIORS.effects
    means = []
    for _ in range(200):
        cells = latent_cells(given, 1, np.zeros((2, 2, 2), np.int64))
        reach = np.full((2, 1, 2), 1.0), np.full((2, 2, 2), 1.0), np.full((2, 1), 1.0)
        own = Effects(np.zeros((2, 2)), np.full(1, 0.5), np.full((2, 2), 0.5), *reach)
        law, found = np.full((1, 2), 0.5), np.zeros(3)
        for sweep in range(500):
            move(rng, cells, states, law, own, PRIORS.emission, scale, 0.0, 2)
            if sweep >= 100:
                found += (own.spread[0] ** 2, (own.effects**2).mean(), law[0, 0] ** 2)
        means.append(found / 400)
    expected = scale**2, scale**2, 0.25 + 0.25 / (2 * PRIORS.emission + 1)
    error = np.std(means, axis=0) / math.sqrt(200)
    assert np.all(np.abs(np.mean(means, axis=0) - expected) < 6 * error), (np.mean(means, axis=0), expected, error)


@pytest.mark.proof
def test_compiled_and_plain_draw_the_same():
    given = cells_evidence(RELEASED, FIELD, [(LAW, 8)] * 2)
    for inference in ("noise-aware", "plug-in"):
        settings = {"copies": 2, "iterations": 4, "burn_in": 3, "effects": True, "inference": inference}
        one, two = (
            draw_markov(given, 2, rng=np.random.default_rng(5), compiled=how, **settings) for how in (True, False)
        )
        np.testing.assert_array_equal(one.states, two.states)
        assert one.effects is not None
        np.testing.assert_allclose(one.effects, two.effects, rtol=1e-6)
        np.testing.assert_allclose(one.emissions, two.emissions, rtol=1e-6)


@pytest.mark.proof
def test_known_states_stay_and_each_learns_from_its_own_cells():
    """Released without noise to speak of: a sequence's law is Dirichlet given its own table."""
    given = cells_evidence(RELEASED, FIELD, [(DiscreteLaplace(0.05), 8)] * 2)
    known = np.array([[0, 0], [1, 1]])
    drawn = draw_markov(
        given, 2, rng=np.random.default_rng(6), prior=PRIORS, copies=100, iterations=60, burn_in=20, known=known
    )
    assert (drawn.states == known).all()
    for r in range(2):
        counts = RELEASED[r].sum(axis=0) + PRIORS.emission
        found = drawn.emissions[:, :, r, 0].mean(axis=1)
        assert abs(found.mean() - counts[0] / counts.sum()) < 6 * found.std() / 10 + 1e-3


@pytest.mark.proof
def test_the_posterior_with_effects_is_calibrated():
    """80 simulated logs at scale 4: effects, spreads through them, transitions; the largest of six at level 1e-6."""
    trials, rng = 80, np.random.default_rng(0)
    base, own = simulated_effects(rng, trials)
    drawn = draw_markov(
        base, SIZE, rng=rng, prior=PRIOR, copies=trials, iterations=600, burn_in=300, effects=True
    )  # fmt: skip
    assert drawn.effects is not None
    below = (differences(drawn.effects[:, ::12]) < differences(own)[:, None]).sum(axis=1)
    rank = np.sort((below + rng.random(below.shape)) / (50 + 1), axis=0)
    steps = np.arange(1, trials + 1)[:, None] / trials
    distance = np.maximum(steps - rank, rank - steps + 1 / trials).max(axis=0)
    assert distance.max() < math.sqrt(math.log(2e7) / (2 * trials)), distance


def differences(effects):
    """Of the levels of each field of each sequence, which labels do not change, and their size."""
    parts = [effects[..., r, 0] - effects[..., r, 1] for r in (0, 1)]
    parts += [effects[..., r, 2] - effects[..., r, 4] for r in (0, 1)]
    parts += [(effects[..., c] ** 2).sum(axis=(-1, -2)) for c in FIELDS]
    return np.stack(parts, axis=-1)


def simulated_effects(rng, trials):
    """Logs from the prior: effects half-normal in spread, laws reweighted by them; evidence and effects."""
    transition, emissions, _ = simulated(rng, trials, DiscreteLaplace(4.0))
    spread = np.abs(rng.normal(size=(trials, 1, 2)))
    width = [c.stop - c.start for c in FIELDS]
    own = rng.normal(size=(trials, 2, sum(width))) * np.repeat(spread, width, axis=2)
    rate = rng.beta(*PRIOR.entries, (trials, 2, 1))
    entries = rng.geometric(np.broadcast_to(rate, (trials, 2, 8))) - 1
    states, each = rng.integers(0, SIZE, (trials, 2, 8)), np.arange(trials)[:, None]
    for t in range(1, 8):
        states[:, :, t] = rng.random((trials, 2)) > transition[each, states[:, :, t - 1], 0]
    laws = emissions[np.arange(trials)[:, None, None], states] * np.exp(own)[:, :, None]
    parts = [laws[..., c] / laws[..., c].sum(axis=-1, keepdims=True) for c in FIELDS]
    cells = np.concatenate([rng.multinomial(entries, part) for part in parts], axis=3)
    chance = -np.expm1(-1 / 4.0)
    noise = rng.geometric(chance, cells.shape) - rng.geometric(chance, cells.shape)
    return cells_evidence(cells + noise, FIELDS, [(DiscreteLaplace(4.0), 10)] * 5), own


def test_the_plain_kernels_have_what_the_compiled_ones_have():
    assert _kernels.PLAIN._fields == _kernels.compiled()._fields


def test_chains_start_at_states_that_are_no_kinds_of_sequences():
    """Six sequences of three kinds, whose cells alternate between two states: one sweep, and nearly all are told.

    Mixtures of the counts themselves tell sequences apart, whose laws differ more than those of the states.
    """
    rng = np.random.default_rng(3)
    sequences, steps, width = 6, 12, 4
    own = np.repeat(np.eye(3, width) * 1.5, 2, axis=0)
    law = np.array([[0.45, 0.25, 0.2, 0.1], [0.25, 0.2, 0.1, 0.45]])
    truth = (np.arange(steps) + np.arange(sequences)[:, None]) // 2 % 2
    weights = law[truth] * np.exp(own)[:, None]
    shares = weights / weights.sum(axis=2, keepdims=True)
    tables = np.array([[rng.multinomial(300, cell) for cell in row] for row in shares])
    given = cells_evidence(tables, (slice(0, width),), [(LAW, sequences * steps)])
    draws = draw_markov(given, 2, rng=rng, effects=True, iterations=1, burn_in=0, copies=4)
    same = (draws.states[:, 0] == truth).mean(axis=(1, 2))
    assert np.maximum(same, 1 - same).min() > 0.9


@pytest.mark.parametrize("effects", [False, True])
def test_further_draws_are_of_the_same_chains_twice_as_far_apart(effects):
    """Beside one long run: after 3 sweeps of burn-in and 5 draws, every second of the next 10 sweeps."""
    given = cells_evidence(RELEASED, FIELD, [(LAW, 4)])
    settings = {"effects": effects, "burn_in": 3, "progress": (seen := []).append}
    draws = markov_draws(given, 2, rng=np.random.default_rng(1), iterations=5, **settings)
    first, second = next(draws), next(draws)
    assert seen == list(range(18))
    whole = draw_markov(given, 2, rng=np.random.default_rng(1), iterations=15, **settings)
    names = ["transition", "emissions", "states", "log_joint", *["effects"] * effects]
    for name in names:
        np.testing.assert_array_equal(getattr(first, name), getattr(whole, name)[:, :5])
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name)[:, 6:15:2])
    sums = [
        k * draw_markov(given, 2, rng=np.random.default_rng(1), iterations=k, **settings).entries for k in range(1, 16)
    ]
    each = np.diff([0 * sums[0], *sums], axis=0)
    np.testing.assert_allclose(second.entries, each[6:15:2].mean(axis=0), atol=1e-9)
