"""To and from pgmpy and BIF with the same numbers."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.files.pgmpy import _bif_word, _bif_words, read_bif, write_bif
from dpgraph.privacy.records import Event, Release
from tests.strategies import networks, probabilities, words
from tests.tiers import examples

NETWORK = dg.Network.of(
    {"b": ["x", "y", "z"], "a": [0, 1], "c": dg.Bins([0, 1, 2, 3, 4]), "d": [True, False], "alone": ["only"]},
    {"b": ["c", "a"], "d": ["b"]},
)


def learned(network=NETWORK, seed=0):
    rng = np.random.default_rng(seed)
    tables = {}
    for name in network.domain.names:
        weights = rng.gamma(1.0, size=network.shape(network.family(name)))
        tables[name] = weights / weights.sum(axis=0)
    return dg.Probabilities(network, tables)


def pgmpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgmpy.factors.discrete
        import pgmpy.models
        import pgmpy.readwrite
    return pgmpy


def assert_same_numbers(model, expected, rel=0):
    """Entry by entry and by name, whatever order the other side keeps."""
    network = expected.network
    assert set(model.nodes) == set(network.domain.names)
    assert set(model.edges) == {(p, name) for name, parents in network.parents.items() for p in parents}
    for name in network.domain.names:
        cpd = model.get_cpds(name)
        family = network.family(name)
        for cell in np.ndindex(*network.shape(family)):
            at = {v: str(network.domain.levels(v)[i]) for v, i in zip(family, cell, strict=True)}
            index = tuple(cpd.state_names[v].index(at[v]) for v in cpd.variables)
            assert cpd.values[index] == pytest.approx(expected.table(name)[cell], rel=rel, abs=0)


def test_pgmpy_gets_the_same_names_states_and_numbers():
    model = dg.to_pgmpy(learned())
    assert isinstance(model, pgmpy().models.DiscreteBayesianNetwork)
    assert model.check_model()
    assert list(model.nodes) == list(NETWORK.domain.names)
    assert_same_numbers(model, learned())


@settings(deadline=None, max_examples=examples(30))
@given(networks(names=words).flatmap(probabilities))
def test_there_and_back_is_exact_but_for_the_text_of_levels(value):
    back = dg.from_pgmpy(dg.to_pgmpy(value))
    network = value.network
    assert back.network.domain.names == network.domain.names
    assert back.network.parents == network.parents
    for name in network.domain.names:
        assert back.network.domain.levels(name) == tuple(str(level) for level in network.domain.levels(name))
        np.testing.assert_allclose(back.table(name), value.table(name), rtol=1e-15)


def test_a_release_of_probabilities_is_taken_for_its_value():
    release = Release(learned(), Event("m", 1), dg.PrivacyUnit())
    assert_same_numbers(dg.to_pgmpy(release), learned())
    assert (dg.query(release, "a").draws == dg.query(learned(), "a").draws).all()


def test_a_model_made_in_pgmpy_keeps_its_numbers():
    """P(c | b, a) with the parents in an order that is not the alphabet's nor the graph's."""
    discrete = pgmpy().factors.discrete
    model = pgmpy().models.DiscreteBayesianNetwork([("a", "c"), ("b", "c")])
    values = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]])
    states = {"c": ["c0", "c1"], "b": ["b0", "b1", "b2"], "a": ["a0", "a1"]}
    model.add_cpds(
        discrete.TabularCPD("c", 2, values, ["b", "a"], [3, 2], state_names=states),
        discrete.TabularCPD("a", 2, [[0.25], [0.75]], state_names={"a": states["a"]}),
        discrete.TabularCPD("b", 3, [[0.2], [0.3], [0.5]], state_names={"b": states["b"]}),
    )
    read = dg.from_pgmpy(model)
    assert read.network.family("c") == ("c", "b", "a")
    assert read.table("c")[0].tolist() == [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]  # rows b, columns a
    assert read.table("b").tolist() == [0.2, 0.3, 0.5]
    assert_same_numbers(model, read)


def test_a_pgmpy_model_that_is_not_whole_is_refused():
    discrete = pgmpy().factors.discrete
    model = pgmpy().models.DiscreteBayesianNetwork([("a", "b")])
    with pytest.raises(dg.errors.NetworkError, match="no probability table for a, b"):
        dg.from_pgmpy(model)
    model.add_cpds(discrete.TabularCPD("a", 2, [[0.25], [0.75]], state_names={"a": ["x", "y"]}))
    with pytest.raises(dg.errors.NetworkError, match="no probability table for b"):
        dg.from_pgmpy(model)
    model.add_cpds(discrete.TabularCPD("b", 2, [[0.5], [0.5]], state_names={"b": ["x", "y"]}))
    with pytest.raises(dg.errors.NetworkError, match="'b' has other parents than the graph"):
        dg.from_pgmpy(model)


def test_bif_loads_in_pgmpy_with_the_same_numbers(tmp_path):
    network = dg.Network.of(
        {"b": ["x", "y", "z"], "a": [0, 1], "c": dg.Bins([0, 1, 2, 3, 4]), "d": [True, False], "e": ["only"]},
        {"b": ["c", "a"], "d": ["b"]},
    )
    value = learned(network)
    dg.save(value, tmp_path / "model.bif")
    assert_same_numbers(pgmpy().readwrite.BIFReader(str(tmp_path / "model.bif")).get_model(), value)
    back = dg.load(tmp_path / "model.bif")
    assert_same_numbers(dg.to_pgmpy(back), value, rel=1e-14)
    for name in network.domain.names:
        assert back.network.parents[name] == network.parents[name]


@settings(deadline=None, max_examples=examples(25))
@given(networks(kinds=("text", "boolean", "bins"), max_variables=4).flatmap(probabilities))
def test_bif_keeps_every_number(value):
    """Plain words, numbers and the signs of bin names survive; a trailing digit is not lost."""
    back = read_bif(write_bif(value))
    for name in value.network.domain.names:
        assert back.network.parents[name] == value.network.parents[name]
        np.testing.assert_allclose(back.table(name), value.table(name), rtol=1e-12)


WORDS = ["a b", "a,b", "a;b", "a(b", "a{b", "a|b", 'a"b', "é", "a\nb", "a'b", "a&b", "hs or lower", "<= 50"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_bif_would_lose_is_written_so_that_pgmpy_and_we_read_it_back(word, tmp_path):
    path = tmp_path / "model.bif"
    for variables in ({word: ["x", "y"], "child": ["x", word]}, {"v": ["x", word], "child": ["x", "y"]}):
        value = learned(dg.Network.of(variables, {"child": [next(iter(variables))]}))
        with pytest.warns(dg.errors.DomainWarning, match="BIF does not keep every name: ") as caught:
            dg.save(value, path)
        assert "dg.to_pgmpy(probabilities)" in str(caught[0].message)
        back, theirs = dg.load(path), pgmpy().readwrite.BIFReader(str(path)).get_model()
        assert_same_numbers(theirs, back)
        assert [len(back.network.domain.levels(name)) for name in back.network.domain.names] == [2, 2]
        for name, table in zip(back.network.domain.names, value.tables.values(), strict=True):
            np.testing.assert_allclose(back.table(name), table, rtol=1e-12)
        dg.save(value, tmp_path / "model.json")
        assert dg.load(tmp_path / "model.json") == value


@pytest.mark.parametrize("name", ["table1", "x_default2", "timetable.a", "tablee", "table-", "default+"])
def test_a_name_that_reads_as_a_table_is_written_differently(name):
    """The reader of pgmpy looks for the word and then for numbers, wherever they stand."""
    value = learned(dg.Network.of({name: ["x", "y"]}, {}))
    with pytest.warns(dg.errors.DomainWarning, match="does not keep"):
        text = write_bif(value)
    (found,) = read_bif(text).tables
    assert_same_numbers(pgmpy().readwrite.BIFReader(string=text.rstrip() + "\n").get_model(), read_bif(text))
    np.testing.assert_allclose(read_bif(text).table(found), value.table(name), rtol=1e-12)


@given(st.lists(st.text(max_size=5), min_size=2, max_size=5, unique=True))
def test_words_stay_apart_and_those_that_bif_keeps_stay_as_they_are(words):
    for names in (True, False):
        found = _bif_words(words, names=names)
        assert list(found) == words
        assert len({one.lower() if names else one for one in found.values()}) == len(words)
        assert all(re.fullmatch("[A-Za-z0-9_.+-]+" if names else "[A-Za-z0-9_.+<>=/-]+", one) for one in found.values())
        assert all("//" not in one for one in found.values())
    assert all(found == word for word, found in _bif_words(words).items() if _bif_word(word, False) == word)


@pytest.mark.parametrize(
    "word", ["table", "default", "variable", "probability", "network", "type", "e5", "-", "1", "tables"]
)
def test_the_words_of_the_format_itself_survive(word):
    value = learned(dg.Network.of({word: [word, "y"], "child": ["x", word]}, {"child": [word]}))
    back = read_bif(write_bif(value))
    assert back.network.domain.levels(word) == (word, "y")
    np.testing.assert_allclose(back.table("child"), value.table("child"), rtol=1e-14)


def test_names_that_differ_in_case_alone_get_a_number():
    with pytest.warns(dg.errors.DomainWarning, match="'A' as A_2"):
        back = read_bif(write_bif(learned(dg.Network.of({"a": [0], "A": [0]}, {}))))
    assert back.network.domain.names == ("a", "A_2")


@pytest.mark.parametrize("word", ["<5", ">=7.5", "Asy/Patch", "5<", "a=b", "x/", "<=50K"])
def test_levels_with_signs_of_comparison_survive_in_both_readers(word, tmp_path):
    value = learned(dg.Network.of({"v": [word, "y"], "w": ["p", word]}, {"w": ["v"]}))
    dg.save(value, tmp_path / "m.bif")
    assert_same_numbers(pgmpy().readwrite.BIFReader(str(tmp_path / "m.bif")).get_model(), value)
    assert dg.load(tmp_path / "m.bif").network.domain == value.network.domain


def test_words_that_are_the_same_are_refused():
    with pytest.raises(dg.errors.NetworkError, match="read the same"):
        _bif_words(["1", "1"])


def test_a_level_that_bif_does_not_keep_is_kept_by_the_call_that_the_warning_names():
    network = dg.Network.of({"school": ["hs or lower", "more"]}, {})
    value = dg.Probabilities(network, {"school": [0.25, 0.75]})
    with pytest.warns(
        dg.errors.DomainWarning, match=r"'hs or lower' as hs_or_lower in .*dg\.to_pgmpy\(probabilities\)"
    ):
        assert read_bif(write_bif(value)).network.domain.levels("school") == ("hs_or_lower", "more")
    assert dg.to_pgmpy(value).get_cpds("school").state_names == {"school": ["hs or lower", "more"]}


def test_levels_of_a_parent_in_another_order_in_pgmpy():
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    def read(names):
        model = DiscreteBayesianNetwork([("a", "b")])
        model.add_cpds(
            TabularCPD("a", 2, [[0.3], [0.7]], state_names={"a": ["x", "y"]}),
            TabularCPD("b", 2, [[0.1, 0.9], [0.9, 0.1]], ["a"], [2], state_names={"a": names, "b": ["t", "f"]}),
        )
        return model, dg.from_pgmpy(model)

    for names in (["x", "y"], ["y", "x"]):
        model, found = read(names)
        for i, level in enumerate(["x", "y"]):
            assert found.table("b")[0, i] == pytest.approx(model.get_cpds("b").get_value(a=level, b="t"))
    with pytest.raises(dg.errors.NetworkError, match="other levels of its parent"):
        read(["p", "q"])
