"""Faults in what is drawn for many cells at once."""

from tests.mutants.planting import Mutant

NOISE = "tests/privacy/test_noise.py"

MUTANTS = (
    Mutant(
        "a fold that counts zero twice",
        "privacy/noise.py",
        "return drawn ^ (drawn >> 63)",
        "return abs(drawn)",
        (f"{NOISE}::test_geometrics_have_their_law",),
    ),
    Mutant(
        "bars drawn all at once, the least of them kept",
        "privacy/noise.py",
        "return numbers[first <= latest]",
        "return numbers[:size]",
        (f"{NOISE}::test_sets_drawn_all_at_once_are_uniform",),
    ),
    Mutant(
        "numbers beyond the range brought back by a remainder",
        "privacy/noise.py",
        "return numbers[numbers < below]",
        "return numbers % below",
        (f"{NOISE}::test_uniform_numbers_are_uniform",),
    ),
)
