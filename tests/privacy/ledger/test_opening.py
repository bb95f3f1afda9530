"""A ledger is made once and opened as it was made; what it holds survives whoever opened it."""

import json
import re
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from fractions import Fraction

import pytest

import dpgraph as dg
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.ledger.account import datasets, store_of
from dpgraph.privacy.ledger.store import fingerprint
from dpgraph.privacy.measurements import DiscreteLaplace, Measurement, Movement
from dpgraph.privacy.records import Event, exact
from tests.privacy.ledger.charging import DOMAIN, NETWORK, ROWS, finished, open_, python, released, spend


def test_what_was_spent_is_there_in_another_process(url):
    open_(url, "0.3").charge(spend("0.1"))
    program = (
        "import sys; from tests.privacy.ledger.charging import open_, spend\n"
        "budget = open_(sys.argv[1]); budget.charge(spend('0.1')); print(budget.remaining, len(budget.events))"
    )
    assert finished(python(program, url)) == "1/10 2\n"
    assert open_(url).spent == Fraction(1, 5)


def test_charges_are_exact_and_refusals_charge_nothing(url):
    budget = open_(url, "0.3", delta="1e-6")
    for _ in range(3):
        budget.charge(spend("0.1"))
    for refused in (spend("0.1"), spend("1e-9"), spend("1e-9", "1e-6")):
        with pytest.raises(dg.errors.BudgetExceededError, match="nothing was charged"):
            budget.charge(refused)
    assert budget.remaining == 0
    assert budget.cost() == dg.cost([spend("0.3")])
    assert [row.number for row in budget.ledger.rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 2},
        {"delta": "1e-6"},
        {"unit": dg.PrivacyUnit("add-remove")},
        {"unit": dg.PrivacyUnit("replace", 2)},
        {"source": "another extract"},
    ],
    ids=str,
)
def test_a_ledger_is_opened_as_it_was_made(sqlite_url, asked):
    made = {"epsilon": 1, "delta": "1e-7", "unit": dg.PrivacyUnit(), "source": "extract of May"}
    open_(sqlite_url, **made).charge(spend("0.5"))
    assert open_(sqlite_url, **made).remaining == open_(sqlite_url).remaining == Fraction(1, 2)
    assert open_(sqlite_url).ledger.source == "extract of May"
    with pytest.raises(dg.errors.LedgerError, match=f"was made with {next(iter(asked))} .* was asked for"):
        open_(sqlite_url, **asked)


def test_one_source_has_one_budget(url):
    open_(url, 1, source="extract of May")
    with pytest.raises(dg.errors.LedgerError, match="is the source of data set 'survey'"):
        dg.Budget.open(url, dataset="surwey", epsilon=1, source="extract of May")
    with pytest.raises(dg.errors.LedgerError, match="has no data set 'surwey'"):
        dg.Budget.open(url, dataset="surwey")


#: Makes a data set of a source, and waits for a line between the check and the row.
MAKER = """
import sys
import dpgraph as dg
from dpgraph.privacy.ledger import store

real = store.sealed

def first(*words):
    print("inside", flush=True)
    sys.stdin.readline()
    return real(*words)

store.sealed = first
print("ready", flush=True)
sys.stdin.readline()
try:
    dg.Budget.open(sys.argv[1], dataset=sys.argv[2], epsilon=1, source="extract of May")
    print("made")
except dg.errors.LedgerError as error:
    print(error)
"""


@pytest.mark.parametrize(("names", "made"), [(("one", "other"), 1), (("same", "same"), 2)], ids=str)
def test_of_two_processes_that_budget_one_source_at_once_one_is_refused(url, names, made):
    open_(url, 1)
    started = [python(MAKER, url, name) for name in names]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(process.stdout.readline) for process in started]
        assert wait(told, return_when=FIRST_COMPLETED, timeout=60).done
        assert len(wait(told, timeout=1).not_done) == 1  # whoever is second waits for the first to end
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        first = [line.result(60) for line in told]
    last = [line + finished(process) for line, process in zip(first, started, strict=True)]
    assert sorted(["inside\nmade" in text for text in last]) == [False, True]
    assert sum("made\n" in text for text in last) == made
    assert sum("is the source of data set" in text for text in last) == 2 - made
    assert len(datasets(url)) == 2


