"""Commands that spend from a ledger: what they charge, what they say, what they refuse, and their defaults."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import dpgraph as dg
from dpgraph.cli import main
from tests.cli.test_dry_run import COMMANDS as FITS

FROM = ["--ledger", "l.sqlite", "--dataset", "adult"]
QUICK = ["--iterations", "4", "--burn-in", "2"]
OUT = ["--out", "out.json"]
SURE = ["--epsilon", "1000000", "--mechanism", "laplace"]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("LEDGER", "DATASET", "WHO", "PURPOSE"):
        monkeypatch.delenv(f"DPGRAPH_{name}", raising=False)


def words_of(command, rows=None):
    """A command that spends, on rows that are there or on some that are not."""
    files = {"hmm": "log.csv", "regression": "pay.csv", "evaluate": "rows.csv"}
    if command == "evaluate":
        words = ["evaluate", "model.json", "ROWS"]
    else:
        words = FITS[command] + {"hmm": QUICK, "regression": ["--draws", "20"]}.get(command, [])
    return [(rows or files.get(command, "rows.csv")) if word == "ROWS" else word for word in words]


@pytest.fixture
def model(run):
    words = ["fit", "naive-bayes", "rows.csv", "--domain", "net.toml", "--target", "sex", "--epsilon", "1"]
    run(*words, "--out", "model.json")


def made(run, *more, epsilon="1"):
    return run("ledger", "create", "l.sqlite", "--dataset", "adult", "--epsilon", epsilon, *more).stdout.strip()


def opened():
    return dg.Budget.open("l.sqlite", dataset="adult")


@pytest.mark.proof
@pytest.mark.parametrize("accounting", ["basic", "zcdp"])
@pytest.mark.parametrize("command", [*FITS, "evaluate"])
def test_a_command_charges_what_its_dry_run_says(command, accounting, run, model):
    made(run, "--accounting", accounting, *(["--delta", "1e-6", "--epsilon", "2"] if accounting == "zcdp" else []))
    words = [*words_of(command), *FROM, "--epsilon", "0.25"]
    dry = run(*words_of(command, "none.csv"), *FROM, "--epsilon", "0.25", "--dry-run").stdout
    assert "nothing was read" in dry
    assert opened().spent == 0
    said = run(*words, "--who", "ann", "--purpose", "a look", *OUT).stderr
    budget = opened()
    (row,) = budget.ledger.rows()[1:]
    assert (row.kind, row.who, row.purpose) == ("charge", "ann", "a look")
    assert budget.events[0].epsilon == Fraction(1, 4)
    place = f"'adult' at {os.path.abspath('l.sqlite')}"
    left = dry.splitlines()[1].removeprefix("would leave ").removeprefix("about ").split(" of epsilon")[0]
    assert f"paid by entry 1 of {place}, which has " in said
    if accounting == "basic" or command not in ("naive-bayes", "regression"):  # whose noise depends on a public n
        assert f"which has {left} left" in said
    if accounting == "basic":
        assert left == "epsilon 0.75"
        assert dry.splitlines()[1] == f"would leave epsilon 0.75 of epsilon 1 in {place}"
    run("ledger", "verify", "l.sqlite", "--release", "out.json")


@pytest.mark.parametrize("command", [*FITS, "evaluate"])
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_the_budget_does_not_hold_is_refused_before_a_row_is_read(command, dry, run, model):
    made(run, epsilon="0.2")
    head = opened().ledger.head
    told = run(*words_of(command, "none.csv"), *FROM, "--epsilon", "0.25", *OUT, *dry, code=1).stderr
    assert "nothing was charged [BudgetExceededError]" in told
    assert opened().ledger.head == head


def test_an_allowance_limits_a_command_and_its_dry_run(run):
    made(run)
    run("ledger", "allow", "l.sqlite", "--dataset", "adult", "--who", "ann", "--epsilon", "0.3")
    words = [*words_of("release"), *FROM, "--who", "ann", "--epsilon", "0.2"]
    assert "would leave epsilon 0.1 of epsilon 0.3" in run(*words, "--dry-run").stdout
    run(*words, *OUT)
    assert "the allowance of 'ann'" in run(*words, "--dry-run", code=1).stderr
    assert "the allowance of 'ann'" in run(*words, "--out", "two.json", code=1).stderr
    assert opened().spent == Fraction(1, 5)


def test_rows_that_are_refused_are_not_charged(run):
    made(run)
    Path("rows.csv").write_text("sex,age,rate\nX,20,0\n")
    assert "DomainError" in run(*words_of("release"), *FROM, "--epsilon", "0.25", *OUT, code=1).stderr
    assert opened().spent == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--ledger", "none.sqlite", "--dataset", "adult"], 1, "make it with `dpgraph ledger create "),
        (["--ledger", "l.sqlite", "--dataset", "it's"], 1, "--dataset 'it'\"'\"'s' --epsilon E`"),
        (["--ledger", "net.toml", "--dataset", "adult"], 1, "[LedgerError]"),
        (["--ledger", "l.sqlite"], 2, "--ledger needs --dataset"),
        (["--dataset", "adult"], 2, "give --ledger"),
        (["--ledger", "", *FROM[2:]], 2, "--dataset is written to a ledger"),
        (["--who", "ann"], 2, "--who is written to a ledger"),
        ([*FROM, "--neighbours", "add-remove"], 1, "protects replace one row of one person, and add-remove one row"),
        ([*FROM, "--rows-per-person", "2"], 1, "leave --neighbours and --rows-per-person out"),
        ([*FROM, "--rows-per-person", "0"], 1, "[ReleaseError]"),
        ([*FROM, "--who", "two\nlines"], 1, "who must be one line of text"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_is_refused_charges_nothing(words, code, message, dry, run):
    made(run)
    told = run(*words_of("release"), *words, "--epsilon", "0.25", *OUT, *dry, code=code).stderr
    assert message in " ".join(told.split())
    assert opened().spent == 0


@pytest.mark.proof
@pytest.mark.parametrize("command", ["release", "naive-bayes", "hmm", "regression", "evaluate"])
def test_the_unit_is_the_ledgers(command, run, model):
    """Also the cap on each person's rows, and the relation, which without a ledger is replace."""
    made(run, "--neighbours", "add-remove", "--rows-per-person", "3")
    run(*words_of(command), *FROM, "--epsilon", "0.25", *OUT)
    made_of = dg.load("out.json")
    assert getattr(made_of, "provenance", made_of).unit == dg.PrivacyUnit("add-remove", 3)
    again = [*words_of(command), *FROM, "--epsilon", "0.25", "--neighbours", "add-remove", "--rows-per-person", "3"]
    run(*again, "--dry-run")


