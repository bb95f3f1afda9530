"""How many releases of a network fit one budget under each accounting, at the same noise in every cell.

    python benchmarks/accounting.py [--network alarm] [--deviations 100,400] [--epsilons 1,3]

Every release measures the network's maximal tables, with noise of one standard deviation in each cell: Laplace noise
that is independent or sums to zero, and Gaussian noise. No row is read: what fits follows from the events alone.

* basic: epsilons and deltas add. A Gaussian release claims the share of delta of the number of releases.
* zcdp, gdp: rhos, or squares of mus, add, whichever release is chosen next.
* fixed list: the largest number whose numerical price, ``dg.cost(..., "pld")``, is within the budget. It checks the
  others, and is no budget: it holds for lists fixed beforehand only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import click

import dpgraph as dg
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.privacy.composition import SUMS
from dpgraph.privacy.gdp import epsilon_of_mu
from dpgraph.privacy.records import Event, Neighbours, PrivacyCost, PrivacyUnit

DELTA = Fraction(1, 10**6)


def deviation(event: Event) -> float:
    """The standard deviation of the noise in one cell; the largest over the tables."""
    return math.sqrt(max(m.law.variance(m.cells) for m in event.measurements))


def laplace(network: dg.Network, unit: PrivacyUnit, wanted: float, noise: Literal["auto", "independent"]) -> Event:
    """The Laplace release of that deviation, by bisection of its epsilon."""
    low, high = 1e-3, 1e3
    for _ in range(40):
        middle = math.sqrt(low * high)
        found = dg.LaplaceMechanism(middle, tables="maximal", allocation="uniform", noise=noise).event(network, unit)
        low, high = (middle, high) if deviation(found) > wanted else (low, middle)
    return dg.LaplaceMechanism(high, tables="maximal", allocation="uniform", noise=noise).event(network, unit)


def gaussian(network: dg.Network, unit: PrivacyUnit, wanted: float, delta: Fraction) -> Event:
    """The Gaussian release of that deviation, whose mu is nearly in closed form."""
    tables = len(network.maximal_families)
    moved = 2 if unit.n_is_public else 1
    mu = math.sqrt(tables * moved) / wanted
    return GaussianMechanism(delta=delta, mu=mu, allocation="uniform").event(network, unit)


def largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, by doubling and bisection; 0 if not even one does."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def counted(event: Event, limit: PrivacyCost) -> list[int]:
    """How many releases fit: basic, zcdp, gdp, and a list fixed beforehand."""
    if event.delta:
        square = Fraction(event.mu or 0) ** 2
        basic = largest(lambda k: k * epsilon_of_mu(square, limit.delta / k) <= limit.epsilon)
    else:
        basic = int(limit.epsilon // event.epsilon)
    filters = [int(added.within(limit) // (added.price(event) or 0)) for added in SUMS.values()]
    fixed = largest(lambda k: dg.cost([event] * k, "pld", limit.delta).epsilon <= limit.epsilon)
    return [basic, *filters, fixed]


@click.command()
@click.option("--network", "name", default="alarm", show_default=True)
@click.option("--deviations", default="100,400", show_default=True, help="Of the noise in one cell, in rows.")
@click.option("--epsilons", default="1,3", show_default=True, help="Of the whole budget, at delta 1e-6.")
@click.option("--neighbours", type=click.Choice(["replace", "add-remove"]), default="replace", show_default=True)
def main(name: str, deviations: str, epsilons: str, neighbours: Neighbours) -> None:
    """Prints a line for each kind of noise, deviation and budget."""
    network, unit = dg.read_network(f"example:{name}"), PrivacyUnit(neighbours)
    print(f"{name}: {len(network.maximal_families)} maximal tables, {unit}, delta {float(DELTA):g}")
    print("| noise | deviation | epsilon of one | budget | basic | zcdp | gdp | fixed list |")
    print("|---|---|---|---|---|---|---|---|")
    for wanted in map(float, deviations.split(",")):
        events = {"Gaussian": gaussian(network, unit, wanted, DELTA)}
        events["Laplace"] = laplace(network, unit, wanted, "independent")
        if unit.n_is_public:
            events["Laplace that sums to zero"] = laplace(network, unit, wanted, "auto")
        for kind, event in events.items():
            for epsilon in epsilons.split(","):
                numbers = " | ".join(map(str, counted(event, PrivacyCost(Fraction(epsilon), DELTA))))
                line = f"{kind} | {deviation(event):.1f} | {float(event.epsilon):.3g} | {epsilon} | {numbers}"
                print(f"| {line} |", flush=True)


if __name__ == "__main__":
    main()
