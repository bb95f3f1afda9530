"""Released outcomes survive a file exactly, and a file that contradicts itself is refused."""

import json

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.statistics.moments import classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.structure.moments import Classification, Entries, Regression
from tests.files.edits import edited

RNG = np.random.default_rng(0)
FOUND = {
    "classification": classifier_outcomes(
        Classification(("n", "y"), edges=(0.75,), scores=("accuracy", "confusion", "reliability")),
        RNG.integers(0, 2, 50),
        RNG.dirichlet([1, 1], 50),
    ),
    "numbers for classes": classifier_outcomes(
        Classification((0, 1, 2)), RNG.integers(0, 3, 50), RNG.dirichlet([1] * 3, 50)
    ),
    "regression": regression_outcomes(Regression(0.0, 5.0, 2.0), RNG.uniform(0, 5, 50), RNG.uniform(0, 5, 50)),
    "entries": entry_outcomes(Entries(7), -RNG.exponential(1, 50)),
}
UNITS = [dg.PrivacyUnit("replace", 2), dg.PrivacyUnit("add-remove")]


def released(name, unit):
    return dg.release(FOUND[name], dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", FOUND)
def test_round_trip(name, unit, tmp_path):
    release = released(name, unit)
    dg.save(release, tmp_path / "e.json")
    again = dg.load(tmp_path / "e.json")
    assert again.value.sums.tolist() == release.value.sums.tolist()
    assert (again.value.description, again.value.law, again.value.n) == (
        release.value.description,
        release.value.law,
        release.value.n,
    )
    assert (again.event, again.unit, again.private) == (release.event, release.unit, release.private)
    assert dg.results.Evaluation(again).to_frame().equals(dg.results.Evaluation(release).to_frame())


EDITS = {
    "another grid": lambda plain: plain["grid"].update(steps=2),
    "another weight": lambda plain: plain["grid"]["weights"].reverse(),
    "another law": lambda plain: plain["law"].update(scale=plain["law"]["scale"] / 2),
    "no n": lambda plain: plain.update(n=None),
    "a sum less": lambda plain: plain["sums"].pop(),
    "a fraction": lambda plain: plain.update(sums=[0.5] * len(plain["sums"])),
    "another unit": lambda plain: plain["unit"].update(rows_per_person=1),
    "another task": lambda plain: plain["description"]["task"].update(name="ranking"),
    "another class": lambda plain: plain["description"]["task"].update(classes=["n", "y", "z"]),
    "an unknown score": lambda plain: plain["description"]["task"].update(scores=["auc"]),
    "no task": lambda plain: plain["description"].pop("task"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_that_contradicts_itself_is_refused(edit, tmp_path):
    dg.save(released("classification", UNITS[0]), tmp_path / "e.json")
    plain = json.loads((tmp_path / "e.json").read_text())
    EDITS[edit](plain)
    (tmp_path / "e.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError, match=r"^(?!.*digest)"):
        dg.load(tmp_path / "e.json")
