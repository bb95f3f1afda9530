"""Prints which test killed which mutant."""

import sys
import tempfile
from pathlib import Path

from tests.mutants.planted import MUTANTS, plant, run

survivors = 0
print(f"{'mutant':45} killed by")
for mutant in MUTANTS:
    with tempfile.TemporaryDirectory() as folder:
        plant(Path(folder), mutant)
        verdict = run(Path(folder), mutant.tests)
    survivors += not verdict.killed
    print(f"{mutant.name:45} {verdict.by if verdict.killed else 'SURVIVED'}", flush=True)
sys.exit(survivors > 0)
