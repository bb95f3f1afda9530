"""Faults of what follows a learned network: its fit, its ledger, its persons, its evidence."""

from tests.mutants.planting import Mutant

SMOOTHING = "tests/inference/graphs/test_smoothing.py"
ENTROPY, TREES = "tests/inference/graphs/test_entropy.py", "tests/inference/graphs/test_trees.py"
JOINTS = "tests/inference/graphs/test_trees.py::test_three_variables_have_the_errors_of_their_pairs_and_of_rows"
EDGES, REFITTING = "tests/inference/graphs/test_edges.py", "tests/inference/graphs/test_refitting.py"
FACTORS, BORROWING = "tests/inference/graphs/test_factors.py", "tests/inference/graphs/test_borrowing.py"
PAID = "tests/estimators/test_paid_choices.py"

MUTANTS = (
    Mutant(
        "a fit that takes every table for as noisy as the next",
        "inference/graphs/field.py",
        "return min(max(WEIGHT * pairs.residuals[block][1] / pairs.n**2, rows), MOST_HELD)",
        "return WEIGHT * 1e-6",
        (f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",),
    ),
    Mutant(
        "drawn pairs of no joint distribution fitted as any others",
        "inference/graphs/field.py",
        "WEIGHT, LEAST_HELD, MOST_HELD = 25.0, 0.1, 0.01",
        "WEIGHT, LEAST_HELD, MOST_HELD = 25.0, 0.0, 0.01",
        (f"{REFITTING}::test_draws_of_pairs_that_no_rows_have_stay_near_the_answer",),
    ),
    Mutant(
        "messages of cliques that count twice",
        "inference/graphs/field.py",
        "+= np.log(sums[i])[",
        "+= 2 * np.log(sums[i])[",
        (
            f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",
            f"{TREES}::test_messages_give_the_margins_of_the_enumerated_joint",
        ),
    ),
    Mutant(
        "evidence that is weighed in no clique but the questions'",
        "inference/graphs/field.py",
        "for name, weight in weights.items() if name in new",
        "for name, weight in weights.items() if name in new and set(wanted) & new",
        (f"{TREES}::test_messages_give_the_margins_of_the_enumerated_joint",),
    ),
    Mutant(
        "a question of a learned network answered by its graph alone",
        "inference/queries/asking.py",
        "if tables.joints is None or evidence.do:",
        "if True:",
        (f"{TREES}::test_a_question_of_a_learned_network_is_answered_by_draws_of_its_model",),
    ),
    Mutant(
        "a variable that enters one clique of those between it and another",
        "inference/graphs/trees.py",
        "for i in wide:",
        "for i in wide[:1]:",
        (f"{TREES}::test_a_tree_is_one_of_cliques_within_its_cells",),
    ),
    Mutant(
        "single variables held back where pairs are fitted",
        "inference/graphs/field.py",
        "for i in range(self.small, len(self.blocks)):\n            self._ridge",
        "for i in range(len(self.blocks)):\n            self._ridge",
        (f"{ENTROPY}::test_uneven_variables_that_are_independent_stay_so",),
    ),
    Mutant(
        "tables of three variables fitted with all their noise",
        "inference/graphs/field.py",
        "kept = beyond_noise(list(zip(beyond, noise, cells, strict=True)))",
        "kept = [np.ones_like(away) for away in beyond]",
        (
            f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",
            f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[Laplace-even]",
        ),
    ),
    Mutant(
        "draws of the sample's pairs in place of the population's",
        "inference/graphs/pair_estimates.py",
        "of_cells = of_cells + over + self.n * np.outer(first * (1 - first), second * (1 - second))",
        "of_cells = of_cells + over",
        (f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[little Gaussian-even]",),
    ),
    Mutant(
        "what sampling adds to tables of three variables taken for dependence",
        "inference/graphs/pair_estimates.py",
        "return variance + self._sampling(block)",
        "return variance + 0 * self._sampling(block)",
        (f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[little Laplace-even]",),
    ),
    Mutant(
        "loadings taken as known where others are learned from them",
        "inference/graphs/factors.py",
        "return apart + self.widths[:, None, None] * self.covariances",
        "return apart + 0 * self.widths[:, None, None] * self.covariances",
        (
            f"{FACTORS}::test_each_step_raises_the_bound",
            f"{FACTORS}::test_no_move_of_loadings_or_scales_from_where_a_step_leads_is_better",
        ),
    ),
    Mutant(
        "variables that have nothing of a factor taken for some that have",
        "inference/graphs/factors.py",
        "NONE * (sizes == 0)",
        "scales * (sizes == 0)",
        (f"{FACTORS}::test_variables_without_a_factor_have_nothing_of_it",),
    ),
    Mutant(
        "loadings taken as those of their mean size",
        "inference/graphs/factors.py",
        "np.tensordot(self.likely, self.covariances, 1) + between",
        "np.tensordot(self.likely, self.covariances, 1)",
        (f"{FACTORS}::test_rows_are_a_posterior_over_all_tried_sizes", f"{FACTORS}::test_each_step_raises_the_bound"),
    ),
    Mutant(
        "noise in variables taken for a common cause of their pairs",
        "inference/graphs/factors.py",
        "1 / np.maximum([variance for _, variance in singles], LEAST)",
        "1 / np.maximum([0 * variance for _, variance in singles], LEAST)",
        (
            f"{FACTORS}::test_noise_alone_has_nothing_in_common",
            f"{BORROWING}::test_columns_of_no_cause_have_few_edges_however_uneven",
        ),
    ),
    Mutant(
        "a pair's own dependence taken for noise of its factors",
        "inference/graphs/factors.py",
        "self.precisions[upper] = (each / whole).sum(axis=1)",
        "self.precisions[upper] = (each[:, :1] / whole[:, :1]).sum(axis=1)",
        (f"{FACTORS}::test_what_a_coordinate_counts_is_the_mean_over_strengths",),
    ),
    Mutant(
        "what variables have alone counted as common",
        "inference/graphs/factors.py",
        "np.outer(first[:, 0], second[:, 0])",
        "0 * np.outer(first[:, 0], second[:, 0])",
        (f"{FACTORS}::test_without_noise_what_few_factors_give_is_found",),
    ),
    Mutant(
        "a pair that pulls what others say of it",
        "inference/graphs/factors.py",
        "min(variance * self.weights[one, other], MOST_LEVERAGE)",
        "min(0 * variance * self.weights[one, other], MOST_LEVERAGE)",
        (f"{FACTORS}::test_what_others_say_of_a_pair_is_what_they_say_without_it",),
    ),
    Mutant(
        "draws of pairs around independence where they borrowed",
        "inference/graphs/pair_estimates.py",
        "return kept * self.own + error + self.common",
        "return kept * self.own + error",
        (f"{BORROWING}::test_draws_of_the_pairs_lie_around_what_is_shrunk",),
    ),
    Mutant(
        "pairs of variables answered by what a model of few cells kept of them",
        "inference/graphs/choosing.py",
        "if not among or (len",
        "if len(among) < 2 or (len",
        ("tests/inference/graphs/test_trees.py::test_two_measured_variables_are_answered_by_their_own_draws",),
    ),
    Mutant(
        "joints of three variables that leave out the errors of their pairs",
        "inference/graphs/choosing.py",
        "joint = joint * np.expand_dims(ratio,",
        "joint = joint + 0 * np.expand_dims(ratio,",
        (JOINTS,),
    ),
    Mutant(
        "joints of three variables as even as their pairs allow",
        "inference/graphs/choosing.py",
        "uneven + REMAINS * joint",
        "joint + 0 * uneven",
        (JOINTS,),
    ),
    Mutant(
        "errors of a draw as if all cells of a pair were free",
        "inference/graphs/pair_estimates.py",
        "np.sqrt(kept * self.noise / self.free)",
        "np.sqrt(kept * self.noise)",
        ("tests/inference/graphs/test_choosing.py::test_draws_of_a_pair_have_the_errors_of_what_is_shrunk",),
    ),
    Mutant(
        "wide domains whose pairs do not borrow",
        "inference/graphs/trees.py",
        "return len(domain.names) >= FEWEST and not is_small(domain)",
        "return False",
        (f"{BORROWING}::test_a_domain_whose_joint_is_not_written_down_borrows",),
    ),
    Mutant(
        "parents that are tried one at a time alone",
        "inference/graphs/choosing.py",
        "for offers in ([(other,) for other in placed], together):",
        "for offers in ([(other,) for other in placed],):",
        (f"{PAID}::test_what_no_pair_tells_is_found",),
    ),
    Mutant(
        "a record in parts that a ledger's row did not pay for",
        "privacy/ledger/verification.py",
        "        if not rule.fits(spent):\n            return\n",
        "",
        (f"{PAID}::test_a_ledger_verifies_a_network_that_one_row_paid_for_in_parts",),
    ),
    Mutant(
        "probabilities of tables without a graph",
        "mechanisms/reproduction.py",
        "    if isinstance(network, Margins):\n",
        "    if False:\n",
        ("tests/mechanisms/selection/test_map_estimate.py::test_tables_without_a_graph_are_refused_uncharged",),
        within="check_graph",
    ),
    Mutant(
        "a network learned from all rows of a person",
        "estimators/learning.py",
        "rows = cap_rows(rows, task.domain, person, task.budget.unit.rows_per_person)",
        "rows = cap_rows(rows, task.domain, person, 10**6)",
        ("tests/cli/test_learn.py::test_a_person_has_no_more_rows_than_the_unit_protects",),
    ),
    Mutant(
        "a network whose cells may be nearly impossible",
        "inference/graphs/choosing.py",
        "found[name] = conditional(joints[name] + more) if",
        "found[name] = conditional(joints[name]) if",
        (f"{SMOOTHING}::test_a_configuration_is_given_rows_in_the_childs_own_proportions",),
    ),
    Mutant(
        "pseudo-rows that the noise does not say",
        "inference/graphs/choosing.py",
        "rows = PART * _noise_of_cells(pairs, family) / pairs.n",
        "rows = PART / pairs.n",
        (f"{SMOOTHING}::test_without_noise_nothing_is_added",),
    ),
)
