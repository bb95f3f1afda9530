"""Choices of parents: their exact laws on all neighbours, and what they find."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.parents_choice import OneWays, ParentsChoice
from dpgraph.statistics.counts import TableCounts, any_tables
from dpgraph.structure.domain import Domain
from dpgraph.structure.margins import AnyTables
from tests.selection import log_law, multisets, neighbours

ADD, REPLACE = dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace")


def domain_of(sizes):
    return Domain.of({name: list(range(size)) for name, size in zip("abcdef", sizes, strict=False)})


def statistics_of(domain, rows):
    """Statistics of rows given as how often each kind of row is there."""
    kinds = list(itertools.product(*(range(size) for size in domain.sizes.values())))
    listed = [kind for kind, times in zip(kinds, rows, strict=True) for _ in range(times)]
    return any_tables(pd.DataFrame(listed, columns=list(domain.names), dtype=int), domain)


class Asked(Exception):
    """The answer to a call is not in the script."""


class Scripted:
    """A source of choices that answers by a script and says what the next call asks."""

    private = False

    def __init__(self, script):
        self.script, self.logs, self.next = script, [], None

    def choose(self, scores, scale):
        laws = log_law(("choose", scores, scale))
        if len(self.logs) == len(self.script):
            self.next = len(scores)
            raise Asked
        answer = self.script[len(self.logs)]
        self.logs.append(laws[answer])
        return answer


def law_of(mechanism, statistics, unit):
    """The exact probability of every outcome, summed over all ways to it."""
    law, waiting = {}, [()]
    while waiting:
        source = Scripted(waiting.pop())
        try:
            outcome = mechanism.randomise(statistics, unit, source)
        except Asked:
            waiting += [(*source.script, answer) for answer in range(source.next)]
            continue
        key = tuple(sorted(outcome.parents.items())) if isinstance(outcome, dg.Network) else outcome
        law[key] = law.get(key, 0.0) + math.exp(sum(source.logs))
    assert math.isclose(sum(law.values()), 1.0)
    return law


def choice_of(domain):
    """A choice with margins and noise that leave all candidates near."""
    margins = OneWays.of({name: 1.0 + np.arange(size) for name, size in domain.sizes.items()}, 3)
    return ParentsChoice(2, margins, noise=0.1)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize(
    ("sizes", "most"),
    [((2, 2), 4), ((2, 2, 2), 2), pytest.param((2, 2, 2), 4, marks=pytest.mark.proof)],
    ids=["two variables", "three variables", "three variables, four rows"],
)
def test_no_outcome_tells_neighbours_apart_by_more_than_epsilon(sizes, most, unit):
    """All data sets of up to two or four rows; and it is spent: not by a factor of more than five too little."""
    domain = domain_of(sizes)
    mechanism = choice_of(domain)
    kinds = math.prod(sizes)
    data = {rows: None for n in range(most + 1) for rows in multisets(kinds, n)}
    for rows in data:
        data[rows] = law_of(mechanism, statistics_of(domain, rows), unit)
    worst = 0.0
    for one, other in neighbours(kinds, most, unit):
        assert data[one].keys() == data[other].keys()
        worst = max(worst, max(abs(math.log(p / data[other][key])) for key, p in data[one].items()))
    assert 0.2 * 2 < worst <= 2 * (1 + 1e-12)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.neighbours)
def test_strong_pairs_are_found(unit):
    """A chain of six variables that copy one another nine times in ten, 2 000 rows, a large epsilon."""
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 2, 2000)]
    for _ in range(5):
        columns.append(np.where(rng.random(2000) < 0.9, columns[-1], 1 - columns[-1]))
    domain = domain_of((2,) * 6)
    frame = pd.DataFrame(dict(zip(domain.names, columns, strict=True)))
    margins = OneWays.of({name: np.bincount(frame[name], minlength=2) for name in domain.names}, 2000)
    statistics = any_tables(frame, domain)
    chain = {frozenset(pair) for pair in itertools.pairwise(domain.names)}
    mechanism = ParentsChoice(100, margins, noise=1.0, max_parents=1)
    made = dg.release(statistics, mechanism, budget=dg.Budget(100, unit=unit), noise=dg.testing.SeededNoise(1))
    assert {frozenset((child, *parents)) for child, parents in made.value.parents.items() if parents} == chain


def test_stop_is_chosen_where_nothing_stands_above_the_noise():
    """Independent variables, and a measurement that would bring more noise than there are rows."""
    rng = np.random.default_rng(4)
    domain = domain_of((2,) * 4)
    frame = pd.DataFrame({name: rng.integers(0, 2, 500) for name in domain.names})
    margins = OneWays.of({name: [1.0, 1.0] for name in domain.names}, 500)
    mechanism = ParentsChoice(50, margins, noise=200.0)
    made = dg.release(any_tables(frame, domain), mechanism, budget=dg.Budget(50), noise=dg.testing.SeededNoise(2))
    assert not any(made.value.parents.values())


def test_forbidden_arcs_and_many_parents_are_not_chosen():
    domain = domain_of((2, 2, 2))
    margins = OneWays.of({name: [1.0, 1.0] for name in domain.names}, 8)
    statistics = statistics_of(domain, (2, 0, 0, 2, 0, 2, 2, 0))
    forbidden = [("a", "b"), ("b", "a"), ("c", "a"), ("c", "b")]
    for seed in range(20):
        for most in (1, 2):
            mechanism = ParentsChoice(1, margins, max_parents=most, forbidden=forbidden)
            network = dg.release(statistics, mechanism, budget=dg.Budget(1), noise=dg.testing.SeededNoise(seed)).value
            arcs = {(parent, child) for child, parents in network.parents.items() for parent in parents}
            assert not arcs & set(forbidden)
            assert max(len(parents) for parents in network.parents.values()) <= most


def test_pairs_of_too_many_cells_are_no_candidates():
    domain = domain_of((2, 3, 4))
    margins = OneWays.of({name: np.ones(size) for name, size in domain.sizes.items()}, 8)
    statistics = statistics_of(domain, (1,) * 24)
    mechanism = ParentsChoice(1, margins, max_cells=6)
    for seed in range(10):
        made = dg.release(statistics, mechanism, budget=dg.Budget(1), noise=dg.testing.SeededNoise(seed)).value
        assert {frozenset(family) for family in made.families if len(family) > 1} <= {frozenset("ab")}


def test_the_cost_is_known_before_data_and_shared_by_the_choices():
    domain = domain_of((2, 3, 2))
    margins = OneWays.of({name: np.ones(size) for name, size in domain.sizes.items()}, 8)
    event = ParentsChoice("0.6", margins).event(AnyTables(domain), ADD)
    assert (event.epsilon, event.delta) == (Fraction(3, 5), 0)
    (chosen,) = event.selections
    assert (chosen.law, chosen.epsilon, chosen.draws) == ("softmax", Fraction(3, 10), 2)
    assert event.rho == 2 * Fraction(3, 10) ** 2 / 8


NONE = (-1.0, math.inf, math.nan, True, "1")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: ParentsChoice(0, m), "epsilon"),
        *(
            (lambda m, noise=noise: ParentsChoice(1, m, noise=noise), "noise must be a number of rows")
            for noise in NONE
        ),
        (lambda m: ParentsChoice(1, m, max_cells=0), "max_cells"),
        (lambda m: ParentsChoice(1, m, max_parents=0), "max_parents"),
        (lambda m: ParentsChoice(1, "x"), "OneWays"),
        (lambda m: ParentsChoice(1, None), "OneWays"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        make(OneWays.of({"a": [1, 1], "b": [1, 1]}, 8))


def test_what_does_not_fit_is_refused_uncharged():
    domain, margins = domain_of((2, 2)), OneWays.of({"a": [1, 1], "b": [1, 1]}, 8)
    budget, statistics = dg.Budget(1), statistics_of(domain, (1, 1, 1, 1))
    counts = dg.count(pd.DataFrame({"a": [0], "b": [1]}), dg.Network.of(domain, {}))
    one = any_tables(pd.DataFrame({"a": [0]}), domain.restrict(["a"]))
    for subject, mechanism in [
        (counts, ParentsChoice(1, margins)),
        (statistics, ParentsChoice(1, OneWays.of({"a": [1, 1]}, 8))),
        (statistics, ParentsChoice(1, OneWays.of({"a": [1, 1], "b": [1, 1, 1]}, 8))),
        (statistics, dg.LaplaceMechanism(1)),
        (statistics, ParentsChoice("1e-40", margins)),
        (one, ParentsChoice(1, OneWays.of({"a": [1, 1]}, 8))),
    ]:
        with pytest.raises(dg.errors.ReleaseError):
            dg.release(subject, mechanism, budget=budget)
    assert budget.spent == 0


def test_statistics_to_choose_from_show_nothing_and_add():
    domain = domain_of((2, 3))
    one, other = statistics_of(domain, (1, 0, 2, 0, 0, 7)), statistics_of(domain, (0, 5, 0, 1, 0, 0))
    both = one + other
    assert repr(both) == "TableCounts(2 variables, sensitive)"
    assert both.sensitive_block(("b", "a"), ADD).tolist() == [[1, 1], [5, 0], [2, 7]]
    assert both.sensitive_block(("b",), ADD).tolist() == [2, 5, 9]
    assert both.sensitive_rows == 16
    with pytest.raises(TypeError, match="not pickled"):
        both.__reduce__()
    with pytest.raises(dg.errors.ReleaseError, match="do not add"):
        one + statistics_of(domain_of((2, 2)), (1, 0, 0, 0))
    assert isinstance(one, TableCounts)
