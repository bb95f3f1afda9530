"""A process that has the third-party libraries in memory and forks a child for each run of tests.

It imports nothing of the package or its tests: a child finds them in the folder it is given, as a new process would,
but without the seconds that the libraries take. Requests are lines ``{"folder": ..., "tests": [...]}``, answers lines
``{"code": ..., "output": ..., "by": ..., "seconds": ...}``: the first test that failed, and processor time.
"""

import gc
import json
import os
import sys
import tempfile
import warnings
from importlib import import_module
from typing import BinaryIO

import pytest

LIBRARIES = (
    "arviz_stats.base", "click.testing", "hypothesis.strategies", "networkx", "numba", "numpy", "opendp.measurements",
    "pandas", "pgmpy.inference", "pgmpy.models", "pyarrow.csv", "pyarrow.parquet", "scipy.integrate", "scipy.optimize",
    "scipy.sparse.linalg", "scipy.special", "scipy.stats", "sklearn.base", "sklearn.utils.validation",
)  # fmt: skip
OPTIONS = ["-x", "-q", "--no-header", "-m", "", "--hypothesis-profile=planted"]
#: No plugin but hypothesis; the others would only be loaded.
PLUGINS = ["-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]


class Failures:
    """A plugin that keeps the names of the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called after each phase of a test."""
        if report.failed:
            self.names.append(report.nodeid)


def run_tests(folder: str, tests: list[str], output: int, failures: Failures) -> int:
    """Runs tests of a folder in this process, whose output goes to a file descriptor."""
    os.chdir(folder)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder, *(path for path in sys.path if path not in ("", here))]
    os.environ["PYTHONPATH"] = folder
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(output, stream)
    return int(pytest.main([*OPTIONS, *PLUGINS, *tests], plugins=[failures]))


def answer(folder: str, tests: list[str]) -> dict[str, object]:
    """Forks a child that runs tests of a folder, and waits for it."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as names:
        child = os.fork()
        if child == 0:
            code, failures = 70, Failures()
            try:
                code = run_tests(folder, tests, output.fileno(), failures)
                sys.stdout.flush()
                sys.stderr.flush()
                os.write(names.fileno(), "".join(failures.names[:1]).encode())
            finally:
                os._exit(code)
        _, status, usage = os.wait4(child, 0)
        text, by = (written(file) for file in (output, names))
        seconds = usage.ru_utime + usage.ru_stime
        return {"code": os.waitstatus_to_exitcode(status), "output": text, "by": by, "seconds": seconds}


def written(file: BinaryIO) -> str:
    """All that is in a file."""
    file.seek(0)
    return file.read().decode(errors="replace")


def main() -> None:
    """Serves requests until there are no more."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")] + ["PYTEST_CURRENT_TEST"]:
        os.environ.pop(name, None)
    with warnings.catch_warnings(action="ignore"):
        for library in LIBRARIES:
            import_module(library)
    gc.collect()
    gc.freeze()  # else each child walks all that the libraries made, page by page of its own, when pytest ends
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
