"""Questions against the whole joint distribution, pgmpy's elimination and the truncated factorisation."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.inference.queries import contraction
from dpgraph.privacy.measurements import DiscreteLaplace
from tests.files.test_pgmpy import NETWORK, learned
from tests.strategies import joint, networks, probabilities
from tests.tiers import examples


def asked(*question, **settings_):
    return dg.query(*question, **settings_).to_series()


def brute_force(value, target, evidence):
    """P(target | evidence) by adding up the joint; None if the evidence is impossible."""
    names = value.network.domain.names
    table = joint(value)
    for axis, name in enumerate(names):
        if name in evidence:
            table = np.take(table, [evidence[name]], axis=axis)
    margin = table.sum(axis=tuple(i for i, name in enumerate(names) if name != target))
    return margin / margin.sum() if margin.sum() > 0 else None


@st.composite
def questions(draw, zeros):
    value = draw(networks(max_variables=4).flatmap(lambda network: probabilities(network, zeros)))
    names = value.network.domain.names
    target = draw(st.sampled_from(names))
    others = [name for name in names if name != target]
    given_ = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    sizes = value.network.domain.sizes
    return value, target, {name: draw(st.integers(0, sizes[name] - 1)) for name in given_}


@settings(deadline=None, max_examples=examples(60))
@given(st.booleans().flatmap(questions))
def test_a_query_adds_up_the_joint_or_says_the_evidence_is_impossible(case):
    value, target, evidence = case
    domain = value.network.domain
    shown = {name: domain.levels(name)[i] for name, i in evidence.items()}
    expected = brute_force(value, target, evidence)
    if expected is None:
        with pytest.raises(dg.errors.DomainError, match="probability 0"):
            asked(value, target, shown)
        return
    answer = asked(value, target, shown)
    assert list(answer.index) == list(domain.levels(target))
    assert answer.index.name == target
    np.testing.assert_allclose(answer.to_numpy(), expected, atol=1e-9)


CERTAIN = dg.Probabilities(
    dg.Network.of({"a": ["x", "y"], "b": ["p", "q"], "c": ["u", "v"], "d": ["r", "s"]}, {"b": ["a"], "d": ["b", "a"]}),
    {
        "a": [1.0, 0.0],
        "b": [[0.5, 0.2], [0.5, 0.8]],
        "c": [0.0, 1.0],
        "d": [[[0.3, 0.3], [0.0, 0.3]], [[0.7, 0.7], [1.0, 0.7]]],
    },
)


@pytest.mark.parametrize("evidence", [{"a": "y"}, {"c": "u"}, {"b": "q", "d": "r"}, {"c": "v", "a": "y"}])
def test_impossible_evidence_is_an_error_wherever_it_stands(evidence):
    """Above the target, apart from it, and only together: a reader that drops what it can spare would answer."""
    for target in set("abcd") - set(evidence):
        with pytest.raises(dg.errors.DomainError, match="the network gives this evidence probability 0"):
            asked(CERTAIN, target, evidence)


def test_possible_evidence_beside_zeros_is_answered():
    assert asked(CERTAIN, "b", {"d": "r"}).to_dict() == pytest.approx({"p": 1.0, "q": 0.0})
    assert asked(CERTAIN, "a", {"c": "v"}).to_dict() == pytest.approx({"x": 1.0, "y": 0.0})


def test_evidence_on_bins_is_a_name_or_a_number():
    value = learned()
    by_name = asked(value, "b", {"c": "1-2"})
    for number in (1, 1.0, 1.999):
        assert asked(value, "b", {"c": number}).equals(by_name)
    assert asked(value, "b", {"c": 99}).equals(asked(value, "b", {"c": "3-4"}))


@pytest.mark.parametrize(
    ("target", "evidence", "error", "message"),
    [
        ("z", {}, dg.errors.NetworkError, "no variable 'z'"),
        ("a", {"z": 0}, dg.errors.NetworkError, "no variable 'z'"),
        ("a", {"b": "nope"}, dg.errors.DomainError, "'nope' is not a level of 'b'; declared: 'x', 'y', 'z'"),
        ("a", {"d": 1}, dg.errors.DomainError, "1 is not a level of 'd'"),
        ("a", {"b": None}, dg.errors.DomainError, "None is not a level of 'b'"),
        ("a", {"c": float("nan")}, dg.errors.DomainError, "nan is not a level of 'c'"),
        ("a", {"a": 0}, dg.errors.DomainError, "'a' is both asked for and given"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(target, evidence, error, message):
    with pytest.raises(error, match=message):
        asked(learned(), target, evidence)


def test_every_pair_of_questions_about_asia():
    """The chest clinic's published answer, Lauritzen and Spiegelhalter 1988: P(tub | asia, dysp) is about 0.088."""
    asia = dg.load("example:asia")
    assert asked(asia, "tub", {"asia": "yes", "dysp": "yes"})["yes"] == pytest.approx(0.0877, abs=5e-4)
    table = joint(asia)
    names = asia.network.domain.names
    for target, given_ in itertools.permutations(names[:4], 2):
        evidence = {given_: 0}
        answer = asked(asia, target, {given_: asia.network.domain.levels(given_)[0]})
        np.testing.assert_allclose(answer.to_numpy(), brute_force(asia, target, evidence), atol=1e-9)
    assert table.sum() == pytest.approx(1)


