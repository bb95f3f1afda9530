"""The exact privacy loss of any mechanism between two data sets, from the calls it makes to its noise source.

Run it on both with the same answers (``RecordingNoise``). If all else is the same, the largest log ratio is a sum over
the calls, of inputs s and s' and a scale b: of Laplace noise ||s - s'||_1 / b, attained; of a selection the range over
candidates of s - s', over b, approached arbitrarily closely. Not private: for tests, out of the release path's reach.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import unit_shift
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Event, PrivacyUnit
from dpgraph.privacy.release import Mechanism, release

Kind = Literal["add", "choose", "flip", "choose_composition", "choose_path", "bits"]


@dataclass(frozen=True, eq=False)
class NoiseCall:
    """One call of a noise source: its method, what may not depend on rows, inputs that do, their divisor, and draws."""

    kind: Kind
    public: tuple[Any, ...]
    inputs: npt.NDArray[Any]
    scale: Fraction
    times: int = 1

    def moved(self, differences: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The distance between the inputs of two data sets; divided by ``scale``, the epsilon of the call."""
        match self.kind:
            case "add":
                return np.abs(differences).sum(axis=-1)
            case "choose" | "flip":
                return _range(differences)
            case "choose_composition":
                return self.times * _composition_range(differences)
            case "choose_path":
                return _range(differences).sum(axis=-1)
            case "bits":
                return np.zeros(differences.shape[:-1], np.int64)

    def moved_squared(self, differences: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same for rho: divided by 8 ``scale``^2 it is the rho of the call (proofs.md P21, P22)."""
        if self.kind == "add" and not isinstance(self.public[0], SumZeroLaplace):
            return 4 * (differences.astype(object) ** 2).sum(axis=-1)
        one = np.asarray(self.moved(differences)).astype(object) // self.times  # Python's integers do not overflow
        return self.times * (4 if self.kind in ("add", "flip") else 1) * one**2

    @property
    def pure(self) -> bool:
        """True if the call has a finite epsilon: Gaussian noise has none."""
        return not (self.kind == "add" and isinstance(self.public[0], DiscreteGaussian))


@dataclass(frozen=True, eq=False)
class RecordingNoise(Noise):
    """Records its calls and answers by ``script``, the call's number and its public part alone, never by rows."""

    script: int = 0
    private: ClassVar[bool] = False
    calls: list[NoiseCall] = field(default_factory=list, init=False)

    def _record(self, kind: Kind, inputs: npt.ArrayLike, scale: float, *public: Any, times: int = 1) -> Any:
        array = _exact(np.array(inputs))
        self.calls.append(NoiseCall(kind, (*public, array.shape), array, Fraction(scale), times))
        return np.random.default_rng((self.script, len(self.calls)))

    def add(self, values: Integers, law: NoiseLaw) -> Integers:
        """Integers within a scale of 0, whatever the values."""
        if np.asarray(values).dtype.kind != "i":
            raise TypeError(f"noise is added to integers; got {np.asarray(values).dtype}")
        if not isinstance(law, DiscreteLaplace | SumZeroLaplace | DiscreteGaussian):
            return law.add_to(values, self)
        reach = math.ceil(law.scale)
        answer = self._record("add", values, law.scale, law).integers(-reach, reach + 1, len(values))
        if isinstance(law, SumZeroLaplace):
            answer[-1] += values.sum() - answer.sum()
        return answer

    def choose(self, scores: npt.ArrayLike, scale: float) -> int:
        """Any candidate."""
        return int(self._record("choose", scores, scale, scale).integers(np.size(scores)))

    def flip(self, scores: npt.ArrayLike, scale: float) -> int:
        """Any candidate."""
        return int(self._record("flip", scores, scale, scale).integers(np.size(scores)))

    def choose_composition(self, scores: npt.NDArray[Any], scale: float, size: int) -> Integers:
        """Any compositions."""
        answers = self._record("choose_composition", scores, scale, scale, size, times=size)
        shares = answers.dirichlet(np.ones(len(scores)), size)
        return np.array([answers.multinomial(scores.shape[1] - 1, share) for share in shares])

    def choose_path(self, scores: npt.NDArray[Any], scale: float, start: Reals, transition: Reals) -> Integers:
        """Any path."""
        answers = self._record("choose_path", scores, scale, scale, tuple(start), tuple(np.ravel(transition)))
        return answers.integers(scores.shape[1], size=len(scores))

    def bits(self, count: int) -> int:
        """Any bits; how they are used is not recorded, only that the same bits give the same release."""
        size = -(-count // 8)
        answers = self._record("bits", np.zeros(0, np.int64), 1.0, count)
        return int.from_bytes(answers.bytes(size), "little") >> (8 * size - count)

    def __deepcopy__(self, memo: object) -> RecordingNoise:
        return self


def _exact(inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Inputs whose differences are exact: integers far from the end of 64 bits, else Python's own, or fractions."""
    if inputs.dtype.kind == "f":
        return np.array([Fraction(value) for value in inputs.ravel().tolist()], object).reshape(inputs.shape)
    near = inputs.dtype.kind == "i" and inputs.size and max(abs(int(inputs.max())), abs(int(inputs.min()))) >= 2**52
    return inputs.astype(object) if near else inputs


def _range(differences: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The largest less the least along the last axis; ``np.ptp`` would make 64 bits of Python's integers."""
    return differences.max(axis=-1) - differences.min(axis=-1)


def _composition_range(differences: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The range over compositions z of the sum of differences[..., part, z_part], part by part."""
    highest, lowest = differences[..., 0, :], differences[..., 0, :]
    sums = range(differences.shape[-1])
    for part in np.moveaxis(differences, -2, 0)[1:]:
        highest = np.stack([(highest[..., : k + 1] + part[..., k::-1]).max(axis=-1) for k in sums], axis=-1)
        lowest = np.stack([(lowest[..., : k + 1] + part[..., k::-1]).min(axis=-1) for k in sums], axis=-1)
    return highest[..., -1] - lowest[..., -1]


@dataclass(frozen=True)
class PrivacyLoss:
    """The largest log ratio between two data sets, infinite for Gaussian noise, a bound on rho, and the claim."""

    epsilon: Fraction | float
    rho: Fraction
    event: Event

    @property
    def share(self) -> Fraction | float:
        """The loss over the claim: of rho where the claim has a delta, else of epsilon. Above 1 the claim is false."""
        if self.event.delta == 0:
            return self.epsilon / self.event.epsilon
        return self.rho / self.event.rho if self.event.rho else math.inf


def privacy_loss(
    mechanism: Mechanism[Any, Any], one: Any, other: Any, *, unit: PrivacyUnit | None = None, scripts: int = 1
) -> PrivacyLoss:
    """The exact privacy loss of a mechanism, of the package or of your own, between two data sets; not private itself.

    A loss above the claim for any two neighbours proves the claim false. The reverse needs all neighbours: enumerate
    small data sets, as ``tests/contract`` does for every mechanism here, and prove the sensitivity.

    >>> import pandas as pd
    >>> from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
    >>> from dpgraph.statistics.counts import count
    >>> from dpgraph.structure.network import Network
    >>> coin = Network.of({"side": ["head", "tail"]}, {})
    >>> one, other = (count(pd.DataFrame({"side": [side]}), coin) for side in ("head", "tail"))
    >>> privacy_loss(LaplaceMechanism("0.5"), one, other).epsilon
    Fraction(1, 2)
    """
    found: list[PrivacyLoss] = []
    for script in range(scripts):
        noises = RecordingNoise(script), RecordingNoise(script)
        budgets = (Budget(10**9, "0.999", unit=unit) for _ in noises)
        releases = [
            release(rows, mechanism, budget=budget, noise=noise)
            for rows, budget, noise in zip((one, other), budgets, noises, strict=True)
        ]
        epsilon, rho = loss_of_calls(noises[0].calls, noises[1].calls)
        if difference(releases[0].value, releases[1].value) is not None:
            raise ReleaseError("the same answers of the noise source give two releases: the rows show past the noise")
        found.append(PrivacyLoss(epsilon, rho, releases[0].event))
    return max(found, key=lambda loss: (loss.epsilon, loss.rho))


def loss_of_calls(one: Iterable[NoiseCall], other: Iterable[NoiseCall]) -> tuple[Fraction | float, Fraction]:
    """Epsilon and rho between two records of noise calls."""
    epsilon, rho = Fraction(0), Fraction(0)
    pure = True
    for number, (a, b) in enumerate(zip_longest(one, other), start=1):
        check_same_call(number, a, b)
        differences = a.inputs - b.inputs
        epsilon += Fraction(np.asarray(a.moved(differences)).item()) / a.scale
        rho += Fraction(np.asarray(a.moved_squared(differences)).item()) / (8 * a.scale**2)
        pure = pure and (a.pure or not differences.any())
    return epsilon if pure else math.inf, rho


def mu_squared_of_calls(one: Iterable[NoiseCall], other: Iterable[NoiseCall]) -> Fraction | float:
    """The square of mu between two records of the same noise calls; infinite where other noise covers a difference."""
    square = Fraction(0)
    for a, b in zip(one, other, strict=True):
        differences = a.inputs - b.inputs
        if a.pure and differences.any():
            return math.inf
        if not a.pure:
            square += Fraction(np.asarray(a.moved_squared(differences)).item()) / 4 * unit_shift(float(a.scale))
    return square


def check_same_call(number: int, one: NoiseCall | None, other: NoiseCall | None) -> None:
    """Refuses two noise calls that differ in anything but their inputs."""
    if one is None or other is None or (one.kind, one.public) != (other.kind, other.public):
        raise ReleaseError(f"noise call {number} depends on the rows: its law, its shape, or whether it is made")
    if isinstance(one.public[0], SumZeroLaplace) and one.inputs.sum() != other.inputs.sum():
        raise ReleaseError(f"noise call {number} sums to zero and shows a total, which differs between the data sets")


#: Deeper than this nothing is compared.
DEEPEST = 60
PLAIN = (str, bytes, int, bool, float, complex, type(None), range, slice, set, frozenset, np.generic)


def difference(
    one: Any, other: Any, where: str = "the value", seen: dict[tuple[int, int], Any] | None = None, depth: int = 0
) -> str | None:
    """The first part in which two values differ, without its content, or None; ReleaseError where unknown."""
    seen = {} if seen is None else seen
    if one is other or (id(one), id(other)) in seen:
        return None
    kinds = [(type(value).__module__, type(value).__qualname__) for value in (one, other)]
    if kinds[0] != kinds[1]:  # by name: a class that a function defines is another object in every call
        return f"the type of {where}"
    if depth > DEEPEST:
        raise ReleaseError(f"{where} is nested too deep")
    seen[id(one), id(other)] = (one, other)  # kept alive, so that no other value gets their ids
    parts = _parts(one, other)
    if isinstance(parts, bool):
        return None if parts else where
    left, right = parts
    if list(left) != list(right):
        return f"the parts of {where}"
    found = (difference(left[name], right[name], f"{where}{name}", seen, depth + 1) for name in left)
    return next((part for part in found if part is not None), None)


def _parts(one: Any, other: Any) -> bool | tuple[dict[str, Any], dict[str, Any]]:
    """True or False for two plain values of one type by their equality; for others the parts of both, by name."""
    if isinstance(one, PLAIN):
        return bool(one == other or (one != one and other != other))
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype.kind == "O":
            return _parts(one.ravel().tolist(), other.ravel().tolist())
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, Budget):
        return (one.spent, one.events, one.unit) == (other.spent, other.events, other.unit)
    if is_dataclass(one) and not isinstance(one, type):
        names = [part.name for part in fields(one) if part.compare or not one.__dataclass_params__.eq]  # type: ignore[attr-defined]
        return tuple({f".{name}": getattr(value, name, None) for name in names} for value in (one, other))  # type: ignore[return-value]
    if isinstance(one, Mapping):
        return tuple({f"[{key!r}]": value[key] for key in value} for value in (one, other))  # type: ignore[return-value]
    if isinstance(one, list | tuple):
        return tuple({f"[{i}]": part for i, part in enumerate(value)} for value in (one, other))  # type: ignore[return-value]
    if type(one).__module__ == "_thread":  # locks hold nothing
        return True
    if isinstance(one, np.random.Generator):
        return one.bit_generator.state == other.bit_generator.state
    if callable(getattr(one, "equals", None)) and not isinstance(one, type):  # pandas, polars, Arrow
        labels = [[getattr(frame, name, None) for name in ("dtypes", "schema", "name")] for frame in (one, other)]
        return bool(one.equals(other)) and repr(labels[0]) == repr(labels[1])
    if isinstance(one, type) or (callable(one) and hasattr(one, "__qualname__")):
        return getattr(one, "__qualname__", None) == getattr(other, "__qualname__", None)
    if hasattr(one, "__dict__"):
        return tuple({f".{name}": value for name, value in vars(each).items()} for each in (one, other))  # type: ignore[return-value]
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:
        raise ReleaseError(f"values of type {type(one).__name__} cannot be compared") from None
