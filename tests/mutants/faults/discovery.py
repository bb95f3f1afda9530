"""Faults in finding a domain: thresholds, movements, charges and their order."""

from tests.mutants.planting import Mutant

LEVELS = "tests/mechanisms/selection/test_levels.py"
FOUND = "tests/estimators/test_discovering.py"
ENUMERATED = f"{LEVELS}::test_no_neighbours_of_two_words_are_told_apart_better_than_claimed"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a threshold above a thousand times its delta",
        "privacy/noise.py",
        "(words, words * largest, largest))[1]) <= delta",
        "(words, words * largest, largest))[1]) <= 1000 * delta",
        (f"{ENUMERATED}[1e-3-add-remove one row of one person]",),
        first=True,
    ),
    Mutant(
        "words that are named whatever the threshold",
        "mechanisms/selection/levels.py",
        "if many > threshold)",
        "if many > 0)",
        (f"{LEVELS}::test_what_is_named_is_above_the_threshold_and_nothing_else_leaves",),
    ),
    Mutant(
        "words of several variables that move as one",
        "mechanisms/selection/levels.py",
        "scale_of_mu(variables * times * rows**2,",
        "scale_of_mu(times * rows**2,",
        (
            "tests/contract/test_mechanisms.py::test_no_loss_is_above_the_claim[PrivateLevels: words that others have: "
            "add-remove one row of one person]",
        ),
    ),
    Mutant(
        "words that are found with the whole epsilon beside grids",
        "estimators/discovering.py",
        "PrivateLevels(self.epsilon - self._share, self.delta - used)",
        "PrivateLevels(self.epsilon, self.delta - used)",
        (f"{FOUND}::test_bins_a_frequent_value_and_frequent_words_are_found_and_paid_for",),
    ),
    Mutant(
        "all rows of a person where a cap was asked for",
        "estimators/discovering.py",
        "held = held.where(rows_within(held, cap, plan.strict))",
        "rows_within(held, cap, plan.strict)",
        (f"{FOUND}::test_of_a_persons_rows_as_many_count_as_the_unit_protects",),
    ),
    Mutant(
        "levels that nobody has expected to be as likely as others",
        "inference/discovery.py",
        "(expit(somebody - nobody) * counts)",
        "(expit(somebody) * counts)",
        ("tests/inference/test_discovery.py::test_expected_counts_are_those_of_all_worlds_added_up[40.0]",),
    ),
    Mutant(
        "a refusal that tells of a private number of rows",
        "estimators/discovering.py",
        "if plan.budget.unit.n_is_public and cap is None:",
        "if cap is None:",
        (f"{FOUND}::test_where_the_number_of_rows_is_private_no_refusal_tells_of_it[unit0-None]",),
    ),
    Mutant(
        "a type whose fields are contents of rows in a message",
        "statistics/counts.py",
        'bare = re.split(r"\\W", str(kind))[0]',
        "bare = str(kind)",
        (f"{LEVELS}::test_nulls_and_values_without_words_are_refused_in_words_of_the_declaration_alone",),
    ),
)
