"""Synthetic rows from a fitted network, and the log-likelihood of encoded rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_whole_number, generator
from dpgraph.inference.network.evidence import check_graph
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Release
from dpgraph.structure.conversion import array_of
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, hole_codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network, Rules
from dpgraph.structure.tables import Probabilities, Reals, probabilities_given
from dpgraph.waiting import counted, waiting

Numbers = Literal["uniform", "midpoint", "level"]
#: The level of an indicator where a value is missing.
YES = "yes"
#: Rows drawn at once.
BLOCK = 1 << 16


def sample_codes(
    probabilities: Probabilities,
    n: int,
    rng: np.random.Generator,
    after: Callable[[slice, dict[str, npt.NDArray[Any]]], None] | None = None,
) -> dict[str, npt.NDArray[np.unsignedinteger[Any]]]:
    """Ancestral sampling: level positions of n synthetic rows, parents before children; ``after`` gets each block."""
    network = probabilities.network
    thresholds = {
        name: level_thresholds(table.reshape(table.shape[0], -1), 0) for name, table in probabilities.tables.items()
    }
    codes = {name: np.empty(n, np.min_scalar_type(network.domain.sizes[name])) for name in network.domain.names}
    for start in counted(range(0, n, BLOCK)):
        place = slice(start, start + BLOCK)
        part = {name: column[place] for name, column in codes.items()}
        for name in counted(network.order):
            row = _row_index(network, name, part)
            uniform = rng.random(len(part[name]))
            code = np.zeros(len(uniform), part[name].dtype)
            for threshold in thresholds[name]:
                code += uniform >= (threshold[0] if row is None else threshold.take(row, mode="clip"))
            part[name][:] = code
        if after is not None:
            after(place, part)
    return codes


def numbered(domain: Domain, numbers: Numbers) -> dict[str, Bins]:
    """The bins whose rows get numbers."""
    if numbers not in (known := get_args(Numbers)):
        raise InferenceError(f"numbers must be one of {', '.join(map(repr, known))}; got {numbers!r:.60}")
    named = {} if numbers == "level" else domain.variables
    return {name: variable for name, variable in named.items() if isinstance(variable, Bins)}


def numbers_of(variable: Bins, codes: npt.NDArray[Any], rng: np.random.Generator, numbers: Numbers) -> npt.NDArray[Any]:
    """A number in the bin of each code, whole ones as int64; for the nulls' level some number."""
    at = np.minimum(codes, len(variable.middles) - 1)
    if numbers == "midpoint":
        return np.array(variable.middles)[at]
    digits, steps = variable.steps
    first, last = np.array(steps, np.int64).T
    drawn = rng.integers(first[at], np.maximum(first, last)[at], endpoint=True)
    if variable.whole:
        return drawn
    # Edges closer than the digits leave no number between them: such a bin gives its lower edge.
    return np.where((first <= last)[at], drawn / 10.0**digits, np.array(variable.edges, float)[at])


def with_nulls(variable: Bins, codes: npt.NDArray[Any], values: npt.NDArray[Any]) -> Any:
    """A column of numbers in bins, null where the code is of the nulls' level; of a type that the declaration says."""
    import pandas as pd

    if not variable.missing:
        return values
    gone = codes == variable.size - 1
    return pd.arrays.IntegerArray(values, gone) if values.dtype.kind == "i" else np.where(gone, np.nan, values)


def level_thresholds(table: Reals, axis: int) -> Reals:
    """The cumulative probability of each level but the last; none is passed where all later levels have probability 0.

    Rounding may leave a sum just below 1, and a level that cannot be would be drawn.
    """
    later = np.flip(np.cumsum(np.flip(table, axis), axis=axis), axis)
    below = np.where(np.roll(later, -1, axis) > 0, np.cumsum(table, axis=axis), 2.0)
    return below.take(range(table.shape[axis] - 1), axis)


