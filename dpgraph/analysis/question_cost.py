"""How wide the interval of an answer will be, before any data: by simulated data sets of a network, no row read.

Each simulated world has rows from public probabilities, a release of them as it would be made, the noise-aware
posterior and the answer. Its budget is made for the purpose and protects nobody.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dpgraph.analysis.candidates import mechanism_named
from dpgraph.inference.chains import progress_bar
from dpgraph.inference.methods import Records, Tables
from dpgraph.inference.network.by_records import tables_given_counts
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.posterior import DEFAULT_PRIOR
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.inference.posterior import posterior
from dpgraph.inference.queries.asking import query
from dpgraph.inference.queries.tables import UNDERFLOWN, DrawnTables
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.checks import Integers, Reals, check_whole, near
from dpgraph.privacy.display import DataFrame, data_frame, escaped
from dpgraph.privacy.errors import ConvergenceWarning, ReleaseError
from dpgraph.privacy.records import Number, PrivacyUnit, exact, exact_delta
from dpgraph.privacy.release import release
from dpgraph.statistics.counts import count
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

#: Draws of each simulated posterior: the ends of its interval are known to a tenth of a deviation.
DRAWS = 400
#: What ``query`` takes besides the model.
SETTINGS = ("target", "given", "do", "interval")
#: Seconds of a sweep for each row and level, and the most that chains of one world may take.
SECONDS_PER_STEP, PATIENCE = 24e-9, 10.0
#: Short chains, several of them: where they have not mixed, what lies between them is in the width.
CHAINS = Records(chains=4, burn_in=400, thin=8)
#: The factor between two epsilons that are tried, and the largest and least, in a search for a width.
STEP, MOST_EPSILON, LEAST_EPSILON = 2, Fraction(1024), Fraction(1, 1024)


@dataclass(frozen=True, eq=False, repr=False)
class QuestionCost:
    """The expected width of an answer's interval.

    Attributes:
        question: The question in words.
        truth: The public probabilities that stand for the data.
        n: The number of rows.
        epsilon, delta, unit: The promise.
        widths: A row for each entry of the answer: its labels, ``width``, the mean over simulated data sets of
            high - low, ``se`` its Monte Carlo standard error, ``without noise``, the same from exact counts under the
            same prior, and ``noise``, the share of the squared width that is noise's.
        interval: The probability of the intervals.
        worlds: How many data sets were simulated.
    """

    question: str
    truth: Probabilities
    asked: Mapping[str, Any]
    n: int
    epsilon: Fraction
    delta: Fraction
    unit: PrivacyUnit
    mechanism: str
    worlds: int
    seed: int
    widths: DataFrame

    @property
    def interval(self) -> float:
        """The probability of the intervals."""
        return float(self.asked.get("interval", 0.9))

    @cached_property
    def width(self) -> float:
        """The expected width of the widest entry's interval."""
        return float(self.widths["width"].to_numpy().max())

    @cached_property
    def without_noise(self) -> float:
        """The expected width from exact counts, whatever epsilon."""
        return float(self.widths["without noise"].to_numpy().max())

    def __repr__(self) -> str:
        blame = "noise" if self.width**2 > 2 * self.without_noise**2 else "the number of rows"
        return (
            f"{escaped(self.question)}, n = {self.n}, epsilon {float(self.epsilon):g}: a {self.interval:.0%} interval "
            f"is expected to be {self.width:.3g} wide; {self.without_noise:.3g} without noise, so most of it is due "
            f"to {blame}"
        )

    def epsilon_for(self, width: float, *, progress: bool = False) -> float:
        """The least epsilon at which no interval is expected to be wider, to about a tenth: by simulation too.

        Widths at doublings of epsilon are simulated until two enclose the one that is asked for, which is interpolated
        on a log scale.

        Args:
            width: High less low, above 0; a half-width of two points is ``0.04``.
            progress: A bar on a terminal.

        Raises:
            ReleaseError: If the width is not above 0, or no epsilon is enough because n rows leave more open.

        >>> from dpgraph.files.networks import read_network
        >>> found = question_cost(read_network("example:asia"), {"target": {"lung": "yes"}}, n=500, epsilon=1, worlds=2)
        >>> found.epsilon_for(0.0001)
        Traceback (most recent call last):
        ...
        dpgraph.privacy.errors.ReleaseError: no epsilon is enough...
        """
        if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
            raise ReleaseError(f"width must be a finite number above 0; got {width!r}")
        if width < self.without_noise:
            rows = math.ceil(self.n * (self.without_noise / width) ** 2)
            raise ReleaseError(
                f"no epsilon is enough for a width of {width:.3g}: {self.n} rows alone leave {self.without_noise:.3g}; "
                f"more than {rows} rows are needed"
            )
        before = here = self.epsilon
        seen = {here: self.width}
        grows = self.width > width
        while (seen[here] > width) == grows:
            before, here = here, here * STEP if grows else here / STEP
            if not LEAST_EPSILON <= here <= MOST_EPSILON:
                raise ReleaseError(
                    f"at epsilon {float(before):g} the width is still {seen[before]:.3g}; none further is tried"
                )
            seen[here] = self.at(here, progress=progress).width
        low, high = sorted((before, here))
        share = math.log(seen[low] / width) / math.log(seen[low] / seen[high])
        return float(low) * (float(high) / float(low)) ** share

    def curve(self, epsilons: Sequence[Number], ns: Sequence[int] | None = None) -> DataFrame:
        """The expected width of the widest entry at each epsilon and each number of rows, with and without noise.

        Args:
            epsilons: The budgets.
            ns: Numbers of rows; by default the report's own.

        Raises:
            ReleaseError: If one of them is out of range.
        """
        found = [self.at(epsilon, n=n) for n in ([self.n] if ns is None else ns) for epsilon in epsilons]
        rows = [(float(one.epsilon), one.n, one.width, one.without_noise) for one in found]
        return data_frame(rows, columns=["epsilon", "n", "width", "without noise"])

    def at(self, epsilon: Number, *, n: int | None = None, progress: bool = False) -> QuestionCost:
        """The same question at another epsilon, or another number of rows."""
        settings: Any = {name: getattr(self, name) for name in ("delta", "unit", "mechanism", "worlds", "seed")}
        rows = self.n if n is None else n
        return question_cost(self.truth, self.asked, n=rows, epsilon=epsilon, progress=progress, **settings)


