"""Draws from the posterior of a network's conditional probability tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.draws import Draws
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Probabilities, Reals, Tables

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Draws):
    """Equally weighted draws of every conditional probability table, given the release.

    Attributes:
        network: The DAG over its domain.
        tables: For each variable an array with axes (chain, draw, variable, *parents); columns sum to 1. Independent
            draws form one chain. Draws that memory has no room for are in a temporary file, in single precision:
            ``numpy.memmap``; ``flat`` reads one variable's.
        method: The sampler: ``"tables"``, ``"records"`` or ``"normal"``; ``"counts"`` in a classifier.
        reason: Why that one.
        n: The number of latent rows in each draw, shape (chains, draws), where it is private; else None.
        records: The latent rows of the last draw of the first chain, a column of codes for each variable, where the
            method has them.
        acceptance: The share of accepted moves by their name, for a Markov chain.
        means: The average of each table's mean given the latent counts of each draw, where there are these.
        mixing: As in all draws; ``save`` keeps it.
        provenance: The release behind them, for whom it was made and whether its noise was private.
    """

    network: Network
    tables: FrozenMap[str, Reals]
    method: str
    reason: str = ""
    n: Integers | None = None
    records: FrozenMap[str, Integers] | None = None
    acceptance: Mapping[str, float] = field(default_factory=lambda: FrozenMap({}))
    means: FrozenMap[str, Reals] | None = None
    provenance: Provenance | None = None
    mixing: FrozenMap[str, float] = field(default_factory=lambda: FrozenMap(()))

    def __post_init__(self) -> None:
        if set(self.tables) != set(self.network.domain.names):
            raise NetworkError("every variable needs its draws, and no other")
        frozen: dict[str, Reals] = {}
        for name in self.network.domain.names:
            table = self.tables[name]
            frozen[name] = table if _can_be_kept(table) else frozen_array(table, np.float64)
            if frozen[name].shape[2:] != self.network.shape(self.network.family(name)):
                raise NetworkError(f"the draws of {name!r} have the wrong shape {frozen[name].shape}")
        if len({table.shape[:2] for table in frozen.values()}) != 1:
            raise NetworkError("every variable needs as many chains and draws as the others")
        object.__setattr__(self, "tables", FrozenMap(frozen))
        object.__setattr__(self, "acceptance", FrozenMap(dict(self.acceptance)))

    @property
    def arrays(self) -> Mapping[str, Reals]:
        """The tables."""
        return self.tables

    def read(self, arrays: Mapping[str, Reals]) -> Probabilities:
        """Tables as probabilities."""
        return Probabilities(self.network, FrozenMap(arrays.items()), self.provenance)

    def labels(self, name: str) -> list[dict[str, Any]]:
        """The variable, its level and those of its parents for each entry of a table."""
        family, found = self.network.family(name), []
        for index in np.ndindex(self.network.shape(family)):
            level, *given = (self.network.domain.levels(v)[i] for v, i in zip(family, index, strict=True))
            said = ", ".join(f"{v}={level}" for v, level in zip(family[1:], given, strict=True))
            found.append({"variable": name, "level": level, "given": said})
        return found

    def flat(self, name: str) -> Reals:
        """All draws of one table, axes (draw, variable, *parents)."""
        self.network.domain[name]
        return super().flat(name)

    def mean(self) -> Probabilities:
        """The posterior mean of every table."""
        found = self.means or {name: self.flat(name).mean(axis=0) for name in self.tables}
        return self.read({name: table / table.sum(axis=0) for name, table in found.items()})

    @property
    def diagnostics(self) -> dict[str, Any]:
        """As of all draws, with the share of accepted moves of each kind."""
        return super().diagnostics | {f"acceptance of {name}": share for name, share in self.acceptance.items()}

    def latent_tables(self) -> Tables:
        """The family tables of one draw of the latent rows: whole, not negative, of one possible data set.

        This is the release to hand on where a table must look like counts. It is a draw from the posterior, made of
        the release alone, so it costs nothing; it is one plausible data set, not an estimate of the true one.

        Raises:
            InferenceError: If the method has no latent rows; ``method="records"`` has.
        """
        from dpgraph.inference.network.evidence import contingency_table

        records = self._latent()
        made = {key: contingency_table(records, key, self.network.shape(key)) for key in self.network.maximal_families}
        rows = float(len(next(iter(records.values()))))
        return Tables(self.network, FrozenMap((k, t.astype(float)) for k, t in made.items()), rows, self.provenance)

    def latent_rows(self) -> pd.DataFrame:
        """One draw of the latent rows, with the declared levels."""
        import pandas as pd

        levels = self.network.domain.levels
        columns = {
            name: pd.Categorical.from_codes(codes.tolist(), categories=list(levels(name)))
            for name, codes in self._latent().items()
        }
        return pd.DataFrame(columns)

    def _latent(self) -> FrozenMap[str, Integers]:
        if self.records is None:
            raise InferenceError(f'method {self.method!r} has no latent rows; use method="records"')
        return self.records

    def _said(self) -> str:
        return f"{len(self.tables)} variables"

    def _rows(self) -> list[dict[Any, Any]]:
        return [{"": name, "value": value} for name, value in self.diagnostics.items() if name != "reason"]


def _can_be_kept(table: Reals) -> bool:
    """True for an array that needs no copy: in a file, or read-only with memory of its own."""
    mine = table.flags.owndata and table.dtype == np.float64 and table.flags.c_contiguous
    return isinstance(table, np.memmap) or (isinstance(table, np.ndarray) and mine and not table.flags.writeable)
