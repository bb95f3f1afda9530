"""Synthetic rows given evidence, exact: buckets of what the evidence bears on, then the rest parents first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.arguments import check_whole_number, generator
from dpgraph.inference.queries.answer import weights_of_draws
from dpgraph.inference.queries.asking import check_causes, check_possible
from dpgraph.inference.queries.buckets import Codes, codes_drawn, eliminated
from dpgraph.inference.queries.contraction import conditional
from dpgraph.inference.queries.pruning import ancestors
from dpgraph.inference.queries.question import Evidence, read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables

if TYPE_CHECKING:
    import pandas as pd

#: Draws whose tables are kept at once.
BLOCK = 64


def sample_given(
    model: Any,
    n: int,
    rng: np.random.Generator | int,
    given: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Synthetic rows of the network, given evidence.

    Each row is of a draw that is picked with a weight in proportion to the draw's probability of the evidence, so the
    rows follow the predictive law of a case with that evidence. Exact, no rejection.

    Args:
        model: As for ``query``.
        n: How many rows.
        rng: Randomness for post-processing, or a seed for it.
        given: Evidence, as for ``query``.
        do: Interventions, as for ``query``.

    Returns:
        A DataFrame as that of ``sample_rows``.

    Raises:
        DomainError: As for ``query``.
        InferenceError: If n is not a whole number, at least 0, rng is neither a generator nor a seed, or a table would
            be too large.

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> model = Probabilities(network, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]})
    >>> rows = sample_given(model, 1000, np.random.default_rng(0), {"wet": "yes"})
    >>> float((rows["rain"] == "yes").mean().round(1)), set(rows["wet"])
    (0.7, {'yes'})
    """
    import pandas as pd

    check_whole_number("n", n, 0)
    source = generator(rng)
    tables = drawn_tables(model)
    if do:
        check_causes(tables)
    tables = tables.centre or tables
    network, evidence = tables.network, read_evidence(tables.network, given, do)
    log = conditional(tables, (), evidence).log_evidence[0]
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
    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(columns[name][mixed].tolist(), list(network.domain.levels(name)))
            for name in network.domain.names
        }
    )


def _rows(
    tables: DrawnTables, evidence: Evidence, draws: Codes, place: Codes, rng: np.random.Generator
) -> dict[str, Codes]:
    """Codes of rows, the draw of each at its place among ``draws``."""
    network = tables.network
    above = ancestors(network, [*evidence.levels, *evidence.weights], evidence.do)
    buckets, _ = eliminated(tables, [name for name in network.order if name in above], evidence, draws, maximum=False)
    found = {name: np.full(len(place), code) for name, code in {**evidence.levels, **evidence.do}.items()}
    found |= codes_drawn(buckets, place, rng)
    for name in (one for one in network.order if one not in found):
        table = tables.tables[name][draws]
        thresholds = np.cumsum(table, axis=1)[:, :-1]
        parents = tuple(found[parent] for parent in network.parents[name])
        uniform = rng.random(len(place))
        found[name] = sum(
            ((uniform >= thresholds[(place, level, *parents)]).astype(np.intp) for level in range(thresholds.shape[1])),
            start=np.zeros(len(place), np.intp),
        )
    return found
