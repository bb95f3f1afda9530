"""Networks learned by paid choices, and from tables of three variables: charges, findings, refusals."""

import contextlib
import json
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.estimators import measured_pairs
from dpgraph.estimators.learning import METHODS, best_method, learning_task, noise_shares
from dpgraph.files.documents import document
from dpgraph.inference.graphs.choosing import read_families
from dpgraph.privacy.composition import mu_squared_of
from dpgraph.privacy.gdp import epsilon_of_mu, rounded
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.privacy.records import PAID_IN_PARTS, Event, combined_event
from dpgraph.privacy.structural import event_of
from tests.files.edits import edited

ADD, REPLACE = dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace")
GREEDY = {"method": "greedy"}
WAYS, IDS = [GREEDY], ["greedy"]


def parity(n=4000, seed=0):
    """The third is the parity of the first two, nine times in ten; the fourth copies the first."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, (2, n))
    flips = rng.random((2, n)) < 0.1
    frame = pd.DataFrame({"a": a, "b": b, "c": a ^ b ^ flips[0], "d": a ^ flips[1]}).astype(int)
    return frame, dg.Domain.of({name: [0, 1] for name in "abcd"})


def learned(way, *, epsilon="1", delta=0, unit=ADD, seed=1, rows=None, **settings):
    frame, domain = parity() if rows is None else rows
    budget = dg.Budget(100, "0.1", unit=unit)
    noise = dg.testing.SeededNoise(seed)
    made = dg.learn_network(frame, domain, epsilon=epsilon, delta=delta, budget=budget, noise=noise, **way, **settings)
    return made, budget


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_the_whole_is_one_charge_and_its_parts_are_within_it(way, delta, unit):
    made, budget = learned(way, delta=delta, unit=unit)
    (event,) = budget.events
    assert (event.mechanism, event.epsilon, event.delta) == (PAID_IN_PARTS, 1, Fraction(delta))
    price = dg.cost(made.release, "zcdp" if delta else "basic", delta or None)
    assert price.epsilon <= 1
    assert made.release.scope.budget == budget.identity
    assert made.release.private is False


@pytest.mark.proof
@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_the_record_is_what_the_budget_was_charged(way, unit):
    """Without a delta claims add exactly: margins, choices, tables, and what rounds that ended early left."""
    for names in ("abc", "abcd"):
        frame, domain = parity(300)
        made, budget = learned(way, unit=unit, rows=(frame, domain.restrict(names)))
        assert made.release.event.epsilon == budget.spent == dg.cost(made.release).epsilon == 1
        assert made.release.event.delta == 0
        assert made.provenance == made.release.provenance
        assert any(part.selections for part in made.release.event.events)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.neighbours)
@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_the_record_is_the_charge_where_there_is_a_delta(way, unit):
    """Basic sums of the parts are above the charge; their squared mus are the charge's, but for the hair it leaves."""
    for names in ("abc", "abcd"):
        frame, domain = parity(300)
        made, budget = learned(way, delta="1e-6", unit=unit, rows=(frame, domain.restrict(names)))
        (charge,) = budget.events
        event = made.release.event
        assert (event.epsilon, event.delta, event.mu) == (charge.epsilon, charge.delta, charge.mu)
        assert sum(part.epsilon for part in event.events) > 1
        assert dg.cost(made.release).epsilon == 1
        spent = sum(mu_squared_of(part) for part in event.events)
        assert charge.mu**2 * (1 - Fraction(1, 10**7)) <= spent <= charge.mu**2
        assert dg.cost(made.release, "zcdp", "1e-6").epsilon <= 1


@pytest.mark.proof
@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_a_file_keeps_the_choices_of_the_record(way, delta, tmp_path):
    """With three variables the second stage may measure nothing beside the pairs: one release, and choices."""
    for names in ("abc", "abcd"):
        for seed in (1, 2):
            frame, domain = parity(300)
            rows = frame, domain.restrict(names)
            made, _ = learned(way, delta=delta, unit=REPLACE, rows=rows, seed=seed)
            dg.save(made.release, tmp_path / "release.json")
            again = dg.load(tmp_path / "release.json")
            assert again == made.release
            assert again.event == made.release.event
            dg.save(made, tmp_path / "learned.json")
            assert dg.load(tmp_path / "learned.json").provenance == made.provenance


