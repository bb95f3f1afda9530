"""Faults in what is predicted from which columns: targets that are guessed, features in another order."""

from tests.mutants.planting import Mutant

TARGETS, ROWS = "tests/estimators/test_targets.py", "tests/models/test_rows_to_predict.py"

MUTANTS = (
    Mutant(
        "the last declared variable taken for the target of an array",
        "estimators/naive_bayes.py",
        "named = tuple(name for name in names if name != target)",
        "named = names[:-1]",
        (f"{TARGETS}::test_an_array_is_fitted_as_the_table_is_where_the_target_is_said",),
    ),
    Mutant(
        "a y of another name taken for the target",
        "estimators/fitting.py",
        "if name is not None and name != target:",
        "if False:",
        (f"{TARGETS}::test_a_y_of_another_name_is_refused_and_its_name_is_not_repeated",),
    ),
    Mutant(
        "columns demanded at predict that nobody declared",
        "estimators/fitting.py",
        "frame: Any = declared_columns(table_frame(X), declared, list(like))",
        "frame: Any = table_frame(X)",
        (f"{TARGETS}::test_columns_that_nobody_declared_do_not_matter_at_fit_or_later",),
    ),
    Mutant(
        "the columns of an array of rows to predict in another order",
        "statistics/rows/features.py",
        "columns = {name: array[:, i] for i, name in enumerate(names)}",
        "columns = {name: array[:, -1 - i] for i, name in enumerate(names)}",
        (f"{ROWS}::test_a_loaded_classifier_predicts_as_its_estimator",),
    ),
)
