"""``learn_network`` by paid choices, as cases of the contract: one charge for margins, choices and tables together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import dpgraph as dg
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.composition import rho_of
from dpgraph.privacy.exact_loss import RecordingNoise
from dpgraph.privacy.gdp import epsilon_of_mu, rounded
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event
from tests.contract.case import Case
from tests.contract.enumeration import Largest, Pairs, Rows, pairs_of

WHY = "few variables leave few candidates, whose scores do not move in opposite directions in every choice"
LOOSE: dict[str, Any] = {"tight": (("replace", 0.4), ("add-remove", 0.4)), "why": WHY}


@dataclass(frozen=True)
class Recorded(Case):
    """A case whose releases keep a record: what they say of themselves is no less than what they lose."""

    records: list[Event] = field(default_factory=list, compare=False)

    def check(self, unit: dg.PrivacyUnit) -> Largest:
        """No loss is above the charge, nor above what any release says it cost."""
        self.records.clear()
        found = super().check(unit)
        assert self.records
        for event in set(self.records):
            assert event.epsilon >= found.claimed.epsilon
            assert event.delta >= found.claimed.delta
            if not found.claimed.delta:
                assert found.epsilon <= event.epsilon
                continue
            rhos = [part.rho if part.delta else rho_of(part) for part in event.events]
            assert None not in rhos
            assert found.rho <= sum(rho for rho in rhos if rho is not None)
            if event.mu is None:
                assert epsilon_of_rho(found.rho, event.delta) <= event.epsilon
            else:
                assert found.mu_squared <= event.mu**2
                assert rounded(epsilon_of_mu(event.mu**2, event.delta), up=False) <= event.epsilon
        return found


def domain_of(variables: int) -> dg.Domain:
    """So many variables of two levels."""
    return dg.Domain.of({name: [0, 1] for name in "abcd"[:variables]})


def pairs(kinds: int, most: int) -> Callable[[dg.PrivacyUnit], Pairs]:
    """Neighbours of up to so many rows; of three rows a person those that are alike, nobody else there."""

    def found(unit: dg.PrivacyUnit) -> Pairs:
        alone = unit.rows_per_person == 1
        return pairs_of(kinds, unit, most - 1 if alone else 0, not alone)

    return found


def learning(
    method: str,
    variables: int,
    delta: str,
    most: int,
    *,
    scripts: int = 3,
) -> Case:
    """A network of some variables; what it shows is its release, its graph and its probabilities."""
    domain = domain_of(variables)
    kinds = list(itertools.product((0, 1), repeat=variables))
    records: list[Event] = []

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        from tests.contract.estimators import frame

        budget = Budget(10**4, "0.5", unit=unit)
        learned = dg.learn_network(
            frame(kinds, list(domain.names), rows),
            domain,
            epsilon=Fraction(9, 10),
            delta=delta,
            budget=budget,
            method=method,
            noise=noise,
        )
        records.append(learned.release.event)
        return learned.release.value, learned.network, learned.probabilities.tables

    setting = f"{method}, {variables} variables, delta {delta}, up to {most} rows"
    found = pairs(len(kinds), most)
    return Recorded(dg.learn_network, setting, make, found, scripts=scripts, records=records, **LOOSE)


def classifying(variables: int, delta: str, most: int, n: int) -> Case:
    """A classifier with its release, its model and its choice; n, public here, says whether scores are measured.

    Of four pasts some leave features that tell labels apart: elsewhere every row is in one bin.
    """
    domain = domain_of(variables)
    kinds = list(itertools.product((0, 1), repeat=variables))
    records: list[Event] = []

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        from tests.contract.estimators import frame

        budget = Budget(10**4, "0.5", unit=unit)
        model = dg.PrivateClassifier(domain, "a", Fraction(9, 10), delta, n, budget, noise=noise)
        table = frame(kinds, list(domain.names), rows)
        fitted = model.fit(table.drop(columns="a"), table["a"])
        records.append(fitted.release_.event)
        said = fitted.predict_proba(frame(kinds, list(domain.names), [1] * len(kinds)).drop(columns="a"))
        return fitted.release_.value, said.tolist(), fitted.choice_["log_loss"].fillna(-1).tolist()

    setting = f"{variables} variables, delta {delta}, up to {most} rows, n {n}"
    found = pairs(len(kinds), most)
    return Recorded(dg.PrivateClassifier, setting, make, found, scripts=4 if variables == 2 else 2, records=records)


def cases() -> Iterator[Case]:
    """Paid choices, pure and in rho, on two variables up to two rows and on three with one; classifiers.

    In this order the first tier has the slowest classifiers under the units that take a third of the time.
    """
    for delta in ("0", "1e-6"):
        yield learning("greedy", 2, delta, 2)
        yield learning("greedy", 3, delta, 1)
    for n in (1, 10**6):
        for delta in ("0", "1e-6"):
            yield classifying(2, delta, 2, n)


def long_cases() -> Iterator[Case]:
    """Paid choices on two variables up to four rows, pure and in rho, and on three in one: their calls are the same."""
    for delta in ("0", "1e-6"):
        yield learning("greedy", 2, delta, 4)
        yield classifying(2, delta, 1, 10**6)
    yield learning("greedy", 3, "0", 4)
    yield classifying(3, "1e-6", 1, 10**6)
