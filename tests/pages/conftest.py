"""One browser for all tests of pages, and pages of values made from seeded noise."""

import time

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from tests.pages.browser import READ, started

SEEDED = dg.testing.SeededNoise


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser; without one the tests that need it are skipped, or fail under CI."""
    found, why = started(tmp_path_factory.mktemp("browser"))
    if found is None:
        pytest.skip(why)
    yield found
    found.quit()


class Opened:
    """A page in the browser."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path

    def run(self, program, *values):
        """What a program in the page returns."""
        return self.browser.execute_script(program, *values)

    def until(self, program, *values):
        """Waits until a program in the page returns something true, and returns it."""
        end = time.monotonic() + READ
        while time.monotonic() < end:
            if found := self.run(program, *values):
                return found
            time.sleep(0.02)
        raise AssertionError(f"the page never said so: {program}")

    def element(self, css):
        return self.browser.find_element("css selector", css)

    def elements(self, css):
        return self.browser.find_elements("css selector", css)

    def text(self, css):
        return self.run("return document.querySelector(arguments[0]).textContent", css)

    def table(self, css):
        """The rows of a table: numbers in full, else texts."""
        return self.run(
            "return [...document.querySelector(arguments[0]).tBodies[0].rows].map(row => [...row.cells].map("
            "cell => cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v)))",
            css,
        )


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a value's page, in light or dark, on screen or paper."""

    def open_(value, scheme="light", media="screen", width=1280):
        path = tmp_path / "page.html"
        dg.write_html(value, path)
        asked = {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
        screen = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)  # a window has a least width
        browser.get("about:blank")
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(path.as_uri())
        page = Opened(browser, path)
        page.until("return document.body.dataset.ready === 'yes'")
        return page

    return open_


@pytest.fixture(scope="session")
def asia():
    return dg.read_network("example:asia")


@pytest.fixture(scope="session")
def released(asia):
    rows = dg.sample_rows(dg.load("example:asia"), 2000, 1)
    return dg.release(dg.count(rows, asia), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=SEEDED(1))


@pytest.fixture(scope="session")
def hidden():
    """Draws dealt out at random: 2 copies of 10 draws, 3 states."""
    domain = dg.Domain.of({"region": ["N", "S"], "month": list(range(14)), "kind": ["a", "b"], "size": [1, 2, 3]})
    rng = np.random.default_rng(5)
    return dg.results.HiddenMarkovModel(
        dg.hmm_network(domain, "region", "month"),
        "region",
        "month",
        rng.dirichlet(np.ones(3), (2, 10, 3)),
        {"kind": rng.dirichlet(np.ones(2), (2, 10, 3)), "size": rng.dirichlet(np.ones(3), (2, 10, 3))},
        rng.integers(0, 3, (2, 10, 2, 14)),
        np.zeros((2, 10)),
        np.ones((2, 14)),
        "noise-aware",
        "blocked",
    )


@pytest.fixture(scope="session")
def regression():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(18, 90, 500), "smoker": rng.choice(["no", "yes"], 500)})
    income = pd.Series(20 + 0.5 * rows["age"] + rng.normal(0, 3, 500), name="income").clip(0, 100)
    bounds = {"age": (18, 90), "smoker": ["no", "yes"]}
    settings = {"inference": "plug-in", "draws": 50, "random_state": 1, "noise": SEEDED(2)}
    return dg.PrivateLinearRegression(bounds, (0, 100), epsilon=5, **settings).fit(rows, income)


@pytest.fixture(scope="session")
def validated():
    """A cross-validation of naive Bayes on 400 rows."""
    rows = pd.DataFrame({"a": ["x", "y"] * 200, "b": [0, 1, 2, 1] * 100})
    model = dg.PrivateNaiveBayes({"a": ["x", "y"], "b": [0, 1, 2]}, target="a", inference="plug-in")
    return dg.cross_validate(model, rows[["b"]], rows["a"], epsilon=2, budget=dg.Budget(2), noise=SEEDED(1))


@pytest.fixture(scope="session")
def calibrated(asia):
    """A study of a few simulated data sets."""
    settings = {"n": 200, "trials": 20, "draws": 20, "method": "tables", "seed": 1}
    return dg.audit.calibration(asia, dg.LaplaceMechanism(1), **settings)


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    """A ledger with two charges and an allowance."""
    budget = dg.Budget.open(tmp_path_factory.mktemp("ledger") / "l.sqlite", dataset="survey", epsilon=2, source="rows")
    counts = dg.count(pd.DataFrame({"a": ["x", "y"] * 20}), dg.Network.of({"a": ["x", "y"]}, {}))
    for who in ("ann", "ben"):
        dg.release(counts, dg.LaplaceMechanism("0.5"), budget=budget.for_(who, "a look"))
    budget.ledger.allow("ann", epsilon=1, expires="2030-01-01")
    yield budget.ledger
    budget.ledger.close()
