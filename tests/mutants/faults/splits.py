"""Faults of splits: folds that rows choose, fits or scores that are not paid for, and the warning that goes."""

from tests.mutants.planting import Mutant

VALIDATION, FOLDS, SPLITS = (
    "tests/estimators/test_cross_validation.py",
    "tests/estimators/test_folds.py",
    "tests/estimators/test_splits.py",
)
CODE = "estimators/cross_validation.py"
REPLACED = f"{VALIDATION}::test_under_replace_the_loss_of_every_neighbour_is_at_most_the_charge[2-0]"
ADDED = f"{VALIDATION}::test_under_add_remove_the_loss_of_every_neighbour_is_at_most_the_charge[0]"
PERSONS = f"{VALIDATION}::test_a_person_of_several_rows_is_in_one_fold_and_costs_no_more[0]"
HASHED = "fold = folds_by_person(rows.persons, folds, noise.bits(KEY_BITS).to_bytes(KEY_BITS // 8))"

MUTANTS = (
    Mutant("folds by position under add-remove", CODE, HASHED, "fold = folds_by_position(len(rows), folds)", (ADDED,)),
    Mutant(
        "a fold that depends on the row's label: stratified",
        CODE,
        "fold = folds_by_position(len(rows), folds)",
        'fold = np.argsort(np.argsort(np.asarray(rows.y), kind="stable")) % folds',
        (REPLACED,),
    ),
    Mutant(
        "folds hashed without a key",
        "estimators/cross_validation.py",
        "digest_size=8, key=key)",
        "digest_size=8)",
        (f"{FOLDS}::test_one_person_is_in_one_fold_and_a_key_decides_which",),
    ),
    Mutant(
        "one key for all calls",
        CODE,
        "noise.bits(KEY_BITS).to_bytes(KEY_BITS // 8)",
        'b"fixed"',
        (f"{VALIDATION}::test_the_key_is_fresh_in_every_call",),
    ),
    Mutant(
        "a fold by the person's place among the persons",
        "estimators/cross_validation.py",
        "int.from_bytes(hashed[one]) % folds for one in persons",
        "(sorted(hashed).index(one) + key[0]) % folds for one in persons",
        (f"{FOLDS}::test_a_rows_fold_is_the_same_whichever_other_rows_are_there",),
    ),
    Mutant(
        "the person's id ignored: each row hashed by its place",
        CODE,
        "folds_by_person(rows.persons, folds",
        "folds_by_person([str(i) for i in range(len(rows))], folds",
        (f"{VALIDATION}::test_all_rows_of_a_person_are_judged_in_one_fold",),
    ),
    Mutant(
        "rows beyond a person's first are counted",
        CODE,
        "        rows = Rows(*rows.take(kept), tuple(rows.persons[i] for i in kept))\n",
        "",
        (PERSONS,),
    ),
    Mutant(
        "the person column is a feature",
        "estimators/cross_validation.py",
        "table = table if keep else rest",
        "table = table",
        (f"{VALIDATION}::test_a_person_column_is_no_feature",),
    ),
    Mutant(
        "persons are no matter under replace",
        CODE,
        "if unit.n_is_public and (person is not None or own is not None):",
        "if unit.n_is_public and own is not None:",
        (f"{VALIDATION}::test_what_cannot_be_priced_is_refused_and_nothing_is_charged",),
    ),
    Mutant(
        "training charged for k - 2 fits",
        CODE,
        "folds if everywhere else folds - 1",
        "folds if everywhere else max(1, folds - 2)",
        (REPLACED.replace("[2-0]", "[3-0]"),),
    ),
    Mutant(
        "several replaced rows change k - 1 fits only",
        CODE,
        "folds if everywhere else folds - 1",
        "folds - 1",
        (f"{VALIDATION}::test_where_every_fit_may_change_every_fit_is_charged",),
    ),
    Mutant(
        "the evaluation is not charged",
        CODE,
        "fit = whole.epsilon * (1 - part) / changed",
        "fit = whole.epsilon / changed",
        (f"{VALIDATION}::test_epsilon_is_split_exactly",),
        first=True,
    ),
    Mutant(
        "the evaluation costs the whole again",
        CODE,
        "PrivacyCost(whole.epsilon - changed * fit)",
        "PrivacyCost(whole.epsilon)",
        (REPLACED,),
    ),
    Mutant(
        "the call is charged after the fits",
        CODE,
        "    receipt = budget.charge(plan.whole)\n"
        "    scope = RowsRecord(budget.identity, receipts=() if receipt is None else (receipt.digest,))\n"
        "    evaluation, parts = _validated(estimator, rows, folds, plan, budget.unit, judged, interval, source)\n",
        "    scope = RowsRecord(budget.identity)\n"
        "    evaluation, parts = _validated(estimator, rows, folds, plan, budget.unit, judged, interval, source)\n"
        "    budget.charge(plan.whole)\n",
        (f"{VALIDATION}::test_the_charge_comes_first_and_stands",),
    ),
    Mutant(
        "every fold's exact score in the open",
        CODE,
        "        parts += spent.events\n        found = outcomes(",
        "        held = rows.take(np.flatnonzero(fold == held_out))\n"
        '        parts += [Event(f"fold {held_out}: {model.score(*held)}", event.epsilon) for event in spent.events]\n'
        "        found = outcomes(",
        (f"{VALIDATION}::test_nothing_but_the_releases_depends_on_the_rows",),
    ),
    Mutant(
        "every fold's evaluation released at the price of one",
        CODE,
        "        whole = found if whole is None else whole + found\n",
        "        whole = found if whole is None else whole + found\n"
        "        evaluation_of(found, epsilon=plan.evaluation.epsilon, noise=noise,\n"
        "                      budget=exact_budget(plan.evaluation, unit))\n",
        (REPLACED,),
    ),
    Mutant(
        "models judged on the rows they learned from",
        CODE,
        "np.flatnonzero(fold == held_out)",
        "np.flatnonzero(fold != held_out)",
        (f"{VALIDATION}::test_each_row_is_in_all_training_sets_but_one_and_judged_once",),
    ),
    Mutant(
        "a fit has the caller's whole budget",
        CODE,
        "spent = Budget(plan.fit.epsilon, plan.fit.delta, unit=unit)",
        "spent = Budget(plan.whole.epsilon, plan.whole.delta, unit=unit)",
        (f"{VALIDATION}::test_an_estimator_cannot_spend_more_than_its_part",),
        first=True,
    ),
    Mutant(
        "an estimator that charges nothing is taken",
        "estimators/cross_validation.py",
        "    if not door.asked:\n",
        "    if False:\n",
        (f"{VALIDATION}::test_what_cannot_be_priced_is_refused_and_nothing_is_charged",),
    ),
    Mutant(
        "copies of one seeded source, equal noise in every fit",
        "estimators/cross_validation.py",
        'chosen["noise"] = None if isinstance(noise, SecureNoise) else SharedNoise(noise)',
        'chosen["noise"] = None if isinstance(noise, SecureNoise) else noise',
        (f"{VALIDATION}::test_fits_of_one_seeded_source_have_different_noise",),
    ),
    Mutant(
        "the warning of fits on other rows is gone",
        "estimators/fitting.py",
        "    warnings.warn(ADVICE, SplitWarning, stacklevel=5)  # past Fit.paying, what pays and fit\n",
        "",
        (f"{SPLITS}::test_the_second_fit_on_other_rows_warns_once_with_the_numbers_and_the_right_call",),
    ),
    Mutant(
        "the warning of fits with budgets of their own is gone",
        "estimators/fitting.py",
        "    if fits > 1 and fits.bit_count() == 1:\n",
        "    if False:\n",
        (f"{SPLITS}::test_fits_with_budgets_of_their_own_are_counted_and_their_charges_added",),
    ),
    Mutant(
        "a step that learns from rows before an estimator passes",
        "estimators/fitting.py",
        "            if _learns(step):\n",
        "            if False:\n",
        (f"{SPLITS}::test_a_step_that_learned_from_rows_is_said_before_anything_is_charged",),
    ),
    Mutant(
        "rows are compared by content",
        "estimators/fitting.py",
        "    return lambda other: reference() is other\n",
        "    return lambda other: bool((reference() == other).all())\n",
        (f"{SPLITS}::test_equal_content_in_another_object_counts_as_other_rows",),
    ),
)
