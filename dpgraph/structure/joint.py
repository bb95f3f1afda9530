"""Several releases of a network's tables read as one: of the same rows, or of different rows that are alike.

Releases of the same rows say the same exact counts with independent noise, so their likelihoods multiply. Releases of
different rows each have counts of their own, which add; the rows share the network's probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import Release, checked_values, combined
from dpgraph.privacy.scope import relation
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

Single = NoisyCounts | NoisyCoefficients
#: Equal noisy numbers are one release twice if noise agrees by chance less often than once in exp(this), a million.
NATS = 13.8


@dataclass(frozen=True)
class _Several:
    """Several releases read as one; ``network`` is the one to learn, None where the parts' networks differ."""

    parts: tuple[Any, ...]
    network: Network | None = None

    @property
    def description(self) -> Network | None:
        """The network to learn, where it is known."""
        return self.network

    @property
    def singles(self) -> tuple[Single, ...]:
        """The releases of all parts, in order."""
        return tuple(single for part in self.parts for single in _singles(part))


@dataclass(frozen=True)
class JointCounts(_Several):
    """Several releases of the same rows, read as one.

    ``parts`` may be of different networks over one domain, and their tables may overlap. The families of ``network``
    must each lie in a released table; it is None where the parts' networks differ and none was named.

    Raises:
        ReleaseError: If there are fewer than two parts, one is not noisy counts or coefficients, two have different
            public n or are the same release, or coefficients are of another network than the one to learn.
        NetworkError: If the domains differ, or no table holds some family.
    """

    parts: tuple[Single, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts, NoisyCounts | NoisyCoefficients, "a joint release")
        public = {part.n for part in self.parts if part.n is not None}
        if len(public) > 1:
            raise ReleaseError(
                f"releases of the same rows have one n, not {' and '.join(map(str, sorted(public)))}; those of "
                "different rows are added up by dg.pooled"
            )
        object.__setattr__(self, "network", _network(self.parts, self.network))
        if self.network is not None:
            _check_readable(self.network, self.parts)

    @property
    def n(self) -> int | None:
        """The exact number of rows where one of the parts makes it public, else None."""
        return next((part.n for part in self.parts if part.n is not None), None)


@dataclass(frozen=True)
class PooledCounts(_Several):
    """Releases of different rows that have the same probabilities, read as one: months, or sites.

    Each part, which may be a joint release itself, has exact counts of its own. ``network`` is as for ``JointCounts``,
    and its families must each lie in a table of every part.

    Raises:
        ReleaseError: If there are fewer than two parts, one is not noisy counts or coefficients, two are the same
            release, or coefficients are of another network than the one to learn.
        NetworkError: If the domains differ, or some part has no table that holds a family.
    """

    parts: tuple[Single | JointCounts, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts, NoisyCounts | NoisyCoefficients | JointCounts, "a pooled release")
        object.__setattr__(self, "network", _network(self.parts, self.network))
        if self.network is not None:
            for part in self.parts:
                learning(part, self.network)

    @property
    def n(self) -> int | None:
        """The exact number of all rows where every part makes its own public, else None."""
        known = [part.n for part in self.parts if part.n is not None]
        return sum(known) if len(known) == len(self.parts) else None


Several = JointCounts | PooledCounts


def joint_counts(*values: Any) -> JointCounts:
    """The value of a joint release, from values of releases; joint ones among them are taken apart."""
    if any(isinstance(value, PooledCounts) for value in values):
        raise ReleaseError("a pooled release is not joined with others; join those of the same rows, then pool them")
    parts = [part for value in values for part in (value.parts if isinstance(value, JointCounts) else (value,))]
    named = {value.network for value in values if isinstance(value, JointCounts) and value.network is not None}
    plain = {value.network for value in values if isinstance(value, Single)}
    return JointCounts(tuple(parts), next(iter(named)) if len(named | plain) == 1 and named else None)


def pooled(releases: Sequence[Any], *, network: Network | None = None) -> Any:
    """Releases of different rows that have the same probabilities, such as months or sites, as one: their counts add.

    Each part keeps exact counts of its own, so the likelihood is the product of the parts', each with its own latent
    rows. The caller must know two facts that no record of a release holds: that two budgets were for different
    rows, and that the rows are alike. One person may have rows in several parts; the stated cost takes one to have rows
    in all of them, and is never too low.

    Args:
        releases: Releases, joint ones among them; or values of releases, then the result is a value too.
        network: The network to learn; by default the one that all were released of.

    Returns:
        A Release of ``PooledCounts``, for ``posterior`` and ``reconcile``.

    Raises:
        ReleaseError: If there are none, releases are mixed with values, protect different units, or are of the same
            rows as far as their records tell: of one budget and one group, or of groups that may share rows. Two whole
            data sets with different public n are not the same rows.
        NetworkError: If domains differ, or a part has no table for some family of the network.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> coin = Network.of({"coin": ["heads", "tails"]}, {})
    >>> law = {("coin",): DiscreteLaplace(1.0)}
    >>> may, june = NoisyCounts(coin, {("coin",): [7, 3]}, law, 10), NoisyCounts(coin, {("coin",): [11, 9]}, law, 20)
    >>> pooled([may, june]).n
    30
    """
    values = checked_values(releases, "a pooled release")
    if len(values) == 1:
        one = releases[0]
        if network is None:
            return one
        return one.map(lambda value: learning(value, network)) if isinstance(one, Release) else learning(one, network)
    if any(isinstance(value, PooledCounts) for value in values):
        raise ReleaseError("a pooled release is not pooled again; pool all of the releases at once")
    if isinstance(releases[0], Release):
        for one, other in combinations(releases, 2):
            _check_apart(one, other)
    value = PooledCounts(tuple(values), network)
    return combined(value, releases, same_rows=False) if isinstance(releases[0], Release) else value


