"""Faults in what is drawn for many cells at once."""

from tests.mutants.planting import Mutant

MANY = "tests/inference/counts/test_many_cells.py"
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
        "half of the cells kept whatever is left for the others",
        "inference/counts/many_cells.py",
        "if own.random() * rest.bound < rest.at(np.array([remaining]))[0]:",
        "if rest.at(np.array([remaining]))[0] > 0:",
        (f"{MANY}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "a sum's law without its mean",
        "inference/counts/many_cells.py",
        "away = values - self.centre",
        "away = values - int(self.centre)",
        (f"{MANY}::test_the_law_of_a_sum_is_its_convolution",),
    ),
    Mutant(
        "one seed for all draws of many cells",
        "inference/counts/many_cells.py",
        "own = np.random.default_rng(seeds[index])",
        "own = np.random.default_rng(seeds[0])",
        (f"{MANY}::test_draws_follow_the_enumerated_posterior",),
    ),
)
