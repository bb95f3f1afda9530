"""The command line: every command end to end, the exit codes, and that a refusal writes nothing."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from tests.cli.commands import run

TOML = """
[variables]
sex = ["F", "M"]
age = { bins = [17, 25, 50.5, 90], missing = true }
work = { levels = ["Private", "Other"], other = "Other", missing = "Other" }
flag = [true, false]
rate = [0, 1.5]
[parents]
sex = []
age = ["sex"]
work = ["sex", "age"]
flag = []
rate = ["flag"]
"""
CSV = """sex,age,work,flag,rate,unread
F,20,Private,True,0,a
M,,elsewhere,false,1.5,b
M,99,,true,0,c
F,30,Other,TRUE,1.50,d
"""
STRICT = '[variables]\nword = ["a", "b"]\nage = { bins = [0, 1, 2] }\n[parents]\nage = ["word"]\n'


@pytest.fixture(autouse=True)
def _desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.toml").write_text(TOML)
    (tmp_path / "rows.csv").write_text(CSV)
    (tmp_path / "strict.toml").write_text(STRICT)


def release(out="r.json", *more):
    run("release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", out, *more)
    return out


def model(out="m.json"):
    run("posterior", release(), "--method", "plug-in", "--out", out)
    return out


@pytest.mark.proof
def test_cost_of_alarm():
    """The paper's scale is 2 |V| / epsilon = 74 under replace."""
    shown = run("cost", "example:alarm", "--epsilon", "1", "--n", "10000").stdout
    assert "25 maximal tables of 37 families, 752 cells" in shown
    paper = next(line for line in shown.splitlines() if "Algorithm 1" in line)
    assert "74" in paper.split()
    assert "epsilon 1 (pure), protecting replace one row of one person" in shown


def test_cost_as_json_is_the_same_numbers():
    plain = json.loads(
        run("cost", "n.toml", "--epsilon", "0.5", "--n", "100", "--neighbours", "add-remove", "--json").stdout
    )
    assert plain["epsilon"] == "0.5"
    assert (plain["variables"], plain["cells"], plain["n"]) == (5, 2 + 4 * 2 + 2 * 2 * 4 + 2 + 2 * 2, 100)
    assert {row["variable"] for row in plain["nodes"]} == {"sex", "age", "work", "flag", "rate"}
    paper = next(row for row in plain["mechanisms"] if "Algorithm 1" in row["mechanism"])
    assert paper["sensitivity"] == 5
    assert paper["lowest scale"] == paper["highest scale"] == 5 / 0.5
    assert all(0 <= row["tv"] <= 1 for row in plain["nodes"])
    assert "tv" not in json.loads(run("cost", "n.toml", "--epsilon", "1", "--json").stdout)["nodes"][0]


def test_release_writes_a_release_and_says_what_it_cost():
    result = run("release", "rows.csv", "--network", "n.toml", "--epsilon", "0.3", "--out", "r.json")
    assert result.stdout == ""
    assert (
        "wrote r.json: LaplaceMechanism, epsilon 0.3 (pure), protecting replace one row of one person" in result.stderr
    )
    loaded = dg.load("r.json")
    assert loaded.private
    assert loaded.value.n == 4
    assert loaded.value.network == dg.read_network("n.toml")
    assert str(dg.cost(loaded)) == "epsilon 0.3 (pure)"


@pytest.mark.parametrize("tables", ["families", "maximal", "merged"])
@pytest.mark.parametrize("allocation", ["optimal", "uniform"])
def test_release_as_it_was_asked_for(tables, allocation):
    out = release(
        "r.json", "--tables", tables, "--allocation", allocation, "--neighbours", "add-remove", "--rows-per-person", "2"
    )
    loaded = dg.load(out)
    expected = dg.LaplaceMechanism("1", tables=tables, allocation=allocation).event(loaded.value.network, loaded.unit)
    assert loaded.event == expected
    assert loaded.unit == dg.PrivacyUnit("add-remove", 2)
    assert loaded.value.n is None


