"""What is written: only public values, whole, escaped, with nothing from elsewhere, and the numbers of the value."""

import html
import json
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.networks import read_probabilities
from dpgraph.pages import costs as grids
from dpgraph.pages.contents import BOX, WAYPOINT, drawn, layered, number
from dpgraph.pages.costs import GRID_COLUMNS as COLUMNS
from dpgraph.pages.costs import cost_grid
from dpgraph.pages.writing import TEMPLATES, html_of
from dpgraph.privacy.risk import Risk

SEEDED = dg.testing.SeededNoise
DRAWN = ("Posterior sample", "MAP")
HOSTILE = "<script>document.body.dataset.hacked='1'</script>\"'&{{7*7}}</script>"
DOMAIN = dg.Domain.of({"a": ["x", "y"], "b": [0, 1, 2]})
NETWORK = dg.Network.of(DOMAIN, {"b": ["a"]})
ROWS = pd.DataFrame({"a": ["x", "y"] * 20, "b": [0, 1, 2, 1] * 10})


def data_of(page):
    """What the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def texts_of(page):
    """What a reader of the page reads, without its program."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def sensitive():
    codes = dg.statistics.encode(ROWS, DOMAIN)
    design = dg.LinearDesign({"b": (0, 2)}, "c", (0, 1))
    rows = pd.DataFrame({"b": [0.0, 1.0], "c": [0.5, 0.1]})
    return {
        "rows": ROWS,
        "codes": codes,
        "counts": dg.count(ROWS, NETWORK),
        "exact moments": dg.statistics.regression_moments(rows, design),
        "array": np.arange(3),
        "text": "secret",
        "none": None,
    }


@pytest.mark.parametrize("what", list(sensitive()))
def test_what_is_not_public_has_no_page(what, tmp_path):
    value = sensitive()[what]
    for wrong in (value, [value], {"x": value}):
        with pytest.raises(dg.errors.FileError, match="has no page"):
            dg.write_html(wrong, tmp_path / "p.html")
    assert list(tmp_path.iterdir()) == []


def test_a_record_around_exact_counts_makes_them_no_release(released, tmp_path):
    for wrong in (dg.count(ROWS, NETWORK), (dg.count(ROWS, NETWORK),)):
        forged = dg.Release(wrong, released.event, released.unit)
        with pytest.raises(dg.errors.FileError, match="not saved"):
            dg.write_html(forged, tmp_path / "p.html")
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_that_is_not_fitted_has_no_page(tmp_path):
    with pytest.raises(dg.errors.FileError, match="this PrivateNaiveBayes has learned nothing yet: fit it first"):
        dg.write_html(dg.PrivateNaiveBayes(DOMAIN, target="a"), tmp_path / "p.html")


@pytest.mark.parametrize("name", ["p.htm", "p.json", "p"])
def test_a_page_is_an_html_file(name, released, tmp_path):
    with pytest.raises(dg.errors.FileError, match=r"must end in \.html"):
        dg.write_html(released, tmp_path / name)


def test_a_failed_page_leaves_the_old_one(released, tmp_path, monkeypatch):
    place = tmp_path / "p.html"
    dg.write_html(released, place)
    before = place.read_bytes()
    with pytest.raises(dg.errors.FileError):
        dg.write_html(dg.count(ROWS, NETWORK), place)
    assert place.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"]


def hostile_network():
    domain = dg.Domain.of({HOSTILE: [HOSTILE, "ok"], "b'\"": ["</title>", "<img src=x>"]})
    return dg.Network.of(domain, {"b'\"": [HOSTILE]})


def test_names_that_read_like_programs_are_texts():
    page = html_of(dg.privacy_cost(hostile_network(), epsilon=1, n=10))
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "</title>" in page
    assert page.count("</title>") == 1 + 2  # the page's own, and those of variables in the drawing
    assert "{{7*7}}" in html.unescape(page)
    assert HOSTILE in data_of(page)["graph"]["names"]


