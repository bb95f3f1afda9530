"""The layers, the privacy wall and the homes of foreign engines hold, and breaking each one is noticed."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import networkx as nx
import pytest

from tests.names import names_of

ROOT = Path(__file__).parents[1]


def lint(folder):
    """Runs import-linter on a copy of the package."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        check=False,
    )


#: A line that breaks each contract, in a module of the package.
BREAKS = [
    ("structure/network.py", "dpgraph.statistics.counts", "a module imports only from lower layers"),
    ("mechanisms/additive/laplace.py", "dpgraph.inference.network.queries", "a module imports only from lower layers"),
    ("inference/network/plug_in.py", "dpgraph.statistics.rows.codes", "the privacy wall"),
    ("models/naive_bayes.py", "dpgraph.privacy.accounting", "the privacy wall"),
    ("structure/tables.py", "dpgraph.privacy.release", "the privacy wall"),
    ("mechanisms/additive/laplace.py", "dpgraph.privacy.seeded_noise", "seeded and recording noise is out of reach"),
    ("privacy/release.py", "dpgraph.privacy.exact_loss", "seeded and recording noise is out of reach"),
    ("cli/output.py", "dpgraph.testing", "seeded and recording noise is out of reach"),
    ("mechanisms/additive/laplace.py", "opendp.measurements", "opendp lives in privacy.noise"),
    ("privacy/noise.py", "mpmath", "mpmath lives in privacy.gdp and privacy.risk"),
    ("mechanisms/additive/gaussian.py", "dp_accounting.pld", "dp-accounting lives in privacy.composition"),
    ("privacy/ledger/sqlite.py", "psycopg", "psycopg lives in privacy.ledger.postgres"),
    ("models/naive_bayes.py", "dpgraph.privacy.ledger.account", "the privacy wall"),
    ("inference/network/queries.py", "pgmpy.models", "pgmpy lives in files.pgmpy"),
    ("audit/calibrating.py", "matplotlib.axes", "matplotlib lives in plot"),
    ("inference/network/draws.py", "arviz_base", "arviz lives in files.arviz"),
    ("structure/tables.py", "pyarrow", "pyarrow lives in statistics and files"),
    ("statistics/summary.py", "pyspark.sql", "pyspark lives in statistics.engines.spark"),
    ("files/networks.py", "dask.dataframe", "dask lives in statistics.engines.dask"),
    ("statistics/rows/arrow.py", "fsspec", "fsspec lives in statistics.rows.files"),
    ("models/naive_bayes.py", "sklearn.base", "scikit-learn lives in estimators"),
    ("analysis/cost.py", "click", "click lives in cli"),
    ("pages/learned.py", "dpgraph.statistics.counts", "pages are of public values"),
    ("pages/releases.py", "dpgraph.privacy.release", "pages are of public values"),
    ("cli/output.py", "jinja2", "jinja2 lives in pages"),
    ("estimators/hmm.py", "dpgraph.papers.gibbs_sample", "the papers' room"),
    ("inference/network/by_records.py", "numba", "numba lives in modules named _kernels"),
]


@pytest.fixture
def toy(tmp_path):
    """The package's modules without a line in them, but for the imports that a contract excepts."""
    for path in (ROOT / "dpgraph").rglob("*.py"):
        empty = tmp_path / path.relative_to(ROOT)
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for contract in contracts():
        for excepted in contract.get("ignore_imports", ()):
            add(tmp_path, *excepted.split(" -> "))
        for library in contract.get("protected_modules", ()):  # at home
            add(tmp_path, contract["allowed_importers"][0].replace("**", "inference.network"), library)
    return tmp_path


def add(folder, importer, imported):
    """Writes an import into a module of a package."""
    place = folder / importer.replace(".", "/")
    with (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).open("a") as file:
        file.write(f"import {imported}\n")


