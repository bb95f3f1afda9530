"""Values that are not observed: a network of the people given releases that count their nulls as a level.

An indicator of a missing value has parents of its own, a missingness graph (Mohan and Pearl 2021): by default the
variable's parents in the network, and never the variable itself. A released variable is then a function of
the value and its indicator, so chains of records read the network of all three as any other (proofs.md P123).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, concentration_tables
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.queries import indicator, people_of, people_tables
from dpgraph.privacy.checks import near
from dpgraph.privacy.errors import ApproximationWarning, InferenceError, PriorWarning
from dpgraph.structure.domain import Domain, hole_codes
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Holding, Network, Rules
from dpgraph.structure.tables import Reals, margin

#: Standard deviations of its noise below which the number of observed values is mostly prior.
HIDDEN_VALUES = 2.0
#: Standard deviations beyond which a count, and a difference of shares, is more than noise.
CLEAR = 4.0


def hidden(name: str) -> str:
    """The value of a variable with holes, in the network of records; its own name is that of the released one."""
    return f"{name} itself"


@dataclass(frozen=True)
class Holes:
    """The unobserved values of a released network, and the assumption that fills them.

    ``because`` has the parents of each indicator. ``people`` is the network of the variables' own levels, then of the
    indicators; ``records`` that of values, indicators and released variables.
    """

    released: Network
    because: FrozenMap[str, Family]
    people: Network
    records: Network

    @classmethod
    def of(cls, network: Network, because: Mapping[str, Iterable[str]] | None) -> Holes | None:
        """Reads the parents of indicators, by default those in the network; None for a network without holes."""
        names = network.domain.holes
        told = _told(names, because)
        if not names:
            return None
        reasons = FrozenMap((name, told.get(name, network.parents[name])) for name in names)
        known = (*network.domain.names, *map(indicator, names))
        for name, parents in reasons.items():
            for made in (indicator(name), hidden(name)):
                if made in network.domain:
                    raise InferenceError(f"{made!r} is a variable, and the name of one that holes need; rename it")
            if name in parents:
                raise InferenceError(
                    f"no graph tells {name!r} from its own holes: unseen values may be any. Leave it out of "
                    "missing_because, and ask dg.questions.sensitivity how answers move with it"
                )
            if unknown := [one for one in parents if one not in known]:
                hint = near(unknown[0], known)
                raise InferenceError(f"missing_because of {name!r}: no variable {unknown[0]!r}{hint}")
        itself = {name: hidden(name) if name in names else name for name in known}
        rules = [{itself[one]: levels for one, levels in rule.items()} for rule in network.rules.impossible]
        reasons_known = {indicator(name): parents for name, parents in reasons.items()}
        people = Network.of(
            people_of(network.domain), {**network.parents, **reasons_known}, Rules(network.rules.impossible)
        )
        parents = {itself[name]: [itself[one] for one in family] for name, family in people.parents.items()}
        variables = {itself[name]: variable for name, variable in people.domain.variables.items()}
        variables |= {name: network.domain[name] for name in names}
        parents |= {name: [hidden(name), indicator(name)] for name in names}
        return cls(network, reasons, people, Network.of(Domain.of(variables), parents, Rules(rules)))

    @property
    def others(self) -> tuple[str, ...]:
        """The variables whose holes have other parents than they have in the network."""
        return tuple(name for name, parents in self.because.items() if parents != self.released.parents[name])

    @property
    def places(self) -> dict[str, str]:
        """Each variable of the people by its name in the network of records."""
        return {name: hidden(name) if name in self.because else name for name in self.people.domain.names}

    def evidence(self, given: Evidence) -> Evidence:
        """The same tables, of the network of records."""
        holding = Holding(self.released, (table.variables for table in given.tables))
        for name, parents in self.because.items():
            for parent in parents:
                both = (name, parent.removesuffix(indicator("")) if parent not in self.released.domain else parent)
                if not holding.places(both):
                    raise InferenceError(
                        f"no released table holds {name!r} and {parent!r}, so nothing says how its holes depend on it: "
                        f"name other parents, missing_because={{{name!r}: [...]}}"
                    )
        return Evidence(self.records, given.tables, given.n, released=given, completed=self.completed)

    def concentration(self, cells: float) -> dict[str, Reals]:
        """Dirichlet concentrations of the network of records: a released level follows from value and indicator."""
        return concentration_tables(self.records, cells) | self.follows

    @property
    def follows(self) -> dict[str, Reals]:
        """Of each released variable which level follows from value and indicator."""
        found = {}
        for name in self.because:
            code, own = self.codes(name)
            follows = found[name] = np.zeros(self.records.shape(self.records.family(name)))
            follows[own, range(len(own)), 0] = 1.0
            follows[code, :, 1] = 1.0
        return found

    def codes(self, name: str) -> tuple[int, list[int]]:
        """The released code of a hole, and those of the variable's own levels."""
        return hole_codes(self.released.domain[name])

    def completed(
        self, columns: Mapping[str, npt.NDArray[Any]], rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.integer[Any]]]:
        """Rows of the released network as rows of records: a hole is filled by a value that others have."""
        found = dict(columns)
        for name in self.because:
            code, own = self.codes(name)
            seen = np.asarray(columns[name])
            gone, place = seen == code, np.searchsorted(own, seen).clip(0, len(own) - 1)
            count = np.bincount(place[~gone], minlength=len(own)) + 1.0
            place[gone] = rng.choice(len(own), int(gone.sum()), p=count / count.sum())
            found |= {hidden(name): place, indicator(name): gone.astype(np.int64)}
        return found

    def of_records(self, drawn: PosteriorDraws) -> PosteriorDraws:
        """Draws of the people from those of the network of records, or of another graph over the same variables."""
        back = {at: name for name, at in self.places.items()}
        parts = {
            field: FrozenMap((name, getattr(drawn, field)[at]) for name, at in self.places.items())
            for field in ("tables", "means", "records")
            if getattr(drawn, field) is not None
        }
        parents = {name: [back[one] for one in drawn.network.parents[at]] for name, at in self.places.items()}
        return replace(
            drawn, network=Network.of(self.people.domain, parents, self.people.rules), mixing=FrozenMap(()), **parts
        )

    def of_released(self, drawn: PosteriorDraws | DirichletPosterior) -> Any:
        """The people's tables from those of the released network, whose rows without a hole in a family tell of it.

        Given a variable's parents neither its own holes nor theirs depend on it, so these rows have the people's
        conditional law (P123). Of Dirichlet laws the part of some levels is a Dirichlet law again.
        """
        if self.others:
            raise InferenceError(
                f"the holes of {self.others[0]!r} have other parents than it has in the network, which takes "
                "method='records'"
            )
        tables, lead = (drawn.concentration, 0) if isinstance(drawn, DirichletPosterior) else (drawn.tables, 2)
        found = people_tables(self.released, tables, lead)
        if isinstance(drawn, DirichletPosterior):
            return DirichletPosterior(self.people, FrozenMap(found), drawn.provenance)
        shares = FrozenMap((name, table / table.sum(axis=lead, keepdims=True)) for name, table in found.items())
        return replace(drawn, network=self.people, tables=shares, means=None, records=None)

    def warn(self, given: Sequence[Evidence]) -> None:
        """Warns of variables with hardly any observed value, and of holes that come together, as far as noise tells."""
        for name in self.because:
            _, own = self.codes(name)
            best = 0.0
            for table in (table for one in given for table in one.tables if name in table.variables):
                if table.weights is None:
                    at = table.variables.index(name)
                    seen = table.values.reshape(table.shape).take(own, axis=at)
                    spread = math.sqrt(seen.size * table.law.variance(table.values.size)) * table.step
                    best = max(best, float(seen.sum()) / max(spread, 1e-9))
                else:
                    best = math.inf
            if best < HIDDEN_VALUES:
                warnings.warn(
                    f"as far as the noise tells, hardly a value of {name!r} was observed: its prior decides much",
                    PriorWarning,
                    stacklevel=5,
                )
            for one in self.because[name]:
                if one in self.because and any(self._together(name, one, table) for e in given for table in e.tables):
                    warnings.warn(
                        f"{name!r} is missing more often where {one!r} is than at any of its values, so its holes have "
                        f"another cause than was assumed: missing_because={{{name!r}: [{indicator(one)!r}]}}",
                        ApproximationWarning,
                        stacklevel=5,
                    )

    def _together(self, name: str, cause: str, table: MeasuredTable) -> bool:
        """True if a variable is missing more often where a cause is missing than at any clearly counted cause's value.

        A law given the cause's value cannot have that. Other causes are held fixed, so the table must have all of them.
        """
        values = [one for one in self.because[name] if one in self.released.domain]
        if table.weights is not None or not {name, *values} <= set(table.variables):
            return False
        first = (cause, name, *(one for one in values if one != cause))
        counts = margin(table.values.reshape(table.shape).astype(float), table.variables, first)
        noise = table.law.variance(table.values.size) * table.step**2 * (table.values.size / counts.size)
        gone = counts[:, self.codes(name)[0]]
        all_of = counts.sum(axis=1)
        known = all_of > CLEAR * math.sqrt(noise * counts.shape[1])
        whole = np.where(known, all_of, 1.0)
        share = (gone / whole).clip(0, 1)
        variance = (share * (1 - share) + noise * (1 - 2 * share + counts.shape[1] * share**2) / whole) / whole
        code, own = self.codes(cause)
        beyond = share[code] - share[own] > CLEAR * np.sqrt(variance[code] + variance[own])
        return bool((known[code] & known[own].any(axis=0) & (beyond | ~known[own]).all(axis=0)).any())


def _told(names: tuple[str, ...], because: Any) -> dict[str, Family]:
    if because is None:
        return {}
    if not isinstance(because, Mapping) or not all(map(_are_names, because.values())):
        raise InferenceError(f"missing_because maps variables to lists of names; got {because!r:.60}")
    if unknown := [name for name in because if name not in names]:
        raise InferenceError(
            f"missing_because names {unknown[0]!r}, whose nulls are not declared unobserved{near(unknown[0], names)}: "
            "declare it with missing=dg.UNOBSERVED"
        )
    return {name: tuple(dict.fromkeys(parents)) for name, parents in because.items()}


def _are_names(parents: object) -> bool:
    return (
        isinstance(parents, Collection)
        and not isinstance(parents, str)
        and all(isinstance(one, str) for one in parents)
    )