@pytest.mark.proof
@pytest.mark.parametrize(("way", "delta"), [(GREEDY, 0), (GREEDY, "1e-6"), ({"method": "pairs"}, 0)])
def test_parts_that_were_chosen_one_after_another_are_priced_by_the_charge(way, delta, tmp_path):
    """A list that was fixed beforehand would cost less: by its noise, not by what any other path may have cost."""
    made, _ = learned(way, epsilon=8, delta=delta)
    assert made.release.event.epsilon == 8
    charge = Event("charge", Fraction(8), made.release.event.delta, mu=made.release.event.mu)
    for method in ("gdp", "zcdp", "pld"):
        assert dg.cost(made.release, method, "1e-4") == dg.cost(charge, method, "1e-4")
    assert dg.cost([*made.release.event.events], "pld", "1e-4").epsilon < dg.cost(charge, "pld", "1e-4").epsilon
    rows, domain = parity(300)
    alone, budget = dg.count(rows, dg.Network.of(domain, {})), dg.Budget(1, unit=ADD)
    other = dg.release(alone, dg.LaplaceMechanism(1), budget=budget, noise=dg.testing.SeededNoise(7))
    both = made.release + other
    assert both.event.parts == (made.release.event, other.event)
    assert dg.cost(both, "pld", "1e-4") == dg.cost([charge, other], "pld", "1e-4")
    dg.save(both, tmp_path / "both.json")
    assert dg.load(tmp_path / "both.json") == both


def _sum_up(plain):
    """The claim of the whole, and its label, as the parts of an edited event have them."""
    event = plain["event"]
    parts = [event_of(part) for part in event["parts"]]
    whole = combined_event(parts)
    event |= {"mechanism": whole.mechanism, "epsilon": str(whole.epsilon), "delta": str(whole.delta)}
    event["rho"] = str(whole.epsilon**2 / 2)
    plain["cost"] = {"epsilon": str(whole.epsilon), "delta": str(whole.delta)}


def _change_choice(**changes):
    def edit(parts):
        (choice,) = (part for part in parts if "selections" in part)
        choice["selections"][0] |= changes
        share, draws = Fraction(choice["selections"][0]["epsilon"]), choice["selections"][0]["draws"]
        choice |= {"epsilon": str(share * draws), "rho": str(rounded(draws * share**2 / 8, up=True))}

    return edit


IMPOSSIBLE = {
    "more draws than arcs": _change_choice(draws=7),
    "fewer draws than arcs": _change_choice(draws=1),
    "another law": _change_choice(law="permute-and-flip"),
    "a measurement less": lambda parts: parts.pop(0),
    "a choice with a larger claim": lambda parts: parts[1].update(epsilon="1/2"),
    "a choice with a smaller claim": lambda parts: parts[1].update(epsilon="1/9"),
    "a mechanism that draws networks": lambda parts: parts[1].update(mechanism="PosteriorSample"),
    "a choice called fits of folds": lambda parts: parts[1].update(mechanism="fits of folds"),
    "twice fits of folds": lambda parts: parts.extend(
        [{"mechanism": "fits of folds", "epsilon": "1/9", "delta": "0", "measurements": []}] * 2
    ),
}


