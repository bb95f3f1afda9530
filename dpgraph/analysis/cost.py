"""The cost of privacy on a network, before any data: sensitivities, noise, expected errors, and a mechanism.

Everything is a function of the DAG, the numbers of levels and the privacy parameters, and where a number of rows and
probabilities matter they are hypothetical: yours, or a public network's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_no_rules
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.lazy import provided
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.plans import GRID, parity_sensitivity
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.checks import Reals, check_choice, check_whole
from dpgraph.privacy.display import WIDTH, as_html, cell, escaped, plain
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Measurement
from dpgraph.privacy.records import Number, PrivacyCost, PrivacyUnit, exact, exact_delta
from dpgraph.privacy.risk import Risk
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import NetworkError, warn_of_many_levels
from dpgraph.structure.elimination import elimination_order
from dpgraph.structure.margins import holders, measured_families
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import MOST_LEVELS, Probabilities
from dpgraph.waiting import waiting

if TYPE_CHECKING:
    import pandas as pd

    from dpgraph.analysis.question_cost import QuestionCost

#: Values whose quadrature is held at once, and the fewest that are worth a search for equal ones.
HELD, FEW = 1 << 14, 32
#: The most rows, and the least and greatest factor of the noise, that are tried.
MOST_ROWS, REACH = 1e15, 1e9
#: Bisections in logarithms, which halve an interval to a millionth.
STEPS = 60


def expected_variation(counts: Reals, rmse: float) -> float:
    """Half the expected absolute error of counts c under normal noise, negative results set to 0, summed over cells."""
    from scipy.special import ndtr

    if rmse == 0:
        return 0.0
    ratio = counts / rmse
    errors = rmse / math.sqrt(2 * math.pi) * (2 - np.exp(-0.5 * ratio**2)) + counts * ndtr(-ratio)
    return min(float(counts.sum()), 0.5 * float(errors.sum()))


def expected_kl(counts: Reals, rmse: float, prior: float = 1.0) -> float:
    """The expected divergence of the plug-in posterior from the exact one in nats, under clipped normal noise (axes as
    P28).
    """
    flat = counts.ravel()
    different, place = np.unique(flat, return_inverse=True) if flat.size > FEW else (flat, np.arange(flat.size))
    place = place.reshape(counts.shape)
    means, squares, apart = (np.empty(different.size) for _ in range(3))
    for held in _blocks(different.size):
        noisy, apart[held] = _clipped(different[held], different[held], rmse, prior)
        means[held], squares[held] = noisy
    spread = np.sqrt(np.maximum((squares - means**2)[place].sum(axis=0), 0.0))
    of_rows = np.stack([np.ravel(part) for part in (counts.sum(axis=0), means[place].sum(axis=0), spread)])
    times = np.ones(of_rows.shape[1], int)
    if times.size > FEW:
        of_rows, times = np.unique(of_rows, axis=1, return_counts=True)
    exact, total, spread = of_rows
    whole = len(counts) * prior
    cells = float(apart @ np.bincount(place.ravel(), minlength=different.size))
    rows = sum(
        float(_clipped(exact[held], total[held], spread[held], whole)[1] @ times[held]) for held in _blocks(times.size)
    )
    return cells - rows


def _blocks(size: int) -> list[slice]:
    return [slice(start, start + HELD) for start in range(0, size, HELD)]


def _clipped(exact: Reals, mean: Reals, spread: Reals | float, prior: float) -> tuple[tuple[Reals, Reals], Reals]:
    """Values with normal noise, set to 0 where they are negative: their first two moments, and expected divergence."""
    nodes, weights = normal_quadrature()
    noisy = np.maximum(mean[:, None] + np.multiply.outer(spread, nodes), 0.0)
    divergence = log_gamma_divergence(prior + noisy, (prior + exact)[:, None]) @ weights
    return (noisy @ weights, noisy**2 @ weights), divergence


@cache
def normal_quadrature() -> tuple[Reals, Reals]:
    """Nodes and weights of the mean of a function of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    return nodes, weights / weights.sum()


def draw_error(counts: Reals, temperature: float, prior: float = 1.0) -> float:
    """The mean squared error of a cell, in rows, of tables drawn from a posterior tempered by T: bias and variance."""
    total = counts.sum(axis=0)
    concentration = prior + counts / temperature
    size = concentration.sum(axis=0)
    mean = concentration / size
    share = counts / np.where(total > 0, total, 1.0)
    return float((total**2 * ((mean - share) ** 2 + mean * (1 - mean) / (size + 1))).mean())


def log_gamma_divergence(y: npt.ArrayLike, x: npt.ArrayLike) -> Reals:
    """The Bregman divergence of ln Gamma: ln Gamma(y) - ln Gamma(x) - psi(x) (y - x), at least 0."""
    from scipy.special import gammaln, psi

    y, x = np.asarray(y, float), np.asarray(x, float)
    return gammaln(y) - gammaln(x) - psi(x) * (y - x)


def worst_error(tables: Sequence[tuple[Reals, float]], n: float) -> float:
    """The largest expected total variation error of margins with n rows, each with the error of a cell in rows."""
    return max(expected_variation(share * n, rmse) / n for share, rmse in tables)