def contracts():
    """The contracts of ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_every_contract_holds():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_each_broken_contract_is_reported(toy):
    """All at once: each line is named beside its contract, and no contract is without a line."""
    add(toy, "dpgraph.inference.network.plug_in", "dpgraph.structure.tables")  # a way round the wall
    for module, imported, _ in BREAKS:
        add(toy, "dpgraph." + module.removesuffix(".py").replace("/", "."), imported)
    done = lint(toy)
    assert done.returncode == 1
    _, *reported = re.split(r"^(.+)\n-+\n", done.stdout.partition("Broken contracts\n---")[2], flags=re.MULTILINE)
    found = dict(zip(reported[::2], reported[1::2], strict=True))
    for module, imported, broken in BREAKS:
        (said,) = [text for name, text in found.items() if broken in name]
        assert "dpgraph." + module.removesuffix(".py").replace("/", ".") in said, (module, broken)
        assert imported.split(".")[0] in said
    assert {contract["name"] for contract in contracts()} == set(found)


def test_commands_do_not_reach_seeded_noise_by_the_root():
    """Commands use names of ``dg``, which import-linter does not follow."""
    for path in (ROOT / "dpgraph" / "cli").glob("*.py"):
        assert not re.search(r"\bdg\.(testing|audit|papers|extension)\b", path.read_text()), path


def test_a_new_room_must_be_placed_in_a_layer(toy):
    (toy / "dpgraph" / "utils.py").write_text('"""A room without a place."""\n')
    done = lint(toy)
    assert done.returncode == 1
    assert "utils" in done.stdout


def test_the_public_names_are_those_that_are_listed():
    import dpgraph as dg

    assert len(names_of(dg)) == len(set(names_of(dg))) > 50
    for name in names_of(dg):
        if name.isupper():  # a constant has no name of its own
            continue
        assert getattr(dg, name).__name__.rpartition(".")[2] == name  # a module's name is dotted


ENGINES = [
    "pandas",
    "scipy",
    "sklearn",
    "pgmpy",
    "pyarrow",
    "opendp",
    "matplotlib",
    "networkx",
    "mpmath",
    "dp_accounting",
    "psycopg",
    "sqlite3",
    "arviz_base",
    "arviz_stats",
    "numba",
    "pyspark",
    "dask",
]
HELP = "import sys; from dpgraph.cli import main; main({words}, standalone_mode=False)"


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import sys, dpgraph", ["numpy", "click", *ENGINES]),
        (HELP.format(words=["--help"]), ["numpy", *ENGINES]),
        (HELP.format(words=["--version"]), ["numpy", *ENGINES]),
        (HELP.format(words=["cost", "--help"]), ENGINES),
        (HELP.format(words=["fit", "naive-bayes", "--help"]), ENGINES),
    ],
)
def test_starting_up_loads_no_engine(program, heavy):
    program += f"; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def imports_of(path, modules):
    """The modules that a module imports, inside functions too, but not for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield one if (one := f"{node.module}.{alias.name}") in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_modules_import_each_other_in_a_circle():
    """The root is left out: it names every module and imports none until a name is used."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "dpgraph").rglob("*.py")
    }
    del paths["dpgraph"]
    graph = nx.DiGraph((name, one) for name, path in paths.items() for one in imports_of(path, paths) if one in paths)
    assert len(graph) > 150
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


ROWS = 'import sys, pandas as pd, dpgraph as dg; rows = pd.DataFrame({"a": [0, 1] * 9, "b": [1, 0] * 9}); '
DOMAIN = 'domain = dg.Domain.of({"a": [0, 1], "b": [0, 1]}); '


@pytest.mark.parametrize(
    ("program", "others"),
    [
        (
            "counts = dg.count(rows, dg.Network.of(domain, {})); "
            "dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1))",
            ["inference", "estimators", "models", "hmm", "markov", "graphs", "statistics.moments"],
        ),
        (
            'dg.PrivateNaiveBayes(domain, 1, target="b").fit(rows[["a"]], rows["b"])',
            ["hmm", "markov", "graphs", "inference.regression", "inference.expfam", "statistics.moments"],
        ),
        (
            "dg.learn_network(rows, domain, epsilon=1)",
            ["hmm", "markov", "inference.regression.posterior", "inference.expfam", "statistics.moments"],
        ),
    ],
    ids=["release", "classifier", "network"],
)
def test_a_family_loads_no_other(program, others):
    program = f"{ROWS}{DOMAIN}{program}; print([one for one in sys.modules if one.startswith('dpgraph.')])"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert [one for one in loaded if any(f".{other}." in f"{one}." for other in others)] == []


def test_no_cache_of_what_callers_bring_grows_without_bound():
    """In a service that runs for months each network and setting would stay in memory."""
    found = []
    for path in sorted((ROOT / "dpgraph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (node.args.args or node.args.kwonlyargs):
                names = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
                if names & {"cache", "lru_cache(None)", "lru_cache(maxsize=None)"}:
                    found.append(path.relative_to(ROOT / "dpgraph").as_posix() + f"::{node.name}")
    assert found == []


def test_no_comprehension_stands_in_a_lock():
    """Python 3.12 and 3.13 never call a block's ``__exit__`` if Ctrl-C comes in a comprehension inside the block.

    The lock stayed taken, and every later call hung; ``tests/privacy/test_every_step.py`` hangs there so.
    """
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp)
    found = [
        f"{path.relative_to(ROOT)}:{inner.lineno}"
        for path in (ROOT / "dpgraph").rglob("*.py")
        for block in ast.walk(ast.parse(path.read_text()))
        if isinstance(block, ast.With) and any("lock" in ast.unparse(one).lower() for one in block.items)
        for inner in ast.walk(block)
        if isinstance(inner, kinds)
    ]
    assert found == []