@pytest.mark.parametrize("edit", IMPOSSIBLE)
def test_a_file_with_choices_that_could_not_be_made_is_refused(edit, tmp_path):
    """The digest and the sums are right: what is refused is what no method could have paid for."""
    made, _ = learned(GREEDY)
    plain = json.loads(json.dumps(document(made.release)))
    assert [part["mechanism"] for part in plain["event"]["parts"]][1] == "ParentsChoice"
    (tmp_path / "same.json").write_text(edited(plain))
    assert dg.load(tmp_path / "same.json") == made.release
    IMPOSSIBLE[edit](plain["event"]["parts"])
    with contextlib.suppress(dg.errors.ReleaseError):  # a part that claims less than it costs has no sum
        _sum_up(plain)
    (tmp_path / "edited.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "edited.json")


@pytest.mark.parametrize("share", ["0.99", "0.5"])
def test_a_file_that_claims_less_than_its_parts_cost_together_is_refused(share, tmp_path):
    """The digest is right, and epsilon is what the mu costs: the parts cost more."""
    made, _ = learned(GREEDY, delta="1e-6")
    plain = json.loads(json.dumps(document(made.release)))
    (tmp_path / "same.json").write_text(edited(plain))
    assert dg.load(tmp_path / "same.json") == made.release
    mu = Fraction(share) * Fraction(plain["event"]["mu"])
    epsilon = rounded(epsilon_of_mu(mu**2, Fraction(plain["event"]["delta"])), up=True)
    plain["event"] |= {"mu": str(mu), "epsilon": str(epsilon)}
    plain["cost"]["epsilon"] = str(epsilon)
    (tmp_path / "edited.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError, match="its parts cost more"):
        dg.load(tmp_path / "edited.json")


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_what_the_one_door_refuses_is_refused_uncharged(way, monkeypatch):
    """No source of noise, rows of three a person where the unit has one, and no memory: as of any release."""
    frame, domain = parity(30)
    people = frame.assign(person=np.arange(30) // 3)
    capped = dg.statistics.cap_rows(people, domain, person="person", rows_per_person=3)
    replaced = dg.Budget(10, unit=dg.PrivacyUnit("replace", 3))
    budget = dg.Budget(10, unit=ADD)
    for rows, settings, message in [
        (frame, {"noise": object()}, "noise must be"),
        (frame, {"noise": dg.testing.SeededNoise}, "noise must be"),
        (capped, {}, "rows_per_person=3"),
        (capped, {"budget": replaced}, "number of rows is private"),
    ]:
        with pytest.raises(dg.errors.ReleaseError, match=message):
            dg.learn_network(rows, domain, **{"epsilon": 1, "budget": budget} | settings, **way)
    monkeypatch.setenv("DPGRAPH_MEMORY", "1KB")
    with pytest.raises(dg.errors.ReleaseError, match="memory"):
        dg.learn_network(frame, domain, epsilon=1, budget=budget, **way)
    assert budget.spent == replaced.spent == 0


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_a_budget_too_small_is_refused_before_any_draw(way):
    class Forbidden:
        private = True

        def __getattr__(self, name):
            pytest.fail("drew noise for a refused release")

    frame, domain = parity(50)
    budget = dg.Budget("0.5", unit=ADD)
    with pytest.raises(dg.errors.BudgetExceededError, match="nothing was charged"):
        dg.learn_network(frame, domain, epsilon=1, budget=budget, noise=Forbidden(), **way)
    assert budget.spent == 0


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_a_failing_draw_stays_charged(way):
    class Failing:
        private = True

        def add(self, values, law):
            raise RuntimeError

    frame, domain = parity(50)
    budget = dg.Budget(1, unit=ADD)
    with pytest.raises(RuntimeError):
        dg.learn_network(frame, domain, epsilon=1, budget=budget, noise=Failing(), **way)
    assert budget.spent == 1


@pytest.mark.proof
def test_what_no_pair_tells_is_found():
    """The parity of two variables: half the L1 distance of the triple from the pairs' model is .4 n = 1 600 rows."""
    for way, delta in ((GREEDY, 0), ({"method": "pairs"}, "1e-6")):
        made, _ = learned(way, epsilon=20, delta=delta, constraints=dg.Constraints(max_parents=3))
        last = next(name for name in reversed(made.network.order) if name in "abc")
        assert set("abc") <= set(made.network.family(last)), way
        found = dg.query(made.probabilities, "c", {"a": 0, "b": 1}).to_frame()
        assert found["mean"].iloc[-1] > 0.8


def test_nothing_is_chosen_where_noise_is_all_there_is():
    """Epsilon .001 of 4 000 rows: every table would be noise, so no triple is measured, and few arcs are chosen."""
    for seed in range(5):
        made, _ = learned(GREEDY, epsilon="0.001", seed=seed)
        for table in made.probabilities.tables.values():
            assert np.isfinite(table).all()
            assert (table >= 0).all()


def test_required_and_forbidden_arcs_and_an_order_are_kept():
    kept = dg.Constraints(required=[("d", "b")], forbidden=[("a", "d")], order=[["d", "b"], ["a", "c"]])
    for seed in range(5):
        made, _ = learned(GREEDY, seed=seed, constraints=kept)
        assert "d" in made.network.parents["b"]
        assert "a" not in made.network.parents["d"]
        for child in "db":
            assert not set(made.network.parents[child]) & set("ac")
    made, _ = learned(GREEDY, constraints=dg.Constraints(target="c"))
    assert all("c" in made.network.parents[name] for name in "abd")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "greedy", "constraints": dg.Constraints(max_parents=0)}, "max_parents is 0"),
        ({"method": "greedy", "epsilon": "1e-40"}, "too small|nothing could be learned"),
    ],
)
def test_what_a_method_cannot_do_is_refused_uncharged(settings, message):
    frame, domain = parity(20)
    budget = dg.Budget(10, unit=ADD)
    settings = {"epsilon": 1, "budget": budget} | settings
    with pytest.raises(dg.errors.ReleaseError, match=message):
        dg.learn_network(frame, domain, **settings)
    assert budget.spent == settings["budget"].spent == 0
    groups = budget.parallel(domain, "a", epsilon=1)
    with pytest.raises(dg.errors.ReleaseError, match="group"):
        dg.learn_network(frame, domain, epsilon=1, budget=groups[0], method="greedy")