def sample_rows(
    probabilities: Probabilities | Release[Probabilities],
    n: int,
    rng: np.random.Generator | int,
    *,
    numbers: Numbers = "uniform",
    holes: bool = False,
    progress: bool = False,
) -> DataFrame:
    """Draws synthetic rows from a network.

    Args:
        probabilities: The conditional probability tables.
        n: How many rows; it is yours to choose, and need not be the number of private rows.
        rng: Randomness for post-processing, or a seed for it.
        numbers: The numbers of a column of bins: ``"uniform"`` in each bin, whole or of a few digits (``Bins``);
            ``"midpoint"``, the mean of each bin's numbers; or ``"level"``, the bin's name.
        holes: Of a network with unobserved values, True for rows with as many nulls as the people's; else complete.
            Where tables count these nulls as a level, holes are taken to depend on the variable's parents alone.
        progress: A bar on a terminal.

    Returns:
        A DataFrame with a categorical column for each variable, its declared levels as categories; a column of numbers
        for bins, null at their level ``"missing"``. Counted under the same domain, rows have the levels drawn.

    Raises:
        InferenceError: If these are not probabilities, or those of tables without a graph, n is not a whole number, at
            least 0, rng is neither a generator nor a seed, or ``numbers`` is none of these.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"age": Bins([17, 25, 90]), "weight": Bins([40, 62.5, 90])}, {})
    >>> value = Probabilities(network, {"age": [0.5, 0.5], "weight": [0.5, 0.5]})
    >>> sample_rows(value, 3, 0).to_dict("list")
    {'age': [58, 21, 24], 'weight': [56.4, 79.9, 77.5]}
    >>> sample_rows(value, 3, 0, numbers="midpoint")["age"].tolist()
    [57.5, 20.5, 20.5]
    """
    value = probabilities_given(probabilities, "sample_rows", InferenceError)
    check_graph(value)
    value = of_people(value) if value.network.domain.holes else value
    check_whole_number("n", n, 0)
    domain, source = value.network.domain, generator(rng)
    bins = numbered(domain, numbers)
    kinds = {name: np.int64 if one.whole and numbers == "uniform" else np.float64 for name, one in bins.items()}
    values: dict[str, npt.NDArray[Any]] = {name: np.empty(int(n), kind) for name, kind in kinds.items()}

    def number(place: slice, codes: dict[str, npt.NDArray[Any]]) -> None:
        for name, one in bins.items():
            values[name][place] = numbers_of(one, codes[name], source, numbers)

    with waiting("sampling", progress):
        codes = sample_codes(value, int(n), source, number)
        return without_indicators(rows_of(domain, codes, values), domain.indicators, holes=holes)


def rows_of(domain: Domain, codes: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Any]) -> DataFrame:
    """A DataFrame of levels, and of the numbers of bins that have them."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: with_nulls(variable, codes[name], values[name])
            if name in values and isinstance(variable, Bins)
            else pd.Categorical.from_codes(codes[name], list(variable.levels))
            for name, variable in counted(domain.variables.items())
        }
    )


def indicator(name: str) -> str:
    """The variable that says whether a value is missing, where nulls are unobserved values."""
    return f"{name} missing"


def people_of(domain: Domain) -> Domain:
    """The variables with their own levels, and for each with unobserved values an indicator of a missing one."""
    signs = {indicator(name): Categories(["no", YES]) for name in domain.holes}
    return Domain.of(dict(domain.complete.variables) | signs)


def people_tables(network: Network, tables: Mapping[str, Reals], lead: int = 0) -> dict[str, Reals]:
    """Tables over the people's own levels, and those of indicators, off ones that count nulls as a level, not normed.

    Given a variable's parents neither its own holes nor theirs depend on it, so the part without a hole in the family
    has the people's conditional law (proofs.md P123). ``lead`` axes come before the variable's.
    """
    codes, found = {name: hole_codes(network.domain[name]) for name in network.domain.holes}, dict[str, Reals]()
    for name, table in tables.items():
        for axis, one in enumerate(network.parents[name], lead + 1):
            table = table.take(codes[one][1], axis=axis) if one in codes else table
        if name in codes:
            gone, table = (table.take(some, axis=lead) for some in ([codes[name][0]], codes[name][1]))
            found[indicator(name)] = np.concatenate([table.sum(axis=lead, keepdims=True), gone], axis=lead)
        found[name] = table
    return found


def of_people(probabilities: Probabilities) -> Probabilities:
    """The people's probabilities, off those that count nulls as a level; even where no value is ever seen."""
    network = probabilities.network
    found = people_tables(network, probabilities.tables)
    reasons = {indicator(name): network.parents[name] for name in network.domain.holes}
    people = Network.of(people_of(network.domain), {**network.parents, **reasons}, Rules(network.rules.impossible))
    even = {name: np.where(table.sum(axis=0) > 0, table, 1.0) for name, table in found.items()}
    return Probabilities(people, FrozenMap((name, table / table.sum(axis=0)) for name, table in even.items()))


