"""Simulation-based calibration: is a posterior on a network right?

If it is, the rank of each true parameter among its posterior draws is uniform (Cook, Gelman and Rubin 2006; Bernstein
and Sheldon 2018, section 4). The verdict is over all parameters at once: worlds in which a posterior draw stands in for
the truth keep the dependence between them (proofs.md P64).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.audit.checks import FALSE_ALARM as AUDIT_FALSE_ALARM
from dpgraph.audit.checks import Check, Clock
from dpgraph.inference.arguments import check_no_rules, tails
from dpgraph.inference.methods import Automatic, PlugIn, Records, method_name
from dpgraph.inference.network.by_records import tables_given_counts
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.posterior import METHODS, read_prior
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.inference.posterior import posterior
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import ConvergenceWarning, DPGraphError, InferenceError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.privacy.release import release
from dpgraph.privacy.seeded_noise import SeededNoise
from dpgraph.statistics.counts import count
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers
from dpgraph.waiting import counted, result_of, waiting

#: Chains where a method is named: one, of few correlated draws, as ranks among correlated draws are not uniform.
ONE_CHAIN = {"records": Records(chains=1, thin=5), "auto": Automatic(records=Records(chains=1, thin=5))}
#: Kolmogorov's critical values over sqrt(trials), with Stephens' correction for a finite number.
_CRITICAL = {0.05: 1.358, 0.01: 1.628}
#: The chance that the verdict on a right posterior is bad, half of it for each of the two tests; and worlds for them.
FALSE_ALARM, WORLDS = 0.05, 1000
SEES = (
    "a posterior that is too sure or too timid of a parameter, or of many a little, by more than the limits given with "
    "what was found."
)
BLIND = (
    "privacy: a calibrated posterior may leak all. Smaller errors, other numbers of rows, other priors than the one "
    "the tables were drawn from, rows that are not from the network."
)
#: Fewer worlds say nothing at so small a false alarm.
FEWEST = 20
#: The central interval whose coverage over all parameters is judged.
CENTRAL = 0.9


@dataclass(frozen=True, eq=False)
class Calibration:
    """The results of simulation-based calibration.

    Attributes:
        parameters: A row for each free parameter: Kolmogorov-Smirnov distance of its ranks from uniform, coverage of
            central 90 % intervals, root mean squared error of the posterior mean, and mean width of the intervals.
        ranks: The ranks, each in (0, 1), shape (trials, parameters).
        draws: How many posterior draws each rank is among.
        method: The posterior that was checked.
        mmd: The squared maximum mean discrepancy between a draw of each posterior and one of the posterior given the
            exact counts (unbiased; Bernstein and Sheldon 2018, section 4.1): near 0 where little is lost to privacy.
        null: The values of a right posterior with this dependence between parameters, from worlds in which a
            posterior draw stands in for the truth: ``share_beyond`` and ``worst`` of each, shape (worlds, 2).
    """

    parameters: DataFrame
    ranks: Reals
    draws: int
    method: str
    mmd: float
    null: Reals

    @property
    def trials(self) -> int:
        """How many data sets were simulated."""
        return len(self.ranks)

    @property
    def mean_ks(self) -> float:
        """The mean distance over the parameters; about 0.87 / sqrt(trials) for a perfect posterior."""
        return float(np.mean(self.parameters["ks"]))

    @property
    def coverage(self) -> float:
        """The mean coverage of 90 % intervals."""
        return float(np.mean(self.parameters["coverage"]))

    @property
    def rmse(self) -> float:
        """The root mean squared error of the posterior mean over all parameters."""
        return float(np.sqrt(np.mean(np.square(self.parameters["rmse"]))))

    @property
    def share_beyond(self) -> float:
        """The share of parameters whose distance is beyond their own 5 % critical value: 5 % for a right posterior."""
        return float(np.mean(self.parameters["ks"] > self.critical(0.05)))

    @property
    def worst(self) -> float:
        """The largest distance over the parameters."""
        return float(np.max(self.parameters["ks"]))

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The values that ``share_beyond`` and ``worst`` of a right posterior exceed with a chance of 2.5 % each."""
        share, worst = np.quantile(self.null, 1 - FALSE_ALARM / 2, axis=0, method="higher")
        return float(share), float(worst)

    def covered(self, probability: float) -> float:
        """How often central intervals of a probability hold the truth, over all parameters; as often if all is right.

        It is read off the ranks, so that a few posterior draws do not make the intervals short.

        Raises:
            InferenceError: If the probability is not strictly between 0 and 1.
        """
        low, high = tails(probability)
        return float(np.mean((self.ranks > low) & (self.ranks < high)))

    def critical(self, level: float = 0.05) -> float:
        """The distance that the ranks of one parameter exceed with probability ``level`` if the posterior is right."""
        return critical_distance(self.trials, level)

    @property
    def calibrated(self) -> bool:
        """True if share and worst are both within ``limits``. A right posterior fails one or both in 5 % of studies."""
        share, worst = self.limits
        return self.share_beyond <= share and self.worst <= worst

    @property
    def verdict(self) -> str:
        """Both tests in words."""
        share, worst = self.limits
        said = "no sign of miscalibration" if self.calibrated else "not calibrated"
        return (
            f"{said}: {self.share_beyond:.1%} of {len(self.parameters)} parameters are beyond their own 5 % critical "
            f"value (a right posterior: up to {share:.1%}), and the largest distance is {self.worst:.3f} "
            f"(up to {worst:.3f})"
        )

    def __repr__(self) -> str:
        return (
            f"Calibration(method={self.method!r}, trials={self.trials}, {self.verdict}; "
            f"coverage={self.coverage:.3f}, rmse={self.rmse:.3f})"
        )