def rows_needed(tables: Sequence[tuple[Reals, float]], error: float) -> float:
    """The number of rows from which on no table errs by more; infinite where none suffices."""
    return _smallest(lambda n: worst_error(tables, n) <= error, 1.0, MOST_ROWS)


def noise_allowed(tables: Sequence[tuple[Reals, float]], error: float, n: float) -> float:
    """The factor by which the noise may grow, or must shrink if below 1, so that no table errs by more."""

    def within(shrunk: float) -> bool:
        return worst_error([(share, rmse / shrunk) for share, rmse in tables], n) <= error

    return 1 / _smallest(within, 1 / REACH, REACH)


def checked_error(error: object) -> float:
    """The error to reach, or a ReleaseError if it is not a number between 0 and 1."""
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise ReleaseError(f"error must be a number between 0 and 1, a total variation; got {error!r:.60}")
    return float(error)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number of an interval from which on something holds; infinite where it does not at its end."""
    if holds(low):
        return low
    if not holds(high):
        return math.inf
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


#: The names of the mechanisms that promise pure differential privacy, and all names that ``mechanism_named`` knows.
PURE = {
    "laplace": LaplaceMechanism,
    "fourier": FourierMechanism,
    "posterior-sample": PosteriorSample,
    "map": MapEstimate,
}
MECHANISMS = ("auto", "laplace", "gaussian", "fourier", "posterior-sample", "map")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism's measurements and cell variances; ``grid`` units make a row, ``usable`` may be recommended."""

    label: str
    mechanism: Any
    network: Network
    measured: tuple[Measurement, ...]
    variances: dict[Family, float]
    sensitivity: float
    note: str = ""
    grid: int = 1
    usable: bool = True
    paper: bool = False

    @cached_property
    def rmse(self) -> float:
        """Root mean squared error over the cells of all families, in rows."""
        total = sum(self.variances[family] * self.network.cells(family) for family in self.network.families)
        return math.sqrt(total / self.network.cell_count)


def ranked(
    network: Network,
    epsilon: Fraction,
    delta: Fraction,
    unit: PrivacyUnit,
    counts: Mapping[Family, Reals] | None = None,
) -> list[Candidate]:
    """Mechanisms with a price in closed form, smallest error first; draws need ``counts``, Gaussian noise a delta."""
    check_no_rules(network, "the price of mechanisms", "name one, laplace or gaussian; its event has its noise")
    found = [*_laplace(network, epsilon, unit)]
    if max(network.domain.sizes.values()) <= MOST_LEVELS:
        found += _fourier(network, epsilon, unit)
    if delta > 0:
        found += _gaussian(network, epsilon, delta, unit)
    found += _choices(network, epsilon, unit, counts)
    return sorted(found, key=lambda one: (math.isnan(one.rmse), one.rmse))


def recommended(priced: Sequence[Candidate]) -> Candidate:
    """The first of ranked candidates that may be recommended."""
    return next(candidate for candidate in priced if candidate.usable)


def mechanism_named(
    name: str, network: Network, *, epsilon: Number, delta: Number = 0, unit: PrivacyUnit | None = None
) -> Any:
    """The mechanism of a name, for one budget; ``"auto"`` is the recommendation of ``privacy_cost``.

    >>> from dpgraph.files.networks import read_network
    >>> alarm = read_network("example:alarm")
    >>> type(mechanism_named("auto", alarm, epsilon=1, delta="1e-6")).__name__
    'GaussianMechanism'
    """
    check_choice("mechanism", name, MECHANISMS)
    if name == "auto":
        return recommended(ranked(network, exact(epsilon), exact_delta(delta), checked_unit(unit))).mechanism
    if name == "gaussian":
        return GaussianMechanism(epsilon, delta)
    if exact(delta, "delta", zero=True) > 0:
        raise ReleaseError(f"mechanism {name!r} is pure, delta 0; got delta {delta!r}")
    return PURE[name](epsilon)


