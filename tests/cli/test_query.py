"""``dpgraph query``: joints, events, lists of levels, interventions, files of questions, intervals and JSON."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from tests.files.test_pgmpy import learned

NETWORK = dg.Network.of({"a": [0, 1], "b": ["x", "y|z", "w"], "c": dg.Bins([0, 1, 2])}, {"b": ["a"], "c": ["b", "a"]})


def drawn():
    tables = [learned(NETWORK, seed).tables for seed in range(30)]
    stacked = {name: np.stack([one[name] for one in tables])[None] for name in NETWORK.domain.names}
    return dg.results.PosteriorDraws(NETWORK, stacked, "tables", "made")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    dg.save(drawn(), made / "draws.json")
    dg.save(learned(NETWORK), made / "one.json")
    return made


def run(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["--target", "b"], ("b",)),
        (["--target", "b", "--target", "c"], (["b", "c"],)),
        (["--target", "b=x", "--target", "c=0.5"], ({"b": "x", "c": "0-1"},)),
        (["--target", "a", "--given", "b=x|w", "--given", "c=1-2"], ("a", {"b": ["x", "w"], "c": "1-2"})),
        (["--target", "a", "--given", "b=y|z"], ("a", {"b": "y|z"})),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_answers_as_the_library_does(folder, words, question):
    found = json.loads(run("query", folder / "draws.json", *words, "--interval", 80, "--json").stdout)
    answer = dg.query(drawn(), *question, interval=0.8)
    for key, expected in (
        ("probability", answer.predictive),
        ("mean", answer.mean),
        ("low", answer.low),
        ("high", answer.high),
    ):
        np.testing.assert_allclose([entry[key] for entry in found["answer"]], expected, rtol=1e-12)
    assert (found["draws"], found["interval"]) == (30, 0.8)
    text = run("query", folder / "draws.json", *words, "--interval", 80).stdout
    assert text.splitlines()[0] == answer.question
    assert f"{answer.high[0]:.4f}" in text.splitlines()[2]


def test_an_intervention_and_one_set_of_probabilities(folder):
    found = json.loads(run("query", folder / "one.json", "--target", "c", "--do", "b=x", "--json").stdout)
    answer = dg.query(learned(NETWORK), "c", do={"b": "x"})
    np.testing.assert_allclose([entry["mean"] for entry in found["answer"]], answer.mean, rtol=1e-12)
    assert found["do"] == {"b": "x"}
    assert found["answer"][0]["low"] is None
    shown = run("query", folder / "one.json", "--target", "c", "--do", "b=x")
    assert "probability" in shown.stdout
    assert "no intervals" in shown.stderr


def test_questions_from_a_file(folder, tmp_path):
    (tmp_path / "q.toml").write_text(
        '[[question]]\ntarget = "b"\ngiven = {a = 1}\n\n'
        '[[question]]\ntarget = {b = ["x", "w"]}\ndo = {a = 0}\ninterval = 0.5\n\n'
        '[[question]]\ntarget = ["a"]\ngiven = {c = 0.5}\nmethod = "sampling"\nsamples = 3000\n'
    )
    found = json.loads(run("query", folder / "draws.json", "--questions", tmp_path / "q.toml", "--json").stdout)
    assert [len(one["answer"]) for one in found] == [3, 1, 2]
    expected = dg.query(drawn(), {"b": ["x", "w"]}, do={"a": 0}, interval=0.5)
    assert found[1]["answer"][0]["low"] == pytest.approx(expected.low[0])
    text = run("query", folder / "draws.json", "--questions", tmp_path / "q.toml").stdout
    assert text.count("P(") >= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds no [[question]]"), ('[[question]]\ngiven = {a = 1}\n', "question 1: it needs a target"),
     ('[[question]]\ntarget = "b"\nwidth = 3\n', "question 1"), ("[[question]", "cannot be parsed")],
)  # fmt: skip
def test_a_file_of_no_questions_is_refused(folder, tmp_path, text, message):
    (tmp_path / "q.toml").write_text(text)
    shown = run("query", folder / "one.json", "--questions", tmp_path / "q.toml", code=1)
    assert message in shown.stderr
    assert "[FileError]" in shown.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--target", "b", "--questions", "q.toml"],
        ["--target", "b", "--interval", "100"],
        ["--target", "b", "--do", "a"],
        ["--target", "c", "--given", "a=0", "--given", "a=1"],
    ],
)
def test_wrong_usage(folder, words):
    assert "Usage: " in run("query", folder / "one.json", *words, code=2).stderr


def test_a_changed_file_is_refused_by_the_reader_of_all_files(folder, tmp_path):
    (tmp_path / "cut.json").write_text((folder / "one.json").read_text().replace("0.", "0.0", 1))
    assert "[FileError]" in run("query", tmp_path / "cut.json", "--target", "b", code=1).stderr


def test_a_boolean_is_typed_as_its_file_writes_it(tmp_path):
    network = dg.Network.of({"flag": [False, True], "b": ["x", "y"]}, {"b": ["flag"]})
    dg.save(learned(network), tmp_path / "flags.json")
    answers = [
        json.loads(run("query", tmp_path / "flags.json", "--target", "b", "--given", f"flag={word}", "--json").stdout)
        for word in ("true", "True")
    ]
    assert answers[0] == answers[1]
    assert answers[0]["given"] == {"flag": True}
    both = run("query", tmp_path / "flags.json", "--target", "b", "--given", "flag=false|true", "--json").stdout
    assert json.loads(both)["given"] == {"flag": [False, True]}
    refused = CliRunner().invoke(main, ["query", str(tmp_path / "flags.json"), "--target", "b", "--given", "flag=1"])
    assert refused.exit_code == 1
    assert "declared: False, True" in refused.stderr
