"""Draws from the posterior of a network's conditional probability tables, with convergence diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgraph.inference.arguments import tails
from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.inference.draws import diagnostics_of, mixing_note, random_indices
from dpgraph.inference.network.held_draws import doubles, read_only
from dpgraph.privacy.display import as_html
from dpgraph.privacy.records import InferenceError, Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Probabilities, Reals, Tables

if TYPE_CHECKING:
    import pandas as pd

#: The share of parameters that the diagnostics of chains speak of.
JUDGED = 0.99
#: The methods whose draws are chains.
CHAINS = ("records", "counts")


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Equally weighted draws of every conditional probability table, given what was released.

    Attributes:
        network: The DAG over its domain.
        tables: For each variable an array with axes (chain, draw, variable, *parents); columns sum to 1. Independent
            draws form one chain. Draws that memory has no room for are in a temporary file, in single precision:
            ``numpy.memmap``; ``flat`` reads those of one variable.
        method: Which sampler drew them: ``"tables"``, ``"records"`` or ``"normal"``; ``"counts"`` in a classifier.
        reason: Why that one.
        n: The number of latent rows in each draw, shape (chains, draws), where it is private; else None.
        records: The latent rows of the last draw of the first chain, a column of codes for each variable, where the
            method has them.
        acceptance: The share of accepted moves by their name, for a Markov chain.
        means: The posterior mean of each table where it is known better than the draws' average: the average of its
            mean given the latent counts of each draw.
        mixing: ``r_hat`` and ``effective_size`` of ``diagnostics``, where chains were judged when they were drawn;
            empty where they were not, and of independent draws. ``save`` keeps them.
        provenance: What was released, for whom, and whether the noise was private.
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
            frozen[name] = table if read_only(table) else frozen_array(table, np.float64)
            if frozen[name].shape[2:] != self.network.shape(self.network.family(name)):
                raise NetworkError(f"the draws of {name!r} have the wrong shape {frozen[name].shape}")
        if len({table.shape[:2] for table in frozen.values()}) != 1:
            raise NetworkError("every variable needs as many chains and draws as the others")
        object.__setattr__(self, "tables", FrozenMap(frozen))
        object.__setattr__(self, "acceptance", FrozenMap(dict(self.acceptance)))

    @property
    def shape(self) -> tuple[int, int]:
        """How many chains, and how many draws each."""
        chains, draws = next(iter(self.tables.values())).shape[:2]
        return chains, draws

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: int) -> Probabilities:
        """One draw as tables, the chains one after another."""
        chain, draw = divmod(range(len(self))[index], self.shape[1])
        one = (slice(chain, chain + 1), slice(draw, draw + 1))
        tables = FrozenMap((name, doubles(table[one])[0, 0]) for name, table in self.tables.items())
        return Probabilities(self.network, tables, self.provenance)

    def __iter__(self) -> Iterator[Probabilities]:
        return (self[index] for index in range(len(self)))

    def flat(self, name: str) -> Reals:
        """All draws of one table, axes (draw, variable, *parents)."""
        self.network.domain[name]
        table = doubles(self.tables[name])
        return table.reshape(-1, *table.shape[2:])

    def mean(self) -> Probabilities:
        """The posterior mean of every table."""
        found = self.means or {name: self.flat(name).mean(axis=0) for name in self.tables}
        means = FrozenMap((name, _columns(table)) for name, table in found.items())
        return Probabilities(self.network, means, self.provenance)

    def sample(self, rng: np.random.Generator | int, size: int = 1) -> tuple[Probabilities, ...]:
        """Some of the draws, picked at random without repetition until all are used; then all over again.

        Args:
            rng: Randomness for post-processing, or a seed for it; the release is already public.
            size: How many, at least 1.

        Raises:
            InferenceError: If the size is not a whole number, at least 1.
        """
        return tuple(self[int(index)] for index in random_indices(len(self), rng, size))

    def interval(self, probability: float = 0.9) -> dict[str, Reals]:
        """Equal-tailed credible intervals of every entry: axes (low and high, variable, *parents).

        Raises:
            InferenceError: If the probability is not strictly between 0 and 1.
        """
        ends = tails(probability)
        return {name: np.quantile(self.flat(name), ends, axis=0) for name in self.tables}

    @cached_property
    def r_hat(self) -> dict[str, Reals]:
        """The rank-normalised split R-hat of every entry (Vehtari et al. 2021), axes (variable, *parents)."""
        return {name: r_hat(table) for name, table in self.tables.items()}

    @cached_property
    def effective_sizes(self) -> dict[str, Reals]:
        """The bulk effective sample size of every entry, axes (variable, *parents)."""
        return {name: effective_size(table) for name, table in self.tables.items()}

    @property
    def diagnostics(self) -> dict[str, Any]:
        """How the draws were made and how well the chains mixed.

        ``r_hat`` is the R-hat that 99 % of the parameters do not exceed, and ``effective_size`` what 99 % reach: among
        thousands some are beyond any threshold by chance. Below a hundred parameters these are the worst; those of
        each parameter are in ``draws.r_hat`` and ``draws.effective_sizes``. Independent draws have no chains to
        compare: R-hat is 1 and every draw counts in full.
        """
        accepted = {f"acceptance of {name}": share for name, share in self.acceptance.items()}
        if self.method not in CHAINS:
            return diagnostics_of(self) | accepted
        if self.mixing:
            return diagnostics_of(self, chains=self.shape[0], **self.mixing) | accepted
        worst = np.quantile(_flat(self.r_hat), JUDGED, method="higher")
        least = np.quantile(_flat(self.effective_sizes), 1 - JUDGED, method="lower")
        return diagnostics_of(self, chains=self.shape[0], r_hat=float(worst), effective_size=float(least)) | accepted

    def judged(self) -> PosteriorDraws:
        """The same draws; of chains with how well they mixed, found once."""
        if self.method not in CHAINS or self.mixing:
            return self
        found = self.diagnostics
        return replace(self, mixing=FrozenMap((name, found[name]) for name in ("r_hat", "effective_size")))

    @property
    def note(self) -> str:
        """A short note where chains were judged and have not mixed, else empty."""
        return mixing_note(self.diagnostics) if self.mixing else ""

    def to_frame(self, probability: float = 0.9) -> pd.DataFrame:
        """A row for each entry of each table: mean, standard deviation and the credible interval."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        intervals = self.interval(probability)
        for name in self.tables:
            draws, (low, high) = self.flat(name), intervals[name]
            family = self.network.family(name)
            for index in np.ndindex(draws.shape[1:]):
                levels = [self.network.domain.levels(v)[i] for v, i in zip(family, index, strict=True)]
                given = ", ".join(f"{v}={level}" for v, level in zip(family[1:], levels[1:], strict=True))
                values = draws[(slice(None), *index)]
                row = {"variable": name, "level": levels[0], "given": given, "mean": values.mean(), "sd": values.std()}
                rows.append(row | {"low": low[index], "high": high[index]})
        return pd.DataFrame(rows)

    def latent_tables(self) -> Tables:
        """The family tables of one draw of the latent rows: whole, non-negative, and those of one possible data set.

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

    def _latent(self) -> dict[str, Integers]:
        if self.records is None:
            raise InferenceError(f'method {self.method!r} has no latent rows; use method="records"')
        return dict(self.records)

    def __repr__(self) -> str:
        chains, draws = self.shape
        note = f"; {self.note}" if self.note else ""
        return f"PosteriorDraws({len(self.tables)} variables, method={self.method!r}, {chains} x {draws} draws{note})"

    def _repr_html_(self) -> str:
        rows = [{"": name, "value": value} for name, value in self.diagnostics.items() if name != "reason"]
        notes = [note for note in (self.note, self.reason, self.provenance) if note]
        return as_html(self, rows, notes)


def _flat(tables: Mapping[str, Reals]) -> Reals:
    """The entries of all tables, one after another."""
    return np.concatenate([table.reshape(-1) for table in tables.values()])


def _columns(table: Reals) -> Reals:
    """Columns that sum to 1 to the last digit."""
    return table / table.sum(axis=0)