def test_a_person_has_as_many_rows_as_the_ledger_says(run):
    made(run, "--neighbours", "add-remove", "--rows-per-person", "3", epsilon="2000000")
    Path("n.toml").write_text('[variables]\nword = ["a", "b"]\n[parents]\nword = []\n')
    Path("rows.csv").write_text("word,who\n" + "a,1\n" * 9 + "b,2\n")
    run("release", "rows.csv", "--network", "n.toml", "--person", "who", *FROM, *OUT, *SURE)
    assert dg.load("out.json").value.tables[("word",)].tolist() == [3, 1]


class TestDefaults:
    @pytest.mark.proof
    def test_the_environment_then_the_file(self, run, monkeypatch):
        """What is typed goes before the environment, and that before the file; each field by itself."""
        made(run)
        Path("dpgraph.toml").write_text('ledger = "l.sqlite"\ndataset = "none"\nwho = "file"\npurpose = "of a file"\n')
        monkeypatch.setenv("DPGRAPH_DATASET", "adult")
        monkeypatch.setenv("DPGRAPH_WHO", "environment")
        for command in ("release", "naive-bayes", "hmm", "regression"):
            run(*words_of(command), "--epsilon", "0.25", *OUT, *(["--who", "typed"] if command == "hmm" else []))
        rows = opened().ledger.rows()[1:]
        assert [row.who for row in rows] == ["environment", "environment", "typed", "environment"]
        assert {row.purpose for row in rows} == {"of a file"}

    def test_another_file_whose_ledger_is_beside_it(self, run):
        os.mkdir("desk")
        run("ledger", "create", "desk/l.sqlite", "--dataset", "adult", "--epsilon", "1")
        Path("desk/mine.toml").write_text('ledger = "l.sqlite"\ndataset = "adult"\n')
        Path("dpgraph.toml").write_text("no toml")
        run("--config", "desk/mine.toml", *words_of("release"), "--epsilon", "0.25", *OUT)
        assert dg.Budget.open("desk/l.sqlite", dataset="adult").spent == Fraction(1, 4)

    def test_an_empty_ledger_is_none(self, run, monkeypatch):
        made(run)
        monkeypatch.setenv("DPGRAPH_LEDGER", "l.sqlite")
        monkeypatch.setenv("DPGRAPH_DATASET", "adult")
        said = run(*words_of("release"), "--ledger", "", "--epsilon", "5", *OUT).stderr
        assert "paid by" not in said
        assert opened().spent == 0

    def test_half_of_it_is_refused_and_not_spent_elsewhere(self, run, monkeypatch):
        monkeypatch.setenv("DPGRAPH_DATASET", "adult")
        assert "no ledger" in run(*words_of("release"), "--epsilon", "1", *OUT, code=2).stderr

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                'leger = "l.sqlite"',
                "sets 'leger' (did you mean 'ledger'?); a file of defaults may set ledger, dataset, who, purpose",
            ),
            ("epsilon = 1", "sets 'epsilon'"),
            ("who = 3", "who must be text"),
            ("ledger = ", "cannot be parsed"),
            ("[release]\nledger = 'l.sqlite'", "sets 'release'"),
            ("#" * (2**20 + 1), "is larger than"),
            (".".join(["a"] * 20_000) + " = 1", "words joined by dots"),
        ],
    )
    def test_a_bad_file_is_refused_where_something_is_spent(self, text, message, run):
        Path("dpgraph.toml").write_text(text)
        assert message in run(*words_of("release"), "--epsilon", "1", *OUT, code=1).stderr
        run("cost", "net.toml", "--epsilon", "1")

    def test_a_file_that_is_named_must_be_there(self, run):
        told = run("--config", "none.toml", *words_of("release"), "--epsilon", "1", *OUT, code=1).stderr
        assert "none.toml cannot be read" in told
        told = run("--config", "net.json", *words_of("release"), "--epsilon", "1", *OUT, code=1).stderr
        assert "must end in .toml" in told


