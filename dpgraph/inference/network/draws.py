"""Draws from the posterior of a network's conditional probability tables."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.inference.draws import Draws
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Probabilities, Reals, Tables, of_every_variable


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Draws):
    """Equally weighted draws of every conditional probability table, given the release.

    Attributes:
        network: The DAG over its domain.
        tables: For each variable an array with axes (chain, draw, variable, *parents); columns sum to 1. Independent
            draws form one chain. Draws that memory has no room for are in a temporary file, in single precision:
            ``numpy.memmap``; ``flat`` reads one variable's.
        method: The sampler: ``"tables"``, ``"records"`` or ``"normal"``; ``"counts"`` in a classifier.
        reason: The reason for the method.
        n: The number of latent rows in each draw, shape (chains, draws), where it is private; else None.
        records: The latent rows of the last draw of the first chain, a column of codes for each variable, where the
            method has them.
        acceptance: The share of accepted moves by their name, for a Markov chain.
        means: The average of each table's mean given the latent counts of each draw, where there are these.
        mixing: As in all draws; ``save`` keeps it.
        provenance: The release behind them, for whom it was made and whether its noise was private.
        stopped_after: The seconds after which chains were stopped with fewer draws than were asked for; else None.
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
    stopped_after: float | None = None

    def __post_init__(self) -> None:
        frozen = of_every_variable(self.network, self.tables, "draws", lead=2)
        if len({table.shape[:2] for table in frozen.values()}) != 1:
            raise NetworkError("every variable needs as many chains and draws as the others")
        object.__setattr__(self, "tables", frozen)
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
        """As of all draws, with the share of accepted moves of each kind, and ``stopped_after`` where chains were."""
        found = super().diagnostics | {f"acceptance of {name}": share for name, share in self.acceptance.items()}
        return found | ({} if self.stopped_after is None else {"stopped_after": self.stopped_after})

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

    def latent_rows(self) -> DataFrame:
        """One draw of the latent rows, with the declared levels."""
        from dpgraph.inference.network.queries import rows_of

        return rows_of(self.network.domain, self._latent(), {})

    def _latent(self) -> FrozenMap[str, Integers]:
        if self.records is None:
            raise InferenceError(f'method {self.method!r} has no latent rows; use method="records"')
        return self.records

    def _said(self) -> str:
        return f"{len(self.tables)} variables"

    def _rows(self) -> list[dict[Any, Any]]:
        return [{"": name, "value": value} for name, value in self.diagnostics.items() if name != "reason"]


#: Bytes of a number in memory and in a file, and of all that one variable has besides.
IN_MEMORY, IN_FILE, BYTES_PER_VARIABLE = 8, 4, 6000
#: Numbers that are held at once while draws are made, for each number of the part that is made: drawn counts, their
#: concentrations and their Dirichlet draws on the way.
WORKING = 9


def draws_bytes(network: Network, draws: int, at_once: int) -> tuple[int, int]:
    """About how much so many draws take in memory: the draws, and ``at_once`` numbers in work while they are made."""
    kept = network.cell_count * draws * IN_MEMORY
    return kept, at_once * WORKING * IN_MEMORY + len(network.families) * BYTES_PER_VARIABLE


class HeldDraws:
    """Draws of every table given counts, axes (chain, draw, variable, *parents), and the tables' means."""

    def __init__(self, network: Network, draws: int, at_once: int) -> None:
        self.on_disk = check_draws(network, draws, at_once)
        self._network, self._draws, self._means = network, draws, dict[str, Any]()
        self._tables: dict[str, Any] = {}
        shapes = {name: (1, draws, *network.shape(network.family(name))) for name in network.domain.names}
        if not self.on_disk:
            self._tables = {name: np.empty(shape) for name, shape in shapes.items()}
            return
        with tempfile.TemporaryFile() as file:  # the mapping keeps it
            whole = np.memmap(file, np.float32, "w+", shape=(network.cell_count * draws,))
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
        parts = zip(shapes.items(), np.split(whole, ends), strict=True)
        self._tables = {name: part.reshape(shape) for (name, shape), part in parts}

    def draw(self, name: str, start: int, concentration: Reals, rng: np.random.Generator) -> None:
        """Draws one table, from draw ``start`` on, given prior plus counts, axes (draw, variable, *parents)."""
        values = dirichlet_draws(concentration, rng)
        self._tables[name][0, start : start + len(values)] = values
        mean = (concentration / concentration.sum(axis=1, keepdims=True)).sum(axis=0)
        self._means[name] = self._means.get(name, 0.0) + mean / self._draws

    def forget(self, names: Sequence[str]) -> None:
        """Makes room for other draws of some tables."""
        for name in names:
            del self._means[name]

    def finished(self, method: str) -> PosteriorDraws:
        """All draws, read-only."""
        for table in self._tables.values():
            table.setflags(write=False)
        return PosteriorDraws(self._network, FrozenMap(self._tables), method, means=FrozenMap(self._means))


def check_draws(network: Network, draws: int, at_once: int) -> bool:
    """Refuses draws without room in memory or on disk, before anything is charged; True if they go to a file."""
    kept, working = draws_bytes(network, draws, at_once)
    memory.check(working, "each step of these draws", "ask for fewer draws", InferenceError)
    if memory.fits(kept + working, InferenceError):
        return False
    needed = network.cell_count * draws * IN_FILE
    if needed > shutil.disk_usage(tempfile.gettempdir()).free:
        raise InferenceError(
            f"these draws would take about {memory.size(kept)} of memory or {memory.size(needed)} of the temporary "
            f"folder, which has less free: ask for fewer draws, or set {memory.VARIABLE} or TMPDIR"
        )
    return True
