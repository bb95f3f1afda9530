"""Integer Laplace noise on contingency tables.

Zhang et al. 2016, Algorithm 1, is ``LaplaceMechanism(epsilon, tables="families", allocation="uniform")``. The default
measures fewer tables, shares epsilon by what each table is for, and where n is public adds noise that sums to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from dpgraph.mechanisms.allocation import Allocation, Tables, measured_tables, shares
from dpgraph.mechanisms.moment_noise import noisy_moments, planned_moments
from dpgraph.mechanisms.sensitivity import table_l2_squared, table_sensitivity
from dpgraph.privacy.noise import Noise, calibrated_scale
from dpgraph.privacy.records import (
    DiscreteLaplace,
    Event,
    Measurement,
    NoiseLaw,
    Number,
    PrivacyUnit,
    ReleaseError,
    SumZeroLaplace,
    exact,
    rounded,
)
from dpgraph.statistics.counts import Counts
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import MomentDescription, NoisyMoments
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCounts

Shape = Literal["auto", "independent", "sum-zero"]


@dataclass(frozen=True)
class LaplaceMechanism:
    """Releases noisy contingency tables of a network, or noisy moments, under pure epsilon-differential privacy.

    Sensitivity: a person's row moves each measured table by 1 in L1 under add/remove and by 2 under replace, times
    the rows per person. Table m gets epsilon_m, the epsilon_m sum to epsilon, and its noise has scale
    sensitivity / epsilon_m; by basic composition the release is epsilon-DP. Where n is public the noise of a table
    may be confined to the plane sum(z) = 0: a replaced row moves along that plane (MATHS 1.2). For moments see
    ``mechanisms.moment_noise``; ``tables`` and ``allocation`` do not apply to them.

    Args:
        epsilon: The whole budget of the release, exact; a float means the decimal it prints as.
        tables: ``"merged"`` (default), ``"maximal"`` or ``"families"``; see ``measured_tables``.
        allocation: ``"optimal"`` (default), ``"closed-form"`` or ``"uniform"``; see ``shares``.
        noise: ``"independent"`` in every cell, ``"sum-zero"``, or ``"auto"``: sum-zero where n is public, except for
            ``tables="families"``, which is Algorithm 1 as printed: scale 2 |V| / epsilon under replace.

    Raises:
        ReleaseError: If a setting is not one of these, or epsilon is not a finite number above 0.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> paper = LaplaceMechanism(1, tables="families", allocation="uniform")
    >>> [m.law.scale for m in paper.event(network, PrivacyUnit("replace")).measurements]
    [4.0, 4.0]
    """

    epsilon: Number
    tables: Tables = "merged"
    allocation: Allocation = "optimal"
    noise: Shape = "auto"
    takes_moments: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        for name, choices in (("tables", Tables), ("allocation", Allocation), ("noise", Shape)):
            if getattr(self, name) not in get_args(choices):
                wanted = ", ".join(repr(choice) for choice in get_args(choices))
                raise ReleaseError(f"{name} must be one of {wanted}; got {getattr(self, name)!r}")

    def event(self, network: Network | MomentDescription | LinearDesign, unit: PrivacyUnit) -> Event:
        """What a release would do: one measurement per table, or one of all moments, with its exact noise law.

        Raises:
            ReleaseError: If sum-zero noise is asked for where n is private, or epsilon is too small to be useful, or
                a setting of tables is given for moments.
        """
        epsilon = exact(self.epsilon)
        if isinstance(network, MomentDescription | LinearDesign):
            plan = self._planned_moments(network, unit)
            rho = rounded(Fraction(plan.sensitivity) ** 2 / (2 * Fraction(plan.law.scale) ** 2), up=True)
            # Named apart: accountants open the tables of "LaplaceMechanism", where a row moves a cell by one.
            return Event("LaplaceMechanism on moments", epsilon, measurements=(plan,), rho=rho)
        measured = _measurements(self, network, unit)
        return Event("LaplaceMechanism", epsilon, measurements=measured, rho=_rho(measured, network, unit))

    def randomise(self, statistics: Counts | Moments, unit: PrivacyUnit, noise: Noise) -> NoisyCounts | NoisyMoments:
        """Draws the noisy tables or moments; ``release`` calls this after the charge."""
        if isinstance(statistics, Moments):
            return noisy_moments(statistics, self._planned_moments(statistics.description, unit), unit, noise)
        network = statistics.network
        planned = _measurements(self, network, unit)
        exact_tables = {m.table: statistics.sensitive_margin(m.table) for m in planned}
        noisy = FrozenMap(_noisy_tables(planned, exact_tables, noise))
        n = statistics.sensitive_rows if unit.n_is_public else None
        return NoisyCounts(network, noisy, FrozenMap((m.table, m.law) for m in planned), n)

    def _planned_moments(self, description: MomentDescription | LinearDesign, unit: PrivacyUnit) -> Measurement:
        """The measurement of moments; settings that choose among tables are refused."""
        if self.tables != "merged" or self.allocation != "optimal":
            raise ReleaseError("tables= and allocation= are for counts of a network; leave them out for moments")
        return planned_moments(description, exact(self.epsilon), unit, self.noise)

    def __repr__(self) -> str:
        settings = f"tables={self.tables!r}, allocation={self.allocation!r}, noise={self.noise!r}"
        return f"LaplaceMechanism(epsilon={str(self.epsilon)!r}, {settings})"


@cache
def _measurements(mechanism: LaplaceMechanism, network: Network, unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """The plan; tables with the same share are calibrated together, so a uniform plan has the exact joint scale."""
    sum_zero = _is_sum_zero(mechanism, unit)
    tables = measured_tables(network, mechanism.tables)
    sensitivities = [table_sensitivity(network, table, unit) for table in tables]
    spreads = [_spread(network.cells(t), moved, sum_zero) for t, moved in zip(tables, sensitivities, strict=True)]
    parts = shares(network, tables, mechanism.allocation, spreads=spreads, n_is_public=unit.n_is_public)
    joint: dict[Fraction, int] = {}
    for part, sensitivity in zip(parts, sensitivities, strict=True):
        joint[part] = joint.get(part, 0) + sensitivity
    many = {part: parts.count(part) for part in joint}
    epsilon = exact(mechanism.epsilon)
    scales = {part: calibrated_scale(max(1, moved), epsilon * part * many[part]) for part, moved in joint.items()}
    laws: list[NoiseLaw] = [(SumZeroLaplace if sum_zero else DiscreteLaplace)(scales[part]) for part in parts]
    return tuple(
        Measurement(table, network.cells(table), law, sensitivity)
        for table, law, sensitivity in zip(tables, laws, sensitivities, strict=True)
    )


def _spread(cells: int, sensitivity: int, sum_zero: bool) -> float:
    """The variance of the noise along directions that sum to zero, at epsilon 1e-3, in units of its square."""
    scale = 1e3 * max(1, sensitivity)
    if not sum_zero or cells == 1:
        return DiscreteLaplace(scale).variance(cells) / 1e6
    return SumZeroLaplace(scale).variance(cells) * cells / (cells - 1) / 1e6


def _rho(measured: tuple[Measurement, ...], network: Network, unit: PrivacyUnit) -> Fraction | None:
    """The zCDP of the whole, far below epsilon^2 / 2 where there are many tables; None where nothing is at stake.

    A cell moved by d is (|d| / scale)-DP, so d^2 / (2 scale^2)-zCDP (Bun and Steinke 2016, Proposition 1.4), and with
    independent noise the cells of a table add to its squared L2 sensitivity; a table whose noise sums to zero is
    (sensitivity / scale)-DP as one.
    """
    rho = Fraction(0)
    for m in measured:
        square = m.sensitivity**2 if isinstance(m.law, SumZeroLaplace) else table_l2_squared(network, m.table, unit)
        rho += square / (2 * Fraction(m.law.scale) ** 2)
    return rounded(rho, up=True) or None


def _is_sum_zero(mechanism: LaplaceMechanism, unit: PrivacyUnit) -> bool:
    """Whether the noise of each table sums to zero."""
    if mechanism.noise == "sum-zero" and not unit.n_is_public:
        raise ReleaseError('noise="sum-zero" shows every table\'s exact total, so it needs neighbours="replace"')
    if mechanism.noise == "auto":
        return unit.n_is_public and mechanism.tables != "families"
    return mechanism.noise == "sum-zero"


def _noisy_tables(
    planned: tuple[Measurement, ...], exact_tables: dict[Any, Any], noise: Noise
) -> Iterator[tuple[Any, Any]]:
    """Adds noise: one call per scale for independent noise, one per table for noise that sums to zero."""
    done: dict[Any, Any] = {}
    for law in dict.fromkeys(m.law for m in planned):
        mine = [exact_tables[m.table] for m in planned if m.law == law]
        groups = [[table] for table in mine] if isinstance(law, SumZeroLaplace) else [mine]
        drawn = [noise.add(np.concatenate([table.ravel() for table in group]), law) for group in groups]
        flat = np.concatenate(drawn)
        for m in planned:
            if m.law == law:
                done[m.table] = flat[: m.cells].reshape(exact_tables[m.table].shape)
                flat = flat[m.cells :]
    return ((m.table, done[m.table]) for m in planned)
