"""Effects by adjustment are those of setting the treatment, in every draw; other sets are refused."""

import itertools
import json
import math

import click.testing
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.models.effect import ASSUMPTION
from tests.models.test_conditional import drawn
from tests.strategies import joint, networks, probabilities
from tests.tiers import examples

InferenceError = dg.errors.InferenceError
#: Age confounds, a visit mediates, luck comes after both: what pay does to health.
NETWORK = dg.Network.of(
    {
        "age": dg.Bins([0, 30, 60, 90]),
        "pay": ["low", "middle", "high"],
        "visit": ["no", "yes"],
        "health": [1, 2, 5],
        "luck": ["no", "yes"],
    },
    {"pay": ["age"], "visit": ["pay"], "health": ["age", "visit"], "luck": ["pay", "health"]},
)
#: Conditioning on the collider m opens a path between treatment and outcome that is closed otherwise.
M_BIAS = dg.Network.of({name: [0, 1] for name in "abmty"}, {"m": ["a", "b"], "t": ["a"], "y": ["b", "t"]})


#: What networkx 3.3 renamed.
SEPARATES = getattr(nx, "is_d_separator", None) or nx.d_separated


def blocks(network, treatment, outcome, chosen):
    """The back-door criterion by networkx."""
    graph = network.to_networkx()
    after = nx.descendants(graph, treatment)
    graph.remove_edges_from(list(graph.out_edges(treatment)))
    return not after & set(chosen) and SEPARATES(graph, {treatment}, {outcome}, set(chosen))


@pytest.mark.filterwarnings("ignore:under most draws")
@settings(deadline=None, max_examples=examples(60))
@given(st.data(), networks().filter(lambda network: len(network.domain.names) > 2))
def test_sets_are_accepted_by_the_back_door_criterion_and_the_chosen_one_is_smallest(data, network):
    names = network.domain.names
    treatment, outcome, *others = data.draw(st.permutations(names))
    learned = data.draw(probabilities(network))
    subsets = [s for size in range(len(others) + 1) for s in itertools.combinations(others, size)]
    valid = [s for s in subsets if blocks(network, treatment, outcome, s)]
    if network.domain.sizes[treatment] < 2:
        return
    if outcome in nx.ancestors(network.to_networkx(), treatment):
        with pytest.raises(InferenceError, match="comes before"):
            dg.effect(learned, treatment, outcome)
        return
    found = dg.effect(learned, treatment, outcome)
    assert found.adjust in [tuple(sorted(s, key=names.index)) for s in valid]
    assert math.prod(network.shape(found.adjust)) == min(math.prod(network.shape(s)) for s in valid)
    asked = data.draw(st.sampled_from(subsets))
    if asked in valid:
        # means of numbers are right to the rounding of the largest of them
        variable = network.domain[outcome]
        numbers = variable.edges if isinstance(variable, dg.Bins) else variable.levels
        unit = max([1.0, *(abs(x) for x in numbers if not isinstance(x, str))])
        again = dg.effect(learned, treatment, outcome, asked)
        np.testing.assert_allclose(again.answer.mean / unit, found.answer.mean / unit, atol=1e-9)
    else:
        with pytest.raises(InferenceError, match=r"must not be held fixed|leaves a path open"):
            dg.effect(learned, treatment, outcome, asked)


def test_it_is_the_difference_of_interventions_in_every_draw():
    posterior = drawn(NETWORK)
    found = dg.effect(posterior, "pay", "health", baseline="middle", interval=0.8)
    frame = found.to_frame()
    assert found.adjust == ("age",)
    assert list(frame) == ["pay", "outcome", "mean", "sd", "low", "high", "naive", "naive low", "naive high"]
    assert frame[["pay", "outcome"]].to_numpy().tolist() == [
        [level, one] for level in ("low", "high") for one in ("1", "2", "5", "mean")
    ]
    for kind, answer in (("do", found.answer), ("given", found.naive)):
        expected = []
        for level in ("low", "high"):
            at, base = (dg.query(posterior, "health", **{kind: {"pay": one}}).draws for one in (level, "middle"))
            expected += [*(at - base).T, (at - base) @ [1, 2, 5]]
        np.testing.assert_allclose(answer.draws, np.transpose(expected), atol=1e-12)
        np.testing.assert_allclose(answer.ends, np.quantile(np.transpose(expected), (0.1, 0.9), axis=0), atol=1e-12)


