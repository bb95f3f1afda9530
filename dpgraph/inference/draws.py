"""What draws from a posterior answer, whatever they are draws of, and when Markov chains are not to be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_whole_number, generator
from dpgraph.privacy.errors import ConvergenceWarning, PriorWarning
from dpgraph.privacy.records import Provenance

if TYPE_CHECKING:
    import pandas as pd

#: The R-hat above which, or the effective sample size below which, Markov chains are not trusted.
MOST_R_HAT, LEAST_SIZE = 1.05, 100.0
#: The share of an unknown's posterior that may be prior without a warning.
MOST_PRIOR = 0.5


@runtime_checkable
class Draws(Protocol):
    """Equally weighted draws from a posterior: a frozen dataclass with a field ``provenance``.

    Attributes:
        method: The name of the method that drew them.
        provenance: The release behind them, for whom it was made and whether its noise was private; else None.

    >>> from dpgraph.inference.expfam.draws import ParameterDraws
    >>> isinstance(ParameterDraws({"p": [0.2, 0.4]}, "exact", "as asked"), Draws)
    True
    """

    @property
    def method(self) -> str:
        """The name of the method."""
        ...

    @property
    def provenance(self) -> Provenance | None:
        """The release behind the draws."""
        ...

    def __len__(self) -> int:
        """How many draws there are, of all chains together."""
        ...

    def mean(self) -> Any:
        """The posterior mean: probabilities of a network, else a number for each parameter by its name."""
        ...

    def interval(self, probability: float = 0.9) -> Mapping[str, Any]:
        """Central credible intervals by name, the low end and the high end.

        Raises:
            InferenceError: If the probability is not strictly between 0 and 1.
        """
        ...

    def sample(self, rng: np.random.Generator | int, size: int = 1) -> tuple[Any, ...]:
        """Some of the draws, each of the form of ``mean``, at random and without repetition until all are used.

        Raises:
            InferenceError: If the size is not a whole number, at least 1.
        """
        ...

    def to_frame(self, probability: float = 0.9) -> pd.DataFrame:
        """A row for each unknown: what it is, and in the last four columns mean, sd, low and high."""
        ...

    @property
    def diagnostics(self) -> Mapping[str, Any]:
        """How the draws were made and how well the chains mixed; see ``diagnostics_of``."""
        ...


def diagnostics_of(
    draws: Any, *, chains: int = 1, r_hat: float | None = None, effective_size: float | None = None
) -> dict[str, Any]:
    """The entries that the diagnostics of all draws have.

    Args:
        draws: Draws, with a method and the reason for it.
        chains: How many chains there were.
        r_hat: The largest R-hat of any unknown; 1 for independent draws.
        effective_size: The smallest effective sample size of any unknown; of independent draws their number.
    """
    return {
        "method": draws.method,
        "reason": draws.reason,
        "chains": chains,
        "draws": len(draws),
        "r_hat": 1.0 if r_hat is None else r_hat,
        "effective_size": float(len(draws)) if effective_size is None else effective_size,
    }


def random_indices(count: int, rng: np.random.Generator | int, size: int) -> npt.NDArray[np.int64]:
    """Positions of some of ``count`` draws, without repetition until all are used; then all over again.

    Raises:
        InferenceError: If the size is not a whole number, at least 1, or rng is neither a generator nor a seed.
    """
    check_whole_number("size", size, 1)
    rounds, source = -(-size // count), generator(rng)
    return np.concatenate([source.permutation(count) for _ in range(rounds)])[:size]


def mixed(r_hat: float, effective_size: float) -> bool:
    """Whether chains are alike and long enough to speak for their posterior; not where either number is unknown.

    >>> mixed(1.01, 400.0), mixed(1.2, 400.0), mixed(1.01, float("nan"))
    (True, False, False)
    """
    return r_hat <= MOST_R_HAT and effective_size >= LEAST_SIZE


def mixing_note(diagnostics: Mapping[str, Any]) -> str:
    """A short note on Markov chains that have not mixed, for whatever shows their draws; empty where they have.

    Independent draws are never noted, however few.

    >>> mixing_note({"r_hat": 1.2, "effective_size": 40.0, "draws": 1000})
    'the chains have not mixed: R-hat 1.200, effective size 40'
    >>> mixing_note({"r_hat": 1.0, "effective_size": 20.0, "draws": 20})
    ''
    """
    worst, least = diagnostics["r_hat"], diagnostics["effective_size"]
    independent = worst == 1 and least == diagnostics["draws"]
    if independent or mixed(worst, least):
        return ""
    return f"the chains have not mixed: R-hat {worst:.3f}, effective size {least:.0f}"


def warn_if_not_mixed(diagnostics: Mapping[str, Any], *, stacklevel: int = 3) -> None:
    """Warns of Markov chains whose draws are too alike within a chain or too different between chains.

    Independent draws are never warned of, however few. Accuracy is at stake, not privacy.

    Warns:
        ConvergenceWarning: If R-hat is above 1.05, or the effective sample size below 100, or either is unknown.
    """
    if note := mixing_note(diagnostics):
        warnings.warn(
            f"{note}; ask for more draws, a longer "
            "burn_in (for a network method=dg.methods.Records(burn_in=2000, thin=5)), or another method. The posterior "
            "may be inaccurate; privacy is not at stake",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_if_mostly_prior(shares: Mapping[str, float], *, stacklevel: int = 3) -> None:
    """Warns of unknowns of whose posterior more is prior than release; it depends on the release alone.

    Args:
        shares: The share of each that is prior, 0 to 1; nan where it is not known.
        stacklevel: Whose line the warning names.

    Warns:
        PriorWarning: If a share is above a half.
    """
    above = [name for name, share in shares.items() if share > MOST_PRIOR]
    if above:
        named = ", ".join(above[:5]) + (", ..." if len(above) > 5 else "")
        warnings.warn(
            f"most of the posterior of {len(above)} of {len(shares)} coefficients is prior, as noise hides what the "
            f"rows say of them: {named}; coefficients_ has the share of each in its column prior. Spend more epsilon, "
            "declare narrower bounds or fewer columns, or state a prior that you believe",
            PriorWarning,
            stacklevel=stacklevel,
        )
