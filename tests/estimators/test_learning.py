"""``learn_network``: what is charged, what is refused before it, and that it is what its two steps are."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.estimators import measured_pairs
from dpgraph.estimators.learning import planned_events
from dpgraph.estimators.measured_pairs import designed
from dpgraph.inference.graphs.constraints import constraints_within
from dpgraph.privacy.exact_loss import RecordingNoise
from dpgraph.testing import SeededNoise
from tests.small_tables import chain

UNIT = dg.PrivacyUnit("add-remove")
DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]})


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.9, a, 1 - a)
    return pd.DataFrame({"a": a, "b": b, "c": rng.integers(0, 3, n)})


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("n", [None, 2000])
def test_what_is_charged_is_what_was_asked_and_planned(delta, neighbours, n):
    unit = dg.PrivacyUnit(neighbours)
    budget = dg.Budget(3, "1e-5", unit=unit)
    planned = planned_events(DOMAIN, epsilon=1, delta=delta, unit=unit, n=n)
    learned = dg.learn_network(table(), DOMAIN, epsilon=1, delta=delta, budget=budget, n=n)
    assert budget.spent == 1
    assert budget.remaining_delta == Fraction("1e-5") - Fraction(delta)
    cost = dg.cost(learned.release)
    assert (cost.epsilon, cost.delta) == (planned.epsilon, planned.delta) == (Fraction(1), Fraction(delta))
    assert len(budget.events) == 1 + (n is None and not unit.n_is_public)


@pytest.mark.proof
def test_an_edge_is_found_and_none_where_there_is_none():
    """At epsilon 4 the noise of 2000 rows is far below the edge's 800 and what none has: z above 20 and below 4."""
    learned = dg.learn_network(table(), DOMAIN, epsilon=4, unit=UNIT, noise=SeededNoise(1))
    edges = {frozenset((p, v)) for v, above in learned.network.parents.items() for p in above}
    assert frozenset("ab") in edges
    assert learned.edges.iloc[0]["strength"] == pytest.approx(0.4, abs=0.1)


def test_a_choice_is_made_again_for_free():
    budget = dg.Budget(1, unit=UNIT)
    learned = dg.learn_network(table(), DOMAIN, epsilon=1, budget=budget)
    again = dg.choose_network(learned.release)
    assert again.network == learned.network
    assert (
        dg.choose_network(learned.release, constraints=dg.Constraints(forbidden=[("a", "b"), ("b", "a")])).network
        != learned.network
    )
    assert budget.remaining == 0


CONTRADICTION = dg.Constraints(required=[("a", "b")], forbidden=[("a", "b")])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"epsilon": 0}, dg.errors.ReleaseError),
        ({"epsilon": "nan"}, dg.errors.ReleaseError),
        ({"epsilon": 1, "delta": 2}, dg.errors.ReleaseError),
        ({"epsilon": 1, "method": "mst"}, dg.errors.ReleaseError),
        ({"epsilon": 1, "n": 0}, dg.errors.ReleaseError),
        ({"epsilon": 1, "unit": dg.PrivacyUnit("replace")}, dg.errors.ReleaseError),
        ({"epsilon": 6}, dg.errors.BudgetExceededError),
        ({"epsilon": 1, "delta": "1e-6"}, dg.errors.BudgetExceededError),
        (
            {"epsilon": 1, "constraints": dg.Constraints(required=[("a", "b")], forbidden=[("a", "b")])},
            dg.errors.NetworkError,
        ),
        ({"epsilon": 1, "constraints": dg.Constraints(target="nowhere")}, dg.errors.NetworkError),
    ],
)
def test_what_is_refused_is_not_charged(settings, error):
    budget = dg.Budget(5, unit=UNIT)
    with pytest.raises(error):
        dg.learn_network(table(), DOMAIN, budget=budget, **settings)
    assert budget.spent == 0


@pytest.mark.parametrize("rows", [pd.DataFrame({"a": [0]}), table().assign(a=7), None])
def test_rows_that_do_not_fit_are_refused_and_nothing_is_charged(rows):
    budget = dg.Budget(5, unit=UNIT)
    with pytest.raises(dg.errors.DomainError):
        dg.learn_network(rows, DOMAIN, epsilon=1, budget=budget)
    assert budget.spent == 0


@pytest.mark.parametrize("method", ["auto", "pairs", "greedy"])
def test_required_edges_that_deadlock_with_the_order_are_refused_and_nothing_is_charged(method):
    budget = dg.Budget(1, unit=UNIT)
    constraints = dg.Constraints(required=[("b", "c"), ("c", "a")], order=["a", "b"])
    asked = {"epsilon": 1, "method": method, "constraints": constraints}
    with pytest.raises(dg.errors.NetworkError, match="contradict one another"):
        planned_events(DOMAIN, unit=UNIT, n=2000, **asked)
    with pytest.raises(dg.errors.NetworkError, match="contradict one another"):
        dg.learn_network(table(), DOMAIN, budget=budget, n=2000, **asked)
    assert budget.spent == 0


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_variables_of_one_level_each_have_a_network_without_arcs(names):
    budget = dg.Budget(1, unit=UNIT)
    rows = pd.DataFrame({name: [0] * 9 for name in names})
    learned = dg.learn_network(rows, {name: [0] for name in names}, epsilon=1, method="pairs", budget=budget)
    assert not any(learned.network.parents.values())
    assert [learned.probabilities.table(name).tolist() for name in names] == [[1.0]] * len(names)