def calibration(
    network: Network,
    mechanism: Any,
    *,
    prior: float | str | HierarchicalPrior = 1.0,
    n: int = 1000,
    trials: int = 200,
    unit: PrivacyUnit | None = None,
    method: Any = "auto",
    draws: int = 100,
    seed: int = 0,
    workers: int = 1,
    progress: bool = False,
) -> Calibration:
    """Simulation-based calibration of a posterior on a network.

    Args:
        network: The DAG over its domain.
        mechanism: How a release is made, such as ``LaplaceMechanism(0.5)``.
        prior: The Dirichlet concentration, of the simulated tables and of the posterior; or ``HierarchicalPrior(...)``,
            by name ``"hierarchical"``, for records and exact counts.
        n: Rows of each simulated data set.
        trials: Simulated data sets.
        unit: Whom the release protects; one replaced row by default.
        method: A method of ``posterior``, its chains by name one chain thinned by five;
            ``"plug-in"``, which takes noisy counts as exact; or ``"exact-counts"``, the posterior without privacy,
            to compare with.
        draws: Posterior draws in each trial; the ranks have as many steps.
        seed: A whole number; the study repeats with the same one.
        workers: Threads that share the trials.
        progress: A bar on a terminal.

    Raises:
        InferenceError: If a setting is out of range.

    >>> from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    >>> coin = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> calibration(coin, LaplaceMechanism(0.1), n=100, trials=100, method="tables").calibrated
    True
    >>> calibration(coin, LaplaceMechanism(0.1), n=100, trials=100, method="plug-in").calibrated
    False
    """
    check_no_rules(network, "a calibration", "calibrate the network without rules=")
    hierarchy, cells = read_prior(prior)
    if hierarchy is not None and method == "plug-in":
        raise InferenceError("prior must be a number for method 'plug-in'")
    for name, value, least in (("n", n, 0), ("trials", trials, 2), ("draws", draws, 2), ("workers", workers, 1)):
        check_whole(name, value, least, error=InferenceError)
    study = _Study(
        network, mechanism, cells if hierarchy is None else hierarchy, n, unit or PrivacyUnit(), method, draws, seed
    )
    study.mechanism.event(network, study.unit)
    seeds = np.random.SeedSequence(seed).spawn(trials)
    with waiting("calibrating", progress), ThreadPoolExecutor(workers) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so few draws cannot show it; the ranks will
        try:
            outcomes = [result_of(work) for work in counted([pool.submit(study.trial, one) for one in seeds])]
        finally:
            pool.shutdown(cancel_futures=True)
    return study.summary(outcomes)