def test_a_page_names_no_address_and_runs_no_program_but_its_own(released):
    page = html_of(released)
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    outside = re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(?!#|data:)(\w[^"'\s>]*)""", re.sub(r"-src '", "", page))
    assert outside == []
    assert re.findall(r"https?://[^\s\"'<]+", page) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("name", ["page.css", "page.js"])
def test_a_program_cannot_end_its_own_element(name):
    text = (TEMPLATES / name).read_text()
    assert "</" not in text
    assert "innerHTML" not in text
    assert "insertAdjacentHTML" not in text


def pages():
    """A page of every kind of value, by name, with what it must say."""
    release = dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=SEEDED(1))
    budget = dg.Budget(2)
    for mechanism in (dg.FourierMechanism("0.5"), dg.PosteriorSample("0.5", draws=2), dg.MapEstimate("0.5")):
        yield (
            type(mechanism).__name__,
            dg.release(dg.count(ROWS, NETWORK), mechanism, budget=budget, noise=SEEDED(1)),
            "epsilon 0.5",
        )
    yield "counts", release, "SumZeroLaplace"
    yield (
        "Gaussian",
        dg.release(
            dg.count(ROWS, NETWORK), dg.GaussianMechanism(1, "1e-6"), budget=dg.Budget(1, "1e-6"), noise=SEEDED(1)
        ),
        "probability of 1e-06 (delta)",
    )
    number = dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.5"), budget=dg.Budget(1), noise=SEEDED(2))
    yield (
        "joint",
        release + dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.5"), budget=dg.Budget(1), noise=SEEDED(3)),
        "epsilon 1.5",
    )
    yield "posterior", dg.posterior(number, method="plug-in"), "leave the noise out"
    draws = dg.posterior(release, method="tables", draws=20, seed=1)
    yield "draws", draws, "noise accounted for, 20 draws"
    yield "answer", dg.query(draws, "a", {"b": 1}), "P(a | b=1)"
    yield "probabilities", draws.mean(), "Probabilities of a network of 2 variables"
    yield "public probabilities", dg.load("example:asia"), "No release is on record"
    yield "network", NETWORK, "epsilon 1 (pure)"
    features, labels = ROWS[["b"]], ROWS["a"]
    bayes = dg.PrivateNaiveBayes(DOMAIN, target="a", epsilon=1, noise=SEEDED(1)).fit(features, labels)
    yield "naive Bayes", bayes, "Naive Bayes classifier of a"
    judged = dg.evaluate(bayes, features, labels, epsilon=1, budget=dg.Budget(1), noise=SEEDED(1))
    yield "evaluation", judged, "accuracy"
    yield "evaluation's release", judged.release, "accuracy"
    fitted = dg.PrivateNaiveBayes(DOMAIN, target="a", inference="plug-in")
    settings = {"epsilon": 2, "budget": dg.Budget(2), "noise": SEEDED(1)}
    yield "cross-validation", dg.cross_validate(fitted, features, labels, **settings), "at epsilon 0.4"
    settings = {"n": 40, "trials": 20, "draws": 10, "method": "tables"}
    yield (
        "calibration",
        dg.audit.calibration(NETWORK, dg.LaplaceMechanism(1), **settings),
        "How often intervals held the truth",
    )
    yield "budget", budget, "75% of epsilon is spent"
    moments = dg.statistics.sufficient_statistics([1.0, 0.5, 0.2], dg.expfam.Exponential(), bounds=(0, 5))
    sums = dg.release(moments, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=SEEDED(1))
    yield "moments", sums, "noise sd"
    chain = pd.DataFrame({name: [0, 1] * 500 for name in "abc"})
    learned = dg.learn_network(chain, {name: [0, 1] for name in "abc"}, epsilon=3, noise=SEEDED(1))
    yield "learned network", learned, "so the choice cost nothing"
    yield "learned probabilities", learned.probabilities, "strength: how far the child depends on the parent"
    yield (
        "parameters",
        dg.posterior(sums, prior=dg.expfam.Exponential().prior(1, 1), draws=20, seed=1),
        "Posterior of a family's parameters",
    )


@pytest.fixture(scope="module")
def values():
    return {name: (value, said) for name, value, said in pages()}


NAMES = [
    *("FourierMechanism", "PosteriorSample", "MapEstimate", "counts", "Gaussian", "joint", "posterior", "draws"),
    *("answer", "probabilities", "public probabilities", "network", "naive Bayes", "evaluation"),
    *(
        "evaluation's release",
        "cross-validation",
        "calibration",
        "budget",
        "moments",
        "learned network",
        "learned probabilities",
    ),
    "parameters",
]


