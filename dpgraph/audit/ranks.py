"""Calibration as a check whose false alarm is stated: ranks of parameters, coverage over all (proofs.md P95)."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.audit.calibrating import _Study as Study
from dpgraph.audit.calibrating import _uniform_distance as uniform_distance
from dpgraph.audit.checks import FALSE_ALARM, Check, Clock
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.errors import ConvergenceWarning, DPGraphError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network

NAME = "calibration"
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


def calibration_check(
    network: Network, mechanism: Any, *, unit: PrivacyUnit, n: int, worlds: int, clock: Clock, seed: int = 0
) -> Check:
    """Calibrates the posterior of a mechanism's releases on few worlds, as many as there is time for.

    Args:
        network: The DAG over its domain.
        mechanism: How a release is made.
        unit: Whom it protects.
        n: Rows of each world.
        worlds: The most worlds.
        clock: How long it may take.
        seed: Of the worlds.
    """
    blank = Check(NAME, repr(mechanism), "not possible", "", SEES, BLIND)
    study = Study(network, mechanism, 1.0, n, unit, "auto", 50, seed)
    ranks: list[Reals] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so few draws cannot show it; the ranks will
            first, *others = np.random.SeedSequence(seed).spawn(worlds + 1)
            study.trial(first)  # loads and compiles
            before = clock.spent
            for world in others:
                if clock.left == 0 and len(ranks) >= FEWEST:
                    break
                ranks.append(study.trial(world).rank)
                each = (clock.spent - before) / len(ranks)
                if len(ranks) <= FEWEST and each * (FEWEST - len(ranks)) > clock.left:
                    words = f"a world takes {each:.2g} s: {FEWEST} do not fit into {clock.seconds:.0f} s"
                    return replace(blank, found=words, seconds=clock.spent)
    except DPGraphError as error:
        return replace(blank, found=f"{error}", seconds=clock.spent)
    if len(ranks) < FEWEST:
        return replace(blank, found=f"{len(ranks)} worlds are fewer than {FEWEST}", seconds=clock.spent)
    return replace(judged_ranks(np.array(ranks), blank), seconds=clock.spent)


def judged_ranks(ranks: Reals, blank: Check, share: float = FALSE_ALARM / 2) -> Check:
    """The verdict on ranks, shape (worlds, parameters): a right posterior fails with a chance of at most ``share``."""
    from scipy.special import smirnovi

    trials, parameters = ranks.shape
    farthest, worst = float(smirnovi(trials, share / 4 / parameters)), float(uniform_distance(ranks).max())
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
    """Between which the mean coverage of independent worlds stays but for a chance of ``level``, half on each side.

    Hoeffding 1963, Theorem 1: the mean of variables in [0, 1] is below x with a chance of at most
    exp(-trials KL(x, p)), whatever the dependence inside a world.

    >>> low, high = coverage_limits(100, 1e-6)
    >>> round(low, 2), round(high, 2)
    (0.71, 1.0)
    """
    from scipy.optimize import brentq

    wanted = math.log(2 / level) / trials

    def excess(x: float) -> float:
        left = x * math.log(x / CENTRAL) if x > 0 else 0.0
        right = (1 - x) * math.log((1 - x) / (1 - CENTRAL)) if x < 1 else 0.0
        return left + right - wanted

    low = float(brentq(excess, 0.0, CENTRAL)) if excess(0.0) > 0 else 0.0  # type: ignore[arg-type]
    high = float(brentq(excess, CENTRAL, 1.0)) if excess(1.0) > 0 else 1.0  # type: ignore[arg-type]
    return low, high