def test_data_sets_in_one_ledger_have_budgets_of_their_own(url):
    one, other = open_(url, 1), dg.Budget.open(url, dataset="census", epsilon=2, unit=dg.PrivacyUnit("add-remove"))
    one.charge(spend("0.5"))
    other.charge(spend(2))
    assert (one.remaining, other.remaining) == (Fraction(1, 2), 0)
    assert one.identity != other.identity
    assert other.unit == dg.PrivacyUnit("add-remove")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mysql://host/db", "sqlite:///path or postgresql"),
        (":memory:", "is a file"),
        ("sqlite://", "is a file"),
        ("", "is a file"),
    ],
)
def test_what_is_no_place_for_a_ledger_is_refused(place, message):
    with pytest.raises(dg.errors.LedgerError, match=message):
        open_(place, 1)


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 0},
        {"epsilon": 1, "delta": 1},
        {"unit": "replace"},
        {"epsilon": 1, "accounting": "guess"},
        {"epsilon": 1, "accounting": "pld"},
    ],
)
def test_bad_settings_make_no_file(tmp_path, asked):
    with pytest.raises(dg.errors.ReleaseError):
        open_(tmp_path / "ledger.sqlite", **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", ["", "a\nb", "a\x00b", "x" * 201, 7, None])
def test_a_data_set_has_a_short_name(tmp_path, label):
    with pytest.raises(dg.errors.ReleaseError, match="dataset must be one line"):
        dg.Budget.open(tmp_path / "ledger.sqlite", dataset=label, epsilon=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", ["cafe\u0301", " survey", "survey "])
def test_two_names_that_look_the_same_are_not_two_data_sets(tmp_path, label):
    place, usual = tmp_path / "ledger.sqlite", label.strip().replace("e\u0301", "\xe9")
    budget = dg.Budget.open(place, dataset=usual, epsilon=1, source=usual)
    for asked in ({"dataset": label}, {"dataset": "b", "source": label}, {"dataset": usual, "who": label}):
        with pytest.raises(dg.errors.ReleaseError, match="without spaces around it and composed"):
            dg.Budget.open(place, epsilon=1, **asked)
    with pytest.raises(dg.errors.ReleaseError, match="who must be written"):
        budget.for_(label)
    with pytest.raises(dg.errors.ReleaseError, match="who must be written"):
        budget.ledger.allow(label, epsilon=1)
    assert datasets(str(place)) == [usual]
    budget.for_("ann", label).charge(spend(1))  # a purpose is compared with nothing


def test_a_ledger_that_is_not_there_is_not_made_without_an_epsilon(tmp_path):
    with pytest.raises(dg.errors.LedgerError, match="there is no ledger at"):
        open_(tmp_path / "ledger.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_sqlite_addresses_are_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_("sqlite:///ledger.sqlite", 1).charge(spend(1))
    assert open_(f"sqlite:///{tmp_path}/ledger.sqlite").remaining == 0
    budget = open_("ledger.sqlite")
    monkeypatch.chdir("/")
    assert budget.remaining == 0


def test_a_password_is_neither_shown_nor_handed_on(postgres_url, capfd):
    secret = "hunter22"
    budget = open_(postgres_url.replace("ledger@", f"ledger:{secret}@"), 1)
    shown = [repr(budget), str(budget._account), repr(budget.ledger), budget.ledger.address]
    shown += [repr(budget._account.reopening()), repr(budget.ledger.rows())]
    assert not any(secret in text for text in shown)
    with pytest.raises(dg.errors.LedgerError, match="cannot be used") as caught:
        open_(f"postgresql://ledger:{secret}@/none?host=/nowhere&sslpassword={secret}", 1)
    assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "event",
    [
        spend("1/3", "1e-9"),
        Event("two", exact("0.5"), parts=(spend("0.25"), spend("0.25"))),
        dg.LaplaceMechanism("0.1").event(NETWORK, dg.PrivacyUnit()),
        dg.GaussianMechanism("0.1", "1e-6").event(NETWORK, dg.PrivacyUnit()),
        dg.MapEstimate("0.1").event(NETWORK, dg.PrivacyUnit()),
        dg.PosteriorSample("0.1", draws=2).event(NETWORK, dg.PrivacyUnit("add-remove")),
    ],
    ids=lambda event: event.mechanism,
)
def test_an_event_comes_back_equal(sqlite_url, event):
    budget = open_(sqlite_url, 1, delta="1e-5", unit=None)
    budget.charge(event)
    assert open_(sqlite_url).events == (event,)
    assert budget.ledger.rows()[-1].decoded == event


def test_an_event_that_could_not_be_read_back_is_not_charged(sqlite_url):
    class Foreign(DiscreteLaplace):
        pass

    strange = Event("mine", exact(1), measurements=(Measurement(("sum",), 1, Foreign(4.0), Movement(2, 4)),))
    budget = open_(sqlite_url, 2)
    with pytest.raises(dg.errors.ReleaseError, match=r"mine cannot be written down: .*register_law"):
        budget.charge(strange)
    assert len(budget.ledger.rows()) == 1


def test_a_row_says_who_what_for_and_of_what(url):
    budget = open_(url, 1, who="ann", purpose="the yearly report")
    released(budget)
    released(budget.for_("bob"), "0.2")
    made, first, second = budget.ledger.rows()
    assert (made.kind, first.kind, first.who, first.purpose) == ("open", "charge", "ann", "the yearly report")
    assert (second.who, second.purpose, second.mechanism) == ("bob", "", "LaplaceMechanism")
    assert first.description == second.description != first.settings != second.settings
    assert json.loads(second.spent)["epsilon"] == "3/10"
    assert json.loads(first.unit) == {"neighbours": "replace", "rows_per_person": 1}
    assert first.time < second.time
    assert second.previous == first.digest


def test_a_digest_of_a_network_is_that_of_its_content(url, tmp_path):
    dg.save(NETWORK, tmp_path / "network.json")
    again = dg.load(tmp_path / "network.json")
    other = dg.Network.of({"word": ["no", "yes"], "kind": ["a", "c"]}, {"word": ["kind"]})
    budget = open_(url, 1)
    for network, rows in ((NETWORK, ROWS), (again, ROWS), (other, ROWS.replace("b", "c"))):
        dg.release(dg.count(rows, network), dg.LaplaceMechanism("0.1"), budget=budget)
    first, same, differs = [row.description for row in budget.ledger.rows()[1:]]
    assert first == same != differs


def test_a_release_names_its_row_also_from_a_file(url, tmp_path):
    budget = open_(url, 1)
    made, other = released(budget), released(budget, "0.2")
    dg.save(made, tmp_path / "r.json")
    loaded = dg.load(tmp_path / "r.json")
    assert loaded.scope == made.scope
    assert [row.number for row in budget.ledger.rows_of(loaded)] == [1]
    assert budget.ledger.verify(release=loaded).ok
    joint = made + other
    assert [row.number for row in budget.ledger.rows_of(joint)] == [1, 2]
    assert budget.ledger.verify(release=joint).ok
    dg.save(joint, tmp_path / "j.json")
    assert budget.ledger.verify(release=dg.load(tmp_path / "j.json")).ok


def test_releases_of_two_days_are_known_to_be_of_the_same_rows(url):
    open_(url, 1)
    groups = open_(url).parallel(DOMAIN, "sex", epsilon="0.5")
    domain = dg.Domain.of({"sex": ["F", "M"]})
    rows = ROWS.assign(sex=["F", "M", "F"])[["sex"]]
    network = dg.Network.of(domain, {})
    mechanism = dg.LaplaceMechanism("0.1")
    female = dg.release(dg.count(rows, network, where={"sex": "F"}), mechanism, budget=groups["F"])
    again = open_(url).groups(DOMAIN, "sex")["M"]
    male = dg.release(dg.count(rows, network, where={"sex": "M"}), mechanism, budget=again)
    with pytest.raises(dg.errors.ReleaseError, match="different rows of one data set"):
        female + male


def test_a_release_that_no_row_paid_for_is_noticed(url):
    budget = open_(url, 1)
    made = released(budget)
    elsewhere = released(dg.Budget(1))
    ledger = budget.ledger
    assert "names no entry" in str(ledger.verify(release=elsewhere))
    with pytest.raises(dg.errors.LedgerError, match="names no entry"):
        ledger.rows_of(elsewhere)
    dearer = released(dg.Budget(1), "0.2")
    assert not ledger.verify(release=dg.Release(dearer.value, dearer.event, made.unit, True, made.scope)).ok
    with pytest.raises(dg.errors.LedgerError, match="does not have"):
        dg.Budget.open(url, dataset="other", epsilon=1).ledger.rows_of(made)


def test_a_charge_reads_as_many_rows_at_ten_thousand_as_at_ten(sqlite_url):
    """What a charge asks of the database, and how it finds it, does not depend on the history."""
    budget = open_(sqlite_url, 10**6)
    store = budget._account.chain.store

    def asked():
        told = []
        budget.spent  # noqa: B018  opens a connection
        store._connection.set_trace_callback(told.append)
        budget.charge(spend("0.1"))
        store._connection.set_trace_callback(None)
        return [re.split(" WHERE | SET | VALUES ", text)[0] for text in told], told

    for _ in range(10):
        budget.charge(spend("0.1"))
    few, told = asked()
    with store.writing() as rows:
        for _ in range(3000):
            rows.append(budget._account._next(rows, spend("0.1"), '{"delta":"0"}', Made()))
    budget.charge(spend("0.1"))  # has now seen the newest row
    many, _ = asked()
    assert few == many
    assert len(few) < 12
    for text in told:
        if text.startswith("SELECT"):
            plan = store._connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()
            assert not any("SCAN" in step[-1] for step in plan if "dpgraph" in step[-1]), (text, plan)


def test_stores_read_the_same_rows(url):
    budget = open_(url, 1)
    budget.charge(spend("0.5"))
    with store_of(url, create=False).reading() as rows:
        assert tuple(rows.rows("survey")) == budget.ledger.rows()
        assert rows.datasets() == ["survey"]
        assert rows.row("survey", 9) is None


def test_another_kind_of_database_is_refused():
    with pytest.raises(
        dg.errors.LedgerError, match=r"a ledger is a path, sqlite:///path or postgresql://\.\.\.; got mysql"
    ):
        store_of("mysql://host/db", create=False)


def test_equal_values_have_equal_fingerprints():
    assert fingerprint(Fraction(1, 2)) == fingerprint(Fraction(2, 4)) != fingerprint("1/2")
    assert fingerprint(None) == ""