def test_every_kind_is_tried(values):
    assert list(values) == NAMES


def slow(name):
    """A page that takes seconds is made in the second tier."""
    return pytest.param(name, marks=pytest.mark.proof) if name == "learned network" else name


@pytest.mark.parametrize("name", [slow(name) for name in NAMES])
def test_every_public_value_has_a_page(name, values):
    value, said = values[name]
    page = html_of(value)
    assert said in texts_of(page)
    assert "nan" not in re.findall(r"\w+", texts_of(page))
    seeded = name not in ("answer", "public probabilities", "network", "calibration", "budget")
    assert ("NOT PRIVATE" in page) == seeded
    json.dumps(data_of(page), allow_nan=False)


def test_a_private_release_is_not_called_anything_else(tmp_path):
    noisy = dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    assert "NOT PRIVATE" not in html_of(noisy)


def test_the_ledger_of_a_data_set(tmp_path):
    place = tmp_path / "secret-place" / "ledger.sqlite"
    place.parent.mkdir()
    budget = dg.Budget.open(place, dataset="survey", epsilon=2)
    dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.5"), budget=budget.for_("<ann>", "a first look"))
    budget.ledger.allow("<ann>", epsilon=1, expires="2030-01-01")
    page, said = html_of(budget), texts_of(html_of(budget))
    for words in (
        "25% of epsilon is spent",
        "a first look",
        "<ann>",
        budget.ledger.head,
        "nothing is wrong",
        "2030-01-02",
    ):
        assert words in said
    assert "secret-place" not in page
    alone = html_of(budget.ledger)
    for words in ("a first look", "<ann>", budget.ledger.head, "nothing is wrong", "2030-01-02"):
        assert words in texts_of(alone)
    assert "secret-place" not in alone
    assert "nothing is wrong" in texts_of(html_of(budget.ledger.verify()))
    wrong = html_of(budget.ledger.verify(expected_head="0" * 64))
    assert "something is wrong" in texts_of(wrong)
    assert "nothing is wrong" not in texts_of(wrong)
    budget.ledger.close()


def test_a_cross_validation_says_what_the_whole_cost_and_what_it_is_about(values):
    found, _ = values["cross-validation"]
    said = texts_of(html_of(found))
    assert "The release cost epsilon 2." in said
    assert "fitted on 4 of 5 parts of the rows" in said
    for name, score in found.evaluation.scores.items():
        assert name in said
        assert f"{score.estimate:.3g}" in said
    assert said.count("LaplaceMechanism") >= 5


def test_a_calibration_shows_its_coverage_and_its_verdict(values):
    found, _ = values["calibration"]
    page = html_of(found)
    assert found.verdict[1:] in texts_of(page)
    for level in (0.5, 0.8, 0.9, 0.95):
        assert f'<td class="n" data-v="{level}">{level}</td><td class="n" data-v="{found.covered(level)}">' in page
    table = found.parameters
    assert table["ks"].max() == pytest.approx(float(re.search(r'data-v="([^"]*)"', page.split("error</button>")[1])[1]))


def test_a_bad_calibration_is_said_in_a_box_of_warning(values):
    found, _ = values["calibration"]
    page = html_of(replace(found, ranks=found.ranks * 0.2, parameters=found.parameters.assign(ks=0.8)))
    assert re.search(r'class="words warning"[^>]*>\s*<p>Not calibrated', page)


def test_posterior_numbers_are_those_of_the_value(released):
    draws = dg.posterior(released, method="tables", draws=40, seed=1)
    data, ends = data_of(html_of(draws)), draws.interval(0.9)
    for i, name in enumerate(draws.network.domain.names):
        table = data["tables"][i]
        np.testing.assert_allclose(table["mean"], draws.mean().table(name).ravel(), atol=5.1e-6)
        np.testing.assert_allclose([table["low"], table["high"]], ends[name].reshape(2, -1), atol=5.1e-6)
        assert len(table["given"]) == draws.mean().table(name)[0].size


