"""Faults in reading several releases as one: what they say, what they cost, and whose rows they are."""

from tests.mutants.planting import Mutant

SEVERAL, POOLED = "tests/inference/network/test_several.py", "tests/inference/network/test_pooled.py"
JOINING, VALUES, FILES = "tests/privacy/test_joining.py", "tests/structure/test_joint.py", "tests/files/test_joint.py"

MUTANTS = (
    Mutant(
        "a second release that is not read",
        "inference/network/evidence.py",
        "for part in noisy.parts for table in _measured(part)",
        "for part in noisy.parts[:1] for table in _measured(part)",
        (f"{SEVERAL}::test_every_method_reads_every_release",),
    ),
    Mutant(
        "releases averaged by their variances",
        "inference/network/several.py",
        "weights = [1 / max(spread, 1e-300) for _, spread in estimates]",
        "weights = [max(spread, 1e-300) for _, spread in estimates]",
        (f"{SEVERAL}::test_consistent_tables_are_least_squares_over_all_releases",),
    ),
    Mutant(
        "the average of two releases with the variance of a plain mean",
        "inference/network/several.py",
        "else 1 / total",
        "else sum(spread for _, spread in estimates) / len(estimates) ** 2",
        (f"{SEVERAL}::test_two_gaussian_releases_are_as_one_with_the_precision_weighted_mean",),
    ),
    Mutant(
        "pooled rows with the noise of one release",
        "inference/network/several.py",
        "sum(part[block][1] for part in parts))",
        "max(part[block][1] for part in parts))",
        (f"{POOLED}::test_residuals_and_their_variances_add",),
    ),
    Mutant(
        "latent rows of one release that forget the others'",
        "inference/network/pooled.py",
        "own._replace(prior=prior + others)",
        "own",
        (f"{POOLED}::test_compiled_equals_plain_and_the_state_stays_that_of_the_rows",),
    ),
    Mutant(
        "a prior learned from the rows of one release",
        "inference/network/pooled.py",
        "run.relearn(rng, layout, every,",
        "run.relearn(rng, layout, latent[0].counts,",
        (f"{POOLED}::test_a_prior_that_learns_reads_the_rows_of_both_data_sets",),
    ),
    Mutant(
        "pooled tables within their noise taken as normal in silence",
        "inference/network/posterior.py",
        "if isinstance(noisy, PooledCounts) and (rough := too_rough(noisy, shrink=shrink)):",
        "if isinstance(noisy, PooledCounts) and not (rough := too_rough(noisy, shrink=shrink)):",
        (f"{POOLED}::test_a_sum_of_tables_within_its_noise_is_warned_of_and_records_are_right",),
    ),
    Mutant(
        "auto that takes pooled tables within their noise as normal",
        "inference/network/posterior.py",
        "if rough := too_rough(noisy):",
        "if (rough := too_rough(noisy)) and not rough:",
        (f"{POOLED}::test_auto_takes_pooled_tables_as_normal_only_where_they_are_settled",),
    ),
    Mutant(
        "a joint event that claims its largest part",
        "privacy/records.py",
        "epsilon = sum((event.epsilon for event in events), Fraction(0))",
        "epsilon = max(event.epsilon for event in events)",
        (f"{JOINING}::test_the_cost_is_the_composition_of_both",),
    ),
    Mutant(
        "a joint event that may claim less than its parts",
        "privacy/events.py",
        "sums == (event.epsilon, event.delta)",
        "sums >= (event.epsilon, event.delta)",
        (f"{JOINING}::test_an_event_claims_the_sum_of_its_parts_or_what_its_rho_costs",),
    ),
    Mutant(
        "a rho below that of the parts, charged as it says",
        "privacy/filters.py",
        "    check_paid_together(event)\n    return event\n",
        "    return event\n",
        (f"{JOINING}::test_a_rho_below_that_of_the_parts_is_neither_charged_nor_priced",),
    ),
    Mutant(
        "joint events priced as one by every accountant",
        "privacy/accounting.py",
        "events = [part for whole in wholes for part in whole.events]",
        "events = wholes",
        (f"{JOINING}::test_the_cost_is_the_composition_of_both",),
    ),
    Mutant(
        "parts of a joint release whose movements are not held to its unit",
        "privacy/records.py",
        "for part in event.events:",
        "for part in ():",
        (f"{JOINING}::test_the_movements_of_every_part_must_fit_the_unit",),
    ),
    Mutant(
        "parts of a file whose records are not checked",
        "mechanisms/reproduction.py",
        "check_reproduced(Provenance(part, unit, provenance.private), of_part)",
        "pass",
        (f"{FILES}::test_the_noise_of_a_part_is_that_of_its_claim",),
    ),
    Mutant(
        "one release read twice",
        "structure/joint.py",
        "if one is other or (one == other and _coincidence(one) < -NATS):",
        "if False:",
        (f"{VALUES}::test_the_same_release_twice_is_refused_unless_noise_may_agree",),
    ),
    Mutant(
        "months of different length joined",
        "structure/joint.py",
        "if len(public) > 1:",
        "if False:",
        (f"{VALUES}::test_numbers_of_rows_that_disagree_are_refused_for_the_same_rows_only",),
    ),
    Mutant(
        "releases of different groups joined",
        "privacy/records.py",
        'in ("different", "overlapping")',
        'in ("same",)',
        (f"{JOINING}::test_each_verb_refuses_the_rows_of_the_other_where_records_tell",),
    ),
    Mutant(
        "releases of the same rows pooled",
        "structure/joint.py",
        'if known == "overlapping" or',
        "if False and",
        (f"{JOINING}::test_each_verb_refuses_the_rows_of_the_other_where_records_tell",),
    ),
)
