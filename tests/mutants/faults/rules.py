"""Faults in what rules leave out: of noise, of sensitivities, of refusals and of posteriors."""

from tests.mutants.planting import Mutant

TABLES = "tests/inference/network/test_by_tables.py::test_every_family_follows_its_enumerated_posterior"
RULES, WITHIN = "tests/structure/test_rules.py", "tests/inference/network/test_within_rules.py"

MUTANTS = (
    Mutant(
        "rules that lower a sensitivity",
        "mechanisms/additive/laplace.py",
        "movements = [partition_movement(network.possible_cells(table), unit) for table in tables]",
        "movements = [partition_movement(max(1, network.possible_cells(table) - 3), unit) for table in tables]",
        (f"{RULES}::test_the_exact_loss_of_all_neighbours_is_the_claim",),
        first=True,
    ),
    Mutant(
        "forbidden cells added to the others",
        "statistics/counts.py",
        "return counts if possible is None else counts[possible]",
        "return counts if possible is None else counts[possible] + counts[~possible].sum()",
        (f"{RULES}::test_a_row_in_a_cell_that_cannot_be_moves_no_release",),
        first=True,
    ),
    Mutant(
        "end bins that end",
        "structure/network.py",
        'variable.outside == "ends"',
        "False",
        (
            f"{RULES}::test_an_order_leaves_the_levels_that_some_numbers_fulfil",
            f"{RULES}::test_a_sum_leaves_the_levels_that_some_numbers_fulfil",
        ),
    ),
    Mutant(
        "cells of a margin with the noise of the first",
        "inference/network/by_tables.py",
        "for many in np.maximum(copies, 1).tolist()",
        "for many in [max(copies.max(), 1)] * copies.size",
        (f"{TABLES}[rules, sum-zero]",),
    ),
    Mutant(
        "nearest tables with rows where rules allow none",
        "inference/network/consistency.py",
        "np.where(possible[wrong], tables[wrong], -np.inf)",
        "tables[wrong]",
        (f"{WITHIN}::test_the_nearest_tables_within_rules_are_those_of_a_general_solver",),
    ),
    Mutant(
        "rows that break a rule let in",
        "statistics/counts.py",
        'if rules.broken == "refuse":',
        "if False:",
        (f"{RULES}::test_rows_that_break_a_rule_are_refused_and_no_word_depends_on_which",),
    ),
    Mutant(
        "a mechanism that does not keep rules let in",
        "privacy/release.py",
        'not getattr(mechanism, "keeps_rules", False)',
        'not getattr(mechanism, "keeps_rules", True)',
        (f"{RULES}::test_what_does_not_keep_rules_refuses_before_any_charge",),
    ),
    Mutant(
        "a last level that cannot be drawn by rounding",
        "inference/network/_kernels.py",
        "while theta[at + level] == 0.0 and level > 0:",
        "while False:",
        (f"{WITHIN}::test_a_last_level_of_probability_0_is_never_drawn",),
    ),
    Mutant(
        "a centre of rows of some levels without exponents",
        "inference/network/_kernels.py",
        "rate[k] += exponent",
        "rate[k] += 0.0 * exponent",
        (f"{WITHIN}::test_a_centre_and_a_concentration_within_rules",),
    ),
)
