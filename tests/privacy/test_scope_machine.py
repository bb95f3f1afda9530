"""Random trees of budgets: whatever is split, counted and released, no person loses more than the top shows as spent.

The noise source records what it is handed, so the loss is exact: additive noise of scale b on integers that move by d
loses sum |d| / b, and discrete Gaussian noise sum d^2 / (2 b^2) in zCDP, from the integers that the package itself
hands over for a data set and for its neighbours. Both are convex in the rows that change, so that a person's rows do
most when they are all alike.
"""

import copy
import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone

import dpgraph as dg
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.privacy.noise import epsilon_of_rho
from tests.tiers import examples

REGIONS, SEXES = ("north", "south"), ("F", "M")

#: Two declarations of the regions; a row of the west is in the south of one and in the north of the other.
DOMAINS = tuple(
    dg.Domain.of({"region": dg.Categories(REGIONS, other=other), "sex": SEXES, "a": [0, 1]})
    for other in reversed(REGIONS)
)
NETWORKS = (
    dg.Network.of(DOMAINS[0].restrict(["a"]), {}),
    dg.Network.of(DOMAINS[0].restrict(["a", "sex"]), {"a": ["sex"]}),
)
KINDS = tuple(itertools.product((*REGIONS, "west"), SEXES, (0, 1)))


class Recorder:
    """Adds no noise and keeps what it was to be added to."""

    private = True

    def __init__(self):
        self.calls = []

    def add(self, values, law):
        self.calls.append((law, np.array(values)))
        return values


class Broken:
    """A source that fails at the first draw."""

    private = True

    def add(self, values, law):
        raise MemoryError


@cache
def codes_of(kinds, domain):
    """Rows of these kinds, encoded by one of the declarations."""
    return dg.statistics.encode(
        pd.DataFrame(list(kinds), columns=["region", "sex", "a"]).astype({"a": int}), DOMAINS[domain]
    )


@cache
def counts_of(kinds, network, domain, where):
    return dg.count(codes_of(kinds, domain), NETWORKS[network], where=dict(where) or None)


def total(kinds, network, parts):
    """The counts of one group, or of several added; the parts of a sum over one group are of different rows."""
    alike = len({(dict(where).get("region") and domain, frozenset(where)) for domain, where in parts}) == 1
    shares = [kinds[i :: len(parts)] if alike else kinds for i in range(len(parts))]
    counts, *others = (counts_of(rows, network, *part) for rows, part in zip(shares, parts, strict=True))
    for other in others:
        counts = counts + other
    return counts


@cache
def inputs(kinds, network, parts, mechanism, unit):
    """What the mechanism hands to its noise for rows of these kinds."""
    recorder = Recorder()
    mechanism.randomise(total(kinds, network, parts), unit, recorder)
    return recorder.calls


def conditions(group):
    """A group as ``where`` takes it, in a fixed order."""
    return () if group is None else tuple(group.where.items())


SHARES = st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(5, 4)])
NAMES = st.sampled_from(["region", "region", "sex", "sex", "a"])
PLACES = st.integers(0, 99)

#: Gaussian noise of this rho, where the budget has a delta; None is Laplace noise.
RHOS = st.sampled_from([None, None, Fraction(1, 2000), Fraction(1, 50)])
GROUPS = st.fixed_dictionaries(
    {}, optional={"region": st.sampled_from(REGIONS), "sex": st.sampled_from(SEXES), "a": st.integers(0, 1)}
).map(lambda where: tuple(where.items()))

#: A declaration and a group; None is the group that the budget says it is for.
PARTS = st.tuples(st.sampled_from([0, 0, 1]), st.none() | st.none() | GROUPS)
SUMS = st.lists(PARTS, min_size=1, max_size=2).map(tuple)


