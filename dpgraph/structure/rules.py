"""Combinations of levels that cannot be: public by assertion, never learned from private rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product
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
#: The most combinations of levels of the variables of one order or sum.
MOST_COMPARED = 1_000_000
#: The least and the greatest number of a level, and whether the greatest is one of its numbers.
Span = tuple[Fraction | float, Fraction | float, bool]
ALL_NUMBERS: Span = (-math.inf, math.inf, False)


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
        order: Chains of variables of numbers, each at most the next: ``[("start_year", "end_year")]``.
        sums: For a variable of numbers the variables that it is the sum of: ``{"total": ["wage", "rent"]}``. Levels
            that no numbers of theirs fulfil cannot be together. Numbers of a bin are whole where ``Bins.whole`` is
            true; end bins have no bound under ``outside="ends"``. ``missing`` and ``other`` may be
            beside anything.

    Raises:
        NetworkError: If a rule is of another form; by ``Network.of``, if a variable is unknown, a rule concerns one
            variable alone, rules contradict one another, no family of the network holds the variables of one, or
            levels of an order or a sum are no numbers, or more than 1 000 000 together.
        DomainError: By ``Network.of``, if a level is unknown.

    >>> Rules(impossible=[{"age": "0-15", "income": ["low", "high"]}])
    Rules(age=0-15 & income=low|high)
    >>> years = Bins([1990, 2000, 2010, 2020])
    >>> Rules(order=[("start", "end")]).checked(Domain.of({"start": years, "end": years}))
    Rules(start=2000-2010 & end=1990-2000, start=2010-2020 & end=1990-2000|2000-2010)
    """

    impossible: tuple[Combination, ...]
    determines: FrozenMap[str, Any]
    broken: Broken
    order: tuple[tuple[str, ...], ...]
    sums: FrozenMap[str, tuple[str, ...]]

    def __init__(
        self,
        impossible: Iterable[Mapping[str, Level | Iterable[Level]]] = (),
        determines: Mapping[str, Mapping[str, Mapping[Any, Any]]] | None = None,
        broken: Broken = "refuse",
        order: list[Iterable[str]] | tuple[Iterable[str], ...] = (),
        sums: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        if isinstance(impossible, str | Mapping) or not isinstance(impossible, Iterable):
            raise NetworkError(f"impossible is a list of combinations, mappings to levels; got {impossible!r:.60}")
        check_choice("broken", broken, Broken, error=NetworkError)
        told = tuple(_levels_by_key(one, "a combination maps variables to levels") for one in impossible)
        known = {
            name: FrozenMap((other, _levels_by_key(levels, f"{name!r} determines")) for other, levels in _items(others))
            for name, others in _items({} if determines is None else determines)
        }
        if not isinstance(order, list | tuple) or not isinstance(sums, Mapping | None):
            raise NetworkError(
                "order is a list of chains, order=[('start', 'end')], and sums a mapping, sums={'total': ['wage', "
                f"'rent']}}; got order={order!r:.60}, sums={sums!r:.60}"
            )
        chains = tuple(_names(chain) for chain in order)
        totals = FrozenMap((total, _names(parts, total)) for total, parts in (sums or {}).items())
        settings = {"impossible": told, "determines": FrozenMap(known), "broken": broken}
        for name, value in (settings | {"order": chains, "sums": totals}).items():
            object.__setattr__(self, name, value)

    def __bool__(self) -> bool:
        return bool(self.impossible or self.determines or self.order or self.sums)

    def __repr__(self) -> str:
        more = [f"broken={self.broken!r}"] if self.broken != "refuse" else []
        told = [f"{name} determines {other}" for name, others in self.determines.items() for other in others]
        told += [" <= ".join(chain) for chain in self.order]
        told += [f"{total} = {' + '.join(parts)}" for total, parts in self.sums.items()]
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
        rules = [*self.impossible, *self._determined(domain), *self._compared(domain)]
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
                possible = np.zeros((domain.sizes[name], domain.sizes[other]), bool)
                if self.broken != "refuse":
                    possible[:, domain.code(other, self.landing(domain, other))] = True
                for code, levels in known.items():
                    possible[code, [domain.code(other, level) for level in levels]] = True
                yield from _apart(domain, (name, other), possible)

    def _compared(self, domain: Domain) -> Iterator[Combination]:
        """The combinations of levels none of whose numbers fulfil an order or a sum."""
        for names in (pair for chain in self.order for pair in pairwise(chain)):
            spans = _spans(domain, names)
            found = [low < high or (low == high and closed) for (low, _, _), (_, high, closed) in product(*spans)]
            yield from _apart(domain, names, np.reshape(found, [len(one) for one in spans]))
        for total, parts in self.sums.items():
            *spans, whole = _spans(domain, (*parts, total))
            found = []
            for some in product(*spans):
                lows, highs, closed = zip(*some, strict=True)
                low, high, reached = sum(lows), sum(highs), all(closed)
                found += [
                    (low < top or (low == top and ends)) and (least < high or (least == high and reached))
                    for least, top, ends in whole
                ]
            yield from _apart(domain, (*parts, total), np.reshape(found, [len(one) for one in (*spans, whole)]))


def codes(domain: Domain, name: str, levels: tuple[Level, ...] | None) -> list[int]:
    """The positions of some levels of a variable, of all without any; bins by name: a number is not all of its bin."""
    if levels is None:
        return list(range(domain.sizes[name]))
    named = isinstance(domain[name], Bins)
    return [domain.code(name, str(level) if named else level) for level in levels]


def _spans(domain: Domain, names: tuple[str, ...]) -> list[list[Span]]:
    if math.prod(domain[name].size for name in names) > MOST_COMPARED:
        raise NetworkError(f"{', '.join(names)} have more than {MOST_COMPARED:,} combinations: give them fewer levels")
    return [[_span(domain, name, code) for code in range(domain.sizes[name])] for name in names]


def _span(domain: Domain, name: str, code: int) -> Span:
    """The numbers of a level; all numbers where it stands for nulls or undeclared values."""
    variable = domain[name]
    if isinstance(variable, Bins):
        last, ends = len(variable.spans) - 1, variable.outside == "ends"
        if code > last:
            return ALL_NUMBERS
        low, high = (Fraction(repr(edge)) for edge in variable.spans[code])
        closed = variable.whole or code == last
        return -math.inf if ends and code == 0 else low, math.inf if ends and code == last else high, closed
    level = variable.levels[code]
    if variable.kind != "number":
        raise NetworkError(f"{name!r} is in an order or a sum, and its levels are no numbers, as {level!r}")
    number = Fraction(repr(level))
    return ALL_NUMBERS if level in (variable.other, variable.missing) else (number, number, True)


def _apart(domain: Domain, names: tuple[str, ...], possible: npt.NDArray[np.bool_]) -> Iterator[Combination]:
    """Combinations that make up the cells that are not possible, those of fewer variables first."""
    for size in range(2, len(names) + 1):
        for kept in combinations(range(len(names)), size):
            away = tuple(axis for axis in range(len(names)) if axis not in kept)
            never = np.logical_not(possible.any(axis=away, keepdims=True))
            for axis in kept if size > 2 else ():
                never = never & possible.any(axis=(*away, axis), keepdims=True)  # the others say it where it is not
            cells = np.moveaxis(never.reshape([possible.shape[axis] for axis in kept]), 0, -2)  # beside the last
            for place in np.ndindex(cells.shape[:-2]):
                alike: dict[bytes, list[int]] = {}
                for code, row in enumerate(cells[place]):
                    alike.setdefault(row.tobytes() if row.any() else b"", []).append(code)
                for mine in (mine for row, mine in alike.items() if row):
                    rest = np.flatnonzero(cells[place][mine[0]]).tolist()
                    told = zip((names[axis] for axis in kept), (mine, *([code] for code in place), rest), strict=True)
                    yield FrozenMap((one, tuple(domain.levels(one)[code] for code in some)) for one, some in told)


def _names(names: Iterable[str], *total: str) -> tuple[str, ...]:
    told = () if isinstance(names, str | Mapping) or not isinstance(names, Iterable) else tuple(names)
    every = (*told, *total)
    if len(every) < 2 or not told or not all(isinstance(name, str) for name in every) or len(set(every)) < len(every):
        raise NetworkError(f"an order or a sum has two variables at least, by name, each once; got {names!r:.60}")
    return told


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