def question_cost(
    network: Network | Probabilities,
    question: Mapping[str, Any],
    *,
    n: int,
    epsilon: Number,
    delta: Number = 0,
    unit: PrivacyUnit | None = None,
    mechanism: str = "auto",
    worlds: int = 4,
    seed: int = 0,
    progress: bool = False,
) -> QuestionCost:
    """The expected width of an answer's interval at a budget and a number of rows, before any data.

    Posteriors are those of ``method="auto"`` where chains take a few seconds a world, and by ``"tables"`` where they
    would take longer: wider, by how much depends on the network. Rows and posteriors of the ``worlds``, at least 2,
    repeat with the seed; the noise is the release's own, which has no seed, so widths repeat to about ``se``.

    >>> from dpgraph.files.networks import read_network
    >>> asked = {"target": {"lung": "yes"}, "given": {"smoke": "yes"}}
    >>> found = question_cost(read_network("example:asia"), asked, n=500, epsilon=1, worlds=2)
    >>> found.question, list(found.widths.columns)
    ('P(lung=yes | smoke=yes)', ['event', 'width', 'se', 'without noise', 'noise'])
    """
    check_whole("n", n)
    check_whole("worlds", worlds, 2)
    budget, slack, protected = exact(epsilon), exact_delta(delta), checked_unit(unit)
    truth = network if isinstance(network, Probabilities) else uniform(network)
    asked = checked_question(question)
    blank = query(truth, **asked)
    chosen = mechanism_named(mechanism, truth.network, epsilon=budget, delta=slack, unit=protected)
    noisy, plain = [], []
    with progress_bar(progress, worlds, "simulated data sets") as tell:
        for world, children in enumerate(np.random.SeedSequence(seed).spawn(worlds)):
            one, other = _widths(truth, asked, chosen, n, protected, np.random.default_rng(children))
            noisy.append(one)
            plain.append(other)
            if tell is not None:
                tell(world)
    frame, each, without = blank.to_frame()[list(blank.columns)], np.array(noisy), np.mean(plain, axis=0)
    width, se = each.mean(axis=0), each.std(axis=0, ddof=1) / math.sqrt(worlds)
    noise = np.clip(1 - (without / np.maximum(width, 1e-300)) ** 2, 0, 1)
    widths = frame.assign(**{"width": width, "se": se, "without noise": without, "noise": noise})
    settings = (truth, asked, n, budget, slack, protected, mechanism, worlds, seed)
    return QuestionCost(blank.question, *settings, widths)


