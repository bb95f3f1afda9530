"""A day's tale: fitted today in one process, released tomorrow in another, refused the day after; all of it agrees."""

import json

import pytest

import dpgraph as dg
from tests.privacy.ledger.charging import finished, open_, python

TODAY = """
import sys
import dpgraph as dg
from tests.privacy.ledger.charging import ROWS
url, folder = sys.argv[1:]
budget = dg.Budget.open(url, dataset="survey", epsilon="1", source="extract of May", who="ann", purpose="a classifier")
domain = dg.Domain.of({"word": ["no", "yes"], "kind": ["a", "b"]})
model = dg.PrivateNaiveBayes(domain, epsilon="0.6", budget=budget, inference="plug-in")
fitted = model.fit(ROWS[["word"]], ROWS["kind"])
dg.save(fitted.release_, f"{folder}/today.json")
print(budget.ledger.head)
"""
TOMORROW = """
import sys
import dpgraph as dg
from tests.privacy.ledger.charging import NETWORK, ROWS
url, folder = sys.argv[1:]
budget = dg.Budget.open(url, dataset="survey", who="bob", purpose="a table")
dg.save(dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.4"), budget=budget), f"{folder}/tomorrow.json")
"""
THE_DAY_AFTER = """
import sys
import dpgraph as dg
from tests.privacy.ledger.charging import NETWORK, ROWS
url, folder = sys.argv[1:]
budget = dg.Budget.open(url, dataset="survey", who="ann", purpose="once more")
try:
    dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.001"), budget=budget)
except dg.errors.BudgetExceededError as error:
    print(error)
"""


@pytest.mark.proof
def test_a_days_tale(url, tmp_path):
    head = finished(python(TODAY, url, str(tmp_path))).strip()
    assert finished(python(TOMORROW, url, str(tmp_path))) == ""
    assert "has epsilon 0 (pure) left of 1; nothing was charged" in finished(python(THE_DAY_AFTER, url, str(tmp_path)))

    budget = open_(url, epsilon="1", source="extract of May")
    ledger = budget.ledger
    told = [(row.kind, row.who, row.purpose, json.loads(row.spent)["epsilon"]) for row in ledger.rows()]
    assert told == [
        ("open", "ann", "a classifier", "0"),
        ("charge", "ann", "a classifier", "3/5"),
        ("charge", "bob", "a table", "1"),
    ]
    releases = [dg.load(tmp_path / name) for name in ("today.json", "tomorrow.json")]
    assert [ledger.rows_of(one)[0].number for one in releases] == [1, 2]
    assert all(ledger.verify(expected_head=head, release=one).ok for one in releases)
    assert tuple(one.event for one in releases) == budget.events
    assert dg.cost(releases) == budget.cost()
    assert budget.remaining == 0
