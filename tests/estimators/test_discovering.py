"""``dg.discover``: what it finds, charges and refuses."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.levels import PrivateLevels

NOISE = dg.testing.SeededNoise
ADD = dg.PrivacyUnit("add-remove")


def survey(n=20_000, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(16, 91, n),
            "pay": np.where(rng.random(n) < 0.4, 0, rng.integers(1, 90_000, n)),
            "town": rng.choice(["Aber", "Bath", "Cove", "Dale"], n, p=[0.5, 0.3, 0.199, 0.001]),
            "sex": rng.choice(["F", "M"], n),
        }
    )


OPEN = {"age": dg.Numbers(16, 90), "pay": dg.Numbers(0, 99_999), "town": dg.Words(), "sex": ["F", "M"]}


def test_bins_a_frequent_value_and_frequent_words_are_found_and_paid_for():
    budget = dg.Budget(1, "1e-6", unit=ADD)
    found = dg.discover(survey(), OPEN, epsilon="0.3", delta="1e-6", budget=budget)
    assert {0, 1} <= set(found.domain["pay"].edges)
    assert found.domain.levels("town") == ("Aber", "Bath", "Cove", "other")
    assert found.domain["sex"] == dg.Categories(["F", "M"])
    assert 6 <= found.domain.sizes["age"] <= 20
    assert budget.spent == found.provenance.event.epsilon == Fraction(3, 10)
    assert budget.cost().delta == found.provenance.event.delta == Fraction(1, 10**6)
    assert [event.mechanism for event in budget.events] == ["LaplaceMechanism", "PrivateLevels"]
    table = found.to_frame()
    assert list(table.index) == list(OPEN)
    assert table.loc["sex", "known by"] == "declaration"
    assert "town: 3 levels; rarer ones are 'other' (PrivateLevels, epsilon 0.1 and delta 1e-06)" in found.remarks
    assert dg.count(survey(), dg.Network.of(found.domain, {})) is not None


def test_rows_are_binned_in_about_equal_numbers_where_there_is_hardly_noise():
    rows = survey()
    found = dg.discover(rows, {"age": dg.Numbers(16, 90, bins=5)}, epsilon=10, noise=NOISE(1))
    shares = pd.cut(rows["age"], found.domain["age"].edges, right=False, include_lowest=True).value_counts() / len(rows)
    assert len(shares) == 5
    assert shares.min() > 0.15
    assert found.provenance.private is False


def test_gaussian_noise_is_taken_where_it_is_less():
    wide = {f"x{i}": dg.Numbers(0, 20) for i in range(30)}
    rows = pd.DataFrame({name: [1, 2, 3] for name in wide})
    few = dg.discover(rows, {"x0": dg.Numbers(0, 20)}, epsilon=1, delta="1e-6", unit=ADD)
    many = dg.discover(rows, wide, epsilon=1, delta="1e-6", unit=ADD)
    assert (few.provenance.event.mechanism, few.provenance.event.delta) == ("LaplaceMechanism", 0)
    assert (many.provenance.event.mechanism, many.provenance.event.delta) == ("GaussianMechanism", Fraction(1, 10**6))


def test_a_second_call_finds_the_rest():
    first = dg.discover(survey(), {"age": dg.Numbers(16, 90), "sex": ["F", "M"]}, epsilon=1)
    again = {**first.domain.variables, "town": dg.Words()}
    second = dg.discover(survey(), again, epsilon=1, delta="1e-6")
    assert second.domain["age"] == first.domain["age"]
    assert set(second.found) == {"town"}


def test_of_a_persons_rows_as_many_count_as_the_unit_protects():
    names = ["one"] * 5000 + [f"w{i}" for i in range(400)]
    rows = pd.DataFrame({"who": names, "town": ["Lone"] * 5000 + ["Main"] * 400})
    unit = dg.PrivacyUnit("add-remove", 2)
    found = dg.discover(rows, {"town": dg.Words()}, epsilon=2, delta="1e-6", unit=unit, person="who")
    assert found.domain.levels("town") == ("Main", "other")


def test_a_group_of_rows_is_found_with_its_own_budget():
    rows = survey()
    rows["pay"] = np.where(rows["sex"] == "F", 0, rows["pay"])
    groups = dg.Budget(2, unit=ADD).parallel(dg.Domain.of({"sex": ["F", "M"]}), "sex", epsilon=2)
    declared = {"pay": dg.Numbers(0, 99_999), "sex": ["F", "M"]}
    sizes = {}
    for level, budget in groups.items():
        found = dg.discover(rows, declared, epsilon=1, budget=budget)
        sizes[level] = found.domain.sizes["pay"]
        assert found.releases[0].scope.group
    assert sizes["F"] <= 3 < sizes["M"]
    with pytest.raises(dg.errors.NetworkError, match="declare 'sex' as there"):
        dg.discover(rows, {"pay": dg.Numbers(0, 9)}, epsilon="0.1", budget=groups["F"])


def test_a_ledger_has_both_charges_and_the_file_says_which(tmp_path):
    budget = dg.Budget.open(tmp_path / "l.sqlite", dataset="survey", epsilon=1, delta="1e-6", unit=ADD)
    found = dg.discover(survey(), OPEN, epsilon="0.3", delta="1e-6", budget=budget)
    assert len(found.provenance.receipts) == 2
    dg.save(found, tmp_path / "domain.toml")
    assert dg.read_domain(tmp_path / "domain.toml") == found.domain
    text = (tmp_path / "domain.toml").read_text()
    assert all(receipt in text for receipt in found.provenance.receipts)
    assert budget.remaining == Fraction(7, 10)


def test_names_of_people_become_other_alone_and_it_says_so():
    rows = pd.DataFrame({"name": [f"person {i}" for i in range(20_000)]})
    with pytest.warns(dg.errors.DomainWarning, match="'name' stands out of the noise"):
        found = dg.discover(rows, {"name": dg.Words()}, epsilon=1, delta="1e-6")
    assert found.domain.levels("name") == ("other",)


@pytest.mark.parametrize("unit", [dg.PrivacyUnit(), dg.PrivacyUnit("replace", 2)], ids=str)
def test_a_threshold_that_no_word_of_so_many_rows_is_above_is_refused_where_their_number_is_public(unit):
    _, threshold = PrivateLevels("0.1", "1e-6").plan(1, unit)
    rows = pd.DataFrame({"town": ["Aber secret"] * (threshold + 1)})
    budget = dg.Budget(1, "1e-5", unit=unit)
    with pytest.raises(dg.errors.ReleaseError, match=f"count of {threshold}, and there are {threshold} rows") as caught:
        dg.discover(rows[1:], {"town": dg.Words()}, epsilon="0.1", delta="1e-6", budget=budget)
    assert budget.events == ()
    assert "secret" not in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.DomainWarning)
        dg.discover(rows, {"town": dg.Words()}, epsilon="0.1", delta="1e-6", budget=budget)
    assert budget.spent == Fraction(1, 10)


@pytest.mark.parametrize(
    ("unit", "person"), [(ADD, None), (dg.PrivacyUnit("add-remove", 2), "who"), (dg.PrivacyUnit("replace", 2), "who")]
)
def test_where_the_number_of_rows_is_private_no_refusal_tells_of_it(unit, person):
    """Of few rows as of many: a charge, or the same refusal for another reason."""
    said = set()
    for n in (1, 4000):
        rows = pd.DataFrame({"town": [f"t{i}" for i in range(n)], "who": range(n)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.errors.DomainWarning)
            try:
                dg.discover(rows, {"town": dg.Words()}, epsilon="0.1", delta="1e-6", unit=unit, person=person)
                said.add("found")
            except dg.errors.ReleaseError as error:
                said.add(str(error))
    assert len(said) == 1
    assert ("found" in said) == (unit.neighbours == "add-remove")


@pytest.mark.parametrize("accounting", ["gdp", "zcdp"])
def test_a_budget_whose_mus_or_rhos_add_pays_for_lists_and_not_for_words_without(accounting):
    budget = dg.Budget(1, "1e-6", unit=ADD, accounting=accounting)
    with pytest.raises(dg.errors.ReleaseError, match="has no price for it"):
        dg.discover(survey(), {"town": dg.Words()}, epsilon="0.1", delta="1e-7", budget=budget)
    assert budget.events == ()
    dg.discover(survey(), {"sex": dg.Words(["F", "M"])}, epsilon="0.1", delta="1e-7", budget=budget)
    assert 0 < budget.spent < 1


def test_a_strict_domain_is_made_of_declarations_that_refuse_nothing():
    declared = {"age": dg.Numbers(16, 90, missing=True), "town": dg.Words(missing=True)}
    rows = survey()[["age", "town"]].astype({"age": float})
    rows.iloc[:2] = None
    found = dg.discover(rows, declared, epsilon=2, delta="1e-6", strict=True)
    assert found.domain.strict
    assert found.domain["town"].missing == "missing"
    with pytest.raises(dg.errors.NetworkError, match="'age' could refuse a row"):
        dg.discover(rows, {"age": dg.Numbers(16, 90)}, epsilon=1, strict=True)


REFUSED = {
    "words without a delta": ({"town": dg.Words()}, {}, dg.errors.ReleaseError, "need a delta"),
    "nothing open": ({"sex": ["F", "M"]}, {}, dg.errors.NetworkError, "nothing is to be found"),
    "a column that is not there": ({"rank": dg.Numbers(0, 9)}, {}, dg.errors.DomainError, "'rank' is not in"),
    "a null": ({"late": dg.Numbers(0, 9)}, {}, dg.errors.DomainError, "nulls"),
    "a null among words": (
        {"age": dg.Numbers(16, 90), "hole": dg.Words()},
        {"delta": "1e-7"},
        dg.errors.DomainError,
        "missing=True",
    ),
    "words as numbers": ({"town": dg.Numbers(0, 9)}, {}, dg.errors.DomainError, "'town'"),
    "a share above 1": ({"age": dg.Numbers(0, 9)}, {"rare": 2}, dg.errors.ReleaseError, "rare must be"),
    "an epsilon beyond the budget": (
        {"age": dg.Numbers(0, 9)},
        {"epsilon": 3},
        dg.errors.BudgetExceededError,
        "nothing was",
    ),
    "no person": ({"age": dg.Numbers(0, 9)}, {"person": "nobody"}, dg.errors.DomainError, "nobody"),
    "codes": ({"age": dg.Numbers(0, 9)}, {"rows": "codes"}, dg.errors.ReleaseError, "codes have theirs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name_and_charges_nothing(case):
    declared, asked, error, words = REFUSED[case]
    rows = survey(200).assign(late=np.nan, hole=["secret 731"] * 199 + [None])
    budget = dg.Budget(1, "1e-6")
    settings = {"epsilon": 1} | asked
    if settings.pop("rows", None):
        rows = dg.statistics.encode(rows, dg.Domain.of({"sex": ["F", "M"]}))
    with pytest.raises(error, match=re.escape(words)) as caught:
        dg.discover(rows, declared, budget=budget, **settings)
    assert budget.events == ()
    assert "731" not in str(caught.value)


def test_a_stream_is_read_once():
    frame = survey()
    parts = iter([frame.iloc[:9000], frame.iloc[9000:]])
    found = dg.discover(parts, {"age": dg.Numbers(16, 90), "town": dg.Words()}, epsilon=2, delta="1e-6")
    assert "Aber" in found.domain.levels("town")


def test_a_file_of_text_is_read_as_other_files_are(tmp_path):
    frame = survey().astype({"age": object})
    frame.loc[:99, "town"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False)
    declared = {"age": dg.Numbers(16, 90), "town": dg.Words(missing=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dg.discover(tmp_path / "rows.csv", declared, epsilon=2, delta="1e-6")
        dg.count(tmp_path / "rows.csv", dg.Network.of(found.domain, {}))
    assert found.domain.levels("town") == ("Aber", "Bath", "Cove", "other", "missing")