def weights_of(value, given_):
    """A weight for each level of each variable that something is known of."""
    domain, found = value.network.domain, {}
    for name, known in given_.items():
        found[name] = np.zeros(domain.sizes[name])
        weights = known if isinstance(known, dict) else dict.fromkeys(known if isinstance(known, list) else [known], 1)
        for level, weight in weights.items():
            found[name][domain.code(name, level)] += weight
    return found


def enumerated(value, targets, given_=None, do=None):
    """P(targets | given, do) by adding up the product of all tables but those of the variables that are set."""
    names, domain = value.network.domain.names, value.network.domain
    whole = np.zeros(list(domain.sizes.values()))
    weights = weights_of(value, given_ or {})
    for cell in np.ndindex(*whole.shape):
        at = dict(zip(names, cell, strict=True))
        if any(at[name] != domain.code(name, level) for name, level in (do or {}).items()):
            continue
        entries = [value.table(n)[tuple(at[v] for v in value.network.family(n))] for n in names if n not in (do or {})]
        whole[cell] = np.prod(entries) * np.prod([weights[name][at[name]] for name in weights])
    margin = whole.sum(axis=tuple(i for i, name in enumerate(names) if name not in targets))
    kept = [name for name in names if name in targets]
    return margin.transpose([kept.index(name) for name in targets]), whole.sum()