def test_rows_outside_the_domain_are_refused_uncharged():
    frame, domain = parity(20)
    budget = dg.Budget(10, unit=ADD)
    for way in WAYS:
        with pytest.raises(dg.errors.DomainError):
            dg.learn_network(frame + 5, domain, epsilon=1, budget=budget, **way)
    assert budget.spent == 0


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_no_rows_at_all_make_a_network(way):
    frame, domain = parity(10)
    made, _ = learned(way, rows=(frame.head(0), domain))
    for table in made.probabilities.tables.values():
        np.testing.assert_allclose(table.sum(axis=0), 1)


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_the_release_can_be_kept_and_read(way, tmp_path):
    made, _ = learned(way)
    dg.save(made.release, tmp_path / "release.json")
    assert dg.load(tmp_path / "release.json").value == made.release.value


def test_families_without_noise_are_read_as_they_are():
    """Noise of scale 2^-8 is none: the conditional frequencies come back, where cells are many."""
    frame, domain = parity()
    network = dg.Network.of(domain, {"c": ["a", "b"], "d": ["a"]})
    noisy = dg.release(dg.count(frame, network), dg.LaplaceMechanism(10**5), budget=dg.Budget(10**5)).value
    found = read_families(noisy, network)
    assert all(isinstance(law, DiscreteLaplace) or law.sums_to_zero for law in noisy.laws.values())
    joint = pd.crosstab([frame["a"], frame["b"]], frame["c"], normalize="index").to_numpy()
    np.testing.assert_allclose(found.table("c").reshape(2, 4).T, joint, atol=2e-3)


def task_of(domain, n, epsilon, delta=0, **settings):
    return learning_task(domain, epsilon=epsilon, delta=delta, **{"unit": ADD, "n": n} | settings)[1]


