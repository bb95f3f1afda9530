"""Faults in what is said of rows, in what strict declarations keep, and in what an interrupted fit leaves."""

from tests.mutants.planting import Mutant

CONVERSION, STRICT = "tests/structure/test_conversion.py", "tests/statistics/test_strict.py"
REFITTING, DOMAIN, CANARY = (
    "tests/estimators/test_refitting.py",
    "tests/structure/test_domain.py",
    "tests/privacy/test_canary.py",
)
OBJECTS = f"{STRICT}::test_no_object_in_a_cell_refuses_a_table_or_moves_another_row"

MUTANTS = (
    Mutant(
        "the library's own words passed on",
        "structure/conversion.py",
        'refusal = DomainError(f"{problem} ({_kind(error)})")',
        'refusal = DomainError(f"{problem} ({error})")',
        (f"{CONVERSION}::test_a_failure_is_refused_in_public_words",),
    ),
    Mutant(
        "a refusal that holds on to what was raised",
        "structure/conversion.py",
        '        refusal = DomainError(f"{problem} ({_kind(error)})")\n',
        '        raise DomainError(f"{problem} ({_kind(error)})") from None\n',
        (f"{CONVERSION}::test_a_failure_is_refused_in_public_words",),
    ),
    Mutant(
        "the name of an exception that rows bring along",
        "structure/conversion.py",
        'return kind.__name__ if kind.__module__.partition(".")[0] in _LIBRARIES else "Exception"',
        "return kind.__name__",
        (f"{CONVERSION}::test_a_failure_is_refused_in_public_words",),
    ),
    Mutant(
        "warnings of a conversion shown",
        "structure/conversion.py",
        'warnings.simplefilter("ignore")',
        "pass",
        (f"{CONVERSION}::test_warnings_are_dropped_and_the_filters_come_back",),
    ),
    Mutant(
        "ragged rows converted by numpy in the open",
        "statistics/rows/design_columns.py",
        'array_of(X, "X must be an array of two axes, with as many values in each row")',
        "np.asarray(X)",
        (f"{CANARY}::test_matrices[regression_moments, X]",),
    ),
    Mutant(
        "ragged labels converted by numpy in the open",
        "estimators/fitting.py",
        "cells_of(y) if strict else array_of(y, problem)",
        "np.asarray(y)",
        (f"{CONVERSION}::test_ragged_rows_do_not_say_how_many_they_are",),
    ),
    Mutant(
        "persons whose keys Arrow shows",
        "statistics/rows/persons.py",
        'raise DomainError(f"column {person!r} must hold text, numbers or dates, by which persons are told apart")',
        'raise DomainError(f"column {person!r} is of type {array.type}")',
        (f"{CANARY}::test_tables_in_memory[cap_rows-who]",),
    ),
    Mutant(
        "text of an iterator quoted as a path",
        "statistics/rows/arrow.py",
        "if isinstance(table, str | Path) and not is_there(table):",
        "if False:",
        (f"{CANARY}::test_streams_and_other_engines[encode]",),
    ),
    Mutant(
        "scores in scikit-learn's own words",
        "estimators/fitting.py",
        "float(converted(lambda: metric(y, predicted, sample_weight=sample_weight), problem))",
        "float(metric(y, predicted, sample_weight=sample_weight))",
        (f"{CANARY}::test_columns[PrivateNaiveBayes.score, y]",),
    ),
    Mutant(
        "a strict domain without a level for nulls",
        "structure/domain.py",
        'actions = {"other": variable.other, "missing": variable.missing}\n    return [f',
        'actions = {"other": variable.other}\n    return [f',
        (f"{DOMAIN}::test_a_strict_domain_declares_what_becomes_of_every_value",),
    ),
    Mutant(
        "strictness lost with some of the variables",
        "structure/domain.py",
        "for name in names), self.strict)",
        "for name in names))",
        (f"{DOMAIN}::test_strictness_stays",),
    ),
    Mutant(
        "strictness lost in a file",
        "files/networks.py",
        'strict = {"strict": True} if network.domain.strict else {}',
        "strict = {}",
        ("tests/files/test_networks.py::test_a_strict_network_is_read_and_written_strict",),
    ),
    Mutant(
        "text in bins refuses a strict table",
        "statistics/rows/levels.py",
        "return NULL if strict else WRONG_TYPE",
        "return WRONG_TYPE",
        (f"{STRICT}::test_text_in_a_column_of_numbers_is_read_as_words",),
    ),
    Mutant(
        "objects of a strict table typed by all rows together",
        "statistics/rows/pandas.py",
        "    if values.dtype != object:\n        try:",
        "    if True:\n        try:",
        (OBJECTS,),
    ),
    Mutant(
        "a ragged line left out of a strict table",
        "statistics/rows/csv_files.py",
        "range(0, len(ragged), batch_rows(domain))",
        "range(0, 0, batch_rows(domain))",
        (f"{STRICT}::test_no_line_refuses_a_csv_file",),
    ),
    Mutant(
        "a row without a person kept in a strict table",
        "statistics/rows/kept.py",
        "kept = persons >= 0",
        "kept = persons >= -1",
        (f"{STRICT}::test_persons_are_compared_as_text_whatever_table_they_come_from",),
    ),
    Mutant(
        "a strict log of persons with a public number of rows",
        "privacy/release.py",
        "if cap.drops and unit.n_is_public:",
        "if False:",
        (f"{STRICT}::test_the_log_of_persons_needs_a_private_number_of_rows",),
    ),
    Mutant(
        "a refit that keeps the old model until the new one is there",
        "estimators/refitting.py",
        "        _forget(estimator)\n        learn(fresh, spend)\n",
        "        learn(fresh, spend)\n",
        (f"{REFITTING}::test_what_was_paid_for_is_kept_until_it_is_learned_from",),
    ),
    Mutant(
        "an old model given back after a charge",
        "estimators/refitting.py",
        "if all(_charges(budget) == before for budget, before in spending):",
        "if True:",
        (f"{REFITTING}::test_what_was_paid_for_is_kept_until_it_is_learned_from",),
    ),
    Mutant(
        "a release set before its model",
        "estimators/refitting.py",
        'vars(estimator)["unfinished_release"] = released',
        'vars(estimator)["release_"] = released',
        (f"{REFITTING}::test_what_was_paid_for_is_kept_until_it_is_learned_from",),
    ),
    Mutant(
        "a paid model lost to a refused fit",
        "estimators/refitting.py",
        "            vars(estimator).update(old)\n",
        "            pass\n",
        (f"{REFITTING}::test_a_refused_fit_that_charged_nothing_keeps_the_earlier_one_whole",),
    ),
    Mutant(
        "nulls counted among the values of a quantile",
        "mechanisms/selection/quantile.py",
        "np.cumsum(counts[: len(self.edges) - 1])",
        "np.cumsum(counts)",
        ("tests/mechanisms/selection/test_quantile.py::test_nulls_of_a_strict_network_are_left_out_and_tell_no_more",),
    ),
)
