"""Faults in the effects of an event log's sequences and in the choice of the number of states."""

from tests.mutants.planting import Mutant

EFFECTS, CHOICE = "tests/inference/markov/test_effects.py", "tests/models/test_choice_formula.py"
PRIORS = f"{EFFECTS}::test_without_an_entry_effects_spreads_and_laws_keep_their_priors"
SINGLE = "tests/inference/markov/test_single_moves.py::test_a_move_by_itself_leaves_the_joint_law"
GIVEN = f"{EFFECTS}::test_effects_given_tables_are_those_of_the_quadrature"
FEW = "tests/inference/markov/test_few_entries.py"

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
        "a spread that counts means of effects that it integrates out",
        "inference/markov/effects.py",
        "given.effects.shape[0] * (b - a - 1), 0.0",
        "given.effects.shape[0] * (b - a), 0.0",
        (f"{SINGLE}[spread]",),
    ),
    Mutant(
        "effects that stay while their spread moves, with their prior turned round",
        "inference/markov/effects.py",
        "gain -= by + 0.5 * given.effects[r, w] ** 2 * (1.0 / new**2 - 1.0 / old**2)",
        "gain += by + 0.5 * given.effects[r, w] ** 2 * (1.0 / new**2 - 1.0 / old**2)",
        (f"{SINGLE}[scale]",),
    ),
    Mutant(
        "R-hat of effects that no entry bears on",
        "inference/markov/labels.py",
        "centred = effects - effects.mean(axis=3, keepdims=True)",
        "centred = effects",
        ("tests/inference/markov/test_labels.py::test_r_hat_of_effects_ignores_what_entries_do_not_say",),
    ),
    Mutant(
        "states of a start that are kinds of sequences",
        "inference/markov/sampler.py",
        "effects=KEPT * moved",
        "effects=0 * moved",
        ("tests/inference/markov/test_effects.py::test_chains_start_at_states_that_are_no_kinds_of_sequences",),
    ),
    Mutant(
        "the best score whatever the noise",
        "models/markov_counts.py",
        "scores >= scores[best] - deviations",
        "scores >= scores[best]",
        (f"{CHOICE}::test_what_noise_cannot_tell_apart_is_not_told_apart",),
    ),
    Mutant(
        "a part predicted from itself",
        "models/markov_counts.py",
        "draw_markov(given.without(mine), size",
        "draw_markov(given, size",
        (f"{CHOICE}::test_a_cell_is_predicted_without_its_own_release",),
    ),
    Mutant(
        "a table summed over without its ways",
        "inference/markov/loops.py",
        "scale = ways",
        "scale = 1.0",
        (f"{FEW}::test_the_weight_of_a_state_is_the_sum_over_every_number_and_table",),
    ),
    Mutant(
        "entries of the last block alone",
        "inference/markov/loops.py",
        "while entries < last and left >= law[entries]:",
        "while entries < last:",
        (f"{FEW}::test_a_number_and_a_table_are_drawn_by_their_law",),
    ),
    Mutant(
        "alike cells drawn whatever their state",
        "inference/markov/loops.py",
        "else members[at]) * size + states[members[at]]",
        "else members[at]) * size",
        (f"{FEW}::test_alike_cells_in_two_states_are_drawn_by_the_law_of_each",),
    ),
    Mutant(
        "cells alike that are not",
        "inference/markov/sampler.py",
        "np.clip(values, 0, last)",
        "np.clip(values, 0, last - 1)",
        (f"{FEW}::test_cells_that_noise_does_not_tell_apart_share_their_sums",),
    ),
    Mutant(
        "a sweep that is deaf",
        "inference/markov/loops.py",
        "            if cells.stop[0] != 0:\n                return\n"
        "            members = order[begin : min(begin + PART, end)]\n            weights_of_few",
        "            members = order[begin : min(begin + PART, end)]\n            weights_of_few",
        ("tests/inference/test_interruption.py::test_weights_are_left_once_nobody_waits",),
    ),
    Mutant(
        "a resize that comes to few entries",
        "inference/markov/loops.py",
        "if entries + more > more_than:",
        "if entries + more >= 0:",
        (f"{FEW}::test_cells_left_alone_by_their_number_stay_apart_from_the_others",),
    ),
    Mutant(
        "a gap that forgets who was taken",
        "inference/markov/loops.py",
        "left += 1 + gap(rng, each)",
        "left += gap(rng, each) + (here > 1)",
        (f"{FEW}::test_entries_are_taken_one_by_one_with_their_chance",),
    ),
    Mutant(
        "a rate integrated out without its prior",
        "inference/markov/loops.py",
        "law[n - 1] * (rates[1] + n - 1.0) / (rates[0] + rates[1] + n)",
        "law[n - 1] * (rates[1] + n - 1.0) / (rates[1] + n)",
        (f"{FEW}::test_the_weight_of_a_state_is_the_sum_over_every_number_and_table",),
    ),
)