@pytest.mark.parametrize("method", ["tables", "plug-in"])
def test_a_posterior_with_unobserved_values_says_how_they_were_filled(method, tmp_path, monkeypatch):
    """On its page and in the command's report: the share, its interval, the causes, the distance of those observed."""
    domain = {"a": DOMAIN["a"], HOSTILE: dg.Categories([0, 1, 2], missing=dg.UNOBSERVED(-1))}
    rows = pd.DataFrame({"a": ["x", "y"] * 200, HOSTILE: [0, 1, 2, None] * 100}).astype({HOSTILE: "Int64"})
    network = dg.Network.of(domain, {HOSTILE: ["a"]})
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(5), budget=dg.Budget(5))
    value = dg.posterior(noisy, method=method, draws=50)
    (line,) = dg.questions.missing(value).to_dict("records")
    assert abs(line["missing"] - 0.25) < 0.1  # 100 of 400 rows
    page = html_of(value)
    said = " ".join(texts_of(page).split())
    numbers = " ".join(number(line[name]) for name in ("missing", "low", "high"))
    assert f"{HOSTILE} {numbers} a {number(line['moved'])}" in said
    assert "Probabilities are of all people" in said
    monkeypatch.chdir(tmp_path)
    dg.save(value, "value.json")
    told = CliRunner().invoke(main, ["report", "value.json"]).output
    assert f"{line['missing']:.3g}" in told
    assert "the share missing" in told


def test_released_numbers_are_those_of_the_value(released):
    data = data_of(html_of(released))
    for i, family in enumerate(released.value.network.families):
        table = data["counts"][i]
        assert set(family) <= set(table["axes"])
        np.testing.assert_array_equal(table["values"], released.value.tables[tuple(table["axes"])].ravel())


def test_a_large_posterior_leaves_tables_out_and_says_so(released, monkeypatch):
    from dpgraph.pages import learned

    monkeypatch.setattr(learned, "MOST_ENTRIES", 20)
    page = html_of(dg.posterior(released, method="plug-in"))
    left = sum(table is None for table in data_of(page)["tables"])
    assert 0 < left < 8
    assert f"The tables of {left} variables are left out" in texts_of(page)


def test_coefficients_and_states_are_on_their_pages(regression, hidden):
    said = texts_of(html_of(regression))
    for name, value in regression.model_.draws.mean().items():
        assert name in said
        assert f"{value:.3g}" in said
    page = html_of(hidden)
    drawn = re.findall(r"<title>(\w), (\d+): state (\d), (\d+) %</title>", page)
    frame = hidden.predict()
    assert [(r, int(m), int(s)) for r, m, s, _ in drawn] == list(
        frame[["region", "month", "state"]].itertuples(index=False, name=None)
    )
    np.testing.assert_allclose([float(p) for *_, p in drawn], 100 * frame["probability"], atol=0.51)
    name = hidden.fields[0]
    levels = hidden.network.domain.levels(name)
    for k, mean in enumerate(hidden.mean_emission(name)):
        assert all(
            f"<title>state {k}: {level}: {number(one)}," in page for level, one in zip(levels, mean, strict=True)
        )


def test_arcs_are_as_wide_as_they_are_strong():
    sure = {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]], "c": [[0.6, 0.4], [0.4, 0.6]]}
    network = dg.Network.of({name: [0, 1] for name in "abc"}, {"b": ["a"], "c": ["a"]})
    page = html_of(dg.Probabilities(network, {name: np.array(table) for name, table in sure.items()}))
    assert re.findall(r'class="arc (w\d)" data-p="0" data-c="(\d)"', page) == [("w4", "1"), ("w1", "2")]


SMALL = "alarm asia barley cancer child earthquake hailfinder hepar2 insurance mildew sachs survey water win95pts"
LARGE = "andes diabetes link munin munin1 munin2 munin3 munin4 pathfinder pigs"


def points_of(path):
    """Points along a drawn path of curves and vertical lines."""
    t = np.linspace(0, 1, 25)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    here, found = None, []
    for kind, text in re.findall(r"([MCV])([^MCV]*)", path):
        numbers = [float(one) for one in text.split()]
        if kind == "M":
            found.append([numbers])
        elif kind == "C":
            found.append(weights @ np.array([*here, *numbers]).reshape(4, 2))
        else:
            found.append(np.hstack([0 * t + here[0], here[1] + t * (numbers[0] - here[1])]))
        here = found[-1][-1]
    return np.vstack(found)


