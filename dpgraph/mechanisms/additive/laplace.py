"""Integer Laplace noise on contingency tables.

Zhang et al. 2016, Algorithm 1, is ``LaplaceMechanism(epsilon, tables="families", allocation="uniform")``. The default
measures fewer tables, shares epsilon by the use of each table, and where n is public adds noise that sums to zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import Any, ClassVar, Literal

from dpgraph.mechanisms.additive import plans
from dpgraph.mechanisms.reproduction import check_laws, check_scales, not_measured, register_mechanism, remeasured
from dpgraph.privacy.checks import check_choice, near
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import rounded
from dpgraph.privacy.measurements import (
    Description,
    DiscreteLaplace,
    Measurement,
    NoiseLaw,
    Statistics,
    SumZeroLaplace,
    partition_movement,
)
from dpgraph.privacy.noise import Noise, calibrated_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, concentrated_parts, exact, pure_parts, total_up
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

Shape = Literal["auto", "independent", "sum-zero"]
#: The expected excess log-loss, in nats, of predicting a classifier's label by its noisy frequencies that is enough.
WANTED = 0.003
#: The most rows for which the label is measured by itself: with more, what is left of the features is worth more.
MOST_ROWS = 10_000
#: The shares that are tried, in hundredths.
SHARES = (0, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95)


@dataclass(frozen=True)
class LaplaceMechanism:
    """Releases the noisy blocks of a description, such as a network's tables, under pure epsilon-differential privacy.

    Sensitivity: a person's row moves each measured table by 1 in L1 under add/remove and by 2 under replace, times
    the rows per person. Table m gets epsilon_m, the epsilon_m sum to epsilon, and its noise has scale
    sensitivity / epsilon_m; by basic composition the release is epsilon-DP. Where n is public the noise of a table
    may be confined to the plane sum(z) = 0: a replaced row moves along that plane (proofs.md P17). For moments and
    every other description see ``mechanisms.additive.plans``; ``tables`` and ``allocation`` do not apply there.

    Args:
        epsilon: The whole budget of the release, exact; a float means the decimal it prints as.
        tables: ``"merged"`` (default), ``"maximal"`` or ``"families"``; see ``measured_tables``.
        allocation: ``"optimal"`` (default) or ``"uniform"``; see ``shares``.
        noise: ``"independent"`` in every cell, ``"sum-zero"``, or ``"auto"``: sum-zero where n is public, except for
            ``tables="families"``, which is Algorithm 1 as printed: scale 2 |V| / epsilon under replace.
        margins: Variables whose own counts are measured beside the tables, each with its share of epsilon; the tables
            share the rest. A classifier's label is worth it where the tables would drown it.

    Raises:
        ReleaseError: If a setting is not one of these, or epsilon is not a finite number above 0.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> paper = LaplaceMechanism(1, tables="families", allocation="uniform")
    >>> [m.law.scale for m in paper.event(network, PrivacyUnit("replace")).measurements]
    [4.0, 4.0]
    >>> first = LaplaceMechanism(1, margins={"rain": "0.5"})
    >>> [(m.table, m.law.scale) for m in first.event(network, PrivacyUnit()).measurements]
    [(('wet', 'rain'), 4.0), (('rain',), 4.0)]
    """

    epsilon: Number
    tables: plans.Tables = "merged"
    allocation: plans.Allocation = "optimal"
    noise: Shape = "auto"
    margins: Mapping[str, Number] = field(default_factory=lambda: FrozenMap({}))
    keeps_rules: ClassVar[bool] = True  # impossible cells are not drawn (proofs.md P131)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        if not isinstance(self.margins, Mapping) or not all(isinstance(name, str) for name in self.margins):
            raise ReleaseError(f"margins must map variables to shares of epsilon; got {self.margins!r:.60}")
        made = FrozenMap((name, exact(share, f"the share of {name!r}")) for name, share in self.margins.items())
        if sum(made.values()) >= 1:
            raise ReleaseError("the shares of margins must sum to less than 1; the tables get the rest")
        object.__setattr__(self, "margins", made)
        for name, choices in (("tables", plans.Tables), ("allocation", plans.Allocation), ("noise", Shape)):
            check_choice(name, getattr(self, name), choices)

    def event(self, description: Description, unit: PrivacyUnit) -> Event:
        """The event of a release: one measurement per table or block, with its exact noise law."""
        measured = laplace_measurements(description, self, unit)
        return Event("LaplaceMechanism", exact(self.epsilon), measurements=measured, rho=_rho(measured))

    def prepared(self, statistics: Any, unit: PrivacyUnit) -> Any:
        """Sums of a regression with the weight of the target's sum chosen; other statistics as they are."""
        return plans.weighted_mean(statistics, self.epsilon, unit)

    def randomise(self, statistics: Statistics, unit: PrivacyUnit, noise: Noise) -> Any:
        """Draws the noisy blocks: ``NoisyCounts``, or ``NoisyMoments``; ``release`` calls this after the charge."""
        return plans.noisy_blocks(statistics, laplace_measurements(statistics.description, self, unit), unit, noise)

    def __repr__(self) -> str:
        settings = f"tables={self.tables!r}, allocation={self.allocation!r}, noise={self.noise!r}"
        if self.margins:
            settings += f", margins={ ({name: str(share) for name, share in self.margins.items()})!r}"
        return f"LaplaceMechanism(epsilon={str(self.epsilon)!r}, {settings})"


@singledispatch
def laplace_measurements(
    description: Description, mechanism: LaplaceMechanism, unit: PrivacyUnit
) -> tuple[Measurement, ...]:
    """The measurements of a description, with their shares of epsilon; by default all blocks have one scale."""
    if mechanism.tables != "merged" or mechanism.allocation != "optimal" or mechanism.margins:
        raise ReleaseError("tables=, allocation= and margins= are for counts of a network; leave them out here")
    return plans.laplace_plan(description, exact(mechanism.epsilon), unit, mechanism.noise)


