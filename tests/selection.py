"""A noise source that records what it is asked, and the exact law of each answer, for enumerations."""

import itertools
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from dpgraph.statistics.counts import Counts
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import measured_families


@cache
def compositions(parts, total):
    """Every list of parts >= 0 with a given sum, straight from the definition."""
    return [z for z in itertools.product(range(total + 1), repeat=parts) if sum(z) == total]


@dataclass
class Recorder:
    """Answers with the first candidate, and keeps the scores, the scale and which law was asked for."""

    private: bool = False
    calls: list = field(default_factory=list)

    def choose(self, scores, scale):
        self.calls.append(("choose", np.array(scores), scale))
        return 0

    def flip(self, scores, scale):
        self.calls.append(("flip", np.array(scores), scale))
        return 0

    def choose_composition(self, scores, scale, size):
        total = scores.shape[1] - 1
        every = compositions(len(scores), total)
        sums = np.array([sum(scores[a][j] for a, j in enumerate(z)) for z in every])
        self.calls += [("choose", sums, scale)] * size
        return np.array([every[0]] * size)


def log_law(call):
    """ln P of each candidate under one recorded call."""
    kind, scores, scale = call
    logits = np.array([float(score - scores.max()) for score in scores]) / scale
    return softmax(logits) if kind == "choose" else permute_and_flip(logits)


def softmax(logits):
    return logits - np.logaddexp.reduce(logits)


def permute_and_flip(logits):
    """Candidates arrive at uniform times t and each is taken with probability q = exp(logit), the first that is:
    P(i) = q_i * integral over t of prod_{k != i} (1 - t q_k), a polynomial that Gauss-Legendre integrates exactly."""
    logits = logits - logits.max()
    q = np.exp(logits)
    nodes, weights = np.polynomial.legendre.leggauss(len(q) // 2 + 1)
    t, w = (1 + nodes) / 2, weights / 2
    factors = 1 - t[:, None] * q[None, :]
    others = np.array([np.delete(factors, i, axis=1).prod(axis=1) for i in range(len(q))])
    return logits + np.log(others @ w)


def largest_log_ratio(one, other):
    """The largest ln P(output) / P'(output) over all outputs of a sequence of independent selections."""
    assert len(one) == len(other)
    return sum((a - b).max() for a, b in zip(one, other, strict=True))


def multisets(kinds, n):
    """Every multiset of n rows of some kinds, as a tuple of counts."""
    found = []
    for rows in itertools.combinations_with_replacement(range(kinds), n):
        found.append(tuple(rows.count(kind) for kind in range(kinds)))
    return found


def neighbours(kinds, largest, unit):
    """All ordered pairs of data sets of at most ``largest`` rows that differ in one person, as tuples of counts."""
    r, pairs = unit.rows_per_person, []
    for n in range(largest - r + 1):
        for kept in multisets(kinds, n):
            persons = [tuple(map(sum, zip(kept, person, strict=True))) for person in multisets(kinds, r)]
            if unit.neighbours == "replace":
                pairs += itertools.product(persons, persons)
            else:
                for size in range(1, r + 1):
                    some = [tuple(map(sum, zip(kept, person, strict=True))) for person in multisets(kinds, size)]
                    pairs += [pair for other in some for pair in ((kept, other), (other, kept))]
    return list(dict.fromkeys(pairs))


def recorded_laws(mechanism, network, rows, unit):
    """ln P of every candidate of every selection that the mechanism makes on some rows, as the package asks for them.

    ``rows`` maps a row, a tuple of codes in the network's order, to how often it is there.
    """
    recorder = Recorder()
    mechanism.randomise(counted(network, rows), unit, recorder)
    return [log_law(call) for call in recorder.calls], recorder.calls


def counted(network, rows):
    """Exact counts of rows given as a mapping from codes to how often."""
    tables = {}
    for table in measured_families(network):
        at = [network.domain.names.index(name) for name in table]
        tables[table] = np.zeros(network.shape(table), np.int64)
        for row, times in rows.items():
            tables[table][tuple(row[i] for i in at)] += times
    return Counts(network, FrozenMap(tables))
