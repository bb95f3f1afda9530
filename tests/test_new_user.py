"""What a new user met who had only the README and one tutorial: each guess has its answer in what is said or done."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from tests.cli.commands import run

DOMAIN = dg.Domain.of(
    {"sex": ["female", "male"], "age": dg.Bins([0, 16, 80]), "class": ["1st", "2nd"], "survived": ["no", "yes"]}
)
UNIT = dg.PrivacyUnit("replace")


def passengers(n=400):
    rng = np.random.default_rng(3)
    sex = rng.choice(["female", "male"], n)
    survived = np.where(rng.random(n) < np.where(sex == "female", 0.75, 0.2), "yes", "no")
    rows = {"sex": sex, "age": rng.integers(0, 80, n), "class": rng.choice(["1st", "2nd"], n), "survived": survived}
    return pd.DataFrame(rows)


def classifier(rows, epsilon="1", domain=DOMAIN, **settings):
    made = dg.PrivateNaiveBayes(domain, target="survived", epsilon=epsilon, **settings)
    return made.fit(rows.drop(columns="survived"), rows["survived"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"age": np.nan}, r"Bins\(\[...\], missing=True\)"),
        ({"class": None}, r"Categories\(\[...\], missing=...\)"),
        (
            {"class": "3rd"},
            r"Categories\(\[...\], other=...\), one of the levels; to predict, put a declared level there",
        ),
    ],
)
def test_a_refused_column_says_what_to_type(change, said):
    with pytest.raises(dg.errors.DomainError, match=said):
        classifier(passengers().assign(**change))


def test_what_the_refusals_ask_for_is_there():
    rows = passengers().assign(age=np.nan)
    rows["class"] = [None, "3rd"] * 200
    asked = dict(DOMAIN.variables) | {
        "age": dg.Bins([0, 16, 80], missing=True),
        "class": dg.Categories(["1st", "2nd", "none"], missing="none", other="2nd"),
    }
    assert classifier(rows, domain=asked).predict(rows).shape == (400,)


def test_bins_with_a_level_for_missing_say_true():
    with pytest.raises(dg.errors.NetworkError, match="declare missing=True; got 'unknown'"):
        dg.Bins([0, 16, 80], missing="unknown")


def test_a_date_says_how_to_make_numbers_or_levels_of_it():
    day = pd.Timestamp("2024-01-01")
    with pytest.raises(dg.errors.DomainError, match=r"their year, pd.to_datetime\(column\).dt.year"):
        classifier(passengers().assign(age=day))
    with pytest.raises(dg.errors.DomainError, match="strftime"):
        classifier(passengers().assign(**{"class": day}))


def test_bounds_in_a_list_say_that_they_are_a_pair():
    rows = pd.DataFrame({"income": [1.5, 3.0, 12.0]})
    with pytest.raises(dg.errors.DomainError, match=r"are a pair, \(low, high\)"):
        dg.PrivateLinearRegression({"income": [0, 16]}, (0, 1)).fit(rows, pd.Series([0.1, 0.2, 0.3]))


def test_a_target_left_in_x_says_how_to_leave_it_out():
    rows = passengers()
    with pytest.raises(dg.errors.DomainError, match=r"the target too: X.drop\(columns='survived'\)"):
        dg.PrivateNaiveBayes(DOMAIN, target="survived").fit(rows, rows["survived"])


@pytest.mark.parametrize("unit", ["replace", "add-remove"])
def test_a_unit_by_name_is_answered_with_the_unit(unit):
    network = dg.naive_bayes_network(DOMAIN, "survived")
    design = dg.LinearDesign({"x": (0, 1)}, "y", (0, 1))
    question = {"target": "survived"}
    for call in (
        lambda: dg.privacy_cost(network, epsilon=1, unit=unit),
        lambda: dg.privacy_cost(network, epsilon=1, n=10, unit=unit, question=question),
        lambda: dg.privacy_cost(design, epsilon=1, n=10, unit=unit),
        lambda: dg.Budget(1, unit=unit),
    ):
        with pytest.raises(dg.errors.ReleaseError, match=f'such as PrivacyUnit\\("{unit}"\\)'):
            call()


def test_a_unit_of_another_kind_is_answered_too():
    with pytest.raises(dg.errors.ReleaseError, match=r'PrivacyUnit\("replace"\)'):
        dg.privacy_cost(dg.naive_bayes_network(DOMAIN, "survived"), epsilon=1, unit=np.ones(3))


def test_a_budget_without_a_delta_says_how_to_give_one():
    rows, network = passengers(), dg.naive_bayes_network(DOMAIN, "survived")
    counts, mechanism = dg.count(rows, network), dg.GaussianMechanism("1", "1e-6")
    with pytest.raises(dg.errors.BudgetExceededError, match=r"Budget\(epsilon, 1e-06\)"):
        dg.release(counts, mechanism, budget=dg.Budget(1))
    budget = dg.Budget(1, "1e-6")
    dg.release(counts, mechanism, budget=budget)
    with pytest.raises(dg.errors.BudgetExceededError) as refused:
        dg.release(counts, mechanism, budget=budget)
    assert "with a delta" not in str(refused.value)


def test_a_model_that_noise_has_drowned_says_so():
    rows, seeded = passengers(), {"unit": dg.PrivacyUnit("add-remove"), "noise": dg.testing.SeededNoise(1)}
    with pytest.warns(dg.errors.PriorWarning, match="noise hides what the rows say"):
        classifier(rows, epsilon="0.001", inference="plug-in")
    with pytest.warns(dg.errors.PriorWarning, match="noise hides what the rows say"):
        classifier(rows, epsilon="0.001", inference="plug-in", **seeded)


def test_a_model_that_noise_has_not_drowned_is_silent(recwarn):
    for unit in ("replace", "add-remove"):
        classifier(passengers(), epsilon="2", inference="plug-in", unit=dg.PrivacyUnit(unit))
    assert not [one for one in recwarn if one.category is dg.errors.PriorWarning]


def test_a_log_that_noise_has_drowned_says_so_and_one_that_it_has_not_is_silent(recwarn):
    levels = {"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]}
    log = pd.DataFrame({"region": ["N", "S"] * 300, "month": [1, 2, 3] * 200, "kind": ["a", "b"] * 300})
    short = {"iterations": 10, "burn_in": 5, "noise": dg.testing.SeededNoise(1)}
    for unit in ("replace", "add-remove"):
        dg.PrivateHMM(2, levels, epsilon=1, unit=dg.PrivacyUnit(unit), **short).fit(log)
        assert not [one for one in recwarn if one.category is dg.errors.PriorWarning]
        with pytest.warns(dg.errors.PriorWarning, match="summed over the cells of a state") as told:
            dg.PrivateHMM(2, levels, epsilon="0.01", unit=dg.PrivacyUnit(unit), **short).fit(log)
        assert next(one for one in told if one.category is dg.errors.PriorWarning).filename == __file__


def test_noise_that_drowns_cells_and_not_what_a_states_cells_hold_is_no_reason_to_warn(recwarn):
    """120 numbers of 5 rows each, noise of scale 7: no cell is seen, and a state's thirty cells together are."""
    levels = {"region": ["N", "S"], "month": list(range(30)), "kind": ["a", "b"]}
    log = pd.DataFrame({"region": ["N", "S"] * 300, "month": list(range(30)) * 20, "kind": ["a", "b"] * 300})
    settings = {"iterations": 10, "burn_in": 5, "noise": dg.testing.SeededNoise(1), "unit": dg.PrivacyUnit("replace")}
    dg.PrivateHMM(2, levels, epsilon="0.3", **settings).fit(log)
    assert not [one for one in recwarn if one.category is dg.errors.PriorWarning]