@dataclass(frozen=True, eq=False)
class _Study:
    """The settings of a calibration."""

    network: Network
    mechanism: Any
    prior: float | HierarchicalPrior
    n: int
    unit: PrivacyUnit
    method: Any
    draws: int
    seed: int

    def trial(self, seed: np.random.SeedSequence) -> dict[str, npt.NDArray[Any]]:
        """Ranks the truth, and each draw (``places``), among the draws of a simulated data set, by parameter."""
        rng = np.random.default_rng(seed)
        if isinstance(self.prior, HierarchicalPrior):
            truth = self.prior.sample(self.network, rng)
        else:
            law = DirichletPosterior(self.network, FrozenMap(concentration_tables(self.network, self.prior)))
            truth = law.sample(rng)[0]
        counts = count(Codes(self.network.domain, FrozenMap(sample_codes(truth, self.n, rng))), self.network)
        exact = {name: counts.sensitive_margin(self.network.family(name)) for name in self.network.domain.names}
        reference = self._known(exact, rng, 1)[0]
        drawn = self._draws(counts, exact, rng)
        values = self._flat({name: truth.table(name)[None] for name in self.network.domain.names})[0]
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        below = (drawn < values).sum(axis=0)
        return {
            "truth": values,
            "rank": (below + rng.random(values.size)) / (len(drawn) + 1),
            "places": drawn.argsort(axis=0).argsort(axis=0).astype(np.int32),
            "inside": (low <= values) & (values <= high),
            "width": high - low,
            "mean": drawn.mean(axis=0),
            "draw": drawn[rng.integers(len(drawn))],
            "reference": reference,
        }

    def _known(self, exact: Mapping[str, Integers], rng: np.random.Generator, draws: int) -> Reals:
        """Draws of the free parameters given the exact counts of every family, shape (draws, parameters)."""
        if isinstance(self.prior, HierarchicalPrior):
            return self._flat(tables_given_counts(self.network, self.prior, exact, rng, draws))
        law = DirichletPosterior(
            self.network, FrozenMap((name, self.prior + table.astype(float)) for name, table in exact.items())
        )
        return self._flat(law.sample_tables(rng, draws))

    def _draws(self, counts: Any, exact: Mapping[str, Integers], rng: np.random.Generator) -> Reals:
        """Posterior draws of the free parameters, shape (draws, parameters)."""
        if self.method == "exact-counts":
            return self._known(exact, rng, self.draws)
        event = self.mechanism.event(self.network, self.unit)
        budget = Budget(event.epsilon, event.delta, unit=self.unit)
        noise: Any = SeededNoise(int(rng.integers(2**62)))
        noisy = release(counts, self.mechanism, budget=budget, noise=noise)
        if self.method == "plug-in":
            plug_in: Any = posterior(noisy, prior=self.prior, method=PlugIn("clipped"))
            return self._flat(plug_in.sample_tables(rng, self.draws))
        method = ONE_CHAIN.get(self.method, self.method) if isinstance(self.method, str) else self.method
        found: Any = posterior(noisy, prior=self.prior, method=method, draws=self.draws, seed=rng)
        return self._flat({name: found.flat(name) for name in self.network.domain.names})

    def _flat(self, drawn: Mapping[str, Reals]) -> Reals:
        """The free parameters of draws of every table, axes (draw, variable, *parents)."""
        tables = [np.moveaxis(drawn[name][:, :-1], 1, -1) for name in self.network.domain.names]
        return np.concatenate([table.reshape(len(table), -1) for table in tables], axis=1)

    def summary(self, outcomes: list[dict[str, npt.NDArray[Any]]]) -> Calibration:
        """Distances, coverages and errors over all trials."""

        def gathered(field: str) -> Reals:
            return np.stack([outcome[field] for outcome in outcomes]).astype(float)

        ranks = gathered("rank")
        names: list[tuple[str, Any, str]] = []
        for name in self.network.domain.names:
            family, levels = self.network.family(name), self.network.domain.levels
            for place in np.ndindex(*self.network.shape(family[1:])):
                given = ", ".join(f"{v}={levels(v)[i]}" for v, i in zip(family[1:], place, strict=True))
                names += [(name, level, given) for level in levels(name)[:-1]]
        frame = data_frame(names, columns=["variable", "level", "given"])
        frame["ks"] = _uniform_distance(ranks)
        frame["coverage"] = gathered("inside").mean(axis=0)
        frame["rmse"] = np.sqrt(((gathered("mean") - gathered("truth")) ** 2).mean(axis=0))
        frame["width"] = gathered("width").mean(axis=0)
        mmd = discrepancy(gathered("draw"), gathered("reference"))
        null = null_of([outcome["places"] for outcome in outcomes], np.random.default_rng(self.seed))
        name = self.method if isinstance(self.method, str) else method_name(self.method, METHODS)
        return Calibration(frame, ranks, self.draws, name, mmd, null)


def critical_distance(trials: int, level: float = 0.05) -> float:
    """The distance that uniform ranks of one parameter exceed with probability ``level``."""
    if level not in _CRITICAL:
        raise InferenceError(f"level must be 0.05 or 0.01; got {level!r}")
    root = math.sqrt(trials)
    return _CRITICAL[level] / (root + 0.12 + 0.11 / root)


def null_of(places: Sequence[npt.NDArray[np.int32]], rng: np.random.Generator, worlds: int = WORLDS) -> Reals:
    """Share of parameters beyond their 5 % value, and largest distance, where picked draws are the truth, by world."""
    found, limit = np.empty((worlds, 2)), critical_distance(len(places))
    for world in range(worlds):
        chosen = np.stack([mine[rng.integers(len(mine))] for mine in places])
        steps = np.array([len(mine) for mine in places])[:, None]
        distance = _uniform_distance((chosen + rng.random(chosen.shape)) / steps)
        found[world] = np.mean(distance > limit), distance.max()
    return found