class Budgets(RuleBasedStateMachine):
    """One budget, what became of it, and what each kind of row has lost to all releases together."""

    @initialize(
        neighbours=st.sampled_from(["replace", "add-remove"]),
        rows=st.sampled_from([1, 1, 1, 2, 3, 4, 5]),
        delta=st.sampled_from(["1e-5", "0", "1e-5"]),
        kinds=st.lists(st.sampled_from(KINDS), max_size=3).map(lambda kinds: tuple(sorted(kinds))),
        first=st.lists(NAMES, max_size=2),
    )
    def begin(self, neighbours, rows, delta, kinds, first):
        self.unit, self.kinds = dg.PrivacyUnit(neighbours, rows), kinds
        self.top = dg.Budget(2, delta, unit=self.unit)
        self.budgets = [self.top]
        ends = range(len(KINDS))
        self.pairs = list(itertools.combinations(ends, 2)) if self.unit.n_is_public else [(i, None) for i in ends]
        self.pure, self.rho = [Fraction(0)] * len(self.pairs), [Fraction(0)] * len(self.pairs)
        for by in first:
            self.split_all(by, 0)

    @rule(place=PLACES, by=NAMES, share=SHARES, domain=st.integers(0, 1))
    def split(self, place, by, share, domain):
        """One budget by a variable, fixed already or not."""
        self._split(self.budgets[place % len(self.budgets)], by, share, domain)

    @rule(by=NAMES, domain=st.integers(0, 1))
    @precondition(lambda self: len(self.budgets) < 30)
    def split_all(self, by, domain):
        """Every budget that has something left, by one variable."""
        for budget in [budget for budget in self.budgets if budget.remaining]:
            self._split(budget, by, Fraction(1), domain)

    @rule(place=PLACES, network=st.integers(0, 1), parts=SUMS, share=SHARES, rho=RHOS)
    def release(self, place, network, parts, share, rho):
        """From one budget: what it says it is for, any other group, or a sum of groups."""
        self._release(self.budgets[place % len(self.budgets)], network, parts, share, rho)

    @rule(network=st.integers(0, 1), part=PARTS, rho=RHOS)
    def release_everywhere(self, network, part, rho):
        """All that is left in every budget: on what it says it is for, or on one group in all of them."""
        for budget in [budget for budget in self.budgets if budget.remaining]:
            self._release(budget, network, (part,), Fraction(1), rho)

    @rule(place=PLACES, share=SHARES)
    def interrupt(self, place, share):
        """The draw fails: nothing leaves, and the charge stands."""
        budget = self.budgets[place % len(self.budgets)]
        spent, price = budget.spent, (budget.remaining or 1) * share
        counts = counts_of(self.kinds, 0, 0, conditions(budget.group))
        try:
            dg.release(counts, dg.LaplaceMechanism(price), budget=budget, noise=Broken())
        except MemoryError:
            assert budget.spent == spent + price
        except dg.errors.ReleaseError:
            assert budget.spent == spent

    @rule(place=PLACES, duplicate=st.sampled_from([copy.copy, copy.deepcopy, clone]))
    @precondition(lambda self: len(self.budgets) < 30)
    def duplicate(self, place, duplicate):
        """A copy, to spend from."""
        self.budgets.append(duplicate(self.budgets[place % len(self.budgets)]))

    @invariant()
    def no_one_lost_more_than_was_spent(self):
        """Pure losses exactly; with Gaussian noise by OpenDP's conversion of the exact rho at the delta that was
        spent, which finds its minimum to ten digits."""
        rows, spent = self.unit.rows_per_person, self.top.cost()
        assert spent.epsilon <= self.top.epsilon
        for pure, rho in set(zip(self.pure, self.rho, strict=True)):
            assert rows * pure <= spent.epsilon
            if rho:
                converted = epsilon_of_rho(rows**2 * rho, spent.delta)
                assert rows * pure + converted <= spent.epsilon * (1 + Fraction(1, 10**9))

    def _split(self, budget, by, share, domain):
        """Its groups join the budgets, or nothing happens."""
        spent, price, delta = budget.cost(), (budget.remaining or 1) * share, budget.delta - budget.cost().delta
        try:
            groups = budget.parallel(DOMAINS[domain], by, epsilon=price, delta=delta * min(share, 1))
        except dg.errors.ReleaseError:
            assert budget.cost() == spent
        else:
            assert budget.spent == spent.epsilon + price
            self.budgets += groups.values()

    def _release(self, budget, network, parts, share, rho):
        """Through the door, and into the losses if it passes."""
        spent, price, delta = budget.cost(), (budget.remaining or 1) * share, budget.delta - budget.cost().delta
        parts = tuple((domain, conditions(budget.group) if where is None else where) for domain, where in parts)
        recorder = Recorder()
        try:
            gaussian = rho and delta and dg.GaussianMechanism(delta=delta * min(share, 1), rho=rho)
            mechanism = gaussian or dg.LaplaceMechanism(price)
            counts = total(self.kinds, network, parts)
            dg.release(counts, mechanism, budget=budget, noise=recorder)
        except dg.errors.ReleaseError:
            assert budget.cost() == spent
            assert not recorder.calls
        else:
            self._lose(recorder.calls, network, parts, mechanism, budget.unit)

    def _lose(self, calls, network, parts, mechanism, unit):
        """Adds what each pair of kinds of rows moved, relative to the noise."""
        empty = inputs((), network, parts, mechanism, unit)
        alone = [inputs((kind,), network, parts, mechanism, unit) for kind in KINDS]
        for place, (law, values) in enumerate(calls):
            moves = np.array([one[place][1] - empty[place][1] for one in alone])
            assert (values == empty[place][1] + sum(moves[KINDS.index(kind)] for kind in self.kinds)).all()
            ends = np.concatenate([moves, np.zeros_like(moves[:1])])
            scale = Fraction(law.scale)
            for pair, (one, other) in enumerate(self.pairs):
                move = ends[one] - ends[-1 if other is None else other]
                if isinstance(law, DiscreteGaussian):
                    self.rho[pair] += int((move**2).sum()) / (2 * scale**2)
                else:
                    self.pure[pair] += int(np.abs(move).sum()) / scale


TestBudgets = Budgets.TestCase
TestBudgets.settings = settings(
    max_examples=examples(250),
    stateful_step_count=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