def test_an_epsilon_beside_a_mechanism_with_another_is_refused():
    """The mechanism's is what is spent: here four times what was asked for."""
    rows, two = passengers(), dg.LaplaceMechanism(2)
    with pytest.raises(dg.errors.ReleaseError, match=r"epsilon=0\.5 differs from the mechanism.s own epsilon, 2"):
        classifier(rows, epsilon="0.5", mechanism=two, inference="plug-in")
    for epsilon in (2, "2", 1, None):
        model = classifier(rows, epsilon=epsilon, mechanism=two, inference="plug-in")
        assert model.privacy_cost_.epsilon == 2
    numbers, target = pd.DataFrame({"x": [0.1, 0.9]}), pd.Series([0.2, 0.8], name="y")
    with pytest.raises(dg.errors.ReleaseError, match="leave one out"):
        dg.PrivateLinearRegression({"x": (0, 1)}, (0, 1), epsilon="0.5", mechanism=two).fit(numbers, target)


def test_an_estimator_predicts_from_a_path(tmp_path):
    rows = passengers()
    rows.to_csv(tmp_path / "rows.csv")
    for path in (tmp_path / "rows.csv", str(tmp_path / "rows.csv")):
        model = classifier(rows, inference="plug-in")
        assert (model.predict(path) == model.predict(rows)).all()
        line = dg.PrivateLinearRegression(
            {"sex": ["female", "male"]}, (0, 80), epsilon=1, draws=50, inference="plug-in"
        )
        line.fit(rows[["sex"]], rows["age"])
        assert (line.predict(path) == line.predict(rows)).all()