def test_the_method_is_chosen_by_public_values_and_says_why():
    wide = {f"v{i}": list(range(8)) for i in range(15)}
    assert best_method(task_of(wide, 40_000, 1))[0] == "greedy"
    for task in (
        task_of(wide, 40_000, 1, "1e-6"),
        task_of(wide, None, 1),
        task_of(wide, 40_000, "0.001"),
        task_of(wide, 10**8, 1),
    ):
        name, reason = best_method(task)
        assert name == "pairs"
        assert reason.startswith("all pairs")
    frame, domain = parity(100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = dg.learn_network(frame, domain, epsilon=1, unit=ADD, n=100, noise=dg.testing.SeededNoise(0))
    assert made.reason


def test_noise_shares_are_the_formulas():
    """15 tables of 64 cells, epsilon 2, n = 1 000: 105 pairs have scale 105 / 2, 14 tables 14 over 17/30 of epsilon."""
    pairs, tables, choice = noise_shares(task_of({f"v{i}": list(range(8)) for i in range(15)}, 1000, 2))
    assert pairs == pytest.approx(64 * 105 / 2 / 2000)
    assert tables == pytest.approx(64 * 14 / (2 * 17 / 30) / 2000)
    assert choice == pytest.approx(14 / (2 / 3) / 1000)


def test_every_method_plans_before_data_what_it_charges():
    domain = {name: [0, 1] for name in "abcd"}
    (event,) = METHODS["greedy"].plan(task_of(domain, None, "0.7"))
    assert (event.epsilon, event.delta) == (Fraction(7, 10), 0)


@pytest.mark.proof
@pytest.mark.parametrize("way", WAYS, ids=IDS)
@pytest.mark.parametrize("unit", [ADD, dg.PrivacyUnit("replace")], ids=str)
def test_a_ledger_verifies_a_network_that_one_row_paid_for_in_parts(way, unit, tmp_path):
    """Alone, with another release after it, and what was learned; not with a part left out, or one charged twice."""
    frame, domain = parity(300)
    budget = dg.Budget.open(tmp_path / "spent.sqlite", dataset="rows", epsilon=100, delta="1e-3", unit=unit)
    made = dg.learn_network(frame, domain, **{"epsilon": 1, "budget": budget} | way)
    other = dg.release(dg.count(frame, dg.all_pairs(domain)), dg.LaplaceMechanism(1), budget=budget)
    dg.save(made.release, tmp_path / "release.json")
    ledger = budget.ledger
    for paid in (made.release, made.probabilities, dg.load(tmp_path / "release.json"), made.release + other):
        assert ledger.verify(release=paid).problems == ()
    parts = made.release.event.events
    for wrong in (parts[1:], parts[:1], (*parts, parts[0])):
        edited = replace(made.release, event=combined_event(list(wrong)))
        assert ledger.verify(release=edited).problems == ("the release's event is not that of the entries it names",)


def measured_triples(made):
    parts = getattr(made.release.value, "singles", (made.release.value,))
    return any(len(b) == 3 for part in parts if isinstance(part, dg.results.NoisyCoefficients) for b in part.blocks)


@pytest.mark.proof
def test_tables_of_three_are_measured_where_their_noise_is_small():
    """Parity tells on no pair; no choice sees exact scores, and the release alone says which tables it holds."""
    for unit, delta, epsilon, expected in (
        (ADD, "1e-6", 40, True),
        (ADD, "1e-6", "0.01", False),
        (ADD, 0, 40, False),
        (REPLACE, "1e-6", 40, False),
    ):
        frame, domain = parity()
        settings = {"epsilon": epsilon, "delta": delta, "unit": unit, "noise": dg.testing.SeededNoise(3)}
        made = dg.learn_network(frame, domain, **settings)
        assert not any(part.selections for part in made.release.event.events)
        assert measured_triples(made) == expected
        assert not measured_triples(
            dg.learn_network(frame, domain, constraints=dg.Constraints(max_parents=1), **settings)
        )
        if expected:
            found = dg.query(made.probabilities, "c", {"a": 0, "b": 1}).to_frame()
            assert found["mean"].iloc[-1] > 0.8
            again = dg.choose_network(made.release)
            assert again.network == made.network
            drawn = made.posterior(graphs="chosen", draws=5, seed=0)
            assert drawn.mean().network == made.network


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_tables_of_what_was_learned_are_asked_of_its_release(way):
    made, _ = learned(way)
    with pytest.raises(dg.errors.InferenceError, match="whose release is in"):
        dg.reconcile(made)
    with pytest.raises(dg.errors.InferenceError, match="noisy counts"):
        dg.reconcile(3)
    with pytest.raises(dg.errors.NetworkError, match="network="):
        dg.reconcile(made.release)


@pytest.mark.proof
def test_tables_of_three_follow_from_the_release(monkeypatch):
    """Of the same 4 000 rows: a noisy number of rows of one alone makes the noise too large."""
    frame, domain = parity()
    settings = {"epsilon": 40, "delta": "1e-6", "unit": ADD, "noise": dg.testing.SeededNoise(3)}
    assert measured_triples(dg.learn_network(frame, domain, **settings))
    monkeypatch.setattr(measured_pairs, "_rows_in", lambda noisy: 1.0)
    assert not measured_triples(dg.learn_network(frame, domain, **settings))
