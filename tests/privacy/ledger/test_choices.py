"""Groups of one split are charged for one choice of some rows of each person, whichever process charges (P100)."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.account import store_of
from dpgraph.privacy.ledger.store import Choice, Head, laid_down, sealed
from dpgraph.privacy.ledger.verification import verified
from dpgraph.privacy.structural import canonical
from tests.privacy.ledger.charging import DOMAIN, finished, open_, python, spend, what_another_writer_hears

UNIT = dg.PrivacyUnit("add-remove", 2)
#: Every person has two rows in each of four groups: capped twice, two could be counted in two groups each.
LOG = pd.DataFrame(
    [(who, region, sex) for who in (1, 2) for region in ("north", "south") for sex in ("F", "M") for _ in range(2)],
    columns=["who", "region", "sex"],
)
NETWORK = dg.Network.of(DOMAIN, {"sex": ["region"]})
OTHER = "capped in two calls, .* nothing was charged"


def capped():
    return dg.statistics.cap_rows(LOG, DOMAIN, "who", 2)


def released(budget, codes, epsilon="0.1"):
    counts = dg.count(codes, NETWORK, where=None if budget.group is None else budget.group.where)
    return dg.release(counts, dg.LaplaceMechanism(epsilon), budget=budget)


def regions(url, **split):
    return open_(url, 1, unit=UNIT).parallel(DOMAIN, "region", **({"epsilon": "0.5"} | split))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def budget(request):
    if request.param == "memory":
        return dg.Budget(1, unit=UNIT)
    return open_(request.getfixturevalue(f"{request.param}_url"), 1, unit=UNIT)


def test_groups_take_one_choice_of_rows_and_no_other(budget):
    once, again = capped(), capped()
    groups = budget.parallel(DOMAIN, "region", epsilon="0.5")
    released(groups["north"], once)
    with pytest.raises(dg.errors.ReleaseError, match=OTHER):
        released(groups["south"], again)
    assert groups["south"].spent == 0
    released(groups["south"], once)
    spent = groups["south"].spent
    with pytest.raises(dg.errors.ReleaseError, match=OTHER):
        released(groups["south"], again)
    with pytest.raises(dg.errors.ReleaseError, match=OTHER):
        released(groups["north"], again)
    assert groups["south"].spent == spent
    released(groups["south"], once, "0.05")
    second = budget.parallel(DOMAIN, "region", epsilon="0.4")  # another split is paid for by itself
    released(second["south"], again)
    released(budget, capped(), "0.05")
    released(budget, capped(), "0.05")  # of all rows any choice


def test_groups_within_groups_are_of_the_same_choice(budget):
    once, again = capped(), capped()
    groups = budget.parallel(DOMAIN, "region", epsilon=1)
    women = groups["north"].parallel(DOMAIN, "sex", epsilon="0.2")["F"]
    released(women, once, "0.02")
    men = groups["south"].parallel(DOMAIN, "sex", epsilon="0.2")["M"]
    for group in (men, groups["north"], groups["south"]):
        with pytest.raises(dg.errors.ReleaseError, match=OTHER):
            released(group, again, "0.02")
        released(group, once, "0.02")


def test_a_refused_charge_chooses_nothing(budget):
    groups = budget.parallel(DOMAIN, "region", epsilon="0.2")
    with pytest.raises(dg.errors.BudgetExceededError):
        released(groups["north"], capped(), 9)
    once = capped()
    released(groups["north"], once, "0.01")
    released(groups["south"], once, "0.01")


#: Charges a group for the choice of rows that it is told, and says whether it could.
CHARGER = """
import sys
import dpgraph as dg
from dpgraph.privacy.accounts import Made
from tests.privacy.ledger.charging import DOMAIN, open_, spend

url, level, choice = sys.argv[1:]
group = open_(url).groups(DOMAIN, "region")[level]
print("ready", flush=True)
sys.stdin.readline()
try:
    group.charge(spend("0.01"), Made(choice=choice))
    print("charged")
except dg.errors.ReleaseError as error:
    print(error)