def is_clear(network):
    """Each arc leads from its parent's box down to its child's box, clear of other boxes and other parents' routes."""
    graph, layout = drawn(network, "", ""), layered(network)
    middles, half = np.array(graph.places), np.array([graph.box / 2, BOX / 2])
    assert {(parent, child) for parent, child, *_ in graph.arcs} == {
        (network.position[parent], network.position[child])
        for child, parents in network.parents.items()
        for parent in parents
    }
    for parent, child, path, _ in graph.arcs:
        points = points_of(path)
        np.testing.assert_allclose(points[0], middles[parent] + [0, half[1]], atol=0.11)
        np.testing.assert_allclose(points[-1], middles[child] - [0, half[1]], atol=0.11)
        assert (np.diff(points[:, 1]) >= 0).all()
        assert np.abs(np.diff(points, axis=0)).max() < graph.width / 8
        near = middles[((middles > points.min(axis=0) - half) & (middles < points.max(axis=0) + half)).all(axis=1)]
        inside = (np.abs(points[:, None] - near) < half - 0.1).all(axis=2)
        assert not inside.any(), (network.domain.names[parent], network.domain.names[child])
    taken = [
        {(x, 1.0) for x, y in zip(layout.across, layout.down, strict=True) if y == row} for row in range(layout.height)
    ]
    assert all(taken)
    for (parent, _), route in layout.routes.items():
        for at, x in enumerate(route, layout.down[parent] + 1):
            taken[at].add((x, WAYPOINT))
    for row in taken:
        places, sizes = np.array(sorted(row)).T
        assert (np.diff(places) >= (sizes[1:] + sizes[:-1]) / 2 - 1e-9).all()
        assert places[0] - sizes[0] / 2 >= -1e-9
        assert places[-1] + sizes[-1] / 2 <= layout.width + 1e-9
    return True


@pytest.mark.parametrize(
    "name", [*SMALL.split(), *(pytest.param(name, marks=pytest.mark.proof) for name in LARGE.split())]
)
def test_no_arc_of_an_example_crosses_a_box(name):
    assert is_clear(dg.read_network(f"example:{name}"))


@given(st.data(), st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=25)
def test_no_arc_of_any_network_crosses_a_box(data, count, most):
    names = [f"v{i}" for i in range(count)]
    parents = {
        name: data.draw(st.lists(st.sampled_from(names[:i]), max_size=most, unique=True))
        for i, name in enumerate(names[1:], 1)
    }
    assert is_clear(dg.Network.of({name: [0, 1] for name in names}, parents))


def test_a_hundred_variables_are_placed_within_a_second():
    rng = np.random.default_rng(1)
    names = [f"v{i}" for i in range(100)]
    parents = {name: [names[j] for j in rng.choice(i, min(i, 4), replace=False)] for i, name in enumerate(names)}
    network = dg.Network.of({name: [0, 1] for name in names}, parents)
    begin = time.process_time()
    drawn(network, "", "")
    assert time.process_time() - begin < 1
    assert is_clear(network)


def test_a_page_has_the_risk_its_curve_and_what_it_supposes():
    unit = dg.PrivacyUnit("add-remove", 2)
    gaussian = {"epsilon": 1, "delta": "1e-6", "unit": unit}
    counts = dg.count(ROWS.assign(who=range(len(ROWS))), NETWORK, person="who", rows_per_person=2)
    release = dg.release(counts, dg.GaussianMechanism(1, "1e-6"), budget=dg.Budget(**gaussian))
    budget, report = dg.Budget(**gaussian, accounting="gdp"), dg.privacy_cost(NETWORK, **gaussian)
    for value, risk in ((release, Risk.of(release)), (budget, Risk.of(budget)), (report, report.risk)):
        page = html_of(value)
        said = " ".join(texts_of(page).split())
        for words in (str(risk), risk.assumption, *(f"{fact} {bound}" for fact, bound in risk.facts())):
            assert words in said
        shown = re.search(r'class="curve" points="([^"]*)"', page)[1].split()
        assert len(shown) == len(risk.curve())
        for point, (x, y) in zip(shown, risk.curve(), strict=True):
            across, down = map(float, point.split(","))
            assert ((across - 60) / 180, (190 - down) / 180) == pytest.approx((x, y), abs=1e-4)