def without_indicators(rows: DataFrame, signs: Mapping[str, str], *, holes: bool) -> DataFrame:
    """Rows without the indicators of missing values; ``holes`` makes those values null."""
    kept = rows.drop(columns=list(signs.values())) if signs else rows
    for name, sign in signs.items() if holes else ():
        column = kept[name].astype("Int64") if kept[name].dtype.kind == "i" else kept[name]
        kept[name] = column.mask(rows[sign] == YES)
    return kept


def log_likelihood(probabilities: Probabilities, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """The natural log of each encoded row's probability, in nats; -inf where the network excludes the row."""
    network = probabilities.network
    with np.errstate(divide="ignore"):
        tables = {name: probabilities.table(name) for name in network.domain.names}
        flat = {name: np.log(table.reshape(len(table), -1).T).ravel() for name, table in tables.items()}
    columns = code_columns(codes, network.domain.sizes)
    total = np.zeros(len(columns[network.domain.names[0]]))
    for start in range(0, len(total), BLOCK):
        part = {name: column[start : start + BLOCK] for name, column in columns.items()}
        for name, table in flat.items():
            cell = part[name].astype(np.intp)
            row = _row_index(network, name, part)
            if row is not None:
                cell += row * network.domain.sizes[name]
            total[start : start + BLOCK] += table.take(cell, mode="clip")
    return total


def code_columns(codes: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, npt.NDArray[np.integer[Any]]]:
    """The columns of codes of some variables, checked to be positions of levels and as long as the first column."""
    rows = row_count(codes)
    columns: dict[str, npt.NDArray[np.integer[Any]]] = {}
    for name, levels in sizes.items():
        if name not in codes:
            raise DomainError(f"the codes of {name!r} are missing")
        problem = f"the codes of {name!r} must be one column of whole numbers"
        column = columns[name] = array_of(codes[name], problem)
        if column.shape != (rows,):
            raise DomainError(f"the codes of {name!r} must be one column, as long as the others")
        if rows and (column.dtype.kind not in "iu" or column.min() < 0 or column.max() >= levels):
            raise DomainError(f"the codes of {name!r} must be whole numbers from 0 to {levels - 1}")
    return columns


def row_count(codes: Mapping[str, Any]) -> int:
    """How long the first column of codes is; 0 without columns."""
    if not codes:
        return 0
    name, values = next(iter(codes.items()))
    problem = f"the codes of {name!r} must be one column of whole numbers"
    column = array_of(values, problem)
    if column.ndim != 1:
        raise DomainError(problem)
    return len(column)


def _row_index(network: Network, name: str, codes: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.intp] | None:
    """The parent configuration of each row; None without parents."""
    row: npt.NDArray[np.intp] | None = None
    for parent in network.parents[name]:
        if row is None:
            row = codes[parent].astype(np.intp)
        else:
            row *= network.domain.sizes[parent]
            row += codes[parent]
    return row