@laplace_measurements.register(Network)
@lru_cache(maxsize=64)
def _of_network(network: Network, mechanism: LaplaceMechanism, unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """Tables with the same share are calibrated together, so a uniform plan has the exact joint scale."""
    if mechanism.noise == "sum-zero" and not unit.n_is_public:
        raise ReleaseError('noise="sum-zero" shows every table\'s exact total, so it needs neighbours="replace"')
    automatic = mechanism.noise == "auto" and unit.n_is_public and mechanism.tables != "families"
    sum_zero = automatic or mechanism.noise == "sum-zero"
    tables = plans.measured_tables(network, mechanism.tables)
    movements = [partition_movement(network.possible_cells(table), unit) for table in tables]
    spreads = []  # variances along directions that sum to zero, at epsilon 1e-3, in units of its square
    for table, moved in zip(tables, movements, strict=True):
        cells = network.possible_cells(table)
        law = SumZeroLaplace if sum_zero and cells > 1 else DiscreteLaplace
        spreads.append(law(1e3 * max(1, moved.l1)).contrast_variance(cells) / 1e6)
    parts = plans.shares(network, tables, mechanism.allocation, spreads=spreads, n_is_public=unit.n_is_public)
    if mechanism.margins:
        for name in mechanism.margins:
            if name not in network.domain.names or (name,) in tables:
                raise ReleaseError(
                    f"margins: {name!r} must be a variable of the network without a measured table of its own"
                    f"{near(name, set(network.domain.names) - {name})}"
                )
        alone = {(name,): exact(share) for name, share in mechanism.margins.items()}
        tables = (*tables, *alone)
        movements += [partition_movement(network.cells(table), unit) for table in alone]
        parts = (*(part * (1 - sum(alone.values())) for part in parts), *alone.values())
    joint: dict[Fraction, int] = {}
    for part, moved in zip(parts, movements, strict=True):
        joint[part] = joint.get(part, 0) + moved.l1
    many = Counter(parts)
    epsilon = exact(mechanism.epsilon)
    scales = {part: calibrated_scale(max(1, moved), epsilon * part * many[part]) for part, moved in joint.items()}
    laws: list[NoiseLaw] = [(SumZeroLaplace if sum_zero else DiscreteLaplace)(scales[part]) for part in parts]
    return tuple(
        Measurement(table, network.possible_cells(table), law, moved)
        for table, law, moved in zip(tables, laws, movements, strict=True)
    )


def _rho(measured: tuple[Measurement, ...]) -> Fraction | None:
    """The zCDP of the whole, far below epsilon^2 / 2 where there are many tables; None where nothing is at stake."""
    return rounded(total_up(concentrated_parts(measured)), up=True) or None


def label_first(network: Network, target: str, epsilon: Number, unit: PrivacyUnit, n: int | None) -> LaplaceMechanism:
    """Laplace noise on a classifier's tables, and on the label's counts with the least share that makes them known.

    The excess log-loss of predicting by noisy frequencies is about K^2 / 2 times the noise's variance over n^2, for K
    even labels. Tables and label are averaged by precision. Where n is private, or above ``MOST_ROWS``, the tables get
    all: there a label measured by itself made predictions worse on real rows (docs/posteriors.md).
    """
    plain = LaplaceMechanism(epsilon)
    tables = laplace_measurements(network, plain, unit)
    if n is None or n > MOST_ROWS or (target,) in {m.table for m in tables}:
        return plain
    labels = network.domain.sizes[target]
    (label,) = laplace_measurements(Network.of(network.domain.restrict((target,)), {target: []}), plain, unit)
    alone = 1 / max(1e-9, label.law.variance(label.cells))
    together = sum(labels / max(1e-9, m.law.variance(m.cells) * m.cells) for m in tables)
    precisions = [together * (1 - share / 100) ** 2 + alone * (share / 100) ** 2 for share in SHARES]
    enough = (s for s, p in zip(SHARES, precisions, strict=True) if labels**2 / 2 <= WANTED * p * max(1, n) ** 2)
    share = Fraction(next(enough, SHARES[-1]), 100)
    while share > 0:  # a smaller one where the tables' noise would be refused for it
        made = LaplaceMechanism(epsilon, margins={target: share})
        try:
            made.event(network, unit)
        except ReleaseError:
            share = share / 2 if share > Fraction(1, 100) else Fraction(0)
        else:
            return made
    return plain


def _replanned(event: Event, unit: PrivacyUnit, description: Any) -> Event:
    """The recorded tables of a network, whose scales pay for the claim; the plan of any other description."""
    check_laws(event, DiscreteLaplace | SumZeroLaplace)
    if not isinstance(description, Network):
        if not event.measurements or not callable(getattr(description, "blocks", None)):
            raise not_measured(event, description)
        alone = all(isinstance(m.law, DiscreteLaplace) for m in event.measurements)
        return LaplaceMechanism(event.epsilon, noise="independent" if alone else "auto").event(description, unit)
    measured = remeasured(event, unit, description)
    moved = Counter[float]()
    for m in measured:
        moved[m.law.scale] += m.sensitivity
    shared = [Fraction(max(1, l1)) / Fraction(scale) for scale, l1 in moved.items()]
    check_scales(event, event.epsilon, pure_parts(measured, least=1), shared)
    return Event("LaplaceMechanism", event.epsilon, measurements=measured, rho=_rho(measured))


register_mechanism("LaplaceMechanism", _replanned)
