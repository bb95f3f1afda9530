"""Released values as files: JSON that keeps everything, BIF for other tools, and pgmpy for inference."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
import export

NETWORK = dg.read_network("example:anes96")


def main() -> None:
    """Saves a release and its model, loads them back, and asks pgmpy."""
    budget = dg.Budget("2", unit=dg.PrivacyUnit("replace"))
    counts = dg.count(export.rows("anes96"), NETWORK)
    noisy = dg.release(counts, dg.LaplaceMechanism(2), budget=budget)
    model = dg.posterior(noisy, method="plug-in").mean()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dg.save(noisy, folder / "release.json")
        head = json.loads((folder / "release.json").read_text())
        print(f"A release as JSON holds {', '.join(head)}: what was done, for whom, and at what cost {head['cost']}.")
        again = dg.load(folder / "release.json")
        same = all(np.array_equal(table, again.value.tables[key]) for key, table in noisy.value.tables.items())
        print(f"Loaded back it is the same, number by number: {same}; a posterior learned from it later costs nothing.")

        try:
            dg.save(counts, folder / "counts.json")
        except dg.errors.FileError as error:
            print(f"Exact counts have no saver: {error}")

        dg.save(model, folder / "votes.bif")
        loaded = dg.load(folder / "votes.bif")
        error = max(np.abs(loaded.table(v) - model.table(v)).max() for v in NETWORK.domain.names)
        print(f"\nThe model as BIF, read back, differs by at most {error:.1e}.")

    evidence = {"selfLR": "slightly_liberal", "educ": "college"}
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # pgmpy's own deprecations
        from pgmpy.inference import VariableElimination
    engine = VariableElimination(dg.to_pgmpy(model))
    print(f"pgmpy on the same model, P(vote | {evidence}):")
    print(engine.query(["vote"], evidence=evidence, show_progress=False))
    print(f"dg.query gives the same: {dg.query(model, 'vote', evidence).to_series().round(4).to_dict()}")
    back = dg.from_pgmpy(dg.to_pgmpy(model))
    print(f"And back from pgmpy: {back.network}")
    print("Shown: nothing but released values reaches a file, and other tools read them.")


if __name__ == "__main__":
    main()
