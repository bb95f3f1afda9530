"""Prints which test killed which mutant, and the seconds of processor time it took.

``python -m tests.mutants WORD`` runs those with the word in their names or tests.
"""

import sys
import tempfile
from pathlib import Path

from tests.mutants.faults import MUTANTS
from tests.mutants.planting import plant, run

survivors = 0
print(f"{'mutant':45} seconds killed by")
for mutant in MUTANTS:
    if sys.argv[1:] and not any(word in " ".join((mutant.name, *mutant.tests)) for word in sys.argv[1:]):
        continue
    with tempfile.TemporaryDirectory() as folder:
        plant(Path(folder), mutant)
        verdict = run(Path(folder), mutant.tests)
    survivors += not verdict.killed
    print(f"{mutant.name:45} {verdict.seconds:7.1f} {verdict.by if verdict.killed else 'SURVIVED'}", flush=True)
sys.exit(survivors > 0)
