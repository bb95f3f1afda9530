"""Fits of a private estimator at a given epsilon, each from a budget of its own."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone

from dpgraph.estimators.folds import Rows
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import SecureNoise
from dpgraph.privacy.records import Event, Number, PrivacyCost, PrivacyUnit


def exact_budget(price: PrivacyCost, unit: PrivacyUnit) -> Budget:
    """A budget of exactly one part, so that the part cannot spend more."""
    return Budget(price.epsilon, price.delta, unit=unit)


def prepared(estimator: Any, price: PrivacyCost, budget: Budget, noise: Any) -> Any:
    """A clone that spends what a fit may, from a budget of its own."""
    settings = estimator.get_params(deep=False)
    chosen: dict[str, Any] = {"epsilon": price.epsilon, "budget": budget}
    mechanism = settings.get("mechanism")
    if dataclasses.is_dataclass(mechanism) and not isinstance(mechanism, type):
        prices = {"epsilon": price.epsilon, "delta": price.delta, "rho": None}
        names = {field.name for field in dataclasses.fields(mechanism)}
        chosen["mechanism"] = dataclasses.replace(mechanism, **{k: v for k, v in prices.items() if k in names})
    if "noise" in settings:
        chosen["noise"] = None if isinstance(noise, SecureNoise) else SharedNoise(noise)
    made: Any = clone(estimator)
    return made.set_params(**chosen)


def rehearse(estimator: Any, rows: Rows, price: PrivacyCost, unit: PrivacyUnit) -> None:
    """Runs a fit on all rows up to its charge, so that rows and settings are refused before anything is charged."""
    door = ClosedDoor(price.epsilon, price.delta, unit=unit)
    leaks = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            prepared(estimator, price, door, SecureNoise()).fit(*rows.take(np.arange(len(rows))))
        except AtTheDoor:
            pass
        except PrivacyLeakWarning:
            leaks = True
    if leaks:
        raise ReleaseError('cross_validate takes declared domains and bounds; "infer" reads them off the rows')
    if not door.asked:
        raise ReleaseError(f"{type(estimator).__name__} was fitted without charging its budget; it is not private")
    if price.delta and not door.asked[0].delta:
        raise ReleaseError(f"{door.asked[0].mechanism} spends no delta; leave delta out")


def checked_source(noise: Any, own: Any) -> Any:
    """The noise source of a study, else the estimator's own, else the secure one."""
    given = own if noise is None else noise
    source = SecureNoise() if given is None else given
    if isinstance(source, type) or not isinstance(getattr(source, "private", None), bool):
        raise ReleaseError(f"noise must be a source such as SeededNoise; got {type(source).__name__}")
    return source


class AtTheDoor(BaseException):
    """A rehearsed fit has come to its charge; no ``except Exception`` of an estimator takes it."""


class ClosedDoor(Budget):
    """A budget that checks a charge as any does, and lets nothing be drawn after it."""

    def __init__(self, epsilon: Number, delta: Number = 0, *, unit: PrivacyUnit | None = None) -> None:
        super().__init__(epsilon, delta, unit=unit)
        self.asked: list[Event] = []

    def charge(self, event: Event, made: Made | None = None) -> NoReturn:
        """Checks and keeps the event, then stops the fit."""
        super().charge(event, made)
        self.asked.append(event)
        raise AtTheDoor


class SharedNoise:
    """A noise source that copies share: estimators copy theirs for each fit, and no two fits may have equal noise."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def __copy__(self) -> SharedNoise:
        return self

    def __deepcopy__(self, memo: object) -> SharedNoise:
        return self
