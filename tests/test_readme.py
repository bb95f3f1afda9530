"""The README's Python runs as it stands, and its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpgraph.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.proof
def test_the_python_runs_in_order(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks("python")))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:the chains have not mixed", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "spent=0.5" in done.stdout
    assert "left: 0" in done.stdout


@pytest.mark.proof
def test_the_commands_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "survey.toml").write_text(blocks("toml")[0])
    lines = ["sex,age,work", "Female,30,Private", "Male,70,Public", "Male,20,", "Female,45,Elsewhere"]
    for name in ("rows.csv", "held_out.csv"):
        (tmp_path / name).write_text("\n".join(lines))
    (tmp_path / "new.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    commands = [line.split("#")[0].split() for line in blocks("sh")[1].splitlines() if line.startswith("dpgraph")]
    assert len(commands) == 10
    for command in commands:
        result = CliRunner().invoke(main, command[1:])
        assert result.exit_code == 0, (command, result.output)
    assert len((tmp_path / "synthetic.csv").read_text().splitlines()) == 1001
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 5


def test_the_make_targets_it_names_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", README + (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"demo", "test", "test-all", "test-fast", "lint", "bench"} <= named <= targets