class TestExitCodes:
    """1 says that nothing was charged; what was charged and is lost is 3."""

    def ended(self, *words):
        from dpgraph.cli.exit_codes import ended

        return ended(lambda: main([str(word) for word in words], standalone_mode=False))

    def test_an_error_after_the_charge(self, run, monkeypatch, capsys):
        def fails(*_, **__):
            raise dg.errors.InferenceError("nothing can be learned")

        made(run)
        monkeypatch.setattr("dpgraph.cli.fitting.save_charged", fails)
        assert self.ended(*words_of("naive-bayes"), *FROM, "--epsilon", "0.25", *OUT) == 3
        assert "the charge stands, and what it paid for is lost [InferenceError]" in capsys.readouterr().err
        assert opened().spent == Fraction(1, 4)

    @pytest.mark.parametrize("stands", [True, False])
    def test_an_error_of_the_ledger(self, stands, run, monkeypatch, capsys):
        def fails(*_, **__):
            raise dg.errors.LedgerError("the disk is full", charge_may_stand=stands)

        made(run)
        monkeypatch.setattr("dpgraph.privacy.accounting.Budget.charge", fails)
        assert self.ended(*words_of("release"), *FROM, "--epsilon", "0.25", *OUT) == (3 if stands else 1)
        assert ("the charge may stand" in capsys.readouterr().err) == stands
        assert not os.path.exists("out.json")

    def test_an_interrupt_says_what_stands(self, run, monkeypatch, capsys):
        def stopped(*_, **__):
            raise KeyboardInterrupt

        made(run)
        monkeypatch.setattr("dpgraph.cli.networks.save_charged", stopped)
        assert self.ended(*words_of("release"), *FROM, "--epsilon", "0.25", *OUT) == 130
        assert "entry 1 of 'adult'" in capsys.readouterr().err

    def test_a_commit_of_which_nothing_is_known(self, run, monkeypatch):
        """The mark is on the error that the store raises."""
        from dpgraph.privacy.ledger import store

        made(run)
        budget = opened()
        real = store.Rows.append

        def append(rows, row):
            real(rows, row)
            os.unlink("l.sqlite")

        monkeypatch.setattr(store.Rows, "append", append)
        with pytest.raises(dg.errors.LedgerError) as caught:
            budget.charge(dg.LaplaceMechanism("0.1").event(dg.read_network("net.toml"), budget.unit))
        assert caught.value.charge_may_stand


