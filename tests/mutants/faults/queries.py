"""Faults in what is asked of a model: evidence, interventions, weights of draws, and samples."""

from tests.mutants.planting import Mutant

PAIRS = "tests/models/test_pair_moments.py"
CONDITIONAL, EFFECT = "tests/models/test_conditional.py", "tests/models/test_effect.py"
ASKING, FURTHER = "tests/inference/queries/test_asking.py", "tests/inference/queries/test_further.py"
NUMBERS = "tests/inference/network/test_numbers.py"

MUTANTS = (
    Mutant(
        "draws that weigh alike whatever the evidence",
        "inference/queries/answer.py",
        "weights = np.exp(log_evidence - log_evidence.max(axis=-1, keepdims=True))",
        "weights = np.ones_like(log_evidence)",
        (f"{ASKING}::test_every_draw_has_its_own_answer_and_the_predictive_weighs_by_the_evidence",),
    ),
    Mutant(
        "draws weighed by the evidence beside the target alone",
        "inference/queries/asking.py",
        "found, log = conditional(tables, targets, evidence, whole=len(tables) > 1 or not targets)",
        "found, log = conditional(tables, targets, evidence, whole=not targets)",
        (f"{ASKING}::test_every_draw_has_its_own_answer_and_the_predictive_weighs_by_the_evidence",),
    ),
    Mutant(
        "an intervention that is read as an observation",
        "inference/queries/contraction.py",
        "tables = [name for name in network.order if name in needed and name not in evidence.do]",
        "tables = [name for name in network.order if name in needed]",
        (f"{ASKING}::test_an_intervention_is_not_an_observation",),
    ),
    Mutant(
        "weights of evidence read as a set of levels",
        "inference/queries/contraction.py",
        "yield np.array(evidence.weights[name])[kept[name]]",
        "yield np.ones(len(kept[name]))",
        (f"{ASKING}::test_joints_sets_soft_evidence_and_interventions_by_enumeration",),
    ),
    Mutant(
        "scaled products whose scale is lost",
        "inference/queries/contraction.py",
        "            log = log + np.log(_by_row_and_draw(top, step.result))\n",
        "",
        (f"{ASKING}::test_blocks_of_draws_and_scaled_products_change_nothing",),
    ),
    Mutant(
        "samples without the weight of observed levels",
        "inference/queries/asking.py",
        "weights += np.log(table[(place, level, *parents)])",
        "weights += 0.0",
        (f"{ASKING}::test_likelihood_weighting_agrees_within_its_error",),
    ),
    Mutant(
        "an explanation by sums",
        "inference/queries/buckets.py",
        "message = product.max(axis=0) if maximum else product.sum(axis=0)",
        "message = product.sum(axis=0)",
        (f"{FURTHER}::test_the_most_probable_explanation_by_enumeration",),
    ),
    Mutant(
        "synthetic numbers that reach the next bin",
        "structure/domain.py",
        "firsts[at + 1] - 1 if at < last else",
        "firsts[at + 1] if at < last else",
        (f"{NUMBERS}::test_numbers_counted_again_are_of_the_levels_drawn",),
    ),
    Mutant(
        "whole numbers that stand for the midpoint of the edges",
        "structure/domain.py",
        "return self.steps[1] if self.whole else tuple(pairwise(self.edges))",
        "return tuple(pairwise(self.edges))",
        (f"{FURTHER}::test_expectation_and_quantiles_of_whole_numbers_are_those_of_the_numbers_one_by_one",),
    ),
    Mutant(
        "a number where the value is missing",
        "inference/network/queries.py",
        "gone = codes == variable.size - 1",
        "gone = codes == variable.size",
        (f"{NUMBERS}::test_numbers_counted_again_are_of_the_levels_drawn",),
    ),
    Mutant(
        "conditional rows of draws picked evenly",
        "inference/queries/buckets.py",
        "size=int(n), p=weights_of_draws(log))",
        "size=int(n))",
        (f"{FURTHER}::test_conditional_samples_follow_the_predictive_law",),
    ),
    Mutant(
        "a classifier that takes a null for the first level",
        "models/conditional.py",
        "column[column == sizes[name]] = UNSEEN",
        "column[column == sizes[name]] = 0",
        (f"{CONDITIONAL}::test_probabilities_are_those_of_the_whole_joint",),
    ),
    Mutant(
        "a classifier whose draws weigh alike whatever the row",
        "models/conditional.py",
        "scores.max(axis=1 if ends is not None else (0, 1), keepdims=True)",
        "scores.max(axis=1, keepdims=True)",
        (f"{CONDITIONAL}::test_answers_are_those_of_query_rows",),
    ),
    Mutant(
        "an effect that holds the treatment's own strata for the population's",
        "models/effect.py",
        "share = strata / strata.sum(axis=2, keepdims=True)",
        "share = treated[..., 0] / treated[..., 0].sum(axis=2, keepdims=True)",
        (f"{EFFECT}::test_it_is_the_difference_of_interventions_in_every_draw",),
    ),
    Mutant(
        "a collider that blocks whatever is held",
        "models/effect.py",
        "if (name in colliding) if down else (name not in held):",
        "if not down and name not in held:",
        (f"{EFFECT}::test_wrong_questions_are_refused_with_the_reason",),
    ),
    Mutant(
        "a smallest set of variables after the treatment",
        "models/effect.py",
        "free = name not in after and",
        "free =",
        (f"{EFFECT}::test_a_smaller_variable_after_the_treatment_is_not_chosen",),
    ),
    Mutant(
        "slopes without a prior",
        "models/projection.py",
        "np.eye(square.shape[1])",
        "1e-6 * np.eye(square.shape[1])",
        (f"{PAIRS}::test_a_level_that_drowns_in_its_noise_keeps_to_the_prior",),
    ),
    Mutant(
        "pairs of independent variables with the noise of their interaction alone",
        "models/projection.py",
        "(values + noise(variance, size - 1)) @",
        "(values + 0 * noise(variance, size - 1)) @",
        (f"{PAIRS}::test_moments_are_drawn_with_the_covariance_of_the_noise",),
    ),
    Mutant(
        "a curve that leaves the released pairs for the graph",
        "models/projection.py",
        "None if lines is None else x @ lines[draw % len(lines)]",
        "None",
        (f"{PAIRS}::test_curves_agree_with_the_pairs_where_the_graph_does_not",),
    ),
)
