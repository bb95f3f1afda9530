"""Faults in what lets large graphs and many rows be drawn in little time and memory."""

from tests.mutants.planting import Mutant

BLOCKS = "tests/inference/counts/test_block_proposals.py"
COUNTS, MEMORY = "tests/inference/counts/test_dirichlet_multinomial.py", "tests/test_memory.py"
FREE = "tests/inference/counts/test_blocks_of_unknown_rows.py"

MUTANTS = (
    Mutant(
        "blocks proposed without the ways to fill them",
        "inference/counts/block_proposals.py",
        "np.where(left < counted.size, counted[np.minimum(left, counted.size - 1)], 0.0)",
        "1.0 * (left < counted.size)",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "rows that are unknown without the ways to make them",
        "inference/counts/block_proposals.py",
        "[np.exp(log - top) @ counted for log in logs]",
        "[np.exp(log - top).sum() for log in logs]",
        (f"{FREE}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "proposals by blocks that are all kept",
        "inference/counts/block_proposals.py",
        "np.log1p(-rng.random(proposals)) <= log",
        "np.log1p(-rng.random(proposals)) <= 0",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "a bound at the far end of a block",
        "inference/counts/block_proposals.py",
        "below, above = starts - y[:, None], y[:, None] - (starts + block - 1)",
        "below, above = starts + block - 1 - y[:, None], y[:, None] - starts",
        (f"{BLOCKS}::test_draws_follow_the_enumerated_posterior",),
    ),
    Mutant(
        "windows of many versions cut where much is left",
        "inference/counts/dirichlet_multinomial.py",
        "kept = log >= log.max(axis=0) - DEPTH",
        "kept = log >= log.max(axis=0) - 1.0",
        (f"{COUNTS}::test_many_versions_narrow_the_windows_and_leave_the_law",),
    ),
    Mutant(
        "a release that is charged before its memory is asked for",
        "privacy/release.py",
        "memory.check(",
        "budget.charge(event, Made(description_of(statistics), mechanism))\n    memory.check(",
        (f"{MEMORY}::test_a_release_is_refused_before_it_is_charged",),
    ),
    Mutant(
        "draws on disk put one draw too late",
        "inference/network/draws.py",
        "self._tables[name][0, start : start + len(values)] = values",
        "self._tables[name][0, start + self.on_disk : start + len(values)] = values[self.on_disk :] * 1.0",
        (f"{MEMORY}::test_draws_on_disk_are_those_in_memory",),
    ),
    Mutant(
        "a question's blocks whatever memory there is",
        "inference/queries/contraction.py",
        "int(memory.room(wanted, InferenceError))",
        "wanted",
        (f"{MEMORY}::test_a_question_in_small_blocks_has_the_same_answer",),
    ),
    Mutant(
        "a prior that falls bounded at the far end of a block",
        "inference/counts/block_proposals.py",
        "for end in (0, block - 1)]",
        "for end in (block - 1, block - 1)]",
        (f"{FREE}::test_draws_follow_the_enumerated_posterior", f"{FREE}::test_other_priors_where_the_sum_is_known"),
    ),
    Mutant(
        "a classifier fitted before there is known to be room for it",
        "estimators/naive_bayes.py",
        "                check_classifier(network, self.prior)\n",
        "                pass\n",
        (f"{MEMORY}::test_a_refused_fit_leaves_the_earlier_one",),
    ),
    Mutant(
        "a graph chosen before there is known to be room for the choice",
        "estimators/graphs/measured_pairs.py",
        "    check_choosing(task.constraints)\n",
        "",
        (f"{MEMORY}::test_what_is_refused_for_memory_is_not_charged",),
    ),
)