@pytest.mark.parametrize("suffix", ["csv", "parquet", "folder"])
def test_rows_of_any_kind_are_released(suffix):
    frame = pd.DataFrame({"word": ["a", "b"] * 30, "age": [0.5, 1.5] * 30})
    name = f"new.{suffix}"
    if suffix == "csv":
        frame.to_csv(name, index=False)
    elif suffix == "parquet":
        frame.to_parquet(name)
    else:
        os.mkdir(name)
        frame.head(20).to_parquet(f"{name}/a.parquet")
        frame.tail(40).to_parquet(f"{name}/b.parquet")
    run("release", name, "--network", "strict.toml", "--epsilon", "100000", "--out", "r.json")
    table = dg.load("r.json").value
    assert {key: value.tolist() for key, value in table.tables.items()} == {("age", "word"): [[30, 0], [0, 30]]}


@pytest.mark.parametrize("command", ["release", "fit"])
def test_a_dry_run_touches_no_rows_and_writes_nothing(command, tmp_path):
    words = {
        "release": ["release", "no/such/rows.csv", "--network", "n.toml"],
        "fit": ["fit", "naive-bayes", "no/such/rows.csv", "--domain", "n.toml", "--target", "sex"],
    }[command]
    before = sorted(os.listdir())
    result = run(*words, "--epsilon", "0.25", "--dry-run", "--out", "x.json")
    assert (
        "would spend LaplaceMechanism, epsilon 0.25 (pure), protecting replace one row of one person" in result.stdout
    )
    assert "nothing was read" in result.stdout
    assert result.stderr == ""
    assert sorted(os.listdir()) == before
    assert "no file" in run(*words, "--epsilon", "0.25", "--out", "x.json", code=1).stderr


@pytest.mark.parametrize("counts", ["nearest", "expected", "clipped"])
def test_posterior(counts):
    result = run("posterior", release(), "--method", "plug-in", "--counts", counts, "--prior", "0.5", "--out", "m.json")
    assert "wrote m.json" in result.stderr
    expected = dg.posterior(dg.load("r.json"), prior=0.5, method=dg.methods.PlugIn(counts))
    assert dg.load("m.json") == expected
    run("posterior", "r.json", "--method", "plug-in", "--counts", counts, "--prior", "0.5", "--out", "m.bif")
    for name in ("sex", "age", "work"):
        np.testing.assert_allclose(dg.load("m.bif").table(name), expected.mean().table(name), rtol=1e-9)


def test_query_agrees_with_the_library():
    learned = dg.load(model()).mean()
    shown = run("query", "m.json", "--target", "work", "--given", "sex=F", "--given", "age=33", "--json")
    answer = json.loads(shown.stdout)
    assert answer["given"] == {"sex": "F", "age": "25-50.5"}
    expected = dg.query(learned, "work", {"sex": "F", "age": "25-50.5"})
    assert [pair["level"] for pair in answer["answer"]] == ["Private", "Other"]
    assert [pair["probability"] for pair in answer["answer"]] == pytest.approx(expected.predictive.tolist())
    text = run("query", "m.json", "--target", "work", "--given", "sex=F", "--given", "age=33").stdout
    for level, value in zip(("Private", "Other"), expected.predictive, strict=True):
        assert f"{value:.4f}" in next(line for line in text.splitlines() if line.startswith(level))


@pytest.mark.parametrize(
    "given_", ["flag=True", "rate=0", "rate=1.5", "age=missing", "age=17-25", "age=-4", "work=Other"]
)
def test_evidence_of_any_kind(given_):
    answer = json.loads(run("query", model(), "--target", "sex", "--given", given_, "--json").stdout)
    assert sum(pair["probability"] for pair in answer["answer"]) == pytest.approx(1)