def test_a_named_set_has_its_own_formula():
    """By enumeration of the joint: luck of a parent adds nothing to adjust for, and the formula still sums over it."""
    network = dg.Network.of({n: [0, 1] for n in "zuty"}, {"t": ["z"], "y": ["t", "z"], "u": ["z"]})
    learned = drawn(network).mean()
    whole = joint(learned)
    for chosen in (["z"], ["z", "u"]):
        summed = tuple(i for i, n in enumerate("zuty") if n not in (*chosen, "t", "y"))
        table = whole.sum(axis=summed).reshape(-1, 2, 2)
        law = table / table.sum(axis=2, keepdims=True)
        expected = ((law[:, 1, 1] - law[:, 0, 1]) * table.sum(axis=(1, 2))).sum()
        assert dg.effect(learned, "t", "y", chosen).answer.mean == pytest.approx([expected], rel=1e-9)


def test_groups_events_and_means():
    posterior = drawn(NETWORK)
    found = dg.effect(posterior, "pay", {"health": [2, 5]}, within="age")
    assert list(found.to_frame())[:3] == ["age", "pay", "mean"]
    assert found.adjust == ()
    assert found.reason == "no open path enters pay given age"
    expected = []
    for age, level in itertools.product(NETWORK.domain.levels("age"), ("middle", "high")):
        above, below = (
            dg.query(posterior, {"health": [2, 5]}, {"age": age}, do={"pay": one}).draws[:, 0] for one in (level, "low")
        )
        expected.append(above - below)
    np.testing.assert_allclose(found.answer.draws, np.transpose(expected), atol=1e-12)
    turned = dg.Network.of(NETWORK.domain, {"visit": [], "age": ["visit"]})
    means = dg.effect(drawn(turned), "visit", "age")
    at, base = (dg.query(drawn(turned), "age", do={"visit": one}).draws for one in ("yes", "no"))
    np.testing.assert_allclose(means.answer.draws[:, -1], (at - base) @ [14.5, 44.5, 75], atol=1e-12)
    assert means.to_frame()["outcome"].iloc[-1] == "mean"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("t", "y", ["m"]), "leaves a path open: t <- a -> m <- b -> y"),
        (("y", "t"), "'t' comes before 'y' in the network"),
        (("t", "y", ["y"]), "must not hold the treatment 't' nor the outcome 'y'"),
        (("t", "y", "z"), "no variable 'z'"),
        (("t", "t"), "must be different variables"),
        (("t", {"y": 1, "a": 0}), "an effect is on one variable"),
    ],
)
def test_wrong_questions_are_refused_with_the_reason(asked, words):
    with pytest.raises(dg.errors.DPGraphError, match=words):
        dg.effect(drawn(M_BIAS), *asked)


def test_a_variable_after_the_treatment_is_refused():
    for more in ({"adjust": ["age", "visit"]}, {"within": "visit"}):
        with pytest.raises(InferenceError, match="'visit' must not be held fixed: it comes after 'pay'"):
            dg.effect(drawn(NETWORK), "pay", "health", **more)


def test_a_smaller_variable_after_the_treatment_is_not_chosen():
    parents = {"t": ["z"], "m": ["z", "t"], "y": ["m"]}
    network = dg.Network.of({"z": [0, 1, 2], "t": [0, 1], "m": [0, 1], "y": [0, 1]}, parents)
    assert dg.effect(drawn(network), "t", "y").adjust == ("z",)


def test_arcs_of_a_naive_bayes_model_are_refused():
    domain = dg.Domain.of({"y": [0, 1], "a": [0, 1]})
    model = dg.results.NaiveBayes("y", drawn(dg.naive_bayes_network(domain, "y")).mean())
    with pytest.raises(InferenceError, match="the arcs of a naive Bayes model are not causes"):
        dg.effect(model, "y", "a")