GRIDS = {
    "asia": lambda: NETWORK,
    "its own probabilities": lambda: read_probabilities("example:asia"),
    "one level": lambda: dg.Network.of({"a": [0, 1, 2], "b": ["x"], "c": [0, 1]}, {"c": ["a", "b"], "b": ["a"]}),
}


@pytest.mark.parametrize("unit", [dg.PrivacyUnit(), dg.PrivacyUnit("add-remove", 2)], ids=str)
@pytest.mark.parametrize(
    "subject", ["asia", pytest.param("its own probabilities", marks=pytest.mark.proof), "one level"]
)
def test_a_grid_holds_what_reports_at_its_epsilons_and_rows_hold(subject, unit):
    network, settings = GRIDS[subject](), {"delta": "1e-6", "unit": unit}
    grid = cost_grid(dg.privacy_cost(network, epsilon="0.7", **settings), 12345)
    assert (grid["epsilons"][grid["start"][0]], grid["rows"][grid["start"][1]]) == (0.7, 12345)
    for epsilon, rows in ((0.01, 100), (0.7, 12345), (10.0, 30_000_000)):
        budget, at = grid["budgets"][grid["epsilons"].index(epsilon)], grid["rows"].index(rows)
        report = dg.privacy_cost(network, epsilon=str(epsilon), n=rows, **settings)
        assert repr(eval(budget["typed"], {"dg": dg})) == repr(report.recommended)
        found = {row["mechanism"]: row for row in budget["mechanisms"]}
        assert [name for name, row in found.items() if row["best"]] == [
            next(row["mechanism"] for row in report.mechanism_rows if not row["mechanism"].startswith(DRAWN))
        ]
        for row in report.mechanism_rows:
            assert found[row["mechanism"]] | {"rmse": found[row["mechanism"]]["rmse"][at]} == pytest.approx(
                row | {name: found[row["mechanism"]][name] for name in ("best", "paper")}, nan_ok=True
            )
        for i, row in enumerate(report.family_rows):
            assert budget["families"][i] == [row[name] for name in COLUMNS]
            assert (budget["tv"][at][i], budget["kl"][at][i]) == (row["tv"], row["kl"])


def test_a_question_and_its_widths_are_on_the_page():
    report = dg.privacy_cost(NETWORK, epsilon=1, n=100)
    widths = pd.DataFrame({"level": ["x"], "width": [0.125], "noise": [0.5]})
    asked = SimpleNamespace(question="P(a | b=1)", widths=widths, interval=0.9, worlds=4, n=100)
    said = texts_of(html_of(replace(report, question=asked)))
    assert "How well it would answer P(a | b=1)" in said
    assert "0.125" in said


def test_a_page_of_very_many_variables_has_powers_of_ten_alone(monkeypatch):
    monkeypatch.setattr(grids, "MANY_VARIABLES", 1)
    made = data_of(html_of(dg.privacy_cost(NETWORK, epsilon="0.3", n=700)))["cost"]
    assert made["epsilons"] == [0.1, 0.3, 1, 10]
    assert made["rows"] == [100, 700, *(10**power for power in range(3, 8))]


