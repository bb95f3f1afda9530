r"""Names of variables and levels that a terminal would obey are shown as their escapes, and JSON is as it was."""

import json
import re
import tomllib

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.cli.output import plain
from dpgraph.privacy.display import escaped

EVIL = {"a\x1b[2J": ["x\u202ey", "l\nm", "\x07"], "b\rc\x9b": ["=1+1", "-3", "\u2066z"]}
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def evil(run):
    """A network with such names, rows of it and a model."""
    network = dg.Network.of(EVIL, {"b\rc\x9b": ["a\x1b[2J"]})
    dg.save(network, "evil.json")
    first, second = EVIL
    rows = pd.DataFrame({first: EVIL[first] * 10, second: EVIL[second] * 10})
    rows.to_parquet("evil.parquet")
    run("release", "evil.parquet", "--network", "evil.json", "--epsilon", "5", "--out", "r.json")
    run("posterior", "r.json", "--method", "plug-in", "--out", "m.json")
    return rows


def shown(result):
    """All that is shown, which holds nothing that a terminal obeys."""
    text = result.stdout + result.stderr
    assert not OBEYED.search(text), OBEYED.search(text)
    return text


@pytest.mark.proof
def test_tables_show_escapes(evil, run):
    first, second = EVIL
    assert r"b\rc\x9b" in shown(run("cost", "evil.json", "--epsilon", "1"))
    text = shown(run("query", "m.json", "--target", first, "--target", second))
    lines = text.splitlines()
    assert len(lines) == 2 + 9  # no level has made a line of its own
    assert r"x\u202ey" in text
    assert r"l\nm" in text
    given = f"{second}=-3"
    assert r"P(a\x1b[2J | b\rc\x9b=-3)" in shown(run("query", "m.json", "--target", first, "--given", given))
    asked = ("--n", "50", "--question", f"{first}=l\nm")
    assert r"a\x1b[2J=l\nm" in shown(run("cost", "evil.json", "--epsilon", "1", *asked))


def test_errors_and_usage_show_escapes(evil, run):
    evil.iloc[:, :1].to_parquet("short.parquet")
    words = ("--network", "evil.json", "--epsilon", "1", "--out")
    told = shown(run("release", "short.parquet", *words, "x.json", code=1))
    assert len(told.splitlines()) == 1
    assert "\\x9b" in told
    shown(run("query", "m.json", "--target", "\x1b]0;no\x07", code=1))
    shown(run("query", "m.json", "--target", next(iter(EVIL)), "--given", "\x1b[1m", code=2))
    shown(run("release", "evil.parquet", *words, "\x1b[1m/x.json", code=2))
    assert "wrote o\\x1b.json" in shown(run("release", "evil.parquet", *words, "o\x1b.json"))


def test_a_table_of_the_library_shows_escapes():
    frame = pd.DataFrame({"n\x1b": ["a\u202e", None, 3, "b"], "x": [1.0, 2000.5, 3, 4]})
    frame["c"] = pd.Categorical(["\x07", "q", "q", "q"])
    text = plain(frame.to_dict("records"))
    assert not OBEYED.search(text)
    assert r"a\u202e" in text
    assert r"\x07" in text
    assert list(frame.columns) == ["n\x1b", "x", "c"]


def test_reprs_show_escapes(evil):
    model = dg.load("m.json")
    first, second = EVIL
    for value in (
        model.network.domain,
        dg.query(model, first, {second: "-3"}),
        dg.questions.most_probable(model, {second: "-3"}),
    ):
        assert not OBEYED.search(repr(value))
        assert "\\x1b" in repr(value)


def test_json_has_the_names_themselves(evil, run):
    first, second = EVIL
    found = run("query", "m.json", "--target", first, "--json").stdout
    assert [entry["level"] for entry in json.loads(found)["answer"]] == EVIL[first]
    nodes = json.loads(run("cost", "evil.json", "--epsilon", "1", "--json").stdout)["nodes"]
    assert [row["variable"] for row in nodes] == [first, second]


@pytest.mark.parametrize("text", ["plain é 漢 'a' \"b\"", "", "12-13"])
def test_what_prints_as_itself_stays(text):
    assert escaped(text) == text


def test_an_escape_reads_as_what_it_stands_for():
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x1D173, 0xE0001):
        assert tomllib.loads(f'a = "{escaped(chr(code)).replace(chr(92) + "x", chr(92) + "u00")}"')["a"] == chr(code)


TOML = """
[variables]
"=name" = ["=1+1", "-3", "a"]
other = ["@x", "+cmd|' /C calc'!A0", "-5-0"]
[parents]
"=name" = []
other = ["=name"]
"""


@pytest.fixture
def formulas(run):
    with open("f.toml", "w") as file:
        file.write(TOML)
    rows = {"=name": ["=1+1", "-3", "a"] * 20, "other": ["@x", "+cmd|' /C calc'!A0", "-5-0"] * 20}
    pd.DataFrame(rows).to_csv("f.csv", index=False)
    run("release", "f.csv", "--network", "f.toml", "--epsilon", "5", "--out", "r.json")
    run("posterior", "r.json", "--method", "plug-in", "--out", "m.json")
    return {name: set(levels) for name, levels in rows.items()}


def test_synthetic_rows_hold_no_formula(formulas, run):
    words = ("sample", "m.json", "-n", "300", "--seed", "1", "--out")
    run(*words, "safe.csv")
    run(*words, "raw.csv", "--raw")
    run(*words, "safe.parquet")
    safe, raw = (pd.read_csv(name, dtype=str) for name in ("safe.csv", "raw.csv"))
    assert {name: set(raw[name]) for name in raw} == formulas
    assert {name: set(safe[name]) for name in safe} == {
        "'=name": {"'=1+1", "-3", "a"},
        "other": {"'@x", "'+cmd|' /C calc'!A0", "'-5-0"},
    }
    assert [cell.removeprefix("'") for cell in safe["other"]] == list(raw["other"])
    pd.testing.assert_frame_equal(pd.read_parquet("safe.parquet").astype(object), raw.astype(object), check_dtype=False)
    run("release", "raw.csv", "--network", "f.toml", "--epsilon", "1", "--out", "again.json")
    run("release", "safe.csv", "--network", "f.toml", "--epsilon", "1", "--out", "not.json", code=1)


def test_predictions_hold_no_formula(formulas, run):
    run("fit", "naive-bayes", "f.csv", "--domain", "f.toml", "--target", "=name", "--epsilon", "50", "--out", "c.json")
    run("predict", "c.json", "f.csv", "--out", "safe.csv")
    run("predict", "c.json", "f.csv", "--out", "raw.csv", "--raw")
    safe, raw = (pd.read_csv(name, dtype={0: str}) for name in ("safe.csv", "raw.csv"))
    assert list(safe.columns)[:4] == ["'=name", "P(=1+1)", "P(-3)", "P(a)"]
    assert (set(safe.iloc[:, 0]), set(raw.iloc[:, 0])) == ({"'=1+1", "-3", "a"}, {"=1+1", "-3", "a"})
