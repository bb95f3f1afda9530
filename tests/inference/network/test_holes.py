"""Unobserved values: chains and closed forms against the posterior of the people enumerated, and refusals."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, concentration_tables
from dpgraph.inference.network.holes import Holes, indicator
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.privacy.errors import ApproximationWarning, DomainError, InferenceError, NetworkError, PriorWarning
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from tests.inference.network.test_by_records import assert_agree, multisets
from tests.inference.network.test_prior import RANKED, rank, uniform

UNSEEN = dg.UNOBSERVED
#: The value a, with holes that a parent explains, and its child.
CHAIN = dg.Network.of(
    {"z": ["0", "1"], "a": dg.Categories(["0", "1"], missing=UNSEEN), "c": ["0", "1"]}, {"a": ["z"], "c": ["a"]}
)
#: A root with holes, whose level of nulls is the first of its list.
ROOT = dg.Network.of({"a": dg.Categories(["?", "0", "1"], missing=UNSEEN("?")), "c": ["0", "1"]}, {"c": ["a"]})


def released(network, values, law):
    """Evidence of family tables."""
    made = (
        MeasuredTable(family, network.shape(family), np.array(value, np.int64).reshape(-1), law)
        for family, value in zip(network.maximal_families, values, strict=True)
    )
    return Evidence(network, tuple(made), None)


def enumerated(network, because, given, n, prior):
    """Exact posterior means of the people's tables and of their squares, flat, from all tables of values and masks.

    Written from the model alone: a row has a value of every variable and a mask of every variable with holes; released
    tables count the value, or the level of nulls where the mask is 1.
    """
    names, holes = network.domain.names, network.domain.holes
    own = {name: network.domain[name].complete.levels for name in names}
    rows = [
        (dict(zip(names, values, strict=True)), dict(zip(holes, masks, strict=True)))
        for values in product(*(own[name] for name in names))
        for masks in product((0, 1), repeat=len(holes))
    ]
    ways = multisets(len(rows), n)
    log_weight = gammaln(n + 1) - gammaln(ways + 1).sum(axis=1)
    people = [(name, own[name], network.parents[name], lambda row, v: row[0][v]) for name in names]
    people += [(name, (0, 1), because[name], lambda row, v: row[1][v]) for name in holes]
    first, second = [], []
    for name, levels, parents, read in people:
        counts = np.zeros((len(ways), len(levels), *(len(own[p]) for p in parents)))
        for at, row in enumerate(rows):
            cell = (levels.index(read(row, name)), *(own[p].index(row[0][p]) for p in parents))
            counts[(slice(None), *cell)] += ways[:, at]
        total = prior + counts
        log_weight += (gammaln(total).sum(axis=1) - gammaln(total.sum(axis=1))).reshape(len(ways), -1).sum(axis=1)
        whole = total.sum(axis=1, keepdims=True)
        first.append((total / whole).reshape(len(ways), -1))
        second.append((total * (total + 1) / whole / (whole + 1)).reshape(len(ways), -1))
    for table in given.tables:
        counts = np.zeros((len(ways), *table.shape))
        for at, (values, masks) in enumerate(rows):
            seen = [network.domain[v].missing if masks.get(v) else values[v] for v in table.variables]
            cell = tuple(network.domain.code(v, level) for v, level in zip(table.variables, seen, strict=True))
            counts[(slice(None), *cell)] += ways[:, at]
        residual = (table.values.reshape(table.shape) - counts) / table.law.scale
        gaussian = isinstance(table.law, DiscreteGaussian)
        log_weight += (-0.5 * residual**2 if gaussian else -abs(residual)).reshape(len(ways), -1).sum(axis=1)
    return np.exp(log_weight - logsumexp(log_weight)) @ np.hstack([*first, *second])


CASES = {
    "a parent explains": (
        CHAIN,
        {"a": ("z",)},
        [[[2, 1], [0, 1], [1, 2]], [[1, 0, 2], [2, 1, 0]]],
        DiscreteLaplace(1.0),
    ),
    "the child explains": (
        CHAIN,
        {"a": ("c",)},
        [[[2, 1], [0, 1], [1, 2]], [[1, 0, 2], [2, 1, 0]]],
        DiscreteLaplace(1.0),
    ),
    "completely at random": (ROOT, {"a": ()}, [[[2, 0, 1], [1, 3, -1]]], DiscreteGaussian(1.2)),
}


@pytest.mark.proof
@pytest.mark.parametrize(("network", "because", "values", "law"), CASES.values(), ids=CASES)
def test_chains_draw_the_enumerated_posterior(network, because, values, law):
    n, prior = 3, 0.8
    given = released(network, values, law)
    given = Evidence(network, given.tables, n)
    holes = Holes.of(network, because)
    made = holes.of_records(
        draw_by_records(
            holes.evidence(given), holes.concentration(prior), rng=np.random.default_rng(3), draws=40_000, burn_in=500
        )
    )
    names = [*network.domain.names, *map(indicator, network.domain.holes)]
    flat = np.concatenate([made.tables[name].reshape(*made.shape, -1) for name in names], axis=2)
    assert_agree(np.concatenate([flat, flat**2], axis=2), enumerated(network, because, given, n, prior))


def people_and_released(network, because, rng):
    """Tables of the people at random, and those of the released network that follow, by summing the joint law."""
    holes = Holes.of(network, because)
    people = {
        name: np.moveaxis(rng.dirichlet(np.ones(shape[0]), shape[1:] or None), -1, 0)
        for name in holes.people.domain.names
        for shape in [holes.people.shape(holes.people.family(name))]
    }
    names = network.domain.names
    joint = np.zeros(network.shape(names))
    domain = holes.people.domain
    for codes in np.ndindex(*holes.people.shape(domain.names)):
        row = dict(zip(domain.names, codes, strict=True))
        chance = np.prod([people[v][tuple(row[u] for u in holes.people.family(v))] for v in domain.names])
        cell = []
        for v in names:
            code, own = holes.codes(v) if v in holes.because else (0, range(network.domain.sizes[v]))
            cell.append(code if v in holes.because and row[indicator(v)] else own[row[v]])
        joint[tuple(cell)] += chance
    tables = {}
    for v in names:
        family = network.family(v)
        kept = joint.sum(axis=tuple(i for i, u in enumerate(names) if u not in family))
        inside = [u for u in names if u in family]
        table = np.transpose(kept, [inside.index(u) for u in family])
        tables[v] = table / table.sum(axis=0)
    return holes, people, tables


@pytest.mark.parametrize("network", [CHAIN, ROOT], ids=["chain", "root"])
def test_rows_without_a_hole_in_a_family_have_the_peoples_law(network):
    """Exact: conditional tables of the released law, cut to own levels, are the people's."""
    holes, people, tables = people_and_released(network, None, np.random.default_rng(0))
    drawn = PosteriorDraws(network, FrozenMap((v, t[None, None]) for v, t in tables.items()), "tables")
    made = holes.of_released(drawn)
    assert made.network == holes.people
    for name, table in people.items():
        np.testing.assert_allclose(made.tables[name][0, 0], table, rtol=1e-12)


