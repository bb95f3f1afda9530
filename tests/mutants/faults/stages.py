"""Faults of second stages and of what follows a learned network: its fit, its ledger, its persons, its evidence."""

from tests.mutants.planting import Mutant

SMOOTHING = "tests/inference/graphs/test_smoothing.py"
ENTROPY, EVIDENCE = "tests/inference/graphs/test_entropy.py", "tests/inference/graphs/test_evidence.py"
EDGES = "tests/inference/graphs/test_edges.py"
PAID = "tests/estimators/test_paid_choices.py"

MUTANTS = (
    Mutant(
        "a fit that takes every table for as noisy as the next",
        "inference/graphs/entropy.py",
        "ridge = np.repeat(WEIGHT * np.array(spread), terms.lengths)",
        "ridge = np.repeat(WEIGHT * np.full(len(spread), 1e-6), terms.lengths)",
        (f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",),
    ),
    Mutant(
        "features that count the cells outside them twice",
        "inference/graphs/entropy.py",
        "spread[at] = part.reshape(shape) * outside",
        "spread[at] = part.reshape(shape) * outside**2",
        (f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",),
    ),
    Mutant(
        "single variables held back where pairs are fitted",
        "inference/graphs/entropy.py",
        " if len(block) > 1 else 0.0 for block",
        " for block",
        (f"{ENTROPY}::test_uneven_variables_that_are_independent_stay_so",),
    ),
    Mutant(
        "tables of three variables fitted with all their noise",
        "inference/graphs/entropy.py",
        "kept = [some * share for share, (some, _) in zip(likely, found, strict=True)]",
        "kept = [np.ones_like(some) for some, _ in found]",
        (
            f"{ENTROPY}::test_the_fit_is_the_maximum_of_entropy_less_squared_errors",
            f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[Laplace-even]",
        ),
    ),
    Mutant(
        "draws of the sample's pairs in place of the population's",
        "inference/graphs/pairs.py",
        "self._free(pair) + over + sampling",
        "self._free(pair) + over",
        (f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[little Gaussian-even]",),
    ),
    Mutant(
        "what sampling adds to tables of three variables taken for dependence",
        "inference/graphs/pairs.py",
        "return variance + self.n * sampled.ravel()",
        "return variance + 0 * sampled.ravel()",
        (f"{EDGES}::test_pairs_that_do_not_depend_are_seldom_joined_on_nearly_all_draws[little Laplace-even]",),
    ),
    Mutant(
        "parents that are tried one at a time alone",
        "inference/graphs/joint.py",
        "for more in [*singles, *together] if",
        "for more in singles if",
        (f"{PAID}::test_greedy_and_the_second_stage_find_what_no_pair_tells",),
    ),
    Mutant(
        "what is measured at once decided by the exact number of rows",
        "estimators/graphs/second_stage.py",
        "math.sqrt(variances[table]) / model.n for",
        "math.sqrt(variances[table]) / max(1, statistics.sensitive_rows) for",
        (f"{PAID}::test_what_is_measured_at_once_follows_from_what_was_released",),
    ),
    Mutant(
        "a record in parts that a ledger's row did not pay for",
        "privacy/ledger/checking.py",
        "        if not rule.fits(spent):\n            return\n",
        "",
        (f"{PAID}::test_a_ledger_verifies_a_network_that_one_row_paid_for_in_parts",),
    ),
    Mutant(
        "probabilities of tables without a graph",
        "mechanisms/takes.py",
        "    if isinstance(network, Margins):\n",
        "    if False:\n",
        ("tests/mechanisms/selection/test_map_estimate.py::test_tables_without_a_graph_are_refused_uncharged",),
        within="check_graph",
    ),
    Mutant(
        "an evidence that leaves the prior out",
        "inference/graphs/evidence.py",
        'covariance = covariance + np.einsum("mkc,kl,ulc->mu", slopes, prior, slopes, optimize=True)',
        "assert prior.size",
        (f"{EVIDENCE}::test_the_weight_of_an_edge_is_near_that_of_the_sum_over_all_tables",),
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
        "inference/graphs/smoothing.py",
        "found[name] = conditional(joints[name] + more) if",
        "found[name] = conditional(joints[name]) if",
        (f"{SMOOTHING}::test_a_configuration_is_given_rows_in_the_childs_own_proportions",),
    ),
    Mutant(
        "pseudo-rows that the noise does not say",
        "inference/graphs/smoothing.py",
        "rows = PART * _noise(pairs, family) / pairs.n",
        "rows = PART / pairs.n",
        (f"{SMOOTHING}::test_without_noise_nothing_is_added",),
    ),
)
