"""The share of epsilon that measures a classifier's label by itself, chosen from public values alone.

Noise on the tables drowns the features first, then the label's own frequencies; a classifier worse than these is of no
use. Where the tables leave the frequencies unclear, a part of epsilon that measures them alone is worth more than the
features that could not be known.
"""

from __future__ import annotations

from fractions import Fraction

from dpgraph.mechanisms.additive.laplace import LaplaceMechanism, laplace_measurements
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.network import Network

#: The expected excess log-loss, in nats, of predicting the label by its noisy frequencies, that is small enough.
WANTED = 0.003
#: The most rows for which the label is measured by itself: with more, what is left of the features is worth more.
MOST_ROWS = 10_000
#: The shares that are tried, in hundredths.
SHARES = (0, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95)


def label_first(network: Network, target: str, epsilon: Number, unit: PrivacyUnit, n: int | None) -> LaplaceMechanism:
    """Laplace noise on a classifier's tables, and on the label's counts with the least share that makes them known.

    The excess log-loss of predicting by noisy frequencies is about half the noise's variance over n^2, over each
    frequency, summed; at even frequencies K^2 / 2 times it for K labels. Tables and label are averaged by precision.
    Where n is private, or above ``MOST_ROWS``, the tables get all: there a label measured by itself made predictions
    worse on real rows (docs/posteriors.md).
    """
    plain = LaplaceMechanism(epsilon)
    tables = laplace_measurements(network, plain, unit)
    if n is None or n > MOST_ROWS or (target,) in {m.table for m in tables}:
        return plain
    labels = network.domain.sizes[target]
    alone = _alone(network, target, exact(epsilon), unit)
    together = sum(labels / max(1e-9, m.law.variance(m.cells) * m.cells) for m in tables)
    share = SHARES[0]
    for share in SHARES:
        part = share / 100
        precision = together * (1 - part) ** 2 + alone * part**2
        if labels**2 / 2 <= WANTED * precision * max(1, n) ** 2:
            break
    return _allowed(network, target, epsilon, unit, Fraction(share, 100))


def _alone(network: Network, target: str, epsilon: Fraction, unit: PrivacyUnit) -> float:
    """The precision of a label's count if all of epsilon measured the labels."""
    of_label = Network.of(network.domain.restrict((target,)), {target: []})
    (label,) = laplace_measurements(of_label, LaplaceMechanism(epsilon), unit)
    return 1 / max(1e-9, label.law.variance(label.cells))


def _allowed(network: Network, target: str, epsilon: Number, unit: PrivacyUnit, share: Fraction) -> LaplaceMechanism:
    """The mechanism with that share for the label, or a smaller one where the tables' noise would be refused for it."""
    while share > 0:
        made = LaplaceMechanism(epsilon, margins={target: share})
        try:
            made.event(network, unit)
        except ReleaseError:
            share = share / 2 if share > Fraction(1, 100) else Fraction(0)
        else:
            return made
    return LaplaceMechanism(epsilon)
