"""``dpgraph discover``: from a partial declaration to a domain's file, charged."""

import pandas as pd
import pytest

import dpgraph as dg
from tests.cli.commands import run

OPEN = """
[variables]
survived = ["no", "yes"]
sex = { words = true }
age = { numbers = [0, 100], missing = true, about = 4 }
class = { words = ["1st", "2nd", "3rd"] }
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame(
        {
            "survived": ["no", "yes", "no"] * 2000,
            "sex": ["F", "M", "M"] * 2000,
            "age": [20, 40, None, 60] * 1500,
            "class": ["1st", "3rd", "3rd"] * 2000,
        }
    )
    rows.to_csv("rows.csv", index=False)
    (tmp_path / "open.toml").write_text(OPEN)
    return tmp_path


WORDS = ("discover", "rows.csv", "--declaration", "open.toml", "--delta", "1e-6")


def test_a_domain_is_found_written_and_read(desk):
    said = run(*WORDS, "--epsilon", "2", "--out", "domain.toml")
    assert "epsilon 2 and delta 1e-06" in said.stderr
    assert "PrivateLevels" in said.stdout
    domain = dg.read_domain("domain.toml")
    assert domain.levels("sex") == ("F", "M", "other")
    assert domain.levels("class") == ("1st", "3rd", "other")
    assert domain["age"].missing
    assert (desk / "domain.toml").read_text().startswith("# found by dpgraph discover: ")
    dg.count("rows.csv", dg.Network.of(domain, {}))


def test_a_dry_run_says_the_price_and_reads_nothing(desk):
    (desk / "rows.csv").unlink()
    said = run(*WORDS, "--epsilon", "2", "--dry-run")
    assert "would spend LaplaceMechanism + PrivateLevels, epsilon 2 and delta 1e-06" in said.stdout


def test_a_ledger_pays_and_the_file_names_its_entries(desk):
    run("ledger", "create", "l.sqlite", "--dataset", "d", "--epsilon", "2", "--delta", "1e-6")
    said = run(*WORDS, "--epsilon", "2", "--ledger", "l.sqlite", "--dataset", "d", "--out", "domain.toml")
    assert "paid by entry 2" in said.stderr
    assert "of a ledger" in (desk / "domain.toml").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = { numbers = [0] }", "numbers are [low, high]"),
        ("a = { numbers = [5, 1] }", "low must be below high"),
        ("a = { words = false }", "words are true, or a list"),
        ("a = { words = true, mising = true }", "did you mean 'missing'"),
        ("a = ['x', 'y']", "nothing is to be found"),
        ("a = 3", "needs a list of levels"),
    ],
)
def test_a_declaration_that_is_not_valid_is_refused_by_name(desk, text, words):
    (desk / "open.toml").write_text(f"[variables]\n{text}\n")
    assert words in run(*WORDS, "--epsilon", "2", "--out", "d.toml", code=1).stderr
    assert not (desk / "d.toml").exists()


def test_a_declaration_that_leaves_something_open_is_no_domain(desk):
    said = run("learn", "rows.csv", "--domain", "open.toml", "--epsilon", "5", "--out", "n.toml", code=1)
    assert "found by `dpgraph discover`" in said.stderr