def test_the_commonest_answer_is_told_beside_the_accuracy():
    rows = passengers()
    budget = dg.Budget(100, unit=UNIT)
    judged = dg.evaluate(classifier(rows), rows.drop(columns="survived"), rows["survived"], epsilon=100, budget=budget)
    label, share = judged.commonest
    counted = rows["survived"].value_counts(normalize=True)
    assert label == counted.index[0]
    assert share.estimate == pytest.approx(counted.iloc[0], abs=0.02)
    assert share.low < share.estimate < share.high


def test_a_hidden_markov_model_says_which_setting_names_the_sequence():
    domain = dg.Domain.of({"ward": ["A", "B"], "week": [1, 2], "kind": ["a", "b"]})
    with pytest.raises(dg.errors.NetworkError, match="one of the domain's variables: ward, week, kind"):
        dg.PrivateHMM(2, domain, time="week").fit(pd.DataFrame({"ward": ["A"], "week": [1], "kind": ["a"]}))


def test_a_learned_network_answers_questions_and_its_probabilities_give_rows():
    learned = dg.learn_network(passengers(), DOMAIN.restrict(["sex", "survived"]), epsilon=5)
    answer = dg.query(learned, "sex")
    assert (answer.low < answer.high).all()
    with pytest.raises(dg.errors.InferenceError, match=r"\(learned.probabilities\)"):
        dg.sample_rows(learned, 5, 0)
    assert len(dg.sample_rows(learned.probabilities, 5, 0)) == 5


def test_a_graph_of_networkx_says_what_to_make_of_it():
    import networkx as nx

    with pytest.raises(dg.errors.NetworkError, match=r"Network.of\(domain, parents or an nx.DiGraph\)"):
        dg.privacy_cost(nx.DiGraph([("sex", "survived")]), epsilon=1)
    made = dg.Network.of(DOMAIN, nx.DiGraph([("sex", "survived")]))
    assert dg.privacy_cost(made, epsilon=1).nodes.shape[0] == 4


def test_files_that_are_not_there_or_not_models_say_so(tmp_path):
    for read in (dg.load, dg.read_domain, dg.read_network):
        with pytest.raises(dg.errors.FileError, match="cannot be read: there is no such file"):
            read(tmp_path / ("nothing.json" if read is dg.load else "nothing.toml"))
    (tmp_path / "graph.toml").write_text('[variables]\na = ["x", "y"]\n')
    with pytest.raises(dg.errors.FileError, match="without probabilities"):
        dg.load(tmp_path / "graph.toml")
    (tmp_path / "bare.toml").write_text('[variables]\nkind of event = ["x", "y"]\n')
    with pytest.raises(dg.errors.FileError, match="Names and texts stand in quotes"):
        dg.read_domain(tmp_path / "bare.toml")


