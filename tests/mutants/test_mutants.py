"""Every planted fault is noticed, and the test that notices it passes where nothing is planted (promise.md S15)."""

import pytest

from tests.mutants.faults import MUTANTS
from tests.mutants.planting import passes_unplanted, plant, run


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_dies(mutant, tmp_path):
    plant(tmp_path, mutant)
    verdict = run(tmp_path, mutant.tests)
    assert verdict.killed, f"{mutant.name} survived\n{verdict.output}"
    assert passes_unplanted(verdict.by), f"{verdict.by} fails without {mutant.name}"


def test_the_copy_under_test_is_the_one_with_the_fault(tmp_path):
    """Else every mutant would be killed, or spared, by the installed package."""
    plant(tmp_path, None)
    (tmp_path / "tests" / "test_where.py").write_text(
        "import dpgraph\n\n\ndef test_where():\n    assert dpgraph.__file__.startswith(" + repr(str(tmp_path)) + ")\n"
    )
    verdict = run(tmp_path, ("tests/test_where.py",))
    assert "1 passed" in verdict.output
