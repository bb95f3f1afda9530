"""The most probable levels of all unobserved variables, and how far the draws agree on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.queries.asking import check_causes, check_possible
from dpgraph.inference.queries.buckets import eliminated, most_probable_codes
from dpgraph.inference.queries.contraction import conditional
from dpgraph.inference.queries.question import evidence_words, read_evidence
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.display import escaped
from dpgraph.structure.domain import Level
from dpgraph.structure.frozen import FrozenMap

if TYPE_CHECKING:
    import pandas as pd

#: Draws that are explained at once.
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

    def to_frame(self) -> pd.DataFrame:
        """A row for each variable: its level, and the share of draws that agree."""
        import pandas as pd

        return pd.DataFrame(
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

    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import Probabilities
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> model = Probabilities(network, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.1, 0.9]]})
    >>> most_probable(model, {"wet": "yes"})
    Explanation(rain=yes | wet=yes; probability 0.692, 100% of draws agree)
    """
    tables = drawn_tables(model)
    if do:
        check_causes(tables)
    network, evidence = tables.network, read_evidence(tables.network, given, do)
    mean = tables.centre or tables.mean
    base = conditional(mean, (), evidence).log_evidence[0]
    check_possible(base)
    buckets, log = eliminated(mean, network.order, evidence, slice(None), maximum=True)
    best = most_probable_codes(buckets, 1)
    agree = {name: np.zeros(len(tables), bool) for name in best}
    for start in range(0, len(tables), BLOCK):
        some = slice(start, min(start + BLOCK, len(tables)))
        mine, _ = eliminated(tables, network.order, evidence, some, maximum=True)
        for name, codes in most_probable_codes(mine, some.stop - start).items():
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
