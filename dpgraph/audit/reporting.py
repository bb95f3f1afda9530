"""One report on a network, its mechanisms and a pipeline: the findings and the limits of each check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpgraph.audit.calibrating import calibration_check
from dpgraph.audit.checks import Check, Clock, Verdict, plain
from dpgraph.audit.losses import exact_loss_check
from dpgraph.audit.replaying import replay_check, takes_two
from dpgraph.inference.arguments import check_no_rules
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
from dpgraph.privacy.checks import check_choice, check_whole, is_number
from dpgraph.privacy.display import DataFrame, as_html, data_frame
from dpgraph.privacy.errors import DPGraphError, InferenceError
from dpgraph.privacy.records import Number, PrivacyUnit, exact, exact_delta
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities
from dpgraph.waiting import waiting

#: Pure mechanisms by name; ``"gaussian"`` needs a delta.
PURE: dict[str, Any] = {
    "laplace": LaplaceMechanism,
    "fourier": FourierMechanism,
    "posterior-sample": PosteriorSample,
    "map": MapEstimate,
}
#: Shares of what is left of the time: exact losses, the pipeline; calibration has the rest.
SHARES = {"exact loss": 0.6, "replay": 0.3}


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The findings of an audit: network, unit, budget, checks in order, and seconds."""

    network: Network
    unit: PrivacyUnit
    epsilon: Fraction
    delta: Fraction
    checks: tuple[Check, ...]
    seconds: float

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that found a fault."""
        return tuple(check for check in self.checks if check.verdict == "fail")

    @property
    def passed(self) -> bool:
        """True if no check found a fault, and one at least was possible."""
        return not self.failed and any(check.verdict == "pass" for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """``"fail"`` if a check found a fault, ``"pass"`` if one was possible and none did."""
        return "fail" if self.failed else "pass" if self.passed else "not possible"

    def to_frame(self) -> DataFrame:
        """A row for each check: check, subject, verdict, found, sees, cannot see, seconds."""
        names = ["check", "subject", "verdict", "found", "sees", "cannot_see", "seconds"]
        return data_frame(self.to_dict()["checks"], columns=names).rename(columns={"cannot_see": "cannot see"})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the numbers of each check."""
        head: dict[str, Any] = {"verdict": self.verdict, "epsilon": plain(self.epsilon), "delta": plain(self.delta)}
        head |= {"neighbours": self.unit.neighbours, "rows_per_person": self.unit.rows_per_person}
        head |= {"variables": len(self.network.families), "cells": self.network.cell_count, "seconds": self.seconds}
        checks = [
            {"check": c.name, "subject": c.subject, "verdict": c.verdict, "found": c.found}
            | {"sees": c.sees, "cannot_see": c.blind, "numbers": plain(c.numbers), "seconds": c.seconds}
            for c in self.checks
        ]
        return head | {"checks": checks}

    def to_json(self) -> str:
        """``to_dict`` as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @property
    def _head(self) -> str:
        size = f"{len(self.network.families)} variables, {self.network.cell_count} cells"
        return f"{size}; {_shown(self.epsilon, self.delta)}, protecting {self.unit}; {self.seconds:.0f} s"

    def groups(self) -> Iterator[tuple[str, list[Check]]]:
        """The checks by name, in order."""
        for name in dict.fromkeys(check.name for check in self.checks):
            yield name, [check for check in self.checks if check.name == name]

    def __repr__(self) -> str:
        lines = [f"audit: {self.verdict}; {self._head}"]
        for name, checks in self.groups():
            lines += ["", name]
            alike = len({check.sees for check in checks}) == 1
            for check in checks:
                lines.append(f"  {check.verdict.upper()}: {check.subject}: {check.found}")
                lines += [] if alike else [f"    sees: {check.sees}"]
            lines += [f"  sees: {checks[0].sees}"] if alike else []
            lines.append(f"  cannot see: {checks[0].blind}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = {"verdict": "verdict", "name": "check", "subject": "of", "found": "found", "sees": "what it sees"}
        rows = [{said: getattr(check, name) for name, said in names.items()} for check in self.checks]
        blind = [f"{name} cannot see: {checks[0].blind}" for name, checks in self.groups()]
        return as_html(self._head, rows, blind)


def report(
    network: Network | Probabilities,
    *,
    epsilon: Number,
    delta: Number = 0,
    mechanisms: Sequence[Any] | None = None,
    unit: PrivacyUnit | None = None,
    pipeline: Callable[..., Any] | None = None,
    n: int = 100,
    worlds: int = 100,
    seconds: float = 45,
    seed: int = 0,
    progress: bool = False,
) -> AuditReport:
    """Audits mechanisms, a pipeline and a posterior on a network; reads no rows, makes up its own.

    The checks are the exact loss of each mechanism on small data sets against its claim, a replay of the pipeline on
    neighbours that release the same integers, and the calibration of the posterior of the first mechanism that has one
    (a right one fails with a chance of at most 5e-7, but for the correlation of its chain's draws). docs/audit.md says
    which faults each check sees.

    No check proves privacy: one that fails proves a fault, one that passes has seen none.

    Args:
        network: The DAG over its domain, or a public model with one.
        epsilon: The budget asked about. A mechanism value that claims more fails.
        delta: The same.
        mechanisms: Names (``"laplace"``, ``"fourier"``, ``"posterior-sample"``, ``"map"``, ``"gaussian"``, which needs
            a delta) or values, also of your own (``dg.extension``); all by default.
        unit: Whom to protect; one replaced row by default.
        pipeline: ``pipeline(rows, budget)`` on a pandas frame of the domain's levels, or ``pipeline(release)``.
        n: Rows of each data set that calibration simulates.
        worlds: How many it simulates, at most; 0 for none.
        seconds: About how long all may take. Large networks try fewer pairs and worlds, and say so; a single release
            or comparison is not interrupted.
        seed: Of the rows that are made up, and of calibration.
        progress: A bar on a terminal.

    Raises:
        InferenceError: If a setting is out of range, a mechanism is not known, or the pipeline takes other arguments.
        ReleaseError: If epsilon or delta is out of range.

    >>> coin = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> found = report(coin, epsilon=1, mechanisms=["laplace"], worlds=0, seconds=5)
    >>> found.verdict, [check.name for check in found.checks]
    ('pass', ['exact loss'])
    """
    graph = network.network if isinstance(network, Probabilities) else network
    if not isinstance(graph, Network):
        raise InferenceError(f"an audit takes a network; got {type(network).__name__}")
    check_no_rules(graph, "an audit makes up rows of every combination, so it", "audit the network without rules=")
    budget, slack, protected = exact(epsilon), exact_delta(delta), unit or PrivacyUnit()
    if not isinstance(protected, PrivacyUnit):
        raise InferenceError(f"unit must be a PrivacyUnit; got {type(unit).__name__}")
    for name, value, least in (("n", n, 0), ("worlds", worlds, 0), ("seed", seed, 0)):
        check_whole(name, value, least, error=InferenceError)
    if not is_number(seconds) or not 0 < seconds < math.inf:
        raise InferenceError(f"seconds must be a finite number above 0; got {seconds!r}")
    chosen = mechanisms_of(mechanisms, budget, slack)
    if pipeline is not None:
        takes_two(pipeline)
    clock = Clock(float(seconds))
    found: list[Check] = []
    with waiting("auditing", progress):
        part = clock.part(SHARES["exact loss"])
        for number, mechanism in enumerate(chosen):
            mine = part.part(1 / (len(chosen) - number))
            check = exact_loss_check(graph, mechanism, unit=protected, clock=mine, seed=seed)
            found.append(_within(check, budget, slack))
        if pipeline is not None:
            settings: dict[str, Any] = {"epsilon": budget, "delta": slack, "unit": protected, "mechanism": chosen[0]}
            mine = clock.part(SHARES["replay"])
            found.append(replay_check(graph, pipeline, **settings, clock=mine, seed=seed))
        if worlds:
            found.append(_calibrated(graph, chosen, protected, n, worlds, clock, seed))
    return AuditReport(graph, protected, budget, slack, tuple(found), clock.spent)


def mechanisms_of(asked: Sequence[Any] | None, epsilon: Fraction, delta: Fraction) -> list[Any]:
    """Mechanism values of names and values, all of them by default; anything else raises InferenceError."""
    if asked is None:
        asked = [*PURE, "gaussian"] if delta else [*PURE]
    if isinstance(asked, str) or not isinstance(asked, Sequence) or not asked:
        raise InferenceError("mechanisms is a list of names or mechanism values, at least one")
    found = []
    for one in asked:
        if one == "gaussian" and isinstance(one, str):
            if not delta:
                raise InferenceError("mechanism 'gaussian' needs a delta above 0")
            found.append(GaussianMechanism(epsilon, delta))
        elif isinstance(one, str):
            check_choice("mechanism", one, [*PURE, "gaussian"], error=InferenceError)
            found.append(PURE[one](epsilon))
        elif isinstance(one, type) or not (callable(getattr(one, "event", None)) and hasattr(one, "randomise")):
            raise InferenceError(f"a mechanism has event and randomise; got {type(one).__name__}")
        else:
            found.append(one)
    return found


def _within(check: Check, epsilon: Fraction, delta: Fraction) -> Check:
    """The check, failed if the claim is above the budget of the audit."""
    numbers = check.numbers
    if "epsilon" not in numbers or (numbers["epsilon"] <= epsilon and numbers["delta"] <= delta):
        return check
    claimed = _shown(numbers["epsilon"], numbers["delta"])
    words = f"it claims {claimed}, and {_shown(epsilon, delta)} was asked about; {check.found}"
    return replace(check, verdict="fail", found=words)


def _shown(epsilon: Fraction, delta: Fraction) -> str:
    return f"epsilon {float(epsilon):g}" + (f", delta {float(delta):g}" if delta else "")


def _calibrated(
    graph: Network, chosen: Sequence[Any], unit: PrivacyUnit, n: int, worlds: int, clock: Clock, seed: int
) -> Check:
    """Calibration of the first mechanism whose releases have a posterior; else what the first one said."""
    first: Check | None = None
    for mechanism in chosen:
        mine = clock.part(1.0)
        try:
            mechanism.event(graph, unit)
        except DPGraphError:
            continue
        check = calibration_check(graph, mechanism, unit=unit, n=n, worlds=worlds, clock=mine, seed=seed)
        if check.verdict != "not possible":
            return check
        first = first or check
    return first or Check("calibration", "none", "not possible", "no mechanism takes this network", "-", "-")