def test_the_commands(tmp_path, released):
    run = CliRunner().invoke
    page = tmp_path / "p.html"
    done = run(main, ["cost", "example:asia", "--epsilon", "1", "--html", str(page), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epsilon"] == "1"
    found = data_of(page.read_text())["cost"]
    assert found["epsilons"][found["start"][0]] == 1
    dg.save(released, tmp_path / "r.json")
    done = run(main, ["report", str(tmp_path / "r.json"), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "Release by LaplaceMechanism" in page.read_text()
    (tmp_path / "n.toml").write_text('[variables]\na = ["x", "y"]\n[parents]\na = []\n')
    done = run(main, ["report", str(tmp_path / "n.toml"), "--html", str(page)])
    assert done.exit_code == 0, done.output
    dg.Budget.open(tmp_path / "l.sqlite", dataset="survey", epsilon=2).ledger.close()
    done = run(main, ["report", str(tmp_path / "l.sqlite"), "--dataset", "survey", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "The privacy ledger of survey" in page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cost", "example:asia", "--epsilon", "1", "--html", "p.txt"], 2, "must end in .html"),
        (["report", "example:asia", "--html", "nowhere/p.html"], 2, "no folder"),
        (["report", "example:asia", "--release", "--html", "p.html"], 1, "no release"),
        (["report", "gone.json", "--html", "p.html"], 1, "gone.json"),
        (["report", "gone.sqlite", "--dataset", "d", "--html", "p.html"], 1, "LedgerError"),
        (["report", "x", "--dataset", "d", "--release", "--html", "p.html"], 2, "--release needs"),
    ],
)
def test_wrong_words_are_refused_and_nothing_is_written(words, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    assert said in done.output
    assert list(tmp_path.glob("*.html")) == []


def pairs_released(mechanism):
    domain = dg.Domain.of({name: [0, 1] for name in "abcd"})
    rows = pd.DataFrame({name: [0, 1] * 10 for name in "abcd"})
    return dg.release(dg.count(rows, dg.all_pairs(domain)), mechanism, budget=dg.Budget(1))


def test_the_page_of_all_pairs_lists_every_table_by_its_own_name():
    """Six tables of four variables: none is a variable's."""
    released = pairs_released(dg.LaplaceMechanism(1, tables="maximal"))
    page = html_of(released)
    assert "graph" not in data_of(page)
    assert len(released.value.tables) == 6
    for pair in ("a, b", "a, c", "a, d", "b, c", "b, d", "c, d"):
        assert page.count(f">{pair}<") == 1 + 4
    assert "choose_network" in texts_of(page)


def test_the_page_of_coefficients_without_a_graph_names_the_tables():
    page = html_of(pairs_released(dg.FourierMechanism(1)))
    assert "graph" not in data_of(page)
    for pair in ("a, b", "c, d"):
        assert f">{pair}<" in page


@pytest.mark.parametrize("what", ["tables", "report"])
def test_the_page_of_what_tables_without_a_graph_cost_names_them(what):
    pairs = dg.all_pairs({name: [0, 1] for name in "abcd"})
    made = pairs if what == "tables" else dg.privacy_cost(pairs, epsilon=1, n=100)
    page = html_of(made)
    for pair in ("a, b", "a, c", "a, d", "b, c", "b, d", "c, d"):
        assert page.count(f">{pair}<") == 1
    assert "Zhang et al. 2016 prove" not in page
    assert "LaplaceMechanism(" in texts_of(page)


def test_a_command_prices_tables_without_a_graph(tmp_path):
    path, page = tmp_path / "pairs.toml", tmp_path / "pairs.html"
    dg.save(dg.all_pairs({name: [0, 1] for name in "abcd"}), path)
    done = CliRunner().invoke(main, ["cost", str(path), "--epsilon", "1", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "6 maximal tables of 6 families, 24 cells" in done.stdout
    assert "variables 4" in done.stdout
    assert "what Zhang et al. 2016 prove" not in done.stdout
    assert ">c, d<" in page.read_text()
    done = CliRunner().invoke(main, ["report", str(path), "--html", str(page)])
    assert done.exit_code == 0, done.output


@pytest.mark.proof
@pytest.mark.parametrize("method", ["pairs", "greedy"])
def test_the_page_of_a_learned_network_lists_its_edges_and_its_file_has_them_too(method, tmp_path):
    rows = pd.DataFrame({name: [0, 1] * 500 for name in ("rain", "wet")})
    domain = {"rain": [0, 1], "wet": [0, 1]}
    learned = dg.learn_network(rows, domain, epsilon=3, method=method, noise=SEEDED(1))
    page = texts_of(html_of(learned))
    assert ("share: the part of draws" in page) == (method == "pairs")
    assert ("chosen with a part of the budget" in page) == (method == "greedy")
    assert learned.reason in page
    dg.save(learned, tmp_path / "learned.json")
    done = CliRunner().invoke(main, ["report", str(tmp_path / "learned.json"), "--html", str(tmp_path / "p.html")])
    assert done.exit_code == 0, done.output
    assert "strength: how far the child depends" in texts_of((tmp_path / "p.html").read_text())


def test_a_huge_number_has_three_digits():
    """It had forty-four."""
    budget = dg.Budget(100)
    dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(1), budget=budget)
    said = texts_of(html_of(budget))
    assert "at most 2.69e+43 times as likely" in said
    assert not re.search(r"\d(,\d{3}){5}", said)
