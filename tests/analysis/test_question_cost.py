"""The expected width of an answer: narrower with epsilon, never below what n alone costs, and what epsilon it needs."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.analysis import question_cost
from dpgraph.analysis.question_cost import epsilon_needed
from dpgraph.cli import main

NETWORK = dg.Network.of({"a": ["x", "y"], "b": ["u", "v"]}, {"b": ["a"]})
QUESTION = {"target": {"b": "u"}, "given": {"a": "x"}}


@pytest.fixture(scope="module")
def report():
    return dg.privacy_cost(NETWORK, epsilon="0.1", n=500, question=QUESTION)


def test_widths_fall_towards_what_n_alone_costs(report):
    """At 500 uniform rows the exact posterior's 90 % interval is about 2 x 1.645 x sqrt(.25 / 252) = .1036 wide."""
    found = report.question
    assert found["epsilon"].tolist() == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4])
    assert found["without noise"].iloc[0] == pytest.approx(2 * 1.645 * np.sqrt(0.25 / 252), rel=0.1)
    assert found["width"].iloc[0] > 2 * found["width"].iloc[-1]
    assert found["width"].iloc[-1] == pytest.approx(found["without noise"].iloc[0], rel=0.4)
    assert (found["se"] < found["width"] / 3).all()
    assert report.epsilon_for(float(found["width"].iloc[2])) == pytest.approx(0.1, rel=0.3)
    assert dg.privacy_cost(NETWORK, epsilon=1).question is None


def test_the_epsilon_that_is_needed_lies_between():
    widths = pd.DataFrame({"epsilon": [1.0, 2.0, 4.0], "width": [0.4, 0.2, 0.1], "without noise": 0.05})
    assert epsilon_needed(widths, 0.2) == pytest.approx(2)
    assert epsilon_needed(widths, 0.1 * np.sqrt(2)) == pytest.approx(2 * np.sqrt(2))
    for width in (0.01, 0.5):
        with pytest.raises(dg.errors.ReleaseError, match=r"0\.05 without noise"):
            epsilon_needed(widths, width)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"question": QUESTION}, "ReleaseError", "give n with a question"),
        ({"question": {"given": {}}, "n": 50}, "ReleaseError", "a question has a target"),
        ({"question": {"target": "b", "draws": 3}, "n": 50}, "ReleaseError", "a question has a target"),
        ({"question": {"target": "z"}, "n": 50}, "NetworkError", "no variable 'z'"),
    ],
)
def test_a_question_that_cannot_be_priced_is_refused(settings, error, message):
    with pytest.raises(getattr(dg.errors, error), match=message):
        dg.privacy_cost(NETWORK, epsilon=1, **settings)
    with pytest.raises(dg.errors.ReleaseError, match="ask privacy_cost with question"):
        dg.privacy_cost(NETWORK, epsilon=1).epsilon_for(0.1)


def test_the_command_says_how_wide(tmp_path, monkeypatch):
    monkeypatch.setattr(question_cost, "WORLDS", 2)
    dg.save(NETWORK, tmp_path / "n.json")
    words = ["cost", str(tmp_path / "n.json"), "--epsilon", "0.1", "--n", "300", "--question", "b=u | a=x"]
    text = CliRunner().invoke(main, words).output
    assert "expected width of the interval of P(b=u | a=x)" in text
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert [row["epsilon"] for row in found["question"]] == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4])
    width = (found["question"][0]["width"] + found["question"][-1]["width"]) / 2
    needed = json.loads(CliRunner().invoke(main, [*words, "--width", f"{width:.3f}", "--json"]).stdout)
    assert 0.02 < needed["epsilon_for_width"] < 0.5
