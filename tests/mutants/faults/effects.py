"""Faults in the effects of an event log's sequences and in the choice of the number of states."""

from tests.mutants.planting import Mutant

EFFECTS, CHOICE = "tests/inference/markov/test_effects.py", "tests/models/test_choice_formula.py"
PRIORS = f"{EFFECTS}::test_without_an_entry_effects_spreads_and_laws_keep_their_priors"
GIVEN = f"{EFFECTS}::test_effects_given_tables_are_those_of_the_quadrature"

MUTANTS = (
    Mutant(
        "a sequence's effect without its prior",
        "inference/markov/effects.py",
        "return -by * (2.0 * value + by) / (2.0 * spread * spread)",
        "return 0.0 * by",
        (GIVEN,),
    ),
    Mutant(
        "a state's weight without the Jacobian",
        "inference/markov/effects.py",
        "return prior * (by - ",
        "return (prior - 1.0) * (by - ",
        (GIVEN,),
    ),
    Mutant(
        "scaled effects without the Jacobian",
        "inference/markov/effects.py",
        "(1 - free) * by",
        "by",
        (PRIORS,),
    ),
    Mutant(
        "the best score whatever the noise",
        "models/state_choice.py",
        "scores >= scores[best] - deviations",
        "scores >= scores[best]",
        (f"{CHOICE}::test_what_noise_cannot_tell_apart_is_not_told_apart",),
    ),
    Mutant(
        "a part predicted from itself",
        "models/state_choice.py",
        "draw_markov(given.without(mine), size",
        "draw_markov(given, size",
        (f"{CHOICE}::test_a_cell_is_predicted_without_its_own_release",),
    ),
)