def test_rare_treatments_are_warned_of_and_absent_ones_refused():
    network = dg.Network.of({"z": [0, 1], "t": [0, 1], "y": [0, 1]}, {"t": ["z"], "y": ["t", "z"]})

    def model(rare):
        tables = {"z": [0.75, 0.25], "t": [[0.5, 1 - rare], [0.5, rare]]}
        return dg.Probabilities(network, tables | {"y": [[[0.5] * 2] * 2] * 2})

    with pytest.warns(dg.errors.PositivityWarning, match=r"below 0.001 in 1 of 2 strata, 0.25 of the population"):
        dg.effect(model(0.0009), "t", "y")
    assert dg.effect(model(0.0011), "t", "y").answer.mean == pytest.approx([0], abs=1e-12)
    with pytest.raises(InferenceError, match="probability 0 in a stratum"):
        dg.effect(model(0.0), "t", "y")


def test_it_says_what_it_assumes():
    found = dg.effect(drawn(M_BIAS), "t", "y")
    for text in (repr(found), found._repr_html_()):
        assert ASSUMPTION in text
        assert "adjusted for nothing: no open path enters t" in text
        assert "effect of t on y=1, against t=0" in text


def test_the_command_prints_what_the_function_finds(tmp_path):
    posterior, path = drawn(NETWORK), str(tmp_path / "m.npz")
    dg.save(posterior, path)
    run = click.testing.CliRunner().invoke
    done = run(main, ["effect", path, "--of", "pay=middle", "--on", "health", "--adjust", "age", "--json"])
    assert done.exit_code == 0, done.output
    plain, found = json.loads(done.stdout), dg.effect(posterior, "pay", "health", ["age"], baseline="middle")
    assert (plain["adjust"], plain["reason"], plain["assumption"]) == (["age"], found.reason, ASSUMPTION)
    for name in ("mean", "sd", "low", "high", "naive", "naive low", "naive high"):
        assert [row[name] for row in plain["effect"]] == pytest.approx(found.to_frame()[name].tolist(), abs=1e-6)
    done = run(main, ["effect", path, "--of", "pay", "--on", "health=5", "--within", "age"])
    assert done.exit_code == 0, done.output
    assert "effect of pay on health=5, against pay=low" in done.stdout
    assert ASSUMPTION in done.stderr
    done = run(main, ["effect", path, "--of", "health", "--on", "pay"])
    assert done.exit_code == 1
    assert "comes before" in done.output


@pytest.mark.proof
def test_a_release_of_a_network_or_of_pairs_is_learned_from_first():
    """Of nearly exact tables of many rows, predictions and the effect are those of the network."""
    tables = {"z": [0.4, 0.6], "t": [[0.8, 0.3], [0.2, 0.7]], "y": [[[0.8, 0.6], [0.5, 0.2]], [[0.2, 0.4], [0.5, 0.8]]]}
    network = dg.Network.of({"z": [0, 1], "t": [0, 1], "y": [0, 1]}, {"t": ["z"], "y": ["t", "z"]})
    truth = dg.Probabilities(network, tables)
    rows = dg.sample_rows(truth, 20_000, 0)
    for measured in (network, dg.all_pairs(network.domain)):
        budget, noise = dg.Budget(50), dg.testing.SeededNoise(0)
        released = dg.release(dg.count(rows, measured), dg.LaplaceMechanism(50), budget=budget, noise=noise)
        model = dg.classifier(released, "y")
        assert len(model.predict_proba(rows[:3], return_interval=True)) == 3
        expected = dg.classifier(truth, "y").predict_proba(rows[:50])
        np.testing.assert_allclose(model.predict_proba(rows[:50]), expected, atol=0.03)
        if measured is network:
            found, known = dg.effect(released, "t", "y").answer, dg.effect(truth, "t", "y").answer.mean
            assert found.low < known < found.high
            assert found.high - found.low < 0.05