@pytest.mark.parametrize("method", ["pairs", "greedy"])
@pytest.mark.parametrize(("variables", "most"), [(9, 10_000_000), (50, 2_000_000)])
def test_families_larger_than_a_network_may_have_are_refused_and_nothing_is_charged(method, variables, most):
    """A family has 10 million cells at most, and all families together 100 million."""
    names = [f"v{i}" for i in range(variables)]
    rows, domain = pd.DataFrame({name: [0] for name in names}), {name: range(12) for name in names}
    budget = dg.Budget(1, unit=UNIT)
    for cells in (most + 1, 10**9):
        with pytest.raises(dg.errors.NetworkError, match=f"max_cells is a whole number from 1 to {most:,}"):
            dg.learn_network(
                rows, domain, epsilon=1, budget=budget, method=method, constraints=dg.Constraints(max_cells=cells)
            )
    assert budget.spent == 0
    planned_events(domain, epsilon=1, unit=UNIT, n=100, method=method, constraints=dg.Constraints(max_cells=most))


def test_a_domain_of_one_variable_is_refused():
    with pytest.raises(dg.errors.NetworkError, match="two variables"):
        dg.learn_network(table(), {"a": [0, 1]}, epsilon=1)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_no_rows_are_learned_from_as_any(neighbours):
    with pytest.warns(dg.errors.PriorWarning):
        learned = dg.learn_network(
            table()[:0], DOMAIN, epsilon="0.01", unit=dg.PrivacyUnit(neighbours), noise=SeededNoise(3)
        )
    assert not any(learned.network.parents.values())


@pytest.mark.parametrize("group", [0, 1])
def test_a_group_of_rows_is_learned_from_by_its_own_budget(group):
    parts = dg.Budget(1, unit=UNIT).parallel(DOMAIN.restrict(["a"]), "a", epsilon=1)
    learned = dg.learn_network(table(), DOMAIN, epsilon=1, budget=parts[group], noise=SeededNoise(1))
    assert learned.probabilities.network.domain == DOMAIN
    measured = learned.release.value.singles[-1]
    (key, cells) = next((key, cells) for key, cells in measured.tables.items() if "a" in key)
    other = cells.sum(axis=tuple(i for i, name in enumerate(key) if name != "a"))[1 - group]
    assert abs(other) < 500  # of 2000 rows about 1000 are of the other group; the noise of the sum is below 30


def test_what_is_measured_follows_from_public_values():
    """Many rows: every pair; few: variables by themselves."""
    mechanism = dg.GaussianMechanism("0.5", "1e-6")
    wide = dg.Domain.of({name: list(range(20)) for name in "abcdef"})

    def measured(n):
        margins, how = designed(constraints_within(None, wide), mechanism, UNIT, n)
        assert how == mechanism  # a pair of 400 cells is measured as a table
        return margins

    assert {len(one) for one in measured(100).tables} == {1}
    many = measured(10_000_000)
    assert sum(len(one) == 2 for one in many.tables) == 15


def test_narrow_pairs_are_measured_in_the_residual_basis_where_rows_come_and_go():
    """Under replace that basis is refused; with hardly any rho its fixed point would leave 64 bits."""
    narrow = dg.Domain.of({name: [0, 1] for name in "abcdef"})
    mechanism = dg.GaussianMechanism("0.5", "1e-6")
    margins, how = designed(constraints_within(None, narrow), mechanism, UNIT, 10_000)
    assert how == dg.GaussianMechanism("0.5", "1e-6", basis="residual")
    assert sum(len(one) == 2 for one in margins.tables) == 15
    assert designed(constraints_within(None, narrow), mechanism, dg.PrivacyUnit("replace"), 10_000)[1] == mechanism
    faint = dg.GaussianMechanism(delta="1e-6", rho="1e-7")
    assert designed(constraints_within(None, narrow), faint, UNIT, 10_000)[1] == faint


@pytest.mark.proof
def test_the_wider_a_domain_the_more_its_variables_get_of_what_pairs_have(monkeypatch):
    """As if every pair depended, 40 variables would have more noise; of 15 variables each pair may depend."""
    mechanism = dg.GaussianMechanism("0.1", "1e-6", basis="residual")

    def noise(many):
        domain = dg.Domain.of({f"v{i}": [0, 1, 2] for i in range(many)})
        margins, how = designed(constraints_within(None, domain), mechanism, UNIT, 10_000)
        return float(how.variance(margins, UNIT)["v0",])

    few, many = noise(15), noise(40)
    monkeypatch.setattr(measured_pairs, "DEPENDENT", 1000)
    assert noise(15) == few
    assert noise(40) > 1.1 * many