def _laplace(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    for label, mechanism in (
        ("Laplace, Zhang et al. 2016 Algorithm 1", LaplaceMechanism(epsilon, tables="families", allocation="uniform")),
        ("Laplace, maximal tables", LaplaceMechanism(epsilon, tables="maximal")),
        ("Laplace, merged tables (default)", LaplaceMechanism(epsilon)),
    ):
        paper = mechanism.tables == "families"
        measured = mechanism.event(network, unit).measurements
        laws = {m.table: m.law for m in measured}
        variances = (
            {m.table: m.law.variance(m.cells) for m in measured}
            if paper
            else consistent_variance(network, laws, unit.n_is_public)
        )
        reach, note = sum(m.sensitivity for m in measured), "clipped tables" if paper else "least squares"
        yield Candidate(label, mechanism, network, measured, variances, reach, note, paper=paper)


def _fourier(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    binary = max(network.domain.sizes.values()) <= 2
    designs = [("Fourier, exact sensitivity", FourierMechanism(epsilon), "consistent by construction")]
    if binary:
        paper = FourierMechanism(epsilon, sensitivity="paper")
        designs.append(("Fourier, Zhang et al. 2016 Algorithm 2", paper, "before pseudo-records"))
    for label, mechanism, note in designs:
        measured = mechanism.event(network, unit).measurements
        grid = 1 if binary else GRID
        reach = max((m.law.scale for m in measured), default=0.0) * float(epsilon) / grid
        yield Candidate(label, mechanism, network, measured, mechanism.variance(network, unit), reach, note, grid)


def _gaussian(network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    mechanism = GaussianMechanism(epsilon, delta)
    measured = mechanism.event(network, unit).measurements
    laws = {m.table: m.law for m in measured}
    reach = math.sqrt(sum(m.movement.l2_squared for m in measured))
    variances = consistent_variance(network, laws, unit.n_is_public)
    note = "least squares; delta above 0"
    yield Candidate("Gaussian, maximal tables", mechanism, network, measured, variances, reach, note)
    if not unit.n_is_public and max(network.domain.sizes.values()) <= MOST_LEVELS:
        residual = GaussianMechanism(epsilon, delta, basis="residual")
        measured, variances = residual.event(network, unit).measurements, residual.variance(network, unit)
        reach = math.sqrt(sum(m.movement.l2_squared for m in measured)) / GRID
        note = "ResidualPlanner; consistent by construction"
        yield Candidate("Gaussian, residual basis", residual, network, measured, variances, reach, note, GRID)


def _choices(
    network: Network, epsilon: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None
) -> Iterator[Candidate]:
    """Mechanisms that choose tables instead of adding noise; not recommended, as nothing else can be learned."""
    for label, mechanism in (
        ("Posterior sample, one draw", PosteriorSample(epsilon)),
        ("MAP by the exponential mechanism", MapEstimate(epsilon, selector="exponential")),
    ):
        try:
            temperature = mechanism.temperature(network, unit)
        except ReleaseError:  # the floor leaves a variable of many levels no room
            continue
        if counts is None:
            variances, note = dict.fromkeys(network.families, math.nan), "its error depends on the rows: give n"
        else:
            variances = draw_variances(counts, temperature)
            note = "releases probabilities; error at the given n, floor aside"
        reach = temperature * float(epsilon)
        yield Candidate(label, mechanism, network, (), variances, reach, note, usable=False)


def draw_variances(counts: Mapping[Family, Reals], temperature: float) -> dict[Family, float]:
    """The mean squared error of a cell of each family's drawn table; families that share an array share the work."""
    known: dict[int, float] = {}
    for table in counts.values():
        if id(table) not in known:
            known[id(table)] = draw_error(table, temperature)
    return {family: known[id(table)] for family, table in counts.items()}


#: The columns of the table of arcs.
COLUMNS = ["parent", "child", "cells", "cost"]


def arc_costs(network: Network) -> list[dict[str, Any]]:
    """A row for each arc, the most expensive first: parent, child, cells that the child's table loses, and cost.

    The cost is the factor by which the arc multiplies the standard error of the released counts. A cost of 1 is free:
    the arc's table is measured anyway. A cost below 1 saves noise: the tables that its variables are read from without
    it need more of epsilon together.

    >>> network = Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}, {"b": ["a"], "c": ["a"]})
    >>> [(row["parent"], row["child"]) for row in arc_costs(network)]
    [('a', 'c'), ('a', 'b')]
    """
    sizes, plan, rows = network.domain.sizes, _Plan(network, network.maximal_families), []
    for parent, child in ((parent, child) for child, parents in network.parents.items() for parent in parents):
        cells, cost = network.cells(network.family(child)), (plan.whole / plan.without(parent, child)) ** 1.5
        rows.append({"parent": parent, "child": child, "cells": cells - cells // sizes[parent], "cost": cost})
    return sorted(rows, key=lambda row: -row["cost"])


class _Plan:
    """The maximal tables of a network, and the families that are read from each; their errors are those of P28.

    Taking an arc out changes one family, and only the tables that hold it.
    """

    def __init__(self, network: Network, tables: tuple[Family, ...]) -> None:
        self.network = network
        self.served: dict[Family, list[Family]] = {table: [] for table in tables}
        self.holder = holders(network, tables)
        for family, table in self.holder.items():
            self.served[table].append(family)
        self.tables, self.holding = tables, Holding(network, tables)
        self.whole = sum(self.root(table, len(families)) for table, families in self.served.items())

    def root(self, table: Family, served: int) -> float:
        """W^(1/3) of a table from which some families are read."""
        return (self.network.cells(table) * served) ** (1 / 3)

    def without(self, parent: str, child: str) -> float:
        """The sum of W^(1/3) without one arc."""
        family = self.network.family(child)
        smaller, table = tuple(name for name in family if name != parent), self.holder[family]
        moving = [smaller if other == family else other for other in self.served[table]]
        rank = partial(self.rank, child=child, smaller=smaller)
        stays = any(set(other) == set(table) for other in moving)
        held_in = ([self.tables[place] for place in self.holding.places(other)] for other in moving)
        homes = [[kept for kept in tables if stays or kept != table] for tables in held_in]
        unserved = [other for other, held in zip(moving, homes, strict=True) if not held]
        new_tables = [
            one
            for i, one in enumerate(unserved)
            if not any(set(two) > set(one) or (set(two) == set(one) and j < i) for j, two in enumerate(unserved))
        ]
        count = {table: 0} | dict.fromkeys(new_tables, 0)
        for other, held in zip(moving, homes, strict=True):
            best = min([*held, *(top for top in new_tables if set(other) <= set(top))], key=rank)
            count[best] = count.get(best, len(self.served.get(best, ()))) + 1
        for other, top in self.better_served(new_tables, moving, rank).items():
            old = self.holder[other]
            count[old] = count.get(old, len(self.served[old])) - 1
            count[top] += 1
        before = sum(self.root(kept, len(self.served[kept])) for kept in count if kept in self.served)
        after = sum(self.root(kept, max(1, n)) for kept, n in count.items() if kept != table or stays)
        return self.whole - before + after

    def better_served(
        self, new_tables: list[Family], moving: list[Family], rank: Callable[[Family], tuple[int, int]]
    ) -> dict[Family, Family]:
        """Families of other tables that are better read from a new, smaller table."""
        moved: dict[Family, Family] = {}
        for top in sorted(new_tables, key=rank):
            for other in map(self.network.family, top):
                known = other in moved or other in moving or other not in self.holder
                if not known and set(other) <= set(top) and rank(top) < rank(self.holder[other]):
                    moved[other] = top
        return moved

    def rank(self, table: Family, child: str, smaller: Family) -> tuple[int, int]:
        """The order of preference of ``holders`` once a child's family is smaller: cells, then whose family it is."""
        families = ((name, smaller if name == child else self.network.family(name)) for name in table)
        owners = [self.network.position[name] for name, family in families if set(family) == set(table)]
        return (self.network.cells(table), min(owners))


#: A table as one mapping from columns to values for each row.
TableRows = list[dict[str, Any]]
#: How often an epsilon that an error needs is priced again.
ROUNDS = 3
#: Where the rest of a report is.
SEE = "rmse: standard error of a cell, in rows; .nodes has each family, .arcs what each arc costs"
#: The total variation error that a report asks the inverse questions of, and the most arcs that it prices unasked.
ENOUGH, MOST_ARCS = 0.05, 200
#: The cost of an arc from which on it is worth a sentence.
LEAST_COST = 1.005
#: The budgets and the numbers of rows of a grid; beyond ``MANY_VARIABLES`` it has few budgets, and powers of ten alone.
BUDGETS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")
ROWS = tuple(lead * 10**power for power in range(2, 8) for lead in (1, 3))
FEW_BUDGETS, MANY_VARIABLES = ("0.1", "1", "10"), 300
#: What a grid says of each family at one epsilon, in this order; ``tv`` and ``kl`` depend on n too.
GRID_COLUMNS = ("measured in", "sensitivity", "epsilon", "scale", "rmse", "n needed")
#: Rows drawn, from a fixed seed, to estimate the margins of a public network's own probabilities.
DRAWN = 200_000


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyReport:
    """The cost of privacy on one network under one budget.

    Attributes:
        nodes: A frame with a row for each family under the recommended mechanism: its cells, the table it is read from
            and that table's sensitivity, noise law and scale; ``rmse``, the standard error of one cell in rows;
            ``n needed``, from which on the noise is smaller than the sampling error of the family's counts; and where
            n was given the expected total variation error ``tv`` of the margin and divergence ``kl`` of the posterior
            (nats, summed over parent configurations).
        mechanisms: A frame with a row for each mechanism, the smallest ``rmse`` over all family cells first.
        arcs: A frame with the cost of each arc, the most expensive first.
        recommended: The mechanism value to use; ``reason`` says why.
        risk: What an attacker who knows all other rows could find out: ``print(report.risk)``, ``risk.facts()``.
        facts: Whole-graph numbers: variables, arcs, cells, maximal tables, treewidth (min-fill bound), and so on.
        question: How wide the interval of an answer will be, where a question was asked.
        family_rows, mechanism_rows, arc_rows: The rows of ``nodes``, ``mechanisms`` and ``arcs`` without pandas.
        shares: The margin of each family that stands for the data; uniform unless ``given`` by public probabilities.
    """

    network: Network
    unit: PrivacyUnit
    epsilon: Fraction
    delta: Fraction
    n: int | None
    recommended: Any
    reason: str
    family_rows: TableRows
    mechanism_rows: TableRows
    shares: Mapping[Family, Reals]
    given: bool = False
    question: QuestionCost | None = None

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """The cost of each family."""
        return _frame(self.family_rows)

    @cached_property
    def mechanisms(self) -> pd.DataFrame:
        """The mechanisms compared."""
        return _frame(self.mechanism_rows)

    @cached_property
    def arcs(self) -> pd.DataFrame:
        """The cost of each arc; see ``arc_costs``."""
        return _frame(self.arc_rows, COLUMNS)

    @cached_property
    def arc_rows(self) -> TableRows:
        """The rows of ``arcs``."""
        return arc_costs(self.network)

    @property
    def arc_shares(self) -> dict[tuple[str, str], float]:
        """The cost of each arc above 1 as a share of the dearest arc's: the widths of arcs in pictures."""
        above = {(row["parent"], row["child"]): row["cost"] - 1 for row in self.arc_rows}
        most = max(above.values(), default=0.0)
        return {arc: max(0.0, one / most) if most > 0 else 0.0 for arc, one in above.items()}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Whole-graph numbers that the costs come from."""
        network, (parity, is_exact) = self.network, parity_sensitivity(self.network)
        return {
            "variables": len(network.domain.names),
            "arcs": sum(map(len, network.parents.values())),
            "cells": network.cell_count,
            "maximal tables": len(network.maximal_families),
            "merged tables": len(measured_families(network)),
            "downward closure": len(network.downward_closure()),
            "parity sensitivity" if is_exact else "parity sensitivity at most": parity,
            "treewidth at most": elimination_order(network)[1],
        }

    @cached_property
    def risk(self) -> Risk:
        """The power of an attacker who knows all other rows, after a release by the recommended mechanism."""
        return Risk.of(self.recommended.event(self.network, self.unit), self.unit)

    @property
    def _rmse(self) -> dict[Family, float]:
        return {family: row["rmse"] for family, row in zip(self.network.families, self.family_rows, strict=True)}

    def n_for(self, error: float) -> int:
        """The number of rows from which on no family's table is expected to be off by more, at this epsilon.

        Args:
            error: A total variation error, between 0 and 1: half the sum over a table's cells of the error of their
                share of the rows, by the noise alone. Rows are taken to be spread as the report supposes.

        Raises:
            ReleaseError: If the error is not a number between 0 and 1, or no number of rows gives it.

        >>> from dpgraph.files.networks import read_network
        >>> report = privacy_cost(read_network("example:asia"), epsilon=1)
        >>> 1.9 < report.n_for(0.05) / report.n_for(0.1) < 2.1
        True
        """
        found = rows_needed(distinct_tables(self.shares, self._rmse), checked_error(error))
        if found == math.inf:
            raise ReleaseError(f"no number of rows gives an error of {error:g} at this epsilon")
        return math.ceil(found - 1e-6)

    def epsilon_for(self, error: float) -> float:
        """The epsilon at which no family's table is expected to be off by more, with n rows.

        Priced again at the epsilon that was found, since it may suit another mechanism, until both agree.

        Args:
            error: As for ``n_for``.

        Raises:
            ReleaseError: If the error is not a number between 0 and 1, or the report was made without n.
        """
        checked_error(error)
        if self.n is None:
            raise ReleaseError("the error of tables depends on the number of rows; give n to privacy_cost")
        epsilon, counts, rmse = float(self.epsilon), expected_counts(self.shares, self.n), self._rmse
        for _ in range(ROUNDS):
            epsilon /= noise_allowed(distinct_tables(self.shares, rmse), error, self.n)
            priced = ranked(self.network, exact(f"{epsilon:.6g}"), self.delta, self.unit, counts)
            rmse = {family: math.sqrt(variance) for family, variance in recommended(priced).variances.items()}
        return epsilon

    def in_words(self) -> list[str]:
        """Sentences on the error of the worst table, the rows or epsilon that an error needs, and the dearest arc.

        The inverse questions are about every table being within 0.05 of its rows' shares, the strictest use. Of graphs
        of more than 200 arcs neither epsilon nor an arc is told, which takes time there: ``epsilon_for``, ``arcs``.

        >>> from dpgraph.files.networks import read_network
        >>> print(privacy_cost(read_network("example:asia"), epsilon=1, n=1000).in_words()[1])
        About 676 rows at epsilon 1, or epsilon 0.676 at n = 1000, keep every table within 0.05.
        """
        quick = sum(len(family) - 1 for family in self.network.families) <= MOST_ARCS
        lines = [] if self.n is None else [f"{self.worst_in_words}."]
        try:
            rows = f"About {self.n_for(ENOUGH)} rows at epsilon {float(self.epsilon):g}"
            if self.n is not None and quick:
                rows += f", or epsilon {self.epsilon_for(ENOUGH):.3g} at n = {self.n},"
            lines.append(f"{rows} keep every table within {ENOUGH:g}.")
        except ReleaseError:  # no number of rows does
            pass
        return [*lines, *self.arc_in_words()] if quick else lines

    @property
    def worst_in_words(self) -> str:
        """How far off the worst table is, of a report with n."""
        worst = max(self.family_rows, key=lambda row: row["tv"])
        return (
            f"With n = {self.n} the table of {escaped(worst['variable'])} is off by most, {worst['tv']:.3g} of the "
            "rows. Predictions and answers sum over many cells and may do with far more noise than single tables"
        )

    def arc_in_words(self) -> list[str]:
        """The benefit of leaving out the most expensive arc, and the meaning of a cost below 1.

        >>> from dpgraph.structure.network import Network
        >>> pair = Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
        >>> print(privacy_cost(pair, epsilon=1).arc_in_words()[0].split(",")[0])
        The arc a -> b costs 0.707
        """
        if not self.arc_rows:
            return []
        lines, first, last = [], self.arc_rows[0], self.arc_rows[-1]
        if first["cost"] >= LEAST_COST:
            lines.append(
                f"Without the arc {escaped(first['parent'])} -> {escaped(first['child'])} the standard error of all "
                f"released counts would be {1 - 1 / first['cost']:.0%} smaller, which else takes epsilon "
                f"{float(self.epsilon) * first['cost']:.3g}; leave it out only if it says little."
            )
        if last["cost"] <= 1 / LEAST_COST:
            lines.append(
                f"The arc {escaped(last['parent'])} -> {escaped(last['child'])} costs {last['cost']:.3g}, less than 1: "
                "leaving it out makes the noise larger, because the tables that its variables are then read from need "
                "more of epsilon together."
            )
        return lines

    def __repr__(self) -> str:
        return (
            f"{self._title}\n\n{plain(compared(self.mechanism_rows))}\n\n"
            f"recommended: {self.recommended!r}\n{escaped(self.reason)}\n"
            + "".join(f"{fill(line, WIDTH)}\n" for line in [*self.in_words(), str(self.risk)])
            + SEE
        )

    def _repr_html_(self) -> str:
        notes = [f"recommended: {self.recommended!r}", self.reason, *self.in_words(), str(self.risk), SEE]
        return as_html(self._title, compared(self.mechanism_rows), notes)

    @property
    def _title(self) -> str:
        rows = "" if self.n is None else f", n = {self.n}"
        promise = f"{PrivacyCost(self.epsilon, self.delta)}, protecting {self.unit}{rows}"
        return f"What privacy costs on {self.network!r}: {promise}"


def privacy_cost(
    network: Network | Probabilities | LinearDesign,
    *,
    epsilon: Any,
    delta: Number = 0,
    n: Any = None,
    unit: PrivacyUnit | None = None,
    question: Mapping[str, Any] | None = None,
    worlds: int = 4,
    progress: bool = False,
    noise: float = 0.5,
    spread: float | None = None,
    second_moments: npt.ArrayLike | None = None,
) -> PrivacyReport | Any:
    """Computes the cost of privacy on a graph, or of a linear regression, before any data.

    Args:
        network: The DAG over its declared domain; or public ``Probabilities``, whose own margins then stand for the
            data where expected errors depend on it. A network alone stands for uniform probabilities. Or the
            ``LinearDesign`` of a regression, whose target is taken to have mean 0 in the middle of its bounds, and
            slopes of one size, of either sign, that explain their share of its variance.
        epsilon: The budget to price; of a design one or several.
        delta: Above 0, mechanisms of approximate differential privacy are compared too; a regression's noise is then
            Gaussian.
        n: A public or supposed number of rows, for errors relative to it; a design needs one or several.
        unit: Whom to protect; one replaced row by default.
        question: A question of the model to be learned, as ``query`` takes it: ``target``, ``given``, ``do`` and
            ``interval``. ``report.question`` then says how wide the answer's interval will be with n rows, and without
            noise, and its ``epsilon_for(width)`` which epsilon a width needs; both by simulated data sets
            (``analysis.question_cost``).
        worlds: How many data sets are simulated for it.
        progress: Bars on a terminal: of the mechanisms that are priced, and of these.
        noise: Of a design: the share of the target's variance that the features do not explain.
        spread: Of a design: the target's standard deviation in its own units; by default that of uniform values within
            its bounds.
        second_moments: Of a design: expected products of two columns before the target, each column scaled as the
            design says, shape (columns - 1, columns - 1); by default those of independent uniform features.

    Returns:
        A ``PrivacyReport``; for a design a frame with a row for each epsilon, n and coefficient. Its ``without`` and
        ``with`` privacy are standard errors, in units of the target per unit of a number, per step of a column of
        levels (-1 to 1 is two steps), and for the intercept in units of the target at the middle of all bounds;
        ``ratio`` is one by the other; ``noise share`` is the typical largest eigenvalue of the noise on X'X relative to
        the smallest of X'X itself. The formula is first order: simulated errors agree to 5 % while ``noise share`` is
        below 0.6, are a tenth larger at 1.2, and several times larger from 2 on, where the noise is as large as X'X
        itself. There a plug-in estimate is useless, and a posterior falls back on its prior.

    Raises:
        ReleaseError: If epsilon, delta, n or a setting of a design is out of range, or a question or a design comes
            without n.
        NetworkError: If the network is not a Network.
        NetworkError, DomainError, InferenceError: If ``query`` refuses the question.

    Warns:
        DomainWarning: If a variable has more than 1000 levels.

    >>> from dpgraph.files.networks import read_network
    >>> report = privacy_cost(read_network("example:asia"), epsilon=1, unit=PrivacyUnit("add-remove"))
    >>> report.recommended
    LaplaceMechanism(epsilon='1', tables='merged', allocation='optimal', noise='auto')
    >>> design = LinearDesign({"age": (18, 90)}, "income", (0, 100))
    >>> table = privacy_cost(design, epsilon=1, n=[1_000, 100_000])
    >>> print(table[table.coefficient == "age"][["n", "without", "with"]].round(4).to_string(index=False))
         n  without   with
      1000   0.0311 0.0495
    100000   0.0031 0.0031
    """
    if isinstance(network, LinearDesign):
        from dpgraph.analysis.regression_cost import regression_cost

        if n is None or question is not None:
            raise ReleaseError("the cost of a regression depends on the number of rows and takes no question; give n")
        return regression_cost(
            network, _as_list(epsilon), _as_list(n), delta, checked_unit(unit), noise, spread, second_moments
        )
    graph = network.network if isinstance(network, Probabilities) else network
    if not isinstance(graph, Network):
        raise NetworkError(
            f"privacy_cost takes a Network, such as Network.of(domain, parents or an nx.DiGraph), or public "
            f"Probabilities, or a LinearDesign, and reads no rows; got {type(graph).__name__}"
        )
    warn_of_many_levels(graph.domain)
    budget, slack, protected = exact(epsilon), exact_delta(delta), checked_unit(unit)
    if n is not None:
        check_whole("n", n)
    elif question is not None:
        raise ReleaseError("an answer's interval depends on the number of rows; give n, public or supposed")
    with waiting("pricing", progress):
        shares = _margins(network)
        priced = ranked(graph, budget, slack, protected, expected_counts(shares, n))
    best, answer = recommended(priced), None
    if question is not None and n is not None:
        promise = {"epsilon": budget, "delta": slack, "unit": protected}
        answer = provided("question_cost")(network, question, n=n, **promise, worlds=worlds, progress=progress)
    better = [one for one in priced if one.rmse < best.rmse]
    among = " of mechanisms that release counts" if better else ""
    reason = f"smallest expected error{among}: {cell(best.rmse)} rows a cell"
    for paper in (one for one in priced if one.paper and one is not best):
        reason += f", against {cell(paper.rmse)} for {paper.label}"
    for one in better:
        reason += f"; {one.label}, {cell(one.rmse)}, releases probabilities alone, without an error"
    rows, given = (family_rows(graph, best, n, shares), mechanism_rows(priced)), isinstance(network, Probabilities)
    return PrivacyReport(graph, protected, budget, slack, n, best.mechanism, reason, *rows, shares, given, answer)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def expected_counts(shares: Mapping[Family, Reals], n: int | None) -> dict[Family, Reals] | None:
    """The counts of n rows, None where n is None; families that share an array of shares share one of counts."""
    if n is None:
        return None
    scaled = {id(share): n * share for share in shares.values()}
    return {family: scaled[id(share)] for family, share in shares.items()}


def distinct_tables(shares: Mapping[Family, Reals], rmse: Mapping[Family, float]) -> list[tuple[Reals, float]]:
    """The different pairs of a family's margin and the standard error of one of its cells."""
    return list({(id(share), rmse[family]): (share, rmse[family]) for family, share in shares.items()}.values())


def expected_errors(
    network: Network, mechanism: LaplaceMechanism, *, unit: PrivacyUnit, n: int | None = None
) -> TableRows:
    """The rows of ``PrivacyReport.nodes`` under a given Laplace mechanism, for n supposed rows spread evenly."""
    measured = mechanism.event(network, unit).measurements
    laws = {m.table: m.law for m in measured}
    variances = consistent_variance(network, laws, unit.n_is_public)
    chosen = Candidate("", mechanism, network, measured, variances, math.nan)
    return family_rows(network, chosen, n, _margins(network))


def compared(rows: TableRows) -> TableRows:
    """The comparison in columns that are short enough to be read side by side; the notes are left out."""
    short = {"mechanism": "mechanism", "tables": "tables", "released numbers": "numbers", "sensitivity": "sensitivity"}
    scales = [dict.fromkeys(map(cell, (row["lowest scale"], row["highest scale"]))) for row in rows]
    return [
        {new: row[old] for old, new in short.items()} | {"noise scale": " to ".join(ends), "rmse": row["rmse"]}
        for row, ends in zip(rows, scales, strict=True)
    ]


def _scale(measured: Measurement) -> float:
    """The scale of a measurement's noise; 0 where the only cell is the total, which noise that sums to zero leaves."""
    return 0.0 if measured.cells == 1 and measured.law.sums_to_zero else measured.law.scale


def _frame(rows: TableRows, columns: list[str] | None = None) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def mechanism_rows(priced: list[Candidate]) -> TableRows:
    """The comparison, best first."""
    rows: TableRows = []
    for one in priced:
        scales = [_scale(m) / one.grid for m in one.measured]
        scales = [scale for scale in scales if scale > 0] or scales  # one level has no noise where n is public
        numbers = sum(m.cells for m in one.measured)
        row = {"mechanism": one.label, "tables": len(one.measured), "released numbers": numbers}
        row |= {"sensitivity": one.sensitivity, "lowest scale": min(scales, default=math.nan)}
        row |= {"highest scale": max(scales, default=math.nan), "rmse": one.rmse, "note": one.note}
        rows.append(row)
    return rows


def family_rows(network: Network, best: Candidate, n: int | None, margins: Mapping[Family, Reals]) -> TableRows:
    """A row for each family under one mechanism."""
    measured = {m.table: m for m in best.measured}
    held = holders(network, list(measured))
    rows: TableRows = []
    for family in network.families:
        table = measured[held[family]] if family in held else measured.get(())  # () is the total, if n is private
        reading: dict[str, Any] = {"measured in": "", "sensitivity": 0, "law": "", "epsilon": 0.0, "scale": 0.0}
        if table is not None:  # else a family of one cell where n is public
            reading = {
                "measured in": " x ".join(table.table),
                "sensitivity": table.sensitivity / best.grid if best.grid > 1 else table.sensitivity,
                "law": type(table.law).__name__,
                "epsilon": table.sensitivity / table.law.scale,
                "scale": _scale(table) / best.grid,
            }
        share, rmse = margins[family], math.sqrt(best.variances[family])
        sampling = (1 - float((share**2).sum())) / share.size
        row: dict[str, Any] = {"variable": family[0], "parents": ", ".join(family[1:]), "cells": share.size, **reading}
        row |= {"rmse": rmse, "n needed": math.ceil(rmse**2 / sampling) if sampling > 0 else 0}
        if n is not None:
            row["tv"] = expected_variation(share * n, rmse) / n
            row["kl"] = expected_kl(share * n, rmse)
        rows.append(row)
    return rows


def _margins(network: Network | Probabilities) -> dict[Family, Reals]:
    """The margin of each family: uniform for a bare DAG, else estimated from rows drawn with a fixed seed."""
    margins: dict[Family, Reals] = {}
    if not isinstance(network, Probabilities):
        uniform: dict[tuple[int, int], Reals] = {}
        for family in network.families:
            levels, cells = network.domain.sizes[family[0]], network.cells(family)
            margins[family] = uniform.setdefault((levels, cells), np.full((levels, cells // levels), 1 / cells))
        return margins
    from dpgraph.inference.network.queries import sample_codes

    codes = sample_codes(network, DRAWN, np.random.default_rng(0))
    for family in network.network.families:
        shape = network.network.shape(family)
        index = np.ravel_multi_index([codes[name].astype(np.int64) for name in family], shape)
        margins[family] = np.bincount(index, minlength=math.prod(shape)).reshape(shape) / DRAWN
    return margins


def cost_grid(report: PrivacyReport, n: int) -> dict[str, Any]:
    """Mechanisms, and families under the best (``GRID_COLUMNS``), at every epsilon and n of a grid from ``start``."""
    coarse = len(report.network.families) > MANY_VARIABLES
    epsilons = sorted({report.epsilon, *map(exact, FEW_BUDGETS if coarse else BUDGETS)})
    rows = sorted({n, *(one for one in ROWS if not coarse or str(one).startswith("1"))})
    return {
        "epsilons": [float(epsilon) for epsilon in epsilons],
        "rows": rows,
        "start": [epsilons.index(report.epsilon), rows.index(n)],
        "budgets": [_priced(report, epsilon, rows) for epsilon in epsilons],
    }


def _priced(report: PrivacyReport, epsilon: Fraction, rows: list[int]) -> dict[str, Any]:
    """One budget: its mechanisms and families, for each number of rows where they depend on it."""
    shares = report.shares
    priced = ranked(report.network, epsilon, report.delta, report.unit, expected_counts(shares, rows[0]))
    best = recommended(priced)
    families = family_rows(report.network, best, None, shares)
    rmse = {family: row["rmse"] for family, row in zip(report.network.families, families, strict=True)}
    place = {(id(share), error): at for at, (share, error) in enumerate(distinct_tables(shares, rmse))}
    places = np.array([place[id(shares[family]), error] for family, error in rmse.items()])
    tv, kl = (
        np.array([[measure(n * share, error) for n in rows] for share, error in distinct_tables(shares, rmse)]).T
        for measure in (expected_variation, expected_kl)
    )
    return {
        "typed": f"dg.{best.mechanism!r}",
        "mechanisms": [
            row | {"best": one is best, "paper": one.paper, "rmse": _errors(one, epsilon, report, rows)}
            for one, row in zip(priced, mechanism_rows(priced), strict=True)
        ],
        "families": [[row[name] for name in GRID_COLUMNS] for row in families],
        "tv": (tv / np.array(rows)[:, None])[:, places].tolist(),
        "kl": kl[:, places].tolist(),
    }


def _errors(one: Candidate, epsilon: Fraction, report: PrivacyReport, rows: list[int]) -> list[float]:
    """The error of a mechanism's cells at each number of rows, on which the error of drawn tables depends."""
    if one.usable:
        return [one.rmse] * len(rows)
    temperature = one.sensitivity / float(epsilon)
    counts = [expected_counts(report.shares, n) or {} for n in rows]
    return [replace(one, variances=draw_variances(supposed, temperature)).rmse for supposed in counts]
