"""Faults in what is drawn for many cells at once."""

from tests.mutants.planting import Mutant

COUNTS = "tests/inference/counts/test_dirichlet_multinomial.py"
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
    Mutant(
        "windows of cells kept where the sum is far from the noisy counts",
        "inference/counts/dirichlet_multinomial.py",
        "(ends > moved.max() + np.log(EDGE)).any()",
        "(ends > moved.max()).any()",
        (f"{COUNTS}::test_windows_are_wide_enough_for_the_sum",),
    ),
    Mutant(
        "laws that cells share counted once",
        "inference/counts/dirichlet_multinomial.py",
        "return np.bincount(self.group)",
        "return np.ones(len(self.logs), np.int64)",
        (f"{COUNTS}::test_an_unknown_n_that_needs_several_tilts_where_cells_share_a_law",),
    ),
)