def test_sample_then_count_is_a_round_trip():
    """Bins come back as numbers, missing ones as nulls, through CSV and through Parquet."""
    network = dg.read_network("n.toml")
    model()
    for out in ("s.csv", "s.parquet"):
        assert run("sample", "m.json", "-n", "500", "--seed", "7", "--out", out).stderr == f"wrote {out}\n"
    expected = dg.sample_rows(dg.load("m.json").mean(), 500, np.random.default_rng(7))
    for out in ("s.csv", "s.parquet"):
        counts = dg.count(out, network)
        for family in network.families:
            np.testing.assert_array_equal(
                counts.sensitive_margin(family), dg.count(expected, network).sensitive_margin(family)
            )
        run("release", out, "--network", "n.toml", "--epsilon", "1", "--out", "again.json")
    assert expected["age"].isna().any()


def test_samples_without_a_seed_differ_and_none_may_be_asked_for():
    model()
    run("sample", "m.json", "-n", "200", "--out", "a.csv")
    run("sample", "m.json", "-n", "200", "--out", "b.csv")
    with open("a.csv") as a, open("b.csv") as b:
        assert a.read() != b.read()
    run("sample", "m.json", "-n", "0", "--out", "none.csv")
    with open("none.csv") as none:
        assert none.read() == "sex,age,work,flag,rate\n"
    run("release", "none.csv", "--network", "n.toml", "--epsilon", "1", "--out", "r0.json")
    assert dg.load("r0.json").value.n == 0


def test_fit_and_predict_agree_with_the_library():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": rng.choice(["a", "b"], 400), "age": rng.uniform(0, 2, 400)})
    frame.to_csv("rows.csv", index=False)
    result = run(
        "fit",
        "naive-bayes",
        "rows.csv",
        "--domain",
        "strict.toml",
        "--target",
        "word",
        "--epsilon",
        "2",
        "--out",
        "nb.json",
    )
    assert result.stdout == ""
    assert "wrote nb.json: LaplaceMechanism, epsilon 2 (pure)" in result.stderr
    frame[["age"]].head(30).to_csv("new.csv", index=False)
    assert run("predict", "nb.json", "new.csv", "--out", "p.csv").stderr == "wrote p.csv\n"
    fitted = dg.load("nb.json")
    assert isinstance(fitted, dg.results.NaiveBayes)
    codes = dg.statistics.encode(frame.head(30), dg.read_domain("strict.toml").restrict(["age"]))
    table = pd.read_csv("p.csv")
    assert list(table.columns) == ["word", "P(a)", "P(b)", "low(a)", "low(b)", "high(a)", "high(b)"]
    np.testing.assert_allclose(table[["P(a)", "P(b)"]], fitted.predict_proba(codes.columns))
    _, *ends = fitted.predict_proba(codes.columns, return_interval=True)
    np.testing.assert_allclose(table.iloc[:, 3:], np.hstack(ends))
    best = np.where(table["P(a)"] >= table["P(b)"], "a", "b")
    assert table["word"].tolist() == best.tolist()


@pytest.mark.proof
def test_a_fitted_model_is_a_network_to_query_and_sample():
    run("fit", "naive-bayes", "rows.csv", "--domain", "n.toml", "--target", "sex", "--epsilon", "1", "--out", "nb.json")
    run("fit", "naive-bayes", "rows.csv", "--domain", "n.toml", "--target", "sex", "--epsilon", "1", "--out", "nb.bif")
    for name in ("nb.json", "nb.bif"):
        run("query", name, "--target", "sex", "--given", "work=Private")
        run("sample", name, "-n", "3", "--out", "s.csv")


def test_a_missing_feature_file_or_another_model_cannot_predict():
    release()
    model()
    assert "m.json predicts nothing row by row" in run("predict", "m.json", "rows.csv", "--out", "p.csv", code=1).stderr
    assert "cannot be read" in run("predict", "none.json", "rows.csv", "--out", "p.csv", code=1).stderr
    run("fit", "naive-bayes", "rows.csv", "--domain", "n.toml", "--target", "sex", "--epsilon", "1", "--out", "nb.json")
    assert "no file none.csv" in run("predict", "nb.json", "none.csv", "--out", "p.csv", code=1).stderr


