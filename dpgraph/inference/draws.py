"""Draws from a posterior: their summaries, and the rule by which Markov chains are not trusted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_whole_number, generator, tails
from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.privacy.display import DataFrame, as_html, data_frame, summary
from dpgraph.privacy.errors import ConvergenceWarning, PriorWarning
from dpgraph.privacy.records import Provenance
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.tables import Reals

#: The methods whose draws are Markov chains, even where there is one chain.
CHAINS = ("records", "tables", "counts", "gibbs", "hamiltonian")
#: The R-hat above which, or the effective sample size below which, Markov chains are not trusted.
MOST_R_HAT, LEAST_SIZE = 1.05, 100.0
#: The share of the entries that the diagnostics of chains speak of, and how many entries are judged.
JUDGED, MOST_JUDGED = 0.99, 1000
#: Numbers that are judged at once.
HELD = 1 << 16
#: The share of an unknown's posterior that may be prior without a warning.
MOST_PRIOR = 0.5
#: Names that are shown in one line.
SHOWN = 6


class Draws:
    """Equally weighted draws from a posterior, as named arrays with axes (chain, draw, ...).

    A family's draws are a frozen dataclass of this base: it has the fields below, returns ``arrays``, and gives
    them a meaning by ``read`` and ``labels``.

    Attributes:
        method: The name of the method that drew them.
        reason: The reason for the method.
        mixing: ``r_hat`` and ``effective_size`` of ``diagnostics`` where chains were judged when they were drawn, and
            ``chains`` where the draws are a selection of several; empty where they were not, and of independent draws.
        provenance: The release behind them, for whom it was made and whether its noise was private; else None.

    >>> drawn = ParameterDraws({"p": [0.2, 0.4]}, "exact")
    >>> drawn.mean(), drawn[1], drawn.diagnostics["effective_size"]
    ({'p': 0.30000000000000004}, {'p': 0.4}, 2.0)
    """

    method: str
    reason: str
    mixing: FrozenMap[str, float] = FrozenMap(())
    provenance: Provenance | None

    @property
    def arrays(self) -> Mapping[str, Reals]:
        """The draws of each unknown by its name, in the units that users read, axes (chain, draw, ...)."""
        raise NotImplementedError

    def read(self, arrays: Mapping[str, Reals]) -> Any:
        """One draw, or a mean of draws, as users read it: a number for each name."""
        return {name: float(value) for name, value in arrays.items()}

    def labels(self, name: str) -> list[dict[str, Any]]:
        """The first columns of ``to_frame`` for each entry of an array."""
        return [{"parameter": name}]

    @property
    def shape(self) -> tuple[int, int]:
        """How many chains, and how many draws each; independent draws form one chain."""
        chains, draws = next(iter(self.arrays.values())).shape[:2]
        return chains, draws

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: int) -> Any:
        """One draw, of the form of ``mean``, the chains one after another."""
        chain, draw = divmod(range(len(self))[index], self.shape[1])
        one = (slice(chain, chain + 1), slice(draw, draw + 1))
        return self.read({name: doubles(array[one])[0, 0] for name, array in self.arrays.items()})

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def flat(self, name: str) -> Reals:
        """All draws of one unknown, axes (draw, ...), the chains one after another."""
        array = doubles(self.arrays[name])
        return array.reshape(-1, *array.shape[2:])

    def mean(self) -> Any:
        """The posterior mean: probabilities of a network, else a number for each parameter by its name."""
        return self.read({name: self.flat(name).mean(axis=0) for name in self.arrays})

    def sample(self, rng: np.random.Generator | int, size: int = 1) -> tuple[Any, ...]:
        """Some of the draws, each of the form of ``mean``, at random and without repetition until all are used.

        Args:
            rng: Randomness for post-processing, or a seed for it; the release is already public.
            size: How many, at least 1.

        Raises:
            InferenceError: If the size is not a whole number, at least 1.
        """
        return tuple(self[int(index)] for index in random_indices(len(self), rng, size))

    def interval(self, probability: float = 0.9) -> dict[str, Any]:
        """Central credible intervals by name: the low end and the high end, of a table for each of its entries.

        Raises:
            InferenceError: If the probability is not strictly between 0 and 1.
        """
        ends = {name: np.quantile(self.flat(name), tails(probability), axis=0) for name in self.arrays}
        return {name: tuple(found.tolist()) if found.ndim == 1 else found for name, found in ends.items()}

    def to_frame(self, probability: float = 0.9) -> DataFrame:
        """A row for each entry: its labels, and in the last four columns mean, sd, low and high."""
        rows: list[dict[str, Any]] = []
        for name, ends in self.interval(probability).items():
            drawn = self.flat(name)
            numbers = np.stack([np.ravel(each) for each in (drawn.mean(axis=0), drawn.std(axis=0), *ends)], axis=1)
            for label, four in zip(self.labels(name), numbers.tolist(), strict=True):
                rows.append(label | dict(zip(("mean", "sd", "low", "high"), four, strict=True)))
        return data_frame(rows)

    @property
    def are_chains(self) -> bool:
        """True for draws of Markov chains, False for independent draws."""
        return self.method in CHAINS or self.shape[0] > 1

    @cached_property
    def r_hat(self) -> dict[str, Reals]:
        """The rank-normalised split R-hat of every entry by name (Vehtari et al. 2021)."""
        return {name: r_hat(array) for name, array in self.arrays.items()}

    @cached_property
    def effective_sizes(self) -> dict[str, Reals]:
        """The bulk effective sample size of every entry by name."""
        return {name: effective_size(array) for name, array in self.arrays.items()}

    @property
    def diagnostics(self) -> dict[str, Any]:
        """How the draws were made and how well the chains mixed.

        ``r_hat`` is the R-hat that 99 % of the entries do not exceed, ``effective_size`` the size that 99 % reach:
        among thousands some are beyond any threshold by chance. Of more than 1000 entries so many are judged, evenly
        spread, as each takes milliseconds; properties ``r_hat`` and ``effective_sizes`` have each entry's. Independent
        draws have no chains to compare: R-hat is 1 and every draw counts in full.
        """
        size, chains = len(self), int(self.mixing.get("chains", self.shape[0]))
        made = {"method": self.method, "reason": self.reason, "chains": chains, "draws": size}
        if self.mixing or not self.are_chains:
            return {**made, "r_hat": 1.0, "effective_size": float(size), **self.mixing, "chains": chains}
        flat = [array.reshape(*self.shape, -1) for array in self.arrays.values()]
        ends = np.cumsum([one.shape[2] for one in flat])
        places = np.linspace(0, ends[-1] - 1, min(int(ends[-1]), MOST_JUDGED)).astype(int)
        holders = np.searchsorted(ends, places, side="right")
        found: list[tuple[Reals, Reals]] = []
        for some in np.array_split(np.arange(places.size), math.ceil(places.size / max(1, HELD // size))):
            one = np.stack([flat[holders[i]][:, :, places[i] - ends[holders[i]]] for i in some], axis=2)
            found.append((r_hat(one), effective_size(one)))
        rates, sizes = (np.concatenate(each) for each in zip(*found, strict=True))
        made["r_hat"] = float(np.quantile(rates, JUDGED, method="higher"))
        return made | {"effective_size": float(np.quantile(sizes, 1 - JUDGED, method="lower"))}

    def judged(self) -> Any:
        """The same draws; of chains with how well they mixed, found once."""
        if self.mixing or not self.are_chains:
            return self
        found, own = self.diagnostics, self
        return replace(own, mixing=FrozenMap((name, found[name]) for name in ("r_hat", "effective_size")))  # type: ignore[type-var]

    @property
    def note(self) -> str:
        """A short note where chains were judged and have not mixed, else empty."""
        return mixing_note(self.diagnostics) if self.mixing else ""

    def _said(self) -> str:
        """The unknowns in a few words."""
        means, ends = self.mean(), self.interval()
        shown = [f"{name} {means[name]:.3g} [{ends[name][0]:.3g}, {ends[name][1]:.3g}]" for name in [*means][:SHOWN]]
        return ", ".join([*shown, f"{len(means) - SHOWN} more"] if len(means) > SHOWN else shown)

    def _rows(self) -> list[dict[Any, Any]]:
        """The rows that a notebook shows."""
        return self.to_frame().to_dict("records")

    def __repr__(self) -> str:
        chains, draws = self.shape
        made = f"method={self.method!r}", f"{chains} x {draws} draws", self.note or None
        return summary(type(self).__name__, self._said(), *made)

    def _repr_html_(self) -> str:
        return as_html(self, self._rows(), [note for note in (self.reason, self.provenance) if note])


@dataclass(frozen=True, repr=False)
class ParameterDraws(Draws):
    """Draws from the posterior of a family's parameters, each a number.

    Attributes:
        parameters: For each parameter an array of draws, shape (draws,), the chains one after another.
        method: ``"exact"``, ``"quadrature"``, ``"gibbs"`` or ``"plug-in"``.
        reason: The reason for the method.
        chains: How many chains drew them; 1 for independent draws.
        mixing: As in all draws.
        provenance: The release behind them.
        asked: The number of draws that count, where equally long chains have more; else None.
    """

    parameters: FrozenMap[str, Reals]
    method: str
    reason: str = "as asked"
    chains: int = 1
    mixing: FrozenMap[str, float] = field(default_factory=lambda: FrozenMap(()))
    provenance: Provenance | None = None
    asked: int | None = None

    def __post_init__(self) -> None:
        frozen = ((name, frozen_array(values, np.float64)) for name, values in self.parameters.items())
        object.__setattr__(self, "parameters", FrozenMap(frozen))

    @property
    def arrays(self) -> Mapping[str, Reals]:
        """The draws of each unknown by its name, axes (chain, draw, ...)."""
        return {name: values.reshape(self.chains, -1) for name, values in self.parameters.items()}

    def __len__(self) -> int:
        return self.asked or super().__len__()

    def flat(self, name: str) -> Reals:
        """The draws of one parameter that count, shape (draws,)."""
        return self.parameters[name][: len(self)]


def doubles(array: Reals) -> Reals:
    """Draws in doubles: as they are, or of tables in a file in single precision, whose columns sum to 1 again."""
    if not isinstance(array, np.memmap):
        return array
    read = np.asarray(array, np.float64)
    return read / read.sum(axis=2, keepdims=True)


def random_indices(count: int, rng: np.random.Generator | int, size: int) -> npt.NDArray[np.int64]:
    """Positions of some of ``count`` draws, without repetition until all are used; then all over again."""
    check_whole_number("size", size, 1)
    rounds, source = -(-size // count), generator(rng)
    return np.concatenate([source.permutation(count) for _ in range(rounds)])[:size]


def mixed(r_hat: float, effective_size: float) -> bool:
    """True for chains that are alike and long enough; not where either number is unknown."""
    return r_hat <= MOST_R_HAT and effective_size >= LEAST_SIZE


def mixing_note(diagnostics: Mapping[str, Any]) -> str:
    """A short note on Markov chains that have not mixed; empty where they have, and for independent draws."""
    worst, least = diagnostics["r_hat"], diagnostics["effective_size"]
    independent = worst == 1 and least == diagnostics["draws"]
    if independent or mixed(worst, least):
        return ""
    return f"the chains have not mixed: R-hat {worst:.3f}, effective size {least:.0f}"


def warn_if_not_mixed(diagnostics: Mapping[str, Any], *, stacklevel: int = 3) -> None:
    """Warns of Markov chains whose R-hat is above 1.05 or effective size below 100, or of which either is unknown.

    Chains that a limit of time stopped are warned of too.
    """
    if (seconds := diagnostics.get("stopped_after")) is not None:
        warnings.warn(
            f"the chains were stopped after {seconds:.0f} s with {diagnostics['draws']} draws in all, fewer than were "
            "asked for, as they take longer than was forecast or allowed; ask for fewer draws, another method, or "
            "method=dg.methods.Records(), which takes all the time that it needs. Privacy is not at stake",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    if note := mixing_note(diagnostics):
        warnings.warn(
            f"{note}; ask for more draws, a longer "
            "burn_in (for a network method=dg.methods.Records(burn_in=2000, thin=5)), or another method. The posterior "
            "may be inaccurate; privacy is not at stake",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_if_mostly_prior(shares: Mapping[str, float], *, stacklevel: int = 3) -> None:
    """Warns of unknowns more than half of whose posterior is prior; a share is nan where it is not known.

    Where noise decides, what rows say of a coefficient grows with the square of n epsilon: were the prior to stay, a
    share s of variance would be a half at sqrt(s / (1 - s)) times n epsilon; it is below, as the prior is learned too.
    """
    above = [name for name, share in shares.items() if share > MOST_PRIOR]
    if above:
        largest = max(shares[name] for name in above)
        more = math.sqrt(largest / (1 - largest)) if largest < 1 else math.inf
        times = f"about {more:.1f} times" if more < 10 else "more than ten times"
        named = ", ".join(above[:5]) + (", ..." if len(above) > 5 else "")
        warnings.warn(
            f"most of the posterior of {len(above)} of {len(shares)} coefficients is prior, as noise hides what the "
            f"rows say of them: {named}; coefficients_ has the share of each in its column prior. Spend more epsilon, "
            "declare narrower bounds or fewer columns, or state a prior that you believe. The largest share should be "
            f"below a half with {times} the rows, or {times} the epsilon",
            PriorWarning,
            stacklevel=stacklevel,
        )