@st.composite
def richer_questions(draw):
    """Three to five variables of two or three levels, and of each what is asked or known."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = [f"v{k}" for k in range(int(rng.integers(3, 6)))]
    levels = {name: [f"l{j}" for j in range(int(rng.integers(2, 4)))] for name in names}
    parents = {n: [m for m in names[:k] if rng.random() < 0.5][:3] for k, n in enumerate(names)}
    value = learned(dg.Network.of(levels, parents), int(rng.integers(2**32)))
    mixed = [str(name) for name in rng.permutation(names)]
    targets = tuple(mixed[: int(rng.integers(1, 3))])
    given_, do = {}, {}
    for name in mixed[len(targets) :]:
        chosen = str(rng.choice(levels[name]))
        kind = rng.choice(["none", "level", "set", "soft", "do"], p=[0.15, 0.35, 0.1, 0.2, 0.2])
        if kind == "level":
            given_[name] = chosen
        elif kind == "set":
            given_[name] = [chosen, str(rng.choice(levels[name]))]
        elif kind == "soft":
            given_[name] = {level: float(rng.choice([0.25, 1.0, 7.0])) for level in levels[name]}
        elif kind == "do":
            do[name] = chosen
    return value, targets, given_, do


@settings(deadline=None, max_examples=examples(100))
@given(richer_questions())
def test_joints_sets_soft_evidence_and_interventions_by_enumeration(case):
    value, targets, given_, do = case
    expected, total = enumerated(value, targets, given_, do)
    answer = dg.query(value, list(targets), given_, do=do)
    np.testing.assert_allclose(answer.draws[0].reshape(expected.shape), expected / total, rtol=1e-10)
    assert answer.labels == tuple(itertools.product(*(value.network.domain.levels(name) for name in targets)))
    event = {name: list(value.network.domain.levels(name)[:2]) for name in targets}
    inside = expected[tuple(slice(2) for _ in targets)].sum() / total
    np.testing.assert_allclose(dg.query(value, event, given_, do=do).mean, [inside], rtol=1e-10)


@settings(deadline=None, max_examples=examples(40))
@given(richer_questions(), st.integers(0, 2**32))
def test_every_draw_has_its_own_answer_and_the_predictive_weighs_by_the_evidence(case, seed):
    value, targets, given_, do = case
    rng = np.random.default_rng(seed)
    draws = [learned(value.network, int(rng.integers(2**32))) for _ in range(5)]
    pairs = [enumerated(draw, targets, given_, do) for draw in draws]
    answer = dg.query(draws, list(targets), given_, do=do, interval=0.5)
    each = np.array([table.reshape(-1) / total for table, total in pairs])
    np.testing.assert_allclose(answer.draws, each, rtol=1e-10)
    np.testing.assert_allclose(answer.mean, each.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(answer.low, np.quantile(each, 0.25, axis=0), rtol=1e-10)
    np.testing.assert_allclose(answer.high, np.quantile(each, 0.75, axis=0), rtol=1e-10)
    weighted = sum(table.reshape(-1) for table, _ in pairs) / sum(total for _, total in pairs)
    np.testing.assert_allclose(answer.predictive, weighted, rtol=1e-10)


def test_an_intervention_is_not_an_observation():
    """A common cause makes b tell more of c than setting b does: sum over a of P(a) P(c | a, b), the back door."""
    network = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["a", "b"]})
    effect = [[[0.9, 0.7], [0.4, 0.2]], [[0.1, 0.3], [0.6, 0.8]]]
    value = dg.Probabilities(network, {"a": [0.5, 0.5], "b": [[0.9, 0.1], [0.1, 0.9]], "c": effect})
    assert dg.query(value, {"c": 1}, {"b": 1}).mean[0] == pytest.approx(0.1 * 0.3 + 0.9 * 0.8)
    assert dg.query(value, {"c": 1}, do={"b": 1}).mean[0] == pytest.approx(0.5 * 0.3 + 0.5 * 0.8)
    assert dg.query(value, {"b": 1}, do={"a": 1}).mean[0] == pytest.approx(0.9)
    assert dg.query(value, {"a": 1}, do={"b": 1}).mean[0] == pytest.approx(0.5)


def elimination(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.inference import VariableElimination

        return VariableElimination(dg.to_pgmpy(value))


def random_question(value, rng, most=4):
    """A target and evidence that is possible: levels of a row that the network draws."""
    network = value.network
    names = [str(name) for name in rng.permutation(network.domain.names)]
    row = dg.sample_rows(value, 1, rng).iloc[0]
    shown = {name: row[name] for name in names[1 : 1 + int(rng.integers(0, most + 1))]}
    return names[0], shown


def assert_as_pgmpy_says(name, questions=20, seed=0):
    value, rng = dg.load(f"example:{name}"), np.random.default_rng(seed)
    engine = elimination(value)
    for _ in range(questions):
        target, shown = random_question(value, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = engine.query([target], {k: str(v) for k, v in shown.items()}, show_progress=False)
        order = [found.state_names[target].index(str(level)) for level in value.network.domain.levels(target)]
        np.testing.assert_allclose(dg.query(value, target, shown).draws[0], found.values[order], atol=1e-10)


#: Networks that pgmpy's elimination answers in a second, in minutes, and not in memory.
QUICK = ("asia", "cancer", "earthquake", "survey", "sachs", "child", "alarm")
LONG = ("insurance", "water", "mildew", "hailfinder", "hepar2", "win95pts", "andes", "pathfinder", "pigs", "barley")


@pytest.mark.parametrize("name", QUICK)
def test_equal_to_the_elimination_of_pgmpy(name):
    assert_as_pgmpy_says(name)


@pytest.mark.proof
@pytest.mark.parametrize("name", LONG)
def test_equal_to_the_elimination_of_pgmpy_on_larger_networks(name):
    assert_as_pgmpy_says(name)


def test_blocks_of_draws_and_scaled_products_change_nothing(monkeypatch):
    value = learned()
    draws = [learned(seed=seed) for seed in range(70)]
    question = ("d", {"a": 1, "c": {"0-1": 1, "1-2": 3}})
    whole, one = dg.query(draws, *question), dg.query(value, *question)
    monkeypatch.setattr(contraction, "QUICK_CELLS", 1)
    monkeypatch.setattr(contraction, "LEAST_BLOCK", 7)
    monkeypatch.setattr(contraction, "TINY", 2.0)
    again = dg.query(draws, *question)
    np.testing.assert_allclose(again.draws, whole.draws, rtol=1e-12)
    np.testing.assert_allclose(again.predictive, whole.predictive, rtol=1e-12)
    np.testing.assert_allclose(dg.query(value, *question).draws, one.draws, rtol=1e-12)


def test_evidence_whose_probability_underflows_is_still_weighed():
    """A thousand observed children of probability .1 or .2: the product is below the least double."""
    names = [f"x{k}" for k in range(1000)]
    network = dg.Network.of({"a": [0, 1], **{name: [0, 1] for name in names}}, {name: ["a"] for name in names})
    tables = {"a": [0.5, 0.5], **{name: [[0.9, 0.8], [0.1, 0.2]] for name in names}}
    for name in names[500:]:
        tables[name] = [[0.8, 0.9], [0.2, 0.1]]
    value = dg.Probabilities(network, tables)
    np.testing.assert_allclose(dg.query(value, "a", dict.fromkeys(names, 1)).draws, [[0.5, 0.5]], rtol=1e-9)
    one_more = dg.query([value, value], "a", dict.fromkeys(names[:-1], 1))
    np.testing.assert_allclose(one_more.predictive, [1 / 3, 2 / 3], rtol=1e-9)


@pytest.mark.proof
def test_a_question_that_is_too_wide_says_so_before_it_starts():
    """Forty binary parents of forty children: the width is 40 whatever the order."""
    tops = [f"t{k}" for k in range(40)]
    parents = {f"c{k}_{j}": [tops[k], tops[j]] for k in range(40) for j in range(k)}
    network = dg.Network.of({name: [0, 1] for name in (*tops, *parents)}, parents)
    value = learned(network)
    shown = dict.fromkeys(parents, 1)
    with pytest.raises(dg.errors.InferenceError, match=r"width 39.*method=\"sampling\""):
        dg.query(value, "t0", shown)
    with pytest.warns(dg.errors.ConvergenceWarning, match="effective number of samples"):
        dg.query(value, "t0", shown, method="sampling", samples=500)


@pytest.mark.parametrize("event", [None, {"b": ["x", "y"]}])
def test_likelihood_weighting_agrees_within_its_error(event):
    """z scores of 72 probabilities below 6; an error twice too small, and samples without weights, would fail."""
    draws = [learned(seed=seed) for seed in range(12)]
    question = (event or ["b", "a"], {"d": True, "c": {"0-1": 1, "1-2": 4, "2-3": 2}})
    exact, made = dg.query(draws, *question), dg.query(draws, *question, method="sampling", samples=4000, seed=3)
    assert made.method == "sampling"
    assert made.effective_size > 500
    scores = []
    for place, draw in enumerate(draws):
        alone = dg.query(draw, *question, method="sampling", samples=4000, seed=place)
        scores.append((alone.mean - exact.draws[place]) / alone.sd)
        assert (alone.low <= alone.mean).all()
        assert (alone.mean <= alone.high).all()
    scores = np.array(scores)
    assert np.abs(scores).max() < 6
    if event is None:
        assert 0.5 < np.sqrt((scores**2).mean()) < 1.6
    np.testing.assert_allclose(made.predictive, exact.predictive, atol=0.03)


@pytest.mark.parametrize(
    ("question", "settings_", "error", "message"),
    [
        (("b", {"a": 0}), {"do": {"a": 1}}, dg.errors.DomainError, "'a' is both given and set by do"),
        (("a",), {"do": {"a": 1}}, dg.errors.DomainError, "'a' is both asked for and set by do"),
        (("b",), {"do": {"a": [0, 1]}}, dg.errors.DomainError, "do sets 'a' to one level"),
        (("b", {"a": []}), {}, dg.errors.DomainError, "no level of 'a' is given"),
        (("b", {"a": {0: 0}}), {}, dg.errors.DomainError, "the weights of 'a' are all 0"),
        (("b", {"a": {0: -1, 1: 1}}), {}, dg.errors.DomainError, "at least 0; got -1"),
        (("b", {"a": {0: float("nan")}}), {}, dg.errors.DomainError, "finite numbers"),
        (("b", ["a"]), {}, dg.errors.DomainError, "given must be a mapping"),
        (([],), {}, dg.errors.DomainError, "the target is empty"),
        ((["b", "b"],), {}, dg.errors.DomainError, "'b' is asked for twice"),
        ((3,), {}, dg.errors.DomainError, "target must be a variable"),
        (({"b": {"x": 0.5}},), {}, dg.errors.DomainError, "an event names levels"),
        (({"b": "x"}, {"b": "y"}), {}, dg.errors.DomainError, "both asked for and given"),
        (("b",), {"interval": 1}, dg.errors.InferenceError, "interval must be a probability"),
        (("b",), {"method": "guess"}, dg.errors.InferenceError, "method must be one of 'auto', 'sampling'"),
        (("b",), {"method": "sampling", "samples": 0}, dg.errors.InferenceError, "samples must be a whole number"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_a_way_out(question, settings_, error, message):
    with pytest.raises(error, match=message):
        dg.query(learned(), *question, **settings_)


@pytest.mark.parametrize("model", [NETWORK, [], [NETWORK], 3, None])
def test_what_holds_no_probabilities_is_refused(model):
    with pytest.raises(dg.errors.InferenceError):
        dg.query(model, "b")


def test_evidence_that_some_draws_exclude_is_counted():
    certain = dg.Probabilities(CERTAIN.network, {**CERTAIN.tables, "c": [0.5, 0.5]})
    with pytest.raises(dg.errors.DomainError, match="2 of 3 draws give this evidence probability 0"):
        dg.query([CERTAIN, certain, CERTAIN], "a", {"c": "u"})


def test_arcs_that_are_no_causes_take_no_intervention():
    network = dg.naive_bayes_network(dg.Domain.of({"t": [0, 1], "f": [0, 1]}), "t")
    model = dg.results.NaiveBayes("t", learned(network))
    with pytest.raises(dg.errors.InferenceError, match=r"causal DAG.*arcs of a naive Bayes model are not causes"):
        dg.query(model, "f", do={"t": 1})
    np.testing.assert_array_equal(dg.query(model, "t", {"f": 1}).draws, dg.query(learned(network), "t", {"f": 1}).draws)
    many = dg.results.NaiveBayesEnsemble("t", tuple(learned(network, seed) for seed in range(3)))
    expected = many.predict_proba({"f": np.array([1])})[0]
    np.testing.assert_allclose(dg.query(many, "t", {"f": 1}).predictive, expected, rtol=1e-12)


def test_the_predictive_of_a_plug_in_posterior_is_that_of_its_mean():
    """Independent Dirichlet laws: the mean of a product is the product of means; 1000 draws are within 5 errors."""
    rng = np.random.default_rng(0)
    tables = {n: rng.gamma(2.0, size=NETWORK.shape(NETWORK.family(n))) * 10 for n in NETWORK.domain.names}
    plug_in = dg.results.DirichletPosterior(NETWORK, tables)
    answer = dg.query(plug_in, "b", {"d": True})
    np.testing.assert_allclose(answer.predictive, dg.query(plug_in.mean(), "b", {"d": True}).mean, rtol=1e-12)
    np.testing.assert_allclose(answer.mean, answer.predictive, atol=5 * answer.sd.max() / np.sqrt(200))
    assert answer.draws.shape == (1000, 3)


def test_an_answer_in_its_forms():
    draws = [learned(seed=seed) for seed in range(20)]
    answer = dg.query(draws, "b", {"a": 0})
    assert repr(answer).startswith("P(b | a=0) = x ")
    assert repr(answer).endswith("; 90% of 20 draws")
    assert "\n" not in repr(answer)
    frame = answer.to_frame()
    assert list(frame.columns) == ["b", "mean", "sd", "low", "high", "predictive"]
    assert frame["b"].tolist() == ["x", "y", "z"]
    assert (frame["low"] <= frame["mean"]).all()
    page = answer._repr_html_()
    assert "<table" in page
    assert "90% intervals, 20 draws" in page
    joint_frame = dg.query(draws, ["b", "a"], {"c": [0, 1]}).to_frame()
    assert list(joint_frame.columns[:2]) == ["b", "a"]
    with pytest.raises(ValueError, match="read-only"):
        answer.draws[0, 0] = 1
    one = dg.query(draws[0], "b")
    assert np.isnan(one.low).all()
    assert "[" not in repr(one)
    assert "..." in repr(dg.query(draws, ["b", "c"]))


def test_probabilities_that_underflow_in_a_draw_are_above_0():
    """Columns of concentration 1e-4 all but always have a cell whose probability no float holds; none is impossible."""
    network = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    sparse = dg.results.DirichletPosterior(network, {"rain": np.ones(2), "wet": np.full((2, 2), 1e-4)})
    assert (sparse.sample_tables(np.random.default_rng(0), 100)["wet"] == 0).any()
    noisy = dg.results.NoisyCounts(
        network, {("wet", "rain"): [[5, 0], [0, 0]]}, {("wet", "rain"): DiscreteLaplace(0.1)}, 5
    )
    aware = dg.posterior(noisy, prior=1e-4, method="tables", draws=200, seed=0)
    assert (aware.flat("wet") == 0).any()
    for model in (sparse, aware):
        answer = dg.query(model, "rain", {"wet": "yes"})
        assert np.isfinite(answer.draws).all()
        assert np.allclose(answer.draws.sum(axis=1), 1)
