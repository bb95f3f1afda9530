"""Settings out of range that are let through, and caches that never forget."""

from tests.mutants.planting import Mutant

CHECKS = "tests/privacy/test_checks.py"

MUTANTS = (
    Mutant(
        "True taken for a whole number",
        "privacy/checks.py",
        "if not isinstance(value, int) or isinstance(value, bool):",
        "if not isinstance(value, int):",
        (f"{CHECKS}::test_only_python_integers_are_whole",),
    ),
    Mutant(
        "the largest allowed setting refused",
        "privacy/checks.py",
        "value <= most",
        "value < most",
        (f"{CHECKS}::test_both_ends_of_a_range_belong_to_it",),
    ),
    Mutant(
        "a delta of 1 accepted",
        "privacy/records.py",
        "if delta >= 1:",
        "if delta > 1:",
        (f"{CHECKS}::test_a_delta_is_below_one",),
    ),
    Mutant(
        "the plans of all networks kept in memory",
        "mechanisms/selection/lattice.py",
        "@lru_cache(maxsize=64)\ndef temperature_of",
        "@lru_cache(maxsize=None)\ndef temperature_of",
        ("tests/test_architecture.py::test_no_cache_of_what_callers_bring_grows_without_bound",),
    ),
)
