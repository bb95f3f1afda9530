"""The public names: few, each in one place, with what they return; and one root of errors, a class for each layer."""

import ast
import builtins
import inspect
import pydoc
import re
import sys
from pathlib import Path
from typing import TypeVar

import pytest

import dpgraph as dg
from dpgraph.lazy import lazy_names
from tests.names import SPACES, names_of, public_names

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpgraph"

#: The classes that a layer raises itself; those of settings that any layer reads are declared in public.
DECLARED = {"DomainError", "NetworkError"}
RAISED = {
    "lazy": set(),
    "memory": set(),  # the class that the layer which asks hands over
    "waiting": set(),
    "privacy": {"ReleaseError", "BudgetExceededError", "LedgerError"},
    "structure": DECLARED | {"ReleaseError", "InferenceError"},  # ReleaseError: parts of a release; the other: priors
    "statistics": DECLARED | {"ReleaseError"},  # statistics that do not add
    "mechanisms": DECLARED | {"ReleaseError"},
    "inference": DECLARED | {"InferenceError"},
    "models": DECLARED | {"InferenceError"},
    "files": DECLARED | {"FileError"},  # declared: values that are converted, not read
    "analysis": DECLARED | {"ReleaseError"},
    "audit": {"InferenceError"},
    "papers": DECLARED | {"ReleaseError", "InferenceError", "FileError"},  # mechanisms, models and their files
    "testing": set(),
    "extension": set(),
    "results": set(),
    "plot": DECLARED,
    "pages": {"FileError"},  # what has no page, or no place to be written to
    "estimators": DECLARED | {"ReleaseError"},  # a fit is refused before its release
    "cli": {"InferenceError", "FileError", "LedgerError"},  # its own file of defaults; a ledger of another unit
}
#: What Python's own protocols and libraries ask for.
FOREIGN = {"TypeError", "AttributeError", "ImportError"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of(node):
    return ast.unparse(node).rpartition(".")[2]


def raised(tree):
    """The classes that a module raises by name, or hands to a check that raises them; with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield node.lineno, name_of(node.exc.func)
        if isinstance(node, ast.Call) and name_of(node.func) in ("check_whole", "check_boolean"):
            given = [one.value for one in node.keywords if one.arg == "error"]
            yield node.lineno, name_of(given[0]) if given else "ReleaseError"


def faults(layer, text):
    """The classes that a text may not raise in a layer."""
    allowed = RAISED[layer] | FOREIGN
    ours = {name for name in dg.errors.__all__ if name.endswith("Error")} | set(dir(builtins))
    return [f"{line}: {name}" for line, name in raised(ast.parse(text)) if name in ours and name not in allowed]


#: A ValueError inside its own ``try``, an ``__init__`` that scikit-learn's own checks read, an exit code.
KNOWN = {
    "privacy/records.py": "ValueError",
    "estimators/fitting.py": "ValueError",
}


def test_a_layer_raises_its_own_errors():
    for path in modules():
        if path == PACKAGE / "__init__.py":
            continue
        name = path.relative_to(PACKAGE).as_posix()
        found = faults(layer(path), path.read_text())
        assert [one for one in found if name not in KNOWN or not one.endswith(f": {KNOWN[name]}")] == [], name


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("inference", "raise ReleaseError('x')"),
        ("models", "raise records.ReleaseError('x')"),
        ("files", "raise ReleaseError('x')"),
        ("files", "check_boolean('strict', 3)"),
        ("privacy", "raise ValueError('x')"),
        ("structure", "raise KeyError('x')"),
        ("mechanisms", "raise InferenceError('x')"),
    ],
)
def test_an_error_of_another_layer_is_noticed(layer, line):
    assert len(faults(layer, line)) == 1


def test_every_error_has_one_root():
    """Every exception class of the package, but for the signal by which ``cross_validate`` stops a rehearsal,
    the two by which the command ends, and those by which work ends for which nobody waits and chains too slow."""
    found = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and re.search(
                r"(Error|Exception|Exit)$", " ".join(map(name_of, node.bases))
            ):
                found[node.name] = path.relative_to(PACKAGE).as_posix()
    assert found.pop("AtTheDoor") == "estimators/cross_validation.py"
    assert found.pop("Undelivered") == "cli/output.py"
    assert found.pop("NobodyWaits") == "inference/interruption.py"
    assert found.pop("TooSlow") == "inference/network/by_records.py"
    assert set(found.values()) == {"privacy/errors.py"}
    assert set(found) == {name for name in dg.errors.__all__ if name.endswith("Error")}
    for name in found:
        assert issubclass(getattr(dg.errors, name), dg.errors.DPGraphError)
    assert issubclass(dg.errors.DPGraphError, ValueError)


def test_every_warning_is_listed_with_the_errors():
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(name_of(base).endswith("Warning") for base in node.bases):
                assert path == PACKAGE / "privacy" / "errors.py"
                assert node.name in dg.errors.__all__


def test_the_names_of_a_tutorial_are_few():
    # Rules: what is known of rows; expectation, query_rows and the namespace questions: what a posterior is for;
    # learn_network, all_pairs and choose_network: what those have who have a table and no graph
    # classifier, effect: models that cost nothing once a release is there
    # write_html: a page for a privacy officer; plot: pictures in a notebook;
    # datasets: rows for those who have none yet
    # classifier, effect, regression: models of any release; PrivateClassifier: the classifier that users should get
    # discover, Numbers, Words: a declaration for those who have none
    # PublicPrior: what those have who have a public table, too
    # UNOBSERVED: nulls that hide a value
    assert len(names_of(dg)) <= 72
    assert set(SPACES) <= set(names_of(dg))


def test_help_is_one_screen_and_has_all_names():
    """The description says each name once; no internal name is among those that completion offers."""
    said = pydoc.plain(pydoc.render_doc(dg))
    assert len(said.splitlines()) <= 60
    description = said[said.index("DESCRIPTION") : said.index("PACKAGE CONTENTS")]
    assert len(description.splitlines()) <= 24
    words = set(re.findall(r"\w+", description))
    assert set(names_of(dg)) <= words
    assert {"lazy", "lazy_names", "provide", "registers", "annotations", "TYPE_CHECKING"} & set(dir(dg)) == set()
    assert "__version__" in dir(dg)


@pytest.mark.parametrize("space", SPACES)
def test_the_names_of_a_namespace_are_those_that_are_listed(space):
    module = getattr(dg, space)
    assert module.__doc__
    for name in names_of(module):
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("space", ["errors", "methods", "questions", "results", "statistics", "testing"])
def test_a_name_has_one_place(space):
    """What a tutorial types is not in a namespace too; those of papers and extensions repeat a few on purpose."""
    assert set(names_of(getattr(dg, space))) & set(names_of(dg)) == set()
    assert [name for name in names_of(getattr(dg, space)) if hasattr(dg, name)] == []


@pytest.mark.parametrize("module", [dg, dg.extension, dg.papers, dg.results, dg.statistics])
def test_what_type_checkers_read_is_what_is_imported(module):
    """The block for type checkers is the one list: run, it gives the names that the module gives."""
    tree = ast.parse(Path(module.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING")
    names: dict = {}
    exec(compile(ast.Module(block.body, []), module.__file__, "exec"), names)
    del names["__builtins__"]
    assert sorted(names) == names_of(module)
    assert all(getattr(module, name) is value for name, value in names.items())


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(AttributeError, match="'dpgraph' has no attribute 'nowhere'"):
        dg.nowhere  # noqa: B018
    get, _ = lazy_names("dpgraph.papers")
    assert get("fourier_error_bound").__name__ == "theorem_3_bound"
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        get("gone")


def classes():
    """Every public class of the package, by name."""
    return {
        node.name
        for path in modules()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def public():
    """What has a public name, in modules that are public as they are too."""
    listed = public_names()
    for module in (dg.audit, dg.expfam):
        listed |= {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return listed


def annotations(value):
    """The return annotations of a function, or of a class's public methods and properties, as text."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if not name.startswith("_"):
                member = getattr(member, "fget", None) or getattr(member, "func", None) or member
                member = getattr(member, "__func__", member)
                if inspect.isfunction(member):
                    yield from annotations(member)
    elif callable(value):
        value = inspect.unwrap(value)
        yield str(getattr(value, "__annotations__", {}).get("return", ""))


def _global(value, name):
    """What a name of an annotation stands for, where it is imported at run time."""
    return vars(sys.modules[value.__module__]).get(name)


def unnamed(values):
    """Classes of the package that are returned and have no public name."""
    known, names = classes(), set(values)
    return {
        f"{name} -> {one}"
        for name, value in values.items()
        if str(getattr(value, "__module__", "")).startswith("dpgraph")
        for text in annotations(value)
        for one in re.findall(r"\w+", text)
        if one in known and one not in names and not isinstance(_global(value, one), TypeVar)
    }


def test_what_is_returned_has_a_public_name():
    assert unnamed(public()) == set()


def test_a_class_without_a_public_name_is_noticed():
    values = public()
    del values["PrivacyReport"], values["Counts"]
    assert unnamed(values) == {"privacy_cost -> PrivacyReport", "count -> Counts", "count_groups -> Counts"}