BAD_ROWS = {
    "a missing column": ("word\na\n", "DomainError", "column 'age' is not in bad.csv"),
    "an unknown level": ("word,age\nhush93,1\n", "DomainError", "column 'word' holds values outside"),
    "a null": ("word,age\n,1\n", "DomainError", "column 'word' holds nulls"),
    "NaN in a binned column": ("word,age\na,NaN\n", "DomainError", "column 'age' holds nulls or NaN"),
    "a column of the wrong type": ("word,age\na,hush93\n", "DomainError", "column 'age' is of type"),
    "a row cut short": ("word,age\na,1\nb", "DomainError", "bad.csv cannot be read as CSV; is it truncated"),
    "an open quote": ('word,age\na,1\n"hush93', "DomainError", "bad.csv cannot be read as CSV; is it truncated"),
    "an empty file": ("", "DomainError", "bad.csv cannot be read as CSV"),
    "no text": ("word,age\n\0\udcff,1\n", "DomainError", "bad.csv"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
@pytest.mark.parametrize("command", ["release", "fit"])
def test_bad_rows_are_refused_and_nothing_is_written(command, case):
    text, error, message = BAD_ROWS[case]
    with open("bad.csv", "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    words = {
        "release": ["release", "bad.csv", "--network", "strict.toml"],
        "fit": ["fit", "naive-bayes", "bad.csv", "--domain", "strict.toml", "--target", "word"],
    }[command]
    result = run(*words, "--epsilon", "1", "--out", "x.json", code=1)
    assert message in result.stderr
    assert f"[{error}]" in result.stderr
    assert "hush93" not in result.stderr


@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one_row_are_valid(rows):
    with open("few.csv", "w") as file:
        file.write("word,age\n" + "a,1.5\n" * rows)
    run("release", "few.csv", "--network", "strict.toml", "--epsilon", "1", "--out", "r.json")
    assert dg.load("r.json").value.n == rows
    run("posterior", "r.json", "--method", "plug-in", "--out", "m.json")
    run(
        "fit",
        "naive-bayes",
        "few.csv",
        "--domain",
        "strict.toml",
        "--target",
        "word",
        "--epsilon",
        "1",
        "--out",
        "nb.json",
    )


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "True", "", "one", "1/0", "1e999"])
@pytest.mark.parametrize(
    "words",
    [
        ["release", "rows.csv", "--network", "n.toml", "--out", "x.json"],
        ["release", "rows.csv", "--network", "n.toml", "--out", "x.json", "--dry-run"],
        ["fit", "naive-bayes", "rows.csv", "--domain", "n.toml", "--target", "sex", "--out", "x.json"],
        ["cost", "n.toml"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_is_no_epsilon_is_refused(words, epsilon):
    result = run(*words, f"--epsilon={epsilon}", code=1)
    assert "epsilon must be a finite number above 0" in result.stderr
    assert "[ReleaseError]" in result.stderr


def test_an_epsilon_too_small_to_be_useful_is_refused():
    result = run("release", "rows.csv", "--network", "n.toml", "--epsilon", "1e-30", "--out", "x.json", code=1)
    assert "nothing could be learned" in result.stderr


BAD_NETWORKS = {
    "a cycle": ('[variables]\na = ["x"]\nb = ["x"]\n[parents]\na = ["b"]\nb = ["a"]\n', "the graph has a cycle: "),
    "an unknown parent": ('[variables]\na = ["x"]\n[parents]\na = ["b"]\n', "unknown parent 'b'"),
    "an empty level list": ("[variables]\na = []\n[parents]\n", "variable 'a': the level list is empty"),
    "a duplicate level": ('[variables]\na = ["x", "x"]\n[parents]\n', "variable 'a': level 'x' is declared twice"),
    "cut short": ('[variables]\na = ["x"', "cannot be parsed; is it truncated?"),
    "no parents": ('[variables]\na = ["x"]\n', "has no [parents] table"),
    "a huge family": (
        "[variables]\n"
        + "".join(f"v{i} = [0, 1]\n" for i in range(30))
        + f"[parents]\nv0 = {[f'v{i}' for i in range(1, 30)]}\n",
        f"the family of 'v0' (v0, v1, v2, v3, {', '.join(f'v{i}' for i in range(4, 30))}) has {2**30:,} cells",
    ),
}


@pytest.mark.parametrize("case", BAD_NETWORKS)
def test_a_bad_network_is_refused(case):
    text, message = BAD_NETWORKS[case]
    with open("bad.toml", "w") as file:
        file.write(text)
    for words in (["cost", "bad.toml"], ["release", "rows.csv", "--network", "bad.toml", "--out", "x.json"]):
        result = run(*words, "--epsilon", "1", code=1)
        assert message in result.stderr
        assert "[FileError]" in result.stderr
        assert "bad.toml" in result.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["cost", "none.toml", "--epsilon", "1"], "FileError"),
        (["cost", "example:none", "--epsilon", "1"], "FileError"),
        (["cost", "n.toml", "--epsilon", "1", "--n", "0"], "ReleaseError"),
        (["cost", "n.toml", "--epsilon", "1", "--rows-per-person", "0"], "ReleaseError"),
        (
            [
                "release",
                "rows.csv",
                "--network",
                "n.toml",
                "--epsilon",
                "1",
                "--rows-per-person",
                "0",
                "--out",
                "x.json",
            ],
            "ReleaseError",
        ),
        (["release", "rows.xlsx", "--network", "n.toml", "--epsilon", "1", "--out", "x.json"], "DomainError"),
        (
            [
                "fit",
                "naive-bayes",
                "rows.csv",
                "--domain",
                "n.toml",
                "--target",
                "z",
                "--epsilon",
                "1",
                "--out",
                "x.json",
            ],
            "NetworkError",
        ),
        (
            [
                "fit",
                "naive-bayes",
                "rows.csv",
                "--domain",
                "n.toml",
                "--target",
                "sex",
                "--epsilon",
                "1",
                "--prior",
                "-1",
                "--out",
                "x.json",
            ],
            "InferenceError",
        ),
        (
            [
                "fit",
                "naive-bayes",
                "rows.csv",
                "--domain",
                "n.toml",
                "--target",
                "sex",
                "--epsilon",
                "1",
                "--prior",
                "nan",
                "--out",
                "x.json",
            ],
            "InferenceError",
        ),
        (["posterior", "none.json", "--out", "x.json"], "FileError"),
        (["posterior", "rows.csv", "--out", "x.json"], "FileError"),
        (["posterior", "n.toml", "--out", "x.json"], "FileError"),
        (["query", "none.bif", "--target", "sex"], "FileError"),
        (["sample", "none.bif", "-n", "1", "--out", "x.csv"], "FileError"),
    ],
    ids=lambda value: " ".join(value)[:70] if isinstance(value, list) else value,
)
def test_a_bad_value_is_refused_by_name(words, error):
    assert f"[{error}]" in run(*words, code=1).stderr


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["query", "m.json", "--target", "z"], "NetworkError", "no variable 'z'"),
        (["query", "m.json", "--target", "sex", "--given", "z=1"], "NetworkError", "no variable 'z'"),
        (["query", "m.json", "--target", "sex", "--given", "work=zz"], "DomainError", "'zz' is not a level of 'work'"),
        (["query", "m.json", "--target", "sex", "--given", "sex=F"], "DomainError", "both asked for and given"),
        (["query", "r.json", "--target", "sex"], "FileError", "needs a posterior first"),
        (["sample", "r.json", "-n", "3", "--out", "x.csv"], "FileError", "needs a posterior first"),
        (["sample", "m.json", "-n", "-1", "--out", "x.csv"], "InferenceError", "at least 0"),
        (["posterior", "m.json", "--out", "x.json"], "InferenceError", "posterior takes noisy counts"),
        (
            ["posterior", "r.json", "--method", "plug-in", "--prior", "0", "--out", "x.json"],
            "InferenceError",
            "prior must be",
        ),
        (["posterior", "cut.json", "--out", "x.json"], "FileError", "is it truncated?"),
    ],
    ids=lambda value: " ".join(value)[:70] if isinstance(value, list) else value,
)
def test_a_question_that_makes_no_sense_is_refused(words, error, message):
    model()
    with open("r.json") as whole, open("cut.json", "w") as cut:
        cut.write(whole.read()[:300])
    result = run(*words, code=1)
    assert message in result.stderr
    assert f"[{error}]" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["cost"],
        ["cost", "n.toml"],
        ["cost", "n.toml", "--epsilon", "1", "--n", "many"],
        ["cost", "n.toml", "--epsilon", "1", "--neighbours", "bounded"],
        ["cost", "n.toml", "more", "--epsilon", "1"],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1"],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", "x.bif"],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", "no/folder/x.json"],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", "."],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--mechanism", "magic", "--out", "x.json"],
        ["release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", "x.json", "--seed", "1"],
        ["posterior", "r.json", "--method", "plug-in", "--out", "x.csv"],
        ["fit"],
        ["fit", "naive-bayes", "rows.csv", "--domain", "n.toml", "--epsilon", "1", "--out", "x.json"],
        ["predict", "m.json", "rows.csv", "--out", "x.json"],
        ["sample", "m.json", "--out", "x.csv"],
        ["sample", "m.json", "-n", "3", "--seed", "-1", "--out", "x.csv"],
        ["sample", "m.json", "-n", "3", "--out", "x.txt"],
    ],
    ids=lambda words: " ".join(words)[:70],
)
def test_wrong_usage_is_exit_code_2_and_says_how(words):
    assert "Usage: " in run(*words, code=2).stderr


