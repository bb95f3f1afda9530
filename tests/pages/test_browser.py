"""Pages in a real browser: nothing is fetched, nothing fails, and the sliders show what Python computed."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.keys import Keys

import dpgraph as dg
from dpgraph.files.networks import read_probabilities
from tests.pages.test_pages import HOSTILE, hostile_network

pytestmark = pytest.mark.systems

#: Contrast that WCAG 2 asks of text and of parts of controls and drawings.
TEXT, PARTS = 4.5, 3.0

#: Numbers of a grid are written to six digits.
SIX = 5.1e-6


def requests(browser):
    """Every address that a page asked for."""
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]


def quiet(page):
    """Whether the page asked for nothing but itself, and the console is empty."""
    asked = [url for url in requests(page.browser) if not url.startswith("data:")]
    assert asked in ([], [page.path.as_uri()])
    assert page.browser.get_log("browser") == []


def values():
    return (
        "network",
        "report",
        "release",
        "posterior",
        "hidden",
        "regression",
        "answer",
        "budget",
        "cross-validation",
        "calibration",
        "ledger",
    )


@pytest.fixture(params=values())
def value(request, asia, released, hidden, regression, validated, calibrated, ledger):
    match request.param:
        case "network":
            return asia
        case "report":
            return dg.privacy_cost(asia, epsilon=1, delta="1e-6", n=500, unit=dg.PrivacyUnit("add-remove"))
        case "release":
            return released
        case "posterior":
            return dg.posterior(released, method="plug-in")
        case "answer":
            return dg.query(dg.posterior(released, method="tables", draws=20, seed=1), "lung")
        case "budget":
            return dg.Budget(1)
    given = {"hidden": hidden, "regression": regression, "cross-validation": validated, "calibration": calibrated}
    return (given | {"ledger": ledger})[request.param]


def test_a_page_asks_for_nothing_and_fails_nowhere(value, opened):
    page = opened(value)
    for node in page.elements(".node")[:3]:
        node.click()
    for head in page.elements("th button")[:4]:
        page.run("arguments[0].click()", head)
    quiet(page)


def test_the_policy_stops_what_would_be_fetched(opened, asia):
    page = opened(asia)
    page.run("const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);")
    page.until("return true")
    time.sleep(0.2)
    assert [entry["level"] for entry in page.browser.get_log("browser")] != []
    page.browser.get_log("performance")


# --- the grid


def put(page, css, value):
    """Moves a slider to a value of its grid and waits until the page shows it."""
    name, values = ("epsilon", "epsilons") if css == "#epsilon" else ("n", "rows")
    page.run(
        "const e = document.querySelector(arguments[0]);"
        "e.value = JSON.parse(document.getElementById('data').textContent).cost[arguments[2]].indexOf(arguments[1]);"
        "e.dispatchEvent(new Event('input', {bubbles: true}))",
        css,
        value,
        values,
    )
    page.until("return Number(document.body.dataset[arguments[0]]) === arguments[1]", name, value)


SUBJECTS = {
    "asia": lambda: dg.read_network("example:asia"),
    "asia with its own probabilities": lambda: read_probabilities("example:asia"),
    "alarm": lambda: dg.read_network("example:alarm"),
    "one level": lambda: dg.Network.of({"a": [0, 1, 2], "b": ["x"], "c": [0, 1]}, {"c": ["a", "b"], "b": ["a"]}),
}
UNITS = [dg.PrivacyUnit(), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("add-remove", 3)]


#: Every unit, pure and with a delta; the largest subject, which takes eight times as long, once of each.
SLIDERS = [(name, delta, unit) for name in SUBJECTS for delta in (0, "1e-6") for unit in UNITS
           if name != "alarm" or unit is UNITS[0 if delta else 2]]  # fmt: skip


@pytest.mark.parametrize(("name", "delta", "unit"), SLIDERS, ids=str)
def test_the_sliders_show_what_python_computes(name, delta, unit, opened):
    subject, settings = SUBJECTS[name](), {"delta": delta, "unit": unit}
    page = opened(dg.privacy_cost(subject, epsilon=1, n=1000, **settings))
    for epsilon, n in ((1, 1000), (0.05, 300), (2, 300_000)):
        put(page, "#epsilon", epsilon)
        put(page, "#rows", n)
        agrees(page, dg.privacy_cost(subject, epsilon=epsilon, n=n, **settings))
    quiet(page)


def agrees(page, report):
    """The tables of a page and of a report are alike to the six digits that a page has."""
    labels = [row["mechanism"] for row in report.mechanism_rows]
    shown = {row[0].replace(" ← recommended", ""): row for row in page.table("#mechanisms")}
    assert set(shown) == set(labels)
    for row in report.mechanism_rows:
        numbers = [
            np.nan if value in ("-", None) else value for value in (shown[row["mechanism"]][k] for k in (1, 3, 4))
        ]
        np.testing.assert_allclose(numbers, [row["rmse"], row["lowest scale"], row["highest scale"]], rtol=SIX)
    known = [row[1] for row in page.table("#mechanisms") if isinstance(row[1], float | int)]
    assert known == sorted(known)
    best = next(row for row in report.mechanism_rows if not row["mechanism"].startswith(("Posterior sample", "MAP")))
    assert page.run("return document.body.dataset.best") == best["mechanism"]
    wanted = {row["variable"]: row for row in report.family_rows}
    for name, _, cells, _, scale, rmse, tv, kl, needed in page.table("#families"):
        row = wanted.pop(name)
        assert cells == row["cells"]
        np.testing.assert_allclose([rmse, tv, kl, scale], [row[k] for k in ("rmse", "tv", "kl", "scale")], rtol=SIX)
        assert needed == row["n needed"]
    assert wanted == {}


def test_a_slider_moves_the_number_and_the_keyboard_moves_the_slider(opened, asia):
    page = opened(dg.privacy_cost(asia, epsilon=1, n=1000))
    slider = page.element("#epsilon")
    before = page.table("#mechanisms")[0][1]
    slider.send_keys(Keys.ARROW_RIGHT)
    page.until("return Number(document.body.dataset.epsilon) > 1")
    epsilon = float(page.text("#epsilon-number"))
    assert epsilon == float(page.run("return document.body.dataset.epsilon")) > 1
    assert f"epsilon {epsilon:g}" == slider.get_attribute("aria-valuetext")
    after = page.table("#mechanisms")[0][1]
    assert after == pytest.approx(dg.privacy_cost(asia, epsilon=epsilon).mechanism_rows[0]["rmse"], rel=SIX)
    assert after < before
    assert f"'{epsilon:g}'" in page.text("#typed")
    page.element("#reset").click()
    page.until("return Number(document.body.dataset.epsilon) === 1")


# --- choosing, walking, finding, sorting


def chosen(page):
    return page.text("#chosen h3")


def test_a_click_and_the_keys_choose_a_variable(opened, asia):
    page = opened(dg.privacy_cost(asia, epsilon=1, n=1000))
    place = asia.position["either"]
    page.element(f".node[data-i='{place}']").click()
    assert chosen(page) == "either"
    for words in ("lung, tub", "xray, dysp", "The arc from tub costs", "rows needed"):
        assert words in page.text("#chosen")
    assert len(page.elements(".arc.near")) == 4
    active = page.browser.switch_to.active_element
    active.send_keys(Keys.ARROW_DOWN)
    assert chosen(page) in ("xray", "dysp")
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_UP)
    assert chosen(page) in ("either", "bronc")
    view = "return document.getElementById('graph').getBoundingClientRect().width"
    before = page.run(view)
    page.browser.switch_to.active_element.send_keys("+")
    assert page.run(view) == pytest.approx(1.5 * before, rel=1e-3)
    page.browser.switch_to.active_element.send_keys("0")
    assert page.run(view) == pytest.approx(before, rel=1e-3)
    assert len(page.elements(".node[tabindex='0']")) == 1
    quiet(page)


def test_every_control_is_reached_by_the_keyboard_and_seen(opened, released):
    page = opened(dg.privacy_cost(released.value.network, epsilon=1, n=1000))
    page.run("document.body.tabIndex = -1; document.body.focus()")
    reached = set()
    for _ in range(90):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        seen = page.run(
            "const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.id || e.className.baseVal || e.textContent.slice(0, 20), s.outlineStyle, "
            "e.classList.contains('node') ? getComputedStyle(e.children[1]).strokeWidth : s.outlineWidth]"
        )
        reached.add(seen[0])
        assert float(seen[2].removesuffix("px")) >= 1, seen
    assert {"epsilon", "rows", "reset", "find", "measure", "closer"} <= reached
    assert any("node" in name for name in reached)


def test_a_variable_is_found_by_its_name(opened, asia):
    page = opened(dg.privacy_cost(asia, epsilon=1))
    page.element("#find").send_keys("xra", Keys.ENTER)
    assert chosen(page) == "xray"
    assert page.element("#families tr.chosen td").text == "xray"
    page.element("#find").clear()
    page.element("#find").send_keys("nobody", Keys.ENTER)
    assert chosen(page) == "xray"


@pytest.mark.parametrize(("column", "name"), [(0, "variable"), (2, "cells"), (5, "rmse"), (6, "tv")])
def test_tables_are_sorted_both_ways(column, name, opened, asia):
    report = dg.privacy_cost(asia, epsilon=1, n=1000)
    page = opened(report)
    button = page.elements("#families thead button")[column]
    found = []
    for way in ("descending", "ascending") if column else ("ascending", "descending"):
        button.click()
        head = page.elements("#families thead th")[column]
        assert head.get_attribute("aria-sort") == way
        shown = [row[column] for row in page.table("#families")]
        assert shown == sorted(shown, reverse=way == "descending")
        found.append(shown)
    wanted = sorted(row[name] for row in report.family_rows)
    if column == 0:
        assert found[0] == wanted
    else:
        np.testing.assert_allclose(found[1], wanted, rtol=SIX)
    put(page, "#epsilon", 2)
    shown = [row[column] for row in page.table("#families")]
    assert shown == sorted(shown, reverse=column == 0)


def test_a_posterior_shows_the_table_that_is_chosen(opened, released):
    draws = dg.posterior(released, method="tables", draws=40, seed=1)
    page = opened(draws)
    page.element(f".node[data-i='{draws.network.position['dysp']}']").click()
    mean, (low, high) = draws.mean().table("dysp"), draws.interval(0.9)["dysp"]
    rows = page.table("#chosen table")
    assert len(rows) == mean.size
    levels, parents = draws.network.domain.levels, draws.network.parents["dysp"]
    for given, level, *numbers, _ in rows:
        index = (
            levels("dysp").index(level),
            *(levels(p).index(dict(x.split("=") for x in given.split(", "))[p]) for p in parents),
        )
        np.testing.assert_allclose(numbers, [mean[index], low[index], high[index]], atol=5.1e-6)


def test_a_release_shows_the_table_that_is_chosen(opened, released):
    page = opened(released)
    network = released.value.network
    page.element(f".node[data-i='{network.position['smoke']}']").click()
    head = [cell.text.removesuffix(" ↕") for cell in page.elements("#chosen th")][:-1]
    table = released.value.tables[tuple(head)]
    for *labels, count in page.table("#chosen table"):
        index = tuple(network.domain.levels(name).index(label) for name, label in zip(head, labels, strict=True))
        assert count == table[index]


# --- hostile names, contrast, dark, print, size


def test_a_hostile_name_runs_nowhere(opened, tmp_path):
    network = hostile_network()
    rows = dg.statistics.Codes(network.domain, {name: np.array([0, 1] * 20) for name in network.domain.names})
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    features, labels = (pd.DataFrame({name: list(rows.columns[name])}) for name in reversed(network.domain.names))
    for name, frame in (("b'\"", features), (HOSTILE, labels)):
        frame[name] = [network.domain.levels(name)[code] for code in frame[name]]
    model = dg.PrivateNaiveBayes(network.domain, target=HOSTILE, inference="plug-in")
    settings = {"epsilon": 1, "budget": dg.Budget(1)}
    settings_of_study = {"n": 20, "trials": 10, "draws": 5, "method": "tables"}
    for value in (
        dg.cross_validate(model, features, labels[HOSTILE], **settings),
        dg.audit.calibration(network, dg.LaplaceMechanism(1), **settings_of_study),
        hostile_ledger(tmp_path),
    ):
        page = opened(value)
        assert page.run("return document.body.textContent.includes(arguments[0])", HOSTILE)
        harmless(page)
    for value in (dg.privacy_cost(network, epsilon=1, n=10), noisy, dg.posterior(noisy, method="plug-in")):
        page = opened(value)
        for node in page.elements(".node"):
            node.click()
            assert chosen(page) in network.domain.names
        page.element("#find").send_keys(HOSTILE[:6], Keys.ENTER)
        assert chosen(page) == HOSTILE
        harmless(page)


def hostile_ledger(folder):
    """The ledger of a data set whose every label reads like a program."""
    budget = dg.Budget.open(folder / "hostile.sqlite", dataset=HOSTILE, epsilon=2, who=HOSTILE, purpose=HOSTILE)
    budget.ledger.allow(HOSTILE, epsilon=1)
    rows = pd.DataFrame({"a": ["x", "y"]})
    dg.release(dg.count(rows, dg.Network.of({"a": ["x", "y"]}, {})), dg.LaplaceMechanism(1), budget=budget)
    return budget.ledger


def harmless(page):
    """Whether no name of the page was run, or made into an element."""
    assert page.run("return document.body.dataset.hacked") is None
    assert page.run("return document.scripts.length") == 2
    assert page.run("return document.images.length") == 0
    quiet(page)


CONTRASTS = """
const parse = (text) => { const m = text.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m[3] ?? 1]; };
const light = (c) => { const f = (v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
const found = [];
const seen = (e) => e.getClientRects().length > 0;
for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,a,dt,dd,label,button,select,input,code,.legend span')) {
  if (!e.textContent.trim() && e.value === undefined || !seen(e)) continue;
  const name = e.tagName + ' ' + e.textContent.slice(0, 20);
  found.push([ratio(parse(getComputedStyle(e).color), ground(e)), 'text', name]);
}
for (const e of document.querySelectorAll('svg text')) {
  if (!seen(e)) continue;
  const box = e.parentElement.classList.contains('node') ? e.previousElementSibling : null;
  if (e.classList.contains('count')) continue;  // black with a white rim
  const under = box ? parse(getComputedStyle(box).fill) : ground(e.closest('svg'));
  found.push([ratio(parse(getComputedStyle(e).fill), under), 'text', 'svg ' + e.textContent]);
}
for (const e of document.querySelectorAll('.arc, .dot, .bar, .curve, .node rect')) {
  if (!seen(e)) continue;
  const colour = parse(getComputedStyle(e)[e.matches('.dot') ? 'fill' : 'stroke']);
  const through = Number(getComputedStyle(e).opacity), under = ground(e.closest('svg'));
  const mixed = colour.map((part, i) => through * part + (1 - through) * under[i]);
  found.push([ratio(mixed, under), 'part', e.getAttribute('class') || e.tagName]);
}
return found;
"""


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_everything_can_be_read(scheme, media, value, opened):
    page = opened(value, scheme, media)
    found = page.run(CONTRASTS)
    assert len(found) > 20
    least = {"text": TEXT, "part": PARTS}
    assert [one for one in found if one[0] < least[one[1]]] == []
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light" or media == "print")


def test_paper_holds_all_and_no_controls(opened, asia):
    page = opened(dg.privacy_cost(asia, epsilon=1, n=1000), media="print")
    hidden = "return getComputedStyle(document.querySelector(arguments[0])).display"
    for css in ("nav", ".graph-controls", "#reset"):
        assert page.run(hidden, css) == "none"
    tall = page.run("const e = document.querySelector('.tall'); return [e.clientHeight, e.scrollHeight]")
    assert tall[0] >= tall[1]
    assert page.browser.print_page()  # a PDF


#: Words of tables that are broken into lines, and the smallest text of a drawing beside the network, in pixels.
BROKEN = """
const broken = [], range = document.createRange();
for (const cell of document.querySelectorAll('td, th')) for (const node of cell.childNodes) {
  if (node.nodeType !== Node.TEXT_NODE) continue;
  for (const { 0: word, index } of node.data.matchAll(/\\w+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    if (range.getClientRects().length > 1) broken.push(word);
  }
}
const sizes = [...document.querySelectorAll('.intervals text, .ribbons text')].map((text) =>
  text.getBoundingClientRect().height);
return [broken, Math.min(...sizes, 99)];
"""


@pytest.mark.parametrize("width", [375, 480, 1280])
def test_no_page_is_wider_than_its_window_and_its_words_are_whole(width, value, opened):
    page = opened(value, width=width)
    wide, window = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window == width
    broken, smallest = page.run(BROKEN)
    assert broken == []
    assert smallest >= 10


def test_a_thousand_variables_are_usable(opened):
    """A thousand variables of three levels, each with up to two parents before it."""
    rng = np.random.default_rng(1)
    names = [f"v{i}" for i in range(1000)]
    parents = {name: [names[j] for j in rng.choice(i, min(i, 2), replace=False)] for i, name in enumerate(names)}
    report = dg.privacy_cost(dg.Network.of({name: [0, 1, 2] for name in names}, parents), epsilon=1, n=10_000)
    begin = time.monotonic()
    page = opened(report)
    read = time.monotonic() - begin
    begin = time.monotonic()
    put(page, "#epsilon", 10)
    moved = time.monotonic() - begin
    assert len(page.elements(".node")) == 1000
    page.element("#find").send_keys("v777", Keys.ENTER)
    assert chosen(page) == "v777"
    page.elements("#families thead button")[6].click()
    assert read < 40  # a few seconds where nothing else runs
    assert moved < 20
    quiet(page)
