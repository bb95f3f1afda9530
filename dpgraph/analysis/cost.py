"""The cost of privacy on a network, before any data: sensitivities, noise, expected errors, and a mechanism.

Everything is a function of the DAG, the numbers of levels and the privacy parameters, and where a number of rows and
probabilities matter they are hypothetical: yours, or a public network's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.analysis.candidates import Candidate, ranked, recommended
from dpgraph.analysis.expected import expected_counts, noise_allowed, rows_needed, table_errors
from dpgraph.lazy import provided
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.plans import parity_sensitivity
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.display import WIDTH, DataFrame, as_html, cell, data_frame, escaped, plain
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Measurement
from dpgraph.privacy.records import Number, PrivacyCost, PrivacyUnit, exact, exact_delta
from dpgraph.privacy.risk import Risk
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import NetworkError, warn_of_many_levels
from dpgraph.structure.elimination import elimination_order
from dpgraph.structure.margins import holders, measured_families
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import Probabilities
from dpgraph.waiting import waiting

if TYPE_CHECKING:
    from dpgraph.analysis.question_cost import QuestionCost

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
    def nodes(self) -> DataFrame:
        """The cost of each family."""
        return data_frame(self.family_rows)

    @cached_property
    def mechanisms(self) -> DataFrame:
        """The mechanisms compared."""
        return data_frame(self.mechanism_rows)

    @cached_property
    def arcs(self) -> DataFrame:
        """The cost of each arc; see ``arc_costs``."""
        return data_frame(self.arc_rows, COLUMNS)

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
        found = rows_needed(self.shares, self._rmse, error)
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
        if self.n is None:
            raise ReleaseError("the error of tables depends on the number of rows; give n to privacy_cost")
        epsilon, counts, rmse = float(self.epsilon), expected_counts(self.shares, self.n), self._rmse
        for _ in range(ROUNDS):
            epsilon /= noise_allowed(self.shares, rmse, error, self.n)
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
    rows = family_rows(graph, best, n, shares), mechanism_rows(priced)
    given = isinstance(network, Probabilities)
    return PrivacyReport(graph, protected, budget, slack, n, best.mechanism, reason, *rows, shares, given, answer)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def expected_errors(
    network: Network, mechanism: LaplaceMechanism, *, unit: PrivacyUnit, n: int | None = None
) -> TableRows:
    """The rows of ``PrivacyReport.nodes`` under a given Laplace mechanism, for n supposed rows spread evenly."""
    return family_rows(network, Candidate.adding("", mechanism, network, unit), n, _margins(network))


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
    rmse = {family: math.sqrt(best.variances[family]) for family in network.families}
    errors = {} if n is None else table_errors(margins, rmse, n)
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
        share = margins[family]
        sampling = (1 - float((share**2).sum())) / share.size
        row: dict[str, Any] = {"variable": family[0], "parents": ", ".join(family[1:]), "cells": share.size, **reading}
        needed = math.ceil(rmse[family] ** 2 / sampling) if sampling > 0 else 0
        row |= {"rmse": rmse[family], "n needed": needed}
        if n is not None:
            row["tv"], row["kl"] = errors[family]
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