def test_evidence_that_is_no_pair_is_wrong_usage():
    assert "is not NAME=LEVEL" in run("query", model(), "--target", "sex", "--given", "work", code=2).stderr


def test_help_and_version():
    shown = run("--help").stdout
    for command in ("cost", "release", "posterior", "fit", "predict", "query", "sample"):
        assert command in shown
        assert "Usage: " in run(command, "--help").stdout
    assert dg.__version__ in run("--version").stdout


def test_an_old_file_stays_when_a_command_is_refused():
    release("kept.json")
    with open("kept.json") as file:
        before = file.read()
    run("release", "none.csv", "--network", "n.toml", "--epsilon", "1", "--out", "kept.json", code=1)
    with open("kept.json") as file:
        assert file.read() == before


def process(*words, **settings):
    program = [sys.executable, "-W", "error", "-c", "from dpgraph.cli import main; main()", *words]
    return subprocess.run(program, capture_output=True, text=True, check=False, **settings)


@pytest.mark.proof
def test_in_a_process_of_its_own():
    """Words on stderr, results on stdout, no traceback, and the exit codes of a real process."""
    done = process("release", "rows.csv", "--network", "n.toml", "--epsilon", "1", "--out", "r.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote r.json")
    shown = process("cost", "n.toml", "--epsilon", "1", "--json")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["cells"] == 32
    assert shown.stderr == ""
    refused = process("release", "none.csv", "--network", "n.toml", "--epsilon", "1", "--out", "x.json")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "Error: there is no file none.csv [DomainError]\n"
    assert process("release").returncode == 2
    assert not os.path.exists("x.json")


