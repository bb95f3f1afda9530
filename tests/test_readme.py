"""The README's blocks run as typed in an empty folder, and print what it shows but for the noise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpgraph as dg

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs/reference/commands.md").read_text()


def blocks(language, text=README):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.proof
def test_the_python_prints_what_is_shown(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks("python")))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:under most draws a level", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown, printed = blocks("output")[0].splitlines(), done.stdout.splitlines()
    assert printed[0] == shown[0]  # of no noise
    words = [re.sub(r"-?\d[\de.-]*", "#", "\n".join(lines)).split() for lines in (printed, shown)]
    assert words[0] == words[1]


@pytest.mark.proof
def test_the_commands_run_as_typed_in_an_empty_folder(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "dpgraph").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpgraph.cli "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    place = tmp_path / "empty"
    place.mkdir()
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-e", "-c", blocks("sh")[1]],
        cwd=place,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = {path.name: path for path in place.iterdir()}
    assert {"cost.html", "release.html", "release.json", "model.bif", "classifier.json"} <= set(made)
    assert len(made["synthetic.csv"].read_text().splitlines()) == 1001
    assert len(made["predictions.csv"].read_text().splitlines()) == 245


def test_the_declaration_is_read(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(blocks("toml", COMMANDS)[0])
    assert dg.read_network(path).parents["work"] == ("sex", "age")


def test_the_make_targets_it_names_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README + (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"demo", "test", "test-all", "test-fast", "lint", "bench"} <= named <= targets
