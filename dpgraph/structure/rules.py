"""Combinations of levels that cannot be: public by assertion, never learned from private rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.errors import NetworkError
from dpgraph.structure.domain import Bins, Domain, Level
from dpgraph.structure.frozen import FrozenMap

Combination = FrozenMap[str, tuple[Level, ...]]
Broken = Literal["refuse", "missing", "other"]
#: The most rules of a network, and the most that a refusal of rows lists.
MOST_RULES, MOST_LISTED = 4096, 5


@dataclass(frozen=True)
class Rules:
    """Combinations of levels that no row has, known before any is read: their cells are 0, without noise.

    Args:
        impossible: Combinations that no row may have: mappings from two variables or more to a level or several.
        determines: For a variable, and another that it determines, the level or levels of the other at each of its own:
            ``{"district": {"county": {"d1": "c1", "d2": "c1"}}}``. A network keeps them as combinations.
        broken: ``"refuse"`` the table, or count a row that breaks a rule as the level declared ``missing``, or
            ``other``, of the rule's variable named last, or determined; that level may be anywhere. A refusal tells one
            bit about the rows, which no budget is charged for; a strict domain needs one of the other two.

    Raises:
        NetworkError: If a rule is of another form; by ``Network.of``, if a variable is unknown, a rule concerns one
            variable alone, rules contradict one another or no family of the network holds the variables of one.
        DomainError: By ``Network.of``, if a level is unknown.

    >>> Rules(impossible=[{"age": "0-15", "income": ["low", "high"]}])
    Rules(age=0-15 & income=low|high)
    """

    impossible: tuple[Combination, ...]
    determines: FrozenMap[str, Any]
    broken: Broken

    def __init__(
        self,
        impossible: Iterable[Mapping[str, Level | Iterable[Level]]] = (),
        determines: Mapping[str, Mapping[str, Mapping[Any, Any]]] | None = None,
        broken: Broken = "refuse",
    ) -> None:
        if isinstance(impossible, str | Mapping) or not isinstance(impossible, Iterable):
            raise NetworkError(f"impossible is a list of combinations, mappings to levels; got {impossible!r:.60}")
        check_choice("broken", broken, Broken, error=NetworkError)
        told = tuple(_levels_by_key(one, "a combination maps variables to levels") for one in impossible)
        known = {
            name: FrozenMap((other, _levels_by_key(levels, f"{name!r} determines")) for other, levels in _items(others))
            for name, others in _items({} if determines is None else determines)
        }
        for name, value in (("impossible", told), ("determines", FrozenMap(known)), ("broken", broken)):
            object.__setattr__(self, name, value)

    def __bool__(self) -> bool:
        return bool(self.impossible or self.determines)

    def __repr__(self) -> str:
        more = [f"broken={self.broken!r}"] if self.broken != "refuse" else []
        told = [f"{name} determines {other}" for name, others in self.determines.items() for other in others]
        return f"Rules({', '.join([*self.words(), *told, *more])})"

    def words(self) -> list[str]:
        """The first combinations, in words."""
        some = [
            " & ".join(f"{name}={'|'.join(map(str, levels))}" for name, levels in rule.items())
            for rule in self.impossible[:MOST_LISTED]
        ]
        rest = len(self.impossible) - len(some)
        return [*some, f"... {rest} more"] if rest else some

    def checked(self, domain: Domain) -> Rules:
        """The same as combinations alone, of two variables at least, their levels in the domain's order."""
        rules = [*self.impossible, *self._determined(domain)]
        if len(rules) > MOST_RULES:
            raise NetworkError(f"there are {len(rules):,} rules, more than {MOST_RULES:,}; say rules of several levels")
        made = dict.fromkeys(_checked(rule, domain) for rule in rules)
        if self.broken == "refuse":
            if made and domain.strict:
                raise NetworkError(
                    "the domain is strict, and a row that breaks a rule would refuse the table: Rules(..., "
                    "broken='missing'), or 'other', counts it as a level of its own"
                )
            return Rules(tuple(made))
        taken = {name: self.landing(domain, name) for name in dict.fromkeys(list(rule)[-1] for rule in made)}
        for rule in made:
            for name in taken.keys() & rule.keys():
                if taken[name] in rule[name]:
                    raise NetworkError(
                        f"broken={self.broken!r}: rows that break a rule count as {taken[name]!r} of {name!r}, so no "
                        "rule may name that level"
                    )
        return Rules(tuple(made), broken=self.broken)

    def landing(self, domain: Domain, name: str) -> Level:
        """The level of a variable that rows count as where they break a rule."""
        variable = domain[name]
        if isinstance(variable, Bins):
            level: Level | None = "missing" if variable.missing and self.broken == "missing" else None
        else:
            level = variable.missing if self.broken == "missing" else variable.other
        if level is None:
            raise NetworkError(
                f"broken={self.broken!r}: {name!r} is named last in a rule and declares no such level; declare it, or "
                "name a variable last that has it"
            )
        return level

    def possible(self, domain: Domain, variables: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
        """A mask of a table's cells, axes as the variables, False where a rule within them forbids; None without one.

        Of rules that ``checked`` made.
        """
        mask: npt.NDArray[np.bool_] | None = None
        for rule in self.impossible:
            if rule.keys() <= set(variables):
                if mask is None:
                    mask = np.ones([domain.sizes[name] for name in variables], bool)
                mask[np.ix_(*(codes(domain, name, rule.get(name)) for name in variables))] = False
        return mask

    def _determined(self, domain: Domain) -> Iterator[Combination]:
        """A combination for each set of levels that some levels of a variable allow."""
        for name, others in self.determines.items():
            for other, allowed in others.items():
                known = {domain.code(name, level): levels for level, levels in allowed.items()}
                if unsaid := [level for code, level in enumerate(domain.levels(name)) if code not in known]:
                    raise NetworkError(
                        f"{name!r} determines {other!r}, but not at {unsaid[0]!r}: give its level there, or the "
                        "list of all that may be"
                    )
                kept = () if self.broken == "refuse" else (domain.code(other, self.landing(domain, other)),)
                alike: dict[frozenset[int], list[Level]] = {}
                for code, levels in sorted(known.items()):
                    some = frozenset([*kept, *(domain.code(other, level) for level in levels)])
                    alike.setdefault(some, []).append(domain.levels(name)[code])
                for some, mine in alike.items():
                    rest = tuple(level for code, level in enumerate(domain.levels(other)) if code not in some)
                    if rest:
                        yield FrozenMap({name: tuple(mine), other: rest})


def codes(domain: Domain, name: str, levels: tuple[Level, ...] | None) -> list[int]:
    """The positions of some levels of a variable, of all without any; bins by name: a number is not all of its bin."""
    if levels is None:
        return list(range(domain.sizes[name]))
    named = isinstance(domain[name], Bins)
    return [domain.code(name, str(level) if named else level) for level in levels]


def _checked(rule: Combination, domain: Domain) -> Combination:
    """A rule's variables but those of which it names every level, which do not matter."""
    found = {name: sorted(set(codes(domain, name, levels))) for name, levels in rule.items()}
    made = {
        name: tuple(domain.levels(name)[code] for code in some)
        for name, some in found.items()
        if len(some) < domain.sizes[name]
    }
    if len(made) < 2 or not all(made.values()):
        raise NetworkError(
            f"a rule combines levels of two variables at least, and not all of them: {Rules([rule])!r}. Leave a level "
            "that cannot be out of the domain"
        )
    return FrozenMap(made)


def _items(mapping: object) -> Iterable[tuple[str, Any]]:
    if not isinstance(mapping, Mapping) or not all(isinstance(name, str) for name in mapping):
        raise NetworkError(
            "determines maps a variable to the variables it determines, and each to levels by level: {'district': "
            f"{{'county': {{'d1': 'c1'}}}}}}; got {mapping!r:.60}"
        )
    return mapping.items()


def _levels_by_key(mapping: object, what: str) -> FrozenMap[Any, tuple[Any, ...]]:
    """A mapping to levels, each alone or in a list."""
    if not isinstance(mapping, Mapping):
        raise NetworkError(f"{what}; got {mapping!r:.60}")
    return FrozenMap(
        (key, tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,))
        for key, value in mapping.items()
    )
