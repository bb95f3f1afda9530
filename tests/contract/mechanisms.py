"""Every public mechanism with every setting, as cases of the contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import dpgraph as dg
from dpgraph.mechanisms.selection.levels import PrivateLevels
from dpgraph.mechanisms.selection.parents_choice import OneWays, ParentsChoice
from dpgraph.privacy.exact_loss import RecordingNoise
from tests.contract.case import Case
from tests.contract.data import (
    APART,
    ARC,
    CHAIN,
    CUBE,
    FAMILIES,
    LINE,
    LOG,
    LOG_ALIKE,
    REGRESSIONS,
    SIDES,
    SLOPE,
    SQUARE,
    Named,
    Regression,
    Tables,
)
from tests.contract.enumeration import ADD, ADD_3, REPLACE, REPLACE_3, UNITS, Rows

PUBLIC, PRIVATE = (REPLACE, REPLACE_3), (ADD, ADD_3)
TABLES, ALLOCATIONS = ("merged", "maximal", "families"), ("optimal", "uniform")


def case(mechanism: Any, data: Any, setting: str, units: tuple[dg.PrivacyUnit, ...] = UNITS, **more: Any) -> Case:
    """A mechanism on some statistics, through the one door."""

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        budget = dg.Budget(10**4, "0.5", unit=unit)
        return dg.release(data.statistics(rows), mechanism, budget=budget, noise=noise).value  # type: ignore[arg-type]

    return Case(mechanism, setting, make, data.pairs, units, **more)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _laplace()
    yield from _gaussian()
    yield from _fourier()
    yield from _selections()
    yield from _choices()
    yield case(PrivateLevels("0.8", "1e-6"), Named("words that others have"), "words that others have")
    yield from _gibbs()
    yield from _moments()


def _laplace() -> Iterator[Case]:
    for tables, allocation in itertools.product(TABLES, ALLOCATIONS):
        for noise in ("auto", "independent", "sum-zero"):
            units = PUBLIC if noise == "sum-zero" else UNITS
            mechanism = dg.LaplaceMechanism("0.8", tables=tables, allocation=allocation, noise=noise)
            yield case(mechanism, ARC, f"{tables}, {allocation}, {noise}; {ARC.name}", units)
        mechanism = dg.LaplaceMechanism("0.8", tables=tables, allocation=allocation)
        yield case(mechanism, CHAIN, f"{tables}, {allocation}; {CHAIN.name}")
        yield case(mechanism, APART, f"{tables}, {allocation}; {APART.name}")
    for data in (ARC, CHAIN):
        name = next(iter(data.network.domain.names))
        yield case(dg.LaplaceMechanism("0.8", margins={name: "0.3"}), data, f"margin of {name}; {data.name}")


def _gaussian() -> Iterator[Case]:
    for (tables, allocation), data in itertools.product(itertools.product(TABLES, ALLOCATIONS), (ARC, CHAIN)):
        mechanism = dg.GaussianMechanism(delta="1e-6", rho="0.1", tables=tables, allocation=allocation)
        yield case(mechanism, data, f"{tables}, {allocation}; {data.name}")
    for data in (ARC, CHAIN):
        yield case(dg.GaussianMechanism(1, "1e-6"), data, f"epsilon 1; {data.name}")
        yield case(dg.GaussianMechanism(1, "1e-6", basis="residual"), data, f"residual; {data.name}", PRIVATE)


def _fourier() -> Iterator[Case]:
    for data in (ARC, CHAIN):
        yield case(dg.FourierMechanism("0.7", basis="residual"), data, f"residual; {data.name}")
        yield case(dg.FourierMechanism("0.7"), data, f"auto; {data.name}")
    yield case(dg.FourierMechanism("0.7", basis="walsh"), CHAIN, f"walsh; {CHAIN.name}")
    loose: dict[str, Any] = {"tight": (("replace", 0.66),), "why": "the paper counts parities that cannot all change"}
    yield case(dg.FourierMechanism("0.7", "paper"), CHAIN, f"paper; {CHAIN.name}", **loose)
    yield case(dg.FourierMechanism("0.7", "paper", t=2), CHAIN, f"paper, t=2; {CHAIN.name}", **loose)


def _selections() -> Iterator[Case]:
    for data, draws in itertools.product((ARC, CHAIN), (1, 3)):
        yield case(dg.PosteriorSample("0.9", draws, grid=5, floor=0.02), data, f"{draws} draws; {data.name}")
    for data, selector in itertools.product((ARC, CHAIN), ("permute-and-flip", "exponential")):
        yield case(dg.MapEstimate("0.9", grid=5, prior=2.0, selector=selector), data, f"{selector}; {data.name}")
    for alphas, others in ((["0.5"], (0, 9, 9, 0)), (["0.1"], (0, 9, 81, 0)), (["0.25", "0.5"], (0, 9, 9, 0))):
        quantile = dg.PrivateQuantile("0.9", alphas, bounds=(0, 4), grid=4)
        data = Tables(f"{sum(others)} others", quantile.network("x"), others=others)
        yield case(quantile, data, f"at {', '.join(alphas)}; {data.name}")


def _choices() -> Iterator[Case]:
    """Margins that a row moves apart by the whole range; pasts with and without "stop"."""
    for data in (SQUARE, CUBE):
        margins = OneWays.of({name: [3.0, 1.0] for name in data.domain.names}, 4)
        parents = ParentsChoice("0.9", margins, noise=0.3)
        yield case(parents, data, f"two parents; {data.name}", scripts=6, **_LEFT)


_LEFT: dict[str, Any] = {
    "tight": (("replace", 0.2), ("add-remove", 0.3)),
    "why": "few candidates are left, and on so few rows they do not move in opposite directions in every choice",
}


def _gibbs() -> Iterator[Case]:
    for temperature in ("fixed", "adaptive"):
        for sweeps, scripts, data in ((1, 3, LOG), (2, 8, LOG_ALIKE)):
            mechanism = dg.papers.GibbsSample(3, 2, sweeps, grid=2, floor=0.1, temperature=temperature)
            yield case(mechanism, data, f"{temperature}, sweeps={sweeps}; {data.name}", scripts=scripts)
    mechanism = dg.papers.GibbsSample(1, 2, 12, grid=2, floor=0.1, delta="1e-6")
    why = "updates where the past has made all states alike cost nothing"
    tight = (("replace", 0.6), ("add-remove", 0.6))
    yield case(mechanism, LOG_ALIKE, f"sweeps=12, delta 1e-6; {LOG.name}", scripts=4, tight=tight, why=why)


def _moments() -> Iterator[Case]:
    for data in FAMILIES:
        yield case(dg.LaplaceMechanism("0.8"), data, f"moments; {data.name}")
    for data in REGRESSIONS:
        more: dict[str, Any] = {}
        if data.name == "corners":
            more = {"tight": (("replace", 0.77),), "why": "the worst row has a number inside its bounds"}
        yield case(dg.LaplaceMechanism("0.8"), data, f"regression; {data.name}", **more)
        yield case(dg.GaussianMechanism(delta="1e-6", rho="0.1"), data, f"regression; {data.name}")
    corners = Regression("intercept", LINE, list(itertools.product(SIDES, SIDES)))
    ends = Regression("one column", SLOPE, list(itertools.product(SIDES, SIDES)))
    for radius, draws, data in itertools.product((0.5, 1.0, 2.0), (1, 3), (ends, corners)):
        mechanism = dg.papers.RegressionSample(3, draws, radius, idealized_numerics=True)
        more = {}
        if radius > 1:
            more = {"tight": (("replace", 0.88),), "why": "no two rows attain the bound where the radius is above 1"}
        yield case(mechanism, data, f"radius {radius:g}, {draws} draws; {data.name}", idealized=True, **more)