def uniform(network: Network) -> Probabilities:
    """The probabilities that stand for a bare DAG: all levels alike."""
    sizes = network.domain.sizes
    tables = FrozenMap((name, np.full(network.shape(network.family(name)), 1 / sizes[name])) for name in sizes)
    return Probabilities(network, tables)


def checked_question(question: Any) -> dict[str, Any]:
    """A question as ``query`` takes it, or a ReleaseError if it has no target or an unknown setting."""
    if not isinstance(question, Mapping) or "target" not in question:
        raise ReleaseError(
            'question must be a mapping with a target, such as {"target": "work", "given": {"sex": "F"}}'
        )
    unknown = [key for key in question if key not in SETTINGS]
    if unknown:
        hint = near(unknown[0], SETTINGS)
        raise ReleaseError(f"a question has {', '.join(SETTINGS)}; got {unknown[0]!r:.60}{hint}")
    return dict(question)


def _widths(
    truth: Probabilities, asked: Mapping[str, Any], mechanism: Any, n: int, unit: PrivacyUnit, rng: np.random.Generator
) -> tuple[Reals, Reals]:
    """The widths of one simulated data set's intervals: from a release of it, and from its exact counts."""
    network = truth.network
    counts = count(Codes(network.domain, FrozenMap(sample_codes(truth, n, rng))), network)
    event = mechanism.event(network, unit)
    made = release(counts, mechanism, budget=Budget(event.epsilon, event.delta, unit=unit))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        method = _method(network, n)
        each = DRAWS // (method.chains if isinstance(method, Records) else 1)
        draws = posterior(made, method=method, draws=each, seed=rng)
    exact = {name: counts.sensitive_margin(network.family(name)) for name in network.domain.names}
    answers = query(draws, **asked), query(_known(network, exact, n, rng), **asked)
    first, second = (answer.high - answer.low for answer in answers)
    return first, second


def _known(network: Network, exact: Mapping[str, Integers], n: int, rng: np.random.Generator) -> Any:
    if isinstance(_method(network, n), Records):
        drawn = tables_given_counts(network, HierarchicalPrior(), exact, rng, DRAWS)
        return DrawnTables(network, {name: np.maximum(table, UNDERFLOWN) for name, table in drawn.items()})
    return DirichletPosterior(
        network, FrozenMap((name, DEFAULT_PRIOR + table.astype(np.float64)) for name, table in exact.items())
    )


def _method(network: Network, n: int) -> Records | Tables:
    """Chains of records, as ``"auto"`` has them, where these take seconds; else tables, a little wider."""
    sweeps = CHAINS.burn_in + DRAWS // CHAINS.chains * CHAINS.thin
    seconds = n * sum(network.domain.sizes.values()) * sweeps * SECONDS_PER_STEP
    return CHAINS if seconds <= PATIENCE else Tables()