def test_asking_for_help_loads_no_engine():
    engines = ["pandas", "numpy", "scipy", "sklearn", "pgmpy", "pyarrow", "opendp", "matplotlib", "networkx", "polars"]
    program = (
        "import sys, dpgraph.cli\n"
        "try: dpgraph.cli.main(['--help'])\n"
        f"except SystemExit: print([name for name in {engines} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_no_traceback():
    done = subprocess.run(
        f"{sys.executable} -c 'from dpgraph.cli import main; main()' cost n.toml --epsilon 1 | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_the_noise_of_two_runs_differs():
    """Nothing in the command line can seed it: at scale 200, equal noise in all cells has a chance below 1e-9."""
    tables = []
    for out in ("one.json", "two.json"):
        run("release", "rows.csv", "--network", "n.toml", "--epsilon", "0.01", "--out", out)
        tables.append(dg.load(out).value.tables)
    assert tables[0] != tables[1]


PAY = """\
[variables]
age = { bounds = [20, 60] }
sex = ["F", "M"]
pay = { bounds = [0, 100] }
"""


def pay_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, 300), "sex": rng.choice(["F", "M"], 300)})
    frame = frame.assign(pay=20 + 0.5 * frame["age"] + 8 * (frame["sex"] == "M"))
    frame.to_csv("pay.csv", index=False)
    with open("pay.toml", "w") as file:
        file.write(PAY)
    return frame