DECLARED = """
[variables]
sex = ["female", "male"]
age = { bins = [0, 16, 80] }
class = ["1st", "2nd"]
survived = ["no", "yes"]
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.toml").write_text(DECLARED)
    passengers().to_csv("rows.csv")
    return tmp_path


@pytest.mark.proof
def test_from_a_table_to_synthetic_rows_by_commands_alone(desk):
    out = ("--out", "g.toml", "--release", "pairs.json", "--model", "learned.json")
    run("learn", "rows.csv", "--domain", "d.toml", "--epsilon", "5", *out)
    run("sample", "learned.json", "-n", 7, "--out", "s.csv")
    assert list(pd.read_csv("s.csv").columns) == list(DOMAIN.names)
    assert len(pd.read_csv("s.csv")) == 7
    refused = run("posterior", "pairs.json", "--out", "m.json", code=1)
    assert "--network of a command" in refused.stderr
    assert "dpgraph learn --model FILE" in run("sample", "g.toml", "-n", 7, "--out", "s.csv", code=1).stderr
    (desk / "mine.toml").write_text(DECLARED + '[parents]\nsurvived = ["sex"]\nage = []\nclass = []\nsex = []\n')
    run("posterior", "pairs.json", "--network", "mine.toml", "--out", "mine.json")
    assert dg.load("mine.json").mean().network.parents["survived"] == ("sex",)


def test_a_family_that_no_measured_table_holds_says_what_does():
    counts = dg.count(passengers(), dg.all_pairs(DOMAIN))
    pairs = dg.release(counts, dg.LaplaceMechanism("5", tables="maximal"), budget=dg.Budget(5))
    wide = dg.Network.of(DOMAIN, {"survived": ["sex", "age"]})
    with pytest.raises(dg.errors.NetworkError, match=r"learned\.probabilities, dpgraph learn --model"):
        dg.posterior(pairs, network=wide, method="plug-in")


def test_a_second_fit_over_a_first_says_that_both_were_charged(desk):
    fit = ("fit", "naive-bayes", "rows.csv", "--domain", "d.toml", "--target", "survived", "--epsilon", "5")
    first = run(*fit, "--out", "m.json")
    second = run(*fit, "--out", "m.json")
    assert "both were charged and add up" not in first.stderr
    assert "both were charged and add up" in second.stderr
    assert "always giving the commonest answer, " in run("evaluate", "m.json", "rows.csv", "--epsilon", "5").stderr


@pytest.mark.parametrize(("rows", "why"), [(400, "counts are well above their noise"), (1, "near their noise")])
def test_the_reason_for_a_method_is_no_wish_of_the_user(rows, why):
    assert why in classifier(passengers(rows), epsilon="10").posterior_.reason


NETWORK = dg.Network.of({"age": ["young", "old"], "sex": ["F", "M"], "level": [0, 1]}, {"level": ["age"]})


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: dg.Network.of(NETWORK.domain, {"level": ["agee"]}), "age"),
        (lambda: dg.Network.of(NETWORK.domain, {"agee": ["level"]}), "age"),
        (lambda: NETWORK.domain["Age"], "age"),
        (lambda: NETWORK.domain.code("sex", "f"), "F"),
        (lambda: NETWORK.domain.code("level", "1"), 1),
        (lambda: dg.count(pd.DataFrame(), NETWORK, where={"sexx": "F"}), "sex"),
        (lambda: dg.load("example:alam"), "alarm"),
        (lambda: dg.query(dg.load("example:asia"), "smok"), "smoke"),
        (lambda: dg.query(dg.load("example:asia"), "smoke", {"bronk": "yes"}), "bronc"),
        (lambda: dg.query(dg.load("example:asia"), "smoke", {"bronc": "Yes"}), "yes"),
        (lambda: dg.query(dg.load("example:asia"), "smoke", method="samplin"), "sampling"),
        (lambda: dg.query_rows(dg.load("example:asia"), "smoke", {"bronk": ["yes"]}), "bronc"),
        (lambda: dg.methods.PlugIn("nearst"), "nearest"),
        (lambda: dg.Budget(1, "1e-6", accounting="zcpd"), "zcdp"),
        (lambda: dg.PrivacyUnit("add-remov"), "add-remove"),
        (lambda: dg.LaplaceMechanism(1, tables="merge"), "merged"),
        (lambda: dg.LinearDesign({"a": (0, 1)}, "y", (0, 1), on_missing="drp"), "drop"),
        (lambda: dg.learn_network(pd.DataFrame(), NETWORK.domain, epsilon=1, method="greddy"), "greedy"),
        (lambda: classifier(passengers(), mechanism="laplce"), "laplace"),
        (lambda: classifier(passengers(), inference="plugin"), "plug-in"),
        (lambda: dg.PrivateNaiveBayes(DOMAIN, target="survive").fit(passengers(), "survived"), "survived"),
        (lambda: dg.PrivateHMM(2, DOMAIN, sequence="sexx", time="class").fit(passengers()), "sex"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(call, nearest):
    with pytest.raises(dg.errors.DPGraphError, match=rf"\(did you mean {nearest!r}( or .*)?\?\)"):
        call()


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("strct = true\n[variables]\na = [0, 1]\n[parents]", "strict"),
        ("[variables]\na = [0, 1]\n[parent]", "parents"),
        ("[variables]\na = { bins = [0, 1], mising = true }\n[parents]", "missing"),
    ],
)
def test_a_misspelt_key_of_a_file_is_refused_with_the_nearest(tmp_path, text, nearest):
    (tmp_path / "network.toml").write_text(text)
    with pytest.raises(dg.errors.FileError, match=rf"network.toml: .*\(did you mean {nearest!r}\?\)"):
        dg.read_network(tmp_path / "network.toml")


def test_a_misspelt_value_of_an_option_is_answered_with_the_nearest():
    said = run("cost", "example:asia", "--epsilon", "1", "--neighbours", "add_remove", code=2)
    assert "(did you mean 'add-remove'?)" in said.stderr


def test_no_hint_repeats_or_depends_on_a_value_of_the_rows():
    rows = passengers(3)
    said = [refusal(rows.assign(**{"class": [value, "1st", "2nd"]})) for value in ("1sst", "elsewhere")]
    assert said[0] == said[1]
    assert "did you mean" not in said[0]


def refusal(rows):
    with pytest.raises(dg.errors.DomainError) as refused:
        dg.count(rows, dg.Network.of(DOMAIN, {}))
    return str(refused.value)