def _uniform_distance(ranks: Reals) -> Reals:
    """The Kolmogorov-Smirnov distance of each column from uniform."""
    ordered, steps = np.sort(ranks, axis=0), np.arange(1, len(ranks) + 1)[:, None] / len(ranks)
    return np.maximum(steps - ordered, ordered - steps + 1 / len(ranks)).max(axis=0)


def discrepancy(one: Reals, other: Reals) -> float:
    """The unbiased squared maximum mean discrepancy of paired samples, shape (samples, dimensions) (proofs.md P64)."""
    from scipy.spatial.distance import cdist

    width = np.median(cdist(one, other)) ** 2
    width = width if width > 0 else 1.0
    within = [np.exp(-cdist(sample, sample, "sqeuclidean") / width) for sample in (one, other)]
    across = np.exp(-cdist(one, other, "sqeuclidean") / width)
    pairs = within[0] + within[1] - across - across.T
    np.fill_diagonal(pairs, 0.0)
    return float(pairs.sum() / (len(one) * (len(one) - 1)))


def calibration_check(
    network: Network, mechanism: Any, *, unit: PrivacyUnit, n: int, worlds: int, clock: Clock, seed: int = 0
) -> Check:
    """Calibrates the posterior of a mechanism's releases on as many worlds of n rows as there is time for."""
    blank = Check("calibration", repr(mechanism), "not possible", "", SEES, BLIND)
    study = _Study(network, mechanism, 1.0, n, unit, "auto", 50, seed)
    ranks: list[Reals] = []
    words = f"{worlds} worlds are fewer than {FEWEST}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so few draws cannot show it; the ranks will
            first, *others = np.random.SeedSequence(seed).spawn(worlds + 1)
            study.trial(first)  # loads and compiles
            before = clock.spent
            for world in others:
                if clock.left == 0 and len(ranks) >= FEWEST:
                    break
                ranks.append(study.trial(world)["rank"])
                each = (clock.spent - before) / len(ranks)
                if len(ranks) <= FEWEST and each * (FEWEST - len(ranks)) > clock.left:
                    ranks, words = [], f"a world takes {each:.2g} s: {FEWEST} do not fit into {clock.seconds:.0f} s"
                    break
    except DPGraphError as error:
        ranks, words = [], f"{error}"
    if len(ranks) < FEWEST:
        return replace(blank, found=words, seconds=clock.spent)
    return replace(judged_ranks(np.array(ranks), blank), seconds=clock.spent)


def judged_ranks(ranks: Reals, blank: Check, share: float = AUDIT_FALSE_ALARM / 2) -> Check:
    """The verdict on ranks, shape (worlds, parameters): a right posterior fails with a chance of at most ``share``."""
    from scipy.special import smirnovi

    trials, parameters = ranks.shape
    farthest, worst = float(smirnovi(trials, share / 4 / parameters)), float(_uniform_distance(ranks).max())
    inside = (ranks > (1 - CENTRAL) / 2) & (ranks < (1 + CENTRAL) / 2)
    covered, (low, high) = float(inside.mean()), coverage_limits(trials, share / 2)
    right = worst <= farthest and low <= covered <= high
    words = (
        f"{trials} worlds: {CENTRAL:.0%} intervals hold {covered:.1%} of {parameters} parameters "
        f"({low:.0%} to {high:.0%} would pass), the worst ranks are {worst:.3f} from uniform (up to {farthest:.3f})"
    )
    numbers = {"worlds": trials, "parameters": parameters, "coverage": covered, "coverage from": low}
    numbers |= {"coverage to": high, "worst": worst, "worst up to": farthest}
    return replace(blank, verdict="pass" if right else "fail", found=words, numbers=FrozenMap(numbers))


def coverage_limits(trials: int, level: float) -> tuple[float, float]:
    """Between which mean coverage stays but for a chance of ``level``, whatever the dependence (proofs.md P95)."""
    from scipy.optimize import brentq
    from scipy.special import rel_entr

    wanted = math.log(2 / level) / trials

    def excess(x: float) -> float:
        return float(rel_entr(x, CENTRAL) + rel_entr(1 - x, 1 - CENTRAL)) - wanted

    low = float(brentq(excess, 0.0, CENTRAL)) if excess(0.0) > 0 else 0.0  # type: ignore[arg-type]
    high = float(brentq(excess, CENTRAL, 1.0)) if excess(1.0) > 0 else 1.0  # type: ignore[arg-type]
    return low, high
