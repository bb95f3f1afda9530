"""Every planted fault is noticed, and the test that notices it passes where nothing is planted (promise.md S15)."""

import pytest

from tests.mutants.faults import MUTANTS
from tests.mutants.planting import plant, run, unplanted
from tests.tiers import is_of_systems


@pytest.fixture(scope="module")
def noticed():
    """The test that noticed each fault. At the end all of them must pass where nothing is planted, in one process."""
    found: dict[str, str] = {}
    yield found
    if found:
        said = unplanted(found.values())
        assert not said, f"a test of a fault fails without the fault: {found}\n{said}"


def tier(mutant):
    """A fault in an engine's file, or that tests of systems notice, is planted where the systems are."""
    if any(map(is_of_systems, (mutant.file, *mutant.tests))):
        return [pytest.mark.systems]
    return [] if mutant.first else [pytest.mark.proof]


@pytest.mark.planted
@pytest.mark.parametrize(
    "mutant", [pytest.param(one, marks=tier(one)) for one in MUTANTS], ids=lambda mutant: mutant.name
)
def test_the_mutant_dies(mutant, tmp_path, noticed):
    plant(tmp_path, mutant)
    verdict = run(tmp_path, mutant.tests)
    assert verdict.killed, f"{mutant.name} survived\n{verdict.output}"
    noticed[mutant.name] = verdict.by


@pytest.mark.proof
def test_what_fails_without_a_fault_is_told():
    """One that passes is named once, however many faults it noticed."""
    sound = "tests/test_conclusions.py::test_laws_that_share_no_cell_never_pass_for_each_other"
    assert unplanted([sound, sound]) == ""
    assert "no tests ran" in unplanted([sound + "_that_is_not_there"])


def test_the_copy_under_test_is_the_one_with_the_fault(tmp_path):
    """Else every mutant would be killed, or spared, by the installed package."""
    plant(tmp_path, None)
    (tmp_path / "tests" / "test_where.py").write_text(
        "import dpgraph\n\n\ndef test_where():\n    assert dpgraph.__file__.startswith(" + repr(str(tmp_path)) + ")\n"
    )
    verdict = run(tmp_path, ("tests/test_where.py",))
    assert "1 passed" in verdict.output
