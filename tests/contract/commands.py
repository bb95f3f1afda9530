"""Every command that spends, with every option that decides how, as cases of the contract: a CSV in, a file out."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.privacy.exact_loss import RecordingNoise
from tests.contract import models
from tests.contract.case import Case
from tests.contract.enumeration import ADD, ADD_3, REPLACE, UNITS, Rows
from tests.contract.estimators import few_neighbours, frame, learned_by_plug_in

NETWORK = """
[variables]
sex = ["F", "M"]
pay = [0, 1]
[parents]
sex = []
pay = ["sex"]
"""
LOG = """
[variables]
region = ["N"]
month = [1, 2]
kind = ["a", "b"]
"""
LONGER_LOG = LOG.replace("[1, 2]", "[1, 2, 3, 4]")
POINTS = """
[variables]
x = { bounds = [-1, 1] }
y = { bounds = [-1, 1] }
"""
OPEN = """
[variables]
sex = { words = ["F", "M"] }
pay = { numbers = [0, 4] }
"""
#: What each command reads: the declaration, the columns, and four kinds of rows.
TABLES = {
    "net": (NETWORK, ["sex", "pay"], list(itertools.product("FM", [0, 1]))),
    "log": (LOG, ["region", "month", "kind"], list(itertools.product("N", [1, 2], "ab"))),
    "longer log": (LONGER_LOG, ["region", "month", "kind"], list(itertools.product("N", [1, 2], "ab"))),
    "open": (OPEN, ["sex", "pay"], list(itertools.product("FM", [0, 1]))),
    "points": (POINTS, ["x", "y"], list(itertools.product([-1, 1], [-1, 1]))),
}
NAIVE_BAYES, HMM, REGRESSION = "fit naive-bayes", "fit hmm", "fit regression"
CLASSIFIER = "fit classifier"
CHAINS = ("--iterations", "4", "--burn-in", "2")
#: Options that the table need not name.
USUAL = {"--epsilon", "--target", "--sequence", "--time", "--states", "--iterations", "--burn-in", "--draws"}


def case(command: str, table: str, *words: str, units: tuple[dg.PrivacyUnit, ...] = UNITS, **more: Any) -> Case:
    """A command on a table; ``words`` are its settings beyond whom it protects."""
    declared, names, kinds = TABLES[table]

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        whom = ["--neighbours", unit.neighbours, "--rows-per-person", str(unit.rows_per_person)]
        entries = frame(kinds, names, rows)
        if "--person" in words:
            entries = entries.assign(who=7)
        source = mock.patch("dpgraph.privacy.release.SecureNoise", return_value=noise)
        with TemporaryDirectory() as desk, chdir(desk), source:
            Path("public.toml").write_text(declared)
            entries.to_csv("rows.csv", index=False)
            option = {"release": "--network", "discover": "--declaration"}.get(command, "--domain")
            out = "out.toml" if command == "discover" else "out.json"
            said = CliRunner().invoke(
                main, [*command.split(), "rows.csv", option, "public.toml", *words, *whom, "--out", out]
            )
            assert said.exit_code == 0, said.output
            return _told(said.output), Path(out).read_text()

    given = zip(words[::2], words[1::2], strict=True)
    setting = " ".join(f"{option} {value}" for option, value in given if option not in USUAL or value == "auto")
    return Case((command, *words), setting, make, few_neighbours, units, **more)


def _told(output: str) -> list[str]:
    """The lines of an output, but the one of a process that compiles first: it depends on the machine alone."""
    return [line for line in output.splitlines() if not line.startswith("compiling the sampler once")]


def judged(model: Any, table: str, setting: str, *words: str, units: tuple[dg.PrivacyUnit, ...] = UNITS) -> Case:
    """A saved model on a file of rows; ``words`` are settings that decide nothing of what is spent."""
    _, names, kinds = TABLES[table]

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        whom = ["--neighbours", unit.neighbours, "--rows-per-person", str(unit.rows_per_person)]
        source = mock.patch("dpgraph.privacy.release.SecureNoise", return_value=noise)
        with TemporaryDirectory() as desk, chdir(desk), source:
            dg.save(model, "model.json")
            entries = frame(kinds, names, rows)
            (entries.assign(who=7) if "--person" in words else entries).to_csv("rows.csv", index=False)
            spent = ["--epsilon", "0.8", *whom, *words, "--out", "out.json"]
            said = CliRunner().invoke(main, ["evaluate", "model.json", "rows.csv", *spent])
            assert said.exit_code == 0, said.output
            return _told(said.output), Path("out.json").read_text()

    return Case(("evaluate", *words), setting, make, few_neighbours, units)


def domain_of(text: str) -> dg.Domain:
    """The variables of a declaration."""
    return dg.Domain.of(tomllib.loads(text)["variables"])


def cases() -> Iterator[Case]:
    """All of them."""
    for mechanism in ("auto", "laplace", "fourier", "posterior-sample", "map"):
        yield case("release", "net", "--mechanism", mechanism, "--epsilon", "0.8")
    yield case("release", "net", "--mechanism", "gaussian", "--epsilon", "0.8", "--delta", "1e-6")
    for tables in ("merged", "maximal", "families"):
        yield case("release", "net", "--tables", tables, "--epsilon", "0.8")
    for allocation in ("optimal", "uniform"):
        yield case("release", "net", "--tables", "families", "--allocation", allocation, "--epsilon", "0.8")
    yield case("release", "net", "--person", "who", "--epsilon", "0.8", units=(REPLACE, ADD, ADD_3))
    yield case("discover", "open", "--epsilon", "0.8")
    yield case("discover", "open", "--epsilon", "0.8", "--delta", "1e-6")
    yield case("discover", "open", "--person", "who", "--epsilon", "0.8", units=(REPLACE, ADD, ADD_3))
    yield case("learn", "net", "--epsilon", "0.8")
    yield case("learn", "net", "--epsilon", "0.8", "--delta", "1e-6")
    yield case("learn", "net", "--person", "who", "--epsilon", "0.8", units=(REPLACE, ADD, ADD_3))
    yield case(NAIVE_BAYES, "net", "--target", "sex", "--person", "who", "--epsilon", "0.8", units=(ADD, ADD_3))
    yield case(CLASSIFIER, "net", "--target", "sex", "--epsilon", "0.8")
    yield case(CLASSIFIER, "net", "--target", "sex", "--epsilon", "0.8", "--delta", "1e-6")
    yield case(CLASSIFIER, "net", "--target", "sex", "--person", "who", "--epsilon", "0.8", units=(ADD, ADD_3))
    point = ("--target", "y", "--person", "who", "--draws", "20", "--epsilon", "0.8")
    yield learned_by_plug_in(case(REGRESSION, "points", *point, units=(ADD, ADD_3)))
    for inference in ("noise-aware", "plug-in"):
        yield case(NAIVE_BAYES, "net", "--target", "sex", "--inference", inference, "--epsilon", "0.8")
    yield from _hmm()
    yield judged(models.classifier(domain_of(NETWORK), "sex"), "net", "classes")
    yield judged(models.classifier(domain_of(NETWORK), "sex"), "net", "persons", "--person", "who", units=(ADD, ADD_3))
    yield judged(models.fitted_regression(-1.0, 1.0), "points", "target")
    yield judged(models.entries(domain_of(LOG), "region", "month"), "log", "entries", "--json")
    for inference, missing in (("noise-aware", "error"), ("plug-in", "error"), ("plug-in", "drop")):
        how = ("--inference", inference, "--on-missing", missing, "--draws", "20", "--epsilon", "0.8")
        units = UNITS if missing == "error" else (ADD, ADD_3)
        yield learned_by_plug_in(case(REGRESSION, "points", "--target", "y", *how, units=units))


def _hmm() -> Iterator[Case]:
    any_log = ("--sequence", "region", "--time", "month", "--epsilon", "0.8", *CHAINS)
    log = (*any_log, "--states", "2")
    for inference, sampler in itertools.product(("noise-aware", "plug-in"), ("blocked", "collapsed")):
        yield case(HMM, "log", *log, "--inference", inference, "--sampler", sampler)
    yield case(HMM, "log", *log, "--person", "who", units=(ADD, ADD_3))
    yield case(HMM, "longer log", *any_log, "--states", "auto", "--most-states", "2", units=(REPLACE, ADD_3))
