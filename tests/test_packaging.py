"""What is handed out: wheel and sdist, one version in all places, workflows of commands that exist."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import dpgraph as dg
from tests.installed import (
    REQUIREMENT,
    bare_files,
    copy_beside,
    lowest,
    lowest_places,
    needs_more,
    project,
    requirements,
)

pytestmark = pytest.mark.systems

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def built(folder, kind, out):
    """The file that a folder's build makes; nothing is downloaded."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    (made,) = out.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[kind])
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return built(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist() if not one.is_dir()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    found = members(wheel)
    package = {name for name in found if not name.startswith("dpgraph-")}
    tracked = [path for path in (ROOT / "dpgraph").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert package == {path.relative_to(ROOT).as_posix() for path in tracked}
    assert {"dpgraph/py.typed", "dpgraph/pages/templates/page.html", "dpgraph/pages/templates/page.js"} <= package
    assert {Path(name).suffix for name in package} <= {
        ".py",
        ".pyi",
        ".typed",
        ".html",
        ".css",
        ".js",
        ".toml",
        ".parquet",
    }
    assert {f"dpgraph/files/datasets/{name}.parquet" for name in dg.datasets.NAMES} <= package
    rest = {name.partition("/")[2] for name in set(found) - package}
    assert rest == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert wheel.stat().st_size < 1.5e6


def test_the_sdist_builds_the_same_wheel(sdist, wheel, tmp_path):
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python has it from 3.11.4 on
        archive.extractall(tmp_path, **safely)
    (root,) = {name.partition("/")[0] for name in names}
    held = {name.partition("/")[2] for name in names}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "tests/conftest.py"} <= held
    assert not [name for name in held if re.search(r"__pycache__|\.venv|datasets/rows|demo-output|^site/", name)]
    assert sdist.stat().st_size < 8e6
    again = members(built(tmp_path / root, "wheel", tmp_path / "wheel"))
    first = members(wheel)
    assert again.keys() == first.keys()
    for name in again:
        assert again[name] == first[name] or name.endswith("RECORD"), name


def test_the_version_has_one_source(wheel):
    metadata = members(wheel)[f"dpgraph-{dg.__version__}.dist-info/METADATA"].decode()
    assert f"\nVersion: {dg.__version__}\n" in metadata
    assert "version" not in project()
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == dg.__version__
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"What will be {dg.__version__}." in changes or f"## [{dg.__version__}] - " in changes


def test_the_changelog_has_the_headings_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions
    assert versions[0] == "[Unreleased]" or "Unreleased" not in text
    for version in versions:
        assert re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d( \[YANKED\])?", version), version
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_every_requirement_has_one_lowest_version_and_an_upper_bound_has_its_reason():
    assert len(lowest(requirements())) == len(requirements())
    rooms = (ROOT / "CONTRIBUTING.md").read_text()
    for line in requirements():
        name, _, bounds = REQUIREMENT.fullmatch(line).groups()
        if "<" in bounds:
            upper = bounds.split(",")[1]
            assert re.search(rf"^\| `{re.escape(name)}` `{re.escape(upper)}` \| \w", rooms, re.MULTILINE), line
    table = rooms.partition("## Dependencies")[2]
    for line in requirements():
        assert re.search(rf"\b{re.escape(REQUIREMENT.fullmatch(line)[1])}\b", table), line


def test_what_needs_an_extra_is_told_from_what_does_not():
    files = {file.relative_to(ROOT).as_posix() for file in bare_files()}
    assert len(files) > 30
    assert {"tests/files/test_bif.py", "tests/cli/test_start_up.py", "tests/test_extras.py"} <= files
    assert needs_more(ROOT / "tests" / "test_plot.py")
    assert needs_more(ROOT / "tests" / "structure" / "test_conversion.py")  # by what it imports of other tests


def test_all_tests_that_run_beside_a_wheel_are_copied(tmp_path):
    """Each file and folder of both runs, and no picture: a folder of tests was left out with another of its name."""
    copy_beside(tmp_path)
    for place in [*bare_files(), *lowest_places()]:
        copied = tmp_path / place.relative_to(ROOT)
        assert copied.exists(), copied
        assert place.is_file() or {one.name for one in place.iterdir()} - {"__pycache__"} <= set(os.listdir(copied))
    assert not (tmp_path / "docs" / "figures").exists()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_commands_of_the_makefile(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"- run: (.*)$", path.read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        target = re.fullmatch(r"make ([a-z-]+) PYTHON=python", command)
        assert target, command
        assert target[1] in targets, command


def test_workflows_try_each_python_that_is_declared():
    declared = [one.rpartition(" ")[2] for one in project()["classifiers"] if "Python :: 3." in one]
    (tried,) = re.findall(r"python: (\[.*\])", (ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert re.findall(r'"([\d.]+)"', tried) == declared
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"] == f">={declared[0]}"