def fit_regression(*more, code=0):
    words = ("fit", "regression", "pay.csv", "--domain", "pay.toml", "--target", "pay", "--epsilon", "2")
    return run(*words, "--inference", "plug-in", "--draws", "50", "--out", "pay.json", *more, code=code)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_regression_is_fitted_and_predicts_as_the_library_does(neighbours):
    frame = pay_rows()
    shown = fit_regression("--neighbours", neighbours)
    assert "coefficient" in shown.stdout
    assert "epsilon 2 (pure)" in shown.stderr
    assert "wrote pay.json" in shown.stderr
    fitted = dg.load("pay.json")
    assert fitted.provenance.unit.neighbours == neighbours
    for rows, suffix in (("pay.csv", "csv"), ("pay.parquet", "parquet")):
        frame.drop(columns="pay").to_parquet("pay.parquet")
        run("predict", "pay.json", rows, "--out", f"{suffix}.csv")
        predicted = pd.read_csv(f"{suffix}.csv")
        expected = fitted.frame({"age": frame["age"], "sex": (frame["sex"] == "M").astype(int)})
        pd.testing.assert_frame_equal(predicted, expected)


def test_sampled_weights_predict_without_a_spread():
    frame = pay_rows()
    fitted = dg.PrivateLinearRegression(
        {"age": (18, 90), "sex": ["F", "M"]}, (0, 100), 5, dg.papers.RegressionSample(5, idealized_numerics=True)
    )
    fitted.fit(frame[["age", "sex"]], frame["pay"])
    dg.save(fitted.model_, "drawn.json")
    run("predict", "drawn.json", "pay.csv", "--out", "p.csv")
    expected = pd.DataFrame({"prediction": fitted.predict(frame[["age", "sex"]])})
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), expected)


def test_a_regression_as_json_and_dry():
    pay_rows()
    table = json.loads(fit_regression("--json", "--typical", "45").stdout)
    assert [row["name"] for row in table["coefficients"]] == ["intercept", "age", "sex=M"]
    os.remove("pay.json")
    assert "would spend LaplaceMechanism" in fit_regression("--dry-run").stdout
    assert not os.path.exists("pay.json")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--typical", "101"), "typical"),
        (("--target", "sex"), "bounds"),
        (("--target", "wage"), "no variable 'wage'"),
        (("--epsilon", "0"), "epsilon"),
        (("--on-missing", "drop"), "add-remove"),
        (("--domain", "none.toml"), "none.toml"),
    ],
)
def test_a_regression_that_is_refused_writes_nothing(more, message):
    pay_rows()
    assert message in fit_regression(*more, code=1).stderr


@pytest.mark.parametrize(
    "broken", ["age,sex,pay\n30,F,\n", "age,sex,pay\n30,X,4\n", "age,pay\n30,4\n", "age,sex,pay\nold,F,4\n"]
)
def test_rows_that_do_not_fit_a_regression_are_refused(broken):
    pay_rows()
    with open("pay.csv", "w") as file:
        file.write(broken)
    fit_regression(code=1)


def test_what_a_regression_cannot_predict():
    pay_rows()
    fit_regression()
    with open("short.csv", "w") as file:
        file.write("age\n30\n")
    assert "sex" in run("predict", "pay.json", "short.csv", "--out", "p.csv", code=1).stderr
    run("predict", "pay.json", "absent.csv", "--out", "p.csv", code=1)
