"""Faults planted in the evaluation of models on held-out rows."""

from tests.mutants.planting import Mutant

BLOCKS, SUMS = "tests/structure/test_outcomes.py", "tests/statistics/test_outcomes.py"
JUDGED, COMMAND = "tests/estimators/test_evaluation.py", "tests/cli/test_evaluate.py"
COUNTS, MEANS = "tests/inference/counts/test_noisy_counts.py", "tests/inference/counts/test_noisy_means.py"
REPLAY = "tests/privacy/test_replay_evaluation.py"
STRICT, CANARY = "tests/statistics/test_strict.py", "tests/privacy/test_canary.py"
FOLDS, PERSONS = "tests/estimators/test_folds.py", "tests/estimators/test_persons.py"
READS = "tests/contract/test_reads.py::test_rows_are_read_once_or_refused"

ALONE, SCORES = "tests/estimators/test_rows_alone.py", "tests/models/test_label_scores.py"
ROWWISE = "tests/structure/test_rowwise.py::test_sums_are_those_of_each_row_alone"

MUTANTS = (
    Mutant(
        "features packed by the number of rows",
        "models/naive_bayes.py",
        "min(JOINT_LEVELS, JOINT_CELLS",
        "min(JOINT_LEVELS, rows // 4, JOINT_CELLS",
        (
            f"{SCORES}::test_the_scores_of_a_row_are_its_own_to_the_last_bit",
            f"{ALONE}::test_fifteen_rows_and_sixteen_say_the_same_of_a_tie",
        ),
        first=True,
    ),
    Mutant(
        "a regression predicted by a product of matrices",
        "structure/conversion.py",
        "return added(column * weight for column, weight in zip(columns.T, weights, strict=True))",
        "return columns @ weights",
        (ROWWISE, f"{ALONE}::test_what_is_said_of_a_row_is_its_own_to_the_last_bit"),
    ),
    Mutant(
        "sums over labels in numpy's own order",
        "structure/conversion.py",
        "return reduce(np.add, parts)",
        "return np.sum(parts if isinstance(parts, np.ndarray) else list(parts), axis=0)",
        (ROWWISE,),
    ),
    Mutant(
        "the last block of rows as long as it happens to be",
        "structure/conversion.py",
        "np.zeros((length, *rows.shape[1:]), rows.dtype)",
        "np.zeros((len(part), *rows.shape[1:]), rows.dtype)",
        ("tests/structure/test_rowwise.py::test_a_function_is_asked_in_blocks_of_one_length",),
    ),
    Mutant(
        "models of other libraries asked about all rows at once",
        "estimators/evaluation.py",
        "np.array(method(rows[place : place + 1]))",
        "np.array(method(rows[:]))[place : place + 1]",
        (
            f"{ALONE}::test_other_models_are_asked_of_each_different_row_by_itself",
            f"{ALONE}::test_what_is_said_of_a_row_is_its_own_to_the_last_bit",
        ),
    ),
    Mutant(
        "rows are one where their cells are equal",
        "estimators/evaluation.py",
        "return (type(cell), repr(cell)) if type(cell) in (bool, int, float, str) else id(cell)",
        "return cell",
        (f"{ALONE}::test_other_models_are_asked_of_each_different_row_by_itself",),
    ),
    Mutant(
        "a largest error at which a division overflows",
        "structure/moments.py",
        "if not 1e-100 < number < 1e100:",
        "if not 0 < number:",
        (f"{ALONE}::test_bounds_at_which_a_division_would_overflow_are_refused_whatever_the_rows",),
    ),
    Mutant(
        "a loss that is not clipped",
        "statistics/moments.py",
        "    clipped = np.clip(loss, 0.0, largest) / largest\n",
        "    clipped = np.minimum(loss, 1e6) / largest\n",
        (f"{SUMS}::test_what_is_clipped_is_what_is_summed",),
    ),
    Mutant(
        "a loss that is clipped, and its square that is not",
        "statistics/moments.py",
        "np.rint(clipped**2 * STEPS)",
        "np.rint(np.minimum(loss, 1e3) ** 2 * STEPS)",
        (f"{SUMS}::test_what_is_clipped_is_what_is_summed",),
    ),
    Mutant(
        "the right predictions counted in the open",
        "mechanisms/additive/plans.py",
        "    n = statistics.sensitive_rows if unit.n_is_public else None\n",
        "    n = statistics.sensitive_rows if unit.n_is_public else None\n"
        "    for block, noisy in values.items() if hasattr(statistics.description, 'task') else ():\n"
        "        noisy[0] = statistics.sensitive_block(block, unit)[0]\n",
        (f"{REPLAY}::test_replace",),
    ),
    Mutant(
        "outcomes whose scale forgets the rows of a person",
        "structure/moments.py",
        "        return unit.rows_per_person * STEPS * sum(",
        "        return STEPS * sum(",
        (f"{BLOCKS}::test_no_person_moves_more_than_is_said_and_one_moves_as_much",),
    ),
    Mutant(
        "squared movement of outcomes linear in the rows of a person",
        "structure/moments.py",
        "(unit.rows_per_person * STEPS) ** 2 *",
        "unit.rows_per_person * STEPS**2 *",
        (f"{BLOCKS}::test_the_zero_concentrated_loss_of_gaussian_noise_is_rho",),
    ),
    Mutant(
        "a confusion matrix moved by one where a row is replaced",
        "structure/moments.py",
        "min(self.kept(unit), 2 if self.counts and unit.n_is_public else 1)",
        "min(self.kept(unit), 1)",
        (f"{BLOCKS}::test_the_largest_log_ratio_of_the_release_is_epsilon",),
    ),
    Mutant(
        "scores by bins that the sensitivity forgets",
        "structure/moments.py",
        "rows_per_person * STEPS * sum(part.weight * part.moved(unit) for part in self.parts)",
        "rows_per_person * STEPS * sum(p.weight * p.moved(unit) for p in self.parts if p.name not in self.task.ranked)",
        (f"{BLOCKS}::test_no_person_moves_more_than_is_said_and_one_moves_as_much",),
    ),
    Mutant(
        "the score of a class without its truth",
        "statistics/moments.py",
        "truth == k, ",
        "predicted == k, ",
        (f"{SUMS}::test_each_of_several_classes_is_counted_by_the_bin_of_its_probability",),
    ),
    Mutant(
        "an area whose interval forgets the noise",
        "models/evaluation.py",
        "np.maximum(noise + luck, 1e-12)",
        "np.maximum(luck, 1e-12)",
        ("tests/models/test_evaluation.py::test_the_area_the_rates_and_the_cost_of_the_population",),
    ),
    Mutant(
        "a cost of the chosen threshold as if it had been the only one",
        "models/evaluation.py",
        "np.quantile(draws.max(axis=1), self.interval)",
        "np.quantile(draws.min(axis=1), self.interval)",
        ("tests/models/test_evaluation.py::test_the_area_the_rates_and_the_cost_of_the_population",),
    ),
    Mutant(
        "the costs of a threshold exchanged",
        "models/evaluation.py",
        "np.hstack([costs[0] * said, costs[1] * ~said])",
        "np.hstack([costs[1] * said, costs[0] * ~said])",
        (f"{JUDGED}::test_the_threshold_is_the_cheapest_by_the_costs_told",),
    ),
    Mutant(
        "the largest block alone in the sensitivity of outcomes",
        "structure/moments.py",
        "rows_per_person * STEPS * sum(part.weight * part.moved(unit) for part in self.parts)",
        "rows_per_person * STEPS * max(part.weight * part.moved(unit) for part in self.parts)",
        (f"{BLOCKS}::test_the_largest_log_ratio_of_the_release_is_epsilon",),
    ),
    Mutant(
        "wrong predictions left out where n is private, so that nothing tells n but their sum is n",
        "structure/moments.py",
        "self.counts and self.cells <= 2 and unit.n_is_public",
        "self.counts and self.cells <= 2",
        (f"{BLOCKS}::test_the_number_of_right_predictions_moves_by_one_under_both_relations",),
    ),
    Mutant(
        "the exact number of held-out rows where it is private",
        "mechanisms/additive/plans.py",
        "    n = statistics.sensitive_rows if unit.n_is_public else None\n",
        "    n = statistics.sensitive_rows\n",
        (f"{REPLAY}::test_add_remove_whatever_the_number_of_rows",),
    ),
    Mutant(
        "a command that drops --neighbours",
        "cli/budgets.py",
        "unit=dg.PrivacyUnit(relation, rows))",
        'unit=dg.PrivacyUnit("replace", rows))',
        (f"{COMMAND}::test_the_release_protects_whom_it_is_told_to",),
    ),
    Mutant(
        "an evaluation that judges every row of a person",
        "estimators/evaluation.py",
        "judged_rows(fitted, X, y, cap, group)",
        "judged_rows(fitted, X, y, None, group)",
        (f"{PERSONS}::test_so_many_rows_of_a_person_are_judged_as_the_unit_protects",),
    ),
    Mutant(
        "the command that drops --person of an evaluation",
        "cli/models.py",
        '"budget": budget, "person": payer.person}',
        '"budget": budget}',
        (f"{COMMAND}::test_rows_of_a_person_are_capped_by_a_column_or_taken_on_trust_aloud",),
    ),
    Mutant(
        "classes of a baseline taken from y",
        "estimators/evaluation.py",
        "    sums = task_of(fitted, **settings)\n",
        "    import numpy as np\n\n"
        "    sums = task_of(fitted, **settings)\n"
        '    if y is not None and hasattr(fitted, "classes_"):\n'
        "        sums = Classification(tuple(np.unique(np.asarray(y)).tolist()), scores=sums.scores)\n",
        (f"{JUDGED}::test_classes_are_the_models_whatever_y_holds",),
    ),
    Mutant(
        "a model's error that repeats a row",
        "estimators/evaluation.py",
        "    with PublicWords(problem):\n        rows, many",
        "    if True:\n        rows, many",
        (f"{JUDGED}::test_refusals_charge_nothing_and_repeat_no_row",),
    ),
    Mutant(
        "a group's budget that judges all rows",
        "estimators/evaluation.py",
        "judged_rows(fitted, X, y, cap, group)",
        "judged_rows(fitted, X, y, cap, None)",
        (f"{JUDGED}::test_a_group_is_judged_by_its_own_rows",),
    ),
    Mutant(
        "a share whose interval forgets that rows are a sample",
        "inference/counts/noisy_counts.py",
        "    return betaincinv(part + kinds[0] / 2, rest + kinds[1] / 2, uniform)",
        "    return (part + 0.5) / (part + rest + 1)",
        (f"{COUNTS}::test_a_share_is_the_mixture_over_every_possible_count",),
    ),
    Mutant(
        "a mean whose interval forgets that rows are a sample",
        "inference/counts/noisy_counts.py",
        "np.sqrt(np.maximum(n * variance, 1e-12))",
        "np.full(variance.shape, 1e-6)",
        (f"{MEANS}::test_a_mean_has_the_deviation_of_sampling_and_noise",),
    ),
    Mutant(
        "probabilities above 1 whose squares are no numbers",
        "statistics/moments.py",
        "    probabilities = np.minimum(probabilities, 1.0)",
        "    probabilities = probabilities + 0.0",
        (f"{SUMS}::test_probabilities_far_above_1_count_as_1",),
    ),
    Mutant(
        "a second reading in another order",
        "estimators/evaluation.py",
        "held.where(_kept(held, cap, group, declared.strict))",
        "held.where(_kept(read_once(X, columns), cap, group, declared.strict))",
        (
            f"{PERSONS}::test_rows_of_a_person_are_judged_by_one_reading",
            f"{JUDGED}::test_the_rows_of_a_group_are_read_once",
            f"{READS}[evaluate, person]",
        ),
        first=True,
    ),
    Mutant(
        "a lazy table taken for one in memory",
        "structure/conversion.py",
        "    return not held and hasattr(",
        '    return not held and not hasattr(rows, "columns") and hasattr(',
        (f"{READS}[PrivateNaiveBayes.fit, person]", f"{READS}[cross_validate, regression]"),
    ),
    Mutant(
        "rows with nulls dropped from an evaluation whose number of rows is public",
        "estimators/evaluation.py",
        "drop = unit is not None and not unit.n_is_public",
        "drop = True",
        (f"{STRICT}::test_no_cell_refuses_an_evaluation_that_drops_rows",),
    ),
    Mutant(
        "a strict evaluation whose y numpy reads",
        "estimators/fitting.py",
        "column_of(y, NO_COLUMN, strict=strict)",
        "column_of(y, NO_COLUMN)",
        (f"{STRICT}::test_no_cell_refuses_an_evaluation_or_moves_another_row",),
    ),
    Mutant(
        "a row that names nobody refused by a strict cross-validation",
        "estimators/cross_validation.py",
        "person_names(ids) if strict else person_ids(ids)",
        "person_ids(ids)",
        (f"{STRICT}::test_no_cell_refuses_a_cross_validation",),
    ),
    Mutant(
        "the ids of persons read in the open",
        "estimators/cross_validation.py",
        'with PublicWords("the ids of persons cannot be read"):',
        "if True:",
        (f"{FOLDS}::test_what_are_no_rows_is_refused_and_not_repeated",),
    ),
    Mutant(
        "the target of a baseline read in the open",
        "estimators/evaluation.py",
        'with PublicWords("y must hold numbers"):',
        "if True:",
        (f"{CANARY}::test_columns[evaluate, y for a scikit-learn regressor]",),
    ),
)
