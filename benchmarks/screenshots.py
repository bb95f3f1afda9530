"""Screenshots of pages, and pictures, as the documents show them: from public or simulated rows, with fresh noise.

    python benchmarks/screenshots.py --out docs/figures           all of them, some minutes
    python benchmarks/screenshots.py --only page-asia pictures    by name

Pages are photographed in the headless Chromium that the tests use, and sharpened to 868 pixels across in 256 colours;
of the page on a phone three screens are shown, of another its network.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

import dpgraph as dg

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT), str(ROOT / "datasets")]

#: The window, in pixels, and the width of what is kept.
WIDTH, KEPT, PHONE = 1180, 868, 375


def asia() -> Any:
    """The cost of asia."""
    return dg.privacy_cost(dg.load("example:asia"), epsilon=1, n=10_000)


#: Twelve variables of a stay in hospital.
STAY = {
    **dict.fromkeys(["age", "sex", "region"], ""),
    "education": "age sex",
    "work": "education sex region",
    "smoker": "age sex work",
    "alcohol": "sex work",
    "bmi": "age alcohol",
    "diabetes": "age bmi",
    "pressure": "age smoker bmi",
    "ward": "diabetes pressure",
    "outcome": "age ward smoker",
}


def stay() -> Any:
    """The cost of twelve variables."""
    network = dg.Network.of({name: ["a", "b", "c"] for name in STAY}, {name: STAY[name].split() for name in STAY})
    return dg.privacy_cost(network, epsilon=1, n=10_000)


def alarm() -> Any:
    """The cost of alarm."""
    return dg.privacy_cost(dg.read_network("example:alarm"), epsilon=1, n=10_000)


def munin() -> Any:
    """The cost of 1041 variables."""
    return dg.privacy_cost(dg.read_network("example:munin"), epsilon=1, n=10_000)


def release() -> Any:
    """A release of 2000 rows drawn from asia."""
    rows = dg.sample_rows(dg.load("example:asia"), 2000, 1)
    return dg.release(dg.count(rows, dg.read_network("example:asia")), dg.LaplaceMechanism(1), budget=dg.Budget(1))


def hidden() -> Any:
    """A hidden Markov model of the simulated event log."""
    import event_log

    domain = dg.read_domain("example:event_log")
    return dg.PrivateHMM(3, domain, epsilon=5, iterations=100, burn_in=100, random_state=1).fit(
        event_log.simulate(seed=1).rows
    )


def regression() -> Any:
    """A regression on simulated incomes, epsilon 1."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, 5000),
            "education": rng.integers(8, 19, 5000),
            "smoker": rng.choice(["no", "yes"], 5000),
        }
    )
    income = 5 + 0.2 * rows["age"] + 2 * rows["education"] - 6 * (rows["smoker"] == "yes") + rng.normal(0, 8, 5000)
    bounds = {"age": (18, 90), "education": (8, 18), "smoker": ["no", "yes"]}
    model = dg.PrivateLinearRegression(bounds, (0, 100), epsilon=1, random_state=1)
    return model.fit(rows, income.clip(0, 100).rename("income"))


#: Each page: what makes its value, the scheme, and the height that is kept.
PAGES: dict[str, tuple[Callable[[], Any], str, int]] = {
    "page-asia": (asia, "light", 1520),
    "page-network": (stay, "light", 720),
    "page-phone": (stay, "light", 812),
    "page-alarm": (alarm, "dark", 1520),
    "page-munin": (munin, "light", 1520),
    "page-release": (release, "light", 1200),
    "page-hmm": (hidden, "light", 1520),
    "page-regression": (regression, "light", 1200),
}


def pictures(out: Path) -> None:
    """Three of ``dpgraph.plot``'s pictures in one figure."""
    from matplotlib.figure import Figure

    found = release()
    draws, plug_in = dg.posterior(found, draws=400, seed=1), dg.posterior(found, method="plug-in")
    figure = Figure(figsize=(15, 9), layout="constrained")
    axes = figure.subplots(2, 2)
    axes[1, 1].set_axis_off()
    dg.plot.cost_curves(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1, n=10_000), ax=axes[0, 0])
    dg.plot.posterior(draws, "dysp", ax=axes[0, 1], plug_in=plug_in)
    asked = "lung", {"xray": "yes", "smoke": "yes"}
    dg.plot.answer(dg.query(draws, *asked), axes[1, 0], plug_in=dg.query(plug_in.sample(1, 400), *asked))
    figure.savefig(out / "pictures.png", dpi=70)


def photographed(browser: Any, name: str, value: Any, scheme: str, most: int) -> Image.Image:
    """The top of a value's page, or the part that its name says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        dg.write_html(value, path)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(path.as_uri())
        while browser.execute_script("return document.body.dataset.ready") != "yes":
            time.sleep(0.1)
        phone = name == "page-phone"
        width, height = (PHONE, most) if phone else (WIDTH, round(most * WIDTH / KEPT))
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        shown = ["html", "#s3", "#s4"] if phone else ["#s3" if name == "page-network" else "html"]
        whole = Image.new("RGB", (len(shown) * (width + 20) - 20, height), "gray")
        for at, part in enumerate(shown):
            browser.execute_script("document.querySelector(arguments[0]).scrollIntoView()", part)
            whole.paste(Image.open(io.BytesIO(browser.get_screenshot_as_png())), (at * (width + 20), 0))
        return whole


def kept(image: Image.Image, most: int, path: Path) -> None:
    """Writes a picture at the width that is kept."""
    image = image.resize((KEPT, round(image.height * KEPT / image.width)), Image.Resampling.LANCZOS)
    image.crop((0, 0, KEPT, min(most, image.height))).quantize(256).save(path, optimize=True)


def main() -> None:
    """Writes the pictures asked for."""
    from tests.pages.browser import started

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/figures")
    parser.add_argument("--only", nargs="*", default=[*PAGES, "pictures"])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [name for name in PAGES if name in asked.only]
    if chosen:
        browser, why = started(tempfile.mkdtemp())
        if browser is None:
            raise SystemExit(why)
        try:
            for name in chosen:
                make, scheme, most = PAGES[name]
                kept(photographed(browser, name, make(), scheme, most), most, asked.out / f"{name}.png")
                print(name)
        finally:
            browser.quit()
    if "pictures" in asked.only:
        pictures(asked.out)
        print("pictures")


if __name__ == "__main__":
    main()