def test_only_the_commands_of_a_ledger_say_nothing_of_defaults(run):
    """``show`` and the rest say their ledger by name, whatever the defaults are."""
    Path("dpgraph.toml").write_text("no toml")
    made(run)
    run("ledger", "show", "l.sqlite")


@pytest.mark.parametrize("what", ["event", "row"])
def test_a_model_that_another_row_paid_for_is_noticed(what, run):
    made(run)
    run(*words_of("naive-bayes"), *FROM, "--epsilon", "0.25", *OUT)
    learned = dg.load("out.json")
    assert learned.provenance.receipts == (opened().ledger.rows()[1].digest,)
    run(*words_of("naive-bayes"), *FROM, "--epsilon", "0.5", "--out", "other.json")
    plain = json.loads(Path("out.json").read_text())
    if what == "event":
        plain["receipts"] = json.loads(Path("other.json").read_text())["receipts"]
        expected = "the release's event is not that of the entries it names"
    else:
        plain["receipts"] = ["0" * 64]
        expected = "names an entry that this data set's ledger does not have"
    from dpgraph.files.digest import sealed

    plain.pop("digest")
    Path("forged.json").write_text(json.dumps(sealed(plain)))
    assert expected in run("ledger", "verify", "l.sqlite", "--release", "forged.json", code=1).stderr


@pytest.mark.proof
def test_what_is_learned_from_a_release_names_its_row(run):
    made(run)
    run(*words_of("release"), *FROM, "--epsilon", "0.5", *OUT)
    for out in ("m.json", "m.npz"):
        run("posterior", "out.json", "--out", out)
        assert "every digest" in run("ledger", "verify", "l.sqlite", "--release", out).stderr
    run(*words_of("release"), "--epsilon", "0.5", "--out", "free.json")
    assert "names no entry" in run("ledger", "verify", "l.sqlite", "--release", "free.json", code=1).stderr


def shell(*words, code=0, **settings):
    """A command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "dpgraph.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.proof
def test_a_days_tale():
    """Fitted today, released tomorrow, refused the day after, each in a process; history and files agree."""
    head = shell("ledger", "create", "l.sqlite", "--dataset", "adult", "--epsilon", "1", "--who", "board").stdout
    Path("dpgraph.toml").write_text('ledger = "l.sqlite"\ndataset = "adult"\n')
    shell(*words_of("naive-bayes"), "--epsilon", "0.6", "--out", "today.json", DPGRAPH_WHO="ann")
    shell(*words_of("release"), "--epsilon", "0.4", "--out", "tomorrow.json", DPGRAPH_WHO="bob")
    before = sorted(os.listdir())
    refused = shell(*words_of("release"), "--epsilon", "0.001", "--out", "after.json", code=1, DPGRAPH_WHO="ann")
    assert "nothing was charged [BudgetExceededError]" in refused.stderr
    assert sorted(os.listdir()) == before
    rows = json.loads(shell("ledger", "history", "l.sqlite", "--json").stdout)
    told = [(row["kind"], row["who"], row["spent"]["epsilon"]) for row in rows]
    assert told == [("open", "board", "0"), ("charge", "ann", "3/5"), ("charge", "bob", "1")]
    for name, row in (("today.json", rows[1]), ("tomorrow.json", rows[2])):
        shell("ledger", "verify", "l.sqlite", "--head", head.strip(), "--release", name)
        assert dg.load(name).provenance.receipts == (row["digest"],)
        assert str(dg.load(name).provenance.event.epsilon) == row["event"]["epsilon"]
