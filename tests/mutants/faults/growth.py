"""Faults in what lets large graphs and many rows be drawn in little time and memory."""

from tests.mutants.planting import Mutant

MEMORY = "tests/test_memory.py"

MUTANTS = (
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
        "a classifier fitted before there is known to be room for it",
        "estimators/naive_bayes.py",
        "                check_classifier(network, self.prior)\n",
        "                pass\n",
        (f"{MEMORY}::test_a_refused_fit_leaves_the_earlier_one",),
    ),
    Mutant(
        "a graph chosen before there is known to be room for the choice",
        "estimators/measured_pairs.py",
        "    check_choosing(task.constraints)\n",
        "",
        (f"{MEMORY}::test_what_is_refused_for_memory_is_not_charged",),
    ),
)