def test_the_part_of_a_dirichlet_law_of_own_levels_is_one():
    law = DirichletPosterior(ROOT, FrozenMap({"a": [1.0, 2.0, 3.0], "c": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}))
    made = Holes.of(ROOT, None).of_released(law)
    assert made.concentration["a"].tolist() == [2.0, 3.0]
    assert made.concentration["a missing"].tolist() == [5.0, 1.0]
    assert made.concentration["c"].tolist() == [[2.0, 3.0], [5.0, 6.0]]


def test_holes_with_other_parents_have_no_closed_form():
    with pytest.raises(InferenceError, match="records"):
        Holes.of(CHAIN, {"a": ["c"]}).of_released(
            DirichletPosterior(CHAIN, FrozenMap(concentration_tables(CHAIN, 1.0)))
        )


def rows_with_holes(n=600, seed=0):
    """Rows of CHAIN whose a is missing more often where z is 1, and the share of a = 1 among all."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    a = (rng.random(n) < np.array([0.2, 0.9])[z]).astype(int)
    c = (rng.random(n) < np.array([0.3, 0.6])[a]).astype(int)
    gone = rng.random(n) < np.array([0.1, 0.7])[z]
    text = np.array(["0", "1"])
    return pd.DataFrame({"z": text[z], "a": np.where(gone, None, text[a]), "c": text[c]}), a.mean(), a[~gone].mean()


def noisy(rows, network=CHAIN, epsilon=20):
    return dg.release(
        dg.count(rows, network),
        dg.LaplaceMechanism(epsilon=epsilon),
        budget=dg.Budget(epsilon),
        noise=dg.testing.SeededNoise(1),
    )


@pytest.mark.parametrize("method", ["records", "tables", "normal", "plug-in"])
def test_every_method_is_about_the_people(method):
    """Among observed values a = 1 has .37, among people .55: .17 apart, ten deviations of the answer."""
    rows, among_all, among_observed = rows_with_holes()
    assert among_all - among_observed > 0.15
    made = dg.posterior(noisy(rows), method=method, draws=400, seed=0)
    answer = dg.query(made, "a")
    assert abs(answer.mean[1] - among_all) < 0.08
    assert made.network.domain.names == ("z", "a", "c", "a missing")
    assert made.network.domain.levels("a") == ("0", "1")


def test_sensitivity_is_the_posterior_at_odds_one_and_moves_with_them():
    made = dg.posterior(noisy(rows_with_holes()[0]), method="tables", draws=200, seed=0)
    found = dg.questions.sensitivity(made, "a", [1, 4])
    np.testing.assert_allclose(found[1].tables["a"], made.tables["a"], rtol=1e-12)
    gone, table = made.tables["a missing"][:, :, 1], made.tables["a"]
    hidden_share = 4 * table[:, :, 1] / (4 * table[:, :, 1] + table[:, :, 0])
    np.testing.assert_allclose(
        found[4].tables["a"][:, :, 1], (1 - gone) * table[:, :, 1] + gone * hidden_share, rtol=1e-12
    )
    assert found[4].network.domain.names == ("z", "a", "c")
    other = dg.questions.sensitivity(made, "a", [4], levels=["0"])[4]
    assert (other.tables["a"][:, :, 1] < table[:, :, 1]).all()


def test_how_much_is_missing_is_told_beside_complete_cases():
    rows, among_all, among_observed = rows_with_holes(2000)
    made = dg.posterior(noisy(rows), method="tables", draws=200, seed=0)
    (line,) = dg.questions.missing(made).to_dict("records")
    assert line["low"] < line["missing"] < line["high"]
    assert abs(line["missing"] - rows["a"].isna().mean()) < 0.05  # the deviation of a share of 2000 rows is .011
    assert line["because"] == "z"
    assert abs(line["moved"] - (among_all - among_observed)) < 0.08
    with pytest.raises(InferenceError, match="no variable"):
        dg.questions.missing(dg.load("example:asia"))


def test_synthetic_rows_are_complete_or_have_the_holes_of_the_data():
    rows = rows_with_holes(4000)[0]
    mean = dg.posterior(noisy(rows), method="tables", draws=200, seed=0).mean()
    made = dg.sample_rows(mean, 4000, 0)
    assert list(made) == ["z", "a", "c"]
    assert not made.isna().to_numpy().any()
    holed = dg.sample_rows(mean, 4000, 0, holes=True)
    for z in ("0", "1"):  # 4000 rows: a share's deviation is below .012
        assert abs(holed[holed.z == z].a.isna().mean() - rows[rows.z == z].a.isna().mean()) < 0.07
    assert not holed[["z", "c"]].isna().to_numpy().any()


def test_rows_of_tables_that_count_nulls_as_a_level_are_of_all_people():
    """Those of a learned network: P(a | z) among observed ones, and holes as often as the tables have them."""
    tables = {"z": [0.5, 0.5], "a": [[0.1, 0.3], [0.6, 0.2], [0.3, 0.5]], "c": [[0.2, 0.7, 0.4], [0.8, 0.3, 0.6]]}
    value = dg.Probabilities(CHAIN, tables)
    made, holed = (dg.sample_rows(value, 40_000, 0, holes=holes) for holes in (False, True))
    assert list(made) == list(holed) == ["z", "a", "c"]
    assert not made.isna().to_numpy().any()
    limit = 5 * 0.5 / 20_000**0.5 + 0.005  # five deviations of a share among one level of z, and its chance number
    for z, ones, gone in (("0", 0.6 / 0.7, 0.3), ("1", 0.2 / 0.5, 0.5)):
        assert abs((made[made.z == z].a == "1").mean() - ones) < limit
        assert abs(holed[holed.z == z].a.isna().mean() - gone) < limit
    assert abs((made[made.a == "1"].c == "1").mean() - 0.3) < limit
    assert dg.sample_rows(dg.Probabilities(CHAIN, tables | {"a": [[0, 0], [0, 0], [1, 1]]}), 9, 0).a.notna().all()
    named = dg.Probabilities(ROOT, {"a": [0.4, 0.5, 0.1], "c": [[0.5] * 3] * 2})
    assert set(dg.sample_rows(named, 200, 0).a) == {"0", "1"}
    assert set(dg.sample_rows(named, 200, 0, holes=True).a.dropna()) == {"0", "1"}


def test_a_variable_of_the_users_own_by_an_indicators_name_is_kept():
    network = dg.Network.of({"a": ["0", "1"], "a missing": ["no", "yes"]}, {})
    value = dg.Probabilities(network, {"a": [0.5, 0.5], "a missing": [0.5, 0.5]})
    assert list(dg.sample_rows(value, 3, 0)) == ["a", "a missing"]
    assert dg.classifier(value, "a").features == ("a missing",)


def test_a_release_that_counts_own_levels_alone_is_kept(tmp_path):
    """Complete rows counted by the variables of a posterior: the paid release, and what is learned of it."""
    rows = rows_with_holes()[0].dropna()
    people = dg.posterior(noisy(rows), method="tables", draws=5, seed=0).network.domain
    release = noisy(rows, dg.Network.of(people.restrict(["z", "a"]), {"a": ["z"]}))
    dg.save(release, tmp_path / "release.json")
    assert dg.load(tmp_path / "release.json", release=True).provenance == release.provenance
    made = dg.posterior(release, method="tables", draws=5, seed=0)
    dg.save(made, tmp_path / "made.json")
    assert dg.load(tmp_path / "made.json").network == made.network


def test_causes_beside_the_parents_are_read_by_records_however_long(monkeypatch):
    monkeypatch.setattr("dpgraph.inference.network.posterior.PATIENCE", 0.0)
    release = noisy(rows_with_holes(200)[0])
    assert dg.posterior(release, draws=5, seed=0).method == "tables"
    assert dg.posterior(release, draws=5, seed=0, missing_because={"a": []}).method == "records"


def test_rows_to_predict_may_have_holes():
    made = dg.posterior(noisy(rows_with_holes()[0]), method="tables", draws=50, seed=0)
    found = dg.query_rows(made, "c", {"a": ["1", None], "z": ["1", "1"]})
    assert found["mean"].shape == (2, 2)


def test_a_release_counts_nulls_as_a_level_as_before():
    """The declaration changes no statistic, no sensitivity and no price."""
    plain = dg.Network.of(
        dict(CHAIN.domain.variables) | {"a": dg.Categories(["0", "1", "missing"], missing="missing")}, CHAIN.parents
    )
    rows = rows_with_holes()[0]
    one, other = noisy(rows), noisy(rows, plain)
    assert one.provenance == other.provenance
    assert all((one.value.tables[key] == other.value.tables[key]).all() for key in other.value.tables)


def test_a_declaration_of_unobserved_values_is_kept(tmp_path):
    domain = dg.Domain.of(
        {
            "job": dg.Categories(["a", "b"], missing=UNSEEN),
            "code": dg.Categories([1, 2, -1], missing=UNSEEN(-1)),
            "age": dg.Bins([0, 10, 20], missing=UNSEEN),
        }
    )
    assert domain.holes == ("job", "code", "age")
    assert [domain[name].complete.size for name in domain.names] == [2, 2, 2]
    dg.save(dg.Network.of(domain, {}), tmp_path / "network.json")
    assert dg.load(tmp_path / "network.json").domain == domain
    path = tmp_path / "domain.toml"
    path.write_text(
        '[variables]\njob = { levels = ["a", "b"], missing = "unobserved" }\n'
        "code = { levels = [1, 2, -1], missing = -1, unobserved = true }\n"
        'age = { bins = [0, 10, 20], missing = "unobserved" }\n'
    )
    assert dg.read_domain(path) == domain


def test_a_posterior_with_holes_is_kept(tmp_path):
    made = dg.posterior(noisy(rows_with_holes()[0]), method="tables", draws=20, seed=0)
    dg.save(made, tmp_path / "posterior.json")
    again = dg.load(tmp_path / "posterior.json")
    assert again.network == made.network
    np.testing.assert_array_equal(again.tables["a missing"], made.tables["a missing"])


@pytest.mark.parametrize(
    ("because", "words"),
    [
        ({"a": ["a"]}, "its own holes"),
        ({"a": ["b"]}, "no variable 'b'"),
        ({"c": ["a"]}, "not declared unobserved"),
        ({"a": "z"}, "lists of names"),
        ({"a": 3}, "lists of names"),
        ({"a": [3]}, "lists of names"),
        (["a"], "maps variables"),
        ({"a": ["a missing"]}, "cycle"),
    ],
)
def test_reasons_that_tell_nothing_are_refused(because, words):
    with pytest.raises((InferenceError, NetworkError), match=words):
        dg.posterior(noisy(rows_with_holes()[0]), missing_because=because)


def test_reasons_that_no_table_holds_are_refused():
    network = dg.Network.of(dict(CHAIN.domain.variables), {"a": ["z"]})
    mechanism = dg.LaplaceMechanism(epsilon=1, tables="families")
    release = dg.release(dg.count(rows_with_holes()[0], network), mechanism, budget=dg.Budget(1))
    with pytest.raises(InferenceError, match="no released table holds 'a' and 'c'"):
        dg.posterior(release, method="records", missing_because={"a": ["c"]})


def test_a_circle_of_holes_is_refused():
    domain = dict(CHAIN.domain.variables) | {"c": CHAIN.domain["a"]}
    release = noisy(rows_with_holes()[0], dg.Network.of(domain, CHAIN.parents))
    with pytest.raises(NetworkError, match="cycle: a missing -> c missing -> a missing"):
        dg.posterior(release, missing_because={"a": ["c missing"], "c": ["a missing"]})


@pytest.mark.parametrize("method", ["tables", "records", "normal", "plug-in"])
def test_values_that_nobody_gave_are_warned_of(method):
    """Their law is the prior's: 90 % of P(a) are far apart, where 300 observed values leave .1."""
    rows = rows_with_holes(300)[0].assign(a=None)
    with pytest.warns(PriorWarning, match="hardly a value of 'a'"):
        made = dg.posterior(noisy(rows, epsilon=0.2), method=method, draws=200, seed=0)
    answer = dg.query(made, "a")
    assert answer.high[0] - answer.low[0] > 0.3
    assert dg.questions.missing(made)["high"]["a"] > 0.8