def learning(value: Any, network: Network) -> Any:
    """A value read for learning another network over its domain, which its tables must determine."""
    if isinstance(value, _Several):
        return replace(value, network=network)
    if not isinstance(value, NoisyCounts | NoisyCoefficients) or not isinstance(network, Network):
        raise ReleaseError(
            f"network= is a Network to learn from noisy counts; got {type(network).__name__} for {type(value).__name__}"
        )
    _check_domains(network, value.network)
    _check_readable(network, (value,))
    return replace(value, network=network) if isinstance(value, NoisyCounts) else value


def _check_apart(one: Release[Any], other: Release[Any]) -> None:
    """Refuses two releases to pool whose records tell that they may share rows."""
    known = relation(one.scope, other.scope)
    sizes = {getattr(one.value, "n", None), getattr(other.value, "n", None)}
    if known == "overlapping" or (known == "same" and (None in sizes or len(sizes) == 1)):
        raise ReleaseError(
            f"one budget paid for both of these releases, of {one.scope} and {other.scope}, so they are of the same "
            "rows, or share some: a list of them, or their sum, is their joint release. Different rows of one data set "
            "are told apart by Budget.parallel and count(where=...); if the records are wrong, pool the values"
        )


def _singles(value: Any) -> tuple[Single, ...]:
    return value.singles if isinstance(value, _Several) else (value,)


def _check_parts(parts: tuple[Any, ...], kinds: Any, what: str) -> None:
    if len(parts) < 2:
        raise ReleaseError(f"{what} has at least two parts")
    for part in parts:
        if not isinstance(part, kinds):
            raise ReleaseError(f"{what} is of noisy counts or coefficients of a network; got {type(part).__name__}")
    singles = [single for part in parts for single in _singles(part)]
    for single in singles[1:]:
        _check_domains(singles[0].network, single.network)
    for one, other in combinations(singles, 2):
        if one is other or (one == other and _coincidence(one) < -NATS):
            raise ReleaseError(f"{what} has the same release twice: its noise would be taken for two independent draws")


def _check_domains(one: Network, other: Network) -> None:
    if one.domain != other.domain:
        names = sorted(
            {*one.domain.names, *other.domain.names}
            - {name for name in one.domain.names if name in other.domain and one.domain[name] == other.domain[name]}
        )
        raise NetworkError(f"the releases declare {', '.join(names) or 'the variables in their order'} differently")
    if one.rules != other.rules:
        raise NetworkError("a release is read by the rules it was made with: give Network.of the same rules=")


def _coincidence(value: Single) -> float:
    """ln of a bound on the chance that two releases of the same rows have equal noise everywhere."""
    tables = value.tables if isinstance(value, NoisyCounts) else value.blocks
    free = {key: table.size - value.laws[key].sums_to_zero for key, table in tables.items()}
    return -sum(count * max(0.0, math.log(2 * value.laws[key].scale)) for key, count in free.items())


def _network(parts: Sequence[Any], asked: Network | None) -> Network | None:
    if asked is not None:
        if not isinstance(asked, Network):
            raise ReleaseError(f"network= is a Network; got {type(asked).__name__}")
        _check_domains(asked, _singles(parts[0])[0].network)
        return asked
    found = [part.network for part in parts]
    return found[0] if all(network == found[0] for network in found) else None


def _check_readable(network: Network, parts: Sequence[Single]) -> None:
    """Refuses a network that the tables of some releases of the same rows do not determine."""
    for part in parts:
        if isinstance(part, NoisyCoefficients) and part.network != network:
            raise ReleaseError(
                "coefficients are read in the network they were released of; network= is another. Of pairs choose the "
                "graph and take its posterior: dg.choose_network(release).posterior()"
            )
    if any(isinstance(part, NoisyCoefficients) for part in parts):
        return
    measured: list[Family] = [key for part in parts if isinstance(part, NoisyCounts) for key in part.tables]
    holding = Holding(network, measured)
    for family in network.maximal_families:
        holding.smallest(family)