def test_where_pairs_drown_variables_get_all():
    """40 rows at epsilon .1: the noise of any cell exceeds all rows."""
    narrow = dg.Domain.of({name: [0, 1] for name in "abcdef"})
    margins, _ = designed(constraints_within(None, narrow), dg.GaussianMechanism("0.1", "1e-6"), UNIT, 40)
    assert {len(one) for one in margins.tables} == {1}


def test_what_is_measured_follows_from_what_was_released():
    """Noise that answers alike whatever the rows are: then tables, scales and the graph are alike too.

    By the exact number of rows 40 and 40 000 would have other tables measured.
    """
    wide = dg.Domain.of({name: list(range(20)) for name in "abcd"})
    seen = []
    for n in (40, 40_000):
        rows = pd.DataFrame(np.random.default_rng(n).integers(0, 20, (n, 4)), columns=list("abcd"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.errors.PriorWarning)
            learned = dg.learn_network(rows, wide, epsilon="0.5", delta="1e-6", unit=UNIT, noise=RecordingNoise())
        seen.append((learned.release.value, learned.release.event, learned.network))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("settings", "error", "word"),
    [
        ({"constraints": dg.Constraints(order=[1, 2])}, "NetworkError", "order"),
        ({"constraints": dg.Constraints(order=[["a", ["b"]]])}, "NetworkError", "order"),
        ({"constraints": dg.Constraints(order=[{"a": 1}])}, "NetworkError", "order"),
        ({"constraints": dg.Constraints(target=["a"])}, "NetworkError", "target"),
        ({"constraints": {"target": "a"}}, "NetworkError", "constraints"),
        ({"method": ["pairs"]}, "ReleaseError", "method"),
    ],
)
def test_settings_of_another_kind_are_refused_in_words_and_nothing_is_charged(settings, error, word):
    budget = dg.Budget(1, unit=UNIT)
    with pytest.raises(getattr(dg.errors, error), match=word):
        dg.learn_network(table(), DOMAIN, epsilon=1, budget=budget, **settings)
    assert budget.spent == 0


@pytest.mark.parametrize("unit", [None, UNIT])
def test_what_is_no_budget_is_refused_in_words(unit):
    with pytest.raises(dg.errors.ReleaseError, match=r"budget must be a Budget to charge, such as dg.Budget\(1\)"):
        dg.learn_network(table(), DOMAIN, epsilon=1, budget=1, unit=unit)


def test_chains_of_a_learned_network_are_checked_as_any(monkeypatch):
    frame, domain = chain(300, 3)
    learned = dg.learn_network(frame, domain, unit=UNIT, epsilon=2, delta="1e-6", noise=dg.testing.SeededNoise(0))
    with pytest.warns(dg.errors.ConvergenceWarning):
        learned.posterior(draws=4, seed=1)
    for graphs in ("auto", "chosen", "averaged"):
        with pytest.raises(TypeError, match="drwas"):
            learned.posterior(graphs=graphs, drwas=5)
    for graphs in ("chosen", "averaged"):
        for seed in (-1, "x"):
            with pytest.raises(dg.errors.InferenceError, match="seed must be"):
                learned.posterior(graphs=graphs, draws=5, seed=seed)


def test_an_absurd_number_of_rows_is_refused():
    with pytest.raises(dg.errors.ReleaseError, match="n must be"):
        dg.learn_network(*chain(), epsilon=1, n=10**400)


def test_longer_chains_of_a_learned_network_are_asked_for_by_a_method():
    """What the warning of chains that have not mixed says to ask for."""
    frame, domain = chain(300, 3)
    learned = dg.learn_network(frame, domain, unit=UNIT, epsilon=2, delta="1e-6", noise=dg.testing.SeededNoise(0))
    with pytest.warns(dg.errors.ConvergenceWarning, match=r"method=dg.methods.Records\(burn_in=2000, thin=5\)"):
        learned.posterior(draws=4, seed=1)
    draws = learned.posterior(draws=60, seed=1, method=dg.methods.Records(chains=3, burn_in=50, thin=2))
    assert draws.tables["a"].shape[:2] == (3, 60)
    with pytest.raises(dg.errors.InferenceError, match="records alone can draw"):
        learned.posterior(method="normal")


def test_a_public_number_of_rows_is_asked_for():
    frame, domain = chain()
    for unit, words in (("replace", "n=len\\(rows\\) lets methods be compared"), ("add-remove", "no choice is paid$")):
        learned = dg.learn_network(frame, domain, unit=dg.PrivacyUnit(unit), epsilon=1)
        assert re.search(words, learned.reason)
