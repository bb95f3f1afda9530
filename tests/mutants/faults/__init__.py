"""All planted faults: every module here has some in ``MUTANTS``; a new module is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from tests.mutants.planting import Mutant

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for found in sorted(iter_modules(__path__), key=lambda found: found.name)
    for mutant in import_module(f"{__name__}.{found.name}").MUTANTS
)
