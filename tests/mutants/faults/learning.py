"""Faults in learning a network: what is charged, what the design sees, what is shrunk, what is obeyed."""

from tests.mutants.planting import Mutant

LEARNING, CHOOSING = "tests/estimators/test_learning.py", "tests/inference/graphs/test_choosing.py"
MARGINS = "tests/structure/test_margins.py"
AVERAGING = "tests/inference/graphs/test_averaging.py"

MUTANTS = (
    Mutant(
        "a second release that spends all of epsilon again",
        "estimators/measured_pairs.py",
        "epsilon = task.epsilon * (1 - FIRST if _asks_first(task) else 1)",
        "epsilon = task.epsilon",
        (f"{LEARNING}::test_what_is_charged_is_what_was_asked_and_planned",),
    ),
    Mutant(
        "pairs that are picked by the exact number of rows",
        "estimators/measured_pairs.py",
        "n = _rows_in(releases[0])",
        "n = float(max(1, _counted(task, rows, _narrowest(task)).sensitive_rows))",
        (
            f"{LEARNING}::test_what_is_measured_follows_from_what_was_released",
            "tests/estimators/test_paid_choices.py::test_tables_of_three_follow_from_the_release",
        ),
    ),
    Mutant(
        "pairs that are not shrunk",
        "inference/graphs/pair_estimates.py",
        "if self.exact:",
        "if True:",
        (f"{CHOOSING}::test_shrinking_keeps_what_stands_out_and_drops_what_does_not",),
    ),
    Mutant(
        "an order that is not obeyed",
        "inference/graphs/constraints.py",
        "return parent != child and (parent, child) not in self.forbidden and self._in_order(parent, child)",
        "return parent != child and (parent, child) not in self.forbidden",
        (f"{CHOOSING}::test_tiers_are_read_from_names_and_lists",),
    ),
    Mutant(
        "shares of tables that are ignored",
        "mechanisms/additive/plans.py",
        "return tuple(Fraction(share, sum(network.shares)) for share in network.shares)",
        "return (Fraction(1, len(tables)),) * len(tables)",
        (f"{MARGINS}::test_shares_are_those_that_are_said",),
    ),
    Mutant(
        "sets of parents alike, however many there are",
        "inference/graphs/_kernels.py",
        "return -every - math.log(1.0 + min(most, possible))",
        "return 0.0",
        (f"{AVERAGING}::test_graphs_are_drawn_by_their_exact_posterior_probability",),
    ),
    Mutant(
        "a table without parents that is not integrated out",
        "inference/graphs/_kernels.py",
        "total = math.lgamma(float(size)) - math.lgamma(float(size + n))",
        "total = 0.0",
        (f"{AVERAGING}::test_graphs_are_drawn_by_their_exact_posterior_probability",),
    ),
    Mutant(
        "parents that are forbidden",
        "inference/graphs/averaging.py",
        "other in before[name] and constraints.allows(other, name)",
        "other in before[name]",
        (f"{AVERAGING}::test_constraints_hold_in_every_drawn_graph",),
    ),
    Mutant(
        "an order of the graph's own, in which tiers may stand the wrong way round",
        "inference/graphs/averaging.py",
        "order = _order(network, constraints)",
        "order = network.order",
        (f"{AVERAGING}::test_two_variables_that_one_direction_alone_may_join_stand_in_it",),
    ),
    Mutant(
        "the prior of a graph that is known where graphs are drawn",
        "inference/graphs/averaging.py",
        "read_prior(TABLE_PRIOR if prior is None else prior)",
        'read_prior("hierarchical" if prior is None else prior)',
        (f"{AVERAGING}::test_rows_are_less_alike_beforehand_than_where_the_graph_is_known",),
    ),
    Mutant(
        "all pairs of a wide domain taken to depend",
        "estimators/measured_pairs.py",
        "depend = min(1.0, DEPENDENT / (len(names) - 1))",
        "depend = 1.0",
        ("tests/estimators/test_learning.py::test_the_wider_a_domain_the_more_its_variables_get_of_what_pairs_have",),
    ),
    Mutant(
        "blocks of a record that are not all of any tables'",
        "mechanisms/additive/plans.py",
        "return tables if has_blocks(tables, found) else None",
        "return tables",
        ("tests/mechanisms/test_reproduction.py::test_blocks_of_a_record_are_all_blocks_of_some_tables",),
    ),
    Mutant(
        "a random state that is read after the charge",
        "estimators/naive_bayes.py",
        "        fitting.check_learning(self.inference, self.random_state)\n",
        "",
        ("tests/estimators/test_fitting.py::test_a_random_state_that_is_none_charges_nothing",),
    ),
    Mutant(
        "levels of a parent in its own order whatever the child's table says",
        "files/pgmpy.py",
        "if own != levels[name] and table.shape[axis] == len(own):",
        "if not own:",
        ("tests/files/test_pgmpy.py::test_levels_of_a_parent_in_another_order_in_pgmpy",),
    ),
    Mutant(
        "a setting without a use, paid for",
        "estimators/evaluation.py",
        '    if bounds is not None:\n        raise DomainError("bounds= has no meaning',
        '    if False:\n        raise DomainError("bounds= has no meaning',
        ("tests/estimators/test_evaluation.py::test_a_setting_that_a_regression_has_no_use_for_is_not_paid_for",),
    ),
)
