"""Faults in the one pipeline: sums of a regression by every engine, and the weight that a mechanism chooses."""

from tests.mutants.planting import Mutant

SUMS, PIPELINE = "tests/statistics/engines/test_regression_sums.py", "tests/estimators/test_one_pipeline.py"

MUTANTS = (
    Mutant(
        "a regression's group forgotten",
        "statistics/rows/codes.py",
        "wanted.append(columns[condition.by] == variable.code(condition.level))",
        "wanted.append(columns[condition.by] >= 0 * (variable.code(condition.level) or 0))",
        (f"{SUMS}::test_a_declared_group_alone_is_summed",),
    ),
    Mutant(
        "sums of a group that do not say so",
        "statistics/moments.py",
        "return Moments(described, vector[:-1], many, group, cap)",
        "return Moments(described, vector[:-1], many, None, cap)",
        (f"{SUMS}::test_a_group_is_released_by_its_own_budget_alone",),
    ),
    Mutant(
        "a group of two declarations",
        "statistics/summary.py",
        "if name in own and own[name] != declared[name]:",
        "if False:",
        (f"{SUMS}::test_what_is_not_declared_is_refused",),
    ),
    Mutant(
        "a strict design whose group can refuse a row",
        "statistics/summary.py",
        "if domain is not None and one not in own and undeclared_actions(domain[one]):",
        "if False:",
        (f"{SUMS}::test_a_strict_design_takes_no_group_that_could_refuse_a_row",),
    ),
    Mutant(
        "rows beyond a thread's share left out",
        "statistics/rows/batches.py",
        "for start in range(0, max(1, many), rows or max(1, many)):",
        "for start in range(0, 1):",
        ("tests/statistics/test_regression.py::test_blocks_batches_and_threads_change_nothing",),
    ),
    Mutant(
        "public calls without the estimator's weight",
        "privacy/release.py",
        "statistics = prepare(statistics, budget.unit)",
        "pass",
        (f"{PIPELINE}::test_three_public_calls_are_a_private_regression",),
    ),
    Mutant(
        "an event of another plan than the noise",
        "privacy/release.py",
        "        statistics = prepare(statistics, budget.unit)\n"
        "    event = mechanism.event(description_of(statistics), budget.unit)",
        "        planned = mechanism.event(description_of(statistics), budget.unit)\n"
        "        statistics = prepare(statistics, budget.unit)\n"
        "    event = planned if prepare else mechanism.event(description_of(statistics), budget.unit)",
        (f"{PIPELINE}::test_three_public_calls_are_a_private_regression",),
    ),
)
