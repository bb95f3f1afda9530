"""Elimination whose tables are kept, to go back through: the most probable levels, and rows drawn given evidence.

Draws are the last axis of every table; each message is scaled so that its largest entry is 1, and the logs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_whole_number, generator
from dpgraph.inference.network.queries import Numbers, numbered, numbers_of, rows_of
from dpgraph.inference.queries.answer import weights_of_draws
from dpgraph.inference.queries.asking import asked_of, check_possible, levels_drawn
from dpgraph.inference.queries.contraction import ancestors, check_cells, conditional
from dpgraph.inference.queries.question import Evidence, evidence_words
from dpgraph.inference.queries.tables import DrawnTables
from dpgraph.privacy.display import DataFrame, data_frame, escaped
from dpgraph.structure.domain import Level
from dpgraph.structure.elimination import smallest_elimination
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

Codes = npt.NDArray[np.intp]

#: Draws whose tables are kept at once.
BLOCK = 64


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The most probable levels together, of the mean tables.

    Attributes:
        question: The evidence in words.
        levels: For each unobserved variable its level.
        probability: Of these levels together, given the evidence, under the mean tables.
        share: The share of draws whose own most probable levels are exactly these.
        agreement: For each variable the share of draws whose most probable row has this level of it.
    """

    question: str
    levels: FrozenMap[str, Level]
    probability: float
    share: float
    agreement: FrozenMap[str, float]

    def to_frame(self) -> DataFrame:
        """A row for each variable: its level, and the share of draws that agree."""
        return data_frame(
            {"variable": list(self.levels), "level": list(self.levels.values()), "agreement": self.agreement.values()}
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{escaped(name)}={escaped(level)}" for name, level in list(self.levels.items())[:6])
        more = ", ..." if len(self.levels) > 6 else ""
        given = f" | {escaped(self.question)}" if self.question else ""
        return f"Explanation({shown}{more}{given}; probability {self.probability:.3g}, {self.share:.0%} of draws agree)"


def most_probable(
    model: Any, given: Mapping[str, Any] | None = None, *, do: Mapping[str, Any] | None = None
) -> Explanation:
    """The most probable explanation of evidence: the levels of all other variables that are likeliest together.

    By max-product elimination over the mean tables, and over each draw's own for ``share`` and ``agreement``. Of levels
    that are equally probable one is chosen.

    Args:
        model: As for ``query``.
        given: Evidence, as for ``query``.
        do: Interventions, as for ``query``.

    Raises:
        DomainError: As for ``query``.
        InferenceError: If a table would be too large.

    >>> import dpgraph as dg
    >>> model = dg.load("example:asia")
    >>> most_probable(model, {"dysp": "yes"}).levels["bronc"]
    'yes'
    """
    tables, evidence = asked_of(model, given, do)
    network = tables.network
    mean = tables.centre or tables.mean
    base = conditional(mean, (), evidence)[1][0]
    check_possible(base)
    buckets, log = eliminated(mean, network.order, evidence, slice(None), maximum=True)
    best = back_through(buckets, np.arange(1), lambda weights: weights.argmax(axis=0))
    agree = {name: np.zeros(len(tables), bool) for name in best}
    for start in range(0, len(tables), BLOCK):
        some = slice(start, min(start + BLOCK, len(tables)))
        mine, _ = eliminated(tables, network.order, evidence, some, maximum=True)
        place = np.arange(some.stop - start)
        for name, codes in back_through(mine, place, lambda weights: weights.argmax(axis=0)).items():
            agree[name][some] = codes == best[name][0]
    names = [name for name in network.domain.names if name in best]
    together = np.logical_and.reduce([agree[name] for name in names]) if names else np.ones(len(tables), bool)
    return Explanation(
        evidence_words(given, do),
        FrozenMap((name, network.domain.levels(name)[int(best[name][0])]) for name in names),
        float(np.exp(log.reshape(-1)[0] - base[0])),
        float(together.mean()),
        FrozenMap((name, float(agree[name].mean())) for name in names),
    )


def sample_given(
    model: Any,
    n: int,
    rng: np.random.Generator | int,
    given: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    numbers: Numbers = "uniform",
) -> DataFrame:
    """Synthetic rows of the network, given evidence.

    Each row is of a draw that is picked with a weight in proportion to the draw's probability of the evidence, so the
    rows follow the predictive law of a case with that evidence. Exact, no rejection.

    Args:
        model: As for ``query``.
        n: How many rows.
        rng: Randomness for post-processing, or a seed for it.
        given: Evidence, as for ``query``.
        do: Interventions, as for ``query``.
        numbers: The numbers of a column of bins, as for ``sample_rows``.

    Returns:
        A DataFrame as that of ``sample_rows``.

    Raises:
        DomainError: As for ``query``.
        InferenceError: If n is not a whole number, at least 0, rng is neither a generator nor a seed, ``numbers`` is
            none of these, or a table would be too large.

    >>> import dpgraph as dg
    >>> model = dg.load("example:asia")
    >>> rows = sample_given(model, 1000, 0, {"dysp": "yes"})
    >>> float((rows["bronc"] == "yes").mean().round(1)), set(rows["dysp"])
    (0.8, {'yes'})
    """
    check_whole_number("n", n, 0)
    source = generator(rng)
    tables, evidence = asked_of(model, given, do)
    tables, network = tables.centre or tables, tables.network
    bins = numbered(network.domain, numbers)
    log = conditional(tables, (), evidence)[1][0]
    if np.isneginf(log).all():
        check_possible(log)
    picked = np.sort(source.choice(len(tables), size=int(n), p=weights_of_draws(log)))
    used, place = np.unique(picked, return_inverse=True)
    columns = {name: np.zeros(int(n), np.intp) for name in network.domain.names}
    for start in range(0, len(used), BLOCK):
        rows = np.flatnonzero((place >= start) & (place < start + BLOCK))
        mine = _rows(tables, evidence, used[start : start + BLOCK], place[rows] - start, source)
        for name, codes in mine.items():
            columns[name][rows] = codes
    mixed = source.permutation(int(n))
    codes = {name: column[mixed] for name, column in columns.items()}
    values = {name: numbers_of(one, codes[name], source, numbers) for name, one in bins.items()}
    return rows_of(network.domain, codes, values)


def _rows(
    tables: DrawnTables, evidence: Evidence, draws: Codes, place: Codes, rng: np.random.Generator
) -> dict[str, Codes]:
    """Codes of rows, the draw of each at its place among ``draws``."""
    network = tables.network
    above = ancestors(network, [*evidence.levels, *evidence.weights], evidence.do)
    buckets, _ = eliminated(tables, [name for name in network.order if name in above], evidence, draws, maximum=False)
    found = {name: np.full(len(place), code) for name, code in {**evidence.levels, **evidence.do}.items()}

    def drawn(weights: Reals) -> Codes:
        below = np.cumsum(weights, axis=0)
        return (rng.random(len(place)) * below[-1] >= below[:-1]).sum(axis=0)

    found |= back_through(buckets, place, drawn)
    for name in (one for one in network.order if one not in found):
        parents = tuple(found[parent] for parent in network.parents[name])
        found[name] = levels_drawn(tables.tables[name][draws], place, parents, rng.random(len(place)))
    return found


def eliminated(
    tables: DrawnTables, names: Sequence[str], evidence: Evidence, draws: Any, *, maximum: bool
) -> tuple[list[tuple[Family, Reals]], Reals]:
    """Eliminates all unobserved variables of some tables, by sums or maxima, for some draws, a slice or positions.

    The tables are of ``names``, which hold the ancestors of each. Returns in the order of elimination the product of
    the tables that held a variable when it went, with its axes, (variable, *others) and at last the draws; and the log
    of the sum or maximum of the product of all, shape (draws,). A table that is too large is refused.
    """
    network, fixed = tables.network, {**evidence.levels, **evidence.do}
    factors: list[tuple[Family, Reals]] = []
    for name in (one for one in names if one not in evidence.do):
        family = network.family(name)
        table = np.moveaxis(tables.tables[name][draws], 0, -1)
        table = table[tuple(fixed.get(axis, slice(None)) for axis in family)]
        factors.append((tuple(axis for axis in family if axis not in fixed), table))
    factors += [((name,), np.array(weights)[:, None]) for name, weights in evidence.weights.items()]
    order, width, cells = smallest_elimination([scope for scope, _ in factors], network.domain.sizes)
    check_cells(width, cells, "Give more evidence, or ask dg.query with")
    found: list[tuple[Family, Reals]] = []
    log: Any = 0.0
    for name in order:
        mine = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]]
        scope, product = _product(name, mine, network.domain.sizes)
        found.append((scope, product))
        message = product.max(axis=0) if maximum else product.sum(axis=0)
        top = message.max(axis=tuple(range(message.ndim - 1)))
        with np.errstate(divide="ignore"):
            log = log + np.log(top)
        factors.append((scope[1:], message / np.where(top > 0, top, 1.0)))
    for _, scalar in factors:
        with np.errstate(divide="ignore"):
            log = log + np.log(scalar)
    return found, np.asarray(log)


def _product(name: str, factors: Sequence[tuple[Family, Reals]], sizes: Mapping[str, int]) -> tuple[Family, Reals]:
    """The product of factors, the variable's axis first, the draws' last."""
    scope = (name, *dict.fromkeys(axis for one, _ in factors for axis in one if axis != name))
    product: Any = 1.0
    for axes, values in factors:
        kept = sorted(range(len(axes)), key=lambda place: scope.index(axes[place]))
        shape = [sizes[axis] if axis in axes else 1 for axis in scope]
        product = product * values.transpose(*kept, len(axes)).reshape(*shape, values.shape[-1])
    return scope, product


def back_through(
    buckets: Sequence[tuple[Family, Reals]], draw: Codes, chosen: Callable[[Reals], Codes]
) -> dict[str, Codes]:
    """Levels of rows, variable by variable, chosen by their weights, axes (level, row); ``draw`` is each row's draw."""
    found: dict[str, Codes] = {}
    for (variable, *others), table in reversed(buckets):
        found[variable] = chosen(table[(slice(None), *(found[name] for name in others), draw)])
    return found
