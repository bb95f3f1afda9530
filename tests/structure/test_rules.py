"""Rules: which declarations are refused, which cells remain, files, and rows that break them."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.privacy.errors import DomainError, FileError, NetworkError, ReleaseError
from dpgraph.statistics.counts import Counts
from dpgraph.statistics.rows.codes import encode
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins
from dpgraph.structure.tables import Probabilities

LEVELS = {
    "age": ["0-15", "16-64", "65+"],
    "income": ["none", "low", "high"],
    "district": ["d1", "d2"],
    "county": ["c1", "c2"],
}
PARENTS = {"income": ["age"], "county": ["district"]}
CHILD = {"age": "0-15", "income": ["low", "high"]}
COUNTIES = {"district": {"county": {"d1": "c1", "d2": ["c2"]}}}


def network(impossible=(CHILD,), determines=COUNTIES, levels=LEVELS, parents=PARENTS, **settings):
    return dg.Network.of(levels, parents, dg.Rules(impossible, determines, **settings))


def test_a_determined_variable_is_a_combination_for_each_of_its_levels():
    made = network()
    assert repr(made.rules) == "Rules(age=0-15 & income=low|high, district=d1 & county=c2, district=d2 & county=c1)"
    assert repr(made) == "Network(4 variables, 2 arcs, 18 cells, 3 rules)"
    assert made.possible(("district", "county")).tolist() == [[True, False], [False, True]]
    assert made.possible(("county", "district")).tolist() == [[True, False], [False, True]]
    assert made.possible(("income",)) is None
    assert [made.possible_cells(family) for family in made.families] == [3, 7, 2, 2]
    assert made != dg.Network.of(LEVELS, PARENTS)
    assert (made, hash(made)) == (network(), hash(network()))
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_same_told_otherwise_is_the_same():
    other = network([{"age": ["0-15"], "income": ["high", "low", "low"]}, {"district": "d1", "county": "c2"}])
    assert set(other.rules.impossible) == set(network().rules.impossible)


@pytest.mark.parametrize(
    ("impossible", "determines", "error", "words"),
    [
        ([{"agee": "0-15", "income": "low"}], None, NetworkError, "did you mean 'age'"),
        ([{"age": "0-16", "income": "low"}], None, DomainError, "did you mean '0-15'"),
        ([{"age": "0-15"}], None, NetworkError, "two variables at least"),
        ([{"age": "0-15", "income": ["none", "low", "high"]}], None, NetworkError, "two variables at least"),
        ([{"age": "0-15", "income": []}], None, NetworkError, "two variables at least"),
        ([CHILD, {"age": "0-15", "income": "none"}], None, NetworkError, "no level where age=0-15"),
        ([{"age": "0-15", "county": "c1"}], None, NetworkError, "make an arc from"),
        (CHILD, None, NetworkError, "a list of combinations"),
        ([["age", "income"]], None, NetworkError, "maps variables to levels"),
        ((), {"district": "county"}, NetworkError, "determines maps a variable"),
        ((), {"district": {"county": {"d1": "c1"}}}, NetworkError, "not at 'd2'"),
        ((), {"district": {"county": {"d1": "c1", "d2": "c3"}}}, DomainError, "'c3' is not a level"),
        ([{"age": "0-15", "income": "low"}] * 4097, None, NetworkError, "more than 4,096"),
    ],
)
def test_rules_that_say_nothing_or_contradict_are_refused(impossible, determines, error, words):
    with pytest.raises(error, match=words):
        network(impossible, determines)


def test_settings_of_another_kind_are_refused():
    with pytest.raises(NetworkError, match=r"dg\.Rules"):
        dg.Network.of(LEVELS, PARENTS, [CHILD])
    with pytest.raises(NetworkError, match="broken"):
        dg.Rules([CHILD], broken="drop")
    domain = dg.Domain.of(LEVELS)
    with pytest.raises(NetworkError, match="rules need a graph"):
        Margins(domain, dg.Network.of(domain, {}).parents, rules=dg.Rules([CHILD]), tables=(("age", "income"),))
    bins = dg.Network.of(
        {"age": dg.Bins([0, 15, 90]), "job": [0, 1]}, {"job": ["age"]}, dg.Rules([{"age": "0-15", "job": 1}])
    )
    assert bins.possible_cells(("job", "age")) == 3
    with pytest.raises(DomainError, match="'7' is not a level"):
        dg.Network.of(bins.domain, bins.parents, dg.Rules([{"age": 7, "job": 1}]))


@given(st.data())
def test_a_network_has_exactly_the_rows_that_keep_its_rules(data):
    """The product of what its tables allow, over all rows, against the rules one by one; by definition."""
    levels = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1, 2]}
    some = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 1), min_size=1), min_size=2)
    impossible = data.draw(st.lists(some, min_size=1, max_size=4))
    try:
        made = dg.Network.of(levels, {"b": ["a"], "c": ["b", "a"]}, dg.Rules(impossible))
    except NetworkError:
        return
    for row in itertools.product(*levels.values()):
        held = dict(zip("abc", row, strict=True))
        valid = not any(all(held[name] in told for name, told in rule.items()) for rule in impossible)
        allowed = True
        for name in "abc":
            mask = made.allowed(name)
            allowed = allowed and (mask is None or bool(mask[tuple(held[one] for one in made.family(name))]))
        assert allowed == valid


BINS = st.lists(st.integers(0, 5), min_size=2, max_size=5, unique=True).map(sorted)
#: The furthest numbers of the oracle: sums of two reach past every edge from any of them.
FAR = 14


@st.composite
def number_variables(draw, whole, many):
    """Variables of numbers: levels, or bins that end or not, with a level for nulls or without."""
    found = []
    for _ in range(many):
        if draw(st.booleans()):
            levels = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
            found.append(dg.Categories(levels, missing=draw(st.sampled_from([None, levels[0]]))))
        else:
            outside = draw(st.sampled_from(["ends", "missing"]))
            missing = outside == "missing" or draw(st.booleans())
            found.append(dg.Bins(draw(BINS), missing=missing, outside=outside, whole=whole))
    return found


def numbers_of(variable, step):
    """By level, numbers of a grid that count there; any number where the level says that it is not known."""
    grid = [at * step for at in range(int(-FAR / step), int(FAR / step) + 1)]
    found = {code: [] for code in range(variable.size)}
    for number in grid:
        if (code := variable.code(number)) is not None:
            found[code].append(number)
    unknown = variable.missing if isinstance(variable, dg.Categories) else "missing" if variable.missing else None
    return [grid if level == unknown else found[code] for code, level in enumerate(variable.levels)]


def check_compared(variables, holds, step, rules):
    """The mask of rules against a search of numbers for every cell; only a level without a cell may be refused."""
    names = tuple("abt"[-len(variables) :])
    numbers = [numbers_of(variable, step) for variable in variables]
    expected = np.array([holds(*some) for some in itertools.product(*numbers)]).reshape([v.size for v in variables])
    parents = {"t": names[:-1], "b": names[:-2]}
    try:
        made = dg.Network.of(dict(zip(names, variables, strict=True)), parents, rules)
    except NetworkError:
        made = None
    if made is None:
        every = (set(range(len(names))) - {axis} for axis in range(len(names)))
        assert not all(expected.any(axis=tuple(away)).all() for away in every)
        return
    for size in range(2, len(names) + 1):
        for some in itertools.combinations(names, size):
            away = tuple(axis for axis, name in enumerate(names) if name not in some)
            found = made.possible(some)
            assert (expected.any(axis=away) == (True if found is None else found)).all()


@given(st.data(), st.sampled_from([True, False]))
def test_an_order_leaves_the_levels_that_some_numbers_fulfil(data, whole):
    variables = data.draw(number_variables(whole, 2))
    step = 1 if whole else 0.25
    check_compared(variables, lambda a, b: min(a, default=9) <= max(b, default=-9), step, dg.Rules(order=[("b", "t")]))


@given(st.data(), st.sampled_from([True, False]))
def test_a_sum_leaves_the_levels_that_some_numbers_fulfil(data, whole):
    """Quarters add up to whole edges: the largest two below 1 add up to 1.5, above every whole number below 2."""
    variables = data.draw(number_variables(whole, 3))

    def holds(a, b, total):
        return not set(total).isdisjoint(np.add.outer(a, b).reshape(-1).tolist() if a and b else ())

    check_compared(variables, holds, 1 if whole else 0.25, dg.Rules(sums={"t": ["a", "b"]}))


YEARS = dg.Bins([1990, 2000, 2010, 2020], missing=True, outside="missing")


def test_a_chain_of_bins_has_no_more_rules_than_bins():
    edges = list(range(101))
    levels = {name: dg.Bins(edges, missing=True) for name in "xyz"}
    made = dg.Network.of(levels, {"y": ["x"], "z": ["y"]}, dg.Rules(order=[("x", "y", "z")], broken="missing"))
    assert len(made.rules.impossible) == 2 * 99
    assert made.possible_cells(("x", "y")) == 101 * 101 - sum(range(100))
    assert made.possible(("x", "z")) is None


def test_an_order_and_a_sum_are_read_from_files_and_kept(tmp_path):
    (tmp_path / "told.toml").write_text(
        "[variables]\nstart = { bins = [1990, 2000, 2010] }\nend = { bins = [1990, 2000, 2010] }\n"
        'a = [0, 1]\nb = [0, 1]\nsum = [0, 1, 2]\n[parents]\nend = ["start"]\nsum = ["a", "b"]\n'
        '[rules]\norder = [["start", "end"]]\n[rules.sums]\nsum = ["a", "b"]\n'
    )
    made = dg.read_network(tmp_path / "told.toml")
    assert made.possible(("start", "end")).tolist() == [[True, True], [False, True]]
    cells = np.argwhere(made.possible(("a", "b", "sum"))).tolist()
    assert cells == [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 2]]
    assert made.possible(("a", "sum")).tolist() == [[True, True, False], [False, True, True]]
    for name in ("n.toml", "n.json"):
        dg.save(made, tmp_path / name)
        assert dg.read_network(tmp_path / name) == made
    assert repr(dg.Rules(order=[("start", "end")], sums={"sum": ["a", "b"]})) == "Rules(start <= end, sum = a + b)"
    assert dg.Rules(order=[("start", "end")])
    assert dg.Rules(sums={"sum": ["a", "b"]})


def test_rows_out_of_order_are_refused_or_counted_as_missing():
    parents = {"end": ["start"]}
    rows = pd.DataFrame({"start": [1995, 2015, 2015, None], "end": [2001, 2016, 1999, 1999]})
    made = dg.Network.of({"start": YEARS, "end": YEARS}, parents, dg.Rules(order=[("start", "end")]))
    assert dg.count(rows.drop(index=2), made).sensitive_rows == 3
    with pytest.raises(DomainError, match="some rows break a rule"):
        dg.count(rows, made)
    rules = dg.Rules(order=[("start", "end")], broken="missing")
    counted = dg.count(rows, dg.Network.of({"start": YEARS, "end": YEARS}, parents, rules))
    assert counted.sensitive_margin(("end",)).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "parents", [{"t": ["a", "b"]}, {"a": ["t"], "b": ["a", "t"]}], ids=["parts first", "sum first"]
)
def test_a_sum_is_kept_whichever_variable_comes_first(parents):
    levels = {"a": [0, 1, 2], "b": [0, 1, 2], "t": [0, 1, 2, 3, 4]}
    made = dg.Network.of(levels, parents, dg.Rules(sums={"t": ["a", "b"]}))
    tables = {name: table / table.sum(axis=0) for name, table in concentration_tables(made, 1.0).items()}
    rows = dg.sample_rows(Probabilities(made, FrozenMap(tables)), 5000, 2).astype(int)
    assert (rows["a"] + rows["b"] == rows["t"]).all()
    assert rows.drop_duplicates().shape[0] == 9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"order": ("a", "t")}, "each once"),
        ({"order": "at"}, "a list of chains"),
        ({"order": [("a",)]}, "two variables at least"),
        ({"order": [("a", "a")]}, "each once"),
        ({"order": [("a", 3)]}, "by name"),
        ({"order": [3]}, "by name"),
        ({"order": [("a", "tt")]}, "no variable 'tt'"),
        ({"order": [("a", "word")]}, "'word' is in an order or a sum, and its levels are no numbers"),
        ({"order": [("a", "yes")]}, "'yes' is in an order or a sum, and its levels are no numbers"),
        ({"sums": ["a"]}, "sums a mapping"),
        ({"sums": {"t": "a"}}, "two variables at least"),
        ({"sums": {"t": []}}, "two variables at least"),
        ({"sums": {"t": ["a", "t"]}}, "each once"),
        ({"sums": {"u": ["a"]}}, "no variable 'u'"),
        ({"sums": {"t": ["a", "word"]}}, "no numbers"),
        ({"sums": {"far": ["a", "b"]}}, "make an arc from"),
        ({"sums": {"t": ["a", "b"]}, "broken": "missing"}, "declares no such level"),
        ({"order": [("many", "more")]}, "more than 1,000,000 combinations"),
    ],
)
def test_an_order_or_a_sum_of_another_form_is_refused(settings, words):
    levels = {"a": [0, 1], "b": [0, 1], "t": [0, 1, 2], "far": [0, 1, 2], "word": ["0", "1"], "yes": [False, True]}
    levels |= {"many": range(1001), "more": range(1000)}
    with pytest.raises(NetworkError, match=words):
        dg.Network.of(levels, {"t": ["a", "b", "word"]}, dg.Rules(**settings))


def test_files_hold_rules(tmp_path):
    for made in (
        network(),
        network(
            broken="missing",
            determines=None,
            levels=LEVELS | {"income": dg.Categories(["none", "low", "high", "?"], missing="?")},
        ),
    ):
        for name in ("n.toml", "n.json"):
            dg.save(made, tmp_path / name)
            assert dg.read_network(tmp_path / name) == made
    (tmp_path / "told.toml").write_text(
        '[variables]\ndistrict = ["d1", "d2"]\ncounty = ["c1", "c2"]\n[parents]\ncounty = ["district"]\n'
        '[rules.determines.district.county]\nd1 = "c1"\nd2 = "c2"\n'
    )
    assert len(dg.read_network(tmp_path / "told.toml").rules.impossible) == 2
    for bad in ("rules = 3\n", "[rules]\nimpossibel = []\n", "[rules]\nimpossible = 3\n", "[rules]\nbroken = 3\n"):
        (tmp_path / "bad.toml").write_text(bad + "[variables]\na = [0, 1]\n[parents]\na = []\n")
        with pytest.raises(FileError):
            dg.read_network(tmp_path / "bad.toml")


GOOD = pd.DataFrame(
    {"age": ["0-15", "16-64"], "income": ["none", "low"], "district": ["d1", "d2"], "county": ["c1", "c2"]}
)
BAD = GOOD.assign(income=["high", "low"])


@pytest.mark.parametrize(
    "read", [lambda rows, made: rows, lambda rows, made: encode(rows, made.domain), lambda rows, made: iter([rows])]
)
def test_rows_that_break_a_rule_are_refused_and_no_word_depends_on_which(read):
    made = network()
    assert dg.count(read(GOOD, made), made).sensitive_rows == 2
    words = set()
    for rows in (BAD, GOOD.assign(county=["c2", "c2"]), pd.concat([BAD] * 3)):
        with pytest.raises(DomainError, match="some rows break a rule") as caught:
            dg.count(read(rows, made), made)
        words.add(str(caught.value))
    assert len(words) == 1
    assert dg.count(BAD, dg.Network.of(LEVELS, PARENTS)).sensitive_rows == 2
    with pytest.raises(DomainError, match="some rows break a rule"):
        dg.statistics.count_groups(BAD, made, "county")


def test_rows_that_break_a_rule_are_counted_as_declared():
    levels = LEVELS | {"income": dg.Categories(["none", "low", "high", "?"], other="?", missing="?")}
    for broken in ("missing", "other"):
        made = network(determines=None, levels=levels, broken=broken)
        table = dg.count(pd.concat([BAD, GOOD]), made).sensitive_margin(("income", "age"))
        assert table[:, 0].tolist() == [1, 0, 0, 1]
        assert table.sum() == 4
    counties = {"district": ["d1", "d2"], "county": dg.Categories(["c1", "c2", "?"], missing="?")}
    made = network((), levels=counties, parents={"county": ["district"]}, broken="missing")
    assert made.possible(("district", "county")).tolist() == [[True, False, True], [False, True, True]]
    assert dg.count(GOOD.assign(county="c2"), made).sensitive_margin(("county",)).tolist() == [0, 1, 1]


def test_a_level_that_broken_rows_count_as_is_declared_and_in_no_rule():
    with pytest.raises(NetworkError, match="declares no such level"):
        network(broken="missing")
    levels = LEVELS | {"income": dg.Categories(["none", "low", "high"], missing="high")}
    with pytest.raises(NetworkError, match="no rule may name that level"):
        network(determines=None, levels=levels, broken="missing")


def test_a_strict_domain_refuses_no_row():
    every = {name: dg.Categories([*told, "?"], other="?", missing="?") for name, told in LEVELS.items()}
    strict = dg.Domain.of(every, strict=True)
    with pytest.raises(NetworkError, match="the domain is strict"):
        network(determines=None, levels=strict)
    made = network(determines=None, levels=strict, broken="other")
    assert dg.count(BAD, made).sensitive_rows == 2


UNIT = dg.PrivacyUnit("add-remove")
MECHANISMS = [
    dg.LaplaceMechanism("0.7"),
    dg.LaplaceMechanism("0.7", tables="families"),
    dg.GaussianMechanism(1, "1e-6"),
]


@pytest.mark.parametrize("unit", ["add-remove", "replace"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["merged", "families", "gaussian"])
def test_the_exact_loss_of_all_neighbours_is_the_claim(mechanism, unit):
    """All changes of a valid row, beside no other or one."""
    made = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]}, dg.Rules([{"a": 0, "b": [1, 2]}]))
    protected = dg.PrivacyUnit(unit)
    valid = [(0, 0), (1, 0), (1, 1), (1, 2)]
    found = []

    def counts(rows):
        return dg.count(pd.DataFrame(rows, columns=["a", "b"]).astype("int64"), made)

    changes = [((), row) for row in valid] if unit == "add-remove" else itertools.combinations(valid, 2)
    for rest, (one, other) in itertools.product([(), *((row,) for row in valid)], list(changes)):
        pair = [counts([*rest, *([row] if row else [])]) for row in (one, other)]
        found.append(dg.audit.privacy_loss(mechanism, *pair, unit=protected))
    event = mechanism.event(made, protected)
    assert [m.cells for m in event.measurements] == [made.possible_cells(m.table) for m in event.measurements]
    if isinstance(mechanism, dg.LaplaceMechanism):
        assert float(max(loss.epsilon for loss in found)) == pytest.approx(float(event.epsilon), rel=1e-9)
    else:
        assert (
            0.99 < float(max(loss.rho for loss in found)) / (float(event.mu) ** 2 / 2) <= 1
        )  # integer noise costs more


def test_a_row_in_a_cell_that_cannot_be_moves_no_release():
    """Counts that hold one, past the refusal: the release reads possible cells alone (proofs.md P131)."""
    ruled = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]}, dg.Rules([{"a": 0, "b": [1, 2]}]))
    tables = {("b", "a"): np.array([[1, 1], [0, 2], [0, 0]])}
    one = Counts(ruled, tables)
    other = Counts(ruled, {("b", "a"): tables["b", "a"] + np.array([[0, 0], [1, 0], [0, 0]])})
    loss = dg.audit.privacy_loss(dg.LaplaceMechanism(1), one, other, unit=UNIT)
    assert loss.epsilon == 0


def test_noise_is_drawn_for_possible_cells_alone():
    made = network()
    rows = pd.concat([GOOD] * 50)
    for mechanism, unit in itertools.product(MECHANISMS, ("add-remove", "replace")):
        budget = dg.Budget(10, "1e-6", unit=dg.PrivacyUnit(unit))
        noisy = dg.release(dg.count(rows, made), mechanism, budget=budget, noise=dg.testing.SeededNoise(1)).value
        for key, table in noisy.tables.items():
            mask = made.possible(key)
            assert mask is None or not table[~mask].any()
        if unit == "replace" and isinstance(mechanism, dg.LaplaceMechanism) and mechanism.tables == "merged":
            assert all(table.sum() == 100 for table in noisy.tables.values())
    forged = {key: table + 1 for key, table in noisy.tables.items()}
    with pytest.raises(ReleaseError, match="where the network's rules allow none"):
        dg.results.NoisyCounts(made, forged, noisy.laws, noisy.n)


def test_what_does_not_keep_rules_refuses_before_any_charge():
    made = network()
    counts = dg.count(GOOD, made)
    budget = dg.Budget(10, "1e-6", unit=UNIT)
    refused = [dg.FourierMechanism(1), dg.MapEstimate(1), dg.PosteriorSample(1)]
    for mechanism in [*refused, dg.GaussianMechanism(1, "1e-6", basis="residual")]:
        with pytest.raises(ReleaseError, match="does not keep the network's rules: use"):
            dg.release(counts, mechanism, budget=budget)

    class Mine:
        """A mechanism from outside that does not say it keeps rules."""

        event, randomise = dg.LaplaceMechanism(1).event, dg.LaplaceMechanism(1).randomise

    with pytest.raises(ReleaseError, match="Mine does not keep the network's rules"):
        dg.release(counts, Mine(), budget=budget)
    assert budget.spent == 0
