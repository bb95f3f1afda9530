"""Faults in choices that are paid for: scores that move further than their charge says, charges made too late."""

from tests.mutants.planting import Mutant

SCORES = "tests/mechanisms/selection/test_table_scores.py"
CHOICES = "tests/mechanisms/selection/test_network_choices.py"
HALF = f"{SCORES}::test_a_half_fixed_score_moves_by_one_or_by_two"
LAWS = f"{CHOICES}::test_no_outcome_tells_neighbours_apart_by_more_than_epsilon"
CHARGED = "    scope = _charged(task, statistics)\n"
RELEASED = "    alone, measured, network = _released(task, statistics, purse)\n"
RECORDS = "tests/contract/test_estimators.py::test_no_loss_is_above_the_claim"
PAID = "tests/estimators/test_paid_choices.py"

FILE = "mechanisms/selection/parents_choice.py"

MUTANTS = (
    Mutant(
        "a half-fixed range by the largest of the variables' least shares",
        FILE,
        "least = min((min(shares)",
        "least = max((min(shares)",
        (f"{SCORES}::test_a_half_fixed_range_is_that_of_the_rarest_level_of_any_variable",),
    ),
    Mutant(
        "a half-fixed score with the exact margin",
        FILE,
        "    flat = table.reshape(len(table), -1)\n",
        "    flat = table.reshape(len(table), -1)\n    weights = PARTS * flat.sum(axis=1) // max(1, flat.sum())\n",
        (HALF,),
        within="half_fixed_score",
    ),
    Mutant(
        "a replaced row counted once in a choice",
        FILE,
        "* unit.rows_per_person * (2 if unit.n_is_public else 1)",
        "* unit.rows_per_person",
        (LAWS,),
    ),
    Mutant(
        "the range of a half-fixed score halved",
        FILE,
        "return 4 * (PARTS - least)",
        "return 2 * (PARTS - least)",
        (HALF, f"{SCORES}::test_one_row_moves_two_candidates_apart_by_the_whole_range", LAWS),
    ),
    Mutant(
        "choices that each cost the whole",
        FILE,
        "    share = epsilon / draws\n",
        "    share = epsilon\n",
        (f"{CHOICES}::test_the_cost_is_known_before_data_and_shared_by_the_choices",),
    ),
    Mutant(
        "a penalty that rows decide",
        FILE,
        "math.floor(table.size * self.noise * PARTS)",
        "math.floor(100 * table.sum() * self.noise * PARTS)",
        (f"{LAWS}[two variables-add-remove]",),
    ),
    Mutant(
        "a learned network charged after its margins",
        "estimators/learning.py",
        f"{CHARGED}{RELEASED}",
        f"{RELEASED}{CHARGED}",
        (f"{PAID}::test_a_budget_too_small_is_refused_before_any_draw", f"{PAID}::test_a_failing_draw_stays_charged"),
    ),
    Mutant(
        "a record of a learned network without its choices",
        "estimators/measured_pairs.py",
        "return replace(together, event=in_turn(whole))",
        "return together",
        (
            f"{PAID}::test_the_record_is_what_the_budget_was_charged",
            f"{PAID}::test_the_record_is_the_charge_where_there_is_a_delta",
            f"{RECORDS}[learn_network: greedy, 2 variables, delta 0, up to 2 rows: replace one row of one person]",
        ),
    ),
    Mutant(
        "the rho of parts that are paid together, not held to theirs",
        "privacy/composition.py",
        "whole is None or whole > claim",
        "whole is None",
        (f"{PAID}::test_a_file_that_claims_less_than_its_parts_cost_together_is_refused",),
    ),
    Mutant(
        "a learned network that is charged before the one door was asked",
        "estimators/learning.py",
        "    checked_source(statistics, task.budget, task.noise)\n    for part in _parts(task):\n",
        "    for part in ():\n",
        (f"{PAID}::test_what_the_one_door_refuses_is_refused_uncharged",),
    ),
    Mutant(
        "a file that holds choices of another number of draws",
        FILE,
        "draws=lambda tables, recorded: len(tables.domain.names) - 1,",
        "draws=lambda tables, recorded: recorded,",
        (f"{PAID}::test_a_file_with_choices_that_could_not_be_made_is_refused",),
    ),
    Mutant(
        "choices paid twice over",
        "estimators/learning.py",
        "return cls(MARGINS * whole, chosen * whole, (1 - MARGINS - chosen) * whole, task.delta)",
        "return cls(MARGINS * whole, 2 * chosen * whole, (1 - MARGINS - chosen) * whole, task.delta)",
        (f"{PAID}::test_the_whole_is_one_charge_and_its_parts_are_within_it",),
    ),
)