"""


@pytest.mark.proof
def test_another_process_may_not_choose_other_rows(url):
    once = capped()
    released(regions(url)["north"], once)
    other = python(CHARGER, url, "south", "another choice")
    assert re.search(OTHER, other.communicate("\n", timeout=60)[0])
    same = python(CHARGER, url, "south", once.cap.draw)
    assert "charged\n" in same.communicate("\n", timeout=60)[0]
    assert open_(url).ledger.verify().ok


@pytest.mark.proof
def test_of_two_processes_that_choose_at_once_one_is_refused(url):
    regions(url)
    for _ in range(3):
        open_(url).parallel(DOMAIN, "region", epsilon="0.1")
        both = [python(CHARGER, url, level, choice) for level, choice in (("north", "a"), ("south", "b"))]
        for process in both:
            assert process.stdout.readline() == "ready\n"
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        told = sorted(finished(process) for process in both)
        assert told[0] == "charged\n"
        assert re.search(OTHER, told[1])
    assert open_(url).ledger.verify().ok


def test_of_eight_threads_with_a_choice_each_one_is_charged(budget):
    groups = budget.parallel(DOMAIN, "region", epsilon="0.5")

    def charged(at):
        try:
            groups["north" if at % 2 else "south"].charge(spend("0.01"), Made(choice=str(at)))
        except dg.errors.ReleaseError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(charged, range(16))) == 1


def test_the_choice_is_looked_up_where_nobody_else_writes(sqlite_url, monkeypatch):
    """The schedule that lets two choices in, forced: while one is looked up another connection asks to write."""
    groups, seen = regions(sqlite_url), []
    real = store.Rows.chosen

    def chosen(rows, *words):
        seen.append(what_another_writer_hears(sqlite_url))
        return real(rows, *words)

    monkeypatch.setattr(store.Rows, "chosen", chosen)
    groups["north"].charge(spend("0.1"), Made(choice="a"))
    assert seen == ["database is locked"]


def test_a_pickled_group_keeps_the_choice(url):
    groups = regions(url)
    released(groups["north"], capped())
    with pytest.raises(dg.errors.ReleaseError, match=OTHER):
        released(pickle.loads(pickle.dumps(groups["south"])), capped())


def test_a_row_says_which_choice_it_was_charged_for(url):
    groups, once = regions(url), capped()
    plain = spend("0.01")
    groups["north"].charge(plain)
    made = released(groups["south"].parallel(DOMAIN, "sex", epsilon="0.2")["F"], once, "0.01")
    whole = released(open_(url), once)
    ledger = open_(url).ledger
    rows = ledger.rows()
    assert [rows[2].terms, rows[4].terms, rows[5].terms] == [
        "",
        canonical({"among": 1, "choice": once.cap.draw}),
        canonical({"among": None, "choice": once.cap.draw}),
    ]
    assert ledger.verify(release=made).ok
    assert ledger.verify(release=whole).ok
    other = replace(made, scope=replace(made.scope, choice="other"))
    assert "entry 4 is of another choice of rows than the release" in ledger.verify(release=other).problems


def test_a_ledger_of_two_choices_in_one_split_is_noticed(sqlite_url):
    """As if somebody had charged past the check: every digest is right, and every total."""
    groups = regions(sqlite_url)
    for level, choice in (("north", "a"), ("south", "a")):
        groups[level].charge(spend("0.1"), Made(choice=choice))
    rows = list(open_(sqlite_url).ledger.rows())
    for terms in ({"among": 1, "choice": "b"}, {"among": None, "choice": "a"}, {"among": 2, "choice": "a"}):
        forged = sealed(replace(rows[3], terms=canonical(terms)), rows[2].digest)
        assert not verified("survey", [*rows[:3], forged], Head(forged.number, forged.digest)).ok
    assert verified("survey", rows, Head(rows[3].number, rows[3].digest)).ok


def test_an_edited_choice_is_noticed_by_a_charge(sqlite_url):
    groups = regions(sqlite_url)
    groups["north"].charge(spend("0.1"), Made(choice="a"))
    groups["north"].charge(spend("0.1"))
    with store_of(sqlite_url, create=False).writing() as rows:
        rows._ask("DROP TRIGGER dpgraph_no_update")
        rows._ask("UPDATE dpgraph_ledger SET terms = replace(terms, '\"a\"', '\"b\"') WHERE number = 2")
    with pytest.raises(dg.errors.LedgerError, match="entry 2 was edited"):
        groups["south"].charge(spend("0.1"), Made(choice="b"))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"among":1}', "{"])
def test_a_choice_that_is_not_whole_is_refused(text):
    with pytest.raises(dg.errors.LedgerError, match="not whole"):
        laid_down(text, Choice)


@pytest.mark.proof
def test_a_capped_charge_reads_as_few_rows_after_a_long_history(sqlite_url):
    """The choice is found near the split, not by reading what came after."""
    groups = open_(sqlite_url, 10**6, unit=UNIT).parallel(DOMAIN, "region", epsilon=10**5)
    groups["north"].charge(spend("0.1"), Made(choice="a"))
    held = groups["south"]._account.chain.store
    with held.writing() as rows:
        for _ in range(2000):
            rows.append(groups["north"]._account._next(rows, spend("0.1"), '{"delta":"0"}', Made(choice="a")))
    groups["south"].charge(spend("0.1"), Made(choice="a"))
    steps = []
    held._connection.set_progress_handler(lambda: steps.append(1) and None, 100)
    groups["south"].charge(spend("0.1"), Made(choice="a"))
    held._connection.set_progress_handler(None, 0)
    assert len(steps) < 20