def test_values_that_nobody_gave_are_warned_of_where_the_graph_is_learned():
    learned = dg.learn_network(rows_with_holes(300)[0].assign(a=None), CHAIN.domain, epsilon=1)
    for graphs in ("chosen", "averaged"):
        with pytest.warns(PriorWarning, match="hardly a value of 'a'"):
            learned.posterior(graphs=graphs, method=dg.methods.Records(chains=1, burn_in=5), draws=5, seed=0)
    with pytest.raises(InferenceError, match="refitted"):
        learned.posterior(method="refitted", missing_because={"a": ["z"]})


@pytest.mark.parametrize(
    "method",
    [pytest.param("records", marks=pytest.mark.proof), pytest.param("tables", marks=pytest.mark.proof), "plug-in"],
)
def test_holes_that_come_together_are_warned_of(method):
    """c is missing where a is: of rows in which a is known none tells how often; apart they give no warning."""
    settings = {} if method == "plug-in" else {"draws": 100, "seed": 0}
    rows = rows_with_holes(1000)[0]
    network = dg.Network.of(dict(CHAIN.domain.variables) | {"c": CHAIN.domain["a"]}, CHAIN.parents)
    apart = rows.assign(c=rows["c"].mask(np.random.default_rng(1).random(len(rows)) < 0.3))
    together = rows.assign(c=rows["c"].mask(rows["a"].isna()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        dg.posterior(noisy(apart, network, 5), method=method, **settings)
    with pytest.warns(ApproximationWarning, match="missing_because={'c': \\['a missing'\\]}"):
        dg.posterior(noisy(together, network, 5), method=method, **settings)
    told = dg.posterior(noisy(together, network, 5), draws=50, seed=0, missing_because={"c": ["a missing"]})
    share = dg.questions.missing(told)["missing"]["c"]
    assert abs(share - rows["a"].isna().mean()) < 0.08  # the deviation of a share of 1000 rows is .016


@pytest.mark.parametrize(("with_a_hole", "alarms"), [(0.4, (0, 2)), (0.95, (190, 200))], ids=["a law", "none"])
def test_noise_is_seldom_taken_for_holes_that_come_together(with_a_hole, alarms):
    """b is missing in .1 and .4 of rows by a's value; at its greatest rate where a is missing, or more often.

    200 tables of 144 cells, noise of 14 in each, so of 57 in each of (a, b), and of .05 in a share of 1200 rows. Power:
    believed to have a cell's noise, or none, a share would have a deviation of .02 at most.
    """
    holed = dg.Categories(["0", "1"], missing=UNSEEN)
    network = dg.Network.of({"w": range(16), "a": holed, "b": holed}, {"b": ["a"], "w": ["a", "b"]})
    holes, rng, law, found = Holes.of(network, None), np.random.default_rng(0), DiscreteLaplace(10.0), 0
    shape = network.shape(("w", "a", "b"))
    for _ in range(200):
        a = rng.integers(0, 3, 3600)  # 2 is a hole, as for b
        b = np.where(rng.random(3600) < np.array([0.1, 0.4, with_a_hole])[a], 2, rng.integers(0, 2, 3600))
        cells = np.ravel_multi_index((rng.integers(0, 16, 3600), a, b), shape)
        noise = rng.geometric(1 - np.exp(-0.1), (2, 144))
        values = np.bincount(cells, minlength=144) + noise[0] - noise[1]
        found += holes._together("b", "a", MeasuredTable(("w", "a", "b"), shape, values, law))
    assert alarms[0] <= found <= alarms[1]


@pytest.mark.proof
def test_a_regression_of_a_release_is_of_all_people():
    """Holes in x that y explains: complete rows bend the line; a level of nulls is no number of x.

    The posterior's deviation of the slope is .03, and complete rows' slope is .13 below that of all.
    """
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 3000)
    y = rng.binomial(4, np.array([0.2, 0.4, 0.6])[x])
    gone = rng.random(3000) < np.where(y >= 2, 0.7, 0.1)
    slope, observed = np.polyfit(x, y, 1)[0], np.polyfit(x[~gone], y[~gone], 1)[0]
    assert slope - observed > 0.1
    domain = dg.Domain.of({"x": dg.Categories([0, 1, 2], missing=UNSEEN(-1)), "y": [0, 1, 2, 3, 4]})
    rows = pd.DataFrame({"x": pd.array(x, "Int64"), "y": y})
    rows.loc[gone, "x"] = pd.NA
    release = noisy(rows, dg.all_pairs(domain), epsilon=5)
    known = dg.posterior(noisy(rows, dg.Network.of(domain, {"x": ["y"]})), method="tables", draws=100, seed=0)
    for one in (release, dg.choose_network(release), known):
        found = dg.regression(one, "y", ["x"])
        assert found.names == ("intercept", "x")
        assert abs(found.mean[1] - slope) < 0.09


def test_a_classifier_of_a_posterior_reads_rows_with_holes():
    rows = rows_with_holes()[0]
    made = dg.classifier(dg.posterior(noisy(rows), method="tables", draws=50, seed=0), "c")
    assert made.features == ("z", "a")
    assert made.predict_proba(rows[["z", "a"]].head(20)).shape == (20, 2)


@pytest.mark.proof
def test_a_learned_network_answers_about_the_people():
    rows, among_all, _ = rows_with_holes(2000)
    learned = dg.learn_network(rows, CHAIN.domain, epsilon=20)
    assert abs(dg.query(learned, "a").mean[1] - among_all) < 0.08
    assert learned.posterior(method="refitted", draws=5, seed=0).network.domain == CHAIN.domain
    short = dg.methods.Records(chains=1, burn_in=100)
    averaged = learned.posterior(graphs="averaged", method=short, draws=100, seed=0)
    assert abs(dg.query(averaged, "a").mean[1] - among_all) < 0.08
    assert averaged.network.parents["a missing"] == ("z",)  # of .1 and .7 of 1000 rows each
    told = learned.posterior(graphs="averaged", method=short, draws=5, seed=0, missing_because={"a": ["c"]})
    assert told.network.parents["a missing"] == ("c",)
    with pytest.raises(InferenceError, match="its own holes"):
        learned.posterior(graphs="averaged", missing_because={"a": ["a"]})


@pytest.mark.parametrize("estimator", [dg.PrivateNaiveBayes, dg.PrivateClassifier])
def test_unobserved_features_are_a_level_and_unobserved_labels_are_refused(estimator):
    rows, budget = rows_with_holes(300)[0], dg.Budget(3)
    fitted = estimator(domain=CHAIN.domain, target="c", epsilon=1, budget=budget).fit(rows[["z", "a"]], rows["c"])
    assert set(fitted.classes_) == {"0", "1"}
    assert len(fitted.predict(rows[["z", "a"]].head(9))) == 9
    assert budget.spent == 1
    with pytest.raises(DomainError, match="declared unobserved"):
        estimator(domain=CHAIN.domain, target="a", epsilon=1, budget=budget).fit(rows[["z", "c"]], rows["a"])
    assert budget.spent == 1


def test_what_does_not_fill_holes_says_so():
    with pytest.raises(NetworkError, match="do not fill unobserved values"):
        dg.LinearDesign({"a": CHAIN.domain["a"]}, "y", (0, 1))
    with pytest.raises(InferenceError, match="public prior"):
        dg.posterior(noisy(rows_with_holes()[0]), prior=dg.PublicPrior(rows_with_holes()[0]))
    with pytest.raises(InferenceError, match="unobserved"):
        dg.questions.sensitivity(dg.posterior(noisy(rows_with_holes()[0]), method="tables", draws=9, seed=0), "c", [2])
    with pytest.raises(NetworkError, match="besides theirs"):
        dg.Categories(["missing"], missing=UNSEEN)


PEOPLE = dg.Network.of(
    {
        "z": ["0", "1"],
        "a": dg.Categories(["0", "1", "2"], missing=UNSEEN),
        "b": dg.Categories(["0", "1"], missing=UNSEEN),
        "c": ["0", "1"],
    },
    {"a": ["z"], "b": ["a"], "c": ["a", "b"]},
)


def world_ranks(trials, because, believed, seed, itself=None):
    """Worlds from the default prior, rows with holes of ``because``, a release and its posterior: ranks of the truth.

    ``itself`` has the chance of a hole in a at each of its values, in place of those causes.
    """
    prior, found = dg.HierarchicalPrior(), []
    holes = Holes.of(PEOPLE, because)
    for stream in np.random.SeedSequence(seed).spawn(trials):
        rng = np.random.default_rng(stream)
        truth = prior.sample(holes.people, rng)
        drawn = sample_codes(truth, 300, rng)
        if itself is not None:
            drawn = {**drawn, indicator("a"): rng.random(300) < np.array(itself)[drawn["a"]]}
        seen = {}
        for name in PEOPLE.domain.names:
            seen[name] = drawn[name]
            if name in holes.because:
                code, own = holes.codes(name)
                seen[name] = np.where(drawn[indicator(name)] == 1, code, np.array(own)[drawn[name]])
        counts = dg.count(Codes(PEOPLE.domain, FrozenMap(seen)), PEOPLE)
        noise = dg.testing.SeededNoise(int(rng.integers(2**31)))
        noisy = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=noise)
        made = dg.posterior(noisy, seed=rng, missing_because=believed, **RANKED)
        names = PEOPLE.domain.names
        found.append(np.concatenate([rank(truth.table(v)[:-1], made.flat(v)[:, :-1], rng).ravel() for v in names]))
    return np.stack(found)


@pytest.mark.proof
@pytest.mark.parametrize("because", [None, {"a": ["z"], "b": ["z"]}], ids=["parents", "others"])
def test_the_peoples_posterior_is_calibrated(because):
    """The values' 11 free probabilities in 60 worlds; ``test_a_wrong_cause_is_seen`` is its power."""
    assert uniform(world_ranks(60, because, because, 0))


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.ApproximationWarning")
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
def test_a_wrong_assumption_is_seen():
    """A value that explains its own holes; where its child's holes show that, there is a warning too."""
    assert not uniform(world_ranks(60, None, None, 1, itself=[0.1, 0.8, 0.8]))
